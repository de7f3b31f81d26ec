//! What can be seen of a run while it runs: how far it is, and what its policy prints.
//!
//! A policy that never returns can only be noticed from outside, and what it printed before that
//! must not be lost with it. A run only writes here, so its result does not depend on who looks.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The most lines of a policy that are passed on in one run; a kernel's buffer is finite too.
pub const PRINTS_MAX: u64 = 1000;

/// What of a policy is called: an operation of `sched_ext_ops`, or the callback of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "they are called as in sched_ext_ops")]
pub enum Operation {
    /// Nothing: the simulator itself is at work.
    None,
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
const OPERATIONS: [(Operation, &str); 23] = [
    (Operation::None, ""),
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

/// Where a run is. One a run, or one for several runs in turn; shared with whoever watches.
#[derive(Debug, Default)]
pub struct Progress {
    show: Option<fn(&str)>,
    prints: AtomicU64,
    run: AtomicU64,
    steps: AtomicU64,
    began_at_ns: AtomicU64,
    cpu: AtomicU64,
    operation: AtomicU8,
}

/// What can be seen of a run from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

impl Progress {
    /// Where a run is to tell how far it is, and `show` to be called with each line that its policy
    /// prints (`bpf_printk`), in the thread of the run and in the form of a kernel's `trace_pipe`.
    pub fn showing(show: fn(&str)) -> Self {
        Progress { show: Some(show), ..Progress::default() }
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
        self.run.store(run, Ordering::Relaxed);
    }

    /// An operation of the policy begins, or an event ends. Only the thread of the run calls this.
    pub(crate) fn note(&self, operation: Operation, cpu: usize, now_ns: u64) {
        self.operation.store(operation as u8, Ordering::Relaxed);
        self.began_at_ns.store(now_ns, Ordering::Relaxed);
        self.cpu.store(cpu as u64, Ordering::Relaxed);
        // One writer: no need for an addition that others cannot interrupt.
        let steps = self.steps.load(Ordering::Relaxed) + 1;
        self.steps.store(steps, Ordering::Release);
    }

    /// Where the run is now. Of an operation that never returns, all of it belongs together.
    pub fn position(&self) -> Position {
        let steps = self.steps.load(Ordering::Acquire);
        let operation = usize::from(self.operation.load(Ordering::Relaxed));
        Position {
            run: self.run.load(Ordering::Relaxed),
            steps,
            began_at_ns: self.began_at_ns.load(Ordering::Relaxed),
            cpu: self.cpu.load(Ordering::Relaxed),
            operation: OPERATIONS[operation].0,
        }
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
            progress.note(operation, 3, 7);
            let position = progress.position();
            assert_eq!((position.operation, position.cpu, position.began_at_ns), (operation, 3, 7));
            assert_eq!(position.operation.name(), name);
        }
    }
}
