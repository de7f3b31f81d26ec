//! The time ring, as published: a ring of slots, each a stretch of time; order inside a slot is
//! not kept.
//!
//! Idea: time is divided into `slots` stretches of `granularity`. A task goes into the slot of
//! its key, or into the last one if it lies beyond; the next task is found by the first set bit
//! from the base on, and the base moves there.
//!
//! Cost: push, remove O(1); pop O(slots / 64) words of bits. One line an item, 8 bytes a slot.
//! Order: exact to one granularity inside the window of slots * granularity; whatever lies
//! beyond the window loses its order altogether, and what lies before the base joins the base's
//! slot. Lists are in order of arrival here; the proposal leaves that open.
//!
//! Choose it when being off by one granularity is allowed and the spread of keys is known. It is
//! no exact run queue: [`ExactTimeRing`](crate::ExactTimeRing) is its exact descendant.
//!
//! Source: D. Libenzi, time ring proposal, linux-kernel, April 2007: S = Ib + min((T - Tb) / Tg,
//! Ns - 1).

use crate::before;
use crate::lists::{EMPTY, Links, List};
use crate::run_queue::{NONE, RunQueue};

/// A time ring that forgets order inside a slot.
#[derive(Clone, Debug)]
pub struct TimeRing {
    links: Links,
    lists: Box<[List]>,
    occupied: Box<[u64]>,
    /// `Ib` and `Tb` of the proposal: the slot of the present and the key at which it begins.
    base_slot: usize,
    base_key: u64,
    granularity: u64,
    len: usize,
}

impl TimeRing {
    /// A ring of `slots` stretches (`Ns`, a power of two) of `granularity` (`Tg`) key units each.
    ///
    /// # Panics
    /// If `slots` is no power of two or `granularity` is 0.
    pub fn new(capacity: usize, slots: usize, granularity: u64) -> Self {
        assert!(slots.is_power_of_two(), "{slots} slots: the ring needs a power of two");
        assert_ne!(granularity, 0, "a slot of no length holds nothing");
        TimeRing {
            links: Links::new(capacity),
            lists: vec![EMPTY; slots].into_boxed_slice(),
            occupied: vec![0; slots.div_ceil(64)].into_boxed_slice(),
            base_slot: 0,
            base_key: 0,
            granularity,
            len: 0,
        }
    }

    fn slot_of(&self, key: u64) -> usize {
        let distance = if before(key, self.base_key) {
            0
        } else {
            (key.wrapping_sub(self.base_key) / self.granularity).min(self.lists.len() as u64 - 1)
        };
        (self.base_slot + distance as usize) & (self.lists.len() - 1)
    }

    /// How far the first occupied slot is from the base.
    fn distance_to_first(&self) -> Option<usize> {
        let (word, bit) = (self.base_slot / 64, self.base_slot % 64);
        let words = self.occupied.len();
        let here = self.occupied[word] >> bit;
        if here != 0 {
            return Some(here.trailing_zeros() as usize);
        }
        (1..=words).find_map(|step| {
            let bits = self.occupied[(word + step) % words];
            let distance = step * 64 + bits.trailing_zeros() as usize;
            (bits != 0).then(|| (distance - bit) & (self.lists.len() - 1))
        })
    }

    fn take(&mut self, slot: usize, item: u32) {
        self.links.unlink(&mut self.lists[slot], item);
        if self.lists[slot].is_empty() {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
        self.len -= 1;
    }
}

impl RunQueue for TimeRing {
    const NAME: &'static str = "time_ring";
    const EXACT: bool = false;

    /// 256 slots of 2^14 key units: 4 ms where keys are nanoseconds.
    fn with_capacity(capacity: usize) -> Self {
        TimeRing::new(capacity, 256, 1 << 14)
    }

    #[inline]
    fn push(&mut self, item: u32, key: u64) {
        let window = self.granularity.saturating_mul(self.lists.len() as u64);
        if self.len == 0 && key.wrapping_sub(self.base_key) >= window {
            // An empty ring may begin with what arrives; one that can hold it need not.
            self.base_key = key;
        }
        let slot = self.slot_of(key);
        self.links.prepare(item, key, slot as u32);
        self.links.append(&mut self.lists[slot], item);
        self.occupied[slot / 64] |= 1 << (slot % 64);
        self.len += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        let distance = self.distance_to_first()?;
        self.base_slot = (self.base_slot + distance) & (self.lists.len() - 1);
        self.base_key =
            self.base_key.wrapping_add((distance as u64).wrapping_mul(self.granularity));
        let item = self.lists[self.base_slot].head;
        self.take(self.base_slot, item);
        Some(item)
    }

    fn peek(&mut self) -> Option<u32> {
        let distance = self.distance_to_first()?;
        let item = self.lists[(self.base_slot + distance) & (self.lists.len() - 1)].head;
        debug_assert_ne!(item, NONE);
        Some(item)
    }

    #[inline]
    fn remove(&mut self, item: u32) {
        self.take(self.links.place(item) as usize, item);
    }

    #[inline]
    fn key(&self, item: u32) -> u64 {
        self.links.key(item)
    }

    fn contains(&self, item: u32) -> bool {
        self.links.is_linked(item)
    }

    fn len(&self) -> usize {
        self.len
    }

    fn for_each(&mut self, visit: &mut dyn FnMut(u32, u64)) {
        for step in 0..self.lists.len() {
            let slot = (self.base_slot + step) & (self.lists.len() - 1);
            self.links.visit(self.lists[slot], visit);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.links.memory_bytes() + self.lists.len() * size_of::<List>()
    }
}
