//! The one order in which simulated events happen.
//!
//! Equal seeds must give equal runs, so events at the same instant are never left to chance:
//! earlier time first, then whichever was scheduled first. Only this module compares events.
//!
//! Every CPU has at most one next event (the earliest of what awaits it) and all sleeping
//! timers together have one, so a tournament over a handful of fixed places serves better than a
//! heap: rescheduling replaces a place's entry and leaves nothing stale behind.

use runqueue::Tournament;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A time that never comes.
pub const NEVER_NS: u64 = u64::MAX;

/// When something happens, and its turn among what happens at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    /// Nanoseconds since the start of the run.
    pub at_ns: u64,
    /// Smaller was scheduled earlier; a multiple of [`PLACES_MAX`].
    turn: u64,
}

/// Places that an agenda may have: turns are so far apart that a place fits between two.
const PLACES_MAX: u64 = 1 << 13;

impl When {
    /// Never.
    pub const NEVER: When = When { at_ns: NEVER_NS, turn: u64::MAX / PLACES_MAX * PLACES_MAX };

    /// One number in the same order, so that comparing takes no branch.
    fn rank(self) -> u128 {
        u128::from(self.at_ns) << 64 | u128::from(self.turn)
    }
}

impl Default for When {
    fn default() -> Self {
        When::NEVER
    }
}

impl Ord for When {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }

    fn min(self, other: Self) -> Self {
        if other.rank() < self.rank() { other } else { self }
    }
}

impl PartialOrd for When {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    fn lt(&self, other: &Self) -> bool {
        self.rank() < other.rank()
    }
}

/// What holds the next event of each CPU: its [`When`], with the place below the turn.
/// `docs/speed.md` says what it was compared with.
type NextEvents = Tournament<u128>;

/// The next event of each place: places `0..nr_cpus` are the CPUs, `nr_cpus` is the timers.
#[derive(Debug)]
pub struct Agenda {
    next: NextEvents,
    last_turn: u64,
}

impl Agenda {
    /// An empty agenda of `places` places.
    pub fn new(places: usize) -> Self {
        assert!(places as u64 <= PLACES_MAX, "at most {PLACES_MAX} places");
        Agenda { next: NextEvents::new(places, When::NEVER.rank()), last_turn: 0 }
    }

    /// A turn behind all turns given so far.
    pub fn turn(&mut self, at_ns: u64) -> When {
        if at_ns == NEVER_NS {
            return When::NEVER;
        }
        self.last_turn += PLACES_MAX;
        When { at_ns, turn: self.last_turn }
    }

    /// Sets the next event of `place`. O(log places).
    pub fn set(&mut self, place: usize, when: When) {
        self.next.set(place, when.rank() | place as u128);
    }

    /// The earliest event and its place.
    pub fn first(&self) -> (When, usize) {
        let key = self.next.first();
        let place = key as u64 % PLACES_MAX;
        (When { at_ns: (key >> 64) as u64, turn: key as u64 - place }, place as usize)
    }

    /// Whether this event of `place` is the earliest.
    pub fn is_first(&self, place: usize, when: When) -> bool {
        self.next.first() == when.rank() | place as u128
    }

    /// Whether everything happens after `when`.
    pub fn is_after(&self, when: When) -> bool {
        self.next.first() >= when.rank() + u128::from(PLACES_MAX)
    }
}

/// Things that wait for their time, in the order of [`When`].
#[derive(Debug)]
pub struct Timers<T> {
    heap: BinaryHeap<Reverse<(When, T)>>,
}

impl<T: Ord + Copy> Timers<T> {
    /// No timers.
    pub fn new() -> Self {
        Timers { heap: BinaryHeap::new() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Adds a timer. O(log pending).
    pub fn add(&mut self, when: When, what: T) {
        self.heap.push(Reverse((when, what)));
    }

    /// When the first one is due.
    pub fn first(&self) -> When {
        self.heap.peek().map_or(When::NEVER, |Reverse((when, _))| *when)
    }

    /// All that are due at this time, in their order. O(pending).
    pub fn due_at(&self, at_ns: u64) -> Vec<(When, T)> {
        let entries = self.heap.iter().map(|Reverse(entry)| *entry);
        let mut due: Vec<_> = entries.filter(|(when, _)| when.at_ns == at_ns).collect();
        due.sort_unstable();
        due
    }

    /// Lets the timer that is due `when` come before the others of its time. O(pending).
    pub fn bring_forward(&mut self, when: When) {
        let mut entries = std::mem::take(&mut self.heap).into_sorted_vec();
        entries.reverse(); // Of `Reverse`, the last is the earliest.
        let first = entries.iter().position(|Reverse((other, _))| other.at_ns == when.at_ns);
        let chosen = entries.iter().position(|Reverse((other, _))| *other == when);
        if let (Some(first), Some(chosen)) = (first, chosen) {
            let turns: Vec<When> = entries[first..=chosen].iter().map(|entry| entry.0.0).collect();
            entries[first..=chosen].rotate_right(1);
            for (entry, turn) in entries[first..=chosen].iter_mut().zip(turns) {
                entry.0.0 = turn;
            }
        }
        self.heap = entries.into();
    }

    /// Forgets those that are not to be kept. O(pending).
    pub fn retain(&mut self, mut keeps: impl FnMut(T) -> bool) {
        self.heap.retain(|Reverse((_, what))| keeps(*what));
    }

    /// The first one, which stays.
    pub fn peek(&self) -> Option<(When, T)> {
        self.heap.peek().map(|Reverse(entry)| *entry)
    }

    /// Takes the first one out.
    pub fn take_first(&mut self) -> Option<(When, T)> {
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: ties go in the order of scheduling; `Tournament` has a test of the order of times.

    use super::*;

    #[test]
    fn ties_go_to_whichever_was_scheduled_first() {
        let mut agenda = Agenda::new(3);
        for place in [2, 0, 1] {
            let when = agenda.turn(7);
            agenda.set(place, when);
        }
        assert_eq!(agenda.first().1, 2);
        let mut timers = Timers::new();
        for what in [30, 10, 20] {
            timers.add(agenda.turn(5), what);
        }
        let order: Vec<_> =
            std::iter::from_fn(|| timers.take_first().map(|(_, what)| what)).collect();
        assert_eq!(order, [30, 10, 20]);
    }
}
