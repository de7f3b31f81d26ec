//! Changes of the CPUs that a task may run on, and how tasks get off CPUs that they may not use.
//!
//! The order of the policy's operations follows Linux 6.12, kernel/sched/core.c and
//! kernel/sched/ext.c; the kernel's names stand where a step has one.

use crate::abi::CpuMask;
use crate::cpu::Spent;
use crate::flags;
use crate::kernel::Kernel;
use crate::observation::{Allowed, Event};
use crate::operations::Operation;
use crate::place::{Place, TaskId};
use crate::timer::Timer;
use scenario::workload::{ChangeKind, CpuSet};

impl Kernel<'_> {
    // ---- changing a mask --------------------------------------------------------------------

    /// Changes where a task that does not run on another CPU may run (`__set_cpus_allowed_ptr`).
    pub fn set_affinity(&mut self, task: TaskId, allowed: Allowed) {
        let mask = self.mask_of(allowed);
        if mask == self.tasks.seen(task).cpus_mask {
            return;
        }
        let Some(online) = self.any_online_of(&mask) else {
            return; // EINVAL: there would be nowhere to run.
        };
        self.apply(task, mask, allowed);
        let cpu = self.tasks.seen(task).cpu as usize;
        if self.may_run_on(task, cpu) {
            return;
        }
        match self.tasks.state(task).place {
            Place::Custody | Place::Queued(_) => self.migrate(task, online),
            // It gets off as soon as it can be preempted, see `expel`.
            Place::Running(cpu) => self.cpus[cpu as usize].need_resched = true,
            // Where a task wakes up is found out then.
            Place::Asleep | Place::Unborn | Place::Exited => {}
            Place::Moving => unreachable!("{} is nowhere", self.tasks.label(task)),
        }
    }

    /// A change from outside: for each task of the name that lives.
    pub fn change_affinity(&mut self, number: u32) {
        let ChangeKind::Affinity { task: name, .. } = &self.workload.changes[number as usize].what
        else {
            unreachable!("the change is one of affinity")
        };
        let templates = &self.workload.templates;
        let is_meant = |&task: &TaskId| {
            let state = self.tasks.state(task);
            state.place != Place::Exited && templates[state.template as usize].name == *name
        };
        let meant: Vec<TaskId> = (0..self.tasks.len() as TaskId).filter(is_meant).collect();
        for task in meant {
            self.charge(Spent::Kernel, self.costs.syscall_ns);
            self.change_affinity_of(task, number);
        }
    }

    /// One of these tasks. One that runs on another CPU is changed when that CPU comes to it.
    pub fn change_affinity_of(&mut self, task: TaskId, number: u32) {
        match self.tasks.state(task).place {
            Place::Exited => {}
            Place::Running(cpu) if cpu as usize != self.here() => {
                let at_ns = self.now_ns + self.costs.ipi_ns;
                self.add_timer(at_ns, Timer::Affinity(task, number));
            }
            _ => self.set_affinity(task, Allowed::Change(number)),
        }
    }

    fn mask_of(&self, allowed: Allowed) -> CpuMask {
        match allowed {
            Allowed::Set(set) => self.mask_of_set(&self.workload.cpu_sets[set as usize]),
            Allowed::Change(number) => match &self.workload.changes[number as usize].what {
                ChangeKind::Affinity { cpus, .. } => self.mask_of_set(cpus),
                ChangeKind::Hotplug { .. } => unreachable!("the change is one of affinity"),
            },
            Allowed::All => self.masks.possible,
        }
    }

    /// The CPUs of a set that the machine has; all of them if the set does not say.
    pub fn mask_of_set(&self, set: &CpuSet) -> CpuMask {
        let Some(cpus) = set else { return self.masks.possible };
        cpus.iter().map(|&cpu| cpu as usize).filter(|&cpu| cpu < self.cpus.len()).collect()
    }

    /// Gives a task a mask. Whoever is runnable leaves the queues, or the CPU, while that is done,
    /// and comes back (`do_set_cpus_allowed`).
    fn apply(&mut self, task: TaskId, mask: CpuMask, allowed: Allowed) {
        match self.tasks.state(task).place {
            Place::Running(_) => {
                self.change_current(task, |kernel| kernel.set_mask(task, mask, allowed));
            }
            Place::Custody | Place::Queued(_) => {
                self.take_out(task, flags::DEQ_CHANGE);
                self.call_for(Operation::Quiescent, task, flags::DEQ_CHANGE);
                self.tasks.seen_mut(task).scx.flags &= !flags::TASK_QUEUED;
                self.set_mask(task, mask, allowed);
                self.tasks.seen_mut(task).scx.flags |= flags::TASK_QUEUED;
                self.call_for(Operation::Runnable, task, flags::ENQ_CHANGE);
                self.enqueue(task, flags::ENQ_CHANGE);
            }
            _ => self.set_mask(task, mask, allowed),
        }
    }

    /// `set_cpus_allowed_scx`
    fn set_mask(&mut self, task: TaskId, mask: CpuMask, allowed: Allowed) {
        let everywhere = mask == self.masks.possible;
        let (shared, shift) = (self.shown_possible(), self.visible.room.shift);
        let seen = self.tasks.seen_mut(task);
        seen.cpus_mask = mask;
        seen.cpus_ptr = if everywhere { shared } else { shift.show(&raw const seen.cpus_mask) };
        seen.nr_cpus_allowed = mask.weight() as i32;
        // What other CPUs did in events that began earlier they did with the old mask.
        self.metrics.observe(self.began_ns, Event::Affinity { task, allowed });
        self.call_set_cpumask(task);
    }

    // ---- moving tasks ------------------------------------------------------------------------

    /// Takes a waiting task from the policy or out of its queue (`ops_dequeue`); it is then in no
    /// place.
    pub fn take_out(&mut self, task: TaskId, deq_flags: u64) {
        match self.tasks.state(task).place {
            Place::Custody => {
                self.call_for(Operation::Dequeue, task, deq_flags);
                self.tasks.move_to(task, Place::Moving);
            }
            Place::Queued(_) => self.unqueue(task),
            place => unreachable!("{} does not wait: {place:?}", self.tasks.label(task)),
        }
    }

    /// Moves a waiting task to another CPU's run queue; `runnable` and `quiescent` do not hear of
    /// it (`move_queued_task`).
    pub fn migrate(&mut self, task: TaskId, cpu: usize) {
        self.take_out(task, flags::DEQ_MIGRATED);
        self.tasks.seen_mut(task).cpu = cpu as i32;
        self.enqueue(task, flags::ENQ_MIGRATED);
        if self.cpus[cpu].current.is_none() {
            self.resched(cpu);
        }
    }

    /// Gets the active CPU's task off it, because it may not run here any more
    /// (`migration_cpu_stop`).
    pub fn expel(&mut self, task: TaskId) {
        self.preempt_current(task);
        let cpu = self.here();
        let cpu = self.fallback_cpu(task, cpu);
        self.migrate(task, cpu);
    }

    /// Puts the active CPU's task back, as for a kernel thread that needs the CPU, which is then
    /// without a task.
    pub fn preempt_current(&mut self, task: TaskId) {
        self.switching = true;
        // So that its own queue does not wake this CPU up.
        self.scheduling = true;
        let own = self.queues.local(self.here());
        self.take(self.queues.get(own).lock);
        self.put_back(task, 0);
        self.vacate(task);
        self.scheduling = false;
        self.unlock_queue(own);
        self.switching = false;
    }

    // ---- finding a CPU -----------------------------------------------------------------------

    /// Whether a task may run on a CPU now (`is_cpu_allowed`).
    pub fn is_usable(&self, task: TaskId, cpu: usize) -> bool {
        self.cpus[cpu].is_online && self.may_run_on(task, cpu)
    }

    /// The CPU that was chosen for a task that wakes up, or where it goes if that may not be.
    pub fn allowed_or_fallback(&mut self, task: TaskId, chosen: usize) -> usize {
        if self.is_usable(task, chosen) {
            return chosen;
        }
        let home = self.tasks.seen(task).cpu as usize;
        self.fallback_cpu(task, home)
    }

    /// A CPU for a task that cannot be on `cpu`: one of its node, else any. If none of those that
    /// it may use is online, it may use all from now on (`select_fallback_rq`).
    pub fn fallback_cpu(&mut self, task: TaskId, cpu: usize) -> usize {
        let node = self.machine.cpus[cpu].node;
        let near = |other: &usize| self.machine.cpus[*other].node == node;
        let usable = |other: &usize| self.is_usable(task, *other);
        let all = 0..self.cpus.len();
        if let Some(found) = all.clone().filter(near).find(usable).or(all.clone().find(usable)) {
            return found;
        }
        let possible = self.masks.possible;
        self.apply(task, possible, Allowed::All);
        let is_online = |other: &usize| self.cpus[*other].is_online;
        all.clone().find(is_online).expect("one CPU is always online")
    }

    /// One of the CPUs of a mask that are online, each in turn (`cpumask_any_and_distribute`).
    fn any_online_of(&mut self, mask: &CpuMask) -> Option<usize> {
        let is_one = |cpu: &usize| mask.has(*cpu) && self.cpus[*cpu].is_online;
        let behind = self.distributed_cpu + 1..self.cpus.len();
        let found = behind.chain(0..=self.distributed_cpu).find(is_one)?;
        self.distributed_cpu = found;
        Some(found)
    }
}
