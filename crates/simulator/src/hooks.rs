//! Calls into the policy.
//!
//! Before each call the policy's host pointer is set from the borrow that makes the call, so that
//! what the policy calls back works on this very kernel while nobody else uses it.

use crate::cpu::Spent;
use crate::failure::FailureKind;
use crate::kernel::{Context, Kernel};
use crate::place::TaskId;
use crate::progress::Operation;
use policy::abi;
use std::ptr::null_mut;

impl Kernel<'_> {
    /// Charges an operation, called for a task or for none, and opens this kernel to calls from the
    /// policy.
    fn open(&mut self, operation: Operation, task: Option<TaskId>) {
        self.charge(Spent::Scheduler, self.costs.hook_ns);
        if !self.walked.is_empty() {
            for index in std::mem::take(&mut self.walked) {
                self.queues.get_mut(index).walks -= 1;
            }
            let message = "a walk over a dispatch queue was begun and not destroyed".to_owned();
            self.fail(FailureKind::BadCall, message);
        }
        let host: *mut abi::Host = std::ptr::from_mut(self).cast();
        self.policy.set_host(host);
        if let Some(progress) = &self.progress {
            let task = task.map(|task| self.tasks.seen(task));
            progress.note(operation, self.here(), self.host.now_ns, task);
        }
    }

    /// Puts another copy of the policy in the place of the present one.
    pub fn adopt(&mut self, loaded: policy::Loaded) {
        // SAFETY: the loader promises a valid table as long as `loaded` lives; it is copied here.
        self.ops = unsafe { *loaded.ops };
        self.policy = loaded;
    }

    /// `ops.init`; its return value, 0 if there is none.
    pub fn call_init(&mut self) -> i32 {
        let Some(init) = self.ops.init else { return 0 };
        self.open(Operation::Init, None);
        // SAFETY: the host pointer is set; the policy was compiled against the same layout.
        unsafe { init() }
    }

    /// `ops.exit`
    pub fn call_exit(&mut self, info: &mut abi::ExitInfo) {
        let Some(exit) = self.ops.exit else { return };
        self.open(Operation::Exit, None);
        // SAFETY: as above; `info` outlives the call.
        unsafe { exit(info) }
    }

    /// `ops.select_cpu`; the caller has checked that there is one.
    pub fn call_select_cpu(&mut self, task: TaskId, prev_cpu: i32, flags: u64) -> i32 {
        let select_cpu = self.ops.select_cpu.expect("checked by the caller");
        let p = self.tasks.address(task);
        self.open(Operation::SelectCpu, Some(task));
        // SAFETY: as above; task structures never move.
        unsafe { select_cpu(p, prev_cpu, flags) }
    }

    /// `ops.dispatch`
    pub fn call_dispatch(&mut self, cpu: usize, prev: Option<TaskId>) {
        let Some(dispatch) = self.ops.dispatch else { return };
        let p = prev.map_or(null_mut(), |task| self.tasks.address(task));
        self.open(Operation::Dispatch, prev);
        // SAFETY: as above.
        unsafe { dispatch(cpu as i32, p) }
    }

    /// `ops.init_task`; its return value, 0 if there is none.
    pub fn call_init_task(&mut self, task: TaskId, fork: bool) -> i32 {
        let Some(init_task) = self.ops.init_task else { return 0 };
        let p = self.tasks.address(task);
        let mut args = abi::InitTaskArgs { fork, cgroup: null_mut() };
        self.open(Operation::InitTask, Some(task));
        // SAFETY: as above; `args` outlives the call.
        unsafe { init_task(p, &mut args) }
    }

    /// `ops.exit_task`
    pub fn call_exit_task(&mut self, task: TaskId) {
        let Some(exit_task) = self.ops.exit_task else { return };
        let p = self.tasks.address(task);
        let mut args = abi::ExitTaskArgs { cancelled: false };
        self.open(Operation::ExitTask, Some(task));
        // SAFETY: as above; `args` outlives the call.
        unsafe { exit_task(p, &mut args) }
    }

    /// `ops.stopping`
    pub fn call_stopping(&mut self, task: TaskId, runnable: bool) {
        let Some(stopping) = self.ops.stopping else { return };
        let p = self.tasks.address(task);
        self.open(Operation::Stopping, Some(task));
        // SAFETY: as above.
        unsafe { stopping(p, runnable) }
    }

    /// `ops.yield`; whether there is one.
    pub fn call_yield(&mut self, task: TaskId) -> bool {
        let Some(yield_) = self.ops.yield_ else { return false };
        let p = self.tasks.address(task);
        self.open(Operation::Yield, Some(task));
        // SAFETY: as above.
        unsafe { yield_(p, null_mut()) };
        true
    }

    /// `ops.set_weight`
    pub fn call_set_weight(&mut self, task: TaskId) {
        let Some(set_weight) = self.ops.set_weight else { return };
        let weight = self.tasks.seen(task).scx.weight;
        let p = self.tasks.address(task);
        self.open(Operation::SetWeight, Some(task));
        // SAFETY: as above.
        unsafe { set_weight(p, weight) }
    }

    /// `ops.set_cpumask`
    pub fn call_set_cpumask(&mut self, task: TaskId) {
        let Some(set_cpumask) = self.ops.set_cpumask else { return };
        let p = self.tasks.address(task);
        let mask = self.tasks.seen(task).cpus_ptr;
        self.open(Operation::SetCpumask, Some(task));
        // SAFETY: as above; the mask is the task's own or the kernel's, which never move.
        unsafe { set_cpumask(p, mask) }
    }

    /// `ops.cpu_online` and `ops.cpu_offline`, with no run queue locked; whether there is one.
    pub fn call_hotplug(&mut self, cpu: usize, online: bool) -> bool {
        let operation = if online { self.ops.cpu_online } else { self.ops.cpu_offline };
        let Some(operation) = operation else { return false };
        self.context = Context::Unlocked;
        let which = if online { Operation::CpuOnline } else { Operation::CpuOffline };
        self.open(which, None);
        // SAFETY: as above.
        unsafe { operation(cpu as i32) };
        self.context = Context::Plain;
        self.push_stranded();
        true
    }

    /// `ops.update_idle`
    pub fn call_update_idle(&mut self, cpu: usize, idle: bool) {
        let Some(update_idle) = self.ops.update_idle else { return };
        self.open(Operation::UpdateIdle, None);
        // SAFETY: as above.
        unsafe { update_idle(cpu as i32, idle) }
    }

    /// An operation that takes a task and flags, and which one it is.
    pub fn call_with_flags(
        &mut self,
        which: Operation,
        operation: Option<unsafe extern "C" fn(*mut abi::Task, u64)>,
        task: TaskId,
        flags: u64,
    ) {
        let Some(operation) = operation else { return };
        let p = self.tasks.address(task);
        self.open(which, Some(task));
        // SAFETY: as above.
        unsafe { operation(p, flags) }
    }

    /// An operation that takes a task, and which one it is.
    pub fn call_with_task(
        &mut self,
        which: Operation,
        operation: Option<unsafe extern "C" fn(*mut abi::Task)>,
        task: TaskId,
    ) {
        let Some(operation) = operation else { return };
        let p = self.tasks.address(task);
        self.open(which, Some(task));
        // SAFETY: as above.
        unsafe { operation(p) }
    }

    /// The callback of one of the policy's timers.
    pub fn call_timer(&mut self, index: u32) {
        let Some((callback, map, mut key, value)) = self.maps.timer_call(index) else { return };
        self.context = Context::Unlocked;
        self.open(Operation::Timer, None);
        // SAFETY: as above; the policy passed a callback of this type to bpf_timer_set_callback,
        // and map values never move.
        unsafe { callback(map, &mut key, value) };
        self.context = Context::Plain;
        self.push_stranded();
    }
}
