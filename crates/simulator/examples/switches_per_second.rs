//! How fast the simulator is: context switches simulated in a second of one core, with the real
//! policies and all invariants on. Seconds are those of the CPU.
//!
//! `cargo run --release -p simulator --example switches_per_second [POLICY...]`, from the
//! repository. Each mix runs on the same machine of 8 CPUs for a second of simulated time or more;
//! the best of [`ROUNDS`] interleaved rounds is printed, because the host is shared. Ratios of two
//! rows of one run mean something, absolute numbers belong to the host they were measured on.

mod repository;

use repository::{policies, root, stop};
use scenario::builder::ProgramBuilder;
use scenario::workload::{
    Amount, Channel, InitialTask, Op, Program, Repeat, TaskTemplate, Workload,
};
use simulator::{Options, RunResult, simulate};

const ROUNDS: usize = 3;
const MACHINE: &str = "osdl-8";

fn main() {
    let policies = policies(std::env::args().skip(1).collect());
    let machine = scenario::load_machine(&root().join("machines").join(format!("{MACHINE}.toml")))
        .unwrap_or_else(|error| stop(&error));
    let mixes = mixes();
    println!("simulated on {MACHINE}, one core, best of {ROUNDS} rounds");
    print!("{:<14}", "policy");
    mixes.iter().for_each(|(name, _)| print!("{name:>22}"));
    println!("\n{:<14}{:>88}", "", "million switches / million events a second");
    for policy in &policies {
        print!("{:<14}", policy.name);
        for (_, workload) in &mixes {
            let run =
                || simulate(policy, &machine, workload, &Options { seed: 1, ..Options::default() });
            let (result, seconds) = best_of(|| run().unwrap_or_else(|error| stop(&error)));
            let per_second = |count: u64| count as f64 / seconds / 1e6;
            let cell =
                format!("{:.2} / {:.1}", per_second(result.switches), per_second(result.events));
            print!("{cell:>22}");
        }
        println!();
    }
}

/// CPU time of this thread: others on the host take turns, which is none of ours.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat");
    let text = text.unwrap_or_else(|error| stop(&error));
    let ns = text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
    ns.unwrap_or_else(|| stop(&"no CPU time in /proc/thread-self/schedstat")) / 1e9
}

fn best_of(run: impl Fn() -> RunResult) -> (RunResult, f64) {
    let rounds = (0..ROUNDS).map(|_| {
        let start = cpu_seconds();
        let result = run();
        assert!(result.error.is_none(), "the run failed: {:?}", result.error);
        (result, cpu_seconds() - start)
    });
    rounds.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_else(|| unreachable!("ROUNDS > 0"))
}

fn mixes() -> Vec<(&'static str, Workload)> {
    vec![
        ("ping-pong, 8 tasks", ping_pong(4, 60_000)),
        ("ping-pong, 400 tasks", ping_pong(200, 1_200)),
        ("run/sleep, 400 tasks", run_and_sleep(400, 1_000)),
        ("hogs, 400 tasks", hogs(400)),
    ]
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

fn run_and_sleep(tasks: usize, rounds: u64) -> Workload {
    let mut program = ProgramBuilder::new();
    program.begin(Repeat::Times(Amount::Fixed(rounds)));
    program.push(Op::Run(Amount::Fixed(10_000)));
    program.push(Op::Sleep(Amount::Fixed(900_000)));
    program.end();
    workload(vec![program.build(); tasks], 0, None)
}

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
