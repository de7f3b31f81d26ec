//! What is done to machine and tasks from outside: CPUs that come and go, changes of affinity.
//!
//! `[[hotplug]]` and `[[affinity]]` of a workload's file become one list in the order of time.

use crate::check::{Place, Problem, missing};
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

// ---- reading ------------------------------------------------------------------------------------

/// The changes of a file in the order of time, and the key of each.
pub(crate) fn read_changes(root: &TableNode) -> Result<(Vec<Change>, Vec<String>), ScenarioError> {
    let mut found = Vec::new();
    if let Some(node) = root.get("hotplug")? {
        for element in node.elements()? {
            found.push((read_hotplug(&element)?, element.path.clone()));
        }
    }
    if let Some(node) = root.get("affinity")? {
        for element in node.elements()? {
            found.push((read_affinity(&element)?, element.path.clone()));
        }
    }
    // A stable sort: of one time CPUs change first, and else the file's order counts.
    found.sort_by_key(|(change, _)| change.at_ns);
    Ok(found.into_iter().unzip())
}

fn read_hotplug(node: &Node) -> Result<Change, ScenarioError> {
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
    Ok(Change { at_ns, what: ChangeKind::Hotplug { cpu, online } })
}

fn read_affinity(node: &Node) -> Result<Change, ScenarioError> {
    let table = node.table(&AFFINITY_KEYS)?;
    let at_ns = read_time(&table)?;
    let task = table.need("task", "name the task")?.text()?.to_string();
    let cpus = read_cpu_set(&table.need("cpus", "list CPUs, or write cpus = \"all\"")?)?;
    Ok(Change { at_ns, what: ChangeKind::Affinity { task, cpus } })
}

fn read_time(table: &TableNode) -> Result<u64, ScenarioError> {
    table.need("at", "say when, counted from the start, such as at = \"50ms\"")?.duration_ns()
}

/// A list of CPU numbers, or `"all"`.
pub(crate) fn read_cpu_set(node: &Node) -> Result<CpuSet, ScenarioError> {
    match node.value().as_str() {
        Some(ALL) => Ok(None),
        Some(word) => Err(node.bad("no such set of CPUs", choices("lists, or", word, &[ALL]))),
        None => Ok(Some(read_cpus(node)?)),
    }
}

/// CPU numbers in increasing order, each once.
pub(crate) fn read_cpus(node: &Node) -> Result<Arc<[u32]>, ScenarioError> {
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
    let wrong = |i: usize, value: String, problem: String, hint: &str| {
        Err(Problem::new(Place::Change(i), value, problem, hint))
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
        let when = format!("at {}", duration(*at_ns));
        if *at_ns < before_ns {
            return wrong(i, when, "earlier than the one before".into(), "sort changes by time");
        }
        before_ns = *at_ns;
        if workload.stop_at_ns.is_some_and(|stop_ns| *at_ns >= stop_ns) {
            let problem = "the run has ended by then".to_string();
            return wrong(i, when, problem, "make it earlier, or `stop` later");
        }
        match what {
            ChangeKind::Hotplug { cpu, online } => {
                let state = states.entry(*cpu).or_insert((true, None));
                if let Some((problem, hint)) = hotplug_problem(*cpu, *online, *at_ns, *state) {
                    return wrong(i, format!("CPU {cpu} {when}"), problem, hint);
                }
                *state = (*online, Some(*at_ns));
            }
            ChangeKind::Affinity { task, cpus } => {
                if workload.templates.iter().all(|template| template.name != *task) {
                    let names: Vec<&str> =
                        workload.templates.iter().map(|kind| kind.name.as_str()).collect();
                    let hint = choices("tasks", task, &names);
                    return wrong(i, quoted(task), "no task has this name".into(), &hint);
                }
                if cpus.as_ref().is_some_and(|cpus| cpus.is_empty()) {
                    let problem = "the tasks may run nowhere".to_string();
                    return wrong(i, "[]".into(), problem, "list at least one CPU, or \"all\"");
                }
            }
        }
    }
    Ok(())
}

/// What is wrong with taking `cpu` down or up at `at_ns`, given its state and since when.
fn hotplug_problem(
    cpu: u32,
    online: bool,
    at_ns: u64,
    (is_online, since_ns): (bool, Option<u64>),
) -> Option<(String, &'static str)> {
    if cpu == 0 {
        // Linux may be built to let it go, but x86 has not allowed it since 6.5.
        return Some((
            "CPU 0 has to stay up: somebody must run the tasks".to_string(),
            "take another CPU down",
        ));
    }
    if is_online == online {
        let state = STATES[usize::from(online)];
        return Some((format!("it is {state} already"), "let it change its state each time"));
    }
    if since_ns == Some(at_ns) {
        let problem = "it changes twice at one time".to_string();
        return Some((problem, "give it some time between the two"));
    }
    None
}

/// The change that names a CPU which a machine of `nr_cpus` CPUs lacks, in words.
pub(crate) fn change_beyond(workload: &Workload, nr_cpus: usize) -> Option<String> {
    workload.changes.iter().find_map(|change| match &change.what {
        ChangeKind::Hotplug { cpu, online } => (*cpu as usize >= nr_cpus).then(|| {
            let at = duration(change.at_ns);
            format!("CPU {cpu} goes {} at {at}", STATES[usize::from(*online)])
        }),
        ChangeKind::Affinity { task, cpus } => {
            let cpus = missing(cpus, nr_cpus)?;
            Some(format!("task `{task}` is bound to CPUs {cpus:?}"))
        }
    })
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
