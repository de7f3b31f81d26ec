//! The clock of the CPU that acts, and what happens next.
//!
//! One CPU acts at a time. While it does, `now_ns` is its clock: each charge moves it, so whatever
//! the CPU does later in the same event happens later. Other CPUs notice through locks, dispatch
//! queues and interrupts, all of which carry times.

use crate::agenda::{Agenda, When};
use crate::timer::Timer;
use crate::timers::Timers;

/// The clock, and what happens next.
#[derive(Debug)]
pub struct Time {
    here: usize,
    now_ns: u64,
    /// When the present event began.
    began_ns: u64,
    tick_period_ns: u64,
    /// By how much the ticks of a CPU come later than those of the one before.
    tick_step_ns: u64,
    agenda: Agenda,
    /// Sleeping timers; the agenda's last place is their first.
    timers: Timers<Timer>,
    /// Starts and sleeps among them and among those that are late.
    nr_awaited: usize,
}

impl Time {
    /// The beginning of a run on so many CPUs with so many ticks a second, at the same time or
    /// with `skew_tick` one after the other, all within half a tick.
    pub fn new(nr_cpus: usize, hz: u32, skew_tick: bool) -> Time {
        let tick_period_ns = 1_000_000_000 / u64::from(hz);
        Time {
            here: 0,
            now_ns: 0,
            began_ns: 0,
            tick_period_ns,
            tick_step_ns: if skew_tick { tick_period_ns / 2 / nr_cpus as u64 } else { 0 },
            agenda: Agenda::new(nr_cpus),
            timers: Timers::new(),
            nr_awaited: 0,
        }
    }

    /// The CPU that acts.
    pub fn here(&self) -> usize {
        self.here
    }

    /// Its clock.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// When the present event began.
    pub fn began_ns(&self) -> u64 {
        self.began_ns
    }

    /// Whether all CPUs tick at the same time.
    pub fn ticks_together(&self) -> bool {
        self.tick_step_ns == 0
    }

    /// Length of a tick.
    pub fn tick_period_ns(&self) -> u64 {
        self.tick_period_ns
    }

    /// An event of `cpu` begins.
    pub fn begin(&mut self, cpu: usize, at_ns: u64) {
        (self.here, self.now_ns, self.began_ns) = (cpu, at_ns, at_ns);
    }

    /// Something of no CPU happens at this time.
    pub fn look_at(&mut self, at_ns: u64) {
        self.now_ns = at_ns;
    }

    /// The CPU that acts goes on for so long.
    pub fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    /// A turn behind all turns given so far.
    pub fn turn(&mut self, at_ns: u64) -> When {
        self.agenda.turn(at_ns)
    }

    /// The next tick of the CPU that acts.
    pub fn next_tick(&mut self) -> When {
        let (period_ns, after_ns) = (self.tick_period_ns, self.tick_step_ns * self.here as u64);
        self.turn((self.now_ns + period_ns - after_ns) / period_ns * period_ns + after_ns)
    }

    /// Sets what is the next of a CPU.
    #[inline(always)]
    pub fn set_next(&mut self, cpu: usize, when: When) {
        self.agenda.set(cpu, when);
    }

    /// Whether everything happens after `when`.
    #[inline]
    pub fn is_after(&self, when: When) -> bool {
        self.agenda.is_after(when)
    }

    /// The first of all that will happen, and the place: a CPU, or [`Time::timers_place`].
    pub fn first(&self) -> (When, usize) {
        self.agenda.first()
    }

    // ---- timers -----------------------------------------------------------------------------

    /// Where [`Time::first`] finds timers.
    pub fn timers_place(&self) -> usize {
        self.agenda.timers_place()
    }

    /// Adds a timer.
    pub fn add_timer(&mut self, at_ns: u64, timer: Timer) {
        self.nr_awaited += usize::from(timer.is_awaited());
        self.hand_over(at_ns, timer);
    }

    /// Adds a timer that another CPU was too late for.
    pub fn hand_over(&mut self, at_ns: u64, timer: Timer) {
        let when = self.turn(at_ns);
        self.timers.add(when, timer);
        self.publish_timers();
    }

    /// A timer has come, and has its effect now.
    pub fn expired(&mut self, timer: Timer) {
        self.nr_awaited -= usize::from(timer.is_awaited());
    }

    /// Whether a task starts or wakes up by itself some day.
    pub fn awaits_tasks(&self) -> bool {
        self.nr_awaited > 0
    }

    /// The first timer, which stays.
    pub fn peek_timer(&self) -> Option<(When, Timer)> {
        self.timers.peek()
    }

    /// Takes the first timer out.
    pub fn take_timer(&mut self) -> Option<(When, Timer)> {
        let first = self.timers.take_first();
        self.publish_timers();
        first
    }

    /// How many timers there are.
    pub fn nr_timers(&self) -> usize {
        self.timers.len()
    }

    /// Timers that are due at this time, in their order. O(timers).
    pub fn timers_due_at(&self, at_ns: u64) -> Vec<(When, Timer)> {
        self.timers.due_at(at_ns)
    }

    /// Makes the timer that is due `when` the first of all. O(timers).
    pub fn bring_forward(&mut self, when: When) -> When {
        self.timers.bring_forward(when);
        self.publish_timers();
        self.timers.first()
    }

    /// Forgets timers that are not to be kept. O(timers).
    pub fn retain_timers(&mut self, keeps: impl FnMut(Timer) -> bool) {
        self.timers.retain(keeps);
        self.publish_timers();
    }

    fn publish_timers(&mut self) {
        self.agenda.set_timers(self.timers.first());
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what was added comes in the order of times; the clock is that of the CPU that acts.

    use super::*;

    #[test]
    fn timers_and_cpus_come_in_the_order_of_their_times() {
        let mut time = Time::new(2, 1000, false);
        time.add_timer(30, Timer::Sleep(7));
        let (first, second) = (time.turn(10), time.turn(40));
        time.set_next(1, first);
        time.set_next(0, second);
        assert_eq!(time.first(), (first, 1));
        time.set_next(1, When::NEVER);
        assert_eq!(time.first().1, time.timers_place());
        let taken = time.take_timer().map(|(when, timer)| (when.at_ns, timer));
        assert_eq!(taken, Some((30, Timer::Sleep(7))));
        assert!(time.awaits_tasks(), "it has not had its effect");
        time.expired(Timer::Sleep(7));
        assert!(!time.awaits_tasks());
        assert_eq!(time.first(), (second, 0));
    }

    #[test]
    fn skewed_ticks_of_all_cpus_lie_within_half_a_tick() {
        let mut time = Time::new(4, 250, true);
        let mut next = |cpu, now_ns| {
            time.begin(cpu, now_ns);
            time.next_tick().at_ns
        };
        assert_eq!(
            [0, 1, 2, 3].map(|cpu| next(cpu, 0)),
            [4_000_000, 500_000, 1_000_000, 1_500_000]
        );
        assert_eq!([0, 3].map(|cpu| next(cpu, 1_500_000)), [4_000_000, 5_500_000]);
        assert_eq!([1, 2].map(|cpu| next(cpu, 4_999_999)), [8_500_000, 5_000_000]);
    }

    #[test]
    fn ticks_come_at_multiples_of_their_period() {
        let mut time = Time::new(1, 250, false);
        for (now_ns, tick_ns) in [(0, 4_000_000), (3_999_999, 4_000_000), (4_000_000, 8_000_000)] {
            time.begin(0, now_ns);
            assert_eq!(time.next_tick().at_ns, tick_ns);
        }
        time.pass(5);
        assert_eq!((time.now_ns(), time.began_ns()), (4_000_005, 4_000_000));
    }
}
