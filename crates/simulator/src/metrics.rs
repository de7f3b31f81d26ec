//! What a run is measured by, and the digest that tells two runs apart.

use crate::Options;
use crate::choices::Choice;
use crate::cpu::{Cpu, Spent};
use crate::failure::Failure;
use crate::observation::{Event, Observation};
use crate::place::TaskId;
use crate::profile::{Profile, Profiler};
use crate::queue_record::{QueueRecord, QueueRecorder};
use crate::requests::{RequestGroup, Requests};
use crate::task::{State, Tasks};
use crate::times::{Distribution, Times};
use serde::Serialize;
use std::collections::BTreeMap;

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

/// One stay of a task on a CPU: start and end in ns, CPU, pid.
pub type Stay = (u64, u64, u32, u32);

/// One wake-up: when in ns, pid, the CPU that the task was put on, whether it is new.
pub type Wakeup = (u64, u32, u32, bool);

/// Counters of a run in progress.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Digest of all wake-ups and switches with their times.
    pub digest: Digest,
    /// Operations finished, ticks, timers and interrupts.
    pub events: u64,
    /// Tasks put on CPUs.
    pub switches: u64,
    /// Tasks that ran on another CPU than before.
    pub migrations: u64,
    /// Wake-ups.
    pub wakeups: u64,
    /// Ticks.
    pub ticks: u64,
    /// Interrupts between CPUs.
    pub interrupts: u64,
    /// Messages received since the mark.
    pub messages: u64,
    /// When the workload's mark was reached.
    pub marked_at_ns: Option<u64>,
    /// When the last task so far ended.
    pub last_exit_ns: u64,
    /// Stays on CPUs, if asked for.
    pub timeline: Option<Vec<Stay>>,
    /// Wake-ups, if stays were asked for.
    pub timeline_wakeups: Option<Vec<Wakeup>>,
    /// Requests of the workload.
    pub requests: Requests,
    /// What happened, if asked for.
    pub observations: Option<Vec<Observation>>,
    /// What was done to dispatch queues, if asked for.
    pub queues: Option<QueueRecorder>,
    /// What the policy's own instructions are, if asked for.
    pub profiler: Option<Profiler>,
    run_ns: Times,
    wait_ns: Times,
    wakeup_latency_ns: Times,
}

impl Metrics {
    /// Nothing counted yet.
    pub fn new(options: &Options) -> Self {
        Metrics {
            timeline: options.timeline.then(Vec::new),
            timeline_wakeups: options.timeline.then(Vec::new),
            observations: options.observe.then(Vec::new),
            queues: options.queues.then(QueueRecorder::default),
            profiler: (options.profile && !options.strict).then(Profiler::default),
            ..Metrics::default()
        }
    }

    /// What is measured begins; only the first time counts.
    pub fn mark(&mut self, now_ns: u64) {
        if self.marked_at_ns.is_none() {
            self.marked_at_ns = Some(now_ns);
            self.messages = 0;
        }
    }

    /// A task became runnable and was given to a CPU.
    pub fn woke(&mut self, now_ns: u64, task: TaskId, cpu: usize, is_new: bool) {
        if let Some(wakeups) = &mut self.timeline_wakeups {
            wakeups.push((now_ns, task + 1, cpu as u32, is_new));
        }
    }

    /// Notes what happened, if somebody asked for it.
    pub fn observe(&mut self, at_ns: u64, event: Event) {
        if let Some(observations) = &mut self.observations {
            observations.push(Observation { at_ns, event });
        }
    }

    /// A task was put on a CPU after this wait.
    pub fn entered_cpu(&mut self, waited_ns: u64, woken: bool) {
        self.switches += 1;
        self.still_waits(waited_ns, woken);
    }

    /// A wait came to its end, or the run did.
    pub fn still_waits(&mut self, waited_ns: u64, woken: bool) {
        self.wait_ns.record(waited_ns);
        if woken {
            self.wakeup_latency_ns.record(waited_ns);
        }
    }

    /// A task left a CPU.
    pub fn left_cpu(
        &mut self,
        cpu: usize,
        task: TaskId,
        ran_ns: u64,
        now_ns: u64,
        voluntarily: bool,
    ) {
        self.run_ns.record(ran_ns);
        self.digest.mix(&[ran_ns, u64::from(voluntarily)]);
        if let Some(timeline) = &mut self.timeline {
            timeline.push((now_ns - ran_ns, now_ns, cpu as u32, task + 1));
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All tasks ended, or the workload's own stop was reached.
    Completed,
    /// The caller's time limit was reached.
    Stopped,
    /// See the error.
    Failed,
}

/// CPU time of all CPUs by what it was spent on; the sum is elapsed time x CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CpuTime {
    /// The tasks' own computations.
    pub work: u64,
    /// System calls, copies, ticks, switches, cache refills.
    pub kernel: u64,
    /// Wake-ups, the policy, dispatch queues, interrupts between CPUs.
    pub scheduler: u64,
    /// Waiting for locks.
    pub lock_wait: u64,
    /// Nothing to run.
    pub idle: u64,
    /// The CPU was offline.
    #[serde(skip_serializing_if = "is_zero")]
    pub offline: u64,
}

/// Whether there is nothing to say of a number that most runs lack.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl CpuTime {
    fn of(cpus: &[Cpu]) -> Self {
        let sum = |kind: Spent| cpus.iter().map(|cpu| cpu.spent_ns[kind as usize]).sum();
        CpuTime {
            work: sum(Spent::Work),
            kernel: sum(Spent::Kernel),
            scheduler: sum(Spent::Scheduler),
            lock_wait: sum(Spent::LockWait),
            idle: sum(Spent::Idle),
            offline: sum(Spent::Offline),
        }
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.work + self.kernel + self.scheduler + self.lock_wait + self.idle + self.offline
    }
}

/// Tasks of one name and nice value together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TaskGroup {
    /// Their name.
    pub name: String,
    /// Their nice value at the end.
    pub nice: i32,
    /// How many.
    pub count: u64,
    /// Whether one of them may not run on every CPU.
    pub pinned: bool,
    /// CPU time.
    pub run_ns: u64,
    /// Time runnable but not running.
    pub wait_ns: u64,
    /// Times one was put on a CPU.
    pub switches: u64,
    /// Times one ran on another CPU than before.
    pub migrations: u64,
    /// End of the first that ended; 0 if none did.
    pub first_exit_ns: u64,
    /// End of the last that ended; 0 if none did.
    pub last_exit_ns: u64,
}

/// All that is known of a run when it is over.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunResult {
    /// How it ended.
    pub status: Status,
    /// Why, if it failed.
    pub error: Option<Failure>,
    /// Equal for equal runs.
    pub digest: String,
    /// From the workload's mark (or the start) to the end of the last task.
    pub makespan_ns: u64,
    /// Simulated time.
    pub elapsed_ns: u64,
    /// Messages received after the mark.
    pub messages: u64,
    /// Tasks that ever existed.
    pub nr_tasks: u64,
    /// CPUs.
    pub nr_cpus: u64,
    /// Operations finished, ticks, timers and interrupts.
    pub events: u64,
    /// Times a task was put on a CPU.
    pub switches: u64,
    /// Times a task left its CPU because it blocked, slept or ended.
    pub voluntary_switches: u64,
    /// Times a task left its CPU although it could have gone on.
    pub involuntary_switches: u64,
    /// Times a task ran on another CPU than before.
    pub migrations: u64,
    /// Wake-ups, new tasks included.
    pub wakeups: u64,
    /// Timer ticks.
    pub ticks: u64,
    /// Interrupts between CPUs.
    pub interrupts: u64,
    /// Times that the kernel ended the policy because a CPU came or went, which it does to one
    /// without `cpu_online` or `cpu_offline`, and that the policy was loaded again.
    #[serde(skip_serializing_if = "is_zero")]
    pub restarts: u64,
    /// Where the CPUs' time went.
    pub cpu_time_ns: CpuTime,
    /// Uninterrupted stays on a CPU.
    pub run_ns: Distribution,
    /// Waits of runnable tasks for a CPU.
    pub wait_ns: Distribution,
    /// Those waits that began with a wake-up.
    pub wakeup_latency_ns: Distribution,
    /// From the release of a request to its end, over all that were done.
    pub response_ns: Distribution,
    /// Deadlines of requests that were met or missed by the end of the run.
    pub deadlines: u64,
    /// Those that were missed.
    pub deadline_misses: u64,
    /// Requests by the name of the tasks that released them.
    pub requests: Vec<RequestGroup>,
    /// Jain's index of CPU time a second of life and weight, over all tasks that wanted a CPU.
    pub jain_fairness: f64,
    /// Tasks by name.
    pub task_groups: Vec<TaskGroup>,
    /// Stays on CPUs in the order of their ends, if asked for.
    pub timeline: Option<Vec<Stay>>,
    /// Wake-ups in the order of their times, if stays were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline_wakeups: Option<Vec<Wakeup>>,
    /// Names of the pids in the timeline.
    pub timeline_names: Option<BTreeMap<u32, String>>,
    /// How many instructions of its own the policy took, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// What happened, if asked for.
    #[serde(skip)]
    pub observations: Option<Vec<Observation>>,
    /// What was done to each dispatch queue that was used, if asked for.
    #[serde(skip)]
    pub queues: Option<Vec<QueueRecord>>,
    /// Where it was chosen which CPU goes first, if choices were given.
    #[serde(skip)]
    pub choices: Vec<Choice>,
}

/// What [`summarize`] is told beside the counters.
#[derive(Debug)]
pub struct Ending {
    /// How the run ended.
    pub status: Status,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// Simulated time.
    pub elapsed_ns: u64,
    /// Which CPUs went first.
    pub choices: Vec<Choice>,
    /// Times that the policy was loaded again.
    pub nr_restarts: u64,
    /// What was done to dispatch queues.
    pub queues: Option<Vec<QueueRecord>>,
}

/// Turns counters into a result.
pub fn summarize(mut metrics: Metrics, tasks: &Tasks, cpus: &[Cpu], ending: Ending) -> RunResult {
    let ids = 0..tasks.len() as TaskId;
    let end_ns = if tasks.census().exited() as usize == tasks.len() {
        metrics.last_exit_ns
    } else {
        ending.elapsed_ns
    };
    let sum =
        |count: fn(&crate::abi::Task) -> u64| ids.clone().map(|id| count(tasks.seen(id))).sum();
    let mut digest = metrics.digest;
    digest.mix(&[ending.elapsed_ns, metrics.events, metrics.switches, metrics.wakeups]);
    metrics.requests.count_overdue(tasks, ending.elapsed_ns);
    let requests = metrics.requests.groups();
    RunResult {
        status: ending.status,
        error: ending.failure,
        digest: digest.text(),
        makespan_ns: end_ns.saturating_sub(metrics.marked_at_ns.unwrap_or(0)),
        elapsed_ns: ending.elapsed_ns,
        messages: metrics.messages,
        nr_tasks: tasks.len() as u64,
        nr_cpus: cpus.len() as u64,
        events: metrics.events,
        switches: metrics.switches,
        voluntary_switches: sum(|task| task.nvcsw),
        involuntary_switches: sum(|task| task.nivcsw),
        migrations: metrics.migrations,
        wakeups: metrics.wakeups,
        ticks: metrics.ticks,
        interrupts: metrics.interrupts,
        restarts: ending.nr_restarts,
        cpu_time_ns: CpuTime::of(cpus),
        run_ns: metrics.run_ns.quantiles(),
        wait_ns: metrics.wait_ns.quantiles(),
        wakeup_latency_ns: metrics.wakeup_latency_ns.distribution(),
        response_ns: metrics.requests.response_ns(),
        deadlines: requests.iter().map(|group| group.deadlines).sum(),
        deadline_misses: requests.iter().map(|group| group.deadline_misses).sum(),
        requests,
        jain_fairness: jain_fairness(tasks, ending.elapsed_ns),
        task_groups: task_groups(tasks, cpus.len()),
        timeline_names: metrics
            .timeline
            .as_ref()
            .map(|_| ids.map(|id| (id + 1, tasks.name(id))).collect()),
        timeline: metrics.timeline,
        profile: metrics.profiler.map(Profiler::into_profile),
        timeline_wakeups: metrics.timeline_wakeups,
        observations: metrics.observations,
        queues: ending.queues,
        choices: ending.choices,
    }
}

/// Jain's index of the tasks' shares: 1 is perfectly even, 1/n one task taking all. A task's
/// share is its CPU time divided by its weight and by the time it lived; a task that waited and
/// never ran has none. 1 if nothing ran.
///
/// Source: R. Jain, D. Chiu, W. Hawe, "A quantitative measure of fairness and discrimination for
/// resource allocation in shared computer systems", DEC-TR-301, 1984.
fn jain_fairness(tasks: &Tasks, elapsed_ns: u64) -> f64 {
    let share = |(id, state): (usize, &State)| {
        let end_ns = state.totals.exited_at_ns.min(elapsed_ns);
        let lived_ns = end_ns.saturating_sub(state.totals.born_at_ns).max(1);
        let weight = tasks.seen(id as TaskId).se.load.weight.max(1);
        state.totals.run_ns as f64 / weight as f64 / lived_ns as f64
    };
    let wanted = |(_, state): &(usize, &State)| state.totals.run_ns + state.totals.wait_ns > 0;
    let tasks_of_interest = tasks.states().iter().enumerate().filter(wanted);
    let (count, sum, squares) = tasks_of_interest
        .map(share)
        .fold((0.0, 0.0, 0.0), |(n, sum, squares), x| (n + 1.0, sum + x, squares + x * x));
    if squares == 0.0 { 1.0 } else { sum * sum / (count * squares) }
}

fn task_groups(tasks: &Tasks, nr_cpus: usize) -> Vec<TaskGroup> {
    let mut groups: BTreeMap<(String, i32), TaskGroup> = BTreeMap::new();
    for (id, state) in tasks.states().iter().enumerate() {
        let id = id as TaskId;
        let (name, nice) = (tasks.name(id), tasks.seen(id).static_prio - 120);
        let group = groups.entry((name.clone(), nice)).or_insert(TaskGroup {
            name,
            nice,
            ..TaskGroup::default()
        });
        group.count += 1;
        group.pinned |= (tasks.seen(id).nr_cpus_allowed as usize) < nr_cpus;
        group.run_ns += state.totals.run_ns;
        group.wait_ns += state.totals.wait_ns;
        group.switches += state.totals.switches;
        group.migrations += state.totals.migrations;
        let exited_ns = state.totals.exited_at_ns;
        if exited_ns != crate::agenda::NEVER_NS {
            group.last_exit_ns = group.last_exit_ns.max(exited_ns);
            if group.first_exit_ns == 0 || exited_ns < group.first_exit_ns {
                group.first_exit_ns = exited_ns;
            }
        }
    }
    groups.into_values().collect()
}
