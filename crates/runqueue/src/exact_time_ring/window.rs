//! The first tier: a few entries, of which the newest is pending beside a sorted window.
//!
//! A pop compares the pending entry with the window's first and returns the smaller one; in the
//! same pass over the window the other one gets its place. So a pop and a push, which is what a
//! scheduler does at each switch, are one pass without a branch that depends on keys.

use super::chunks::HOLE;
use super::lanes::{self, Lanes};

/// Entries in the window: four AVX-512 vectors.
pub(super) const PLACES: usize = 32;

/// Keys and tags of a window. A vector of holes follows, so that the last entry has a neighbour.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Sorted {
    pub keys: [i64; PLACES + 8],
    pub tags: [u64; PLACES + 8],
}

#[derive(Clone, Debug)]
pub(super) struct Window {
    sorted: Sorted,
    /// The newest entry: it is behind all with an equal key. `HOLE` if there is none.
    pending: i64,
    pending_tag: u64,
    /// Entries in the window, the pending one not among them.
    count: usize,
    /// How many there may be: what one pass is still worth with these lanes.
    places: usize,
    lanes: Lanes,
}

impl Window {
    pub fn new(lanes: Lanes) -> Self {
        Window {
            sorted: Sorted { keys: [HOLE; PLACES + 8], tags: [0; PLACES + 8] },
            pending: HOLE,
            pending_tag: 0,
            count: 0,
            places: if lanes == Lanes::Avx512 { PLACES } else { PLACES / 2 },
            lanes,
        }
    }

    /// Whether one more would not fit.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.count == self.places && self.pending != HOLE
    }

    /// With so few items left elsewhere the window takes over: half of what it holds, so that a
    /// queue whose length sways does not move to and fro.
    pub fn again(&self) -> usize {
        self.places / 2
    }

    /// Adds an entry behind all with an equal key. There must be room.
    #[inline(always)]
    pub fn push(&mut self, key: i64, tag: u64) {
        if self.pending != HOLE {
            self.settle();
        }
        self.pending = key;
        self.pending_tag = tag;
    }

    /// Gives the pending entry its place in the window.
    fn settle(&mut self) {
        let (key, tag) = (self.pending, self.pending_tag);
        lanes::insert(self.lanes, &mut self.sorted, self.count, key, tag);
        self.count += 1;
    }

    /// Takes the first entry out and returns its tag. There must be one.
    #[inline(always)]
    pub fn pop(&mut self) -> u64 {
        let (pending, pending_tag) = (self.pending, self.pending_tag);
        self.pending = HOLE;
        if self.count == 0 {
            return pending_tag;
        }
        let (first, first_tag) = (self.sorted.keys[0], self.sorted.tags[0]);
        if self.count == 1 {
            // What follows, for one.
            self.sorted.keys[0] = if first > pending { first } else { pending };
            self.sorted.tags[0] = if first > pending { first_tag } else { pending_tag };
        } else {
            lanes::replace_first(self.lanes, &mut self.sorted, self.count, pending, pending_tag);
        }
        self.count -= usize::from(pending == HOLE);
        if pending < first { pending_tag } else { first_tag }
    }

    /// The first entry's tag. There must be one.
    pub fn first(&self) -> u64 {
        if self.pending < self.sorted.keys[0] { self.pending_tag } else { self.sorted.tags[0] }
    }

    /// Takes the entry `tag` out. It must be there.
    #[inline(always)]
    pub fn remove(&mut self, tag: u64) {
        let (pending, pending_tag) = (self.pending, self.pending_tag);
        self.pending = HOLE;
        if pending != HOLE && pending_tag == tag {
            return;
        }
        let found =
            lanes::replace(self.lanes, &mut self.sorted, self.count, tag, pending, pending_tag);
        debug_assert!(found, "a queued item is in the window");
        self.count -= usize::from(pending == HOLE);
    }

    /// Empties the window: its entries in order.
    pub fn take_all(&mut self, mut each: impl FnMut(i64, u64)) {
        if self.pending != HOLE {
            // One place more than there are entries: the vector of holes has it.
            self.settle();
        }
        let old = std::mem::replace(self, Window::new(self.lanes));
        for place in 0..old.count {
            each(old.sorted.keys[place], old.sorted.tags[place]);
        }
    }

    /// Adds an entry that is not before any other one.
    pub fn append(&mut self, key: i64, tag: u64) {
        self.sorted.keys[self.count] = key;
        self.sorted.tags[self.count] = tag;
        self.count += 1;
    }
}
