//! Tasks that go into other groups, and groups that say other things.
//!
//! A group's tasks move by processes: all that share an address space. Processes move one after the
//! other, and a task that writes its own into a group sleeps until that is done. The order of the
//! policy's operations follows Linux 7.3, kernel/sched/core.c and kernel/sched/ext/ext.c; the
//! kernel's names stand where a step has one.

use crate::core::Core;
use crate::cpu::Spent;
use crate::failure::FailureKind;
use crate::flags;
use crate::groups::{Asked, GroupId, Move, ROOT};
use crate::operations::Operation;
use crate::place::{Place, TaskId};
use crate::timer::Timer;
use scenario::workload::Cgroup;

/// The largest number of an error. Source: Linux, include/linux/err.h, `MAX_ERRNO`.
const ERRNO_MAX: i32 = 4095;

impl Core<'_> {
    /// Moves a process, of which this is a task, to the group that the workload declares at this
    /// place, or to the root, when moves before it are over. As in a kernel, a task that is on its
    /// way forks and ends only when it is there (`cgroup_threadgroup_rwsem`).
    pub fn move_process(&mut self, task: TaskId, place: Option<u32>) {
        self.groups.ask_for_move(Asked { task, to: self.group_at(place), writer: None });
        self.go_on_with_moves();
    }

    /// The same on behalf of the task itself, which runs; whether that is over. If not, the task
    /// is to sleep, and wakes up when it is (`cgroup_procs_write`).
    pub fn move_own_process(&mut self, task: TaskId, place: Option<u32>) -> bool {
        self.groups.ask_for_move(Asked { task, to: self.group_at(place), writer: Some(task) });
        self.go_on_with_moves();
        // It was the last that was asked for.
        self.recorder.has_failed() || !self.groups.is_moving()
    }

    /// Ends the present move if all are there, and begins those that wait for it.
    pub fn go_on_with_moves(&mut self) {
        while !self.recorder.has_failed() && !self.groups.is_moving() {
            if let Some(writer) = self.groups.take_writer()
                && self.tasks.state(writer).place == Place::Asleep
            {
                self.wake_up(writer, flags::WAKE_TTWU);
            }
            let Some(asked) = self.groups.next_move() else { return };
            self.begin_move(asked);
        }
    }

    /// Nobody moves if the policy refuses one of them (`scx_cgroup_can_attach`).
    fn begin_move(&mut self, Asked { task, to, .. }: Asked) {
        let moves = |task: TaskId| {
            let from = self.group_of(task);
            let lives = self.tasks.state(task).place != Place::Exited;
            (lives && from != to).then_some(Move { task, from, to })
        };
        let moving: Vec<Move> = self.tasks.process_of(task).into_iter().filter_map(moves).collect();
        for (nr_asked, &one) in moving.iter().enumerate() {
            let answer = self.call_before_move(Operation::CgroupPrepMove, one);
            self.push_stranded();
            if answer != 0 {
                self.refuse_move(answer, &moving[..nr_asked]);
            }
            if answer != 0 || self.recorder.has_failed() {
                return;
            }
        }
        // All are in the new group before the first run queue hears of it (`css_set_move_task`).
        for one in &moving {
            self.tasks.seen_mut(one.task).cgroups = self.groups.seen(to);
            self.groups.begin_move(*one);
        }
        for Move { task, .. } in moving {
            match self.tasks.state(task).place {
                Place::Running(cpu) if cpu as usize != self.here() => {
                    let at_ns = self.now_ns() + self.cpus.costs().ipi_ns;
                    let number = self.groups.move_number();
                    self.time.add_timer(at_ns, Timer::Move(task, number));
                }
                _ => self.change_group_of(task),
            }
        }
    }

    /// The policy has answered a move with an error; whom it had let go before stays, too.
    fn refuse_move(&mut self, answer: i32, asked: &[Move]) {
        if !(-ERRNO_MAX..0).contains(&answer) {
            let message = format!("ops.cgroup_prep_move() returned an invalid errno {answer}");
            self.fail(FailureKind::BadCall, message);
        }
        for &one in asked {
            self.call_before_move(Operation::CgroupCancelMove, one);
            self.push_stranded();
        }
    }

    /// A task is there now if it is on its way; moves that wait for it begin.
    pub fn finish_move(&mut self, task: TaskId) {
        self.change_group_of(task);
        self.go_on_with_moves();
    }

    /// A move reaches a task that was running on another CPU, unless it was there before.
    pub fn finish_move_of_number(&mut self, task: TaskId, number: u32) {
        if number == self.groups.move_number() {
            self.finish_move(task);
        }
    }

    /// All that are on their way are there now: a policy that goes waits for them, and those that
    /// wait for them are told to the next one (`scx_cgroup_lock`).
    pub fn finish_moves(&mut self) {
        while let Some(task) = self.groups.first_moving() {
            self.change_group_of(task);
        }
    }

    /// A task that is on its way changes its run queue (`sched_move_task`).
    fn change_group_of(&mut self, task: TaskId) {
        let Some(ended) = self.groups.end_move(task) else { return };
        let seen = self.groups.seen(ended.to);
        self.change_task(task, (flags::DEQ_GROUP, flags::ENQ_GROUP), |core| {
            core.tasks.seen_mut(task).task_group = seen;
            core.call_of_move(Operation::CgroupMove, ended);
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
        let seen = self.tasks.seen(task).task_group;
        self.groups.at(seen.addr() as u64).unwrap_or(ROOT)
    }
}
