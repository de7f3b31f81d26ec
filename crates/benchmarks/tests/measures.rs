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
    // Files are named without their folders, whose names may have spaces.
    let workloads = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads");
    Command::new(program).args(words.split(' ')).current_dir(workloads).output().expect("it starts")
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
fn a_round_trip_is_two_switches_at_least() {
    for form in ["", " -T"] {
        let found = sample(&format!("pipe -l 2000{form}"));
        let wall_us = found["wall_ns"].as_f64().expect("time") / 1e3;
        let figure = found["figure"]["value"].as_f64().expect("figure");
        assert!((figure - wall_us / 2000.0).abs() < 1e-9, "{found}");
        // Each waits for the other's message: it cannot be there before.
        let switches = found["voluntary_switches"].as_u64().expect("switches");
        assert!(switches > 2 * 2000 / 2, "{found}");
    }
}

#[test]
fn shares_are_of_all_cpu_time_and_beside_those_of_the_weights() {
    for form in ["", " -T"] {
        let found = sample(&format!("nice -n 0,19,0 --one-cpu -d 150{form}"));
        let shares = found["shares"].as_array().expect("a list");
        let of = |name: &str| -> Vec<f64> {
            shares.iter().map(|share| share[name].as_f64().expect("a number")).collect()
        };
        assert_eq!(of("nice"), [0.0, 19.0, 0.0]);
        assert!((of("share").iter().sum::<f64>() - 1.0).abs() < 1e-9, "{found}");
        let expected = [1024.0 / 2063.0, 15.0 / 2063.0, 1024.0 / 2063.0];
        assert!(of("expected_share").iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9));
        // One CPU has no more time than passes, and a tick more for who holds it at the end.
        assert!(of("cpu_ns").iter().sum::<f64>() < 1.3 * 150e6, "{found}");
        assert!(of("share")[1] < of("share")[0].min(of("share")[2]), "{found}");
        let off = |(share, expected): (f64, f64)| (share / expected - 1.0).abs() * 100.0;
        let worst = of("share").into_iter().zip(expected).map(off).fold(0.0, f64::max);
        let figure = found["figure"]["value"].as_f64().expect("figure");
        assert!((figure - worst).abs() < 1e-6, "{found}");
    }
}

#[test]
fn frames_that_fit_are_due_and_take_what_they_compute() {
    for form in ["", " -T"] {
        let words = format!("interactivity -p 5000 -c 500 -f 30 --hogs 1 --jobs 2{form}");
        let found = sample(&words);
        assert_eq!(found["nr_tasks"], 4);
        assert_eq!(found["frames"]["due"], 30);
        let count = |name: &str| found["frames"][name].as_u64().expect("a count");
        assert_eq!(found["latency_ns"]["count"], 30 - count("dropped"));
        assert!(count("dropped") <= count("late") && count("late") <= 30);
        // Less some nanoseconds for the last look at the clock.
        assert!(found["latency_ns"]["min"].as_u64().expect("ns") >= 450_000, "{found}");
        assert!(found["wall_ns"].as_u64().expect("time") >= 31 * 5_000_000);
        // More than the frames alone: the hog and the jobs compute, however busy the machine is.
        let frames_ns = 500_000 * (30 - count("dropped"));
        let used = |name: &str| found[name].as_u64().expect("time");
        assert!(used("user_ns") + used("system_ns") > frames_ns + 5_000_000, "{found}");
    }
}

#[test]
fn a_workload_that_is_played_takes_its_time_and_its_parameters() {
    let found = sample("play counter.toml -w n=3 -w work=5ms -w startup_max=200us");
    assert_eq!((&found["nr_tasks"], &found["benchmark"]), (&4.into(), &"play".into()));
    assert!(found["user_ns"].as_u64().expect("time") >= 14_000_000, "{found}");
    assert!(found["wall_ns"].as_u64().expect("time") >= 5_000_000, "{found}");
    assert!(refused("play counter.toml -w tasks=3").contains("tasks"));
    assert!(refused("play counter.toml -w n").contains("NAME=VALUE"));
    assert!(refused("play nowhere.toml").contains("nowhere.toml"));
}

#[test]
fn costs_are_told_one_by_one_and_hang_together() {
    let output = bench("costs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = std::str::from_utf8(&output.stdout).expect("text");
    let costs: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let median = |name: &str| {
        let cost = costs.iter().find(|cost| cost["cost"] == name);
        cost.unwrap_or_else(|| panic!("{name}: {text}"))["median"].as_f64().expect("a number")
    };
    for cost in &costs {
        let quartiles = ["low", "median", "high"].map(|name| cost[name].as_f64().expect("number"));
        assert!(quartiles.is_sorted() && quartiles[0] >= 0.0, "{cost}");
        assert!(cost["count"].as_u64() >= Some(1) && cost["how"] != "", "{cost}");
    }
    // Whatever the machine: a hop has two calls in it, a life its fork, a miss is no hit.
    assert!(median("syscall_ns") > 1.0 && median("hop_ns") > 2.0 * median("syscall_ns"));
    assert!(median("fork_exit_wait_ns") > median("fork_ns"));
    assert!(median("scan_miss_ns") > median("scan_step_ns"));
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
    assert!(refused("timer --repeat 0").contains("--repeat"));
    assert!(refused("wakeup -t 99999999999999999").contains("--think-us"));
    assert!(refused("timer -i 0").contains("interval_ns = 0"));
    assert!(refused("pipe -l 0").contains("round_trips = 0 is nothing to measure"));
    assert!(refused("nice -n 0").contains("2 to 512 nice values"));
    assert!(refused("nice -n 0,20").contains("20 is not in -20..=19"));
    assert!(refused("nice -n -5,0 -d 0").contains("duration_ns = 0"));
    assert!(refused("interactivity -c 20000").contains("less than the period"));
    assert!(refused("interactivity --hogs 300 --jobs 300").contains("hogs + jobs = 600"));
    assert!(refused("hackbench --fds 0 --find-limit").contains("fds = 0 is nothing to measure"));
}

#[test]
fn where_the_system_gives_no_more_the_reason_is_told_and_nobody_is_left() {
    let program = env!("CARGO_BIN_EXE_schedlab-bench");
    let limited = |limit: &str, words: &str| {
        let shell = format!("ulimit {limit}; \"$0\" {words}");
        Command::new("sh").args(["-c", &shell, program]).output().expect("it starts")
    };
    let output = limited("-n 16", "hackbench -g 3 -l 1");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("Too many open files") && said.contains("ulimit -n"), "{said}");
    let left = processes(|process| process.words.ends_with("hackbench -g 3 -l 1"));
    assert!(left.is_empty(), "processes are left: {left:?}");
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
    let left = cages_left();
    assert!(left.is_empty(), "{left:?}");
}

/// Cages of programs that are gone, wherever cgroups are.
fn cages_left() -> Vec<std::path::PathBuf> {
    let mut found = vec![];
    let mut folders = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let owner = name.strip_prefix("schedlab-").and_then(|pid| pid.parse::<u32>().ok());
            if owner.is_some_and(|pid| !std::fs::exists(format!("/proc/{pid}")).unwrap_or(true)) {
                found.push(entry.path());
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn a_search_that_is_killed_takes_its_attempt_with_it() {
    let program = env!("CARGO_BIN_EXE_schedlab-bench");
    // Attempts of this one take long from the first group on.
    let words = "hackbench -f 7 -l 3000000 --find-limit";
    let mut search = Command::new(program).args(words.split(' ')).spawn().expect("it starts");
    let tasks = || {
        let is_ours =
            |words: &str| words.contains("hackbench --fds 7 ") && words.contains("--with");
        processes(|process| is_ours(&process.words)).len()
    };
    let wait_until = |done: &dyn Fn() -> bool| {
        let begin = std::time::Instant::now();
        while !done() && begin.elapsed().as_secs() < 60 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    wait_until(&|| tasks() >= 15);
    assert_eq!(tasks(), 15, "fourteen tasks and the one that starts them");
    search.kill().expect("it is killed");
    search.wait().expect("it ends");
    wait_until(&|| tasks() == 0);
    assert_eq!(tasks(), 0);
}

#[test]
fn a_search_goes_on_below_what_its_journal_breaks_off_at() {
    let path = std::env::temp_dir().join(format!("schedlab-limit-{}", std::process::id()));
    std::fs::write(&path, "{\"event\":\"tries\",\"groups\":5}\n").expect("a journal");
    let words = format!("hackbench -f 2 -l 1 --find-limit --journal {}", path.display());
    let found = sample_of(&bench(&words));
    let other = refused(&words.replace("-f 2", "-f 3"));
    assert!(other.contains("another search") && other.contains("--fds 2"), "{other}");
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

#[test]
fn a_task_that_is_killed_ends_the_run_with_its_name_and_not_in_a_wait_for_ever() {
    let program = env!("CARGO_BIN_EXE_schedlab-bench");
    for place in [0, 9] {
        let words = "hackbench -g 1 -f 5 -l 4000000";
        let run = Command::new(program)
            .args(words.split(' '))
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("it starts");
        let parent = run.id();
        let tasks = || processes(|process| process.parent == parent);
        let begin = std::time::Instant::now();
        while tasks().len() < 10 && begin.elapsed().as_secs() < 60 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        // The first is a receiver, the last a sender.
        let killed = nix::unistd::Pid::from_raw(tasks()[place].number as i32);
        nix::sys::signal::kill(killed, nix::sys::signal::Signal::SIGKILL).expect("it is there");
        let output = run.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let task = if place == 0 { "receiver 1 of group 1" } else { "sender 5 of group 1" };
        assert!(said.contains(task) && said.contains("SIGKILL"), "{said}");
    }
}

/// A process that there is.
#[derive(Debug)]
struct Process {
    number: u32,
    parent: u32,
    /// Its command, with blanks between the words.
    words: String,
}

/// Those that are `wanted`, by their numbers.
fn processes(wanted: impl Fn(&Process) -> bool) -> Vec<Process> {
    let read = |number: u32| -> Option<Process> {
        let words = std::fs::read_to_string(format!("/proc/{number}/cmdline")).ok()?;
        let status = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        // The name before may have blanks of its own.
        let parent = status.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()?;
        let words = words.trim_end_matches('\0').replace('\0', " ");
        Some(Process { number, parent, words })
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut found: Vec<Process> = numbers.filter_map(read).filter(wanted).collect();
    found.sort_by_key(|process| process.number);
    found
}
