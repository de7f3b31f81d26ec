//! Goal: a policy's own instructions take exactly what the machine says, where they are executed,
//! and nothing where it says nothing. Method: policies of which a known number of instructions is
//! written down, in closed forms; and each way to execute them against the others.

use crate::support::*;
use policy::Policy;
use scenario::machine::{Machine, PolicyCosts};
use scenario::workload::{Op, Workload};
use simulator::{Options, RunResult};

const INSTRUCTION_NS: u64 = 3;
const ROUNDS: u64 = 100;
/// Turns of a loop of two instructions, which one comes before.
const TURNS: u64 = 500;
const SPIN: u64 = 1 + 2 * TURNS;

/// A policy with one queue whose `enqueue` does something first.
fn doing(what: &str) -> Policy {
    compile_text(&format!(
        "#include <scx/common.bpf.h>
        char _license[] SEC(\"license\") = \"GPL\";
        #define LOOP(turns) asm volatile( \\
            \"r1 = %[nr]; 1: r1 += -1; if r1 != 0 goto 1b\" :: [nr] \"i\"(turns) : \"r1\")
        #define SPIN() LOOP({TURNS})
        struct held {{ struct bpf_spin_lock lock; }};
        struct {{
            __uint(type, BPF_MAP_TYPE_ARRAY);
            __uint(max_entries, 1);
            __type(key, u32);
            __type(value, struct held);
        }} locks SEC(\".maps\");
        volatile u64 nr = 1000, by = 7;
        s32 BPF_STRUCT_OPS(spin_select_cpu, struct task_struct *p, s32 prev, u64 flags)
        {{
            return prev;
        }}
        void BPF_STRUCT_OPS(spin_enqueue, struct task_struct *p, u64 enq_flags)
        {{
            {what}
            scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
        }}
        SCX_OPS_DEFINE(spin_ops, .select_cpu = (void *)spin_select_cpu,
            .enqueue = (void *)spin_enqueue, .name = \"spin\");"
    ))
}

/// A machine on which nothing but this takes time.
fn machine(nr_cpus: usize, instruction_ps: u64) -> Machine {
    let mut machine = costless(nr_cpus, 1000);
    machine.costs.policy.instruction_ps = instruction_ps;
    machine.with_digest()
}

/// Two tasks on one CPU that wake each other in turn: no decision depends on the time.
fn two_in_turn() -> Workload {
    let player = |name, own, other| {
        let ops = [Op::Wait { gate: own }, Op::Wake { gate: other }];
        pinned(task(name, 0, times(ROUNDS, &ops)), 0)
    };
    let start = pinned(task("start", 0, once(&[Op::Wake { gate: 0 }])), 0);
    together(vec![player("ping", 0, 1), player("pong", 1, 0), start])
}

fn run_of(policy: &Policy, machine: &Machine) -> RunResult {
    attempt(policy, machine, &two_in_turn(), 1)
}

#[test]
fn so_many_instructions_cost_so_many_times_what_one_costs() {
    let machine = machine(1, 1000 * INSTRUCTION_NS);
    let [without, with] = ["LOOP(1);", "LOOP(501);"].map(|what| run_of(&doing(what), &machine));
    assert_eq!(with.switches, without.switches);
    // Each wake-up and each birth enqueues once.
    let more_ns = with.wakeups * 2 * 500 * INSTRUCTION_NS;
    assert!(with.wakeups >= 2 * ROUNDS);
    assert_eq!(with.overhead_ns.instructions - without.overhead_ns.instructions, more_ns);
    assert_eq!(with.elapsed_ns - without.elapsed_ns, more_ns);
    assert_eq!(with.cpu_time_ns.scheduler, with.overhead_ns.instructions);
    for result in [with, without] {
        let executed = result.policy_executed.expect("they take time");
        assert_eq!(result.overhead_ns.instructions, executed.instructions * INSTRUCTION_NS);
    }
}

#[test]
fn what_divides_and_what_calls_costs_what_it_costs_more() {
    let (division_ps, call_ps) = (7_000, 11_000);
    let mut machine = machine(1, 0);
    machine.costs.policy = PolicyCosts { division_ps, call_ps, ..PolicyCosts::default() };
    let [plain, divides, calls] =
        ["", "nr = (nr + 99999) / by % (by + 2);", "scx_bpf_task_cpu(p); bpf_ktime_get_ns();"]
            .map(|what| run_of(&doing(what), &machine));
    let ns = |result: &RunResult| result.overhead_ns.instructions;
    assert_eq!(ns(&divides) - ns(&plain), divides.wakeups * 2 * division_ps / 1000);
    assert_eq!(ns(&calls) - ns(&plain), calls.wakeups * 2 * call_ps / 1000);
    assert_eq!(divides.policy_executed.expect("they take time").divisions, 2 * divides.wakeups);
}

#[test]
fn numbers_of_64_bits_cost_more_on_a_machine_of_32() {
    let wide_ps = 5_000;
    let mut machine = machine(1, 0);
    machine.costs.policy = PolicyCosts { wide_ps, ..PolicyCosts::default() };
    let more = |declared: &str| {
        let [plain, sum] = [String::new(), declared.to_owned() + " sum = sum + sum * 8;"]
            .map(|what| run_of(&doing(&what), &machine));
        let enqueued = sum.wakeups;
        let more = sum.policy_executed.expect("they take time").wide
            - plain.policy_executed.expect("they take time").wide;
        let ns = |result: &RunResult| result.overhead_ns.instructions;
        assert_eq!(ns(&sum) - ns(&plain), more * wide_ps / 1000);
        assert_eq!(more % enqueued, 0);
        more / enqueued
    };
    // A load, a shift or product, a sum and a store.
    let wide = more("static volatile u64 sum;");
    assert!((3..=6).contains(&wide), "{wide}");
    assert_eq!(more("static volatile u32 sum;"), 0);
}

#[test]
fn an_insertion_by_virtual_time_costs_what_it_costs_more() {
    let mut machine = machine(1, 0);
    machine.costs.vtime_op_ns = 321;
    let options = Options { profile: true, ..Options::default() };
    for (policy, by_vtime) in [("fifo", false), ("cfs", true)] {
        let result = attempt_with(&shipped(policy), &machine, &two_in_turn(), &options);
        let profile = result.profile.expect("it is asked for");
        let inserts = profile.kernel_calls.iter().filter(|one| one.called.contains("_vtime"));
        let calls: u64 = inserts.map(|one| one.calls).sum();
        assert_eq!(calls >= 2 * ROUNDS, by_vtime);
        assert_eq!(result.overhead_ns.queue, calls * 321, "{policy}");
    }
}

#[test]
fn a_policy_sees_its_own_time_go_by() {
    // From the one call's end to the other's begin: the loop, and what moves the answer and calls.
    let policy = doing(
        "u64 begun = bpf_ktime_get_ns();
        SPIN();
        u64 spun = bpf_ktime_get_ns() - begun;
        if (spun - 3003 > 9)
            scx_bpf_error(\"%llu ns\", spun);",
    );
    assert_eq!(SPIN * INSTRUCTION_NS, 3003);
    assert_eq!(run_of(&policy, &machine(1, 1000 * INSTRUCTION_NS)).error, None);
    let without = run_of(&policy, &machine(1, 0)).error.expect("no time goes by");
    assert!(without.message.contains("0 ns"), "{}", without.message);
}

#[test]
fn a_lock_is_held_for_as_long_as_its_holder_executes() {
    let policy = doing(
        "u32 zero = 0;
        struct held *held = bpf_map_lookup_elem(&locks, &zero);
        if (!held)
            return;
        bpf_spin_lock(&held->lock);
        SPIN();
        bpf_spin_unlock(&held->lock);",
    );
    // Both wake up at the same time, each on its own CPU; from the first wait on one is later.
    let sleeper = |cpu| pinned(task("t", 0, times(ROUNDS, &[sleep(MS)])), cpu);
    let workload = together(vec![sleeper(0), sleeper(1)]);
    let waited = |instruction_ps| {
        attempt(&policy, &machine(2, instruction_ps), &workload, 1).cpu_time_ns.lock_wait
    };
    let (least_ns, few_ns) = (SPIN * INSTRUCTION_NS, 5 * INSTRUCTION_NS);
    let waited_ns = waited(1000 * INSTRUCTION_NS);
    assert!((least_ns..least_ns + few_ns).contains(&waited_ns), "{waited_ns}");
    assert_eq!(waited(0), 0);
}

#[test]
fn instructions_take_the_same_time_however_they_are_executed() {
    let workload = shipped_workload("hackbench", &[("groups", "1"), ("loops", "3")]);
    let mut machine = shipped_machine("laptop");
    let (division_ps, call_ps, wide_ps) = (6_700, 1_234, 1_500);
    machine.costs.policy = PolicyCosts { instruction_ps: 333, division_ps, call_ps, wide_ps };
    let machine = machine.with_digest();
    for name in POLICIES {
        let policy = shipped(name);
        let by = |options: Options| {
            let mut result = attempt_with(&policy, &machine, &workload, &options);
            result.profile = None;
            result
        };
        let translated = by(Options::default());
        assert!(translated.overhead_ns.instructions > 0, "{name}");
        for (interpreted, profile, strict) in
            [(true, false, false), (false, true, false), (false, false, true)]
        {
            let options = Options { interpreted, profile, strict, ..Options::default() };
            assert_eq!(by(options), translated, "{name}");
        }
    }
}

#[test]
fn a_machine_that_says_nothing_of_instructions_has_nothing_of_them_in_its_results() {
    let result = run_of(&doing("SPIN();"), &machine(1, 0));
    assert_eq!(result.policy_executed, None);
    let text = serde_json::to_string(&result).expect("results are plain data");
    assert!(!text.contains("instructions") && !text.contains("executed"), "{text}");
    assert_eq!(machine(1, 0).digest, costless(1, 1000).with_digest().digest);
    assert_ne!(machine(1, 1).digest, machine(1, 0).digest);
}

#[test]
fn what_is_tared_is_no_part_of_the_makespan() {
    // A hop through a pipe in one process: two calls of the kernel, and the message both ways.
    let machine = shipped_machine("duron-600");
    let costs = &machine.costs;
    let rounds = 50;
    let ring = |less_pipes| {
        let given = [("rounds", "50"), ("less_pipes", less_pipes)];
        attempt(&shipped("fifo"), &machine, &shipped_workload("lat_ctx", &given), 1)
    };
    let [whole, net] = ["false", "true"].map(ring);
    let copy_ns = (4 * costs.copy_ns_per_kib).div_ceil(1024);
    let hop_ns = 2 * (costs.syscall_ns + costs.message_ns) + 2 * copy_ns;
    let tare_ns = net.tare_ns.expect("it was measured");
    assert_eq!(whole.tare_ns, None);
    assert!(tare_ns.abs_diff(2 * rounds * hop_ns) <= 4 * rounds, "{tare_ns}, {hop_ns} a hop");
    // Ticks come at other times.
    assert!((net.makespan_ns + tare_ns).abs_diff(whole.makespan_ns) <= 2 * costs.tick_ns);
}
