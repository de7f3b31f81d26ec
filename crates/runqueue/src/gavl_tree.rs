//! GAVL: a height-balanced tree that may cut off its first item without rebalancing.
//!
//! Idea: an AVL tree that keeps `hdiff`, the height of the left subtree minus that of the right
//! one, in every node, and tolerates nodes that are out of balance. So the first item can be cut
//! off by adjusting `hdiff` along the left edge and rotating nothing; later insertions, which
//! pass there anyway, repair what leans too much.
//!
//! Cost: push, remove O(log n); pop O(log n) at worst, O(1) on average with cut-first; peek O(1).
//! One line an item.
//!
//! Three variants. [`GavlTree`] cuts off with corrected books: a left subtree that became lower
//! *lowers* hdiff. [`GavlTreeDelete`] deletes the first item like any other, with rotations.
//! [`GavlTreePublished`] cuts off as the published library does: it *raises* hdiff, which is the
//! rule for the right side. Order stays exact, but the books are wrong from then on, and some
//! patterns of wake-ups let the tree degenerate. It is here to be measured, not to be used.
//!
//! Choose it when a red-black tree would do and removals of the first item are most of the work.
//!
//! Source: P. Pisa, "GAVL tree" in uLUt, 2001-2004 (interface and behaviour), raced on
//! linux-kernel in April 2007 as `gavl_cfs`; AVL: G. Adelson-Velsky, E. Landis, 1962.

use crate::binary_tree::{BinaryTree, LEFT, RIGHT};
use crate::run_queue::{NONE, RunQueue};

/// Cut-first, corrected: a shorter left side lowers `hdiff`.
const CUT: u8 = 0;
/// No cut-first: the first item is deleted like any other.
const DELETE: u8 = 1;
/// Cut-first with the sign error of the published library.
const CUT_PUBLISHED: u8 = 2;

/// A GAVL tree; `FIRST` says how [`pop`](RunQueue::pop) takes the first item.
#[derive(Clone, Debug)]
pub struct GavlTreeOf<const FIRST: u8> {
    tree: BinaryTree,
}

/// Cuts the first item off, with corrected books. The one to use.
pub type GavlTree = GavlTreeOf<CUT>;
/// Deletes the first item with full rebalancing.
pub type GavlTreeDelete = GavlTreeOf<DELETE>;
/// Cuts the first item off as the published library does, wrong books included.
pub type GavlTreePublished = GavlTreeOf<CUT_PUBLISHED>;

/// How an AVL tree's height is bounded: 1.4404 log2(n + 2) - 0.328 (Knuth, volume 3, 6.2.3).
pub fn avl_height_max(items: usize) -> usize {
    (1.4404 * (items as f64 + 2.0).log2() - 0.328) as usize
}

impl<const FIRST: u8> GavlTreeOf<FIRST> {
    /// The number of items on the longest way down. O(n): for tests and tables.
    pub fn height(&self) -> usize {
        self.tree.height()
    }

    /// How many items have an `hdiff` that is not the difference of their subtrees' heights.
    /// O(n): for tests and tables.
    pub fn wrong_books(&self) -> usize {
        let mut wrong = 0;
        self.tree.heights(&mut |item, height| {
            let hdiff = height[LEFT] as i64 - height[RIGHT] as i64;
            wrong += usize::from(i64::from(self.tree.nodes[item].balance) != hdiff);
        });
        wrong
    }

    #[inline(always)]
    fn hdiff(&self, item: u32) -> i32 {
        self.tree.nodes[item].balance
    }

    /// Turns `item` down to `side` and keeps the books of both, whatever size they have.
    #[inline(always)]
    fn rotate(&mut self, item: u32, side: usize) -> u32 {
        let (lower, upper) = (self.hdiff(item), self.hdiff(self.tree.nodes[item].child[1 - side]));
        let risen = self.tree.rotate(item, side);
        // Turning right, the left subtree of `item` becomes what was right of `risen`. In terms
        // of the heights this is exact for every pair of differences, not only for -2..=2.
        let (lower, upper) = if side == RIGHT {
            let lower = lower - 1 - upper.max(0);
            (lower, upper - 1 + lower.min(0))
        } else {
            let lower = lower + 1 - upper.min(0);
            (lower, upper + 1 + lower.max(0))
        };
        self.tree.nodes[item].balance = lower;
        self.tree.nodes[risen].balance = upper;
        risen
    }

    /// One step of repair at `item` if it leans by two or more: a single or double rotation.
    /// Says what now stands there, and whether the subtree became lower by one.
    #[inline(always)]
    fn balance_one(&mut self, item: u32) -> (u32, bool) {
        let (high, sign) = match self.hdiff(item) {
            2.. => (LEFT, 1),
            ..=-2 => (RIGHT, -1),
            _ => return (item, false),
        };
        let child = self.tree.nodes[item].child[high];
        if FIRST == CUT_PUBLISHED && self.is_misled(child, high, sign) {
            return (item, false);
        }
        let lean = self.hdiff(child) * sign;
        if lean < 0 {
            let inner = self.tree.nodes[child].child[1 - high];
            // Where cuts left the child leaning by two, turning it may make it lower already.
            let lowered = lean < -1 && self.hdiff(inner) * sign < 0;
            self.rotate(child, high);
            if lowered {
                self.tree.nodes[item].balance -= sign;
                return (item, true);
            }
        }
        // A child that leans neither way keeps its height below, and so the whole its height.
        (self.rotate(item, 1 - high), lean != 0)
    }

    /// Whether wrong books ask for a rotation around an item that is not there.
    fn is_misled(&self, child: u32, high: usize, sign: i32) -> bool {
        child == NONE
            || self.hdiff(child) * sign < 0 && self.tree.nodes[child].child[1 - high] == NONE
    }

    /// Tells the parents of `item`, whose subtree became higher by one.
    #[inline(always)]
    fn climb_higher(&mut self, mut item: u32) {
        loop {
            let parent = self.tree.nodes[item].parent;
            if parent == NONE {
                return;
            }
            let step = if self.tree.side_of(item, parent) == LEFT { 1 } else { -1 };
            let old = self.hdiff(parent);
            self.tree.nodes[parent].balance = old + step;
            if old * step < 0 {
                return;
            }
            item = parent;
            if old != 0 {
                // It leaned to this side already.
                let (top, lowered) = self.balance_one(parent);
                if lowered {
                    return;
                }
                item = top;
            }
        }
    }

    /// Tells `parent`, whose `side` became lower by one, and all above it; rotates where needed.
    #[inline(always)]
    fn climb_lower(&mut self, mut parent: u32, mut side: usize) {
        while parent != NONE {
            let step = if side == LEFT { -1 } else { 1 };
            let old = self.hdiff(parent);
            self.tree.nodes[parent].balance = old + step;
            let grandparent = self.tree.nodes[parent].parent;
            let side_above =
                if grandparent == NONE { LEFT } else { self.tree.side_of(parent, grandparent) };
            if old == 0 || old * step > 0 && !self.balance_one(parent).1 {
                return;
            }
            (parent, side) = (grandparent, side_above);
        }
    }

    /// Cuts the first item off: no rotation, only the books along the left edge.
    #[inline(always)]
    fn cut_first(&mut self, item: u32) {
        let right = self.tree.nodes[item].child[RIGHT];
        let mut parent = self.tree.nodes[item].parent;
        self.tree.first = if right == NONE { parent } else { self.tree.outermost(right, LEFT) };
        self.tree.replace(item, right);
        self.tree.forget(item);
        while parent != NONE {
            let old = self.hdiff(parent);
            if FIRST == CUT_PUBLISHED {
                self.tree.nodes[parent].balance = old + 1;
                if old < 0 {
                    return;
                }
            } else {
                self.tree.nodes[parent].balance = old - 1;
                if old <= 0 {
                    return;
                }
            }
            parent = self.tree.nodes[parent].parent;
        }
    }

    /// Unlinks any item with full rebalancing.
    #[inline(always)]
    fn delete(&mut self, item: u32) {
        if item == self.tree.first {
            self.tree.first = self.tree.next(item);
        }
        let [left, right] = self.tree.nodes[item].child;
        let (parent, side);
        if left != NONE && right != NONE {
            // The neighbour from the higher side takes the place.
            let high = if self.hdiff(item) >= 0 { LEFT } else { RIGHT };
            let top = self.tree.nodes[item].child[high];
            let neighbour = self.tree.outermost(top, 1 - high);
            let above = self.tree.nodes[neighbour].parent;
            if above == item {
                (parent, side) = (neighbour, high);
            } else {
                (parent, side) = (above, 1 - high);
                let heir = self.tree.nodes[neighbour].child[high];
                self.tree.replace(neighbour, heir);
                self.tree.nodes[neighbour].child[high] = top;
                self.tree.nodes[top].parent = neighbour;
            }
            let other = self.tree.nodes[item].child[1 - high];
            self.tree.replace(item, neighbour);
            self.tree.nodes[neighbour].child[1 - high] = other;
            self.tree.nodes[other].parent = neighbour;
            self.tree.nodes[neighbour].balance = self.hdiff(item);
        } else {
            let heir = if left == NONE { right } else { left };
            parent = self.tree.nodes[item].parent;
            side = if parent == NONE { LEFT } else { self.tree.side_of(item, parent) };
            self.tree.replace(item, heir);
        }
        self.tree.forget(item);
        self.climb_lower(parent, side);
    }
}

impl<const FIRST: u8> RunQueue for GavlTreeOf<FIRST> {
    const NAME: &'static str =
        ["gavl_tree", "gavl_tree_delete", "gavl_tree_published"][FIRST as usize];

    fn with_capacity(capacity: usize) -> Self {
        GavlTreeOf { tree: BinaryTree::new(capacity) }
    }

    #[inline]
    fn push(&mut self, item: u32, key: u64) {
        self.tree.attach(item, key);
        self.climb_higher(item);
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        let item = self.peek()?;
        if FIRST == DELETE {
            self.delete(item);
        } else {
            self.cut_first(item);
        }
        Some(item)
    }

    #[inline]
    fn peek(&mut self) -> Option<u32> {
        (self.tree.first != NONE).then_some(self.tree.first)
    }

    #[inline]
    fn remove(&mut self, item: u32) {
        assert!(self.contains(item), "item {item} is not queued");
        self.delete(item);
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
