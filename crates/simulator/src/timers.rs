//! Sleeping timers, in the order of their times.
//!
//! Most come in that order: tasks of a kind sleep equally long, and a policy's timers repeat. So a
//! timer goes behind another one that is due before it, in one of few lanes; one that is due before
//! the ends of all lanes goes into a heap. Lanes take O(1), the heap O(log pending).

use crate::agenda::When;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How many lanes there are: for some lengths of sleeps, and for what is due in the far future.
const LANES: usize = 4;
/// Where the heap's first one counts as the first of a lane.
const HEAP: usize = LANES;

/// Things that wait for their time, in the order of [`When`].
#[derive(Debug)]
pub struct Timers<T> {
    lanes: [VecDeque<(When, T)>; LANES],
    heap: BinaryHeap<Reverse<(When, T)>>,
    /// When the first of all is due, and the lane, or [`HEAP`], that it is in.
    first: (When, usize),
}

impl<T: Ord + Copy> Timers<T> {
    /// No timers.
    pub fn new() -> Self {
        let lanes = [const { VecDeque::new() }; LANES];
        Timers { lanes, heap: BinaryHeap::new(), first: (When::NEVER, HEAP) }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lanes.iter().map(VecDeque::len).sum::<usize>() + self.heap.len()
    }

    /// Adds a timer.
    pub fn add(&mut self, when: When, what: T) {
        let lane = self.lane_for(when);
        match self.lanes.get_mut(lane) {
            Some(lane) => lane.push_back((when, what)),
            None => self.heap.push(Reverse((when, what))),
        }
        if when < self.first.0 {
            self.first = (when, lane);
        }
    }

    /// The lane whose last one is the latest of those that are due before `when`, an empty one if
    /// there is no such lane, or else the heap. What never comes would block a lane.
    fn lane_for(&self, when: When) -> usize {
        if when == When::NEVER {
            return HEAP;
        }
        let (mut best, mut latest) = (HEAP, None);
        for (number, lane) in self.lanes.iter().enumerate() {
            let last = lane.back().map(|last| last.0);
            if last.is_none_or(|last| last < when) && (best == HEAP || last > latest) {
                (best, latest) = (number, last);
            }
        }
        best
    }

    /// When the first one is due.
    #[inline]
    pub fn first(&self) -> When {
        self.first.0
    }

    /// The first one, which stays.
    pub fn peek(&self) -> Option<(When, T)> {
        match self.lanes.get(self.first.1) {
            Some(lane) => lane.front().copied(),
            None => self.heap.peek().map(|Reverse(entry)| *entry),
        }
    }

    /// Takes the first one out.
    pub fn take_first(&mut self) -> Option<(When, T)> {
        let first = match self.lanes.get_mut(self.first.1) {
            Some(lane) => lane.pop_front(),
            None => self.heap.pop().map(|Reverse(entry)| entry),
        };
        self.find_first();
        first
    }

    fn find_first(&mut self) {
        self.first = (self.heap.peek().map_or(When::NEVER, |Reverse((when, _))| *when), HEAP);
        for (number, lane) in self.lanes.iter().enumerate() {
            if let Some(&(when, _)) = lane.front()
                && when < self.first.0
            {
                self.first = (when, number);
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = &(When, T)> {
        self.lanes.iter().flatten().chain(self.heap.iter().map(|Reverse(entry)| entry))
    }

    /// All that are due at this time, in their order. O(pending).
    pub fn due_at(&self, at_ns: u64) -> Vec<(When, T)> {
        let mut due: Vec<_> =
            self.iter().filter(|(when, _)| when.at_ns == at_ns).copied().collect();
        due.sort_unstable();
        due
    }

    /// Lets the timer that is due `when` come before the others of its time. O(pending).
    pub fn bring_forward(&mut self, when: When) {
        let mut entries: Vec<_> = self.iter().copied().collect();
        entries.sort_unstable();
        let first = entries.iter().position(|(other, _)| other.at_ns == when.at_ns);
        let chosen = entries.iter().position(|(other, _)| *other == when);
        if let (Some(first), Some(chosen)) = (first, chosen) {
            let turns: Vec<When> = entries[first..=chosen].iter().map(|entry| entry.0).collect();
            entries[first..=chosen].rotate_right(1);
            for (entry, turn) in entries[first..=chosen].iter_mut().zip(turns) {
                entry.0 = turn;
            }
        }
        *self = Timers::new();
        entries.into_iter().for_each(|(when, what)| self.add(when, what));
    }

    /// Forgets those that are not to be kept. O(pending).
    pub fn retain(&mut self, mut keeps: impl FnMut(T) -> bool) {
        self.lanes.iter_mut().for_each(|lane| lane.retain(|(_, what)| keeps(*what)));
        self.heap.retain(|Reverse((_, what))| keeps(*what));
        self.find_first();
    }
}

#[cfg(test)]
mod tests {
    //! Goal: timers come in the order of their times, and those of a time in the order in which
    //! they were added. Method: a sorted list beside it.

    use super::*;
    use crate::agenda::Agenda;
    use proptest::prelude::*;

    #[test]
    fn ties_go_to_whichever_was_added_first() {
        let (mut agenda, mut timers) = (Agenda::new(1), Timers::new());
        for what in [30, 10, 20] {
            timers.add(agenda.turn(5), what);
        }
        let order: Vec<_> =
            std::iter::from_fn(|| timers.take_first().map(|(_, what)| what)).collect();
        assert_eq!(order, [30, 10, 20]);
    }

    proptest! {
        #[test]
        fn they_are_a_sorted_list(
            steps in prop::collection::vec((prop_oneof![0u64..40, Just(u64::MAX)], 0u8..9), 1..400),
        ) {
            let (mut agenda, mut timers) = (Agenda::new(1), Timers::new());
            let mut model: Vec<(When, usize)> = Vec::new();
            for (what, (at_ns, step)) in steps.into_iter().enumerate() {
                match step {
                    0..5 => {
                        let when = agenda.turn(at_ns);
                        timers.add(when, what);
                        model.push((when, what));
                        model.sort_unstable();
                    }
                    5 | 6 => {
                        let first = (!model.is_empty()).then(|| model.remove(0));
                        prop_assert_eq!(timers.take_first(), first);
                    }
                    7 => {
                        let whens: Vec<When> = model.iter().map(|(when, _)| *when).collect();
                        if let Some(&chosen) = whens.get(at_ns as usize % 40)
                            && chosen != When::NEVER
                        {
                            timers.bring_forward(chosen);
                            // It takes the first turn of its time, and the others the next ones.
                            let is_of_time = |when: &&When| when.at_ns == chosen.at_ns;
                            let first = whens.iter().position(|when| is_of_time(&when));
                            let last = whens.iter().position(|when| *when == chosen);
                            let (first, last) = first.zip(last).expect("it is there");
                            let mut whats: Vec<usize> =
                                model[first..=last].iter().map(|(_, what)| *what).collect();
                            whats.rotate_right(1);
                            for (entry, what) in model[first..=last].iter_mut().zip(whats) {
                                entry.1 = what;
                            }
                        }
                    }
                    _ => {
                        timers.retain(|what| what % 3 != 0);
                        model.retain(|(_, what)| what % 3 != 0);
                    }
                }
                prop_assert_eq!(timers.len(), model.len());
                prop_assert_eq!(timers.peek(), model.first().copied());
                prop_assert_eq!(timers.first(), model.first().map_or(When::NEVER, |one| one.0));
                let due: Vec<_> =
                    model.iter().filter(|(when, _)| when.at_ns == at_ns).copied().collect();
                prop_assert_eq!(timers.due_at(at_ns), due);
            }
        }
    }
}
