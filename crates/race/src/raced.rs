//! What the race asks of a queue, whether it is ours, the standard library's or a plug-in's.
//!
//! The two loops of 2007 are operations of their own: each queue brings them compiled for itself,
//! so that no call stands between a pop and its push.

use runqueue::RunQueue;
use runqueue::hold::{Increments, Random};

/// A queue in a race.
pub trait Raced {
    /// Queues `item` with `key`, behind all items with an equal key.
    fn push(&mut self, item: u32, key: u64);

    /// Removes the first item and returns it.
    fn pop(&mut self) -> Option<u32>;

    /// Removes a queued item. Never asked of an entrant that cannot.
    fn remove(&mut self, item: u32);

    /// The key that `item` was last pushed with.
    fn key(&self, item: u32) -> u64;

    /// Bytes that the queue holds.
    fn memory_bytes(&self) -> u64;

    /// The loop of 2007: see [`Increments::hold`].
    fn hold(&mut self, increments: &Increments, round: u64, loops: u64);

    /// The loop with sleepers: see [`Increments::hold_and_remove`].
    fn hold_and_remove(
        &mut self,
        items: u32,
        increments: &Increments,
        round: u64,
        loops: u64,
        random: &mut Random,
    );
}

impl<Q: RunQueue> Raced for Q {
    #[inline(always)]
    fn push(&mut self, item: u32, key: u64) {
        RunQueue::push(self, item, key);
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<u32> {
        RunQueue::pop(self)
    }

    #[inline(always)]
    fn remove(&mut self, item: u32) {
        RunQueue::remove(self, item);
    }

    #[inline(always)]
    fn key(&self, item: u32) -> u64 {
        RunQueue::key(self, item)
    }

    fn memory_bytes(&self) -> u64 {
        RunQueue::memory_bytes(self) as u64
    }

    #[inline(always)]
    fn hold(&mut self, increments: &Increments, round: u64, loops: u64) {
        increments.hold(self, round as usize, loops as usize);
    }

    #[inline(always)]
    fn hold_and_remove(
        &mut self,
        items: u32,
        increments: &Increments,
        round: u64,
        loops: u64,
        random: &mut Random,
    ) {
        increments.hold_and_remove(self, items, round as usize, loops as usize, random);
    }
}

/// What loop number `round` adds to the key of `item`.
#[inline(always)]
pub fn increment(increments: &Increments, round: u64, item: u32) -> u64 {
    if increments.slowness().is_some() {
        increments.of::<true>(round as usize, item)
    } else {
        increments.of::<false>(round as usize, item)
    }
}
