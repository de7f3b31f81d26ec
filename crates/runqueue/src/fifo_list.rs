//! A plain list: first come, first served; keys are stored and ignored.
//!
//! Idea: the order of arrival needs no comparison at all. It is the floor under every other
//! structure: what the loop, the call and the touch of one item cost.
//!
//! Cost: every operation O(1); one line an item. Order: arrival, whatever the keys, so it is not
//! a run queue by key.
//!
//! Choose it when all tasks are equal and get turns (round robin), and as the zero of a table.
//! [`Fifo`](crate::Fifo) is the sibling for queues that are scanned as a whole.
//!
//! Source: folklore; the links are those of a kernel's `list_head`.

use crate::lists::{EMPTY, Links, List};
use crate::run_queue::{NONE, RunQueue};

/// A queue in order of arrival.
#[derive(Clone, Debug)]
pub struct FifoList {
    links: Links,
    list: List,
    len: usize,
}

impl RunQueue for FifoList {
    const NAME: &'static str = "fifo";
    const EXACT: bool = false;

    fn with_capacity(capacity: usize) -> Self {
        FifoList { links: Links::new(capacity), list: EMPTY, len: 0 }
    }

    #[inline]
    fn push(&mut self, item: u32, key: u64) {
        self.links.prepare(item, key, 0);
        self.links.append(&mut self.list, item);
        self.len += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        let item = self.peek()?;
        self.remove(item);
        Some(item)
    }

    #[inline]
    fn peek(&mut self) -> Option<u32> {
        (self.list.head != NONE).then_some(self.list.head)
    }

    #[inline]
    fn remove(&mut self, item: u32) {
        self.links.unlink(&mut self.list, item);
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
        self.links.visit(self.list, visit);
    }

    fn memory_bytes(&self) -> usize {
        self.links.memory_bytes()
    }
}
