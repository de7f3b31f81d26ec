//! How a task comes to the policy and leaves it.

use crate::ON_VM;
use crate::abi::CpuMask;
use crate::core::Core;
use crate::failure::{FailureKind, told_number};
use crate::flags;
use crate::groups::ROOT;
use crate::observation::Event;
use crate::operations::Operation;
use crate::place::{Place, TaskId};
use scenario::draw::Random;
use scenario::workload::TaskTemplate;

impl Core<'_> {
    /// A new task of a template, unknown to the policy.
    pub fn create_task(
        &mut self,
        (template, kind): (u32, &TaskTemplate),
        parent: Option<TaskId>,
        random: Random,
    ) -> TaskId {
        let tasks_max = self.visible.width().tasks_max();
        if self.tasks.len() >= tasks_max {
            self.fail(FailureKind::Limit, format!("more than {tasks_max} tasks"));
        }
        let possible = &self.idle.masks().possible;
        let set = kind.cpus.as_ref().map(|_| self.mask_of_set(&kind.cpus));
        let set = set.filter(|mask| mask.weight() > 0 && !mask.equals(possible));
        let allowed: &CpuMask = set.as_ref().map_or(possible, |mask| mask);
        let space = kind.address_space.unwrap_or_else(|| self.tasks.add_space(&mut self.visible));
        let mm = self.visible.room.shift.show(self.tasks.space_address(space));
        let task = self.tasks.add(&mut self.visible, template, kind, allowed, random);
        if kind.cpus.is_none() && self.cpus.len() == 1 {
            // More are possible than there are, or no policy would be asked where tasks go.
            self.tasks.seen_mut(task).nr_cpus_allowed = self.visible.width().cpus() as i32;
        }
        self.recorder.observe(self.now_ns(), Event::Created { template, task });
        self.tasks.join_space(task, space);
        self.tasks.state_mut(task).parent = parent;
        // As in the kernel, there is always a parent: what nobody of the workload forked came from
        // the first CPU's idle task.
        let parent = self.visible.room.shift.show(self.tasks.address_on(0, parent));
        let group = match (kind.cgroup, self.tasks.state(task).parent) {
            (Some(at), _) => self.groups.seen(self.groups.declared(at)),
            (None, Some(parent)) => self.tasks.seen(parent).cgroups,
            (None, None) => self.groups.seen(ROOT),
        };
        let first = allowed.intersection(&self.idle.masks().online).next().unwrap_or(0);
        let here = self.here();
        let seen = self.tasks.seen_mut(task);
        seen.mm = mm;
        seen.real_parent = parent;
        (seen.cgroups, seen.task_group) = (group, group);
        seen.cpu = if allowed.has(here) { here } else { first } as i32;
        seen.recent_used_cpu = seen.cpu;
        task
    }

    /// Has a task that may run everywhere be started on the CPU whose turn it is.
    pub fn start_elsewhere(&mut self, task: TaskId) {
        let nr_cpus = self.cpus.len();
        let seen = self.tasks.seen_mut(task);
        if seen.nr_cpus_allowed as usize >= nr_cpus {
            seen.cpu = (task as usize % nr_cpus) as i32;
            seen.recent_used_cpu = seen.cpu;
        }
    }

    /// A new task comes to the policy.
    pub fn admit(&mut self, task: TaskId, fork: bool) {
        self.tasks.seen_mut(task).start_time = self.now_ns();
        self.introduce(task, fork);
    }

    /// Introduces a task to the policy (`scx_init_task`, `scx_enable_task`).
    pub fn introduce(&mut self, task: TaskId, fork: bool) {
        self.tasks.seen_mut(task).disallow = false;
        let result = self.call_init_task(task, fork);
        if result != 0 {
            let label = self.tasks.label(task);
            let message =
                format!("ops.init_task() failed ({result}) for {label}{}", told_number(result));
            return self.fail_about(task, FailureKind::PolicyExit, message);
        }
        if self.tasks.seen(task).disallow {
            self.disallow(task, fork);
        }
        self.call_for(Operation::Enable, task, 0);
        // The policy has not seen how its mask came about (`switching_to_scx`); one that takes cids
        // is told of each task's (`__scx_enable_task`).
        if self.policy.takes_cids() {
            self.call_set_cpumask(task);
        }
        self.call_set_weight(task);
        if !fork && !self.policy.takes_cids() {
            self.call_set_cpumask(task);
        }
    }

    /// What follows where `init_task` has set `scx.disallow`. A kernel obeys it for tasks of the
    /// class SCHED_EXT, which are all that a policy with `SCX_OPS_SWITCH_PARTIAL` has. Under others
    /// tasks are of no such class, and stay (`__scx_init_task`, `task_should_scx`).
    fn disallow(&mut self, task: TaskId, fork: bool) {
        let set = format!("ops.init_task() set task->scx.disallow for {}", self.tasks.label(task));
        if fork {
            return self.fail_about(task, FailureKind::PolicyExit, format!("{set} during fork"));
        }
        if self.policy.flags() & flags::OPS_SWITCH_PARTIAL != 0 {
            let lacks = "a kernel runs it in the fair class, which the simulator does not have";
            self.fail_about(task, FailureKind::PolicyExit, format!("{set}: {lacks}{ON_VM}"));
        }
    }

    /// The books of a task that has just left its CPU for good (`exit_notify`); its parent, if that
    /// one is to wake up by it.
    pub fn bury(&mut self, task: TaskId) -> Option<TaskId> {
        const PF_EXITING: u32 = 4;
        self.tasks.seen_mut(task).flags |= PF_EXITING;
        let state = self.tasks.state_mut(task);
        state.totals.exited_at_ns = self.time.now_ns();
        self.recorder.exited(self.time.now_ns());
        let parent = state.parent?;
        let state = self.tasks.state_mut(parent);
        state.children -= 1;
        let wakes = state.children == 0 && state.joining && state.place == Place::Asleep;
        state.joining &= !wakes;
        wakes.then_some(parent)
    }

    /// Tells the policy that a task is gone (`sched_ext_free`): after the switch from it, so that
    /// `dispatch` still knows it.
    pub fn forget(&mut self, task: TaskId) {
        if std::mem::replace(&mut self.tasks.state_mut(task).is_forgotten, true) {
            return; // A policy that was loaded again has never known it.
        }
        self.call_for(Operation::Disable, task, 0);
        self.call_exit_task(task);
        self.policy.maps.forget_task(&mut self.tasks.seen_mut(task).storage);
    }
}
