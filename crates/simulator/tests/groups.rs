//! Goal: a policy is told of groups of tasks as a kernel tells it. Method: a small tree, a policy
//! that prints what it is told, and one whose groups have shares of a CPU by their weights.

use crate::support::*;
use scenario::workload::{Amount, Cgroup, Change, ChangeKind, Op, TaskTemplate, Workload};
use simulator::{Options, RunResult};

fn cgroup(path: &str, weight: u32) -> Cgroup {
    let (path, period_ns) = (path.to_owned(), 100 * MS);
    Cgroup { path, weight, idle: false, quota_ns: None, period_ns, burst_ns: 0 }
}

/// The workload with these groups, and the group of each template.
fn grouped(workload: Workload, cgroups: Vec<Cgroup>, of: &[Option<u32>]) -> Workload {
    let templates = workload.templates.iter().zip(of);
    let templates =
        templates.map(|(kind, &cgroup)| TaskTemplate { cgroup, ..kind.clone() }).collect();
    let workload = Workload { templates, cgroups, ..workload };
    workload.check().unwrap_or_else(|error| panic!("{error}"));
    workload
}

/// Declared so that neither order of a walk is that of the file: /b is between /a and /a/x.
fn tree() -> Vec<Cgroup> {
    let limited = Cgroup {
        quota_ns: Some(50 * MS),
        period_ns: 200 * MS,
        burst_ns: 5 * MS,
        idle: true,
        ..cgroup("/a/x", 3)
    };
    vec![cgroup("/a", 200), cgroup("/b", 100), limited, cgroup("/a/y", 100)]
}

/// A parent in /a/x whose first child is in its group and whose second is in /b, and one elsewhere.
fn family() -> Workload {
    let parent = once(&[Op::Fork { template: 2 }, Op::Fork { template: 3 }, run(MS)]);
    let child = once(&[run(MS)]);
    let others = ["elsewhere", "first", "second"].map(|name| task(name, 0, child.clone()));
    let templates = [vec![task("parent", 0, parent)], others.to_vec()].concat();
    grouped(workload_of(templates, 2), tree(), &[Some(2), None, None, Some(1)])
}

const HEAD: &str = "#include <scx/cgroups.bpf.h>
    char _license[] SEC(\"license\") = \"GPL\";
    void BPF_STRUCT_OPS(told_enqueue, struct task_struct *p, u64 enq_flags)
    { scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags); }
";

/// What a policy prints that has these operations beside `enqueue`, and how it ends.
fn printed(operations: &str, members: &str, strict: bool) -> (RunResult, Vec<String>) {
    let text = format!(
        "{HEAD}{operations}
        SCX_OPS_DEFINE(told_ops, .enqueue = (void *)told_enqueue, {members} .name = \"told\");"
    );
    let printed = Printed::default();
    let options = Options { prints: Some(printed.show()), strict, ..Options::default() };
    let policy = compile_text(&text);
    let result = attempt_with(&policy, &costless(1, 1000), &family(), &options);
    let said = |line: &String| line.split("printk: ").last().unwrap_or_default().to_owned();
    (result, printed.lines().iter().map(said).collect())
}

#[test]
fn groups_begin_from_the_root_before_tasks_and_end_towards_it() {
    let operations = "
        s32 BPF_STRUCT_OPS(told_cgroup_init, struct cgroup *cgrp,
                           struct scx_cgroup_init_args *args)
        {
            bpf_printk(\"init %s %d %d\", cgrp->kn->name, cgrp->kn->id, cgrp->level);
            bpf_printk(\"%d %lld %lld\", args->weight, args->bw_period_us, args->bw_quota_us);
            bpf_printk(\"%lld\", args->bw_burst_us);
            return 0;
        }
        void BPF_STRUCT_OPS(told_cgroup_exit, struct cgroup *cgrp)
        { bpf_printk(\"exit %d\", cgrp->kn->id); }
        s32 BPF_STRUCT_OPS(told_init_task, struct task_struct *p, struct scx_init_task_args *args)
        { bpf_printk(\"%s %d %d\", p->comm, args->cgroup->kn->id, args->fork); return 0; }";
    let members = ".cgroup_init = (void *)told_cgroup_init,
        .cgroup_exit = (void *)told_cgroup_exit, .init_task = (void *)told_init_task,";
    let (result, lines) = printed(operations, members, true);
    assert!(result.error.is_none(), "{:?}", result.error);
    let rest = ["100 100000 -1", "0"];
    let expected = [
        &["init  1 0", rest[0], rest[1], "init a 2 1", "200 100000 -1", "0"][..],
        &["init x 4 2", "3 200000 50000", "5000", "init y 5 2", rest[0], rest[1]],
        &["init b 3 1", rest[0], rest[1]],
        &["parent 4 0", "elsewhere 1 0", "first 4 1", "second 3 1"],
        &["exit 4", "exit 5", "exit 2", "exit 3", "exit 1"],
    ];
    assert_eq!(lines, expected.concat());
}

#[test]
fn walks_go_down_back_and_up() {
    let operations = "
        static void walk(u64 id, unsigned int order)
        {
            struct cgroup *from = bpf_cgroup_from_id(id);
            struct cgroup_subsys_state *pos;
            u64 ids = 0;
            if (!from)
                return;
            bpf_for_each(css, pos, &from->self, order)
                ids = ids * 10 + pos->cgroup->kn->id;
            bpf_printk(\"%lld\", ids);
            bpf_cgroup_release(from);
        }
        s32 BPF_STRUCT_OPS(told_init)
        {
            walk(1, BPF_CGROUP_ITER_DESCENDANTS_PRE);
            walk(1, BPF_CGROUP_ITER_DESCENDANTS_POST);
            walk(2, BPF_CGROUP_ITER_DESCENDANTS_PRE);
            walk(2, BPF_CGROUP_ITER_DESCENDANTS_POST);
            walk(3, BPF_CGROUP_ITER_DESCENDANTS_POST);
            walk(5, BPF_CGROUP_ITER_ANCESTORS_UP);
            walk(1, BPF_CGROUP_ITER_ANCESTORS_UP);
            walk(1, 1);
            return 0;
        }";
    let (result, lines) = printed(operations, ".init = (void *)told_init,", true);
    assert!(result.error.is_none(), "{:?}", result.error);
    assert_eq!(lines, ["12453", "45231", "245", "452", "3", "521", "1", "0"]);
}

#[test]
fn a_group_that_the_policy_refuses_ends_the_run() {
    let operations = "s32 BPF_STRUCT_OPS(told_cgroup_init, struct cgroup *cgrp,
                                         struct scx_cgroup_init_args *args)
        { return cgrp->level == 2 ? -ENOMEM : 0; }";
    let (result, _) = printed(operations, ".cgroup_init = (void *)told_cgroup_init,", false);
    let message = result.error.expect("it was refused").message;
    assert_eq!(message, "ops.cgroup_init() failed (-12): ENOMEM, no memory");
}

#[test]
fn a_task_s_group_is_asked_for_by_its_own_operations_only() {
    let asks = |operation: &str, head: &str| {
        let operations = format!(
            "s32 BPF_STRUCT_OPS(told_asks, {head})
            {{
                struct cgroup *cgrp = scx_bpf_task_cgroup(p);
                bpf_cgroup_release(cgrp);
                return 0;
            }}"
        );
        let (result, _) = printed(&operations, &format!(".{operation} = (void *)told_asks,"), true);
        result.error.map_or(String::new(), |error| error.message)
    };
    assert_eq!(asks("runnable", "struct task_struct *p, u64 flags"), "");
    let said = asks("init_task", "struct task_struct *p, struct scx_init_task_args *args");
    assert!(said.contains("scx_bpf_task_cgroup() called on a task not being operated"), "{said}");
}

#[test]
fn a_policy_that_asks_all_there_is_about_groups_gets_a_kernels_answers() {
    let policy = compile("tests/interface/cgroups.bpf.c");
    for strict in [false, true] {
        let options = Options { strict, ..Options::default() };
        let result = attempt_with(&policy, &shipped_machine("osdl-4"), &family(), &options);
        assert!(result.error.is_none(), "{:?}", result.error);
    }
}

/// Two tasks in one group and three in another of thrice its weight.
#[test]
fn groups_that_are_always_busy_have_shares_by_their_weights() {
    let policy = compile("tests/interface/cgroups.bpf.c");
    let hogs = ["light", "light", "heavy", "heavy", "heavy"].map(|name| hog(name, 0));
    let of = [0, 0, 1, 1, 1].map(Some);
    let groups = vec![cgroup("/light", 100), cgroup("/heavy", 300)];
    let workload = grouped(together(hogs.to_vec()), groups, &of);
    let options = Options { until_ns: Some(20 * S), ..Options::default() };
    let result = attempt_with(&policy, &costless(1, 1000), &workload, &options);
    assert!(result.error.is_none(), "{:?}", result.error);
    assert!((share(&result, "light") - 0.25).abs() < 0.002, "{}", share(&result, "light"));
    assert!((share(&result, "heavy") - 0.75).abs() < 0.002, "{}", share(&result, "heavy"));
}

#[test]
fn without_groups_all_tasks_are_in_the_root() {
    let policy = compile("tests/interface/cgroups.bpf.c");
    let workload = shipped_workload("hackbench", &[("groups", "1"), ("loops", "5")]);
    let result = attempt(&policy, &shipped_machine("osdl-2"), &workload, 1);
    assert!(result.error.is_none(), "{:?}", result.error);
}

/// A sleeper and two hogs of one process are moved at 5 ms, on one CPU, by one of them; moving them
/// again changes nothing. Then the group that they are in changes.
#[test]
fn who_is_moved_leaves_its_cpu_or_its_queue_for_that_time() {
    let operations = "
        #define TELL(operation, ...) \\
            void BPF_STRUCT_OPS(told_##operation, struct task_struct *p, ##__VA_ARGS__)
        static bool moves;
        s32 BPF_STRUCT_OPS(told_prep, struct task_struct *p, struct cgroup *from,
                           struct cgroup *to)
        {
            moves = true;
            bpf_printk(\"%s prep %d %d\", p->comm, from->kn->id, to->kn->id);
            return 0;
        }
        TELL(move, struct cgroup *from, struct cgroup *to)
        {
            struct cgroup *now = scx_bpf_task_cgroup(p);
            bpf_printk(\"%s move %d %d\", p->comm, from->kn->id, now->kn->id);
            bpf_cgroup_release(now);
        }
        TELL(stopping, bool runnable)
        {
            struct cgroup *now = scx_bpf_task_cgroup(p);
            if (moves)
                bpf_printk(\"%s stops %d, %d\", p->comm, now->kn->id, p->cgroups->dfl_cgrp->kn->id);
            bpf_cgroup_release(now);
        }
        TELL(quiescent, u64 flags) { if (moves) bpf_printk(\"%s quiet %llx\", p->comm, flags); }
        TELL(runnable, u64 flags) { if (moves) bpf_printk(\"%s runnable %llx\", p->comm, flags); }
        TELL(running) { if (moves) bpf_printk(\"%s runs\", p->comm); }
        void BPF_STRUCT_OPS(told_weight, struct cgroup *cgrp, u32 weight)
        { bpf_printk(\"%d weight %d\", cgrp->kn->id, weight); moves = false; }
        void BPF_STRUCT_OPS(told_limits, struct cgroup *cgrp, u64 period, u64 quota, u64 burst)
        { bpf_printk(\"%llu %llu %llu\", period, quota, burst); }
        void BPF_STRUCT_OPS(told_idle, struct cgroup *cgrp, bool idle)
        { bpf_printk(\"%d idle %d\", cgrp->kn->id, idle); }";
    let members = ".cgroup_prep_move = (void *)told_prep, .cgroup_move = (void *)told_move,
        .stopping = (void *)told_stopping, .quiescent = (void *)told_quiescent,
        .runnable = (void *)told_runnable, .running = (void *)told_running,
        .cgroup_set_weight = (void *)told_weight, .cgroup_set_bandwidth = (void *)told_limits,
        .cgroup_set_idle = (void *)told_idle,";
    let sleeper = once(&[Op::Sleep(Amount::Fixed(20 * MS)), run(MS)]);
    let templates = vec![task("sleeper", 0, sleeper), hog("first", 0), hog("second", 0)];
    let groups = vec![cgroup("/a", 100), cgroup("/b", 100)];
    let moved = |task: &str| ChangeKind::Move { task: task.to_owned(), to: Some(1) };
    let now = Cgroup { idle: true, quota_ns: Some(5 * MS), burst_ns: MS, ..cgroup("/b", 7) };
    let mut changes = ["first", "second", "sleeper"].map(moved).to_vec();
    changes.push(ChangeKind::Cgroup { number: 1, now });
    let changes = changes.into_iter().map(|what| Change { at_ns: 5 * MS, what }).collect();
    let workload = Workload { changes, ..together(templates) };
    let workload = grouped(workload, groups, &[Some(0); 3]);
    let text = format!(
        "{HEAD}{operations}
        SCX_OPS_DEFINE(told_ops, .enqueue = (void *)told_enqueue, {members} .name = \"told\");"
    );
    let printed = Printed::default();
    let options =
        Options { prints: Some(printed.show()), until_ns: Some(6 * MS), ..Options::default() };
    let result = attempt_with(&compile_text(&text), &costless(1, 1000), &workload, &options);
    assert!(result.error.is_none(), "{:?}", result.error);
    let said = |line: &String| line.split("printk: ").last().unwrap_or_default().to_owned();
    let lines: Vec<String> = printed.lines().iter().map(said).collect();
    let expected = [
        &["sleeper prep 2 3", "first prep 2 3", "second prep 2 3", "sleeper move 2 3"][..],
        &["first stops 2, 3", "first quiet 20000000e", "first move 2 3", "first runnable e"],
        &["first runs", "second quiet 20000000e", "second move 2 3", "second runnable e"],
        &["3 weight 7", "100000 5000 0", "100000 5000 1000", "3 idle 1"],
    ];
    assert_eq!(lines, expected.concat());
}

/// A policy that ends where a move is not told as a whole, or begins when all are gone whose names
/// begin with m, if there were any, and prints how many moves there were.
const PAIRS: &str = "
    static u64 going[4096], nr_moved, nr_movers;
    static bool had_movers;
    static void check(bool is_well, struct task_struct *p, u64 to)
    {
        if (!is_well)
            scx_bpf_error(\"%s %d goes to %llu, not %llu\", p->comm, p->pid,
                          going[p->pid & 4095], to);
    }
    s32 BPF_STRUCT_OPS(told_prep, struct task_struct *p, struct cgroup *from, struct cgroup *to)
    {
        check(!going[p->pid & 4095] && (nr_movers || !had_movers), p, to->kn->id);
        going[p->pid & 4095] = to->kn->id;
        return 0;
    }
    void BPF_STRUCT_OPS(told_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
    {
        check(going[p->pid & 4095] == to->kn->id, p, to->kn->id);
        going[p->pid & 4095] = 0;
        nr_moved++;
    }
    s32 BPF_STRUCT_OPS(told_init_task, struct task_struct *p, struct scx_init_task_args *args)
    {
        check(!args->fork || p->cgroups->dfl_cgrp == args->cgroup, p, 0);
        had_movers |= p->comm[0] == 'm';
        nr_movers += p->comm[0] == 'm';
        return 0;
    }
    void BPF_STRUCT_OPS(told_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
    {
        check(!going[p->pid & 4095], p, 0);
        nr_movers -= p->comm[0] == 'm';
    }
    void BPF_STRUCT_OPS(told_exit, struct scx_exit_info *ei) { bpf_printk(\"%d\", nr_moved); }";

/// How often tasks moved under that policy, on four CPUs on which interrupts take time.
fn moves_of(workload: &str) -> Vec<u64> {
    let members = ".cgroup_prep_move = (void *)told_prep, .cgroup_move = (void *)told_move,
        .init_task = (void *)told_init_task, .exit_task = (void *)told_exit_task,
        .exit = (void *)told_exit,";
    let text = format!(
        "{HEAD}{PAIRS}
        SCX_OPS_DEFINE(told_ops, .enqueue = (void *)told_enqueue, {members} .name = \"told\");"
    );
    let printed = Printed::default();
    let options = Options { prints: Some(printed.show()), strict: true, ..Options::default() };
    let policy = compile_text(&text);
    let result = attempt_with(&policy, &shipped_machine("osdl-4"), &parsed(workload), &options);
    assert!(result.error.is_none(), "{:?}", result.error);
    let number = |line: &String| line.split("printk: ").last()?.parse().ok();
    printed.lines().iter().filter_map(number).collect()
}

const TWO_MOVES: &str = r#"
cgroups = [{ path = "/one" }, { path = "/two" }]
[[moves]]
at = "20ms"
task = "hog"
cgroup = "/one"
[[moves]]
at = "20ms"
task = "hog"
cgroup = "/two"
"#;

#[test]
fn a_task_that_is_on_its_way_is_moved_again_when_it_is_there() {
    let hogs = "[[tasks]]\nname = \"hog\"\ncount = 3\nprogram = [{ run = \"50ms\" }]";
    assert_eq!(moves_of(&format!("{TWO_MOVES}{hogs}")), [6]);
}

#[test]
fn a_task_that_is_on_its_way_ends_and_forks_when_it_is_there() {
    // Some of them are met in each of their first microseconds and in their last.
    let families = r#"
[[tasks]]
name = "hog"
count = 40
program = [{ repeat = 400, do = [{ run = "1us" }, { fork = "kid" }, { run = "3us" }] }]
[templates.kid]
program = [{ run = "2us" }]
"#;
    for kind in ["hog", "kid"] {
        let moves = TWO_MOVES.replace("\"hog\"", &format!("\"{kind}\""));
        assert!(moves_of(&format!("{moves}{families}"))[0] > 0);
    }
}

#[test]
fn a_policy_that_is_loaded_again_has_no_move_that_another_began() {
    let hogs = "[[tasks]]\nname = \"hog\"\ncount = 8\nprogram = [{ run = \"50ms\" }]";
    let mut in_between = 0;
    for at_us in 20_000..20_020 {
        let hotplug = format!("[[hotplug]]\nat = \"{at_us}us\"\ncpu = 3\nstate = \"offline\"\n");
        let moved = moves_of(&format!("{TWO_MOVES}{hotplug}{hogs}"));
        assert_eq!((moved.len(), moved.iter().sum()), (2, 16), "{moved:?}");
        in_between += u64::from((1..16).contains(&moved[0]));
    }
    assert!(in_between > 0);
}

/// Who moves its process, and three of it who compute on other CPUs meanwhile.
const MOVERS: &str = r#"
cgroups = [{ path = "/one" }, { path = "/two" }]
[[tasks]]
name = "mover"
address_space = "shared"
count = 1
program = [{ run = "1ms" }, { repeat = 20, do = [{ move = "/two" }, { move = "/one" }] }]
[[tasks]]
name = "hog"
address_space = "shared"
count = 3
program = [{ run = "20ms" }]
"#;

#[test]
fn who_moves_its_process_goes_on_when_all_of_it_are_there() {
    // Each of 40 moves is one of four tasks.
    assert_eq!(moves_of(MOVERS), [160]);
    // Some of those that three ask for find all of the process there. Nobody ends before its own.
    assert!(moves_of(&MOVERS.replace("count = 1", "count = 3"))[0] > 160);
}

#[test]
fn nobody_is_deadlocked_while_a_move_is_on_its_way() {
    // It may wait at the gate before the interrupt comes for which the other sleeps.
    let waits = |ns: u64| {
        format!(
            r#"
cgroups = [{{ path = "/one" }}]
[[tasks]]
name = "mover"
address_space = "shared"
program = [{{ run = "1ms" }}, {{ move = "/one" }}, {{ wake = "go" }}]
[[tasks]]
name = "other"
address_space = "shared"
program = [{{ run = "{ns}ns" }}, {{ wait = "go" }}]
[gates.go]
"#
        )
    };
    for ns in (990_000..1_010_000).step_by(250) {
        assert_eq!(moves_of(&waits(ns)), [2], "{ns}");
    }
}

#[test]
fn an_interrupt_for_a_move_that_a_fork_has_ended_does_not_end_the_next_one() {
    let text = format!(
        "{HEAD}
        s32 BPF_STRUCT_OPS(told_prep, struct task_struct *p, struct cgroup *from,
                           struct cgroup *to)
        {{ bpf_printk(\"%llu\", bpf_ktime_get_ns()); return 0; }}
        void BPF_STRUCT_OPS(told_move, struct task_struct *p, struct cgroup *from,
                            struct cgroup *to)
        {{ bpf_printk(\"%llu\", bpf_ktime_get_ns()); }}
        SCX_OPS_DEFINE(told_ops, .enqueue = (void *)told_enqueue,
            .cgroup_prep_move = (void *)told_prep, .cgroup_move = (void *)told_move,
            .name = \"told\");"
    );
    let workload = parsed(
        r#"
cgroups = [{ path = "/one" }, { path = "/two" }]
[[moves]]
at = "5ms"
task = "hog"
cgroup = "/one"
[[moves]]
at = "5000500ns"
task = "hog"
cgroup = "/two"
[[tasks]]
name = "hog"
cpus = [1]
program = [{ run = "5000300ns" }, { fork = "kid" }, { run = "1ms" }]
[templates.kid]
program = [{ run = "1us" }]
"#,
    );
    let mut machine = costless(2, 1000);
    machine.costs.ipi_ns = 2000;
    let printed = Printed::default();
    let options = Options { prints: Some(printed.show()), ..Options::default() };
    let result = attempt_with(&compile_text(&text), &machine, &workload, &options);
    assert!(result.error.is_none(), "{:?}", result.error);
    let number = |line: &String| line.split("printk: ").last()?.parse::<u64>().ok();
    let times: Vec<u64> = printed.lines().iter().filter_map(number).collect();
    let [first, ended, second, moved] = times[..] else { panic!("{times:?}") };
    assert!(first + 2000 > ended && ended < second, "the fork ends the first: {times:?}");
    assert!(second + 2000 <= moved, "{times:?}");
}

#[test]
fn a_process_is_written_once_however_many_of_its_threads_have_the_name() {
    let text = format!(
        "{HEAD}
        s32 BPF_STRUCT_OPS(told_prep, struct task_struct *p, struct cgroup *from,
                           struct cgroup *to)
        {{ bpf_printk(\"asked\"); return -EPERM; }}
        SCX_OPS_DEFINE(told_ops, .enqueue = (void *)told_enqueue,
            .cgroup_prep_move = (void *)told_prep, .name = \"told\");"
    );
    let policy = compile_text(&text);
    for (space, asked) in [("address_space = \"shared\"", 1), ("", 40)] {
        let workload = parsed(&format!(
            "cgroups = [{{ path = \"/one\" }}]
            moves = [{{ at = \"1ms\", task = \"t\", cgroup = \"/one\" }}]
            [[tasks]]\nname = \"t\"\n{space}\ncount = 40\nprogram = [{{ sleep = \"2ms\" }}]"
        ));
        let printed = Printed::default();
        let options = Options { prints: Some(printed.show()), ..Options::default() };
        let result = attempt_with(&policy, &costless(2, 1000), &workload, &options);
        assert!(result.error.is_none(), "{:?}", result.error);
        let lines = printed.lines();
        assert_eq!(lines.iter().filter(|line| line.ends_with("asked")).count(), asked);
    }
}
