//! What a workload does from outside: CPUs that come and go, tasks that are told where to run, and
//! groups of tasks that change.
//!
//! The conductor does it at its time. CPUs that are down when a play ends are brought up
//! again: whoever plays a workload has the machine back as it was.

use super::error::Step;
use super::setting::Setting;
use super::stage::Failure;
use crate::system::{self, Cpus};
use scenario::workload::{Change, ChangeKind, CpuSet, Workload};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::SeqCst;

/// Whether the workload takes CPUs down.
pub fn has_hotplug(workload: &Workload) -> bool {
    workload.changes.iter().any(|change| matches!(change.what, ChangeKind::Hotplug { .. }))
}

/// A set of CPUs as the kernel takes it.
pub fn cpus_of(set: &CpuSet, all_cpus: &Cpus) -> Cpus {
    let Some(cpus) = set else { return *all_cpus };
    let mut found: Cpus = [0; 16];
    for &cpu in cpus.iter() {
        found[cpu as usize / 64] |= 1 << (cpu % 64);
    }
    found
}

/// The changes of a play, in the order of time.
pub struct Changes<'a> {
    setting: &'a Setting<'a>,
    /// Those that are to come.
    left: &'a [Change],
    start_at_ns: u64,
}

impl<'a> Changes<'a> {
    /// The changes of a play whose time 0 is `start_at_ns`.
    pub fn new(setting: &'a Setting<'a>, start_at_ns: u64) -> Self {
        Changes { setting, left: &setting.workload.changes, start_at_ns }
    }

    /// When the next one is due, on the clock of time 0.
    pub fn due_at_ns(&self) -> u64 {
        self.left.first().map_or(u64::MAX, |next| self.start_at_ns.saturating_add(next.at_ns))
    }

    /// Makes all that are due; the failure of the first that cannot be made.
    pub fn make_due(&mut self) -> Result<(), Failure> {
        while self.due_at_ns() <= system::now_ns() {
            let (next, rest) = self.left.split_first().expect("one is due");
            self.left = rest;
            match &next.what {
                ChangeKind::Hotplug { cpu, online } => switch_cpu(*cpu, *online)?,
                ChangeKind::Affinity { task, cpus } => self.bind(task, cpus)?,
                ChangeKind::Move { task, to } => {
                    self.move_all(task, *to);
                }
                ChangeKind::Cgroup { number, now } => {
                    self.setting.cgroups.set(*number, now).map_err(|errno| Failure {
                        step: Step::Limits as u8,
                        task: None,
                        errno,
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Tasks of a name that live, with their threads.
    fn tasks_of(&self, name: &str) -> impl Iterator<Item = (u32, i32)> {
        let setting = self.setting;
        (0..setting.stage.play().nr_tasks.load(SeqCst)).filter_map(move |task| {
            let slot = setting.stage.slot(task);
            let template = slot.template.load(SeqCst) as usize;
            let tid = slot.tid.load(SeqCst);
            let is_meant = setting.workload.templates[template].name == name;
            let lives = tid != 0 && slot.exited_at_ns.load(SeqCst) == 0;
            (is_meant && lives).then_some((task, tid))
        })
    }

    /// Moves each process with a task of the name that lives into a group.
    fn move_all(&self, name: &str, to: Option<u32>) {
        let mut processes = BTreeSet::new();
        for (task, tid) in self.tasks_of(name) {
            let template = self.setting.stage.slot(task).template.load(SeqCst) as usize;
            let space = self.setting.workload.templates[template].address_space;
            if space.is_none_or(|space| processes.insert(space)) {
                self.setting.cgroups.take(tid, to);
            }
        }
    }

    fn bind(&self, name: &str, cpus: &CpuSet) -> Result<(), Failure> {
        let cpus = cpus_of(cpus, &self.setting.all_cpus);
        for (task, tid) in self.tasks_of(name) {
            match system::set_affinity_of(tid, &cpus) {
                // It has ended meanwhile, or none of the CPUs is online: nothing changes then.
                Ok(()) | Err(libc::ESRCH | libc::EINVAL) => {}
                Err(errno) => {
                    return Err(Failure { step: Step::Affinity as u8, task: Some(task), errno });
                }
            }
        }
        Ok(())
    }
}

/// Takes a CPU down or brings it up (Documentation/core-api/cpu_hotplug.rst).
fn switch_cpu(cpu: u32, online: bool) -> Result<(), Failure> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    let written = std::fs::write(path, if online { "1" } else { "0" });
    written.map_err(|error| Failure {
        step: Step::Hotplug as u8,
        task: None,
        errno: error.raw_os_error().unwrap_or(0),
    })
}

/// Brings up what the play took down. What cannot be undone is left to who asked for it.
pub fn bring_all_up(workload: &Workload) {
    for change in &workload.changes {
        if let ChangeKind::Hotplug { cpu, online: false } = change.what {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
            // Writing to one that is up is an error that does not matter.
            if std::fs::read_to_string(path).is_ok_and(|state| state.trim() == "0") {
                let _ = switch_cpu(cpu, true);
            }
        }
    }
}
