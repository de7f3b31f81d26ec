//! Goal: each shipped tunable set is the release it names, as far as it says.
//! Method: closed forms (slices, shares, who preempts whom) on hogs, sleepers, forks and yields;
//! random scenarios; and rules that only sets use, each with and without it.

use crate::support::*;
use scenario::workload::{Op, Workload};
use simulator::{Options, RunResult, Status};
use std::collections::BTreeSet;

const HZ: u32 = 1000;
const SWARM_SEEDS: u64 = 8;

/// A run with a set, and one rule changed.
fn changed(policy: &str, rule: (&str, i64), nr_cpus: usize, all: &Workload) -> RunResult {
    outcome(policy, &machine(nr_cpus, HZ), all, 20 * S, &[rule])
}

// ---- every set of every policy ------------------------------------------------------------------

/// What policies/README.md says of the values in the C files, which tests here use without sets.
/// That idle CPUs wait is a fault of 2.6.31, which nobody wants who builds on its other rules.
#[test]
fn the_values_in_a_c_file_are_those_of_one_set() {
    for (name, of) in [
        ("o1", "2.6.0"),
        ("cfs_2007", "2.6.23"),
        ("cfs", "2.6.31"),
        ("cfs_gavl", "2.6.31"),
        ("bfs", "304"),
        ("eevdf", "6.12"),
    ] {
        let policy = shipped(name);
        for (tunable, value) in &policy.set(of).expect(of).values {
            if tunable == "idle_waits_as_busy" && name != "cfs_2007" {
                continue;
            }
            let known = policy.tunables.iter().find(|known| known.name == *tunable);
            let default = known.expect("compiling checks names").default;
            assert_eq!(i128::from(*value), default, "{name}@{of}: {tunable}");
        }
    }
}

#[test]
fn a_name_alone_means_the_last_of_the_sets_that_are_releases() {
    for name in POLICIES {
        let policy = shipped(name);
        let mut meant: Vec<bool> = policy.sets.iter().map(|set| set.is_plain).collect();
        let last = meant.pop();
        let are_releases = !policy.sets.is_empty() && name != "timering";
        assert_eq!(last.unwrap_or(false), are_releases, "{name}");
        assert!(meant.iter().all(|is_plain| !is_plain), "{name}");
    }
}

#[test]
fn sets_of_one_policy_settle_the_same_tunables_so_that_none_leans_on_defaults() {
    for name in POLICIES {
        let policy = shipped(name);
        let settled: BTreeSet<Vec<&String>> =
            policy.sets.iter().map(|set| set.values.keys().collect()).collect();
        assert!(settled.len() <= 1, "{name}: {settled:?}");
        let values: BTreeSet<Vec<i64>> =
            policy.sets.iter().map(|set| set.values.values().copied().collect()).collect();
        assert_eq!(values.len(), policy.sets.len(), "{name}: two sets are equal");
    }
}

#[test]
fn random_scenarios_complete_under_every_set() {
    for name in POLICIES {
        let policy = shipped(name);
        for set in &policy.sets {
            for seed in 0..SWARM_SEEDS {
                let (machine, workload) = scenario::random_scenario(seed);
                let tunables = set.values.clone();
                let options = Options { seed, tunables, ..Options::default() };
                let result = attempt_with(&policy, &machine, &workload, &options);
                let which = format!("{name}@{}, seed {seed}", set.name);
                assert_eq!(result.status, Status::Completed, "{which}: {:?}", result.error);
            }
        }
    }
}

// ---- cfs: slices and shares ---------------------------------------------------------------------

/// Period over runnable tasks: latency while there are few, then the least granularity each, both
/// times 1 + log2 of the CPUs. A slice ends at the first tick after it.
#[test]
fn equal_hogs_take_the_slices_of_each_release() {
    for (set, nr_cpus, slices_us) in [
        ("cfs@cfs-devel", 1, [10_000, 6_667, 4_000, 2_500, 2_000]),
        ("cfs@2.6.24", 1, [10_000, 6_667, 4_000, 4_000, 4_000]),
        ("cfs@2.6.31", 1, [10_000, 6_667, 4_000, 4_000, 4_000]),
        ("cfs@2.6.31", 2, [20_000, 13_333, 8_000, 8_000, 8_000]),
        ("cfs@2.6.32", 2, [5_000, 3_333, 2_000, 2_000, 2_000]),
        ("cfs@3.6", 1, [3_000, 2_000, 1_200, 750, 750]),
        ("cfs@3.6", 2, [6_000, 4_000, 2_400, 1_500, 1_500]),
        ("cfs@3.6", 4, [9_000, 6_000, 3_600, 2_250, 2_250]),
        ("cfs@3.6", 8, [12_000, 8_000, 4_800, 3_000, 3_000]),
        ("cfs@6.1", 2, [6_000, 4_000, 2_400, 1_500, 1_500]),
    ] {
        for (nr, slice_us) in [2, 3, 5, 8, 16].into_iter().zip(slices_us) {
            let expected = slice_us * US / MS + 1;
            let got = turn_ticks(set, nr, (nr_cpus, HZ), &[]);
            assert_eq!(got, expected, "{nr} hogs on one of {nr_cpus} CPUs under {set}");
        }
    }
}

#[test]
fn shares_follow_weights_in_every_release() {
    for set in &shipped("cfs").sets {
        for nice in [1, 5, 10, 19, -5, -20] {
            let got = share_to_weight(&format!("cfs@{}", set.name), nice, (HZ, 60), &[]);
            assert!((got - 1.0).abs() < 0.02, "{} nice {nice}: {got}", set.name);
        }
    }
}

/// 6 ms x 15 / 1039 is 0.09 ms. Ticks of 0.1 ms show it.
#[test]
fn in_6_1_and_not_in_3_6_a_slice_has_a_floor() {
    let workload = together(vec![hog("zero", 0), hog("nineteen", 19)]);
    for (set, ticks) in [("cfs@3.6", 1), ("cfs@6.1", 8)] {
        let result = outcome(set, &machine(1, 10_000), &workload, 20 * S, &[]);
        assert_eq!(usual_stay_ticks(&result, "nineteen", 10_000), ticks, "{set}");
    }
}

#[test]
fn the_period_stops_growing_with_cpus_at_its_limit() {
    // 20 ms x 3 for 4 CPUs.
    for (limit_ns, ticks) in [(100_000_000, 31), (40_000_000, 21)] {
        let got = turn_ticks("cfs@2.6.24", 2, (4, HZ), &[("latency_max_ns", limit_ns)]);
        assert_eq!(got, ticks, "limit {limit_ns}");
    }
}

// ---- cfs: who preempts --------------------------------------------------------------------------

/// The credit of a sleeper is 20 ms of vruntime, or half of the latency since 2.6.32, and what the
/// hog leads by comes on top. A lead of 10 ms is enough as it is, but not when it is scaled to the
/// 30.6 ms that it is for a task of nice 5.
#[test]
fn the_wakeup_granularity_is_scaled_by_the_weight_that_each_release_takes() {
    let wakes_at_once = |weight: i64, hog_nice, sleeper_nice| {
        let rarely = sleeper(sleeper_nice, 97 * MS + 300 * US, MS);
        let workload = together(vec![hog("hog", hog_nice), rarely]);
        let result = changed("cfs@2.6.24", ("wakeup_weight", weight), 1, &workload);
        result.wakeup_latency_ns.p50 < 100 * US
    };
    for (weight, hog_5, sleeper_5) in [(0, true, true), (1, false, true), (2, true, false)] {
        assert_eq!(wakes_at_once(weight, 5, 0), hog_5, "weight {weight}, hog of nice 5");
        assert_eq!(wakes_at_once(weight, 0, 5), sleeper_5, "weight {weight}, sleeper of nice 5");
    }
    for (set, expected) in
        [("cfs@cfs-devel", 0), ("cfs@2.6.24", 1), ("cfs@2.6.31", 2), ("cfs@6.1", 2)]
    {
        let (_, values) = shipped_with_set(set);
        assert_eq!(values["wakeup_weight"], expected, "{set}");
    }
}

/// A parent forks 8 ms into a slice of 10, when it is ahead of the other two.
#[test]
fn a_fork_makes_the_cpu_choose_again_up_to_2_6_24() {
    let forks_after_ns = 63 * MS;
    let program = [run(forks_after_ns), Op::Fork { template: 2 }, run(S)];
    let child = task("child", 0, once(&[run(S)]));
    let all = vec![hog("hog", 0), task("parent", 0, once(&program)), child];
    let workload = workload_of(all, 2);
    for (reschedules, goes_on) in [(1, false), (0, true)] {
        // Nothing else gives a new task the CPU: neither its lead nor its parent's place.
        let others = [("wakeup_granularity_ns", 1_000_000_000), ("child_runs_first", 0)];
        let rules = [&others[..], &[("fork_reschedules", reschedules)]].concat();
        let result = outcome("cfs@2.6.24", &machine(1, HZ), &workload, S, &rules);
        let until_stop = |ran_ns: &mut u64, stay: (u64, u64, u32)| {
            *ran_ns += stay.1 - stay.0;
            Some(*ran_ns)
        };
        let ran_ns = stays(&result, "parent").into_iter().scan(0, until_stop);
        let stops_ns = ran_ns.filter(|ran_ns| *ran_ns >= forks_after_ns).min();
        let after_ns = stops_ns.expect("it stops") - forks_after_ns;
        assert_eq!(after_ns > MS, goes_on, "fork_reschedules {reschedules}: {after_ns} ns");
    }
}

/// Who wakes two tasks that do not preempt it is followed by the last of them, or by the first.
#[test]
fn a_woken_task_is_the_buddy_only_if_it_preempts_from_3_6_on() {
    let always = |next_buddy| {
        let rounds = last_woken_goes_first("cfs@3.6", 2, &[("next_buddy", next_buddy)]);
        rounds.into_iter().all(|last_goes_first| last_goes_first)
    };
    assert!(always(1));
    assert!(!always(2));
}

/// With a wake-up granularity of 100 s every yield gives the CPU away; with that of the release
/// only those after which the other is not too far ahead, so that shares stay equal.
#[test]
fn who_yields_is_passed_over_from_3_6_on_unless_the_next_is_too_far_ahead() {
    let polite = task("polite", 0, forever(&[run(100 * US), Op::Yield]));
    let workload = together(vec![polite, hog("hog", 0)]);
    let stays_and_share = |skips, granularity_ns| {
        let rules = [("yield_skips", skips), ("wakeup_granularity_ns", granularity_ns)];
        let result = outcome("cfs@3.6", &costless(1, HZ), &workload, 10 * S, &rules);
        (stays(&result, "polite"), share(&result, "polite"))
    };
    let (always, part) = stays_and_share(1, 100_000_000_000);
    assert!(always.iter().all(|stay| stay.1 - stay.0 < 110 * US), "given away at each yield");
    // The other is so far ahead that each of its turns ends at the next tick: 0.1 of each ms.
    assert!((part / 0.1 - 1.0).abs() < 0.01, "{part}");
    for (skips, granularity_ns) in [(1, 1_000_000), (0, 1_000_000), (0, 100_000_000_000)] {
        let (_, part) = stays_and_share(skips, granularity_ns);
        assert!((part - 0.5).abs() < 0.01, "{skips}, {granularity_ns}: {part}");
    }
    let [passed_over, goes_on] = [1, 0].map(|skips| stays_and_share(skips, 1_000_000).0.len());
    assert!(passed_over > goes_on, "{passed_over} stays, {goes_on} without");
}

/// A hog that meets a long sleeper waits for the sleeper's credit, which is the latency of one CPU
/// or half of it, and then for a slice; each ends at a tick.
#[test]
fn a_sleeper_is_credited_with_the_latency_and_since_2_6_32_with_half_of_it() {
    let workload = together(vec![hog("hog", 0), sleeper(0, S, 200 * MS)]);
    for (set, credit_us, slice_us) in [
        ("cfs@cfs-devel", 20_000, 10_000),
        ("cfs@2.6.24", 20_000, 10_000),
        ("cfs@2.6.31", 20_000, 10_000),
        ("cfs@2.6.32", 2_500, 2_500),
        ("cfs@3.6", 3_000, 3_000),
        ("cfs@6.1", 3_000, 3_000),
    ] {
        let result = outcome(set, &machine(1, HZ), &workload, 20 * S, &[]);
        let gap_ns = longest_gap_ns(&result, "hog", 0);
        let bounds_ns = credit_us * US..=(credit_us + slice_us) * US + 3 * MS;
        assert!(bounds_ns.contains(&gap_ns), "{set}: {gap_ns} in {bounds_ns:?}");
    }
}

#[test]
fn a_child_runs_first_up_to_2_6_31_and_its_parent_since_then() {
    for set in ["cfs@cfs-devel", "cfs@2.6.24", "cfs@2.6.31"] {
        assert!(child_ends_first(set, &[]), "{set}");
    }
    for set in ["cfs@2.6.32", "cfs@3.6", "cfs@6.1"] {
        assert!(!child_ends_first(set, &[]), "{set}");
    }
}

// ---- cfs: where tasks go ------------------------------------------------------------------------

/// The waker's CPU runs the waker alone, or a hog beside it; the other CPU is idle.
#[test]
fn up_to_2_6_24_only_a_cpu_with_one_task_looks_for_an_idle_one() {
    let rounds = [Op::Wake { gate: 0 }, run(5 * MS), sleep(5 * MS)].repeat(50);
    let waker = [&[Op::Fork { template: 1 }, sleep(20 * MS)], &rounds[..]].concat();
    let waker = pinned(task("waker", 0, once(&waker)), 0);
    let woken = task("woken", 0, forever(&[Op::Wait { gate: 0 }, run(MS)]));
    let alone = workload_of(vec![waker.clone(), woken.clone()], 1);
    let starter = [Op::Fork { template: 2 }, Op::Fork { template: 1 }, sleep(S)];
    let starter = pinned(task("starter", 0, once(&starter)), 0);
    let rounds = pinned(task("waker", 0, once(&[&[sleep(20 * MS)], &rounds[..]].concat())), 0);
    let beside = vec![starter, woken, pinned(hog("hog", 0), 0), rounds];
    let mut beside = workload_of(beside, 1);
    beside.initial.push(scenario::workload::InitialTask { template: 3, start_at_ns: 0 });
    let nr_elsewhere = |rule, workload: &Workload| {
        let no_pull = [("idle_balance_ns", 0), ("busy_factor", 0), ("newidle", 0)];
        let rules = [&no_pull[..], &[("idle_sibling", rule)]].concat();
        let result = outcome("cfs@2.6.24", &machine(2, HZ), workload, S, &rules);
        stays(&result, "woken").iter().filter(|stay| stay.2 == 1).count()
    };
    assert_eq!([0, 1, 2].map(|rule| nr_elsewhere(rule, &alone)), [0, 50, 50]);
    let [never, always, one_task] = [0, 1, 2].map(|rule| nr_elsewhere(rule, &beside));
    assert_eq!((never, one_task), (0, 0));
    assert!(always > 20, "{always}");
}

/// Busy CPUs balance every 2 x 16 to 4 x 16 ms, and take the odd task at the second attempt.
#[test]
fn in_6_1_the_odd_one_of_three_hogs_on_two_cpus_rotates_at_every_second_balance() {
    let workload = together(vec![hog("a", 0), hog("b", 0), hog("c", 0), noise()]);
    let a_second = |rule| changed("cfs@6.1", rule, 2, &workload).migrations as f64 / 20.0;
    // One each 64 to 128 ms.
    assert_three_hogs_on_two_cpus_rotate("cfs@6.1", 0.04, [7.8, 15.7]);
    let rate = a_second(("odd_task_moves", 2));
    // Intervals that do not count CPUs are half as long.
    let faster = a_second(("balance_per_cpu", 0));
    assert!((faster / rate / 2.0 - 1.0).abs() < 0.05, "{faster} instead of {rate}");
}

/// A CPU begins with the longest interval, and has the shortest one after an attempt that failed.
#[test]
fn the_first_odd_task_moves_at_the_second_balance_in_6_1_and_at_the_first_by_the_older_rule() {
    let workload = together(vec![hog("a", 0), hog("b", 0), hog("c", 0)]);
    for (rule, expected_ms) in [(1, 64..68), (2, 96..100)] {
        let result = changed("cfs@6.1", ("odd_task_moves", rule), 2, &workload);
        let moved_at_ns = ["a", "b", "c"].map(|name| {
            let stays = stays(&result, name);
            stays.windows(2).find(|pair| pair[0].2 != pair[1].2).map_or(S, |pair| pair[1].0)
        });
        let first_ms = moved_at_ns.into_iter().min().map_or(0, |ns| ns / MS);
        assert!(expected_ms.contains(&first_ms), "rule {rule}: {first_ms} ms");
    }
}

/// Three jobs on two CPUs, where nobody balances but a CPU that runs out of tasks: it leaves the
/// third job where it is (4/3 of the ideal time), or takes it.
#[test]
fn only_in_2_6_31_a_newly_idle_cpu_does_not_pull() {
    let job = || task("job", 0, once(&[run(3 * S)]));
    let workload = together(vec![job(), job(), job()]);
    for set in &shipped("cfs").sets {
        let only_newidle = [("idle_balance_ns", 0), ("busy_factor", 0), ("fork_balance", 1)];
        let policy = format!("cfs@{}", set.name);
        let result = outcome(&policy, &machine(2, HZ), &workload, 20 * S, &only_newidle);
        let ratio = result.makespan_ns as f64 / (4.5 * S as f64);
        let expected = if set.name == "2.6.31" { 4.0 / 3.0 } else { 1.0 };
        assert!((ratio - expected).abs() < 0.02, "{}: {ratio}", set.name);
    }
}

// ---- cfs_2007 and timering ----------------------------------------------------------------------

/// A turn of two hogs is twice the granularity while there is no latency, else half the latency,
/// each times 1 + log2 of the CPUs, and ends at the first tick after it; here ticks of 0.1 ms.
#[test]
fn two_hogs_take_the_turns_of_each_state_of_the_first_cfs() {
    for (set, nr_cpus, turn_ms) in [
        ("cfs_2007@announced", 1, 4),
        ("cfs_2007@announced", 4, 4),
        ("cfs_2007@2.6.23-rc1", 1, 4),
        ("cfs_2007@2.6.23-rc1", 4, 12),
        ("cfs_2007@2.6.23", 1, 10),
        ("cfs_2007@2.6.23", 4, 30),
    ] {
        let got = turn_ticks(set, 2, (nr_cpus, 10_000), &[]);
        assert_eq!(got, 10 * turn_ms + 1, "{set}, {nr_cpus} CPUs");
    }
}

/// Beside two hogs of nice 0 and with ticks of 4 ms, nice 19 leaps by 4 x 1024 / 15 = 273 ms. Where
/// that is over the end of the ring it has a turn each time that the two have gone round.
#[test]
fn a_short_ring_gives_a_niced_hog_a_turn_a_round() {
    let workload = together(vec![hog("zero", 0), hog("zero", 0), hog("nineteen", 19)]);
    let due = weight(19) / (weight(19) + 2.0 * weight(0));
    for (set, expected, tolerance) in
        [("timering@64-slots", 4.0 / (4.0 + 2.0 * 66.06), 0.15), ("timering@256-slots", due, 0.05)]
    {
        let result = outcome(set, &machine(1, 250), &workload, 60 * S, &[]);
        let got = share(&result, "nineteen");
        assert!((got / expected - 1.0).abs() < tolerance, "{set}: {got} in place of {expected}");
    }
}
