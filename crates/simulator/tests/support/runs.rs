//! Runs and what they say of tasks.

use policy::Policy;
use scenario::machine::Machine;
use scenario::workload::Workload;
use simulator::{Options, RunResult, Status, TaskGroup, simulate};

/// One run with nothing but a seed; whether it fails is for the test to see.
pub fn attempt(policy: &Policy, machine: &Machine, workload: &Workload, seed: u64) -> RunResult {
    let options = Options { seed, ..Options::default() };
    simulate(policy, machine, workload, &options).unwrap_or_else(|error| panic!("{error}"))
}

/// One run with some tunables changed, to its end or until a time in ns; it must not fail.
pub fn outcome(
    policy: &Policy,
    machine: &Machine,
    workload: &Workload,
    until_ns: impl Into<Option<u64>>,
    tunables: &[(&str, i64)],
) -> RunResult {
    let options = Options {
        seed: 1,
        until_ns: until_ns.into(),
        timeline: true,
        tunables: tunables.iter().map(|(name, value)| (name.to_string(), *value)).collect(),
        ..Options::default()
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
