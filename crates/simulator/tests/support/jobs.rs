//! Jobs of one task each that begin at times of their own, known by their pids.

use super::{US, all_stays, once, run};
use scenario::workload::{InitialTask, Program, TaskTemplate, Workload};
use simulator::{RunResult, Stay};

/// A task of a workload: its nice value, CPUs, start and program.
pub struct Job {
    pub nice: i8,
    pub cpus: Option<Vec<u32>>,
    pub start_at_ns: u64,
    pub program: Program,
}

/// A job that computes for `work_ns` and exits.
pub fn burner(nice: i8, start_at_ns: u64, work_ns: u64) -> Job {
    Job { nice, cpus: None, start_at_ns, program: once(&[run(work_ns)]) }
}

/// Jobs that start one after another: gap to the previous start and work, in microseconds. The
/// first ones are bound to these CPUs, if one is named.
pub fn jobs_of(gaps_and_work_us: &[(u64, u64)], pins: &[Option<u32>]) -> Vec<Job> {
    let mut at_ns = 0;
    let pins = pins.iter().copied().chain(std::iter::repeat(None));
    let job = |(&(gap_us, work_us), pin): (&(u64, u64), Option<u32>)| {
        at_ns += gap_us * US;
        Job { cpus: pin.map(|cpu| vec![cpu]), ..burner(0, at_ns, work_us * US) }
    };
    gaps_and_work_us.iter().zip(pins).map(job).collect()
}

/// So many jobs that compute for `work_ns` each, all at once.
pub fn burners(nr_jobs: u64, work_ns: u64) -> Workload {
    let jobs: Vec<Job> = (0..nr_jobs).map(|_| burner(0, 0, work_ns)).collect();
    workload_of_jobs(&jobs)
}

/// Jobs without channels, gates or children. Their names are their pids: 1, 2, ...
pub fn workload_of_jobs(jobs: &[Job]) -> Workload {
    let initial = jobs.iter().zip(0..);
    Workload {
        name: "jobs".to_owned(),
        templates: (1..).zip(jobs).map(|(pid, job)| template(pid, job)).collect(),
        initial: initial
            .map(|(job, template)| InitialTask { template, start_at_ns: job.start_at_ns })
            .collect(),
        ..Workload::default()
    }
    .with_digest()
}

fn template(pid: u32, job: &Job) -> TaskTemplate {
    TaskTemplate {
        name: pid.to_string(),
        program: job.program.clone(),
        nice: job.nice,
        cpus: job.cpus.clone().map(Into::into),
        ..TaskTemplate::default()
    }
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
    let stays = all_stays(result);
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
