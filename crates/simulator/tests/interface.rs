//! Goal: what the policy interface offers also works. Method: run a policy that says every word.

mod support;

use simulator::Status;
use support::{compile, machine, run, shipped_workload};

#[test]
fn a_policy_that_says_every_word_of_the_interface_runs_to_the_end() {
    let workload = shipped_workload("hackbench", &[("groups", "1"), ("loops", "5")]);
    let result = run(&compile("tests/interface/all_words.bpf.c"), &machine("osdl-2"), &workload, 1);
    assert_eq!(result.status, Status::Completed, "{:?}", result.error);
    assert!(result.messages > 0 && result.switches > result.nr_tasks);
}
