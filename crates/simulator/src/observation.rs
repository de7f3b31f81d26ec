//! What happened in a run, for whoever judges it: who waited, who ran where, which CPU was idle.

use crate::place::TaskId;
use crate::record::{Recordable, put, put_beside, take, take_beside};

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

// What an observation is of.
const CREATED: u8 = 0;
const WOKE: u8 = 1;
const TAKEN: u8 = 2;
const LEFT: u8 = 3;
const LEFT_WAITING: u8 = 4;
const LOOKS: u8 = 5;
const IDLE: u8 = 6;
const OFFLINE: u8 = 7;
const ONLINE: u8 = 8;
const ALLOWED_SET: u8 = 9;
const ALLOWED_CHANGE: u8 = 10;
const ALLOWED_ALL: u8 = 11;

impl Event {
    /// What it is of, and its two numbers; one that it lacks is 0.
    fn parts(self) -> (u8, u32, u32) {
        match self {
            Event::Created { template, task } => (CREATED, task, template),
            Event::Woke { task } => (WOKE, task, 0),
            Event::Taken { task, cpu } => (TAKEN, task, cpu),
            Event::Left { task, cpu, waits: false } => (LEFT, task, cpu),
            Event::Left { task, cpu, waits: true } => (LEFT_WAITING, task, cpu),
            Event::Looks { cpu } => (LOOKS, cpu, 0),
            Event::Idle { cpu } => (IDLE, cpu, 0),
            Event::Hotplug { cpu, online: false } => (OFFLINE, cpu, 0),
            Event::Hotplug { cpu, online: true } => (ONLINE, cpu, 0),
            Event::Affinity { task, allowed: Allowed::Set(set) } => (ALLOWED_SET, task, set),
            Event::Affinity { task, allowed: Allowed::Change(at) } => (ALLOWED_CHANGE, task, at),
            Event::Affinity { task, allowed: Allowed::All } => (ALLOWED_ALL, task, 0),
        }
    }

    fn of_parts(kind: u8, one: u32, two: u32) -> Self {
        match kind {
            CREATED => Event::Created { task: one, template: two },
            WOKE => Event::Woke { task: one },
            TAKEN => Event::Taken { task: one, cpu: two },
            LEFT => Event::Left { task: one, cpu: two, waits: false },
            LEFT_WAITING => Event::Left { task: one, cpu: two, waits: true },
            LOOKS => Event::Looks { cpu: one },
            IDLE => Event::Idle { cpu: one },
            OFFLINE => Event::Hotplug { cpu: one, online: false },
            ONLINE => Event::Hotplug { cpu: one, online: true },
            ALLOWED_SET => Event::Affinity { task: one, allowed: Allowed::Set(two) },
            ALLOWED_CHANGE => Event::Affinity { task: one, allowed: Allowed::Change(two) },
            ALLOWED_ALL => Event::Affinity { task: one, allowed: Allowed::All },
            other => unreachable!("an event {other} was never written"),
        }
    }
}

/// Whether an event of this kind has a second number.
fn has_two(kind: u8) -> bool {
    matches!(kind, CREATED | TAKEN | LEFT | LEFT_WAITING | ALLOWED_SET | ALLOWED_CHANGE)
}

impl Recordable for Observation {
    /// When the one before happened.
    type Before = u64;

    fn write(self, before: &mut u64, bytes: &mut Vec<u8>) {
        let (kind, one, two) = self.event.parts();
        put_beside(kind, before, self.at_ns, bytes);
        put(u64::from(one), bytes);
        if has_two(kind) {
            put(u64::from(two), bytes);
        }
    }

    fn read(before: &mut u64, bytes: &mut &[u8]) -> Self {
        let (kind, at_ns) = take_beside(before, bytes);
        let one = take(bytes) as u32;
        let two = if has_two(kind) { take(bytes) as u32 } else { 0 };
        Observation { at_ns, event: Event::of_parts(kind, one, two) }
    }
}
