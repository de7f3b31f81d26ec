//! What tasks do: each operation of a program takes time, then has its effect.
//!
//! An effect happens when its event is due, never earlier, so a channel has room or is empty
//! exactly as the order of events says. An operation that cannot have its effect blocks the task
//! and is tried again when the task has been woken. An operation that wakes several tasks wakes one
//! an event, so that others act in between; it is preempted only when it has woken all.

mod messages;

use crate::cpu::Spent;
use crate::failure::{FailureKind, told_number};
use crate::flags::{WAKE_FORK, WAKE_TTWU};
use crate::kernel::Kernel;
use crate::observation::Allowed;
use crate::operations::Operation;
use crate::place::{Place, TaskId};
use crate::task::{NICE_WEIGHTS, Releases, nice_weight, scx_weight};
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

const FIRST_TRY: u8 = 0;
const RETRY: u8 = 1;
/// The operation is over but for waking others.
const WAKING: u8 = 2;

impl Kernel<'_> {
    // ---- before -----------------------------------------------------------------------------

    /// Passes operations without duration and says what the next one takes. `None`: the run has
    /// failed.
    pub fn begin_operation(&mut self, task: TaskId) -> Option<Takes> {
        for _ in 0..INSTANT_OPS_MAX {
            let state = self.tasks.state(task);
            let op = state.program.get(state.pc as usize).copied().unwrap_or(Op::Exit);
            match op {
                Op::Loop { repeat, end } => self.enter_loop(task, repeat, end),
                Op::End { start } => self.end_round(task, start),
                Op::Mark => {
                    self.metrics.mark(self.now_ns);
                    self.tasks.state_mut(task).pc += 1;
                }
                Op::Run(amount) => {
                    let state = self.tasks.state_mut(task);
                    if state.phase == FIRST_TRY {
                        state.left = amount.draw(&mut state.random).saturating_mul(1000);
                        state.phase = RETRY;
                    }
                    if state.left > 0 {
                        return Some(Takes::Work);
                    }
                    self.next_operation(task);
                }
                Op::Done => {
                    self.end_request(task);
                    self.tasks.state_mut(task).pc += 1;
                }
                op => return Some(Takes::Syscall(self.duration_ns(task, op))),
            }
        }
        let message =
            format!("{} passed {INSTANT_OPS_MAX} operations in no time", self.tasks.label(task));
        self.fail_about(task, FailureKind::Limit, message);
        None
    }

    fn next_operation(&mut self, task: TaskId) {
        let state = self.tasks.state_mut(task);
        state.pc += 1;
        state.phase = FIRST_TRY;
    }

    fn enter_loop(&mut self, task: TaskId, repeat: Repeat, end: u32) {
        let state = self.tasks.state_mut(task);
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
        let state = self.tasks.state_mut(task);
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

    fn duration_ns(&self, task: TaskId, op: Op) -> u64 {
        let costs = &self.costs;
        let state = self.tasks.state(task);
        let cpu = self.here();
        if state.phase == WAKING {
            return 0;
        }
        let entry_ns = if state.phase == FIRST_TRY { costs.syscall_ns } else { 0 };
        match op {
            Op::Send { channel, bytes } => {
                let fetch_ns = self.fetch_channel_ns(channel, cpu);
                entry_ns + fetch_ns + costs.message_ns + self.copy_ns(bytes)
            }
            Op::Recv { channel, bytes } => {
                let wanted = if state.bytes_left > 0 { state.bytes_left } else { bytes };
                let ready = self.channels[channel as usize].content_bytes;
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
        let state = self.tasks.state(task);
        let op = state.program.get(state.pc as usize).copied().unwrap_or(Op::Exit);
        self.metrics.events += 1;
        if state.phase == WAKING {
            self.wake_next(task, op);
            return Outcome::Goes;
        }
        match op {
            Op::Run(_) => {
                if self.tasks.state(task).left > 0 {
                    return Outcome::Goes;
                }
            }
            Op::Send { channel, bytes } => return self.send(task, channel as usize, bytes),
            Op::Recv { channel, bytes } => {
                return self.receive(task, op, channel as usize, bytes);
            }
            Op::Sleep(amount) => {
                let ns = amount.draw(&mut self.tasks.state_mut(task).random);
                self.next_operation(task);
                self.add_timer(self.now_ns.saturating_add(ns.max(1)), Timer::Sleep(task));
                return Outcome::Blocks;
            }
            Op::Release { every, deadline_ns } => {
                self.next_operation(task);
                return self.release(task, every, deadline_ns);
            }
            Op::Wake { gate } => {
                self.next_operation(task);
                let gate = &mut self.gates[gate as usize];
                match gate.waiters.pop_front() {
                    Some(waiter) => self.wake_past_gate(waiter),
                    None => gate.tokens += 1,
                }
                return Outcome::Goes;
            }
            Op::WakeAll { gate } => {
                let gate = &mut self.gates[gate as usize];
                gate.open = true;
                self.tasks.state_mut(task).to_wake = gate.waiters.len() as u32;
                self.wake_next(task, op);
                return Outcome::Goes;
            }
            Op::Wait { gate } => {
                let gate = &mut self.gates[gate as usize];
                if !gate.open && gate.tokens == 0 {
                    gate.waiters.push_back(task);
                    return Outcome::Blocks;
                }
                gate.tokens -= u64::from(!gate.open);
            }
            Op::Yield => self.yield_current(task),
            Op::Fork { template } => self.fork(task, template),
            Op::Join => {
                if self.tasks.state(task).children > 0 {
                    self.tasks.state_mut(task).joining = true;
                    return Outcome::Blocks;
                }
            }
            Op::Nice(nice) => self.renice(task, i32::from(nice)),
            Op::Affinity { set } => self.set_affinity(task, Allowed::Set(set)),
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
        let state = self.tasks.state_mut(task);
        if state.releases.every.is_none() {
            state.releases.last_at_ns = state.totals.born_at_ns;
        }
        let gap_ns = every.draw(&mut state.random);
        let at_ns = state.releases.last_at_ns.saturating_add(gap_ns);
        state.releases = Releases { last_at_ns: at_ns, every: Some((every, deadline_ns)) };
        state.request = Some(self.metrics.requests.release(task, at_ns, deadline_ns));
        if at_ns <= self.now_ns {
            return Outcome::Goes;
        }
        self.add_timer(at_ns, Timer::Sleep(task));
        Outcome::Blocks
    }

    /// The request that the task works on, if there is one, is done.
    fn end_request(&mut self, task: TaskId) {
        if let Some(request) = self.tasks.state_mut(task).request.take() {
            let name = self.tasks.name(request.by);
            self.metrics.requests.done(request, &name, self.now_ns);
        }
    }

    /// Whether the active CPU's task is in an operation that has more tasks to wake up.
    pub fn is_waking_others(&self) -> bool {
        let waking = |task| self.tasks.state(task).phase == WAKING;
        self.cpus[self.here()].current.is_some_and(waking)
    }

    /// Wakes up the first of those whom an operation still has to wake.
    fn wake_next(&mut self, task: TaskId, op: Op) {
        let state = self.tasks.state_mut(task);
        if state.to_wake > 0 {
            state.to_wake -= 1;
            match op {
                Op::WakeAll { gate } => {
                    if let Some(waiter) = self.gates[gate as usize].waiters.pop_front() {
                        self.wake_past_gate(waiter);
                    }
                }
                Op::Recv { channel, .. } => {
                    let last = state.last_to_wake;
                    let sync = self.sync_of(channel as usize);
                    let senders = &mut self.channels[channel as usize].senders;
                    match senders.front().copied().filter(|&(number, _)| number <= last) {
                        Some((_, sender)) => {
                            senders.pop_front();
                            self.wake_up(sender, WAKE_TTWU | sync);
                        }
                        // Another receiver has woken the rest.
                        None => self.tasks.state_mut(task).to_wake = 0,
                    }
                }
                _ => unreachable!("{op:?} wakes one task at the most"),
            }
        }
        self.end_if_all_are_awake(task);
    }

    /// Ends an operation that wakes others, or the present read of it, when it has woken all.
    fn end_if_all_are_awake(&mut self, task: TaskId) {
        let state = self.tasks.state_mut(task);
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
        self.wake_up(waiter, WAKE_TTWU);
    }

    fn yield_current(&mut self, task: TaskId) {
        self.update_current();
        if self.call_for(Operation::Yield, task, 0).is_none() {
            self.tasks.seen_mut(task).scx.slice = 0;
        }
        let cpu = self.here();
        self.cpus[cpu].need_resched = true;
    }

    /// Gives the current task another nice value (`set_user_nice`).
    fn renice(&mut self, task: TaskId, nice: i32) {
        let nice = nice.clamp(-20, NICE_WEIGHTS.len() as i32 - 21);
        if self.tasks.seen(task).static_prio == 120 + nice {
            return;
        }
        let weight = nice_weight(nice);
        self.change_current(task, |kernel| {
            let seen = kernel.tasks.seen_mut(task);
            seen.static_prio = 120 + nice;
            seen.normal_prio = 120 + nice;
            seen.prio = 120 + nice;
            seen.se.load.weight = weight;
            seen.scx.weight = scx_weight(weight);
            kernel.call_set_weight(task);
        });
    }

    fn fork(&mut self, parent: TaskId, template: u32) {
        let child = self.create_task(template, Some(parent));
        self.alive += 1;
        let state = self.tasks.state_mut(parent);
        state.children += 1;
        let request = state.request;
        self.tasks.state_mut(child).request = request;
        self.admit(child, true);
        if self.failure.is_none() {
            self.tasks.state_mut(child).totals.born_at_ns = self.now_ns;
            self.wake_up(child, WAKE_FORK);
        }
    }

    /// A new task comes to the policy.
    pub fn admit(&mut self, task: TaskId, fork: bool) {
        self.tasks.seen_mut(task).start_time = self.now_ns;
        self.introduce(task, fork);
    }

    /// Introduces a task to the policy (`scx_init_task`, `scx_enable_task`).
    pub fn introduce(&mut self, task: TaskId, fork: bool) {
        let result = self.call_init_task(task, fork);
        if result != 0 {
            let label = self.tasks.label(task);
            let message =
                format!("ops.init_task() failed ({result}) for {label}{}", told_number(result));
            return self.fail_about(task, FailureKind::PolicyExit, message);
        }
        self.call_for(Operation::Enable, task, 0);
        self.call_set_weight(task);
        if !fork {
            // The policy has not seen how its mask came about (`switching_to_scx`).
            self.call_set_cpumask(task);
        }
    }

    /// The books of a task that has just left its CPU for good (`exit_notify`).
    pub fn bury(&mut self, task: TaskId) {
        const PF_EXITING: u32 = 4;
        self.tasks.seen_mut(task).flags |= PF_EXITING;
        self.tasks.state_mut(task).totals.exited_at_ns = self.now_ns;
        self.metrics.last_exit_ns = self.now_ns;
        self.alive -= 1;
        let Some(parent) = self.tasks.state(task).parent else { return };
        let state = self.tasks.state_mut(parent);
        state.children -= 1;
        if state.children == 0 && state.joining && state.place == Place::Asleep {
            state.joining = false;
            self.wake_up(parent, WAKE_TTWU);
        }
    }

    /// Tells the policy that a task is gone (`sched_ext_free`): after the switch from it, so that
    /// `dispatch` still knows it.
    pub fn forget(&mut self, task: TaskId) {
        if std::mem::replace(&mut self.tasks.state_mut(task).is_forgotten, true) {
            return; // A policy that was loaded again has never known it.
        }
        self.call_for(Operation::Disable, task, 0);
        self.call_exit_task(task);
        self.maps.forget_task(&mut self.tasks.seen_mut(task).storage);
    }

    /// Interrupts an idle CPU costs leaving its sleep state.
    pub fn charge_wake_from_idle(&mut self) {
        if self.cpus[self.here()].current.is_none() {
            self.charge(Spent::Kernel, self.costs.idle_exit_ns);
        }
    }
}
