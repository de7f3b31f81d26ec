//! Plays a workload's file on this machine's own scheduler.
//!
//! cargo run --release -p benchmarks --example play -- WORKLOAD.toml [--seed N] [--json]
//!     [--limit-s N] [--instructions] [--ext] [--hotplug] [NAME=VALUE ...]

use benchmarks::{Class, Options, Pace, Played, play};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: play WORKLOAD.toml [--seed N] [--limit-s N] [--json] \
                     [--instructions] [--ext] [--hotplug] [NAME=VALUE ...]";

/// What the command line asks for.
struct Wanted {
    workload: PathBuf,
    parameters: BTreeMap<String, String>,
    options: Options,
    json: bool,
}

fn wanted() -> Option<Wanted> {
    let mut arguments = std::env::args().skip(1);
    let mut workload = None;
    let mut wanted = Wanted {
        workload: PathBuf::new(),
        parameters: BTreeMap::new(),
        options: Options::default(),
        json: false,
    };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seed" => wanted.options.seed = arguments.next()?.parse().ok()?,
            "--limit-s" => {
                wanted.options.limit_ns =
                    arguments.next()?.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
            }
            "--json" => wanted.json = true,
            "--instructions" => wanted.options.pace = Pace::Instructions,
            "--ext" => wanted.options.class = Class::Ext,
            "--hotplug" => wanted.options.hotplug = true,
            _ => match argument.split_once('=') {
                Some((name, value)) => {
                    wanted.parameters.insert(name.to_string(), value.to_string());
                }
                None if workload.is_none() => workload = Some(PathBuf::from(argument)),
                None => return None,
            },
        }
    }
    wanted.workload = workload?;
    Some(wanted)
}

fn show(played: &Played) {
    let ms = |ns: u64| ns as f64 / 1e6;
    println!(
        "{:?} after {:.3} ms, makespan {:.3} ms",
        played.status,
        ms(played.elapsed_ns),
        ms(played.makespan_ns)
    );
    println!("{} tasks on {} CPUs, {} messages", played.nr_tasks, played.nr_cpus, played.messages);
    println!(
        "{} voluntary, {} involuntary switches",
        played.voluntary_switches, played.involuntary_switches
    );
    for group in &played.task_groups {
        println!(
            "{:>15} nice {:>3}: {:>5} tasks, {:.3} ms of CPU",
            group.name,
            group.nice,
            group.count,
            ms(group.run_ns)
        );
    }
}

fn main() -> ExitCode {
    let Some(wanted) = wanted() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let played = scenario::load_workload(&wanted.workload, &wanted.parameters)
        .map_err(benchmarks::PlayError::from)
        .and_then(|workload| play(&workload, &wanted.options, &mut || false));
    match played {
        Ok(played) if wanted.json => {
            println!("{}", serde_json::to_string(&played).expect("a result is plain data"));
        }
        Ok(played) => show(&played),
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
