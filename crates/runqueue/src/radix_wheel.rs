//! A hierarchical timing wheel that stays exact: 64 slots a level, placed by the key's digits.
//!
//! Idea: the key's base-64 digits are compared with those of the present. The highest digit that
//! differs says the level, its value the slot; so a slot of level 0 is one key exactly. When a
//! slot of a higher level is due, its list is dealt out over the levels below, in order. Place is
//! a function of key and present alone, so equal keys always share a list and keep their order of
//! arrival. A key before the present moves the present back: what lies on the levels below the
//! digit that changes is hung together into one slot.
//!
//! Cost: push, remove O(1); pop O(levels) amortised, at most 11 for 64-bit keys; a push before the
//! present O(64 levels) at worst. One line an item, 5.6 KiB of heads.
//!
//! Choose it for thousands of items that lie close together, and for ties.
//!
//! Source: G. Varghese, A. Lauck, "Hashed and hierarchical timing wheels", 1987; the place by the
//! highest differing digit as in R. Ahuja, K. Mehlhorn, J. Orlin, R. Tarjan, "Faster algorithms
//! for the shortest path problem" (radix heap), 1990.

use crate::before;
use crate::lists::{EMPTY, Links, List};
use crate::run_queue::{NONE, RunQueue, walk_by_popping};

const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 64usize.div_ceil(DIGIT_BITS as usize);
const TOP: usize = LEVELS - 1;
/// The top digit has only the bits that are left: 16 values.
const TOP_SLOTS: u32 = 1 << (64 - DIGIT_BITS * TOP as u32);

/// A radix wheel.
#[derive(Clone, Debug)]
pub struct RadixWheel {
    links: Links,
    lists: Box<[[List; SLOTS]; LEVELS]>,
    occupied: [u64; LEVELS],
    /// The present: no queued key is before it.
    now: u64,
    len: usize,
    order: Vec<u32>,
}

#[inline(always)]
fn level_of(difference: u64) -> usize {
    ((difference | 1).ilog2() / DIGIT_BITS) as usize
}

#[inline(always)]
fn digit(key: u64, level: usize) -> usize {
    (key >> (DIGIT_BITS * level as u32)) as usize & (SLOTS - 1)
}

impl RadixWheel {
    #[inline(always)]
    fn hang(&mut self, item: u32) {
        let key = self.links.key(item);
        let level = level_of(key ^ self.now);
        let slot = digit(key, level);
        self.links.append(&mut self.lists[level][slot], item);
        self.occupied[level] |= 1 << slot;
    }

    #[inline(always)]
    fn empty(&mut self, level: usize, slot: usize) -> List {
        self.occupied[level] &= !(1 << slot);
        std::mem::replace(&mut self.lists[level][slot], EMPTY)
    }

    /// Moves the present back to `key`.
    fn rewind(&mut self, key: u64) {
        let level = level_of(key ^ self.now);
        let slot = digit(self.now, level);
        let mut all = self.empty(level, slot);
        for below in 0..level {
            while self.occupied[below] != 0 {
                let list = self.empty(below, self.occupied[below].trailing_zeros() as usize);
                self.links.concatenate(&mut all, list);
            }
        }
        if !all.is_empty() {
            self.lists[level][slot] = all;
            self.occupied[level] |= 1 << slot;
        }
        self.now = key;
    }

    /// The first occupied slot of a level. Only the top level may go round.
    #[inline(always)]
    fn first_slot(&self, level: usize) -> usize {
        let bits = self.occupied[level];
        if level < TOP {
            return bits.trailing_zeros() as usize;
        }
        let from = digit(self.now, TOP) as u32;
        let ahead = bits >> from | bits << (TOP_SLOTS - from);
        ((from + ahead.trailing_zeros()) % TOP_SLOTS) as usize
    }

    /// Deals out slots until the first item is on level 0 or alone in its slot; returns it.
    #[inline(always)]
    fn find_first(&mut self) -> u32 {
        loop {
            let level = self.occupied.iter().position(|&bits| bits != 0).unwrap_or(0);
            let slot = self.first_slot(level);
            let List { head, tail } = self.lists[level][slot];
            if level == 0 || head == tail {
                return head;
            }
            let list = self.empty(level, slot);
            let shift = DIGIT_BITS * level as u32;
            let above = if level == TOP { 0 } else { self.now >> shift >> DIGIT_BITS };
            self.now = (above << DIGIT_BITS | slot as u64) << shift;
            let mut item = list.head;
            while item != NONE {
                let next = self.links.next(item);
                self.hang(item);
                item = next;
            }
        }
    }
}

impl RunQueue for RadixWheel {
    const NAME: &'static str = "radix_wheel";

    fn with_capacity(capacity: usize) -> Self {
        RadixWheel {
            links: Links::new(capacity),
            lists: Box::new([[EMPTY; SLOTS]; LEVELS]),
            occupied: [0; LEVELS],
            now: 0,
            len: 0,
            order: Vec::with_capacity(capacity),
        }
    }

    #[inline]
    fn push(&mut self, item: u32, key: u64) {
        self.links.prepare(item, key, 0);
        if self.len == 0 {
            self.now = key;
        } else if before(key, self.now) {
            self.rewind(key);
        }
        self.hang(item);
        self.len += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        let item = self.peek()?;
        self.remove(item);
        // Nothing is left before this key, nor in the slot it was alone in.
        self.now = self.links.key(item);
        Some(item)
    }

    #[inline]
    fn peek(&mut self) -> Option<u32> {
        (self.len > 0).then(|| self.find_first())
    }

    #[inline]
    fn remove(&mut self, item: u32) {
        let key = self.links.key(item);
        let level = level_of(key ^ self.now);
        let slot = digit(key, level);
        self.links.unlink(&mut self.lists[level][slot], item);
        if self.lists[level][slot].is_empty() {
            self.occupied[level] &= !(1 << slot);
        }
        self.len -= 1;
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
        let mut order = std::mem::take(&mut self.order);
        walk_by_popping(self, &mut order, visit);
        self.order = order;
    }

    fn memory_bytes(&self) -> usize {
        self.links.memory_bytes() + size_of_val(&*self.lists) + self.order.capacity() * 4
    }
}
