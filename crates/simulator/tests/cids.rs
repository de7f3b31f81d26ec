//! Goal: a policy whose table is a `sched_ext_ops_cid` ends where a kernel ends it. Method: one
//! that takes cids in an order of its own, with one mistake each.

use crate::support::*;
use policy::Policy;
use simulator::{Dumps, Options, simulate};

/// What stands before its operations.
const BEFORE: &str = include_str!("cids/before.txt");

/// The text of a policy with these statements in `select_cid`, `enqueue` and `init_cids`.
fn text(select: &str, enqueue: &str, init_cids: &str) -> String {
    let text = BEFORE.replace("@SELECT@", select).replace("@ENQUEUE@", enqueue);
    text.replace("@INIT_CIDS@", init_cids)
}

fn built(select: &str, enqueue: &str, init_cids: &str) -> Policy {
    compile_text(&text(select, enqueue, init_cids))
}

/// What a run of it on four CPUs ends with.
fn said([select, enqueue, init_cids]: [&str; 3], strict: bool) -> String {
    let (policy, options) =
        (built(select, enqueue, init_cids), Options { strict, ..Options::default() });
    let ops = [run(MS), sleep(MS), run(MS)];
    let workload = together((0..6).map(|_| task("one", 0, once(&ops))).collect());
    let result = simulate(&policy, &costless(4, 1000), &workload, &options);
    let result = result.expect("it can begin");
    result.error.map_or(String::new(), |failure| failure.message)
}

const INSERT: &str = "scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cid, 1000000, enq_flags);";
const REVERSE: &str = "scx_bpf_cid_override(reversed, scx_bpf_nr_cids(), first, 1);";

#[test]
fn cids_lead_to_cpus_in_every_order() {
    for init_cids in ["", REVERSE] {
        for strict in [false, true] {
            assert_eq!(said(["return prev_cid;", INSERT, init_cids], strict), "");
        }
    }
}

#[test]
fn cids_that_there_are_not_end_the_run() {
    let cases = [
        ["return 9;", INSERT, ""],
        ["return prev_cid;", "scx_bpf_kick_cid(9, 0);", ""],
        ["return prev_cid;", "scx_bpf_cid_curr(9);", ""],
        ["return prev_cid;", "scx_bpf_cidperf_set(9, 1);", ""],
        ["return prev_cid;", "scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | 9);", ""],
        ["return prev_cid;", "scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | 9, 1, enq_flags);", ""],
    ];
    for case in cases {
        for strict in [false, true] {
            let said = said(case, strict);
            assert!(said.contains("invalid cid 9"), "{case:?}: {said}");
        }
    }
    let negative = said(["return -3;", INSERT, ""], false);
    assert!(negative.contains("invalid CPU -3 from ops.select_cpu()"), "{negative}");
}

#[test]
fn an_order_of_its_own_is_one_and_is_given_in_init_cids() {
    let nr = "scx_bpf_nr_cids()";
    for (init_cids, expected) in [
        (&format!("scx_bpf_cid_override(first, {nr}, first, 1);")[..], "to multiple cpus"),
        ("scx_bpf_cid_override(reversed, 1, first, 1);", "entries, got 1"),
        (&format!("scx_bpf_cid_override(reversed, {nr}, first, 99);"), "shard_start count 99"),
        (&format!("scx_bpf_cid_override(reversed, {nr}, reversed, 2);"), "must be 0, got"),
        ("return -5;", "ops.init_cids() failed (-5)"),
    ] {
        let said = said(["return prev_cid;", INSERT, init_cids], false);
        assert!(said.contains(expected), "{init_cids}: {said}");
    }
    let late = said(["return prev_cid;", REVERSE, ""], false);
    assert!(late.contains("called from outside ops.init_cids()"), "{late}");
    let strict = said(["return prev_cid;", REVERSE, ""], true);
    assert!(strict.contains("is called in enqueue; it is for init_cids"), "{strict}");
}

#[test]
fn what_names_cpus_is_refused_and_what_has_a_call_is_not_written() {
    let kick = said(["return prev_cid;", "scx_bpf_kick_cpu(0, 0);", ""], true);
    assert!(kick.contains("scx_bpf_kick_cpu() is not for a sched_ext_ops_cid"), "{kick}");
    let slice = said(["return prev_cid;", "p->scx.slice = 5;", ""], true);
    assert!(slice.contains("it writes 8 bytes"), "{slice}");
    let insert = format!("scx_bpf_task_set_slice(p, 5); {INSERT}");
    assert_eq!(said(["return prev_cid;", &insert, ""], true), "");
}

#[test]
fn a_run_that_its_loader_ends_before_init_is_dumped_by_cids() {
    let text = text("return prev_cid;", INSERT, REVERSE);
    let policy = compile_with("[[call]]\nprogram = \"early\"\n", &text);
    let dumps = Dumps { on_failure: true, ..Dumps::default() };
    let options = Options { dumps, ..Options::default() };
    let workload = together(vec![task("one", 0, once(&[run(MS)]))]);
    let result = attempt_with(&policy, &costless(2, 1000), &workload, &options);
    let failure = result.error.expect("it fails");
    assert_eq!(failure.message, "early, which its loader calls, answered 5");
    let said = &result.dumps[0].text;
    assert!(said.contains("it is cid 0\n") && said.contains("it is cid 1\n"), "{said}");
}

#[test]
fn an_arena_that_is_too_small_is_told_with_what_it_would_take() {
    let text = text("return prev_cid;", INSERT, "").replace("max_entries, 64", "max_entries, 4");
    let said = said_at_end(&compile_text(&text), &[run(MS)], &Options::default());
    let expected = "its arena has max_entries = 4 pages, and no room among them for the kernel's \
        sets of cids, which take 4 on 1 CPUs";
    assert_eq!(said, expected);
}

#[test]
fn an_arena_is_a_policy_s_if_an_operation_names_it_and_not_only_a_loader_s_program() {
    let names = "asm volatile(\"\" ::\"r\"(&arena));";
    // One that the simulator never calls counts, by what it calls if not by itself.
    let cases = [["", "", ""], [names, "", ""], ["", names, ""], ["", "named();", names]];
    for [in_enqueue, in_order, in_named] in cases {
        let text = format!(
            "#include <scx/common.bpf.h>
            char _license[] SEC(\"license\") = \"GPL\";
            struct {{ __uint(type, 33); __uint(map_flags, 1 << 10); __uint(max_entries, 64); }}
                arena SEC(\".maps\");
            struct sched_ext_ops_cid {{
                void (*enqueue)(struct task_struct *p, u64 enq_flags);
                bool (*core_sched_before)(struct task_struct *a, struct task_struct *b);
                char name[128];
            }};
            SEC(\"syscall\") int early(const void *context) {{ {names} return 0; }}
            __noinline int named(void) {{ {in_named} return 0; }}
            void BPF_STRUCT_OPS(own_enqueue, struct task_struct *p, u64 enq_flags)
            {{ {in_enqueue} scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags); }}
            bool BPF_STRUCT_OPS(own_before, struct task_struct *a, struct task_struct *b)
            {{ {in_order} return false; }}
            SEC(\".struct_ops.link\") struct sched_ext_ops_cid own_ops = {{
                .enqueue = (void *)own_enqueue,
                .core_sched_before = (void *)own_before,
                .name = \"own\",
            }};"
        );
        let policy = compile_with("[[call]]\nprogram = \"early\"\n", &text);
        let said = said_at_end(&policy, &[run(MS)], &Options::default());
        let is_taken = [in_enqueue, in_order].iter().any(|text| !text.is_empty());
        assert_eq!(said.contains("here none does\nhint: "), !is_taken, "{said}");
        assert_eq!(said.is_empty(), is_taken, "{said}");
    }
}

#[test]
fn the_set_of_online_cids_says_what_the_policy_is_told_of() {
    let workload = parsed(
        r#"
tasks = [{ name = "one", count = 5, program = [{ run = "4ms" }] }]
hotplug = [
    { at = "2ms", cpu = 1, state = "offline" },
    { at = "5ms", cpu = 1, state = "online" },
]
"#,
    );
    for (init_cids, cid) in [("", 1), (REVERSE, 2)] {
        let policy = built("return prev_cid;", INSERT, init_cids);
        let printed = Printed::default();
        let options = Options { prints: Some(printed.show()), ..Options::default() };
        let result = attempt_with(&policy, &costless(4, 1000), &workload, &options);
        assert_eq!(result.error, None);
        let lines: Vec<String> = printed.lines();
        let told = lines.iter().filter_map(|line| line.rsplit_once(": ")).map(|(_, told)| told);
        assert_eq!(told.collect::<Vec<_>>(), [format!("{cid} 0"), format!("{cid} 1")]);
    }
}

#[test]
fn other_policies_may_ask_for_cids_and_have_nobody_below_them() {
    let policy = |enqueue: &str| {
        compile_text(&format!(
            "#include <scx/common.bpf.h>
            char _license[] SEC(\"license\") = \"GPL\";
            extern s32 scx_bpf_cid_to_cpu(s32 cid) __ksym;
            extern s32 scx_bpf_cpu_to_cid(s32 cpu) __ksym;
            extern s32 scx_bpf_sub_grant(u64 group, u64 caps, void *cids, void *denied) __ksym;
            void BPF_STRUCT_OPS(usual_enqueue, struct task_struct *p, u64 enq_flags)
            {{ {enqueue} scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags); }}
            SCX_OPS_DEFINE(usual_ops, .enqueue = (void *)usual_enqueue, .name = \"usual\");"
        ))
    };
    let said = |enqueue| said_at_end(&policy(enqueue), &[run(MS)], &Options::default());
    let both = "if (scx_bpf_cid_to_cpu(scx_bpf_cpu_to_cid(0))) scx_bpf_error(\"no\");";
    assert_eq!(said(both), "");
    assert!(said("scx_bpf_cpu_to_cid(7);").contains("invalid CPU 7 in scx_bpf_cpu_to_cid()"));
    let grant = said("scx_bpf_sub_grant(1, 1, NULL, NULL);");
    assert!(grant.contains("sub-cap kfuncs require a cid-form scheduler"), "{grant}");
}
