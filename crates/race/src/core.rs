//! Whether the core is this thread's alone.
//!
//! Another thread may take the CPU, which the system counts. Or it works on the other half of the
//! core: two hardware threads share its units, and a virtual machine is not told which of its CPUs
//! are such a pair. Then code that keeps many units busy takes up to twice as long, and code that
//! waits for one load or one wrong guess after the other hardly longer: ratios change, not only
//! times. A loop that wants nothing but units shows it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::RaceError;
use crate::clock;
use crate::pin::preemptions;

/// Rounds of the loop that is timed, some microseconds.
const LOOP: u64 = 2000;
/// Times that it runs in one look, of which the shortest counts: an interrupt is nobody's work.
const LOOKS: u32 = 3;
/// The core is shared where the loop takes this much longer than at its fastest: 1.5 times as long
/// beside a thread that only counts, 1.0 to 1.05 alone, on an EPYC.
const SHARED: f64 = 1.15;
/// How long a heat waits in all for a core of its own, and how many times as long as it has run.
const WAIT_MAX: Duration = Duration::from_secs(10);
const WAIT_SHARE_MAX: u32 = 3;
/// Between two looks while it waits.
const NAP: Duration = Duration::from_millis(2);

/// The core that a heat runs on.
pub struct Core<'w> {
    /// Ticks of one look.
    look: Box<dyn FnMut() -> f64 + 'w>,
    /// The least of all looks, those of heats before this one included.
    fastest: f64,
    goes_on: &'w mut dyn FnMut() -> bool,
    begun: Instant,
    waited: Duration,
}

/// A stretch on a core, at its beginning.
pub struct Stretch {
    preemptions: i64,
    is_ours: bool,
}

impl<'w> Core<'w> {
    /// This thread's core, the heat's rounds beginning now; `fastest` is what heats before have
    /// found, and `goes_on` is asked while it waits.
    pub fn of_this_thread(fastest: Option<f64>, goes_on: &'w mut dyn FnMut() -> bool) -> Self {
        Core::with(look, fastest, goes_on)
    }

    fn with(
        look: impl FnMut() -> f64 + 'w,
        fastest: Option<f64>,
        goes_on: &'w mut dyn FnMut() -> bool,
    ) -> Self {
        Core {
            look: Box::new(look),
            fastest: fastest.unwrap_or(f64::INFINITY),
            goes_on,
            begun: Instant::now(),
            waited: Duration::ZERO,
        }
    }

    /// Ticks of a look on a core of one's own, as far as it is known.
    pub fn fastest(&self) -> f64 {
        self.fastest
    }

    /// Whether the heat is to go on.
    pub fn goes_on(&mut self) -> Result<(), RaceError> {
        if (self.goes_on)() { Ok(()) } else { Err(RaceError::Stopped) }
    }

    /// Waits until the core is ours, while there is patience.
    pub fn wait(&mut self) -> Result<(), RaceError> {
        while !self.is_ours() {
            let ran = self.begun.elapsed().saturating_sub(self.waited);
            if self.waited > WAIT_MAX.min(ran * WAIT_SHARE_MAX) {
                break;
            }
            self.goes_on()?;
            let nap = Instant::now();
            std::thread::sleep(NAP);
            self.waited += nap.elapsed();
        }
        Ok(())
    }

    /// A stretch that begins now.
    pub fn begin(&mut self) -> Stretch {
        Stretch { is_ours: self.is_ours(), preemptions: preemptions() }
    }

    /// Whether nobody is known to have disturbed a stretch that ends now.
    pub fn was_ours(&mut self, stretch: &Stretch) -> bool {
        stretch.preemptions == preemptions() && stretch.is_ours && self.is_ours()
    }

    fn is_ours(&mut self) -> bool {
        let found = (self.look)();
        self.fastest = self.fastest.min(found);
        found <= SHARED * self.fastest
    }
}

fn look() -> f64 {
    let timed = || {
        let begin = clock::ticks();
        black_box(units(black_box(LOOP)));
        clock::ticks().saturating_sub(begin)
    };
    (0..LOOKS).map(|_| timed()).min().unwrap_or(0) as f64
}

/// Six chains that no one but the units can make longer.
#[inline(never)]
fn units(rounds: u64) -> u64 {
    let mut chains = [1u64, 2, 3, 4, 5, 6];
    for round in 0..rounds {
        for chain in &mut chains {
            *chain = chain.rotate_left(5) ^ round;
        }
    }
    chains.iter().fold(0, |all, chain| all ^ chain)
}

#[cfg(test)]
mod tests {
    //! Goal: a heat waits for a core of its own, but not for ever, and knows what was not its own.
    //! Method: looks that are told what they find.

    use super::*;

    #[test]
    fn it_waits_until_the_core_is_ours() {
        let mut left = 20;
        let look = || {
            left -= 1;
            if left > 0 { 150.0 } else { 101.0 }
        };
        let mut asked = 0;
        let mut goes_on = || {
            asked += 1;
            true
        };
        let mut core = Core::with(look, Some(100.0), &mut goes_on);
        // It has run for long.
        core.begun = Instant::now().checked_sub(Duration::from_secs(60)).expect("a minute ago");
        core.wait().expect("it goes on");
        let stretch = core.begin();
        assert!(core.was_ours(&stretch));
        assert_eq!(core.fastest(), 100.0);
        drop(core);
        assert_eq!(asked, 19);
    }

    #[test]
    fn who_has_hardly_run_does_not_wait_for_long() {
        let mut goes_on = || true;
        let mut core = Core::with(|| 150.0, Some(100.0), &mut goes_on);
        core.wait().expect("it goes on");
        let stretch = core.begin();
        assert!(!core.was_ours(&stretch));
        assert!(core.waited <= WAIT_SHARE_MAX * (core.begun.elapsed() - core.waited) + 50 * NAP);
    }

    #[test]
    fn who_is_told_to_stop_does_not_wait() {
        let mut goes_on = || false;
        let mut core = Core::with(|| 150.0, Some(100.0), &mut goes_on);
        core.begun = Instant::now().checked_sub(Duration::from_secs(60)).expect("a minute ago");
        assert!(matches!(core.wait(), Err(RaceError::Stopped)));
    }

    #[test]
    fn a_stretch_is_disturbed_that_was_shared_at_its_beginning_or_its_end() {
        for (looks, ours) in
            [([100.0, 100.0], true), ([150.0, 100.0], false), ([100.0, 150.0], false)]
        {
            let mut looks = looks.into_iter();
            let mut goes_on = || true;
            let mut core = Core::with(|| looks.next().expect("a look"), Some(99.0), &mut goes_on);
            let stretch = core.begin();
            assert_eq!(core.was_ours(&stretch), ours);
        }
    }

    #[test]
    fn a_look_takes_some_ticks_and_twice_the_loop_takes_longer() {
        assert!(look() > 0.0);
        assert_ne!(units(1000), units(1001));
    }
}
