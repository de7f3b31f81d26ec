//! Calls into the policy.

use crate::abi::{DumpContext, ExitInfo, GroupInit};
use crate::core::Core;
use crate::failure::{FailureKind, told_number};
use crate::groups::{GroupId, Move};
use crate::linked::Syscall;
use crate::operations::Operation;
use crate::place::TaskId;
use crate::policy_state::Context;
use crate::releases;
use crate::visible::Placed;
use bytecode::{TimerCall, array_token};
use policy::Made;
use scenario::workload::GroupFile;

impl Core<'_> {
    /// What stands for a task in calls to the policy.
    fn shown_task(&self, task: TaskId) -> u64 {
        self.visible.task_address(task.into())
    }

    fn shown<T>(&self, at: *const T) -> u64 {
        self.visible.room.address(at)
    }

    /// Calls an operation with these arguments; `None` if the policy does not have it.
    #[inline]
    fn call(&mut self, operation: Operation, [a, b, c]: [u64; 3]) -> Option<u64> {
        let function = self.policy.operation(operation)?;
        Some(self.run_operation(operation, function, a, b, c))
    }

    /// Calls an operation that takes a task, and perhaps a word; `None` if there is none. Most
    /// policies lack most of them.
    #[inline]
    pub fn call_for(&mut self, operation: Operation, task: TaskId, word: u64) -> Option<u64> {
        let function = self.policy.operation(operation)?;
        Some(self.run_operation(operation, function, self.shown_task(task), word, 0))
    }

    /// `ops.dequeue` or `ops.quiescent` of a task that does not fall asleep, with the flags that
    /// the release has.
    pub fn call_leaving(&mut self, operation: Operation, task: TaskId, deq_flags: u64) {
        let unknown = releases::unknown_deq_flags(self.policy.given.release);
        self.call_for(operation, task, deq_flags & !unknown);
    }

    /// `ops.init`, between what the policy's loader calls; its return value, 0 if there is none.
    pub fn call_init(&mut self) -> i32 {
        // What its loader calls may end the run, and a dump of that names CPUs.
        self.make_cids();
        self.call_syscalls(false);
        if self.recorder.has_failed() {
            return 0;
        }
        if !self.call_init_cids() {
            return 0;
        }
        let result = self.call(Operation::Init, [0; 3]).unwrap_or(0) as i32;
        if result == 0 && !self.recorder.has_failed() {
            self.call_syscalls(true);
        }
        result
    }

    /// `ops.init_cids`, which may change the cids of CPUs; whether the run goes on.
    fn call_init_cids(&mut self) -> bool {
        if self.policy.takes_cids() {
            let result = self.call(Operation::InitCids, [0; 3]).unwrap_or(0) as i32;
            if result != 0 && !self.recorder.has_failed() {
                let message = format!("ops.init_cids() failed ({result}){}", told_number(result));
                self.fail(FailureKind::PolicyExit, message);
            }
        }
        self.publish_cids();
        !self.recorder.has_failed()
    }

    /// What the policy's loader calls, before the policy is attached or then.
    fn call_syscalls(&mut self, is_attached: bool) {
        let calls = self.policy.code().map_or(&[][..], |linked| &linked.calls);
        let calls: Vec<Syscall> =
            calls.iter().filter(|call| call.is_attached == is_attached).cloned().collect();
        // A loader goes no further where what it calls fails.
        let _ = calls.iter().all(|call| self.call_on_its_cpu(call));
    }

    /// Calls a program as its loader does, on the CPU that it asks for; whether that went well.
    /// The time is not that CPU's, which may be inside something: no task here is the loader.
    fn call_on_its_cpu(&mut self, call: &Syscall) -> bool {
        let (home, cpu) = (self.here(), call.cpu.unwrap_or(self.here()));
        if call.cpu.is_some() && !self.cpus[cpu].is_online {
            let message = format!("its loader cannot run on CPU {cpu} for {}", call.name);
            self.fail(FailureKind::PolicyExit, message);
            return false;
        }
        let (spent, time) = (self.cpus[cpu].spent(), self.policy.time);
        if cpu != home {
            self.visit(cpu);
        }
        let mut made = call.made.iter();
        let is_ready =
            made.all(|(by, made)| self.call_syscall(by) && self.give_made(by, made, call.context));
        let is_well = is_ready && self.call_syscall(call);
        if cpu != home {
            self.cpus[cpu].forget_since(spent);
            self.policy.time.forget_since(time);
            self.enter(home, self.now_ns());
        }
        is_well
    }

    /// Calls a program as its loader does; whether that went well, or else the run has ended.
    fn call_syscall(&mut self, call: &Syscall) -> bool {
        self.policy.begin(Context::Unlocked);
        let answer = self.run_syscall(call.function, call.context) as i32;
        self.policy.end();
        if answer != 0 && !self.recorder.has_failed() {
            let message = format!("{}, which its loader calls, answered {answer}", call.name);
            self.fail(FailureKind::PolicyExit, message);
        }
        !self.recorder.has_failed()
    }

    /// Fills what a program has made in the arena, and tells a call's context of it.
    fn give_made(&mut self, by: &Syscall, made: &Made, context: u64) -> bool {
        let mut linked = self.policy.take_code();
        let memory = linked.machine.memory_mut();
        let word = memory.bytes(by.context + made.from as u64, 8).expect("in a context");
        let address = u64::from_le_bytes(word.try_into().expect("8 bytes"));
        let to = memory.bytes_mut(context + made.to as u64, 8).expect("in a context");
        to.copy_from_slice(&address.to_le_bytes());
        let arena = memory.arena();
        let is_given = arena.is_some_and(|arena| {
            made.pieces
                .iter()
                .all(|(offset, bytes)| arena.fill(address.wrapping_add(*offset), bytes).is_some())
        });
        self.policy.put_code(linked);
        if !is_given {
            let name = &by.name;
            let message = format!("{name} made nothing in an arena: it left {address:#x}");
            self.fail(FailureKind::PolicyExit, message);
        }
        is_given
    }

    /// `ops.exit`
    pub fn call_exit(&mut self, kind: u32, exit_code: i64, reason: &str, message: &str) {
        if !self.policy.has(Operation::Exit) {
            return;
        }
        let visible = &mut self.visible;
        let mut text = |text: &str| {
            let address = visible.copy(&[text.as_bytes(), &[0]].concat(), true);
            std::ptr::without_provenance(address.unwrap_or(0) as usize)
        };
        let (reason, msg, dump) = (text(reason), text(message), text(""));
        let info = visible.place_for_policy(ExitInfo { kind, exit_code, reason, msg, dump });
        let info = self.shown(info.address());
        self.call(Operation::Exit, [info, 0, 0]);
    }

    /// `ops.select_cpu`; `None` if there is none.
    pub fn call_select_cpu(&mut self, task: TaskId, prev_cpu: i32, flags: u64) -> Option<i32> {
        let p = self.shown_task(task);
        Some(self.call(Operation::SelectCpu, [p, prev_cpu as u64, flags])? as i32)
    }

    /// `ops.dispatch`
    pub fn call_dispatch(&mut self, cpu: usize, prev: Option<TaskId>) {
        let p = prev.map_or(0, |task| self.shown_task(task));
        self.call(Operation::Dispatch, [cpu as u64, p, 0]);
    }

    /// `ops.init_task`; its return value, 0 if there is none.
    pub fn call_init_task(&mut self, task: TaskId, fork: bool) -> i32 {
        self.policy.given.init_task.fork = fork;
        self.policy.given.init_task.cgroup = self.tasks.seen(task).task_group;
        let arguments = self.shown(self.policy.given.init_task.address());
        self.call_for(Operation::InitTask, task, arguments).unwrap_or(0) as i32
    }

    /// `ops.exit_task`
    pub fn call_exit_task(&mut self, task: TaskId) {
        let arguments = self.shown(self.policy.given.exit_task.address());
        self.call_for(Operation::ExitTask, task, arguments);
    }

    /// `ops.dequeue` of a task that has left the policy's custody. Older releases of Linux have no
    /// such call, and so it takes no time of its own.
    pub fn call_dequeue_of_dispatched(&mut self, task: TaskId) {
        let Some(function) = self.policy.operation(Operation::Dequeue) else { return };
        let context = self.policy.end();
        self.run_free_operation(Operation::Dequeue, function, self.shown_task(task));
        self.policy.begin(context);
    }

    /// `ops.set_weight`
    pub fn call_set_weight(&mut self, task: TaskId) {
        let weight = self.tasks.seen(task).scx.weight;
        self.call_for(Operation::SetWeight, task, weight.into());
    }

    /// `ops.set_cpumask`
    pub fn call_set_cpumask(&mut self, task: TaskId) {
        let mask = self.tasks.seen(task).cpus_ptr.addr() as u64;
        self.call_for(Operation::SetCpumask, task, mask);
    }

    /// `ops.cpu_online` and `ops.cpu_offline`, with no run queue locked; whether there is one.
    /// It may strand tasks.
    pub fn call_hotplug(&mut self, cpu: usize, online: bool) -> bool {
        let operation = if online { Operation::CpuOnline } else { Operation::CpuOffline };
        self.set_online_cid(cpu, online);
        if !self.policy.has(operation) {
            return false;
        }
        self.policy.begin(Context::Unlocked);
        self.call(operation, [cpu as u64, 0, 0]);
        self.policy.end();
        true
    }

    /// `ops.cgroup_init` of each group, those above others first; a refusal ends the run.
    pub fn call_cgroup_inits(&mut self) {
        if !self.policy.has(Operation::CgroupInit) {
            return self.groups.set_nr_initialised(self.groups.len());
        }
        for group in 0..self.groups.len() {
            let arguments = self.groups.tell(group);
            let arguments = self.shown(arguments);
            self.policy.begin(Context::Unlocked);
            let given = [self.groups.shown(group), arguments, 0];
            let result = self.call(Operation::CgroupInit, given).unwrap_or(0) as i32;
            self.policy.end();
            if result != 0 && !self.recorder.has_failed() {
                let meaning = told_number(result);
                let message = format!("ops.cgroup_init() failed ({result}){meaning}");
                self.fail(FailureKind::PolicyExit, message);
            }
            if self.recorder.has_failed() {
                return;
            }
            self.groups.set_nr_initialised(group + 1);
        }
    }

    /// `ops.cgroup_exit` of each group that the policy knows, those below others first.
    pub fn call_cgroup_exits(&mut self) {
        for group in self.groups.post() {
            if !self.groups.is_initialised(group) {
                continue;
            }
            self.policy.begin(Context::Unlocked);
            self.call(Operation::CgroupExit, [self.groups.shown(group), 0, 0]);
            self.policy.end();
        }
        self.groups.set_nr_initialised(0);
    }

    /// `ops.cgroup_prep_move`, whose answer is 0 if there is none, and `ops.cgroup_cancel_move`,
    /// with no run queue locked. They may strand tasks.
    pub fn call_before_move(&mut self, operation: Operation, move_: Move) -> i32 {
        self.policy.begin(Context::Unlocked);
        let answer = self.call_of_move(operation, move_);
        self.policy.end();
        answer
    }

    /// `ops.cgroup_move`, with the task's run queue locked, and those before it; the answer is 0 if
    /// there is none.
    pub fn call_of_move(&mut self, operation: Operation, Move { task, from, to }: Move) -> i32 {
        let given = [self.shown_task(task), self.groups.shown(from), self.groups.shown(to)];
        self.call(operation, given).unwrap_or(0) as i32
    }

    /// `ops.cgroup_set_weight`, `_set_bandwidth` or `_set_idle`: a file of a group was written, and
    /// no run queue is locked. It may strand tasks.
    pub fn call_group_set(&mut self, group: GroupId, file: GroupFile, now: &GroupInit) {
        let shown = self.groups.shown(group);
        self.policy.begin(Context::Unlocked);
        match file {
            GroupFile::Weight => {
                self.call(Operation::CgroupSetWeight, [shown, now.weight.into(), 0]);
            }
            GroupFile::Idle => {
                self.call(Operation::CgroupSetIdle, [shown, now.sched_idle.into(), 0]);
            }
            GroupFile::Max | GroupFile::Burst => {
                let given = [shown, now.bw_period_us, now.bw_quota_us, now.bw_burst_us];
                if let Some(function) = self.policy.operation(Operation::CgroupSetBandwidth) {
                    self.run_set_bandwidth(function, given);
                }
            }
        }
        self.policy.end();
    }

    /// What the policy's maps have for each group goes, as the policy does.
    pub fn forget_groups(&mut self) {
        for group in 0..self.groups.len() {
            self.policy.maps.forget_group(self.groups.storage(group));
        }
    }

    /// `ops.update_idle`
    pub fn call_update_idle(&mut self, cpu: usize, idle: bool) {
        self.call(Operation::UpdateIdle, [cpu as u64, idle.into(), 0]);
    }

    /// `ops.dump`, `ops.dump_cpu` and `ops.dump_task`
    pub fn call_dump(
        &mut self,
        operation: Operation,
        context: &Placed<DumpContext>,
        [one, two]: [u64; 2],
    ) {
        self.call(operation, [self.shown(context.address()), one, two]);
    }

    /// The callback of one of the policy's timers. It may strand tasks.
    pub fn call_timer(&mut self, index: u32) {
        let Some(call) = self.policy.maps.timer_call(index) else { return };
        let TimerCall { callback, map, number, key, value } = call;
        let place = key.map(|key| {
            let mut place = self.policy.given.key_place(&mut self.visible);
            place[..key.len()].copy_from_slice(&key);
            place
        });
        let shown = place.as_ref().map(|place| self.shown(place.address()));
        self.policy.begin(Context::Unlocked);
        self.run_callback(callback, array_token(map), (number, shown), value);
        self.policy.maps.end_timer_call();
        self.policy.end();
        self.policy.given.keys.extend(place);
    }
}
