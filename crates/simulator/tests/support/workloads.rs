//! Programs, tasks and workloads.

use super::{MS, S, US, root};
use scenario::builder::ProgramBuilder;
use scenario::workload::{
    Amount, Channel, InitialTask, Op, Program, Repeat, TaskTemplate, Workload,
};
use std::collections::BTreeMap;
use std::sync::Arc;

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

// ---- files --------------------------------------------------------------------------------------

/// The shipped workload of this name.
pub fn shipped_workload(name: &str, parameters: &[(&str, &str)]) -> Workload {
    let path = root().join("workloads").join(format!("{name}.toml"));
    let parameters =
        parameters.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    scenario::load_workload(&path, &parameters).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A workload from the text of a workload file, but for where it is from and what it is.
pub fn parsed(text: &str) -> Workload {
    let text = format!("source = \"own\"\ndescription = \"a test's\"\n{text}");
    scenario::parse_workload("test", &text, &BTreeMap::new())
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

// ---- programs -----------------------------------------------------------------------------------

/// A program of these operations, once.
pub fn once(ops: &[Op]) -> Program {
    ops.into()
}

/// A program of these operations, again and again.
pub fn forever(ops: &[Op]) -> Program {
    repeated(Repeat::Forever, ops)
}

/// A program of these operations, so many times.
pub fn times(rounds: u64, ops: &[Op]) -> Program {
    repeated(Repeat::Times(Amount::Fixed(rounds)), ops)
}

fn repeated(repeat: Repeat, ops: &[Op]) -> Program {
    let mut program = ProgramBuilder::new();
    program.begin(repeat);
    for op in ops {
        program.push(*op);
    }
    program.end();
    program.build()
}

/// Computes for so long.
pub const fn run(ns: u64) -> Op {
    Op::Run(Amount::Fixed(ns))
}

/// Sends a byte to whoever receives it.
pub const SEND: Op = Op::Send { channel: 0, bytes: 1 };

/// Receives a byte, or waits for it.
pub const RECEIVE: Op = Op::Recv { channel: 0, bytes: 1 };

/// Sleeps for so long.
pub const fn sleep(ns: u64) -> Op {
    Op::Sleep(Amount::Fixed(ns))
}

// ---- tasks --------------------------------------------------------------------------------------

/// A task that runs `program`.
pub fn task(name: &str, nice: i8, program: Program) -> TaskTemplate {
    let (name, address_space) = (name.to_string(), Some(0));
    TaskTemplate { name, program, nice, address_space, ..TaskTemplate::default() }
}

/// A task that only computes.
pub fn hog(name: &str, nice: i8) -> TaskTemplate {
    task(name, nice, forever(&[run(S)]))
}

/// A task that sleeps and computes for so long by turns.
pub fn sleeper(nice: i8, sleep_ns: u64, run_ns: u64) -> TaskTemplate {
    task("sleeper", nice, forever(&[sleep(sleep_ns), run(run_ns)]))
}

/// The same task, allowed on one CPU only.
pub fn pinned(template: TaskTemplate, cpu: u32) -> TaskTemplate {
    TaskTemplate { cpus: Some(Arc::new([cpu])), ..template }
}

/// A task that hardly runs, at odd times: it keeps periods from locking into each other.
pub fn noise() -> TaskTemplate {
    let sleep = Op::Sleep(Amount::Exponential { mean: 5 * MS });
    task("noise", 0, forever(&[sleep, run(50 * US)]))
}

// ---- workloads ----------------------------------------------------------------------------------

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
        wake_senders_at_bytes: 2048,
        sync_wakeups: true,
        ..Channel::default()
    };
    let workload = Workload {
        name: "tests".to_string(),
        initial: (0..nr_initial).map(|template| InitialTask { template, start_at_ns: 0 }).collect(),
        channels: vec![channel; channels.max().unwrap_or(0) as usize],
        nr_gates: gates.max().unwrap_or(0),
        stop_at_ns: Some(STOP_AT_NS),
        templates,
        ..Workload::default()
    };
    workload.check().unwrap_or_else(|error| panic!("{error}"));
    workload
}

/// All of these tasks at once.
pub fn together(templates: Vec<TaskTemplate>) -> Workload {
    let nr = templates.len() as u32;
    workload_of(templates, nr)
}

/// The workload, with wake-ups by messages that say, or not, that the waker is about to sleep.
pub fn with_sync(mut workload: Workload, sync_wakeups: bool) -> Workload {
    for channel in &mut workload.channels {
        channel.sync_wakeups = sync_wakeups;
    }
    workload
}

/// These tasks, and two that do `before` and then send each other one byte in turn, and compute 10
/// us in between.
fn ping_pong_beside(mut others: Vec<TaskTemplate>, before: &[Op]) -> Workload {
    let send = |channel| Op::Send { channel, bytes: 1 };
    let recv = |channel| Op::Recv { channel, bytes: 1 };
    for (name, ops) in [("ping", [send(0), recv(1)]), ("pong", [recv(0), send(1)])] {
        let mut program = ProgramBuilder::new();
        for op in before {
            program.push(*op);
        }
        program.begin(Repeat::Forever).push(ops[0]).push(ops[1]).push(run(10 * US)).end();
        others.push(task(name, 0, program.build()));
    }
    together(others)
}

/// Two tasks that only do that. Their wake-ups say that the waker is about to sleep, or not.
pub fn ping_pong(sync_wakeups: bool) -> Workload {
    with_sync(ping_pong_beside(Vec::new(), &[]), sync_wakeups)
}

/// The same, after both have slept through half a second of a hog, which leaves neither behind the
/// other: what a start may debit would else keep them apart for good.
pub fn ping_pong_after_a_hog() -> Workload {
    let hog = task("hog", 0, once(&[run(500 * MS)]));
    with_sync(ping_pong_beside(vec![hog], &[sleep(450 * MS)]), false)
}

/// Three CPUs on the first of which a parent forks a child beside two hogs; the second has two hogs
/// and the third has one, all of which stay there.
pub fn fork_beside_hogs_on_three_cpus() -> Workload {
    let ops = [run(200 * MS), Op::Fork { template: 1 }, run(S)];
    let family = vec![pinned(task("parent", 0, once(&ops)), 0), task("child", 0, once(&[run(MS)]))];
    let hogs = [0, 0, 1, 1, 2].map(|cpu| pinned(hog("hog", 0), cpu));
    let mut workload = workload_of([family, hogs.to_vec()].concat(), 1);
    let beside =
        (2..2 + hogs.len() as u32).map(|template| InitialTask { template, start_at_ns: 0 });
    workload.initial.extend(beside);
    workload
}
