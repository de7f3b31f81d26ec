//! The one order in which simulated events happen.
//!
//! Equal seeds must give equal runs, so events at the same instant are never left to chance:
//! earlier time first, then whichever was scheduled first. Only this module compares events.
//!
//! Every CPU has at most one next event (the earliest of what awaits it) and all sleeping
//! timers together have one, so a tournament over a handful of fixed places serves better than a
//! heap: rescheduling replaces a place's entry and leaves nothing stale behind.

use runqueue::Tournament;
use std::cmp::Ordering;

/// A time that never comes.
pub const NEVER_NS: u64 = u64::MAX;
/// The last time that is simulated, after 292 years: what is added to it still has room.
pub const TIME_NS_MAX: u64 = i64::MAX as u64;

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
    /// The first timer, which is in no match.
    timers: u128,
    timers_place: usize,
    /// The earliest of all.
    first: u128,
    last_turn: u64,
}

impl Agenda {
    /// An empty agenda of so many CPUs.
    pub fn new(nr_cpus: usize) -> Self {
        assert!((nr_cpus as u64) < PLACES_MAX, "fewer than {PLACES_MAX} CPUs");
        let never = When::NEVER.rank();
        let next = NextEvents::new(nr_cpus, never);
        let timers = never | nr_cpus as u128;
        Agenda { next, timers, timers_place: nr_cpus, first: never, last_turn: 0 }
    }

    /// The place of the timers.
    pub fn timers_place(&self) -> usize {
        self.timers_place
    }

    /// A turn behind all turns given so far.
    pub fn turn(&mut self, at_ns: u64) -> When {
        if at_ns == NEVER_NS {
            return When::NEVER;
        }
        self.last_turn += PLACES_MAX;
        When { at_ns, turn: self.last_turn }
    }

    /// Sets the next event of a CPU. O(log CPUs).
    #[inline(always)]
    pub fn set(&mut self, cpu: usize, when: When) {
        self.next.set(cpu, when.rank() | cpu as u128);
        self.first = self.next.first().min(self.timers);
    }

    /// Sets when the first timer is due. O(1).
    pub fn set_timers(&mut self, when: When) {
        self.timers = when.rank() | self.timers_place as u128;
        self.first = self.next.first().min(self.timers);
    }

    /// The earliest event and its place.
    pub fn first(&self) -> (When, usize) {
        let key = self.first;
        let place = key as u64 % PLACES_MAX;
        (When { at_ns: (key >> 64) as u64, turn: key as u64 - place }, place as usize)
    }

    /// Whether everything happens after `when`.
    pub fn is_after(&self, when: When) -> bool {
        self.first >= when.rank() + u128::from(PLACES_MAX)
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
    }
}
