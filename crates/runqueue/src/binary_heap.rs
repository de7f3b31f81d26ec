//! The textbook heap: an array in which no entry comes before its parent.
//!
//! Idea: of order only as much is kept as the next pop needs.
//!
//! Cost: push O(log n) (O(1) on average), pop and remove O(log n), one unpredictable branch a
//! level. 16 bytes an item in the heap, and its line. Ties are kept by serial numbers of 32 bits;
//! when they run out, once in 2^32 pushes, everything is counted anew.
//!
//! Choose it as the reference among heaps; [`FourAryHeap`](crate::FourAryHeap) is faster.
//!
//! Source: J. W. J. Williams, "Algorithm 232: Heapsort", 1964; removal through stored positions
//! is folklore.

use crate::arena::Arena;
use crate::entry::{Entry, earlier, entry};
use crate::run_queue::{RunQueue, walk_by_popping};

const NOT_QUEUED: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Node {
    key: u64,
    position: u32,
}

/// A binary heap with stored positions.
#[derive(Clone, Debug)]
pub struct BinaryHeap {
    nodes: Arena<Node>,
    entries: Vec<Entry>,
    serial: u32,
    order: Vec<u32>,
}

impl BinaryHeap {
    #[inline(always)]
    fn set(&mut self, position: usize, entry: Entry) {
        self.entries[position] = entry;
        self.nodes[entry as u32].position = position as u32;
    }

    #[inline(always)]
    fn sift_up(&mut self, mut position: usize, entry: Entry) {
        while position > 0 {
            let parent = (position - 1) / 2;
            let above = self.entries[parent];
            if !earlier(entry, above) {
                break;
            }
            self.set(position, above);
            position = parent;
        }
        self.set(position, entry);
    }

    #[inline(always)]
    fn sift_down(&mut self, mut position: usize, entry: Entry) {
        loop {
            let mut child = 2 * position + 1;
            if child >= self.entries.len() {
                break;
            }
            if child + 1 < self.entries.len()
                && earlier(self.entries[child + 1], self.entries[child])
            {
                child += 1;
            }
            let below = self.entries[child];
            if !earlier(below, entry) {
                break;
            }
            self.set(position, below);
            position = child;
        }
        self.set(position, entry);
    }
}

impl RunQueue for BinaryHeap {
    const NAME: &'static str = "binary_heap";

    fn with_capacity(capacity: usize) -> Self {
        BinaryHeap {
            nodes: Arena::new(capacity, Node { key: 0, position: NOT_QUEUED }),
            entries: Vec::with_capacity(capacity),
            serial: 0,
            order: Vec::with_capacity(capacity),
        }
    }

    #[inline]
    fn push(&mut self, item: u32, key: u64) {
        let node = &mut self.nodes[item];
        assert_eq!(node.position, NOT_QUEUED, "item {item} is queued already");
        node.key = key;
        if self.entries.is_empty() {
            self.serial = 0;
        } else if self.serial == u32::MAX {
            self.for_each(&mut |_, _| {});
        }
        self.entries.push(0);
        self.sift_up(self.entries.len() - 1, entry(key, self.serial, item));
        self.serial += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        let item = self.peek()?;
        self.nodes[item].position = NOT_QUEUED;
        if let Some(last) = self.entries.pop()
            && !self.entries.is_empty()
        {
            self.sift_down(0, last);
        }
        Some(item)
    }

    #[inline]
    fn peek(&mut self) -> Option<u32> {
        self.entries.first().map(|&first| first as u32)
    }

    #[inline]
    fn remove(&mut self, item: u32) {
        let position = self.nodes[item].position;
        assert_ne!(position, NOT_QUEUED, "item {item} is not queued");
        self.nodes[item].position = NOT_QUEUED;
        let position = position as usize;
        if let Some(last) = self.entries.pop()
            && position < self.entries.len()
        {
            if earlier(last, self.entries[position]) {
                self.sift_up(position, last);
            } else {
                self.sift_down(position, last);
            }
        }
    }

    #[inline]
    fn key(&self, item: u32) -> u64 {
        self.nodes[item].key
    }

    fn contains(&self, item: u32) -> bool {
        self.nodes[item].position != NOT_QUEUED
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn for_each(&mut self, visit: &mut dyn FnMut(u32, u64)) {
        // Popping everything also lets the serial numbers begin at 0 again.
        let mut order = std::mem::take(&mut self.order);
        walk_by_popping(self, &mut order, visit);
        self.order = order;
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes()
            + self.entries.capacity() * size_of::<Entry>()
            + self.order.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_stay_in_order_when_serial_numbers_run_out() {
        let mut heap = BinaryHeap::with_capacity(20);
        heap.push(0, 7);
        heap.serial = u32::MAX - 5;
        (1..20).for_each(|item| heap.push(item, 7));
        let order: Vec<u32> = std::iter::from_fn(|| heap.pop()).collect();
        assert_eq!(order, (0..20).collect::<Vec<_>>());
    }
}
