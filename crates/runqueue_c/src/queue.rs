//! A queue whose structure is chosen by name, and which refuses wrong use in place of panicking.

use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use runqueue::*;

/// Why something was refused: the numbers of `enum schedlab_runqueue_code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Refusal {
    /// Nothing is queued.
    Empty = -1,
    /// The item is not below the capacity.
    NoSuchItem = -2,
    /// A push of a queued item.
    Queued = -3,
    /// A removal or requeue of one that is not queued.
    NotQueued = -4,
    /// The queue is being walked.
    Busy = -5,
    /// A pointer is null.
    Null = -6,
    /// No structure has this name.
    NoSuchStructure = -7,
    /// The processor lacks the structure's instructions.
    NotOnThisProcessor = -8,
    /// The capacity is above [`CAPACITY_MAX`].
    TooLarge = -9,
    /// The key is [`FAR`] or more from the present.
    TooFar = -10,
    /// The structure panicked: its bug, or this crate's.
    Broken = -11,
}

impl Refusal {
    /// All of them, for those who look one up by its number.
    pub const ALL: [Refusal; 11] = [
        Refusal::Empty,
        Refusal::NoSuchItem,
        Refusal::Queued,
        Refusal::NotQueued,
        Refusal::Busy,
        Refusal::Null,
        Refusal::NoSuchStructure,
        Refusal::NotOnThisProcessor,
        Refusal::TooLarge,
        Refusal::TooFar,
        Refusal::Broken,
    ];

    /// What it means, in a few words.
    pub fn text(self) -> &'static CStr {
        match self {
            Refusal::Empty => c"nothing is queued",
            Refusal::NoSuchItem => c"the item is not below the queue's capacity",
            Refusal::Queued => c"the item is queued already: requeue it",
            Refusal::NotQueued => c"the item is not queued",
            Refusal::Busy => c"the queue is being walked by for_each",
            Refusal::Null => c"a pointer is NULL",
            Refusal::NoSuchStructure => c"there is no structure of this name",
            Refusal::NotOnThisProcessor => c"the processor lacks the structure's instructions",
            Refusal::TooLarge => c"a queue holds at most 2^30 items",
            Refusal::TooFar => c"the key is 2^61 or more from the latest that was popped",
            Refusal::Broken => c"the queue is broken by a bug: destroy it",
        }
    }
}

/// Most items of a queue: 2^30, below what all structures can number.
pub const CAPACITY_MAX: u32 = 1 << 30;

/// How far a key may not be from the present, on either side: so all that are queued are less than
/// 2^62 apart, as [`RunQueue`] wants them.
pub const FAR: u64 = 1 << 61;

/// A run queue with its type forgotten.
trait Held {
    fn is_exact(&self) -> bool;
    fn push(&mut self, item: u32, key: u64);
    fn pop(&mut self) -> Option<u32>;
    fn peek(&mut self) -> Option<u32>;
    fn remove(&mut self, item: u32);
    fn requeue(&mut self, item: u32, key: u64);
    fn key(&self, item: u32) -> u64;
    fn contains(&self, item: u32) -> bool;
    fn len(&self) -> usize;
    fn for_each(&mut self, visit: &mut dyn FnMut(u32, u64));
    fn memory_bytes(&self) -> usize;
}

impl<Q: RunQueue> Held for Q {
    fn is_exact(&self) -> bool {
        Q::EXACT
    }
    fn push(&mut self, item: u32, key: u64) {
        RunQueue::push(self, item, key);
    }
    fn pop(&mut self) -> Option<u32> {
        RunQueue::pop(self)
    }
    fn peek(&mut self) -> Option<u32> {
        RunQueue::peek(self)
    }
    fn remove(&mut self, item: u32) {
        RunQueue::remove(self, item);
    }
    fn requeue(&mut self, item: u32, key: u64) {
        RunQueue::requeue(self, item, key);
    }
    fn key(&self, item: u32) -> u64 {
        RunQueue::key(self, item)
    }
    fn contains(&self, item: u32) -> bool {
        RunQueue::contains(self, item)
    }
    fn len(&self) -> usize {
        RunQueue::len(self)
    }
    fn for_each(&mut self, visit: &mut dyn FnMut(u32, u64)) {
        RunQueue::for_each(self, visit);
    }
    fn memory_bytes(&self) -> usize {
        RunQueue::memory_bytes(self)
    }
}

/// A structure that a queue can be made of.
pub struct Structure {
    /// Its name, [`RunQueue::NAME`].
    pub name: &'static CStr,
    is_here: fn() -> bool,
    create: fn(usize) -> Box<dyn Held>,
}

impl Structure {
    const fn of<Q: RunQueue + 'static>(name: &'static CStr) -> Self {
        Structure {
            name,
            is_here: Q::is_here,
            create: |capacity| Box::new(Q::with_capacity(capacity)),
        }
    }
}

/// All structures; the first is the one to take if nothing speaks against it.
pub const STRUCTURES: [Structure; 18] = [
    Structure::of::<ExactTimeRing>(c"exact_time_ring"),
    Structure::of::<RedBlackTree>(c"red_black_tree"),
    Structure::of::<GavlTree>(c"gavl_tree"),
    Structure::of::<GavlTreeDelete>(c"gavl_tree_delete"),
    Structure::of::<GavlTreePublished>(c"gavl_tree_published"),
    Structure::of::<BinaryHeap>(c"binary_heap"),
    Structure::of::<FourAryHeap>(c"four_ary_heap"),
    Structure::of::<PairingHeap>(c"pairing_heap"),
    Structure::of::<SkipList>(c"skip_list"),
    Structure::of::<SkipListMuqss>(c"skip_list_muqss"),
    Structure::of::<CalendarQueue>(c"calendar_queue"),
    Structure::of::<RadixWheel>(c"radix_wheel"),
    Structure::of::<TimeRing>(c"time_ring"),
    Structure::of::<BitmapLevels>(c"bitmap_levels"),
    Structure::of::<FifoList>(c"fifo"),
    Structure::of::<ExactTimeRingScalar>(c"exact_time_ring_scalar"),
    Structure::of::<ExactTimeRingAvx2>(c"exact_time_ring_avx2"),
    Structure::of::<ExactTimeRingAvx512>(c"exact_time_ring_avx512"),
];

/// What `struct schedlab_runqueue` is.
pub struct Queue {
    capacity: u32,
    /// Borrowed while it is walked, so that whoever is shown an item cannot change the queue.
    held: RefCell<Box<dyn Held>>,
    /// The latest key that was popped, or the first that was pushed into an empty queue. No queued
    /// key of an exact structure is [`FAR`] from it: it only moves to what is first.
    present: Cell<u64>,
    broken: Cell<bool>,
}

impl Queue {
    /// An empty queue.
    ///
    /// # Errors
    /// If there is no such structure here, or it cannot have as many items.
    pub fn new(structure: &CStr, capacity: u32) -> Result<Self, Refusal> {
        let structure = STRUCTURES
            .iter()
            .find(|known| known.name == structure)
            .ok_or(Refusal::NoSuchStructure)?;
        if !(structure.is_here)() {
            return Err(Refusal::NotOnThisProcessor);
        }
        if capacity > CAPACITY_MAX {
            return Err(Refusal::TooLarge);
        }
        let held = catch_unwind(|| (structure.create)(capacity as usize));
        let held = RefCell::new(held.map_err(|_| Refusal::Broken)?);
        Ok(Queue { capacity, held, present: Cell::new(0), broken: Cell::new(false) })
    }

    /// Queues an item.
    ///
    /// # Errors
    /// If there is no such item, it is queued, or its key is too far away.
    pub fn push(&self, item: u32, key: u64) -> Result<(), Refusal> {
        self.check(item)?;
        self.run(|held| {
            if held.contains(item) {
                return Err(Refusal::Queued);
            }
            if held.len() == 0 {
                self.present.set(key);
            }
            self.check_key(key)?;
            held.push(item, key);
            Ok(())
        })
    }

    /// Removes the first item and returns it.
    ///
    /// # Errors
    /// If nothing is queued.
    pub fn pop(&self) -> Result<u32, Refusal> {
        self.run(|held| {
            let item = held.pop().ok_or(Refusal::Empty)?;
            let key = held.key(item);
            if before(self.present.get(), key) {
                self.present.set(key);
            }
            Ok(item)
        })
    }

    /// The first item.
    ///
    /// # Errors
    /// If nothing is queued.
    pub fn peek(&self) -> Result<u32, Refusal> {
        self.run(|held| held.peek().ok_or(Refusal::Empty))
    }

    /// Removes an item.
    ///
    /// # Errors
    /// If there is no such item or it is not queued.
    pub fn remove(&self, item: u32) -> Result<(), Refusal> {
        self.with_queued(item, |held| {
            held.remove(item);
            Ok(())
        })
    }

    /// Gives an item another key.
    ///
    /// # Errors
    /// If there is no such item, it is not queued, or its new key is too far away.
    pub fn requeue(&self, item: u32, key: u64) -> Result<(), Refusal> {
        self.with_queued(item, |held| {
            self.check_key(key)?;
            held.requeue(item, key);
            Ok(())
        })
    }

    /// The key that an item was last pushed with.
    ///
    /// # Errors
    /// If there is no such item.
    pub fn key(&self, item: u32) -> Result<u64, Refusal> {
        self.check(item)?;
        self.run(|held| Ok(held.key(item)))
    }

    /// Whether an item is queued.
    ///
    /// # Errors
    /// If there is no such item.
    pub fn contains(&self, item: u32) -> Result<bool, Refusal> {
        self.check(item)?;
        self.run(|held| Ok(held.contains(item)))
    }

    /// How many items are queued.
    ///
    /// # Errors
    /// If the queue is being walked.
    pub fn len(&self) -> Result<usize, Refusal> {
        self.run(|held| Ok(held.len()))
    }

    /// Whether its structure keeps exact order.
    ///
    /// # Errors
    /// If the queue is being walked.
    pub fn is_exact(&self) -> Result<bool, Refusal> {
        self.run(|held| Ok(held.is_exact()))
    }

    /// Shows every item and its key in order.
    ///
    /// # Errors
    /// If the queue is being walked.
    pub fn for_each(&self, visit: &mut dyn FnMut(u32, u64)) -> Result<(), Refusal> {
        self.run(|held| {
            held.for_each(visit);
            Ok(())
        })
    }

    /// Bytes that it holds.
    ///
    /// # Errors
    /// If the queue is being walked.
    pub fn memory_bytes(&self) -> Result<usize, Refusal> {
        self.run(|held| Ok(held.memory_bytes()))
    }

    /// Whether somebody walks it now.
    pub fn is_busy(&self) -> bool {
        self.held.try_borrow().is_err()
    }

    fn check(&self, item: u32) -> Result<(), Refusal> {
        if item < self.capacity { Ok(()) } else { Err(Refusal::NoSuchItem) }
    }

    fn check_key(&self, key: u64) -> Result<(), Refusal> {
        let distance = (key.wrapping_sub(self.present.get()) as i64).unsigned_abs();
        if distance < FAR { Ok(()) } else { Err(Refusal::TooFar) }
    }

    fn with_queued(
        &self,
        item: u32,
        change: impl FnOnce(&mut dyn Held) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        self.check(item)?;
        self.run(|held| if held.contains(item) { change(held) } else { Err(Refusal::NotQueued) })
    }

    /// Runs an operation, which must not panic; if it does, no other one is run.
    fn run<T>(
        &self,
        operation: impl FnOnce(&mut dyn Held) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut held = self.held.try_borrow_mut().map_err(|_| Refusal::Busy)?;
        if self.broken.get() {
            return Err(Refusal::Broken);
        }
        // What a panic leaves half done is never looked at again.
        catch_unwind(AssertUnwindSafe(|| operation(held.as_mut()))).unwrap_or_else(|_| {
            self.broken.set(true);
            Err(Refusal::Broken)
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    //! Goal: wrong use is refused and changes nothing. Method: use every structure wrongly.

    use super::*;

    /// Every structure that this processor has, for ten items.
    fn queues() -> impl Iterator<Item = Queue> {
        let here = STRUCTURES.iter().filter(|structure| (structure.is_here)());
        here.map(|structure| Queue::new(structure.name, 10).unwrap())
    }

    fn walked(queue: &Queue) -> Vec<(u32, u64)> {
        let mut walked = Vec::new();
        queue.for_each(&mut |item, key| walked.push((item, key))).unwrap();
        walked
    }

    #[test]
    fn structures_have_the_names_of_their_types() {
        fn name<Q: RunQueue>() -> &'static str {
            Q::NAME
        }
        let names = [
            name::<ExactTimeRing>(),
            name::<RedBlackTree>(),
            name::<GavlTree>(),
            name::<GavlTreeDelete>(),
            name::<GavlTreePublished>(),
            name::<BinaryHeap>(),
            name::<FourAryHeap>(),
            name::<PairingHeap>(),
            name::<SkipList>(),
            name::<SkipListMuqss>(),
            name::<CalendarQueue>(),
            name::<RadixWheel>(),
            name::<TimeRing>(),
            name::<BitmapLevels>(),
            name::<FifoList>(),
            name::<ExactTimeRingScalar>(),
            name::<ExactTimeRingAvx2>(),
            name::<ExactTimeRingAvx512>(),
        ];
        assert_eq!(STRUCTURES.map(|structure| structure.name.to_str().unwrap()), names);
    }

    #[test]
    fn wrong_use_is_refused_and_changes_nothing() {
        for queue in queues() {
            assert_eq!(queue.pop(), Err(Refusal::Empty));
            assert_eq!(queue.peek(), Err(Refusal::Empty));
            queue.push(3, 7).unwrap();
            queue.push(4, 8).unwrap();
            assert_eq!(queue.push(3, 1), Err(Refusal::Queued));
            for item in [10, 11, u32::MAX] {
                assert_eq!(queue.push(item, 1), Err(Refusal::NoSuchItem));
                assert_eq!(queue.remove(item), Err(Refusal::NoSuchItem));
                assert_eq!(queue.requeue(item, 1), Err(Refusal::NoSuchItem));
                assert_eq!(queue.key(item), Err(Refusal::NoSuchItem));
                assert_eq!(queue.contains(item), Err(Refusal::NoSuchItem));
            }
            assert_eq!(queue.remove(5), Err(Refusal::NotQueued));
            assert_eq!(queue.requeue(5, 1), Err(Refusal::NotQueued));
            assert_eq!(walked(&queue), [(3, 7), (4, 8)]);
            assert_eq!(
                (queue.pop(), queue.pop(), queue.pop()),
                (Ok(3), Ok(4), Err(Refusal::Empty))
            );
        }
    }

    #[test]
    fn whoever_is_shown_an_item_cannot_use_the_queue() {
        for queue in queues() {
            queue.push(3, 7).unwrap();
            let mut shown = 0;
            queue
                .for_each(&mut |_, _| {
                    shown += 1;
                    assert!(queue.is_busy());
                    assert_eq!(queue.pop(), Err(Refusal::Busy));
                    assert_eq!(queue.push(1, 1), Err(Refusal::Busy));
                    assert_eq!(queue.len(), Err(Refusal::Busy));
                })
                .unwrap();
            assert_eq!((shown, queue.is_busy(), queue.pop()), (1, false, Ok(3)));
        }
    }

    #[test]
    fn a_queue_that_panicked_is_not_used_again() {
        for queue in queues() {
            queue.push(3, 7).unwrap();
            let walk = queue.for_each(&mut |_, _| panic!("on purpose"));
            assert_eq!(walk, Err(Refusal::Broken));
            assert_eq!(queue.pop(), Err(Refusal::Broken));
            assert_eq!(queue.push(1, 1), Err(Refusal::Broken));
            assert!(!queue.is_busy());
        }
    }

    #[test]
    fn what_cannot_be_made_is_refused() {
        let refusal = |structure, capacity| Queue::new(structure, capacity).err();
        assert_eq!(refusal(c"red_black_tre", 1), Some(Refusal::NoSuchStructure));
        assert_eq!(refusal(c"fifo", CAPACITY_MAX + 1), Some(Refusal::TooLarge));
        for structure in &STRUCTURES {
            let expected = (!(structure.is_here)()).then_some(Refusal::NotOnThisProcessor);
            assert_eq!(refusal(structure.name, 0), expected, "{:?}", structure.name);
        }
    }
}
