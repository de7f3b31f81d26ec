//! Goal: the shapes that others published come out of the model, and what does not is known.
//! Method: shipped policies, machines and workloads as they are, in part smaller, against the
//! published tables. docs/experiments.md has the whole of both studies and explains the misses.

use crate::support::*;
use scenario::machine::{AllocatorCosts, Machine};
use simulator::{Options, Status};
use std::fs;

/// The counter test draws its children's start-up from the seed.
const COUNTER_SEEDS: [u64; 3] = [1, 2, 3];
/// What a child of the counter test computes: its work, and the mean of its start-up.
const CHILD_S: f64 = 0.150 + 0.000_5;
const COUNTER_NS: std::ops::RangeInclusive<u32> = 1..=9;

/// Makespan of a run that completes, in seconds.
fn seconds(
    policy: &str,
    machine: &Machine,
    (workload, parameters): (&str, &[(&str, &str)]),
    seed: u64,
    tunables: &[(&str, i64)],
) -> f64 {
    let (loaded, mut settled) = shipped_with_set(policy);
    settled.extend(settings(tunables));
    let options = Options { seed, tunables: settled, ..Options::default() };
    let workload = shipped_workload(workload, parameters);
    let result = attempt_with(&loaded, machine, &workload, &options);
    assert_eq!(result.status, Status::Completed, "{policy}: {:?}", result.error);
    result.makespan_ns as f64 / S as f64
}

/// Time of hackbench.
fn hackbench_s(policy: &str, machine: &str, groups: u32, loops: u32) -> f64 {
    hackbench_on(policy, &shipped_machine(machine), groups, loops)
}

fn hackbench_on(policy: &str, machine: &Machine, groups: u32, loops: u32) -> f64 {
    let (groups, loops) = (groups.to_string(), loops.to_string());
    let parameters = [("groups", groups.as_str()), ("loops", loops.as_str())];
    seconds(policy, machine, ("hackbench", &parameters), 1, &[])
}

/// Mean time of the counter test with `n` children on the machine of 2009: of five in a row, after
/// five with a child less, as the script ran them.
fn counter_s(policy: &str, n: u32, tunables: &[(&str, i64)]) -> f64 {
    let n = n.to_string();
    let workload = ("counter", &[("n", n.as_str()), ("passes", "5"), ("before", "5")][..]);
    let machine = shipped_machine("core2-t5600");
    let times = COUNTER_SEEDS.map(|seed| seconds(policy, &machine, workload, seed, tunables));
    times.iter().sum::<f64>() / times.len() as f64 / 5.0
}

/// What two CPUs need that are never idle.
fn ideal_s(n: u32) -> f64 {
    CHILD_S * f64::from(n.max(2)) / 2.0
}

/// A cell, counted from 0, of the row of a published table that begins so.
fn published_s(table: &str, row: &str, column: usize) -> f64 {
    let path = root().join("published").join(table);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{table}: {error}"));
    let found = text.lines().find(|line| line.starts_with(row));
    let cell = found.and_then(|line| line.split(',').nth(column));
    cell.unwrap_or_else(|| panic!("{table} has no {row}")).parse().expect("a number")
}

fn published_counter_s(kernel: &str, n: u32) -> f64 {
    published_s("seed000_counter.csv", &format!("{n},{kernel},"), 2)
}

fn error(simulated_s: f64, published_s: f64) -> f64 {
    simulated_s / published_s - 1.0
}

// ---- hackbench, 2003 ----------------------------------------------------------------------------

#[test]
fn hackbench_under_linux_2_4_grows_superlinearly_on_8_cpus() {
    let growth =
        hackbench_s("linux_2_4", "stp8", 200, 10) / hackbench_s("linux_2_4", "stp8", 100, 10);
    assert!(growth >= 2.5, "{growth}");
}

#[test]
fn hackbench_under_o1_is_linear_and_uses_more_cpus() {
    let [on_2, on_8] = ["stp2", "stp8"].map(|machine| {
        let [half, whole] = [100, 200].map(|groups| hackbench_s("o1@2.6.0", machine, groups, 20));
        assert!((1.9..=2.1).contains(&(whole / half)), "{machine}: {}", whole / half);
        whole
    });
    assert!(on_2 / on_8 >= 2.5, "{}", on_2 / on_8);
}

/// OSDL's 8 CPUs were as fast as its 4. In the model that is so where CPUs decide before they have
/// the lock, which Linux 2.4's did not; with its rule they gain a third.
#[test]
fn hackbench_under_linux_2_4_loses_nothing_on_8_cpus_since_it_waits_before_it_decides() {
    let mut apart = shipped_machine("stp8");
    apart.one_lock.clear();
    let [one, apart] = [shipped_machine("stp8"), apart.with_digest()]
        .map(|machine| hackbench_on("linux_2_4", &machine, 100, 20));
    let on_4 = hackbench_s("linux_2_4", "stp4", 100, 20);
    assert!(one < on_4 && apart > 1.5 * on_4, "{on_4} s on 4 CPUs, {one} and {apart} s on 8");
}

/// Costs are those of lmbench on the same hosts, or on one of such processors; nothing was fitted
/// to hackbench. With seeds 1 to 3 the errors are -4.9, -0.8, -16 and -40 %.
#[test]
fn the_whole_hackbench_under_o1_on_up_to_4_cpus_takes_about_as_long_as_published() {
    for (machine, nr_cpus, most) in [("stp1", 1, 0.08), ("stp2", 2, 0.08), ("stp4", 4, 0.2)] {
        let error = error(hackbench_s("o1@2.6.0", machine, 50, 100), published_o1_s(nr_cpus));
        assert!(error.abs() <= most, "{machine}: {error}");
    }
}

fn published_o1_s(nr_cpus: u32) -> f64 {
    published_s("seed002_hackbench_times.csv", &format!("{nr_cpus},2.6.0-test9,50,"), 3)
}

/// Slabs of Linux 2.6.0 whose lines CPUs take from each other are what 8 CPUs lack most.
#[test]
fn with_an_allocator_hackbench_under_o1_takes_as_long_on_8_cpus_as_published() {
    let (mut machine, published_s) = (shipped_machine("stp8"), published_o1_s(8));
    let without = error(hackbench_on("o1@2.6.0", &machine, 50, 100), published_s);
    machine.costs.allocator = AllocatorCosts {
        objects: 2,
        kept: 120,
        batch: 60,
        shared: 480,
        slab: 8,
        get_lines: 2,
        free_lines: 2,
        free_writes: 3,
    };
    let with = error(hackbench_on("o1@2.6.0", &machine.with_digest(), 50, 100), published_s);
    assert!(without <= -0.3 && with.abs() <= 0.18, "{without}, with it {with}");
}

// ---- the counter test, 2009 ---------------------------------------------------------------------

#[test]
fn bfs_keeps_both_cpus_busy_and_takes_as_long_as_published() {
    for n in COUNTER_NS {
        let time_s = counter_s("bfs@304", n, &[]);
        let excess = time_s / ideal_s(n) - 1.0;
        assert!((0.0..=0.03).contains(&excess), "n = {n}: {excess}");
        let error = error(time_s, published_counter_s("2.6.31-bfs", n));
        assert!(error.abs() <= 0.04, "n = {n}: {error}");
    }
}

#[test]
fn cfs_of_2_6_32_takes_as_long_as_published() {
    for n in COUNTER_NS {
        let time_s = counter_s("cfs@2.6.32", n, &[]);
        let error = error(time_s, published_counter_s("2.6.32-rc5", n));
        assert!(error.abs() <= 0.05, "n = {n}: {error}");
    }
}

/// An idle CPU that waits as if it were busy is what 2.6.31 lost most by. How much depends on which
/// children a balance meets, so these are ranges of a shape and no tolerances of a number.
#[test]
fn cfs_of_2_6_31_loses_with_odd_n_as_its_idle_cpus_wait() {
    let excess = |n, rules: &[_]| counter_s("cfs@2.6.31", n, rules) / ideal_s(n) - 1.0;
    let looks_soon = [("idle_waits_as_busy", 0)];
    for (n, waiting, soon) in [
        (3, 0.28..=0.40, 0.15..=0.25),
        (5, 0.11..=0.21, 0.02..=0.08),
        (7, 0.07..=0.14, 0.01..=0.06),
        (9, 0.03..=0.09, 0.0..=0.05),
    ] {
        assert!(waiting.contains(&excess(n, &[])), "n = {n}: {}", excess(n, &[]));
        assert!(soon.contains(&excess(n, &looks_soon)), "n = {n}: {}", excess(n, &looks_soon));
    }
    for n in [1, 6, 8] {
        assert!((0.0..=0.10).contains(&excess(n, &[])), "n = {n}: {}", excess(n, &[]));
    }
}

/// Fork goes by the load at the last tick: until the next one a CPU is busy with the test before,
/// and both children stay with their parent.
#[test]
fn two_children_of_2_6_31_share_a_cpu_as_fork_goes_by_the_last_tick() {
    let ratio = |rules: &[_]| counter_s("cfs@2.6.31", 2, rules) / ideal_s(2);
    assert!((1.08..=1.45).contains(&ratio(&[])), "{}", ratio(&[]));
    assert!(ratio(&[("fork_load_index", 0)]) < 1.04, "{}", ratio(&[("fork_load_index", 0)]));
    assert!(published_counter_s("2.6.31", 2) / ideal_s(2) > 1.4);
}

#[test]
fn lat_ctx_is_faster_under_cfs_devel_and_32_bits_cost_either_cfs_more_than_o1() {
    let ring = ("lat_ctx", &[("rounds", "1000"), ("less_pipes", "true")][..]);
    let [narrow, wide] = [None, Some(0)].map(|wide_ps| {
        let mut machine = shipped_machine("duron-600");
        machine.costs.policy.wide_ps = wide_ps.unwrap_or(machine.costs.policy.wide_ps);
        ["o1@2.6.22", "cfs_2007@2.6.23", "cfs@cfs-devel"]
            .map(|name| seconds(name, &machine, ring, 1, &[]))
    });
    // Which of 2.6.22 and 2.6.23 is faster depends on more than is known.
    assert!(narrow[2] < narrow[1], "{narrow:?}");
    let [o1, cfs_2007, devel] = [0, 1, 2].map(|one| narrow[one] - wide[one]);
    assert!(0.0 < o1 && o1 < cfs_2007 && o1 < devel, "{narrow:?} {wide:?}");
}
