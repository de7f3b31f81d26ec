//! What stops a run that would not end.

/// The most operations, ticks, timers and interrupts of a run, unless another number is asked for.
const EVENTS_MAX: u64 = 1 << 40;
/// The most events at one time.
const AT_ONCE_MAX: u64 = 1 << 20;
/// Events between two looks at everything.
const LOOK_EVERY: u64 = 1 << 16;

/// How far a run is from its limits, and from the next look at all that is counted.
#[derive(Debug)]
pub struct Limits {
    events_max: u64,
    /// Number of events at which to look next.
    look_at: u64,
    /// Time of the last event, and how many came before it at that time.
    at_ns: u64,
    at_once: u64,
}

impl Limits {
    /// Those of a run that has not begun.
    pub fn new(events_max: Option<u64>) -> Limits {
        let events_max = events_max.unwrap_or(EVENTS_MAX);
        Limits { events_max, look_at: 0, at_ns: 0, at_once: 0 }
    }

    /// The most events that there may be.
    pub fn events_max(&self) -> u64 {
        self.events_max
    }

    /// Takes in an event at this time, when so many had been counted; whether to look at all that
    /// is counted, and at [`Limits::exceeded`].
    #[inline]
    pub fn is_due(&mut self, at_ns: u64, events: u64) -> bool {
        if at_ns == self.at_ns {
            self.at_once += 1;
            return events >= self.look_at || self.at_once > AT_ONCE_MAX;
        }
        (self.at_ns, self.at_once) = (at_ns, 0);
        events >= self.look_at
    }

    /// What there are too many of. The next look is some events away, at the first that is one too
    /// many at the latest.
    pub fn exceeded(&mut self, events: u64) -> Option<String> {
        self.look_at = (events + LOOK_EVERY).min(self.events_max.saturating_add(1));
        if self.at_once > AT_ONCE_MAX {
            return Some(format!(
                "more than {AT_ONCE_MAX} events at {} ns: something repeats without taking \
                 time, such as a timer of 0 ns or a CPU that kicks itself",
                self.at_ns
            ));
        }
        (events > self.events_max).then(|| format!("more than {} events", self.events_max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exceeded(limits: &mut Limits, at_ns: u64, events: u64) -> Option<String> {
        limits.is_due(at_ns, events).then(|| limits.exceeded(events)).flatten()
    }

    #[test]
    fn the_event_behind_the_last_that_may_be_is_told() {
        let mut limits = Limits::new(Some(3));
        for events in 0..=3 {
            assert_eq!(exceeded(&mut limits, 5 + events, events), None);
        }
        assert_eq!(exceeded(&mut limits, 9, 4).as_deref(), Some("more than 3 events"));
    }

    #[test]
    fn events_at_one_time_are_counted_anew_at_the_next() {
        let mut limits = Limits::new(None);
        let all_fit = |limits: &mut Limits, at_ns| {
            (0..=AT_ONCE_MAX).all(|events| exceeded(limits, at_ns, events).is_none())
        };
        assert!(all_fit(&mut limits, 7) && all_fit(&mut limits, 8));
        assert!(exceeded(&mut limits, 8, 0).is_some_and(|said| said.contains("events at 8 ns")));
    }

    #[test]
    fn everything_is_looked_at_from_time_to_time() {
        let mut limits = Limits::new(None);
        let looks = (0..3 * LOOK_EVERY).filter(|&events| {
            let is_due = limits.is_due(events, events);
            is_due && limits.exceeded(events).is_none()
        });
        assert_eq!(looks.collect::<Vec<_>>(), [0, LOOK_EVERY, 2 * LOOK_EVERY]);
    }
}
