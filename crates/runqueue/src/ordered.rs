//! Numbers in the order of a wrapping 64-bit key; equal keys keep the order of arrival.
//!
//! The standard library's B-tree does the work, except for few items: most queues of a CPU hold
//! one or two and then none, for which a tree is made and dropped each time. Cost: O(log n) for
//! everything, and a walk in order touches the tree's leaves one after the other.

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

/// Items that are kept in one array, in order.
const FEW: usize = 8;

/// A queue in the order of [`Key`].
#[derive(Clone, Debug, Default)]
pub struct Ordered {
    /// All items, unless they are in the tree.
    few: Vec<(Key, u32)>,
    /// All items since there were more than [`FEW`], until there is none.
    many: BTreeMap<Key, u32>,
}

impl Ordered {
    /// How many items it holds.
    pub fn len(&self) -> usize {
        self.few.len() + self.many.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds `item`; its key must not be in the queue.
    pub fn push(&mut self, key: Key, item: u32) {
        if self.many.is_empty() && self.few.len() < FEW {
            let is_behind = self.few.last().is_none_or(|last| last.0 < key);
            let place = if is_behind { self.few.len() } else { self.first_not(|at| at < key) };
            assert!(self.few.get(place).is_none_or(|other| other.0 != key), "{UNIQUE}");
            return self.few.insert(place, (key, item));
        }
        self.many.extend(self.few.drain(..));
        let other = self.many.insert(key, item);
        assert!(other.is_none(), "{UNIQUE}");
    }

    /// Removes and returns the item with this key.
    ///
    /// # Panics
    /// If it is not there: the caller's own books are wrong.
    pub fn remove(&mut self, key: Key) -> u32 {
        let place = self.few.iter().position(|item| item.0 == key);
        let few = place.map(|place| self.few.remove(place).1);
        few.or_else(|| self.many.remove(&key)).expect("the item is queued")
    }

    /// Removes the first item and returns it.
    pub fn pop_first(&mut self) -> Option<u32> {
        if self.few.is_empty() {
            return self.many.pop_first().map(|(_, item)| item);
        }
        Some(self.few.remove(0).1)
    }

    /// The first item.
    pub fn first(&self) -> Option<u32> {
        let few = self.few.first().map(|&(_, item)| item);
        few.or_else(|| self.many.first_key_value().map(|(_, &item)| item))
    }

    /// How many of the few come before the first whose key is not such.
    fn first_not(&self, is_such: impl Fn(Key) -> bool) -> usize {
        self.few.iter().position(|item| !is_such(item.0)).unwrap_or(self.few.len())
    }

    /// Items behind `after`, in order; all of them if it is `None`.
    pub fn after(&self, after: Option<Key>) -> impl Iterator<Item = (Key, u32)> + '_ {
        let begin = after.map_or(0, |key| self.first_not(|at| at <= key));
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.few[begin..].iter().copied().chain(self.range((from, Bound::Unbounded)))
    }

    /// Items before `before`, last first; all of them if it is `None`.
    pub fn before(&self, before: Option<Key>) -> impl Iterator<Item = (Key, u32)> + '_ {
        let end = before.map_or(self.few.len(), |key| self.first_not(|at| at < key));
        let to = before.map_or(Bound::Unbounded, Bound::Excluded);
        self.few[..end].iter().rev().copied().chain(self.range((Bound::Unbounded, to)).rev())
    }

    /// Copies what `shown` makes of the items behind `after` to `out`, as many as fit: how
    /// many, and the key of the last.
    pub fn copy_after<T>(
        &self,
        after: Option<Key>,
        out: &mut [T],
        shown: impl Fn(u32) -> T,
    ) -> (usize, Option<Key>) {
        if self.many.is_empty() {
            let begin = after.map_or(0, |key| self.first_not(|at| at <= key));
            return copy(self.few[begin..].iter().copied(), out, shown);
        }
        copy(self.after(after), out, shown)
    }

    /// The same of the items before `before`, last first.
    pub fn copy_before<T>(
        &self,
        before: Option<Key>,
        out: &mut [T],
        shown: impl Fn(u32) -> T,
    ) -> (usize, Option<Key>) {
        copy(self.before(before), out, shown)
    }

    /// Those of many within these bounds.
    fn range(
        &self,
        bounds: (Bound<Key>, Bound<Key>),
    ) -> impl DoubleEndedIterator<Item = (Key, u32)> + '_ {
        self.many.range(bounds).map(|(&key, &item)| (key, item))
    }
}

fn copy<T>(
    items: impl Iterator<Item = (Key, u32)>,
    out: &mut [T],
    shown: impl Fn(u32) -> T,
) -> (usize, Option<Key>) {
    let (mut filled, mut last) = (0, None);
    for (place, (key, item)) in out.iter_mut().zip(items) {
        *place = shown(item);
        (filled, last) = (filled + 1, Some(key));
    }
    (filled, last)
}

const UNIQUE: &str = "arrivals are unique";

#[cfg(test)]
mod tests {
    //! Goal: few items and many have one order. Method: a plain sorted vector beside the queue.

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_sorted_vector(
            // As much is taken as put, so that it is empty, has few and has many in turn.
            operations in prop::collection::vec((0u8..4, -3i64..3), 1..400),
            more in 0u8..3,
        ) {
            let (mut queue, mut model) = (Ordered::default(), Vec::<(Key, u32)>::new());
            for (item, (operation, at)) in operations.into_iter().enumerate() {
                let item = item as u32;
                match operation {
                    0 if !model.is_empty() => {
                        prop_assert_eq!(queue.pop_first(), Some(model.remove(0).1));
                    }
                    1 if more == 0 && !model.is_empty() => {
                        let (key, item) = model.remove(at.unsigned_abs() as usize % model.len());
                        prop_assert_eq!(queue.remove(key), item);
                    }
                    _ => {
                        let key = Key { at, arrival: u64::from(item) };
                        queue.push(key, item);
                        model.push((key, item));
                        model.sort();
                    }
                }
                prop_assert_eq!((queue.len(), queue.is_empty()), (model.len(), model.is_empty()));
                prop_assert_eq!(queue.first(), model.first().map(|first| first.1));
                let border = Key { at, arrival: u64::from(item) };
                let after = model.iter().copied().filter(|&(key, _)| key > border);
                prop_assert!(queue.after(Some(border)).eq(after));
                let before = model.iter().rev().copied().filter(|&(key, _)| key < border);
                prop_assert!(queue.before(Some(border)).eq(before));
                prop_assert!(queue.after(None).eq(model.iter().copied()));
                prop_assert!(queue.before(None).eq(model.iter().rev().copied()));
                for from in [None, Some(border)] {
                    let mut items = [0; 3];
                    let copied = queue.copy_after(from, &mut items, |item| item);
                    prop_assert_eq!(copied_of(queue.after(from)), (copied, items));
                    items = [0; 3];
                    let copied = queue.copy_before(from, &mut items, |item| item);
                    prop_assert_eq!(copied_of(queue.before(from)), (copied, items));
                }
            }
        }
    }

    /// What copying three of these items gives.
    fn copied_of(all: impl Iterator<Item = (Key, u32)>) -> ((usize, Option<Key>), [u32; 3]) {
        let all: Vec<(Key, u32)> = all.take(3).collect();
        let items = std::array::from_fn(|at| all.get(at).map_or(0, |item| item.1));
        ((all.len(), all.last().map(|last| last.0)), items)
    }

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
