//! Changes of the CPUs that a task may run on, and how tasks get off CPUs that they may not use.
//!
//! The order of the policy's operations follows Linux 6.12, kernel/sched/core.c and
//! kernel/sched/ext.c; the kernel's names stand where a step has one.

use crate::abi::{EV_REENQ_REPEAT, EV_SELECT_CPU_FALLBACK, OwnMask};
use crate::core::Core;
use crate::cpu::Activity;
use crate::failure::FailureKind;
use crate::flags;
use crate::observation::{Allowed, Event};
use crate::operations::Operation;
use crate::place::{Place, TaskId};
use crate::queues::Stranded;

/// `SCX_REENQ_MAX_REPEAT`
const REENQUEUES_MAX: u32 = 256;

impl Core<'_> {
    // ---- changing a mask --------------------------------------------------------------------

    /// Changes where a task that does not run on another CPU may run (`__set_cpus_allowed_ptr`).
    pub fn move_to_cpus(&mut self, task: TaskId, mask: &OwnMask, allowed: Allowed) {
        if mask.equals(&self.tasks.mask(task)) {
            return;
        }
        let Some(online) = self.cpus.any_online(|cpu| mask.has(cpu)) else {
            return; // EINVAL: there would be nowhere to run.
        };
        self.apply(task, mask, allowed);
        self.push_stranded();
        let cpu = self.tasks.seen(task).cpu as usize;
        if self.may_run_on(task, cpu) {
            return;
        }
        match self.tasks.state(task).place {
            Place::Custody | Place::Queued(_) => {
                self.migrate(task, online);
                self.push_stranded();
            }
            // It gets off as soon as it can be preempted, see `expel`.
            Place::Running(cpu) => self.cpus[cpu as usize].need_resched = true,
            // Where a task wakes up is found out then.
            Place::Asleep | Place::Unborn | Place::Exited => {}
            Place::Moving => unreachable!("{} is nowhere", self.tasks.label(task)),
        }
    }

    /// Gives a task a mask (`do_set_cpus_allowed`).
    fn apply(&mut self, task: TaskId, mask: &OwnMask, allowed: Allowed) {
        self.change_task(task, flags::CHANGE, |kernel| kernel.set_mask(task, mask, allowed));
    }

    /// Changes a task that does not run on another CPU. Whoever is runnable leaves the queues, or
    /// the CPU, while that is done, and comes back (`sched_change_begin`, `sched_change_end`).
    pub fn change_task(
        &mut self,
        task: TaskId,
        both @ (deq_flags, enq_flags): (u64, u64),
        change: impl FnOnce(&mut Self),
    ) {
        match self.tasks.state(task).place {
            Place::Running(_) => self.change_current(task, both, change),
            Place::Custody | Place::Queued(_) => {
                self.take_out(task, deq_flags);
                self.call_leaving(Operation::Quiescent, task, deq_flags);
                self.tasks.seen_mut(task).scx.flags &= !flags::TASK_QUEUED;
                change(self);
                self.tasks.seen_mut(task).scx.flags |= flags::TASK_QUEUED;
                self.call_for(Operation::Runnable, task, enq_flags);
                self.enqueue(task, enq_flags);
            }
            _ => change(self),
        }
    }

    /// `set_cpus_allowed_scx`
    fn set_mask(&mut self, task: TaskId, mask: &OwnMask, allowed: Allowed) {
        self.tasks.mask(task).copy(mask);
        let seen = self.tasks.seen_mut(task);
        seen.nr_cpus_allowed = mask.weight() as i32;
        // What other CPUs did in events that began earlier they did with the old mask.
        self.recorder.observe(self.time.began_ns(), Event::Affinity { task, allowed });
        self.call_set_cpumask(task);
    }

    // ---- moving tasks ------------------------------------------------------------------------

    /// Takes a waiting task from the policy or out of its queue (`ops_dequeue`); it is then in no
    /// place.
    pub fn take_out(&mut self, task: TaskId, deq_flags: u64) {
        match self.tasks.state(task).place {
            Place::Custody => {
                self.call_leaving(Operation::Dequeue, task, deq_flags);
                self.tasks.move_to(task, Place::Moving);
            }
            Place::Queued(index) => {
                if self.queues.is_own(index) && self.policy.hears_of_custody() {
                    self.call_leaving(Operation::Dequeue, task, deq_flags);
                }
                self.unqueue(task);
            }
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

    /// Moves those who came into the own queue of a CPU that is gone: a kernel's CPU waits for the
    /// last of its tasks before it goes. Tells the policy whom it has no longer in custody. What of
    /// its operations belongs to that waits for the end of a walk, and of the operation that runs.
    #[inline]
    pub fn push_stranded(&mut self) {
        while self.queues.has_stranded() && self.policy.code().is_some() {
            self.push_all_stranded();
        }
    }

    /// Ends the run if a task is enqueued again and again, and never runs (`scx_do_enqueue_task`).
    fn count_reenqueue(&mut self, task: TaskId) {
        let (seen, state) = self.tasks.both_mut(task);
        let pcount = seen.sched_info.pcount as u32;
        let before = if state.reenqueued.1 == pcount { state.reenqueued.0 } else { 0 };
        state.reenqueued = (before + 1, pcount);
        self.policy.given.events[EV_REENQ_REPEAT] += u64::from(before > 0);
        if before >= REENQUEUES_MAX {
            let label = self.tasks.label(task);
            let message = format!("{label} reenqueued {} times without running", before + 1);
            self.fail_about(task, FailureKind::BadCall, message);
        }
    }

    /// Gives the policy all tasks again that are in a queue now (`reenq_user`, `reenq_local`).
    fn enqueue_all_of(&mut self, index: u32) {
        let tasks: Vec<TaskId> = self.queues.get(index).iter().collect();
        for task in tasks {
            if self.tasks.state(task).place == Place::Queued(index) {
                self.count_reenqueue(task);
                if self.recorder.has_failed() {
                    return;
                }
                self.unqueue(task);
                self.enqueue(task, flags::ENQ_REENQ);
            }
        }
    }

    #[cold]
    fn push_all_stranded(&mut self) {
        for stranded in self.queues.take_stranded() {
            let task = match stranded {
                Stranded::OnGoneCpu(task) => task,
                Stranded::OutOfCustody(task) => {
                    self.call_dequeue_of_dispatched(task);
                    continue;
                }
                Stranded::InQueue(index) => {
                    self.enqueue_all_of(index);
                    continue;
                }
            };
            let from = self.tasks.seen(task).cpu as usize;
            if self.tasks.state(task).place == Place::Queued(self.queues.local(from)) {
                self.push_away(task, from);
            }
        }
    }

    /// Moves a task in the own queue of a CPU that goes to another CPU.
    pub fn push_away(&mut self, task: TaskId, from: usize) {
        self.call_for(Operation::Running, task, 0);
        self.call_for(Operation::Stopping, task, 1);
        // Where its affinity has to be widened, it comes back into that queue meanwhile.
        let activity = std::mem::replace(&mut self.cpus[from].activity, Activity::Idle);
        let to = self.fallback_cpu(task, from);
        self.cpus[from].activity = activity;
        self.migrate(task, to);
    }

    // ---- finding a CPU -----------------------------------------------------------------------

    /// The CPU that was chosen for a task that wakes up, or where it goes if that may not be.
    #[inline]
    pub fn allowed_or_fallback(&mut self, task: TaskId, chosen: usize) -> usize {
        if self.is_usable(task, chosen) {
            return chosen;
        }
        self.policy.given.events[EV_SELECT_CPU_FALLBACK] += 1;
        let home = self.tasks.seen(task).cpu as usize;
        self.fallback_cpu(task, home)
    }

    /// A CPU for a task that cannot be on `cpu`: one of its node, else any. If none of those that
    /// it may use is online, it may use all from now on (`select_fallback_rq`).
    pub fn fallback_cpu(&mut self, task: TaskId, cpu: usize) -> usize {
        if let Some(found) = self.usable_near(task, cpu) {
            return found;
        }
        let possible = self.idle.masks().possible;
        self.apply(task, &possible, Allowed::All);
        self.cpus.iter().position(|cpu| cpu.is_online).expect("one CPU is always online")
    }
}
