//! The sched_ext core: how tasks wake up, are queued, are picked and are put back.
//!
//! The order of the policy's operations and what decides between them follow Linux 6.12,
//! kernel/sched/ext.c; the kernel's names stand where a step has one.

use crate::agenda::When;
use crate::buses::Fetch;
use crate::core::Core;
use crate::cpu::{Activity, Await, Spent};
use crate::dispatch_queue::LOCAL;
use crate::enqueueing::SLICE_DFL_NS;
use crate::failure::FailureKind;
use crate::flags;
use crate::observation::Event;
use crate::operations::Operation;
use crate::place::{Place, TaskId};
use crate::policy_state::{Context, Insertion};
use crate::recorder::Entry;
use scenario::machine::WARM_SWITCHES;

/// `SCX_DSP_MAX_LOOPS`: rounds of `dispatch` before the CPU looks elsewhere.
const DISPATCH_ROUNDS_MAX: usize = 32;

/// What a CPU runs next.
enum Choice {
    Keep,
    Take(TaskId),
    Nothing,
}

impl Core<'_> {
    // ---- becoming runnable ------------------------------------------------------------------

    /// Makes a sleeping or new task runnable, on behalf of the active CPU (`try_to_wake_up`,
    /// `wake_up_new_task`).
    pub fn wake_up(&mut self, task: TaskId, wake_flags: u64) {
        self.charge(Spent::Wakeup, self.cpus.costs().wakeup_ns);
        self.tasks.becomes_runnable(task);
        let now_ns = self.now_ns();
        let (seen, state) = self.tasks.both_mut(task);
        (state.waiting_since_ns, state.woken, seen.state) = (now_ns, true, 0);
        self.recorder.wakes(now_ns, task);

        let (cpu, direct, selected) = self.select_task_rq(task, wake_flags);
        let seen = self.tasks.seen_mut(task);
        seen.cpu = cpu as i32;
        seen.scx.flags |= flags::TASK_QUEUED;
        let is_new = wake_flags & flags::WAKE_FORK != 0;
        if self.recorder.is_observed() {
            self.recorder.note_wakeup((now_ns, task + 1, cpu as u32, is_new));
            self.note_runnable(task);
        }
        // Of a new task `wake_up_new_task` says neither, although `select_cpu` was asked.
        let enq_flags = match selected {
            _ if is_new => 0,
            true => flags::ENQ_WAKEUP | flags::ENQ_CPU_SELECTED,
            false => flags::ENQ_WAKEUP,
        };
        self.call_for(Operation::Runnable, task, enq_flags);
        match direct {
            Some(insertion) => {
                let flags = insertion.flags | enq_flags;
                self.insert(Insertion { flags, ..insertion }, cpu);
            }
            None => self.enqueue(task, enq_flags),
        }
        self.push_stranded();
        if self.cpus[cpu].current.is_none() {
            self.resched(cpu);
        }
    }

    /// Where a task that wakes up goes, where the policy dispatched it directly, and whether
    /// the policy was asked.
    fn select_task_rq(&mut self, task: TaskId, wake: u64) -> (usize, Option<Insertion>, bool) {
        let seen = self.tasks.seen(task);
        let prev_cpu = seen.cpu;
        if seen.nr_cpus_allowed == 1 {
            let only = self.tasks.mask(task).intersection(&self.idle.masks().possible).next();
            let only = only.expect("tasks are allowed somewhere");
            return (self.allowed_or_fallback(task, only), None, false);
        }
        self.policy.begin(Context::Enqueueing { task, direct: None });
        let chosen = self.call_select_cpu(task, prev_cpu, wake);
        let direct = match self.policy.end() {
            Context::Enqueueing { direct, .. } => direct,
            _ => None,
        };
        let Some(chosen) = chosen else {
            let (cpu, idle) = self.select_cpu_default(task, prev_cpu as usize, wake);
            self.tasks.seen_mut(task).selected_cpu = cpu as i32;
            let direct = idle.then_some(Insertion {
                task,
                dsq: LOCAL,
                flags: 0,
                by_vtime: false,
                asked_at: None,
            });
            if idle {
                self.tasks.seen_mut(task).scx.slice = SLICE_DFL_NS;
            }
            return (self.allowed_or_fallback(task, cpu), direct, true);
        };
        self.tasks.seen_mut(task).selected_cpu = chosen;
        if chosen < 0 || chosen as usize >= self.cpus.len() {
            let message = format!("invalid CPU {chosen} from ops.select_cpu()");
            self.fail_about(task, FailureKind::BadCpu, message);
            return (prev_cpu as usize, direct, true);
        }
        (self.allowed_or_fallback(task, chosen as usize), direct, true)
    }

    // ---- choosing the next task -------------------------------------------------------------

    /// Picks what the active CPU runs next and switches to it (`__schedule`). Until the switch its
    /// current task is the one that ran, even if that one has just blocked and while the policy is
    /// given it back.
    pub fn schedule(&mut self) {
        let cpu = self.here();
        let mut prev = self.update_current();
        let mut goes_on = prev.is_some_and(|task| self.could_go_on(task));
        if let (true, Some(task)) = (goes_on, prev)
            && !self.may_run_on(task, cpu)
        {
            self.expel(task);
            (prev, goes_on) = (None, false);
        }
        self.recorder.observe(self.now_ns(), Event::Looks { cpu: cpu as u32 });
        let own = self.queues.local(cpu);
        // Nobody walks over a CPU's own queue.
        self.take(self.queues.get(own).lock);
        self.picking.begin_choice();
        let choice = self.choose(prev, goes_on);
        self.cpus[cpu].need_resched = false;
        match choice {
            Choice::Keep => {
                let task = prev.expect("only a current task is kept");
                let slice = &mut self.tasks.seen_mut(task).scx.slice;
                if *slice == 0 {
                    *slice = SLICE_DFL_NS;
                }
            }
            Choice::Take(next) => {
                if let Some(prev) = prev {
                    self.switch_from(prev, goes_on, 0);
                }
                self.set_next(next, prev.filter(|_| goes_on));
            }
            Choice::Nothing => {
                if let Some(prev) = prev {
                    self.switch_from(prev, goes_on, flags::ENQ_LAST);
                }
                self.become_idle();
            }
        }
        self.picking.end();
        self.release_queue(own);
        self.carry_out_own_kicks();
    }

    /// Carries out what the active CPU was told by itself while it picked: it cannot take an
    /// interrupt before it has switched (`kick_cpus_irq_workfn`).
    fn carry_out_own_kicks(&mut self) {
        let Some(kicks) = self.picking.take_kicks() else { return };
        let cpu = self.here();
        let current = self.cpus[cpu].current;
        if let (true, Some(task)) = (kicks.preempts, current) {
            self.tasks.seen_mut(task).scx.slice = 0;
        }
        if kicks.always || kicks.if_idle && current.is_none() {
            self.interrupt(cpu);
        }
    }

    /// `balance_one` and `pick_task_scx`. A task that is taken is in no queue any more. The policy
    /// is also given a `prev` that has blocked, but only a runnable one can be kept.
    fn choose(&mut self, prev: Option<TaskId>, goes_on: bool) -> Choice {
        let cpu = self.here();
        let runnable = prev.filter(|_| goes_on);
        let has_slice =
            |kernel: &Self| runnable.is_some_and(|task| kernel.tasks.seen(task).scx.slice > 0);
        if has_slice(self) {
            return Choice::Keep;
        }
        if let Some(task) = self.take_local_or_global() {
            return Choice::Take(task);
        }
        if self.policy.has(Operation::Dispatch) {
            for round in 1..=DISPATCH_ROUNDS_MAX {
                self.policy.begin(Context::Dispatching);
                self.call_dispatch(cpu, prev);
                let dispatched = self.flush_buffer();
                self.policy.end();
                self.push_stranded();
                if self.recorder.has_failed() {
                    break;
                }
                if has_slice(self) {
                    return Choice::Keep;
                }
                if let Some(task) = self.take_local_or_global() {
                    return Choice::Take(task);
                }
                if dispatched == 0 {
                    break;
                }
                if round == DISPATCH_ROUNDS_MAX {
                    // It dispatched for others only; the kernel comes back to it later, too.
                    self.interrupt(cpu);
                }
            }
        }
        let keeps_last = self.policy.flags() & flags::OPS_ENQ_LAST == 0;
        if runnable.is_some() && keeps_last { Choice::Keep } else { Choice::Nothing }
    }

    /// The head of the active CPU's own queue, refilled from the global one if it is empty.
    #[inline(always)]
    pub fn take_local_or_global(&mut self) -> Option<TaskId> {
        if self.queues.nr_queued() > 0 { self.take_queued() } else { None }
    }

    fn take_queued(&mut self) -> Option<TaskId> {
        let cpu = self.here();
        let local = self.queues.local(cpu);
        if self.queues.get(local).len() == 0 {
            let global = self.queues.global(self.cpus.node(cpu));
            self.move_first_to_local(global)?;
        }
        Some(self.unqueue_first(local))
    }

    /// Carries out the insertions of one `dispatch` (`flush_dispatch_buf`) and counts them.
    #[inline]
    pub fn flush_buffer(&mut self) -> usize {
        if self.policy.keeps_any() { self.flush_insertions() } else { 0 }
    }

    fn flush_insertions(&mut self) -> usize {
        let buffer = self.policy.take_buffer();
        let nr = buffer.len();
        let cpu = self.here();
        for &insertion in &buffer {
            // A task that meanwhile was dequeued or dispatched is dropped, as in the kernel.
            if self.tasks.state(insertion.task).place == Place::Custody {
                // Another CPU may still be in the `enqueue` that took it (SCX_OPSS_QUEUEING).
                let since_ns = self.tasks.state(insertion.task).custody_since_ns;
                self.charge(Spent::LockWait, since_ns.saturating_sub(self.now_ns()));
                self.tasks.move_to(insertion.task, Place::Moving);
                self.insert(insertion, cpu);
                self.left_custody(insertion.task);
                self.push_stranded();
            }
        }
        self.policy.reuse(buffer);
        nr
    }

    /// Takes the task that ran off the active CPU and, if it could go on, puts it back.
    fn switch_from(&mut self, prev: TaskId, goes_on: bool, enq_flags: u64) {
        if goes_on {
            self.put_back(prev, enq_flags);
        }
        self.vacate(prev);
    }

    /// Puts a task that was running and still could back into the queues (`put_prev_task_scx`).
    pub fn put_back(&mut self, prev: TaskId, enq_flags: u64) {
        let cpu = self.here();
        self.update_current();
        self.call_for(Operation::Stopping, prev, 1);
        self.end_stay(prev, false);
        self.tasks.move_to(prev, Place::Moving);
        if self.tasks.seen(prev).scx.slice > 0 {
            let local = self.queues.local(cpu);
            self.push(local, prev, flags::ENQ_HEAD, false);
        } else {
            self.enqueue(prev, enq_flags);
        }
        self.push_stranded();
    }

    /// Leaves the active CPU without its task.
    pub fn vacate(&mut self, task: TaskId) {
        let cpu = self.here();
        let state = &mut self.cpus[cpu];
        (state.current, state.activity, state.has_spun) = (None, Activity::Idle, false);
        self.tasks.seen_mut(task).on_cpu = 0;
    }

    /// Gets the active CPU's task off it, because it may not run here any more
    /// (`migration_cpu_stop`).
    pub fn expel(&mut self, task: TaskId) {
        self.preempt_current(task);
        let cpu = self.here();
        let cpu = self.fallback_cpu(task, cpu);
        self.migrate(task, cpu);
        self.push_stranded();
    }

    /// Puts the active CPU's task back, as for a kernel thread that needs the CPU, which is then
    /// without a task.
    pub fn preempt_current(&mut self, task: TaskId) {
        // So that its own queue does not wake this CPU up.
        self.picking.begin_choice();
        let own = self.queues.local(self.here());
        self.take(self.queues.get(own).lock);
        self.put_back(task, 0);
        self.vacate(task);
        self.picking.end_choice();
        self.unlock_queue(own);
        self.picking.end();
    }

    /// Ends a task's stay on the active CPU in the books.
    #[inline]
    fn end_stay(&mut self, task: TaskId, voluntarily: bool) {
        let (cpu, now_ns) = (self.here(), self.now_ns());
        let turnover_kib = self.cache_turnover_kib(cpu);
        let (seen, state) = self.tasks.both_mut(task);
        let count = if voluntarily { &mut seen.nvcsw } else { &mut seen.nivcsw };
        *count += 1;
        let ran_ns = now_ns - state.on_cpu_since_ns;
        state.totals.run_ns += ran_ns;
        state.cache_mark_kib = turnover_kib;
        state.waiting_since_ns = now_ns;
        state.woken = false;
        self.recorder.left(now_ns, cpu, task, ran_ns, voluntarily);
        if self.recorder.is_observed() {
            let left = Event::Left { task, cpu: cpu as u32, waits: !voluntarily };
            self.recorder.observe(now_ns, left);
            if !voluntarily {
                self.note_runnable(task);
            }
        }
    }

    /// Ends the current task's stay on the active CPU because it cannot go on
    /// (`dequeue_task_scx`). It stays current until [`schedule`](Self::schedule), which follows.
    pub fn block_current(&mut self, place: Place) {
        let task = self.update_current().expect("a task blocks itself");
        self.tasks.seen_mut(task).state = 1;
        self.picking.begin_switch();
        self.call_for(Operation::Stopping, task, 0);
        self.call_for(Operation::Quiescent, task, flags::DEQ_SLEEP);
        self.tasks.seen_mut(task).scx.flags &= !flags::TASK_QUEUED;
        self.end_stay(task, true);
        self.tasks.stops(task, place);
    }

    /// Starts a task on the active CPU (`set_next_task_scx` and the switch itself).
    fn set_next(&mut self, next: TaskId, prev: Option<TaskId>) {
        let cpu = self.here();
        let seen = self.tasks.seen_mut(next);
        if seen.scx.slice == 0 {
            seen.scx.slice = SLICE_DFL_NS;
        }
        seen.on_cpu = 1;
        seen.cpu = cpu as i32;
        self.tasks.move_to(next, Place::Running(cpu as u32));
        self.recorder.observe(self.now_ns(), Event::Taken { task: next, cpu: cpu as u32 });
        let state = &mut self.cpus[cpu];
        state.current = Some(next);
        if state.when(Await::Tick) == When::NEVER {
            self.leave_idle();
        }
        let state = &mut self.cpus[cpu];
        (state.exec_start_ns, state.activity) = (self.time.now_ns(), Activity::Syscall);
        self.call_for(Operation::Running, next, 0);
        let (waited_ns, woken) = self.charge_switch(next);
        let entry = Entry { task: next, put_back: prev, cpu, waited_ns, woken };
        self.recorder.entered(self.time.now_ns(), entry);
    }

    /// Charges the switch to a task: address space, how long it was away, migration, refilling its
    /// cache. How long it waited up to then, and whether for a wake-up's sake.
    #[inline]
    fn charge_switch(&mut self, next: TaskId) -> (u64, bool) {
        let here = self.here();
        let turnover_kib = self.cache_turnover_kib(here);
        let (costs, cpu) = (self.cpus.costs(), &self.cpus[here]);
        let (seen, state) = self.tasks.both_mut(next);
        let switches = cpu.switches + 1;
        let is_same_space = cpu.address_space == Some(state.address_space);
        let mut ns = if is_same_space { costs.thread_switch_ns } else { costs.context_switch_ns };
        let footprint_kib = u64::from(state.footprint_kib);
        let last = state.last_cpu.map_or(here, |last| last as usize);
        // A new task has nothing in any cache yet.
        let mut missing_kib = footprint_kib;
        if state.last_cpu == Some(here as u32) {
            let turned_kib = turnover_kib - state.cache_mark_kib;
            missing_kib =
                (turned_kib + footprint_kib).saturating_sub(costs.cache_kib).min(footprint_kib);
            if switches - state.switch_mark > WARM_SWITCHES {
                ns += costs.cold_switch_ns;
            }
        }
        let distance = self.cpus.distance(last, here);
        let refill_ns =
            missing_kib * costs.refill_ns_per_kib[distance] + costs.migration_ns[distance];
        if self.buses.are_there() {
            let bytes = (missing_kib << 10) + self.cpus.migration_bytes(distance);
            let fetch = Fetch { from: last, bytes, takes_ns: refill_ns, behind_ns: 0 };
            self.buses.fetch((&mut self.cpus, &mut self.time), fetch);
        }
        if last != here {
            self.recorder.migrated();
            state.totals.migrations += 1;
        }
        (state.switch_mark, state.last_cpu) = (switches, Some(here as u32));
        let cpu = &mut self.cpus[here];
        (cpu.address_space, cpu.switches) = (Some(state.address_space), switches);
        cpu.cache_turnover_kib += missing_kib;
        self.caches.refill(here, missing_kib << 10);
        cpu.spend(Spent::Switch, ns);
        cpu.spend(Spent::Refill, refill_ns);
        self.time.pass(ns + refill_ns);
        let now_ns = self.time.now_ns();
        let waited_ns = now_ns.checked_sub(state.waiting_since_ns);
        let waited_ns = waited_ns.expect("nobody runs before it is runnable");
        seen.sched_info.run_delay += waited_ns;
        seen.sched_info.pcount += 1;
        state.on_cpu_since_ns = now_ns;
        (waited_ns, state.woken)
    }

    // ---- idle, interrupts -------------------------------------------------------------------

    /// Interrupts an idle CPU costs leaving its sleep state.
    pub fn charge_wake_from_idle(&mut self) {
        if self.cpus[self.here()].current.is_none() {
            self.charge(Spent::Kernel, self.cpus.costs().idle_exit_ns);
        }
    }

    #[inline]
    pub fn become_idle(&mut self) {
        let cpu = self.here();
        let state = &mut self.cpus[cpu];
        let newly = state.when(Await::Tick) != When::NEVER;
        (state.activity, state.ends) = (Activity::Idle, When::NEVER);
        state.set_when(Await::Tick, When::NEVER);
        self.recorder.observe(self.now_ns(), Event::Idle { cpu: cpu as u32 });
        self.mark_idle(cpu);
        if newly {
            self.call_update_idle(cpu, true);
            self.refresh_mates(cpu);
        }
    }

    fn leave_idle(&mut self) {
        let cpu = self.here();
        self.mark_busy(cpu);
        self.cpus[cpu].set_when(Await::Tick, self.time.next_tick());
        self.call_update_idle(cpu, false);
        self.refresh_mates(cpu);
    }
}
