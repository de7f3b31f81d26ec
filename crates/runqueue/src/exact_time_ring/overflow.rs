//! What lies beyond the ring's end: lists, each for as many keys as half of the ring, and a rest
//! that lies beyond those.
//!
//! When half of the ring has passed one list comes in, and no other is touched. The rest is gone
//! through when half of the lists have passed. A million items of uneven keys have seven in eight
//! here: as one list, gone through each time, they made half of all the work, and pops that took
//! tens of milliseconds.
//!
//! Slots are told by their numbers, as the ring does. Entries of one key are in one list at any
//! time: what is in a list is before `end`, what is in the rest is not. Entries that were removed
//! are holes: lows may be too low, and a list that has only holes counts as occupied.

use super::chunks::{Bucket, Chunks, Place};

/// There is a list for so many slots that the ring has room for.
const SLOTS_PER_LIST: usize = 64;
/// Fewest and most lists: one word has a bit for each.
const LISTS_MIN: usize = 2;
const LISTS_MAX: usize = 64;
/// The lowest number where there is no entry.
const NOTHING: i64 = i64::MAX;

#[derive(Clone, Debug)]
pub(super) struct Overflow {
    lists: Box<[Bucket]>,
    occupied: u64,
    /// log2 of the slots that a list is for.
    shift: u32,
    /// The first list that there is no room for: its entries are in the rest. While nothing but the
    /// rest is here the ring may go past it; what comes then joins the rest.
    end: i64,
    rest: Bucket,
    /// No entry of the rest has a lower number.
    rest_low: i64,
    /// No entry at all has a lower number.
    low: i64,
    /// Entries of the rest that were gone through since the ring was built.
    passed: u64,
}

impl Overflow {
    /// For a ring of at most so many slots.
    pub fn new(slots: usize) -> Self {
        let lists = match slots {
            0 => 0,
            _ => (slots / SLOTS_PER_LIST).next_power_of_two().clamp(LISTS_MIN, LISTS_MAX),
        };
        Overflow {
            lists: vec![Bucket::EMPTY; lists].into_boxed_slice(),
            occupied: 0,
            shift: 0,
            end: 0,
            rest: Bucket::EMPTY,
            rest_low: NOTHING,
            low: NOTHING,
            passed: 0,
        }
    }

    /// How many lists there are beside the rest.
    pub fn lists(&self) -> usize {
        self.lists.len()
    }

    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.lists)
    }

    /// The number of the first slot that an entry may belong to; more than all where there is none.
    #[inline(always)]
    pub fn low(&self) -> i64 {
        self.low
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.low == NOTHING
    }

    /// Entries of the rest that were gone through since the ring was built: many, if slots are far
    /// too short for what is left.
    #[inline(always)]
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// The ring has this number of slots now. Nothing may be here.
    pub fn begin(&mut self, slots: usize) {
        debug_assert!(self.is_empty());
        self.shift = (slots / 2).ilog2();
        self.passed = 0;
    }

    /// Queues an entry of this slot, which is not before the ring's end.
    #[inline(never)]
    pub fn push(
        &mut self,
        chunks: &mut Chunks,
        (number, ring_end): (i64, i64),
        (key, tag): (i64, u64),
    ) -> Place {
        if self.is_empty() {
            self.end = (ring_end >> self.shift) + self.lists.len() as i64;
        }
        self.low = self.low.min(number);
        let list = number >> self.shift;
        if list < self.end {
            let index = list as usize & (self.lists.len() - 1);
            self.occupied |= 1 << index;
            return chunks.push(&mut self.lists[index], key, tag);
        }
        self.rest_low = self.rest_low.min(number);
        chunks.push(&mut self.rest, key, tag)
    }

    /// Takes out what the ring takes in when it ends here, where a list begins: the lists before,
    /// one a call, and at last the rest, if it may have something for the ring, or has come near.
    /// What the caller finds in it that is not for the ring is to be queued here again.
    pub fn take_before(&mut self, ring_end: i64) -> Option<Bucket> {
        let first = ring_end >> self.shift;
        if let Some(list) = self.first_list().filter(|list| *list < first) {
            return Some(self.take(list));
        }
        // As in the ring: as far as it goes if nothing would have to come in, otherwise half.
        let lists = self.lists.len() as i64;
        let is_beyond = self.rest_low >> self.shift >= first + lists;
        let comes = !is_beyond && self.end - first <= lists / 2;
        if is_beyond || comes {
            self.end = first + lists;
        }
        let rest = comes.then(|| {
            self.rest_low = NOTHING;
            self.passed += u64::from(self.rest.entries);
            std::mem::replace(&mut self.rest, Bucket::EMPTY)
        });
        self.low = self.first_list().map_or(NOTHING, |list| list << self.shift).min(self.rest_low);
        rest
    }

    /// Moves all entries behind those of `all`, the earlier lists first.
    pub fn pour(&mut self, chunks: &mut Chunks, all: &mut Bucket) {
        while let Some(list) = self.first_list() {
            chunks.pour(&mut self.take(list), all);
        }
        chunks.pour(&mut self.rest, all);
        (self.rest_low, self.low) = (NOTHING, NOTHING);
    }

    /// Makes the places free that removals left behind, and tells `placed` where entries are.
    pub fn sweep(&mut self, chunks: &mut Chunks, mut placed: impl FnMut(u64, Place)) {
        for list in self.lists.iter_mut().chain([&mut self.rest]) {
            let mut old = std::mem::replace(list, Bucket::EMPTY);
            chunks.pour(&mut old, list);
            chunks.places(list, &mut placed);
        }
    }

    fn take(&mut self, list: i64) -> Bucket {
        let index = list as usize & (self.lists.len() - 1);
        self.occupied &= !(1 << index);
        std::mem::replace(&mut self.lists[index], Bucket::EMPTY)
    }

    /// The first list that is not empty: none is further from `end` than there are lists.
    fn first_list(&self) -> Option<i64> {
        let lists = self.lists.len();
        let from = self.end - lists as i64;
        let turn = from as usize & (lists - 1);
        // Seen twice, one after the other, the lists in their order are somewhere among them.
        let twice = u128::from(self.occupied) | u128::from(self.occupied) << lists;
        (self.occupied != 0).then(|| from + i64::from((twice >> turn).trailing_zeros()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Checked, in_each_form};
    use super::{Bucket, Chunks, Overflow};
    use crate::hold::Random;

    /// Entries in lists, and in the rest.
    fn held(overflow: &Overflow) -> [u32; 2] {
        [overflow.lists.iter().map(|list| list.entries).sum(), overflow.rest.entries]
    }

    #[test]
    fn what_lies_far_ahead_comes_in_list_by_list_and_ties_stay_in_order() {
        in_each_form(|form| {
            for removals in [false, true] {
                let mut queue = Checked::new(form, 5000);
                let mut random = Random::new(6);
                // Each scale, four times as far as the one before, half as often.
                let ahead = |random: &mut Random| {
                    let scale = 2 * random.next().trailing_zeros().min(12);
                    8 * random.below(64 << scale) as i64
                };
                (0..5000).for_each(|item| queue.push(item, ahead(&mut random)));
                let (mut most, mut came, mut before) = ([0; 2], [0; 2], [0; 2]);
                for _ in 0..200_000 {
                    let Some((item, distance)) = queue.pop() else { break };
                    let mut key = distance + ahead(&mut random);
                    let other = random.below(5000) as u32;
                    if removals && other != item {
                        if random.below(8) == 0 {
                            key = queue.place[other as usize].0;
                        }
                        queue.remove(other);
                        queue.push(other, key);
                    }
                    queue.push(item, key);
                    let now = held(queue.queue.ring.overflow());
                    for place in 0..2 {
                        most[place] = now[place].max(most[place]);
                        came[place] += u32::from(now[place] + 20 < before[place]);
                    }
                    before = now;
                }
                queue.pop_all();
                let enough = most[0].min(most[1]) > 1000 && came[0] > 10 && came[1] > 0;
                assert!(enough, "{form:?}: at most {most:?}, came {came:?} times");
            }
        });
    }

    #[test]
    fn slots_are_made_longer_where_what_is_left_lies_farther_apart_than_all_lists_reach() {
        in_each_form(|form| {
            const DENSE: u32 = 1300;
            let mut queue = Checked::new(form, 20_000);
            let shuffled = |to: u32| (0..to).map(move |n| n * 7919 % to);
            shuffled(DENSE).for_each(|item| queue.push(item, item.into()));
            for _ in 0..DENSE {
                let Some((item, distance)) = queue.pop() else { break };
                queue.push(item, distance + i64::from(DENSE));
            }
            for item in shuffled(20_000).filter(|item| *item >= DENSE) {
                queue.push(item, (1 << 40) + (i64::from(item) << 30));
            }
            let mut passed = 0;
            for _ in 0..DENSE + 50 {
                queue.pop();
                passed = queue.queue.ring.overflow().passed().max(passed);
            }
            assert!(passed > 20_000, "{form:?}: the rest was gone through, {passed} entries");
            assert!(queue.queue.ring.slot_bits() > 30, "{form:?}: until slots were longer");
            queue.pop_all();
        });
    }

    #[test]
    fn only_what_the_ring_has_room_for_is_taken_out() {
        // 64 lists for 32 slots each; the ring ends at slot 70, within the list of 64 to 95.
        let (mut chunks, mut overflow) = (Chunks::new(500), Overflow::new(4096));
        overflow.begin(64);
        let numbers = [70, 95, 96, 4096, 2111, 2112, 70, 2145, 1 << 50];
        for (tag, number) in (0..).zip(numbers) {
            overflow.push(&mut chunks, (number, 70), (number, tag));
        }
        let mut take = |overflow: &mut Overflow, end: i64| -> Vec<u64> {
            let mut taken = Bucket::EMPTY;
            while let Some(mut list) = overflow.take_before(end) {
                // As the ring does: what is not for it comes back.
                while let Some(chunk) = chunks.take_first(&mut list) {
                    for (number, tag) in chunk.entries() {
                        match number < end {
                            true => drop(chunks.push(&mut taken, number, tag)),
                            false => drop(overflow.push(&mut chunks, (number, end), (number, tag))),
                        }
                    }
                }
            }
            std::iter::from_fn(|| chunks.take_first(&mut taken))
                .flat_map(|chunk| chunk.entries().map(|entry| entry.1).collect::<Vec<_>>())
                .collect()
        };
        // Lists go on to slot 2111 = 66 * 32 - 1: four numbers lie beyond.
        assert_eq!((overflow.low(), held(&overflow)), (70, [5, 4]));
        assert_eq!(take(&mut overflow, 96), [0, 1, 6]);
        assert_eq!((overflow.low(), held(&overflow)), (96, [2, 4]));
        assert_eq!(take(&mut overflow, 128), [2]);
        // Half of the lists have passed: those that came near leave the rest.
        assert_eq!((take(&mut overflow, 1088), held(&overflow)), (vec![], [3, 2]));
        assert_eq!(take(&mut overflow, 2112), [4]);
        assert_eq!(take(&mut overflow, 2176), [5, 7]);
        assert_eq!((overflow.low(), held(&overflow)), (4096, [1, 1]));
        assert_eq!((take(&mut overflow, 4128), overflow.low()), (vec![3], 1 << 50));
        let mut all = Bucket::EMPTY;
        overflow.pour(&mut chunks, &mut all);
        assert_eq!((all.entries, overflow.is_empty()), (1, true));
    }
}
