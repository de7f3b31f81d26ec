//! Goal: what a CPU does is seen by the others when it does it, neither at the beginning of
//! something long nor when it would have been due. Method: a CPU that is inside something long, and
//! another one that takes the same lock at every moment of it: waits are as short as the critical
//! sections.

use crate::support::{US, costless, outcome, parsed, stays};
use scenario::machine::Machine;
use scenario::workload::Workload;
use simulator::Status;

const HZ: u32 = 100;
const DSQ_OP_NS: u64 = US;
/// Each CPU puts tasks into the shared queue and takes them out: all waits together are not more.
const WAITS_MAX_NS: u64 = 4 * DSQ_OP_NS;
const END_NS: u64 = 1_500 * US;

fn two_cpus() -> Machine {
    let mut machine = costless(2, HZ);
    machine.costs.dsq_op_ns = DSQ_OP_NS;
    machine
}

/// CPU 1 computes, and at `start_us` a task comes to it and is put into the queue of all CPUs;
/// beside them, `tasks` on CPU 0.
fn met_by_another_cpu(tasks: &str, start_us: u64) -> Workload {
    parsed(&format!(
        r#"
[[tasks]]
name = "busy"
cpus = [1]
program = [{{ run = "5ms" }}]
[[tasks]]
name = "newcomer"
cpus = [1]
start = "{start_us}us"
program = [{{ run = "1ms" }}]
{tasks}"#
    ))
}

/// The longest that CPUs wait for the queue's lock, wherever within 250 µs the newcomer comes to
/// CPU 1, and how often they wait at all.
fn lock_waits(machine: &Machine, tasks: &str) -> (u64, usize) {
    let waits = (1000..1250).map(|start_us| {
        let workload = met_by_another_cpu(tasks, start_us);
        let result = outcome("round_robin", machine, &workload, END_NS, &[]);
        assert_eq!((result.status, &result.error), (Status::Stopped, &None));
        result.cpu_time_ns.lock_wait
    });
    let waits_ns: Vec<u64> = waits.filter(|&ns| ns > 0).collect();
    (waits_ns.iter().copied().max().unwrap_or(0), waits_ns.len())
}

#[test]
fn an_interrupt_that_comes_too_early_does_not_hold_a_lock_before_it_is_taken() {
    let tasks = r#"
[[tasks]]
name = "first"
cpus = [0]
start = "1ms"
program = [{ run = "1ms" }]
[[tasks]]
name = "late"
count = 5
cpus = [0]
start = "1050us"
program = [{ run = "1ms" }]
"#;
    let mut machine = two_cpus();
    // The switch to `first` is longer than the time until the others come; then come five timers.
    machine.costs.context_switch_ns = 100 * US;
    machine.costs.timer_ns = 20 * US;
    let (longest_ns, nr) = lock_waits(&machine, tasks);
    assert!(nr > 0, "the two CPUs never met");
    assert!(longest_ns <= WAITS_MAX_NS, "CPUs wait {longest_ns} ns for the lock");
}

const OPENER: &str = r#"
[gates.gate]
[[tasks]]
name = "waiter"
count = 10
nice = -20
cpus = [0]
program = [{ wait = "gate" }, { run = "1ms" }]
[[tasks]]
name = "opener"
cpus = [0]
start = "10us"
program = [{ run = "1ms" }, { wake_all = "gate" }, { run = "1us" }]
"#;

const DRAINER: &str = r#"
[channels.pipe]
capacity_bytes = 100
[[tasks]]
name = "waiter"
count = 11
nice = -20
cpus = [0]
program = [{ send = "pipe", bytes = 100 }, { sleep = "10ms" }]
[[tasks]]
name = "drainer"
cpus = [0]
start = "10us"
program = [{ run = "1ms" }, { recv = "pipe", bytes = 100 }, { run = "1us" }]
"#;

#[test]
fn waking_many_is_as_many_critical_sections_as_there_are_tasks() {
    let mut machine = two_cpus();
    machine.costs.wakeup_ns = 20 * US;
    for tasks in [OPENER, DRAINER] {
        let (longest_ns, nr) = lock_waits(&machine, tasks);
        assert!(nr > 0, "the two CPUs never met:{tasks}");
        assert!(longest_ns <= WAITS_MAX_NS, "CPUs wait {longest_ns} ns for the lock:{tasks}");
    }
}

#[test]
fn whoever_wakes_many_is_preempted_when_all_are_awake() {
    let mut machine = costless(1, HZ);
    machine.costs.wakeup_ns = 20 * US;
    let workload = parsed(OPENER);
    // The first waiter has by far the better priority, and must wait all the same.
    let result = outcome("o1", &machine, &workload, END_NS, &[]);
    let opened = stays(&result, "opener");
    let woken_ns = 10 * 20 * US;
    assert_eq!(opened.len(), 1, "{opened:?}");
    assert!(opened[0].1 - opened[0].0 >= 1000 * US + woken_ns, "{opened:?}");
    // It has not come back to its last µs of work.
    assert!(opened[0].1 - opened[0].0 < 1001 * US + woken_ns, "{opened:?}");
}

#[test]
fn whoever_drains_a_channel_wakes_those_who_wait_then_and_nobody_else() {
    // Two drain it in turn; who has been woken by one and waits again is not the other's to wake.
    let text = r#"
stop = "200ms"
[channels.pipe]
capacity_bytes = 100
[[tasks]]
name = "sender"
count = 20
program = [{ repeat = "forever", do = [{ send = "pipe", bytes = 100 }] }]
[[tasks]]
name = "receiver"
count = 2
program = [{ repeat = "forever", do = [{ recv = "pipe", bytes = 100 }] }]
"#;
    let mut machine = costless(4, HZ);
    machine.costs.wakeup_ns = 20 * US;
    let result = outcome("round_robin", &machine, &parsed(text), None, &[]);
    // While one wakes half of them the other half blocks again, so a message costs about ten
    // wake-ups; were all woken who block meanwhile, it would cost nearly twenty.
    let per_message = result.wakeups / result.messages;
    assert!((8..12).contains(&per_message), "{per_message} wake-ups a message");
}

#[test]
fn who_wakes_a_better_one_on_its_own_cpu_is_preempted_before_it_does_anything_else() {
    let text = r#"
[gates.gate]
[[tasks]]
name = "better"
nice = -20
program = [{ wait = "gate" }, { run = "1ms" }]
[[tasks]]
name = "waker"
start = "1ms"
program = [{ run = "1ms" }, { wake = "gate" }, { sleep = "10ms" }]
"#;
    for policy in ["o1", "cfs", "bfs", "linux_2_4"] {
        let result = outcome(policy, &costless(1, HZ), &parsed(text), None, &[]);
        // It is preempted; then it goes to sleep; then it ends.
        assert_eq!(stays(&result, "waker").len(), 3, "{policy}");
    }
}

#[test]
fn timers_that_one_interrupt_serves_wake_all_their_tasks_before_the_cpu_picks() {
    let text = r#"
[[tasks]]
name = "worse"
nice = 19
program = [{ sleep = "10ms" }, { run = "1ms" }]
[[tasks]]
name = "better"
nice = -20
program = [{ sleep = "10ms" }, { run = "1ms" }]
"#;
    let mut machine = costless(1, HZ);
    // They fell asleep a ns after one another; the first one's interrupt is still being served.
    machine.costs.timer_ns = US;
    let result = outcome("o1", &machine, &parsed(text), None, &[]);
    let [worse, better] = ["worse", "better"].map(|name| stays(&result, name));
    // Each goes to sleep, and then runs once: nobody is preempted having just begun.
    assert_eq!((worse.len(), better.len()), (2, 2), "{worse:?} {better:?}");
    assert!(better[1].1 <= worse[1].0, "{worse:?} {better:?}");
}
