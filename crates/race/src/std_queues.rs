//! The standard library's ordered collections as run queues, with serial numbers for ties.
//!
//! Neither has a place for links in a task, so they keep keys, serials and items of their own
//! beside the task's line.

use std::cmp::{Ordering, Reverse};
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

/// Where an item stands: its key, and among equal ones its serial number.
///
/// Keys wrap. That makes no order of all numbers, but one of those that are queued at one time,
/// which are less than 2^63 apart; the collections compare no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    key: u64,
    serial: u64,
}

impl Ord for Standing {
    #[inline(always)]
    fn cmp(&self, other: &Self) -> Ordering {
        let apart = self.key.wrapping_sub(other.key) as i64;
        apart.cmp(&0).then(self.serial.cmp(&other.serial))
    }
}

impl PartialOrd for Standing {
    #[inline(always)]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The standard library's B-tree of (key, serial).
///
/// Unlike every other entrant it allocates while it is used.
#[derive(Clone, Debug)]
pub struct StdBTreeMap {
    tree: BTreeMap<Standing, u32>,
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
        self.tree.insert(Standing { key, serial: self.serial }, item);
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
        let removed = self.tree.remove(&Standing { key, serial });
        assert!(removed.is_some(), "item {item} is not queued");
    }

    #[inline]
    fn key(&self, item: u32) -> u64 {
        self.lines[item as usize].key
    }

    fn contains(&self, item: u32) -> bool {
        let Line { key, serial } = self.lines[item as usize];
        self.tree.contains_key(&Standing { key, serial })
    }

    fn len(&self) -> usize {
        self.tree.len()
    }

    fn for_each(&mut self, visit: &mut dyn FnMut(u32, u64)) {
        self.tree.iter().for_each(|(standing, &item)| visit(item, standing.key));
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
    heap: BinaryHeap<Reverse<(Standing, u32)>>,
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
        self.heap.push(Reverse((Standing { key, serial: self.serial }, item)));
        self.serial += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        self.heap.pop().map(|first| first.0.1)
    }

    fn peek(&mut self) -> Option<u32> {
        self.heap.peek().map(|first| first.0.1)
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
        self.heap.iter().any(|entry| entry.0.1 == item)
    }

    fn len(&self) -> usize {
        self.heap.len()
    }

    fn for_each(&mut self, visit: &mut dyn FnMut(u32, u64)) {
        let sorted = self.heap.clone().into_sorted_vec();
        sorted.iter().rev().for_each(|entry| visit(entry.0.1, entry.0.0.key));
    }

    fn memory_bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
            + self.heap.capacity() * size_of::<Reverse<(Standing, u32)>>()
    }
}
