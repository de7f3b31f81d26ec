//! Goal: an exact queue can repeat what is recorded of every dispatch queue, so what left first
//! there leaves first here. Method: a red-black tree plays every record of every policy.

use crate::support::*;
use runqueue::{RedBlackTree, RunQueue};
use simulator::{Options, QueueOperation, QueueRecord, RunResult};

fn recorded(policy: &str, workload: &str, parameters: &[(&str, &str)], queues: bool) -> RunResult {
    let options = Options { seed: 3, queues, ..Options::default() };
    let (machine, workload) = (shipped_machine("osdl-4"), shipped_workload(workload, parameters));
    let result = attempt_with(&shipped(policy), &machine, &workload, &options);
    assert_eq!(result.error, None, "{policy}");
    result
}

/// Repeats a record, and tells how many pops, removals, and items left in the queue there were.
fn repeat(record: &QueueRecord, nr_tasks: u64, told: &str) -> [usize; 3] {
    let mut queue = RedBlackTree::with_capacity(nr_tasks as usize);
    let (mut pops, mut removals) = (0, 0);
    for (step, operation) in record.operations.iter().enumerate() {
        match operation.expect("it can be read") {
            QueueOperation::Push { task, key } => {
                assert!(!queue.contains(task), "{told}, step {step}: {task} was to have left");
                queue.push(task, key);
            }
            QueueOperation::Pop => {
                pops += 1;
                assert!(queue.pop().is_some(), "{told}, step {step}: nothing is queued");
            }
            QueueOperation::Remove { task } => {
                removals += 1;
                assert!(queue.contains(task), "{told}, step {step}: {task} was not to leave");
                assert_ne!(queue.peek(), Some(task), "{told}, step {step}: a pop would do");
                queue.remove(task);
            }
        }
    }
    [pops, removals, queue.len()]
}

#[test]
fn every_record_can_be_repeated_by_an_exact_queue() {
    for policy in POLICIES {
        let result = recorded(policy, "hackbench", &[("groups", "3"), ("loops", "8")], true);
        let records = result.queues.expect("asked for");
        assert!(!records.is_empty(), "{policy}");
        for record in &records {
            let told = format!("{policy}, queue {}", record.queue);
            let [pops, _, left] = repeat(record, result.nr_tasks, &told);
            assert!(pops > 0 && left == 0, "{told}: {pops} pops, {left} left");
        }
    }
}

#[test]
fn a_record_has_the_order_of_virtual_time_and_who_is_taken_from_the_midst() {
    for policy in ["cfs", "eevdf"] {
        let result = recorded(policy, "hackbench", &[("groups", "3"), ("loops", "8")], true);
        let records = result.queues.expect("asked for");
        let own: Vec<_> = records.iter().filter(|record| record.is_policys).collect();
        assert_eq!(own.len(), 4, "a queue for each CPU");
        let sums = own.iter().map(|record| repeat(record, result.nr_tasks, policy));
        let [pops, removals, _] =
            sums.fold([0; 3], |all, one| std::array::from_fn(|at| all[at] + one[at]));
        assert!(pops > 1000, "{policy}: {pops} pops");
        assert!(removals > 0, "{policy}: idle CPUs take tasks from the midst of queues");
    }
}

#[test]
fn a_run_that_is_recorded_is_the_same_run() {
    let [with, without] = [true, false]
        .map(|queues| recorded("cfs", "hackbench", &[("groups", "2"), ("loops", "5")], queues));
    assert_eq!(with.digest, without.digest);
    assert!(with.queues.is_some() && without.queues.is_none());
}
