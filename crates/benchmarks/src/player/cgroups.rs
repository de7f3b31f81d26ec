//! Groups of tasks as cgroups of this machine (version 2, controller `cpu`).
//!
//! They are made below the root before any task, and removed when all tasks are gone. A task
//! goes into its own by itself, before it begins: until then it is in that of its parent.

use super::error::PlayError;
use crate::system;
use scenario::workload::{Cgroup, Workload};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the hierarchy is mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// How often, and how long apart, a group is tried to be removed: whoever was in it may not be
/// gone in the eyes of the kernel.
const REMOVALS_MAX: u32 = 500;
const REMOVE_AGAIN: Duration = Duration::from_millis(10);

/// The cgroups of a play, which end with this.
#[derive(Debug, Default)]
pub struct Cgroups {
    /// The folder of each that was made.
    made: Vec<PathBuf>,
    /// What a process writes to in order to get into each.
    doors: Vec<i32>,
}

impl Cgroups {
    /// Makes those of a workload.
    ///
    /// # Errors
    /// If one cannot be made, or the kernel lacks what it says.
    pub fn new(workload: &Workload) -> Result<Cgroups, PlayError> {
        let mut groups = Cgroups::default();
        for group in &workload.cgroups {
            groups.add(group).map_err(|(path, source)| {
                let workload = workload.name.clone();
                let hint = hint(&path, &source);
                PlayError::Cgroup { workload, path, source, hint }
            })?;
        }
        Ok(groups)
    }

    fn add(&mut self, group: &Cgroup) -> Result<(), (PathBuf, io::Error)> {
        let write = |path: PathBuf, text: &str| {
            fs::write(&path, text).map_err(|error| (path.clone(), error))
        };
        let (above, _) = group.place();
        let folder_of = |path: &str| Path::new(ROOT).join(path.trim_start_matches('/'));
        write(folder_of(above).join("cgroup.subtree_control"), "+cpu")?;
        let folder = folder_of(&group.path);
        fs::create_dir(&folder).map_err(|error| (folder.clone(), error))?;
        self.made.push(folder.clone());
        write(folder.join("cpu.weight"), &group.weight.to_string())?;
        if let Some(quota_ns) = group.quota_ns {
            let max = format!("{} {}", quota_ns / 1000, group.period_ns / 1000);
            write(folder.join("cpu.max"), &max)?;
        }
        if group.burst_ns > 0 {
            write(folder.join("cpu.max.burst"), &(group.burst_ns / 1000).to_string())?;
        }
        if group.idle {
            write(folder.join("cpu.idle"), "1")?;
        }
        let door = folder.join("cgroup.procs");
        let opened = system::open_to_write(&door);
        self.doors.push(opened.map_err(|errno| (door, io::Error::from_raw_os_error(errno)))?);
        Ok(())
    }

    /// Moves the calling process with all its threads into a group.
    pub fn enter(&self, group: u32) -> Result<(), i32> {
        system::write(self.doors[group as usize], b"0").map(drop)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        self.doors.iter().for_each(|&door| system::close(door));
        for folder in self.made.iter().rev() {
            for _ in 0..REMOVALS_MAX {
                match fs::remove_dir(folder) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(REMOVE_AGAIN);
                    }
                    // What cannot be undone is left to who asked for it.
                    _ => break,
                }
            }
        }
    }
}

/// A way out, by what could not be written.
fn hint(path: &Path, error: &io::Error) -> &'static str {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match (name, error.kind()) {
        (_, io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) => {
            "it needs root; play it in a virtual machine (`--on vm`)"
        }
        ("cgroup.subtree_control", io::ErrorKind::NotFound) => {
            "it needs a kernel with CONFIG_CGROUPS, and cgroup2 mounted at /sys/fs/cgroup"
        }
        ("cgroup.subtree_control" | "cpu.weight" | "cpu.idle", _) => {
            "it needs a kernel with CONFIG_CGROUP_SCHED and, for policies, CONFIG_EXT_GROUP_SCHED"
        }
        ("cpu.max" | "cpu.max.burst", io::ErrorKind::NotFound) => {
            "quotas need a kernel with CONFIG_CFS_BANDWIDTH"
        }
        (_, io::ErrorKind::AlreadyExists) => "give the group another path, or remove that one",
        _ => "see the error's number in errno(3)",
    }
}

/// Real threads are in the group of their process.
///
/// # Errors
/// If tasks of one address space are in more than one group.
pub fn check_cgroups(workload: &Workload) -> Result<(), PlayError> {
    let kinds = &workload.templates;
    for (i, kind) in kinds.iter().enumerate() {
        let sharer = kinds[..i].iter().find(|other| {
            kind.address_space.is_some()
                && other.address_space == kind.address_space
                && other.cgroup != kind.cgroup
        });
        if let Some(other) = sharer {
            return Err(PlayError::CgroupOfThread {
                workload: workload.name.clone(),
                one: other.name.clone(),
                other: kind.name.clone(),
            });
        }
    }
    Ok(())
}
