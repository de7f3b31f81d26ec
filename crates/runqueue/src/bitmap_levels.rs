//! 140 lists and a bitmap of the ones that hold something: the priority array of the O(1)
//! scheduler.
//!
//! Idea: where there are few priorities, a list for each and one bit a list find the best task
//! with two or three instructions, however many tasks there are.
//!
//! Cost: push, remove O(1); pop O(1), three words of bits. One line an item, 1.1 KiB of heads.
//! Order: exact for keys 0..140. Larger keys share the last list in order of arrival.
//!
//! Choose it when keys are classes. It cannot hold times: the O(1) scheduler needed a second
//! array of the same kind for tasks that had used up their slice, and heuristics around it.
//!
//! Source: I. Molnar, "ultra-scalable O(1) SMP and UP scheduler", linux-kernel, 4 January 2002.

use crate::lists::{EMPTY, Links, List};
use crate::run_queue::RunQueue;

/// How many lists: 100 real-time priorities and 40 nice levels.
pub const LEVELS: usize = 140;

const WORDS: usize = LEVELS.div_ceil(64);

/// The priority array of the O(1) scheduler; the key is the priority.
#[derive(Clone, Debug)]
pub struct BitmapLevels {
    links: Links,
    occupied: [u64; WORDS],
    lists: [List; LEVELS],
    len: usize,
}

fn level_of(key: u64) -> usize {
    key.min(LEVELS as u64 - 1) as usize
}

impl RunQueue for BitmapLevels {
    const NAME: &'static str = "bitmap_levels";
    const EXACT: bool = false;

    fn with_capacity(capacity: usize) -> Self {
        BitmapLevels {
            links: Links::new(capacity),
            occupied: [0; WORDS],
            lists: [EMPTY; LEVELS],
            len: 0,
        }
    }

    #[inline]
    fn push(&mut self, item: u32, key: u64) {
        let level = level_of(key);
        self.links.prepare(item, key, 0);
        self.links.append(&mut self.lists[level], item);
        self.occupied[level / 64] |= 1 << (level % 64);
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
        let word = self.occupied.iter().position(|&bits| bits != 0)?;
        let level = word * 64 + self.occupied[word].trailing_zeros() as usize;
        Some(self.lists[level].head)
    }

    #[inline]
    fn remove(&mut self, item: u32) {
        let level = level_of(self.links.key(item));
        self.links.unlink(&mut self.lists[level], item);
        if self.lists[level].is_empty() {
            self.occupied[level / 64] &= !(1 << (level % 64));
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
        for list in self.lists {
            self.links.visit(list, visit);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.links.memory_bytes() + size_of_val(&self.lists)
    }
}
