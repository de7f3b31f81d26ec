//! A binary search tree without a rule of balance: what the balanced trees share.
//!
//! Equal keys go right, so they leave in order of arrival. The first item is cached, as the
//! kernel does since 2017 and as GAVL's "first/last enhanced" trees do.

use crate::arena::Arena;
use crate::before;
use crate::run_queue::NONE;

/// `parent` of an item that is in no tree.
const UNLINKED: u32 = NONE - 1;

pub(crate) const LEFT: usize = 0;
pub(crate) const RIGHT: usize = 1;

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) key: u64,
    pub(crate) child: [u32; 2],
    pub(crate) parent: u32,
    /// The tree's rule: a colour, or the difference of heights.
    pub(crate) balance: i32,
}

#[derive(Clone, Debug)]
pub(crate) struct BinaryTree {
    pub(crate) nodes: Arena<Node>,
    pub(crate) root: u32,
    pub(crate) first: u32,
    pub(crate) len: usize,
}

impl BinaryTree {
    pub(crate) fn new(capacity: usize) -> Self {
        let node = Node { key: 0, child: [NONE; 2], parent: UNLINKED, balance: 0 };
        BinaryTree { nodes: Arena::new(capacity, node), root: NONE, first: NONE, len: 0 }
    }

    pub(crate) fn contains(&self, item: u32) -> bool {
        self.nodes[item].parent != UNLINKED
    }

    /// Hangs `item` as a leaf in its place, with a balance of 0.
    #[inline(always)]
    pub(crate) fn attach(&mut self, item: u32, key: u64) {
        assert!(!self.contains(item), "item {item} is queued already");
        let (mut parent, mut side, mut leftmost) = (NONE, LEFT, true);
        let mut at = self.root;
        while at != NONE {
            parent = at;
            let node = &self.nodes[at];
            if before(key, node.key) {
                side = LEFT;
                at = node.child[LEFT];
            } else {
                side = RIGHT;
                leftmost = false;
                at = node.child[RIGHT];
            }
        }
        self.nodes[item] = Node { key, child: [NONE; 2], parent, balance: 0 };
        if parent == NONE {
            self.root = item;
        } else {
            self.nodes[parent].child[side] = item;
        }
        if leftmost {
            self.first = item;
        }
        self.len += 1;
    }

    /// Marks `item`, which nothing points to any more, as not queued.
    #[inline(always)]
    pub(crate) fn forget(&mut self, item: u32) {
        self.nodes[item].parent = UNLINKED;
        self.len -= 1;
    }

    /// Which child of its parent `item` is; the parent must be there.
    #[inline(always)]
    pub(crate) fn side_of(&self, item: u32, parent: u32) -> usize {
        usize::from(self.nodes[parent].child[RIGHT] == item)
    }

    /// Puts `heir` (which may be none) where `item` hangs; `item` keeps its own links.
    #[inline(always)]
    pub(crate) fn replace(&mut self, item: u32, heir: u32) {
        let parent = self.nodes[item].parent;
        if parent == NONE {
            self.root = heir;
        } else {
            let side = self.side_of(item, parent);
            self.nodes[parent].child[side] = heir;
        }
        if heir != NONE {
            self.nodes[heir].parent = parent;
        }
    }

    /// Turns `item` down to `side`; its child on the other side takes its place.
    #[inline(always)]
    pub(crate) fn rotate(&mut self, item: u32, side: usize) -> u32 {
        let risen = self.nodes[item].child[1 - side];
        let between = self.nodes[risen].child[side];
        self.nodes[item].child[1 - side] = between;
        if between != NONE {
            self.nodes[between].parent = item;
        }
        self.replace(item, risen);
        self.nodes[risen].child[side] = item;
        self.nodes[item].parent = risen;
        risen
    }

    /// The last item down from `item` along `side`.
    #[inline(always)]
    pub(crate) fn outermost(&self, mut item: u32, side: usize) -> u32 {
        while self.nodes[item].child[side] != NONE {
            item = self.nodes[item].child[side];
        }
        item
    }

    /// The item behind `item`, or none.
    #[inline(always)]
    pub(crate) fn next(&self, mut item: u32) -> u32 {
        let right = self.nodes[item].child[RIGHT];
        if right != NONE {
            return self.outermost(right, LEFT);
        }
        loop {
            let parent = self.nodes[item].parent;
            if parent == NONE || self.side_of(item, parent) == LEFT {
                return parent;
            }
            item = parent;
        }
    }

    pub(crate) fn visit(&self, visit: &mut dyn FnMut(u32, u64)) {
        let mut item = self.first;
        while item != NONE {
            visit(item, self.nodes[item].key);
            item = self.next(item);
        }
    }

    /// Height of the whole tree, by walking it; 0 where it is empty.
    pub(crate) fn height(&self) -> usize {
        self.heights(&mut |_, _| {})
    }

    /// Walks the tree in post-order without recursion, which could be as deep as a broken tree;
    /// shows every item with the heights of its two subtrees, and returns the root's height.
    pub(crate) fn heights(&self, visit: &mut dyn FnMut(u32, [usize; 2])) -> usize {
        // A subtree's height waits here until its parent asks for it.
        let mut waiting: Vec<(u32, usize)> = Vec::new();
        let mut stack = vec![(self.root, false)];
        while let Some((item, expanded)) = stack.pop() {
            if item == NONE {
                continue;
            }
            let child = self.nodes[item].child;
            if !expanded {
                stack.extend([(item, true), (child[RIGHT], false), (child[LEFT], false)]);
                continue;
            }
            let mut height = [0; 2];
            for side in [RIGHT, LEFT] {
                if child[side] != NONE {
                    height[side] = waiting.pop().map_or(0, |(_, height)| height);
                }
            }
            visit(item, height);
            waiting.push((item, 1 + height[LEFT].max(height[RIGHT])));
        }
        waiting.pop().map_or(0, |(_, height)| height)
    }
}
