//! Goal: what each policy decides, readable, and unchanged unless somebody meant to change it.
//! Method: one small scenario a policy, on a machine where only decisions show, as a picture and
//! a list of every stay on a CPU, compared with `golden/POLICY.txt`. There the text above the
//! line of `=`, which says what to see and which rule explains it, and the scenario below it are
//! written by hand. `GOLDEN=write` writes the rest anew: read the difference, and the text above,
//! before you commit it.

use crate::support::*;
use scenario::workload::{Amount, Op, Repeat, TaskTemplate, Workload};
use simulator::{RunResult, Stay};
use std::fs;

/// A test a policy: they fail apart, by their policy's name.
macro_rules! golden_timelines {
    ($($name:ident: $policy:literal for $until_ns:expr,)*) => {$(
        #[test]
        fn $name() {
            check($policy, $until_ns);
        }
    )*};
}

golden_timelines! {
    fifo_decides_as_its_golden_timeline_says: "fifo" for 40 * MS,
    round_robin_decides_as_its_golden_timeline_says: "round_robin" for 60 * MS,
    linux_2_4_decides_as_its_golden_timeline_says: "linux_2_4" for 800 * MS,
    o1_decides_as_its_golden_timeline_says: "o1" for 2_080 * MS,
    cfs_2007_decides_as_its_golden_timeline_says: "cfs_2007" for 160 * MS,
    rfs_decides_as_its_golden_timeline_says: "rfs" for 80 * MS,
    cfs_decides_as_its_golden_timeline_says: "cfs" for 160 * MS,
    cfs_gavl_decides_as_its_golden_timeline_says: "cfs_gavl" for 160 * MS,
    timering_decides_as_its_golden_timeline_says: "timering" for 160 * MS,
    bfs_decides_as_its_golden_timeline_says: "bfs" for 200 * MS,
    eevdf_decides_as_its_golden_timeline_says: "eevdf" for 80 * MS,
}

/// What stands below the text that is written by hand.
const RULE: &str =
    "================================================================================\n";
/// What stands below the scene.
const END_OF_SCENE: &str = " ms.\n\n";

/// Compares the run of a policy's scene with its file, or writes the file.
fn check(policy: &str, until_ns: u64) {
    let name = format!("crates/simulator/tests/golden/{policy}.txt");
    let path = root().join(&name);
    let file = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
    let parts = file.split_once(RULE).and_then(|(prose, below)| {
        let (told, kept) = below.split_once(END_OF_SCENE)?;
        Some((prose, told, kept, scene_of(told)?))
    });
    let (prose, told, kept, scene) = parts.unwrap_or_else(|| panic!("{name} tells no scene"));
    assert_eq!(scene.policy, policy, "{name}");
    let text = text_of(&scene, until_ns);
    if std::env::var_os("GOLDEN").is_some_and(|value| value == "write") {
        fs::write(&path, format!("{prose}{RULE}{told}{END_OF_SCENE}{text}"))
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        return;
    }
    assert!(prose.lines().count() > 5, "{name} does not say what to see");
    let differs = text.lines().zip(kept.lines()).position(|(now, then)| now != then);
    assert!(
        text == kept,
        "{name} differs, first in line {} below its scene. If that is meant, `make golden` and \
         read the difference.\n{text}",
        differs.unwrap_or(text.lines().count().min(kept.lines().count())) + 1
    );
}

/// What a policy is shown with.
struct Scene<'a> {
    policy: &'a str,
    nr_cpus: usize,
    hz: u32,
    tunables: Vec<(&'a str, i64)>,
    tasks: &'a str,
    cell_ns: u64,
}

/// Reads a scene: a line on the policy and the machine, one for each tunable that is set, the tasks
/// as in a workload file, and how many ms a character of the picture stands for.
fn scene_of<'a>(told: &'a str) -> Option<Scene<'a>> {
    let (head, rest) = told.split_once("\n\n")?;
    let (tasks, cell_ms) = rest.split_once("\nA character is ")?;
    let mut head = head.lines();
    let first = head.next()?.strip_suffix(" ticks a second, no kernel operation takes time")?;
    let (policy, machine) = first.split_once(" on ")?;
    let (cpus, hz) = machine.split_once(", ")?;
    let tunable = |line: &'a str| {
        let (name, value) = line.strip_prefix("with ")?.split_once(" = ")?;
        Some((name, value.parse().ok()?))
    };
    Some(Scene {
        policy,
        nr_cpus: cpus.strip_suffix(" CPU").or(cpus.strip_suffix(" CPUs"))?.parse().ok()?,
        hz: hz.parse().ok()?,
        tunables: head.map(tunable).collect::<Option<_>>()?,
        tasks,
        cell_ns: (cell_ms.parse::<f64>().ok()? * MS as f64) as u64,
    })
}

fn text_of(scene: &Scene, until_ns: u64) -> String {
    let workload = parsed(scene.tasks);
    let machine = costless(scene.nr_cpus, scene.hz);
    let result = outcome(scene.policy, &machine, &workload, until_ns, &scene.tunables);
    let stays = list_of_stays(&result, &workload, S / u64::from(scene.hz));
    picture(&result, scene.cell_ns) + &stays
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
