//! The sorted entries that leave next: arrays that are drained from their head.

use super::chunks::{CHUNK, Chunk, HOLE};
use super::lanes::{self, Lanes, PREPARED};
use std::ops::Range;

/// Places before the first entry after a refill.
const HEADROOM: usize = 8;
/// Longest front that an entry is put into; a longer one is cut in half first.
pub(super) const LONG: usize = 64;
/// Places: headroom, a full front, and what loops over whole vectors may write behind it.
const PLACES: usize = HEADROOM + LONG + 40;
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Arrays {
    keys: [i64; PLACES],
    tags: [u64; PLACES],
}

#[derive(Clone, Debug)]
pub(super) struct Front {
    arrays: Arrays,
    head: usize,
    tail: usize,
    lanes: Lanes,
}

impl Front {
    pub fn new(lanes: Lanes) -> Self {
        let arrays = Arrays { keys: [HOLE; PLACES], tags: [0; PLACES] };
        Front { arrays, head: HEADROOM, tail: HEADROOM, lanes }
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.tail - self.head
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.tail == self.head
    }

    #[inline(always)]
    pub fn first(&self) -> u64 {
        self.arrays.tags[self.head]
    }

    #[inline(always)]
    pub fn pop(&mut self) -> u64 {
        let tag = self.arrays.tags[self.head];
        self.head += 1;
        tag
    }

    /// Whether all keys are equal.
    #[inline(always)]
    pub fn is_level(&self) -> bool {
        !self.is_empty() && self.arrays.keys[self.head] == self.arrays.keys[self.tail - 1]
    }

    pub fn keys(&self) -> &[i64] {
        &self.arrays.keys[self.head..self.tail]
    }

    pub fn tags(&self) -> &[u64] {
        &self.arrays.tags[self.head..self.tail]
    }

    /// Makes an empty front ready to be filled.
    #[inline(always)]
    fn reset(&mut self) {
        debug_assert!(self.is_empty());
        self.head = HEADROOM;
        self.tail = HEADROOM;
    }

    /// Fills the empty front with the entries of one or two chunks, in order: of the first so many
    /// places, less those removed. Their keys are in this stretch.
    #[inline(always)]
    pub fn sort(
        &mut self,
        first: &Chunk,
        second: &Chunk,
        places: usize,
        removed: usize,
        stretch: &Range<i64>,
    ) {
        self.reset();
        let Arrays { keys, tags } = &mut self.arrays;
        keys[HEADROOM..HEADROOM + PREPARED + 8].fill(HOLE);
        let (keys, tags) = (&mut keys[HEADROOM..], &mut tags[HEADROOM..]);
        lanes::sort_chunks(self.lanes, first, second, places, stretch, keys, tags);
        self.tail = HEADROOM + places - removed;
    }

    /// Fills the empty front with the entries of a chunk as they stand.
    pub fn copy(&mut self, chunk: &Chunk) {
        self.reset();
        let Arrays { keys, tags } = &mut self.arrays;
        keys[HEADROOM..HEADROOM + PREPARED + 8].fill(HOLE);
        if chunk.keys.iter().all(|key| *key != HOLE) {
            keys[HEADROOM..HEADROOM + CHUNK].copy_from_slice(&chunk.keys);
            tags[HEADROOM..HEADROOM + CHUNK].copy_from_slice(&chunk.tags);
            self.tail = HEADROOM + CHUNK;
            return;
        }
        for (&key, &tag) in chunk.keys.iter().zip(&chunk.tags) {
            keys[self.tail] = key;
            tags[self.tail] = tag;
            self.tail += usize::from(key != HOLE);
        }
    }

    /// Fills the empty front with entries in any order, at most `LONG`; holes are passed over.
    pub fn collect(&mut self, entries: impl Iterator<Item = (i64, u64)>) {
        self.reset();
        for (key, tag) in entries.filter(|entry| entry.0 != HOLE) {
            self.arrays.keys[self.tail] = key;
            self.arrays.tags[self.tail] = tag;
            self.tail += 1;
        }
        self.arrays.keys[self.tail..].fill(HOLE);
        // Insertion keeps equal keys in order; few come this way.
        for place in HEADROOM + 1..self.tail {
            let mut at = place;
            while at > HEADROOM && self.arrays.keys[at - 1] > self.arrays.keys[at] {
                self.arrays.keys.swap(at - 1, at);
                self.arrays.tags.swap(at - 1, at);
                at -= 1;
            }
        }
    }

    /// Cuts off the later half and shows it to `half`, in order.
    pub fn cut(&mut self, half: impl FnOnce(&[i64], &[u64])) {
        let from = self.head + self.len() / 2;
        half(&self.arrays.keys[from..self.tail], &self.arrays.tags[from..self.tail]);
        self.arrays.keys[from..self.tail].fill(HOLE);
        self.tail = from;
    }

    /// Puts an entry in behind all that are not after it. The front must be shorter than `LONG`.
    #[inline(always)]
    pub fn insert(&mut self, key: i64, tag: u64) {
        if self.tail >= HEADROOM + PREPARED && self.len() <= PREPARED * 3 / 4 {
            self.rewind();
        }
        let Arrays { keys, tags } = &mut self.arrays;
        if self.head == self.tail || key < keys[self.head] {
            if self.head > 0 {
                self.head -= 1;
                keys[self.head] = key;
                tags[self.head] = tag;
                return;
            }
        } else if self.head >= HEADROOM && self.tail < HEADROOM + PREPARED {
            // The first entry stays, so whatever happens before it concerns only places that were
            // popped.
            let (keys, tags) = (&mut keys[HEADROOM..], &mut tags[HEADROOM..]);
            lanes::insert_front(self.lanes, keys, tags, key, tag);
            self.tail += 1;
            return;
        }
        self.insert_anywhere(key, tag);
    }

    /// Moves everything back to the beginning.
    #[inline(never)]
    fn rewind(&mut self) {
        let Arrays { keys, tags } = &mut self.arrays;
        keys.copy_within(self.head..self.tail, HEADROOM);
        tags.copy_within(self.head..self.tail, HEADROOM);
        self.tail = HEADROOM + self.tail - self.head;
        self.head = HEADROOM;
        keys[self.tail..].fill(HOLE);
    }

    fn insert_anywhere(&mut self, key: i64, tag: u64) {
        if self.tail == PLACES - 8 {
            self.rewind();
        }
        let before = self.keys().iter().map(|other| usize::from(*other <= key)).sum::<usize>();
        let place = self.head + before;
        let Arrays { keys, tags } = &mut self.arrays;
        keys.copy_within(place..self.tail, place + 1);
        tags.copy_within(place..self.tail, place + 1);
        keys[place] = key;
        tags[place] = tag;
        self.tail += 1;
    }

    /// Takes the entry `tag` out, if it is here.
    pub fn remove(&mut self, tag: u64) -> bool {
        let Some(before) = self.tags().iter().position(|other| *other == tag) else {
            return false;
        };
        let place = self.head + before;
        let Arrays { keys, tags } = &mut self.arrays;
        keys.copy_within(place + 1..self.tail, place);
        tags.copy_within(place + 1..self.tail, place);
        self.tail -= 1;
        keys[self.tail] = HOLE;
        true
    }
}
