//! What more than one policy does by the same closed form.

use super::*;
use scenario::workload::Op;

/// A nice-0 hog beside one of another nice value, for so many seconds: the other's CPU time by that
/// of the first, relative to their weights.
pub fn share_to_weight(
    policy: &str,
    nice: i8,
    (hz, seconds): (u32, u64),
    tunables: &[(&str, i64)],
) -> f64 {
    let workload = together(vec![hog("zero", 0), hog("other", nice)]);
    let result = outcome(policy, &machine(1, hz), &workload, seconds * S, tunables);
    share(&result, "other") / share(&result, "zero") * weight(0) / weight(nice)
}

/// A hog that another value reaches after 5 of its seconds has, of the 20 s after the first 10, the
/// part that the new value gives it.
pub fn assert_a_reniced_hog_has(policy: &str, nice: i8, part: f64) {
    let changing = task("changing", 0, once(&[run(5 * S), Op::Nice(nice), run(100 * S)]));
    let workload = together(vec![hog("zero", 0), changing]);
    let result = outcome(policy, &machine(1, 1000), &workload, 30 * S, &[]);
    let expected_s = 5.0 + 20.0 * part;
    let got_s = group(&result, "changing").run_ns as f64 / 1e9;
    assert!((got_s / expected_s - 1.0).abs() < 0.01, "{got_s} s for {expected_s} s");
}

/// Who changes between nice 0 and 5 has, beside a hog, what both values give.
pub fn assert_renicing_neither_wins_nor_loses_time(policy: &str) {
    let fickle =
        task("fickle", 0, forever(&[Op::Nice(5), run(100 * MS), Op::Nice(0), run(100 * MS)]));
    let workload = together(vec![hog("hog", 0), fickle]);
    let result = outcome(policy, &machine(1, 1000), &workload, 20 * S, &[]);
    // While it has 200 ms, the hog has 100 ms x 1024 / 335 and 100 ms.
    let expected = 2.0 / (1024.0 / 335.0 + 1.0);
    let got = share(&result, "fickle") / share(&result, "hog");
    assert!((got / expected - 1.0).abs() < 0.02, "{got} for {expected}");
}

/// Three hogs have two thirds of a CPU each, by so many migrations a second.
pub fn assert_three_hogs_on_two_cpus_rotate(policy: &str, a_second: [f64; 2]) {
    let workload = together(vec![hog("a", 0), hog("b", 0), hog("c", 0), noise()]);
    let result = outcome(policy, &machine(2, 1000), &workload, 60 * S, &[]);
    for name in ["a", "b", "c"] {
        let got = share(&result, name);
        assert!((got * 1.5 - 1.0).abs() < 0.04, "{name}: {got}");
    }
    let [least, most] = a_second;
    let got = result.migrations as f64 / 60.0;
    assert!((least..=most).contains(&got), "{got} migrations a second");
}

/// One of three hogs has a CPU for itself.
pub fn assert_three_hogs_on_two_cpus_stay_unequal(policy: &str, tunables: &[(&str, i64)]) {
    let workload = together(vec![hog("a", 0), hog("b", 0), hog("c", 0)]);
    let result = outcome(policy, &machine(2, 1000), &workload, 60 * S, tunables);
    let mut shares = ["a", "b", "c"].map(|name| share(&result, name));
    shares.sort_by(f64::total_cmp);
    for (got, expected) in shares.iter().zip([0.5, 0.5, 1.0]) {
        assert!((got - expected).abs() < 0.01, "{shares:?}");
    }
}

/// The scheduler's time a switch where so many hogs wait and one task wakes. The first of a long
/// queue is as near as that of a short one: this counts looks, not misses.
pub fn pick_cost_ns(policy: &str, nr_hogs: usize) -> f64 {
    let mut machine = machine(1, 1000);
    machine.costs.scan_miss_ns = machine.costs.scan_step_ns;
    let mut tasks = vec![hog("hog", 0); nr_hogs];
    tasks.push(task("sleeper", -20, forever(&[sleep(MS), run(10 * US)])));
    let result = outcome(policy, &machine, &together(tasks), 10 * S, &[]);
    result.cpu_time_ns.scheduler as f64 / result.switches as f64
}

/// A pick costs the same with so few hogs and with 200.
pub fn assert_a_pick_costs_the_same(policy: &str, few: usize) {
    let (few, many) = (pick_cost_ns(policy, few), pick_cost_ns(policy, 200));
    assert!((many / few - 1.0).abs() < 0.02, "{few} {many}");
}
