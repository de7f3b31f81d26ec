//! Goal: a run may have a million tasks. Method: tasks that compute 10 us, of which only some have
//! their turn before the run stops.

use crate::support::*;
use scenario::workload::{Amount, InitialTask, Op};
use simulator::{Options, Status};

const TASKS: u64 = 1_000_000;

#[test]
fn a_million_tasks_begin() {
    let mut workload = together(vec![task("one", 0, once(&[Op::Run(Amount::Fixed(10_000))]))]);
    workload.initial = vec![InitialTask { template: 0, start_at_ns: 0 }; TASKS as usize];
    workload.stop_at_ns = Some(MS);
    let options = Options { seed: 1, ..Options::default() };
    let result = attempt_with(&shipped("fifo"), &costless(8, 1000), &workload, &options);
    assert_eq!((result.status, &result.error), (Status::Completed, &None));
    assert_eq!((result.nr_tasks, result.wakeups), (TASKS, TASKS));
    // 8 CPUs, 100 turns of 10 us each, and those who begin as the run stops.
    assert!((800..=808).contains(&result.switches), "{}", result.switches);
}
