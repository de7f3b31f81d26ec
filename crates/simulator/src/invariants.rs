//! What must hold after every event, whatever the policy does.
//!
//! A violation is a fault of the simulator, not of the policy: it stops the program with what is
//! known. The checks are sums over counters and cost a few nanoseconds, so they are always on.

use crate::agenda::When;
use crate::failure::FailureKind;
use crate::kernel::Kernel;

/// Events between two checks that look at every task and queue.
const FULL_CHECK_EVERY: u64 = 1 << 16;

impl Kernel<'_> {
    /// Every runnable task is in exactly one place. Called whenever a CPU has picked.
    pub fn check_places(&self) {
        let census = self.tasks.census();
        let failed = self.failure.is_some();
        assert!(
            failed || census.moving() == 0,
            "a task is nowhere at {} ns: {census:?}",
            self.now_ns
        );
        assert!(
            failed || census.runnable() == self.nr_runnable,
            "{} tasks are runnable but {} have a place: {census:?}",
            self.nr_runnable,
            census.runnable()
        );
        assert_eq!(census.queued(), self.nr_queued, "queued tasks: {census:?}");
    }

    /// Time did not go back and every ns of the CPU that acted went somewhere.
    pub fn check_event(&mut self, place: usize, when: When) {
        self.check_places();
        let cpu = &self.cpus[if place < self.cpus.len() { place } else { self.here() }];
        let spent_ns: u64 = cpu.spent_ns.iter().sum();
        assert_eq!(spent_ns, cpu.clock_ns, "CPU time is conserved: {cpu:?}");
        let (next, _) = self.agenda.first();
        // Where the order of a time's events is chosen, their turns say nothing.
        let in_order = next > when || self.choices.is_some() && next.at_ns == when.at_ns;
        assert!(in_order, "time went back: {next:?} after {when:?}");
        if let Some(message) = self.limits.exceeded(when.at_ns, self.metrics.events) {
            self.fail(FailureKind::Limit, message);
        }
        if self.metrics.events >= self.next_full_check {
            self.next_full_check = self.metrics.events + FULL_CHECK_EVERY;
            self.check_all();
        }
    }

    /// Counters agree with a count of every task and queue. O(tasks + queues).
    fn check_all(&self) {
        assert_eq!(self.tasks.recount(), self.tasks.census(), "places of tasks");
        let queued: usize = self.queues.all().iter().map(|queue| queue.len()).sum();
        assert_eq!(queued, self.nr_queued as usize, "lengths of dispatch queues");
        let busy = self.cpus.iter().filter(|cpu| cpu.current.is_some()).count();
        assert_eq!(busy, self.tasks.census().running() as usize, "CPUs with a task");
    }

    /// At the end: busy, idle and overhead together are elapsed time x CPUs.
    pub fn check_end(&self, elapsed_ns: u64) {
        self.check_all();
        for cpu in &self.cpus {
            assert_eq!(cpu.clock_ns, elapsed_ns, "every CPU is accounted for to the end");
            assert_eq!(cpu.spent_ns.iter().sum::<u64>(), elapsed_ns, "CPU time is conserved");
        }
    }
}
