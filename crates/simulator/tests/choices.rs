//! Goal: which CPU goes first at one nanosecond can be chosen, and nothing changes where nobody
//! chooses. Method: random scenarios run with an empty list and with none; a meeting of two CPUs
//! whose outcomes can be counted by hand.

use crate::support::*;
use simulator::{Options, RunResult, Status};

const SEEDS: u64 = 10;

#[test]
fn an_empty_list_of_choices_is_the_fixed_order() {
    for name in POLICIES {
        let policy = shipped(name);
        for seed in 0..SEEDS {
            let (machine, workload) = scenario::random_scenario(seed);
            let run = |choices| {
                let options = Options { seed, choices, ..Options::default() };
                attempt_with(&policy, &machine, &workload, &options)
            };
            let (fixed, chosen) = (run(None), run(Some(Vec::new())));
            assert_eq!(fixed.digest, chosen.digest, "{name}, seed {seed}");
            assert!(chosen.choices.iter().all(|choice| choice.taken == 0), "{name}, seed {seed}");
        }
    }
}

/// Two tasks that each have a CPU of their own stop computing at the same nanosecond; each then
/// lets a third one pass, which both could run.
fn met(choices: &[u32]) -> RunResult {
    let workload = parsed(
        r#"
gates = { first = {}, second = {} }
tasks = [
    { name = "a", cpus = [0], program = [{ run = "1ms" }, { wake = "first" }] },
    { name = "b", cpus = [1], program = [{ run = "1ms" }, { wake = "second" }] },
    { name = "one", program = [{ wait = "first" }, { run = "1ms" }] },
    { name = "two", program = [{ wait = "second" }, { run = "1ms" }] },
]"#,
    );
    let options = Options { choices: Some(choices.to_vec()), timeline: true, ..Options::default() };
    attempt_with(&shipped("fifo"), &costless(2, 100), &workload, &options)
}

#[test]
fn a_choice_changes_who_goes_first_and_the_same_list_gives_the_same_run() {
    let fixed = met(&[]);
    assert_eq!(fixed.status, Status::Completed);
    let points: Vec<u32> = fixed.choices.iter().map(|choice| choice.of).collect();
    assert!(!points.is_empty() && points.iter().all(|&of| of == 2), "{points:?}");
    let last = vec![1; points.len()];
    let other = met(&last);
    assert_ne!(fixed.digest, other.digest);
    assert_eq!(other.digest, met(&last).digest);
    assert_eq!(other.elapsed_ns, fixed.elapsed_ns, "both orders keep both CPUs busy");
}
