//! Goal: a recording says of real tasks what they did. Method: plays with known sums, compared
//! with the kernel's own books. Needs root and tracefs; says so where it has neither.

#![allow(clippy::unwrap_used)]

use benchmarks::{Options, Played};
use kernel::trace::{RecordError, Recorder, Schedule, TraceError, record_play};
use scenario::workload::Workload;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

fn written(text: &str) -> Workload {
    let text = format!("description = \"a test\"\nsource = \"own\"\n{text}");
    scenario::parse_workload("test.toml", &text, &BTreeMap::new()).unwrap()
}

/// The play and its schedule, or nothing where tracing is not possible.
fn recorded(text: &str) -> Option<(Played, Schedule)> {
    match record_play(&written(text), &Options::default(), 4096, &mut || false, None) {
        // Few events cannot fill the buffers. Seen on one machine: no switch from its CPU's idle
        // task, by nobody's tracing, until it was booted again.
        Ok((_, schedule)) if schedule.lost > 0 => {
            eprintln!("skipped: this kernel's own tracing leaves {} switches out", schedule.lost);
            None
        }
        Ok(recorded) => Some(recorded),
        Err(RecordError::Trace(error)) if !matches!(error, TraceError::Unknown { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Plays after which two sets of books that never agree are taken to be wrong.
const PLAYS_MAX: usize = 5;

/// By how much CPU times of tasks differ. The rest of an exit comes after the task's own last look.
fn books_apart_ns(played: &Played, schedule: &Schedule) -> u64 {
    let pairs = played.tasks.iter().zip(&schedule.tasks);
    pairs.map(|(task, seen)| seen.run_ns.abs_diff(task.run_ns)).max().unwrap_or(0)
}

#[test]
fn a_recording_agrees_with_the_kernels_own_books() {
    let text = r#"
        [channels.there]
        capacity_bytes = 65536
        [channels.back]
        capacity_bytes = 65536
        [[tasks]]
        name = "ping"
        cpus = [0]
        program = [{ repeat = 200, do = [
            { run = "5us" }, { send = "there", bytes = 1 }, { recv = "back", bytes = 1 },
        ] }]
        [[tasks]]
        name = "pong"
        cpus = [0]
        program = [{ repeat = 200, do = [
            { recv = "there", bytes = 1 }, { run = "5us" }, { send = "back", bytes = 1 },
        ] }]
    "#;
    // A virtual machine that is stopped in the middle of a switch books the time on one task and
    // traces it on the other, so not every play need agree.
    let Some((played, schedule)) = (0..PLAYS_MAX)
        .map(|_| recorded(text))
        .find(|recorded| match recorded {
            Some((played, schedule)) => books_apart_ns(played, schedule) < 2 * MS,
            None => true,
        })
        .unwrap_or_else(|| panic!("no books agree in {PLAYS_MAX} plays"))
    else {
        return;
    };
    assert_eq!(schedule.lost, 0);
    for (task, seen) in played.tasks.iter().zip(&schedule.tasks) {
        // Its end is one more. It may come when the play is over already, and be missed.
        let voluntary = task.voluntary_switches..=task.voluntary_switches + 1;
        assert!(voluntary.contains(&seen.voluntary_switches), "{task:?} {seen:?}");
        assert!(seen.involuntary_switches.abs_diff(task.involuntary_switches) <= 4);
        // One for its start and one for every sleep: as many as switches with the end among them.
        assert_eq!((seen.wakeups, seen.migrations), (task.voluntary_switches + 1, 0), "{seen:?}");
    }
    assert!(schedule.timeline.iter().all(|&(start_ns, end_ns, cpu, pid)| {
        start_ns <= end_ns && cpu == 0 && (1..=2).contains(&pid)
    }));
    assert!(schedule.timeline.is_sorted_by_key(|&(_, end_ns, ..)| end_ns));
    // One CPU does one thing at a time.
    let run_ns: u64 = schedule.tasks.iter().map(|task| task.run_ns).sum();
    let last_end_ns = schedule.timeline.last().map_or(0, |&(_, end_ns, ..)| end_ns);
    assert!(run_ns <= last_end_ns, "{run_ns} of {last_end_ns}");
    let overlaps = schedule.timeline.windows(2).filter(|pair| pair[1].0 < pair[0].1).count();
    assert_eq!(overlaps, 0);
}

#[test]
fn tasks_that_start_together_first_run_within_the_play_and_forks_are_new() {
    let text = r#"
        [templates.child]
        program = [{ run = "2ms" }]
        [[tasks]]
        name = "parent"
        program = [{ repeat = 3, do = [{ fork = "child" }] }, "join"]
    "#;
    let Some((played, schedule)) = recorded(text) else { return };
    assert_eq!(schedule.tasks.len(), 4);
    for (task, seen) in played.tasks.iter().zip(&schedule.tasks) {
        let first_ns = seen.first_run_at_ns.unwrap();
        assert!((task.born_at_ns..task.exited_at_ns.unwrap()).contains(&first_ns), "{task:?}");
        assert!(seen.exited_at_ns > task.exited_at_ns, "{task:?} {seen:?}");
    }
    let new: Vec<u32> =
        schedule.wakeups.iter().filter(|wakeup| wakeup.3).map(|wakeup| wakeup.1).collect();
    assert_eq!(new, [2, 3, 4]);
}

#[test]
fn a_recorder_leaves_no_instance_behind() {
    let Ok(recorder) = Recorder::start(64) else { return };
    let instance = recorder.instance().to_path_buf();
    assert!(instance.is_dir());
    drop(recorder);
    assert!(!instance.exists());
}
