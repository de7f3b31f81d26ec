//! The third tier: a ring of slots, each a stretch of keys, and what does not fit into it.
//!
//! This is the time ring of 2007 made exact. A slot is a list of entries in order of arrival; it
//! is sorted when its time has come, when it is small and warm. Entries beyond the ring's end do
//! not share the last slot, they wait in an [`overflow`](super::overflow), and come into the ring
//! before any entry that is queued later can reach the same slot. A slot that became too full is
//! divided into the slots of a finer rung.

use super::Nodes;
use super::chunks::{Bucket, CHUNK, Chunks, HOLE, Place, Slot};
use super::lanes;
use super::overflow::Overflow;
use crate::run_queue::NONE;
use std::ops::Range;

/// Entries that a slot should have when its time comes.
const AIM: u64 = 14;
/// Entries in a slot, on average, with which its stretch stays as it is. The larger is more than
/// twice the smaller, so that a stretch of half or twice the length is not changed back.
const FEW: u64 = 8;
const MANY: u64 = 23;
/// Slots from one opened to the next, of which the later holds many entries of one key, from where
/// on both could share a slot: the ring would reach that much farther. Tuned by their density, such
/// keys are four slots apart or nearer.
const SPARSE: i64 = 16;
/// Entries beyond the overflow's lists that may be gone through for each that is queued or was
/// served since the last tuning: with more, slots are far too short.
const PASSED_MOST: u64 = 8;
/// Fewest slots of the ring.
const SLOTS_MIN: usize = 16;
/// Items for each slot of the ring that there is room for, at most: with 5, keys reach beyond the
/// ring's end too often, which costs 200 to 1000 items up to 18 %; with 8, it costs 57 %.
const ITEMS_PER_SLOT: usize = 3;
/// The same for slots of rungs.
const ITEMS_PER_RUNG_SLOT: usize = 16;
/// Most slots of the ring: more, and their ends no longer stay in the cache.
const SLOTS_MAX: usize = 1 << 16;
/// Fewest and most slots of a rung.
const RUNG_SLOTS_LEAST: u32 = 8;
const RUNG_SLOTS_MOST: u32 = 256;
/// Rungs there can be at once: the slots of each stretch over at most a quarter of what those of
/// the one before do, and keys have 64 bits.
const RUNGS_MAX: usize = 34;
/// Slots of all rungs together: enough for two small rungs, and no more than there can be, as a
/// rung of 256 takes 7 bits of the keys, one of 8 takes 2.
const RUNG_SLOTS_MIN: usize = 16;
const RUNG_SLOTS_MAX: usize = (64 / 7 + 2) * RUNG_SLOTS_MOST as usize;

/// A division of one slot.
#[derive(Clone, Copy, Debug)]
struct Rung {
    start: i64,
    /// Keys from here on belong to what is before this rung.
    end: i64,
    shift: u32,
    slots: u32,
    /// The next slot to be opened.
    at: u32,
    /// Where its slots begin among those of all rungs.
    first: u32,
}

/// The ring, its overflow and its rungs.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    /// log2 of the keys that a slot stretches over.
    shift: u32,
    /// The number of the slot that is being served: `key >> shift`.
    at: i64,
    /// The number of the first slot that is not in the ring.
    end: i64,
    slots: Box<[Slot]>,
    occupied: Box<[u64]>,
    mask: usize,
    overflow: Overflow,
    rungs: Vec<Rung>,
    rung_slots: Box<[Slot]>,
    /// Since the last tuning: slots opened, entries in them.
    opened: u64,
    opened_entries: u64,
    /// What the slot opened last added to them, and how far from the one before it was.
    counted: u64,
    gap: i64,
    /// Slots of one key that were `SPARSE` or more apart, since the last tuning.
    sparse: u64,
    /// How many entries there were at the last tuning, and how many more slots must be opened
    /// before the next.
    tuned_for: u64,
    patience: u64,
}

impl Ring {
    pub fn new(capacity: usize) -> Self {
        if capacity == 0 {
            return Ring::with_slots(0, 0, 0);
        }
        let slots = (capacity / ITEMS_PER_SLOT).next_power_of_two().clamp(SLOTS_MIN, SLOTS_MAX);
        let rung_slots = (capacity / ITEMS_PER_RUNG_SLOT).clamp(RUNG_SLOTS_MIN, RUNG_SLOTS_MAX);
        Ring::with_slots(slots, rung_slots, RUNGS_MAX)
    }

    fn with_slots(slots: usize, rung_slots: usize, rungs: usize) -> Self {
        Ring {
            shift: 0,
            at: 0,
            end: 0,
            slots: vec![Slot::EMPTY; slots].into_boxed_slice(),
            occupied: vec![0; slots.div_ceil(64)].into_boxed_slice(),
            mask: 0,
            overflow: Overflow::new(slots),
            rungs: Vec::with_capacity(rungs),
            rung_slots: vec![Slot::EMPTY; rung_slots].into_boxed_slice(),
            opened: 0,
            opened_entries: 0,
            counted: 0,
            gap: 0,
            sparse: 0,
            tuned_for: 0,
            patience: 0,
        }
    }

    /// Chunks that can be partly empty at one time.
    pub fn lists(&self) -> usize {
        self.slots.len() + self.rung_slots.len() + self.overflow.lists()
    }

    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.slots)
            + size_of_val(&*self.occupied)
            + size_of_val(&*self.rung_slots)
            + self.overflow.memory_bytes()
            + self.rungs.capacity() * size_of::<Rung>()
    }

    /// Queues an entry behind the slot that is being served. `None`: it belongs to that slot, or
    /// before it, and the caller has to find its place.
    #[inline(always)]
    pub fn push(&mut self, chunks: &mut Chunks, key: i64, tag: u64) -> Option<Place> {
        let number = key >> self.shift;
        if number <= self.at {
            return None;
        }
        Some(self.push_behind(chunks, number, key, tag))
    }

    /// Queues an entry of this slot, which is behind the one that is being served.
    #[inline(always)]
    fn push_behind(&mut self, chunks: &mut Chunks, number: i64, key: i64, tag: u64) -> Place {
        if number < self.end {
            return self.append(chunks, number, key, tag);
        }
        self.overflow.push(chunks, (number, self.end), (key, tag))
    }

    #[inline(always)]
    fn append(&mut self, chunks: &mut Chunks, number: i64, key: i64, tag: u64) -> Place {
        let index = number as usize & self.mask;
        let (place, first) = chunks.append(&mut self.slots[index], key, tag);
        if first {
            self.occupied[index / 64] |= 1 << (index % 64);
        }
        place
    }

    /// Queues an entry in a rung, if its key is in one and behind the slot that is being served.
    #[inline(always)]
    pub fn push_rung(&mut self, chunks: &mut Chunks, key: i64, tag: u64) -> Option<Place> {
        let rung = self.rungs.iter().rev().find(|rung| key < rung.end)?;
        let slot = ((key - rung.start) as u64 >> rung.shift).min(u64::from(rung.slots) - 1);
        debug_assert!(slot >= u64::from(rung.at));
        let slot = &mut self.rung_slots[rung.first as usize + slot as usize];
        Some(chunks.append(slot, key, tag).0)
    }

    /// How many divisions of divisions there are.
    #[cfg(test)]
    pub fn depth(&self) -> usize {
        self.rungs.len()
    }

    /// log2 of what a slot stretches over.
    #[cfg(test)]
    pub fn slot_bits(&self) -> u32 {
        self.shift
    }

    /// What lies beyond the ring.
    #[cfg(test)]
    pub fn overflow(&self) -> &Overflow {
        &self.overflow
    }

    /// Whether a divided slot may have entries left.
    #[inline(always)]
    pub fn has_rungs(&self) -> bool {
        !self.rungs.is_empty()
    }

    /// Whether a divided slot has entries left. Rungs without are gone then, so that one has to be
    /// opened, or the ring built anew.
    #[inline(always)]
    pub fn is_divided(&mut self) -> bool {
        while let Some(rung) = self.rungs.last_mut() {
            if self.rung_slots[(rung.first + rung.at) as usize].entries > 0 {
                return true;
            }
            rung.at += 1;
            if rung.at == rung.slots {
                self.rungs.pop();
            }
        }
        false
    }

    /// The next slot that is not empty, of the finest rung if there is one, and its stretch of
    /// keys. `None`: no entry is left.
    #[inline(always)]
    pub fn open(&mut self, chunks: &mut Chunks, nodes: &mut Nodes) -> Option<(Slot, Range<i64>)> {
        self.counted = 0;
        while let Some(rung) = self.rungs.last_mut() {
            let slot = &mut self.rung_slots[(rung.first + rung.at) as usize];
            let start = rung.start + (i64::from(rung.at) << rung.shift);
            rung.at += 1;
            let slot = std::mem::replace(slot, Slot::EMPTY);
            let end = if rung.at == rung.slots {
                let end = rung.end;
                self.rungs.pop();
                end
            } else {
                // The last slots may reach over the rung's end, where older entries wait.
                (rung.start + (i64::from(rung.at) << rung.shift)).min(rung.end)
            };
            if slot.entries > 0 {
                return Some((slot, start..end));
            }
        }
        let before = self.at;
        loop {
            if let Some(number) = self.first_occupied() {
                let index = number as usize & self.mask;
                self.gap = number.wrapping_sub(before);
                self.at = number;
                self.occupied[index / 64] &= !(1 << (index % 64));
                let slot = std::mem::replace(&mut self.slots[index], Slot::EMPTY);
                self.counted = u64::from(slot.entries);
                self.opened += 1;
                self.opened_entries += self.counted;
                self.advance(chunks, nodes);
                return Some((slot, number << self.shift..(number + 1) << self.shift));
            }
            if self.overflow.is_empty() {
                return None;
            }
            self.at = self.overflow.low() - 1;
            self.end = self.at + 1;
            self.advance(chunks, nodes);
        }
    }

    /// Asks for the cache lines of what comes next: the chunks of the slot after next, and the
    /// items of the next slot, whose chunks were asked for the last time.
    #[inline(always)]
    pub fn fetch_ahead(&self, chunks: &Chunks, nodes: &Nodes) {
        let slot = |ahead: i64| &self.slots[(self.at + ahead) as usize & self.mask];
        let after_next = slot(2);
        if after_next.entries > 0 {
            lanes::fetch_lines(chunks.get(after_next.head));
            if after_next.entries as usize > CHUNK {
                lanes::fetch_lines(chunks.get(chunks.after(after_next.head)));
            }
        }
        let next = slot(1);
        if next.entries > 0 {
            let entries = next.entries as usize;
            for &tag in &chunks.get(next.head).tags[..entries.min(CHUNK)] {
                lanes::fetch(&nodes[tag as u32]);
            }
            if entries > CHUNK {
                let second = chunks.get(chunks.after(next.head));
                for &tag in &second.tags[..(entries - CHUNK).min(CHUNK)] {
                    lanes::fetch(&nodes[tag as u32]);
                }
            }
        }
    }

    /// Moves the ring's end on: as far as the ring reaches if nothing in the overflow would have
    /// to come in, otherwise when half of the ring is behind, to where a list of the overflow ends.
    #[inline(always)]
    fn advance(&mut self, chunks: &mut Chunks, nodes: &mut Nodes) {
        let (end, half) = (self.at + 1 + self.mask as i64, (self.mask / 2) as i64 + 1);
        if self.overflow.low() >= end {
            self.end = end;
        } else if self.end - self.at <= half {
            self.end = end & -half;
            self.take_in(chunks, nodes);
        }
    }

    /// Moves entries from the overflow into the ring.
    #[cold]
    #[inline(never)]
    fn take_in(&mut self, chunks: &mut Chunks, nodes: &mut Nodes) {
        while let Some(mut old) = self.overflow.take_before(self.end) {
            // Here and in `divide` chunks are read where they are: copies cost 7 % on bimodal keys.
            while old.head != NONE {
                let chunk = chunks.detach_first(&mut old);
                for place in 0..CHUNK {
                    let (key, tag) = (chunks.get(chunk).keys[place], chunks.get(chunk).tags[place]);
                    if key != HOLE {
                        let number = key >> self.shift;
                        nodes[tag as u32].place = self.push_behind(chunks, number, key, tag);
                    }
                }
                chunks.give_back(chunk);
            }
        }
    }

    /// The number of the first slot that is not empty.
    fn first_occupied(&self) -> Option<i64> {
        let from = self.at + 1;
        let (slots, start) = (self.mask + 1, from as usize & self.mask);
        let words = slots.div_ceil(64);
        let (word, bit) = (start / 64, start % 64);
        let here = self.occupied[word] >> bit;
        if here != 0 {
            return Some(from + i64::from(here.trailing_zeros()));
        }
        for step in 1..=words {
            let bits = self.occupied[(word + step) % words];
            if bits != 0 {
                let index = (word + step) % words * 64 + bits.trailing_zeros() as usize;
                return Some(from + (index.wrapping_sub(start) & self.mask) as i64);
            }
        }
        None
    }

    /// How many slots a new rung for so many entries has; `None`: there are no slots for one.
    pub fn rung_for(&self, entries: u32) -> Option<u32> {
        let taken = self.rungs.last().map_or(0, |rung| rung.first + rung.slots);
        let left = self.rung_slots.len() as u32 - taken;
        let most = (left >= RUNG_SLOTS_LEAST).then(|| 1 << left.ilog2())?;
        let slots = (entries / 8).next_power_of_two().clamp(RUNG_SLOTS_LEAST, RUNG_SLOTS_MOST);
        Some(slots.min(most))
    }

    /// Divides entries with keys from `low` to `high`, which differ, into the slots of a new
    /// rung, so many as `rung_for` says; keys from `end` on are not theirs.
    pub fn divide(
        &mut self,
        chunks: &mut Chunks,
        nodes: &mut Nodes,
        mut old: Bucket,
        slots: u32,
        (low, high): (i64, i64),
        end: i64,
    ) {
        let span = (high - low) as u64;
        let shift = (span / u64::from(slots)).checked_ilog2().map_or(0, |bits| bits + 1);
        let first = self.rungs.last().map_or(0, |rung| rung.first + rung.slots);
        while old.head != NONE {
            let chunk = chunks.detach_first(&mut old);
            for place in 0..CHUNK {
                let (key, tag) = (chunks.get(chunk).keys[place], chunks.get(chunk).tags[place]);
                if key != HOLE {
                    let slot = (key - low) as u64 >> shift;
                    let slot = &mut self.rung_slots[first as usize + slot as usize];
                    nodes[tag as u32].place = chunks.append(slot, key, tag).0;
                }
            }
            chunks.give_back(chunk);
        }
        self.rungs.push(Rung { start: low, end, shift, slots, at: 0, first });
    }

    /// All keys in the slot opened last were equal: many of them say nothing about its stretch,
    /// but that it could be longer if the slot before is far away.
    pub fn forgive(&mut self) {
        self.sparse += u64::from(self.counted >= FEW && self.gap >= SPARSE);
        if self.counted > MANY {
            self.opened -= 1;
            self.opened_entries -= self.counted;
            self.counted = 0;
        }
    }

    /// Whether the ring's slots should have another size. No slot may be open.
    #[inline(always)]
    pub fn is_out_of_tune(&self, entries: u64) -> bool {
        let grew = entries > 4 * self.tuned_for || 4 * entries < self.tuned_for;
        // Multiplied, as to divide takes long.
        let (few, many) = (FEW * self.opened, (MANY + 1) * self.opened);
        grew || 8 * self.sparse > self.patience
            || self.overflow.passed() > PASSED_MOST * (entries + self.opened_entries)
            || (self.has_evidence() && !(few..many).contains(&self.opened_entries))
    }

    /// Whether slots enough were opened to judge their stretch, or as many entries came in fewer.
    #[inline(always)]
    fn has_evidence(&self) -> bool {
        self.opened + self.opened_entries / 32 > self.patience
    }

    /// Takes all entries out: those of equal keys in their order, all in order if every entry
    /// came in order. Chunks are full and without holes then, so that filling other lists from
    /// them takes no more chunks than there are. Items do not know where they are.
    pub fn collect(&mut self, chunks: &mut Chunks) -> Bucket {
        let mut all = Bucket::EMPTY;
        while let Some(number) = self.first_occupied() {
            let index = number as usize & self.mask;
            self.at = number;
            self.occupied[index / 64] &= !(1 << (index % 64));
            let mut slot = Bucket::EMPTY;
            chunks.join(&mut slot, &mut self.slots[index]);
            chunks.pour(&mut slot, &mut all);
        }
        self.overflow.pour(chunks, &mut all);
        all
    }

    /// Makes the places free that removals left behind, but for those in rungs.
    pub fn sweep(&mut self, chunks: &mut Chunks, nodes: &mut Nodes) {
        for word in 0..self.occupied.len() {
            let mut left = self.occupied[word];
            while left != 0 {
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                let slot = &mut self.slots[word * 64 + bit];
                chunks.close_up(slot, |tag, place| nodes[tag as u32].place = place);
                if slot.entries == 0 {
                    self.occupied[word] &= !(1 << bit);
                }
            }
        }
        self.overflow.sweep(chunks, |tag, place| nodes[tag as u32].place = place);
    }

    /// Fills the empty ring with these entries, none of which is below `limit`. Returns those
    /// that belong to the slot that is being served, and the first key that does not.
    pub fn build(
        &mut self,
        chunks: &mut Chunks,
        nodes: &mut Nodes,
        mut all: Bucket,
        entries: u64,
        limit: i64,
    ) -> (Bucket, i64) {
        debug_assert!(self.rungs.is_empty() && self.overflow.is_empty());
        let (shift, mask) = (self.shift, self.mask);
        let each = self.opened_entries / self.opened.max(1);
        if self.sparse == 0 && self.has_evidence() && !(FEW..=MANY).contains(&each) {
            // What came is known better than what will.
            let finer = ((each.max(1) << 8) * 3 / 2 / AIM).ilog2() as i32 - 8;
            self.shift = (self.shift as i32 - finer).clamp(0, 60) as u32;
        } else {
            self.tune(chunks, &all);
        }
        let slots = (entries as usize / 2).next_power_of_two();
        self.mask = slots.clamp(SLOTS_MIN, self.slots.len()) - 1;
        let again = shift == self.shift && mask == self.mask;
        let low = bounds(chunks, all.head).0.min(HOLE - 1);
        self.at = ((limit - 1) >> self.shift).max((low >> self.shift) - 1);
        self.end = self.at + 1 + self.mask as i64;
        self.overflow.begin(self.mask + 1);
        self.patience =
            if again { (2 * self.patience + 64).min(1 << 40) } else { (entries / 8).max(64) };
        self.tuned_for = entries;
        (self.opened, self.opened_entries, self.counted, self.sparse) = (0, 0, 0, 0);
        let mut served = Bucket::EMPTY;
        while let Some(chunk) = chunks.take_first(&mut all) {
            for (key, tag) in chunk.entries() {
                let place = self.push(chunks, key, tag);
                nodes[tag as u32].place =
                    place.unwrap_or_else(|| chunks.push(&mut served, key, tag));
            }
        }
        (served, (self.at + 1) << self.shift)
    }

    /// Chooses the stretch of a slot by how densely the keys lie that come next: those in the
    /// smallest power of two from the first key on that has a part of all.
    fn tune(&mut self, chunks: &Chunks, all: &Bucket) {
        let low = bounds(chunks, all.head).0;
        let mut nearer = [0u64; 65];
        let mut chunk = all.head;
        while chunk != NONE {
            for &key in chunks.get(chunk).keys.iter().filter(|key| **key != HOLE) {
                nearer[64 - ((key - low) as u64).leading_zeros() as usize] += 1;
            }
            chunk = chunks.after(chunk);
        }
        // However many have the first key, that says only where one is.
        nearer[0] = nearer[0].min(1);
        let entries = nearer.iter().sum::<u64>();
        let (mut sum, mut bits) = (nearer[0], 0);
        while bits < 64 && sum < (entries / 16).max(2 * AIM).min(entries) {
            bits += 1;
            sum += nearer[bits];
        }
        // A slot stretches over 2^bits * AIM / sum, rounded to a power of two.
        let rough = (u128::from(AIM) << bits) * 3 / 2 / u128::from(sum.max(1));
        self.shift = rough.max(1).ilog2().min(60);
    }
}

/// Smallest and largest key in a list of chunks.
pub(super) fn bounds(chunks: &Chunks, head: u32) -> (i64, i64) {
    let (mut low, mut high) = (HOLE, i64::MIN);
    let mut chunk = head;
    while chunk != NONE {
        for &key in &chunks.get(chunk).keys {
            low = low.min(key);
            high = high.max(if key == HOLE { i64::MIN } else { key });
        }
        chunk = chunks.after(chunk);
    }
    (low, high)
}
