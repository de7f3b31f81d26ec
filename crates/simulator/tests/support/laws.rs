//! What more than one policy does by the same closed form.

use super::*;
use scenario::workload::Op;
use simulator::Distribution;

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

/// How long a task that sleeps long, and wakes up between two ticks, waits beside a hog.
pub fn wait_of_a_long_sleeper(policy: &str, tunables: &[(&str, i64)]) -> Distribution {
    let workload = together(vec![hog("hog", 0), sleeper(0, 97 * MS + 300 * US, MS)]);
    let result = outcome(policy, &machine(1, 1000), &workload, 20 * S, tunables);
    assert!(result.wakeup_latency_ns.count > 150, "{:?}", result.wakeup_latency_ns);
    result.wakeup_latency_ns
}

/// It preempts the hog at once; with these tunables it mostly waits for longer than that.
pub fn assert_a_long_sleeper_preempts_but_with(
    policy: &str,
    tunables: &[(&str, i64)],
    late_ns: u64,
) {
    let usual = wait_of_a_long_sleeper(policy, &[]);
    assert!(usual.p99 < 100 * US, "{policy}: {usual:?}");
    let late = wait_of_a_long_sleeper(policy, tunables);
    assert!(late.p50 > late_ns, "{policy}: {late:?}");
}

/// One wakes so many tasks one after the other, and is not preempted before it has woken all: for
/// each time whether the last of them runs before the first.
pub fn last_woken_goes_first(policy: &str, nr: u32, rules: &[(&str, i64)]) -> Vec<bool> {
    let wakes: Vec<Op> = (0..nr).map(|gate| Op::Wake { gate }).collect();
    let waker = task("waker", 0, forever(&[&[sleep(20 * MS)], &wakes[..], &[run(MS)]].concat()));
    let woken =
        |gate| task(&format!("woken{gate}"), 0, forever(&[Op::Wait { gate }, run(100 * US)]));
    let workload = together([waker].into_iter().chain((0..nr).map(woken)).collect());
    let tunables = [&[("wakeup_granularity_ns", 1_000_000_000)], rules].concat();
    let result = outcome(policy, &machine(1, 1000), &workload, S, &tunables);
    let [first, last] = [0, nr - 1].map(|gate| stays(&result, &format!("woken{gate}")));
    assert!(first.len() > 40);
    // The very first stays are those of the start.
    first.iter().zip(&last).skip(1).map(|(first, last)| last.0 < first.0).collect()
}

/// Three hogs have two thirds of a CPU each, but for so small a part, by so many migrations a
/// second.
pub fn assert_three_hogs_on_two_cpus_rotate(policy: &str, tolerance: f64, a_second: [f64; 2]) {
    let workload = together(vec![hog("a", 0), hog("b", 0), hog("c", 0), noise()]);
    let result = outcome(policy, &machine(2, 1000), &workload, 60 * S, &[]);
    for name in ["a", "b", "c"] {
        let got = share(&result, name);
        assert!((got * 1.5 - 1.0).abs() < tolerance, "{name}: {got}");
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
pub fn pick_cost_ns(policy: &str, nr_hogs: usize, tunables: &[(&str, i64)]) -> f64 {
    let mut machine = machine(1, 1000);
    machine.costs.scan_miss_ns = machine.costs.scan_step_ns;
    let mut tasks = vec![hog("hog", 0); nr_hogs];
    tasks.push(sleeper(-20, MS, 10 * US));
    let result = outcome(policy, &machine, &together(tasks), 10 * S, tunables);
    result.cpu_time_ns.scheduler as f64 / result.switches as f64
}

/// A pick costs the same with so few hogs and with 200.
pub fn assert_a_pick_costs_the_same(policy: &str, few: usize) {
    let (few, many) = (pick_cost_ns(policy, few, &[]), pick_cost_ns(policy, 200, &[]));
    assert!((many / few - 1.0).abs() < 0.02, "{few} {many}");
}

/// Ticks of the usual turn of so many equal hogs on one of so many CPUs.
pub fn turn_ticks(
    policy: &str,
    nr_hogs: u64,
    (nr_cpus, hz): (usize, u32),
    tunables: &[(&str, i64)],
) -> u64 {
    let workload = together(vec![pinned(hog("hog", 0), 0); nr_hogs as usize]);
    let result = outcome(policy, &machine(nr_cpus, hz), &workload, 5 * S, tunables);
    usual_stay_ticks(&result, "hog", hz)
}

/// The mean turn of n equal hogs is n / (n - 1) granularities, to the next tick of 0.1 ms and with
/// the switch.
pub fn assert_turns_are_n_to_n_minus_1_granularities(policy: &str, granularity_ns: u64) {
    for nr in [2_u64, 3, 4, 8] {
        let workload = together(vec![hog("hog", 0); nr as usize]);
        let result = outcome(policy, &machine(1, 10_000), &workload, 10 * S, &[]);
        let mean_ns = 10 * S / stays(&result, "hog").len() as u64;
        let expected_ns = granularity_ns * nr / (nr - 1);
        let bounds_ns = expected_ns..=expected_ns + 110 * US;
        assert!(bounds_ns.contains(&mean_ns), "{nr} hogs: {mean_ns} in {bounds_ns:?}");
    }
}

/// The longest wait of each of so many equal hogs on one CPU. In the first second, which does not
/// count, the debits of new tasks are still being paid.
pub fn longest_waits_ns(
    policy: &str,
    nr_hogs: u64,
    hz: u32,
    tunables: &[(&str, i64)],
) -> impl Iterator<Item = u64> {
    let names: Vec<String> = (0..nr_hogs).map(|i| format!("hog{i}")).collect();
    let workload = together(names.iter().map(|name| hog(name, 0)).collect());
    let result = outcome(policy, &machine(1, hz), &workload, 10 * S, tunables);
    names.into_iter().map(move |name| longest_gap_ns(&result, &name, S))
}

/// Whether a new child ends before its parent goes on.
pub fn child_ends_first(policy: &str, tunables: &[(&str, i64)]) -> bool {
    let parent = task("parent", 0, once(&[run(MS), Op::Fork { template: 1 }, run(MS)]));
    let workload = workload_of(vec![parent, task("child", 0, once(&[run(100 * US)]))], 1);
    let result = outcome(policy, &machine(1, 1000), &workload, S, tunables);
    group(&result, "child").last_exit_ns < group(&result, "parent").last_exit_ns
}

/// How long so many equal jobs would take on two CPUs if none was ever idle beside jobs that wait,
/// and how much longer they take.
pub fn ideal_and_lost_ns(
    policy: &str,
    hz: u32,
    (nr_jobs, work_ns): (u64, u64),
    tunables: &[(&str, i64)],
) -> (u64, u64) {
    let jobs = vec![task("job", 0, once(&[run(work_ns)])); nr_jobs as usize];
    let result = outcome(policy, &machine(2, hz), &together(jobs), 100 * S, tunables);
    let ideal_ns = (work_ns * nr_jobs).div_ceil(2).max(work_ns);
    (ideal_ns, result.makespan_ns - ideal_ns)
}

/// 1 to 9 jobs of 150 ms take these times the ideal time on two CPUs; long jobs take that.
pub fn assert_jobs_on_two_cpus_take(policy: &str, hz: u32, short: [f64; 9], tolerance: f64) {
    for (nr_jobs, expected) in (1..).zip(short) {
        for (work_ns, expected) in [(150 * MS, expected), (3 * S, 1.0)] {
            let (ideal_ns, lost_ns) = ideal_and_lost_ns(policy, hz, (nr_jobs, work_ns), &[]);
            let ratio = 1.0 + lost_ns as f64 / ideal_ns as f64;
            assert!((ratio - expected).abs() < tolerance, "{nr_jobs} of {work_ns} ns: {ratio}");
        }
    }
}

/// A newly idle CPU that pulls leaves no CPU idle beside waiting jobs. One is idle at the end: busy
/// CPUs balance after 256 ms first, and jobs that shared a CPU until then are 128 ms behind.
pub fn assert_a_newly_idle_cpu_pulls(policy: &str, tunables: &[(&str, i64)]) {
    for nr_jobs in 1..=9 {
        let (ideal_ns, lost_ns) = ideal_and_lost_ns(policy, 1000, (nr_jobs, 3 * S), tunables);
        let most_ns = ideal_ns / 100 + 128 * MS;
        assert!(lost_ns < most_ns, "{nr_jobs} jobs: {lost_ns} more than {ideal_ns} ns");
    }
}
