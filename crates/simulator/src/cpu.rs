//! A CPU: what it does, since when, and where its time went.

use crate::agenda::When;
use crate::place::TaskId;
use crate::timer::Timer;
use std::collections::VecDeque;

/// What a nanosecond of a CPU was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Spent {
    /// The tasks' own computations.
    Work = 0,
    /// System calls, copies, ticks, switches, cache refills: all of the kernel but the scheduler.
    Kernel = 1,
    /// Wake-ups, the policy's operations, dispatch queues, interrupts between CPUs.
    Scheduler = 2,
    /// Waiting for locks.
    LockWait = 3,
    /// Nothing to run.
    Idle = 4,
    /// It was offline.
    Offline = 5,
}

/// Kinds of [`Spent`].
pub const SPENT_KINDS: usize = 6;

/// What a CPU does between events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// Nothing.
    #[default]
    Idle,
    /// Its task computes; can be preempted at any time.
    Work,
    /// Its task is in a system call; preemption waits for its end.
    Syscall,
    /// Nothing: it is offline.
    Offline,
}

/// One CPU.
#[derive(Debug, Default)]
pub struct Cpu {
    /// The task on it.
    pub current: Option<TaskId>,
    /// Up to when its time is accounted for.
    pub clock_ns: u64,
    /// What it does from `clock_ns` on.
    pub activity: Activity,
    /// When the present activity ends by itself.
    pub ends: When,
    /// Next timer tick; never while idle.
    pub tick: When,
    /// Arrival of a request to reschedule from another CPU.
    pub interrupt: When,
    /// Timers that expired while it was inside something that cannot be interrupted, in the order
    /// of their times.
    pub late_timers: VecDeque<Timer>,
    /// When it comes to the first of them.
    pub late: When,
    /// Whether it is to pick a task at the next chance.
    pub need_resched: bool,
    /// Whether it may run tasks (`scx_rq_online`).
    pub is_online: bool,
    /// Whether it is to go offline at the next chance, instead of picking a task.
    pub leaves: bool,
    /// Up to when the current task's slice and run time are accounted for.
    pub exec_start_ns: u64,
    /// Where its time went.
    pub spent_ns: [u64; SPENT_KINDS],
    /// Speed at which its task computes now, in thousandths.
    pub speed_permille: u64,
    /// KiB brought into its cache since the start: how far others have pushed a task's data out.
    pub cache_turnover_kib: u64,
    /// Tasks that it began to run since the start.
    pub switches: u64,
    /// Address space that is loaded.
    pub address_space: Option<u32>,
}

impl Cpu {
    /// An idle CPU at time 0.
    pub fn new(speed_permille: u64) -> Self {
        Cpu { is_online: true, speed_permille, ..Cpu::default() }
    }

    /// Accounts for what it did up to `to_ns`. What its task has computed, in thousandths of a ns of
    /// the reference CPU.
    pub fn account(&mut self, to_ns: u64) -> u64 {
        let passed_ns = to_ns - self.clock_ns;
        let spent = match self.activity {
            Activity::Idle => Spent::Idle,
            Activity::Work => Spent::Work,
            Activity::Syscall => Spent::Kernel,
            Activity::Offline => Spent::Offline,
        };
        self.spend(spent, passed_ns);
        if self.activity == Activity::Work { passed_ns * self.speed_permille } else { 0 }
    }

    /// Spends time.
    pub fn spend(&mut self, spent: Spent, ns: u64) {
        self.clock_ns += ns;
        self.spent_ns[spent as usize] += ns;
    }

    /// The first thing that will happen to it.
    pub fn next_event(&self) -> When {
        self.ends.min(self.tick).min(self.interrupt).min(self.late)
    }
}
