//! Runs and what they say of tasks.

use super::{MS, costless, once, parsed, shipped_with_set, stays, task, together};
use policy::Policy;
use scenario::machine::Machine;
use scenario::workload::{Op, Workload};
use simulator::{Options, RequestGroup, RunResult, Status, TaskGroup, simulate};
use std::collections::BTreeMap;

/// One run with these options; whether it fails is for the test to see.
pub fn attempt_with(
    policy: &Policy,
    machine: &Machine,
    workload: &Workload,
    options: &Options,
) -> RunResult {
    simulate(policy, machine, workload, options).unwrap_or_else(|error| panic!("{error}"))
}

/// The same with nothing but a seed.
pub fn attempt(policy: &Policy, machine: &Machine, workload: &Workload, seed: u64) -> RunResult {
    attempt_with(policy, machine, workload, &Options { seed, ..Options::default() })
}

/// One run of a shipped policy, with the values of its set if the text names one, as in
/// `cfs@2.6.31`, and with these tunables, to its end or until a time in ns; it must not fail.
pub fn outcome(
    policy: &str,
    machine: &Machine,
    workload: &Workload,
    until_ns: impl Into<Option<u64>>,
    tunables: &[(&str, i64)],
) -> RunResult {
    let (policy, mut values) = shipped_with_set(policy);
    values.extend(settings(tunables));
    outcome_of(&policy, machine, workload, until_ns, values)
}

/// The same of any policy.
pub fn outcome_of(
    policy: &Policy,
    machine: &Machine,
    workload: &Workload,
    until_ns: impl Into<Option<u64>>,
    tunables: BTreeMap<String, i64>,
) -> RunResult {
    let until_ns = until_ns.into();
    let options = Options { seed: 1, until_ns, timeline: true, tunables, ..Options::default() };
    let result = attempt_with(policy, machine, workload, &options);
    assert_ne!(result.status, Status::Failed, "{:?}", result.error);
    result
}

/// What a run ends with in which two tasks do this on one CPU: why it failed or could not begin,
/// nothing if it came to its end.
pub fn said_at_end(policy: &Policy, ops: &[Op], options: &Options) -> String {
    let workload = together(["one", "two"].map(|name| task(name, 0, once(ops))).to_vec());
    match simulate(policy, &costless(1, 1000), &workload, options) {
        Ok(result) => {
            assert!(result.error.is_some() || result.status == Status::Completed);
            result.error.map_or(String::new(), |failure| failure.message)
        }
        Err(error) => error.to_string(),
    }
}

/// The requests that tasks of one name released.
pub fn requests<'a>(result: &'a RunResult, name: &str) -> &'a RequestGroup {
    let found = result.requests.iter().find(|group| group.name == name);
    found.unwrap_or_else(|| panic!("no requests of {name}: {:?}", result.requests))
}

/// Tunables as a run is given them.
pub fn settings(tunables: &[(&str, i64)]) -> BTreeMap<String, i64> {
    tunables.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
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

/// The CPU that takes a task at once which wakes up and last ran on CPU 5, while hogs are on these
/// CPUs; `more` is added to the workload.
pub fn woken_on(
    policy: &str,
    machine: &Machine,
    (busy, more): (&[u32], &str),
    tunables: &[(&str, i64)],
) -> u32 {
    let hog = |cpu: &u32| {
        format!(
            "[[tasks]]\nname = \"h{cpu}\"\nstart = \"3ms\"\ncpus = [{cpu}]\n\
             program = [{{ run = \"20ms\" }}]\n"
        )
    };
    let hogs: String = busy.iter().map(hog).collect();
    let text = format!(
        r#"[[tasks]]
name = "t"
cpus = [5]
program = [{{ run = "1ms" }}, {{ affinity = "all" }}, {{ sleep = "5ms" }}, {{ run = "1ms" }}]
{hogs}{more}"#
    );
    let result = outcome(policy, machine, &parsed(&text), None, tunables);
    let stays = stays(&result, "t");
    let woken = stays.iter().find(|stay| stay.0 > 2 * MS).expect("it wakes up");
    assert!((6 * MS..6 * MS + 10).contains(&woken.0), "a CPU takes it at once: {stays:?}");
    woken.2
}
