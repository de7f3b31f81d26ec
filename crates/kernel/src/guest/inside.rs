//! Looks into a policy while it schedules a play: at numbers that are followed, and at its state.
//!
//! A kernel goes on while one looks. A number is seen when this looks, so that what changes in
//! between is missed; a state is several moments that follow each other: first the kernel's own
//! dump, which stops one CPU after the other, then variables and maps.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use benchmarks::Playing;
use policy::inside::{Number, find_number, state_lines};

use super::debug_dump::in_form;
use super::uptime_ns;
use crate::job;
use crate::loader::kernel_dump::{self, KernelDump};
use crate::loader::{Inside, LoadedPolicy};
use crate::records::{Dumped, Record, Watched};

/// From one look at numbers that are followed to the next.
const LOOK_EVERY_NS: u64 = 1_000_000;
/// Changes of a number that are told.
const SAMPLES_MAX: usize = 200_000;
/// Between two looks at whether a play has begun.
const BEGIN_EVERY: Duration = Duration::from_millis(2);
/// Longest sleep, after which it is seen whether a play is over.
const SLEEP_NS_MAX: u64 = 10_000_000;

/// Whoever looks.
pub(super) struct Looker {
    asked: job::Inside,
    inside: Inside,
    numbers: Vec<Number>,
    kernel_dump: Option<KernelDump>,
    seen: Mutex<Seen>,
    /// Whether the policy that it looks into has ended.
    has_ended: AtomicBool,
}

/// What was seen so far.
#[derive(Default)]
struct Seen {
    watched: Vec<Watched>,
    dumped: Vec<Dumped>,
    start_at_ns: Option<u64>,
}

impl Looker {
    /// Gets ready to look as `asked`.
    ///
    /// # Errors
    ///
    /// What is not there, or why nobody can look.
    pub fn new(asked: &job::Inside, policy: &LoadedPolicy) -> Result<Looker, String> {
        let inside = inside_of(policy)?;
        let nr_cpus = super::online_cpus() as usize;
        let find = |expression: &String| find_number(&inside.object, expression, nr_cpus);
        let numbers: Vec<Number> = asked.watch.iter().map(find).collect::<Result<_, _>>()?;
        let kernel_dump = asked.has_dumps().then(KernelDump::begin).transpose()?;
        let watched = asked.watch.iter().zip(&numbers).map(|(expression, number)| Watched {
            expression: expression.clone(),
            type_name: number.spot.type_name.clone(),
            samples: vec![],
            nr_left_out: 0,
        });
        let seen = Mutex::new(Seen { watched: watched.collect(), ..Seen::default() });
        let has_ended = AtomicBool::new(false);
        Ok(Looker { asked: asked.clone(), inside, numbers, kernel_dump, seen, has_ended })
    }

    /// Looks no more: the policy has ended, and another one may come to where its variables are.
    pub fn end(&self) {
        self.has_ended.store(true, SeqCst);
    }

    /// Looks until the play or the policy is over.
    pub fn look(&self, playing: &Playing<'_>) {
        let start_at_ns = loop {
            match playing.start_at_ns() {
                Some(at_ns) => break at_ns,
                None if playing.is_over() => return,
                None => sleep(BEGIN_EVERY),
            }
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.start_at_ns = Some(start_at_ns);
        let mut times = self.asked.dump_at_ns.clone();
        times.sort_unstable();
        times.dedup();
        let mut times = times.into_iter().peekable();
        let mut look_at_ns = start_at_ns;
        loop {
            let dump_at_ns = times.peek().map_or(u64::MAX, |at_ns| start_at_ns + at_ns);
            sleep_until(dump_at_ns.min(look_at_ns), playing);
            if self.has_ended.load(SeqCst) {
                return;
            }
            if playing.is_over() {
                return self.sample(&mut seen.watched, playing);
            }
            let now_ns = uptime_ns();
            if let Some(asked_ns) = times.next_if(|&at_ns| start_at_ns + at_ns <= now_ns) {
                seen.dumped.push(self.dump(&self.inside, Some(asked_ns), start_at_ns));
            }
            if now_ns >= look_at_ns {
                self.sample(&mut seen.watched, playing);
                let missed = (uptime_ns() - look_at_ns) / LOOK_EVERY_NS;
                look_at_ns += (missed + 1) * LOOK_EVERY_NS;
            }
            if self.numbers.is_empty() {
                look_at_ns = u64::MAX;
            }
        }
    }

    fn sample(&self, watched: &mut [Watched], playing: &Playing<'_>) {
        // As in a simulation, the pids of the workload's tasks count from 1.
        let thread = |pid: i64| playing.thread(u32::try_from(pid.checked_sub(1)?).ok()?);
        for (number, watched) in self.numbers.iter().zip(watched) {
            let at_ns = uptime_ns();
            let value = self.inside.number(number, thread).and_then(|value| {
                let positive = u64::try_from(value).map(serde_json::Number::from);
                positive.or_else(|_| i64::try_from(value).map(serde_json::Number::from)).ok()
            });
            if watched.samples.last().is_some_and(|(_, last)| *last == value) {
                continue;
            }
            match watched.samples.len() {
                SAMPLES_MAX.. => watched.nr_left_out += 1,
                _ => watched.samples.push((at_ns, value)),
            }
        }
    }

    fn dump(&self, inside: &Inside, asked_at_ns: Option<u64>, start_at_ns: u64) -> Dumped {
        let at_ns = uptime_ns();
        let kernel_dump =
            self.kernel_dump.as_ref().expect("there is one where dumps are asked for");
        kernel_dump.make();
        // First what goes on changing.
        let state = state_lines(&inside.object, inside);
        let kernels = kernel_dump::taken();
        kernel_dump.clear();
        let in_play_ns = at_ns.saturating_sub(start_at_ns);
        let lines = in_form(&kernels, &inside.object, Some(in_play_ns));
        Dumped { asked_at_ns, at_ns, text: text(lines, state) }
    }

    /// What was seen until the play was over; `policy` is the one that still schedules.
    pub fn records(self, policy: Option<&LoadedPolicy>) -> Vec<Record> {
        let mut seen =
            std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        // It may have been loaded again.
        if self.asked.dump_at_end
            && let Some(start_at_ns) = seen.start_at_ns
            && let Some(inside) = policy.and_then(|policy| inside_of(policy).ok())
        {
            seen.dumped.push(self.dump(&inside, None, start_at_ns));
        }
        let mut records: Vec<Record> = seen.dumped.into_iter().map(Record::Dumped).collect();
        if !seen.watched.is_empty() {
            records.push(Record::Watched { numbers: seen.watched });
        }
        records
    }
}

fn inside_of(policy: &LoadedPolicy) -> Result<Inside, String> {
    policy.inside(super::online_cpus() as usize)
}

/// The state of a policy that has ended, of which the kernel said this.
pub(super) fn state_at_end(policy: &LoadedPolicy, kernels: &str) -> Option<Dumped> {
    let inside = inside_of(policy).ok()?;
    let (object, at_ns) = (&inside.object, uptime_ns());
    let text = text(in_form(kernels, object, None), state_lines(object, &inside));
    Some(Dumped { asked_at_ns: None, at_ns, text })
}

fn text(kernels: Vec<String>, state: Vec<String>) -> String {
    kernels.iter().chain(&state).flat_map(|line| [line.trim_end(), "\n"]).collect()
}

fn sleep_until(at_ns: u64, playing: &Playing<'_>) {
    while !playing.is_over() {
        let left_ns = at_ns.saturating_sub(uptime_ns());
        if left_ns == 0 {
            return;
        }
        sleep(Duration::from_nanos(left_ns.min(SLEEP_NS_MAX)));
    }
}
