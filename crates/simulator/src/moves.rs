//! Tasks that go into other groups, and groups that say other things.
//!
//! A group's tasks move by processes: all that share an address space. The order of the policy's
//! operations follows Linux 7.3, kernel/sched/core.c and kernel/sched/ext/ext.c; the kernel's names
//! stand where a step has one.

use crate::core::Core;
use crate::cpu::Spent;
use crate::failure::FailureKind;
use crate::flags;
use crate::groups::{GroupId, ROOT};
use crate::operations::Operation;
use crate::place::{Place, TaskId};
use crate::timer::Timer;
use scenario::workload::Cgroup;

/// The largest number of an error. Source: Linux, include/linux/err.h, `MAX_ERRNO`.
const ERRNO_MAX: i32 = 4095;

impl Core<'_> {
    /// Moves a task, and all that share its address space, to the group that the workload declares
    /// at this place, or to the root; nobody moves if the policy refuses one of them
    /// (`scx_cgroup_can_attach`).
    pub fn move_process(&mut self, task: TaskId, place: Option<u32>) {
        let to = self.group_at(place);
        let space = self.tasks.state(task).address_space;
        let moves = |&task: &TaskId| {
            let state = self.tasks.state(task);
            state.address_space == space
                && state.place != Place::Exited
                && self.group_of(task) != to
        };
        let moving: Vec<TaskId> = (0..self.tasks.len() as TaskId).filter(moves).collect();
        for (nr_asked, &task) in moving.iter().enumerate() {
            let operation = Operation::CgroupPrepMove;
            let answer = self.call_before_move(operation, task, (self.group_of(task), to));
            self.push_stranded();
            if answer != 0 {
                self.refuse_move(answer, &moving[..nr_asked], to);
            }
            if answer != 0 || self.recorder.has_failed() {
                return;
            }
        }
        for task in moving {
            match self.tasks.state(task).place {
                Place::Running(cpu) if cpu as usize != self.here() => {
                    let at_ns = self.now_ns() + self.cpus.costs().ipi_ns;
                    self.time.add_timer(at_ns, Timer::Move(task, place));
                }
                _ => self.finish_move(task, place),
            }
        }
    }

    /// The policy has answered a move with an error; whom it had let go before stays, too.
    fn refuse_move(&mut self, answer: i32, asked: &[TaskId], to: GroupId) {
        if !(-ERRNO_MAX..0).contains(&answer) {
            let message = format!("ops.cgroup_prep_move() returned an invalid errno {answer}");
            return self.fail(FailureKind::BadCall, message);
        }
        for &task in asked {
            let operation = Operation::CgroupCancelMove;
            self.call_before_move(operation, task, (self.group_of(task), to));
            self.push_stranded();
        }
    }

    /// A task that does not run on another CPU is in its new group (`sched_move_task`).
    pub fn finish_move(&mut self, task: TaskId, place: Option<u32>) {
        let (from, to) = (self.group_of(task), self.group_at(place));
        let is_gone = self.tasks.state(task).place == Place::Exited;
        if from == to || is_gone {
            return;
        }
        self.tasks.seen_mut(task).cgroups = self.groups.seen(to);
        self.change_task(task, (flags::DEQ_GROUP, flags::ENQ_GROUP), |core| {
            core.call_move(task, (from, to));
        });
        self.push_stranded();
        if let Place::Running(cpu) = self.tasks.state(task).place {
            self.cpus[cpu as usize].need_resched = true;
        }
    }

    /// A group says other things from now on (`scx_group_set_weight` and alike).
    pub fn change_group(&mut self, at: u32, now: &Cgroup) {
        let group = self.group_at(Some(at));
        for (file, now) in self.groups.set(group, now) {
            self.charge(Spent::Kernel, self.cpus.costs().syscall_ns);
            self.call_group_set(group, file, &now);
            self.push_stranded();
        }
    }

    fn group_at(&self, place: Option<u32>) -> GroupId {
        place.map_or(ROOT, |at| self.groups.declared(at))
    }

    fn group_of(&self, task: TaskId) -> GroupId {
        let seen = self.tasks.seen(task).cgroups;
        self.groups.at(seen.addr() as u64).unwrap_or(ROOT)
    }
}
