//! How a run ends: by the watchdog, a deadlock, a limit, or because all is done.

use crate::core::Core;
use crate::failure::{Failure, FailureKind};
use crate::kernel::Kernel;
use crate::object_calls::CALLS;
use crate::operations::Operation;
use crate::place::{Place, TaskId};
use crate::record::RecordError;
use crate::recorder::{Dump, Ending, RunResult, Status, summarize};
use crate::timer::Timer;
use bytecode::kind;

impl Kernel<'_> {
    /// `scx_watchdog_timeout`
    pub fn watchdog_timeout_ns(&self) -> u64 {
        match self.core.policy.timeout_ms() {
            0 => self.core.cpus.machine().watchdog_ns,
            ms => (u64::from(ms) * 1_000_000).min(self.core.cpus.machine().watchdog_ns),
        }
    }

    /// Looks for runnable tasks that have waited too long (`check_rq_for_timeouts`).
    pub fn watchdog(&mut self, now_ns: u64) {
        let timeout_ns = self.watchdog_timeout_ns();
        self.core.time.add_timer(now_ns + timeout_ns / 2, Timer::Watchdog);
        let stalled = (0..self.core.tasks.len() as TaskId).find(|&task| {
            let state = self.core.tasks.state(task);
            matches!(state.place, Place::Custody | Place::Queued(_))
                && now_ns.saturating_sub(state.waiting_since_ns) > timeout_ns
        });
        let Some(task) = stalled else { return };
        let state = self.core.tasks.state(task);
        let waited_ms = (now_ns - state.waiting_since_ns) / 1_000_000;
        let where_ = match state.place {
            Place::Queued(index) => {
                format!("it waits in dispatch queue {:#x}", self.core.queues.get(index).id())
            }
            _ => {
                let taken = "the policy took it in `enqueue` and has put it into no queue since";
                taken.to_owned() + &self.what_is_not_written()
            }
        };
        let message = format!(
            "runnable task stall ({} failed to run for {}.{:03}s); last enqueued on cpu {}: \
             {where_}",
            self.core.tasks.label(task),
            waited_ms / 1000,
            waited_ms % 1000,
            state.enqueued_on.map_or_else(|| "?".to_owned(), |cpu| cpu.to_string()),
        );
        let enqueued_on = state.enqueued_on;
        self.core.time.look_at(now_ns);
        self.core.fail_about(task, FailureKind::Stall, message);
        if let (Some(failure), Some(cpu)) = (self.core.recorder.failure_mut(), enqueued_on) {
            failure.cpu = Some(cpu as i32);
        }
    }

    /// That a policy waits for another program, if it has a map for what that writes.
    fn what_is_not_written(&self) -> String {
        let maps = &self.core.policy.given.object.maps;
        let ring = maps.iter().find(|map| map.kind == kind::USER_RINGBUF);
        ring.map_or(String::new(), |ring| {
            format!("; nothing runs beside a policy here, so nobody writes its map {}", ring.name)
        })
    }

    /// Whether no task can ever run again.
    pub fn is_deadlocked(&self) -> bool {
        let core = &self.core;
        core.tasks.nr_runnable() == 0 && !core.time.awaits_tasks() && !core.groups.is_moving()
    }

    /// Tasks are left at the last time that there is.
    pub fn end_of_time(&mut self) {
        if self.is_deadlocked() {
            self.report_deadlock();
        }
        if !self.core.recorder.has_failed() {
            let message = "the tasks take longer than can be simulated, 2^63 ns or 292 years";
            self.core.fail(FailureKind::Limit, message.to_owned());
        }
    }

    pub fn report_deadlock(&mut self) {
        let blocked = (0..self.core.tasks.len() as TaskId)
            .find(|&task| self.core.tasks.state(task).place == Place::Asleep);
        let Some(task) = blocked else {
            return self.core.fail(FailureKind::Limit, "nothing is left to happen".to_owned());
        };
        let state = self.core.tasks.state(task);
        let who = format!("{} at step {} of its program", self.core.tasks.label(task), state.pc);
        let message = match self.core.tasks.nr_alive() {
            1 => format!("deadlock: the one living task, {who}, waits for what nobody does"),
            nr => format!("deadlock: all {nr} living tasks wait for each other, among them {who}"),
        };
        self.core.fail_about(task, FailureKind::Deadlock, message);
    }

    /// Accounts for what is still going on, lets the policy say good-bye, and reports.
    ///
    /// # Errors
    /// If what was observed could not be kept.
    pub fn finish(mut self: Box<Self>, status: Status) -> Result<RunResult, RecordError> {
        let elapsed_ns = self.end_ns();
        for cpu in 0..self.core.cpus.len() {
            self.core.account_to_the_end(cpu, elapsed_ns);
        }
        let mut failure = self.core.recorder.take_failure();
        failure.iter_mut().for_each(|failure| self.core.place_failure(failure));
        let dump = self.dump_failure(failure.as_ref());
        failure.into_iter().for_each(|failure| self.core.recorder.fail(failure));
        self.close_stays(elapsed_ns);
        self.core.check_end(elapsed_ns);
        let mut failure = self.core.recorder.take_failure();
        self.say_goodbye(failure.is_some());
        let last = self.core.recorder.take_failure().filter(|last| last.kind.is_fault());
        let status = if last.is_some() { Status::Failed } else { status };
        failure = failure.or(last);
        let choices = self.choices.take().map(|choices| choices.into_made()).unwrap_or_default();
        let Core { recorder, policy, .. } = &mut self.core;
        if let (Some(profiler), Some(linked)) = (recorder.profiler(), policy.code()) {
            profiler.add(&linked.machine, |call| CALLS[call].0);
        }
        let nr_restarts = policy.nr_restarts();
        let policy_executed = policy.time.total();
        let ending =
            Ending { status, failure, elapsed_ns, choices, nr_restarts, dump, policy_executed };
        let Core { recorder, tasks, queues, cpus, .. } = self.core;
        summarize(recorder, &tasks, &cpus, &queues, ending)
    }

    /// When the run is over, as far as it went.
    pub fn end_ns(&mut self) -> u64 {
        let latest_ns = self.core.cpus.iter().map(|cpu| cpu.clock_ns()).max().unwrap_or(0);
        match self.core.recorder.failure_mut() {
            Some(failure) => latest_ns.max(failure.at_ns),
            None if self.core.tasks.nr_alive() == 0 => latest_ns,
            None => latest_ns.max(self.until_ns),
        }
    }

    /// The state of a run that failed, if it is asked for. A kernel asks a policy for it that ends
    /// by an error, whoever reads it.
    fn dump_failure(&mut self, failure: Option<&Failure>) -> Option<Dump> {
        let failure = failure?;
        let operations = [Operation::Dump, Operation::DumpCpu, Operation::DumpTask];
        let says = operations.iter().any(|&one| self.core.policy.has(one));
        let is_error = !matches!(failure.kind, FailureKind::PolicyExit | FailureKind::Deadlock);
        let is_made = self.dumps_failure || says && is_error;
        let dump = is_made.then(|| self.core.dump(failure.at_ns, Some(failure)));
        dump.filter(|_| self.dumps_failure)
    }

    /// Counts what tasks were in the middle of as if it had ended now: a task that starves to the
    /// end of the run must show in the waits.
    fn close_stays(&mut self, now_ns: u64) {
        for task in 0..self.core.tasks.len() as TaskId {
            let (seen, state) = self.core.tasks.both_mut(task);
            match state.place {
                Place::Running(cpu) => {
                    let ran_ns = now_ns.saturating_sub(state.on_cpu_since_ns);
                    state.totals.run_ns += ran_ns;
                    self.core.recorder.left(now_ns, cpu as usize, task, ran_ns, true);
                }
                Place::Custody | Place::Queued(_) => {
                    let waited_ns = now_ns.saturating_sub(state.waiting_since_ns);
                    seen.sched_info.run_delay += waited_ns;
                    self.core.recorder.waited(waited_ns, state.woken);
                }
                _ => {}
            }
        }
    }

    /// `ops.exit`. What it costs is after the end and counts for nothing.
    fn say_goodbye(&mut self, failed: bool) {
        const UNREGISTERED: u32 = 64;
        const ERROR: u32 = 1024;
        let spent = *self.core.cpus[self.core.here()].spent_ns();
        let time = self.core.policy.time;
        let kind = if failed { ERROR } else { UNREGISTERED };
        self.core.call_cgroup_exits();
        self.core.call_exit(kind, 0, "end of the run", "");
        let here = self.core.here();
        self.core.cpus[here].forget_spent(spent);
        self.core.policy.time.forget_since(time);
    }
}
