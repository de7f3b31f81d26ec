//! Goal: same inputs, same bytes. Method: the whole result, digest included, of every policy on
//! every workload: twice in a row, beside other simulations, and in another process.

use crate::support::{POLICIES, attempt, shipped, shipped_machine, shipped_workload};
use std::process::Command;

/// Workloads small enough to run under every policy, and the machine for each.
type Case = (&'static str, &'static str, &'static [(&'static str, &'static str)]);
const CASES: [Case; 6] = [
    ("hackbench", "osdl-4", &[("groups", "2"), ("loops", "10")]),
    ("counter", "core2-t5600", &[("n", "5")]),
    ("lat_ctx", "laptop", &[("n", "4"), ("rounds", "50")]),
    ("nice_shares", "osdl-2", &[]),
    ("ping_pong", "laptop", &[]),
    ("sleepers", "osdl-8", &[]),
];

/// The results of all cases under one policy, as text.
fn all_cases(policy: &str) -> Vec<String> {
    let policy = shipped(policy);
    let results = CASES.iter().map(|&(workload, machine_name, parameters)| {
        let workload = shipped_workload(workload, parameters);
        let result = attempt(&policy, &shipped_machine(machine_name), &workload, 7);
        assert_eq!(result.error, None, "{} on {machine_name}", workload.name);
        serde_json::to_string(&result).expect("results are plain data")
    });
    results.collect()
}

#[test]
fn a_second_run_in_the_same_process_is_equal() {
    for policy in POLICIES {
        assert_eq!(all_cases(policy), all_cases(policy), "{policy}");
    }
}

#[test]
fn runs_beside_other_runs_are_equal() {
    let alone: Vec<_> = POLICIES.iter().map(|policy| all_cases(policy)).collect();
    let together: Vec<_> = std::thread::scope(|scope| {
        let start = |policy: &&'static str| {
            let policy = *policy;
            scope.spawn(move || all_cases(policy))
        };
        let threads: Vec<_> = POLICIES.iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert_eq!(alone, together);
}

/// Not a test of its own: what the other process of the next test does.
#[test]
fn print_for_the_other_process() {
    if std::env::var_os("SCHEDLAB_PRINT_RESULTS").is_some() {
        for policy in POLICIES {
            all_cases(policy).iter().for_each(|line| println!("result {policy} {line}"));
        }
    }
}

#[test]
fn another_process_gets_equal_results() {
    let here: Vec<String> = POLICIES
        .iter()
        .flat_map(|policy| {
            all_cases(policy).into_iter().map(move |line| format!("result {policy} {line}"))
        })
        .collect();
    let program = std::env::current_exe().expect("tests are programs");
    let output = Command::new(program)
        .args(["--exact", "determinism::print_for_the_other_process", "--nocapture"])
        .env("SCHEDLAB_PRINT_RESULTS", "1")
        .output()
        .expect("the test program can be started");
    let text = String::from_utf8(output.stdout).expect("results are text");
    let there: Vec<&str> = text.lines().filter(|line| line.starts_with("result ")).collect();
    assert_eq!(here, there);
}

#[test]
fn another_seed_gives_another_digest() {
    let (policy, machine) = (shipped("round_robin"), shipped_machine("osdl-2"));
    let workload = shipped_workload("hackbench", &[("groups", "2"), ("loops", "10")]);
    assert_ne!(
        attempt(&policy, &machine, &workload, 1).digest,
        attempt(&policy, &machine, &workload, 2).digest
    );
}
