//! What is noted of a run for whoever asked for it. Most runs are not observed.

use super::timeline::{Stay, Wakeup};
use crate::Options;
use crate::observation::Observation;
use crate::profile::{Profile, Profiler};
use crate::queue_record::{QueueRecord, QueueRecorder};
use crate::queues::Queues;
use crate::record::{Record, RecordError, Recording, Spool};
use crate::watch::{Watched, Watches};
use bytecode::Object;

/// What is noted while a run goes on.
#[derive(Debug)]
pub struct Observed {
    spool: Spool,
    timeline: Option<(Recording<Stay>, Recording<Wakeup>)>,
    observations: Option<Recording<Observation>>,
    queues: Option<QueueRecorder>,
    profiler: Option<Profiler>,
    watches: Option<Watches>,
}

/// What was noted of a run, as far as it was asked for.
#[derive(Debug, Default)]
pub struct Records {
    pub timeline: Option<Record<Stay>>,
    pub timeline_wakeups: Option<Record<Wakeup>>,
    pub observations: Option<Record<Observation>>,
    pub queues: Option<Vec<QueueRecord>>,
    pub profile: Option<Profile>,
    pub watched: Option<Vec<Watched>>,
}

impl Observed {
    /// Nothing noted yet; nothing at all if nobody asks for anything.
    pub fn new(options: &Options) -> Option<Box<Self>> {
        Observed::over(Spool::default(), options)
    }

    pub(super) fn over(spool: Spool, options: &Options) -> Option<Box<Self>> {
        let profiles = options.profile && !options.strict;
        let records = options.timeline || options.observe || options.queues;
        let is_asked_for = records || profiles || !options.watch.is_empty();
        is_asked_for.then(|| Observed::with(spool, options))
    }

    /// The same, even if that is nothing.
    pub fn with(spool: Spool, options: &Options) -> Box<Self> {
        let profiles = options.profile && !options.strict;
        Box::new(Observed {
            timeline: options.timeline.then(|| (Recording::new(&spool), Recording::new(&spool))),
            observations: options.observe.then(|| Recording::new(&spool)),
            queues: options.queues.then(|| QueueRecorder::new(&spool)),
            profiler: profiles.then(Profiler::default),
            watches: None,
            spool,
        })
    }

    /// Follows these numbers of the policy's from here on.
    ///
    /// # Errors
    /// Which of them is not there.
    pub fn watch(
        &mut self,
        asked: &[String],
        object: &Object,
        nr_cpus: usize,
    ) -> Result<(), String> {
        let watches = Watches::new(asked, object, nr_cpus, &self.spool)?;
        self.watches = (!asked.is_empty()).then_some(watches);
        Ok(())
    }

    /// What is followed.
    pub fn watches(&mut self) -> Option<&mut Watches> {
        self.watches.as_mut()
    }

    /// Whether something that was noted could not be kept.
    pub fn has_lost(&self) -> bool {
        self.spool.has_failed()
    }

    /// A task left a CPU.
    pub fn stay(&mut self, stay: Stay) {
        if let Some((stays, _)) = &mut self.timeline {
            stays.push(stay);
        }
    }

    /// A task was given to a CPU.
    pub fn wakeup(&mut self, wakeup: Wakeup) {
        if let Some((_, wakeups)) = &mut self.timeline {
            wakeups.push(wakeup);
        }
    }

    /// Something happened.
    pub fn observation(&mut self, observation: Observation) {
        if let Some(observations) = &mut self.observations {
            observations.push(observation);
        }
    }

    /// What is done to dispatch queues.
    pub fn queues(&mut self) -> Option<&mut QueueRecorder> {
        self.queues.as_mut()
    }

    /// The policy's own instructions.
    pub fn profiler(&mut self) -> Option<&mut Profiler> {
        self.profiler.as_mut()
    }

    /// What it takes of memory.
    #[cfg(test)]
    fn held_bytes(&self) -> usize {
        let timeline = self.timeline.iter();
        let timeline = timeline.map(|(stays, wakeups)| stays.held_bytes() + wakeups.held_bytes());
        self.spool.held_bytes()
            + timeline.sum::<usize>()
            + self.observations.iter().map(Recording::held_bytes).sum::<usize>()
            + self.queues.iter().map(QueueRecorder::held_bytes).sum::<usize>()
    }

    /// All of it.
    ///
    /// # Errors
    /// If something could not be kept.
    pub fn into_records(self, queues: &Queues) -> Result<Records, RecordError> {
        let (stays, wakeups) = self.timeline.unzip();
        let records = Records {
            timeline: stays.map(Recording::finish),
            timeline_wakeups: wakeups.map(Recording::finish),
            observations: self.observations.map(Recording::finish),
            queues: self.queues.map(|recorder| recorder.into_records(queues)),
            profile: self.profiler.map(Profiler::into_profile),
            watched: self.watches.map(Watches::finish),
        };
        self.spool.check().map(|()| records)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what is noted of a long run takes as much memory as of a short one. Method: millions
    //! of made-up entries; what all buffers hold is counted.

    use super::*;
    use crate::observation::Event;
    use crate::visible::Visible;

    /// What is kept of blocks, and a block each of stays, wake-ups, observations and two queues.
    const HELD_BYTES_MAX: usize = (1 << 20) + 5 * (4096 + 256);

    fn of_all() -> Options {
        Options { timeline: true, observe: true, queues: true, ..Options::default() }
    }

    fn note(observed: &mut Observed, number: u64) {
        let (at_ns, task, cpu) = (number * 700, number as u32 % 400, number as u32 % 8);
        observed.stay((at_ns, at_ns + 9_000, cpu, task + 1));
        observed.wakeup((at_ns, task + 1, cpu, false));
        observed.observation(Observation { at_ns, event: Event::Taken { task, cpu } });
        let queues = observed.queues().expect("asked for");
        queues.pushed(0, task, number, false);
        queues.left(0, task, true);
        queues.pushed_by_vtime(1, task, at_ns * 1024 / 335);
        queues.left(1, task, true);
    }

    #[test]
    fn a_long_run_takes_no_more_memory_than_a_short_one() {
        const ENTRIES: u64 = 1_000_000;
        let mut visible = Visible::new(1000, 2, false).expect("addresses");
        let queues = Queues::new(&mut visible, 2, 1);
        let mut observed = Observed::new(&of_all()).expect("asked for");
        let mut most_bytes = 0;
        for number in 0..ENTRIES {
            note(&mut observed, number);
            if number % 100 == 0 {
                most_bytes = most_bytes.max(observed.held_bytes());
            }
        }
        assert!(most_bytes <= HELD_BYTES_MAX, "{most_bytes} bytes");
        let bytes = observed.spool.written_bytes();
        let records = observed.into_records(&queues).expect("there is room");
        assert_eq!(records.timeline.expect("asked for").len(), ENTRIES);
        assert_eq!(records.observations.expect("asked for").len(), ENTRIES);
        let [fifo, by_vtime] = &records.queues.expect("asked for")[..] else { panic!("two") };
        assert_eq!((fifo.operations.len(), by_vtime.operations.len()), (2 * ENTRIES, 2 * ENTRIES));
        let per_entry = bytes as f64 / (7 * ENTRIES) as f64;
        assert!(per_entry < 5.0, "{per_entry} bytes an entry");
    }

    #[test]
    fn who_asks_for_nothing_is_given_nothing() {
        assert!(Observed::new(&Options::default()).is_none());
        let strict = Options { profile: true, strict: true, ..Options::default() };
        assert!(Observed::new(&strict).is_none());
        let profiled = Options { profile: true, ..Options::default() };
        let mut observed = Observed::new(&profiled).expect("asked for");
        assert!(observed.profiler().is_some() && observed.queues().is_none());
    }
}
