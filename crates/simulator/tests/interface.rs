//! Goal: what the policy interface offers also works. Method: run a policy that says every word.

use crate::support::{attempt, compile, machine, parsed, shipped_machine, shipped_workload};
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
fn calls_about_nodes_and_heads_of_queues_answer_as_a_kernels() {
    ask("tests/interface/nodes.bpf.c");
    let workload = shipped_workload("hackbench", &[("groups", "1"), ("loops", "5")]);
    let policy = compile("tests/interface/nodes.bpf.c");
    let result = attempt(&policy, &shipped_machine("server-96"), &workload, 1);
    assert_eq!(result.status, Status::Completed, "{:?}", result.error);
}

/// Tasks that wait and tasks that run change their CPUs meanwhile.
#[test]
fn a_policy_hears_of_each_task_that_it_has_no_longer() {
    ask("tests/interface/custody.bpf.c");
    let text = r#"
        [[tasks]]
        name = "t"
        count = 12
        program = [{ repeat = 40, do = [
            { affinity = [0] }, { run = "2ms" }, { affinity = [1] }, { run = "3ms" },
            { sleep = "1ms" }, { affinity = "all" },
        ] }]
        [[tasks]]
        name = "told"
        count = 4
        program = [{ run = "100ms" }]
        [[affinity]]
        at = "50ms"
        task = "told"
        cpus = [1]
        [[affinity]]
        at = "80ms"
        task = "told"
        cpus = [0]"#;
    let policy = compile("tests/interface/custody.bpf.c");
    let result = attempt(&policy, &machine(2, 1000), &parsed(text), 1);
    assert_eq!(result.status, Status::Completed, "{:?}", result.error);
}
