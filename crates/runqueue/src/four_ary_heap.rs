//! A heap with four children a node, branch-free, from which any item can be removed.
//!
//! Idea: half as many levels as a binary heap, and the four children of a node lie in one cache
//! line. Which child is smallest is computed without a branch, since nobody can predict it; the
//! positions of the items are stored beside their keys, so that removal finds them.
//!
//! Cost: push O(log n) (O(1) on average), pop and remove O(log n), 3 comparisons a level, no
//! misprediction but the last. 16 bytes an item in the heap, and its line.
//!
//! Ties: a heap forgets who came first, so each entry carries a serial number. Serial numbers are
//! 32 bits; when they run out, once in 2^32 pushes, the heap is sorted and counted anew.
//!
//! Choose it from 8 to 100 items, and wherever a plain array is all one wants.
//!
//! Source: D. B. Johnson, "Priority queues with update and finding minimum spanning trees", 1975;
//! alignment after A. LaMarca, R. Ladner, "The influence of caches on the performance of heaps",
//! 1996.

use crate::arena::Arena;
use crate::entry::{Entry, earlier, entry};
use crate::run_queue::{RunQueue, walk_by_popping};
use std::hint::select_unpredictable;

const NOT_QUEUED: u32 = u32::MAX;
/// Children of `i` begin at `4 * (i - SHIFT) + 4 + SHIFT`, so that each four share a line.
const SHIFT: usize = 3;

#[derive(Clone, Debug)]
struct Node {
    key: u64,
    position: u32,
}

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Four([Entry; 4]);

/// A 4-ary heap with stored positions.
#[derive(Clone, Debug)]
pub struct FourAryHeap {
    nodes: Arena<Node>,
    /// Entry `SHIFT` is the first one.
    lines: Box<[Four]>,
    len: usize,
    serial: u32,
    order: Vec<u32>,
}

impl FourAryHeap {
    #[inline(always)]
    fn at(&self, position: usize) -> Entry {
        self.lines[position / 4].0[position % 4]
    }

    #[inline(always)]
    fn set(&mut self, position: usize, entry: Entry) {
        self.lines[position / 4].0[position % 4] = entry;
        self.nodes[entry as u32].position = position as u32;
    }

    /// The position behind the last entry.
    fn end(&self) -> usize {
        self.len + SHIFT
    }

    #[inline(always)]
    fn sift_up(&mut self, mut position: usize, entry: Entry) {
        while position > SHIFT {
            let parent = (position - SHIFT - 1) / 4 + SHIFT;
            let above = self.at(parent);
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
        let end = self.end();
        loop {
            let first = 4 * (position - SHIFT) + 4;
            if first >= end {
                break;
            }
            // Where the family is smaller than four, its last member stands in for the others.
            let last = (end - first - 1).min(3);
            let four = &self.lines[first / 4].0;
            let (one, two, three) = (last.min(1), last.min(2), last);
            // Nobody can predict which is smallest, the compiler must not try.
            let low = select_unpredictable(earlier(four[one], four[0]), one, 0);
            let high = select_unpredictable(earlier(four[three], four[two]), three, two);
            let least = select_unpredictable(earlier(four[high], four[low]), high, low);
            let lifted = four[least];
            if !earlier(lifted, entry) {
                break;
            }
            self.set(position, lifted);
            position = first + least;
        }
        self.set(position, entry);
    }
}

impl RunQueue for FourAryHeap {
    const NAME: &'static str = "four_ary_heap";

    fn with_capacity(capacity: usize) -> Self {
        FourAryHeap {
            nodes: Arena::new(capacity, Node { key: 0, position: NOT_QUEUED }),
            lines: vec![Four([0; 4]); (capacity + SHIFT).div_ceil(4)].into_boxed_slice(),
            len: 0,
            serial: 0,
            order: Vec::with_capacity(capacity),
        }
    }

    #[inline]
    fn push(&mut self, item: u32, key: u64) {
        let node = &mut self.nodes[item];
        assert_eq!(node.position, NOT_QUEUED, "item {item} is queued already");
        node.key = key;
        if self.len == 0 {
            self.serial = 0;
        } else if self.serial == u32::MAX {
            self.for_each(&mut |_, _| {});
        }
        self.len += 1;
        let position = self.end() - 1;
        self.sift_up(position, entry(key, self.serial, item));
        self.serial += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let item = self.at(SHIFT) as u32;
        self.len -= 1;
        self.nodes[item].position = NOT_QUEUED;
        if self.len > 0 {
            self.sift_down(SHIFT, self.at(self.end()));
        }
        Some(item)
    }

    #[inline]
    fn peek(&mut self) -> Option<u32> {
        (self.len > 0).then(|| self.at(SHIFT) as u32)
    }

    #[inline]
    fn remove(&mut self, item: u32) {
        let position = self.nodes[item].position;
        assert_ne!(position, NOT_QUEUED, "item {item} is not queued");
        self.nodes[item].position = NOT_QUEUED;
        self.len -= 1;
        let position = position as usize;
        if position < self.end() {
            let last = self.at(self.end());
            if earlier(last, self.at(position)) {
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
        self.len
    }

    fn for_each(&mut self, visit: &mut dyn FnMut(u32, u64)) {
        // Popping everything also lets the serial numbers begin at 0 again.
        let mut order = std::mem::take(&mut self.order);
        walk_by_popping(self, &mut order, visit);
        self.order = order;
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes() + self.lines.len() * size_of::<Four>() + self.order.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_stay_in_order_when_serial_numbers_run_out() {
        let mut heap = FourAryHeap::with_capacity(20);
        heap.push(0, 7);
        heap.serial = u32::MAX - 5;
        (1..20).for_each(|item| heap.push(item, 7));
        let order: Vec<u32> = std::iter::from_fn(|| heap.pop()).collect();
        assert_eq!(order, (0..20).collect::<Vec<_>>());
    }
}
