//! What can be seen of a run while it runs: how far it is, and what its policy prints.
//!
//! A policy that never returns can only be noticed from outside, and what it printed before that
//! must not be lost with it. A run only writes here, so its result does not depend on who looks.
//!
//! A policy that ends its process takes along what that knew. So where a run is stands on a
//! [`Board`], plain words that may lie in memory which another process sees too.

use policy::abi::Task;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most lines of a policy that are passed on in one run; a kernel's buffer is finite too.
pub const PRINTS_MAX: u64 = 1000;

/// What of a policy is called: an operation of `sched_ext_ops`, or the callback of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "they are called as in sched_ext_ops")]
pub enum Operation {
    /// Nothing: the simulator itself is at work.
    None,
    /// Its object is loaded or unloaded, which runs what it has of constructors and destructors.
    Load,
    Init,
    Exit,
    InitTask,
    ExitTask,
    Enable,
    Disable,
    SelectCpu,
    Enqueue,
    Dequeue,
    Dispatch,
    Tick,
    Runnable,
    Running,
    Stopping,
    Quiescent,
    Yield,
    SetWeight,
    SetCpumask,
    UpdateIdle,
    CpuOnline,
    CpuOffline,
    /// The callback that was given to `bpf_timer_set_callback`.
    Timer,
}

/// Every operation, at the place of its number, and what it is called.
const OPERATIONS: [(Operation, &str); 24] = [
    (Operation::None, ""),
    (Operation::Load, "a constructor or destructor"),
    (Operation::Init, "init"),
    (Operation::Exit, "exit"),
    (Operation::InitTask, "init_task"),
    (Operation::ExitTask, "exit_task"),
    (Operation::Enable, "enable"),
    (Operation::Disable, "disable"),
    (Operation::SelectCpu, "select_cpu"),
    (Operation::Enqueue, "enqueue"),
    (Operation::Dequeue, "dequeue"),
    (Operation::Dispatch, "dispatch"),
    (Operation::Tick, "tick"),
    (Operation::Runnable, "runnable"),
    (Operation::Running, "running"),
    (Operation::Stopping, "stopping"),
    (Operation::Quiescent, "quiescent"),
    (Operation::Yield, "yield"),
    (Operation::SetWeight, "set_weight"),
    (Operation::SetCpumask, "set_cpumask"),
    (Operation::UpdateIdle, "update_idle"),
    (Operation::CpuOnline, "cpu_online"),
    (Operation::CpuOffline, "cpu_offline"),
    (Operation::Timer, "a timer's callback"),
];

impl Operation {
    /// What it is called in C; empty for [`Operation::None`].
    pub fn name(self) -> &'static str {
        OPERATIONS[self as usize].1
    }
}

/// The words of a [`Board`], by what they hold.
#[derive(Clone, Copy)]
enum Word {
    IsRunning,
    Run,
    Steps,
    BeganAtNs,
    Cpu,
    Operation,
    Pid,
    Name,
}

/// Words of a task's name, which is 16 bytes long in Linux.
const NAME_WORDS: usize = 2;
/// Words of a [`Board`].
pub const BOARD_WORDS: usize = Word::Name as usize + NAME_WORDS;

/// Where a run is, in words that mean something to another process too. All zeros: nowhere.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Board([AtomicU64; BOARD_WORDS]);

impl Board {
    fn set(&self, word: Word, value: u64) {
        self.0[word as usize].store(value, Ordering::Relaxed);
    }

    /// One thing more was done. For whoever has no run to tell of, too.
    pub fn step(&self) {
        // One writer: no need for an addition that others cannot interrupt.
        let steps = &self.0[Word::Steps as usize];
        steps.store(steps.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// From here on there is no run to tell of.
    pub fn leave(&self) {
        self.set(Word::IsRunning, 0);
    }

    /// Its words as they are now. Of an operation that never returns, all belong together.
    pub fn words(&self) -> [u64; BOARD_WORDS] {
        // First, so that the others are not older.
        let steps = self.0[Word::Steps as usize].load(Ordering::Acquire);
        let mut words = std::array::from_fn(|place| self.0[place].load(Ordering::Relaxed));
        words[Word::Steps as usize] = steps;
        words
    }
}

/// Tells where a run is. One a run, or one for several runs in turn; shared with whoever watches.
#[derive(Debug, Default)]
pub struct Progress {
    show: Option<fn(&str)>,
    prints: AtomicU64,
    board: Place,
}

/// Whose the board is.
#[derive(Debug)]
enum Place {
    Own(Board),
    Shared(&'static Board),
}

impl Default for Place {
    fn default() -> Self {
        Place::Own(Board::default())
    }
}

impl Deref for Place {
    type Target = Board;

    fn deref(&self) -> &Board {
        match self {
            Place::Own(board) => board,
            Place::Shared(board) => board,
        }
    }
}

/// What can be seen of a run from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Which of several runs it is: the number that [`Progress::begin`] was given; 0 if none was.
    pub run: u64,
    /// Events, and operations of the policy, that were begun so far.
    pub steps: u64,
    /// Simulated time in ns at which the last of them began.
    pub began_at_ns: u64,
    /// CPU on which it began.
    pub cpu: u64,
    /// The operation of the policy that was called then, if it was one.
    pub operation: Operation,
    /// Number and name of the task that the operation was called for, if it was for one.
    pub task: Option<(u64, String)>,
}

impl Position {
    /// What the words of a [`Board`] say; `None` while there is no run, or of words that no run has
    /// written: whoever shares memory with a policy may find anything there.
    pub fn of(words: &[u64; BOARD_WORDS]) -> Option<Position> {
        let word = |word: Word| words[word as usize];
        let operation = usize::try_from(word(Word::Operation)).ok()?;
        let (operation, _) = *OPERATIONS.get(operation)?;
        let name = &words[Word::Name as usize..];
        let name: Vec<u8> = name.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        (word(Word::IsRunning) == 1).then(|| Position {
            run: word(Word::Run),
            steps: word(Word::Steps),
            began_at_ns: word(Word::BeganAtNs),
            cpu: word(Word::Cpu),
            operation,
            task: Some(word(Word::Pid)).filter(|&pid| pid != 0).map(|pid| (pid, name)),
        })
    }
}

impl Progress {
    /// Where a run is to tell how far it is, and `show` to be called with each line that its policy
    /// prints (`bpf_printk`), in the thread of the run and in the form of a kernel's `trace_pipe`.
    pub fn showing(show: fn(&str)) -> Self {
        Progress { show: Some(show), ..Progress::default() }
    }

    /// The same, which tells how far the run is on a board that others see. No two runs at a time
    /// may have the same.
    pub fn on(self, board: &'static Board) -> Self {
        let progress = Progress { board: Place::Shared(board), ..self };
        progress.begin(0);
        progress
    }

    /// Passes on a line of the policy's, up to [`PRINTS_MAX`] of them, and says when it stops.
    pub(crate) fn print(&self, line: impl FnOnce() -> String) {
        let Some(show) = self.show else { return };
        match self.prints.fetch_add(1, Ordering::Relaxed) {
            ..PRINTS_MAX => show(&line()),
            PRINTS_MAX => show(&format!(
                "bpf_trace_printk: {PRINTS_MAX} lines were printed; the rest of this run's is not \
                 shown"
            )),
            _ => {}
        }
    }

    /// Of several runs that are told of here, the one with this number comes next.
    pub fn begin(&self, run: u64) {
        self.note(Operation::None, 0, 0, None);
        self.board.set(Word::Run, run);
        self.board.set(Word::IsRunning, 1);
    }

    /// The policy's object is loaded, or unloaded, in the midst of what was noted last.
    pub(crate) fn note_load(&self) {
        self.board.set(Word::Operation, Operation::Load as u64);
        self.board.set(Word::Pid, 0);
        self.board.step();
    }

    /// An operation of the policy begins, for a task or for none, or an event ends. Only the thread
    /// of the run calls this.
    pub(crate) fn note(&self, operation: Operation, cpu: usize, now_ns: u64, task: Option<&Task>) {
        self.board.set(Word::Operation, operation as u64);
        self.board.set(Word::BeganAtNs, now_ns);
        self.board.set(Word::Cpu, cpu as u64);
        self.board.set(Word::Pid, task.map_or(0, |task| task.pid as u64));
        if let Some(task) = task {
            let name = self.board.0[Word::Name as usize..].iter();
            for (word, bytes) in name.zip(task.comm.as_chunks().0) {
                word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
            }
        }
        self.board.step();
    }

    /// Where the run is now.
    pub fn position(&self) -> Option<Position> {
        Position::of(&self.board.words())
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what is watched is told by its own name. Method: every operation, noted and looked at.
    use super::*;

    #[test]
    fn every_operation_stands_at_the_place_of_its_number() {
        let progress = Progress::default();
        for (place, (operation, name)) in OPERATIONS.into_iter().enumerate() {
            assert_eq!(operation as usize, place);
            progress.begin(5);
            progress.note(operation, 3, 7, None);
            let position = progress.position().expect("a run");
            assert_eq!((position.operation, position.cpu, position.began_at_ns), (operation, 3, 7));
            assert_eq!((position.run, position.task), (5, None));
            assert_eq!(position.operation.name(), name);
        }
    }

    #[test]
    fn words_that_no_run_has_written_are_no_position() {
        let progress = Progress::default();
        assert_eq!(progress.position(), None);
        progress.begin(0);
        let mut words = progress.board.words();
        assert!(Position::of(&words).is_some());
        words[Word::Operation as usize] = u64::MAX;
        assert_eq!(Position::of(&words), None);
        progress.board.leave();
        assert_eq!(progress.position(), None);
    }
}
