//! Memory for messages: what a CPU has freed lately it takes again, more goes through lists that
//! all CPUs share.
//!
//! As `mm/slab.c` of Linux 2.4 and 2.6 (after J. Bonwick and J. Adams, "Magazines and Vmem", USENIX
//! 2001): each CPU keeps an array of free objects. Once it is full a batch goes into an array that
//! all share, if that has room, and else back into slabs; an empty one takes a batch from where
//! there is one. For both a lock is held; slabs cost cache misses for each object meanwhile.

use crate::caches::{Mark, Touched};
use crate::dispatch_queue::Lock;
use scenario::machine::{AllocatorCosts, Machine};

/// What a CPU must do with a lock held to get memory or to be rid of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Objects that move between its own array and the shared one.
    pub shared: u64,
    /// Lines of slabs that it looks at, of each lock's objects.
    pub lines: u64,
}

/// The allocator.
#[derive(Clone, Debug)]
pub struct Allocator {
    costs: AllocatorCosts,
    arrays: Vec<Vec<Touched>>,
    shared: Vec<Touched>,
    /// One for each object that a message consists of.
    locks: Vec<Lock>,
}

impl Allocator {
    /// That of a machine, with nothing in it.
    pub fn new(machine: &Machine, costs: AllocatorCosts) -> Allocator {
        Allocator {
            costs,
            arrays: vec![Vec::new(); machine.cpus.len()],
            shared: Vec::new(),
            locks: vec![Lock::default(); costs.objects as usize],
        }
    }

    /// How many locks there are.
    pub fn nr_locks(&self) -> usize {
        self.locks.len()
    }

    /// A lock.
    pub fn lock(&self, number: usize) -> Lock {
        self.locks[number]
    }

    /// Who held it gives it up.
    pub fn unlock(&mut self, number: usize, released: Lock) {
        self.locks[number] = released;
    }

    /// What a CPU would get; nothing if it is memory that no message has used, or of a slab.
    pub fn next(&self, cpu: usize) -> Option<Touched> {
        self.arrays[cpu].last().or(self.shared.last()).copied()
    }

    /// A CPU gets memory for a message.
    pub fn get(&mut self, cpu: usize) -> (Option<Touched>, Batch) {
        let (array, shared) = (&mut self.arrays[cpu], &mut self.shared);
        let mut batch = Batch::default();
        if array.is_empty() && !self.locks.is_empty() {
            let nr = (self.costs.batch as usize).min(shared.len());
            array.extend(shared.drain(shared.len() - nr..));
            batch.shared = nr as u64;
            if nr == 0 {
                batch.lines = self.costs.batch * self.costs.get_lines;
                // Of a slab, and so in no cache; one of them is for this message.
                let cold = Touched { cpu: cpu as u32, mark: Mark::COLD };
                array.resize(self.costs.batch as usize, cold);
            }
        }
        (array.pop(), batch)
    }

    /// A CPU frees the memory of a message.
    pub fn free(&mut self, cpu: usize, memory: Touched) -> Batch {
        let (array, shared, costs) = (&mut self.arrays[cpu], &mut self.shared, &self.costs);
        let mut batch = Batch::default();
        if !self.locks.is_empty() && array.len() as u64 >= costs.kept {
            let room = (costs.shared as usize).saturating_sub(shared.len());
            let nr = array.len().min(costs.batch as usize);
            if room > 0 && nr > 0 {
                shared.extend(array.drain(..nr.min(room)));
                batch.shared = nr.min(room) as u64;
            } else {
                array.drain(..nr);
                // Without an array of its own it frees this one.
                batch.lines = (nr as u64).max(1) * costs.free_lines;
            }
        }
        if self.locks.is_empty() || costs.kept > 0 {
            array.push(memory);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    //! Goal: memory is kept, shared and given back as the two limits say. Method: closed forms.

    use super::*;

    const COSTS: AllocatorCosts =
        AllocatorCosts { objects: 2, kept: 4, batch: 2, shared: 3, get_lines: 5, free_lines: 7 };

    fn two_cpus(costs: AllocatorCosts) -> Allocator {
        let mut machine = scenario::random_scenario(1).0;
        machine.cpus.resize(2, machine.cpus[0]);
        machine.cpus.truncate(2);
        Allocator::new(&machine, costs)
    }

    fn memory(mark: u64) -> Touched {
        Touched { cpu: 0, mark: Mark::of(mark) }
    }

    #[test]
    fn what_was_freed_last_is_taken_first() {
        for costs in [COSTS, AllocatorCosts::default()] {
            let mut allocator = two_cpus(costs);
            for mark in 1..=3 {
                assert_eq!(allocator.free(0, memory(mark)), Batch::default());
            }
            assert_eq!(allocator.next(0), Some(memory(3)));
            assert_eq!(allocator.get(0), (Some(memory(3)), Batch::default()));
        }
    }

    #[test]
    fn a_full_array_gives_its_oldest_to_others_and_then_to_slabs() {
        let mut allocator = two_cpus(COSTS);
        let batches: Vec<Batch> = (1..=11).map(|mark| allocator.free(0, memory(mark))).collect();
        let (none, shared) = (Batch::default(), |shared| Batch { shared, lines: 0 });
        let slabs = Batch { shared: 0, lines: 2 * 7 };
        let expected =
            [none, none, none, none, shared(2), none, shared(1), slabs, none, slabs, none];
        assert_eq!(batches, expected);
        // The other CPU gets what was shared last, in a batch.
        assert_eq!(allocator.get(1), (Some(memory(3)), shared(2)));
        assert_eq!(allocator.get(1), (Some(memory(2)), none));
        assert_eq!(allocator.get(1), (Some(memory(1)), shared(1)));
        assert_eq!(allocator.get(1).1, Batch { shared: 0, lines: 2 * 5 });
        assert_eq!(allocator.get(1).1, none);
    }

    #[test]
    fn without_arrays_each_object_is_one_of_a_slab() {
        let costs = AllocatorCosts { kept: 0, batch: 1, ..COSTS };
        let mut allocator = two_cpus(costs);
        for _ in 0..3 {
            assert_eq!(allocator.free(0, memory(1)), Batch { shared: 0, lines: 7 });
            assert_eq!(allocator.get(0).1, Batch { shared: 0, lines: 5 });
        }
    }
}
