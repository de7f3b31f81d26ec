//! What tasks do: each operation of a program takes time, then has its effect.
//!
//! An effect happens when its event is due, never earlier, so a channel has room or is empty
//! exactly as the order of events says. An operation that cannot have its effect blocks the task
//! and is tried again when the task has been woken. An operation that wakes several tasks wakes one
//! an event, so that others act in between; it is preempted only when it has woken all.

mod messages;

use crate::cpu::Activity;
use crate::failure::FailureKind;
use crate::flags::{WAKE_FORK, WAKE_TTWU};
use crate::kernel::Kernel;
use crate::observation::Allowed;
use crate::operations::Operation;
use crate::place::TaskId;
use crate::task::{FIRST_TRY, Releases, State};
use crate::timer::Timer;
use scenario::draw::Lineage;
use scenario::machine::Costs;
use scenario::workload::{Amount, Op, Repeat};

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The task goes on.
    Goes,
    /// The task would wait, but its CPU has to wait for a lock first, and then it tries again.
    Spins,
    /// The task waits.
    Blocks,
    /// The task has ended.
    Ends,
}

/// Operations without duration that a task may pass in a row.
const INSTANT_OPS_MAX: usize = 1 << 16;

const RETRY: u8 = 1;
/// The operation is over but for waking others.
const WAKING: u8 = 2;

impl Kernel<'_> {
    // ---- before -----------------------------------------------------------------------------

    /// Passes operations without duration and says what the active CPU does for the next one, and
    /// for how many ns. `None`: the run has failed.
    pub fn begin_operation(&mut self, cpu: usize, task: TaskId) -> Option<(Activity, u64)> {
        for _ in 0..INSTANT_OPS_MAX {
            let state = self.core.tasks.state_mut(task);
            let op = state.program.get(state.pc as usize).unwrap_or(&Op::Exit);
            let is_first = state.phase == FIRST_TRY;
            let ns = match *op {
                Op::Loop { ref repeat, end } => {
                    let rounds = match repeat {
                        Repeat::Times(amount) => amount.draw(&mut state.random),
                        Repeat::Forever => u64::MAX,
                        Repeat::WhileChildren => u64::from(state.children > 0),
                    };
                    enter_loop(state, rounds, end);
                    continue;
                }
                Op::End { start } => {
                    end_round(state, start);
                    continue;
                }
                Op::Run(ref amount) => {
                    if is_first {
                        let work_ns = amount.draw(&mut state.random);
                        let Some(left) = work_ns.checked_mul(1000) else {
                            self.refuse_work(task, work_ns);
                            return None;
                        };
                        (state.left, state.phase) = (left, RETRY);
                    }
                    if state.left > 0 {
                        return Some((Activity::Work, self.core.cpus[cpu].work_ns(state.left)));
                    }
                    state.next_operation();
                    continue;
                }
                Op::Mark => {
                    state.pc += 1;
                    self.core.recorder.mark(self.core.time.now_ns());
                    continue;
                }
                Op::Tare => {
                    state.pc += 1;
                    self.core.recorder.tare(self.core.time.now_ns());
                    continue;
                }
                Op::Done => {
                    state.pc += 1;
                    self.end_request(task);
                    continue;
                }
                Op::Send { channel, bytes } => self.sending_ns(channel, bytes, is_first),
                // Its effect is over but for waking others.
                _ if state.phase == WAKING => return Some((Activity::Syscall, 0)),
                Op::Recv { channel, bytes } => {
                    let wanted = if state.bytes_left > 0 { state.bytes_left } else { bytes };
                    self.receiving_ns(channel, wanted, is_first)
                }
                ref op => duration_ns(op, is_first, self.core.cpus.costs()),
            };
            return Some((Activity::Syscall, ns.max(1)));
        }
        let message = format!(
            "{} passed {INSTANT_OPS_MAX} operations in no time",
            self.core.tasks.label(task)
        );
        self.core.fail_about(task, FailureKind::Limit, message);
        None
    }

    #[cold]
    fn refuse_work(&mut self, task: TaskId, work_ns: u64) {
        let who = self.core.tasks.label(task);
        let most = u64::MAX / 1000;
        let message = format!("{who} is to compute {work_ns} ns in one step, more than {most}");
        self.core.fail_about(task, FailureKind::Limit, message);
    }

    fn next_operation(&mut self, task: TaskId) {
        self.core.tasks.state_mut(task).next_operation();
    }

    // ---- after ------------------------------------------------------------------------------

    /// The effect of the operation that the current task has spent its time on.
    pub fn finish_operation(&mut self, task: TaskId) -> Outcome {
        self.core.recorder.event();
        let state = self.core.tasks.state_mut(task);
        if state.phase == WAKING {
            self.wake_next(task);
            return Outcome::Goes;
        }
        match *state.program.get(state.pc as usize).unwrap_or(&Op::Exit) {
            Op::Run(_) => {
                if state.left == 0 {
                    state.next_operation();
                }
                return Outcome::Goes;
            }
            Op::Send { channel, bytes } => return self.send(task, channel, bytes),
            Op::Recv { channel, bytes } => return self.receive(task, channel, bytes),
            Op::Sleep(ref amount) => {
                let ns = amount.draw(&mut state.random);
                state.next_operation();
                self.core
                    .time
                    .add_timer(self.core.now_ns().saturating_add(ns.max(1)), Timer::Sleep(task));
                return Outcome::Blocks;
            }
            Op::Release { every, deadline_ns } => {
                state.next_operation();
                return self.release(task, every, deadline_ns);
            }
            Op::Move { to } => return self.move_itself(task, to),
            Op::Wake { gate } => {
                state.next_operation();
                let gate = self.programs.gate_mut(gate);
                match gate.waiters.pop_front() {
                    Some(waiter) => self.wake_past_gate(waiter),
                    None => gate.tokens += 1,
                }
                return Outcome::Goes;
            }
            Op::WakeAll { gate } => {
                let gate = self.programs.gate_mut(gate);
                gate.open = true;
                state.to_wake = gate.waiters.len() as u32;
                self.wake_next(task);
                return Outcome::Goes;
            }
            Op::Wait { gate } => {
                if !self.programs.gate_mut(gate).pass(task) {
                    return Outcome::Blocks;
                }
            }
            Op::Yield => self.yield_current(task),
            Op::Fork { template } => self.fork(task, template),
            Op::Join => {
                if state.children > 0 {
                    state.joining = true;
                    return Outcome::Blocks;
                }
            }
            Op::Nice(nice) => self.core.renice(task, i32::from(nice)),
            Op::Affinity { set } => self.set_affinity(task, set),
            Op::Exit => return Outcome::Ends,
            Op::Loop { .. } | Op::End { .. } | Op::Mark | Op::Tare | Op::Done => {
                unreachable!("these take no time")
            }
        }
        self.next_operation(task);
        Outcome::Goes
    }

    /// Begins the task's next request when it is due; sleeps until then.
    fn release(&mut self, task: TaskId, every: Amount, deadline_ns: u64) -> Outcome {
        let state = self.core.tasks.state_mut(task);
        if state.releases.every.is_none() {
            state.releases.last_at_ns = state.totals.born_at_ns;
        }
        let gap_ns = every.draw(&mut state.random);
        let at_ns = state.releases.last_at_ns.saturating_add(gap_ns);
        state.releases = Releases { last_at_ns: at_ns, every: Some((every, deadline_ns)) };
        state.request = Some(self.core.recorder.requests().release(task, at_ns, deadline_ns));
        if at_ns <= self.core.now_ns() {
            return Outcome::Goes;
        }
        self.core.time.add_timer(at_ns, Timer::Sleep(task));
        Outcome::Blocks
    }

    /// Moves the task's process into a group; sleeps until all of it are there.
    fn move_itself(&mut self, task: TaskId, to: Option<u32>) -> Outcome {
        self.next_operation(task);
        match self.core.move_own_process(task, to) {
            true => Outcome::Goes,
            false => Outcome::Blocks,
        }
    }

    /// The request that the task works on, if there is one, is done.
    fn end_request(&mut self, task: TaskId) {
        if let Some(request) = self.core.tasks.state_mut(task).request.take() {
            let name = self.core.tasks.name(request.by);
            let now_ns = self.core.now_ns();
            self.core.recorder.requests().done(request, &name, now_ns);
        }
    }

    /// Whether the active CPU's task is in an operation that has more tasks to wake up.
    pub fn is_waking_others(&self) -> bool {
        let waking = |task| self.core.tasks.state(task).phase == WAKING;
        self.core.cpus[self.core.here()].current.is_some_and(waking)
    }

    /// Wakes up the first of those whom an operation still has to wake, if there is one.
    fn wake_next(&mut self, task: TaskId) {
        if self.core.tasks.state(task).to_wake > 0 {
            self.wake_one(task);
        }
        self.end_if_all_are_awake(task);
    }

    /// Wakes up the first of those whom an operation still has to wake.
    fn wake_one(&mut self, task: TaskId) {
        let state = self.core.tasks.state_mut(task);
        state.to_wake -= 1;
        match state.program[state.pc as usize] {
            Op::WakeAll { gate } => {
                if let Some(waiter) = self.programs.gate_mut(gate).waiters.pop_front() {
                    self.wake_past_gate(waiter);
                }
            }
            Op::Recv { channel, .. } => {
                let last = state.last_to_wake;
                let sync = self.programs.sync_of(channel);
                let senders = &mut self.programs.channel_mut(channel).senders;
                match senders.front().copied().filter(|&(number, _)| number <= last) {
                    Some((_, sender)) => {
                        senders.pop_front();
                        self.core.wake_up(sender, WAKE_TTWU | sync);
                    }
                    // Another receiver has woken the rest.
                    None => state.to_wake = 0,
                }
            }
            ref op => unreachable!("{op:?} wakes one task at the most"),
        }
    }

    /// Ends an operation that wakes others, or the present read of it, when it has woken all.
    #[inline]
    fn end_if_all_are_awake(&mut self, task: TaskId) {
        let state = self.core.tasks.state_mut(task);
        if state.to_wake > 0 {
            state.phase = WAKING;
        } else if state.bytes_left > 0 {
            // A short read goes back to the kernel with a new system call.
            state.phase = FIRST_TRY;
        } else {
            state.next_operation();
        }
    }

    /// A waiter has been given its token: it does not look again.
    fn wake_past_gate(&mut self, waiter: TaskId) {
        self.next_operation(waiter);
        self.core.wake_up(waiter, WAKE_TTWU);
    }

    fn yield_current(&mut self, task: TaskId) {
        self.core.update_current();
        if self.core.call_for(Operation::Yield, task, 0).is_none() {
            self.core.tasks.seen_mut(task).scx.slice = 0;
        }
        let cpu = self.core.here();
        self.core.cpus[cpu].need_resched = true;
    }

    fn set_affinity(&mut self, task: TaskId, set: u32) {
        let mask = self.core.mask_of_set(&self.programs.workload().cpu_sets[set as usize]);
        self.core.move_to_cpus(task, &mask, Allowed::Set(set));
    }

    /// A new task of a template, unknown to the policy.
    pub fn create(&mut self, template: u32, parent: Option<TaskId>, lineage: Lineage) -> TaskId {
        let kind = &self.programs.workload().templates[template as usize];
        let random = self.programs.draws_of(lineage);
        let task = self.core.create_task((template, kind), parent, random);
        self.core.tasks.state_mut(task).lineage = lineage;
        task
    }

    fn fork(&mut self, parent: TaskId, template: u32) {
        self.core.finish_move(parent);
        let nr_initial = self.programs.workload().initial.len();
        let lineage = self.core.tasks.state_mut(parent).lineage.next_child(nr_initial);
        let child = self.create(template, Some(parent), lineage);
        let core = &mut self.core;
        let state = core.tasks.state_mut(parent);
        state.children += 1;
        let request = state.request;
        core.tasks.state_mut(child).request = request;
        core.admit(child, true);
        if !core.recorder.has_failed() {
            core.tasks.state_mut(child).totals.born_at_ns = core.time.now_ns();
            core.wake_up(child, WAKE_FORK);
        }
    }
}

fn enter_loop(state: &mut State, rounds: u64, end: u32) {
    if rounds == 0 {
        state.pc = end + 1;
        return;
    }
    state.loops[usize::from(state.loop_depth)].rounds = rounds;
    state.loop_depth += 1;
    state.pc += 1;
}

fn end_round(state: &mut State, start: u32) {
    let rounds = &mut state.loops[usize::from(state.loop_depth) - 1].rounds;
    *rounds -= 1;
    let asks_children =
        || matches!(state.program[start as usize], Op::Loop { repeat: Repeat::WhileChildren, .. });
    if *rounds == 0 && state.children > 0 && asks_children() {
        *rounds = 1;
    }
    if *rounds > 0 {
        state.pc = start + 1;
    } else {
        state.loop_depth -= 1;
        state.pc += 1;
    }
}

/// What an operation takes that is no message, when it is tried for the first time or again.
fn duration_ns(op: &Op, is_first: bool, costs: &Costs) -> u64 {
    match op {
        Op::Sleep(_) | Op::Release { .. } => costs.syscall_ns + costs.timer_ns,
        Op::Fork { .. } => costs.fork_ns,
        Op::Exit => costs.exit_ns,
        Op::Wait { .. } | Op::Join => entry_ns(is_first, costs),
        Op::Wake { .. }
        | Op::WakeAll { .. }
        | Op::Yield
        | Op::Nice(_)
        | Op::Affinity { .. }
        | Op::Move { .. } => costs.syscall_ns,
        Op::Send { .. } | Op::Recv { .. } => unreachable!("{op:?} is a message"),
        Op::Run(_) | Op::Loop { .. } | Op::End { .. } | Op::Mark | Op::Tare | Op::Done => 0,
    }
}

/// What it takes to get into the kernel, where an operation that is tried again is already.
fn entry_ns(is_first: bool, costs: &Costs) -> u64 {
    if is_first { costs.syscall_ns } else { 0 }
}
