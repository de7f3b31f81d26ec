//! What happened in a run, for whoever judges it: who waited, who ran where, which CPU was idle.

use crate::place::TaskId;

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A task came to be, of the template with this number.
    Created {
        /// Index into `Workload::templates`.
        template: u32,
        /// Its number; pids are one more.
        task: TaskId,
    },
    /// A task became runnable.
    Woke {
        /// Its number.
        task: TaskId,
    },
    /// A task was taken for a CPU, which now switches to it.
    Taken {
        /// Its number.
        task: TaskId,
        /// The CPU.
        cpu: u32,
    },
    /// A task left its CPU.
    Left {
        /// Its number.
        task: TaskId,
        /// The CPU.
        cpu: u32,
        /// Whether it could have gone on and so waits from now on.
        waits: bool,
    },
    /// A CPU begins to look for a task to run, first for the locks that this takes.
    Looks {
        /// The CPU.
        cpu: u32,
    },
    /// A CPU found nothing to run.
    Idle {
        /// The CPU.
        cpu: u32,
    },
    /// A CPU came or went.
    Hotplug {
        /// The CPU.
        cpu: u32,
        /// Whether it may run tasks from now on.
        online: bool,
    },
    /// The CPUs that a task may run on have changed.
    Affinity {
        /// Its number.
        task: TaskId,
        /// Where they are listed.
        allowed: Allowed,
    },
}

/// Who says which CPUs a task may run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// The task itself, by `Workload::cpu_sets` of this number.
    Set(u32),
    /// `Workload::changes` of this number.
    Change(u32),
    /// The kernel, which allows all because no CPU that was allowed is online.
    All,
}

/// Something that happened, and when. Events of one CPU are in the order of their times; those of
/// several CPUs need not be, because what a CPU does within one event reaches beyond its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// When it happened, in ns, by the clock of the CPU that did it.
    pub at_ns: u64,
    /// What it was.
    pub event: Event,
}
