//! Where items live: an array with one cache line (or a few) for each item.
//!
//! A kernel embeds the links of its queues in the task, so each task that a structure looks at
//! is a line of its own. The arena keeps that: key and links of an item share one line and no two
//! items share one, so what a structure costs here is what it would cost there.

use std::ops::{Index, IndexMut};

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Line<N>(N);

/// One node for each item, found by the item's number.
#[derive(Clone, Debug)]
pub(crate) struct Arena<N> {
    lines: Box<[Line<N>]>,
}

impl<N: Clone> Arena<N> {
    /// `capacity` copies of `node`.
    ///
    /// # Panics
    /// If `capacity` is more than item numbers can tell apart.
    pub(crate) fn new(capacity: usize, node: N) -> Self {
        assert!(capacity < CAPACITY_MAX, "{capacity} items: at most {CAPACITY_MAX} are possible");
        Arena { lines: vec![Line(node); capacity].into_boxed_slice() }
    }

    /// Bytes of all nodes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.lines.len() * size_of::<Line<N>>()
    }
}

/// Numbers from here on have a meaning of their own in the structures.
const CAPACITY_MAX: usize = (u32::MAX - 16) as usize;

impl<N> Index<u32> for Arena<N> {
    type Output = N;

    #[inline(always)]
    fn index(&self, item: u32) -> &N {
        &self.lines[item as usize].0
    }
}

impl<N> IndexMut<u32> for Arena<N> {
    #[inline(always)]
    fn index_mut(&mut self, item: u32) -> &mut N {
        &mut self.lines[item as usize].0
    }
}
