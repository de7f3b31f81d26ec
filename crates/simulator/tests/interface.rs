//! Goal: what the policy interface offers also works. Method: run a policy that says every word.

use crate::support::{attempt, compile, shipped_machine, shipped_workload};
use simulator::Status;

#[test]
fn a_policy_that_says_every_word_of_the_interface_runs_to_the_end() {
    let workload = shipped_workload("hackbench", &[("groups", "1"), ("loops", "5")]);
    let policy = compile("tests/interface/all_words.bpf.c");
    let result = attempt(&policy, &shipped_machine("osdl-2"), &workload, 1);
    assert_eq!(result.status, Status::Completed, "{:?}", result.error);
    assert!(result.messages > 0 && result.switches > result.nr_tasks);
}

/// Whether a policy that asks, and ends by the line of an answer that is wrong, goes on; a kernel
/// judges the same file in `tests/policies/test_maps.py`.
fn ask(file: &str) {
    let workload = shipped_workload("hackbench", &[("groups", "1"), ("loops", "5")]);
    let policy = compile(file);
    for machine in ["osdl-1", "osdl-4"] {
        let result = attempt(&policy, &shipped_machine(machine), &workload, 1);
        assert_eq!(result.status, Status::Completed, "{:?}", result.error);
    }
}

#[test]
fn maps_of_each_kind_answer_as_a_kernels() {
    ask("tests/interface/maps.bpf.c");
}

#[test]
fn fields_of_a_task_say_what_a_kernels_do() {
    ask("tests/interface/fields.bpf.c");
}

#[test]
fn an_arena_answers_as_a_kernels() {
    ask("tests/interface/arena.bpf.c");
}
