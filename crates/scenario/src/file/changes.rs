//! What is done to machine and tasks from outside: CPUs that come and go, changes of affinity.
//!
//! `[[hotplug]]` and `[[affinity]]` of a workload's file, and what is done to groups of tasks,
//! become one list in the order of time.

use crate::model::check::STATES;
use crate::model::duration::duration;
use crate::model::error::{ScenarioError, choices};
use crate::model::machine::CPUS_MAX;
use crate::model::text::{ALL_CPUS, cpus_text, quoted};
use crate::model::workload::{Change, ChangeKind, CpuSet, Workload};
use crate::reading::{Node, TableNode};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

const HOTPLUG_KEYS: [&str; 3] = ["at", "cpu", "state"];
const AFFINITY_KEYS: [&str; 3] = ["at", "task", "cpus"];

// ---- reading ------------------------------------------------------------------------------------

/// The path in the file of each key of a change.
pub(crate) type ChangeKeys = BTreeMap<&'static str, String>;

/// A change, and its keys.
pub(crate) type Read = (Change, ChangeKeys);

/// The changes of a file in the order of time, those of its groups among them, and their keys.
pub(crate) fn read_changes(
    root: &TableNode,
    of_groups: Vec<Read>,
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
    found.extend(of_groups);
    // A stable sort: of one time CPUs change first, groups last, and else the file's order counts.
    found.sort_by_key(|(change, _)| change.at_ns);
    Ok(found.into_iter().unzip())
}

fn read_hotplug(node: &Node) -> Result<Read, ScenarioError> {
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

fn read_affinity(node: &Node) -> Result<Read, ScenarioError> {
    let table = node.table(&AFFINITY_KEYS)?;
    let at_ns = read_time(&table)?;
    let task = table.need("task", "name the task")?.text()?.to_string();
    let cpus = read_cpu_set(&table.need("cpus", "list CPUs, or write cpus = \"all\"")?)?;
    let change = Change { at_ns, what: ChangeKind::Affinity { task, cpus } };
    Ok((change, keys(&table, &AFFINITY_KEYS)?))
}

/// Where each of these keys is, all of which must be there.
pub(crate) fn keys(table: &TableNode, all: &[&'static str]) -> Result<ChangeKeys, ScenarioError> {
    all.iter().map(|key| Ok((*key, table.need(key, "")?.path))).collect()
}

/// When a change is made.
pub(crate) fn read_time(table: &TableNode) -> Result<u64, ScenarioError> {
    table.need("at", "say when, counted from the start, such as at = \"50ms\"")?.duration_ns()
}

/// A list of CPU numbers, or `"all"`.
pub(crate) fn read_cpu_set(node: &Node) -> Result<CpuSet, ScenarioError> {
    if node.value().as_str() == Some(ALL_CPUS) {
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

// ---- writing ------------------------------------------------------------------------------------

/// Appends the sections that [`read_changes`] reads.
pub(crate) fn write_changes(text: &mut String, workload: &Workload) {
    for Change { at_ns, what } in &workload.changes {
        let at = duration(*at_ns);
        let _ = match what {
            ChangeKind::Move { .. } | ChangeKind::Cgroup { .. } => continue,
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
