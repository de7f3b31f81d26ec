//! A policy that the kernel ends because a CPU came or went, and that is loaded again.
//!
//! The kernel does so to a policy without `cpu_online` or `cpu_offline`, and asks for a restart by
//! its exit code; loaders follow. All tasks leave the policy, a new copy begins, with its globals
//! and maps as they were at first, and gets all tasks back (Linux 6.12, kernel/sched/ext.c:
//! `scx_ops_disable_workfn`, `scx_ops_enable`). What is left out is the time between, in which the
//! kernel's own scheduler runs the tasks: here tasks stay where they are, and none passes.

use crate::agenda::When;
use crate::core::Core;
use crate::cpu::Await;
use crate::enqueueing::SLICE_DFL_NS;
use crate::failure::FailureKind;
use crate::flags;
use crate::linked::Adopted;
use crate::object_calls::CALLS;
use crate::operations::Operation;
use crate::place::{Place, TaskId};
use crate::timer::Timer;
use crate::world::{WorldKind, world};

/// `SCX_EXIT_UNREG_KERN`
const UNREGISTERED_BY_KERNEL: u32 = 66;
/// `SCX_ECODE_ACT_RESTART | SCX_ECODE_RSN_HOTPLUG`
const RESTART_FOR_HOTPLUG: i64 = 1 << 48 | 1 << 32;

impl Core<'_> {
    /// Ends the policy because `cpu` goes offline or online, and loads it again.
    pub fn restart(&mut self, cpu: usize, online: bool) {
        self.finish_moves();
        self.policy.restarts();
        let (gone, tasks): (Vec<TaskId>, Vec<TaskId>) = (0..self.tasks.len() as TaskId)
            .partition(|&task| self.tasks.state(task).place == Place::Exited);
        self.call_cgroup_exits();
        for &task in &tasks {
            self.withdraw(task);
        }
        // Whose last switch is not over yet leaves with them, and is nothing to the next one.
        for task in gone {
            self.forget(task);
        }
        self.say_why(cpu, online);
        for idle in self.tasks.idle_tasks() {
            self.policy.maps.forget_task(&mut idle.storage);
        }
        self.forget_groups();
        if self.recorder.has_failed() || !self.replace_policy() {
            return;
        }
        let result = self.call_init();
        if result != 0 && !self.recorder.has_failed() {
            let message = format!("ops.init() failed ({result}) when the policy was loaded again");
            self.fail(FailureKind::PolicyExit, message);
        }
        if !self.recorder.has_failed() {
            self.call_cgroup_inits();
        }
        for &task in &tasks {
            if self.recorder.has_failed() {
                return;
            }
            self.introduce(task, false);
        }
        for &task in &tasks {
            if !self.recorder.has_failed() {
                self.give_back(task);
            }
        }
        self.go_on_with_moves();
        for other in 0..self.cpus.len() {
            if self.cpus[other].is_online && other != self.here() {
                self.interrupt(other);
            }
        }
        self.cpus[cpu].need_resched = true;
    }

    /// Takes a task from the policy; one that runs goes on.
    fn withdraw(&mut self, task: TaskId) {
        let is_runnable = match self.tasks.state(task).place {
            Place::Custody | Place::Queued(_) => {
                self.take_out(task, flags::DEQ_CLASS);
                true
            }
            Place::Running(cpu) => {
                self.update_current_of(cpu as usize);
                self.call_for(Operation::Stopping, task, 0);
                true
            }
            _ => false,
        };
        if is_runnable {
            self.call_leaving(Operation::Quiescent, task, flags::DEQ_CLASS);
            self.tasks.seen_mut(task).scx.flags &= !flags::TASK_QUEUED;
        }
        self.call_for(Operation::Disable, task, 0);
        self.call_exit_task(task);
        self.policy.maps.forget_task(&mut self.tasks.seen_mut(task).storage);
    }

    /// `ops.exit`
    fn say_why(&mut self, cpu: usize, online: bool) {
        let going = if online { "online" } else { "offline" };
        let message = format!("cpu {cpu} going {going}, exiting scheduler");
        let reason = "unregistered from the main kernel";
        self.call_exit(UNREGISTERED_BY_KERNEL, RESTART_FOR_HOTPLUG, reason, &message);
    }

    /// A new copy of the policy in the place of the old one; whether there is one.
    fn replace_policy(&mut self) -> bool {
        let loaded = match self.policy.load() {
            Ok(loaded) => loaded,
            Err(error) => {
                self.fail(FailureKind::PolicyExit, format!("it cannot be loaded again: {error}"));
                return false;
            }
        };
        if let Some(linked) = self.policy.drop_code() {
            if let Some(profiler) = self.recorder.profiler() {
                profiler.add(&linked.machine, |call| CALLS[call].0);
            }
            self.visible.give_back(linked.machine.into_memory());
        }
        let nr_cpus = self.cpus.len();
        let how = (self.policy.given.mode, self.policy.time.costs());
        let release = self.policy.given.release;
        let kind = WorldKind::of(&loaded, self.visible.width(), how.1.any());
        let world = world(kind, release);
        let adopted = Adopted::new(&loaded, &mut self.visible, world, release, nr_cpus, how);
        let is_there = adopted.is_ok();
        self.policy.replace(adopted.ok());
        if !is_there {
            let message = "there is no room to load it again".to_owned();
            self.fail(FailureKind::Limit, message);
            return false;
        }
        self.queues.destroy_all();
        let is_kept = |timer| !matches!(timer, Timer::Policy(..) | Timer::Move(..));
        self.time.retain_timers(is_kept);
        for cpu in self.cpus.iter_mut() {
            cpu.late_timers.retain(|&timer| is_kept(timer));
            if cpu.late_timers.is_empty() {
                cpu.set_when(Await::LateTimers, When::NEVER);
            }
        }
        for cpu in 0..self.cpus.len() {
            self.publish(cpu);
        }
        true
    }

    /// Gives a runnable task to the new policy; one that runs keeps its CPU.
    fn give_back(&mut self, task: TaskId) {
        let place = self.tasks.state(task).place;
        if !matches!(place, Place::Moving | Place::Running(_)) {
            return;
        }
        self.tasks.seen_mut(task).scx.slice = SLICE_DFL_NS;
        if place == Place::Moving {
            let home = self.tasks.seen(task).cpu as usize;
            self.tasks.seen_mut(task).cpu = self.allowed_or_fallback(task, home) as i32;
        }
        self.tasks.seen_mut(task).scx.flags |= flags::TASK_QUEUED;
        self.note_runnable(task);
        self.call_for(Operation::Runnable, task, flags::ENQ_CLASS);
        match place {
            Place::Moving => {
                self.enqueue(task, flags::ENQ_CLASS);
                self.push_stranded();
            }
            _ => drop(self.call_for(Operation::Running, task, 0)),
        }
    }
}
