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
/// The core is shared where the pace is this much above the least of all. On an EPYC it was 1.22 to
/// 1.33 alone, 1.0 now and then between turns of large queues, and 1.95 to 2.4 while a neighbour made
/// `exact_time_ring` take 1.6 times as long; chains of operations alone, without a queue, told
/// alone from beside in half of the looks.
const SHARED: f64 = 1.5;
/// How long a heat waits in all for a core of its own, and how many times as long as it has run.
const WAIT_MAX: Duration = Duration::from_secs(10);
const WAIT_SHARE_MAX: u32 = 3;
/// Between two looks while it waits.
const NAP: Duration = Duration::from_millis(2);

/// The core that a heat runs on.
pub struct CpuCore<'w> {
    /// The pace of now, and how often this thread has lost its CPU.
    look: Box<dyn FnMut() -> (f64, i64) + 'w>,
    /// The least paces of all looks, the least first, those of heats before included.
    least: [f64; 3],
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
            least: [pace.filter(|pace| *pace > 0.0).unwrap_or(f64::MAX); 3],
            watch,
            begun: Instant::now(),
            waited: Duration::ZERO,
        }
    }

    /// The pace of a core of one's own, as far as it is known: the third least of all, as one look
    /// in ten thousand finds less than there is.
    pub fn pace(&self) -> f64 {
        self.least[2]
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

    fn look(&mut self) -> Look {
        let (pace, preemptions) = (self.look)();
        if pace < self.least[2] {
            self.least[2] = pace;
            self.least.sort_unstable_by(f64::total_cmp);
        }
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
    fn a_look_that_found_less_than_there_is_changes_nothing() {
        let mut paces = [1.02, 1.3, 1.25, 1.3, 2.0, 1.26].into_iter();
        let look = || (paces.next().expect("a look"), 0);
        let mut watch = || true;
        let mut core = CpuCore::with(look, None, &mut watch);
        let first = core.begin();
        let calm = core.end(&first);
        core.begin();
        assert!(core.was_ours(calm), "1.02, 1.25, 1.3: the third is the pace");
        assert_eq!(core.pace(), 1.3);
        let begun = core.begin();
        let calm = core.end(&begun);
        assert_eq!(calm, Calm { is_interrupted: false, pace: 2.0 });
        assert!(!core.was_ours(calm));
        core.begin();
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
