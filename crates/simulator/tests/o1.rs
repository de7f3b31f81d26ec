//! Goal: `o1` shows what the O(1) scheduler of Linux 2.6.0, and where a test says so the one of
//! 2.6.22, is known to do.
//! Method: closed forms (slices, bonuses, shares) on hogs, sleepers, forks and yields; and
//! mechanisms switched off by a tunable.

use crate::support::*;
use scenario::builder::ProgramBuilder;
use scenario::workload::{Amount, InitialTask, Op, Repeat, TaskTemplate, Workload};
use simulator::RunResult;

/// The tick rate of Linux 2.6.0 on i386.
const HZ: u32 = 1000;
/// The tick rate of Linux 2.6.22 on i386.
const HZ_2_6_22: u32 = 250;
/// Switches, ticks and wake-ups between two stays.
const OVERHEAD_NS_MAX: u64 = 50 * US;

/// Milliseconds of a time slice of Linux 2.6.0.
fn slice_ms(nice: i64) -> u64 {
    (10 + 190 * (19 - nice) / 39) as u64
}

/// Milliseconds of a time slice of Linux 2.6.22, in whole ticks of 4 ms.
fn slice_ms_2_6_22(nice: i64) -> u64 {
    let ms = if nice < 0 { 20 * (20 - nice) } else { 5 * (20 - nice) };
    (ms.max(5) / 4 * 4) as u64
}

/// First stays of the tasks of one name, in ms rounded to the nearest.
fn stays_ms(result: &RunResult, name: &str) -> Vec<u64> {
    stays(result, name).iter().map(|(start, end, _)| (end - start + MS / 2) / MS).collect()
}

/// What part of what these two had the second one had.
fn part_of_second(result: &RunResult, first: &str, second: &str) -> f64 {
    share(result, second) / (share(result, first) + share(result, second))
}

#[test]
fn hogs_alternate_in_whole_slices_of_their_nice_values() {
    for nice in [-20, -10, -5, -1, 0, 1, 5, 10, 19] {
        let workload = together(vec![hog("a", nice), hog("b", nice)]);
        let result = outcome("o1", &machine(1, HZ), &workload, 10 * S, &[]);
        assert_eq!(usual_stay_ticks(&result, "a", HZ), slice_ms(nice.into()), "nice {nice}");
        let result = outcome("o1@2.6.22", &machine(1, HZ_2_6_22), &workload, 20 * S, &[]);
        let got_ms = 4 * usual_stay_ticks(&result, "a", HZ_2_6_22);
        assert_eq!(got_ms, slice_ms_2_6_22(nice.into()), "nice {nice} in 2.6.22");
    }
    // As published for the two releases.
    assert_eq!((slice_ms(-20), slice_ms(0), slice_ms(19)), (200, 102, 10));
    assert_eq!((slice_ms_2_6_22(-20), slice_ms_2_6_22(0)), (800, 100));
}

/// What two hogs have, as percent of the second: published slices of each release, in ticks of 1
/// ms.
#[test]
fn shares_are_those_of_each_release() {
    let ticks_of_1_ms = [("patch_level", 22), ("tick_ns", MS as i64)];
    for (a, b, in_2_6_0, in_2_6_22) in [
        (0, 1, 48.7, 48.7),
        (0, 5, 43.3, 42.9),
        (0, 10, 34.2, 33.3),
        (0, 19, 8.93, 4.76),
        (-5, 0, 44.7, 16.7),
        (-20, 0, 33.8, 11.1),
    ] {
        for (tunables, expected) in [(&[][..], in_2_6_0), (&ticks_of_1_ms[..], in_2_6_22)] {
            let workload = together(vec![hog("a", a), hog("b", b)]);
            let result = outcome("o1", &machine(1, HZ), &workload, 100 * S, tunables);
            let got = 100.0 * part_of_second(&result, "a", "b");
            let said = format!("nice {a} and {b}, {tunables:?}");
            assert!((got / expected - 1.0).abs() < 0.01, "{said}: {got} % for {expected} %");
        }
    }
}

#[test]
fn a_task_that_slept_long_preempts_hogs_at_once() {
    let workload = together(vec![hog("a", 0), hog("b", 0), sleeper(0, 197 * MS + 300 * US, MS)]);
    let result = outcome("o1", &machine(1, HZ), &workload, 60 * S, &[]);
    assert!(result.wakeup_latency_ns.count > 300, "{:?}", result.wakeup_latency_ns);
    assert!(result.wakeup_latency_ns.p99 < 50 * US, "{:?}", result.wakeup_latency_ns);
}

#[test]
fn bonuses_span_ten_levels() {
    // A sleeper stands 5 levels better than its nice value, a hog 5 worse. Only better preempts.
    for (nice, preempts) in [(9, true), (10, false)] {
        let rarely = sleeper(nice, 297 * MS + 300 * US, MS);
        let workload = together(vec![hog("a", 0), hog("b", 0), rarely]);
        let result = outcome("o1", &machine(1, HZ), &workload, 30 * S, &[]);
        let late = result.wakeup_latency_ns.p50 > 10 * MS;
        assert_eq!(!late, preempts, "nice {nice}: {:?}", result.wakeup_latency_ns);
    }
}

#[test]
fn an_interactive_task_stays_active_until_it_has_used_up_its_bonus() {
    let sleeper = task("sleeper", 0, once(&[sleep(2 * S), run(S)]));
    let workload = together(vec![hog("hog", 0), sleeper]);
    let result = outcome("o1", &machine(1, HZ), &workload, 6 * S, &[]);
    // A long sleep gives 1020 - 102 ms. Run time counts whenever the task takes its turn (each 10
    // ms at bonus 9, 20 at 8, 40 at 7): at slice ends 838 and 776 ms are left, bonuses 8 and 7,
    // and it stays active; with 674, bonus 6, it expires. The hog waits for three slices.
    let gap_ms = longest_gap_ns(&result, "hog", S) / MS;
    assert!((305..=306).contains(&gap_ms), "{gap_ms}");
}

#[test]
fn in_2_6_22_one_long_sleep_makes_a_task_just_interactive() {
    let sleeper = task("sleeper", 0, once(&[sleep(2 * S), run(S)]));
    let workload = together(vec![hog("hog", 0), sleeper]);
    let result = outcome("o1@2.6.22", &machine(1, HZ_2_6_22), &workload, 6 * S, &[]);
    // 796 ms, bonus 7: a run costs a seventh, and counts each 40 ms and at slice ends, but for the
    // last 60 ms of the slice that is just ending. After 8 slices 796 - 740 / 7 is below 700. It
    // begins between two ticks.
    let gap_ms = longest_gap_ns(&result, "hog", S) / MS;
    assert!((796..=804).contains(&gap_ms), "{gap_ms}");
}

/// In ticks of 1 ms, and without credit for waiting, so that only sleep counts.
const ONLY_SLEEP_COUNTS: [(&str, i64); 3] =
    [("patch_level", 22), ("tick_ns", 1_000_000), ("on_runqueue_percent", 0)];

/// Among tasks of 2.6.22 a sleeper preempts a hog if its bonus is above its distance in nice
/// values.
#[test]
fn in_2_6_22_whoever_sleeps_more_than_half_of_the_time_climbs_to_the_highest_bonus() {
    let latency_ns = |sleep_ms: u64, nice: i8| {
        let rounds = forever(&[sleep(sleep_ms * MS + 300 * US), run((100 - sleep_ms) * MS)]);
        let workload = together(vec![hog("hog", 0), task("sleeper", nice, rounds)]);
        let result = outcome("o1", &machine(1, HZ), &workload, 120 * S, &ONLY_SLEEP_COUNTS);
        result.wakeup_latency_ns.p50
    };
    // Bonus 9 or 10 in the end; without it nice 0 is as good as the hog, and waits.
    assert!(latency_ns(55, 8) < 50 * US, "{}", latency_ns(55, 8));
    assert!(latency_ns(45, 0) > 10 * MS, "{}", latency_ns(45, 0));
}

/// Collects the highest bonus in 5 s, and then computes for `busy_ms` of each 50 ms.
fn interactive_at_first(busy_ms: u64) -> TaskTemplate {
    let mut program = ProgramBuilder::new();
    program.begin(Repeat::Times(Amount::Fixed(500)));
    program.push(sleep(9 * MS)).push(run(MS)).end();
    program.begin(Repeat::Forever);
    program.push(sleep((50 - busy_ms) * MS)).push(run(busy_ms * MS)).end();
    task("interactive", 0, program.build())
}

#[test]
fn in_2_6_22_the_highest_bonus_is_kept_by_sleeping_a_tenth_of_the_time() {
    let latency_ns_p99 = |busy_ms| {
        // Only a bonus of 9 or 10 is better than a hog of nice -8.
        let mut workload = together(vec![hog("hog", -8), interactive_at_first(busy_ms)]);
        workload.initial[0].start_at_ns = 6 * S;
        let result = outcome("o1", &machine(1, HZ), &workload, 66 * S, &ONLY_SLEEP_COUNTS);
        result.wakeup_latency_ns.p99
    };
    assert!(latency_ns_p99(44) < 50 * US, "12 % keep it: {}", latency_ns_p99(44));
    assert!(latency_ns_p99(46) > 100 * MS, "8 % lose it: {}", latency_ns_p99(46));
}

#[test]
fn interactive_tasks_of_one_priority_take_short_turns() {
    let sleeper = |name: &str| task(name, 0, once(&[sleep(2 * S), run(S)]));
    let workload = together(vec![sleeper("a"), sleeper("b")]);
    for nr_cpus in [1, 2] {
        let pinned_here = Workload {
            templates: workload.templates.iter().map(|kind| pinned(kind.clone(), 0)).collect(),
            ..workload.clone()
        };
        let result = outcome("o1", &machine(nr_cpus, HZ), &pinned_here, 4 * S, &[]);
        // Bonus 9 with 918 ms: 10 ms for each CPU of the machine.
        let turn_ms = 10 * nr_cpus as u64;
        let first: Vec<u64> = stays_ms(&result, "a")[1..3].to_vec();
        assert_eq!(first, [turn_ms, turn_ms], "{nr_cpus} CPUs: {:?}", stays_ms(&result, "a"));
    }
}

#[test]
fn interactive_tasks_cannot_starve_the_expired_for_good() {
    let nr = 20;
    let busy = task("busy", 0, forever(&[sleep(20 * MS), run(15 * MS)]));
    let mut tasks: Vec<TaskTemplate> = (0..nr).map(|_| busy.clone()).collect();
    tasks.push(hog("hog", 0));
    let result = outcome("o1", &machine(1, HZ), &together(tasks), 100 * S, &[]);
    let gap_ns = longest_gap_ns(&result, "hog", S);
    assert!(gap_ns > 2 * S, "{gap_ns}: nothing starves here");
    // Until the first slice ends, at most a slice of each; then 1.02 s for each runnable task;
    // then each uses up what it has of a slice.
    assert!(gap_ns < (nr + 1) * (102 + 1020 + 102) * MS, "{gap_ns}");
}

/// Three tasks of nice -20, which a third of sleep keeps interactive, and which want the CPU for
/// more than all of the time: but for the limit, nobody who has expired would run again.
#[test]
fn the_expired_wait_for_1_02_s_a_runnable_task_and_for_the_slices_then_running() {
    let busy = task("busy", -20, forever(&[sleep(10 * MS), run(20 * MS)]));
    let workload = together(vec![busy.clone(), busy.clone(), busy, hog("hog", 0)]);
    let result = outcome("o1", &machine(1, HZ), &workload, 60 * S, &[]);
    let gap_ns = longest_gap_ns(&result, "hog", 10 * S);
    // Of the four that are runnable one may be asleep when it counts. Before that the first of
    // three slices of 200 ms must end, and after it all of them.
    let limit_ns = |nr_running: u64| nr_running * 1020 * MS;
    assert!((limit_ns(3)..limit_ns(4) + 1200 * MS).contains(&gap_ns), "{gap_ns}");
}

#[test]
fn waiting_for_the_cpu_after_a_wake_up_counts_as_sleep_in_part() {
    // Alone, 0.1 ms of sleep does not outweigh 5 ms of computing.
    let worker = task("worker", 0, forever(&[sleep(100 * US), run(5 * MS)]));
    let workload = together(vec![hog("hog", 0), worker]);
    let latency_ns = |percent: i64| {
        let tunables = [("on_runqueue_percent", percent)];
        outcome("o1", &machine(1, HZ), &workload, 20 * S, &tunables).wakeup_latency_ns.p50
    };
    assert!(latency_ns(30) < 50 * US, "{}", latency_ns(30));
    assert!(latency_ns(0) > MS, "{}", latency_ns(0));
}

#[test]
fn an_interactive_task_expires_if_a_better_nice_value_has() {
    let sleeper = |nice| task("sleeper", nice, once(&[sleep(2 * S), run(S)]));
    // Two slices while bonuses last if nobody stands in the expired array, or only worse ones.
    for (hogs, slices) in [(0, 1), (10, 2)] {
        let workload = together(vec![hog("a", hogs), hog("b", hogs), sleeper(5)]);
        let result = outcome("o1", &machine(1, HZ), &workload, 4 * S, &[]);
        let woken = stays_ms(&result, "sleeper")[1];
        assert_eq!(
            woken,
            slices * slice_ms(5),
            "hogs of nice {hogs}: {:?}",
            stays_ms(&result, "sleeper")
        );
    }
}

#[test]
fn a_child_begins_with_less_of_its_parents_bonus() {
    let parent = task("parent", 0, once(&[sleep(2 * S), Op::Fork { template: 2 }]));
    let workload = workload_of(vec![parent, hog("rival", 0), hog("child", 0)], 2);
    let rival_waits_ms = |percent: i64| {
        let tunables = [("child_penalty_percent", percent)];
        let result = outcome("o1", &machine(1, HZ), &workload, 4 * S, &tunables);
        longest_gap_ns(&result, "rival", S) / MS
    };
    // 8 x 102 ms instead of 918: half of a slice, and two more before the bonus is below 7.
    assert!((254..=255).contains(&rival_waits_ms(95)), "{}", rival_waits_ms(95));
    // Without any bonus the two take turns.
    assert!((101..=102).contains(&rival_waits_ms(0)), "{}", rival_waits_ms(0));
}

#[test]
fn hogs_that_end_make_their_parent_less_interactive() {
    let rival_waits_ms = |nr_children| {
        let mut ops = vec![sleep(2 * S)];
        for _ in 0..nr_children {
            ops.extend([Op::Fork { template: 2 }, Op::Join]);
        }
        ops.push(run(S));
        let child = task("child", 0, once(&[run(100 * US)]));
        let tasks = vec![task("parent", 0, once(&ops)), hog("rival", 0), child];
        let result = outcome("o1", &machine(1, HZ), &workload_of(tasks, 2), 4 * S, &[]);
        longest_gap_ns(&result, "rival", S) / MS
    };
    // With bonus 9 three slices before it expires; each child takes about a level away.
    assert!((305..=306).contains(&rival_waits_ms(0)), "{}", rival_waits_ms(0));
    assert!(rival_waits_ms(4) < 110, "{}", rival_waits_ms(4));
}

#[test]
fn a_task_that_was_interactive_for_long_may_compute_for_longer() {
    let rival_waits_ms = |nr_wakeups: u64| {
        let mut program = ProgramBuilder::new();
        program.begin(Repeat::Times(Amount::Fixed(nr_wakeups)));
        program.push(sleep(200 * MS)).push(run(MS)).end();
        program.push(run(2 * S)).push(sleep(MS)).push(run(MS));
        let workload = together(vec![hog("rival", 0), task("sleeper", 0, program.build())]);
        let until_ns = (nr_wakeups * 202 + 3000) * MS;
        let result = outcome("o1", &machine(1, HZ), &workload, until_ns, &[]);
        longest_gap_ns(&result, "rival", S) / MS
    };
    assert!(rival_waits_ms(50) < 520, "{}", rival_waits_ms(50));
    // Its credit has passed 100: a run costs it only a part, as in 2.6.22.
    assert!(rival_waits_ms(150) > 1000, "{}", rival_waits_ms(150));
}

#[test]
fn a_child_runs_before_its_parent_with_half_of_the_parents_slice() {
    let parent = task("parent", 0, once(&[Op::Fork { template: 1 }, run(5 * S)]));
    let workload = workload_of(vec![parent, hog("child", 0)], 1);
    let result = outcome("o1", &machine(1, HZ), &workload, 2 * S, &[]);
    assert_eq!(stays_ms(&result, "child")[..2], [51, 102], "{:?}", stays_ms(&result, "child"));
    // The parent has lost the CPU right after the fork.
    assert_eq!(stays_ms(&result, "parent")[..3], [0, 51, 102], "{:?}", stays_ms(&result, "parent"));
    assert!(stays(&result, "child")[0].0 < stays(&result, "parent")[1].0);
}

#[test]
fn each_fork_of_a_burst_halves_what_is_left_of_the_slice_and_stays_on_the_cpu() {
    let ops = [Op::Fork { template: 1 }, Op::Fork { template: 2 }, Op::Fork { template: 3 }];
    let parent = task("parent", 0, once(&[&ops[..], &[run(5 * S)]].concat()));
    let children = ["first", "second", "third"].map(|name| hog(name, 0));
    let workload = workload_of([vec![parent], children.to_vec()].concat(), 1);
    let nobody_pulls = [("idle_balance_ns", 0)];
    let result = outcome("o1", &machine(2, HZ), &workload, S, &nobody_pulls);
    // 102 = 51 + 51, 51 = 26 + 25, 25 = 13 + 12.
    for (name, ms) in [("first", 51), ("second", 26), ("third", 13)] {
        let child = stays(&result, name);
        assert_eq!(stays_ms(&result, name)[0], ms, "{name}: {child:?}");
        assert!(child.iter().all(|stay| stay.2 == child[0].2), "{name}: {child:?}");
    }
    assert_eq!(stays_ms(&result, "parent")[3], 12, "{:?}", stays_ms(&result, "parent"));
}

#[test]
fn a_slice_that_a_child_has_not_used_returns_to_the_parent() {
    let ops = |child: u32| {
        let fork = Op::Fork { template: child };
        once(&[fork, Op::Join, fork, Op::Join, fork, Op::Join, run(5 * S)])
    };
    // A child that sleeps through the measurement keeps what it got.
    let sleepy = once(&[Op::Fork { template: 3 }, Op::Fork { template: 3 }, run(5 * S)]);
    for (program, expected_ms) in [(ops(2), 100..=102), (sleepy, 24..=26)] {
        let parent = task("parent", 0, program);
        let quick = task("quick", 0, once(&[run(US)]));
        let sleepy = task("sleepy", 0, once(&[sleep(10 * S)]));
        let mut workload = workload_of(vec![parent, hog("rival", 0), quick, sleepy], 2);
        workload.initial[1].start_at_ns = 20 * MS;
        let result = outcome("o1", &machine(1, HZ), &workload, S, &[]);
        let expired_ms = stays(&result, "rival")[0].0 / MS;
        assert!(
            expected_ms.contains(&expired_ms),
            "{expired_ms}: {:?}",
            stays_ms(&result, "parent")
        );
    }
}

/// The parent has half of its slice when it waits for the child, and the whole again if what the
/// child has not used comes back.
#[test]
fn in_2_6_22_an_unused_slice_returns_only_on_the_parents_own_cpu() {
    let parent = task("parent", 0, once(&[Op::Fork { template: 2 }, Op::Join, run(5 * S)]));
    let [parent, rival] = [parent, hog("rival", 0)].map(|template| pinned(template, 0));
    // Woken from an idle CPU, as by an interrupt, it is credited with all of its wait: 2.6.0 then
    // gives it a second slice at once.
    for (set, child_cpu, stay_ms) in
        [("o1@2.6.0", 1, 102 + 102), ("o1@2.6.22", 0, 100), ("o1@2.6.22", 1, 48)]
    {
        let child = pinned(task("child", 0, once(&[run(100 * US)])), child_cpu);
        let workload = workload_of(vec![parent.clone(), rival.clone(), child], 2);
        let result = outcome(set, &machine(2, HZ), &workload, 2 * S, &[]);
        let stays = stays_ms(&result, "parent");
        let after_join = stays.iter().find(|ms| **ms > 0);
        assert_eq!(after_join, Some(&stay_ms), "{set}, child on CPU {child_cpu}: {stays:?}");
    }
}

#[test]
fn who_yields_waits_for_all_active_slices_to_end() {
    let yielder = task("yielder", 0, forever(&[run(MS), Op::Yield]));
    let workload = together(vec![hog("a", 0), hog("b", 0), yielder]);
    let result = outcome("o1", &machine(1, HZ), &workload, 20 * S, &[]);
    let gap_ns = longest_gap_ns(&result, "yielder", S);
    assert!((203 * MS..206 * MS).contains(&gap_ns), "{gap_ns}");
    let got = share(&result, "yielder");
    assert!((got * 205.0 - 1.0).abs() < 0.02, "{got}");
}

#[test]
fn who_yields_alone_goes_on() {
    let yielder = task("yielder", 0, forever(&[run(MS), Op::Yield]));
    let result = outcome("o1", &machine(1, HZ), &together(vec![yielder]), S, &[]);
    assert_eq!(result.switches, 1);
}

#[test]
fn idle_cpus_pull_one_task_a_millisecond() {
    let nr = 4;
    let workload = together((0..nr).map(|i| hog(&format!("hog{i}"), 0)).collect());
    let result = outcome("o1", &machine(nr, HZ), &workload, S, &[]);
    for i in 0..nr {
        let got = share(&result, &format!("hog{i}"));
        assert!(got > 0.99, "hog{i}: {got}");
    }
    let begins = |i: usize| stays(&result, &format!("hog{i}"))[0].0;
    let last_ns = (0..nr).map(begins).max().expect("there are hogs");
    assert!((MS..MS + OVERHEAD_NS_MAX).contains(&last_ns), "{last_ns}");
    // With more tasks than CPUs each idle one still takes only one. The second of two would run
    // after a slice of 102 ms, and busy CPUs look after 200 ms.
    let doubled = together(vec![hog("hog", 0); 2 * nr]);
    let result = outcome("o1", &machine(nr, HZ), &doubled, 190 * MS, &[]);
    for cpu in 1..nr as u32 {
        let there: Vec<_> = all_stays(&result).into_iter().filter(|stay| stay.2 == cpu).collect();
        assert!(there.iter().all(|stay| stay.3 == there[0].3), "two came: {there:?}");
    }
    let off = outcome("o1", &machine(nr, HZ), &workload, S, &[("idle_balance_ns", 0)]);
    assert!(share(&off, "hog0") < 0.5, "{}", share(&off, "hog0"));
}

#[test]
fn of_three_hogs_on_two_cpus_one_has_a_cpu_for_itself() {
    assert_three_hogs_on_two_cpus_stay_unequal("o1", &[]);
}

#[test]
fn of_three_jobs_on_two_cpus_one_ends_first_and_the_others_share_the_cpus_then() {
    let names = ["a", "b", "c"];
    let work_ns = 3 * S;
    let workload = together(names.map(|name| task(name, 0, once(&[run(work_ns)]))).to_vec());
    let result = outcome("o1", &machine(2, HZ), &workload, None, &[]);
    let mut ends_ns = names.map(|name| group(&result, name).last_exit_ns);
    ends_ns.sort_unstable();
    // Two share a CPU in slices of 102 ms, so either may be one slice of work ahead.
    for (got_ns, expected_ns) in ends_ns.iter().zip([work_ns, work_ns * 3 / 2, work_ns * 3 / 2]) {
        assert!(got_ns.abs_diff(expected_ns) < 102 * MS, "{ends_ns:?}");
    }
}

#[test]
fn a_busy_cpu_evens_out_an_imbalance_of_two_within_400_ms() {
    let names = ["a", "b", "c", "d"];
    let workload = together(names.iter().map(|name| hog(name, 0)).collect());
    let shares = |tunables: &[(&str, i64)]| {
        let result = outcome("o1", &machine(2, HZ), &workload, 20 * S, tunables);
        let mut shares: Vec<f64> = names.iter().map(|name| share(&result, name)).collect();
        shares.sort_by(f64::total_cmp);
        shares
    };
    // Idle pulling leaves 3 on the first CPU; the second takes one more, seen twice, at 400 ms.
    let usual = shares(&[]);
    assert!(usual[0] > 0.48 && usual[3] < 0.52, "{usual:?}");
    for (tunable, ns) in [("busy_balance_ns", 1 << 40), ("cache_decay_ns", 1 << 40)] {
        let never = shares(&[(tunable, ns)]);
        assert!(never[0] < 0.35 && never[3] > 0.95, "{tunable}: {never:?}");
    }
}

/// Elapsed time by the ideal one of 1 to 9 jobs of 150 ms, from a model of whole slices on CPUs
/// that have half of the jobs each, but for 4. Here all start on one CPU, and 3 stay there: the
/// other CPU has one to its end at 151 ms, then what an expired one has left, 48 ms, and then the
/// last one.
const ELAPSED_TO_IDEAL: [f64; 9] = [1.0, 1.0, 1.11, 349.0 / 300.0, 1.07, 1.0, 1.05, 1.0, 1.04];

#[test]
fn hogs_on_two_cpus_end_near_the_ideal_time() {
    assert_jobs_on_two_cpus_take("o1", HZ, ELAPSED_TO_IDEAL, 0.02);
}

/// A sender and a receiver of one message, which by then are on two CPUs.
fn messages(sync_wakeups: bool) -> Workload {
    let sender = task("sender", 0, once(&[run(50 * MS), sleep(MS), SEND]));
    let receiver = task("receiver", 0, once(&[run(30 * MS), RECEIVE, run(MS)]));
    let mut workload = together(vec![sender, receiver]);
    workload.initial[1] = InitialTask { template: 1, start_at_ns: 5 * MS };
    with_sync(workload, sync_wakeups)
}

#[test]
fn a_wake_up_stays_on_its_cpu_unless_it_is_synchronous() {
    for sync in [false, true] {
        let result = outcome("o1", &machine(2, HZ), &messages(sync), S, &[]);
        let cpus = |name| stays(&result, name).iter().map(|(_, _, cpu)| *cpu).collect::<Vec<_>>();
        let (sender, receiver) = (cpus("sender"), cpus("receiver"));
        let came_to_sender = receiver.last() == sender.last();
        assert_eq!(came_to_sender, sync, "sender on {sender:?}, receiver on {receiver:?}");
    }
}

#[test]
fn a_pick_costs_the_same_however_many_tasks_wait() {
    assert_a_pick_costs_the_same("o1", 5);
}

#[test]
fn a_hog_that_is_reniced_gets_its_new_share_from_then_on() {
    // 5 of the first 10 seconds; then 53 of 155 ms.
    assert_a_reniced_hog_has("o1", 10, 53.0 / 155.0);
}

#[test]
fn an_idle_machine_wakes_tasks_at_once_and_without_migrations() {
    let workload = together(vec![sleeper(0, 7 * MS, MS)]);
    let result = outcome("o1", &machine(4, HZ), &workload, 10 * S, &[]);
    assert_eq!(group(&result, "sleeper").migrations, 0);
    assert!(result.wakeup_latency_ns.p99 < OVERHEAD_NS_MAX, "{:?}", result.wakeup_latency_ns);
}
