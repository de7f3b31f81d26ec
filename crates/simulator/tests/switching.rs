//! Goal: a policy sees a switch between two tasks as the kernel shows it. Method: a policy that
//! looks around in its operations and ends the run when it sees something else.
//!
//! Source: Linux 6.12 kernel/sched/ext.c and core.c, where `rq->curr` changes last.

use crate::support::*;
use simulator::RunResult;

const HZ: u32 = 1000;
const KICK_IDLE: i64 = 1;
const KICK_PREEMPT: i64 = 2;

const TWO_HOGS: &str = r#"
stop = "40ms"
[[tasks]]
name = "a"
program = [{ run = "1s" }]
[[tasks]]
name = "b"
program = [{ run = "1s" }]
"#;

fn watched(workload: &str, tunables: &[(&str, i64)]) -> RunResult {
    let policy = compile("crates/simulator/tests/switching/watches.bpf.c");
    outcome_of(&policy, &costless(1, HZ), &parsed(workload), 40 * MS, settings(tunables))
}

#[test]
fn a_task_that_is_put_back_is_current_until_the_next_one_runs() {
    let result = watched(TWO_HOGS, &[]);
    assert_eq!(stays_of(&result, 2)[0], (10 * MS, 20 * MS, 0, 2));
    assert_eq!(result.interrupts, 0);
}

#[test]
fn dispatch_is_given_a_task_that_has_just_blocked_or_ended() {
    let text = r#"
stop = "40ms"
[[tasks]]
name = "sleeper"
program = [{ repeat = 5, do = [{ run = "1ms" }, { sleep = "2ms" }] }]
[[tasks]]
name = "short"
program = [{ run = "15ms" }]
[[tasks]]
name = "hog"
start = "3ms"
program = [{ run = "1s" }]
"#;
    let result = watched(text, &[]);
    assert!(stays_of(&result, 1).len() > 1 && !stays_of(&result, 3).is_empty());
}

#[test]
fn a_cpu_that_kicks_itself_while_it_switches_preempts_the_next_task() {
    let result = watched(TWO_HOGS, &[("kicks", 1), ("kick_flags", KICK_PREEMPT)]);
    // b came at 10 ms, lost its slice in no time, and waits for another turn of a.
    assert_eq!(stays_of(&result, 2)[0], (20 * MS, 30 * MS, 0, 2));
    assert_eq!(result.interrupts, 1);
}

#[test]
fn a_cpu_that_switches_to_a_task_is_not_kicked_as_idle() {
    let result = watched(TWO_HOGS, &[("kicks", 1), ("kick_flags", KICK_IDLE)]);
    assert_eq!(stays_of(&result, 2)[0], (10 * MS, 20 * MS, 0, 2));
    assert_eq!(result.interrupts, 0);
}

#[test]
fn a_running_task_leaves_and_comes_back_for_another_nice_value() {
    let text = r#"
[[tasks]]
name = "nicer"
program = [{ run = "1ms" }, { nice = 5 }, { run = "1ms" }, { nice = 5 }, { run = "1ms" }]
"#;
    let policy = compile("crates/simulator/tests/switching/notes_calls.bpf.c");
    let failure = attempt(&policy, &costless(1, HZ), &parsed(text), 1).error.expect("it exits");
    // New: its weight. Runnable, runs; leaves, its weight, comes back past `enqueue`; ends.
    assert_eq!(failure.message, "policy asked to exit with code 0 (wre+-qwr+-S)");
}

#[test]
fn only_an_old_task_is_said_to_wake_up_and_to_have_been_asked_for() {
    let text = r#"
[[tasks]]
name = "sleeper"
program = [{ run = "1ms" }, { sleep = "1ms" }, { run = "1ms" }]
"#;
    let policy = compile("crates/simulator/tests/switching/notes_calls.bpf.c");
    let failure = attempt(&policy, &costless(2, HZ), &parsed(text), 1).error.expect("it exits");
    // Linux 6.12 to 7.3, kernel/sched/core.c, `wake_up_new_task` and `ttwu_do_activate`.
    assert_eq!(failure.message, "policy asked to exit with code 0 (wre+-SCe+-S)");
}
