//! Plays a workload's file on this machine's own scheduler and prints, as one line of JSON, what
//! came of it and what the scheduler did. Needs root and tracefs.
//!
//! cargo run --release -p kernel --example record -- \
//!     WORKLOAD.toml SEED [instructions] [NAME=VALUE ...]

use benchmarks::{Options, Pace};
use kernel::trace::{RecordError, record_play};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

/// For a play of some hundred thousand switches.
const KIB_PER_CPU: u32 = 32 << 10;

fn record(file: &str, seed: u64, others: &[String]) -> Result<String, RecordError> {
    let parameters: BTreeMap<String, String> = others
        .iter()
        .filter_map(|other| other.split_once('='))
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    let workload = scenario::load_workload(Path::new(file), &parameters)
        .map_err(benchmarks::PlayError::from)?;
    let counts = others.iter().any(|other| other == "instructions");
    let pace = if counts { Pace::Instructions } else { Pace::CpuTime };
    let options = Options { seed, pace, ..Options::default() };
    let (played, schedule) = record_play(&workload, &options, KIB_PER_CPU, &mut || false, None)?;
    let both = serde_json::json!({ "played": played, "schedule": schedule });
    Ok(both.to_string())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seed = arguments.get(1).and_then(|seed| seed.parse().ok());
    let (Some(file), Some(seed)) = (arguments.first(), seed) else {
        eprintln!("usage: record WORKLOAD.toml SEED [instructions] [NAME=VALUE ...]");
        return ExitCode::from(2);
    };
    match record(file, seed, &arguments[2..]) {
        Ok(line) => println!("{line}"),
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
