//! What can be seen of a run while it runs: how far it is, and what its policy prints.
//!
//! A policy that never returns can only be noticed from outside, and what it printed before that
//! must not be lost with it. A run only writes here, so its result does not depend on who looks.

use std::sync::atomic::{AtomicU64, Ordering};

/// The most lines of a policy that are passed on in one run; a kernel's buffer is finite too.
pub const PRINTS_MAX: u64 = 1000;

/// Where a run is. One a run; shared with whoever watches.
#[derive(Debug, Default)]
pub struct Progress {
    show: Option<fn(&str)>,
    prints: AtomicU64,
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
