//! What of messages is in caches, and what has left them.
//!
//! A cache keeps what was touched last. So what a CPU has touched is there until as much as the
//! cache holds has come in since (the stack distance of R. L. Mattson et al., "Evaluation
//! techniques for storage hierarchies", IBM Systems Journal 9(2), 1970). Memory for a message is
//! that of the message that was freed last in this cache, as kernels hand it out; if none is left,
//! it is new.

use scenario::machine::{Costs, Machine};

/// How much had come into a cache when something was touched there, in bytes.
pub type Mark = u64;

/// The last-level caches of a machine; none where messages never leave them.
#[derive(Clone, Debug)]
pub struct Caches {
    size: u64,
    each: Vec<Cache>,
    /// The cache of each CPU.
    of_cpu: Vec<usize>,
}

#[derive(Clone, Debug, Default)]
struct Cache {
    came_in: Mark,
    /// Memory of messages that were read here, the last freed last.
    freed: Vec<Mark>,
}

impl Caches {
    /// Those of a machine, with nothing in them.
    pub fn new(machine: &Machine, costs: &Costs) -> Caches {
        let are_there = costs.cold_write_ns_per_kib > 0;
        let cpus = machine.cpus.iter().filter(|_| are_there);
        let of_cpu: Vec<usize> = cpus.map(|cpu| cpu.cache as usize).collect();
        let nr = of_cpu.iter().max().map_or(0, |most| most + 1);
        Caches { size: costs.cache_kib << 10, each: vec![Cache::default(); nr], of_cpu }
    }

    /// Whether there are any.
    #[inline]
    pub fn are_there(&self) -> bool {
        !self.of_cpu.is_empty()
    }

    /// Whether what a CPU would write a message to is in its cache.
    pub fn next_is_warm(&self, cpu: usize) -> bool {
        let cache = &self.each[self.of_cpu[cpu]];
        cache.freed.last().is_some_and(|&mark| cache.came_in - mark <= self.size)
    }

    /// Whether what a CPU touched then is still in its cache.
    pub fn has(&self, cpu: usize, mark: Mark) -> bool {
        self.each[self.of_cpu[cpu]].came_in - mark <= self.size
    }

    /// A CPU writes a message of so many bytes, all told.
    pub fn write(&mut self, cpu: usize, bytes: u64) -> Mark {
        let is_warm = self.next_is_warm(cpu);
        let cache = &mut self.each[self.of_cpu[cpu]];
        cache.freed.pop();
        cache.came_in += if is_warm { 0 } else { bytes };
        cache.came_in
    }

    /// A CPU reads a message that was written by one then, and frees its memory.
    pub fn read(&mut self, cpu: usize, bytes: u64, (by, mark): (usize, Mark)) {
        let is_here = self.of_cpu[by] == self.of_cpu[cpu] && self.has(by, mark);
        let cache = &mut self.each[self.of_cpu[cpu]];
        cache.came_in += if is_here { 0 } else { bytes };
        cache.freed.push(cache.came_in);
    }

    /// Something else comes into the cache of a CPU.
    #[inline]
    pub fn refill(&mut self, cpu: usize, bytes: u64) {
        if self.are_there() {
            self.each[self.of_cpu[cpu]].came_in += bytes;
        }
    }

    /// How much came into the cache of a CPU, if that is counted here.
    #[inline]
    pub fn came_in(&self, cpu: usize) -> Option<u64> {
        self.of_cpu.get(cpu).map(|&cache| self.each[cache].came_in)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: memory is in a cache until as much as it holds has come in since. Method: closed
    //! forms, and a plain list of what was touched, the last first, which is cut at its size.

    use super::*;

    const MESSAGE: u64 = 256;
    const SIZE: u64 = 4 * MESSAGE;

    /// Two CPUs with a cache each, which hold four messages.
    fn two() -> Caches {
        Caches { size: SIZE, each: vec![Cache::default(); 2], of_cpu: vec![0, 1] }
    }

    #[test]
    fn a_message_that_is_read_at_once_is_warm_and_so_is_its_memory() {
        let mut caches = two();
        assert!(!caches.next_is_warm(0), "nobody has used memory yet");
        for _ in 0..100 {
            let mark = caches.write(0, MESSAGE);
            assert!(caches.has(0, mark));
            caches.read(0, MESSAGE, (0, mark));
            assert!(caches.next_is_warm(0));
        }
        assert_eq!(caches.came_in(0), Some(MESSAGE), "only the first message's memory came in");
    }

    #[test]
    fn of_more_messages_than_a_cache_holds_each_leaves_it() {
        let mut caches = two();
        let marks: Vec<Mark> = (0..6).map(|_| caches.write(0, MESSAGE)).collect();
        let there: Vec<bool> = marks.iter().map(|&mark| caches.has(0, mark)).collect();
        assert_eq!(there, [false, true, true, true, true, true]);
        // As the first comes in again, the next to be read leaves, and so on.
        for mark in marks {
            assert!(!caches.has(0, mark) || mark == MESSAGE * 6);
            caches.read(0, MESSAGE, (0, mark));
        }
        assert!(caches.next_is_warm(0));
    }

    #[test]
    fn what_another_cache_has_comes_in_and_is_freed_here() {
        let mut caches = two();
        let mark = caches.write(0, MESSAGE);
        caches.read(1, MESSAGE, (0, mark));
        assert_eq!((caches.came_in(0), caches.came_in(1)), (Some(MESSAGE), Some(MESSAGE)));
        assert!(caches.next_is_warm(1) && !caches.next_is_warm(0));
        caches.refill(1, SIZE + 1);
        assert!(!caches.next_is_warm(1), "something else has taken its place");
    }

    #[test]
    fn a_cache_has_what_a_list_of_the_last_touched_has() {
        let mut random = scenario::Random::new(3, 0);
        let (mut caches, mut came_in, mut waiting) = (two(), 0, Vec::new());
        for _ in 0..10_000 {
            if random.below(2) == 0 || waiting.is_empty() {
                came_in += if caches.next_is_warm(0) { 0 } else { MESSAGE };
                waiting.push((caches.write(0, MESSAGE), came_in));
            } else {
                let (mark, since) = waiting.remove(random.below(waiting.len() as u64) as usize);
                assert_eq!(caches.has(0, mark), came_in - since <= SIZE);
                came_in += if came_in - since <= SIZE { 0 } else { MESSAGE };
                caches.read(0, MESSAGE, (0, mark));
            }
            assert_eq!(caches.came_in(0), Some(came_in));
        }
    }
}
