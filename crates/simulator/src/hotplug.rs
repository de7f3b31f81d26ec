//! CPUs that go offline and come back, and what else a workload's changes from outside do.
//!
//! The order of steps follows Linux 6.12, kernel/sched/core.c (`sched_cpu_deactivate`,
//! `balance_push`, `sched_cpu_activate`) and kernel/sched/ext.c (`handle_hotplug`). What differs:
//! the kernel waits until the last task that belongs to a CPU's run queue has left it, wherever the
//! policy keeps the task. Here the CPU is gone at once, and pushes on what it is still given; what
//! the policy forgets stays where it is until the watchdog finds it, as it does in the kernel.

use crate::agenda::When;
use crate::cpu::Activity;
use crate::flags;
use crate::kernel::Kernel;
use crate::observation::Event;
use crate::operations::Operation;
use crate::place::{Place, TaskId};
use crate::timer::Timer;
use scenario::workload::ChangeKind;

/// How long a change waits for the one before it, each time that it finds that not done.
const RETRY_NS: u64 = 100_000;

/// The CPU that never goes: it does what belongs to no other CPU.
pub const BOOT_CPU: usize = 0;

impl Kernel<'_> {
    /// The CPU on which a change from outside is made.
    pub fn cpu_of_change(&self, number: u32) -> usize {
        match self.workload.changes[number as usize].what {
            ChangeKind::Hotplug { cpu, .. } => cpu as usize,
            ChangeKind::Affinity { .. } => BOOT_CPU,
        }
    }

    /// Makes a change from outside, or sees to it that it is made at the next chance.
    pub fn make_change(&mut self, number: u32) {
        let ChangeKind::Hotplug { online, .. } = self.workload.changes[number as usize].what else {
            return self.change_affinity(number);
        };
        let cpu = self.here();
        let state = &mut self.cpus[cpu];
        match (online, state.is_online) {
            (false, true) if !state.leaves => {
                // A kernel thread of this CPU does it, as soon as it gets the CPU.
                state.leaves = true;
                state.need_resched = true;
            }
            (true, false) => self.go_online(),
            // The change before this one is not over: its task is in a system call.
            _ => self.add_timer(self.now_ns + RETRY_NS, Timer::Change(number)),
        }
    }

    /// Takes the active CPU down instead of picking a task for it.
    pub fn go_offline(&mut self) {
        let cpu = self.here();
        match self.cpus[cpu].current {
            Some(task) if self.could_go_on(task) => self.preempt_current(task),
            Some(task) => self.vacate(task),
            None => {}
        }
        self.switching = false;
        self.own_kicks = Default::default();
        let state = &mut self.cpus[cpu];
        state.leaves = false;
        state.need_resched = false;
        state.is_online = false;
        self.metrics.observe(self.now_ns, Event::Hotplug { cpu: cpu as u32, online: false });
        // The policy is told while the CPU still counts as online (`cpu_online_mask`).
        if self.call_hotplug(cpu, false) {
            self.push_tasks_away();
            self.masks.online.clear(cpu);
        } else {
            self.masks.online.clear(cpu);
            self.restart(cpu, false);
        }
        self.neighbours.update(&self.masks.online);
        // The last that it runs is its idle task: it counts as idle until somebody claims it.
        self.become_idle();
        self.hand_over_timers();
        let state = &mut self.cpus[cpu];
        state.activity = Activity::Offline;
        state.interrupt = When::NEVER;
        state.need_resched = false;
        self.own_kicks = Default::default();
        self.publish(cpu);
        self.check_places();
    }

    /// Moves what belongs to the run queue of the active CPU, which is going, to other CPUs. Each
    /// task gets the CPU for an instant, in which it is moved (`balance_push`).
    fn push_tasks_away(&mut self) {
        let cpu = self.here();
        while self.failure.is_none()
            && let Some(task) = self.take_local_or_global()
        {
            self.push(self.queues.local(cpu), task, flags::ENQ_HEAD, false);
            self.push_away(task, cpu);
        }
    }

    /// Moves those who came into the own queue of a CPU that is gone while the policy walked.
    pub fn push_stranded(&mut self) {
        if !self.walked.is_empty() {
            return;
        }
        for task in std::mem::take(&mut self.stranded) {
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

    /// Timers that the active CPU did not come to go to the one that takes over.
    fn hand_over_timers(&mut self) {
        let cpu = self.here();
        let late = std::mem::take(&mut self.cpus[cpu].late_timers);
        self.cpus[cpu].late = When::NEVER;
        for timer in late {
            let when = self.agenda.turn(self.now_ns);
            self.timers.add(when, timer);
        }
        self.agenda.set(self.cpus.len(), self.timers.first());
    }

    /// Brings the active CPU up; it then looks for a task.
    fn go_online(&mut self) {
        let cpu = self.here();
        self.masks.online.set(cpu);
        self.neighbours.update(&self.masks.online);
        self.cpus[cpu].activity = Activity::Idle;
        let is_told = self.call_hotplug(cpu, true);
        self.cpus[cpu].is_online = true;
        self.metrics.observe(self.now_ns, Event::Hotplug { cpu: cpu as u32, online: true });
        self.mark_idle(cpu);
        self.call_update_idle(cpu, true);
        if !is_told {
            self.restart(cpu, true);
        }
        self.cpus[cpu].need_resched = true;
    }
}
