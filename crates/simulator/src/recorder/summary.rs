//! What is known of a run when it is over.

use super::observed::Records;
use super::{Recorder, Stay, Wakeup};
use crate::choices::Choice;
use crate::cpu::Spent;
use crate::cpus::Cpus;
use crate::failure::Failure;
use crate::observation::Observation;
use crate::place::TaskId;
use crate::policy_time::PolicyExecuted;
use crate::profile::Profile;
use crate::queue_record::QueueRecord;
use crate::queues::Queues;
use crate::record::{Record, RecordError};
use crate::requests::RequestGroup;
use crate::task::{State, Tasks};
use crate::times::Distribution;
use crate::watch::Watched;
use serde::Serialize;
use std::collections::BTreeMap;

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
    /// Waiting for a bus, if the machine has one.
    #[serde(skip_serializing_if = "is_zero")]
    pub bus_wait: u64,
    /// Interrupts of the background, if the machine has them.
    #[serde(skip_serializing_if = "is_zero")]
    pub interrupted: u64,
}

/// Whether there is nothing to say of a number that most runs lack.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Where the parts `kernel` and `scheduler` of [`CpuTime`] went, as far as it is told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Overhead {
    /// Of `kernel`: switching to another task.
    pub switch: u64,
    /// Of `kernel`: fetching a task's data into a cache that lacks it.
    pub refill: u64,
    /// Of `scheduler`, as all that follow: waking tasks.
    pub wakeup: u64,
    /// Calling the policy's operations.
    pub operation: u64,
    /// Putting tasks into dispatch queues, and taking them out.
    pub queue: u64,
    /// Looking at tasks in dispatch queues, one by one.
    pub scan: u64,
    /// Taking locks that are free, and fetching them from their last holder.
    pub lock: u64,
    /// Sending interrupts to other CPUs.
    pub interrupt: u64,
    /// Executing the policy's own instructions, where they take time.
    #[serde(skip_serializing_if = "is_zero")]
    pub instructions: u64,
}

impl Overhead {
    fn of(spent: &impl Fn(Spent) -> u64) -> Self {
        Overhead {
            switch: spent(Spent::Switch),
            refill: spent(Spent::Refill),
            wakeup: spent(Spent::Wakeup),
            operation: spent(Spent::Operation),
            queue: spent(Spent::Queue),
            scan: spent(Spent::Scan),
            lock: spent(Spent::Lock),
            interrupt: spent(Spent::Interrupt),
            instructions: spent(Spent::Instructions),
        }
    }

    /// All of it that is of the scheduler.
    pub fn scheduler(&self) -> u64 {
        let called = self.operation + self.instructions + self.queue + self.scan + self.lock;
        self.wakeup + called + self.interrupt
    }
}

impl CpuTime {
    fn of(spent: &impl Fn(Spent) -> u64, overhead: &Overhead) -> Self {
        CpuTime {
            work: spent(Spent::Work),
            kernel: spent(Spent::Kernel) + overhead.switch + overhead.refill,
            scheduler: overhead.scheduler(),
            lock_wait: spent(Spent::LockWait),
            idle: spent(Spent::Idle),
            offline: spent(Spent::Offline),
            bus_wait: spent(Spent::BusWait),
            interrupted: spent(Spent::Interrupted),
        }
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        let waits = self.lock_wait + self.bus_wait;
        let lost = waits + self.interrupted + self.offline;
        self.work + self.kernel + self.scheduler + lost + self.idle
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

/// The state of a run at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dump {
    /// When.
    pub at_ns: u64,
    /// The state, in lines.
    pub text: String,
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
    /// From the workload's mark (or the start) to the end of the last task, less [`Self::tare_ns`].
    pub makespan_ns: u64,
    /// What the workload measured beside, and what is no part of its makespan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tare_ns: Option<u64>,
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
    /// Interrupts of the background, if the machine has them.
    #[serde(skip_serializing_if = "is_zero")]
    pub background_interrupts: u64,
    /// Times that the kernel ended the policy because a CPU came or went, which it does to one
    /// without `cpu_online` or `cpu_offline`, and that the policy was loaded again.
    #[serde(skip_serializing_if = "is_zero")]
    pub restarts: u64,
    /// Where the CPUs' time went.
    pub cpu_time_ns: CpuTime,
    /// Where the kernel's part of it went.
    pub overhead_ns: Overhead,
    /// What the policy executed in that time, if it takes time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_executed: Option<PolicyExecuted>,
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
    pub timeline: Option<Record<Stay>>,
    /// Wake-ups in the order of their times, if stays were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline_wakeups: Option<Record<Wakeup>>,
    /// Names of the pids in the timeline.
    pub timeline_names: Option<BTreeMap<u32, String>>,
    /// How many instructions of its own the policy took, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// What numbers of the policy's were, if they were followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watched: Option<Vec<Watched>>,
    /// Its state at times, as far as it was asked for and came so far.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dumps: Vec<Dump>,
    /// What happened, if asked for.
    #[serde(skip)]
    pub observations: Option<Record<Observation>>,
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
    /// Its state when it failed.
    pub dump: Option<Dump>,
    /// What the policy executed, if that takes time.
    pub policy_executed: Option<PolicyExecuted>,
}

/// Turns counters into a result.
///
/// # Errors
/// If what was observed could not be kept.
pub fn summarize(
    mut recorder: Recorder,
    tasks: &Tasks,
    cpus: &Cpus,
    queues: &Queues,
    ending: Ending,
) -> Result<RunResult, RecordError> {
    let ids = 0..tasks.len() as TaskId;
    let end_ns = if tasks.nr_alive() == 0 { recorder.last_exit_ns } else { ending.elapsed_ns };
    let sum =
        |count: fn(&crate::abi::Task) -> u64| ids.clone().map(|id| count(tasks.seen(id))).sum();
    let spent = |kind: Spent| cpus.iter().map(|cpu| cpu.spent_ns()[kind as usize]).sum();
    let overhead = Overhead::of(&spent);
    let mut digest = recorder.digest;
    digest.mix(&[ending.elapsed_ns, recorder.events, recorder.switches, recorder.wakeups]);
    recorder.requests.count_overdue(tasks, ending.elapsed_ns);
    let requests = recorder.requests.groups();
    let mut wait_ns = recorder.other_wait_ns;
    wait_ns.add(&recorder.wakeup_latency_ns);
    let observed = recorder.observed.map(|observed| observed.into_records(queues)).transpose()?;
    let Records { timeline, timeline_wakeups, observations, queues, profile, watched } =
        observed.unwrap_or_default();
    Ok(RunResult {
        status: ending.status,
        error: ending.failure,
        digest: digest.text(),
        makespan_ns: (end_ns.saturating_sub(recorder.marked_at_ns.unwrap_or(0)))
            .saturating_sub(recorder.tare_ns.unwrap_or(0)),
        tare_ns: recorder.tare_ns,
        elapsed_ns: ending.elapsed_ns,
        messages: recorder.messages,
        nr_tasks: tasks.len() as u64,
        nr_cpus: cpus.len() as u64,
        events: recorder.events,
        switches: recorder.switches,
        voluntary_switches: sum(|task| task.nvcsw),
        involuntary_switches: sum(|task| task.nivcsw),
        migrations: recorder.migrations,
        wakeups: recorder.wakeups,
        ticks: recorder.ticks,
        interrupts: recorder.interrupts,
        background_interrupts: recorder.background_interrupts,
        restarts: ending.nr_restarts,
        cpu_time_ns: CpuTime::of(&spent, &overhead),
        overhead_ns: overhead,
        policy_executed: ending.policy_executed,
        run_ns: recorder.run_ns.quantiles(),
        wait_ns: wait_ns.quantiles(),
        wakeup_latency_ns: recorder.wakeup_latency_ns.distribution(),
        response_ns: recorder.requests.response_ns(),
        deadlines: requests.iter().map(|group| group.deadlines).sum(),
        deadline_misses: requests.iter().map(|group| group.deadline_misses).sum(),
        requests,
        jain_fairness: jain_fairness(tasks, ending.elapsed_ns),
        task_groups: task_groups(tasks, cpus.len()),
        timeline_names: timeline.as_ref().map(|_| ids.map(|id| (id + 1, tasks.name(id))).collect()),
        timeline,
        timeline_wakeups,
        profile,
        watched,
        dumps: ending.dump.into_iter().collect(),
        observations,
        queues,
        choices: ending.choices,
    })
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
    let waited_ns = |id: usize| tasks.seen(id as TaskId).sched_info.run_delay;
    let wanted = |&(id, state): &(usize, &State)| state.totals.run_ns + waited_ns(id) > 0;
    let tasks_of_interest = tasks.states().enumerate().filter(wanted);
    let (count, sum, squares) = tasks_of_interest
        .map(share)
        .fold((0.0, 0.0, 0.0), |(n, sum, squares), x| (n + 1.0, sum + x, squares + x * x));
    if squares == 0.0 { 1.0 } else { sum * sum / (count * squares) }
}

fn task_groups(tasks: &Tasks, nr_cpus: usize) -> Vec<TaskGroup> {
    let mut groups: BTreeMap<(String, i32), TaskGroup> = BTreeMap::new();
    for (id, state) in tasks.states().enumerate() {
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
        group.wait_ns += tasks.seen(id).sched_info.run_delay;
        group.switches += tasks.seen(id).sched_info.pcount;
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
