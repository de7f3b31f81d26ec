//! The standard library's ordered collections as run queues, with serial numbers for ties.
//!
//! Neither has a place for links in a task, so they keep keys, serials and items of their own
//! beside the task's line. Keys are compared as signed numbers: right as long as no key of a race
//! is 2^63 away from 0. A heat whose keys would come near it is refused.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use runqueue::RunQueue;

/// The task: a line of its own, as the arena of our structures has.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Line {
    key: u64,
    serial: u64,
}

const NO_LINE: Line = Line { key: 0, serial: u64::MAX };

/// The standard library's B-tree of (key, serial).
///
/// Unlike every other entrant it allocates while it is used.
#[derive(Clone, Debug)]
pub struct StdBTreeMap {
    tree: BTreeMap<(i64, u64), u32>,
    lines: Vec<Line>,
    serial: u64,
}

/// Bytes of a leaf: 11 keys of 16 bytes, 11 items of 4, and what leads to its parent.
const LEAF_BYTES: usize = 11 * 16 + 11 * 4 + 12;
/// Entries of a leaf that is as full as leaves are on average after many insertions: ln 2 of 11.
const LEAF_ENTRIES: f64 = 11.0 * std::f64::consts::LN_2;
/// Nodes above the leaves, which have 12 pointers more, as a factor.
const INNER_NODES: f64 = 1.15;

impl RunQueue for StdBTreeMap {
    const NAME: &'static str = "rust_btree_map";

    fn with_capacity(capacity: usize) -> Self {
        StdBTreeMap { tree: BTreeMap::new(), lines: vec![NO_LINE; capacity], serial: 0 }
    }

    #[inline]
    fn push(&mut self, item: u32, key: u64) {
        self.lines[item as usize] = Line { key, serial: self.serial };
        self.tree.insert((key as i64, self.serial), item);
        self.serial += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        self.tree.pop_first().map(|(_, item)| item)
    }

    fn peek(&mut self) -> Option<u32> {
        self.tree.first_key_value().map(|(_, &item)| item)
    }

    #[inline]
    fn remove(&mut self, item: u32) {
        let Line { key, serial } = self.lines[item as usize];
        let removed = self.tree.remove(&(key as i64, serial));
        assert!(removed.is_some(), "item {item} is not queued");
    }

    #[inline]
    fn key(&self, item: u32) -> u64 {
        self.lines[item as usize].key
    }

    fn contains(&self, item: u32) -> bool {
        let Line { key, serial } = self.lines[item as usize];
        self.tree.contains_key(&(key as i64, serial))
    }

    fn len(&self) -> usize {
        self.tree.len()
    }

    fn for_each(&mut self, visit: &mut dyn FnMut(u32, u64)) {
        self.tree.iter().for_each(|(&(key, _), &item)| visit(item, key as u64));
    }

    /// An estimate: the tree cannot be asked, so its nodes are taken to be as full as they are on
    /// average. A test holds it against what the allocator was asked for.
    fn memory_bytes(&self) -> usize {
        let leaves = self.tree.len() as f64 / LEAF_ENTRIES;
        self.lines.len() * size_of::<Line>() + (leaves * LEAF_BYTES as f64 * INNER_NODES) as usize
    }
}

/// The standard library's heap of (key, serial, item). It cannot remove.
#[derive(Clone, Debug)]
pub struct StdBinaryHeap {
    heap: BinaryHeap<Reverse<(i64, u64, u32)>>,
    lines: Vec<Line>,
    serial: u64,
}

impl RunQueue for StdBinaryHeap {
    const NAME: &'static str = "rust_binary_heap";

    fn with_capacity(capacity: usize) -> Self {
        let heap = BinaryHeap::with_capacity(capacity);
        StdBinaryHeap { heap, lines: vec![NO_LINE; capacity], serial: 0 }
    }

    #[inline]
    fn push(&mut self, item: u32, key: u64) {
        self.lines[item as usize].key = key;
        self.heap.push(Reverse((key as i64, self.serial, item)));
        self.serial += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        self.heap.pop().map(|first| first.0.2)
    }

    fn peek(&mut self) -> Option<u32> {
        self.heap.peek().map(|first| first.0.2)
    }

    /// # Panics
    /// Always: the heap does not know where an item is.
    fn remove(&mut self, item: u32) {
        panic!("the standard library's heap cannot remove item {item}");
    }

    #[inline]
    fn key(&self, item: u32) -> u64 {
        self.lines[item as usize].key
    }

    fn contains(&self, item: u32) -> bool {
        self.heap.iter().any(|entry| entry.0.2 == item)
    }

    fn len(&self) -> usize {
        self.heap.len()
    }

    fn for_each(&mut self, visit: &mut dyn FnMut(u32, u64)) {
        let sorted = self.heap.clone().into_sorted_vec();
        sorted.iter().rev().for_each(|entry| visit(entry.0.2, entry.0.0 as u64));
    }

    fn memory_bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
            + self.heap.capacity() * size_of::<Reverse<(i64, u64, u32)>>()
    }
}
