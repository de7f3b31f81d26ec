//! Groups of tasks as cgroups of this machine (version 2, controller `cpu`).
//!
//! They are made below the root before any task, and removed when all tasks are gone. A task
//! goes into its own by itself, before it begins: until then it is in that of its parent.

use super::error::PlayError;
use crate::system;
use scenario::check::PERIOD_NS_DEFAULT;
use scenario::workload::{Cgroup, GroupFile, Workload};
use std::cell::RefCell;
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
    /// What a process writes to in order to get into each; the root's is the last.
    doors: Vec<i32>,
    /// What each says.
    said: RefCell<Vec<Cgroup>>,
}

impl Cgroups {
    /// Makes those of a workload.
    ///
    /// # Errors
    /// If one cannot be made, or the kernel lacks what it says.
    pub fn new(workload: &Workload) -> Result<Cgroups, PlayError> {
        let mut groups = Cgroups::default();
        let root = (!workload.cgroups.is_empty()).then(|| Path::new(ROOT).to_path_buf());
        let made = workload.cgroups.iter().try_for_each(|group| groups.add(group));
        let made = made.and_then(|()| root.map_or(Ok(()), |root| groups.open(&root)));
        made.map_err(|(path, source)| {
            let workload = workload.name.clone();
            let hint = hint(&path, &source);
            PlayError::Cgroup { workload, path, source, hint }
        })?;
        Ok(groups)
    }

    fn add(&mut self, group: &Cgroup) -> Result<(), (PathBuf, io::Error)> {
        let (above, _) = group.place();
        write(folder_of(above).join("cgroup.subtree_control"), "+cpu")?;
        let folder = folder_of(&group.path);
        fs::create_dir(&folder).map_err(|error| (folder.clone(), error))?;
        self.made.push(folder.clone());
        let plain = Cgroup {
            weight: 0, // Its weight is written, also if it is the default.
            idle: false,
            quota_ns: None,
            period_ns: PERIOD_NS_DEFAULT,
            burst_ns: 0,
            path: group.path.clone(),
        };
        change(&plain, group)?;
        self.said.get_mut().push(group.clone());
        self.open(&folder)
    }

    fn open(&mut self, folder: &Path) -> Result<(), (PathBuf, io::Error)> {
        let door = folder.join("cgroup.procs");
        let opened = system::open_to_write(&door);
        self.doors.push(opened.map_err(|errno| (door, io::Error::from_raw_os_error(errno)))?);
        Ok(())
    }

    /// Gives a group other weights and limits; the kernel's error.
    pub fn set(&self, number: u32, now: &Cgroup) -> Result<(), i32> {
        let said = &mut self.said.borrow_mut()[number as usize];
        let changed = change(said, now);
        *said = now.clone();
        changed.map_err(|(_, error)| error.raw_os_error().unwrap_or(0))
    }

    /// Moves a process with all its threads into a group, or into the root; 0 is the process that
    /// calls. It stays where it is if the policy refuses that (`cgroup_prep_move`), or ends now.
    pub fn take(&self, thread: i32, to: Option<u32>) {
        let door = to.map_or(self.doors.len().wrapping_sub(1), |number| number as usize);
        // Without groups all are in the root already. Digits are put where nothing is allocated.
        let Some(&door) = self.doors.get(door) else { return };
        let mut text = [b'0'; 10];
        let (mut left, mut first) = (thread.unsigned_abs(), text.len());
        // A number that begins with 0 would be octal.
        while left > 0 || first == text.len() {
            first -= 1;
            text[first] += (left % 10) as u8;
            left /= 10;
        }
        let _ = system::write(door, &text[first..]);
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

fn folder_of(path: &str) -> PathBuf {
    Path::new(ROOT).join(path.trim_start_matches('/'))
}

fn write(path: PathBuf, text: &str) -> Result<(), (PathBuf, io::Error)> {
    fs::write(&path, text).map_err(|error| (path, error))
}

/// Writes what a group says anew.
fn change(before: &Cgroup, now: &Cgroup) -> Result<(), (PathBuf, io::Error)> {
    for (file, now) in before.steps_to(now) {
        let (name, text) = match file {
            GroupFile::Weight => ("cpu.weight", now.weight.to_string()),
            GroupFile::Max => {
                let quota = now.quota_ns.map_or("max".to_string(), |ns| (ns / 1000).to_string());
                ("cpu.max", format!("{quota} {}", now.period_ns / 1000))
            }
            GroupFile::Burst => ("cpu.max.burst", (now.burst_ns / 1000).to_string()),
            GroupFile::Idle => ("cpu.idle", u8::from(now.idle).to_string()),
        };
        write(folder_of(&now.path).join(name), &text)?;
    }
    Ok(())
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
