//! A list that is walked in the order of arrival and gives up any item.
//!
//! Items lie in one array in list order, so a walk over thousands of them reads memory in a
//! straight line instead of chasing pointers: that is what a policy that scans its whole queue
//! at every decision spends its time on. So the array has no holes: behind an item that is taken
//! from the middle, or in front of it, the others move up, which is nothing beside one walk.
//!
//! Cost: push and remove at an end O(1), elsewhere O(log items) and moving fewer than half of them.

use std::collections::VecDeque;

/// A first-in-first-out list of numbers.
///
/// A position stays valid until its item is removed, and is no other's then.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    /// In the order of positions.
    slots: VecDeque<Slot>,
    /// Position of the next item in front of all others, plus 1.
    first: i64,
    /// Position of the next item behind all others.
    end: i64,
    /// The position from which slots count.
    origin: i64,
}

/// One word, so that a walk over thousands reads as little as can be, and several at a time.
#[derive(Clone, Copy, Debug)]
struct Slot(u64);

impl Slot {
    fn new(offset: i32, item: u32) -> Slot {
        Slot(u64::from(item) << 32 | u64::from(offset as u32))
    }

    /// Its position less the list's origin.
    fn offset(self) -> i32 {
        self.0 as i32
    }

    fn item(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// How far from the origin slots are counted before it is moved. A test moves it often.
const OFFSET_MAX: i64 = if cfg!(test) { 50 } else { i32::MAX as i64 };

/// Where a walk has got to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The position.
    pub position: i64,
    /// How many items stood in front of it then. Any other number is as right, but slower.
    pub index: usize,
}

impl Fifo {
    /// How many items it holds.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Adds `item` behind all others and returns its position.
    pub fn push_back(&mut self, item: u32) -> i64 {
        let position = self.end;
        self.end += 1;
        let offset = self.offset_of_new(position);
        self.slots.push_back(Slot::new(offset, item));
        position
    }

    /// Adds `item` in front of all others and returns its position.
    pub fn push_front(&mut self, item: u32) -> i64 {
        self.first -= 1;
        let offset = self.offset_of_new(self.first);
        self.slots.push_front(Slot::new(offset, item));
        self.first
    }

    /// The position of a new item from the origin, which moves to the first item if that is too
    /// far.
    ///
    /// # Panics
    /// If an item has waited while 2^31 others came: no queue of the simulator's holds one so long,
    /// since its watchdog ends the run before.
    #[inline]
    fn offset_of_new(&mut self, position: i64) -> i32 {
        if (position - self.origin).abs() > OFFSET_MAX {
            self.move_origin(position);
        }
        narrow(position - self.origin)
    }

    /// Moves the origin to the first item, or else to the position of the new one.
    #[cold]
    fn move_origin(&mut self, new: i64) {
        let by = self.slots.front().map_or(new - self.origin, |slot| slot.offset().into());
        self.origin += by;
        for slot in &mut self.slots {
            *slot = Slot::new(narrow(i64::from(slot.offset()) - by), slot.item());
        }
    }

    /// The first item.
    pub fn first(&self) -> Option<u32> {
        self.slots.front().map(|slot| slot.item())
    }

    /// Removes the item at `position` and returns it.
    ///
    /// # Panics
    /// If nothing is there: the caller's own books are wrong.
    pub fn remove(&mut self, position: i64) -> u32 {
        let offset = position - self.origin;
        let is_there = |slot: &Slot| i64::from(slot.offset()) == offset;
        let slot = if self.slots.front().is_some_and(is_there) {
            self.slots.pop_front()
        } else {
            self.slots.remove(self.index(position)).filter(is_there)
        };
        slot.unwrap_or_else(|| panic!("no item at position {position}")).item()
    }

    /// Removes the first item and returns it.
    #[inline]
    pub fn pop_front(&mut self) -> Option<u32> {
        self.slots.pop_front().map(|slot| slot.item())
    }

    /// How many items stand in front of a position.
    fn index(&self, position: i64) -> usize {
        self.slots.partition_point(|slot| self.position(slot) < position)
    }

    /// The same of where a walk has got to: mostly where it was.
    fn index_of(&self, reached: Reached) -> usize {
        let Reached { position, index } = reached;
        let stands = |index: usize, position| {
            self.slots.get(index).is_some_and(|slot| self.position(slot) == position)
        };
        if stands(index, position) || index > 0 && stands(index - 1, position.wrapping_sub(1)) {
            return index;
        }
        self.index(position)
    }

    fn position(&self, slot: &Slot) -> i64 {
        self.origin + i64::from(slot.offset())
    }

    /// Copies what `shown` makes of items to `out`, from the first one, or the first at or behind
    /// `from`, until it is full or the list ends. Returns how many there were and, if any, what is
    /// behind the last one.
    pub fn copy_from<T>(
        &self,
        from: Option<Reached>,
        out: &mut [T],
        shown: impl Fn(u32) -> T,
    ) -> (usize, Option<Reached>) {
        let begin = from.map_or(0, |from| self.index_of(from));
        let end = self.len().min(begin + out.len());
        let (left, right) = self.between(begin, end);
        let (to_left, to_right) = out.split_at_mut(left.len());
        copy(left.iter(), to_left, &shown);
        copy(right.iter(), to_right, &shown);
        let behind = |end: usize| self.position(&self.slots[end - 1]) + 1;
        let reached = (begin < end).then(|| Reached { position: behind(end), index: end });
        (end - begin, reached)
    }

    /// Copies what `shown` makes of items to `out`, from the last one, or the last in front of
    /// `before`, on backwards, until it is full or the list ends. Returns how many there were and,
    /// if any, where the last one is.
    pub fn copy_before<T>(
        &self,
        before: Option<Reached>,
        out: &mut [T],
        shown: impl Fn(u32) -> T,
    ) -> (usize, Option<Reached>) {
        let end = before.map_or(self.len(), |before| self.index_of(before));
        let begin = end.saturating_sub(out.len());
        let (left, right) = self.between(begin, end);
        let (to_right, to_left) = out.split_at_mut(right.len());
        copy(right.iter().rev(), to_right, &shown);
        copy(left.iter().rev(), to_left, &shown);
        let at = |index: usize| Reached { position: self.position(&self.slots[index]), index };
        (end - begin, (begin < end).then(|| at(begin)))
    }

    /// The slots between two places, which may lie in two parts.
    fn between(&self, begin: usize, end: usize) -> (&[Slot], &[Slot]) {
        let (left, right) = self.slots.as_slices();
        let middle = left.len();
        let right = &right[begin.saturating_sub(middle)..end.saturating_sub(middle)];
        (&left[begin.min(middle)..end.min(middle)], right)
    }

    /// The items, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.slots.iter().map(|slot| slot.item())
    }
}

fn narrow(offset: i64) -> i32 {
    i32::try_from(offset).expect("no item waits while 2^31 others come")
}

fn copy<'a, T>(slots: impl Iterator<Item = &'a Slot>, out: &mut [T], shown: &impl Fn(u32) -> T) {
    out.iter_mut().zip(slots).for_each(|(to, slot)| *to = shown(slot.item()));
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
                prop_assert_eq!(fifo.iter().collect::<Vec<_>>(), model.clone());
                prop_assert_eq!(fifo.len(), model.len());
                prop_assert_eq!(fifo.first(), model.first().copied());
                let (mut copied, mut from) = (Vec::new(), None);
                let mut chunk = [0; 3];
                loop {
                    let (filled, next) = fifo.copy_from(from, &mut chunk, |item| item);
                    copied.extend_from_slice(&chunk[..filled]);
                    from = next.or(from);
                    if filled < chunk.len() {
                        break;
                    }
                }
                prop_assert_eq!(&copied, &model);
                let (mut copied, mut before) = (Vec::new(), None);
                loop {
                    let (filled, next) = fifo.copy_before(before, &mut chunk, |item| item);
                    copied.extend_from_slice(&chunk[..filled]);
                    before = next.or(before);
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
    fn walks_go_on_where_they_were_whatever_was_taken_meanwhile() {
        let mut fifo = Fifo::default();
        let positions: Vec<i64> = (0..6).map(|item| fifo.push_back(item)).collect();
        let mut one = [0];
        let (_, forwards) = fifo.copy_from(None, &mut one, |item| item);
        let (_, backwards) = fifo.copy_before(None, &mut one, |item| item);
        fifo.remove(positions[1]);
        fifo.remove(positions[4]);
        fifo.push_front(9);
        assert_eq!(fifo.copy_from(forwards, &mut one, |item| item).0, 1);
        assert_eq!(one, [2]);
        assert_eq!(fifo.copy_before(backwards, &mut one, |item| item).0, 1);
        assert_eq!(one, [3]);
    }

    #[test]
    fn an_item_may_wait_while_many_others_come_and_go() {
        let mut fifo = Fifo::default();
        let waits = fifo.push_back(7);
        for item in 0..10 * OFFSET_MAX as u32 {
            let (front, back) = (fifo.push_front(item), fifo.push_back(item));
            assert_eq!((fifo.remove(back), fifo.remove(front)), (item, item));
        }
        assert_eq!((fifo.remove(waits), fifo.len()), (7, 0));
    }

    #[test]
    #[should_panic(expected = "no item at position 0")]
    fn a_position_is_nobodys_once_its_item_is_removed() {
        let mut fifo = Fifo::default();
        let gone = fifo.push_back(0);
        assert_eq!(fifo.remove(gone), 0);
        fifo.push_back(1);
        fifo.remove(gone);
    }
}
