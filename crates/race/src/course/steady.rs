//! Workloads in which a queue keeps its length, or nearly.

use super::{Course, Meter};
use crate::clock;
use crate::raced::{Raced, increment};

/// One step of so many goes from coming to leaving or back, in [`Course::markov`].
const STEPS_IN_A_STATE: u64 = 10;

/// What an operation gives, and the ticks that it takes.
#[inline(always)]
fn alone<R>(overhead: u64, operation: impl FnOnce() -> R) -> (R, u32) {
    let begin = clock::ticks();
    let given = operation();
    let took = clock::ticks().saturating_sub(begin).saturating_sub(overhead);
    (given, u32::try_from(took).unwrap_or(u32::MAX / 2))
}

impl<Q: Raced> Course<'_, Q> {
    /// The loop of 2007.
    #[inline(never)]
    pub(super) fn hold(&mut self, loops: u64, meter: &mut Meter) {
        meter.begin();
        self.queues[0].hold(&self.setting.increments, self.round, loops);
        meter.end();
        self.round += loops;
    }

    /// The loop with sleepers.
    #[inline(never)]
    pub(super) fn hold_remove(&mut self, loops: u64, meter: &mut Meter) {
        let (n, increments) = (self.setting.n, &self.setting.increments);
        meter.begin();
        self.queues[0].hold_and_remove(n, increments, self.round, loops, &mut self.random);
        meter.end();
        self.round += loops;
    }

    /// The loop, each time in another queue, chosen at random.
    #[inline(never)]
    pub(super) fn cold(&mut self, loops: u64, meter: &mut Meter) {
        let nr_queues = self.queues.len() as u64;
        let increments = &self.setting.increments;
        meter.begin();
        for round in self.round..self.round + loops {
            let chosen = self.random.below(nr_queues) as usize;
            self.queues[chosen].hold(increments, round, 1);
        }
        meter.end();
        self.round += loops;
    }

    /// The loop with a reading of the clock before and after each operation; `REMOVES` says that
    /// it is the loop with sleepers. What the meter says is the sum of the operations, without what
    /// lies between them.
    #[inline(never)]
    pub(super) fn single_operations<const REMOVES: bool>(&mut self, loops: u64, meter: &mut Meter) {
        let (increments, items) = (&self.setting.increments, u64::from(self.setting.n));
        let overhead = meter.overhead;
        let queue = &mut self.queues[0];
        let timed = &mut self.timed;
        timed.pops.reserve(loops as usize);
        timed.pushes.reserve(loops as usize);
        if REMOVES {
            timed.removals.reserve(loops as usize);
            timed.returns.reserve(loops as usize);
        }
        let mut ticks = 0;
        if let Some(counters) = &mut meter.counters {
            counters.begin();
        }
        for round in self.round..self.round + loops {
            let (popped, pop) = alone(overhead, || queue.pop());
            let Some(item) = popped else { break };
            let key = queue.key(item).wrapping_add(increment(increments, round, item));
            let ((), push) = alone(overhead, || queue.push(item, key));
            ticks += u64::from(pop) + u64::from(push);
            timed.pops.push(pop);
            timed.pushes.push(push);
            if REMOVES {
                let sleeper = self.random.below(items) as u32;
                let key = queue.key(sleeper);
                let ((), removal) = alone(overhead, || queue.remove(sleeper));
                let ((), back) = alone(overhead, || queue.push(sleeper, key));
                ticks += u64::from(removal) + u64::from(back);
                timed.removals.push(removal);
                timed.returns.push(back);
            }
        }
        if let Some(counters) = &mut meter.counters {
            counters.end();
        }
        meter.ticks += ticks;
        self.round += loops;
    }

    /// Items come and leave by a chain of two states that lasts ten steps in each on average, and
    /// turns round where the queue has half of n items more or fewer than n.
    ///
    /// Source: R. Roenngren, R. Ayani, "A comparative study of parallel and sequential priority
    /// queue algorithms", ACM TOMACS 7(2), 1997.
    #[inline(never)]
    pub(super) fn markov(&mut self, loops: u64, meter: &mut Meter) {
        let half = self.setting.n / 2;
        let (least, most) = (self.setting.n - half, self.setting.n + half.max(1));
        meter.begin();
        for _ in 0..loops {
            let goes_on = self.random.below(STEPS_IN_A_STATE) != 0;
            self.inserting =
                (self.inserting == goes_on || self.queued <= least) && self.queued < most;
            if self.inserting {
                let Some(item) = self.free.pop_front() else { break };
                let key = self.now.wrapping_add(self.next_increment(item));
                self.queues[0].push(item, key);
                self.queued += 1;
            } else {
                let Some(item) = self.serve() else { break };
                self.free.push_back(item);
                self.queued -= 1;
            }
        }
        meter.end();
    }
}
