//! Where entries wait unsorted: lists of chunks of 16 entries, all from one pool.
//!
//! Entries are appended and stay in the order in which they came, which is what makes equal keys
//! leave first-in-first-out. A place without an entry holds the key [`HOLE`], larger than every
//! real key, so that it sorts itself to the end.

use crate::run_queue::NONE;

/// Entries in a chunk: two AVX-512 vectors of keys, four cache lines with the tags.
pub(super) const CHUNK: usize = 16;

/// The key of a place without an entry.
pub(super) const HOLE: i64 = i64::MAX;

#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Chunk {
    pub keys: [i64; CHUNK],
    pub tags: [u64; CHUNK],
}

impl Chunk {
    pub const BLANK: Chunk = Chunk { keys: [HOLE; CHUNK], tags: [0; CHUNK] };

    /// Its entries, key and tag, in order of arrival. Where holes are cannot be predicted, so they
    /// are closed without a branch first.
    #[inline(always)]
    pub fn entries(&self) -> impl Iterator<Item = (i64, u64)> {
        let (mut entries, mut count) = ([(0, 0); CHUNK], 0);
        for (&key, &tag) in self.keys.iter().zip(&self.tags) {
            entries[count % CHUNK] = (key, tag);
            count += usize::from(key != HOLE);
        }
        entries.into_iter().take(count)
    }
}

/// A list of chunks, of which only the last has free places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub head: u32,
    tail: u32,
    /// Entries, those that were removed among them.
    pub entries: u32,
}

impl Slot {
    pub const EMPTY: Slot = Slot { head: NONE, tail: NONE, entries: 0 };
}

/// A list of chunks that may have holes anywhere, and knows whether it is in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    pub head: u32,
    tail: u32,
    /// Places used in the last chunk; `CHUNK` where there is no chunk, so that the next entry
    /// takes one.
    fill: u32,
    /// Entries at most: some of those that were removed may still count.
    pub entries: u32,
    /// Whether keys never decrease from one entry to the next.
    pub sorted: bool,
    /// The last key, if it is sorted.
    last: i64,
}

impl Bucket {
    pub const EMPTY: Bucket = Bucket {
        head: NONE,
        tail: NONE,
        fill: CHUNK as u32,
        entries: 0,
        sorted: true,
        last: i64::MIN,
    };

    /// Whether there is one chunk, and nothing more.
    pub fn is_one_chunk(&self) -> bool {
        self.head == self.tail
    }
}

/// The pool.
#[derive(Clone, Debug)]
pub(super) struct Chunks {
    chunks: Box<[Chunk]>,
    /// The next chunk of the same list, or the next free one.
    next: Box<[u32]>,
    /// Entries of each chunk that were removed from it: holes.
    removed: Box<[u8]>,
    free: u32,
    /// All that were removed and whose places are not free yet.
    holes: usize,
}

/// Where an entry waits, for its item to remember: in a chunk, or in the first tier's table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(pub u32);

impl Place {
    pub const NONE: Place = Place(u32::MAX);
}

impl Chunks {
    pub fn new(count: usize) -> Self {
        let next = (1..=count as u32).map(|next| if next as usize == count { NONE } else { next });
        Chunks {
            chunks: vec![Chunk::BLANK; count].into_boxed_slice(),
            next: next.collect(),
            removed: vec![0; count].into_boxed_slice(),
            holes: 0,
            free: if count == 0 { NONE } else { 0 },
        }
    }

    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.chunks) + size_of_val(&*self.next) + self.removed.len()
    }

    #[inline(always)]
    fn take(&mut self) -> u32 {
        let chunk = self.free;
        assert_ne!(chunk, NONE, "the pool is sized for every item and cannot run dry");
        self.free = self.next[chunk as usize];
        self.next[chunk as usize] = NONE;
        chunk
    }

    /// Makes a chunk free; its keys become holes.
    #[inline(always)]
    pub fn give_back(&mut self, chunk: u32) {
        self.chunks[chunk as usize].keys = [HOLE; CHUNK];
        self.holes -= usize::from(std::mem::take(&mut self.removed[chunk as usize]));
        self.next[chunk as usize] = self.free;
        self.free = chunk;
    }

    /// Entries that were removed and whose places are not free yet.
    pub fn holes(&self) -> usize {
        self.holes
    }

    /// Entries that were removed from this chunk.
    #[inline(always)]
    pub fn removed(&self, chunk: u32) -> usize {
        usize::from(self.removed[chunk as usize])
    }

    /// Removes an entry.
    #[inline(always)]
    pub fn remove(&mut self, place: Place, tag: u64) {
        let (chunk, place) = (place.0 as usize / CHUNK, place.0 as usize % CHUNK);
        debug_assert_eq!(self.chunks[chunk].tags[place], tag);
        debug_assert_ne!(self.chunks[chunk].keys[place], HOLE);
        self.chunks[chunk].keys[place] = HOLE;
        self.removed[chunk] += 1;
        self.holes += 1;
    }

    #[inline(always)]
    pub fn get(&self, chunk: u32) -> &Chunk {
        &self.chunks[chunk as usize]
    }

    #[inline(always)]
    pub fn after(&self, chunk: u32) -> u32 {
        self.next[chunk as usize]
    }

    /// Appends to a slot. Returns where, and whether the slot was empty.
    #[inline(always)]
    pub fn append(&mut self, slot: &mut Slot, key: i64, tag: u64) -> (Place, bool) {
        let place = slot.entries as usize % CHUNK;
        let mut first = false;
        if place == 0 {
            let chunk = self.take();
            first = slot.entries == 0;
            if first {
                slot.head = chunk;
            } else {
                self.next[slot.tail as usize] = chunk;
            }
            slot.tail = chunk;
        }
        let chunk = &mut self.chunks[slot.tail as usize];
        chunk.keys[place] = key;
        chunk.tags[place] = tag;
        slot.entries += 1;
        (Place(slot.tail * CHUNK as u32 + place as u32), first)
    }

    /// Appends to a bucket.
    #[inline(always)]
    pub fn push(&mut self, bucket: &mut Bucket, key: i64, tag: u64) -> Place {
        if bucket.fill as usize == CHUNK {
            let chunk = self.take();
            self.link(bucket, chunk, chunk);
            bucket.fill = 0;
        }
        let chunk = &mut self.chunks[bucket.tail as usize];
        let place = bucket.fill as usize % CHUNK;
        chunk.keys[place] = key;
        chunk.tags[place] = tag;
        bucket.fill += 1;
        bucket.entries += 1;
        bucket.sorted &= key >= bucket.last;
        bucket.last = key;
        Place(bucket.tail * CHUNK as u32 + place as u32)
    }

    #[inline(always)]
    fn link(&mut self, bucket: &mut Bucket, head: u32, tail: u32) {
        if bucket.tail == NONE {
            bucket.head = head;
        } else {
            self.next[bucket.tail as usize] = head;
        }
        bucket.tail = tail;
        bucket.fill = CHUNK as u32;
    }

    /// Hangs a slot's chunks behind a bucket's, and empties the slot. Whether the bucket is in
    /// order is for the caller to say.
    pub fn join(&mut self, bucket: &mut Bucket, slot: &mut Slot) {
        let slot = std::mem::replace(slot, Slot::EMPTY);
        if slot.entries == 0 {
            return;
        }
        self.link(bucket, slot.head, slot.tail);
        bucket.entries += slot.entries;
        let place = (slot.entries as usize - 1) % CHUNK;
        bucket.last = self.chunks[slot.tail as usize].keys[place];
    }

    /// Moves all entries of a bucket behind those of another, without the holes.
    pub fn pour(&mut self, from: &mut Bucket, to: &mut Bucket) {
        while let Some(chunk) = self.take_first(from) {
            for (key, tag) in chunk.entries() {
                self.push(to, key, tag);
            }
        }
    }

    /// Entries of a slot that were not removed.
    pub fn left(&self, slot: &Slot) -> u32 {
        let (mut left, mut chunk) = (slot.entries, slot.head);
        while chunk != NONE {
            left -= u32::from(self.removed[chunk as usize]);
            chunk = self.after(chunk);
        }
        left
    }

    /// Closes the holes of a slot and tells `placed` where its entries are.
    pub fn close_up(&mut self, slot: &mut Slot, mut placed: impl FnMut(u64, Place)) {
        let mut chunk = slot.head;
        while chunk != NONE && self.removed(chunk) == 0 {
            chunk = self.after(chunk);
        }
        if chunk == NONE {
            return;
        }
        chunk = std::mem::replace(slot, Slot::EMPTY).head;
        while chunk != NONE {
            let after = self.after(chunk);
            for place in 0..CHUNK {
                let (key, tag) = (self.get(chunk).keys[place], self.get(chunk).tags[place]);
                if key != HOLE {
                    placed(tag, self.append(slot, key, tag).0);
                }
            }
            self.give_back(chunk);
            chunk = after;
        }
    }

    /// Tells `placed` where the entries of a bucket are.
    pub fn places(&self, bucket: &Bucket, mut placed: impl FnMut(u64, Place)) {
        let mut chunk = bucket.head;
        while chunk != NONE {
            let entries = std::iter::zip(&self.get(chunk).keys, &self.get(chunk).tags);
            for (place, (_, &tag)) in entries.enumerate().filter(|(_, (key, _))| **key != HOLE) {
                placed(tag, Place(chunk * CHUNK as u32 + place as u32));
            }
            chunk = self.after(chunk);
        }
    }

    /// Puts entries, which are in order and not after any that is there, before all others, and
    /// tells `placed` where they are.
    pub fn prepend(
        &mut self,
        bucket: &mut Bucket,
        keys: &[i64],
        tags: &[u64],
        mut placed: impl FnMut(u64, Place),
    ) {
        for (keys, tags) in keys.rchunks(CHUNK).zip(tags.rchunks(CHUNK)) {
            let chunk = self.take();
            let from = CHUNK - keys.len();
            self.chunks[chunk as usize].keys[from..].copy_from_slice(keys);
            self.chunks[chunk as usize].tags[from..].copy_from_slice(tags);
            for (place, &tag) in (from..).zip(tags) {
                placed(tag, Place(chunk * CHUNK as u32 + place as u32));
            }
            self.next[chunk as usize] = bucket.head;
            bucket.head = chunk;
            if bucket.tail == NONE {
                bucket.tail = chunk;
                bucket.fill = CHUNK as u32;
                bucket.last = keys[keys.len() - 1];
            }
            bucket.entries += keys.len() as u32;
        }
    }

    /// Empties a bucket.
    pub fn clear(&mut self, bucket: &mut Bucket) {
        while bucket.head != NONE {
            let chunk = self.detach_first(bucket);
            self.give_back(chunk);
        }
    }

    /// Takes the first chunk out of a bucket: a copy of it, whose place is free again.
    pub fn take_first(&mut self, bucket: &mut Bucket) -> Option<Chunk> {
        let chunk = (bucket.head != NONE).then(|| self.detach_first(bucket))?;
        let copy = self.chunks[chunk as usize].clone();
        self.give_back(chunk);
        Some(copy)
    }

    /// Takes the first chunk away from a bucket that has one; the caller gives it back.
    pub fn detach_first(&mut self, bucket: &mut Bucket) -> u32 {
        let chunk = bucket.head;
        if bucket.is_one_chunk() {
            *bucket = Bucket::EMPTY;
        } else {
            let keys = &self.chunks[chunk as usize].keys;
            let entries = keys.iter().map(|key| u32::from(*key != HOLE)).sum();
            bucket.entries = bucket.entries.saturating_sub(entries);
            bucket.head = self.next[chunk as usize];
        }
        chunk
    }
}
