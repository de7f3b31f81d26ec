//! Goal: `cfs` shows what Linux 2.6.31's scheduler was observed to do.
//! Method: closed forms (weights, slices, elapsed times) on hogs and sleepers; and each mechanism
//! switched off by its tunable, which must undo what it is for.

use crate::support::*;
use scenario::workload::Op;

const LATENCY_NS: u64 = 20 * MS;
const MIN_GRANULARITY_NS: u64 = 4 * MS;
const HZ: u32 = 1000;
const TICK_NS: u64 = MS;
const SWITCH_NS_MAX: u64 = 10 * US;

/// Ticks until a slice of `slice_ns` is over: it ends at the first tick after it.
fn slice_ticks(slice_ns: u64, tick_ns: u64) -> u64 {
    slice_ns / tick_ns + 1
}

#[test]
fn shares_are_proportional_to_weights() {
    for nice in -20..=19 {
        let got = share_to_weight("cfs", nice, (HZ, 30), &[]);
        assert!((got - 1.0).abs() < 0.015, "nice {nice}: {got}");
    }
}

#[test]
fn a_hog_that_is_reniced_gets_its_new_share_from_then_on() {
    // 5 of the first 10 seconds; then 335 / (1024 + 335) of 20 seconds.
    assert_a_reniced_hog_has("cfs", 5, 335.0 / 1359.0);
}

#[test]
fn equal_hogs_on_one_cpu_take_slices_of_the_period_rounded_up_to_a_tick() {
    for (nr, slice_ns) in [(2, LATENCY_NS / 2), (3, LATENCY_NS / 3), (5, 4 * MS), (8, 4 * MS)] {
        for hz in [1000, 250] {
            let expected = slice_ticks(slice_ns, S / u64::from(hz));
            let got = turn_ticks("cfs", nr, (1, hz), &[]);
            assert_eq!(got, expected, "{nr} hogs at {hz} Hz");
        }
    }
}

#[test]
fn slices_grow_with_the_logarithm_of_the_number_of_cpus() {
    for (nr_cpus, factor) in [(1, 1), (2, 2), (4, 3), (8, 4)] {
        let expected = slice_ticks(factor * LATENCY_NS / 2, TICK_NS);
        let got = turn_ticks("cfs", 2, (nr_cpus, HZ), &[]);
        assert_eq!(got, expected, "{nr_cpus} CPUs");
    }
}

#[test]
fn nobody_waits_longer_than_a_period_and_its_ticks() {
    for nr in [2_u64, 5, 16, 40] {
        let period_ns = LATENCY_NS.max(nr * MIN_GRANULARITY_NS);
        // Each of the others overruns its slice by a tick at most, and is switched to.
        let longest_turn_ns = period_ns / nr + TICK_NS + SWITCH_NS_MAX;
        let bounds_ns = (nr - 1) * period_ns / nr..=(nr - 1) * longest_turn_ns;
        for wait_ns in longest_waits_ns("cfs", nr, HZ, &[]) {
            assert!(bounds_ns.contains(&wait_ns), "{nr} hogs: {wait_ns} in {bounds_ns:?}");
        }
    }
}

#[test]
fn a_waking_sleeper_preempts_a_hog_unless_the_granularity_forbids_it() {
    let coarse = [("wakeup_granularity_ns", 1_000_000_000), ("adaptive_granularity", 0)];
    assert_a_long_sleeper_preempts_but_with("cfs", &coarse, 500 * US);
}

#[test]
fn a_sleeper_is_credited_with_one_latency_and_no_more() {
    let workload = together(vec![hog("hog", 0), sleeper(0, S, 200 * MS)]);
    for (gentle, credit_ns) in [(0, LATENCY_NS), (1, LATENCY_NS / 2)] {
        let tunables = [("gentle_sleepers", gentle)];
        let result = outcome("cfs", &machine(1, HZ), &workload, 20 * S, &tunables);
        let gap_ns = longest_gap_ns(&result, "hog", 0);
        // The credit, and then a slice until the hog's turn, each to the next tick.
        let bound_ns = credit_ns + LATENCY_NS / 2 + 3 * TICK_NS;
        assert!((credit_ns..=bound_ns).contains(&gap_ns), "gentle {gentle}: {gap_ns}");
    }
}

#[test]
fn a_sync_wakeup_draws_the_woken_task_to_the_wakers_cpu() {
    let idle_cpus = |sync, tunables: &[(&str, i64)]| {
        let result = outcome("cfs", &machine(2, HZ), &ping_pong(sync), S, tunables);
        result.cpu_time_ns.idle as f64 / result.elapsed_ns as f64
    };
    // Both wait for one CPU at some ticks; then the idle one takes one of them until the next tick.
    assert!(idle_cpus(true, &[]) > 0.98, "both on one CPU: {}", idle_cpus(true, &[]));
    assert!(idle_cpus(false, &[]) < 0.9, "each on its own CPU: {}", idle_cpus(false, &[]));
    let searching = [("idle_sibling", 1)];
    assert!(idle_cpus(true, &searching) < 0.9, "the other CPU was idle");
}

#[test]
fn the_task_woken_last_runs_next_if_it_is_a_buddy() {
    for next_buddy in [0, 1] {
        let rules = [("adaptive_granularity", 0), ("next_buddy", next_buddy)];
        let rounds = last_woken_goes_first("cfs", 3, &rules);
        let expected = vec![next_buddy == 1; rounds.len()];
        assert_eq!(rounds, expected, "next_buddy {next_buddy}");
    }
}

#[test]
fn a_child_runs_before_its_parent_goes_on_if_told_so() {
    assert!(child_ends_first("cfs", &[("child_runs_first", 1)]));
    assert!(!child_ends_first("cfs", &[("child_runs_first", 0)]));
}

#[test]
fn without_moving_the_odd_task_three_hogs_on_two_cpus_stay_unequal_for_good() {
    assert_three_hogs_on_two_cpus_stay_unequal("cfs", &[("odd_task_moves", 0)]);
}

#[test]
fn children_spread_over_cpus_only_by_fork_balancing_or_pulling() {
    let fork = Op::Fork { template: 1 };
    let parent = task("parent", 0, once(&[fork, fork, Op::Join]));
    let child = task("child", 0, once(&[run(150 * MS)]));
    let workload = workload_of(vec![parent, child], 1);
    let makespan_ns = |fork_balance: i64, newidle: i64| {
        let tunables = [
            ("fork_balance", fork_balance),
            ("newidle", newidle),
            ("newidle_load_index", 0),
            ("idle_balance_ns", if newidle == 1 { 4_000_000 } else { 0 }),
            ("busy_factor", 0),
        ];
        outcome("cfs", &machine(2, HZ), &workload, 10 * S, &tunables).makespan_ns
    };
    assert!((150 * MS..153 * MS).contains(&makespan_ns(1, 0)), "{}", makespan_ns(1, 0));
    assert!((300 * MS..303 * MS).contains(&makespan_ns(0, 0)), "{}", makespan_ns(0, 0));
    // An idle CPU looks every 4 ms, and the children have shared the other one until it came.
    assert!((150 * MS..162 * MS).contains(&makespan_ns(0, 1)), "{}", makespan_ns(0, 1));
}
