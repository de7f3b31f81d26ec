//! Ticks between which nothing else happens, all at once.
//!
//! Where tasks compute and the policy has no `tick`, a tick takes its time and counts the slice
//! down. As long as no slice ends, so many rounds of ticks of all CPUs have a closed form; what
//! they leave is what they leave one by one, and what follows has the same order.

use crate::agenda::When;
use crate::core::Core;
use crate::cpu::{Activity, Await, Spent};
use crate::enqueueing::SLICE_INF;
use crate::kernel::Kernel;
use crate::operations::Operation;
use crate::place::TaskId;

/// A CPU that ticks: when, and its task.
type Ticking = (When, usize, TaskId);

impl Core<'_> {
    /// So many ticks found a task at this; a kernel takes it to have done that for a tick's time
    /// each (`account_process_tick`).
    pub fn account_ticks(&mut self, task: TaskId, activity: Activity, ticks: u64) {
        let ns = ticks * self.time.tick_period_ns();
        let seen = self.tasks.seen_mut(task);
        let of = if activity == Activity::Work { &mut seen.utime } else { &mut seen.stime };
        *of += ns;
    }
}

impl Kernel<'_> {
    /// After a tick at `at_ns`, makes those ticks that surely come before anything else does.
    pub fn skip_ticks(&mut self, at_ns: u64) {
        let time = &self.core.time;
        let (next, place) = time.first();
        if place == time.timers_place()
            || self.core.cpus[place].when(Await::Tick) != next
            || !time.ticks_together()
            || next.at_ns != at_ns + time.tick_period_ns()
            || !next.at_ns.is_multiple_of(time.tick_period_ns())
            || self.core.recorder.has_failed()
            || self.core.policy.has(Operation::Tick)
            || self.choices.is_some()
        {
            return;
        }
        let Some((mut ticking, rounds)) = self.silent_rounds(next.at_ns) else { return };
        ticking.sort_unstable();
        let last_ns = next.at_ns + (rounds - 1) * self.core.time.tick_period_ns();
        for &(_, cpu, task) in &ticking {
            self.tick_until(cpu, task, rounds, last_ns);
        }
        self.core.recorder.ticks(rounds * ticking.len() as u64);
    }

    /// The CPUs that tick at `first_ns`, and how many rounds of ticks come before anything else;
    /// none if there is none.
    fn silent_rounds(&self, first_ns: u64) -> Option<(Vec<Ticking>, u64)> {
        let core = &self.core;
        let period_ns = core.time.tick_period_ns();
        let timer_ns = core.time.peek_timer().map_or(u64::MAX, |(when, _)| when.at_ns);
        let mut before_ns = timer_ns.min(self.until_ns.saturating_add(1));
        let mut rounds = u64::MAX;
        let mut ticking = Vec::new();
        for (number, cpu) in core.cpus.iter().enumerate() {
            let [tick, interrupt, late] =
                [Await::Tick, Await::Interrupt, Await::LateTimers].map(|what| cpu.when(what));
            before_ns = before_ns.min(cpu.ends.at_ns).min(interrupt.at_ns).min(late.at_ns);
            if tick == When::NEVER {
                continue;
            }
            let task = cpu.current.filter(|_| cpu.activity == Activity::Work)?;
            if tick.at_ns != first_ns
                || cpu.clock_ns() > first_ns
                || cpu.exec_start_ns > first_ns
                || cpu.need_resched
            {
                return None;
            }
            let slice_ns = core.tasks.seen(task).scx.slice;
            if slice_ns != SLICE_INF {
                let first_ran_ns = first_ns + core.cpus.costs().tick_ns - cpu.exec_start_ns;
                let left_ns = slice_ns.checked_sub(first_ran_ns + 1)?;
                rounds = rounds.min(left_ns / period_ns + 1);
            }
            ticking.push((tick, number, task));
        }
        let fit = before_ns.checked_sub(first_ns + 1)? / period_ns + 1;
        let counted = core.recorder.events_left() / ticking.len() as u64;
        let rounds = rounds.min(fit).min(counted);
        (core.cpus.costs().tick_ns < period_ns && rounds > 0).then_some((ticking, rounds))
    }

    /// Lets a CPU make so many ticks, the last at `last_ns`.
    fn tick_until(&mut self, cpu: usize, task: TaskId, rounds: u64, last_ns: u64) {
        let core = &mut self.core;
        let tick_ns = core.cpus.costs().tick_ns;
        let state = &mut core.cpus[cpu];
        // It computes up to each of them.
        let computes_ns = last_ns - state.clock_ns() - (rounds - 1) * tick_ns;
        state.spend(Spent::Work, computes_ns);
        state.spend(Spent::Kernel, rounds * tick_ns);
        core.tasks.state_mut(task).left -= computes_ns * state.speed_permille;
        core.time.begin(cpu, last_ns);
        core.time.pass(tick_ns);
        core.account_ticks(task, Activity::Work, rounds);
        core.update_current();
        core.cpus[cpu].set_when(Await::Tick, core.time.next_tick());
        core.plan_end_of_work(cpu);
        core.publish(cpu);
    }
}
