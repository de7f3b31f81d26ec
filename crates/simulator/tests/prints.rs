//! Goal: what a policy prints is passed on to whoever watches, with task, CPU and time, and never
//! changes the run. Method: a policy that prints on each `enqueue`, watched and not.

use crate::support::*;
use simulator::{Options, PRINTS_MAX, RunResult};

/// A run, and what was printed in it.
fn watched(tasks: usize, until_ns: u64, is_shown: bool) -> (RunResult, Vec<String>) {
    let printed = Printed::default();
    let prints = is_shown.then(|| printed.show());
    let policy = compile("crates/simulator/tests/corners/prints.bpf.c");
    let workload = together((0..tasks).map(|_| hog("hog", 0)).collect());
    let options = Options { until_ns: Some(until_ns), prints, ..Options::default() };
    let result = attempt_with(&policy, &costless(1, 1000), &workload, &options);
    (result, printed.lines())
}

#[test]
fn a_line_says_task_cpu_and_time() {
    let (result, lines) = watched(2, 30 * MS, true);
    assert!(result.error.is_none(), "{:?}", result.error);
    let expected = [
        "       <idle>[0] [000]   0.000000000: bpf_trace_printk: begin",
        // The first found the CPU idle, went there directly and has the default slice of 20 ms.
        "          hog[1] [000]   0.000000000: bpf_trace_printk: hog 2, 50 %",
        "          hog[1] [000]   0.020000000: bpf_trace_printk: hog 1, 50 %",
    ];
    assert_eq!(lines[..3], expected, "{lines:#?}");
}

#[test]
fn lines_end_at_a_limit_and_the_last_one_says_so() {
    let (_, lines) = watched(2, 3 * PRINTS_MAX * MS, true);
    assert_eq!(lines.len() as u64, PRINTS_MAX + 1);
    assert!(lines[lines.len() - 1].contains("1000 lines were printed"), "{:?}", lines.last());
}

#[test]
fn who_watches_does_not_matter() {
    let (shown, lines) = watched(3, 50 * MS, true);
    let (silent, none) = watched(3, 50 * MS, false);
    assert!(!lines.is_empty() && none.is_empty());
    assert_eq!(shown.digest, silent.digest);
}
