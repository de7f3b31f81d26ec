//! What stops a run that would not end.

/// The most operations, ticks, timers and interrupts of a run, unless another number is asked for.
const EVENTS_MAX: u64 = 1 << 40;
/// The most events at one time.
const AT_ONCE_MAX: u64 = 1 << 20;

/// How far a run is from its limits.
#[derive(Debug)]
pub struct Limits {
    events_max: u64,
    /// Time of the last event, and how many came before it at that time.
    at_ns: u64,
    at_once: u64,
}

impl Limits {
    /// Those of a run that has not begun.
    pub fn new(events_max: Option<u64>) -> Limits {
        Limits { events_max: events_max.unwrap_or(EVENTS_MAX), at_ns: 0, at_once: 0 }
    }

    /// The most events that there may be.
    pub fn events_max(&self) -> u64 {
        self.events_max
    }

    /// Takes in an event at this time, when so many had been counted; what it is one too many of.
    pub fn exceeded(&mut self, at_ns: u64, events: u64) -> Option<String> {
        self.at_once = if at_ns == self.at_ns { self.at_once + 1 } else { 0 };
        self.at_ns = at_ns;
        if self.at_once > AT_ONCE_MAX {
            return Some(format!(
                "more than {AT_ONCE_MAX} events at {at_ns} ns: something repeats without taking \
                 time, such as a timer of 0 ns or a CPU that kicks itself"
            ));
        }
        (events > self.events_max).then(|| format!("more than {} events", self.events_max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_behind_the_last_that_may_be_is_told() {
        let mut limits = Limits::new(Some(3));
        assert_eq!(limits.exceeded(5, 3), None);
        assert_eq!(limits.exceeded(6, 4).as_deref(), Some("more than 3 events"));
    }

    #[test]
    fn events_at_one_time_are_counted_anew_at_the_next() {
        let mut limits = Limits::new(None);
        let all_fit = |limits: &mut Limits, at_ns| {
            (0..=AT_ONCE_MAX).all(|events| limits.exceeded(at_ns, events).is_none())
        };
        assert!(all_fit(&mut limits, 7) && all_fit(&mut limits, 8));
        assert!(limits.exceeded(8, 0).is_some_and(|said| said.contains("events at 8 ns")));
    }
}
