//! Small machines and workloads, and runs of shipped policies on them.

#![allow(dead_code)] // Each test program uses its part.

use policy::{Policy, compile};
use scenario::builder::ProgramBuilder;
use scenario::load_machine;
use scenario::machine::Machine;
use scenario::workload::{
    Amount, Channel, InitialTask, Op, Program, Repeat, TaskTemplate, Workload,
};
use simulator::{Options, RunResult, Status, TaskGroup, simulate};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Nanoseconds in a microsecond.
pub const US: u64 = 1_000;
/// Nanoseconds in a millisecond.
pub const MS: u64 = 1_000_000;
/// Nanoseconds in a second.
pub const S: u64 = 1_000_000_000;

/// Later than any run of these tests ends.
const STOP_AT_NS: u64 = 1_000 * S;

/// Weight of each nice value from -20 to 19 (Linux, `sched_prio_to_weight`).
const NICE_WEIGHTS: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// Weight of a nice value.
pub fn weight(nice: i8) -> f64 {
    NICE_WEIGHTS[(nice + 20) as usize] as f64
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The shipped policy `name`.
pub fn shipped(name: &str) -> Policy {
    let source = root().join("policies").join(format!("{name}.bpf.c"));
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("policies");
    compile(&source, &[root().join("policies/include")], &cache)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// `nr_cpus` CPUs of osdl-8 with another tick rate, and one cache for all.
pub fn machine(nr_cpus: usize, hz: u32) -> Machine {
    let mut machine = load_machine(&root().join("machines/osdl-8.toml"))
        .unwrap_or_else(|error| panic!("{error}"));
    machine.cpus.truncate(nr_cpus);
    for cpu in &mut machine.cpus {
        cpu.cache = 0;
    }
    machine.hz = hz;
    machine.hz_by_policy.clear();
    machine.sync_wakeups = false; // The workload says which wake-ups are.
    machine.sync_wakeups_by_policy.clear();
    machine
}

/// A program of these operations, once.
pub fn once(ops: &[Op]) -> Program {
    ops.into()
}

/// A program of these operations, again and again.
pub fn forever(ops: &[Op]) -> Program {
    let mut program = ProgramBuilder::new();
    program.begin(Repeat::Forever);
    for op in ops {
        program.push(*op);
    }
    program.end();
    program.build()
}

/// Computes for so long.
pub fn run(ns: u64) -> Op {
    Op::Run(Amount::Fixed(ns))
}

/// Sleeps for so long.
pub fn sleep(ns: u64) -> Op {
    Op::Sleep(Amount::Fixed(ns))
}

/// A task that runs `program`.
pub fn task(name: &str, nice: i8, program: Program) -> TaskTemplate {
    TaskTemplate {
        name: name.to_string(),
        program,
        nice,
        cpus: None,
        address_space: Some(0),
        footprint_kib: 0,
    }
}

/// A task that only computes.
pub fn hog(name: &str, nice: i8) -> TaskTemplate {
    task(name, nice, forever(&[run(S)]))
}

/// The same task, allowed on one CPU only.
pub fn pinned(template: TaskTemplate, cpu: u32) -> TaskTemplate {
    TaskTemplate { cpus: Some(Arc::new([cpu])), ..template }
}

/// Tasks of the first `nr_initial` templates at once; the others only come as children.
pub fn workload_of(templates: Vec<TaskTemplate>, nr_initial: u32) -> Workload {
    let ops = || templates.iter().flat_map(|template| template.program.iter());
    let gates = ops().filter_map(|op| match op {
        Op::Wake { gate } | Op::WakeAll { gate } | Op::Wait { gate } => Some(gate + 1),
        _ => None,
    });
    let channels = ops().filter_map(|op| match op {
        Op::Send { channel, .. } | Op::Recv { channel, .. } => Some(channel + 1),
        _ => None,
    });
    let channel = Channel {
        capacity_bytes: 4096,
        overhead_bytes: 0,
        wake_senders_at_bytes: 2048,
        sync_wakeups: true,
    };
    let workload = Workload {
        name: "tests".to_string(),
        description: String::new(),
        parameters: Vec::new(),
        initial: (0..nr_initial).map(|template| InitialTask { template, start_at_ns: 0 }).collect(),
        channels: vec![channel; channels.max().unwrap_or(0) as usize],
        nr_gates: gates.max().unwrap_or(0),
        stop_at_ns: Some(STOP_AT_NS),
        digest: String::new(),
        templates,
    };
    workload.check().unwrap_or_else(|error| panic!("{error}"));
    workload
}

/// All of these tasks at once.
pub fn together(templates: Vec<TaskTemplate>) -> Workload {
    let nr = templates.len() as u32;
    workload_of(templates, nr)
}

/// Two tasks that send each other one byte in turn, and compute 10 us in between. The wake-ups
/// are of the kind that says that the waker is about to sleep, or not.
pub fn ping_pong(sync_wakeups: bool) -> Workload {
    let player = |name, first, second| task(name, 0, forever(&[first, second, run(10 * US)]));
    let send = |channel| Op::Send { channel, bytes: 1 };
    let recv = |channel| Op::Recv { channel, bytes: 1 };
    let mut workload =
        together(vec![player("ping", send(0), recv(1)), player("pong", recv(0), send(1))]);
    for channel in &mut workload.channels {
        channel.sync_wakeups = sync_wakeups;
    }
    workload
}

/// One run with some tunables changed, to its end or until `until_ns`; it must not fail.
pub fn outcome(
    policy: &Policy,
    machine: &Machine,
    workload: &Workload,
    until_ns: u64,
    tunables: &[(&str, i64)],
) -> RunResult {
    let options = Options {
        seed: 1,
        until_ns: Some(until_ns),
        timeline: true,
        tunables: tunables.iter().map(|(name, value)| (name.to_string(), *value)).collect(),
    };
    let result =
        simulate(policy, machine, workload, &options).unwrap_or_else(|error| panic!("{error}"));
    assert_ne!(result.status, Status::Failed, "{:?}", result.error);
    result
}

/// What the tasks of one name did.
pub fn group<'a>(result: &'a RunResult, name: &str) -> &'a TaskGroup {
    let found = result.task_groups.iter().find(|group| group.name == name);
    found.unwrap_or_else(|| panic!("no task {name}"))
}

/// The part of the time of one CPU that the tasks of one name had.
pub fn share(result: &RunResult, name: &str) -> f64 {
    group(result, name).run_ns as f64 / result.elapsed_ns as f64
}

/// When the tasks of one name were on a CPU: start and end of each stay in ns, and the CPU. A
/// stay that is still going on at the end of the run is not among them.
pub fn stays(result: &RunResult, name: &str) -> Vec<(u64, u64, u32)> {
    let names = result.timeline_names.as_ref().expect("asked for");
    let timeline = result.timeline.as_ref().expect("asked for");
    let of_name = timeline.iter().filter(|(_, _, _, pid)| names[pid] == name);
    of_name.map(|(start, end, cpu, _)| (*start, *end, *cpu)).collect()
}

/// The most frequent length of a stay in whole ticks, rounded up.
pub fn usual_stay_ticks(result: &RunResult, name: &str, hz: u32) -> u64 {
    let tick_ns = S / u64::from(hz);
    let mut ticks: Vec<u64> =
        stays(result, name).iter().map(|(start, end, _)| (end - start).div_ceil(tick_ns)).collect();
    ticks.sort_unstable();
    ticks[ticks.len() / 2]
}

/// The longest time between two stays, the first of which ended after `from_ns`, of a task of
/// which there is one.
pub fn longest_gap_ns(result: &RunResult, name: &str, from_ns: u64) -> u64 {
    let mut stays = stays(result, name);
    stays.retain(|(_, end, _)| *end > from_ns);
    stays.windows(2).map(|pair| pair[1].0 - pair[0].1).max().expect("at least two stays")
}

/// A task that hardly runs, at odd times: it keeps periods from locking into each other.
pub fn noise() -> TaskTemplate {
    let sleep = Op::Sleep(Amount::Exponential { mean: 5 * MS });
    task("noise", 0, forever(&[sleep, run(50 * US)]))
}
