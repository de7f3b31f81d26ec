//! What tasks do: each operation of a program takes time, then has its effect.
//!
//! An effect happens when its event is due, never earlier, so a channel has room or is empty
//! exactly as the order of events says. An operation that cannot have its effect blocks the task
//! and is tried again when the task has been woken. An operation that wakes several tasks wakes one
//! an event, so that others act in between; it is preempted only when it has woken all.

mod messages;

use crate::failure::FailureKind;
use crate::flags::{WAKE_FORK, WAKE_TTWU};
use crate::kernel::Kernel;
use crate::observation::Allowed;
use crate::operations::Operation;
use crate::place::TaskId;
use crate::task::{FIRST_TRY, Releases};
use crate::timer::Timer;
use scenario::workload::{Amount, Op, Repeat};

/// What the next operation of a task takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// So many ns in the kernel.
    Syscall(u64),
    /// `State::left` of computing.
    Work,
}

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The task goes on.
    Goes,
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

    /// Passes operations without duration and says what the next one takes. `None`: the run has
    /// failed.
    pub fn begin_operation(&mut self, task: TaskId) -> Option<Takes> {
        for _ in 0..INSTANT_OPS_MAX {
            let state = self.core.tasks.state_mut(task);
            let op = state.program.get(state.pc as usize).copied().unwrap_or(Op::Exit);
            match op {
                Op::Loop { repeat, end } => self.enter_loop(task, repeat, end),
                Op::End { start } => self.end_round(task, start),
                Op::Mark => {
                    state.pc += 1;
                    self.core.recorder.mark(self.core.time.now_ns());
                }
                Op::Run(amount) => {
                    if state.phase == FIRST_TRY {
                        state.left = amount.draw(&mut state.random).saturating_mul(1000);
                        state.phase = RETRY;
                    }
                    if state.left > 0 {
                        return Some(Takes::Work);
                    }
                    state.next_operation();
                }
                Op::Done => {
                    state.pc += 1;
                    self.end_request(task);
                }
                // Its effect is over but for waking others.
                _ if state.phase == WAKING => return Some(Takes::Syscall(0)),
                op => {
                    let (is_first, bytes_left) = (state.phase == FIRST_TRY, state.bytes_left);
                    return Some(Takes::Syscall(self.duration_ns(op, is_first, bytes_left)));
                }
            }
        }
        let message = format!(
            "{} passed {INSTANT_OPS_MAX} operations in no time",
            self.core.tasks.label(task)
        );
        self.core.fail_about(task, FailureKind::Limit, message);
        None
    }

    fn next_operation(&mut self, task: TaskId) {
        self.core.tasks.state_mut(task).next_operation();
    }

    fn enter_loop(&mut self, task: TaskId, repeat: Repeat, end: u32) {
        let state = self.core.tasks.state_mut(task);
        let rounds = match repeat {
            Repeat::Times(amount) => amount.draw(&mut state.random),
            Repeat::Forever => u64::MAX,
            Repeat::WhileChildren => u64::from(state.children > 0),
        };
        if rounds == 0 {
            state.pc = end + 1;
            return;
        }
        state.loops[usize::from(state.loop_depth)].rounds = rounds;
        state.loop_depth += 1;
        state.pc += 1;
    }

    fn end_round(&mut self, task: TaskId, start: u32) {
        let state = self.core.tasks.state_mut(task);
        let Op::Loop { repeat, .. } = state.program[start as usize] else {
            unreachable!("an end points to its loop")
        };
        let frame = &mut state.loops[usize::from(state.loop_depth) - 1];
        match repeat {
            Repeat::Times(_) => frame.rounds -= 1,
            Repeat::Forever => {}
            Repeat::WhileChildren => frame.rounds = u64::from(state.children > 0),
        }
        if frame.rounds > 0 {
            state.pc = start + 1;
        } else {
            state.loop_depth -= 1;
            state.pc += 1;
        }
    }

    /// What an operation takes, when it is tried for the first time or again. `bytes_left` are
    /// those that a receiver still wants, if it has received some.
    fn duration_ns(&self, op: Op, is_first: bool, bytes_left: u32) -> u64 {
        let costs = self.core.cpus.costs();
        let cpu = self.core.here();
        let entry_ns = if is_first { costs.syscall_ns } else { 0 };
        match op {
            Op::Send { channel, bytes } => {
                let fetch_ns = self.fetch_channel_ns(channel, cpu);
                entry_ns + fetch_ns + costs.message_ns + self.copy_ns(bytes)
            }
            Op::Recv { channel, bytes } => {
                let wanted = if bytes_left > 0 { bytes_left } else { bytes };
                let ready = self.programs.channel(channel).content_bytes;
                let entry_ns = entry_ns + self.fetch_channel_ns(channel, cpu);
                if ready == 0 {
                    entry_ns
                } else {
                    let part = u64::from(wanted).min(ready) as u32;
                    let fetch_ns = self.fetch_message_ns(channel, part, cpu);
                    entry_ns + fetch_ns + costs.message_ns + self.copy_ns(part)
                }
            }
            Op::Sleep(_) | Op::Release { .. } => costs.syscall_ns + costs.timer_ns,
            Op::Fork { .. } => costs.fork_ns,
            Op::Exit => costs.exit_ns,
            Op::Wait { .. } | Op::Join => entry_ns,
            Op::Wake { .. }
            | Op::WakeAll { .. }
            | Op::Yield
            | Op::Nice(_)
            | Op::Affinity { .. } => costs.syscall_ns,
            Op::Run(_) | Op::Loop { .. } | Op::End { .. } | Op::Mark | Op::Done => 0,
        }
        .max(1)
    }

    // ---- after ------------------------------------------------------------------------------

    /// The effect of the operation that the current task has spent its time on.
    pub fn finish_operation(&mut self, task: TaskId) -> Outcome {
        let state = self.core.tasks.state(task);
        let op = state.program.get(state.pc as usize).copied().unwrap_or(Op::Exit);
        self.core.recorder.event();
        if state.phase == WAKING {
            self.wake_next(task, op);
            return Outcome::Goes;
        }
        match op {
            Op::Run(_) => {
                if self.core.tasks.state(task).left > 0 {
                    return Outcome::Goes;
                }
            }
            Op::Send { channel, bytes } => return self.send(task, channel, bytes),
            Op::Recv { channel, bytes } => {
                return self.receive(task, op, channel, bytes);
            }
            Op::Sleep(amount) => {
                let ns = amount.draw(&mut self.core.tasks.state_mut(task).random);
                self.next_operation(task);
                self.core
                    .time
                    .add_timer(self.core.now_ns().saturating_add(ns.max(1)), Timer::Sleep(task));
                return Outcome::Blocks;
            }
            Op::Release { every, deadline_ns } => {
                self.next_operation(task);
                return self.release(task, every, deadline_ns);
            }
            Op::Wake { gate } => {
                self.next_operation(task);
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
                self.core.tasks.state_mut(task).to_wake = gate.waiters.len() as u32;
                self.wake_next(task, op);
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
                let state = self.core.tasks.state_mut(task);
                if state.children > 0 {
                    state.joining = true;
                    return Outcome::Blocks;
                }
            }
            Op::Nice(nice) => self.core.renice(task, i32::from(nice)),
            Op::Affinity { set } => self.set_affinity(task, set),
            Op::Exit => return Outcome::Ends,
            Op::Loop { .. } | Op::End { .. } | Op::Mark | Op::Done => {
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

    /// Wakes up the first of those whom an operation still has to wake.
    fn wake_next(&mut self, task: TaskId, op: Op) {
        let state = self.core.tasks.state_mut(task);
        if state.to_wake > 0 {
            state.to_wake -= 1;
            match op {
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
                        None => self.core.tasks.state_mut(task).to_wake = 0,
                    }
                }
                _ => unreachable!("{op:?} wakes one task at the most"),
            }
        }
        self.end_if_all_are_awake(task);
    }

    /// Ends an operation that wakes others, or the present read of it, when it has woken all.
    fn end_if_all_are_awake(&mut self, task: TaskId) {
        let state = self.core.tasks.state_mut(task);
        if state.to_wake > 0 {
            state.phase = WAKING;
        } else if state.bytes_left > 0 {
            // A short read goes back to the kernel with a new system call.
            state.phase = FIRST_TRY;
        } else {
            self.next_operation(task);
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
    pub fn create(&mut self, template: u32, parent: Option<TaskId>) -> TaskId {
        let kind = &self.programs.workload().templates[template as usize];
        let random = self.programs.draws_of(self.core.tasks.len());
        self.core.create_task((template, kind), parent, random)
    }

    fn fork(&mut self, parent: TaskId, template: u32) {
        let child = self.create(template, Some(parent));
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
