//! Goal: each release of `cfs` from cfs-devel to 6.1 shows what is known of all of them, with its
//! own numbers.
//! Method: closed forms (weights, slices, credits, elapsed times) on hogs, sleepers and forks under
//! each set, and under rules that stand for one mechanism alone.

use crate::support::*;

const HZ: u32 = 1000;
/// A machine that ticks this often shows slices to 0.1 ms.
const FINE_HZ: u32 = 10_000;
const FINE_TICK_US: u64 = 100;
const SETS: [&str; 6] =
    ["cfs@cfs-devel", "cfs@2.6.24", "cfs@2.6.31", "cfs@2.6.32", "cfs@3.6", "cfs@6.1"];

// ---- one CPU ------------------------------------------------------------------------------------

/// The weight's part of the period in us, for a nice-0 hog and one of nice 5 or 19; 6.1 gives
/// nobody less than its least granularity. A slice ends at the first tick after it.
#[test]
fn unequal_hogs_take_the_slices_of_each_release() {
    for (set, nr_cpus, beside_5, beside_19) in [
        ("cfs@cfs-devel", 1, [15_070, 4_930], [19_711, 289]),
        ("cfs@2.6.24", 1, [15_070, 4_930], [19_711, 289]),
        ("cfs@2.6.31", 1, [15_070, 4_930], [19_711, 289]),
        ("cfs@2.6.31", 2, [30_140, 9_860], [39_423, 577]),
        ("cfs@2.6.32", 2, [7_535, 2_465], [9_856, 144]),
        ("cfs@3.6", 1, [4_521, 1_479], [5_913, 87]),
        ("cfs@3.6", 2, [9_042, 2_958], [11_827, 173]),
        ("cfs@6.1", 1, [4_521, 1_479], [5_913, 750]),
        ("cfs@6.1", 2, [9_042, 2_958], [11_827, 1_500]),
    ] {
        for (nice, slices_us) in [(5, beside_5), (19, beside_19)] {
            let hogs = [hog("zero", 0), hog("other", nice)];
            let workload = together(hogs.map(|hog| pinned(hog, 0)).to_vec());
            let result = outcome(set, &machine(nr_cpus, FINE_HZ), &workload, 5 * S, &[]);
            for (name, slice_us) in ["zero", "other"].into_iter().zip(slices_us) {
                let got = usual_stay_ticks(&result, name, FINE_HZ);
                let said = format!("{name} of 0 and {nice} on one of {nr_cpus} CPUs under {set}");
                let expected = slice_us / FINE_TICK_US + 1;
                // With a floor nice 19 has had the time of several slices of nice 0, which so come
                // in a row.
                let in_a_row = if set == "cfs@6.1" && name == "zero" { got / expected } else { 1 };
                assert_eq!(got, in_a_row.max(1) * expected, "{said}");
            }
        }
    }
}

/// Period on one CPU in us for this many hogs, by what each release says of latency and
/// granularity.
fn period_us(set: &str, nr: u64) -> u64 {
    let (latency_us, least_us) = match set {
        "cfs@cfs-devel" => (20_000, 2_000),
        "cfs@2.6.24" | "cfs@2.6.31" => (20_000, 4_000),
        "cfs@2.6.32" => (5_000, 1_000),
        _ => (6_000, 750),
    };
    latency_us.max(nr * least_us)
}

#[test]
fn nobody_waits_longer_than_a_period_and_its_ticks_in_any_release() {
    for set in SETS {
        for nr in [2_u64, 5, 16] {
            // Each of the others overruns its slice by a tick at most, and is switched to.
            let slice_ns = period_us(set, nr) * US / nr;
            let longest_ns = slice_ns + FINE_TICK_US * US + 10 * US;
            let bounds_ns = (nr - 1) * slice_ns..=(nr - 1) * longest_ns;
            for wait_ns in longest_waits_ns(set, nr, FINE_HZ, &[]) {
                assert!(bounds_ns.contains(&wait_ns), "{set}, {nr} hogs: {wait_ns}");
            }
        }
    }
}

#[test]
fn a_long_sleeper_preempts_a_hog_in_every_release() {
    for set in SETS {
        let latency = wait_of_a_long_sleeper(set, &[]);
        assert!(latency.p99 < 20 * US, "{set}: {latency:?}");
    }
}

/// Two tasks that pass a message to and fro stay within a message of each other.
#[test]
fn a_pair_that_talks_on_one_cpu_does_not_preempt_but_blocks() {
    let workload = ping_pong_after_a_hog();
    let preempting_part = |set, adaptive: i64| {
        let rules = [("adaptive_granularity", adaptive)];
        let result = outcome(set, &machine(1, HZ), &workload, 2 * S, &rules);
        assert!(result.switches > 50_000, "{set}: {}", result.switches);
        result.involuntary_switches as f64 / result.switches as f64
    };
    for set in SETS {
        assert!(preempting_part(set, 0) < 0.002, "{set}: {}", preempting_part(set, 0));
    }
    // The granularity of 2.6.31 shrinks to nothing where each wakes the other soon.
    let adaptive = preempting_part("cfs@2.6.31", 1);
    assert!((adaptive * 20.0 - 1.0).abs() < 0.05, "one switch in 20: {adaptive}");
}

#[test]
fn a_pick_costs_the_same_however_many_tasks_wait() {
    assert_a_pick_costs_the_same("cfs", 5);
}

// ---- several CPUs -------------------------------------------------------------------------------

#[test]
fn a_child_goes_to_the_idlest_cpu_since_2_6_31_and_stays_with_its_parent_before() {
    let workload = fork_beside_hogs_on_three_cpus();
    for set in SETS {
        let result = outcome(set, &machine(3, HZ), &workload, 3 * S, &[]);
        let expected = if ["cfs@cfs-devel", "cfs@2.6.24"].contains(&set) { 0 } else { 2 };
        assert_eq!(stays(&result, "child")[0].2, expected, "{set}");
    }
}

/// Elapsed time beyond the ideal one, in ms, of 1 to 9 equal jobs on two CPUs; in parts of the
/// ideal.
fn excess(work_ns: u64, rules: &[(&str, i64)]) -> Vec<(f64, f64)> {
    let nobody_pulls = [("idle_balance_ns", 0), ("busy_factor", 0), ("newidle", 0)];
    let others = [("fork_load_index", 0), ("newidle_load_index", 0), ("migration_cost_ns", 0)];
    // Of two values of one tunable the last counts.
    let tunables = [&nobody_pulls[..], &others[..], rules].concat();
    let of = |nr: u64| {
        let (ideal_ns, lost_ns) = ideal_and_lost_ns("cfs", HZ, (nr, work_ns), &tunables);
        (lost_ns as f64 / MS as f64, lost_ns as f64 / ideal_ns as f64)
    };
    (1..=9).map(of).collect()
}

/// From a model of queues that keep half of the jobs each.
#[test]
fn jobs_on_two_cpus_that_nobody_pulls_take_as_long_as_the_larger_half() {
    let expected = [0.0, 0.0, 1.0 / 3.0, 0.0, 0.2, 0.0, 1.0 / 7.0, 0.0, 1.0 / 9.0];
    for work_ns in [150 * MS, 3 * S] {
        for ((_, got), expected) in excess(work_ns, &[]).into_iter().zip(expected) {
            assert!((got - expected).abs() < 0.01, "{got} for {expected}");
        }
    }
}

/// A CPU that pulls when it runs out, or 4 ms later, loses no more than that; and the last two jobs
/// may be a slice of 21 ms apart, half of which the later one is behind.
#[test]
fn jobs_on_two_cpus_lose_half_a_slice_if_an_idle_cpu_pulls() {
    for (rule, late_ms) in [(("newidle", 1), 0.0), (("idle_balance_ns", 4_000_000), 4.0)] {
        for (nr, (got_ms, part)) in (1..).zip(excess(150 * MS, &[rule])) {
            // Switches and ticks take 0.4 % of the time.
            let own_ms = 0.005 * 150.0 * (f64::from(nr) / 2.0).max(1.0);
            assert!((0.0..10.5 + late_ms + own_ms).contains(&got_ms), "{rule:?}, {nr}: {got_ms}");
            assert!(part < 0.05, "{rule:?}, {nr}: {part}");
        }
        for (nr, (_, part)) in (1..).zip(excess(3 * S, &[rule])) {
            assert!((0.0..0.01).contains(&part), "{rule:?}, {nr} of 3 s: {part}");
        }
    }
}

/// From a model of a rotation each 128 ms; nothing is said there of more than 5 jobs of 150 ms. The
/// first rotation is after 256 ms, by which jobs that share a CPU until then are 128 ms behind.
#[test]
fn jobs_on_two_cpus_that_rotate_end_near_the_ideal_time() {
    let rotation = [("newidle", 1), ("busy_factor", 64)];
    for (got, expected) in excess(150 * MS, &rotation).into_iter().zip([0.0, 0.0, 0.04, 0.0, 0.01])
    {
        assert!((got.1 - expected).abs() < 0.015, "{} for {expected}", got.1);
    }
    for (nr, (_, part)) in (1..).zip(excess(3 * S, &rotation)) {
        let late = 128.0 / 3000.0 / (f64::from(nr) / 2.0).max(1.0);
        assert!((0.0..0.01 + late).contains(&part), "{nr} of 3 s: {part}");
    }
}

/// Whom a balance takes is a matter of who waits just then, so shares come near 2/3 only in time.
#[test]
fn three_hogs_on_two_cpus_have_two_thirds_each_in_every_release() {
    for set in SETS {
        // One each 64 to 256 ms.
        assert_three_hogs_on_two_cpus_rotate(set, 0.04, [3.9, 15.7]);
    }
}
