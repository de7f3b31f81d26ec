//! Goal: CPUs that come and go, and tasks whose affinity changes, are treated as by a kernel.
//! Method: two small policies that print each operation, on machines where only decisions show,
//! against the order of operations in Linux 6.12 (kernel/sched/core.c and ext.c), and closed forms
//! of when tasks end.

use crate::support::*;
use scenario::machine::{Machine, Release};
use scenario::workload::Workload;
use simulator::{FailureKind, Options, RunResult, Status, simulate};

/// A run of `told` on two CPUs that cost nothing, which comes to its end, and what it printed.
fn told(workload: &str, tunables: &[(&str, i64)]) -> (RunResult, Vec<String>) {
    let (result, lines) = watched(&costless(2, 1000), "told", &parsed(workload), tunables);
    assert_eq!((result.status, &result.error), (Status::Completed, &None));
    (result, lines)
}

/// A run, and what the policy printed.
fn watched(
    machine: &Machine,
    policy: &str,
    workload: &Workload,
    tunables: &[(&str, i64)],
) -> (RunResult, Vec<String>) {
    let printed = Printed::default();
    let policy = compile(&format!("crates/simulator/tests/hotplug/{policy}.bpf.c"));
    let options = Options {
        timeline: true,
        prints: Some(printed.show()),
        tunables: settings(tunables),
        ..Options::default()
    };
    let result = attempt_with(&policy, machine, workload, &options);
    let said = |line: &String| line.split_once("bpf_trace_printk: ").map(|(_, said)| said.into());
    let lines = printed.lines();
    let lines = lines.iter().map(|line| said(line).unwrap_or_else(|| line.clone()));
    (result, lines.collect())
}

/// These lines were printed in a row, where the first of them was printed first.
fn assert_in_a_row(lines: &[String], expected: &[&str]) {
    let first = lines.iter().position(|line| line == expected[0]);
    let first = first.unwrap_or_else(|| panic!("no {}: {lines:#?}", expected[0]));
    let row: Vec<&str> = lines[first..].iter().take(expected.len()).map(String::as_str).collect();
    assert_eq!(row, expected, "{lines:#?}");
}

// ---- affinity -----------------------------------------------------------------------------------

const SLEEPER: &str = r#"
tasks = [{ name = "t", program = [{ run = "1ms" }, { sleep = "5ms" }, { run = "1ms" }] }]
affinity = [{ at = "3ms", task = "t", cpus = [0] }]
"#;

#[test]
fn of_a_task_that_sleeps_only_the_mask_changes() {
    let (_, lines) = told(SLEEPER, &[]);
    let expected = [
        "quiescent t 1",
        "set_cpumask t 10",
        "runnable t 1", // Bound to one CPU: select_cpu is not asked.
        "enqueue t 1 on 0",
        "dequeue t 0",
        "running t on 0",
    ];
    assert_in_a_row(&lines, &expected);
}

const WAITER: &str = r#"
tasks = [
    { name = "h", cpus = [1], program = [{ run = "10ms" }] },
    { name = "w", cpus = [1], program = [{ run = "1ms" }] },
]
affinity = [{ at = "3ms", task = "w", cpus = [0] }]
"#;

#[test]
fn a_task_that_waits_is_queued_again_and_then_moved() {
    let expected = [
        "dequeue w 10", // A queue of the policy's is in its custody, too.
        "quiescent w 10",
        "set_cpumask w 10",
        "runnable w 10",
        "enqueue w 10 on 1",
        "dequeue w 8",
        "enqueue w 64 on 0",
        "dequeue w 0",
        "running w on 0",
    ];
    let (result, lines) = told(WAITER, &[]);
    assert_in_a_row(&lines, &expected);
    assert_eq!(group(&result, "w").last_exit_ns, 4 * MS + 1, "it had waited for 3 ms");
}

#[test]
fn a_policy_that_keeps_the_waiting_to_itself_is_asked_for_them() {
    let expected = [
        "dequeue w 10",
        "quiescent w 10",
        "set_cpumask w 10",
        "runnable w 10",
        "enqueue w 10 on 1",
        "dequeue w 8",
        "enqueue w 64 on 0",
        "dequeue w 0",
        "running w on 0",
    ];
    let (_, lines) = told(WAITER, &[("holds", 1)]);
    assert_in_a_row(&lines, &expected);
}

#[test]
fn a_task_that_binds_itself_elsewhere_is_off_its_cpu_before_its_next_step() {
    let text = r#"
[[tasks]]
name = "t"
cpus = [0]
program = [{ run = "1ms" }, { affinity = [1] }, { run = "1ms" }]
"#;
    let (result, lines) = told(text, &[]);
    let expected = [
        "stopping t 0",
        "quiescent t 10",
        "set_cpumask t 01",
        "runnable t 10",
        "running t on 0",
        "stopping t 1",
        "enqueue t 64 on 1", // The rest of its slice had put it back without asking.
        "dequeue t 0",
        "running t on 1",
    ];
    assert_in_a_row(&lines, &expected);
    let stays: Vec<_> = timeline(&result).iter().map(|stay| stay.2).collect();
    assert_eq!(stays, [0, 1]);
}

#[test]
fn a_change_reaches_a_task_that_runs_on_another_cpu() {
    let text = r#"
tasks = [{ name = "t", cpus = [1], program = [{ run = "10ms" }] }]
affinity = [{ at = "3ms", task = "t", cpus = [0] }]
"#;
    let (result, _) = told(text, &[]);
    let stays = timeline(&result);
    assert_eq!(stays, [(0, 3 * MS, 1, 1), (3 * MS, 10 * MS + 1, 0, 1)]);
}

#[test]
fn a_mask_without_any_cpu_that_is_online_is_refused() {
    let text = r#"
tasks = [{ name = "t", cpus = [0], program = [{ run = "10ms" }] }]
hotplug = [{ at = "1ms", cpu = 1, state = "offline" }]
affinity = [{ at = "3ms", task = "t", cpus = [1] }]
"#;
    let (result, lines) = told(text, &[]);
    assert_eq!(group(&result, "t").last_exit_ns, 10 * MS + 1);
    let masks = lines.iter().filter(|line| line.starts_with("set_cpumask"));
    assert_eq!(masks.count(), 1, "{lines:#?}");
}

// ---- CPUs that come and go ----------------------------------------------------------------------

/// Tasks with odd pids begin on CPU 1: b runs there and c waits. Nobody is bound.
const THREE: &str = r#"
tasks = [
    { name = "b", program = [{ run = "10ms" }] },
    { name = "a", program = [{ run = "10ms" }] },
    { name = "c", program = [{ run = "10ms" }] },
]
hotplug = [{ at = "4ms", cpu = 1, state = "offline" }]
"#;

#[test]
fn tasks_of_a_cpu_that_goes_are_pushed_away_one_by_one() {
    let (result, lines) = told(THREE, &[]);
    let expected = [
        "stopping b 1",
        "cpu_offline 1, online 11", // It counts as online until its tasks are gone.
        "dequeue c 0",
        "running b on 1",
        "stopping b 1",
        "enqueue b 64 on 0",
        "running c on 1",
        "stopping c 1",
        "enqueue c 64 on 0",
    ];
    assert_in_a_row(&lines, &expected);
    // 30 ms of work, of which CPU 1 did 4 ms; every exit takes 1 ns.
    assert_eq!(result.elapsed_ns, 26 * MS + 3);
    assert_eq!(result.cpu_time_ns.offline, 22 * MS + 3);
    assert_eq!(result.restarts, 0);
    let after_ns = |stay: &&(u64, u64, u32, u32)| stay.2 == 1 && stay.1 > 4 * MS;
    assert_eq!(timeline(&result).iter().find(after_ns), None);
}

#[test]
fn a_task_whose_only_cpu_goes_may_run_everywhere_from_then_on() {
    let text = r#"
tasks = [{ name = "t", cpus = [1], program = [{ run = "10ms" }] }]
hotplug = [
    { at = "4ms", cpu = 1, state = "offline" },
    { at = "6ms", cpu = 1, state = "online" },
]
"#;
    let (result, lines) = told(text, &[]);
    let expected = [
        "cpu_offline 1, online 11",
        "running t on 1",
        "stopping t 1",
        "quiescent t 10",
        "set_cpumask t 11",
        "runnable t 10",
        "enqueue t 64 on 0",
        "dequeue t 0",
        "running t on 0",
        "cpu_online 1, online 11",
    ];
    assert_in_a_row(&lines, &expected);
    assert_eq!(group(&result, "t").last_exit_ns, 10 * MS + 1);
    assert_eq!(result.cpu_time_ns.offline, 2 * MS);
}

#[test]
fn whoever_sleeps_while_its_cpu_goes_wakes_up_on_another() {
    let text = r#"
tasks = [{ name = "t", program = [{ run = "1ms" }, { sleep = "5ms" }, { run = "1ms" }] }]
hotplug = [{ at = "3ms", cpu = 1, state = "offline" }]
"#;
    let (result, lines) = told(text, &[]);
    // The policy still says CPU 1, and the kernel finds another one.
    // SCX_ENQ_WAKEUP, and SCX_ENQ_CPU_SELECTED with the numbers of all releases.
    let flags = 1 | 1 << 10 | 1 << 20;
    assert!(lines.contains(&format!("enqueue t {flags} on 0")), "{lines:#?}");
    let times: Vec<_> = timeline(&result).iter().map(|s| (s.0, s.2)).collect();
    assert_eq!(times[0], (0, 1));
    assert_eq!(times[1].1, 0);
}

#[test]
fn what_is_meant_for_a_cpu_that_is_gone_is_for_everybody() {
    let text = r#"
tasks = [{ name = "t", start = "2ms", program = [{ run = "1ms" }] }]
hotplug = [{ at = "1ms", cpu = 1, state = "offline" }]
"#;
    // Nobody is woken for the global queue, so a kick must do it; the one of CPU 1 does nothing.
    let (result, _) = told(text, &[("aims_at", 1), ("kicks", 1)]);
    let stays = timeline(&result);
    assert_eq!(stays, [(2 * MS, 3 * MS + 1, 0, 1)]);
}

#[test]
fn what_a_policy_forgets_on_a_cpu_that_is_gone_is_a_stall() {
    let (result, _) = watched(&costless(2, 1000), "told", &parsed(THREE), &[("drains", 0)]);
    let failure = result.error.expect("c is forgotten");
    assert_eq!(failure.kind, FailureKind::Stall);
    assert!(failure.message.contains("c[3] failed to run"), "{}", failure.message);
    assert!(failure.message.contains("dispatch queue 0x1"), "{}", failure.message);
}

/// As `THREE`, with `c` bound to the CPU that goes.
fn three_with_one_bound() -> Workload {
    parsed(&THREE.replace(r#"name = "c""#, r#"name = "c", cpus = [1]"#))
}

#[test]
fn a_forgotten_task_whose_only_cpu_goes_is_taken_back_and_may_run_everywhere() {
    let expected = [
        "dequeue c 14", // DEQUEUE_SAVE | DEQUEUE_MOVE | DEQUEUE_NOCLOCK
        "quiescent c 14",
        "runnable c 14",
        "running b on 1",
        "stopping b 1",
        "enqueue b 64 on 0",
        "running c on 1",
        "stopping c 1",
        "quiescent c 10",
        "set_cpumask c 11",
        "runnable c 10",
        "enqueue c 64 on 0",
    ];
    let (machine, workload) = (costless(2, 1000), three_with_one_bound());
    let (result, lines) = watched(&machine, "told", &workload, &[("drains", 0)]);
    assert_eq!((result.status, &result.error), (Status::Completed, &None));
    assert_in_a_row(&lines, &expected);
    let after_ns = |stay: &&(u64, u64, u32, u32)| stay.2 == 1 && stay.1 > 4 * MS;
    assert_eq!(timeline(&result).iter().find(after_ns), None);
}

#[test]
fn an_older_kernel_forgets_it_with_the_policy() {
    let machine = Machine { release: Some(Release::Linux6_18), ..costless(2, 1000) };
    let workload = three_with_one_bound();
    let (result, _) = watched(&machine, "told", &workload, &[("drains", 0)]);
    let failure = result.error.expect("c is forgotten");
    assert_eq!(failure.kind, FailureKind::Stall);
    assert!(failure.message.contains("c[3] failed to run"), "{}", failure.message);
}

#[test]
fn a_workload_that_takes_down_what_is_not_there_is_refused() {
    let text = r#"
tasks = [{ name = "t", program = [{ run = "1ms" }] }]
hotplug = [{ at = "1ms", cpu = 2, state = "offline" }]
"#;
    let options = Options::default();
    let refused = simulate(&shipped("fifo"), &costless(2, 1000), &parsed(text), &options);
    let error = refused.expect_err("there are CPUs 0 and 1").to_string();
    assert!(
        error.contains("`hotplug[0].cpu` is 2: CPU 2 goes offline at 1ms, and machine "),
        "{error}"
    );
}

// ---- loading the policy again -------------------------------------------------------------------

#[test]
fn a_policy_that_does_not_hear_of_cpus_begins_again() {
    let text = r#"
tasks = [{ name = "t", count = 2, program = [{ run = "10ms" }] }]
hotplug = [
    { at = "4ms", cpu = 1, state = "offline" },
    { at = "8ms", cpu = 1, state = "online" },
]
"#;
    let (result, lines) = watched(&costless(2, 1000), "untold", &parsed(text), &[]);
    assert_eq!((result.status, &result.error), (Status::Completed, &None));
    assert_eq!(result.restarts, 2);
    let begin = ["init after 0 tasks", "init_task t, known 0", "init_task t, known 0"];
    let end = |what: &str| {
        ["exit_task t".to_owned(), "exit_task t".to_owned(), format!("exit 66, code {what}")]
    };
    // RSN_HOTPLUG and ACT_RESTART; the timer of 3 ms begins anew with the policy.
    let code = "1000100000000: cpu 1 going";
    let mut expected: Vec<String> = begin.map(str::to_owned).into();
    expected.push("timer".into());
    expected.extend(end(&format!("{code} offline, exiting scheduler")));
    expected.extend(begin.map(str::to_owned));
    expected.push("timer".into());
    expected.extend(end(&format!("{code} online, exiting scheduler")));
    expected.extend(begin.map(str::to_owned));
    assert_eq!(lines[..expected.len()], expected, "{lines:#?}");
    // One goes on alone from 4 to 8 ms; the other has 6 ms left then.
    assert_eq!(group(&result, "t").first_exit_ns, 10 * MS + 1);
    assert_eq!(group(&result, "t").last_exit_ns, 14 * MS + 1);
}

#[test]
fn constants_are_given_back_when_the_policy_is_loaded_again() {
    let text = r#"
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
const volatile u8 table[5 << 20] = { [7] = 1 };
void BPF_STRUCT_OPS(big_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (table[7] != 1 || table[(5 << 20) - 1])
		scx_bpf_error("not as it was");
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}
SCX_OPS_DEFINE(big_ops, .enqueue = (void *)big_enqueue, .name = "big");
"#;
    let change = |at: u64| {
        let state = if at % 2 == 1 { "offline" } else { "online" };
        format!("[[hotplug]]\nat = \"{at}ms\"\ncpu = 1\nstate = \"{state}\"\n")
    };
    let changes: String = (1..=20).map(change).collect();
    let tasks = "[[tasks]]\nname = \"t\"\ncount = 3\nprogram = [{ run = \"20ms\" }]";
    let workload = parsed(&format!("{changes}{tasks}"));
    let result = attempt(&compile_text(text), &costless(2, 1000), &workload, 1);
    assert_eq!((result.status, &result.error, result.restarts), (Status::Completed, &None, 20));
}

#[test]
fn equal_runs_with_restarts_are_equal() {
    let text = r#"
tasks = [{ name = "t", count = 9, program = [{ repeat = 40, do = [
    { run = { exponential = "1ms" } }, { sleep = { exponential = "1ms" } },
] }] }]
hotplug = [
    { at = "4ms", cpu = 2, state = "offline" },
    { at = "8ms", cpu = 1, state = "offline" },
    { at = "20ms", cpu = 2, state = "online" },
    { at = "30ms", cpu = 1, state = "online" },
]
affinity = [{ at = "6ms", task = "t", cpus = [0, 2] }, { at = "25ms", task = "t", cpus = "all" }]
"#;
    let workload = parsed(text);
    for name in POLICIES {
        let policy = shipped(name);
        let machine = machine(3, 1000);
        let first = attempt(&policy, &machine, &workload, 7);
        assert_eq!((first.status, &first.error), (Status::Completed, &None), "{name}");
        let second = attempt(&policy, &machine, &workload, 7);
        assert_eq!(first.digest, second.digest, "{name}");
    }
}

#[test]
fn work_is_conserved_whatever_comes_and_goes() {
    let text = r#"
tasks = [
    { name = "free", count = 3, program = [{ run = "40ms" }] },
    { name = "bound", cpus = [1], program = [{ run = "40ms" }] },
]
hotplug = [
    { at = "10ms", cpu = 1, state = "offline" },
    { at = "30ms", cpu = 1, state = "online" },
]
"#;
    let workload = parsed(text);
    for name in POLICIES {
        let result = outcome(name, &costless(2, 1000), &workload, None, &[]);
        assert_eq!(result.status, Status::Completed, "{name}");
        // 160 ms of work and four exits of 1 ns.
        assert_eq!(result.cpu_time_ns.work, 160 * MS, "{name}");
        assert_eq!(result.cpu_time_ns.offline, 20 * MS, "{name}");
        let stays = timeline(&result);
        let misplaced =
            |stay: &&(u64, u64, u32, u32)| stay.2 == 1 && stay.0 < 30 * MS && stay.1 > 10 * MS;
        assert_eq!(stays.iter().find(misplaced), None, "{name}");
    }
}

#[test]
fn a_walk_may_give_back_tasks_of_a_cpu_that_is_long_gone() {
    // When CPU 1 goes, some of those who wait ran last on CPU 2, which has gone before.
    let text = r#"
        tasks = [
            { name = "t", count = 6, cpus = [1, 2], program = [{ run = "30ms" }] },
        ]
        hotplug = [
            { at = "20ms", cpu = 2, state = "offline" },
            { at = "21ms", cpu = 1, state = "offline" },
        ]
    "#;
    let workload = parsed(text);
    for policy in POLICIES {
        let loaded = shipped(policy);
        let options = Options { timeline: true, ..Options::default() };
        let result = attempt_with(&loaded, &costless(3, 1000), &workload, &options);
        assert_eq!((result.status, &result.error), (Status::Completed, &None), "{policy}");
        assert_eq!(group(&result, "t").count, 6, "{policy}");
    }
}

/// A CPU of two is taken down and up by turns at these times, beside so many hogs: how long it was
/// away in all.
fn away_ns(at_ns: &[u64], hogs: u32) -> u64 {
    let mut text =
        format!("tasks = [{{ name = \"t\", count = {hogs}, program = [{{ run = \"30ms\" }}] }}]\n");
    for (i, at_ns) in at_ns.iter().enumerate() {
        let state = if i % 2 == 0 { "offline" } else { "online" };
        text += &format!("[[hotplug]]\nat = \"{at_ns}ns\"\ncpu = 1\nstate = \"{state}\"\n");
    }
    let result = attempt(&shipped("fifo"), &shipped_machine("osdl-2"), &parsed(&text), 0);
    assert_eq!((result.status, &result.error), (Status::Completed, &None), "{at_ns:?}");
    result.cpu_time_ns.offline
}

#[test]
fn a_cpu_that_goes_and_comes_back_at_once_is_there_and_changes_stay_in_order() {
    // A change that comes while the one before is not over asks again each 100 us.
    const LATE_NS: u64 = 250_000;
    for hogs in [1, 12] {
        for gap_ns in [1, 500, 5_000, 20_000] {
            let back_at_ns = 5 * MS + gap_ns;
            let away = away_ns(&[5 * MS, back_at_ns, 6 * MS, 20 * MS], hogs);
            assert!((14 * MS..14 * MS + LATE_NS).contains(&away), "{gap_ns} ns: {away}");
            // The third comes while the second still waits, and must not overtake it.
            for next_ns in [1, 10_000] {
                let away = away_ns(&[5 * MS, back_at_ns, back_at_ns + next_ns, 20 * MS], hogs);
                let expected = 15 * MS - 2 * LATE_NS..15 * MS;
                assert!(expected.contains(&away), "{gap_ns} ns, {next_ns} ns: {away}");
            }
        }
    }
}

/// The exits of CPU 1's tasks take long, and it goes in the middle of one, whenever that is.
fn going_amid_exits() -> impl Iterator<Item = (u64, Workload)> {
    (5_000..5_400).step_by(20).map(|at_us| {
        let text = format!(
            r#"
            tasks = [
                {{ name = "t", count = 60, cpus = [1], program = [{{ run = "100us" }}] }},
                {{ name = "h", count = 20, program = [{{ run = "2ms" }}] }},
            ]
            hotplug = [{{ at = "{at_us}us", cpu = 1, state = "offline" }}]
            "#
        );
        (at_us, parsed(&text))
    })
}

#[test]
fn a_task_that_ends_while_its_policy_is_loaded_again_is_not_known_to_the_next() {
    let cfs_gavl = shipped("cfs_gavl");
    let machine = shipped_machine("osdl-2");
    for (at_us, workload) in going_amid_exits() {
        let result = attempt(&cfs_gavl, &machine, &workload, 0);
        assert_eq!((result.status, &result.error), (Status::Completed, &None), "{at_us} us");
    }
}

#[test]
fn each_load_of_a_policy_says_farewell_to_the_tasks_that_it_was_told_of() {
    let machine = shipped_machine("osdl-2");
    for (at_us, workload) in going_amid_exits() {
        let (result, lines) = watched(&machine, "untold", &workload, &[]);
        assert_eq!((result.status, result.restarts), (Status::Completed, 1), "{at_us} us");
        let begins = |line: &&String| line.starts_with("init after");
        assert_eq!(lines.iter().filter(begins).count(), 2, "{at_us} us");
        let second_at = lines.iter().rposition(|line| begins(&line)).unwrap_or_default();
        for load in [&lines[..second_at], &lines[second_at..]] {
            let count = |what: &str| load.iter().filter(|line| line.starts_with(what)).count();
            assert_eq!(count("init_task"), count("exit_task"), "{at_us} us: {load:#?}");
        }
    }
}
