//! Goal: exact structures stay exact when many items come back early, or nearly at once.
//!
//! Method: hold loops with bursts between them, beside the red-black tree, pop by pop. A burst
//! fills one slot of an exact time ring with more than it sorts at once, so that it is divided,
//! and parts of it again.

use runqueue::hold::{ALL_KEYS, Increments, Keys, Random};
use runqueue::*;

/// Two queues that must do alike.
struct Pair<Q> {
    queue: Q,
    tree: RedBlackTree,
    increments: Increments,
    pops: usize,
}

impl<Q: RunQueue> Pair<Q> {
    fn new(keys: Keys, items: u32, seed: u64) -> Self {
        let mut queue = Q::with_capacity(items as usize);
        let mut tree = RedBlackTree::with_capacity(items as usize);
        let increments = Increments::new(keys, seed);
        increments.fill(&mut queue, items, 0, seed + 2);
        increments.fill(&mut tree, items, 0, seed + 2);
        Pair { queue, tree, increments, pops: 0 }
    }

    fn pop(&mut self) -> (u32, u64) {
        let popped = self.queue.pop().map(|item| (item, self.queue.key(item)));
        let expected = self.tree.pop().map(|item| (item, self.tree.key(item)));
        self.pops += 1;
        assert_eq!(popped, expected, "pop {} of {}", self.pops, Q::NAME);
        expected.expect("items are queued")
    }

    fn push(&mut self, item: u32, key: u64) {
        self.queue.push(item, key);
        self.tree.push(item, key);
    }

    fn increment(&self, round: usize, item: u32) -> u64 {
        match self.increments.slowness() {
            Some(_) => self.increments.of::<true>(round, item),
            None => self.increments.of::<false>(round, item),
        }
    }

    fn turns(&mut self, turns: usize) {
        for round in 0..turns {
            let (item, key) = self.pop();
            self.push(item, key.wrapping_add(self.increment(round, item)));
        }
    }

    fn leave(&mut self, items: u32) -> Vec<(u32, u64)> {
        (0..items).map(|_| self.pop()).collect()
    }
}

fn stays_exact<Q: RunQueue>(keys: Keys, items: u32, seed: u64) {
    if !Q::is_here() {
        return;
    }
    let mut pair = Pair::<Q>::new(keys, items, seed);
    let mut random = Random::new(7);
    pair.turns(10_000);
    for (item, key) in pair.leave(items / 4) {
        // Before everybody else.
        let early = key.wrapping_sub(pair.increment(key as usize, item));
        pair.push(item, early);
    }
    let left = pair.leave(items / 4);
    let now = left.last().map_or(0, |&(_, key)| key);
    for (item, _) in left {
        pair.push(item, now.wrapping_add(random.below(16)));
    }
    pair.turns(10_000);
    pair.leave(items);
}

#[test]
fn bursts_of_wake_ups_leave_in_order() {
    for keys in ALL_KEYS {
        for items in [50, 200, 1000, 5000] {
            stays_exact::<ExactTimeRingScalar>(keys, items, 1);
            stays_exact::<ExactTimeRing>(keys, items, 1);
            stays_exact::<ExactTimeRingAvx2>(keys, items, 1);
            stays_exact::<ExactTimeRingAvx512>(keys, items, 1);
            stays_exact::<RadixWheel>(keys, items, 1);
            stays_exact::<FourAryHeap>(keys, items, 1);
        }
    }
}

#[test]
fn a_slot_that_is_divided_twice_ends_where_its_division_ends() {
    // Keys of items of forty weights lie so unevenly that parts of a slot are divided again.
    for (items, seed) in [(50, 1), (55, 1), (55, 5)] {
        let weighted = Keys::Weighted;
        Pair::<ExactTimeRingScalar>::new(weighted, items, seed).turns(30_000);
        Pair::<ExactTimeRing>::new(weighted, items, seed).turns(30_000);
        if ExactTimeRingAvx2::is_here() {
            Pair::<ExactTimeRingAvx2>::new(weighted, items, seed).turns(30_000);
        }
    }
}
