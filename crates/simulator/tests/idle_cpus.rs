//! Goal: a task that wakes up gets the idle CPU that the kernel's default would give it. Method:
//! a task that last ran on CPU 5, hogs on some CPUs of machines whose caches and nodes are known,
//! and the order that Linux 6.16 documents: whole cores first, then the same CPU, its cache, its
//! node, any.

use crate::support::{costless, woken_on};
use scenario::machine::{Cpu, Machine};

/// Two nodes of two caches of two cores each, of one or two threads: CPUs 0 and 1 share a cache, 0
/// to 3 a node, and with two threads 0 and 8 a core.
fn machine(nr_threads: u32) -> Machine {
    let mut machine = costless(8 * nr_threads as usize, 1000);
    for (number, cpu) in machine.cpus.iter_mut().enumerate() {
        let core = number as u32 % 8;
        *cpu = Cpu { core, cache: core / 2, node: core / 4, ..*cpu };
    }
    machine
}

/// The CPU that takes the task that last ran on CPU 5, while hogs are on these CPUs.
fn taken_by(machine: &Machine, busy: &[u32], more: &str) -> u32 {
    woken_on("round_robin", machine, (busy, more), &[])
}

#[test]
fn the_nearest_idle_cpu_takes_a_task_that_wakes_up() {
    let machine = machine(1);
    let nearest: [(&[u32], u32); 5] = [
        (&[], 5),
        (&[5], 4),                // the same cache
        (&[4, 5], 6),             // the same node
        (&[4, 5, 6], 7),          // still
        (&[4, 5, 6, 7, 0, 1], 2), // any
    ];
    for (busy, cpu) in nearest {
        assert_eq!(taken_by(&machine, busy, ""), cpu, "{busy:?} are busy");
    }
}

#[test]
fn a_whole_idle_core_goes_before_all_nearness() {
    let machine = machine(2);
    let nearest: [(&[u32], u32); 5] = [
        (&[], 5),
        (&[13], 4),                        // its own core's other thread is busy
        (&[5, 12], 6),                     // whole cores of the node before threads of the cache
        (&[13, 4, 6, 7], 0),               // and of another node before its own CPU
        (&[5, 4, 6, 7, 8, 9, 10, 11], 12), // no whole core is left: the cache's other threads
    ];
    for (busy, cpu) in nearest {
        assert_eq!(taken_by(&machine, busy, ""), cpu, "{busy:?} are busy");
    }
}

#[test]
fn a_cache_that_all_share_makes_no_difference() {
    let mut machine = machine(1);
    for cpu in &mut machine.cpus {
        (cpu.cache, cpu.node) = (0, 0);
    }
    assert_eq!(taken_by(&machine, &[5], ""), 0);
}

#[test]
fn nearness_is_that_of_the_cpus_that_are_online() {
    // Only CPUs 0, 1 and 5 are left; a cache with one CPU is no domain, and its node has no other.
    let gone = [2, 3, 4, 6, 7]
        .map(|cpu| format!("[[hotplug]]\nat = \"2500us\"\ncpu = {cpu}\nstate = \"offline\"\n"));
    assert_eq!(taken_by(&machine(1), &[5], &gone.concat()), 0);
    // The core still counts a CPU that is gone as idle, until it has been chosen once: the policy
    // then looks for any other.
    let gone = "[[hotplug]]\nat = \"2500us\"\ncpu = 4\nstate = \"offline\"\n";
    assert_eq!(taken_by(&machine(1), &[5], gone), 0);
}
