//! What must hold, whatever the policy does: of tasks' places after every event, of all that is
//! counted from time to time and at the end.
//!
//! A violation is a fault of the simulator, not of the policy: it stops the program with what is
//! known. What is looked at after every event costs a few nanoseconds, so it is always on.

use crate::core::Core;
use crate::place::Place;
use crate::task::Census;

impl Core<'_> {
    /// Every runnable task is in exactly one place.
    #[inline]
    pub fn check_places(&self) {
        let expected = Census::of(self.queues.nr_queued(), self.tasks.nr_runnable());
        if self.tasks.census() != expected || self.queues.has_stranded() {
            self.places_are_wrong();
        }
    }

    #[cold]
    fn places_are_wrong(&self) {
        let census = self.tasks.census();
        let failed = self.recorder.has_failed();
        assert!(failed || !self.queues.has_stranded(), "a task is left on a CPU that is gone");
        assert!(
            failed || census.moving() == 0,
            "a task is nowhere at {} ns: {census:?}",
            self.now_ns()
        );
        assert!(
            failed || census.runnable() == self.tasks.nr_runnable(),
            "{} tasks are runnable but {} have a place: {census:?}",
            self.tasks.nr_runnable(),
            census.runnable()
        );
        assert_eq!(census.queued(), self.queues.nr_queued(), "queued tasks: {census:?}");
    }

    /// Counters agree with a count of every task and queue. O(tasks + queues).
    pub fn check_all(&self) {
        assert_eq!(self.tasks.recount(), self.tasks.census(), "places of tasks");
        let queued: usize = self.queues.all().iter().map(|queue| queue.len()).sum();
        assert_eq!(queued, self.queues.nr_queued() as usize, "lengths of dispatch queues");
        let busy = self.cpus.iter().filter(|cpu| cpu.current.is_some()).count();
        let running = self.tasks.count(|place| matches!(place, Place::Running(_)));
        assert_eq!(busy, running, "CPUs with a task");
        let alive = self.tasks.count(|place| place != Place::Exited);
        assert_eq!(alive, self.tasks.nr_alive() as usize, "tasks that have not ended");
        for cpu in self.cpus.iter() {
            let spent_ns: u64 = cpu.spent_ns().iter().sum();
            assert_eq!(spent_ns, cpu.clock_ns(), "CPU time is conserved: {cpu:?}");
        }
    }

    /// At the end: busy, idle and overhead together are elapsed time x CPUs.
    pub fn check_end(&self, elapsed_ns: u64) {
        self.check_all();
        for cpu in self.cpus.iter() {
            assert_eq!(cpu.clock_ns(), elapsed_ns, "every CPU is accounted for to the end");
        }
    }
}
