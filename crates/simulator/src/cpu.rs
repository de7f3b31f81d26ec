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
    /// System calls, copies, ticks: the kernel but for what has a kind of its own.
    Kernel = 1,
    /// Switching to another task.
    Switch = 2,
    /// Fetching a task's data into a cache that lacks it.
    Refill = 3,
    /// Waking tasks, without the policy's part of it.
    Wakeup = 4,
    /// Calling the policy's operations.
    Operation = 5,
    /// Putting tasks into dispatch queues, and taking them out.
    Queue = 6,
    /// Looking at tasks in dispatch queues, one by one.
    Scan = 7,
    /// Taking locks that are free, and fetching them from their last holder.
    Lock = 8,
    /// Waiting for locks.
    LockWait = 9,
    /// Sending interrupts to other CPUs.
    Interrupt = 10,
    /// Nothing to run.
    Idle = 11,
    /// It was offline.
    Offline = 12,
    /// Waiting for a bus.
    BusWait = 13,
    /// The policy's own instructions, where they take time.
    Instructions = 14,
    /// Interrupts of the background.
    Interrupted = 15,
}

/// Kinds of [`Spent`].
pub const SPENT_KINDS: usize = 16;

/// What a CPU does between events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(usize)]
pub enum Activity {
    /// Nothing.
    #[default]
    Idle = Spent::Idle as usize,
    /// Its task computes; can be preempted at any time.
    Work = Spent::Work as usize,
    /// Its task is in a system call; preemption waits for its end.
    Syscall = Spent::Kernel as usize,
    /// Nothing: it is offline.
    Offline = Spent::Offline as usize,
}

/// What may interrupt a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Await {
    /// Its timer ticks; never while it is idle.
    Tick = 0,
    /// Another CPU makes it pick again.
    Interrupt = 1,
    /// It comes to the first of its late timers.
    LateTimers = 2,
}

const AWAITS: usize = 3;

/// One CPU.
#[derive(Debug, Default)]
pub struct Cpu {
    /// The task on it.
    pub current: Option<TaskId>,
    clock_ns: u64,
    /// What it does from its clock on.
    pub activity: Activity,
    /// Whether what ends next is its wait for the lock with which it decides.
    pub decides: bool,
    /// Whether its task would have gone to sleep, had it not waited for that lock.
    pub has_spun: bool,
    /// When the present activity ends by itself.
    pub ends: When,
    /// When each of [`Await`] comes, and the first of them.
    awaited: [When; AWAITS],
    first_awaited: When,
    /// Timers that expired while it was inside something that cannot be interrupted, in the order
    /// of their times.
    pub late_timers: VecDeque<Timer>,
    /// Whether it is to pick a task at the next chance.
    pub need_resched: bool,
    /// Whether it may run tasks (`scx_rq_online`).
    pub is_online: bool,
    /// Whether it is to go offline at the next chance, instead of picking a task.
    pub leaves: bool,
    /// Up to when the current task's slice and run time are accounted for.
    pub exec_start_ns: u64,
    spent_ns: [u64; SPENT_KINDS],
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

    /// Accounts for what it did up to `to_ns`. What its task has computed, in thousandths of a ns
    /// of the reference CPU.
    ///
    /// # Panics
    ///
    /// If that is accounted for already.
    #[inline(always)]
    pub fn account(&mut self, to_ns: u64) -> u64 {
        let clock_ns = self.clock_ns;
        assert!(to_ns >= clock_ns, "a CPU is busy until {clock_ns} ns, not free at {to_ns} ns");
        let passed_ns = to_ns - clock_ns;
        self.clock_ns = to_ns;
        self.spent_ns[self.activity as usize] += passed_ns;
        if self.activity == Activity::Work { passed_ns * self.speed_permille } else { 0 }
    }

    /// Accounts for all up to `to_ns`, when the run is over: behind the end of what it does it does
    /// nothing, since nobody asked what comes then. What its task has computed, as above.
    pub fn account_to_the_end(&mut self, to_ns: u64) -> u64 {
        let computed = self.account(self.ends.at_ns.clamp(self.clock_ns, to_ns));
        if self.activity != Activity::Offline {
            self.activity = Activity::Idle;
        }
        computed + self.account(to_ns)
    }

    /// How long it takes for this much computing, in thousandths of a ns of the reference CPU.
    #[inline]
    pub fn work_ns(&self, left: u64) -> u64 {
        left.div_ceil(self.speed_permille)
    }

    /// Spends time.
    #[inline]
    pub fn spend(&mut self, spent: Spent, ns: u64) {
        self.clock_ns += ns;
        self.spent_ns[spent as usize] += ns;
    }

    /// Where its time went so far, for [`Cpu::forget_since`].
    pub fn spent(&self) -> (u64, [u64; SPENT_KINDS]) {
        (self.clock_ns, self.spent_ns)
    }

    /// Takes back what it was charged since.
    pub fn forget_since(&mut self, spent: (u64, [u64; SPENT_KINDS])) {
        (self.clock_ns, self.spent_ns) = spent;
    }

    /// Up to when its time is accounted for.
    #[inline]
    pub fn clock_ns(&self) -> u64 {
        self.clock_ns
    }

    /// Where its time went: ns by [`Spent`].
    pub fn spent_ns(&self) -> &[u64; SPENT_KINDS] {
        &self.spent_ns
    }

    /// Forgets what it spent since it had spent so much.
    pub fn forget_spent(&mut self, spent_ns: [u64; SPENT_KINDS]) {
        (self.spent_ns, self.clock_ns) = (spent_ns, spent_ns.iter().sum());
    }

    /// When this comes.
    #[inline]
    pub fn when(&self, what: Await) -> When {
        self.awaited[what as usize]
    }

    /// Sets when this comes.
    pub fn set_when(&mut self, what: Await, when: When) {
        self.awaited[what as usize] = when;
        let [tick, interrupt, late] = self.awaited;
        self.first_awaited = tick.min(interrupt).min(late);
    }

    /// What comes then.
    pub fn awaited_at(&self, when: When) -> Option<Await> {
        let all = [Await::Tick, Await::LateTimers, Await::Interrupt];
        all.into_iter().find(|&what| self.when(what) == when)
    }

    /// The first thing that will happen to it.
    #[inline]
    pub fn next_event(&self) -> When {
        self.ends.min(self.first_awaited)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the first of what a CPU awaits is kept, and all of its time is accounted for.

    use super::*;
    use crate::agenda::Agenda;

    #[test]
    fn the_first_of_what_is_awaited_is_next() {
        let mut agenda = Agenda::new(1);
        let mut cpu = Cpu::new(1000);
        assert_eq!(cpu.next_event(), When::NEVER);
        let [tick, interrupt, ends] = [30, 20, 25].map(|at_ns| agenda.turn(at_ns));
        cpu.set_when(Await::Tick, tick);
        cpu.set_when(Await::Interrupt, interrupt);
        cpu.ends = ends;
        assert_eq!(
            (cpu.next_event(), cpu.awaited_at(interrupt)),
            (interrupt, Some(Await::Interrupt))
        );
        cpu.set_when(Await::Interrupt, When::NEVER);
        assert_eq!((cpu.next_event(), cpu.awaited_at(ends)), (ends, None));
        cpu.ends = When::NEVER;
        assert_eq!((cpu.next_event(), cpu.awaited_at(tick)), (tick, Some(Await::Tick)));
    }

    #[test]
    fn each_ns_is_spent_on_what_the_cpu_did() {
        let mut cpu = Cpu::new(500);
        assert_eq!(cpu.account(10), 0, "it was idle");
        cpu.activity = Activity::Work;
        assert_eq!(cpu.account(14), 4 * 500);
        cpu.spend(Spent::LockWait, 3);
        let before = *cpu.spent_ns();
        let mut expected = [0; SPENT_KINDS];
        for (kind, ns) in [(Spent::Work, 4), (Spent::LockWait, 3), (Spent::Idle, 10)] {
            expected[kind as usize] = ns;
        }
        assert_eq!((cpu.clock_ns(), before), (17, expected));
        cpu.spend(Spent::Kernel, 2);
        cpu.forget_spent(before);
        assert_eq!((cpu.clock_ns(), *cpu.spent_ns()), (17, before));
    }
}
