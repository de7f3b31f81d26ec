//! Goal: `cfs@3.6` wakes tasks on the CPUs, and leaves CPUs idle, that Linux 3.6 would. Method: a
//! task that last ran on a known CPU of a machine whose cores are known, beside hogs; and a CPU
//! that idles for a known time again and again.

use crate::support::{MS, costless, outcome, parsed, stays, woken_on};
use scenario::machine::{Cpu, Machine};

/// Three cores of two threads that share a cache: CPUs 0 and 3 are one.
fn three_cores() -> Machine {
    let mut machine = costless(6, 1000);
    for (number, cpu) in machine.cpus.iter_mut().enumerate() {
        *cpu = Cpu { core: number as u32 % 3, cache: 0, node: 0, ..*cpu };
    }
    machine
}

/// The CPU that takes the task that last ran on CPU 5, while hogs are on these CPUs.
fn taken_by(busy: &[u32], tunables: &[(&str, i64)]) -> u32 {
    woken_on("cfs@3.6", &three_cores(), (busy, ""), tunables)
}

#[test]
fn who_wakes_up_takes_an_idle_core_or_an_idle_thread_of_its_own() {
    for (busy, expected) in [
        (&[][..], 5),
        (&[5], 0),
        (&[5, 3], 1),
        (&[5, 0, 4], 2),
        // CPUs 3 and 4 are idle, but not their cores.
        (&[5, 2, 0, 1], 5),
    ] {
        assert_eq!(taken_by(busy, &[]), expected, "beside {busy:?}");
    }
    // The rule before and after: the first idle CPU.
    for (busy, expected) in [(&[5, 0][..], 1), (&[5, 2, 0, 1], 3)] {
        assert_eq!(taken_by(busy, &[("idle_sibling", 1)]), expected, "beside {busy:?}");
    }
}

/// How many of two hogs of CPU 0 come to CPU 1, on which a task sleeps so long again and again.
fn pulled(sleeps: &str, tunables: &[(&str, i64)]) -> usize {
    let hog = |name| {
        format!(
            "[[tasks]]\nname = \"{name}\"\ncpus = [0]\n\
             program = [{{ run = \"5ms\" }}, {{ affinity = \"all\" }}, {{ run = \"200ms\" }}]\n"
        )
    };
    let text = format!(
        r#"[[tasks]]
name = "short"
cpus = [1]
program = [{{ repeat = 300, do = [{{ run = "100us" }}, {{ sleep = "{sleeps}" }}] }}]
{}{}"#,
        hog("a"),
        hog("b")
    );
    // Nothing moves a task but a CPU that has just become idle.
    let tunables = [&[("idle_balance_ns", 0), ("busy_factor", 0)], tunables].concat();
    let result = outcome("cfs@3.6", &costless(2, 1000), &parsed(&text), 120 * MS, &tunables);
    let comes = |name: &str| stays(&result, name).iter().any(|stay| stay.2 == 1);
    ["a", "b"].into_iter().filter(|name| comes(name)).count()
}

#[test]
fn a_cpu_that_idles_for_less_than_half_a_millisecond_does_not_pull() {
    assert_eq!(pulled("200us", &[]), 0);
    assert!(pulled("200us", &[("newidle_idle_ns", 0)]) > 0);
    assert!(pulled("2ms", &[]) > 0);
    assert_eq!(pulled("2ms", &[("newidle", 0)]), 0);
}
