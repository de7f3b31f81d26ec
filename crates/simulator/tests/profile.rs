//! Goal: a profile counts each instruction of the policy once, and changes nothing. Method: sums
//! that must agree, and a policy of which ten instructions more are written down.

use crate::support::*;
use policy::Policy;
use simulator::{Options, Profile, RunResult};

fn profiled(policy: &Policy, profile: bool, until_ns: u64) -> RunResult {
    let workload = together((0..5).map(|nice| hog("hog", nice)).collect());
    let options = Options { until_ns: Some(until_ns), profile, ..Options::default() };
    attempt_with(policy, &costless(2, 1000), &workload, &options)
}

fn profile_of(policy: &Policy) -> Profile {
    profiled(policy, true, 200 * MS).profile.expect("it was asked for")
}

#[test]
fn lines_and_operations_have_the_same_sum_and_the_run_is_the_same() {
    for name in POLICIES {
        let policy = shipped(name);
        let (with, without) =
            (profiled(&policy, true, 200 * MS), profiled(&policy, false, 200 * MS));
        assert_eq!(with.digest, without.digest, "{name}");
        assert_eq!(without.profile, None);
        let Profile { operations, lines, .. } = with.profile.expect("it was asked for");
        let of_operations: u64 = operations.iter().map(|one| one.instructions).sum();
        assert_eq!(lines.iter().map(|one| one.instructions).sum::<u64>(), of_operations, "{name}");
        assert!(of_operations > 0 && lines.iter().all(|one| one.line > 0), "{name}");
        for one in &operations {
            assert!(one.p50 <= one.p99 && one.p99 <= one.max, "{name}: {one:?}");
            assert!((one.max..=one.max * one.calls).contains(&one.instructions), "{name}: {one:?}");
        }
    }
}

#[test]
fn ten_instructions_more_are_ten_more_of_each_call_and_of_their_line() {
    let [few, many] = ["few", "many"]
        .map(|name| profile_of(&compile(&format!("crates/simulator/tests/profile/{name}.bpf.c"))));
    let enqueue = |profile: &Profile| {
        let found = profile.operations.iter().find(|one| one.operation == "enqueue");
        found.expect("it was called").clone()
    };
    let (before, after) = (enqueue(&few), enqueue(&many));
    assert_eq!(after.calls, before.calls);
    assert_eq!(after.instructions, before.instructions + 10 * before.calls);
    let more = [after.p50 - before.p50, after.p99 - before.p99, after.max - before.max];
    assert_eq!(more, [10; 3]);
    let line = many.lines.iter().find(|line| line.text.contains("TEN_MORE"));
    let line = line.expect("the object keeps its text");
    let inserted = many.kernel_calls.iter().find(|one| one.called.contains("dsq_insert"));
    assert_eq!(inserted.map(|one| one.calls), Some(after.calls));
    assert_eq!((many.function_calls, many.divisions), (0, 0));
    assert_eq!(many.branches, few.branches + 2 * after.calls);
    assert_eq!((line.function.as_str(), line.line), ("many_enqueue", 12));
    assert_eq!(line.instructions, 10 * after.calls);
}

#[test]
fn a_policy_that_is_loaded_again_is_counted_on() {
    let text = r#"
tasks = [{ name = "t", count = 3, program = [{ run = "30ms" }] }]
hotplug = [{ at = "10ms", cpu = 1, state = "offline" }]
"#;
    let policy = compile("crates/simulator/tests/hotplug/untold.bpf.c");
    let options = Options { profile: true, ..Options::default() };
    let workload = parsed(text);
    let result = attempt_with(&policy, &costless(2, 1000), &workload, &options);
    assert_eq!(result.restarts, 1);
    let Profile { operations, lines, .. } = result.profile.expect("it was asked for");
    let init = operations.iter().find(|one| one.operation == "init_task");
    assert!(init.is_none_or(|init| init.calls == 6), "{operations:?}");
    let of_operations: u64 = operations.iter().map(|one| one.instructions).sum();
    assert_eq!(lines.iter().map(|one| one.instructions).sum::<u64>(), of_operations);
}

#[test]
fn bytes_of_a_message_are_instructions() {
    let [short, long] = [1, 1001].map(|length| {
        let text = "x".repeat(length);
        let policy = compile_text(&format!(
            "#include <scx/common.bpf.h>
            char _license[] SEC(\"license\") = \"GPL\";
            static const char text[] = \"{text}\";
            void BPF_STRUCT_OPS(wrong_enqueue, struct task_struct *p, u64 enq_flags)
            {{
            bpf_printk(\"%s\", text);
            scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
            }}
            SCX_OPS_DEFINE(wrong_ops, .enqueue = (void *)wrong_enqueue, .name = \"wrong\");"
        ));
        let operations = profile_of(&policy).operations;
        operations.iter().find(|one| one.operation == "enqueue").expect("it was called").p50
    });
    // They are read and then written.
    assert_eq!(long - short, 2 * 1000);
}
