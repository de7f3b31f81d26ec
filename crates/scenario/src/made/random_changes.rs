//! What disturbs some of the random workloads: CPUs that come and go, tasks that change their
//! affinity or have it changed.
//!
//! All of it is drawn from a stream of its own, so that the other workloads are what they are
//! without. CPU 0 stays, and a task whose CPUs are all gone may use the others, so that everything
//! still ends.

use crate::made::builder::ProgramBuilder;
use crate::made::draw::Random;
use crate::model::workload::{Change, ChangeKind, CpuSet, Op, Program, Workload};

/// One workload in so many has each kind of disturbance.
const DISTURBED_ONE_IN: u64 = 5;
/// All of it happens within this time, in which most random workloads still have much to do.
const DISTURBED_NS_MAX: u64 = 60_000_000;
/// Tasks whose affinity is changed from outside, and changes of each.
const MOVED_TASKS_MAX: u64 = 3;
const MOVES_MAX: u64 = 3;

/// Disturbs the workload number `seed` on a machine of `nr_cpus` CPUs, if it is its turn.
pub(crate) fn disturb(seed: u64, nr_cpus: u64, mut workload: Workload) -> Workload {
    let mut rng = Random::new(seed, 2);
    let mut is_due = || rng.below(DISTURBED_ONE_IN) == 0;
    let [plugs, moves, binds] = [is_due(), is_due(), is_due()];
    if nr_cpus < 2 {
        return workload;
    }
    if plugs {
        plug(&mut rng, nr_cpus, &mut workload);
    }
    if moves {
        move_tasks(&mut rng, nr_cpus, &mut workload);
    }
    if binds {
        bind_tasks(&mut rng, nr_cpus, &mut workload);
    }
    workload.changes.sort_by_key(|change| change.at_ns);
    workload
}

/// About half of the CPUs go; most come back.
fn plug(rng: &mut Random, nr_cpus: u64, workload: &mut Workload) {
    let sure = 1 + rng.below(nr_cpus - 1);
    for cpu in 1..nr_cpus {
        if cpu != sure && rng.below(2) == 0 {
            continue;
        }
        let gone_at_ns = rng.below(DISTURBED_NS_MAX);
        let hotplug = |at_ns, online| {
            let what = ChangeKind::Hotplug { cpu: cpu as u32, online };
            Change { at_ns, what }
        };
        workload.changes.push(hotplug(gone_at_ns, false));
        if rng.below(4) != 0 {
            let away_ns = 1 + rng.below(DISTURBED_NS_MAX / 2);
            workload.changes.push(hotplug(gone_at_ns + away_ns, true));
        }
    }
}

/// A few tasks are told where to run, under names of their own.
fn move_tasks(rng: &mut Random, nr_cpus: u64, workload: &mut Workload) {
    for number in 0..=rng.below(MOVED_TASKS_MAX) {
        let task = rng.below(workload.initial.len() as u64) as usize;
        let template = workload.initial[task].template as usize;
        let name = format!("moved{number}");
        workload.changes.retain(|change| match &change.what {
            ChangeKind::Affinity { task, .. } => *task != workload.templates[template].name,
            _ => true,
        });
        workload.templates[template].name.clone_from(&name);
        for _ in 0..=rng.below(MOVES_MAX) {
            let what = ChangeKind::Affinity { task: name.clone(), cpus: cpu_set(rng, nr_cpus) };
            workload.changes.push(Change { at_ns: rng.below(DISTURBED_NS_MAX), what });
        }
    }
}

/// Some tasks bind themselves somewhere on their way.
fn bind_tasks(rng: &mut Random, nr_cpus: u64, workload: &mut Workload) {
    for number in 0..workload.initial.len() {
        if rng.below(2) == 0 {
            continue;
        }
        let set = workload.cpu_sets.len() as u32;
        workload.cpu_sets.push(cpu_set(rng, nr_cpus));
        let template = &mut workload.templates[workload.initial[number].template as usize];
        let place = rng.below(template.program.len() as u64 + 1) as usize;
        template.program = with_op(&template.program, place, Op::Affinity { set });
    }
}

/// A program with one more operation before the one at `place`.
fn with_op(program: &Program, place: usize, new: Op) -> Program {
    let mut longer = ProgramBuilder::new();
    for (at, op) in program.iter().enumerate() {
        if at == place {
            longer.push(new);
        }
        match *op {
            Op::Loop { repeat, .. } => longer.begin(repeat),
            Op::End { .. } => longer.end(),
            op => longer.push(op),
        };
    }
    if place == program.len() {
        longer.push(new);
    }
    longer.build()
}

/// Any CPUs but none; every fourth time all.
fn cpu_set(rng: &mut Random, nr_cpus: u64) -> CpuSet {
    if rng.below(4) == 0 {
        return None;
    }
    let sure = rng.below(nr_cpus) as u32;
    let chosen = (0..nr_cpus as u32).filter(|&cpu| cpu == sure || rng.below(2) == 0);
    Some(chosen.collect::<Vec<u32>>().into())
}
