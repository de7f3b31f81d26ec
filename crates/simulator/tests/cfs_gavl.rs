//! Goal: `cfs_gavl` is `cfs` with another container: it makes the same decisions, and its tree
//! keeps its order and its balance. Method: both policies on random scenarios, on shipped
//! workloads and with every set of `cfs`, on machines whose operations cost nothing, compared stay
//! by stay; the tree against a sorted list, step by step, in `orders/gavl_trace.bpf.c`.

use crate::support::*;
use policy::Policy;
use scenario::machine::Machine;
use scenario::workload::{Change, ChangeKind, Op, Workload};
use simulator::{Options, RunResult, Status};

const SEEDS: u64 = 60;

/// One run with a timeline.
fn played(
    policy: &Policy,
    machine: &Machine,
    workload: &Workload,
    seed: u64,
    tunables: &[(&str, i64)],
) -> RunResult {
    let tunables = settings(tunables);
    let options = Options { seed, timeline: true, tunables, ..Options::default() };
    attempt_with(policy, machine, workload, &options)
}

/// The machine with its CPUs, caches and ticks, but no operation takes time.
fn without_costs(machine: &Machine) -> Machine {
    Machine { costs: costless(1, 1000).costs, ..machine.clone() }
}

/// Runs both on a machine and wants the same stays and wake-ups; how many stays there were.
fn both_alike(
    machine: &Machine,
    workload: &Workload,
    seed: u64,
    tunables: &[(&str, i64)],
) -> usize {
    let (cfs, gavl) = (shipped("cfs"), shipped("cfs_gavl"));
    let [list, tree] =
        [&cfs, &gavl].map(|policy| played(policy, machine, workload, seed, tunables));
    let said = format!("{} on {}, seed {seed}, {tunables:?}", workload.name, machine.name);
    assert_eq!(list.status, tree.status, "{said}: {:?}, {:?}", list.error, tree.error);
    let (stays, others) = (timeline(&list), timeline(&tree));
    let differs = stays.iter().zip(&others).position(|(one, other)| one != other);
    if let Some(at) = differs {
        panic!("{said}: stay {at} is {:?} with cfs, {:?} with cfs_gavl", stays[at], others[at]);
    }
    assert_eq!(stays.len(), others.len(), "{said}");
    assert_eq!(list.timeline_wakeups, tree.timeline_wakeups, "{said}");
    assert_eq!(list.migrations, tree.migrations, "{said}");
    stays.len()
}

/// A random scenario in which no CPU goes: cfs hears of that, and cfs_gavl is loaded again.
fn undisturbed(seed: u64) -> (Machine, Workload) {
    let (machine, mut workload) = scenario::random_scenario(seed);
    let stays = |change: &Change| !matches!(change.what, ChangeKind::Hotplug { .. });
    workload.changes.retain(stays);
    (machine, workload)
}

#[test]
fn random_scenarios_have_the_same_timelines() {
    let mut nr_stays = 0;
    for seed in 0..SEEDS {
        let (machine, workload) = undisturbed(seed);
        nr_stays += both_alike(&without_costs(&machine), &workload, seed, &[]);
    }
    assert!(nr_stays > 10_000, "{nr_stays}");
}

#[test]
fn every_set_of_cfs_has_the_same_timelines() {
    let cfs = shipped("cfs");
    for set in &cfs.sets {
        let values: Vec<_> = set.values.iter().map(|(name, v)| (name.as_str(), *v)).collect();
        for seed in 100..108 {
            let (machine, workload) = undisturbed(seed);
            both_alike(&without_costs(&machine), &workload, seed, &values);
        }
    }
}

#[test]
fn crowds_yields_and_pulls_have_the_same_timelines() {
    let small = [("groups", "1"), ("loops", "3")];
    let hackbench = shipped_workload("hackbench", &small);
    for nr_cpus in [1, 4] {
        both_alike(&costless(nr_cpus, 1000), &hackbench, 1, &[]);
    }
    // Who yields goes behind the last in the tree.
    let polite = |name| task(name, 0, times(400, &[run(300 * US), Op::Yield]));
    let workload = together(vec![polite("a"), polite("b"), polite("c"), polite("d")]);
    both_alike(&costless(1, 1000), &workload, 1, &[("compat_yield", 1)]);
    // All begin on one CPU, the others pull.
    let forks: Vec<Op> = (0..40).map(|_| Op::Fork { template: 1 }).collect();
    let children = task("child", 3, times(20, &[run(4 * MS), sleep(MS)]));
    let workload = workload_of(vec![task("parent", 0, once(&forks)), children], 1);
    let at_parent = [("fork_balance", 0), ("newidle", 1)];
    both_alike(&costless(8, 1000), &workload, 1, &at_parent);
}

#[test]
fn more_tasks_may_come_one_after_the_other_than_may_be_there_at_once() {
    let rounds = 33_000; // nodes: 32767
    let parent = times(rounds, &[Op::Fork { template: 1 }, Op::Join]);
    let workload =
        workload_of(vec![task("parent", 0, parent), task("child", 0, once(&[run(US)]))], 1);
    let result = attempt(&shipped("cfs_gavl"), &costless(1, 1000), &workload, 1);
    assert_eq!(result.status, Status::Completed, "{:?}", result.error);
    assert_eq!(result.nr_tasks, rounds + 1);
}

#[test]
fn a_task_is_in_one_tree_whoever_takes_it_back_or_moves_it_meanwhile() {
    let policy = compile("crates/simulator/tests/orders/hand_over.bpf.c");
    let workload = together(vec![task("task", 0, once(&[run(MS)]))]);
    let result = attempt(&policy, &costless(1, 1000), &workload, 1);
    assert_eq!(result.status, Status::Completed, "{:?}", result.error);
}

#[test]
fn the_tree_keeps_the_order_of_a_sorted_list_and_its_balance() {
    let trace = compile("crates/simulator/tests/orders/gavl_trace.bpf.c");
    let (machine, workload) = (costless(1, 1000), together(vec![hog("hog", 0)]));
    for pattern in 0..4 {
        for (nodes, keys, steps) in [(8, 3, 20_000), (100, 10, 5_000), (1_000, 1 << 40, 1_500)] {
            // A storm takes and adds half of all in each step.
            let steps = if pattern == 2 { steps / 20 } else { steps };
            for seed in 1..=3 {
                let tunables = [
                    ("pattern", pattern),
                    ("nodes_most", nodes),
                    ("keys", keys),
                    ("steps", steps),
                    ("trace_seed", seed),
                ];
                let result = played(&trace, &machine, &workload, 1, &tunables);
                let said = result.error.expect("it says that it is done").message;
                let levels = said.strip_prefix("scx_bpf_error (done, at most ");
                let levels = levels.and_then(|rest| rest.split(' ').next()?.parse::<i32>().ok());
                assert!(levels.is_some_and(|levels| levels <= 1), "{tunables:?}: {said}");
            }
        }
    }
}
