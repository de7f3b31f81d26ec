//! How far a run is, for other threads to see: a policy that never returns can only be noticed from
//! outside. A run writes here and never reads, so its result does not depend on who looks.

use std::sync::atomic::{AtomicU64, Ordering};

/// Where a run is. One a run; shared with whoever watches.
#[derive(Debug, Default)]
pub struct Progress {
    steps: AtomicU64,
    began_at_ns: AtomicU64,
    cpu: AtomicU64,
}

/// What can be seen of a run from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Events, and operations of the policy, that were begun so far.
    pub steps: u64,
    /// Simulated time in ns at which the last of them began.
    pub began_at_ns: u64,
    /// CPU on which it began.
    pub cpu: u64,
}

impl Progress {
    /// An event or an operation of the policy begins. Only the thread of the run calls this.
    pub(crate) fn note(&self, cpu: usize, now_ns: u64) {
        self.began_at_ns.store(now_ns, Ordering::Relaxed);
        self.cpu.store(cpu as u64, Ordering::Relaxed);
        // One writer: no need for an addition that others cannot interrupt.
        let steps = self.steps.load(Ordering::Relaxed) + 1;
        self.steps.store(steps, Ordering::Release);
    }

    /// Where the run is now. Of an operation that never returns, all three belong together.
    pub fn position(&self) -> Position {
        let steps = self.steps.load(Ordering::Acquire);
        Position {
            steps,
            began_at_ns: self.began_at_ns.load(Ordering::Relaxed),
            cpu: self.cpu.load(Ordering::Relaxed),
        }
    }
}
