//! Numbers in the order of a wrapping 64-bit key; equal keys keep the order of arrival.
//!
//! The standard library's B-tree does the work. Cost: O(log n) for everything, and a walk in
//! order touches its leaves one after the other.

use std::collections::BTreeMap;
use std::ops::Bound;

/// Where an item stands: its key, then its arrival.
///
/// Keys are times that begin near 0 and may be set back below it; they are compared as signed
/// numbers, so 2^64 - 1 comes just before 0, as it does for the kernel's `time_before`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The wrapping key.
    pub at: i64,
    /// Arrival: larger is later. Unique among the items of one queue.
    pub arrival: u64,
}

/// A queue in the order of [`Key`].
#[derive(Clone, Debug, Default)]
pub struct Ordered {
    items: BTreeMap<Key, u32>,
}

impl Ordered {
    /// How many items it holds.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Adds `item`; its key must not be in the queue.
    pub fn push(&mut self, key: Key, item: u32) {
        let other = self.items.insert(key, item);
        assert!(other.is_none(), "arrivals are unique");
    }

    /// Removes and returns the item with this key.
    ///
    /// # Panics
    /// If it is not there: the caller's own books are wrong.
    pub fn remove(&mut self, key: Key) -> u32 {
        self.items.remove(&key).expect("the item is queued")
    }

    /// Removes the first item and returns it.
    pub fn pop_first(&mut self) -> Option<u32> {
        self.items.pop_first().map(|(_, item)| item)
    }

    /// The first item.
    pub fn first(&self) -> Option<u32> {
        self.items.first_key_value().map(|(_, &item)| item)
    }

    /// Items behind `after`, in order; all of them if it is `None`.
    pub fn after(&self, after: Option<Key>) -> impl Iterator<Item = (Key, u32)> + '_ {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.items.range((from, Bound::Unbounded)).map(|(&key, &item)| (key, item))
    }

    /// Items before `before`, last first; all of them if it is `None`.
    pub fn before(&self, before: Option<Key>) -> impl Iterator<Item = (Key, u32)> + '_ {
        let to = before.map_or(Bound::Unbounded, Bound::Excluded);
        self.items.range((Bound::Unbounded, to)).rev().map(|(&key, &item)| (key, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_wrap_and_ties_keep_arrival() {
        let mut queue = Ordered::default();
        let key = |at: u64, arrival| Key { at: at as i64, arrival };
        queue.push(key(1, 1), 10);
        queue.push(key(0u64.wrapping_sub(5), 2), 20);
        queue.push(key(1, 3), 30);
        queue.push(key(0, 4), 40);
        let order: Vec<u32> = queue.after(None).map(|(_, item)| item).collect();
        assert_eq!(order, [20, 40, 10, 30]);
        assert_eq!(queue.before(Some(key(1, 3))).next().map(|(_, item)| item), Some(10));
        assert_eq!(queue.remove(key(0, 4)), 40);
        assert_eq!((queue.first(), queue.len(), queue.is_empty()), (Some(20), 3, false));
    }
}
