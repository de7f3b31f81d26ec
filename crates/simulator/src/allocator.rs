//! Memory for messages: what a CPU has freed lately it takes again, more goes through lists that
//! all CPUs share.
//!
//! As `mm/slab.c` of Linux 2.4 and 2.6 (after J. Bonwick and J. Adams, "Magazines and Vmem", USENIX
//! 2001): each CPU keeps an array of free objects. Once it is full a batch goes into an array that
//! all share, if that has room, and else back into slabs; an empty one takes a batch from where
//! there is one. For both a lock is held. Meanwhile the CPU looks at each slab, whose lines are in
//! its cache, in that of the CPU that looked last, or in memory.

use crate::caches::{Caches, Mark, Touched};
use crate::cpus::Cpus;
use crate::dispatch_queue::Lock;
use scenario::machine::{AllocatorCosts, Distance, Machine};
use std::collections::BTreeMap;

/// The memory of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Who touched it last.
    pub touched: Touched,
    /// The slab to which it belongs, where there are slabs.
    pub slab: Option<u32>,
}

/// What a CPU must do with a lock held to get memory or to be rid of it, of each lock's objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Whether it takes the locks.
    pub is_due: bool,
    /// Objects that move between its own array and the shared one.
    pub shared: u64,
    /// What looking at slabs takes if the bus is free.
    pub takes_ns: u64,
    /// How much of slabs comes over the bus, or goes back.
    pub bytes: u64,
}

impl Batch {
    /// Both.
    pub fn and(self, other: Batch) -> Batch {
        Batch {
            is_due: self.is_due || other.is_due,
            shared: self.shared + other.shared,
            takes_ns: self.takes_ns + other.takes_ns,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// Lines of a slab that are looked at, and that are only written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// Those for which the CPU waits.
    pub read: u64,
    /// Those for which nobody waits.
    pub written: u64,
}

/// What looking at lines came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    /// Who touched them last from now on.
    pub touched: Touched,
    /// As in [`Batch`].
    pub takes_ns: u64,
    /// As in [`Batch`].
    pub bytes: u64,
}

/// A slab: some objects beside each other, and what is to be known of them.
#[derive(Clone, Copy, Debug)]
struct Slab {
    nr_free: u64,
    touched: Option<Touched>,
    /// Its place in the order in which slabs give objects, while it has any.
    place: u64,
}

/// The allocator.
#[derive(Clone, Debug)]
pub struct Allocator {
    costs: AllocatorCosts,
    arrays: Vec<Vec<Memory>>,
    shared: Vec<Memory>,
    slabs: Vec<Slab>,
    /// Slabs with free objects, in the order of their places.
    giving: BTreeMap<u64, u32>,
    nr_places: u64,
    /// One for each object that a message consists of.
    locks: Vec<Lock>,
}

impl Allocator {
    /// That of a machine, with nothing in it. Objects come in batches, and of slabs.
    pub fn new(machine: &Machine, costs: AllocatorCosts) -> Allocator {
        assert!(costs.objects == 0 || costs.batch > 0 && costs.slab > 0, "{costs:?}");
        Allocator {
            costs,
            arrays: vec![Vec::new(); machine.cpus.len()],
            shared: Vec::new(),
            slabs: Vec::new(),
            giving: BTreeMap::new(),
            nr_places: 0,
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

    /// Who touched last what a CPU would get; nobody if it is of a slab, or no message has used it.
    pub fn next(&self, cpu: usize) -> Option<Touched> {
        self.arrays[cpu].last().or(self.shared.last()).map(|memory| memory.touched)
    }

    /// A CPU gets memory for a message, and may `look` at slabs, each with who touched it last.
    pub fn get(
        &mut self,
        cpu: usize,
        mut look: impl FnMut(Option<Touched>, Lines) -> Looked,
    ) -> (Option<Memory>, Batch) {
        let mut batch = Batch::default();
        if self.arrays[cpu].is_empty() && !self.locks.is_empty() {
            let nr = (self.costs.batch as usize).min(self.shared.len());
            self.arrays[cpu].extend(self.shared.drain(self.shared.len() - nr..));
            (batch.is_due, batch.shared) = (true, nr as u64);
            if nr == 0 {
                self.take_of_slabs(cpu, &mut batch, &mut look);
            }
        }
        (self.arrays[cpu].pop(), batch)
    }

    fn take_of_slabs(
        &mut self,
        cpu: usize,
        batch: &mut Batch,
        look: &mut impl FnMut(Option<Touched>, Lines) -> Looked,
    ) {
        let mut wanted = self.costs.batch;
        while wanted > 0 {
            let given = self.giving.first_key_value().map(|(_, &number)| number);
            let number = given.unwrap_or_else(|| {
                self.slabs.push(Slab { nr_free: self.costs.slab, touched: None, place: 0 });
                self.slabs.len() as u32 - 1
            });
            self.look_at(number, Lines { read: self.costs.get_lines, written: 0 }, batch, look);
            let slab = &mut self.slabs[number as usize];
            let nr = wanted.min(slab.nr_free);
            (slab.nr_free, wanted) = (slab.nr_free - nr, wanted - nr);
            // What was in a slab is in no cache.
            let touched = Touched { cpu: cpu as u32, mark: Mark::COLD };
            let memory = Memory { touched, slab: Some(number) };
            let array = &mut self.arrays[cpu];
            array.resize(array.len() + nr as usize, memory);
            if given.is_none() || self.slabs[number as usize].nr_free == 0 {
                self.place_last(number);
            }
        }
    }

    /// A CPU frees the memory of a message, and may `look` at slabs, as in [`Allocator::get`].
    pub fn free(
        &mut self,
        cpu: usize,
        memory: Memory,
        mut look: impl FnMut(Option<Touched>, Lines) -> Looked,
    ) -> Batch {
        let (array, costs) = (&mut self.arrays[cpu], self.costs);
        let mut batch = Batch::default();
        if !self.locks.is_empty() && array.len() as u64 >= costs.kept {
            // Without an array of its own it gives this one away.
            array.extend((costs.kept == 0).then_some(memory));
            let room = (costs.shared as usize).saturating_sub(self.shared.len());
            let nr = array.len().min(costs.batch as usize);
            batch.is_due = true;
            if room > 0 {
                self.shared.extend(array.drain(..nr.min(room)));
                batch.shared = nr.min(room) as u64;
            } else {
                let back: Vec<Memory> = array.drain(..nr).collect();
                let lines = Lines { read: costs.free_lines, written: costs.free_writes };
                for slab in back.into_iter().filter_map(|memory| memory.slab) {
                    self.look_at(slab, lines, &mut batch, &mut look);
                    self.slabs[slab as usize].nr_free += 1;
                    self.place_last(slab);
                }
            }
        }
        if self.locks.is_empty() || costs.kept > 0 {
            self.arrays[cpu].push(memory);
        }
        batch
    }

    fn look_at(
        &mut self,
        slab: u32,
        lines: Lines,
        batch: &mut Batch,
        look: &mut impl FnMut(Option<Touched>, Lines) -> Looked,
    ) {
        let slab = &mut self.slabs[slab as usize];
        let Looked { touched, takes_ns, bytes } = look(slab.touched, lines);
        slab.touched = Some(touched);
        *batch = batch.and(Batch { takes_ns, bytes, ..Batch::default() });
    }

    /// A slab gives what it has, if it has anything, after all others.
    fn place_last(&mut self, number: u32) {
        let slab = &mut self.slabs[number as usize];
        self.giving.remove(&slab.place);
        if slab.nr_free > 0 {
            self.nr_places += 1;
            slab.place = self.nr_places;
            self.giving.insert(slab.place, number);
        }
    }
}

/// How a CPU looks at lines of slabs: what is in its cache takes no time, what another CPU's has
/// comes from there, and the rest from memory. All of it is written, and so goes back some time.
pub fn looker<'a>(
    caches: &'a mut Caches,
    cpus: &'a Cpus,
    here: usize,
) -> impl FnMut(Option<Touched>, Lines) -> Looked + 'a {
    move |by, Lines { read, written }| {
        let costs = cpus.costs();
        let (line_ns, nr) = match by {
            _ if caches.is_warm(here, by) => (0, 0),
            Some(by) if caches.has(by) => (cpus.transfer_ns(by.cpu as usize, here), read + written),
            _ => (costs.line_transfer_ns[Distance::Node as usize], read + written),
        };
        let bytes = nr * costs.line_bytes;
        // Each kind of object has slabs of its own.
        let touched = caches.touch(here, costs.allocator.objects * bytes, by);
        Looked { touched, takes_ns: read * line_ns, bytes: 2 * bytes }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: memory is kept, shared and given back as the limits say, and slabs are looked at as
    //! often. Method: closed forms.

    use super::*;

    const COSTS: AllocatorCosts = AllocatorCosts {
        objects: 2,
        kept: 4,
        batch: 2,
        shared: 3,
        slab: 3,
        get_lines: 5,
        free_lines: 7,
        free_writes: 1,
    };

    fn two_cpus(costs: AllocatorCosts) -> Allocator {
        let mut machine = scenario::random_scenario(1).0;
        machine.cpus.resize(2, machine.cpus[0]);
        machine.cpus.truncate(2);
        Allocator::new(&machine, costs)
    }

    fn memory(mark: u64, slab: Option<u32>) -> Memory {
        Memory { touched: Touched { cpu: 0, mark: Mark::of(mark) }, slab }
    }

    /// A line that is read takes a ns, and each has a byte.
    fn look(_: Option<Touched>, Lines { read, written }: Lines) -> Looked {
        let touched = Touched { cpu: 0, mark: Mark::COLD };
        Looked { touched, takes_ns: read, bytes: read + written }
    }

    #[test]
    fn what_was_freed_last_is_taken_first() {
        for costs in [COSTS, AllocatorCosts::default()] {
            let mut allocator = two_cpus(costs);
            for mark in 1..=3 {
                let batch = allocator.free(0, memory(mark, None), look);
                assert_eq!(batch, Batch::default());
            }
            assert_eq!(allocator.next(0), Some(memory(3, None).touched));
            assert_eq!(allocator.get(0, look), (Some(memory(3, None)), Batch::default()));
        }
    }

    #[test]
    fn a_full_array_gives_its_oldest_to_others_and_then_to_slabs() {
        let mut allocator = two_cpus(COSTS);
        // Of slabs come four batches of two: the second begins with the last of the first slab.
        let got: Vec<(Option<Memory>, Batch)> = (0..8).map(|_| allocator.get(0, look)).collect();
        let slabs: Vec<Option<u32>> =
            got.iter().map(|(one, _)| one.expect("memory").slab).collect();
        assert_eq!(slabs, [0, 0, 1, 0, 1, 1, 2, 2].map(Some));
        let batches: Vec<u64> = got.iter().map(|(_, batch)| batch.takes_ns).collect();
        assert_eq!(batches, [5, 0, 10, 0, 5, 0, 5, 0]);

        let mut freed = slabs.iter().zip(1..).map(|(&slab, mark)| memory(mark, slab));
        let mut free = || allocator.free(0, freed.next().expect("eight"), look);
        let none = Batch::default();
        let shared = |shared| Batch { is_due: true, shared, ..none };
        assert_eq!([free(), free(), free(), free()], [none; 4]);
        assert_eq!([free(), free(), free()], [shared(2), none, shared(1)]);
        let back = Batch { is_due: true, shared: 0, takes_ns: 2 * 7, bytes: 2 * 8 };
        assert_eq!(free(), back, "the array and the shared one are full");

        // The other CPU gets what was shared last, in a batch.
        assert_eq!(allocator.get(1, look), (Some(memory(3, Some(1))), shared(2)));
        assert_eq!(allocator.get(1, look).1, none);
        assert_eq!(allocator.get(1, look).1, shared(1));
        // Two slabs have one that came back each, and the third never gave its last.
        let (found, batch) = allocator.get(1, look);
        assert_eq!(batch, Batch { is_due: true, shared: 0, takes_ns: 10, bytes: 10 });
        assert_eq!(found.expect("memory").slab, Some(0));
    }

    #[test]
    fn without_an_array_of_its_own_each_comes_from_a_slab_and_goes_back() {
        let mut allocator = two_cpus(AllocatorCosts { kept: 0, batch: 1, shared: 0, ..COSTS });
        for _ in 0..3 {
            let (found, batch) = allocator.get(0, look);
            assert_eq!(batch, Batch { is_due: true, shared: 0, takes_ns: 5, bytes: 5 });
            let batch = allocator.free(0, found.expect("memory"), look);
            assert_eq!(batch, Batch { is_due: true, shared: 0, takes_ns: 7, bytes: 8 });
        }
        // With a shared array it goes there, and none is lost.
        let mut allocator = two_cpus(AllocatorCosts { kept: 0, batch: 2, shared: 1, ..COSTS });
        let (found, _) = allocator.get(0, look);
        let batch = allocator.free(0, found.expect("memory"), look);
        assert_eq!(batch, Batch { is_due: true, shared: 1, ..Batch::default() });
        assert_eq!(allocator.get(1, look).0, found);
    }
}
