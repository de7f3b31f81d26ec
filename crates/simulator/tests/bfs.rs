//! Goal: bfs does what is known of BFS 0.302, 0.313 and 0.424.
//! Method: machines on which only work takes time; shares against an own simulation of earliest
//! deadline first with exact slices; orders and times of small scenes read off their timelines.

use crate::support::*;
use proptest::prelude::*;
use scenario::workload::{Channel, InitialTask, Op, Workload};
use simulator::RunResult;
use std::collections::VecDeque;

const HZ: u32 = 1000;
const VERSIONS: [i64; 3] = [302, 313, 424];

/// Slice on one CPU. That of 424 is 6.144 ms long, of which ticks give 6.
const SLICE_NS: u64 = 6 * MS;

fn bfs(version: i64, nr_cpus: usize, workload: &Workload, until_ns: Option<u64>) -> RunResult {
    let tunables = [("version", version)];
    outcome("bfs", &costless(nr_cpus, HZ), workload, until_ns, &tunables)
}

/// What one hog of each nice value gets of a CPU, in percent.
fn shares_percent(version: i64, nice_values: &[i8]) -> Vec<f64> {
    let until_ns = 40 * S;
    let jobs: Vec<Job> = nice_values.iter().map(|&nice| burner(nice, 0, 100 * S)).collect();
    let result = bfs(version, 1, &workload_of_jobs(&jobs), Some(until_ns));
    let run_ns = run_ns(&result);
    run_ns.iter().map(|&ns| ns as f64 / until_ns as f64 * 100.0).collect()
}

/// From one deadline to the next, in ns: 4.3 and 4.4 of the specification in closed form.
fn deadline_offset_ns(version: i64, nice: i8) -> u64 {
    let level = (nice + 20) as u64;
    let ratio = |base: u64| (0..level).fold(base, |ratio, _| ratio * 11 / 10);
    match version {
        302 => (level + 1) * 12 * MS,
        313 => ratio(100) * 6 / 100 * MS,
        _ => ratio(128) * 6 * ((1 << 20) / 128),
    }
}

/// CPU time of hogs on one CPU if slices end exactly and equal deadlines go to whoever queued
/// first; with `first_expired_wins` the first task in the queue whose deadline is over runs.
fn plain_edf_run_ns(
    version: i64,
    first_expired_wins: bool,
    nice_values: &[i8],
    until_ns: u64,
) -> Vec<u64> {
    let mut run_ns = vec![0; nice_values.len()];
    let mut queue: VecDeque<(usize, u64)> =
        nice_values.iter().map(|&nice| deadline_offset_ns(version, nice)).enumerate().collect();
    let mut now_ns = 0;
    while now_ns < until_ns {
        let expired = queue.iter().position(|task| first_expired_wins && task.1 < now_ns);
        let earliest = || (0..queue.len()).min_by_key(|&at| queue[at].1).expect("there are hogs");
        let at = expired.unwrap_or_else(earliest);
        let (task, _) = queue.remove(at).expect("it was found there");
        run_ns[task] += SLICE_NS;
        now_ns += SLICE_NS;
        queue.push_back((task, now_ns + deadline_offset_ns(version, nice_values[task])));
    }
    run_ns
}

// ---- shares -------------------------------------------------------------------------------------

#[test]
fn two_hogs_share_as_the_offsets_of_their_version_say() {
    let expected: [(i64, [i8; 2], f64); 15] = [
        (302, [0, 5], 90.9),
        (302, [0, 10], 95.2),
        (302, [0, 19], 97.4),
        (302, [-20, 0], 97.6),
        (302, [0, 1], 66.7),
        (313, [0, 5], 80.0),
        (313, [0, 10], 91.7),
        (313, [0, 19], 97.1),
        (313, [-20, 0], 85.7),
        (313, [0, 1], 50.0),
        (424, [0, 5], 83.3),
        (424, [0, 10], 91.7),
        (424, [0, 19], 97.2),
        (424, [-20, 0], 85.7),
        (424, [0, 1], 50.0),
    ];
    for (version, nice_values, percent) in expected {
        // Against the smaller share, which is known to a tenth of a percent of the CPU.
        let [got, expected] = [shares_percent(version, &nice_values)[1], 100.0 - percent];
        let said = format!("{version} {nice_values:?}: {got}, not {expected}");
        assert!((got - expected).abs() < 0.051 + 0.01 * expected, "{said}");
    }
}

#[test]
fn four_hogs_of_each_of_two_nice_values_share_less_steeply_than_one_of_each() {
    for (version, of_nice_0, of_nice_5) in [(302, 18.3, 6.7), (313, 15.0, 10.0), (424, 15.9, 9.1)] {
        let shares = shares_percent(version, &[0, 0, 0, 0, 5, 5, 5, 5]);
        for (task, share) in shares.iter().enumerate() {
            let percent = if task < 4 { of_nice_0 } else { of_nice_5 };
            assert!((share - percent).abs() < 0.051 + 0.01 * percent, "{version}: {shares:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn any_hogs_share_as_in_a_plain_earliest_deadline_first(
        nice_values in prop::collection::vec(-20i8..20, 1..8),
        version in prop::sample::select(VERSIONS.to_vec()),
        first_expired_wins: bool,
    ) {
        let until_ns = 10 * S;
        let jobs: Vec<Job> = nice_values.iter().map(|&nice| burner(nice, 0, 100 * S)).collect();
        let tunables =
            [("version", version), ("first_expired_wins", i64::from(first_expired_wins))];
        let machine = costless(1, HZ);
        let result =
            outcome("bfs", &machine, &workload_of_jobs(&jobs), until_ns, &tunables);
        let first_expired_wins = first_expired_wins || version == 313;
        let expected = plain_edf_run_ns(version, first_expired_wins, &nice_values, until_ns);
        for (got, expected) in run_ns(&result).into_iter().zip(&expected) {
            prop_assert!(
                got.abs_diff(*expected) <= until_ns / 100,
                "{} {:?}: {} instead of {}", version, nice_values, got, expected
            );
        }
    }

    #[test]
    fn no_job_waits_while_a_cpu_it_may_use_idles(
        gaps_and_work_us in prop::collection::vec((1u64..8_000, 1u64..30_000), 1..30),
        pins in prop::collection::vec(prop::option::of(0u32..3), 30),
        version in prop::sample::select(VERSIONS.to_vec()),
    ) {
        let jobs = jobs_of(&gaps_and_work_us, &pins);
        let result = bfs(version, 3, &workload_of_jobs(&jobs), None);
        prop_assert_eq!(needless_waits(&result, &jobs, 3), vec![]);
    }
}

// ---- slices -------------------------------------------------------------------------------------

#[test]
fn equal_hogs_take_strict_turns_of_one_slice() {
    for version in VERSIONS {
        let result = bfs(version, 1, &burners(3, S), Some(S));
        for (turn, (from_ns, to_ns, _, pid)) in all_stays(&result).into_iter().enumerate() {
            // The end of the run cuts the last turn short.
            let slice_ns = SLICE_NS.min(S - from_ns);
            assert_eq!(to_ns - from_ns, slice_ns, "{version}, turn {turn}");
            assert_eq!(pid as usize, turn % 3 + 1, "{version}, turn {turn}");
        }
    }
}

#[test]
fn slices_grow_with_the_logarithm_of_the_cpus_until_424() {
    for (nr_cpus, slices_ms) in [(1, [6, 6, 6]), (2, [12, 12, 6]), (4, [18, 18, 6])] {
        for (version, slice_ms) in VERSIONS.into_iter().zip(slices_ms) {
            let result = bfs(version, nr_cpus, &burners(2 * nr_cpus as u64, S), Some(S));
            let longest_ns = all_stays(&result).iter().map(|stay| stay.1 - stay.0).max();
            assert_eq!(longest_ns, Some(slice_ms * MS), "{version} on {nr_cpus} CPUs");
        }
    }
}

#[test]
fn n_hogs_on_two_cpus_end_within_three_percent_of_the_ideal() {
    let work_ns = 150 * MS;
    for version in VERSIONS {
        for n in 1..=9 {
            let result = bfs(version, 2, &burners(n, work_ns), None);
            let ideal_ns = work_ns.max(work_ns * n / 2);
            let ratio = result.makespan_ns as f64 / ideal_ns as f64;
            assert!((1.0..=1.03).contains(&ratio), "{version}: {n} hogs take {ratio} of the ideal");
        }
    }
}

#[test]
fn three_jobs_on_two_cpus_end_together_until_424_keeps_one_apart() {
    for version in VERSIONS {
        let result = bfs(version, 2, &burners(3, 3 * S), None);
        let mut ends_ns: Vec<u64> =
            result.task_groups.iter().map(|group| group.last_exit_ns).collect();
        ends_ns.sort_unstable();
        // A sticky task is hardly ever taken by another CPU, so two share one and the third has
        // the other; the last ends no later for that.
        let expected_ns = [if version == 424 { 3 * S } else { 4_500 * MS }, 4_500 * MS, 4_500 * MS];
        for (got_ns, expected_ns) in ends_ns.iter().zip(expected_ns) {
            assert!(got_ns.abs_diff(expected_ns) < SLICE_NS, "{version}: {ends_ns:?}");
        }
    }
}

/// The longest time between two stays of a job; 0 if it never waits.
fn longest_wait_ns(result: &RunResult, pid: u32) -> u64 {
    let stays = stays_of(result, pid);
    stays.windows(2).map(|pair| pair[1].0 - pair[0].1).max().unwrap_or(0)
}

#[test]
fn a_hog_among_n_waits_for_its_part_of_the_others_slices() {
    for (version, nr_cpus, slice_ns) in
        [(302, 1, 6 * MS), (313, 1, 6 * MS), (424, 1, 6 * MS), (302, 2, 12 * MS), (313, 2, 12 * MS)]
    {
        for n in [3_u64, 4, 5, 8] {
            let result = bfs(version, nr_cpus as usize, &burners(n, 10 * S), Some(5 * S));
            for pid in 1..=n as u32 {
                let got_ns = longest_wait_ns(&result, pid);
                // Both CPUs change at one time, so waits are whole slices.
                let expected_ns = (n.div_ceil(nr_cpus) - 1) * slice_ns;
                assert_eq!(got_ns, expected_ns, "{version}: {pid} of {n} on {nr_cpus} CPUs");
                assert!(got_ns <= (n - 1) * slice_ns / nr_cpus, "what was published as the most");
            }
        }
    }
}

#[test]
fn a_nice_19_hog_beside_one_of_nice_0_waits_as_long_as_the_offsets_say() {
    // 424 was simulated with slices of 6.144 ms, of which ticks leave 6: 35 of them are 210 ms.
    for (version, expected_ms) in [(302, 228), (313, 204), (424, 210)] {
        let jobs = [burner(0, 0, 100 * S), burner(19, 0, 100 * S)];
        let result = bfs(version, 1, &workload_of_jobs(&jobs), Some(10 * S));
        assert!(stays_of(&result, 2).len() > 10, "{version}");
        assert_eq!(longest_wait_ns(&result, 2), expected_ms * MS, "{version}");
    }
}

#[test]
fn a_nice_19_hog_waits_no_longer_than_its_offset_and_the_slices_of_the_others() {
    for version in VERSIONS {
        for others in [1_usize, 4, 16] {
            let mut jobs: Vec<Job> = (0..others).map(|_| burner(0, 0, 100 * S)).collect();
            jobs.push(burner(19, 0, 100 * S));
            let result = bfs(version, 1, &workload_of_jobs(&jobs), Some(20 * S));
            let pid = jobs.len() as u32;
            assert!(stays_of(&result, pid).len() > 10, "{version}, {others} others");
            let got_ns = longest_wait_ns(&result, pid);
            let bound_ns = deadline_offset_ns(version, 19) + others as u64 * SLICE_NS;
            assert!(got_ns <= bound_ns, "{version}, {others} others: {got_ns} > {bound_ns}");
        }
    }
}

// ---- what it costs ------------------------------------------------------------------------------

#[test]
fn a_pick_costs_in_proportion_to_those_who_wait() {
    let step_ns = machine(1, HZ).costs.scan_step_ns as f64;
    // 313 stops at the first expired deadline, which mostly is near.
    for version in [302, 424] {
        let [some, many] = [40, 80].map(|nr| pick_cost_ns("bfs", nr, &[("version", version)]));
        let per_task_ns = (many - some) / 40.0;
        assert!((per_task_ns / step_ns - 1.0).abs() < 0.02, "{version}: {per_task_ns} {step_ns}");
    }
}

#[test]
fn more_cpus_wait_longer_for_their_one_lock_and_not_with_queues_of_their_own() {
    let lock_wait_ns = |policy: &str, tunables: &[(&str, i64)], nr_cpus: usize| {
        let napper = task("napper", 0, forever(&[sleep(100 * US), run(20 * US)]));
        let tasks = [vec![napper; 8 * nr_cpus], vec![hog("hog", 5); 4 * nr_cpus]].concat();
        let workload = together(tasks);
        let result = outcome(policy, &machine(nr_cpus, HZ), &workload, 200 * MS, tunables);
        result.cpu_time_ns.lock_wait as f64 / result.switches as f64
    };
    for version in VERSIONS {
        let [one, two, eight] =
            [1, 2, 8].map(|nr_cpus| lock_wait_ns("bfs", &[("version", version)], nr_cpus));
        assert!(one == 0.0 && two > 0.0 && eight > 4.0 * two, "{version}: {one} {two} {eight}");
        let apart = lock_wait_ns("o1", &[], 8);
        assert!(apart < 0.05 * eight, "{version}: {eight}, and {apart} with a queue per CPU");
    }
}

// ---- where tasks go -----------------------------------------------------------------------------

/// Migrations of hogs in a second on two CPUs, with one cache or with one each.
fn migrations(version: i64, caches: [u32; 2], nr_hogs: u64) -> u64 {
    let mut machine = costless(2, HZ);
    for (cpu, cache) in machine.cpus.iter_mut().zip(caches) {
        cpu.cache = cache;
    }
    outcome("bfs", &machine, &burners(nr_hogs, 2 * S), S, &[("version", version)]).migrations
}

#[test]
fn a_task_whose_cache_is_elsewhere_counts_as_later_until_424() {
    for version in [302, 313] {
        let (shared, apart) = (migrations(version, [0, 0], 5), migrations(version, [0, 1], 5));
        assert!(shared > 100 && apart < 10, "{version}: {shared} and {apart} migrations");
    }
    assert_eq!(migrations(424, [0, 0], 5), migrations(424, [0, 1], 5));
}

#[test]
fn a_task_that_lost_its_cpu_against_its_will_stays_there_in_424() {
    let (free, sticky) = (migrations(302, [0, 0], 3), migrations(424, [0, 0], 3));
    assert!(free > 50 && sticky < 10, "{free} and {sticky} migrations");
}

// ---- waking up ----------------------------------------------------------------------------------

fn job(nice: i8, start_at_ns: u64, ops: &[Op]) -> Job {
    Job { nice, cpus: None, start_at_ns, program: ops.into() }
}

/// Who ran on a CPU right before and right after a moment.
fn around(result: &RunResult, cpu: u32, at_ns: u64) -> (Option<u32>, Option<u32>) {
    let stays = all_stays(result);
    let on_cpu = || stays.iter().filter(|stay| stay.2 == cpu);
    let before = on_cpu().find(|stay| stay.0 < at_ns && at_ns <= stay.1).map(|stay| stay.3);
    let after = on_cpu().find(|stay| stay.0 <= at_ns && at_ns < stay.1).map(|stay| stay.3);
    (before, after)
}

/// Cores and caches of CPUs whose second threads have the upper half of the numbers.
const TWO_CORES_OF_TWO_THREADS: [(u32, u32); 4] = [(0, 0), (1, 0), (0, 0), (1, 0)];
const WITH_A_CACHE_EACH: [(u32, u32); 4] = [(0, 0), (1, 1), (0, 0), (1, 1)];
const A_CACHE_FOR_EACH_TWO_CORES: [(u32, u32); 4] = [(0, 0), (1, 0), (2, 1), (3, 1)];
const TWO_SOCKETS: [(u32, u32); 8] =
    [(0, 0), (1, 0), (2, 1), (3, 1), (0, 0), (1, 0), (2, 1), (3, 1)];

/// A task that ran on CPU 0 wakes up while others have these CPUs.
fn woken_beside(
    cpus: &[(u32, u32)],
    nodes: bool,
    busy: &[u32],
    tunables: &[(&str, i64)],
) -> RunResult {
    let mut machine = costless(cpus.len(), HZ);
    for (cpu, &(core, cache)) in machine.cpus.iter_mut().zip(cpus) {
        (cpu.core, cpu.cache, cpu.node) = (core, cache, if nodes { cache } else { 0 });
    }
    let mut jobs = vec![job(0, 0, &[run(MS), sleep(10 * MS), run(MS)])];
    jobs.extend(busy.iter().map(|&cpu| Job { cpus: Some(vec![cpu]), ..burner(0, 2 * MS, S) }));
    outcome("bfs", &machine, &workload_of_jobs(&jobs), 20 * MS, tunables)
}

/// Where it goes.
fn goes_to(cpus: &[(u32, u32)], nodes: bool, busy: &[u32], tunables: &[(&str, i64)]) -> u32 {
    let result = woken_beside(cpus, nodes, busy, tunables);
    let cpus: Vec<u32> = stays_of(&result, 1).iter().map(|stay| stay.2).collect();
    assert_eq!((cpus[0], cpus.len()), (0, 2), "{cpus:?}");
    cpus[1]
}

#[test]
fn in_424_a_task_whose_own_cpu_idles_wakes_no_other_even_beside_a_busy_thread() {
    let interrupts = [313, 424].map(|version| {
        let cores = &TWO_CORES_OF_TWO_THREADS;
        woken_beside(cores, false, &[2], &[("version", version)]).interrupts
    });
    assert_eq!(interrupts, [1, 0]);
}

#[test]
fn where_domains_are_numbered_from_0_caches_rank_as_cores_should() {
    let cases = [
        (&A_CACHE_FOR_EACH_TWO_CORES[..], &[0][..], [1, 2]),
        (&A_CACHE_FOR_EACH_TWO_CORES, &[0, 3], [1, 1]),
        (&WITH_A_CACHE_EACH, &[0], [1, 2]),
        (&TWO_CORES_OF_TWO_THREADS, &[0], [1, 1]),
        (&TWO_CORES_OF_TWO_THREADS, &[0, 1], [2, 2]),
    ];
    for (cpus, busy, goes) in cases {
        for (from_zero, cpu) in [0, 1].into_iter().zip(goes) {
            let tunables = [("version", 424), ("domains_from_zero", from_zero)];
            let got = goes_to(cpus, false, busy, &tunables);
            assert_eq!(got, cpu, "{cpus:?}, busy {busy:?}, {tunables:?}");
        }
    }
}

#[test]
fn whether_nodes_are_known_decides_only_where_domains_have_the_numbers_that_424_expects() {
    // By whether domains are numbered from 0, and then by whether nodes are known.
    for (busy, goes) in [(&[0, 1, 2][..], [[3, 4], [4, 4]]), (&[0, 1], [[2, 4], [2, 2]])] {
        for (from_zero, knows) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let tunables =
                [("version", 424), ("domains_from_zero", from_zero), ("knows_nodes", knows)];
            let got = goes_to(&TWO_SOCKETS, true, busy, &tunables);
            let expected = goes[from_zero as usize][knows as usize];
            assert_eq!(got, expected, "busy {busy:?}, {tunables:?}");
        }
    }
}

#[test]
fn a_waking_task_preempts_the_cpu_with_the_latest_deadline() {
    for version in VERSIONS {
        let sleep = [run(MS), sleep(31 * MS + MS / 2), run(MS)];
        let jobs = [job(0, 0, &sleep), burner(0, 0, 100 * MS), burner(15, 0, 100 * MS)];
        let result = bfs(version, 2, &workload_of_jobs(&jobs), None);
        let (_, slept_at_ns, _, _) = stays_of(&result, 1)[0];
        let woken = stays_of(&result, 1)[1];
        assert!(woken.0 - slept_at_ns <= 31 * MS + MS / 2 + 2, "{version}: it waited");
        assert_eq!(around(&result, woken.2, woken.0), (Some(3), Some(1)), "{version}");
        assert_eq!(around(&result, 1 - woken.2, woken.0), (Some(2), Some(2)), "{version}");
    }
}

#[test]
fn a_waking_task_with_the_latest_deadline_waits_for_its_turn() {
    for version in VERSIONS {
        let sleep = [run(MS), sleep(MS / 2), run(MS)];
        let jobs = [job(19, 0, &sleep), burner(0, 2 * MS, S)];
        let result = bfs(version, 1, &workload_of_jobs(&jobs), Some(S));
        let first_hog_stay = stays_of(&result, 2)[0];
        assert!(first_hog_stay.1 - first_hog_stay.0 >= SLICE_NS, "{version}: {first_hog_stay:?}");
    }
}

/// A writer that sends to a reader and goes on computing, while a third task that nobody can
/// preempt holds the other CPU. (A machine of one CPU never asks a policy to select one, so there
/// the policy cannot learn what the waker is about to do.)
fn time_until_the_reader_reads_ns(version: i64, sync_wakeups: bool) -> u64 {
    let writes = [sleep(20 * MS), run(MS), SEND, run(3 * MS)];
    let reads = [RECEIVE, run(MS)];
    let holder = Job { cpus: Some(vec![1]), ..burner(-20, 0, 100 * MS) };
    let mut workload = workload_of_jobs(&[job(0, 0, &reads), job(10, 0, &writes), holder]);
    workload.channels = vec![Channel { capacity_bytes: 4096, sync_wakeups, ..Channel::default() }];
    let result = bfs(version, 2, &workload.with_digest(), None);
    stays_of(&result, 1).last().expect("it reads").0 - 21 * MS
}

#[test]
fn a_wakeup_by_a_task_that_is_about_to_sleep_does_not_preempt_it() {
    for version in VERSIONS {
        assert!(time_until_the_reader_reads_ns(version, false) < MS, "{version}");
        assert!(time_until_the_reader_reads_ns(version, true) >= 3 * MS, "{version}");
    }
}

// ---- forks and yields ---------------------------------------------------------------------------

/// A parent that forks one child at once; both then compute.
fn family() -> Workload {
    let child = burner(0, 0, 100 * MS);
    let parent = job(0, 0, &[Op::Fork { template: 1 }, run(100 * MS), Op::Join]);
    let mut workload = workload_of_jobs(&[parent, child]);
    workload.initial = vec![InitialTask { template: 0, start_at_ns: 0 }];
    workload.with_digest()
}

#[test]
fn a_child_runs_first_and_gets_half_of_its_parents_slice() {
    for version in VERSIONS {
        let result = bfs(version, 1, &family(), None);
        let firsts: Vec<_> =
            all_stays(&result).into_iter().filter(|stay| stay.0 > 0).take(2).collect();
        let lengths_ns: Vec<u64> = firsts.iter().map(|stay| stay.1 - stay.0).collect();
        assert_eq!([firsts[0].3, firsts[1].3], [2, 1], "{version}: {firsts:?}");
        for ns in lengths_ns {
            assert!(ns.abs_diff(SLICE_NS / 2) <= MS, "{version}: {firsts:?}");
        }
    }
}

/// What a task that only yields gets beside a hog, in percent.
fn yielder_percent(version: i64) -> f64 {
    let program = forever(&[run(10 * US), Op::Yield]);
    let yielder = Job { nice: 0, cpus: None, start_at_ns: 0, program };
    let result = bfs(version, 1, &workload_of_jobs(&[yielder, burner(0, 0, 10 * S)]), Some(S));
    run_ns(&result)[0] as f64 / S as f64 * 100.0
}

#[test]
fn a_yield_gives_the_slice_up_until_424_keeps_the_deadline() {
    for version in [302, 313] {
        let percent = yielder_percent(version);
        assert!(percent < 1.0, "{version}: {percent} %");
    }
    let percent = yielder_percent(424);
    assert!(percent > 40.0, "424: {percent} %");
}
