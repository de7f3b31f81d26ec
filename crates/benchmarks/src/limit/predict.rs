//! What the system allows: how many groups each of its limits leaves room for.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::measure::crew::Tasks;
use crate::measure::hackbench::{Channel, Hackbench};

/// Tasks that are left for everybody else.
const RESERVED_TASKS: u64 = 500;
/// Memory that is left for everybody else.
const RESERVED_BYTES: u64 = 1 << 30;
/// Memory of a task with its stacks and page tables, and of a full pair of sockets
/// (net.core.wmem_default). For groups of 40 tasks 10 MB were seen where these give 6.9.
const TASK_BYTES: u64 = 64 << 10;
const CHANNEL_BYTES: u64 = 212_992;
/// Part of the memory that the rest leaves that may be used.
const MEMORY_PERCENT: u64 = 60;

/// A limit of the system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// Its name, with its place: `kernel.pid_max`.
    pub limit: String,
    /// Its value, in its own unit.
    pub value: u64,
    /// Groups that it leaves room for beside what there is and a reserve.
    pub groups: u64,
}

/// All limits that are known to bind, the one that binds first in front.
///
/// Limits that cannot be read are left out: a search that runs into one finds it.
pub fn bounds(hackbench: &Hackbench) -> Vec<Bound> {
    let group = u64::from(hackbench.fds) * 2;
    let tasks = tasks_now();
    let room = |limit: &str, value: u64, used: u64, reserve: u64, each: u64| Bound {
        limit: limit.to_owned(),
        value,
        groups: value.saturating_sub(used).saturating_sub(reserve) / each.max(1),
    };
    let mut bounds = vec![];
    for name in ["pid_max", "threads-max"] {
        if let Some(value) = number(format!("/proc/sys/kernel/{name}")) {
            let limit = format!("kernel.{name}");
            bounds.push(room(&limit, value, tasks, RESERVED_TASKS, group));
        }
    }
    for (path, value, used) in pids_cgroups() {
        let limit = format!("pids.max of {}", path.display());
        bounds.push(room(&limit, value, used + 2, reserve_of(value), group));
    }
    if !nix::unistd::geteuid().is_root()
        && let Some(value) = process_limit("Max processes")
    {
        bounds.push(room("RLIMIT_NPROC", value, tasks, reserve_of(value), group));
    }
    if let Some(value) = process_limit("Max open files") {
        // Threads share all descriptors; of processes only those of one group are open here.
        let each = match (hackbench.tasks, hackbench.channel) {
            (Tasks::Threads, _) => group,
            (Tasks::Processes, _) => 0,
        };
        let enough = value.saturating_sub(DESCRIPTORS) > u64::from(hackbench.fds);
        match each {
            0 if enough => {}
            0 => bounds.push(room("RLIMIT_NOFILE", value, value, 0, 1)),
            each => bounds.push(room("RLIMIT_NOFILE", value, DESCRIPTORS, 0, each)),
        }
    }
    if hackbench.tasks == Tasks::Threads
        && let Some(value) = number("/proc/sys/vm/max_map_count")
    {
        bounds.push(room("vm.max_map_count", value, 200, 0, 2 * group));
    }
    if let Some(value) = available_bytes() {
        let usable = value.saturating_sub(RESERVED_BYTES) / 100 * MEMORY_PERCENT;
        let bytes = group * TASK_BYTES + u64::from(hackbench.fds) * CHANNEL_BYTES;
        bounds.push(Bound { limit: "memory".into(), value, groups: usable / (bytes * 3 / 2) });
    }
    if hackbench.channel == Channel::Pipes && !nix::unistd::geteuid().is_root() {
        // Beyond it pipes shrink: no error, another benchmark.
        const PAGES_OF_A_PIPE: u64 = 16;
        if let Some(value) = number("/proc/sys/fs/pipe-user-pages-soft").filter(|&pages| pages > 0)
        {
            let each = u64::from(hackbench.fds) * PAGES_OF_A_PIPE;
            bounds.push(room("fs.pipe-user-pages-soft", value, 0, 0, each));
        }
    }
    bounds.sort_by_key(|bound| bound.groups);
    bounds
}

/// What is left of a limit on tasks that may be a small one.
fn reserve_of(value: u64) -> u64 {
    RESERVED_TASKS.min(value / 10)
}

/// Descriptors that the benchmark has beside its channels.
const DESCRIPTORS: u64 = 16;

/// Memory that can be had without swapping.
pub fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

fn number(path: impl AsRef<Path>) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Tasks that there are on the machine.
fn tasks_now() -> u64 {
    // `0.52 0.41 0.33 2/345 6789`
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace()
        .nth(3)
        .and_then(|field| field.split('/').nth(1)?.parse().ok())
        .unwrap_or(0)
}

fn process_limit(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/limits").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The limits on tasks of this process's cgroup and of all above it: path, limit, tasks now.
fn pids_cgroups() -> Vec<(PathBuf, u64, u64)> {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut found = vec![];
    for (root, inside) in text.lines().filter_map(pids_hierarchy) {
        let mut at = root.join(inside.trim_start_matches('/'));
        while at.starts_with(&root) {
            if let Some(value) = number(at.join("pids.max")) {
                let used = number(at.join("pids.current")).unwrap_or(0);
                found.push((at.clone(), value, used));
            }
            if !at.pop() {
                break;
            }
        }
    }
    found
}

/// Where the pids controller of a line of `/proc/self/cgroup` is mounted, and the place in it.
pub(super) fn pids_hierarchy(line: &str) -> Option<(PathBuf, String)> {
    let mut fields = line.splitn(3, ':');
    let (number, controllers, place) = (fields.next()?, fields.next()?, fields.next()?);
    let root = match (number, controllers) {
        ("0", "") => "/sys/fs/cgroup",
        (_, names) if names.split(',').any(|name| name == "pids") => "/sys/fs/cgroup/pids",
        _ => return None,
    };
    Some((PathBuf::from(root), place.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_cgroups_are_known() {
        let found = |line| pids_hierarchy(line).map(|(root, at)| (root.display().to_string(), at));
        let root = |path: &str, at: &str| Some((path.to_owned(), at.to_owned()));
        assert_eq!(found("0::/user.slice"), root("/sys/fs/cgroup", "/user.slice"));
        assert_eq!(found("8:pids:/a:b"), root("/sys/fs/cgroup/pids", "/a:b"));
        assert_eq!(found("4:memory:/x"), None);
    }

    #[test]
    fn the_tightest_limit_comes_first_and_threads_need_descriptors() {
        let processes = bounds(&Hackbench::default());
        assert!(processes.is_sorted_by_key(|bound| bound.groups), "{processes:?}");
        assert!(processes.iter().any(|bound| bound.limit == "kernel.pid_max"));
        assert!(processes.iter().any(|bound| bound.limit == "memory"));
        let threads = bounds(&Hackbench { tasks: Tasks::Threads, ..Hackbench::default() });
        assert!(threads.iter().any(|bound| bound.limit == "RLIMIT_NOFILE"), "{threads:?}");
        let larger = bounds(&Hackbench { fds: 40, ..Hackbench::default() });
        let of = |bounds: &[Bound]| {
            bounds.iter().find(|b| b.limit == "kernel.pid_max").map(|bound| bound.groups)
        };
        assert!(of(&larger) < of(&processes));
    }
}
