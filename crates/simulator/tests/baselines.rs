//! Goal: fifo and round_robin keep what their headers promise.
//! Method: machines on which only work takes time; a plain model, closed forms, and random jobs.

use crate::support::*;
use proptest::prelude::*;

const HZ: u32 = 1000;
const TICK_NS: u64 = MS;
const SLICE_NS: u64 = 3 * MS;
/// The least that the simulator lets a system call take; each job makes one, to exit.
const EXIT_NS: u64 = 1;

/// When each job begins and ends if whoever comes first takes the CPU that is free first.
fn first_come_first_served(gaps_and_work_us: &[(u64, u64)], nr_cpus: usize) -> Vec<(u64, u64)> {
    let mut free_at_ns = vec![0; nr_cpus];
    let mut at_ns = 0;
    gaps_and_work_us
        .iter()
        .map(|&(gap_us, work_us)| {
            at_ns += gap_us * 1_000;
            let free = free_at_ns.iter_mut().min().expect("there is a CPU");
            let begins_ns = at_ns.max(*free);
            *free = begins_ns + work_us * 1_000 + EXIT_NS;
            (begins_ns, *free)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn fifo_equals_a_plain_first_come_first_served_queue(
        gaps_and_work_us in prop::collection::vec((1u64..8_000, 1u64..30_000), 1..40),
        nr_cpus in 1usize..5,
    ) {
        let jobs = jobs_of(&gaps_and_work_us, &[]);
        let (machine, workload) = (costless(nr_cpus, HZ), workload_of_jobs(&jobs));
        let result = outcome("fifo", &machine, &workload, None, &[]);
        let mut served: Vec<(u64, u64)> = all_stays(&result).iter().map(|s| (s.0, s.1)).collect();
        served.sort_unstable();
        let mut expected = first_come_first_served(&gaps_and_work_us, nr_cpus);
        expected.sort_unstable();
        prop_assert_eq!(served, expected);
        prop_assert_eq!(result.involuntary_switches, 0);
    }

    #[test]
    fn no_job_waits_while_a_cpu_it_may_use_idles(
        gaps_and_work_us in prop::collection::vec((1u64..8_000, 1u64..30_000), 1..30),
        pins in prop::collection::vec(prop::option::of(0u32..3), 30),
    ) {
        let jobs = jobs_of(&gaps_and_work_us, &pins);
        for name in ["fifo", "round_robin"] {
            let workload = workload_of_jobs(&jobs);
            let result = outcome(name, &costless(3, HZ), &workload, None, &[]);
            prop_assert_eq!(needless_waits(&result, &jobs, 3), vec![], "{}", name);
        }
    }

    #[test]
    fn round_robin_bounds_every_wait(
        gaps_and_work_us in prop::collection::vec((1u64..8_000, 1u64..60_000), 1..30),
        nr_cpus in 1usize..5,
    ) {
        let jobs = jobs_of(&gaps_and_work_us, &[]);
        let (machine, workload) = (costless(nr_cpus, HZ), workload_of_jobs(&jobs));
        let result = outcome("round_robin", &machine, &workload, None, &[]);
        let turns = (jobs.len() as u64).div_ceil(nr_cpus as u64);
        prop_assert!(result.wait_ns.max <= turns * (SLICE_NS + TICK_NS));
    }
}

#[test]
fn round_robin_gives_each_of_n_hogs_one_slice_in_turn() {
    for n in 2..=5 {
        let result = outcome("round_robin", &costless(1, HZ), &burners(n as u64, S), S, &[]);
        let stays = all_stays(&result);
        for (turn, &(from_ns, to_ns, _, pid)) in stays.iter().enumerate() {
            // The end of the run cuts the last turn short.
            let end_ns = ((turn as u64 + 1) * SLICE_NS).min(S);
            let expected = (turn as u64 * SLICE_NS, end_ns);
            assert_eq!((from_ns, to_ns), expected, "turn {turn} of {n} hogs");
            assert_eq!(pid as usize, turn % n + 1, "turn {turn} of {n} hogs");
        }
        assert!(stays.len() as u64 >= S / SLICE_NS - 1, "{} turns", stays.len());
    }
}

#[test]
fn round_robin_ignores_nice_values() {
    let jobs = [burner(-20, 0, S), burner(0, 0, S), burner(19, 0, S)];
    let result = outcome("round_robin", &costless(1, HZ), &workload_of_jobs(&jobs), S, &[]);
    for ns in run_ns(&result) {
        assert!(ns.abs_diff(S / 3) <= SLICE_NS, "{ns} ns of a second");
    }
}

#[test]
fn round_robin_slice_is_a_tunable() {
    let slice_ns = 10 * MS;
    let tunables = [("slice_ns", slice_ns as i64)];
    let result = outcome("round_robin", &costless(1, HZ), &burners(2, S), S, &tunables);
    assert!(all_stays(&result).iter().all(|stay| stay.1 - stay.0 == slice_ns));
}

/// A task that had the CPU to itself must not keep a longer slice when another one comes.
#[test]
fn round_robin_slice_of_a_lonely_task_is_no_longer() {
    let jobs = [burner(0, 0, S), burner(0, 84 * MS + MS / 2, S)];
    let result = outcome("round_robin", &costless(1, HZ), &workload_of_jobs(&jobs), S, &[]);
    let second = stays_of(&result, 2)[0];
    assert!(second.0 - jobs[1].start_at_ns <= SLICE_NS, "began at {} ns", second.0);
}
