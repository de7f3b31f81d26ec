//! Goal: ticks between which nothing happens are the same whether they are made at once or one by
//! one. Method: with a list of choices, even an empty one, each is an event of its own.

use crate::support::*;
use scenario::draw::Random;
use scenario::machine::Machine;
use scenario::workload::{InitialTask, Workload};
use simulator::{Options, RunResult};

/// Policies without a tick operation. Their slices have no end, many ticks, or about one.
const POLICIES_WITHOUT_TICK: [&str; 3] = ["fifo", "round_robin", "cfs"];

/// What a run comes to with ticks at once, and one by one.
fn both(name: &str, machine: &Machine, workload: &Workload, until_ns: u64) -> [RunResult; 2] {
    [None, Some(Vec::new())].map(|choices| {
        let options =
            Options { choices, until_ns: Some(until_ns), timeline: true, ..Options::default() };
        let mut result = attempt_with(&shipped(name), machine, workload, &options);
        result.choices.clear();
        result
    })
}

/// Some tasks that compute, some of which sleep now and then, that begin at different times.
fn hogs(draw: &mut Random, nr: u64) -> Workload {
    let templates = (0..nr).map(|number| {
        let works = [run(1 + draw.next_u64() % (300 * MS)), sleep(1 + draw.next_u64() % (90 * MS))];
        task(&format!("hog{number}"), 0, once(&works[..1 + usize::from(number % 3 == 0)]))
    });
    let templates: Vec<_> = templates.collect();
    let mut workload = together(templates);
    for InitialTask { start_at_ns, .. } in &mut workload.initial {
        *start_at_ns = draw.next_u64() % (5 * MS);
    }
    workload
}

#[test]
fn ticks_at_once_are_ticks_one_by_one() {
    let machines = ["osdl-8", "laptop", "atom-330"].map(shipped_machine);
    for name in POLICIES_WITHOUT_TICK {
        for seed in 0..12 {
            let mut draw = Random::new(seed, 0);
            let machine = &machines[seed as usize % machines.len()];
            let nr = 1 + draw.next_u64() % (2 * machine.cpus.len() as u64);
            let workload = hogs(&mut draw, nr);
            let until_ns = draw.next_u64() % (900 * MS);
            let [at_once, one_by_one] = both(name, machine, &workload, until_ns);
            assert!(at_once == one_by_one, "{name} on {}, seed {seed}", machine.name);
        }
    }
}

#[test]
fn a_limit_of_events_is_met_within_ticks_at_once() {
    let workload = together(vec![task("hog", 0, once(&[run(S)]))]);
    for most in [20, 21, 500, 999] {
        let run = |choices| {
            let options = Options { choices, events_max: Some(most), ..Options::default() };
            let error =
                attempt_with(&shipped("fifo"), &costless(1, 1000), &workload, &options).error;
            error.expect("there are more events than that").at_ns
        };
        assert_eq!(run(None), run(Some(Vec::new())), "{most} events");
    }
}

#[test]
fn a_day_of_ticks_is_no_day() {
    let day_ns = 24 * 3600 * S;
    let mut workload = together(vec![task("hog", 0, once(&[run(day_ns)])); 8]);
    workload.stop_at_ns = None;
    let mut machine = costless(8, 1000);
    machine.watchdog_ns = 2 * day_ns;
    let result = outcome("fifo", &machine, &workload, 2 * day_ns, &[]);
    // Each task computes for a day, and ends with a system call.
    assert_eq!((result.elapsed_ns, result.ticks), (day_ns + 1, 8 * (day_ns / MS)));
}

#[test]
fn a_run_that_has_failed_ticks_no_more() {
    // Whoever is put back, and has not woken up, goes into a queue that is not there.
    let source = std::fs::read_to_string(root().join("policies/round_robin.bpf.c")).expect("text");
    let text = source.replace(
        "scx_bpf_dsq_insert(p, SHARED_DSQ,",
        "scx_bpf_dsq_insert(p, enq_flags & SCX_ENQ_WAKEUP ? SHARED_DSQ : 77,",
    );
    assert_ne!(source, text);
    let policy = compile_text(&text);
    let workload = together(vec![task("hog", 0, once(&[run(S)])); 5]);
    let [at_once, one_by_one] = [None, Some(Vec::new())].map(|choices| {
        let options = Options { choices, ..Options::default() };
        let mut result = attempt_with(&policy, &costless(1, 1000), &workload, &options);
        result.choices.clear();
        result
    });
    assert!(at_once.error.is_some());
    assert!(at_once == one_by_one, "{at_once:?}\n{one_by_one:?}");
}
