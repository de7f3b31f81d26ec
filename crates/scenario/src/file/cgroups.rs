//! Groups of tasks in a workload's file, `[[cgroups]]`, how they change, and `[[moves]]` of tasks.

use crate::file::changes::{ChangeKeys, Read, keys, read_time};
use crate::model::check::{CGROUP_WEIGHT_DEFAULT, PERIOD_NS_DEFAULT};
use crate::model::duration::duration;
use crate::model::error::{ScenarioError, choices};
use crate::model::text::quoted;
use crate::model::workload::{Cgroup, Change, ChangeKind, Workload};
use crate::reading::{Node, TableNode};
use std::fmt::Write;

const CGROUP_KEYS: [&str; 7] = ["path", "weight", "idle", "quota", "period", "burst", "changes"];
const CHANGE_KEYS: [&str; 6] = ["at", "weight", "idle", "quota", "period", "burst"];
const MOVE_KEYS: [&str; 3] = ["at", "task", "cgroup"];
/// A quota that limits nothing, as `cpu.max` has it.
const NO_QUOTA: &str = "max";
/// Where no group is.
const ROOT: &str = "/";

/// The groups of a file, in its order, where each stands, and what is done to them and to tasks.
pub(crate) type Cgroups = (Vec<Cgroup>, Vec<String>, Vec<Read>);

/// Reads `[[cgroups]]` and `[[moves]]`.
pub(crate) fn read_cgroups(root: &TableNode) -> Result<Cgroups, ScenarioError> {
    let (mut groups, mut places, mut of_groups) = (Vec::new(), Vec::new(), Vec::new());
    for node in root.get("cgroups")?.map_or(Ok(Vec::new()), |node| node.elements())? {
        let table = node.table(&CGROUP_KEYS)?;
        let hint = "say where it is, such as path = \"/batch\"";
        let group = Cgroup {
            path: table.need("path", hint)?.text()?.to_string(),
            weight: CGROUP_WEIGHT_DEFAULT,
            idle: false,
            quota_ns: None,
            period_ns: PERIOD_NS_DEFAULT,
            burst_ns: 0,
        };
        let group = read_values(&table, group)?;
        of_groups.extend(read_group_changes(&table, groups.len() as u32, &group)?);
        groups.push(group);
        places.push(node.path);
    }
    let moves = root.get("moves")?.map_or(Ok(Vec::new()), |node| node.elements())?;
    let moves = moves.iter().map(|node| read_move(node, &groups));
    let mut changes = moves.collect::<Result<Vec<Read>, _>>()?;
    changes.extend(of_groups);
    Ok((groups, places, changes))
}

fn read_move(node: &Node, groups: &[Cgroup]) -> Result<Read, ScenarioError> {
    let table = node.table(&MOVE_KEYS)?;
    let at_ns = read_time(&table)?;
    let task = table.need("task", "name the task")?.text()?.to_string();
    let to = table.need("cgroup", "say where to, such as cgroup = \"/batch\"")?;
    let what = ChangeKind::Move { task, to: find_place(&to, groups)? };
    Ok((Change { at_ns, what }, keys(&table, &MOVE_KEYS)?))
}

/// What a group says; it keeps what is not written.
fn read_values(table: &TableNode, before: Cgroup) -> Result<Cgroup, ScenarioError> {
    let time = |key: &str, before_ns: u64| {
        table.get(key)?.map_or(Ok(before_ns), |node| node.duration_ns())
    };
    let weight = table.get("weight")?;
    let idle = table.get("idle")?;
    let quota_ns = match table.get("quota")? {
        None => before.quota_ns,
        Some(node) if node.value().as_str() == Some(NO_QUOTA) => None,
        Some(node) => Some(node.duration_ns()?),
    };
    Ok(Cgroup {
        weight: weight.map_or(Ok(before.weight), |weight| weight.unsigned_32(0, u32::MAX))?,
        idle: idle.map_or(Ok(before.idle), |idle| idle.boolean())?,
        quota_ns,
        period_ns: time("period", before.period_ns)?,
        burst_ns: time("burst", before.burst_ns)?,
        path: before.path,
    })
}

/// `[[cgroups.changes]]` of a group: each begins with what the one before it, in time, left.
fn read_group_changes(
    table: &TableNode,
    number: u32,
    group: &Cgroup,
) -> Result<Vec<Read>, ScenarioError> {
    let mut found = Vec::new();
    for node in table.get("changes")?.map_or(Ok(Vec::new()), |node| node.elements())? {
        let table = node.table(&CHANGE_KEYS)?;
        if CHANGE_KEYS[1..].iter().all(|key| !table.has(key)) {
            let hint = format!("write one of {}", CHANGE_KEYS[1..].join(", "));
            return Err(node.bad("it changes nothing", hint));
        }
        let key = |key: &'static str| {
            let written = table.get(key)?.map(|node| node.path);
            Ok((key, written.unwrap_or_else(|| format!("{}.{key}", node.path))))
        };
        let keys: Result<ChangeKeys, ScenarioError> = CHANGE_KEYS.into_iter().map(key).collect();
        found.push((read_time(&table)?, keys?, table));
    }
    found.sort_by_key(|(at_ns, ..)| *at_ns);
    let mut now = group.clone();
    let changed = found.into_iter().map(|(at_ns, keys, table)| {
        now = read_values(&table, now.clone())?;
        Ok((Change { at_ns, what: ChangeKind::Cgroup { number, now: now.clone() } }, keys))
    });
    changed.collect()
}

/// The number of the group that tasks are moved to; none is the root.
pub(crate) fn find_place(node: &Node, groups: &[Cgroup]) -> Result<Option<u32>, ScenarioError> {
    match node.text()? {
        ROOT => Ok(None),
        _ => find_cgroup(node, groups).map(Some),
    }
}

/// A place as [`find_place`] reads it.
pub(crate) fn place_text(place: Option<u32>, workload: &Workload) -> String {
    quoted(place.map_or(ROOT, |number| &workload.cgroups[number as usize].path))
}

/// The number of the group that a task names.
pub(crate) fn find_cgroup(node: &Node, groups: &[Cgroup]) -> Result<u32, ScenarioError> {
    let path = node.text()?;
    let found = groups.iter().position(|group| group.path == path);
    found.map(|number| number as u32).ok_or_else(|| {
        let paths: Vec<&str> = groups.iter().map(|group| &*group.path).collect();
        node.bad("no such cgroup", choices("cgroups", path, &paths))
    })
}

/// Appends the sections that [`read_cgroups`] reads.
pub(crate) fn write_cgroups(text: &mut String, workload: &Workload) {
    for (number, group) in workload.cgroups.iter().enumerate() {
        let _ = writeln!(text, "\n[[cgroups]]\npath = {}", quoted(&group.path));
        write_values(text, group);
        for Change { at_ns, what } in &workload.changes {
            if let ChangeKind::Cgroup { number: changed, now } = what
                && *changed as usize == number
            {
                let _ = writeln!(text, "\n[[cgroups.changes]]\nat = \"{}\"", duration(*at_ns));
                write_values(text, now);
            }
        }
    }
    for Change { at_ns, what } in &workload.changes {
        if let ChangeKind::Move { task, to } = what {
            let (at, to) = (duration(*at_ns), place_text(*to, workload));
            let task = quoted(task);
            let _ = writeln!(text, "\n[[moves]]\nat = \"{at}\"\ntask = {task}\ncgroup = {to}");
        }
    }
}

fn write_values(text: &mut String, group: &Cgroup) {
    let Cgroup { path: _, weight, idle, quota_ns, period_ns, burst_ns } = group;
    let quota = quota_ns.map_or(NO_QUOTA.to_string(), duration);
    let _ = writeln!(text, "weight = {weight}\nidle = {idle}\nquota = {}", quoted(&quota));
    for (key, ns) in [("period", period_ns), ("burst", burst_ns)] {
        let _ = writeln!(text, "{key} = \"{}\"", duration(*ns));
    }
}
