//! Goal: a benchmark does all the work it is asked for, in every form, and whatever goes wrong is
//! an error with its reason, with no task left behind. Times are never asserted beyond what
//! sleeping and computing must take at least.
//!
//! Method: the program, as users run it, since benchmarks fork; what it prints and which processes
//! are left.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(words: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_schedlab-bench");
    Command::new(program).args(words.split(' ')).output().expect("it starts")
}

fn sample(words: &str) -> Value {
    let output = bench(words);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {errors}");
    assert_eq!(errors, "");
    serde_json::from_slice(&output.stdout).expect("one line of JSON")
}

fn refused(words: &str) -> String {
    let output = bench(words);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn hackbench_ends_in_every_form() {
    for form in ["", " -p", " -T", " -p -T"] {
        let found = sample(&format!("hackbench -g 2 -f 3 -l 5{form}"));
        assert_eq!(found["nr_tasks"], 12, "{form}");
        assert_eq!(found["parameters"]["tasks"] == "threads", form.contains("-T"));
        assert_eq!(found["parameters"]["channel"] == "pipes", form.contains("-p"));
        let (wall_ns, seconds) = (found["wall_ns"].as_u64(), found["figure"]["value"].as_f64());
        assert!(wall_ns.is_some_and(|ns| ns > 0));
        assert_eq!(wall_ns.map(|ns| ns as f64 / 1e9), seconds);
    }
}

#[test]
fn a_ring_switches_for_each_task_and_round() {
    for words in ["lat-ctx --rounds 300", "lat-ctx -n 5 -s 4 --rounds 300 -T"] {
        let found = sample(words);
        let n = found["parameters"]["n"].as_u64().expect("n");
        let switches = found["voluntary_switches"].as_u64().expect("switches")
            + found["involuntary_switches"].as_u64().expect("switches");
        // A task that finds the token there need not sleep, so a few are fewer.
        assert!(switches > 300 * n / 4, "{words}: {found}");
    }
}

#[test]
fn counters_compute_and_the_figure_is_for_one() {
    let found = sample("counter -n 3 --to 20000000");
    let wall_s = found["wall_ns"].as_f64().expect("time") / 1e9;
    assert!((found["figure"]["value"].as_f64().expect("figure") - wall_s / 3.0).abs() < 1e-9);
    let twice = sample("counter -n 3 --to 20000000 --repeat 1 -T");
    assert_eq!(twice["nr_tasks"], 3);
}

#[test]
fn sleepers_are_never_early_and_all_their_sleeps_are_counted() {
    let found = sample("timer -n 2 -i 500 --sleeps 40 --hogs 1");
    assert_eq!(found["latency_ns"]["count"], 80);
    assert_eq!(found["nr_tasks"], 3);
    // 40 sleeps of half a millisecond.
    assert!(found["wall_ns"].as_u64().expect("time") >= 20_000_000);
}

#[test]
fn workers_are_woken_until_the_time_is_over() {
    let found = sample("wakeup -m 2 -w 3 -t 200 -d 150");
    assert_eq!(found["nr_tasks"], 8);
    assert!(found["wall_ns"].as_u64().expect("time") >= 150_000_000);
    let count = found["latency_ns"]["count"].as_u64().expect("count");
    assert!(count >= 6, "each worker is woken: {found}");
    assert!(found["latency_ns"]["p50"].as_u64() <= found["latency_ns"]["p99"].as_u64());
}

#[test]
fn repetitions_are_lines() {
    let output = bench("hackbench -g 1 -f 2 -l 2 --repeat 3");
    let lines: Vec<&str> = std::str::from_utf8(&output.stdout).expect("text").lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| serde_json::from_str::<Value>(line).is_ok()));
}

#[test]
fn what_cannot_be_used_is_named() {
    assert!(refused("hackbench -g 0").contains("groups = 0 is nothing to measure"));
    assert!(refused("hackbench -g 2000000").contains("groups = 2000000"));
    assert!(refused("lat-ctx -n 1").contains("n = 1 is no ring"));
    assert!(refused("hackbench -g many").contains("many"));
    assert!(refused("timer -i 0").contains("interval_ns = 0"));
}

#[test]
fn where_the_system_gives_no_more_the_reason_is_told_and_nobody_is_left() {
    let program = env!("CARGO_BIN_EXE_schedlab-bench");
    let limited = |limit: &str, words: &str| {
        let shell = format!("ulimit {limit}; {program} {words}");
        Command::new("sh").args(["-c", &shell]).output().expect("it starts")
    };
    let output = limited("-n 16", "hackbench -g 3 -l 1");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("Too many open files") && said.contains("ulimit -n"), "{said}");
    let left = Command::new("pgrep").args(["-f", "hackbench -g 3 -l 1$"]).output().expect("pgrep");
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "processes are left");
}

/// Whether this machine lets us make cgroups; else says why a test is skipped.
fn can_cage() -> bool {
    match benchmarks::limit::Cage::new(100) {
        Ok(_cage) => true,
        Err(error) => {
            eprintln!("skipped: no cgroup can be made here ({error}); it needs root");
            false
        }
    }
}

#[test]
fn in_a_cage_the_limit_is_what_fits_beside_the_program_itself() {
    if !can_cage() {
        return;
    }
    for (cage, form) in [(90, ""), (61, " -p -T")] {
        let words = format!("hackbench -f 3 -l 2 --find-limit --cage {cage}{form}");
        let output = bench(&words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        // Six tasks a group, and the one that starts them.
        let most = (cage - 1) / 6;
        assert_eq!(found["groups"], most, "{found} {said}");
        assert_eq!(found["nr_tasks"], most * 6);
        let ended_by = found["ended_by"].as_str().expect("a reason");
        assert!(ended_by.starts_with(&format!("the cage of {cage} tasks at {}", most + 1)));
        assert!(said.contains("CageFull"), "{said}");
    }
    let inside = std::fs::read_to_string("/proc/self/cgroup").expect("cgroups");
    for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/pids"] {
        let place = inside.lines().find(|line| line.contains("pids")).unwrap_or("0::/");
        let below = place.rsplit(':').next().unwrap_or("/").trim_start_matches('/').to_owned();
        let Ok(entries) = std::fs::read_dir(std::path::Path::new(root).join(below)) else {
            continue;
        };
        let left = entries.flatten().filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            // Other tests of this file have theirs at the same time.
            name.starts_with("schedlab-") && !name.ends_with(&std::process::id().to_string())
        });
        assert_eq!(left.count(), 0, "cgroups are left in {root}");
    }
}

#[test]
fn a_search_goes_on_below_what_its_journal_breaks_off_at() {
    let path = std::env::temp_dir().join(format!("schedlab-limit-{}", std::process::id()));
    std::fs::write(&path, "{\"event\":\"tries\",\"groups\":5}\n").expect("a journal");
    let words = format!("hackbench -f 2 -l 1 --find-limit --journal {}", path.display());
    let found = sample_of(&bench(&words));
    let text = std::fs::read_to_string(&path).expect("a journal");
    std::fs::remove_file(&path).expect("it goes");
    assert_eq!(found["groups"], 4);
    assert_eq!(found["ended_by"], "5 groups, at which the journal breaks off");
    let tried = text.lines().filter(|line| line.contains("\"tries\"")).count();
    let ended = text.lines().filter(|line| line.contains("\"completed\"")).count();
    assert_eq!((tried, ended), (ended + 1, tried - 1), "{text}");
    assert!(ended >= 5, "1, 2 and 4, and 4 twice more: {text}");
}

#[test]
fn what_the_system_leaves_room_for_is_told_without_trying() {
    let output = bench("hackbench --find-limit --dry-run");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let bounds = found.as_array().expect("a list");
    assert!(bounds.iter().any(|bound| bound["limit"] == "kernel.pid_max"), "{found}");
    assert!(output.stderr.is_empty());
    assert!(refused("hackbench --dry-run").contains("--find-limit"));
}

fn sample_of(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}
