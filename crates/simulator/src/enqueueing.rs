//! How a runnable task comes to the policy, and how one that runs is changed.

use crate::core::Core;
use crate::cpu::Spent;
use crate::dispatch_queue::GLOBAL;
use crate::flags;
use crate::operations::Operation;
use crate::place::{Place, TaskId};
use crate::policy_state::{Context, Insertion};
use crate::task::{NICE_WEIGHTS, nice_weight, scx_weight};

/// `SCX_SLICE_DFL`
pub const SLICE_DFL_NS: u64 = 20_000_000;
/// `SCX_SLICE_INF`
pub const SLICE_INF: u64 = u64::MAX;

impl Core<'_> {
    /// Gives a runnable task that is nowhere to the policy (`do_enqueue_task`). It may strand it.
    pub fn enqueue(&mut self, task: TaskId, enq_flags: u64) {
        let cpu = self.tasks.seen(task).cpu as usize;
        self.tasks.state_mut(task).enqueued_on = Some(cpu as u32);
        if !self.cpus[cpu].is_online {
            // The policy has been told that this CPU is gone, and is not asked.
            self.tasks.seen_mut(task).scx.slice = SLICE_DFL_NS;
            return self.push(self.queues.local(cpu), task, enq_flags, false);
        }
        if !self.policy.has(Operation::Enqueue) {
            self.tasks.seen_mut(task).scx.slice = SLICE_DFL_NS;
            let insertion =
                Insertion { task, dsq: GLOBAL, flags: enq_flags, by_vtime: false, asked_at: None };
            return self.insert(insertion, cpu);
        }
        self.policy.begin(Context::Enqueueing { task, direct: None });
        self.call_for(Operation::Enqueue, task, enq_flags);
        match self.policy.end() {
            Context::Enqueueing { direct: Some(insertion), .. } => {
                let flags = insertion.flags | enq_flags;
                self.insert(Insertion { flags, ..insertion }, cpu);
            }
            _ => {
                self.tasks.state_mut(task).custody_since_ns = self.now_ns();
                self.tasks.move_to(task, Place::Custody);
            }
        }
    }

    /// Brings the current task's slice and run time up to date, if there is one
    /// (`update_curr_scx`).
    pub fn update_current(&mut self) -> Option<TaskId> {
        self.update_current_of(self.here())
    }

    /// The same for any CPU; the clock of another one may be ahead of the active one's.
    pub fn update_current_of(&mut self, cpu: usize) -> Option<TaskId> {
        let now_ns = self.now_ns();
        let cpu = &mut self.cpus[cpu];
        let task = cpu.current?;
        let ran_ns = now_ns.saturating_sub(cpu.exec_start_ns);
        cpu.exec_start_ns += ran_ns;
        let seen = self.tasks.seen_mut(task);
        seen.se.sum_exec_runtime += ran_ns;
        if seen.scx.slice != SLICE_INF {
            seen.scx.slice = seen.scx.slice.saturating_sub(ran_ns);
        }
        Some(task)
    }

    /// Whether a CPU's current task has not blocked.
    pub fn could_go_on(&self, current: TaskId) -> bool {
        matches!(self.tasks.state(current).place, Place::Running(_))
    }

    /// Changes how a CPU's current task is scheduled. For that the kernel takes a task from its CPU
    /// and out of the queues, and brings it back by the CPU's own queue, past `enqueue`.
    pub fn change_current(
        &mut self,
        task: TaskId,
        (deq_flags, enq_flags): (u64, u64),
        change: impl FnOnce(&mut Self),
    ) {
        let cpu = self.tasks.seen(task).cpu as usize;
        self.update_current_of(cpu);
        self.call_for(Operation::Stopping, task, 0);
        self.call_leaving(Operation::Quiescent, task, deq_flags);
        self.tasks.seen_mut(task).scx.flags &= !flags::TASK_QUEUED;
        change(self);
        self.tasks.seen_mut(task).scx.flags |= flags::TASK_QUEUED;
        self.note_runnable(task);
        self.call_for(Operation::Runnable, task, enq_flags);
        self.charge(Spent::Queue, 2 * self.cpus.costs().dsq_op_ns);
        let began_ns = self.now_ns().max(self.cpus[cpu].exec_start_ns);
        self.cpus[cpu].exec_start_ns = began_ns;
        self.call_for(Operation::Running, task, 0);
    }

    /// Gives the current task another nice value (`set_user_nice`).
    pub fn renice(&mut self, task: TaskId, nice: i32) {
        let nice = nice.clamp(-20, NICE_WEIGHTS.len() as i32 - 21);
        if self.tasks.seen(task).static_prio == 120 + nice {
            return;
        }
        let weight = nice_weight(nice);
        self.change_current(task, flags::CHANGE, |kernel| {
            let seen = kernel.tasks.seen_mut(task);
            seen.static_prio = 120 + nice;
            seen.prio = 120 + nice;
            seen.se.load.weight = weight;
            seen.scx.weight = scx_weight(weight);
            kernel.call_set_weight(task);
        });
    }
}
