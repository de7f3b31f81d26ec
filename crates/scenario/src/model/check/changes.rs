//! What every change from outside must satisfy.

use super::NO_CPUS_HINT;
use crate::model::duration::duration;
use crate::model::error::choices;
use crate::model::place::{Place, Problem};
use crate::model::text::quoted;
use crate::model::workload::{Change, ChangeKind, Workload};
use std::collections::BTreeMap;

/// The most changes from outside that a workload may have.
pub const CHANGES_MAX: usize = 10_000;

/// States of a CPU, by whether it is up.
pub(crate) const STATES: [&str; 2] = ["offline", "online"];

/// The first change that cannot be made.
pub(crate) fn check_changes(workload: &Workload) -> Result<(), Problem> {
    let wrong = |i, key, value: String, problem: String, hint: &str| {
        Err(Problem::new(Place::Change(i, key), value, problem, hint))
    };
    if workload.changes.len() > CHANGES_MAX {
        let number = workload.changes.len().to_string();
        let hint = format!("stay within {CHANGES_MAX}");
        return Err(Problem::new(Place::Whole, number, "too many changes from outside", hint));
    }
    // Of each CPU that was named: whether it is up, and since when.
    let mut states: BTreeMap<u32, (bool, Option<u64>)> = BTreeMap::new();
    let mut before_ns = 0;
    for (i, Change { at_ns, what }) in workload.changes.iter().enumerate() {
        let when = quoted(&duration(*at_ns));
        if *at_ns < before_ns {
            let problem = "earlier than the one before".to_string();
            return wrong(i, "at", when, problem, "sort changes by time");
        }
        before_ns = *at_ns;
        if workload.stop_at_ns.is_some_and(|stop_ns| *at_ns >= stop_ns) {
            let problem = "the run has ended by then".to_string();
            return wrong(i, "at", when, problem, "make it earlier, or `stop` later");
        }
        match what {
            ChangeKind::Hotplug { cpu, online } => {
                let state = states.entry(*cpu).or_insert((true, None));
                check_hotplug(i, *cpu, *online, *at_ns, *state)?;
                *state = (*online, Some(*at_ns));
            }
            ChangeKind::Affinity { task, cpus } => {
                check_name(workload, i, task)?;
                if cpus.as_ref().is_some_and(|cpus| cpus.is_empty()) {
                    let problem = format!("task `{task}` may run nowhere");
                    return wrong(i, "cpus", "[]".into(), problem, NO_CPUS_HINT);
                }
            }
            ChangeKind::Move { task, .. } => check_name(workload, i, task)?,
            ChangeKind::Cgroup { .. } => {}
        }
    }
    Ok(())
}

/// Whether a task has the name that a change names.
fn check_name(workload: &Workload, i: usize, task: &str) -> Result<(), Problem> {
    if workload.templates.iter().any(|template| template.name == task) {
        return Ok(());
    }
    let names: Vec<&str> = workload.templates.iter().map(|kind| kind.name.as_str()).collect();
    let hint = choices("tasks", task, &names);
    Err(Problem::new(Place::Change(i, "task"), quoted(task), "no task has this name", hint))
}

/// What is wrong with taking `cpu` down or up at `at_ns`, given its state and since when.
fn check_hotplug(
    i: usize,
    cpu: u32,
    online: bool,
    at_ns: u64,
    (is_online, since_ns): (bool, Option<u64>),
) -> Result<(), Problem> {
    let at = duration(at_ns);
    let state = STATES[usize::from(online)];
    let (key, value, problem, hint) = if cpu == 0 {
        // Linux may be built to let it go, but x86 has not allowed it since 6.5.
        let problem = "it has to stay up, somebody must run the tasks".to_string();
        ("cpu", cpu.to_string(), problem, "take another CPU down")
    } else if is_online == online {
        let problem = format!("CPU {cpu} is {state} already at {at}");
        ("state", quoted(state), problem, "let it change its state each time")
    } else if since_ns == Some(at_ns) {
        let problem = format!("CPU {cpu} changes twice at this time");
        ("at", quoted(&at), problem, "give it some time between the two")
    } else {
        return Ok(());
    };
    Err(Problem::new(Place::Change(i, key), value, problem, hint))
}
