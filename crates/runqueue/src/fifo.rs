//! A list that is walked in the order of arrival and gives up any item in constant time.
//!
//! Items lie in one array in list order, so a walk over thousands of them reads memory in a
//! straight line instead of chasing pointers: that is what a policy that scans its whole queue
//! at every decision spends its time on. An item taken from the middle leaves a hole, and holes
//! are squeezed out once they outnumber the items.
//!
//! Cost: push and remove O(1) (amortised over squeezing), walking O(items + holes) with
//! holes <= items + [`HOLES_SPARED`].

use std::collections::VecDeque;

const HOLE: u32 = u32::MAX;
/// Holes that are never worth squeezing out.
const HOLES_SPARED: usize = 64;

/// A first-in-first-out list of numbers below `u32::MAX`.
///
/// A position stays valid until the item is removed or the list is squeezed.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    slots: VecDeque<u32>,
    /// Position of `slots[0]`; positions to the left of it are smaller.
    base: i64,
    len: usize,
}

impl Fifo {
    /// How many items it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds `item` behind all others and returns its position.
    pub fn push_back(&mut self, item: u32) -> i64 {
        debug_assert_ne!(item, HOLE);
        self.slots.push_back(item);
        self.len += 1;
        self.base + self.slots.len() as i64 - 1
    }

    /// Adds `item` in front of all others and returns its position.
    pub fn push_front(&mut self, item: u32) -> i64 {
        debug_assert_ne!(item, HOLE);
        self.slots.push_front(item);
        self.len += 1;
        self.base -= 1;
        self.base
    }

    /// The first item.
    pub fn first(&self) -> Option<u32> {
        self.slots.front().copied()
    }

    /// Removes the item at `position` and returns it.
    ///
    /// # Panics
    /// If nothing is there: the caller's own books are wrong.
    pub fn remove(&mut self, position: i64) -> u32 {
        let index = usize::try_from(position - self.base).expect("position is in the list");
        let item = std::mem::replace(&mut self.slots[index], HOLE);
        assert_ne!(item, HOLE, "no item at position {position}");
        self.len -= 1;
        self.skip_holes();
        while self.slots.back() == Some(&HOLE) {
            self.slots.pop_back();
        }
        item
    }

    /// Removes the first item and returns it.
    #[inline]
    pub fn pop_front(&mut self) -> Option<u32> {
        let item = self.slots.pop_front()?;
        self.base += 1;
        self.len -= 1;
        self.skip_holes();
        Some(item)
    }

    /// Neither the first slot nor the last is a hole.
    #[inline]
    fn skip_holes(&mut self) {
        while self.slots.front() == Some(&HOLE) {
            self.slots.pop_front();
            self.base += 1;
        }
    }

    /// Whether [`squeeze`](Self::squeeze) is due.
    pub fn has_too_many_holes(&self) -> bool {
        self.slots.len() > 2 * self.len + HOLES_SPARED
    }

    /// Removes all holes and tells every item's new position.
    pub fn squeeze(&mut self, mut moved: impl FnMut(u32, i64)) {
        self.slots.retain(|&item| item != HOLE);
        for (index, &item) in self.slots.iter().enumerate() {
            moved(item, self.base + index as i64);
        }
    }

    /// Position of the first slot, and the one behind the last.
    pub fn bounds(&self) -> (i64, i64) {
        (self.base, self.base + self.slots.len() as i64)
    }

    /// Copies what `shown` makes of items to `out`, from the first one at or behind position `from`
    /// on, until it is full or the list ends. Returns how many there were and the position behind
    /// the last one looked at.
    pub fn copy_from<T>(&self, from: i64, out: &mut [T], shown: impl Fn(u32) -> T) -> (usize, i64) {
        let start = usize::try_from(from - self.base).unwrap_or(0);
        let (left, right) = self.slots.as_slices();
        let parts = [left.get(start..), right.get(start.saturating_sub(left.len())..)];
        let (mut filled, mut looked_at) = (0, start);
        for part in parts.into_iter().flatten() {
            let mut rest = part;
            while filled < out.len() && !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(out.len() - filled));
                for &item in now {
                    // What is made of a hole is overwritten, or behind the last.
                    out[filled] = shown(item);
                    filled += usize::from(item != HOLE);
                }
                looked_at += now.len();
                rest = later;
            }
        }
        (filled, self.base + looked_at as i64)
    }

    /// Copies what `shown` makes of items to `out`, from the last one in front of position `before`
    /// on backwards, until it is full or the list ends. Returns how many there were and the
    /// position of the last one looked at.
    pub fn copy_before<T>(
        &self,
        before: i64,
        out: &mut [T],
        shown: impl Fn(u32) -> T,
    ) -> (usize, i64) {
        let end = usize::try_from(before - self.base).unwrap_or(0).min(self.slots.len());
        let (left, right) = self.slots.as_slices();
        let parts = [&right[..end.saturating_sub(left.len())], &left[..end.min(left.len())]];
        let (mut filled, mut position) = (0, end);
        for part in parts {
            let mut rest = part;
            while filled < out.len() && !rest.is_empty() {
                let room = rest.len().min(out.len() - filled);
                let (later, now) = rest.split_at(rest.len() - room);
                for &item in now.iter().rev() {
                    // What is made of a hole is overwritten, or behind the last.
                    out[filled] = shown(item);
                    filled += usize::from(item != HOLE);
                }
                position -= room;
                rest = later;
            }
        }
        (filled, self.base + position as i64)
    }

    /// The items, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.slots.iter().copied().filter(|&item| item != HOLE)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the list is a list. Method: a plain vector beside it, driven by random operations.

    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn agrees_with_a_vector(
            operations in prop::collection::vec((0u8..5, any::<prop::sample::Index>()), 1..400),
        ) {
            let (mut fifo, mut model) = (Fifo::default(), Vec::new());
            let mut positions = BTreeMap::new();
            for (item, (operation, pick)) in operations.into_iter().enumerate() {
                let item = item as u32;
                match operation {
                    0 => { positions.insert(item, fifo.push_back(item)); model.push(item); }
                    2 => {
                        let first = (!model.is_empty()).then(|| model.remove(0));
                        prop_assert_eq!(fifo.pop_front(), first);
                    }
                    1 => { positions.insert(item, fifo.push_front(item)); model.insert(0, item); }
                    _ if model.is_empty() => {}
                    _ => {
                        let victim = model.remove(pick.index(model.len()));
                        prop_assert_eq!(fifo.remove(positions[&victim]), victim);
                    }
                }
                if fifo.has_too_many_holes() {
                    fifo.squeeze(|item, position| { positions.insert(item, position); });
                }
                prop_assert_eq!(fifo.iter().collect::<Vec<_>>(), model.clone());
                prop_assert_eq!(fifo.len(), model.len());
                prop_assert_eq!(fifo.first(), model.first().copied());
                let (mut copied, mut from) = (Vec::new(), fifo.bounds().0);
                let mut chunk = [0; 3];
                loop {
                    let (filled, next) = fifo.copy_from(from, &mut chunk, |item| item);
                    copied.extend_from_slice(&chunk[..filled]);
                    from = next;
                    if filled < chunk.len() {
                        break;
                    }
                }
                prop_assert_eq!(&copied, &model);
                let (mut copied, mut before) = (Vec::new(), fifo.bounds().1);
                loop {
                    let (filled, next) = fifo.copy_before(before, &mut chunk, |item| item);
                    copied.extend_from_slice(&chunk[..filled]);
                    before = next;
                    if filled < chunk.len() {
                        break;
                    }
                }
                copied.reverse();
                prop_assert_eq!(&copied, &model);
            }
        }
    }

    #[test]
    fn holes_never_outnumber_items_by_much() {
        let mut fifo = Fifo::default();
        let keeper = fifo.push_back(0);
        let mut keeper_position = keeper;
        for item in 1..10_000 {
            let position = fifo.push_front(item);
            if item > 1 {
                fifo.remove(position);
                fifo.push_front(item);
                let (first, _) = fifo.bounds();
                fifo.remove(first);
            }
            if fifo.has_too_many_holes() {
                fifo.squeeze(|item, position| {
                    if item == 0 {
                        keeper_position = position;
                    }
                });
            }
            let (from, to) = fifo.bounds();
            assert!((to - from) as usize <= 2 * fifo.len() + HOLES_SPARED);
        }
        let mut keeper = [u32::MAX];
        fifo.copy_from(keeper_position, &mut keeper, |item| item);
        assert_eq!(keeper, [0]);
    }
}
