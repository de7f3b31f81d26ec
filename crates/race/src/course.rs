//! One entrant on its way through a workload: its queues, and the time that they take.

mod bursts;
mod conclusion;
mod steady;

use std::collections::VecDeque;

use runqueue::hold::Random;

use crate::clock;
use crate::counters::Counters;
use crate::heat::{Percentiles, Single};
use crate::order::{self, Pops};
use crate::raced::Raced;
use crate::setting::Setting;
use crate::{RaceError, Workload};

/// A stretch that is measured: its ticks, and what the processor counts if it is asked to.
pub struct Meter<'c> {
    /// Ticks between all beginnings and ends.
    pub ticks: u64,
    begun: u64,
    overhead: u64,
    counters: Option<&'c mut Counters>,
}

impl<'c> Meter<'c> {
    /// Nothing measured yet.
    pub fn new(setting: &Setting, counters: Option<&'c mut Counters>) -> Self {
        Meter { ticks: 0, begun: 0, overhead: setting.overhead, counters }
    }

    #[inline]
    fn begin(&mut self) {
        if let Some(counters) = &mut self.counters {
            counters.begin();
        }
        self.begun = clock::ticks();
    }

    #[inline]
    fn end(&mut self) {
        self.ticks += clock::ticks().saturating_sub(self.begun).saturating_sub(self.overhead);
        if let Some(counters) = &mut self.counters {
            counters.end();
        }
    }
}

/// An entrant whose type is forgotten.
pub trait Runner {
    /// Compares the order of many pops with the reference, or records it if this is the
    /// reference. Comes first, with fresh queues, which are not raced afterwards.
    fn examine(&mut self, pops: &mut Pops);

    /// Whether no item is lost and none doubled; what is wrong, if something is. Comes first, with
    /// fresh queues, which are not raced afterwards.
    fn conserve(&mut self) -> Result<(), String>;

    /// Brings the queues into the state in which they are measured.
    fn warm_up(&mut self);

    /// Brings what a round needs back into the caches, which others had meanwhile.
    fn run_up(&mut self);

    /// One round; returns how many loops or operations were measured.
    fn run(&mut self, meter: &mut Meter) -> u64;

    /// Forgets what operations of the last round took that were timed alone: it is run again.
    fn forget_last_run(&mut self);

    /// Bytes of the first queue for each item that it has room for.
    fn bytes_per_item(&self) -> f64;

    /// What operations took that were timed alone, if any were.
    fn single(&mut self) -> Option<Single>;

    /// Whether what was timed did what it was to do, as far as the queues show it; what is wrong,
    /// if something is. Comes last, and empties the queues.
    fn conclude(&mut self, is_exact: bool) -> Result<(), String>;

    /// The keys of the items of a full queue.
    #[cfg(test)]
    fn keys(&self) -> Vec<u64>;
}

/// An entrant's queues and where it is.
struct Course<'s, Q> {
    setting: &'s Setting,
    queues: Vec<Q>,
    /// Which increment is next.
    round: u64,
    random: Random,
    /// The key of the item that was served last.
    now: u64,
    /// Items that are not queued, in the order in which they left.
    free: VecDeque<u32>,
    /// Whether items come or leave, in [`Workload::Markov`], and how many are queued.
    inserting: bool,
    queued: u32,
    /// Where the warm-up began.
    begun: Option<(u64, u64)>,
    /// What keys move on by when a queue is emptied and filled again.
    span: u64,
    timed: Timed,
}

/// Ticks of operations timed alone.
#[derive(Default)]
struct Timed {
    pops: Vec<u32>,
    pushes: Vec<u32>,
    removals: Vec<u32>,
    /// Of pushes that bring back what was removed.
    returns: Vec<u32>,
    /// How many pops and removals there were when the last run began.
    before: (usize, usize),
}

impl Timed {
    fn begin_run(&mut self) {
        self.before = (self.pops.len(), self.removals.len());
    }

    fn forget_last_run(&mut self) {
        let (pops, removals) = self.before;
        self.pops.truncate(pops);
        self.pushes.truncate(pops);
        self.removals.truncate(removals);
        self.returns.truncate(removals);
    }

    /// What they come to; gets them sorted.
    fn single(&mut self) -> Option<Single> {
        let (first, second) = if self.removals.is_empty() {
            (&self.pops, &self.pushes)
        } else {
            (&self.removals, &self.returns)
        };
        let mut both: Vec<u32> =
            first.iter().zip(second).map(|(one, other)| one.saturating_add(*other)).collect();
        Some(Single {
            both: Percentiles::of(&mut both)?,
            pop: Percentiles::of(&mut self.pops)?,
            push: Percentiles::of(&mut self.pushes)?,
            remove: Percentiles::of(&mut self.removals),
            back: Percentiles::of(&mut self.returns),
        })
    }
}

/// Items of a queue that is made to learn what it holds, at most; of those more, it is reckoned.
const PROBED_MAX: u32 = 1 << 20;
/// Items that are queued in it, at most: some structures grow while they are filled.
const PROBED_FULL_MAX: u32 = 4096;

/// Bytes that all queues of an entrant hold in a heat. One queue is made, asked and dropped.
///
/// # Errors
///
/// What `make` says.
pub fn bytes_needed<Q: Raced>(
    setting: &Setting,
    make: &dyn Fn(u32) -> Result<Q, RaceError>,
) -> Result<u64, RaceError> {
    let capacity = setting.capacity();
    let probed = capacity.min(PROBED_MAX);
    let mut queue = make(probed)?;
    let empty = queue.memory_bytes();
    let filled = probed.min(PROBED_FULL_MAX);
    setting.increments.first_keys(filled, 0, setting.seed, |item, key| queue.push(item, key));
    let grown = queue.memory_bytes().saturating_sub(empty);
    let bytes_per_item = empty as f64 / f64::from(probed) + grown as f64 / f64::from(filled);
    Ok((bytes_per_item * setting.room() as f64) as u64)
}

/// An entrant with queues that `make` makes for so many items.
///
/// # Errors
///
/// What `make` says.
pub fn runner<'s, Q: Raced + 's>(
    setting: &'s Setting,
    make: &dyn Fn(u32) -> Result<Q, RaceError>,
) -> Result<Box<dyn Runner + 's>, RaceError> {
    Ok(Box::new(Course::new(setting, make)?))
}

impl<Q: Raced> Runner for Course<'_, Q> {
    fn examine(&mut self, pops: &mut Pops) {
        // What differs is in `pops`; nothing else comes of it.
        let _ = order::examine(&mut self.queues[0], self.setting, pops);
    }

    fn conserve(&mut self) -> Result<(), String> {
        order::conserve(&mut self.queues[0], self.setting)
    }

    fn warm_up(&mut self) {
        self.begun = self.standing();
        let turns = self.setting.warm_up_turns();
        let mut meter = Meter::new(self.setting, None);
        match self.setting.workload {
            Workload::Hold
            | Workload::HoldRemove
            | Workload::Cold
            | Workload::Single
            | Workload::SingleRemove => self.go_untimed(turns),
            Workload::Markov | Workload::Storm | Workload::ForkBurst => {
                self.hold(turns, &mut meter);
                // What comes next comes at the time of who is served next.
                self.turn();
                self.run(&mut meter);
            }
            Workload::Drain => {
                self.measure_span();
                self.run(&mut meter);
            }
            Workload::UpDown | Workload::MassExit | Workload::Trace => {
                self.empty();
                self.run(&mut meter);
            }
        }
    }

    fn run_up(&mut self) {
        if self.setting.run_up > 0 {
            self.go_untimed(self.setting.run_up);
        }
    }

    fn run(&mut self, meter: &mut Meter) -> u64 {
        self.timed.begin_run();
        self.go(self.setting.loops, meter)
    }

    fn forget_last_run(&mut self) {
        self.timed.forget_last_run();
    }

    fn bytes_per_item(&self) -> f64 {
        self.queues[0].memory_bytes() as f64 / f64::from(self.setting.capacity())
    }

    fn single(&mut self) -> Option<Single> {
        self.timed.single()
    }

    fn conclude(&mut self, is_exact: bool) -> Result<(), String> {
        self.turns_were_done()?;
        self.items_are_there(is_exact)
    }

    #[cfg(test)]
    fn keys(&self) -> Vec<u64> {
        (0..self.setting.n).map(|item| self.queues[0].key(item)).collect()
    }
}

impl<'s, Q: Raced> Course<'s, Q> {
    fn new(
        setting: &'s Setting,
        make: &dyn Fn(u32) -> Result<Q, RaceError>,
    ) -> Result<Self, RaceError> {
        let mut queues = Vec::new();
        for number in 0..setting.nr_queues() {
            let mut queue = make(setting.capacity())?;
            if setting.is_filled(number) {
                let seed = setting.seed.wrapping_add(2 + u64::from(number));
                let show = |item, key| queue.push(item, key);
                setting.increments.first_keys(setting.n, 0, seed, show);
            }
            queues.push(queue);
        }
        Ok(Course {
            setting,
            queues,
            round: 0,
            random: Random::new(setting.seed.wrapping_add(9)),
            now: 0,
            free: (setting.n..setting.capacity()).collect(),
            inserting: false,
            queued: setting.n,
            begun: None,
            span: 0,
            timed: Timed::default(),
        })
    }

    /// So many loops or operations of the workload, about; returns how many were measured.
    fn go(&mut self, loops: u64, meter: &mut Meter) -> u64 {
        match self.setting.workload {
            Workload::Hold => self.hold(loops, meter),
            Workload::HoldRemove => self.hold_remove(loops, meter),
            Workload::Cold => self.cold(loops, meter),
            Workload::Single => self.single_operations::<false>(loops, meter),
            Workload::SingleRemove => self.single_operations::<true>(loops, meter),
            Workload::Markov => self.markov(loops, meter),
            Workload::UpDown => return self.up_down(loops, meter),
            Workload::Storm => return self.storm(loops, meter),
            Workload::MassExit => return self.mass_exit(loops, meter),
            Workload::Drain => return self.drain(loops, meter),
            Workload::ForkBurst => return self.fork_burst(loops, meter),
            Workload::Trace => return self.replay(loops, meter),
        }
        loops
    }

    /// The same, of which no time is kept.
    fn go_untimed(&mut self, loops: u64) {
        let unread = &mut Meter::new(self.setting, None);
        match self.setting.workload {
            // Times of operations are kept, all of them.
            Workload::Single => self.hold(loops, unread),
            Workload::SingleRemove => self.hold_remove(loops, unread),
            _ => drop(self.go(loops, unread)),
        }
    }

    /// The next item is served: it leaves and time moves on to its key.
    #[inline(always)]
    fn serve(&mut self) -> Option<u32> {
        let item = self.queues[0].pop()?;
        self.now = self.queues[0].key(item);
        Some(item)
    }

    /// A turn: the next item is served and queued again.
    #[inline(always)]
    fn turn(&mut self) {
        let Some(item) = self.serve() else { return };
        let key = self.now.wrapping_add(self.next_increment(item));
        self.queues[0].push(item, key);
    }

    #[inline(always)]
    fn next_increment(&mut self, item: u32) -> u64 {
        self.round += 1;
        crate::raced::increment(&self.setting.increments, self.round, item)
    }

    /// Nothing is queued any more.
    fn empty(&mut self) {
        for queue in &mut self.queues {
            while let Some(item) = queue.pop() {
                self.now = queue.key(item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a workload does what its name says, for as long as it runs. Method: look at the queue
    //! of one entrant, a plain tree, between rounds.

    use super::*;
    use crate::HeatSpec;
    use runqueue::hold::Keys;
    use runqueue::{RedBlackTree, RunQueue, before};

    const ITEMS: u32 = 40;

    fn after<R>(workload: Workload, look: impl Fn(&mut Course<RedBlackTree>) -> R) -> Vec<R> {
        let spec = HeatSpec { loops: Some(1000), ..HeatSpec::new(workload, ITEMS) };
        let setting = Setting::new(&spec, Keys::Uniform, ITEMS, None);
        let make = |capacity| Ok(RedBlackTree::with_capacity(capacity as usize));
        let mut course = Course::new(&setting, &make).expect("a course");
        course.warm_up();
        let mut meter = Meter::new(&setting, None);
        let rounds = (0..20).map(|_| {
            let loops = course.run(&mut meter);
            assert!(loops > 800 && loops <= 1000 || workload == Workload::MassExit, "{loops}");
            look(&mut course)
        });
        rounds.collect()
    }

    #[test]
    fn everybody_is_served_and_time_goes_on() {
        for workload in [Workload::Markov, Workload::Storm, Workload::ForkBurst] {
            let rounds = after(workload, |course| {
                let (now, mut ahead, mut farthest) = (course.now, 0, 0);
                course.queues[0].for_each(&mut |_, key| {
                    if before(now, key) {
                        (ahead, farthest) = (ahead + 1, key - now);
                    }
                });
                (now, course.queues[0].len() as u32, ahead, farthest)
            });
            for pair in rounds.windows(2) {
                let ((now, ..), (next, queued, ahead, farthest)) = (pair[0], pair[1]);
                // A round is 250 slices of 2^21 or more for 40 items.
                assert!(next - now > 2 << 21, "{workload:?}: {now} and then {next}");
                let around = if workload == Workload::Markov { ITEMS / 2 } else { 0 };
                assert!(queued.abs_diff(ITEMS) <= around, "{workload:?}: {queued} queued");
                assert!(queued - ahead < 3, "{workload:?}: {ahead} of {queued} are ahead");
                assert!(farthest <= 2 << 22, "{workload:?}: one waits for {farthest}");
            }
        }
    }

    #[test]
    fn a_run_up_moves_on_and_keeps_no_times() {
        for workload in crate::workload::WORKLOADS {
            let spec = HeatSpec { run_up: Some(700), ..HeatSpec::new(workload, ITEMS) };
            let setting = Setting::new(&spec, Keys::Uniform, ITEMS, None);
            let make = |capacity| Ok(RedBlackTree::with_capacity(capacity as usize));
            let mut course = Course::new(&setting, &make).expect("a course");
            course.warm_up();
            let (round, keys) = (course.round, course.keys());
            course.run_up();
            let moved = course.round >= round + 700 || course.keys() != keys;
            assert!(moved || workload == Workload::Trace, "{workload:?} stands still");
            assert!(course.single().is_none(), "{workload:?} keeps times of its run-up");
            course.conclude(true).expect("all increments, all items");
        }
    }

    #[test]
    fn a_pop_and_a_push_that_took_for_ever_are_added() {
        let (pops, pushes) = (vec![u32::MAX - 1], vec![7]);
        let mut timed = Timed { pops, pushes, ..Timed::default() };
        let single = timed.single().expect("samples");
        assert_eq!((single.both.max, single.remove, single.back), (u32::MAX, None, None));
    }

    #[test]
    fn a_removal_is_added_to_the_push_that_brings_the_item_back() {
        let mut timed = Timed {
            before: (0, 0),
            pops: vec![1, 5],
            pushes: vec![20, 30],
            removals: vec![700, 300],
            returns: vec![1000, 2000],
        };
        let single = timed.single().expect("samples");
        assert_eq!((single.both.p50, single.both.max), (1700, 2300));
        assert_eq!((single.pop.max, single.push.max), (5, 30));
        let max = |of: Option<Percentiles>| of.map(|of| of.max);
        assert_eq!((max(single.remove), max(single.back)), (Some(700), Some(2000)));
        assert_eq!(Timed::default().single(), None);
    }

    #[test]
    fn all_that_is_timed_alone_is_kept_once_a_loop() {
        for (workload, removals) in [(Workload::Single, 0), (Workload::SingleRemove, 1000)] {
            let lengths = after(workload, |course| {
                assert_eq!(course.queues[0].len(), ITEMS as usize);
                let lengths = |timed: &Timed| {
                    [&timed.pops, &timed.pushes, &timed.removals, &timed.returns].map(Vec::len)
                };
                let kept = lengths(&course.timed);
                course.run(&mut Meter::new(course.setting, None));
                course.forget_last_run();
                assert_eq!(lengths(&course.timed), kept, "a run that is run again leaves nothing");
                kept
            });
            assert_eq!(lengths[0], [1000, 1000, removals, removals], "{workload:?}");
        }
    }

    #[test]
    fn what_is_emptied_is_empty_and_what_moves_is_all_there() {
        for workload in [Workload::UpDown, Workload::MassExit] {
            let left =
                after(workload, |course| course.queues.iter().map(RunQueue::len).sum::<usize>());
            assert!(left.iter().all(|&left| left == 0), "{workload:?}: {left:?}");
        }
        let lengths =
            after(Workload::Drain, |course| (course.queues[0].len(), course.queues[1].len()));
        assert!(lengths.iter().all(|&lengths| lengths == (ITEMS as usize, 0)), "{lengths:?}");
    }
}
