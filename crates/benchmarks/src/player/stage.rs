//! The memory that all tasks of a play share, whatever process they are in.
//!
//! Everything in it is an atomic that is 0 at first, so a fresh mapping is a valid stage.
//! Gates, numbers of tasks and children counts live here; results are left here too, because a
//! task may be killed at any time.

use crate::system::{self, SharedMemory};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// The most tasks a play can have: what a workload may create at all.
pub const TASKS_MAX: usize = scenario::check::TASKS_MAX as usize;

/// What is known of the play as a whole.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Play {
    /// Tasks that have a number: the next one to give away.
    pub nr_tasks: AtomicU32,
    /// Tasks that have not ended.
    pub alive: AtomicU32,
    /// Counts what the conductor must look at; it sleeps on this word.
    pub news: AtomicU32,
    /// How often an initial task has come to wait to be armed.
    pub nr_ready: AtomicU32,
    /// Process that leads the group of all tasks; 0 before there is one.
    pub group: AtomicI32,
    /// How the play ended: see [`Ending`].
    pub ending: AtomicU32,
    /// Whether the start that the initial tasks sleep for is to count: see [`Start`].
    start: AtomicU32,
    /// Whether the conductor runs with a real-time priority.
    pub realtime: AtomicU32,
    /// When the workload's time 0 is, on `CLOCK_MONOTONIC`.
    pub start_at_ns: AtomicU64,
    /// When the play was over, on the same clock.
    pub ended_at_ns: AtomicU64,
    /// When the mark was reached; 0 before.
    pub marked_at_ns: AtomicU64,
    /// When what is to be taken from the makespan began, and how long it took; 0 before.
    pub tare_began_ns: AtomicU64,
    pub tare_ns: AtomicU64,
    /// Loop turns that compute for a millisecond.
    pub turns_per_ms: AtomicU64,
    /// The first failure: see [`Failure`]; 0 is none.
    failure: AtomicU64,
}

/// What becomes of the start that the initial tasks lie down for, each when it is told to.
///
/// It counts if all lie before it comes: tasks that begin while others still have to lie down
/// would keep them from the CPUs, for ever if the scheduler lets them. So conductor and tasks
/// settle it once, whoever is first: all lie, or somebody's time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Start {
    /// Not all lie yet.
    Open = 0,
    /// Every task begins when its time comes.
    Counts,
    /// It came too early: all get up and lie down for a later one.
    Missed,
}

/// How a play ended, as a number in [`Play::ending`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Ending {
    /// All tasks ended.
    AllEnded = 1,
    /// The workload's own stop was reached.
    WorkloadStopped,
    /// The time limit was reached.
    TimeIsUp,
    /// Somebody asked for an end.
    Interrupted,
    /// See [`Play::first_failure`].
    Failed,
}

impl Ending {
    /// The ending with this number, if the conductor got so far.
    pub fn of(number: u32) -> Option<Ending> {
        [
            Ending::AllEnded,
            Ending::WorkloadStopped,
            Ending::TimeIsUp,
            Ending::Interrupted,
            Ending::Failed,
        ]
        .into_iter()
        .find(|ending| *ending as u32 == number)
    }
}

/// A step that failed, whose, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What failed, as the number of a [`crate::Step`].
    pub step: u8,
    /// The task that failed, if it was one.
    pub task: Option<u32>,
    /// The kernel's error number, or that of a signal.
    pub errno: i32,
}

/// No task: the most that fits beside step and error in 64 bits.
const NO_TASK: u64 = (1 << 24) - 1;
const _: () = assert!((TASKS_MAX as u64) < NO_TASK);

impl Play {
    /// Keeps the failure if it is the first, and tells the conductor.
    pub fn fail(&self, failure: Failure) {
        let task = failure.task.map_or(NO_TASK, u64::from);
        let packed = task << 40 | u64::from(failure.step) << 32 | u64::from(failure.errno as u32);
        let _ = self.failure.compare_exchange(0, packed, SeqCst, SeqCst);
        self.tell();
    }

    /// The first failure, if there was one.
    pub fn first_failure(&self) -> Option<Failure> {
        let packed = self.failure.load(SeqCst);
        let task = packed >> 40;
        (packed != 0).then_some(Failure {
            step: (packed >> 32) as u8,
            task: (task != NO_TASK).then_some(task as u32),
            errno: packed as u32 as i32,
        })
    }

    /// A new start is chosen, and nobody lies yet.
    pub fn open_start(&self) {
        self.start.store(Start::Open as u32, SeqCst);
    }

    /// Settles what becomes of the start, unless that was settled before; says what it is.
    pub fn settle_start(&self, to: Start) -> Start {
        let settled = self.start.compare_exchange(Start::Open as u32, to as u32, SeqCst, SeqCst);
        match settled {
            Ok(_) => to,
            Err(earlier) if earlier == Start::Counts as u32 => Start::Counts,
            Err(_) => Start::Missed,
        }
    }

    /// Whether it is known that this start counts.
    pub fn start_counts(&self) -> bool {
        self.start.load(SeqCst) == Start::Counts as u32
    }

    /// Whether this start is known to be none.
    pub fn start_is_missed(&self) -> bool {
        self.start.load(SeqCst) == Start::Missed as u32
    }

    /// Makes the conductor look.
    pub fn tell(&self) {
        self.news.fetch_add(1, SeqCst);
        system::futex_wake(&self.news, system::EVERY_BIT);
    }

    /// What is to be taken from the makespan begins, and the second time ends.
    pub fn tare(&self) {
        let now_ns = system::now_ns();
        match self.tare_began_ns.compare_exchange(0, now_ns, SeqCst, SeqCst) {
            Ok(_) => {}
            Err(began_ns) => {
                let took_ns = now_ns.saturating_sub(began_ns);
                let _ = self.tare_ns.compare_exchange(0, took_ns, SeqCst, SeqCst);
            }
        }
    }

    /// The mark has been reached; only the first time counts.
    pub fn mark(&self) {
        if self.marked_at_ns.load(Relaxed) == 0 {
            let _ = self.marked_at_ns.compare_exchange(0, system::now_ns(), SeqCst, SeqCst);
        }
    }
}

/// What a task does about itself, and what it leaves behind.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Slot {
    /// Index into the workload's templates.
    pub template: AtomicU32,
    /// Number of the task that forked it, plus 1; 0 for an initial task.
    pub parent: AtomicU32,
    /// Children that have not ended; who joins sleeps on this word.
    pub children: AtomicU32,
    /// Number of the start that an initial task may lie down for; 0 for none.
    pub armed: AtomicU32,
    /// Process id; 0 before it runs.
    pub pid: AtomicI32,
    /// Thread id, the `pid` of traces; 0 before it runs.
    pub tid: AtomicI32,
    /// Nice value now.
    pub nice: AtomicI32,
    /// Number of the start that it lies down for.
    pub waits: AtomicU32,
    /// When it was forked, or became runnable, on `CLOCK_MONOTONIC`.
    pub born_at_ns: AtomicU64,
    /// When it ended; 0 if it has not.
    pub exited_at_ns: AtomicU64,
    /// CPU time in ns, and what of it came before the start.
    pub run_ns: Since,
    /// Switches because it blocked or slept.
    pub voluntary: Since,
    /// Switches although it could have gone on.
    pub involuntary: Since,
    /// Messages received since the mark.
    pub messages: AtomicU64,
    /// The stream that it draws from.
    pub stream: AtomicU64,
    /// What it works on: the number of a request, as its messages carry it; 0 for none.
    pub request: AtomicU32,
}

/// A count of the kernel's that began before the play did.
#[repr(C)]
#[derive(Debug)]
pub struct Since {
    before: AtomicU64,
    now: AtomicU64,
}

impl Since {
    /// The play begins when the kernel's count is this.
    pub fn begin(&self, count: u64) {
        self.before.store(count, SeqCst);
    }

    /// The kernel's count now.
    pub fn set(&self, count: u64) {
        self.now.store(count, SeqCst);
    }

    /// What was counted since the beginning, up to the last [`set`](Self::set).
    pub fn counted(&self) -> u64 {
        self.now.load(SeqCst).saturating_sub(self.before.load(SeqCst))
    }
}

/// Tokens to wait for, handed out strictly in the order of waiting.
///
/// The kernel's semaphores let a newcomer take the token that was meant for a sleeper; the
/// simulator does not. So waiters draw tickets and a wake-up grants the next ticket: who has it
/// passes, whoever comes later.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Gate {
    /// Bit 0: open for good. Above: tickets granted.
    granted: AtomicU32,
    /// Tickets drawn.
    drawn: AtomicU32,
}

/// Tickets are counted modulo 2^31 and compared by their difference.
const TICKET_BITS: u32 = 31;

impl Gate {
    const OPEN: u32 = 1;
    const GRANT: u32 = 2;

    /// Grants the next ticket and wakes its holder. A system call even if nobody waits.
    pub fn wake(&self) {
        let ticket = self.granted.fetch_add(Self::GRANT, SeqCst) >> 1;
        system::futex_wake(&self.granted, bit_of(ticket));
    }

    /// Lets everybody pass from now on.
    pub fn open(&self) {
        self.granted.fetch_or(Self::OPEN, SeqCst);
        system::futex_wake(&self.granted, system::EVERY_BIT);
    }

    /// Waits for its turn. Wake-ups go to every 32nd waiter: with more than 32 of them at a gate
    /// some look in vain and sleep again.
    pub fn wait(&self) {
        let ticket = self.drawn.fetch_add(1, SeqCst) & ((1 << TICKET_BITS) - 1);
        loop {
            let seen = self.granted.load(SeqCst);
            if seen & Self::OPEN != 0 || is_granted(seen >> 1, ticket) {
                return;
            }
            system::futex_wait(&self.granted, seen, bit_of(ticket), None);
        }
    }
}

fn bit_of(ticket: u32) -> u32 {
    1 << (ticket % u32::BITS)
}

/// Whether fewer than 2^30 tickets lie between: the count wraps around.
fn is_granted(granted: u32, ticket: u32) -> bool {
    let ahead = granted.wrapping_sub(ticket) & ((1 << TICKET_BITS) - 1);
    ahead != 0 && ahead < 1 << (TICKET_BITS - 1)
}

/// The memory itself. Processes forked from its maker see the same.
#[derive(Debug)]
pub struct Stage {
    memory: SharedMemory,
    gates_at: usize,
    nr_gates: usize,
    slots_at: usize,
}

impl Stage {
    /// A stage with so many gates. Memory is taken as it is touched.
    ///
    /// # Errors
    /// The kernel's error number if it has no room for the mapping.
    pub fn new(nr_gates: usize) -> Result<Stage, i32> {
        let gates_at = size_of::<Play>();
        let slots_at = (gates_at + nr_gates * size_of::<Gate>()).next_multiple_of(128);
        let memory = SharedMemory::new(slots_at + TASKS_MAX * size_of::<Slot>())?;
        Ok(Stage { memory, gates_at, nr_gates, slots_at })
    }

    /// The play as a whole.
    pub fn play(&self) -> &Play {
        // SAFETY: it lies at the beginning; zeroes are valid; all fields are atomic.
        unsafe { self.memory.get(0, 0) }
    }

    /// A gate.
    ///
    /// # Panics
    /// If there is no such gate.
    pub fn gate(&self, gate: u32) -> &Gate {
        assert!((gate as usize) < self.nr_gates, "gate {gate} of {}", self.nr_gates);
        // SAFETY: the gates lie at `gates_at`, aligned; zeroes are valid; all fields are atomic.
        unsafe { self.memory.get(self.gates_at, gate as usize) }
    }

    /// A task's slot.
    ///
    /// # Panics
    /// If there cannot be such a task.
    pub fn slot(&self, task: u32) -> &Slot {
        // SAFETY: the slots lie at `slots_at`, aligned, to the end of the memory; zeroes are
        // valid; all fields are atomic.
        unsafe { self.memory.get(self.slots_at, task as usize) }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: gates grant in the order of waiting, across the wrap of their counts; a failure
    //! survives its packing. Method: examples.
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_ticket_is_granted_when_more_have_been_than_it_says() {
        assert!(!is_granted(0, 0) && is_granted(1, 0) && !is_granted(1, 1));
        let last = (1 << TICKET_BITS) - 1;
        assert!(is_granted(0, last) && !is_granted(last, 0) && !is_granted(last, last));
    }

    #[test]
    fn tokens_given_early_let_later_waiters_pass_without_sleeping() {
        let stage = Stage::new(2).unwrap();
        stage.gate(0).wake();
        stage.gate(0).wake();
        stage.gate(0).wait();
        stage.gate(0).wait();
        stage.gate(1).open();
        (0..100).for_each(|_| stage.gate(1).wait());
    }

    #[test]
    fn sleepers_pass_a_gate_in_the_order_in_which_they_came() {
        let stage = Stage::new(1).unwrap();
        let passed = std::sync::Mutex::new(Vec::new());
        let wait_until = |holds: &dyn Fn() -> bool| {
            let holds_in_time = (0..50_000).any(|_| {
                system::sleep_ns(100_000);
                holds()
            });
            if !holds_in_time {
                // Or the sleepers would never end.
                stage.gate(0).open();
                panic!("nobody passed within 5 s");
            }
        };
        std::thread::scope(|scope| {
            let (stage, passed) = (&stage, &passed);
            for waiter in 0..40 {
                scope.spawn(move || {
                    stage.gate(0).wait();
                    passed.lock().unwrap().push(waiter);
                });
                wait_until(&|| stage.gate(0).drawn.load(SeqCst) == waiter + 1);
            }
            for waiter in 0..40_usize {
                stage.gate(0).wake();
                wait_until(&|| passed.lock().unwrap().len() == waiter + 1);
            }
        });
        assert_eq!(*passed.lock().unwrap(), (0..40).collect::<Vec<u32>>());
    }

    #[test]
    fn only_the_first_failure_is_kept_and_kept_whole() {
        let stage = Stage::new(0).unwrap();
        assert_eq!(stage.play().first_failure(), None);
        let first = Failure { step: 3, task: None, errno: 11 };
        stage.play().fail(first);
        stage.play().fail(Failure { step: 4, task: Some(7), errno: 12 });
        assert_eq!(stage.play().first_failure(), Some(first));
        let other = Stage::new(0).unwrap();
        let failure = Failure { step: 9, task: Some(999_999), errno: 110 };
        other.play().fail(failure);
        assert_eq!(other.play().first_failure(), Some(failure));
    }
}
