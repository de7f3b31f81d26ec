//! The red-black tree with a cached first item: what CFS has queued tasks in since 2007.
//!
//! Idea: a search tree whose nodes are red or black; no red node has a red child and every way
//! down meets the same number of black ones, so no way is more than twice as long as another.
//!
//! Cost: push, remove, pop O(log n), height at most 2 log2(n + 1); at most two rotations a push
//! and three a removal; peek O(1). One line an item, no other memory. Each level of a descent is
//! one unpredictable branch, and one cache miss in a large tree.
//!
//! Choose it when any item may be removed, worst cases must be short and nothing is known of the
//! keys. It is never the fastest structure, at no size.
//!
//! Source: L. Guibas, R. Sedgewick, "A dichromatic framework for balanced trees", 1978; deletion
//! after Cormen, Leiserson, Rivest and Stein, "Introduction to Algorithms", chapter 13. Cached
//! first item: D. Bueso, Linux commit cd9e61ed1eeb, 2017.

use crate::binary_tree::{BinaryTree, LEFT, RIGHT};
use crate::run_queue::{NONE, RunQueue};

/// The colours. A new leaf's balance is 0, and a new leaf is red.
const RED: i32 = 0;
const BLACK: i32 = 1;

/// A red-black tree.
#[derive(Clone, Debug)]
pub struct RedBlackTree {
    tree: BinaryTree,
}

impl RedBlackTree {
    /// The number of items on the longest way down. O(n): for tests and tables.
    pub fn height(&self) -> usize {
        self.tree.height()
    }

    #[inline(always)]
    fn is_red(&self, item: u32) -> bool {
        item != NONE && self.tree.nodes[item].balance == RED
    }

    #[inline(always)]
    fn paint(&mut self, item: u32, colour: i32) {
        self.tree.nodes[item].balance = colour;
    }

    /// Repairs a red item under a red parent, upwards.
    #[inline(always)]
    fn repair_red(&mut self, mut item: u32) {
        loop {
            let parent = self.tree.nodes[item].parent;
            if parent == NONE {
                self.paint(item, BLACK);
                return;
            }
            if !self.is_red(parent) {
                return;
            }
            // A red item is never the root, so there is a grandparent.
            let grandparent = self.tree.nodes[parent].parent;
            let side = self.tree.side_of(parent, grandparent);
            let uncle = self.tree.nodes[grandparent].child[1 - side];
            if self.is_red(uncle) {
                self.paint(parent, BLACK);
                self.paint(uncle, BLACK);
                self.paint(grandparent, RED);
                item = grandparent;
                continue;
            }
            let upper = if self.tree.side_of(item, parent) == side {
                parent
            } else {
                self.tree.rotate(parent, side)
            };
            self.paint(upper, BLACK);
            self.paint(grandparent, RED);
            self.tree.rotate(grandparent, 1 - side);
            return;
        }
    }

    /// Repairs the side of `parent` that lost a black item.
    #[inline(always)]
    fn repair_black(&mut self, mut parent: u32, mut side: usize) {
        loop {
            let mut sibling = self.tree.nodes[parent].child[1 - side];
            if self.is_red(sibling) {
                self.paint(sibling, BLACK);
                self.paint(parent, RED);
                self.tree.rotate(parent, side);
                sibling = self.tree.nodes[parent].child[1 - side];
            }
            let near = self.tree.nodes[sibling].child[side];
            let far = self.tree.nodes[sibling].child[1 - side];
            if !self.is_red(near) && !self.is_red(far) {
                self.paint(sibling, RED);
                let grandparent = self.tree.nodes[parent].parent;
                if self.is_red(parent) || grandparent == NONE {
                    self.paint(parent, BLACK);
                    return;
                }
                side = self.tree.side_of(parent, grandparent);
                parent = grandparent;
                continue;
            }
            if self.is_red(far) {
                self.paint(far, BLACK);
            } else {
                self.paint(near, BLACK);
                self.tree.rotate(sibling, 1 - side);
                sibling = near;
            }
            let colour = self.tree.nodes[parent].balance;
            self.paint(sibling, colour);
            self.paint(parent, BLACK);
            self.tree.rotate(parent, side);
            return;
        }
    }

    /// Unlinks `item` and repairs the colours; the cached first item is the caller's business.
    #[inline(always)]
    fn erase(&mut self, item: u32) {
        let [left, right] = self.tree.nodes[item].child;
        let (lost, parent, side, heir);
        if left != NONE && right != NONE {
            let successor = self.tree.outermost(right, LEFT);
            lost = self.tree.nodes[successor].balance;
            heir = self.tree.nodes[successor].child[RIGHT];
            let above = self.tree.nodes[successor].parent;
            if above == item {
                (parent, side) = (successor, RIGHT);
            } else {
                (parent, side) = (above, LEFT);
                self.tree.replace(successor, heir);
                self.tree.nodes[successor].child[RIGHT] = right;
                self.tree.nodes[right].parent = successor;
            }
            self.tree.replace(item, successor);
            self.tree.nodes[successor].child[LEFT] = left;
            self.tree.nodes[left].parent = successor;
            let colour = self.tree.nodes[item].balance;
            self.paint(successor, colour);
        } else {
            heir = if left == NONE { right } else { left };
            lost = self.tree.nodes[item].balance;
            parent = self.tree.nodes[item].parent;
            side = if parent == NONE { LEFT } else { self.tree.side_of(item, parent) };
            self.tree.replace(item, heir);
        }
        self.tree.forget(item);
        if lost == BLACK {
            if self.is_red(heir) {
                self.paint(heir, BLACK);
            } else if parent != NONE {
                self.repair_black(parent, side);
            }
        }
    }
}

impl RunQueue for RedBlackTree {
    const NAME: &'static str = "red_black_tree";

    fn with_capacity(capacity: usize) -> Self {
        RedBlackTree { tree: BinaryTree::new(capacity) }
    }

    #[inline]
    fn push(&mut self, item: u32, key: u64) {
        self.tree.attach(item, key);
        self.repair_red(item);
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        let item = self.peek()?;
        self.remove(item);
        Some(item)
    }

    #[inline]
    fn peek(&mut self) -> Option<u32> {
        (self.tree.first != NONE).then_some(self.tree.first)
    }

    #[inline]
    fn remove(&mut self, item: u32) {
        assert!(self.contains(item), "item {item} is not queued");
        if item == self.tree.first {
            self.tree.first = self.tree.next(item);
        }
        self.erase(item);
    }

    #[inline]
    fn key(&self, item: u32) -> u64 {
        self.tree.nodes[item].key
    }

    fn contains(&self, item: u32) -> bool {
        self.tree.contains(item)
    }

    fn len(&self) -> usize {
        self.tree.len
    }

    fn for_each(&mut self, visit: &mut dyn FnMut(u32, u64)) {
        self.tree.visit(visit);
    }

    fn memory_bytes(&self) -> usize {
        self.tree.nodes.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the colours' two rules hold after every operation. Method: random operations, then a
    //! walk that counts black items on every way down.

    use super::*;
    use proptest::prelude::*;

    /// Black items on the ways down from `item`; panics where two ways differ.
    fn blacks(tree: &RedBlackTree, item: u32) -> usize {
        if item == NONE {
            return 0;
        }
        let child = tree.tree.nodes[item].child;
        assert!(!(tree.is_red(item) && child.iter().any(|&below| tree.is_red(below))));
        let [left, right] = child.map(|below| blacks(tree, below));
        assert_eq!(left, right, "below item {item}");
        left + usize::from(!tree.is_red(item))
    }

    proptest! {
        #[test]
        fn no_red_item_has_a_red_child_and_all_ways_are_equally_black(
            operations in prop::collection::vec((0u8..3, 0u64..50, 0u32..64), 1..300),
        ) {
            let mut tree = RedBlackTree::with_capacity(64);
            for (operation, key, item) in operations {
                match operation {
                    0 => { tree.pop(); }
                    _ if tree.contains(item) => tree.remove(item),
                    _ => tree.push(item, key),
                }
                prop_assert!(!tree.is_red(tree.tree.root));
                blacks(&tree, tree.tree.root);
            }
        }
    }

    #[test]
    fn height_is_at_most_twice_the_logarithm() {
        let mut tree = RedBlackTree::with_capacity(10_000);
        for item in 0..10_000 {
            tree.push(item, u64::from(item));
        }
        assert!(tree.height() as f64 <= 2.0 * 10_001f64.log2());
    }
}
