//! The main loop: takes events in their order and lets CPUs act on them.

use crate::Dumps;
use crate::agenda::{NEVER_NS, TIME_NS_MAX, When};
use crate::core::Core;
use crate::cpu::{Activity, Await, Spent};
use crate::dump::DUMPS_MAX;
use crate::failure::{FailureKind, told_number};
use crate::flags::{WAKE_FORK, WAKE_TTWU};
use crate::kernel::Kernel;
use crate::operations::Operation;
use crate::place::{Place, TaskId};
use crate::program::Outcome;
use crate::record::RecordError;
use crate::recorder::{Dump, RunResult, Status};
use crate::timer::Timer;
use scenario::draw::Lineage;

/// How often one interrupt looks for timers that have come due meanwhile.
/// Source: Linux kernel/time/hrtimer.c, `hrtimer_interrupt`.
const TIMER_ROUNDS_MAX: usize = 3;

impl Kernel<'_> {
    /// Runs from the first task to the end and reports.
    ///
    /// # Errors
    /// If what was observed could not be kept.
    pub fn run(mut self: Box<Self>) -> Result<RunResult, RecordError> {
        self.start();
        let stop_ns = self.programs.workload().stop_at_ns.unwrap_or(NEVER_NS);
        let caller_ns = self.until_ns;
        self.until_ns = stop_ns.min(caller_ns);
        self.go_on();
        if self.until_ns >= TIME_NS_MAX && self.core.tasks.nr_alive() > 0 {
            self.end_of_time();
        }
        let status = if self.core.recorder.has_failed() {
            Status::Failed
        } else if self.core.tasks.nr_alive() == 0 || stop_ns <= caller_ns {
            Status::Completed
        } else {
            Status::Stopped
        };
        self.finish(status)
    }

    /// The states that are asked for, as far as the run comes to them; not that of a run that has
    /// failed, which the run itself tells.
    pub fn dumps(mut self: Box<Self>, asked: &Dumps) -> Vec<Dump> {
        self.start();
        let stop_ns = self.programs.workload().stop_at_ns.unwrap_or(NEVER_NS);
        let until_ns = self.until_ns.min(stop_ns);
        let mut times = asked.at_ns.clone();
        times.sort_unstable();
        let mut dumps = Vec::new();
        for at_ns in times.into_iter().take_while(|&at_ns| at_ns <= until_ns).take(DUMPS_MAX) {
            self.until_ns = at_ns;
            self.go_on();
            if self.core.recorder.has_failed() || self.core.tasks.nr_alive() == 0 {
                break;
            }
            dumps.push(self.core.dump(at_ns, None));
        }
        self.until_ns = until_ns;
        if asked.at_end {
            self.go_on();
            let end_ns = self.end_ns();
            let has_failed = self.core.recorder.has_failed();
            dumps.extend((!has_failed).then(|| self.core.dump(end_ns, None)));
        }
        dumps
    }

    /// Takes events up to the end of the time.
    fn go_on(&mut self) {
        while !self.core.recorder.has_failed() && self.core.tasks.nr_alive() > 0 {
            let (when, place) = self.next_event();
            if when.at_ns > self.until_ns {
                break;
            }
            if when.at_ns == NEVER_NS || self.is_deadlocked() {
                self.report_deadlock();
                break;
            }
            let (goes_on, ticked) = if place == self.core.time.timers_place() {
                (self.timer_event(), false)
            } else {
                self.cpu_event(place, when)
            };
            if goes_on {
                self.advance();
            }
            if ticked {
                self.skip_ticks(when.at_ns);
            }
            self.check_event(when);
        }
    }

    // ---- beginning --------------------------------------------------------------------------

    fn start(&mut self) {
        let result = self.core.call_init();
        if result != 0 && !self.core.recorder.has_failed() {
            self.core.fail(
                FailureKind::PolicyExit,
                format!("ops.init() failed ({result}){}", told_number(result)),
            );
        }
        if !self.core.recorder.has_failed() {
            self.core.call_cgroup_inits();
        }
        let workload = self.programs.workload();
        for (number, initial) in (0..).zip(&workload.initial) {
            if self.core.recorder.has_failed() {
                return;
            }
            let task = self.create(initial.template, None, Lineage::initial(number));
            if workload.starts_everywhere {
                self.core.start_elsewhere(task);
            }
            self.core.admit(task, false);
            self.core.time.add_timer(initial.start_at_ns, Timer::Start(task));
        }
        if self.core.policy.takes_cids() {
            self.core.wake_all();
        }
        for (number, change) in workload.changes.iter().enumerate() {
            self.core.time.add_timer(change.at_ns, Timer::Change(number as u32));
        }
        self.core.time.add_timer(self.watchdog_timeout_ns() / 2, Timer::Watchdog);
        self.core.begin_background();
        for (number, step) in (0..).zip(&self.core.cpus.machine().speeds) {
            self.core.time.add_timer(step.at_ns, Timer::Speed(number));
        }
    }

    // ---- events -----------------------------------------------------------------------------

    /// What comes to a CPU; whether that goes on with its task, and whether it was a tick.
    fn cpu_event(&mut self, cpu: usize, when: When) -> (bool, bool) {
        let Core { cpus, tasks, time, .. } = &mut self.core;
        let state = &mut cpus[cpu];
        if when != state.ends {
            return self.interruption(cpu, when);
        }
        let computed = state.account(when.at_ns);
        let task = state.current.expect("an operation belongs to a task");
        (state.activity, state.ends) = (Activity::Syscall, When::NEVER);
        if computed > 0 {
            tasks.state_mut(task).compute(computed);
        }
        let decides = std::mem::take(&mut state.decides);
        time.begin(cpu, when.at_ns);
        if !decides {
            self.conclude(task);
        }
        (true, false)
    }

    /// What comes to a CPU from outside.
    #[inline(never)]
    fn interruption(&mut self, cpu: usize, when: When) -> (bool, bool) {
        let state = &mut self.core.cpus[cpu];
        let what = state.awaited_at(when).expect("it is the first of what is awaited");
        let clock_ns = state.clock_ns();
        if when.at_ns < clock_ns {
            // Its CPU is inside something that cannot be interrupted: until that is carried out,
            // whatever else happens earlier comes first.
            state.set_when(what, self.core.time.turn(clock_ns));
            self.core.publish(cpu);
            return (false, false);
        }
        self.core.enter(cpu, when.at_ns);
        self.core.recorder.event();
        match what {
            Await::Tick => self.tick(),
            Await::LateTimers => self.late_timers(),
            Await::Interrupt => {
                self.core.cpus[cpu].set_when(Await::Interrupt, When::NEVER);
                self.core.charge_wake_from_idle();
                self.core.cpus[cpu].need_resched = true;
            }
        }
        (self.leave(when.at_ns), what == Await::Tick)
    }

    /// The periodic timer interrupt (`task_tick_scx`).
    fn tick(&mut self) {
        let cpu = self.core.here();
        self.core.cpus[cpu].set_when(Await::Tick, self.core.time.next_tick());
        self.core.recorder.tick();
        self.core.charge(Spent::Kernel, self.core.cpus.costs().tick_ns);
        let Some(task) = self.core.cpus[cpu].current else { return };
        self.core.account_ticks(task, self.core.cpus[cpu].activity, 1);
        self.core.update_current();
        self.core.call_for(Operation::Tick, task, 0);
        if self.core.tasks.seen(task).scx.slice == 0 {
            self.core.cpus[cpu].need_resched = true;
        }
    }

    /// A timer comes; whether the CPU that it interrupts goes on with its task.
    fn timer_event(&mut self) -> bool {
        let Some((when, timer)) = self.core.time.take_timer() else { return false };
        match timer {
            Timer::Watchdog => {
                self.core.recorder.event();
                self.watchdog(when.at_ns);
                return false;
            }
            Timer::Speed(number) => {
                self.core.recorder.event();
                self.core.change_speeds(number, when.at_ns);
                return false;
            }
            Timer::Background(source) => self.core.await_background(source, when.at_ns),
            _ => {}
        }
        let Some(cpu) = self.cpu_of(timer) else { return false };
        let state = &mut self.core.cpus[cpu];
        if when.at_ns < state.clock_ns() || !state.late_timers.is_empty() {
            state.late_timers.push_back(timer);
            if state.when(Await::LateTimers) == When::NEVER {
                state.set_when(Await::LateTimers, self.core.time.turn(state.clock_ns()));
                self.core.publish(cpu);
            }
            return false;
        }
        self.core.recorder.event();
        self.core.enter(cpu, when.at_ns);
        self.core.charge_wake_from_idle();
        self.expire(timer);
        if !timer.is_separate() {
            self.expire_due();
        }
        self.leave(when.at_ns)
    }

    /// Timers of the active CPU that have come due meanwhile belong to the same interrupt: whom
    /// they wake up is there when the CPU picks (`hrtimer_interrupt`). One that is set meanwhile
    /// waits for the next round.
    fn expire_due(&mut self) {
        for _ in 0..TIMER_ROUNDS_MAX {
            let round = self.core.time.turn(self.core.now_ns());
            let mut any = false;
            while let Some((when, timer)) = self.core.time.peek_timer()
                && when < round
                && !timer.is_separate()
                && self.cpu_of(timer) == Some(self.core.here())
            {
                self.core.time.take_timer();
                self.core.recorder.event();
                self.expire(timer);
                any = true;
            }
            if !any {
                break;
            }
        }
    }

    /// The timers that the active CPU had no time for: the first one and, in the same interrupt,
    /// those behind it.
    fn late_timers(&mut self) {
        let cpu = self.core.here();
        self.core.charge_wake_from_idle();
        let first = self.core.cpus[cpu].late_timers.pop_front().expect("there is a late timer");
        self.expire(first);
        while !first.is_separate()
            && let Some(&timer) = self.core.cpus[cpu].late_timers.front()
            && !timer.is_separate()
        {
            self.core.cpus[cpu].late_timers.pop_front();
            self.expire(timer);
        }
        let next = match self.core.cpus[cpu].late_timers.is_empty() {
            true => When::NEVER,
            false => self.core.time.turn(self.core.now_ns()),
        };
        self.core.cpus[cpu].set_when(Await::LateTimers, next);
        if !first.is_separate() && self.core.cpus[cpu].late_timers.is_empty() {
            self.expire_due();
        }
    }

    /// A timer's interrupt on the active CPU.
    fn expire(&mut self, timer: Timer) {
        match timer {
            Timer::Policy(index, generation) => {
                if self.core.policy.maps.expiry_cpu(index, generation).is_none() {
                    return; // It was cancelled or set anew while it was late.
                }
            }
            Timer::Background(source) => return self.core.take_background(source),
            _ => self.core.time.expired(timer),
        }
        self.core.charge(Spent::Kernel, self.core.cpus.costs().timer_ns);
        match timer {
            Timer::Start(task) => {
                self.core.tasks.state_mut(task).totals.born_at_ns = self.core.now_ns();
                self.core.wake_up(task, WAKE_FORK);
            }
            Timer::Sleep(task) => self.core.wake_up(task, WAKE_TTWU),
            Timer::Policy(index, _) => {
                self.core.call_timer(index);
                self.core.push_stranded();
            }
            Timer::Change(number) => self.make_change(number),
            Timer::Affinity(task, number) => self.change_affinity_of(task, number),
            Timer::Move(task, number) => self.core.finish_move_of_number(task, number),
            Timer::Watchdog | Timer::Speed(_) | Timer::Background(_) => {
                unreachable!("{timer:?} is no timer of a CPU's")
            }
        }
    }

    /// Ends an interruption of the active CPU that began at `entered_ns`; whether it goes on with
    /// the next operation.
    fn leave(&mut self, entered_ns: u64) -> bool {
        let cpu = self.core.here();
        let interrupted_ns = self.core.now_ns() - entered_ns;
        let state = &mut self.core.cpus[cpu];
        match state.activity {
            Activity::Syscall => {
                state.ends = self.core.time.turn(state.ends.at_ns + interrupted_ns);
            }
            Activity::Work | Activity::Idle if state.need_resched => {
                state.ends = When::NEVER;
                return true;
            }
            Activity::Work => self.core.plan_end_of_work(cpu),
            Activity::Idle | Activity::Offline => {}
        }
        self.core.publish(cpu);
        false
    }

    /// Lets the active CPU go on from the end of an operation or an interruption.
    fn advance(&mut self) {
        let cpu = self.core.here();
        if self.core.recorder.has_failed() {
            return self.core.publish(cpu);
        }
        let state = &self.core.cpus[cpu];
        let mut current = state.current;
        if state.need_resched && !self.is_waking_others() {
            if state.current.is_some() && self.core.waits_to_decide() {
                return self.decide_later();
            }
            self.pick();
            current = self.core.cpus[cpu].current;
        }
        let Some(task) = current else { return self.core.publish(cpu) };
        let Some((activity, takes_ns)) = self.begin_operation(cpu, task) else {
            return self.core.publish(cpu);
        };
        let time = &mut self.core.time;
        let ends = time.turn(time.now_ns().saturating_add(takes_ns));
        let state = &mut self.core.cpus[cpu];
        (state.activity, state.ends) = (activity, ends);
        time.set_next(cpu, state.next_event());
    }

    /// The active CPU has the lock from now on, and picks once all that comes before is done.
    fn decide_later(&mut self) {
        let cpu = self.core.here();
        let ends = self.core.time.turn(self.core.now_ns());
        let state = &mut self.core.cpus[cpu];
        (state.activity, state.ends, state.decides) = (Activity::Syscall, ends, true);
        self.core.publish(cpu);
    }

    /// Lets the active CPU pick a task, or go if it is to go offline.
    fn pick(&mut self) {
        if self.core.cpus[self.core.here()].leaves {
            self.core.update_current();
            return self.core.go_offline();
        }
        self.core.schedule();
    }

    /// The effect of the operation that has just ended on the active CPU.
    fn conclude(&mut self, task: TaskId) {
        match self.finish_operation(task) {
            Outcome::Goes | Outcome::Spins => {}
            Outcome::Blocks => {
                self.core.block_current(Place::Asleep);
                self.pick();
            }
            Outcome::Ends => {
                self.core.finish_move(task);
                self.core.block_current(Place::Exited);
                // The kernel tells the parent first.
                self.core.picking.end();
                if let Some(parent) = self.core.bury(task) {
                    self.core.wake_up(parent, WAKE_TTWU);
                }
                self.pick();
                self.core.forget(task);
            }
        }
    }
}
