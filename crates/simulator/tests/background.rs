//! Goal: interrupts of the background take the time that they say and nothing else, and CPUs
//! compute at the speed of their time. Method: closed forms, times drawn once more from the same
//! stream, the same runs without any of it, ticks one by one, random scenarios under all policies.

use crate::support::*;
use scenario::draw::Random;
use scenario::machine::{Interrupts, Machine, SpeedStep};
use scenario::random_scenario;
use scenario::workload::{Amount, Op, TaskTemplate, Workload};
use simulator::{Options, RunResult};

/// What a task's last system call takes.
const CALL_NS: u64 = 1;

/// The same machine whose CPUs are interrupted for so long, so often on the mean.
fn interrupted(machine: &Machine, cpus: &[u32], every_ns: u64, takes_ns: u64) -> Machine {
    let mut machine = machine.clone();
    let (name, cpus) = ("device".to_owned(), cpus.to_vec());
    machine.interrupts.push(Interrupts { name, cpus, every_ns, takes_ns });
    machine.with_digest()
}

/// The same machine whose CPUs have these speeds from these times on.
fn with_speeds(machine: &Machine, steps: &[(u64, &[u32], u32)]) -> Machine {
    let mut machine = machine.clone();
    let step = |&(at_ns, cpus, permille): &(u64, &[u32], u32)| SpeedStep {
        at_ns,
        cpus: cpus.to_vec(),
        permille,
    };
    machine.speeds = steps.iter().map(step).collect();
    machine.with_digest()
}

/// A task that computes for so long.
fn hog_of(name: &str, ns: u64) -> TaskTemplate {
    task(name, 0, once(&[run(ns)]))
}

/// Such a task, alone.
fn alone(ns: u64) -> Workload {
    together(vec![hog_of("hog", ns)])
}

/// When the first interrupts of the machine's first kind come to a CPU, up to `to_ns`.
fn arrivals_ns(seed: u64, cpu: u32, every_ns: u64, to_ns: u64) -> Vec<u64> {
    let mut random = Random::new(seed, 1 << 63 | u64::from(cpu));
    let mut at_ns = 0;
    let next = || {
        at_ns += Amount::Exponential { mean: every_ns }.draw(&mut random);
        Some(at_ns)
    };
    std::iter::from_fn(next).take_while(|&at_ns| at_ns < to_ns).collect()
}

// ---- interrupts ---------------------------------------------------------------------------------

#[test]
fn a_hog_ends_later_by_what_interrupts_take() {
    let (every_ns, takes_ns) = (MS, 50 * US);
    let machine = interrupted(&costless(1, 1000), &[0], every_ns, takes_ns);
    for seed in 0..20 {
        let result = attempt(&shipped("fifo"), &machine, &alone(S), seed);
        let (nr, spent) = (result.background_interrupts, result.cpu_time_ns);
        assert_eq!(spent.interrupted, nr * takes_ns, "seed {seed}");
        assert_eq!(result.makespan_ns, S + nr * takes_ns + CALL_NS, "seed {seed}");
        assert_eq!((spent.work, spent.idle), (S, 0), "seed {seed}");
        assert_eq!(nr, arrivals_ns(seed, 0, every_ns, result.makespan_ns).len() as u64);
        // So many come of a Poisson process: four standard deviations.
        let expected = result.makespan_ns as f64 / every_ns as f64;
        assert!((nr as f64 - expected).abs() < 4.0 * expected.sqrt(), "seed {seed}: {nr}");
    }
}

#[test]
fn seeds_draw_times_of_their_own() {
    let machine = interrupted(&costless(1, 1000), &[0], MS, 50 * US);
    let digest = |seed| attempt(&shipped("fifo"), &machine, &alone(S), seed).digest;
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn each_cpu_and_each_kind_has_times_of_its_own() {
    let two = costless(2, 1000);
    let hogs = together(vec![pinned(hog("hog", 0), 0), pinned(hog("hog", 0), 1)]);
    let nr = |machine: &Machine| {
        outcome("fifo", machine, &hogs, 2 * S, &[]).background_interrupts as usize
    };
    let [first, second] = [0, 1].map(|cpu| arrivals_ns(1, cpu, MS, 2 * S));
    assert_ne!(first, second);
    let only = interrupted(&two, &[1], MS, US);
    // What comes at the very end may not be over by then.
    assert!(nr(&only).abs_diff(second.len()) <= 1);
    let both = interrupted(&two, &[0, 1], MS, US);
    assert!(nr(&both).abs_diff(first.len() + second.len()) <= 2);
    let more = interrupted(&both, &[1], 10 * MS, US);
    assert!(nr(&more) > nr(&both) + 100);
}

#[test]
fn nothing_else_is_drawn_counted_or_called_because_of_an_interrupt() {
    let run = |mean| Op::Run(Amount::Exponential { mean });
    let ops = [run(3 * MS), Op::Sleep(Amount::Exponential { mean: MS })];
    let workload = together(vec![task("one", 0, times(50, &ops)), task("two", 0, times(50, &ops))]);
    let mut machine = costless(1, 1000);
    machine.costs.hook_ns = 100;
    for seed in 0..5 {
        let [without, with] = [machine.clone(), interrupted(&machine, &[0], MS, 20 * US)]
            .map(|machine| attempt(&shipped("fifo"), &machine, &workload, seed));
        assert!(with.background_interrupts > 100);
        assert_eq!(without.background_interrupts, 0);
        let counts = |result: &RunResult| (result.wakeups, result.interrupts, result.messages);
        assert_eq!(counts(&with), counts(&without), "seed {seed}");
        assert_eq!(with.cpu_time_ns.work, without.cpu_time_ns.work, "seed {seed}");
    }
    let [without, with] = [machine.clone(), interrupted(&machine, &[0], MS, 20 * US)]
        .map(|machine| attempt(&shipped("fifo"), &machine, &alone(S), 1));
    assert_eq!(with.cpu_time_ns.scheduler, without.cpu_time_ns.scheduler);
    assert_eq!((with.switches, with.wakeups), (without.switches, without.wakeups));
}

#[test]
fn a_wake_up_waits_for_the_interrupts_that_it_meets() {
    let (every_ns, takes_ns, sleep_ns) = (20 * MS, 5 * MS, 30 * MS);
    let machine = interrupted(&costless(1, 1000), &[0], every_ns, takes_ns);
    let workload = together(vec![task("sleeper", 0, once(&[sleep(sleep_ns), run(MS)]))]);
    let wakes_ns = CALL_NS + sleep_ns;
    let mut nr_met = 0;
    for seed in 0..60 {
        let options = Options { seed, timeline: true, ..Options::default() };
        let result = attempt_with(&shipped("fifo"), &machine, &workload, &options);
        // One after the other, as each comes or as soon as the one before it is over.
        let before = arrivals_ns(seed, 0, every_ns, wakes_ns).into_iter();
        let free_ns = before.fold(0, |free_ns: u64, at_ns| free_ns.max(at_ns) + takes_ns);
        nr_met += u64::from(free_ns > wakes_ns);
        let stays = stays(&result, "sleeper");
        assert_eq!(stays[1].0, free_ns.max(wakes_ns), "seed {seed}: {stays:?}");
    }
    assert!((5..40).contains(&nr_met), "{nr_met} of 60");
}

#[test]
fn an_idle_cpu_leaves_its_sleep_state_for_an_interrupt() {
    let workload = together(vec![task("sleeper", 0, once(&[sleep(5 * S)]))]);
    let run = |idle_exit_ns| {
        let mut machine = costless(1, 1000);
        machine.costs.idle_exit_ns = idle_exit_ns;
        outcome("fifo", &interrupted(&machine, &[0], MS, 10), &workload, S, &[])
    };
    let [free, paid] = [run(0), run(3 * US)];
    let nr = free.background_interrupts;
    assert!(nr > 800);
    assert_eq!((paid.background_interrupts, free.cpu_time_ns.kernel), (nr, CALL_NS));
    // The task's begin, too, finds the CPU idle.
    assert_eq!(paid.cpu_time_ns.kernel, CALL_NS + (nr + 1) * 3 * US);
    assert_eq!(free.cpu_time_ns.idle, S - CALL_NS - nr * 10);
}

#[test]
fn a_cpu_that_is_offline_is_not_interrupted() {
    let mut workload = parsed(
        r#"
        stop = "1s"
        hotplug = [
            { at = "100ms", cpu = 1, state = "offline" },
            { at = "600ms", cpu = 1, state = "online" },
        ]
        [[tasks]]
        name = "hog"
        cpus = [0]
        program = [{ repeat = "forever", do = [{ run = "1s" }] }]
        "#,
    );
    workload.name = "plugged".to_owned();
    let machine = interrupted(&costless(2, 1000), &[1], MS, US);
    for seed in 0..5 {
        let options = Options { seed, ..Options::default() };
        let result = attempt_with(&shipped("fifo"), &machine, &workload, &options);
        let all = arrivals_ns(seed, 1, MS, S);
        let nr = all.iter().filter(|&&at_ns| !(100 * MS..600 * MS).contains(&at_ns)).count();
        assert_eq!(result.background_interrupts, nr as u64, "seed {seed}");
    }
}

// ---- speeds -------------------------------------------------------------------------------------

#[test]
fn a_hog_computes_at_the_speed_of_its_time() {
    let machine = costless(1, 1000);
    for policy in POLICIES {
        let half = with_speeds(&machine, &[(500 * MS, &[0], 500)]);
        let result = outcome(policy, &half, &alone(S), None, &[]);
        assert_eq!(result.makespan_ns, 1500 * MS + CALL_NS, "{policy}");
    }
    let of = |steps: &[(u64, &[u32], u32)]| {
        outcome("fifo", &with_speeds(&machine, steps), &alone(S), None, &[]).makespan_ns - CALL_NS
    };
    assert_eq!(of(&[]), S);
    assert_eq!(of(&[(0, &[0], 250)]), 4 * S);
    assert_eq!(of(&[(100 * MS, &[0], 2000), (200 * MS, &[0], 250)]), 3 * S);
    assert_eq!(of(&[(100 * MS, &[0], 10), (200 * MS, &[0], 1000)]), S + 99 * MS);
    assert_eq!(of(&[(2 * S, &[0], 10)]), S, "it is over by then");
}

#[test]
fn who_does_not_compute_then_is_slower_later() {
    let machine = with_speeds(&costless(1, 1000), &[(500 * MS, &[0], 500)]);
    let workload = together(vec![task("late", 0, once(&[sleep(S), run(S)]))]);
    let result = outcome("fifo", &machine, &workload, None, &[]);
    assert_eq!(result.makespan_ns, 3 * S + 2 * CALL_NS);
}

#[test]
fn only_the_named_cpus_change() {
    let machine = with_speeds(&costless(3, 1000), &[(500 * MS, &[0, 2], 500)]);
    let names = ["first", "second", "third"];
    let of = |(cpu, name): (usize, &&str)| pinned(task(name, 0, once(&[run(S)])), cpu as u32);
    let workload = together(names.iter().enumerate().map(of).collect());
    let result = outcome("fifo", &machine, &workload, None, &[]);
    let ends_ns = names.map(|name| group(&result, name).last_exit_ns - CALL_NS);
    assert_eq!(ends_ns, [1500 * MS, S, 1500 * MS]);
}

#[test]
fn a_change_holds_beside_turbo_and_busy_siblings() {
    let threads = |steps: &[(u64, &[u32], u32)]| {
        let mut machine = costless(2, 1000);
        machine.cpus[1].core = 0;
        machine.costs.smt_percent = 60;
        machine.turbo_permille = vec![1500];
        let workload = together(vec![hog_of("one", 600 * MS), hog_of("two", 900 * MS)]);
        let result = outcome("fifo", &with_speeds(&machine, steps), &workload, None, &[]);
        [group(&result, "one").last_exit_ns, group(&result, "two").last_exit_ns]
    };
    let near = |[one, two]: [u64; 2], expected: [f64; 2]| {
        let is_near = |ns: u64, ms: f64| (ns as f64 - ms * MS as f64).abs() < 10.0;
        assert!(is_near(one, expected[0]) && is_near(two, expected[1]), "{one} {two}");
    };
    // Both at 0.9, then the second alone at 1.5.
    let both_ms = 600.0 / 0.9;
    near(threads(&[]), [both_ms, both_ms + 300.0 / 1.5]);
    // Half of it from 200 ms on: 180 are done by then.
    let both_ms = 200.0 + 420.0 / 0.45;
    near(threads(&[(200 * MS, &[0, 1], 500)]), [both_ms, both_ms + 300.0 / 0.75]);
}

// ---- both ---------------------------------------------------------------------------------------

/// A machine with what its CPUs can be disturbed by.
fn disturbed(machine: &Machine, draw: &mut Random) -> Machine {
    let all: Vec<u32> = (0..machine.cpus.len() as u32).collect();
    let mut machine = interrupted(machine, &all, MS + draw.below(5 * MS), 1 + draw.below(200 * US));
    machine = interrupted(&machine, &all[..1], 100 * US, 1 + draw.below(20 * US));
    let speed = |draw: &mut Random, at_ns| SpeedStep {
        at_ns,
        cpus: all.iter().copied().filter(|_| draw.below(2) == 0).collect(),
        permille: 300 + draw.below(1700) as u32,
    };
    machine.speeds = (0..20).map(|number| speed(draw, number * 7 * MS)).collect();
    machine.with_digest()
}

#[test]
fn ticks_at_once_are_ticks_one_by_one_on_disturbed_machines() {
    for (seed, policy) in (0..24).zip(["fifo", "round_robin", "cfs"].into_iter().cycle()) {
        let mut draw = Random::new(seed, 0);
        let machine = disturbed(&shipped_machine("osdl-8"), &mut draw);
        let hogs = (0..1 + draw.below(12))
            .map(|number| hog_of(&format!("hog{number}"), 1 + draw.below(200 * MS)));
        let workload = together(hogs.collect());
        let [at_once, one_by_one] = [None, Some(Vec::new())].map(|choices| {
            let options = Options { seed, choices, timeline: true, ..Options::default() };
            let mut result = attempt_with(&shipped(policy), &machine, &workload, &options);
            result.choices.clear();
            result
        });
        assert!(at_once == one_by_one, "{policy}, seed {seed}");
    }
}

#[test]
fn disturbances_are_a_part_of_the_time_under_every_policy() {
    for seed in 0..12 {
        let (machine, workload) = random_scenario(seed);
        let machine = disturbed(&machine, &mut Random::new(seed, 1));
        for policy in POLICIES {
            let place = format!("seed {seed}, {policy}");
            let [result, again] =
                [(); 2].map(|()| attempt(&shipped(policy), &machine, &workload, seed));
            assert_eq!(result, again, "{place}");
            assert_eq!(result.error, None, "{place}");
            let spent = result.cpu_time_ns;
            assert_eq!(spent.total(), result.elapsed_ns * result.nr_cpus, "{place}");
            assert!(result.background_interrupts > 0, "{place}");
        }
    }
}
