//! What every group of tasks must satisfy: what Linux takes for `cpu.weight`, `cpu.max` and names.

use crate::model::duration::duration;
use crate::model::place::{Place, Problem};
use crate::model::text::quoted;
use crate::model::workload::{Cgroup, ChangeKind, Op, Workload};
use std::collections::BTreeMap;

/// The most groups that a workload may have.
pub const CGROUPS_MAX: usize = 4096;
/// The deepest group: how many are above it, the root included.
pub const CGROUP_LEVELS_MAX: usize = 16;
/// Source: Linux, include/linux/cgroup.h, `CGROUP_WEIGHT_MIN` and `CGROUP_WEIGHT_MAX`.
pub const CGROUP_WEIGHTS: std::ops::RangeInclusive<u32> = 1..=10_000;
/// Source: Linux, include/linux/cgroup.h, `CGROUP_WEIGHT_DFL`.
pub const CGROUP_WEIGHT_DEFAULT: u32 = 100;
/// The shortest quota and period of `cpu.max`, and the longest period, in ns.
/// Source: Linux, kernel/sched/core.c, `min_bw_quota_period_us` and `max_bw_quota_period_us`.
const QUOTA_NS_MIN: u64 = 1_000_000;
const PERIOD_NS_MAX: u64 = 1_000_000_000;
/// Source: Linux, kernel/sched/sched.h, `default_bw_period_us`.
pub const PERIOD_NS_DEFAULT: u64 = 100_000_000;
/// The longest name. Source: Linux, include/uapi/linux/limits.h, `NAME_MAX`.
const NAME_BYTES_MAX: usize = 255;
/// What files of a cgroup begin with: the word for all, and the kernel's controllers.
/// Source: Linux, kernel/cgroup/cgroup.c, `cgroup_file_name`, and include/linux/cgroup_subsys.h.
const FILE_PREFIXES: [&str; 13] = [
    "cgroup",
    "cpu",
    "cpuset",
    "debug",
    "dmem",
    "hugetlb",
    "io",
    "irq",
    "memory",
    "misc",
    "perf_event",
    "pids",
    "rdma",
];
/// What `cpu.max` is written in.
const STEP_NS: u64 = 1000;

/// The first group that cannot be made, or that may have no tasks and has some.
pub(crate) fn check_cgroups(workload: &Workload) -> Result<(), Problem> {
    let groups = &workload.cgroups;
    if groups.len() > CGROUPS_MAX {
        let number = groups.len().to_string();
        let hint = format!("stay within {CGROUPS_MAX}");
        return Err(Problem::new(Place::Whole, number, "too many cgroups", hint));
    }
    let mut children = BTreeMap::new();
    for (i, group) in groups.iter().enumerate() {
        check_path(i, groups)?;
        check_values(group, |key| Place::Cgroup(i, key))?;
        children.entry(group.place().0).or_insert(&*group.path);
    }
    let check = |place, group| check_home(place, group, groups, &children);
    for (i, template) in workload.templates.iter().enumerate() {
        check(Place::Template(i, "cgroup"), template.cgroup)?;
        for (at, op) in template.program.iter().enumerate() {
            if let Op::Move { to } = *op {
                check(Place::Op(i, at), to)?;
            }
        }
    }
    let mut said: Vec<&Cgroup> = groups.iter().collect();
    for (i, change) in workload.changes.iter().enumerate() {
        match &change.what {
            ChangeKind::Move { to, .. } => check(Place::Change(i, "cgroup"), *to)?,
            ChangeKind::Cgroup { number, now } => {
                check_number(Place::Change(i, "at"), *number, groups)?;
                check_values(now, |key| Place::Change(i, key))?;
                let before = std::mem::replace(&mut said[*number as usize], now);
                if before.idle && now.idle && before.weight != now.weight {
                    let (problem, hint) =
                        ("Linux takes none while it is idle", "write idle = false");
                    let (at, weight) = (Place::Change(i, "weight"), now.weight.to_string());
                    return Err(Problem::new(at, weight, problem, hint));
                }
            }
            ChangeKind::Hotplug { .. } | ChangeKind::Affinity { .. } => {}
        }
    }
    Ok(())
}

/// Whether there is a group of this number.
fn check_number(place: Place, number: u32, groups: &[Cgroup]) -> Result<(), Problem> {
    if (number as usize) < groups.len() {
        return Ok(());
    }
    let hint = "use the index of one of the cgroups";
    Err(Problem::new(place, number.to_string(), "there is no such cgroup", hint))
}

/// Whether tasks may be in a group; `children` has one below each that has some.
fn check_home(
    place: Place,
    group: Option<u32>,
    groups: &[Cgroup],
    children: &BTreeMap<&str, &str>,
) -> Result<(), Problem> {
    let Some(number) = group else { return Ok(()) };
    check_number(place, number, groups)?;
    let path = &groups[number as usize].path;
    let Some(below) = children.get(&**path) else { return Ok(()) };
    let problem = "as in Linux, a cgroup with others below it has no tasks of its own";
    let hint = format!("give the task to one below, such as {}", quoted(below));
    Err(Problem::new(place, quoted(path), problem, hint))
}

fn check_path(i: usize, groups: &[Cgroup]) -> Result<(), Problem> {
    let path = &groups[i].path;
    let wrong = |problem: &str, hint: String| {
        Err(Problem::new(Place::Cgroup(i, "path"), quoted(path), problem, hint))
    };
    let (above, name) = groups[i].place();
    let is_named = path.starts_with('/')
        && name.len() <= NAME_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
        && name.chars().all(|one| one.is_ascii_alphanumeric() || "_-.".contains(one));
    if !is_named {
        let hint = "write it as \"/name\" or \"/parent/name\", of letters, digits, _, - and .";
        return wrong("not a path of a cgroup", hint.to_string());
    }
    if let Some((prefix, _)) = name.split_once('.')
        && FILE_PREFIXES.contains(&prefix)
    {
        let problem = "a kernel's cgroups have files of such names, and take no folder beside them";
        let hint = format!("begin the name with another word than {}", quoted(prefix));
        return wrong(problem, hint);
    }
    let before = &groups[..i];
    if before.iter().any(|other| other.path == *path) {
        return wrong("there is one of this path", "name each once".to_string());
    }
    if !above.is_empty() && before.iter().all(|other| other.path != above) {
        let hint = format!("put [[cgroups]] with path = {} above it", quoted(above));
        return wrong("its parent is not there", hint);
    }
    if path.split('/').count() > CGROUP_LEVELS_MAX {
        let hint = format!("put at most {CGROUP_LEVELS_MAX} above each other, with the root");
        return wrong("too deep", hint);
    }
    Ok(())
}

fn check_values(group: &Cgroup, place: impl Fn(&'static str) -> Place) -> Result<(), Problem> {
    let wrong = |key, value: String, problem: &str, hint: &str| {
        Err(Problem::new(place(key), value, problem, hint))
    };
    if !CGROUP_WEIGHTS.contains(&group.weight) {
        let problem = "no weight of a cgroup";
        return wrong("weight", group.weight.to_string(), problem, "use one from 1 to 10000");
    }
    let (period_ns, burst_ns) = (group.period_ns, group.burst_ns);
    let quota_ns = group.quota_ns.unwrap_or(QUOTA_NS_MIN);
    for (key, ns) in [("quota", quota_ns), ("period", period_ns), ("burst", burst_ns)] {
        if !ns.is_multiple_of(STEP_NS) {
            let hint = "use whole microseconds";
            return wrong(key, quoted(&duration(ns)), "finer than Linux keeps it", hint);
        }
    }
    if quota_ns < QUOTA_NS_MIN {
        let value = quoted(&duration(quota_ns));
        return wrong("quota", value, "shorter than Linux takes", "make it 1ms or more");
    }
    if !(QUOTA_NS_MIN..=PERIOD_NS_MAX).contains(&period_ns) {
        let value = quoted(&duration(period_ns));
        return wrong("period", value, "not a period that Linux takes", "use one from 1ms to 1s");
    }
    if burst_ns > group.quota_ns.unwrap_or(0) {
        let value = quoted(&duration(burst_ns));
        return wrong("burst", value, "more than the quota", "make it the quota or less");
    }
    Ok(())
}
