//! Goal: a policy that breaks the rules ends the run with the kernel's own kind of message.
//! Method: small policies that each break one rule, and the whole text of what is reported.

use crate::support::*;
use simulator::{FailureKind, Options, RunResult, Status};

const PINNED_PAIR_AND_HOGS: &str = r#"
[[tasks]]
name = "hog"
count = 2
program = [{ repeat = 200, do = [{ run = "4ms" }, { sleep = "1ms" }] }]
[[tasks]]
name = "pinned"
cpus = [0]
program = [{ repeat = 200, do = [{ run = "4ms" }, { sleep = "1ms" }] }]
[[tasks]]
name = "nicest"
nice = 19
program = [{ repeat = 100, do = [{ run = "1ms" }] }]
"#;

const HOG_AND_NICEST: &str = r#"
[[tasks]]
name = "hog"
program = [{ run = "1000s" }]
[[tasks]]
name = "nicest"
nice = 19
program = [{ run = "1ms" }]
"#;

/// A hog and a task that never runs for it, until `stop_s` seconds.
fn starved(stop_s: u64) -> RunResult {
    let policy = compile("crates/simulator/tests/broken/starves_one.bpf.c");
    let mut workload = parsed(HOG_AND_NICEST);
    workload.stop_at_ns = Some(stop_s * S);
    attempt(&policy, &costless(1, 1000), &workload, 1)
}

fn failing(source: &str, tunables: &[(&str, i64)], nr_cpus: usize) -> RunResult {
    let options = Options { seed: 1, tunables: settings(tunables), ..Options::default() };
    let policy = compile(&format!("crates/simulator/tests/broken/{source}.bpf.c"));
    let machine = costless(nr_cpus, 1000);
    let result = attempt_with(&policy, &machine, &parsed(PINNED_PAIR_AND_HOGS), &options);
    assert_eq!(result.status, Status::Failed, "{:?}", result.error);
    result
}

#[test]
fn a_lost_task_is_a_stall_that_says_who_lost_it() {
    let failure = failing("loses_a_task", &[], 1).error.expect("failed");
    assert_eq!(failure.kind, FailureKind::Stall);
    assert_eq!((failure.pid, failure.task.as_deref()), (Some(2), Some("hog[2]")));
    assert_eq!(failure.cpu, Some(0));
    // The watchdog looks every 15 s and allows 30 s: 0, 15, 30 are too early, 45 is not.
    assert_eq!(failure.at_ns, 45_000_000_000);
    assert_eq!(
        failure.message,
        "runnable task stall (hog[2] failed to run for 45.000s); last enqueued on cpu 0: the \
         policy took it in `enqueue` and has put it into no queue since"
    );
}

#[test]
fn a_starved_task_is_a_stall_that_says_where_it_waits() {
    // The hog keeps the only CPU busy for more than the policy's own timeout of 5 s.
    let failure = starved(20).error.expect("failed");
    assert_eq!(failure.kind, FailureKind::Stall);
    assert_eq!(
        failure.message,
        "runnable task stall (nicest[2] failed to run for 7.500s); last enqueued on cpu 0: it \
         waits in dispatch queue 0x0"
    );
}

/// The fault's number in `misuses.bpf.c`, what it is reported as, and the message.
const MISUSES: [(i64, FailureKind, &str); 21] = [
    (1, FailureKind::BadCall, "misuses.bpf.c:115: misuses_enqueue: "),
    (
        2,
        FailureKind::BadCpu,
        "misuses.bpf.c:113: misuses_enqueue: invalid CPU 9999 in SCX_DSQ_LOCAL_ON dispatch verdict",
    ),
    (3, FailureKind::BadCpu, "SCX_DSQ_LOCAL[_ON] target CPU 1 not allowed for pinned[3]"),
    (4, FailureKind::BadQueue, "misuses.bpf.c:113: misuses_enqueue: non-existent DSQ 0x3039 for "),
    (5, FailureKind::BadQueue, "cannot use vtime ordering for built-in DSQs"),
    (6, FailureKind::BadQueue, "DSQ ID 0x0000000000000007 already had FIFO-enqueued tasks"),
    (7, FailureKind::BadCall, "misuses_dispatch: dispatch buffer overflow"),
    (8, FailureKind::PolicyError, "scx_bpf_error (task "),
    (9, FailureKind::PolicyExit, "ops.init() failed (-28)"),
    (10, FailureKind::PolicyExit, "ops.init_task() failed (-12) for hog[1]"),
    (11, FailureKind::BadCpu, "invalid CPU -22 from ops.select_cpu()"),
    (12, FailureKind::BadCall, "scx_bpf_dsq_insert() called from an operation that may not"),
    (13, FailureKind::BadCall, "scx_bpf_dsq_move_to_local() called from outside ops.dispatch()"),
    (14, FailureKind::BadCpu, "invalid CPU -1 in scx_bpf_kick_cpu()"),
    (15, FailureKind::BadCall, "but trying to direct-dispatch "),
    (16, FailureKind::BadCall, "bpf_spin_unlock() of a lock that was never taken"),
    (17, FailureKind::PolicyExit, "ops.init() failed (-12)"),
    (18, FailureKind::BadCall, "scx_bpf_dsq_move() called from outside ops.dispatch() and timers"),
    (19, FailureKind::BadQueue, "DSQ ID 0x0000000000000007 already had FIFO-enqueued tasks"),
    (20, FailureKind::BadCpu, "invalid CPU 9999 in scx_bpf_dsq_nr_queued()"),
    (21, FailureKind::PolicyExit, "ops.init() failed (-22): EINVAL, invalid argument"),
];

#[test]
fn every_misuse_has_its_message() {
    for (fault, kind, message) in MISUSES {
        let result = failing("misuses", &[("fault", fault)], 2);
        let failure = result.error.expect("failed");
        assert_eq!(failure.kind, kind, "fault {fault}: {}", failure.message);
        assert!(failure.message.contains(message), "fault {fault}: {}", failure.message);
        let late = failure.at_ns > 0 || matches!(fault, 9 | 10 | 17 | 21);
        assert!(late, "fault {fault} was noticed at {} ns", failure.at_ns);
    }
}

#[test]
fn without_a_fault_the_same_policy_completes() {
    let policy = compile("crates/simulator/tests/broken/misuses.bpf.c");
    let result = attempt(&policy, &costless(2, 1000), &parsed(PINNED_PAIR_AND_HOGS), 1);
    assert_eq!((result.status, result.error), (Status::Completed, None));
}

#[test]
fn tasks_that_wait_for_each_other_are_a_deadlock_of_the_workload() {
    let text = r#"
[channels.a]
capacity_bytes = 10
[channels.b]
capacity_bytes = 10
[[tasks]]
name = "left"
program = [{ recv = "a", bytes = 1 }, { send = "b", bytes = 1 }]
[[tasks]]
name = "right"
program = [{ recv = "b", bytes = 1 }, { send = "a", bytes = 1 }]
"#;
    let result = attempt(&shipped("fifo"), &costless(2, 100), &parsed(text), 1);
    let failure = result.error.expect("failed");
    assert_eq!(failure.kind, FailureKind::Deadlock);
    assert!(failure.message.starts_with("deadlock: all 2 living tasks"), "{}", failure.message);
}

#[test]
fn a_task_that_starves_to_the_end_shows_in_waits_and_fairness() {
    let result = starved(2);
    assert_eq!((result.status, result.error), (Status::Completed, None));
    // Histograms keep two digits.
    assert!((1_980_000_000..2_020_000_000).contains(&result.wait_ns.max), "{:?}", result.wait_ns);
    // One of two tasks got everything.
    assert!((result.jain_fairness - 0.5).abs() < 1e-12, "{}", result.jain_fairness);
}

const OWN_IDLE: &str = r#"
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

extern const struct cpumask *scx_bpf_get_idle_cpumask_node(int node) __ksym;
extern const struct cpumask *scx_bpf_get_idle_smtmask_node(int node) __ksym;
extern s32 scx_bpf_pick_idle_cpu_node(const struct cpumask *allowed, int node, u64 flags) __ksym;
extern s32 scx_bpf_pick_any_cpu_node(const struct cpumask *allowed, int node, u64 flags) __ksym;

void BPF_STRUCT_OPS(own_update_idle, s32 cpu, bool idle)
{
}

void BPF_STRUCT_OPS(own_enqueue, struct task_struct *p, u64 enq_flags)
{
	ASKS;
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS_DEFINE(own_ops, .update_idle = (void *)own_update_idle, .enqueue = (void *)own_enqueue,
	       .flags = FLAGS, .name = "own");
"#;

#[test]
fn who_tracks_idle_cpus_itself_may_not_ask_the_kernel_for_them() {
    let masks = ["scx_bpf_get_idle_cpumask()", "scx_bpf_get_idle_smtmask()"];
    let of_nodes = ["scx_bpf_get_idle_cpumask_node(0)", "scx_bpf_get_idle_smtmask_node(0)"];
    let put = |asks: &str| format!("scx_bpf_put_idle_cpumask({asks})");
    let picks =
        ["idle", "any"].map(|one| format!("scx_bpf_pick_{one}_cpu_node(p->cpus_ptr, 0, 0)"));
    let (masks, of_nodes) = (masks.map(put), of_nodes.map(put));
    let cases = masks.iter().map(|asks| (asks, "built-in idle tracking is disabled"));
    let of_nodes = of_nodes.iter().chain(&picks);
    let of_nodes = of_nodes.map(|asks| (asks, "per-node idle tracking is disabled"));
    for (asks, message) in cases.chain(of_nodes) {
        let said = |flags: &str| {
            let policy = compile_text(&OWN_IDLE.replace("ASKS", asks).replace("FLAGS", flags));
            said_at_end(&policy, &[run(MS)], &Options::default())
        };
        assert!(said("0").ends_with(&format!("own_enqueue: {message}")), "{asks}: {}", said("0"));
        assert_eq!(said("SCX_OPS_KEEP_BUILTIN_IDLE"), "", "{asks}");
    }
}
