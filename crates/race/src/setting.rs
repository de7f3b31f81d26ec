//! What all entrants of a heat have in common.

use runqueue::hold::{Increments, Keys};

use crate::clock;
use crate::trace::Trace;
use crate::{HeatSpec, Workload};

/// Turns before anything is timed, beyond three for each item, so that the queue has forgotten
/// how it was filled.
const WARM_UP_LOOPS: u64 = 20_000;
/// Items of all queues together, at least, where a queue is emptied at once: the clock is too
/// coarse for one removal.
const REMOVED_AT_ONCE: u32 = 1024;

/// What all entrants of a heat have in common.
pub struct Setting {
    /// What is done.
    pub workload: Workload,
    /// Items in a queue.
    pub n: u32,
    /// Loops or operations of a round, about.
    pub loops: u64,
    /// Loops or operations before each round, untimed.
    pub run_up: u64,
    /// What is added to keys.
    pub increments: Increments,
    /// Recorded operations, for [`Workload::Trace`].
    pub trace: Option<Trace>,
    /// Queues, where there are several.
    queues: u32,
    /// Seed of the heat.
    pub seed: u64,
    /// What reading the clock costs, in ticks.
    pub overhead: u64,
}

impl Setting {
    /// The setting of a heat with every number filled in.
    pub fn new(spec: &HeatSpec, keys: Keys, n: u32, trace: Option<Trace>) -> Self {
        Setting {
            workload: spec.workload,
            n,
            loops: spec.loops.unwrap_or(1),
            run_up: spec.run_up.unwrap_or(0),
            increments: Increments::new(keys, spec.seed),
            trace,
            queues: spec.queues,
            seed: spec.seed,
            overhead: clock::overhead(),
        }
    }

    /// Whether entrants must be able to remove.
    pub fn removes(&self) -> bool {
        match self.workload {
            Workload::HoldRemove | Workload::SingleRemove | Workload::MassExit => true,
            Workload::Trace => self.trace.as_ref().is_some_and(Trace::removes),
            _ => false,
        }
    }

    /// How many items come at a time, in bursts.
    pub fn burst(&self) -> u32 {
        (self.n / 4).max(1)
    }

    /// How many items a queue must have room for.
    pub fn capacity(&self) -> u32 {
        match self.workload {
            Workload::Markov => self.n + (self.n / 2).max(1),
            Workload::Storm | Workload::ForkBurst => self.n + self.burst(),
            _ => self.n,
        }
    }

    /// Items of all queues together that there is room for.
    pub fn room(&self) -> u64 {
        u64::from(self.capacity()) * u64::from(self.nr_queues())
    }

    pub fn nr_queues(&self) -> u32 {
        match self.workload {
            Workload::Cold => self.queues,
            Workload::Drain => 2,
            Workload::MassExit => (REMOVED_AT_ONCE / self.n).max(1),
            _ => 1,
        }
    }

    /// Turns before anything is timed, of all queues together.
    pub fn warm_up_turns(&self) -> u64 {
        3 * u64::from(self.n) * u64::from(self.nr_queues()) + WARM_UP_LOOPS
    }

    /// Whether this queue is full to begin with.
    pub fn is_filled(&self, queue: u32) -> bool {
        self.workload == Workload::Cold || (queue == 0 && self.workload != Workload::Trace)
    }
}
