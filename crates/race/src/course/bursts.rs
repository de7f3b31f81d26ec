//! Workloads in which many items come or leave at once.

use runqueue::before;

use super::{Course, Meter};
use crate::raced::Raced;
use crate::trace::Operation;

/// Children of a burst of forks have keys less than this apart.
const CHILDREN_APART: u64 = 16;

impl<Q: Raced> Course<'_, Q> {
    /// Fills the queue and empties it.
    #[inline(never)]
    pub(super) fn up_down(&mut self, operations: u64, meter: &mut Meter) -> u64 {
        let n = self.setting.n;
        let passes = (operations / (2 * u64::from(n))).max(1);
        meter.begin();
        for _ in 0..passes {
            for item in 0..n {
                let key = self.now.wrapping_add(self.next_increment(item));
                self.queues[0].push(item, key);
            }
            // What comes next must not lie before what has left.
            for _ in 0..n {
                self.serve();
            }
        }
        meter.end();
        passes * 2 * u64::from(n)
    }

    /// Sleepers wake up with a credit, in front of those who wait, as CFS places them; as many
    /// turns follow, and as many items as woke up go to sleep.
    #[inline(never)]
    pub(super) fn storm(&mut self, operations: u64, meter: &mut Meter) -> u64 {
        self.bursts(operations, meter, |course, item| {
            let credit = course.next_increment(item) / 4;
            course.now.wrapping_sub(credit)
        })
    }

    /// A task forks: its children begin a slice behind it with nearly equal keys; as many turns
    /// follow, and as many items exit.
    #[inline(never)]
    pub(super) fn fork_burst(&mut self, operations: u64, meter: &mut Meter) -> u64 {
        let mut born = self.now;
        let mut left = 0;
        self.bursts(operations, meter, |course, item| {
            if left == 0 {
                left = course.setting.burst();
                born = course.now.wrapping_add(course.next_increment(item));
            }
            left -= 1;
            born.wrapping_add(course.random.below(CHILDREN_APART))
        })
    }

    /// Passes of four times as many operations as items come at once.
    #[inline(always)]
    fn bursts(
        &mut self,
        operations: u64,
        meter: &mut Meter,
        mut key_of: impl FnMut(&mut Self, u32) -> u64,
    ) -> u64 {
        let burst = self.setting.burst();
        let passes = (operations / (4 * u64::from(burst))).max(1);
        meter.begin();
        for _ in 0..passes {
            for _ in 0..burst {
                let Some(item) = self.free.pop_front() else { break };
                let key = key_of(self, item);
                self.queues[0].push(item, key);
            }
            for _ in 0..burst {
                self.turn();
            }
            for _ in 0..burst {
                let Some(item) = self.serve() else { break };
                self.free.push_back(item);
            }
        }
        meter.end();
        passes * 4 * u64::from(burst)
    }

    /// Removes all items of full queues, in a random order; only that is timed.
    #[inline(never)]
    pub(super) fn mass_exit(&mut self, operations: u64, meter: &mut Meter) -> u64 {
        let n = self.setting.n;
        let order = self.shuffled(n);
        let at_once = u64::from(n) * self.queues.len() as u64;
        let passes = (operations / at_once).max(1);
        for _ in 0..passes {
            let begin = self.now;
            for number in 0..self.queues.len() {
                for item in 0..n {
                    let key = begin.wrapping_add(self.next_increment(item));
                    self.queues[number].push(item, key);
                    self.now = if before(self.now, key) { key } else { self.now };
                }
            }
            meter.begin();
            for queue in &mut self.queues {
                for &item in &order {
                    queue.remove(item);
                }
            }
            meter.end();
        }
        passes * at_once
    }

    /// Numbers below `n` in a random order.
    fn shuffled(&mut self, n: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..n).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, self.random.below(last as u64 + 1) as usize);
        }
        order
    }

    /// Moves all items to the other queue and back. Keys move on, as a CPU's clock does: the first
    /// key after a move is the last one before it.
    #[inline(never)]
    pub(super) fn drain(&mut self, operations: u64, meter: &mut Meter) -> u64 {
        let n = u64::from(self.setting.n);
        let passes = (operations / (2 * n)).max(1);
        let (first, second) = self.queues.split_at_mut(1);
        let (mut from, mut to) = (&mut first[0], &mut second[0]);
        meter.begin();
        for _ in 0..passes {
            while let Some(item) = from.pop() {
                to.push(item, from.key(item).wrapping_add(self.span));
            }
            // Not the queues themselves: some of them are large.
            std::mem::swap(&mut from, &mut to);
        }
        meter.end();
        if passes % 2 == 1 {
            self.queues.swap(0, 1);
        }
        passes * 2 * n
    }

    /// Moves everything once to learn how far the keys of a queue are apart.
    pub(super) fn measure_span(&mut self) {
        let (from, to) = self.queues.split_at_mut(1);
        let mut ends: Option<(u64, u64)> = None;
        while let Some(item) = from[0].pop() {
            let key = from[0].key(item);
            // Who is not exact may begin anywhere.
            let (first, last) = ends.unwrap_or((key, key));
            let first = if before(key, first) { key } else { first };
            ends = Some((first, if before(last, key) { key } else { last }));
            to[0].push(item, key);
        }
        self.span = ends.map_or(0, |(first, last)| last.wrapping_sub(first));
        self.queues.swap(0, 1);
    }

    /// Repeats the recorded operations. Each time its keys begin where they ended, and what is
    /// left in the queue is taken out untimed.
    #[inline(never)]
    pub(super) fn replay(&mut self, operations: u64, meter: &mut Meter) -> u64 {
        let Some(trace) = &self.setting.trace else { return 0 };
        let recorded = trace.operations.len() as u64;
        let passes = (operations / recorded.max(1)).max(1);
        for _ in 0..passes {
            let shift = self.span;
            let queue = &mut self.queues[0];
            meter.begin();
            for &operation in &trace.operations {
                match operation {
                    Operation::Push { item, key } => queue.push(item, key.wrapping_add(shift)),
                    Operation::Pop => drop(std::hint::black_box(queue.pop())),
                    Operation::Remove { item } => queue.remove(item),
                }
            }
            meter.end();
            self.span = self.span.wrapping_add(trace.span);
            self.empty();
        }
        passes * recorded
    }
}
