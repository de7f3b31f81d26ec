//! Goal: a policy works with a value of a tunable, or refuses it by name in its `init`, as it
//! would in a kernel; no value kills the process, never ends, or breaks an invariant. Method: every
//! tunable of every shipped policy at the edges of what integers can say, and of the
//! ranges that policies named when they refused.

use crate::support::*;
use simulator::{FailureKind, Options};

/// Runs, sleeps, wakes, yields, forks and renices: all that a policy is asked for.
const BIT_OF_ALL: &str = r#"
[[tasks]]
name = "hog"
count = 3
program = [{ run = "60ms" }]
[[tasks]]
name = "nicest"
nice = 19
program = [{ run = "5ms" }, { nice = 0 }, { run = "5ms" }]
[[tasks]]
name = "sleeper"
count = 3
program = [{ repeat = 30, do = [{ run = "200us" }, { sleep = "2ms" }, "yield"] }]
[[tasks]]
name = "parent"
program = [{ repeat = 10, do = [{ run = "100us" }, { fork = "child" }, { sleep = "3ms" }] }, "join"]
[templates.child]
program = [{ run = "1ms" }]
[[tasks]]
name = "sender"
program = [{ repeat = 500, do = [{ send = "pipe", bytes = 10 }] }]
[[tasks]]
name = "receiver"
program = [{ repeat = 500, do = [{ recv = "pipe", bytes = 10 }] }]
[channels.pipe]
capacity_bytes = 100
"#;

/// The run takes some 200 ms; a policy whose timer does nothing else shows as many events.
const UNTIL_NS: u64 = 400 * MS;
const EVENTS_MAX: u64 = 1_000_000;

/// Why this value was refused; `None` if the policy worked with it.
fn refusal(policy: &policy::Policy, tunable: &str, value: i64) -> Option<String> {
    let (until_ns, tunables) = (Some(UNTIL_NS), settings(&[(tunable, value)]));
    let options = Options { seed: 1, until_ns, tunables, ..Options::default() };
    let result = attempt_with(policy, &machine(4, 1000), &parsed(BIT_OF_ALL), &options);
    let said = format!("{} with {tunable}={value}", policy.name);
    assert!(result.events < EVENTS_MAX, "{said}: {} events", result.events);
    let failure = result.error?;
    assert_eq!(failure.kind, FailureKind::PolicyError, "{said}: {}", failure.message);
    assert_eq!(result.events, 0, "{said} was refused late: {}", failure.message);
    // Of two that contradict each other the message names the other one, and this value.
    let names = [format!("{tunable} is {value}, not "), format!(" to {value})")];
    let is_named = names.iter().any(|name| failure.message.contains(name));
    assert!(is_named, "{said}: {}", failure.message);
    Some(failure.message)
}

/// The numbers of a refusal: at the edges of a tunable's range a policy changes its mind.
fn edges_named(refusal: &str, tunable: &str) -> Vec<i64> {
    let range = refusal.split_once(&format!("{tunable} is ")).map_or("", |(_, range)| range);
    let numbers = range.split(|c: char| !c.is_ascii_digit()).skip(1);
    numbers.filter_map(|number| number.parse().ok()).collect()
}

#[test]
fn no_value_of_a_tunable_does_harm() {
    for name in POLICIES {
        let policy = shipped(name);
        for tunable in &policy.tunables {
            let (_, most) = tunable.range();
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let powers = (0..63).step_by(5).map(|power| 1_i64 << power);
            let mut values: Vec<i64> = powers.chain([0, 3, 100, most - 1, most]).collect();
            let mut edges = Vec::new();
            while let Some(value) = values.pop() {
                if value > most {
                    continue;
                }
                let Some(refusal) = refusal(&policy, &tunable.name, value) else { continue };
                for edge in edges_named(&refusal, &tunable.name) {
                    if !edges.contains(&edge) {
                        edges.push(edge);
                        values.extend([
                            edge.saturating_sub(1).max(0),
                            edge,
                            edge.saturating_add(1),
                        ]);
                    }
                }
            }
        }
    }
}

#[test]
fn a_refusal_names_tunable_value_and_range() {
    let cases = [
        ("linux_2_4", "tick_ns", 0, "tunable tick_ns is 0, not 1000 to 1000000000"),
        (
            "o1",
            "min_slice_ns",
            200_000_001,
            "tunable min_slice_ns is 200000001, not 0 to 200000000",
        ),
        ("cfs", "imbalance_percent", 99, "tunable imbalance_percent is 99, not 100 to 100000"),
        ("bfs", "rr_interval_ms", 0, "tunable rr_interval_ms is 0, not 1 to 10000"),
        ("bfs", "version", 303, "version is 303, not 302, 313 or 424"),
        ("eevdf", "base_slice_ns", 0, "tunable base_slice_ns is 0, not 1 to 1000000000"),
        ("round_robin", "slice_ns", 0, "tunable slice_ns is 0, not 1 to 18446744073709551615"),
    ];
    for (name, tunable, value, message) in cases {
        let said = refusal(&shipped(name), tunable, value);
        assert_eq!(said, Some(format!("scx_bpf_error ({message})")));
    }
}
