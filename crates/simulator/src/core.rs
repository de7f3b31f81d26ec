//! All that calls from the policy can reach: the simulated kernel without what tasks do.
//!
//! It is made of parts, each of which keeps its own state. What takes two of them is here or in
//! the modules that are named for what they do.

use crate::abi;
use crate::allocator::{Allocator, Batch};
use crate::background::Background;
use crate::buses::{Buses, Fetch};
use crate::caches::Caches;
use crate::cpu::Spent;
use crate::cpus::Cpus;
use crate::dispatch_queue::Lock;
use crate::failure::{Failure, FailureKind};
use crate::groups::Groups;
use crate::idle::Idle;
use crate::picking::Picking;
use crate::place::TaskId;
use crate::policy_state::PolicyState;
use crate::queues::Queues;
use crate::recorder::Recorder;
use crate::task::Tasks;
use crate::time::Time;
use crate::timer::Timer;
use crate::visible::Visible;

/// An address of an object, as kernels of 32 bits have it.
const ADDRESS_BYTES: u64 = 4;

/// Expiries that may wait for their time although they do not hold any more.
const STALE_TIMERS_KEPT: usize = 64;

/// The parts.
pub struct Core<'a> {
    /// The clock, and what happens next.
    pub time: Time,
    /// The machine's CPUs.
    pub cpus: Cpus<'a>,
    /// What they share on the way to memory.
    pub buses: Buses,
    /// What of messages is in their caches.
    pub caches: Caches,
    /// Where their memory comes from.
    pub allocator: Allocator,
    /// What interrupts them beside what tasks do.
    pub background: Background,
    /// Tasks, and where they are.
    pub tasks: Tasks,
    /// Groups of tasks.
    pub groups: Groups,
    /// Dispatch queues.
    pub queues: Queues,
    /// Which CPUs are idle.
    pub idle: Idle,
    /// How far the CPU that acts is in picking its next task.
    pub picking: Picking,
    /// What is counted, and what ends the run.
    pub recorder: Recorder,
    /// The policy that runs.
    pub policy: PolicyState<'a>,
    /// The memory that it sees.
    pub visible: Visible,
}

impl Core<'_> {
    /// The active CPU.
    pub fn here(&self) -> usize {
        self.time.here()
    }

    /// Its clock.
    pub fn now_ns(&self) -> u64 {
        self.time.now_ns()
    }

    /// How many CPUs there are, as policies are told.
    pub fn nr_cpu_ids(&self) -> u32 {
        self.cpus.len() as u32
    }

    // ---- time -------------------------------------------------------------------------------

    /// Makes `cpu` the active one at `at_ns` and accounts for what it did so far.
    #[inline]
    pub fn enter(&mut self, cpu: usize, at_ns: u64) {
        self.account(cpu, at_ns);
        self.time.begin(cpu, at_ns);
    }

    /// Makes `cpu` the active one from now on, whatever it is inside of.
    pub fn visit(&mut self, cpu: usize) {
        self.time.begin(cpu, self.time.now_ns());
    }

    /// Accounts for what a CPU did up to `to_ns`.
    #[inline]
    pub fn account(&mut self, cpu: usize, to_ns: u64) {
        let computed = self.cpus[cpu].account(to_ns);
        self.note_computed(cpu, computed);
    }

    /// The same when the run is over.
    pub fn account_to_the_end(&mut self, cpu: usize, to_ns: u64) {
        let computed = self.cpus[cpu].account_to_the_end(to_ns);
        self.note_computed(cpu, computed);
    }

    #[inline]
    fn note_computed(&mut self, cpu: usize, computed: u64) {
        if let (true, Some(task)) = (computed > 0, self.cpus[cpu].current) {
            self.tasks.state_mut(task).compute(computed);
        }
    }

    /// Spends time of the active CPU.
    pub fn charge(&mut self, spent: Spent, ns: u64) {
        self.time.pass(ns);
        let here = self.here();
        self.cpus[here].spend(spent, ns);
    }

    /// Takes a lock for the active CPU: waits until it is free, then pays for moving it here.
    /// Whoever holds it stores [`released`](Self::released) when the critical section ends.
    #[inline]
    pub fn take(&mut self, lock: Lock) {
        if lock.free_at_ns > self.now_ns() {
            self.charge(Spent::LockWait, lock.free_at_ns - self.now_ns());
        }
        let transfer_ns = self.fetch_lines(1, lock.holder, 0);
        self.charge(Spent::Lock, self.cpus.costs().lock_ns + transfer_ns);
    }

    /// The active CPU fetches lines from the CPU that wrote them last, `behind_ns` after its clock
    /// because of what is charged with them, and waits where their bus is busy; what it takes
    /// beside that.
    #[inline]
    pub fn fetch_lines(&mut self, lines: u64, from: u32, behind_ns: u64) -> u64 {
        let (from, here) = (from as usize, self.here());
        let takes_ns = lines * self.cpus.transfer_ns(from, here);
        if from != here {
            let bytes = lines * self.cpus.costs().line_bytes;
            let fetch = Fetch { from, bytes, takes_ns, behind_ns };
            self.buses.fetch((&mut self.cpus, &mut self.time), fetch);
        }
        takes_ns
    }

    /// The active CPU fetches so much from memory, `behind_ns` after its clock, where `ns_per_kib`
    /// says what 1 KiB takes; `over_bus` bytes of it wait for their bus. What it takes beside that.
    pub fn fetch_memory(&mut self, bytes: u64, ns_per_kib: u64, bus: (u64, u64)) -> u64 {
        let ((over_bus, behind_ns), takes_ns) = (bus, (bytes * ns_per_kib) >> 10);
        self.wait_for_bus(over_bus, takes_ns, behind_ns);
        takes_ns
    }

    /// The active CPU waits where its bus is busy while so much comes from memory, from `behind_ns`
    /// after its clock on for `takes_ns`.
    pub fn wait_for_bus(&mut self, bytes: u64, takes_ns: u64, behind_ns: u64) {
        let fetch = Fetch { from: self.here(), bytes, takes_ns, behind_ns };
        self.buses.fetch((&mut self.cpus, &mut self.time), fetch);
    }

    /// The active CPU does what a batch takes with each of the allocator's locks held, one after
    /// the other; addresses of objects come from who had the lock before.
    #[inline]
    pub fn carry_out(&mut self, batch: Batch) {
        if batch.is_due {
            self.carry_out_batch(batch);
        }
    }

    #[inline(never)]
    fn carry_out_batch(&mut self, batch: Batch) {
        for number in 0..self.allocator.nr_locks() {
            let lock = self.allocator.lock(number);
            let costs = self.cpus.costs();
            let waits_ns = lock.free_at_ns.saturating_sub(self.now_ns());
            let addresses = (batch.shared * ADDRESS_BYTES).div_ceil(costs.line_bytes);
            let own_ns = costs.lock_ns + self.fetch_lines(1 + addresses, lock.holder, waits_ns);
            self.wait_for_bus(batch.bytes, batch.takes_ns, waits_ns + own_ns);
            self.charge(Spent::Kernel, waits_ns + own_ns + batch.takes_ns);
            self.allocator.unlock(number, self.released());
        }
    }

    /// How much a CPU's cache has taken in, in KiB: what was there before may have left it.
    #[inline]
    pub fn cache_turnover_kib(&self, cpu: usize) -> u64 {
        self.caches.came_in(cpu).map_or(self.cpus[cpu].cache_turnover_kib, |bytes| bytes >> 10)
    }

    /// Where CPUs decide only with the lock of all tasks that wait, which is that of the policy's
    /// queues: the active one waits for it, if it is held; whether it did.
    #[inline]
    pub fn waits_to_decide(&mut self) -> bool {
        self.picking.decides_with_lock() && self.wait_to_decide()
    }

    fn wait_to_decide(&mut self) -> bool {
        let lock = self.deciding_queue().map(|queue| self.queues.get(queue).lock);
        let free_at_ns = lock.map_or(0, |lock| lock.free_at_ns);
        let waits_ns = free_at_ns.saturating_sub(self.now_ns());
        self.charge(Spent::LockWait, waits_ns);
        waits_ns > 0
    }

    /// The active CPU takes that lock to wake somebody up who is not asleep yet.
    pub fn find_awake(&mut self) {
        if let Some(queue) = self.deciding_queue() {
            self.take(self.queues.get(queue).lock);
            let released = self.released();
            self.queues.get_mut(queue).lock = released;
        }
    }

    /// The policy's queue whose lock is held longest: with one queue, that one.
    fn deciding_queue(&self) -> Option<u32> {
        self.queues.of_policy().max_by_key(|&queue| self.queues.get(queue).lock.free_at_ns)
    }

    /// A lock that the active CPU gives up now.
    pub fn released(&self) -> Lock {
        Lock { free_at_ns: self.now_ns(), holder: self.here() as u32 }
    }

    /// Puts a CPU's next event into the agenda.
    pub fn publish(&mut self, cpu: usize) {
        self.time.set_next(cpu, self.cpus[cpu].next_event());
    }

    /// Forgets expiries of the policy's timers that do not hold any more, once they are most of
    /// all: a timer can be set for ever.
    pub fn forget_stale_timers(&mut self) {
        if self.policy.maps.has_stale_expiries(STALE_TIMERS_KEPT + self.time.nr_timers() / 2) {
            let maps = &self.policy.maps;
            self.time.retain_timers(|timer| match timer {
                Timer::Policy(index, generation) => maps.expiry_cpu(index, generation).is_some(),
                _ => true,
            });
        }
    }

    // ---- tasks ------------------------------------------------------------------------------

    /// Whether a task may run on a CPU of the machine, be it online or not. Most tasks may on all,
    /// and then one look at their number will do.
    pub fn may_run_on(&self, task: TaskId, cpu: usize) -> bool {
        let nr_allowed = self.tasks.seen(task).nr_cpus_allowed as usize;
        nr_allowed >= self.cpus.len() || self.tasks.mask(task).has(cpu)
    }

    /// The task, or idle task, that runs on a CPU.
    pub fn current_of(&self, cpu: usize) -> *mut abi::Task {
        self.tasks.address_on(cpu, self.cpus[cpu].current)
    }

    // ---- failures ---------------------------------------------------------------------------

    /// Ends the run; the first failure counts.
    #[cold]
    #[inline(never)]
    pub fn fail(&mut self, kind: FailureKind, message: String) {
        self.recorder.fail(Failure::new(kind, message, self.here(), self.now_ns()));
    }

    /// Ends the run because of a task; the first failure counts.
    #[cold]
    #[inline(never)]
    pub fn fail_about(&mut self, task: TaskId, kind: FailureKind, message: String) {
        let failure = Failure::new(kind, message, self.here(), self.now_ns());
        self.recorder.fail(failure.about(task, self.tasks.label(task)));
    }

    /// A task waits for a CPU from now on, as policies may ask (`set_task_runnable`).
    #[cold]
    pub fn note_runnable(&mut self, task: TaskId) {
        let jiffies = self.now_ns() / self.time.tick_period_ns();
        self.tasks.seen_mut(task).runnable_at = jiffies;
    }
}
