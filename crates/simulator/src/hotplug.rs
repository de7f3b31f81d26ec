//! CPUs that go offline and come back.
//!
//! The order of steps follows Linux 6.12, kernel/sched/core.c (`sched_cpu_deactivate`,
//! `balance_push`, `sched_cpu_activate`) and kernel/sched/ext.c (`handle_hotplug`). What differs:
//! the kernel waits until the last task that belongs to a CPU's run queue has left it, wherever the
//! policy keeps the task. Here the CPU is gone at once, and pushes on what it is still given. What
//! the policy forgets stays where it is until the watchdog finds it, as it does in the kernel, but
//! for tasks that only this CPU could have run: those the kernel takes out of the policy's queues
//! (Linux 7.3, `rq_offline_scx`; it does so with all, and before the policy is told).

use crate::agenda::When;
use crate::core::Core;
use crate::cpu::{Activity, Await};
use crate::flags;
use crate::observation::Event;
use crate::place::{Place, TaskId};
use crate::releases;
use crate::timer::Timer;

impl Core<'_> {
    /// Takes the active CPU down instead of picking a task for it.
    pub fn go_offline(&mut self) {
        let cpu = self.here();
        match self.cpus[cpu].current {
            Some(task) if self.could_go_on(task) => self.preempt_current(task),
            Some(task) => self.vacate(task),
            None => {}
        }
        self.picking.end();
        self.picking.take_kicks();
        let state = &mut self.cpus[cpu];
        state.leaves = false;
        state.need_resched = false;
        state.is_online = false;
        self.recorder.observe(self.now_ns(), Event::Hotplug { cpu: cpu as u32, online: false });
        // The policy is told while the CPU still counts as online (`cpu_online_mask`).
        if self.call_hotplug(cpu, false) {
            self.push_stranded();
            self.take_back_bound();
            self.push_tasks_away();
            self.idle.set_online(cpu, false);
        } else {
            self.idle.set_online(cpu, false);
            self.restart(cpu, false);
        }
        self.idle.update_neighbours();
        // The last that it runs is its idle task: it counts as idle until somebody claims it.
        self.become_idle();
        self.hand_over_timers();
        let state = &mut self.cpus[cpu];
        state.activity = Activity::Offline;
        state.set_when(Await::Interrupt, When::NEVER);
        state.need_resched = false;
        self.picking.take_kicks();
        self.publish(cpu);
        self.check_places();
    }

    /// Puts tasks that only the active CPU, which is going, could have run into its own queue,
    /// wherever the policy keeps them.
    fn take_back_bound(&mut self) {
        let cpu = self.here();
        if !releases::takes_back_bound(self.policy.given.release) {
            return;
        }
        for task in 0..self.tasks.len() as TaskId {
            let waits_elsewhere = match self.tasks.state(task).place {
                Place::Custody => true,
                Place::Queued(index) => index != self.queues.local(cpu),
                _ => false,
            };
            let is_of_it = waits_elsewhere && self.tasks.seen(task).cpu as usize == cpu;
            if is_of_it && self.usable_near(task, cpu).is_none() {
                self.change_task(task, (flags::DEQ_GROUP, flags::ENQ_GROUP), |_| {});
                self.push_stranded();
            }
        }
    }

    /// Moves what belongs to the run queue of the active CPU, which is going, to other CPUs. Each
    /// task gets the CPU for an instant, in which it is moved (`balance_push`).
    fn push_tasks_away(&mut self) {
        let cpu = self.here();
        while !self.recorder.has_failed()
            && let Some(task) = self.take_local_or_global()
        {
            self.push(self.queues.local(cpu), task, flags::ENQ_HEAD, false);
            self.push_away(task, cpu);
        }
    }

    /// Timers that the active CPU did not come to go to the one that takes over. What only
    /// interrupts is nobody's.
    fn hand_over_timers(&mut self) {
        let cpu = self.here();
        let late = std::mem::take(&mut self.cpus[cpu].late_timers);
        self.cpus[cpu].set_when(Await::LateTimers, When::NEVER);
        for timer in late.into_iter().filter(|timer| !matches!(timer, Timer::Background(_))) {
            self.time.hand_over(self.now_ns(), timer);
        }
    }

    /// Brings the active CPU up; it then looks for a task.
    pub fn go_online(&mut self) {
        let cpu = self.here();
        self.idle.set_online(cpu, true);
        self.idle.update_neighbours();
        self.cpus[cpu].activity = Activity::Idle;
        let is_told = self.call_hotplug(cpu, true);
        self.push_stranded();
        self.cpus[cpu].is_online = true;
        self.recorder.observe(self.now_ns(), Event::Hotplug { cpu: cpu as u32, online: true });
        self.mark_idle(cpu);
        self.call_update_idle(cpu, true);
        if !is_told {
            self.restart(cpu, true);
        }
        self.cpus[cpu].need_resched = true;
    }
}
