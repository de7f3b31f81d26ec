//! Goal: what each policy decides, readable, and unchanged unless somebody meant to change it.
//! Method: one small scenario a policy, on a machine where only decisions show, as a picture and
//! a list of every stay on a CPU, compared with `golden/POLICY.txt`. The text above the line of
//! `=` there says what to see and which rule explains it; it is written by hand. `GOLDEN=write`
//! writes the rest anew: read the difference, and the text above, before you commit it.

use crate::support::*;
use scenario::workload::{Amount, Op, Repeat, TaskTemplate, Workload};
use simulator::{RunResult, Stay};
use std::fs;
use std::path::Path;

/// What a policy is shown with.
struct Scene {
    policy: &'static str,
    nr_cpus: usize,
    hz: u32,
    until_ns: u64,
    cell_ns: u64,
    tunables: &'static [(&'static str, i64)],
    tasks: &'static str,
}

/// What most scenes have in common.
const PLAIN: Scene =
    Scene { policy: "", nr_cpus: 1, hz: 1000, until_ns: 0, cell_ns: MS, tunables: &[], tasks: "" };

const FIFO: Scene = Scene {
    policy: "fifo",
    nr_cpus: 2,
    until_ns: 40 * MS,
    cell_ns: MS / 2,
    tasks: r#"
[[tasks]]
name = "a"
program = [{ run = "12ms" }]

[[tasks]]
name = "b"
nice = 19
program = [{ repeat = 2, do = [{ run = "4ms" }, { sleep = "3ms" }] }]

[[tasks]]
name = "c"
start = "1ms"
program = [{ run = "10ms" }, { fork = "d" }, { run = "4ms" }]

[[tasks]]
name = "h"
start = "6500us"
nice = -20
program = [{ run = "5ms" }]

[templates.d]
program = [{ run = "6ms" }]
"#,
    ..PLAIN
};

const ROUND_ROBIN: Scene = Scene {
    policy: "round_robin",
    until_ns: 60 * MS,
    cell_ns: MS / 2,
    tasks: r#"
[[tasks]]
name = "a"
program = [{ run = "16ms" }]

[[tasks]]
name = "b"
nice = 19
program = [{ run = "13500us" }]

[[tasks]]
name = "s"
nice = -20
program = [{ repeat = 3, do = [{ run = "1ms" }, { sleep = "7500us" }] }]

[[tasks]]
name = "l"
start = "42ms"
program = [{ run = "10ms" }]
"#,
    ..PLAIN
};

const LINUX_2_4: Scene = Scene {
    policy: "linux_2_4",
    hz: 100,
    until_ns: 800 * MS,
    cell_ns: 10 * MS,
    tasks: r#"
[[tasks]]
name = "a"
program = [{ run = "200ms" }, { fork = "c" }, { run = "10s" }]

[[tasks]]
name = "b"
nice = 10
program = [{ run = "10s" }]

[[tasks]]
name = "s"
program = [{ run = "20ms" }, { sleep = "395ms" }, { run = "200ms" }]

[templates.c]
program = [{ run = "50ms" }]
"#,
    ..PLAIN
};

const O1: Scene = Scene {
    policy: "o1",
    until_ns: 2_080 * MS,
    cell_ns: 10 * MS,
    tasks: r#"
[[tasks]]
name = "a"
program = [{ run = "10s" }]

[[tasks]]
name = "b"
nice = 19
program = [{ run = "45ms" }, { fork = "c" }, { run = "10s" }]

[[tasks]]
name = "s"
program = [{ sleep = "1000500us" }, { run = "600ms" }]

[templates.c]
nice = 19
program = [{ run = "10ms" }]
"#,
    ..PLAIN
};

const RFS: Scene = Scene {
    policy: "rfs",
    until_ns: 80 * MS,
    cell_ns: MS / 2,
    tasks: r#"
[[tasks]]
name = "s"
program = [{ sleep = "30500us" }, { run = "5ms" }, { fork = "c" }, { run = "18ms" }]

[[tasks]]
name = "a"
program = [{ run = "10s" }]

[[tasks]]
name = "b"
start = "4500us"
nice = 5
program = [{ run = "10s" }]

[templates.c]
program = [{ run = "5ms" }]
"#,
    ..PLAIN
};

const CFS: Scene = Scene {
    policy: "cfs",
    until_ns: 160 * MS,
    tasks: r#"
[[tasks]]
name = "s"
program = [{ sleep = "65500us" }, { run = "5ms" }, { fork = "c" }, { run = "8ms" }]

[[tasks]]
name = "a"
program = [{ run = "10s" }]

[[tasks]]
name = "b"
start = "4500us"
nice = 5
program = [{ run = "10s" }]

[templates.c]
program = [{ run = "20ms" }]
"#,
    ..PLAIN
};

const CFS_2007: Scene = Scene { policy: "cfs_2007", ..CFS };

const CFS_GAVL: Scene = Scene { policy: "cfs_gavl", ..CFS };

const TIMERING: Scene = Scene {
    policy: "timering",
    until_ns: 160 * MS,
    tunables: &[("slots", 64), ("granularity_ns", 500_000), ("next_buddy", 0), ("last_buddy", 0)],
    tasks: r#"
[[tasks]]
name = "s"
program = [{ sleep = "73500us" }, { run = "3ms" }]

[[tasks]]
name = "a"
program = [{ run = "10s" }]

[[tasks]]
name = "b"
program = [{ run = "10s" }]

[[tasks]]
name = "n"
nice = 19
program = [{ run = "10s" }]
"#,
    ..PLAIN
};

const BFS: Scene = Scene {
    policy: "bfs",
    nr_cpus: 2,
    until_ns: 200 * MS,
    cell_ns: 2 * MS,
    tasks: r#"
[[tasks]]
name = "a"
program = [{ run = "10s" }]

[[tasks]]
name = "b"
program = [{ run = "10s" }]

[[tasks]]
name = "n"
nice = 5
program = [{ run = "10s" }]

[[tasks]]
name = "d"
start = "500us"
nice = -5
program = [{ run = "20ms" }, { sleep = "50ms" }, { run = "1ms" }, { fork = "c" }, { run = "13ms" }]

[templates.c]
nice = -5
program = [{ run = "15ms" }]
"#,
    ..PLAIN
};

const EEVDF: Scene = Scene {
    policy: "eevdf",
    until_ns: 80 * MS,
    cell_ns: MS / 2,
    tunables: &[("base_slice_ns", 2_500_000)],
    tasks: r#"
[[tasks]]
name = "a"
program = [{ run = "10s" }]

[[tasks]]
name = "b"
nice = 5
program = [{ run = "10s" }]

[[tasks]]
name = "s"
program = [{ run = "1ms" }, { sleep = "24500us" }, { run = "4ms" }, { fork = "c" }, { run = "4ms" }]

[templates.c]
program = [{ run = "5ms" }]
"#,
    ..PLAIN
};

/// A test a policy: they fail apart, by their policy's name.
macro_rules! golden_timelines {
    ($($name:ident: $scene:expr,)*) => {$(
        #[test]
        fn $name() {
            check(&$scene);
        }
    )*};
}

golden_timelines! {
    fifo_decides_as_its_golden_timeline_says: FIFO,
    round_robin_decides_as_its_golden_timeline_says: ROUND_ROBIN,
    linux_2_4_decides_as_its_golden_timeline_says: LINUX_2_4,
    o1_decides_as_its_golden_timeline_says: O1,
    cfs_2007_decides_as_its_golden_timeline_says: CFS_2007,
    rfs_decides_as_its_golden_timeline_says: RFS,
    cfs_decides_as_its_golden_timeline_says: CFS,
    cfs_gavl_decides_as_its_golden_timeline_says: CFS_GAVL,
    timering_decides_as_its_golden_timeline_says: TIMERING,
    bfs_decides_as_its_golden_timeline_says: BFS,
    eevdf_decides_as_its_golden_timeline_says: EEVDF,
}

const RULE: &str =
    "================================================================================";

/// Compares a scene's run with its file, or writes the file.
fn check(scene: &Scene) {
    let name = format!("crates/simulator/tests/golden/{}.txt", scene.policy);
    let path = root().join(&name);
    let (prose, kept) = read(&path);
    let text = text_of(scene);
    if std::env::var_os("GOLDEN").is_some_and(|value| value == "write") {
        fs::write(&path, format!("{prose}{RULE}\n{text}"))
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        return;
    }
    assert!(prose.lines().count() > 5, "{name} does not say what to see");
    let differs = text.lines().zip(kept.lines()).position(|(now, then)| now != then);
    assert!(
        text == kept,
        "{name} differs, first in line {} below its rule. If that is meant, `make golden` and read \
         the difference.\n{text}",
        differs.unwrap_or(text.lines().count().min(kept.lines().count())) + 1
    );
}

/// What stands in a golden file above and below its rule.
fn read(path: &Path) -> (String, String) {
    let text = fs::read_to_string(path).unwrap_or_default();
    match text.split_once(&format!("{RULE}\n")) {
        Some((prose, rest)) => (prose.to_owned(), rest.to_owned()),
        None => (text, String::new()),
    }
}

fn text_of(scene: &Scene) -> String {
    let Scene { policy, nr_cpus, hz, cell_ns, tasks, .. } = scene;
    let workload = parsed(tasks);
    let machine = costless(*nr_cpus, *hz);
    let result = outcome(policy, &machine, &workload, scene.until_ns, scene.tunables);
    let cpus = if *nr_cpus == 1 { "CPU" } else { "CPUs" };
    let tunables: String =
        scene.tunables.iter().map(|(name, value)| format!("with {name} = {value}\n")).collect();
    format!(
        "{policy} on {nr_cpus} {cpus}, {hz} ticks a second, no kernel operation takes time\n\
         {tunables}{tasks}\nA character is {} ms.\n\n{}{}",
        *cell_ns as f64 / MS as f64,
        picture(&result, *cell_ns),
        list_of_stays(&result, &workload, S / u64::from(*hz))
    )
}

/// Every stay on a CPU in the order of their beginnings, and why it ended.
fn list_of_stays(result: &RunResult, workload: &Workload, tick_ns: u64) -> String {
    let names = result.timeline_names.as_ref().expect("asked for");
    let ms = |ns: u64| format!("{:.3}", ns as f64 / MS as f64);
    let mut ran_ns = vec![0; names.len() + 1];
    let mut text = "   from ms      to ms     ran ms  cpu  task  then\n".to_owned();
    for stay in all_stays(result) {
        let (from_ns, to_ns, cpu, pid) = stay;
        let name = &names[&pid];
        let template = workload.templates.iter().find(|template| template.name == *name);
        ran_ns[pid as usize] += to_ns - from_ns;
        let template = template.expect("tasks come from templates");
        let why = match step_after(template, ran_ns[pid as usize]) {
            Some(step) => step,
            None => involuntary(stay, result.elapsed_ns, tick_ns),
        };
        text += &format!(
            "{:>10} {:>10} {:>10}  {cpu:>3}  {name:>4}  {why}\n",
            ms(from_ns),
            ms(to_ns),
            ms(to_ns - from_ns)
        );
    }
    text
}

/// Why a task that could have gone on left its CPU.
fn involuntary(stay: Stay, elapsed_ns: u64, tick_ns: u64) -> &'static str {
    match stay.1 {
        end_ns if end_ns == elapsed_ns => "the run ends",
        end_ns if end_ns % tick_ns == 0 => "a tick ends its turn",
        _ => "is preempted",
    }
}

/// What a task's program makes it leave its CPU for when it has had `ran_ns`, if anything. Each
/// system call takes 1 ns, the least that the simulator lets it take.
fn step_after(template: &TaskTemplate, ran_ns: u64) -> Option<&'static str> {
    let (mut at, mut step, mut rounds) = (0, 0, 0);
    while at <= ran_ns {
        let op = template.program.get(step).copied().unwrap_or(Op::Exit);
        let leaves = match op {
            Op::Sleep(_) => Some("sleeps"),
            Op::Exit => Some("exits"),
            _ => None,
        };
        at += match op {
            Op::Run(Amount::Fixed(ns)) => ns,
            Op::Loop { .. } | Op::End { .. } => 0,
            _ => 1,
        };
        if at == ran_ns && leaves.is_some() || op == Op::Exit {
            return leaves.filter(|_| at == ran_ns);
        }
        step += 1;
        if let Op::End { start } = op {
            rounds += 1;
            let Op::Loop { repeat, .. } = template.program[start as usize] else {
                unreachable!("an end points to its loop")
            };
            if !matches!(repeat, Repeat::Times(Amount::Fixed(times)) if rounds == times) {
                step = start as usize + 1;
            }
        }
    }
    None
}
