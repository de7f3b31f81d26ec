//! Goal: responses are counted from when a request was due, and deadlines whether or not anybody
//! came to them. Method: a machine on which only work takes time, where each response is known to
//! the nanosecond; at random arrivals the formula of the queue.

use crate::support::*;
use scenario::workload::{Amount, NO_DEADLINE_NS, Op, Workload};
use simulator::RunResult;

/// What a system call takes at least.
const CALL_NS: u64 = 1;

fn run_of(workload: &Workload, nr_cpus: usize) -> RunResult {
    outcome("fifo", &costless(nr_cpus, 1000), workload, None, &[])
}

const fn release(every_ns: u64, deadline_ns: u64) -> Op {
    Op::Release { every: Amount::Fixed(every_ns), deadline_ns }
}

/// A task that is due every 10 ms, computes and is done.
fn periodic(work_ns: u64, deadline_ns: u64) -> Workload {
    let program = forever(&[release(10 * MS, deadline_ns), run(work_ns), Op::Done]);
    let mut workload = together(vec![task("periodic", 0, program)]);
    workload.stop_at_ns = Some(100 * MS + 1);
    workload
}

#[test]
fn who_is_in_time_misses_nothing() {
    let result = run_of(&periodic(4 * MS, 10 * MS), 1);
    let group = requests(&result, "periodic");
    // Releases at 10, 20 ... 100 ms: the last has no time to be done.
    assert_eq!((group.done, group.deadlines, group.deadline_misses), (9, 9, 0));
    assert_eq!(group.response_ns.max, 4 * MS);
    assert_eq!((result.deadlines, result.deadline_misses), (9, 0));
    assert_eq!(result.response_ns, group.response_ns);
}

#[test]
fn a_deadline_is_met_to_the_nanosecond() {
    let misses = |deadline_ns| run_of(&periodic(4 * MS, deadline_ns), 1).deadline_misses;
    assert_eq!(misses(4 * MS), 0);
    assert_eq!(misses(4 * MS - 1), 9);
}

#[test]
fn who_is_slower_than_its_period_falls_behind_release_by_release() {
    let result = run_of(&periodic(15 * MS, 10 * MS), 1);
    let group = requests(&result, "periodic");
    // Done at 25, 40, 55, 70, 85 and 100 ms, apart from calls; due at 20, 30 ... 100 ms.
    assert_eq!((group.done, group.deadlines, group.deadline_misses), (5, 9, 9));
    // The fifth was due at 50 ms and done at 85 ms, with a call for each release.
    assert_eq!(group.response_ns.max, 35 * MS + 4 * CALL_NS);
}

#[test]
fn who_is_starved_misses_deadlines_that_it_never_came_to_release() {
    let mut workload = periodic(MS, 10 * MS);
    workload.templates.push(hog("hog", 0));
    workload.initial.push(scenario::workload::InitialTask { template: 1, start_at_ns: 0 });
    let result = run_of(&workload, 1);
    let group = requests(&result, "periodic");
    assert_eq!((group.done, group.deadlines, group.deadline_misses), (0, 9, 9));
}

#[test]
fn a_request_goes_with_messages_and_children_and_is_known_by_who_released_it() {
    let client = task(
        "client",
        0,
        times(3, &[release(10 * MS, 20 * MS), run(MS), Op::Send { channel: 0, bytes: 8 }]),
    );
    let serve = [Op::Recv { channel: 0, bytes: 8 }, run(2 * MS), Op::Fork { template: 2 }];
    let server = task("server", 0, times(3, &serve));
    let child = task("child", 0, once(&[run(3 * MS), Op::Done]));
    let result = run_of(&workload_of(vec![client, server, child], 2), 4);
    let group = requests(&result, "client");
    assert_eq!((group.done, group.deadlines, group.deadline_misses), (3, 3, 0));
    let calls_ns = group.response_ns.max - 6 * MS;
    assert!((1..10).contains(&calls_ns), "{calls_ns} ns of system calls");
    assert_eq!(result.requests.len(), 1, "{:?}", result.requests);
}

#[test]
fn a_message_without_a_request_brings_none() {
    let sender = task("sender", 0, once(&[sleep(20 * MS), Op::Send { channel: 0, bytes: 8 }]));
    let receiver = [release(10 * MS, NO_DEADLINE_NS), Op::Recv { channel: 0, bytes: 8 }, Op::Done];
    let result = run_of(&together(vec![sender, task("receiver", 0, once(&receiver))]), 2);
    assert!(result.requests.is_empty(), "{:?}", result.requests);
    assert_eq!(result.deadlines, 0);
}

#[test]
fn open_arrivals_wait_as_in_an_m_m_1_queue() {
    let (nr, work_ns, load) = (100_000, MS, 0.7);
    let every = Amount::Exponential { mean: (work_ns as f64 / load) as u64 };
    let arrive = Op::Release { every, deadline_ns: NO_DEADLINE_NS };
    // Arrivals have a CPU of their own, so that they come in time.
    let source = task("arrival", 0, times(nr, &[arrive, Op::Fork { template: 1 }]));
    let job = task("job", 0, once(&[Op::Run(Amount::Exponential { mean: work_ns }), Op::Done]));
    let workload = workload_of(vec![pinned(source, 0), pinned(job, 1)], 1);
    let result = run_of(&workload, 2);
    let group = requests(&result, "arrival");
    assert_eq!(group.done, nr);
    // Response of M/M/1: service over what is left of the server.
    let expected = work_ns as f64 / (1.0 - load);
    let got = group.response_ns.mean / expected;
    assert!((got - 1.0).abs() < 0.05, "{got} of {expected} ns");
}
