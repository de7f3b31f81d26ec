//! The first tier: up to some hundred entries, each of them one number, in order.
//!
//! An entry is the key's distance from the base, and below it the number of a slot in a table of
//! items. Slots are given out in order of arrival, so that comparing entries compares keys and
//! then arrivals, and an item is found by its entry as an entry is by its item. When slots run
//! out, which is once in some four hundred pushes, entries get new ones in their order.
//!
//! The newest entry is pending beside the sorted ones. A pop compares it with their first and
//! returns the smaller; in the same pass the other one gets its place. So a pop and a push, which
//! is what a scheduler does at each switch, are one pass without a branch that depends on keys,
//! and so are a removal and a push.
//!
//! Entries are compared as floating-point numbers, which processors do twice as fast as with
//! integers of 64 bits. Of positive numbers of either kind the order is the same, and all entries
//! are positive, finite and not too small to be a normal number: that is what keys have to be
//! near the base for.

use super::Nodes;
use super::chunks::Place;
use super::lanes::{self, Lanes, PLACES, Sorted};

/// So many that a hundred items get new slots less than once in three pushes of each, and that
/// the table, of which each queue has one, is not larger than the rest of it.
const SLOT_BITS: u32 = 9;
const SLOTS: usize = 1 << SLOT_BITS;
/// The base's own entry lies so high that all others are normal numbers.
const MIDDLE: i64 = 1 << (62 - SLOT_BITS);
/// Keys must be so near to the base: 52 days, where they are nanoseconds.
pub(super) const NEAR: u64 = MIDDLE as u64 / 2;
/// No entry: larger than all.
pub(super) const NOTHING: u64 = f64::INFINITY.to_bits();

#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Packed {
    sorted: Sorted,
    /// The newest entry, or `NOTHING`, and its item.
    pending: u64,
    pending_item: u32,
    /// The first of those that are sorted and its item, known here before they are asked for: to
    /// read a number that was written as a part of a vector takes long.
    first_item: u32,
    first: u64,
    /// Entries that are sorted, the pending one not among them.
    count: usize,
    next_slot: usize,
    /// How many there may be: what one pass is still worth with these lanes.
    places: usize,
    lanes: Lanes,
    items: [u32; SLOTS],
}

/// How many entries there may be with these lanes.
pub(super) fn places(lanes: Lanes) -> usize {
    match lanes {
        Lanes::Avx512 => PLACES,
        Lanes::Avx2 => PLACES * 3 / 4,
        Lanes::Scalar => PLACES / 4,
    }
}

impl Packed {
    pub fn new(lanes: Lanes) -> Self {
        Packed {
            sorted: [NOTHING; PLACES + 8],
            pending: NOTHING,
            pending_item: 0,
            first_item: 0,
            first: NOTHING,
            count: 0,
            next_slot: 0,
            places: places(lanes),
            lanes,
            items: [0; SLOTS],
        }
    }

    /// How many entries there may be.
    #[inline(always)]
    pub fn places(&self) -> usize {
        self.places
    }

    /// Whether entries need new slots before the next push.
    #[inline(always)]
    pub fn is_out_of_slots(&self) -> bool {
        self.next_slot == SLOTS
    }

    /// Adds an item behind all with an equal key. There must be room, and a slot.
    #[inline(always)]
    pub fn push(&mut self, nodes: &mut Nodes, key: i64, item: u32) {
        if self.pending != NOTHING {
            self.settle();
        }
        let slot = self.next_slot % SLOTS;
        self.next_slot += 1;
        self.items[slot] = item;
        nodes[item].place = Place(slot as u32);
        self.pending = entry(key, slot as u32);
        self.pending_item = item;
    }

    /// Gives the pending entry its place among the others.
    fn settle(&mut self) {
        lanes::insert(self.lanes, &mut self.sorted, self.count, self.pending);
        self.count += usize::from(self.pending != NOTHING);
        self.pending = NOTHING;
        self.know_first(self.sorted[0]);
    }

    #[inline(always)]
    fn know_first(&mut self, first: u64) {
        self.first = first;
        self.first_item = self.item(first);
    }

    /// The first item. There must be one.
    #[inline(always)]
    pub fn first(&self) -> u32 {
        if self.pending < self.first { self.pending_item } else { self.first_item }
    }

    /// Takes the first item out. There must be one.
    #[inline(always)]
    pub fn pop(&mut self) -> u32 {
        let pending = std::mem::replace(&mut self.pending, NOTHING);
        if self.count == 0 {
            return self.pending_item;
        }
        let item = if pending < self.first { self.pending_item } else { self.first_item };
        // What the pass below does to the first place.
        let second = self.sorted[1];
        let next = if pending < second { pending } else { second };
        let first = if self.first > next { self.first } else { next };
        if self.count > 1 {
            lanes::replace_first(self.lanes, &mut self.sorted, self.count, pending);
        } else {
            self.sorted[0] = first;
        }
        self.know_first(first);
        self.count -= usize::from(pending == NOTHING);
        item
    }

    /// Takes an item out that was pushed with this key and is at this place.
    #[inline(always)]
    pub fn remove(&mut self, key: i64, place: Place) {
        let out = entry(key, place.0);
        let pending = std::mem::replace(&mut self.pending, NOTHING);
        if out == pending {
            return;
        }
        lanes::replace(self.lanes, &mut self.sorted, self.count, out, pending);
        self.count -= usize::from(pending == NOTHING);
        if out == self.first {
            self.know_first(self.sorted[0]);
        } else if pending < self.first {
            // Known without a look at what the pass wrote, which would wait for it.
            (self.first, self.first_item) = (pending, self.pending_item);
        }
    }

    /// Gives all entries the first slots, in their order. Returns whether that was the order of
    /// their arrival.
    pub fn number_anew(&mut self, nodes: &mut Nodes) -> bool {
        self.settle();
        let (mut items, mut last, mut ordered) = ([0; PLACES], 0, true);
        for (slot, place) in self.sorted[..self.count].iter_mut().enumerate() {
            let old = *place % SLOTS as u64;
            ordered &= last <= old;
            last = old;
            items[slot] = self.items[old as usize];
            nodes[items[slot]].place = Place(slot as u32);
            *place = *place - old + slot as u64;
        }
        self.items[..self.count].copy_from_slice(&items[..self.count]);
        self.next_slot = self.count;
        self.know_first(self.sorted[0]);
        ordered
    }

    /// Takes everything out, in order.
    pub fn take_all(&mut self, mut each: impl FnMut(i64, u32)) {
        self.settle();
        for place in 0..std::mem::take(&mut self.count) {
            let entry = std::mem::replace(&mut self.sorted[place], NOTHING);
            each((entry >> SLOT_BITS) as i64 - MIDDLE, self.item(entry));
        }
        self.next_slot = 0;
        self.first = NOTHING;
    }

    #[inline(always)]
    fn item(&self, entry: u64) -> u32 {
        self.items[entry as usize % SLOTS]
    }
}

#[inline(always)]
fn entry(key: i64, slot: u32) -> u64 {
    ((key + MIDDLE) as u64) << SLOT_BITS | u64::from(slot)
}
