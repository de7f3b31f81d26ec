//! The pairing heap: trees hung under each other, tidied only when something is popped.
//!
//! Idea: two heaps become one by hanging the one with the later root under the other. A push is
//! one such link. A pop leaves the children of the root, which are linked in pairs, and the pairs
//! one after the other from the end.
//!
//! Cost: push O(1), pop and remove O(log n) amortised, O(n) at worst. One line an item, no other
//! memory. Ties are kept by serial numbers of 32 bits; when they run out everything is counted
//! anew.
//!
//! Choose it for one to four items, and where most items are removed before they are popped.
//!
//! Source: M. Fredman, R. Sedgewick, D. Sleator, R. Tarjan, "The pairing heap: a new form of
//! self-adjusting heap", 1986.

use crate::arena::Arena;
use crate::entry::{earlier, entry};
use crate::run_queue::{NONE, RunQueue, walk_by_popping};

/// `previous` of an item that is not queued.
const UNLINKED: u32 = NONE - 1;

#[derive(Clone, Debug)]
struct Node {
    key: u64,
    serial: u32,
    child: u32,
    next: u32,
    /// The sibling before, or the parent of a first child.
    previous: u32,
}

/// A pairing heap.
#[derive(Clone, Debug)]
pub struct PairingHeap {
    nodes: Arena<Node>,
    root: u32,
    len: usize,
    serial: u32,
    order: Vec<u32>,
}

impl PairingHeap {
    /// Hangs the later of two roots under the other, which is returned.
    #[inline(always)]
    fn link(&mut self, a: u32, b: u32) -> u32 {
        let (first, second) = (&self.nodes[a], &self.nodes[b]);
        let b_is_earlier =
            earlier(entry(second.key, second.serial, 0), entry(first.key, first.serial, 0));
        let (parent, child) = if b_is_earlier { (b, a) } else { (a, b) };
        let eldest = self.nodes[parent].child;
        self.nodes[parent].child = child;
        let node = &mut self.nodes[child];
        (node.previous, node.next) = (parent, eldest);
        if eldest != NONE {
            self.nodes[eldest].previous = child;
        }
        parent
    }

    /// Makes one tree of the siblings from `first` on; `NONE` of none.
    #[inline(always)]
    fn pair_up(&mut self, first: u32) -> u32 {
        // First pass, to the right: pairs, threaded backwards through `previous`.
        let (mut pairs, mut at) = (NONE, first);
        while at != NONE {
            let second = self.nodes[at].next;
            if second == NONE {
                self.nodes[at].previous = pairs;
                pairs = at;
                break;
            }
            let following = self.nodes[second].next;
            let pair = self.link(at, second);
            self.nodes[pair].previous = pairs;
            pairs = pair;
            at = following;
        }
        if pairs == NONE {
            return NONE;
        }
        // Second pass, back to the left: all into one.
        let (mut whole, mut at) = (pairs, self.nodes[pairs].previous);
        while at != NONE {
            let before = self.nodes[at].previous;
            whole = self.link(at, whole);
            at = before;
        }
        self.nodes[whole].previous = NONE;
        self.nodes[whole].next = NONE;
        whole
    }

    fn forget(&mut self, item: u32) {
        self.nodes[item].previous = UNLINKED;
        self.len -= 1;
    }
}

impl RunQueue for PairingHeap {
    const NAME: &'static str = "pairing_heap";

    fn with_capacity(capacity: usize) -> Self {
        let node = Node { key: 0, serial: 0, child: NONE, next: NONE, previous: UNLINKED };
        PairingHeap {
            nodes: Arena::new(capacity, node),
            root: NONE,
            len: 0,
            serial: 0,
            order: Vec::with_capacity(capacity),
        }
    }

    #[inline]
    fn push(&mut self, item: u32, key: u64) {
        assert!(!self.contains(item), "item {item} is queued already");
        if self.len == 0 {
            self.serial = 0;
        } else if self.serial == u32::MAX {
            self.for_each(&mut |_, _| {});
        }
        let serial = self.serial;
        self.serial += 1;
        self.nodes[item] = Node { key, serial, child: NONE, next: NONE, previous: NONE };
        self.root = if self.root == NONE { item } else { self.link(self.root, item) };
        let root = &mut self.nodes[self.root];
        (root.previous, root.next) = (NONE, NONE);
        self.len += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        let item = self.peek()?;
        self.root = self.pair_up(self.nodes[item].child);
        self.forget(item);
        Some(item)
    }

    #[inline]
    fn peek(&mut self) -> Option<u32> {
        (self.root != NONE).then_some(self.root)
    }

    #[inline]
    fn remove(&mut self, item: u32) {
        assert!(self.contains(item), "item {item} is not queued");
        if item == self.root {
            self.pop();
            return;
        }
        let Node { next, previous, child, .. } = self.nodes[item];
        if self.nodes[previous].child == item {
            self.nodes[previous].child = next;
        } else {
            self.nodes[previous].next = next;
        }
        if next != NONE {
            self.nodes[next].previous = previous;
        }
        let orphans = self.pair_up(child);
        if orphans != NONE {
            self.root = self.link(self.root, orphans);
            let root = &mut self.nodes[self.root];
            (root.previous, root.next) = (NONE, NONE);
        }
        self.forget(item);
    }

    #[inline]
    fn key(&self, item: u32) -> u64 {
        self.nodes[item].key
    }

    fn contains(&self, item: u32) -> bool {
        self.nodes[item].previous != UNLINKED
    }

    fn len(&self) -> usize {
        self.len
    }

    fn for_each(&mut self, visit: &mut dyn FnMut(u32, u64)) {
        let mut order = std::mem::take(&mut self.order);
        walk_by_popping(self, &mut order, visit);
        self.order = order;
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes() + self.order.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_stay_in_order_when_serial_numbers_run_out() {
        let mut heap = PairingHeap::with_capacity(20);
        heap.push(0, 7);
        heap.serial = u32::MAX - 5;
        (1..20).for_each(|item| heap.push(item, 7));
        let order: Vec<u32> = std::iter::from_fn(|| heap.pop()).collect();
        assert_eq!(order, (0..20).collect::<Vec<_>>());
    }
}
