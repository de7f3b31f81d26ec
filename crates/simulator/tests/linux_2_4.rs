//! Goal: `linux_2_4` shows what the scheduler of Linux 2.4.18 is known to do.
//! Method: closed forms (ticks granted to nice values, goodness) on hogs, sleepers, forks and
//! yields; and mechanisms switched off by a tunable or left without a cause.

use crate::support::*;
use scenario::workload::{Op, TaskTemplate, Workload};
use simulator::RunResult;

/// The tick rate of Linux 2.4 on i386, and its tick.
const HZ: u32 = 100;
const TICK_NS: u64 = 10 * MS;
/// Switches, ticks and walks over a short list between two stays.
const OVERHEAD_NS_MAX: u64 = 50 * US;

/// Ticks that an epoch grants to a nice value at 100 Hz.
fn granted_ticks(nice: i8) -> u64 {
    ((20 - i64::from(nice)) as u64 >> 2) + 1
}

/// A task with an address space of its own.
fn process(template: TaskTemplate) -> TaskTemplate {
    TaskTemplate { address_space: None, ..template }
}

/// The first stay of the tasks of one name.
fn first_stay_ns(result: &RunResult, name: &str) -> u64 {
    let (start_ns, end_ns, _) = stays(result, name)[0];
    end_ns - start_ns
}

/// Whether `ns` is this many ticks, less what remained of a tick when the task began.
fn is_ticks(ns: u64, ticks: u64) -> bool {
    ns <= ticks * TICK_NS && ns > (ticks - 1) * TICK_NS
}

#[test]
fn equal_hogs_take_turns_of_60_ms() {
    for nr in [2_u64, 3, 7] {
        for hz in [100, 250, 1000] {
            let got = turn_ticks("linux_2_4", nr, (1, hz), &[]);
            assert_eq!(got, 60 * u64::from(hz) / 1000, "{hz} Hz");
            let others_ns = (nr - 1) * 60 * MS;
            for wait_ns in longest_waits_ns("linux_2_4", nr, hz, &[]) {
                assert!(wait_ns.abs_diff(others_ns) <= MS, "{nr} hogs at {hz} Hz: {wait_ns}");
            }
        }
    }
}

#[test]
fn shares_are_the_ticks_of_the_nice_values() {
    for (a, b) in [(0, 0), (0, 1), (0, 5), (0, 10), (0, 19), (-20, 0), (-20, 19)] {
        let workload = together(vec![hog("a", a), hog("b", b)]);
        let result = outcome("linux_2_4", &machine(1, HZ), &workload, 60 * S, &[]);
        let (ticks_a, ticks_b) = (granted_ticks(a) as f64, granted_ticks(b) as f64);
        let expected = ticks_b / (ticks_a + ticks_b);
        let got = share(&result, "b") / (share(&result, "a") + share(&result, "b"));
        assert!((got / expected - 1.0).abs() < 0.01, "nice {a} and {b}: {got} for {expected}");
    }
}

#[test]
fn ticks_granted_follow_the_tick_as_they_followed_hz() {
    for (tick_ns, slice_ms) in [(10_000_000, 60), (4_000_000, 44), (2_000_000, 42), (1_000_000, 41)]
    {
        let got = turn_ticks("linux_2_4", 2, (1, 1000), &[("tick_ns", tick_ns)]);
        assert_eq!(got, slice_ms, "tick of {tick_ns} ns");
    }
}

#[test]
fn in_an_epoch_the_lower_nice_value_runs_first() {
    let nices = [("ten", 10), ("zero", 0), ("minus", -10)];
    let workload = together(nices.iter().map(|(name, nice)| hog(name, *nice)).collect());
    let result = outcome("linux_2_4", &machine(1, HZ), &workload, 10 * S, &[]);
    let mut starts: Vec<(u64, &str)> = Vec::new();
    for (name, _) in nices {
        starts.extend(stays(&result, name).iter().map(|(start, _, _)| (*start, name)));
    }
    starts.sort_unstable();
    let order: Vec<&str> =
        starts.iter().map(|(_, name)| *name).skip_while(|name| *name != "minus").collect();
    assert!(order.len() > 100, "{}", order.len());
    for epoch in order.chunks_exact(3).skip(1) {
        assert_eq!(epoch, ["minus", "zero", "ten"]);
    }
}

#[test]
fn nobody_waits_longer_than_the_ticks_of_all_others_and_one_burst_of_a_sleeper() {
    let others = [("minus", -20), ("ten", 10), ("nineteen", 19)];
    let mut tasks: Vec<TaskTemplate> = others.iter().map(|(name, nice)| hog(name, *nice)).collect();
    tasks.push(hog("zero", 0));
    let gap_ns = |tasks: &[TaskTemplate]| {
        let workload = together(tasks.to_vec());
        let result = outcome("linux_2_4", &machine(1, HZ), &workload, 60 * S, &[]);
        longest_gap_ns(&result, "zero", S)
    };
    let counters_ns: u64 = others.iter().map(|(_, nice)| granted_ticks(*nice) * TICK_NS).sum();
    let got_ns = gap_ns(&tasks);
    assert!(got_ns.abs_diff(counters_ns) < MS, "{got_ns} for {counters_ns}");
    // Asleep through 3 epochs it has collected 11 ticks, and uses 10 of them at once. A tick that
    // it begins or ends within is charged to whoever runs at its end.
    tasks.push(sleeper(0, 697 * MS + 300 * US, 100 * MS));
    let got_ns = gap_ns(&tasks);
    let bounds_ns = counters_ns + 100 * MS - TICK_NS..=counters_ns + 100 * MS + TICK_NS;
    assert!(bounds_ns.contains(&got_ns), "{got_ns} in {bounds_ns:?}");
}

#[test]
fn who_ends_an_epoch_begins_the_next_if_it_has_its_own_address_space() {
    let workload = together(vec![process(hog("a", 0)), process(hog("b", 0))]);
    let result = outcome("linux_2_4", &machine(1, HZ), &workload, 5 * S, &[]);
    assert_eq!(usual_stay_ticks(&result, "a", HZ), 12);
    assert_eq!(usual_stay_ticks(&result, "b", HZ), 12);
}

#[test]
fn a_sleeper_that_has_collected_ticks_preempts_a_hog_at_once() {
    let workload = together(vec![hog("hog", 0), sleeper(0, 197 * MS + 300 * US, MS)]);
    let result = outcome("linux_2_4", &machine(1, HZ), &workload, 20 * S, &[]);
    assert!(result.wakeup_latency_ns.count > 90, "{:?}", result.wakeup_latency_ns);
    assert!(result.wakeup_latency_ns.p99 < 100 * US, "{:?}", result.wakeup_latency_ns);
}

#[test]
fn the_nice_value_counts_beside_the_ticks() {
    // Nice 10 collects 5 ticks and has 5 + 10; the hog, even with its last tick, 1 + 20.
    let workload = together(vec![hog("hog", 0), sleeper(10, 997 * MS + 300 * US, MS)]);
    let result = outcome("linux_2_4", &machine(1, HZ), &workload, 100 * S, &[]);
    let latency = result.wakeup_latency_ns;
    // What the hog has left: any part of 60 ms, in a sample of a hundred.
    assert!((20 * MS..40 * MS).contains(&latency.p50), "{latency:?}");
    assert!((50 * MS..61 * MS).contains(&latency.max), "{latency:?}");
}

#[test]
fn sleeping_through_epochs_collects_less_than_two_grants() {
    // 6, 9, 10, 11, 11: what counter / 2 + 6 converges to.
    let sleeper = task("sleeper", 0, once(&[sleep(2 * S), run(S)]));
    let workload = together(vec![hog("hog", 0), sleeper]);
    let result = outcome("linux_2_4", &machine(1, HZ), &workload, 4 * S, &[]);
    let long = stays(&result, "sleeper").into_iter().find(|(start, _, _)| *start > S);
    let (start, end, _) = long.expect("it wakes up");
    assert!(is_ticks(end - start, 11), "{}", end - start);
}

#[test]
fn parent_and_child_share_the_parents_ticks() {
    let parent = task("parent", 0, once(&[Op::Fork { template: 1 }, run(5 * S)]));
    let workload = workload_of(vec![parent, hog("child", 0)], 1);
    let result = outcome("linux_2_4", &machine(1, HZ), &workload, 60 * MS, &[]);
    // 6 ticks become 3 and 3, the first epoch.
    assert!(is_ticks(first_stay_ns(&result, "parent"), 3), "{:?}", stays(&result, "parent"));
    assert!(is_ticks(group(&result, "child").run_ns, 3), "{:?}", group(&result, "child"));
}

#[test]
fn a_childs_ticks_return_to_its_parent_up_to_a_limit() {
    let fork = Op::Fork { template: 1 };
    let parent = task("parent", 0, once(&[fork, Op::Join, fork, Op::Join, run(5 * S)]));
    let child = task("child", 0, once(&[run(US)]));
    let templates = vec![parent, child, hog("rival", 0)];
    let mut workload = workload_of(templates, 1);
    workload.initial.push(scenario::workload::InitialTask { template: 2, start_at_ns: 5 * MS });
    let first_long_stay_ns = |tunables: &[(&str, i64)]| {
        let result = outcome("linux_2_4", &machine(1, HZ), &workload, S, tunables);
        let stays = stays(&result, "parent");
        stays.iter().map(|(start, end, _)| end - start).find(|ns| *ns > TICK_NS).expect("it runs")
    };
    assert!(is_ticks(first_long_stay_ns(&[]), 6), "{}", first_long_stay_ns(&[]));
    let limit = [("counter_max_ns", 40_000_000)];
    assert!(is_ticks(first_long_stay_ns(&limit), 4), "{}", first_long_stay_ns(&limit));
}

#[test]
fn who_yields_loses_even_to_the_exhausted() {
    let yielder = task("yielder", 0, forever(&[run(MS), Op::Yield]));
    let workload = together(vec![hog("hog", 0), yielder]);
    let result = outcome("linux_2_4", &machine(1, HZ), &workload, 20 * S, &[]);
    // A millisecond for each 60 of the hog.
    let got = share(&result, "yielder");
    assert!((got * 61.0 - 1.0).abs() < 0.02, "{got}");
    assert_eq!(usual_stay_ticks(&result, "hog", HZ), 6);
}

#[test]
fn who_yields_alone_goes_on() {
    let yielder = task("yielder", 0, forever(&[run(MS), Op::Yield]));
    let result = outcome("linux_2_4", &machine(2, HZ), &together(vec![yielder]), S, &[]);
    assert_eq!(result.switches, 1);
}

#[test]
fn a_cpu_with_none_but_a_yielder_ends_no_epoch() {
    // It yields 3 ms after each tick and sleeps through the next, so it uses up no ticks itself. If
    // its yields ended epochs, the hogs on the other CPU would have new ticks each 10 ms.
    let rounds = times(490, &[run(MS), Op::Yield, sleep(9 * MS)]);
    let yielder = pinned(task("yielder", 0, rounds), 0);
    let mut workload = together(vec![yielder, pinned(hog("a", 0), 1), pinned(hog("b", 0), 1)]);
    workload.initial[0].start_at_ns = 2 * MS;
    let result = outcome("linux_2_4", &costless(2, HZ), &workload, 5 * S, &[]);
    for name in ["a", "b"] {
        assert_eq!(usual_stay_ticks(&result, name, HZ), 6, "{name}");
    }
    assert_eq!(group(&result, "yielder").run_ns / MS, 490);
}

#[test]
fn an_epoch_that_another_cpu_ends_leaves_a_running_task_half_of_its_ticks() {
    let names = ["a", "b", "c"];
    let workload = together(names.map(|name| hog(name, 0)).to_vec());
    let result = outcome("linux_2_4", &costless(2, HZ), &workload, 2 * S, &[]);
    // The first two run out at 60 ms. One CPU takes the third; the other finds none but the
    // exhausted and ends the epoch, when the third has just begun: 6 / 2 + 6 ticks. Then it is the
    // third's CPU that finds none, and the third has 6 more and is better there than the other.
    let third = names.into_iter().find(|name| stays(&result, name)[0].0 > 0).expect("one waits");
    assert_eq!(first_stay_ns(&result, third), (9 + 6) * TICK_NS, "{:?}", stays(&result, third));
    for name in names {
        let gap_ns = longest_gap_ns(&result, name, 0);
        assert!(gap_ns >= 6 * TICK_NS, "who waits alternates: {name} {gap_ns}");
    }
}

#[test]
fn three_hogs_on_two_cpus_get_two_thirds_each() {
    let names = ["a", "b", "c"];
    for separate in [false, true] {
        let hogs = names.iter().map(|name| TaskTemplate {
            address_space: if separate { None } else { Some(0) },
            ..hog(name, 0)
        });
        let workload = together(hogs.collect());
        let result = outcome("linux_2_4", &machine(2, HZ), &workload, 60 * S, &[]);
        for name in names {
            let got = share(&result, name);
            assert!((got - 2.0 / 3.0).abs() < 0.02, "{name}: {got}");
        }
    }
}

/// Elapsed time by the ideal one of 1 to 9 jobs of 150 ms, from a model of ticks and goodness.
const ELAPSED_TO_IDEAL: [f64; 9] = [1.0, 1.0, 1.07, 1.0, 1.04, 1.0, 1.03, 1.0, 1.02];

#[test]
fn hogs_on_two_cpus_end_near_the_ideal_time() {
    assert_jobs_on_two_cpus_take("linux_2_4", HZ, ELAPSED_TO_IDEAL, 0.03);
}

#[test]
fn a_wake_up_takes_an_idle_cpu_rather_than_preempt() {
    let workload = together(vec![hog("hog", 0), sleeper(-20, 7 * MS, MS)]);
    let result = outcome("linux_2_4", &machine(2, HZ), &workload, 10 * S, &[]);
    assert_eq!(group(&result, "hog").switches, 1);
    assert!(group(&result, "sleeper").migrations <= 1, "{:?}", group(&result, "sleeper"));
    assert!(result.wakeup_latency_ns.p99 < OVERHEAD_NS_MAX, "{:?}", result.wakeup_latency_ns);
}

#[test]
fn a_wake_up_prefers_the_cpu_it_ran_on_then_the_one_idle_for_longest() {
    let blip = |name: &str, cpu| pinned(task(name, 0, once(&[run(MS)])), cpu);
    let sleeper =
        task("sleeper", 0, once(&[run(MS), sleep(50 * MS), run(MS), sleep(50 * MS), run(MS)]));
    let late_hog = pinned(hog("hog", -20), 0);
    let mut workload =
        together(vec![sleeper, blip("two", 2), blip("one", 1), blip("three", 3), late_hog]);
    for (initial, ms) in workload.initial.iter_mut().zip([20, 5, 10, 15, 90]) {
        initial.start_at_ns = ms * MS;
    }
    let result = outcome("linux_2_4", &machine(4, HZ), &workload, S, &[]);
    let cpus: Vec<u32> = stays(&result, "sleeper").iter().map(|(_, _, cpu)| *cpu).collect();
    assert_eq!(cpus, [0, 0, 2]);
}

#[test]
fn the_affinity_bonus_keeps_tasks_on_their_cpus() {
    let mut tasks: Vec<TaskTemplate> = (0..4).map(|_| process(hog("hog", 0))).collect();
    tasks.extend([process(noise()), process(noise())]);
    let workload = together(tasks);
    let migrations = |bonus: i64| {
        let tunables = [("affinity_bonus", bonus)];
        let result = outcome("linux_2_4", &machine(2, HZ), &workload, 30 * S, &tunables);
        group(&result, "hog").migrations
    };
    let (with, without) = (migrations(15), migrations(0));
    assert!(with * 2 < without, "{with} {without}");
}

/// A sender that computes for 5 ms after each message, and a receiver.
fn messages(sync_wakeups: bool) -> Workload {
    let sender = task("sender", 0, forever(&[sleep(3 * MS), SEND, run(5 * MS)]));
    let receiver = task("receiver", 0, forever(&[RECEIVE]));
    with_sync(together(vec![sender, receiver]), sync_wakeups)
}

#[test]
fn a_synchronous_wake_up_tells_no_idle_cpu() {
    for (sync, ns) in [(true, 4_800 * US..5_000 * US), (false, 0..OVERHEAD_NS_MAX)] {
        let result = outcome("linux_2_4", &machine(2, HZ), &messages(sync), S, &[]);
        let receiver = group(&result, "receiver");
        let mean_wait_ns = receiver.wait_ns / receiver.switches;
        assert!(ns.contains(&mean_wait_ns), "sync {sync}: {mean_wait_ns} ns");
    }
}

#[test]
fn a_pick_costs_in_proportion_to_those_who_wait() {
    let [few, some, many] = [20, 40, 80].map(|nr| pick_cost_ns("linux_2_4", nr, &[]));
    let ratio = (many - some) / (some - few);
    assert!((ratio / 2.0 - 1.0).abs() < 0.03, "{few} {some} {many}");
    let per_task_ns = (many - some) / 40.0;
    let step_ns = machine(1, HZ).costs.scan_step_ns as f64;
    assert!((per_task_ns / step_ns - 1.0).abs() < 0.03, "{per_task_ns} for {step_ns}");
}

#[test]
fn a_new_nice_value_counts_from_the_next_epoch_on() {
    // 5 of the first 10 seconds; then 3 ticks of 9.
    assert_a_reniced_hog_has("linux_2_4", 10, 3.0 / 9.0);
}

#[test]
fn a_task_that_blocks_pays_with_its_ticks_for_the_pick_of_the_next() {
    let share_of_prompt_wakeups = |step_ns: u64| {
        let mut machine = machine(1, HZ);
        machine.costs.scan_step_ns = step_ns;
        let mut tasks = vec![hog("hog", 0); 12];
        tasks.push(sleeper(0, 50 * MS, 10 * US));
        let result = outcome("linux_2_4", &machine, &together(tasks), 3 * S, &[]);
        let stays = stays(&result, "sleeper");
        // Whoever is not let in at once waits for the end of a hog's turn of 60 ms or more.
        let prompt = stays.windows(2).filter(|pair| pair[1].0 - pair[0].1 < 80 * MS).count();
        prompt as f64 / stays.len() as f64
    };
    // 12 steps of 1 ms are a tick or two for each sleep, although the sleeper hardly runs.
    let (cheap, dear) = (share_of_prompt_wakeups(0), share_of_prompt_wakeups(MS));
    assert!(cheap > 0.9 && dear < 0.7, "{cheap} with cheap picks, {dear} with dear ones");
}

/// Three CPUs: on the first tasks yield to each other, so that their long walks hold the lock
/// nearly all the time; on the second one sends a message each ms; on the third they are read.
fn receiver_beside_walks(one_lock: bool) -> RunResult {
    let mut machine = machine(3, HZ);
    machine.costs.scan_step_ns = 50 * US;
    if one_lock {
        machine.one_lock.insert("linux_2_4".to_owned());
    }
    let mut tasks: Vec<TaskTemplate> =
        (0..40).map(|_| pinned(task("yields", 0, forever(&[run(US), Op::Yield])), 0)).collect();
    tasks.push(pinned(task("sender", 0, forever(&[run(MS), SEND])), 1));
    tasks.push(pinned(task("receiver", 0, forever(&[RECEIVE])), 2));
    let workload = with_sync(together(tasks), false);
    outcome("linux_2_4", &machine.with_digest(), &workload, S, &[])
}

#[test]
fn whom_a_message_reaches_before_it_has_the_lock_does_not_sleep() {
    let [apart, one] = [false, true].map(receiver_beside_walks);
    let sleeps = |result: &RunResult| group(result, "receiver").switches;
    assert!(sleeps(&apart) > 100 && sleeps(&one) < 10, "{} {}", sleeps(&apart), sleeps(&one));
    assert!(one.messages > 400 && apart.messages > 400, "both read on");
}
