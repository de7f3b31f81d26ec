//! Goal: `eevdf` keeps what its theory promises and shows what Linux 6.12 was observed to do.
//! Method: closed forms (weights, requests, the bound on lag) on hogs and sleepers; and each
//! mechanism switched off by its tunable, which must undo what it is for.

use crate::support::*;
use scenario::workload::{Op, Workload};
use simulator::RunResult;

const BASE_SLICE_NS: u64 = 700 * US;
const HZ: u32 = 1000;
const TICK_NS: u64 = MS;

#[test]
fn shares_are_proportional_to_weights() {
    for policy in ["eevdf@6.6", "eevdf@6.12"] {
        for nice in -20..=19 {
            let got = share_to_weight(policy, nice, (HZ, 30), &[]);
            assert!((got - 1.0).abs() < 0.015, "{policy}, nice {nice}: {got}");
        }
    }
}

#[test]
fn a_hog_that_is_reniced_gets_its_new_share_from_then_on() {
    // 5 of the first 10 seconds; then 335 / (1024 + 335) of 20 seconds.
    assert_a_reniced_hog_has("eevdf", 5, 335.0 / 1359.0);
}

#[test]
fn equal_hogs_take_turns_of_a_request_rounded_up_to_a_tick() {
    for (nr_cpus, factor) in [(1, 1), (2, 2), (4, 3), (8, 4)] {
        for hz in [1000, 250] {
            let expected = (factor * BASE_SLICE_NS).div_ceil(S / u64::from(hz));
            let got = turn_ticks("eevdf", 4, (nr_cpus, hz), &[]);
            assert_eq!(got, expected, "{nr_cpus} CPUs at {hz} Hz");
        }
    }
}

#[test]
fn nice_changes_how_often_a_task_is_served_and_not_for_how_long() {
    let workload = together(vec![hog("zero", 0), hog("nicest", 19)]);
    let result = outcome("eevdf", &machine(1, HZ), &workload, 30 * S, &[]);
    assert_eq!(usual_stay_ticks(&result, "nicest", HZ), 1);
    // 1024 / 15 = 68 ms of the other for each of its milliseconds.
    let nr_stays = stays(&result, "nicest").len() as f64;
    assert!((nr_stays / (30_000.0 / 69.3) - 1.0).abs() < 0.01, "{nr_stays} stays in 30 s");
}

#[test]
fn a_hog_among_n_waits_for_a_request_of_each_of_the_others() {
    for nr in [2_u64, 5, 16] {
        let expected_ns = (nr - 1) * BASE_SLICE_NS.next_multiple_of(TICK_NS);
        for wait_ns in longest_waits_ns("eevdf", nr, HZ, &[]) {
            assert!(wait_ns.abs_diff(expected_ns) < 10 * US, "{nr} hogs: {wait_ns}");
        }
    }
}

#[test]
fn a_sleeper_waits_for_a_request_of_each_hog_at_most() {
    let turn_ns = BASE_SLICE_NS.next_multiple_of(TICK_NS);
    for nr in [1_u64, 4, 16] {
        let mut tasks = vec![hog("hog", 0); nr as usize];
        tasks.push(sleeper(0, 97 * MS + 300 * US, 100 * US));
        let result = outcome("eevdf", &machine(1, HZ), &together(tasks), 40 * S, &[]);
        let latency = result.wakeup_latency_ns;
        assert!(latency.count > 400, "{nr} hogs: {latency:?}");
        assert!(latency.max <= nr * turn_ns + TICK_NS, "{nr} hogs: {latency:?}");
        // It does happen that all of them are owed time and come first.
        assert!(latency.max > (nr - 1) * turn_ns, "{nr} hogs: {latency:?}");
    }
}

/// In CFS a credit of half a latency is more than the granularity; here a running task is mostly
/// protected, or the waking one not eligible.
#[test]
fn wake_ups_preempt_less_often_than_in_cfs() {
    let preempting_part = |policy: &str| {
        let sleepers = vec![sleeper(0, 3 * MS + 300 * US, 100 * US); 8];
        let tasks = [vec![hog("hog", 0); 2], sleepers].concat();
        let workload = together(tasks.into_iter().map(|kind| pinned(kind, 0)).collect());
        // Eight CPUs, so that requests and granularities are some ticks long.
        let result = outcome(policy, &machine(8, HZ), &workload, 20 * S, &[]);
        result.involuntary_switches as f64 / result.wakeup_latency_ns.count as f64
    };
    let cfs = preempting_part("cfs@6.1");
    for policy in ["eevdf@6.6", "eevdf@6.12"] {
        let eevdf = preempting_part(policy);
        assert!(eevdf < 0.5 && cfs > 0.9, "{policy}: {eevdf}, CFS {cfs}");
    }
}

/// Blocking is what hands the CPU over: whether a wake-up preempts does not change the pace.
#[test]
fn a_pair_that_talks_on_one_cpu_is_as_fast_as_without_any_preemption() {
    let rounds = |policy: &str| {
        let result = outcome(policy, &machine(1, HZ), &ping_pong(false), S, &[]);
        result.cpu_time_ns.work as f64 / (20 * US) as f64
    };
    let (eevdf, fifo) = (rounds("eevdf"), rounds("fifo"));
    assert!((eevdf / fifo - 1.0).abs() < 0.05, "{eevdf} rounds a second, {fifo} under fifo");
}

/// How far a task that always wants to run gets ahead of its part of the CPU, and how far
/// behind, in ns.
fn lead_and_lag_ns(result: &RunResult, name: &str, part: f64) -> (f64, f64) {
    let (mut had_ns, mut lead_ns, mut lag_ns) = (0, 0.0_f64, 0.0_f64);
    for (start, end, _) in stays(result, name) {
        lag_ns = lag_ns.max(part * start as f64 - had_ns as f64);
        had_ns += end - start;
        lead_ns = lead_ns.max(had_ns as f64 - part * end as f64);
    }
    (lead_ns, lag_ns)
}

#[test]
fn nobody_gets_a_turn_ahead_or_two_requests_and_a_tick_behind() {
    let nices = [-15, -5, 0, 0, 1, 3, 5, 10, 15];
    let sum: f64 = nices.iter().map(|nice| weight(*nice)).sum();
    let named: Vec<(String, i8)> =
        nices.iter().enumerate().map(|(i, nice)| (format!("hog{i}"), *nice)).collect();
    let workload = together(named.iter().map(|(name, nice)| hog(name, *nice)).collect());
    for (hz, slice_ns) in [(1000, BASE_SLICE_NS), (250, 3_900 * US), (250, BASE_SLICE_NS)] {
        let tick_ns = S / u64::from(hz);
        let tunables = [("base_slice_ns", slice_ns as i64)];
        let result = outcome("eevdf", &machine(1, hz), &workload, 4 * S, &tunables);
        let turn_ns = slice_ns.next_multiple_of(tick_ns) as f64;
        let bound_ns = (2 * slice_ns + tick_ns) as f64;
        // What switches cost is nobody's part.
        let run_ns: u64 = result.task_groups.iter().map(|group| group.run_ns).sum();
        for (name, nice) in &named {
            let part = weight(*nice) / sum * run_ns as f64 / result.elapsed_ns as f64;
            let (lead_ns, lag_ns) = lead_and_lag_ns(&result, name, part);
            assert!(lead_ns < turn_ns, "{name} at {hz} Hz: {lead_ns} ns > {turn_ns} ns");
            // Ticks longer than requests end them late, and all who overran are owed by one.
            if slice_ns.next_multiple_of(tick_ns) < 2 * slice_ns {
                assert!(lag_ns < bound_ns, "{name} at {hz} Hz: {lag_ns} ns > {bound_ns} ns");
            }
        }
    }
}

#[test]
fn a_sleeper_that_is_owed_time_preempts_a_task_that_is_not() {
    let workload = together(vec![hog("hog", 0), sleeper(0, 9 * MS + 300 * US, 100 * US)]);
    let latency = outcome("eevdf", &machine(1, HZ), &workload, 20 * S, &[]).wakeup_latency_ns;
    assert!(latency.count > 1900, "{latency:?}");
    assert!(latency.p50 < 100 * US, "{latency:?}");
    assert!(latency.max <= BASE_SLICE_NS.next_multiple_of(TICK_NS) + TICK_NS, "{latency:?}");
}

#[test]
fn a_running_task_that_is_eligible_is_protected_until_its_request_ends() {
    // Of the higher weight, and so of the earlier deadline; without lag, so that both are eligible.
    let workload = together(vec![hog("hog", 0), sleeper(-10, 300 * US, 10 * US)]);
    let latency = |parity: i64| {
        let tunables = [("place_lag", 0), ("run_to_parity", parity)];
        outcome("eevdf", &machine(1, HZ), &workload, 20 * S, &tunables).wakeup_latency_ns
    };
    assert!(latency(1).p50 > 300 * US, "the rest of the request: {:?}", latency(1));
    assert!(latency(0).p50 < 20 * US, "at once: {:?}", latency(0));
}

#[test]
fn a_task_that_goes_on_after_its_request_is_protected_no_more() {
    let workload = together(vec![hog("hog", 0), sleeper(-10, 9 * MS + 300 * US, 10 * US)]);
    let tunables = [("place_lag", 0)];
    let latency = outcome("eevdf", &machine(1, HZ), &workload, 20 * S, &tunables).wakeup_latency_ns;
    assert!(latency.p50 < 20 * US, "{latency:?}");
}

#[test]
fn of_equal_deadlines_the_one_that_comes_goes_first() {
    // A hog that is alone gets a new request when the old one is found to be over, at the latest
    // when another task comes: both then have the same deadline, and neither has lag.
    let waits_ns = |at_ns: u64| {
        let late = task("late", 0, vec![sleep(at_ns), run(100 * US)].into());
        let workload = together(vec![late, hog("hog", 0)]);
        let result = outcome("eevdf", &costless(1, 250), &workload, 60 * MS, &[]);
        stays(&result, "late").last().expect("it ran").0 - at_ns
    };
    assert!(waits_ns(30 * MS) < US, "2 ms after a tick the request of 0.7 ms is over");
    assert!(waits_ns(28 * MS + 300 * US) > 3 * MS, "0.3 ms after it the hog is protected");
}

#[test]
fn lag_survives_a_nap() {
    // At its naps, in the middle of a tick of 4 ms, it is mostly ahead of the others.
    let napper = task("napper", 0, forever(&[run(3 * MS), sleep(20 * US)]));
    let workload = together(vec![hog("a", 0), hog("b", 0), napper]);
    let got = |place_lag: i64| {
        let tunables = [("place_lag", place_lag), ("delay_dequeue", 0)];
        share(&outcome("eevdf", &machine(1, 250), &workload, 20 * S, &tunables), "napper")
    };
    assert!((got(1) - 1.0 / 3.0).abs() < 0.005, "{}", got(1));
    assert!(got(0) > 0.36, "naps that wipe out debts win time: {}", got(0));
}

#[test]
fn who_naps_while_it_owes_time_was_never_away() {
    // As above, in naps too short for its debt to be picked: it goes on where it was.
    let napper = task("napper", 0, forever(&[run(3 * MS), sleep(20 * US)]));
    let workload = together(vec![hog("a", 0), hog("b", 0), napper]);
    let got = share(&outcome("eevdf", &machine(1, 250), &workload, 20 * S, &[]), "napper");
    assert!((got - 1.0 / 3.0).abs() < 0.005, "{got}");
}

#[test]
fn debt_fades_while_a_task_sleeps_if_dequeueing_is_delayed() {
    // Runs for 3 ms, a tick being 4 ms: it is far beyond its 0.7 ms request when it sleeps.
    let debtor = task("debtor", 0, forever(&[run(3 * MS), sleep(40 * MS)]));
    let workload = together(vec![hog("a", 0), hog("b", 0), hog("c", 0), debtor]);
    let latency_ns = |delay: i64| {
        let tunables = [("delay_dequeue", delay)];
        outcome("eevdf", &machine(1, 250), &workload, 20 * S, &tunables).wakeup_latency_ns.mean
    };
    assert!(latency_ns(1) < 0.8 * latency_ns(0), "{} and {}", latency_ns(1), latency_ns(0));
}

#[test]
fn who_yields_gives_up_the_rest_of_its_request() {
    let polite = task("polite", 0, forever(&[run(70 * US), Op::Yield]));
    let workload = together(vec![hog("hog", 0), polite]);
    let result = outcome("eevdf", &costless(1, HZ), &workload, 10 * S, &[]);
    // 70 us are charged as a request of 700 us.
    let got = share(&result, "polite") / share(&result, "hog");
    // A yield that finds it ahead already gives nothing up, and costs its 70 us only: a ninth do.
    let virtual_us = 700.0 * 8.0 / 9.0 + 70.0 / 9.0;
    assert!((got * virtual_us / 70.0 - 1.0).abs() < 0.02, "{got}");
}

#[test]
fn renicing_neither_wins_nor_loses_time() {
    assert_renicing_neither_wins_nor_loses_time("eevdf");
}

#[test]
fn the_odd_one_of_three_hogs_on_two_cpus_rotates_about_every_second_balance() {
    // One each 64 to 128 ms.
    assert_three_hogs_on_two_cpus_rotate("eevdf", 0.04, [7.8, 15.7]);
}

#[test]
fn a_newly_idle_cpu_that_pulls_leaves_no_cpu_idle_beside_waiting_tasks() {
    for nr in 1..=9 {
        let lost_ms = |work_ns| ideal_and_lost_ns("eevdf", HZ, (nr, work_ns), &[]).1 / MS;
        // What is lost: at the end the last job may be a rotation of 128 ms behind.
        assert!(lost_ms(3 * S) < 150, "{nr} jobs: {} ms", lost_ms(3 * S));
        // Short jobs are moved once or twice at most. Who has been alone for 64 ms is 32 ms ahead.
        let lost_ms = lost_ms(150 * MS);
        assert!(lost_ms < if nr == 3 { 32 } else { 8 }, "{nr} short jobs: {lost_ms} ms");
    }
}

/// A sender that always computes, and more receivers than CPUs, of which some have work.
fn messages(sync_wakeups: bool) -> Workload {
    let sender = task("sender", -20, forever(&[SEND, run(MS)]));
    let ops = [RECEIVE, run(300 * US), RECEIVE, run(2700 * US)];
    let receiver = task("receiver", 0, forever(&ops));
    with_sync(together([vec![sender], vec![receiver; 8]].concat()), sync_wakeups)
}

#[test]
fn a_synchronous_wake_up_too_takes_an_idle_cpu() {
    for sync in [false, true] {
        // At most four of the five CPUs are busy, maybe that where a receiver last ran.
        let result = outcome("eevdf", &machine(5, HZ), &messages(sync), S, &[]);
        let latency = &result.wakeup_latency_ns;
        assert!(latency.count > 900, "sync {sync}: {latency:?}");
        assert!(latency.max < 20 * US, "sync {sync}: {latency:?}");
    }
}
