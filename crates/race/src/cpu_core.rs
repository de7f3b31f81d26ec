//! Whether a core of the processor is this thread's alone.
//!
//! Another thread may take the CPU, which the system counts. Or it works on the other half of the
//! core: two hardware threads share its units, and a virtual machine is not told which of its CPUs
//! are such a pair. Then code that keeps many units busy takes up to twice as long, and code that
//! waits for one load or one wrong guess after the other hardly longer: ratios change, not only
//! times. Turns of a short first-in-first-out queue show it, beside a chain of operations that
//! waits for each of its own results: the clock rate changes both alike.

use std::hint::black_box;
use std::time::{Duration, Instant};

use runqueue::hold::{Increments, Keys};
use runqueue::{FifoList, RunQueue};

use crate::RaceError;
use crate::clock;
use crate::pin::preemptions;

/// Turns of the queue, and operations of the chain: half a microsecond each.
const TURNS: usize = 200;
const OPERATIONS: u64 = 700;
/// Items of the queue: it stays in the first cache, and leaves room for others.
const ITEMS: u32 = 8;
/// Times that each runs in one look, of which the shortest counts: an interrupt is nobody's work.
const LOOKS: u32 = 8;
/// The core is shared where the pace is this much above that of a core of one's own. On an EPYC
/// that was 1.23 to 1.34, in some processes up to 1.58, by where memory came to lie, and 1.0 now
/// and then; 2.0 to 2.4 while a neighbour made `exact_time_ring` take 1.6 times as long. Chains of
/// operations alone, without a queue, told alone from beside in half of the looks.
const SHARED: f64 = 1.4;
/// Paces are counted in steps of a hundredth, up to this one.
const STEPS: usize = 100;
const HIGHEST: usize = 20;
/// Before so many looks nothing is known.
const LOOKS_LEAST: u32 = 3;
/// How long a heat waits in all for a core of its own, and how many times as long as it has run.
const WAIT_MAX: Duration = Duration::from_secs(10);
const WAIT_SHARE_MAX: u32 = 3;
/// Between two looks while it waits.
const NAP: Duration = Duration::from_millis(2);

/// The core that a heat runs on.
pub struct CpuCore<'w> {
    /// The pace of now, and how often this thread has lost its CPU.
    look: Box<dyn FnMut() -> (f64, i64) + 'w>,
    /// Looks by the pace that they found, in `STEPS` of one.
    looks: Vec<u32>,
    /// The pace of a core of one's own, as far as it is known.
    pace: f64,
    watch: &'w mut dyn FnMut() -> bool,
    begun: Instant,
    waited: Duration,
}

/// One end of a stretch.
pub struct Look {
    preemptions: i64,
    pace: f64,
}

/// A stretch that has ended, as far as others had a part in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calm {
    /// Whether another thread had the CPU for a while.
    pub is_interrupted: bool,
    /// The pace at its beginning or at its end, whichever was larger.
    pub pace: f64,
}

impl<'w> CpuCore<'w> {
    /// This thread's core, the heat's rounds beginning now; `pace` is the least that heats before
    /// have found, and `watch` is asked while it waits.
    pub fn of_this_thread(pace: Option<f64>, watch: &'w mut dyn FnMut() -> bool) -> Self {
        let mut pace_now = pace_now();
        CpuCore::with(move || (pace_now(), preemptions()), pace, watch)
    }

    fn with(
        look: impl FnMut() -> (f64, i64) + 'w,
        pace: Option<f64>,
        watch: &'w mut dyn FnMut() -> bool,
    ) -> Self {
        CpuCore {
            look: Box::new(look),
            looks: vec![0; HIGHEST * STEPS],
            pace: pace.filter(|pace| *pace > 0.0).unwrap_or(f64::MAX),
            watch,
            begun: Instant::now(),
            waited: Duration::ZERO,
        }
    }

    /// The pace of a core of one's own, as far as it is known: one look in twenty found less, or
    /// that of heats before if that is less.
    pub fn pace(&self) -> f64 {
        self.pace
    }

    /// Whether nobody is known to have had a part in a stretch.
    pub fn was_ours(&self, calm: Calm) -> bool {
        !calm.is_interrupted && calm.pace <= SHARED * self.pace()
    }

    /// Whether the heat is to go on.
    pub fn goes_on(&mut self) -> Result<(), RaceError> {
        if (self.watch)() { Ok(()) } else { Err(RaceError::Stopped) }
    }

    /// Waits until the core is ours, while there is patience.
    pub fn wait(&mut self) -> Result<(), RaceError> {
        while self.look().pace > SHARED * self.pace() {
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
    pub fn begin(&mut self) -> Look {
        self.look()
    }

    /// What became of a stretch that ends now.
    pub fn end(&mut self, begun: &Look) -> Calm {
        let ended = self.look();
        Calm {
            is_interrupted: begun.preemptions != ended.preemptions,
            pace: begun.pace.max(ended.pace),
        }
    }

    /// Above what one look in twenty found; of few looks the largest of all.
    fn usual_least(&self) -> f64 {
        let mut left = self.looks.iter().sum::<u32>().div_ceil(20).max(LOOKS_LEAST);
        for (step, &looks) in self.looks.iter().enumerate() {
            left = left.saturating_sub(looks);
            if left == 0 {
                return (step + 1) as f64 / STEPS as f64;
            }
        }
        f64::MAX
    }

    fn look(&mut self) -> Look {
        let (pace, preemptions) = (self.look)();
        let step = (pace * STEPS as f64) as usize;
        self.looks[step.min(HIGHEST * STEPS - 1)] += 1;
        self.pace = self.pace.min(self.usual_least());
        Look { preemptions, pace }
    }
}

/// What tells how many times as long the queue takes as the chain: more, where units are missing.
fn pace_now() -> impl FnMut() -> f64 {
    let increments = Increments::new(Keys::Uniform, 1);
    let mut queue = FifoList::with_capacity(ITEMS as usize);
    increments.fill(&mut queue, ITEMS, 0, 1);
    let timed = |work: &mut dyn FnMut()| {
        let begin = clock::ticks();
        work();
        // A tick more than none, for a clock that is coarse or is set back in between.
        clock::ticks().saturating_sub(begin).max(1)
    };
    move || {
        let (mut turns, mut operations) = (u64::MAX, u64::MAX);
        for _ in 0..LOOKS {
            turns = turns.min(timed(&mut || increments.hold(&mut queue, 0, TURNS)));
            operations = operations.min(timed(&mut || {
                black_box(chain(black_box(OPERATIONS)));
            }));
        }
        turns as f64 / operations as f64
    }
}

/// Each operation waits for the one before it.
#[inline(never)]
fn chain(operations: u64) -> u64 {
    (0..operations).fold(0, |value: u64, operation| value.rotate_left(5) ^ operation)
}

#[cfg(test)]
mod tests {
    //! Goal: a heat waits for a core of its own, but not for ever, and knows what was not its own.
    //! Method: looks that are told what they find.

    use super::*;

    const ALONE: (f64, i64) = (1.31, 0);
    const BESIDE: (f64, i64) = (2.0, 0);
    const KNOWN: Option<f64> = Some(1.25);

    /// As of a heat that has run for a minute.
    fn has_run(core: &mut CpuCore) {
        core.begun = Instant::now().checked_sub(Duration::from_secs(60)).expect("a minute ago");
    }

    fn is_ours(core: &mut CpuCore) -> bool {
        let begun = core.begin();
        let calm = core.end(&begun);
        core.was_ours(calm)
    }

    #[test]
    fn looks_that_found_less_than_there_is_change_nothing() {
        let mut nr = 0;
        let look = || {
            nr += 1;
            (if nr % 40 == 0 { 1.0 } else { 1.3 }, 0)
        };
        let mut watch = || true;
        let mut core = CpuCore::with(look, None, &mut watch);
        assert_eq!(core.pace(), f64::MAX);
        for _ in 0..1000 {
            core.begin();
        }
        assert_eq!(core.pace(), 1.31);
        let calm = |pace| Calm { is_interrupted: false, pace };
        assert!(core.was_ours(calm(1.8)) && !core.was_ours(calm(1.9)));
    }

    #[test]
    fn a_core_that_was_ours_for_a_while_is_known_by_it() {
        let mut nr = 0;
        let look = || {
            nr += 1;
            (if (100..120).contains(&nr) { 1.25 } else { 2.1 }, 0)
        };
        let mut watch = || true;
        let mut core = CpuCore::with(look, None, &mut watch);
        for _ in 0..200 {
            core.begin();
        }
        assert_eq!(core.pace(), 1.26);
    }

    #[test]
    fn it_waits_until_the_core_is_ours() {
        let mut left = 20;
        let look = || {
            left -= 1;
            if left > 0 { BESIDE } else { ALONE }
        };
        let mut asked = 0;
        let mut watch = || {
            asked += 1;
            true
        };
        let mut core = CpuCore::with(look, KNOWN, &mut watch);
        has_run(&mut core);
        core.wait().expect("it goes on");
        assert!(is_ours(&mut core));
        assert_eq!(Some(core.pace()), KNOWN);
        drop(core);
        assert_eq!(asked, 19);
    }

    #[test]
    fn who_has_hardly_run_and_who_has_waited_for_long_go_on() {
        let mut watch = || true;
        let mut core = CpuCore::with(|| BESIDE, KNOWN, &mut watch);
        core.wait().expect("it goes on");
        assert!(core.waited < WAIT_MAX);
        assert!(!is_ours(&mut core));
        let mut watch = || unreachable!("it does not wait");
        let mut core = CpuCore::with(|| BESIDE, KNOWN, &mut watch);
        has_run(&mut core);
        core.waited = WAIT_MAX + NAP;
        core.wait().expect("it goes on");
    }

    #[test]
    fn who_is_told_to_stop_does_not_wait() {
        let mut watch = || false;
        let mut core = CpuCore::with(|| BESIDE, KNOWN, &mut watch);
        has_run(&mut core);
        assert!(matches!(core.wait(), Err(RaceError::Stopped)));
    }

    #[test]
    fn a_stretch_is_disturbed_that_was_shared_at_its_beginning_or_its_end_or_interrupted() {
        let lost_cpu = (ALONE.0, 1);
        for (looks, ours) in [
            ([ALONE, ALONE], true),
            ([BESIDE, ALONE], false),
            ([ALONE, BESIDE], false),
            ([ALONE, lost_cpu], false),
            ([lost_cpu, lost_cpu], true),
        ] {
            let mut looks = looks.into_iter();
            let mut watch = || true;
            let look = || looks.next().expect("a look");
            let mut core = CpuCore::with(look, KNOWN, &mut watch);
            assert_eq!(is_ours(&mut core), ours);
        }
    }

    #[test]
    fn a_chain_is_what_it_is_without_a_compiler() {
        // By hand: 0 ^ 0; 0 ^ 1; 1 turned by 5 is 32, ^ 2.
        assert_eq!(chain(3), 34);
        assert!(pace_now()() > 0.0);
    }
}
