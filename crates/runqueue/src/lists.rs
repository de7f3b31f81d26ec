//! Doubly linked lists through the items, many lists over one arena.
//!
//! Used by every structure that keeps items of one slot in order of arrival. A list is a head and
//! a tail; the links are in the items, so an item is taken from the middle in constant time.

use crate::arena::Arena;
use crate::run_queue::NONE;

/// `previous` of an item that is in no list.
const UNLINKED: u32 = NONE - 1;

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) key: u64,
    pub(crate) next: u32,
    pub(crate) previous: u32,
    /// For the structure's own use: which list, for example.
    pub(crate) place: u32,
}

/// Ends of one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) head: u32,
    pub(crate) tail: u32,
}

pub(crate) const EMPTY: List = List { head: NONE, tail: NONE };

impl List {
    pub(crate) fn is_empty(self) -> bool {
        self.head == NONE
    }
}

/// The items that lists are threaded through.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    nodes: Arena<Node>,
}

impl Links {
    pub(crate) fn new(capacity: usize) -> Self {
        let node = Node { key: 0, next: NONE, previous: UNLINKED, place: 0 };
        Links { nodes: Arena::new(capacity, node) }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes()
    }

    #[inline]
    pub(crate) fn key(&self, item: u32) -> u64 {
        self.nodes[item].key
    }

    #[inline]
    pub(crate) fn next(&self, item: u32) -> u32 {
        self.nodes[item].next
    }

    #[inline]
    pub(crate) fn place(&self, item: u32) -> u32 {
        self.nodes[item].place
    }

    #[inline]
    pub(crate) fn is_linked(&self, item: u32) -> bool {
        self.nodes[item].previous != UNLINKED
    }

    /// Notes key and place of an item that is about to be linked.
    #[inline]
    pub(crate) fn prepare(&mut self, item: u32, key: u64, place: u32) {
        let node = &mut self.nodes[item];
        assert_eq!(node.previous, UNLINKED, "item {item} is queued already");
        (node.key, node.place) = (key, place);
    }

    /// Links `item` behind the last of `list`.
    #[inline]
    pub(crate) fn append(&mut self, list: &mut List, item: u32) {
        self.insert_before(list, NONE, item);
    }

    /// Links `item` before `follower`; `NONE` is the place behind the last.
    #[inline]
    pub(crate) fn insert_before(&mut self, list: &mut List, follower: u32, item: u32) {
        let previous = if follower == NONE { list.tail } else { self.nodes[follower].previous };
        let node = &mut self.nodes[item];
        (node.previous, node.next) = (previous, follower);
        if previous == NONE {
            list.head = item;
        } else {
            self.nodes[previous].next = item;
        }
        if follower == NONE {
            list.tail = item;
        } else {
            self.nodes[follower].previous = item;
        }
    }

    /// Links `item` in the order of keys, behind equal ones, looking from the end.
    #[inline]
    pub(crate) fn insert_sorted(&mut self, list: &mut List, item: u32) {
        let key = self.nodes[item].key;
        let (mut follower, mut previous) = (NONE, list.tail);
        while previous != NONE && crate::before(key, self.nodes[previous].key) {
            follower = previous;
            previous = self.nodes[previous].previous;
        }
        self.insert_before(list, follower, item);
    }

    /// Takes `item` out of `list`, which must be the one it is in.
    #[inline]
    pub(crate) fn unlink(&mut self, list: &mut List, item: u32) {
        let Node { next, previous, .. } = self.nodes[item];
        assert_ne!(previous, UNLINKED, "item {item} is not queued");
        if previous == NONE {
            list.head = next;
        } else {
            self.nodes[previous].next = next;
        }
        if next == NONE {
            list.tail = previous;
        } else {
            self.nodes[next].previous = previous;
        }
        self.nodes[item].previous = UNLINKED;
    }

    /// Hangs all of `more` behind `list`.
    pub(crate) fn concatenate(&mut self, list: &mut List, more: List) {
        if more.is_empty() {
            return;
        }
        if list.is_empty() {
            *list = more;
            return;
        }
        self.nodes[list.tail].next = more.head;
        self.nodes[more.head].previous = list.tail;
        list.tail = more.tail;
    }

    /// Shows each item of `list` in turn.
    pub(crate) fn visit(&self, list: List, visit: &mut dyn FnMut(u32, u64)) {
        let mut item = list.head;
        while item != NONE {
            visit(item, self.nodes[item].key);
            item = self.nodes[item].next;
        }
    }
}
