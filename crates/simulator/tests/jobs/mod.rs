//! Jobs of one task each, and what a timeline says about who ran and who waited.
#![allow(dead_code)] // Every test file uses another part of it.

use policy::Policy;
use scenario::machine::Machine;
use scenario::workload::{Amount, InitialTask, Op, Program, TaskTemplate, Workload};
use simulator::{Options, RunResult, Status, Stay, simulate};

pub const MSEC: u64 = 1_000_000;
pub const SEC: u64 = 1_000 * MSEC;

/// A task of a workload: its nice value, CPUs, start and program.
pub struct Job {
    pub nice: i8,
    pub cpus: Option<Vec<u32>>,
    pub start_at_ns: u64,
    pub program: Program,
}

/// A task that computes for `work_ns` and exits.
pub fn hog(nice: i8, start_at_ns: u64, work_ns: u64) -> Job {
    let program = [Op::Run(Amount::Fixed(work_ns))].into();
    Job { nice, cpus: None, start_at_ns, program }
}

/// Tasks without channels, gates or children. Their names are their pids: 1, 2, ...
pub fn workload(jobs: &[Job]) -> Workload {
    Workload {
        name: "jobs".to_owned(),
        description: String::new(),
        parameters: Vec::new(),
        templates: (1..).zip(jobs).map(|(pid, job)| template(pid, job)).collect(),
        initial: (0..jobs.len() as u32)
            .map(|template| {
                let start_at_ns = jobs[template as usize].start_at_ns;
                InitialTask { template, start_at_ns }
            })
            .collect(),
        channels: Vec::new(),
        nr_gates: 0,
        stop_at_ns: None,
        digest: String::new(),
    }
    .with_digest()
}

fn template(pid: u32, job: &Job) -> TaskTemplate {
    TaskTemplate {
        name: pid.to_string(),
        program: job.program.clone(),
        nice: job.nice,
        cpus: job.cpus.clone().map(Into::into),
        address_space: None,
        footprint_kib: 0,
    }
}

/// Runs a policy; its failure fails the test.
pub fn run(
    policy: &Policy,
    machine: &Machine,
    workload: &Workload,
    tunables: &[(&str, i64)],
    until_ns: Option<u64>,
) -> RunResult {
    let tunables = tunables.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    let options = Options { seed: 1, until_ns, timeline: true, tunables };
    let result =
        simulate(policy, machine, workload, &options).unwrap_or_else(|error| panic!("{error}"));
    assert_ne!(result.status, Status::Failed, "{:?}", result.error);
    result
}

/// Stays on CPUs in the order of their beginnings, those left out that go on when the run ends.
pub fn stays(result: &RunResult) -> Vec<Stay> {
    let mut stays = result.timeline.clone().expect("a timeline was asked for");
    stays.retain(|stay| stay.0 < stay.1);
    stays.sort_unstable();
    stays
}

/// Stays of one task.
pub fn stays_of(result: &RunResult, pid: u32) -> Vec<Stay> {
    stays(result).into_iter().filter(|stay| stay.3 == pid).collect()
}

/// CPU time of each job, in the order of the jobs.
pub fn run_ns(result: &RunResult) -> Vec<u64> {
    let mut by_pid: Vec<(u32, u64)> = result
        .task_groups
        .iter()
        .map(|group| (group.name.parse().expect("names are pids"), group.run_ns))
        .collect();
    by_pid.sort_unstable();
    by_pid.into_iter().map(|(_, ns)| ns).collect()
}

/// When a job waited although a CPU that it may use was idle: pid, CPU, from, to. For jobs that
/// only compute; a job waits from its start to its end whenever it is on no CPU.
pub fn needless_waits(result: &RunResult, jobs: &[Job], nr_cpus: u32) -> Vec<(u32, u32, u64, u64)> {
    let stays = stays(result);
    let mut needless = Vec::new();
    for (pid, job) in (1..).zip(jobs) {
        let mut waits_from_ns = job.start_at_ns;
        for &(from_ns, to_ns, _, _) in stays.iter().filter(|stay| stay.3 == pid) {
            for cpu in 0..nr_cpus {
                let may_use = job.cpus.as_ref().is_none_or(|cpus| cpus.contains(&cpu));
                if let Some((idle_ns, busy_ns)) =
                    first_gap(&stays, cpu, waits_from_ns, from_ns).filter(|_| may_use)
                {
                    needless.push((pid, cpu, idle_ns, busy_ns));
                }
            }
            waits_from_ns = to_ns;
        }
    }
    needless
}

/// The first time between `from_ns` and `to_ns` in which a CPU runs nobody.
fn first_gap(stays: &[Stay], cpu: u32, from_ns: u64, to_ns: u64) -> Option<(u64, u64)> {
    let mut at_ns = from_ns;
    for &(begins_ns, ends_ns, _, _) in stays.iter().filter(|stay| stay.2 == cpu) {
        if begins_ns >= to_ns {
            break;
        }
        if begins_ns > at_ns {
            return Some((at_ns, begins_ns));
        }
        at_ns = at_ns.max(ends_ns);
    }
    (at_ns < to_ns).then_some((at_ns, to_ns))
}
