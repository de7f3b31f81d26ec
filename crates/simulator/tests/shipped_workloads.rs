//! Goal: shipped workloads mean what they say. Method: their closed forms, on machines on which
//! only work takes time: totals, critical paths, offered load, and no deadline missed where
//! nobody is in the way.

use crate::support::*;
use scenario::workload::Workload;
use simulator::{RunResult, Status};

const HZ: u32 = 1000;

/// A run on `nr_cpus` CPUs without costs, under a policy that never leaves one idle.
fn run_on(nr_cpus: usize, name: &str, parameters: &[(&str, &str)]) -> RunResult {
    run_of(nr_cpus, &shipped_workload(name, parameters))
}

fn run_of(nr_cpus: usize, workload: &Workload) -> RunResult {
    let result = outcome("fifo", &costless(nr_cpus, HZ), workload, None, &[]);
    assert_eq!(result.status, Status::Completed);
    result
}

/// Whether `got` is `want` but for the nanoseconds of system calls.
fn assert_about(got: u64, want: u64) {
    assert!((got as f64 / want as f64 - 1.0).abs() < 1e-4, "{got} for {want}");
}

// ---- make ---------------------------------------------------------------------------------------

/// The computing of all tasks.
fn work_ns(result: &RunResult) -> u64 {
    result.task_groups.iter().map(|group| group.run_ns).sum()
}

#[test]
fn make_with_one_job_takes_the_sum_of_its_parts() {
    for (name, nr_compiles) in [("make", 246), ("make_kernel", 488)] {
        let result = run_on(4, name, &[("jobs", "1")]);
        assert_eq!(group(&result, "cc1").count, nr_compiles);
        assert_about(result.makespan_ns, work_ns(&result));
    }
}

#[test]
fn make_compiles_as_long_as_was_recorded() {
    // Straight lines between nine quantiles: 3 % above the recording's own sum; and 488 compiles
    // for 481.
    for (name, recorded_s, above) in [("make", 40.28, 1.033), ("make_kernel", 126.7, 1.046)] {
        let mean_s = |seed| {
            let workload = shipped_workload(name, &[]);
            let result = attempt(&shipped("fifo"), &costless(2, HZ), &workload, seed);
            group(&result, "cc1").run_ns as f64 / 1e9
        };
        let got = (1..=10).map(mean_s).sum::<f64>() / 10.0 / recorded_s;
        assert!((got / above - 1.0).abs() < 0.04, "{name}: {got} of what was recorded");
    }
}

#[test]
fn make_does_the_same_work_whoever_forks_first() {
    for (name, drawn) in [("make", ["cc1", "as", "ld"]), ("make_kernel", ["cc1", "as", "fixdep"])] {
        let work_under = |policy: &str, nr_cpus| {
            let workload = shipped_workload(name, &[("jobs", "5")]);
            let result = attempt(&shipped(policy), &costless(nr_cpus, HZ), &workload, 7);
            assert_eq!(result.status, Status::Completed);
            drawn.map(|of| group(&result, of).run_ns)
        };
        let here = work_under("fifo", 2);
        for (policy, nr_cpus) in [("cfs", 2), ("bfs", 3), ("linux_2_4", 1)] {
            assert_eq!(work_under(policy, nr_cpus), here, "{name} under {policy}");
        }
    }
}

#[test]
fn make_runs_no_more_jobs_than_it_is_told() {
    for jobs in [1, 2, 3, 5] {
        let result = run_on(8, "make_kernel", &[("jobs", &jobs.to_string())]);
        let names = result.timeline_names.as_ref().expect("a timeline was asked for");
        let mut changes: Vec<(u64, i32)> = Vec::new();
        for (start, end, _, pid) in timeline(&result) {
            if names[&pid] == "cc1" {
                changes.extend([(start, 1), (end, -1)]);
            }
        }
        changes.sort_unstable();
        let running = changes.iter().scan(0, |running, (_, change)| {
            *running += change;
            Some(*running)
        });
        assert_eq!(running.max(), Some(jobs));
    }
}

#[test]
fn make_on_more_cpus_is_bounded_by_its_work_and_its_longest_job() {
    let result = run_on(4, "make_kernel", &[("jobs", "4")]);
    // Last of all, and of nothing else so long: the link.
    let link_ns = 390 * MS;
    let built_ns = work_ns(&result) - link_ns;
    // The longest compile, and what comes before and after it in its recipe and its directory.
    let longest_ns = 2_423_302 * US + 100 * MS;
    // Graham's bound of 1966 for any order of jobs, and the bound of the work.
    let (least, most) = (built_ns / 4, built_ns / 4 + longest_ns);
    let took_ns = result.makespan_ns - link_ns;
    assert!((least..=most).contains(&took_ns), "{least} {took_ns} {most}");
}

#[test]
fn the_size_of_make_scales_all_that_it_starts() {
    for name in ["make", "make_kernel"] {
        let at = |size| run_on(1, name, &[("size", size)]).makespan_ns;
        assert_about(at("4000"), 4 * at("1000"));
    }
}

// ---- counter ------------------------------------------------------------------------------------

#[test]
fn counter_tests_in_a_row_are_measured_together_and_those_before_are_not() {
    let run = |before: &str, passes: &str| {
        let fixed = [("n", "3"), ("startup_min", "1ms"), ("startup_max", "1ms")];
        run_on(4, "counter", &[&fixed[..], &[("before", before), ("passes", passes)]].concat())
    };
    let [one, three, after] = [("0", "1"), ("0", "3"), ("2", "3")].map(|(b, p)| run(b, p));
    assert_about(three.makespan_ns, 3 * one.makespan_ns);
    assert_about(after.makespan_ns, three.makespan_ns);
    assert!(after.elapsed_ns > three.elapsed_ns + 300 * MS, "{}", after.elapsed_ns);
    assert_eq!(group(&after, "counter").count, 2 * 2 + 3 * 3);
}

// ---- lrzip --------------------------------------------------------------------------------------

/// Half of the file is left: with 15 threads that is 8 blocks.
const LRZIP: [(&str, &str); 7] = [
    ("spread_permille", "0"),
    ("scan", "1s"),
    ("compress", "8s"),
    ("finder_permille", "250"),
    ("batch", "1ms"),
    ("write", "80ms"),
    ("left_permille", "500"),
];

fn lrzip(nr_cpus: usize, threads: &str) -> u64 {
    run_on(nr_cpus, "lrzip", &[&LRZIP[..], &[("threads", threads)]].concat()).makespan_ns
}

#[test]
fn lrzip_on_one_cpu_takes_the_sum_of_its_parts() {
    assert_about(lrzip(1, "1"), 9_080 * MS);
    assert_about(lrzip(1, "8"), 9_080 * MS);
}

#[test]
fn lrzip_with_one_thread_scans_and_then_compresses() {
    assert_about(lrzip(4, "1"), 9_080 * MS);
}

#[test]
fn lrzip_with_a_cpu_for_each_thread_ends_with_the_last_block() {
    // The last block begins when all has been scanned; those before are written by then. Who codes
    // has three quarters of its second, from when the first batch of 1 ms is found.
    assert_about(lrzip(32, "15"), 1_000 * MS + MS + 750 * MS + 10 * MS);
    // One block and a half: the first is full after two thirds of the scan, and ends later.
    assert_about(lrzip(8, "2"), 1_000 * MS * 2 / 3 + MS + 6_000 * MS * 2 / 3 + 80 * MS);
}

#[test]
fn lrzip_writes_in_order() {
    // One scan, and then blocks all at once: each waits for the one before to be written.
    let changed = [("scan", "0s"), ("write", "4s"), ("threads", "15")];
    let all = [&LRZIP[..], &changed].concat();
    assert_about(run_on(32, "lrzip", &all).makespan_ns, MS + 750 * MS + 4_000 * MS);
}

/// When the thread that finds matches and the one that codes are done with the only block.
fn block_ends_ns(finder_permille: &str, batch: &str) -> (u64, u64) {
    let changed = [("threads", "2"), ("left_permille", "1"), ("scan", "0s"), ("write", "0s")];
    let shape = [("finder_permille", finder_permille), ("batch", batch)];
    let result = run_on(8, "lrzip", &[&LRZIP[..], &changed, &shape].concat());
    (group(&result, "find").last_exit_ns, result.makespan_ns)
}

#[test]
fn threads_of_an_lrzip_block_are_no_further_apart_than_a_ring() {
    // Batches of 10 ms of finding: 200 and 600 of them, over which coding takes 30 and 3.3 ms each.
    let (found, coded) = block_ends_ns("250", "10ms");
    assert_about(coded, 10 * MS + 6_000 * MS);
    assert_about(found, coded - 64 * 30 * MS + 10 * MS);
    let (found, coded) = block_ends_ns("750", "10ms");
    assert_about(found, 6_000 * MS);
    assert_about(coded, 6_000 * MS + 10 * MS / 3);
    // Apart, each is done when it has done its own.
    let (found, coded) = block_ends_ns("250", "0s");
    assert_about(found, 2_000 * MS);
    assert_about(coded, 6_000 * MS);
}

#[test]
fn who_codes_in_lrzip_sleeps_once_a_batch_where_finding_takes_longer() {
    let changed = [("threads", "2"), ("left_permille", "1"), ("finder_permille", "750")];
    let result = run_on(8, "lrzip", &[&LRZIP[..], &changed, &[("batch", "10ms")]].concat());
    assert_eq!(group(&result, "compress").switches, 1 + 600);
}

#[test]
fn the_main_thread_of_lrzip_has_half_the_nice_value_of_the_others() {
    for (nice, main) in [(19, 9), (5, 2), (0, 0)] {
        let workload = shipped_workload("lrzip", &[("nice", &nice.to_string())]);
        for template in &workload.templates {
            let want = if template.name == "lrzip" { main } else { nice };
            assert_eq!(template.nice, want, "{} with {nice}", template.name);
        }
    }
}

// ---- ffmpeg -------------------------------------------------------------------------------------

fn ffmpeg(nr_cpus: usize, threads: &str, lag: &str, decode: &str) -> u64 {
    let parameters = [
        ("spread_permille", "0"),
        ("frames", "100"),
        ("rows", "10"),
        ("encode", "10s"),
        ("decode", decode),
        ("threads", threads),
        ("lag", lag),
    ];
    run_on(nr_cpus, "ffmpeg", &parameters).makespan_ns
}

#[test]
fn ffmpeg_on_one_cpu_takes_the_sum_of_its_parts() {
    for threads in ["1", "3", "7"] {
        assert_about(ffmpeg(1, threads, "4", "1s"), 11_000 * MS);
    }
}

#[test]
fn ffmpeg_encodes_as_many_frames_at_a_time_as_the_lag_allows() {
    // A frame begins 1 + lag rows of 10 ms after the one before, whatever there is of threads.
    for lag in [0, 1, 4, 9] {
        let got = ffmpeg(32, "16", &lag.to_string(), "0s");
        assert_about(got, (99 * (1 + lag) + 10) * 10 * MS);
    }
}

#[test]
fn ffmpeg_encodes_as_many_frames_at_a_time_as_there_are_threads() {
    // Two threads: each begins its next frame when it is done, 50 a thread, half a frame apart.
    assert_about(ffmpeg(32, "2", "4", "0s"), 50 * 100 * MS + 50 * MS);
    assert_about(ffmpeg(32, "1", "4", "0s"), 100 * 100 * MS);
}

#[test]
fn ffmpeg_is_no_faster_than_its_decoder() {
    // The last frame has been decoded after 20 s, and takes 100 ms more.
    assert_about(ffmpeg(32, "16", "0", "20s"), 20_100 * MS);
}

// ---- schbench -----------------------------------------------------------------------------------

#[test]
fn schbench_workers_wait_for_nobody_where_each_has_a_cpu() {
    let parameters = [("workers", "3"), ("delay_least", "30ms"), ("delay_most", "30ms")];
    let result = run_on(8, "schbench", &parameters);
    assert!(result.wakeup_latency_ns.max < US, "{:?}", result.wakeup_latency_ns);
    // A round is 30 ms of thinking and 30 ms of sleep: ten seconds have 166 and a part.
    assert_about(group(&result, "worker").run_ns, 6 * (166 * 30 + 30) * MS);
}

#[test]
fn schbench_workers_wait_their_turn_where_they_share_a_cpu() {
    // Under fifo the last of 3 on a CPU waits for two others to think.
    let parameters = [("workers", "3"), ("delay_least", "30ms"), ("delay_most", "30ms")];
    let result = run_on(2, "schbench", &parameters);
    let two_thoughts = 60 * MS;
    let max = result.wakeup_latency_ns.max;
    assert!((two_thoughts..two_thoughts + 31 * MS).contains(&max), "{max}");
}

// ---- web_server ---------------------------------------------------------------------------------

#[test]
fn a_web_server_serves_the_load_that_it_is_offered() {
    let parameters = [("gap", "1ms"), ("service", "1400us"), ("length", "100s")];
    let result = run_on(4, "web_server", &parameters);
    let served = requests(&result, "request").done as f64;
    assert!((served / 100_000.0 - 1.0).abs() < 0.01, "{served} requests in 100 s");
    let load = group(&result, "worker").run_ns as f64 / result.elapsed_ns as f64;
    assert!((load / 1.4 - 1.0).abs() < 0.015, "{load} CPUs of 1.4");
}

#[test]
fn a_web_server_with_a_cpu_for_each_request_answers_within_its_service() {
    let parameters = [("workers", "64"), ("service", "1ms"), ("gap", "1ms")];
    let result = run_on(32, "web_server", &parameters);
    let response_ns = requests(&result, "request").response_ns.clone();
    assert!((response_ns.mean / 1e6 - 1.0).abs() < 0.04, "{response_ns:?}");
    assert_eq!(result.deadline_misses, 0);
}

#[test]
fn an_overloaded_web_server_answers_late_and_not_seldom() {
    // Two CPUs for an offered load of 4: after ten seconds half are served, five seconds late.
    let result = run_on(2, "web_server", &[("service", "4ms")]);
    let group = requests(&result, "request");
    assert!((group.done as f64 / 5_000.0 - 1.0).abs() < 0.05, "{}", group.done);
    assert!(group.response_ns.max > 4 * S, "{:?}", group.response_ns);
    assert!(group.deadline_misses > 9_400, "{} of {}", group.deadline_misses, group.deadlines);
    assert!((group.deadlines as f64 / 9_900.0 - 1.0).abs() < 0.03, "{}", group.deadlines);
}

// ---- desktop ------------------------------------------------------------------------------------

#[test]
fn an_idle_desktop_misses_no_deadline() {
    for policy in POLICIES {
        let workload = shipped_workload("desktop", &[("jobs", "0")]);
        let result = outcome(policy, &shipped_machine("laptop"), &workload, None, &[]);
        assert_eq!(result.deadline_misses, 0, "{policy}: {:?}", result.requests);
        // 20 s: frames every 40 ms, buffers every 11.61 ms; the last may be due after the end.
        assert!((498..=500).contains(&requests(&result, "video").done), "{policy}");
        assert!((1_721..=1_722).contains(&requests(&result, "audio").done), "{policy}");
        let keys = requests(&result, "key").done as f64;
        assert!((keys / (20.0 / 0.170) - 1.0).abs() < 0.1, "{policy}: {keys} keys");
    }
}

#[test]
fn a_desktop_beside_a_compile_misses_deadlines_under_fifo_and_fewer_under_cfs() {
    let misses = |policy: &str| {
        let workload = shipped_workload("desktop", &[("jobs", "4")]);
        let machine = shipped_machine("core2-t5600");
        let result = outcome(policy, &machine, &workload, None, &[]);
        result.deadline_misses as f64 / result.deadlines as f64
    };
    let (fifo, cfs) = (misses("fifo"), misses("cfs"));
    assert!(fifo > 0.5 && cfs < fifo / 4.0, "fifo {fifo}, cfs {cfs}");
}
