//! The second table: many CPUs and many tasks.

use crate::measuring::timed;
use crate::mixes::{MACHINE, machine_of, many_that_run_and_sleep};
use crate::repository::stop;
use policy::Policy;
use scenario::machine::Machine;
use scenario::workload::Workload;
use simulator::{Options, simulate};
use std::process::Command;

/// What a child of this program is started with, to begin a run and no more.
pub const BEGIN: &str = "--begin";

const TASKS: u32 = 10_000;
const CPUS: usize = 512;
const ROUNDS: u64 = 5;
/// Tasks of each CPU where few CPUs are compared with many.
const TASKS_PER_CPU: u32 = 20;
const FEW_CPUS: usize = 8;
const MANY_CPUS: usize = 1024;
/// As many as a run may have.
const MOST_TASKS: u32 = 1_000_000;

/// What was done of a run, and how long it took; else why it failed.
type Done = Result<(u64, f64), String>;

/// Prints a row a policy; `names` are what a child takes them by.
pub fn print(policies: &[Policy], names: &[String]) {
    let [few, wide, many] = [FEW_CPUS, CPUS, MANY_CPUS].map(machine_of);
    println!("\nmany CPUs and tasks ({MACHINE} with more CPUs), one round, CPU time");
    println!(
        "{:<14}{:>22}{:>42}{:>26}",
        "", "run/sleep, 10,000", "run/sleep, 20 tasks a CPU: ns a switch", "begin with 1,000,000"
    );
    println!(
        "{:<14}{:>12}{:>10}{:>14}{:>14}{:>14}{:>16}{:>10}",
        "policy", "M switches/s", "CPU s", "8 CPUs", "1,024 CPUs", "ratio", "CPU s", "MiB"
    );
    let mut notes = Vec::new();
    for (policy, name) in policies.iter().zip(names) {
        print!("{:<14}", policy.name);
        let wide = run(policy, &wide, &many_that_run_and_sleep(TASKS, ROUNDS), None);
        print_or(
            "-",
            22,
            wide.as_ref().ok().map(|&(switches, seconds)| {
                format!("{:>12.2}{seconds:>10.3}", switches as f64 / seconds / 1e6)
            }),
        );
        let at =
            [(&few, 2000), (&many, ROUNDS)].map(|(on, rounds)| ns_a_switch(policy, on, rounds));
        let costs = match &at {
            [Ok(few), Ok(many)] => Some(format!("{few:>14.0}{many:>14.0}{:>14.2}", many / few)),
            _ => None,
        };
        print_or("-", 42, costs);
        let begun = begin_in_child(name);
        print_or("-", 26, begun.as_ref().ok().cloned());
        println!();
        let failures = [wide.err(), at.into_iter().find_map(Result::err), begun.err()];
        notes.extend(failures.into_iter().flatten().map(|why| format!("{}: {why}", policy.name)));
    }
    notes.dedup();
    notes.iter().for_each(|note| println!("- {note}"));
}

fn print_or(nothing: &str, width: usize, text: Option<String>) {
    print!("{:>width$}", text.as_deref().unwrap_or(nothing));
}

/// What one more switch costs: the difference of two runs, so that beginnings do not count.
fn ns_a_switch(policy: &Policy, machine: &Machine, rounds: u64) -> Result<f64, String> {
    let tasks = machine.cpus.len() as u32 * TASKS_PER_CPU;
    let of = |rounds| run(policy, machine, &many_that_run_and_sleep(tasks, rounds), None);
    let (short, long) = (of(1)?, of(1 + rounds)?);
    Ok((long.1 - short.1) * 1e9 / (long.0 - short.0) as f64)
}

fn run(policy: &Policy, machine: &Machine, workload: &Workload, until_ns: Option<u64>) -> Done {
    let options = Options { seed: 1, until_ns, ..Options::default() };
    let (result, seconds) = timed(|| simulate(policy, machine, workload, &options));
    let result = result.unwrap_or_else(|error| stop(&error));
    match result.error {
        None => Ok((result.switches, seconds)),
        Some(failure) => {
            let first = failure.message.lines().next().unwrap_or_default().to_owned();
            Err(format!("{} CPUs, {} tasks: {first}", machine.cpus.len(), workload.initial.len()))
        }
    }
}

/// Begins a run in another process, whose memory is that of this run alone.
fn begin_in_child(name: &str) -> Result<String, String> {
    let this = std::env::current_exe().unwrap_or_else(|error| stop(&error));
    let output = Command::new(this).args([BEGIN, name]).output();
    let output = output.unwrap_or_else(|error| stop(&error));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\n').to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr).trim_start_matches("error: ").to_owned()),
    }
}

/// Begins a run with the most tasks, ends it after its first nanosecond, and prints its CPU time
/// and the most memory that this process has had.
pub fn begin(policy: &Policy) {
    let workload = many_that_run_and_sleep(MOST_TASKS, 1);
    let (_, seconds) =
        run(policy, &machine_of(FEW_CPUS), &workload, Some(0)).unwrap_or_else(|error| stop(&error));
    println!("{seconds:>16.3}{:>10}", peak_kib() / 1024);
}

fn peak_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_else(|error| stop(&error));
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    number.unwrap_or_else(|| stop(&"no VmHWM in /proc/self/status"))
}
