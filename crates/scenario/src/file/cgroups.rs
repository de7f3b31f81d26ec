//! Groups of tasks in a workload's file, `[[cgroups]]`.

use crate::model::check::{CGROUP_WEIGHT_DEFAULT, PERIOD_NS_DEFAULT};
use crate::model::duration::duration;
use crate::model::error::{ScenarioError, choices};
use crate::model::text::quoted;
use crate::model::workload::{Cgroup, Workload};
use crate::reading::{Node, TableNode};
use std::fmt::Write;

const CGROUP_KEYS: [&str; 6] = ["path", "weight", "idle", "quota", "period", "burst"];

/// The groups of a file, in its order, and where each stands.
pub(crate) fn read_cgroups(root: &TableNode) -> Result<(Vec<Cgroup>, Vec<String>), ScenarioError> {
    let elements = root.get("cgroups")?.map_or(Ok(Vec::new()), |node| node.elements())?;
    let read = |node: Node| Ok((read_cgroup(&node)?, node.path));
    let found: Result<Vec<_>, ScenarioError> = elements.into_iter().map(read).collect();
    Ok(found?.into_iter().unzip())
}

fn read_cgroup(node: &Node) -> Result<Cgroup, ScenarioError> {
    let table = node.table(&CGROUP_KEYS)?;
    let time = |key: &str| table.get(key)?.map(|node| node.duration_ns()).transpose();
    let hint = "say where it is, such as path = \"/batch\"";
    Ok(Cgroup {
        path: table.need("path", hint)?.text()?.to_string(),
        weight: table
            .get("weight")?
            .map_or(Ok(CGROUP_WEIGHT_DEFAULT), |weight| weight.unsigned_32(0, u32::MAX))?,
        idle: table.get("idle")?.map_or(Ok(false), |idle| idle.boolean())?,
        quota_ns: time("quota")?,
        period_ns: time("period")?.unwrap_or(PERIOD_NS_DEFAULT),
        burst_ns: time("burst")?.unwrap_or(0),
    })
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
    for group in &workload.cgroups {
        let path = quoted(&group.path);
        let _ = writeln!(text, "\n[[cgroups]]\npath = {path}\nweight = {}", group.weight);
        if group.idle {
            text.push_str("idle = true\n");
        }
        let period_ns = (group.period_ns != PERIOD_NS_DEFAULT).then_some(group.period_ns);
        let burst_ns = (group.burst_ns != 0).then_some(group.burst_ns);
        for (key, ns) in [("quota", group.quota_ns), ("period", period_ns), ("burst", burst_ns)] {
            let _ = ns.map(|ns| writeln!(text, "{key} = \"{}\"", duration(ns)));
        }
    }
}
