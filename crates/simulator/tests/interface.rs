//! Goal: what the policy interface offers also works. Method: run a policy that says every word.

use crate::support::*;
use simulator::{Options, Status};

#[test]
fn a_policy_that_says_every_word_of_the_interface_runs_to_the_end() {
    let workload = shipped_workload("hackbench", &[("groups", "1"), ("loops", "5")]);
    let policy = compile("tests/interface/all_words.bpf.c");
    let result = attempt(&policy, &shipped_machine("osdl-2"), &workload, 1);
    assert_eq!(result.status, Status::Completed, "{:?}", result.error);
    assert!(result.messages > 0 && result.switches > result.nr_tasks);
}

/// The policy asks its maps when it begins, and ends by the line of what is wrong; a kernel judges
/// the same file in `tests/policies/test_maps.py`.
#[test]
fn maps_of_each_kind_answer_as_a_kernels() {
    let workload = shipped_workload("hackbench", &[("groups", "1"), ("loops", "5")]);
    let policy = compile("tests/interface/maps.bpf.c");
    for machine in ["osdl-1", "osdl-4"] {
        let result = attempt(&policy, &shipped_machine(machine), &workload, 1);
        assert_eq!(result.status, Status::Completed, "{:?}", result.error);
    }
}

#[test]
fn a_flag_that_no_kernel_has_is_refused() {
    for (flags, expected) in [("SCX_OPS_ENQ_LAST | 1 << 8 | 1 << 16", None), ("3 << 8", Some(9))] {
        let policy = compile_text(&format!(
            "#include <scx/common.bpf.h>
            char _license[] SEC(\"license\") = \"GPL\";
            void BPF_STRUCT_OPS(flags_enqueue, struct task_struct *p, u64 enq_flags)
            {{ scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags); }}
            SCX_OPS_DEFINE(flags_ops, .enqueue = (void *)flags_enqueue, .flags = {flags},
                .name = \"flags\");",
        ));
        let said = said_at_end(&policy, &[run(MS)], &Options::default());
        let unknown = |bit: u32| format!("flags has {:#x}, which no kernel", 1 << bit);
        match expected {
            None => assert_eq!(said, ""),
            Some(bit) => assert!(said.contains(&unknown(bit)), "{said}"),
        }
    }
}
