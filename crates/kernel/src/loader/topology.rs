//! Which CPUs of this machine share what, for policies that include `scx/topology.bpf.h`.

use std::fs;
use std::path::Path;

use libbpf_rs::OpenObject;

use super::settings;
use super::variables::{Shape, Variable};

const CPUS: &str = "/sys/devices/system/cpu";
/// What a CPU can do that is as fast as any. Source: Linux, `SCHED_CAPACITY_SCALE`.
const CAPACITY_MAX: u32 = 1024;
const NODES: &str = "/sys/devices/system/node";

/// Fills the topology's arrays of the object, as far as it has them. CPUs that share a core, a
/// last-level cache or a node get the lowest of their numbers. What the machine does not tell is
/// taken as shared by none for cores, and by all for caches and nodes.
pub(super) fn fill(object: &mut OpenObject, variables: &[Variable]) {
    type Group = fn(usize) -> Option<usize>;
    let arrays: [(&str, Group); 3] =
        [("topology_core", core), ("topology_cache", last_cache), ("topology_node", node)];
    for (name, group) in arrays {
        let Some(variable) = variables.iter().find(|v| v.name == name && v.is_constant()) else {
            continue;
        };
        let Shape::Array { element_size: 2 } = variable.shape else { continue };
        let absent = |cpu: usize| if name == "topology_core" { cpu } else { 0 };
        let number = |cpu| u16::try_from(group(cpu).unwrap_or(absent(cpu))).unwrap_or(u16::MAX);
        let bytes: Vec<u8> = (0..variable.size / 2).flat_map(|c| number(c).to_le_bytes()).collect();
        settings::write(object, variable, &bytes);
    }
}

/// The same for what a loader's file asks. CPUs are all that there can be, as for schedulers'
/// own front ends.
pub(super) fn of_this_machine() -> policy::Topology {
    let read = |path: String| fs::read_to_string(path).ok();
    let list = read(format!("{CPUS}/possible")).unwrap_or_default();
    let last = list.trim().rsplit(['-', ',']).next().and_then(|last| last.parse().ok());
    let number = |number: Option<usize>, absent| number.unwrap_or(absent) as u32;
    let processor = |cpu: usize| policy::Processor {
        core: number(core(cpu), cpu),
        llc: number(last_cache(cpu), 0),
        node: number(node(cpu), 0),
        speed: read(format!("{CPUS}/cpu{cpu}/cpu_capacity"))
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(CAPACITY_MAX),
    };
    policy::Topology::new((0..=last.unwrap_or(0)).map(processor).collect())
}

fn core(cpu: usize) -> Option<usize> {
    first_cpu(&Path::new(CPUS).join(format!("cpu{cpu}/topology/core_cpus_list")))
}

fn last_cache(cpu: usize) -> Option<usize> {
    let caches = fs::read_dir(format!("{CPUS}/cpu{cpu}/cache")).ok()?;
    let level_and_first = |entry: fs::DirEntry| {
        let level: u32 =
            fs::read_to_string(entry.path().join("level")).ok()?.trim().parse().ok()?;
        Some((level, first_cpu(&entry.path().join("shared_cpu_list"))?))
    };
    let caches = caches.filter_map(Result::ok).filter_map(level_and_first);
    caches.max().map(|(_, first)| first)
}

fn node(cpu: usize) -> Option<usize> {
    let nodes = fs::read_dir(NODES).ok()?.filter_map(Result::ok);
    let lists = nodes.filter_map(|n| fs::read_to_string(n.path().join("cpulist")).ok());
    lists.filter(|list| contains(list, cpu)).find_map(|list| first_of(&list))
}

fn first_cpu(list: &Path) -> Option<usize> {
    first_of(&fs::read_to_string(list).ok()?)
}

/// The first number of a list such as `0-3,8`.
fn first_of(list: &str) -> Option<usize> {
    list.trim().split(['-', ',']).next()?.parse().ok()
}

fn contains(list: &str, cpu: usize) -> bool {
    list.trim().split(',').any(|range| {
        let mut ends = range.split('-').map(|end| end.parse::<usize>());
        match (ends.next(), ends.next()) {
            (Some(Ok(first)), Some(Ok(last))) => (first..=last).contains(&cpu),
            (Some(Ok(only)), None) => only == cpu,
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_is_read() {
        assert_eq!(first_of("2-3,8\n"), Some(2));
        assert_eq!(first_of("\n"), None);
        let within: Vec<usize> = (0..10).filter(|&cpu| contains("2-3,8\n", cpu)).collect();
        assert_eq!(within, [2, 3, 8]);
    }
}
