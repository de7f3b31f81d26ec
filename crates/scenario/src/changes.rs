//! What is done to machine and tasks from outside: CPUs that come and go, changes of affinity.
//!
//! `[[hotplug]]` and `[[affinity]]` of a workload's file become one list in the order of time.

use crate::check::{Place, Problem};
use crate::error::{ScenarioError, choices};
use crate::machine::CPUS_MAX;
use crate::reading::{Node, TableNode};
use crate::workload::{Change, ChangeKind, CpuSet, Workload};
use crate::writing::{duration, quoted};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// The most changes from outside that a workload may have.
pub const CHANGES_MAX: usize = 10_000;

const HOTPLUG_KEYS: [&str; 3] = ["at", "cpu", "state"];
const AFFINITY_KEYS: [&str; 3] = ["at", "task", "cpus"];
const STATES: [&str; 2] = ["offline", "online"];
/// What stands for every CPU that there is.
const ALL: &str = "all";
/// The way out for a task that may run nowhere.
pub(crate) const NO_CPUS_HINT: &str = "list at least one CPU, or write \"all\"";

// ---- reading ------------------------------------------------------------------------------------

/// The path in the file of each key of a change.
pub(crate) type ChangeKeys = BTreeMap<&'static str, String>;

/// The changes of a file in the order of time, and their keys.
pub(crate) fn read_changes(
    root: &TableNode,
) -> Result<(Vec<Change>, Vec<ChangeKeys>), ScenarioError> {
    let mut found = Vec::new();
    if let Some(node) = root.get("hotplug")? {
        for element in node.elements()? {
            found.push(read_hotplug(&element)?);
        }
    }
    if let Some(node) = root.get("affinity")? {
        for element in node.elements()? {
            found.push(read_affinity(&element)?);
        }
    }
    // A stable sort: of one time CPUs change first, and else the file's order counts.
    found.sort_by_key(|(change, _)| change.at_ns);
    Ok(found.into_iter().unzip())
}

fn read_hotplug(node: &Node) -> Result<(Change, ChangeKeys), ScenarioError> {
    let table = node.table(&HOTPLUG_KEYS)?;
    let at_ns = read_time(&table)?;
    let hint = "say which CPU, such as cpu = 1";
    let cpu = table.need("cpu", hint)?.unsigned_32(0, CPUS_MAX as u32 - 1)?;
    let state = table.need("state", "write state = \"offline\" or \"online\"")?;
    let online = match state.text()? {
        "online" => true,
        "offline" => false,
        word => return Err(state.bad("no such state", choices("states", word, &STATES))),
    };
    let change = Change { at_ns, what: ChangeKind::Hotplug { cpu, online } };
    Ok((change, keys(&table, &HOTPLUG_KEYS)?))
}

fn read_affinity(node: &Node) -> Result<(Change, ChangeKeys), ScenarioError> {
    let table = node.table(&AFFINITY_KEYS)?;
    let at_ns = read_time(&table)?;
    let task = table.need("task", "name the task")?.text()?.to_string();
    let cpus = read_cpu_set(&table.need("cpus", "list CPUs, or write cpus = \"all\"")?)?;
    let change = Change { at_ns, what: ChangeKind::Affinity { task, cpus } };
    Ok((change, keys(&table, &AFFINITY_KEYS)?))
}

fn keys(table: &TableNode, all: &[&'static str]) -> Result<ChangeKeys, ScenarioError> {
    all.iter().map(|key| Ok((*key, table.need(key, "")?.path))).collect()
}

fn read_time(table: &TableNode) -> Result<u64, ScenarioError> {
    table.need("at", "say when, counted from the start, such as at = \"50ms\"")?.duration_ns()
}

/// A list of CPU numbers, or `"all"`.
pub(crate) fn read_cpu_set(node: &Node) -> Result<CpuSet, ScenarioError> {
    if node.value().as_str() == Some(ALL) {
        return Ok(None);
    }
    if !node.value().is_array() {
        return Err(node.bad("not a set of CPUs", "list them, as in [0, 2], or write \"all\""));
    }
    Ok(Some(read_cpus(node)?))
}

/// CPU numbers in increasing order, each once.
fn read_cpus(node: &Node) -> Result<Arc<[u32]>, ScenarioError> {
    let last = CPUS_MAX as u32 - 1;
    let mut cpus = node
        .elements()?
        .iter()
        .map(|cpu| cpu.unsigned_32(0, last))
        .collect::<Result<Vec<u32>, _>>()?;
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus.into())
}

// ---- checking -----------------------------------------------------------------------------------

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
                if workload.templates.iter().all(|template| template.name != *task) {
                    let names: Vec<&str> =
                        workload.templates.iter().map(|kind| kind.name.as_str()).collect();
                    let hint = choices("tasks", task, &names);
                    return wrong(i, "task", quoted(task), "no task has this name".into(), &hint);
                }
                if cpus.as_ref().is_some_and(|cpus| cpus.is_empty()) {
                    let problem = format!("task `{task}` may run nowhere");
                    return wrong(i, "cpus", "[]".into(), problem, NO_CPUS_HINT);
                }
            }
        }
    }
    Ok(())
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

// ---- writing ------------------------------------------------------------------------------------

/// Appends the sections that [`read_changes`] reads.
pub(crate) fn write_changes(text: &mut String, workload: &Workload) {
    for Change { at_ns, what } in &workload.changes {
        let at = duration(*at_ns);
        let _ = match what {
            ChangeKind::Hotplug { cpu, online } => writeln!(
                text,
                "\n[[hotplug]]\nat = \"{at}\"\ncpu = {cpu}\nstate = \"{}\"",
                STATES[usize::from(*online)]
            ),
            ChangeKind::Affinity { task, cpus } => writeln!(
                text,
                "\n[[affinity]]\nat = \"{at}\"\ntask = {}\ncpus = {}",
                quoted(task),
                cpus_text(cpus)
            ),
        };
    }
}

/// A set of CPUs as [`read_cpu_set`] reads it.
pub(crate) fn cpus_text(cpus: &CpuSet) -> String {
    cpus.as_ref().map_or_else(|| quoted(ALL), |cpus| format!("{cpus:?}"))
}
