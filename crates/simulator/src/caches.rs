//! What of messages is in caches, and what has left them.
//!
//! A cache keeps what was touched last. So what a CPU has touched is there until as much as the
//! cache holds has come in since (the stack distance of R. L. Mattson et al., "Evaluation
//! techniques for storage hierarchies", IBM Systems Journal 9(2), 1970).

use scenario::machine::{Costs, Machine};

/// How much had come into a cache when something was touched there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

impl Default for Mark {
    fn default() -> Mark {
        Mark::COLD
    }
}

impl Mark {
    /// Of what is in no cache.
    pub const COLD: Mark = Mark(u64::MAX);

    /// When so many bytes had come in.
    pub fn of(bytes: u64) -> Mark {
        Mark(bytes)
    }
}

/// Memory, and when which CPU touched it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The CPU.
    pub cpu: u32,
    /// How much had come into its cache by then.
    pub mark: Mark,
}

/// The last-level caches of a machine; none where messages never leave them.
#[derive(Clone, Debug)]
pub struct Caches {
    size: u64,
    /// How many bytes have come into each.
    came_in: Vec<u64>,
    /// The cache of each CPU.
    of_cpu: Vec<usize>,
}

impl Caches {
    /// Those of a machine, with nothing in them.
    pub fn new(machine: &Machine, costs: &Costs) -> Caches {
        let are_there = costs.cold_write_ns_per_kib > 0;
        let cpus = machine.cpus.iter().filter(|_| are_there);
        let of_cpu: Vec<usize> = cpus.map(|cpu| cpu.cache as usize).collect();
        let nr = of_cpu.iter().max().map_or(0, |most| most + 1);
        Caches { size: costs.cache_kib << 10, came_in: vec![0; nr], of_cpu }
    }

    /// Whether there are any.
    #[inline]
    pub fn are_there(&self) -> bool {
        !self.of_cpu.is_empty()
    }

    /// Whether what a CPU touched then is still in its cache.
    pub fn has(&self, by: Touched) -> bool {
        let came_in = self.came_in[self.of_cpu[by.cpu as usize]];
        by.mark != Mark::COLD && came_in - by.mark.0 <= self.size
    }

    /// Whether what somebody touched then is in the cache of this CPU.
    pub fn is_warm(&self, cpu: usize, by: Option<Touched>) -> bool {
        by.is_some_and(|by| self.of_cpu[by.cpu as usize] == self.of_cpu[cpu] && self.has(by))
    }

    /// A CPU touches so many bytes, which somebody touched then.
    pub fn touch(&mut self, cpu: usize, bytes: u64, by: Option<Touched>) -> Touched {
        let is_warm = self.is_warm(cpu, by);
        let came_in = &mut self.came_in[self.of_cpu[cpu]];
        *came_in += if is_warm { 0 } else { bytes };
        Touched { cpu: cpu as u32, mark: Mark::of(*came_in) }
    }

    /// Something else comes into the cache of a CPU.
    #[inline]
    pub fn refill(&mut self, cpu: usize, bytes: u64) {
        if self.are_there() {
            self.came_in[self.of_cpu[cpu]] += bytes;
        }
    }

    /// How much came into the cache of a CPU, if that is counted here.
    #[inline]
    pub fn came_in(&self, cpu: usize) -> Option<u64> {
        self.of_cpu.get(cpu).map(|&cache| self.came_in[cache])
    }
}

#[cfg(test)]
mod tests {
    //! Goal: memory is in a cache until as much as it holds has come in since. Method: closed
    //! forms, and a plain count of what has come in.

    use super::*;

    const MESSAGE: u64 = 256;
    const SIZE: u64 = 4 * MESSAGE;

    /// Two CPUs with a cache each, which hold four messages.
    fn two() -> Caches {
        Caches { size: SIZE, came_in: vec![0; 2], of_cpu: vec![0, 1] }
    }

    #[test]
    fn what_is_touched_again_and_again_comes_in_once() {
        let mut caches = two();
        let mut message = caches.touch(0, MESSAGE, None);
        for _ in 0..100 {
            assert!(caches.has(message));
            message = caches.touch(0, MESSAGE, Some(message));
        }
        assert_eq!(caches.came_in(0), Some(MESSAGE));
        let cold = Touched { cpu: 0, mark: Mark::COLD };
        assert!(!caches.has(cold));
    }

    #[test]
    fn of_more_messages_than_a_cache_holds_each_leaves_it() {
        let mut caches = two();
        let messages: Vec<Touched> = (0..6).map(|_| caches.touch(0, MESSAGE, None)).collect();
        let there: Vec<bool> = messages.iter().map(|&message| caches.has(message)).collect();
        assert_eq!(there, [false, true, true, true, true, true]);
        // As the first comes in again, the next to be read leaves, and so on.
        for message in messages {
            assert!(!caches.has(message));
            caches.touch(0, MESSAGE, Some(message));
        }
    }

    #[test]
    fn what_another_cache_has_comes_in() {
        let mut caches = two();
        let message = caches.touch(0, MESSAGE, None);
        assert!(caches.has(message) && !caches.is_warm(1, Some(message)));
        let message = caches.touch(1, MESSAGE, Some(message));
        assert_eq!((caches.came_in(0), caches.came_in(1)), (Some(MESSAGE), Some(MESSAGE)));
        assert!(caches.is_warm(1, Some(message)) && !caches.is_warm(0, Some(message)));
        caches.refill(1, SIZE + 1);
        assert!(!caches.has(message), "something else has taken its place");
    }
}
