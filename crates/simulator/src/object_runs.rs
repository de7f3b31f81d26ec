//! Operations of a policy's object, run.

use crate::failure::FailureKind;
use crate::kernel::Kernel;
use crate::object_calls::CALLS;
use crate::operations::Function;
use crate::visible::Placed;
use bytecode::{Host, Memory, Run, Size, Stop};
use policy::abi;
use std::mem::offset_of;

/// Instructions after which an operation is taken to be one that does not return.
const INSTRUCTIONS_MAX: u64 = 1 << 30;

impl Kernel<'_> {
    /// Calls an operation of an object; its answer, 0 after a fault, which ends the run.
    pub fn run_operation(&mut self, function: Function, arguments: &[u64]) -> u64 {
        let linked = self.code.linked().as_mut().expect("no operation runs inside another");
        linked.arguments[..arguments.len()].copy_from_slice(arguments);
        let at = linked.arguments.address();
        let at = self.visible.address(at);
        self.run_function(function.0 as usize, [at, 0, 0, 0, 0])
    }

    /// Calls what a timer calls.
    pub fn run_callback(&mut self, callback: u64, map: u64, key: u32, value: u64) {
        let linked = self.code.linked().as_mut().expect("no operation runs inside another");
        *linked.key = key;
        let at = self.visible.address(linked.key.address());
        match linked.program.function_at(callback) {
            Some(number) => drop(self.run_function(number, [map, at, value, 0, 0])),
            None => self.fail(FailureKind::BadCall, "a timer's callback is no function".to_owned()),
        }
    }

    fn run_function(&mut self, number: usize, arguments: [u64; 5]) -> u64 {
        let linked = self.code.linked().take().expect("no operation runs inside another");
        let mut memory = self.visible.lend();
        let translation = linked.translation.as_ref().filter(|_| !self.given.interpreted);
        let mut run = Run::new(&linked.program, &mut memory, self, INSTRUCTIONS_MAX);
        if let Some(translation) = translation {
            run = run.translated(translation);
        }
        let answer = run.function(number, arguments);
        self.visible.give_back(memory);
        let answer = answer.unwrap_or_else(|fault| {
            self.fail(FailureKind::Fault, fault.told(&linked.program));
            0
        });
        *self.code.linked() = Some(linked);
        answer
    }

    /// The task, or idle task, whose structure is at an address that the policy gave.
    pub fn task_at(&self, shown: u64) -> Option<*mut abi::Task> {
        if let Some(number) = self.visible.task_number(shown) {
            return Some(self.tasks.address(number as u32));
        }
        let mut idle = self.idle_tasks.iter().map(Placed::address);
        idle.find(|&task| self.visible.address(task) == shown)
    }
}

impl Host for Kernel<'_> {
    fn call(run: &mut Run<'_, Self>, number: usize, arguments: [u64; 5]) -> Result<u64, Stop> {
        CALLS[number].1(run, arguments)
    }

    /// A policy may write two fields of a task (Linux kernel/sched/ext.c,
    /// `bpf_scx_btf_struct_access`).
    fn write(&mut self, memory: &mut Memory, address: u64, size: Size, value: u64) -> bool {
        const FIELDS: [usize; 2] =
            [offset_of!(abi::Task, scx.slice), offset_of!(abi::Task, scx.dsq_vtime)];
        let is_task = |at: usize| {
            address.checked_sub(at as u64).is_some_and(|task| self.task_at(task).is_some())
        };
        size.bytes() == 8
            && FIELDS.into_iter().any(is_task)
            && memory.store(address, size, value).is_some()
    }
}
