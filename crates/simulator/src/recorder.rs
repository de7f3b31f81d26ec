//! What a run is measured by while it goes on, what ends it early, and the digest that tells two
//! runs apart. What is measured decides nothing in a run; what ends it does.

mod observed;
mod summary;
mod timeline;

pub use summary::{CpuTime, Dump, Ending, Overhead, RunResult, Status, TaskGroup, summarize};
pub use timeline::{Stay, Wakeup};

use crate::Options;
use crate::failure::{Failure, FailureKind};
use crate::limits::Limits;
use crate::observation::{Event, Observation};
use crate::place::TaskId;
use crate::profile::Profiler;
use crate::queue_record::QueueRecorder;
use crate::record::Spool;
use crate::requests::Requests;
use crate::times::Times;
use crate::watch::Watches;
use bytecode::Object;
use observed::Observed;

/// A rolling digest: 64 bits over everything that is mixed in, in order.
///
/// Each word is folded in by a 128-bit multiplication whose halves are combined, as
/// multiply-and-fold hashes do. It tells accidents apart, not attackers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(u64);

impl Digest {
    /// Mixes words in.
    pub fn mix(&mut self, words: &[u64]) {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 divided by the golden ratio.
        for &word in words {
            let product = u128::from(self.0 ^ word) * u128::from(ODD);
            self.0 = (product as u64 ^ (product >> 64) as u64).rotate_left(29) ^ word;
        }
    }

    /// 16 hexadecimal digits.
    pub fn text(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// A task that was put on a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The task.
    pub task: TaskId,
    /// The one that ran before it and was put back, if there is one.
    pub put_back: Option<TaskId>,
    /// The CPU.
    pub cpu: usize,
    /// How long it waited.
    pub waited_ns: u64,
    /// Whether that began with a wake-up.
    pub woken: bool,
}

/// What a run is measured by while it goes on.
#[derive(Debug)]
pub struct Recorder {
    /// Of all wake-ups and switches with their times.
    digest: Digest,
    /// Operations finished, ticks, timers and interrupts.
    events: u64,
    /// Tasks put on CPUs.
    switches: u64,
    /// Tasks that ran on another CPU than before.
    migrations: u64,
    wakeups: u64,
    ticks: u64,
    /// Between CPUs.
    interrupts: u64,
    background_interrupts: u64,
    /// Messages received since the mark.
    messages: u64,
    marked_at_ns: Option<u64>,
    /// When what is to be taken from the makespan began, and how long it took.
    tare_began_ns: Option<u64>,
    tare_ns: Option<u64>,
    /// When the last task so far ended.
    last_exit_ns: u64,
    requests: Requests,
    /// What somebody asked for, if somebody did.
    observed: Option<Box<Observed>>,
    run_ns: Times,
    /// Waits that began with a wake-up, and others.
    wakeup_latency_ns: Times,
    other_wait_ns: Times,
    /// Why the run ends early.
    failure: Option<Box<Failure>>,
    limits: Limits,
}

impl Recorder {
    /// Nothing counted yet.
    ///
    /// # Errors
    /// Which number of the policy's is to be followed and is not there.
    pub fn of(options: &Options, object: &Object, nr_cpus: usize) -> Result<Self, String> {
        let mut new = Recorder::new(options);
        if object.names_field("runnable_at") {
            new.observed.get_or_insert_with(|| Observed::with(Spool::default(), options));
        }
        if let Some(observed) = &mut new.observed {
            observed.watch(&options.watch, object, nr_cpus)?;
        }
        Ok(new)
    }

    fn new(options: &Options) -> Self {
        Recorder {
            digest: Digest::default(),
            events: 0,
            switches: 0,
            migrations: 0,
            wakeups: 0,
            ticks: 0,
            interrupts: 0,
            background_interrupts: 0,
            messages: 0,
            marked_at_ns: None,
            tare_began_ns: None,
            tare_ns: None,
            last_exit_ns: 0,
            requests: Requests::default(),
            observed: Observed::new(options),
            run_ns: Times::default(),
            wakeup_latency_ns: Times::default(),
            other_wait_ns: Times::default(),
            failure: None,
            limits: Limits::new(options.events_max),
        }
    }

    // ---- what happens -----------------------------------------------------------------------

    /// An operation, tick, timer or interrupt.
    pub fn event(&mut self) {
        self.events += 1;
    }

    /// An event was a tick.
    pub fn tick(&mut self) {
        self.ticks += 1;
    }

    /// So many events that are ticks.
    pub fn ticks(&mut self, count: u64) {
        self.events += count;
        self.ticks += count;
    }

    /// How many more events there may be.
    pub fn events_left(&self) -> u64 {
        self.limits.events_max().saturating_sub(self.events)
    }

    /// A CPU was sent an interrupt.
    pub fn interrupt(&mut self) {
        self.interrupts += 1;
    }

    /// A CPU takes an interrupt of the background.
    pub fn background_interrupt(&mut self) {
        self.background_interrupts += 1;
    }

    /// A task runs on another CPU than before.
    pub fn migrated(&mut self) {
        self.migrations += 1;
    }

    /// A message was received.
    pub fn message(&mut self) {
        self.messages += 1;
    }

    /// A task ended.
    pub fn exited(&mut self, now_ns: u64) {
        self.last_exit_ns = now_ns;
    }

    /// What is to be taken from the makespan begins, and the second time ends; then no time counts.
    pub fn tare(&mut self, now_ns: u64) {
        match self.tare_began_ns {
            None => self.tare_began_ns = Some(now_ns),
            Some(began_ns) => drop(self.tare_ns.get_or_insert(now_ns - began_ns)),
        }
    }

    /// What is measured begins; only the first time counts.
    pub fn mark(&mut self, now_ns: u64) {
        if self.marked_at_ns.is_none() {
            self.marked_at_ns = Some(now_ns);
            self.messages = 0;
        }
    }

    /// A task becomes runnable.
    pub fn wakes(&mut self, now_ns: u64, task: TaskId) {
        self.wakeups += 1;
        self.digest.mix(&[now_ns, 1 << 32 | u64::from(task)]);
        self.observe(now_ns, Event::Woke { task });
    }

    /// Whether somebody asked for what happens. A policy that reads `scx.runnable_at` has: that is
    /// kept where a run is observed, and costs others nothing.
    #[inline]
    pub fn is_observed(&self) -> bool {
        self.observed.is_some()
    }

    /// A task that becomes runnable was given to a CPU.
    #[cold]
    pub fn note_wakeup(&mut self, wakeup: Wakeup) {
        if let Some(observed) = self.observed() {
            observed.wakeup(wakeup);
        }
    }

    /// A task was put on a CPU.
    pub fn entered(&mut self, now_ns: u64, entry: Entry) {
        let Entry { task, put_back, cpu, waited_ns, woken } = entry;
        let before = put_back.map_or(0, |task| u64::from(task) + 1);
        self.digest.mix(&[now_ns, (cpu as u64) << 48 | before << 24 | u64::from(task + 1)]);
        self.switches += 1;
        self.waited(waited_ns, woken);
    }

    /// A wait came to its end, or the run did.
    pub fn waited(&mut self, waited_ns: u64, woken: bool) {
        let waits = if woken { &mut self.wakeup_latency_ns } else { &mut self.other_wait_ns };
        waits.record(waited_ns);
    }

    /// A task left a CPU.
    #[inline]
    pub fn left(&mut self, now_ns: u64, cpu: usize, task: TaskId, ran_ns: u64, voluntarily: bool) {
        self.run_ns.record(ran_ns);
        self.digest.mix(&[ran_ns, u64::from(voluntarily)]);
        if self.observed.is_some() {
            self.note_stay((now_ns - ran_ns, now_ns, cpu as u32, task + 1));
        }
    }

    #[cold]
    fn note_stay(&mut self, stay: Stay) {
        if let Some(observed) = self.observed() {
            observed.stay(stay);
        }
    }

    /// Notes what happened, if somebody asked for it. Most runs are not observed: what notes is
    /// kept out of the way of what runs.
    #[inline]
    pub fn observe(&mut self, at_ns: u64, event: Event) {
        if self.observed.is_some() {
            self.note(Observation { at_ns, event });
        }
    }

    #[cold]
    fn note(&mut self, observation: Observation) {
        if let Some(observed) = self.observed() {
            observed.observation(observation);
        }
    }

    /// What is noted, by whom it is kept. If that has failed, the run ends.
    #[cold]
    #[inline(never)]
    fn observed(&mut self) -> Option<&mut Observed> {
        let observed = self.observed.as_deref_mut()?;
        if observed.has_lost() {
            // Nobody reads it: there is no result without all that was asked for.
            let message = "what is observed cannot be kept".to_owned();
            let failure = || Box::new(Failure::new(FailureKind::Limit, message, 0, 0));
            self.failure.get_or_insert_with(failure);
        }
        Some(observed)
    }

    /// Requests of the workload.
    pub fn requests(&mut self) -> &mut Requests {
        &mut self.requests
    }

    /// What is done to dispatch queues, if somebody asked for it.
    #[inline]
    pub fn queues(&mut self) -> Option<&mut QueueRecorder> {
        if self.observed.is_some() { self.observed()?.queues() } else { None }
    }

    /// What is followed of the policy's numbers, if somebody asked for it.
    pub fn watches(&mut self) -> Option<&mut Watches> {
        self.observed.as_mut()?.watches()
    }

    /// The policy's own instructions, if somebody asked for them.
    pub fn profiler(&mut self) -> Option<&mut Profiler> {
        self.observed.as_mut()?.profiler()
    }

    // ---- what ends the run ------------------------------------------------------------------

    /// The run ends; the first failure counts.
    pub fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert_with(|| Box::new(failure));
    }

    /// Whether it is to end.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Why.
    pub fn failure_mut(&mut self) -> Option<&mut Failure> {
        self.failure.as_deref_mut()
    }

    /// Why; what fails afterwards counts anew.
    pub fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take().map(|failure| *failure)
    }

    /// Takes in the time of an event; whether it is due to count everything anew.
    #[inline]
    pub fn is_due(&mut self, at_ns: u64) -> bool {
        self.limits.is_due(at_ns, self.events)
    }

    /// What there are too many of.
    pub fn exceeded(&mut self) -> Option<String> {
        self.limits.exceeded(self.events)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a run of which something is lost ends. Method: a folder for temporary files that is
    //! not there.

    use super::*;

    #[test]
    fn a_run_ends_when_what_is_observed_can_no_longer_be_kept() {
        let options = Options { observe: true, queues: true, ..Options::default() };
        let new = |spool| Recorder {
            observed: Observed::over(spool, &options),
            ..Recorder::new(&options)
        };
        let mut recorder = new(Spool::without_folder());
        let mut nr_noted = 0;
        while !recorder.has_failed() && nr_noted < 1_000_000 {
            nr_noted += 1;
            recorder.observe(nr_noted * 1000, Event::Woke { task: 7 });
        }
        assert!((100_000..1_000_000).contains(&nr_noted), "{nr_noted} events until then");
        let mut recorder = new(Spool::without_folder());
        for number in 0..1_000_000 {
            recorder.queues().expect("asked for").pushed(0, 7, number, false);
        }
        assert!(recorder.has_failed(), "queues notice it, too");
    }
}
