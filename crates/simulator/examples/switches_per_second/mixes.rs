//! What is measured: the same work for the simulator and for the bare event loop.

use crate::bare_loop::{self, Counts};
use crate::repository::{root, stop};
use scenario::builder::ProgramBuilder;
use scenario::machine::Machine;
use scenario::workload::{
    Amount, Channel, InitialTask, Op, Program, Repeat, TaskTemplate, Workload,
};

/// The machine of all mixes, or what is widened for more CPUs.
pub const MACHINE: &str = "osdl-8";
const MACHINE_CPUS: usize = 8;

const MESSAGE_BYTES: u32 = 100;

/// What tells how much was simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Switches,
    /// Where a policy may do with next to no switches.
    Events,
}

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Unit::Switches => "switches",
            Unit::Events => "events",
        }
    }

    pub fn of(self, switches: u64, events: u64) -> u64 {
        match self {
            Unit::Switches => switches,
            Unit::Events => events,
        }
    }
}

/// One mix of tasks.
pub struct Mix {
    /// As it is written in files.
    pub key: &'static str,
    pub name: &'static str,
    pub workload: Workload,
    pub unit: Unit,
    /// The same work, in the bare event loop.
    pub bare: fn() -> Counts,
}

/// The mixes of the first table. The bare loop does more of each: it has no start that counts.
pub fn mixes() -> Vec<Mix> {
    let mix = |key, name, workload, unit, bare| Mix { key, name, workload, unit, bare };
    vec![
        mix("ping_pong_8", "ping-pong, 8 tasks", ping_pong(4, 60_000), Unit::Switches, || {
            bare_loop::ping_pong(4, 800_000)
        }),
        mix("ping_pong_400", "ping-pong, 400 tasks", ping_pong(200, 1_200), Unit::Switches, || {
            bare_loop::ping_pong(200, 16_000)
        }),
        mix(
            "run_sleep_400",
            "run/sleep, 400 tasks",
            run_and_sleep(400, 1_000),
            Unit::Switches,
            || bare_loop::run_and_sleep(400, 7_000),
        ),
        mix("messages_400", "messages, 400 tasks", messages(10, 20, 60), Unit::Events, || {
            bare_loop::messages(10, 20, 1_000)
        }),
        mix("hogs_400", "hogs, 400 tasks", hogs(400), Unit::Events, || {
            bare_loop::hogs(400, 1_000_000_000_000)
        }),
    ]
}

/// The machine of the mixes.
pub fn machine() -> Machine {
    machine_of(MACHINE_CPUS)
}

/// The same machine with another number of CPUs.
pub fn machine_of(nr_cpus: usize) -> Machine {
    let path = root().join("machines").join(format!("{MACHINE}.toml"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| stop(&error));
    let line = |nr_cpus| format!("\nsockets = {nr_cpus}\n");
    assert!(text.contains(&line(MACHINE_CPUS)), "{MACHINE} has one CPU a socket");
    let text = text.replace(&line(MACHINE_CPUS), &line(nr_cpus));
    let name = path.to_string_lossy();
    let mut machine = scenario::parse_machine(&name, &text).unwrap_or_else(|error| stop(&error));
    assert_eq!(machine.cpus.len(), nr_cpus);
    // Who waits for a lock before it decides switches seldom, and here switches are counted.
    machine.one_lock.clear();
    machine
}

/// Pairs of tasks that compute 10 us and pass a byte to each other.
fn ping_pong(pairs: u32, rounds: u64) -> Workload {
    let side = |own: u32, other: u32, starts: bool| {
        let mut program = ProgramBuilder::new();
        program.begin(Repeat::Times(Amount::Fixed(rounds)));
        let send = Op::Send { channel: other, bytes: 1 };
        let receive = Op::Recv { channel: own, bytes: 1 };
        let work = Op::Run(Amount::Fixed(10_000));
        let steps = if starts { [work, send, receive] } else { [receive, work, send] };
        for step in steps {
            program.push(step);
        }
        program.end();
        program.build()
    };
    let programs = (0..pairs).flat_map(|pair| {
        let (a, b) = (2 * pair, 2 * pair + 1);
        [side(a, b, true), side(b, a, false)]
    });
    workload(programs.collect(), 2 * pairs, None)
}

/// Groups of writers and as many readers, in which each writer sends `rounds` messages to each
/// reader, as hackbench does.
fn messages(groups: u32, readers: u32, rounds: u64) -> Workload {
    let programs = (0..groups).flat_map(|group| {
        let first = group * readers;
        let all = first..first + readers;
        let writer = {
            let mut program = ProgramBuilder::new();
            program.begin(Repeat::Times(Amount::Fixed(rounds)));
            for channel in all.clone() {
                program.push(Op::Send { channel, bytes: MESSAGE_BYTES });
            }
            program.end();
            program.build()
        };
        let reader = move |channel| {
            let mut program = ProgramBuilder::new();
            program.begin(Repeat::Times(Amount::Fixed(rounds * u64::from(readers))));
            program.push(Op::Recv { channel, bytes: MESSAGE_BYTES });
            program.end();
            program.build()
        };
        std::iter::repeat_n(writer, readers as usize).chain(all.map(reader))
    });
    workload(programs.collect(), groups * readers, None)
}

/// Tasks that compute 10 us and sleep 900 us.
fn run_and_sleep(tasks: usize, rounds: u64) -> Workload {
    workload(vec![runs_and_sleeps(rounds); tasks], 0, None)
}

/// The same, so many that they are of one template.
pub fn many_that_run_and_sleep(tasks: u32, rounds: u64) -> Workload {
    let mut many = workload(vec![runs_and_sleeps(rounds)], 0, None);
    let start = |number| InitialTask { template: 0, start_at_ns: u64::from(number) * 1000 };
    many.initial = (0..tasks).map(start).collect();
    many
}

fn runs_and_sleeps(rounds: u64) -> Program {
    let mut program = ProgramBuilder::new();
    program.begin(Repeat::Times(Amount::Fixed(rounds)));
    program.push(Op::Run(Amount::Fixed(10_000)));
    program.push(Op::Sleep(Amount::Fixed(900_000)));
    program.end();
    program.build()
}

/// Tasks that compute a second each; 20 seconds are simulated.
fn hogs(tasks: usize) -> Workload {
    let program: Program = [Op::Run(Amount::Fixed(1_000_000_000))].into();
    workload(vec![program; tasks], 0, Some(20_000_000_000))
}

fn workload(programs: Vec<Program>, nr_channels: u32, stop_at_ns: Option<u64>) -> Workload {
    let channel =
        Channel { capacity_bytes: 4096, wake_senders_at_bytes: 4095, ..Channel::default() };
    let template =
        |program| TaskTemplate { name: "task".to_owned(), program, ..TaskTemplate::default() };
    let initial = (0..programs.len() as u32)
        .map(|number| InitialTask { template: number, start_at_ns: u64::from(number) * 1000 });
    Workload {
        name: "bench".to_owned(),
        initial: initial.collect(),
        templates: programs.into_iter().map(template).collect(),
        channels: vec![channel; nr_channels as usize],
        stop_at_ns,
        ..Workload::default()
    }
}
