//! Instructions and cache misses, where the machine counts them for us.

use std::io;

#[cfg(target_os = "linux")]
use perf_event::{Builder, Counter, events::Hardware};

use crate::heat::Counting;

/// Counters of this thread in user space, off until they are begun.
#[cfg(target_os = "linux")]
pub struct Counters {
    instructions: Counter,
    cache_misses: Option<Counter>,
    /// Whether each was on whenever it should have been: one that was not would read as 0.
    instructions_are_on: bool,
    cache_misses_are_on: bool,
}

/// What was counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// Instructions of user space.
    pub instructions: u64,
    /// Misses of the last level of cache, where they are counted.
    pub cache_misses: Option<u64>,
}

#[cfg(target_os = "linux")]
impl Counters {
    /// Counters of this thread.
    ///
    /// # Errors
    ///
    /// Why there are none, in words.
    pub fn of_this_thread() -> Result<Self, String> {
        let open =
            |event: Hardware| Builder::new(event).exclude_kernel(true).exclude_hv(true).build();
        let instructions = open(Hardware::INSTRUCTIONS).map_err(|cause| why_not(&cause))?;
        Ok(Counters {
            instructions,
            cache_misses: open(Hardware::CACHE_MISSES).ok(),
            instructions_are_on: true,
            cache_misses_are_on: true,
        })
    }

    /// Goes on counting. What cannot be switched on is not among what was counted.
    pub fn begin(&mut self) {
        self.instructions_are_on &= self.instructions.enable().is_ok();
        if let Some(misses) = &mut self.cache_misses {
            self.cache_misses_are_on &= misses.enable().is_ok();
        }
    }

    /// Stops counting.
    pub fn end(&mut self) {
        let _ = self.instructions.disable();
        let _ = self.cache_misses.as_mut().map(Counter::disable);
    }

    /// What was counted since the last call; `None` if nothing could be.
    pub fn take(&mut self) -> Option<Counted> {
        let instructions_were_on = std::mem::replace(&mut self.instructions_are_on, true);
        let cache_misses_were_on = std::mem::replace(&mut self.cache_misses_are_on, true);
        let instructions = self.instructions.read().ok()?;
        self.instructions.reset().ok()?;
        let cache_misses = self.cache_misses.as_mut().and_then(|counter| {
            let misses = counter.read().ok()?;
            counter.reset().ok().map(|()| misses)
        });
        let cache_misses = cache_misses.filter(|_| cache_misses_were_on);
        instructions_were_on.then_some(Counted { instructions, cache_misses })
    }
}

/// Never made: other systems have no such counters.
#[cfg(not(target_os = "linux"))]
pub struct Counters;

#[cfg(not(target_os = "linux"))]
impl Counters {
    pub fn of_this_thread() -> Result<Self, String> {
        Err(why_not(&io::Error::from(io::ErrorKind::Unsupported)))
    }

    pub fn begin(&mut self) {}

    pub fn end(&mut self) {}

    pub fn take(&mut self) -> Option<Counted> {
        None
    }
}

/// Whether there are counters, for a heat's result.
pub fn state_of<T>(counters: &Result<T, String>) -> Counting {
    Counting {
        available: counters.is_ok(),
        why_not: counters.as_ref().err().cloned().unwrap_or_default(),
    }
}

fn why_not(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::Unsupported => format!(
            "this machine does not count instructions or cache misses for its programs, as most \
             virtual machines do not (perf_event_open: {cause})"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "counting is not allowed (perf_event_open: {cause}); as root: \
             sysctl kernel.perf_event_paranoid=2"
        ),
        _ => format!("the counters cannot be had (perf_event_open: {cause})"),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: counters count, or say why they do not. Method: try them on this machine.

    use super::*;

    #[test]
    fn there_are_counters_or_a_reason() {
        match Counters::of_this_thread() {
            Ok(mut counters) => {
                counters.begin();
                let sum: u64 = std::hint::black_box((0..1000u64).map(std::hint::black_box).sum());
                counters.end();
                let counted = counters.take().expect("a count");
                assert!(sum > 0 && counted.instructions >= 1000, "{counted:?}");
            }
            Err(why_not) => assert!(why_not.contains("perf_event_open"), "{why_not}"),
        }
    }

    #[test]
    fn who_may_not_count_is_told_how_to() {
        let refused = why_not(&io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(refused.contains("perf_event_paranoid"), "{refused}");
    }
}
