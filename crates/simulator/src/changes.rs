//! What a workload's changes from outside do: CPUs that come and go, affinities, groups of tasks.

use crate::abi::OwnMask;
use crate::cpu::Spent;
use crate::kernel::Kernel;
use crate::observation::Allowed;
use crate::place::{Place, TaskId};
use crate::timer::Timer;
use scenario::workload::ChangeKind;
use std::collections::BTreeSet;

/// How long a change waits for the one before it, each time that it finds that not done.
const RETRY_NS: u64 = 100_000;

/// The CPU that never goes: it does what belongs to no other CPU.
pub const BOOT_CPU: usize = 0;

impl Kernel<'_> {
    /// The CPU on which a change from outside is made.
    pub fn cpu_of_change(&self, number: u32) -> usize {
        match self.programs.workload().changes[number as usize].what {
            ChangeKind::Hotplug { cpu, .. } => cpu as usize,
            _ => BOOT_CPU,
        }
    }

    /// Makes a change from outside, or sees to it that it is made at the next chance.
    pub fn make_change(&mut self, number: u32) {
        let online = match &self.programs.workload().changes[number as usize].what {
            ChangeKind::Hotplug { online, .. } => *online,
            ChangeKind::Affinity { task, .. } => return self.change_affinity(task, number),
            ChangeKind::Move { task, to } => return self.move_all(task, *to),
            ChangeKind::Cgroup { number, now } => return self.core.change_group(*number, now),
        };
        let core = &mut self.core;
        let state = &mut core.cpus[core.time.here()];
        match (online, state.is_online) {
            (false, true) if !state.leaves => {
                // A kernel thread of this CPU does it, as soon as it gets the CPU.
                state.leaves = true;
                state.need_resched = true;
            }
            (true, false) => core.go_online(),
            // The change before this one is not over: its task is in a system call.
            _ => core.time.add_timer(core.now_ns() + RETRY_NS, Timer::Change(number)),
        }
    }

    /// The tasks of a name that live.
    fn tasks_of(&self, name: &str) -> Vec<TaskId> {
        let templates = &self.programs.workload().templates;
        let is_meant = |&task: &TaskId| {
            let state = self.core.tasks.state(task);
            state.place != Place::Exited && templates[state.template as usize].name == name
        };
        (0..self.core.tasks.len() as TaskId).filter(is_meant).collect()
    }

    /// A change from outside: for each task of the name that lives.
    fn change_affinity(&mut self, name: &str, number: u32) {
        for task in self.tasks_of(name) {
            self.core.charge(Spent::Kernel, self.core.cpus.costs().syscall_ns);
            self.change_affinity_of(task, number);
        }
    }

    /// A change from outside: each process with a task of the name that lives goes into a group.
    fn move_all(&mut self, name: &str, to: Option<u32>) {
        let mut processes = BTreeSet::new();
        for task in self.tasks_of(name) {
            if processes.insert(self.core.tasks.state(task).address_space) {
                self.core.charge(Spent::Kernel, self.core.cpus.costs().syscall_ns);
                self.core.move_process(task, to);
            }
        }
    }

    /// One of these tasks. One that runs on another CPU is changed when that CPU comes to it.
    pub fn change_affinity_of(&mut self, task: TaskId, number: u32) {
        let core = &mut self.core;
        match core.tasks.state(task).place {
            Place::Exited => {}
            Place::Running(cpu) if cpu as usize != core.here() => {
                let at_ns = core.now_ns() + core.cpus.costs().ipi_ns;
                core.time.add_timer(at_ns, Timer::Affinity(task, number));
            }
            _ => {
                let mask = self.mask_of_change(number);
                self.core.move_to_cpus(task, &mask, Allowed::Change(number));
            }
        }
    }

    fn mask_of_change(&self, number: u32) -> OwnMask {
        match &self.programs.workload().changes[number as usize].what {
            ChangeKind::Affinity { cpus, .. } => self.core.mask_of_set(cpus),
            _ => unreachable!("the change is one of affinity"),
        }
    }
}
