//! Calls into the policy.

use crate::cpu::Spent;
use crate::failure::FailureKind;
use crate::kernel::{Context, Kernel};
use crate::operations::{Function, Operation};
use crate::place::TaskId;
use crate::policy_maps::{TimerCall, array_token};
use crate::world::ExitInfo;

impl Kernel<'_> {
    /// Charges an operation, and opens this kernel to calls from the policy.
    fn open(&mut self, operation: Operation) {
        self.charge(Spent::Scheduler, self.costs.hook_ns);
        self.given.operation = operation;
        if !self.walked.is_empty() {
            for index in std::mem::take(&mut self.walked) {
                self.queues.get_mut(index).walks -= 1;
            }
            self.visible.walks.clear();
            let message = "a walk over a dispatch queue was begun and not destroyed".to_owned();
            self.fail(FailureKind::BadCall, message);
        }
        let (now_ns, cpu) = (self.now_ns, self.cpu as u32);
        (self.visible.facts.now_ns, self.visible.facts.cpu) = (now_ns, cpu);
    }

    /// What stands for a task in calls to the policy.
    fn shown_task(&self, task: TaskId) -> u64 {
        self.shown(self.tasks.address(task))
    }

    fn shown<T>(&self, at: *const T) -> u64 {
        self.visible.address(at)
    }

    /// `ops.init`; its return value, 0 if there is none.
    pub fn call_init(&mut self) -> i32 {
        let Some(init) = self.ops.init else { return 0 };
        self.open(Operation::Init);
        self.run_operation(init, [0; 3]) as i32
    }

    /// `ops.exit`
    pub fn call_exit(&mut self, kind: u32, exit_code: i64, reason: &str, message: &str) {
        let Some(exit) = self.ops.exit else { return };
        let visible = &mut self.visible;
        let mut text =
            |text: &str| visible.copy(&[text.as_bytes(), &[0]].concat(), true).unwrap_or(0);
        let (reason, msg, dump) = (text(reason), text(message), text(""));
        let info = visible.place(ExitInfo { kind, exit_code, reason, msg, dump });
        let info = self.shown(info.address());
        self.open(Operation::Exit);
        self.run_operation(exit, [info, 0, 0]);
    }

    /// `ops.select_cpu`; the caller has checked that there is one.
    pub fn call_select_cpu(&mut self, task: TaskId, prev_cpu: i32, flags: u64) -> i32 {
        let select_cpu = self.ops.select_cpu.expect("checked by the caller");
        let p = self.shown_task(task);
        self.open(Operation::SelectCpu);
        self.run_operation(select_cpu, [p, prev_cpu as u64, flags]) as i32
    }

    /// `ops.dispatch`
    pub fn call_dispatch(&mut self, cpu: usize, prev: Option<TaskId>) {
        let Some(dispatch) = self.ops.dispatch else { return };
        let p = prev.map_or(0, |task| self.shown_task(task));
        self.open(Operation::Dispatch);
        self.run_operation(dispatch, [cpu as u64, p, 0]);
    }

    /// `ops.init_task`; its return value, 0 if there is none.
    pub fn call_init_task(&mut self, task: TaskId, fork: bool) -> i32 {
        let Some(init_task) = self.ops.init_task else { return 0 };
        self.given.init_task.fork = fork;
        let arguments = self.shown(self.given.init_task.address());
        let p = self.shown_task(task);
        self.open(Operation::InitTask);
        self.run_operation(init_task, [p, arguments, 0]) as i32
    }

    /// `ops.exit_task`
    pub fn call_exit_task(&mut self, task: TaskId) {
        let Some(exit_task) = self.ops.exit_task else { return };
        let arguments = self.shown(self.given.exit_task.address());
        let p = self.shown_task(task);
        self.open(Operation::ExitTask);
        self.run_operation(exit_task, [p, arguments, 0]);
    }

    /// `ops.stopping`
    pub fn call_stopping(&mut self, task: TaskId, runnable: bool) {
        self.call_with_flags(Operation::Stopping, self.ops.stopping, task, runnable.into());
    }

    /// `ops.yield`; whether there is one.
    pub fn call_yield(&mut self, task: TaskId) -> bool {
        let yield_ = self.ops.yield_;
        self.call_with_flags(Operation::Yield, yield_, task, 0);
        yield_.is_some()
    }

    /// `ops.set_weight`
    pub fn call_set_weight(&mut self, task: TaskId) {
        let weight = self.tasks.seen(task).scx.weight;
        self.call_with_flags(Operation::SetWeight, self.ops.set_weight, task, weight.into());
    }

    /// `ops.set_cpumask`
    pub fn call_set_cpumask(&mut self, task: TaskId) {
        let mask = self.tasks.seen(task).cpus_ptr.addr() as u64;
        self.call_with_flags(Operation::SetCpumask, self.ops.set_cpumask, task, mask);
    }

    /// `ops.cpu_online` and `ops.cpu_offline`, with no run queue locked; whether there is one.
    pub fn call_hotplug(&mut self, cpu: usize, online: bool) -> bool {
        let operation = if online { self.ops.cpu_online } else { self.ops.cpu_offline };
        let Some(operation) = operation else { return false };
        self.context = Context::Unlocked;
        let which = if online { Operation::CpuOnline } else { Operation::CpuOffline };
        self.open(which);
        self.run_operation(operation, [cpu as u64, 0, 0]);
        self.context = Context::Plain;
        self.push_stranded();
        true
    }

    /// `ops.update_idle`
    pub fn call_update_idle(&mut self, cpu: usize, idle: bool) {
        let Some(update_idle) = self.ops.update_idle else { return };
        self.open(Operation::UpdateIdle);
        self.run_operation(update_idle, [cpu as u64, idle.into(), 0]);
    }

    /// An operation that takes a task and a word, and which one it is.
    pub fn call_with_flags(
        &mut self,
        which: Operation,
        operation: Option<Function>,
        task: TaskId,
        flags: u64,
    ) {
        let Some(operation) = operation else { return };
        let p = self.shown_task(task);
        self.open(which);
        self.run_operation(operation, [p, flags, 0]);
    }

    /// An operation that takes a task, and which one it is.
    pub fn call_with_task(&mut self, which: Operation, operation: Option<Function>, task: TaskId) {
        self.call_with_flags(which, operation, task, 0);
    }

    /// The callback of one of the policy's timers.
    pub fn call_timer(&mut self, index: u32) {
        let Some(TimerCall { callback, map, key, value }) = self.maps.timer_call(index) else {
            return;
        };
        self.context = Context::Unlocked;
        self.open(Operation::Timer);
        let value = self.shown(value);
        self.run_callback(callback, array_token(map), key, value);
        self.context = Context::Plain;
        self.push_stranded();
    }
}
