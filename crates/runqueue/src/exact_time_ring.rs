//! The exact time ring: the time ring of 2007 without its errors, and with the small sizes, where
//! run queues live, done by vectors.
//!
//! Idea: sort late, and only what is small and warm. One item or two are just kept. For more there
//! are three tiers, by how many are queued:
//!
//! 1. up to 128 (96 with AVX2, 32 without vectors): *packed*, one number each, sorted, and the
//!    newest entry pending beside them. A pop and the push that follows it are one pass of
//!    `max(A[i], min(p, A[i + 1]))`, with no branch that depends on keys ([`packed`]).
//! 2. more, queued in order, as round robin does: a *run*, appended to at its end.
//! 3. more, in any order: a *ring* of slots. A push appends to the slot of its key, unsorted. When
//!    a slot's time comes, its some fourteen entries are put in order at once, by a sorting network
//!    or by counting for each how many are smaller, into the *front*, from which pops take. What
//!    lies beyond the ring waits in lists, of which one comes in when half of the ring has passed,
//!    and what lies beyond those in one more ([`overflow`]); what is too much for one slot is
//!    divided into a finer rung ([`ring`]). Slots are made longer or shorter when they hold too few
//!    or too many.
//!
//! Why it is exact: entries of one key are always in one list, in order of arrival, and move from
//! list to list in that order; and each boundary splits all keys, `front < limit <= current <
//! current_end <= rungs < slots of the ring < overflow < beyond`, where an entry equal to a
//! boundary that has younger ones behind it is on its earlier side.
//!
//! Cost: push O(1); pop O(1) on average, at worst O(n): a rebuild of everything, which happens when
//! the number of items or the spread of keys has changed by a factor, a long list that comes into
//! the ring, or a pass over all that lies beyond the lists; remove O(1) on average in the ring,
//! where it leaves a hole that a pop passes over later, at most two for each item that there is
//! room for; one pass in the first tier and the front; a walk is n pops and pushes.
//! Memory, all of it allocated when the queue is made: for a capacity that fits into the first
//! tier at most 6 KiB and 144 bytes an item, its line of 64 among them, as there is no ring then,
//! only a sorted array for keys that are too far apart ([`wide`]); for larger ones at most 20 KiB
//! and 328 bytes an item.
//!
//! Choose it whenever the average counts. Choose a tree where one operation of O(n) must never
//! happen.
//!
//! Source: time ring, D. Libenzi, linux-kernel, April 2007; rungs, Tang, Goh, Thng, "Ladder
//! queue", ACM TOMACS 15(3), 2005; slots whose length follows the density of keys, R. Brown,
//! "Calendar queues", CACM 31(10), 1988. The first tier and the rest are this project's own.

mod chunks;
mod forms;
mod front;
mod lanes;
mod overflow;
mod packed;
mod ring;
#[cfg(test)]
mod tests;
mod tiers;
mod wide;

use crate::arena::Arena;
use crate::run_queue::{NONE, RunQueue, before, walk_by_popping};
use chunks::{Bucket, CHUNK, Chunk, Chunks, HOLE, Place, Slot};
pub use forms::{ExactTimeRingAvx2, ExactTimeRingAvx512, ExactTimeRingScalar};
use front::{Front, LONG};
pub use lanes::Lanes;
use packed::Packed;
use ring::Ring;
use std::ops::Range;
use tiers::RUN_MIN;
use wide::Wide;

/// How far keys may be from the base. Twice this is less than half of all keys, so a key that is
/// further away than it seems is seen to be far away.
const FAR: u64 = 1 << 60;
/// Most entries that are sorted at once.
const SORTED_MAX: u32 = 2 * CHUNK as u32;
/// Holes that there may be for each item that there is room for, before they are swept away: a hole
/// costs 16 bytes, and to sweep costs as much as some removals for each entry that is left.
const HOLES_PER_ITEM: usize = 2;
/// The same in a queue that needs no ring.
const HOLES_PER_ITEM_SMALL: usize = 1;
/// So many holes are always left alone.
const HOLES_LEAST: usize = 32;
/// Lists outside of the ring and its rungs that may have a chunk that is partly empty each.
const LISTS: usize = 4;
/// Capacities from here on do not fit into the first cache: items are fetched before they leave.
const FETCHED_FROM: usize = 512;
/// Nor do these into the second: fetching begins a slot earlier.
const FETCHED_AHEAD_FROM: usize = 1 << 13;

#[derive(Clone, Debug)]
struct Node {
    key: u64,
    /// Where its entry waits, unless that is in the front.
    place: Place,
    queued: bool,
}

type Nodes = Arena<Node>;

/// Where entries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    /// All in the first tier.
    Packed,
    /// In the front, and behind it in `current`, which is in order.
    Run,
    /// In the front, in `current`, in the ring.
    Ring,
    /// All in `wide`: keys are too far apart for the first tier, and there is no ring.
    Wide,
}

/// The exact time ring. What a visit of the first tier needs comes first, in one cache line and
/// those of `packed`: a machine has many queues, and most are not in the caches when their turn
/// comes.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct ExactTimeRing {
    nodes: Arena<Node>,
    base: u64,
    /// Items whose keys are too far from the base, in order of arrival.
    beyond: Vec<u32>,
    /// The only item of all, or the first of two, in no tier, or `NONE`: most run queues hold one
    /// task or two.
    lone: u32,
    /// The second of two, which is not before the first; `NONE` where there is no first.
    second: u32,
    /// Items queued in tiers.
    near: u32,
    tier: Tier,
    /// More entries than the first tier has room for are never queued, so there is no ring.
    small: bool,
    packed: Packed,
    /// Keys below it belong to the front.
    limit: i64,
    /// Keys from here on do not belong to `current`.
    current_end: i64,
    /// Pushes in a row whose key was not below the one before.
    ascending: u64,
    last_key: i64,
    /// Refills before the first tier is tried again, as keys were too far apart for it.
    patience: u32,
    /// More are swept away.
    holes_max: usize,
    ring: Ring,
    chunks: Chunks,
    front: Front,
    current: Bucket,
    wide: Wide,
    /// Room for all items in order, for draining, and for a walk, which may drain.
    order: Vec<u32>,
    walked: Vec<u32>,
}

const _: () = assert!(std::mem::offset_of!(ExactTimeRing, packed) == 64, "one line is before it");

impl ExactTimeRing {
    /// An empty queue that uses these lanes.
    ///
    /// # Panics
    /// If the processor does not have them.
    pub fn new(capacity: usize, lanes: Lanes) -> Self {
        assert!(lanes.is_here(), "this processor has no {lanes:?}");
        let small = capacity <= packed::places(lanes);
        let holes_each = if small { HOLES_PER_ITEM_SMALL } else { HOLES_PER_ITEM };
        let holes_max = holes_each * capacity + HOLES_LEAST;
        let ring = Ring::new(if small { 0 } else { capacity });
        let chunks = if small && capacity <= RUN_MIN {
            0
        } else {
            // Entries, holes, and for each list a chunk that is partly empty.
            (capacity + holes_max).div_ceil(CHUNK) + ring.lists() + LISTS
        };
        ExactTimeRing {
            tier: Tier::Packed,
            near: 0,
            lone: NONE,
            second: NONE,
            small,
            base: 0,
            limit: 0,
            current_end: HOLE,
            ascending: 0,
            last_key: 0,
            patience: 0,
            holes_max,
            ring,
            chunks: Chunks::new(chunks),
            nodes: Arena::new(capacity, Node { key: 0, place: Place::NONE, queued: false }),
            packed: Packed::new(lanes),
            front: Front::new(lanes),
            current: Bucket::EMPTY,
            wide: Wide::new(if small { capacity } else { 0 }),
            beyond: Vec::with_capacity(capacity),
            order: Vec::with_capacity(capacity),
            walked: Vec::with_capacity(capacity),
        }
    }

    /// Queues an item where no other is but two in no tier, or some that are all beyond.
    #[inline(never)]
    fn push_third(&mut self, item: u32, key: u64) {
        if self.lone == NONE {
            self.push_far(item, key);
            return;
        }
        let kept = [&mut self.lone, &mut self.second].map(|one| std::mem::replace(one, NONE));
        for one in kept {
            self.push_among(one, self.nodes[one].key);
        }
        self.push_among(item, key);
    }

    /// Queues an item into the tier that there is, or beyond.
    #[inline(always)]
    fn push_among(&mut self, item: u32, key: u64) {
        let (place, reach) = (key.wrapping_sub(self.base), self.reach());
        if place.wrapping_add(reach) > 2 * reach {
            self.push_far(item, key);
            return;
        }
        self.near += 1;
        self.push_near(place as i64, u64::from(item));
    }

    /// Queues an entry whose key is not far from the base.
    #[inline(always)]
    fn push_near(&mut self, key: i64, tag: u64) {
        // One after the other, and no more than these: from four on, compilers make a jump by
        // table of it, which costs the first tier a tenth.
        if self.tier == Tier::Packed {
            if self.near as usize > self.packed.places() || self.packed.is_out_of_slots() {
                self.make_room_for(key, tag);
            } else {
                self.packed.push(&mut self.nodes, key, tag as u32);
            }
        } else if self.tier == Tier::Ring {
            self.ascending = if key >= self.last_key { self.ascending + 1 } else { 0 };
            self.last_key = key;
            match self.ring.push(&mut self.chunks, key, tag) {
                Some(place) => self.nodes[tag as u32].place = place,
                None => self.push_soon(key, tag),
            }
        } else {
            self.push_run(key, tag);
        }
    }

    #[inline(always)]
    fn push_run(&mut self, key: i64, tag: u64) {
        if key < self.limit {
            self.push_before_run(key, tag);
            return;
        }
        self.nodes[tag as u32].place = self.chunks.push(&mut self.current, key, tag);
        if !self.current.sorted {
            self.leave_run();
        }
    }

    /// Queues an entry that is not to be put at a run's end; where there is no run, but a sorted
    /// array, that is each.
    #[inline(never)]
    fn push_before_run(&mut self, key: i64, tag: u64) {
        if self.tier == Tier::Wide {
            self.wide.push(key, tag as u32);
        } else {
            self.push_front(key, tag);
        }
    }

    fn build(&mut self, all: Bucket) {
        let (served, end) =
            self.ring.build(&mut self.chunks, &mut self.nodes, all, self.near.into(), self.limit);
        self.current = served;
        self.current_end = end;
        self.tier = Tier::Ring;
        self.ascending = 0;
    }

    /// Queues an entry that belongs to the slot that is being served, or before it.
    #[inline(never)]
    fn push_soon(&mut self, key: i64, tag: u64) {
        if key < self.limit {
            self.push_front(key, tag);
            return;
        }
        let place = if key < self.current_end {
            Some(self.chunks.push(&mut self.current, key, tag))
        } else {
            self.ring.push_rung(&mut self.chunks, key, tag)
        };
        debug_assert!(place.is_some(), "rungs reach to the end of the slot that they divide");
        self.nodes[tag as u32].place = place.unwrap_or(Place::NONE);
    }

    #[inline(always)]
    fn push_front(&mut self, key: i64, tag: u64) {
        if self.front.len() >= LONG {
            self.cut_front();
            if key >= self.limit {
                self.push_near(key, tag);
                return;
            }
        }
        self.front.insert(key, tag);
    }

    /// Puts the front's second half before everything else in `current`.
    #[cold]
    #[inline(never)]
    fn cut_front(&mut self) {
        let (chunks, current, limit) = (&mut self.chunks, &mut self.current, &mut self.limit);
        let nodes = &mut self.nodes;
        self.front.cut(|keys, tags| {
            *limit = keys[0];
            chunks.prepend(current, keys, tags, |tag, place| nodes[tag as u32].place = place);
        });
    }

    /// Fills the empty front with the first of these entries, which are all that there is before
    /// `current_end`, in one pass; the others are `current` again. Where keys are so uneven that
    /// one slot was divided time and again, that is what is left to do.
    #[cold]
    #[inline(never)]
    fn peel(&mut self, mut all: Bucket) {
        self.limit = self.current_end;
        while let Some(chunk) = self.chunks.take_first(&mut all) {
            for (key, tag) in chunk.entries() {
                self.push_soon(key, tag);
            }
        }
    }

    /// Fills the empty front with what comes next. `false`: nothing is left.
    #[inline(never)]
    fn refill(&mut self) -> bool {
        loop {
            if self.current.head != NONE {
                self.serve_current();
            } else if self.tier == Tier::Run || !self.open() {
                return false;
            }
            if !self.front.is_empty() {
                return true;
            }
        }
    }

    /// Asks for the cache lines of the run's next items, and of the chunk behind theirs.
    #[inline(always)]
    fn fetch_run(&self) {
        let next = self.current.head;
        if next == NONE {
            return;
        }
        for &tag in &self.chunks.get(next).tags {
            lanes::fetch(&self.nodes[tag as u32]);
        }
        let after = self.chunks.after(next);
        if after != NONE {
            lanes::fetch_lines(self.chunks.get(after));
        }
    }

    fn serve_current(&mut self) {
        if self.current.sorted {
            let chunk = self.chunks.detach_first(&mut self.current);
            self.front.copy(self.chunks.get(chunk));
            self.chunks.give_back(chunk);
            self.limit = self.front.keys().last().copied().unwrap_or(self.limit);
            if self.beyond.capacity() >= FETCHED_FROM {
                self.fetch_run();
            }
            return;
        }
        let entries = self.current.entries;
        if entries > SORTED_MAX {
            let (low, high) = ring::bounds(&self.chunks, self.current.head);
            // Equal keys are in order; so is nothing at all.
            self.current.sorted = low >= high;
            if low == high {
                self.ring.forgive();
            }
            if low < high {
                let old = std::mem::replace(&mut self.current, Bucket::EMPTY);
                let (chunks, nodes) = (&mut self.chunks, &mut self.nodes);
                match self.ring.rung_for(entries) {
                    Some(slots) => {
                        let (keys, end) = ((low, high), self.current_end);
                        self.ring.divide(chunks, nodes, old, slots, keys, end);
                        self.current_end = low;
                    }
                    None => self.peel(old),
                }
            }
            return;
        }
        let (chunks, current) = (&mut self.chunks, &mut self.current);
        let all = std::iter::from_fn(|| chunks.take_first(current));
        self.front.collect(all.flat_map(|chunk| std::iter::zip(chunk.keys, chunk.tags)));
        self.limit = self.current_end;
    }

    /// Opens the next slot; small ones go to the front at once. `false`: there is none.
    #[inline(always)]
    fn open(&mut self) -> bool {
        let near = u64::from(self.near);
        if (self.ring.is_out_of_tune(near) || self.ascending > near) && !self.ring.is_divided() {
            return self.rebuild();
        }
        let opened = self.ring.open(&mut self.chunks, &mut self.nodes);
        let Some((mut slot, stretch)) = opened else { return false };
        self.current_end = stretch.end;
        if slot.entries > SORTED_MAX && !self.fits_without_holes(&mut slot) {
            self.chunks.join(&mut self.current, &mut slot);
            self.current.sorted = false;
            return true;
        }
        if slot.entries > 0 {
            self.take(slot, &stretch);
        }
        self.limit = stretch.end;
        true
    }

    /// Closes the holes of a slot that has too many places to be sorted at once, if few enough
    /// have an entry: to divide it takes ten times as long.
    #[cold]
    #[inline(never)]
    fn fits_without_holes(&mut self, slot: &mut Slot) -> bool {
        let fits = self.chunks.left(slot) <= SORTED_MAX;
        if fits {
            // They go to the front now, so nobody has to know where they are.
            self.chunks.close_up(slot, |_, _| {});
        }
        fits
    }

    /// Sorts a small slot into the front.
    #[inline(always)]
    fn take(&mut self, slot: Slot, stretch: &Range<i64>) {
        let (first, second) = (slot.head, self.chunks.after(slot.head));
        let places = slot.entries as usize;
        let mut removed = self.chunks.removed(first);
        if places <= CHUNK {
            self.front.sort(self.chunks.get(first), &Chunk::BLANK, places, removed, stretch);
        } else {
            removed += self.chunks.removed(second);
            let (first, second_chunk) = (self.chunks.get(first), self.chunks.get(second));
            self.front.sort(first, second_chunk, places, removed, stretch);
            self.chunks.give_back(second);
        }
        self.chunks.give_back(first);
        if self.front.is_level() {
            self.ring.forgive();
        }
        let capacity = self.beyond.capacity();
        if capacity >= FETCHED_AHEAD_FROM && !self.ring.has_rungs() {
            self.ring.fetch_ahead(&self.chunks, &self.nodes);
        } else if capacity >= FETCHED_FROM {
            self.fetch();
        }
    }

    /// Asks for the cache lines of the items that come next.
    #[inline(always)]
    fn fetch(&self) {
        for &tag in self.front.tags() {
            lanes::fetch(&self.nodes[tag as u32]);
        }
    }

    /// Makes the ring's slots shorter or longer, or leaves the ring if all is in order.
    #[cold]
    #[inline(never)]
    fn rebuild(&mut self) -> bool {
        let ordered = self.ascending > u64::from(self.near);
        self.ascending = 0;
        let mut all = self.ring.collect(&mut self.chunks);
        let (low, high) = ring::bounds(&self.chunks, all.head);
        if low > high {
            self.chunks.clear(&mut all);
            return false;
        }
        all.sorted &= ordered;
        if all.sorted {
            let nodes = &mut self.nodes;
            self.chunks.places(&all, |tag, place| nodes[tag as u32].place = place);
            self.current = all;
            self.tier = Tier::Run;
        } else {
            self.build(all);
        }
        true
    }

    #[inline(always)]
    fn pop_near(&mut self) -> u32 {
        self.near -= 1;
        if self.tier == Tier::Packed {
            return self.packed.pop();
        }
        if self.front.is_empty() {
            return self.pop_behind();
        }
        self.front.pop() as u32
    }

    /// The same where the front is empty.
    #[inline(never)]
    fn pop_behind(&mut self) -> u32 {
        self.near += 1;
        self.refill_or_leave();
        self.near -= 1;
        match self.tier {
            Tier::Packed => self.packed.pop(),
            Tier::Wide => self.wide.pop().expect("items are queued"),
            _ => self.front.pop() as u32,
        }
    }
}

impl RunQueue for ExactTimeRing {
    const NAME: &'static str = "exact_time_ring";

    fn with_capacity(capacity: usize) -> Self {
        ExactTimeRing::new(capacity, Lanes::detect())
    }

    #[inline(always)]
    fn push(&mut self, item: u32, key: u64) {
        let node = &mut self.nodes[item];
        assert!(!node.queued, "item {item} is queued already");
        node.queued = true;
        node.key = key;
        if self.near == 0 {
            let first = self.lone;
            if first == NONE && self.beyond.is_empty() {
                self.lone = item;
            } else if first != NONE && self.second == NONE {
                // No branch: nobody foresees which of two keys is the earlier one.
                let sooner = u32::from(before(key, self.nodes[first].key)).wrapping_neg();
                let swapped = (first ^ item) & sooner;
                (self.lone, self.second) = (first ^ swapped, item ^ swapped);
            } else {
                self.push_third(item, key);
            }
            return;
        }
        self.push_among(item, key);
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<u32> {
        if self.near == 0 {
            if self.lone != NONE {
                let item = std::mem::replace(&mut self.lone, self.second);
                self.second = NONE;
                self.nodes[item].queued = false;
                return Some(item);
            }
            if !self.go_beyond() {
                return None;
            }
        }
        let item = self.pop_near();
        self.nodes[item].queued = false;
        Some(item)
    }

    fn peek(&mut self) -> Option<u32> {
        if self.lone != NONE {
            return Some(self.lone);
        }
        if self.near == 0 && !self.go_beyond() {
            return None;
        }
        if self.tier != Tier::Packed && self.front.is_empty() {
            self.refill_or_leave();
        }
        Some(match self.tier {
            Tier::Packed => self.packed.first(),
            Tier::Wide => return self.wide.first(),
            _ => self.front.first() as u32,
        })
    }

    fn remove(&mut self, item: u32) {
        let node = &mut self.nodes[item];
        assert!(node.queued, "item {item} is not queued");
        node.queued = false;
        if item == self.lone {
            self.lone = std::mem::replace(&mut self.second, NONE);
            return;
        }
        if item == self.second {
            self.second = NONE;
            return;
        }
        let tag = u64::from(item);
        let place = node.key.wrapping_sub(self.base);
        if place.wrapping_add(FAR) > 2 * FAR {
            self.beyond.retain(|other| *other != item);
            return;
        }
        self.near -= 1;
        if self.tier == Tier::Packed {
            self.packed.remove(place as i64, node.place);
            return;
        }
        if self.tier == Tier::Wide {
            self.wide.remove(place as i64, item);
            return;
        }
        if place as i64 <= self.limit && self.front.remove(tag) {
            return;
        }
        self.chunks.remove(node.place, tag);
        if self.chunks.holes() > self.holes_max {
            self.sweep();
        }
    }

    #[inline(always)]
    fn key(&self, item: u32) -> u64 {
        self.nodes[item].key
    }

    fn contains(&self, item: u32) -> bool {
        self.nodes[item].queued
    }

    fn len(&self) -> usize {
        let few = usize::from(self.lone != NONE) + usize::from(self.second != NONE);
        self.near as usize + self.beyond.len() + few
    }

    fn for_each(&mut self, visit: &mut dyn FnMut(u32, u64)) {
        let mut walked = std::mem::take(&mut self.walked);
        walk_by_popping(self, &mut walked, visit);
        self.walked = walked;
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes()
            + self.chunks.memory_bytes()
            + self.ring.memory_bytes()
            + self.wide.memory_bytes()
            + (self.order.capacity() + self.walked.capacity() + self.beyond.capacity()) * 4
            + size_of::<Self>()
    }
}
