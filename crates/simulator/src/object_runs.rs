//! Operations of a policy's object, run.

use crate::failure::FailureKind;
use crate::kernel::Kernel;
use crate::linked::ARGUMENTS_MAX;
use crate::object_calls::CALLS;
use crate::operations::Function;
use crate::visible::Placed;
use crate::world::written_fields;
use bytecode::{Host, Run, Size, Stop};
use policy::abi;

/// What is no policy's fault.
const ONE_AT_A_TIME: &str = "no operation runs inside another";

impl Kernel<'_> {
    /// Calls an operation of an object; its answer, 0 after a fault, which ends the run.
    pub fn run_operation(&mut self, function: Function, arguments: [u64; ARGUMENTS_MAX]) -> u64 {
        let linked = self.code.linked().as_mut().expect(ONE_AT_A_TIME);
        *linked.arguments = arguments;
        let at = self.visible.address(linked.arguments.address());
        self.run_function(function.0 as usize, [at, 0, 0, 0, 0])
    }

    /// Calls what a timer calls.
    pub fn run_callback(&mut self, callback: u64, map: u64, key: u32, value: u64) {
        let linked = self.code.linked().as_mut().expect(ONE_AT_A_TIME);
        *linked.key = key;
        let at = self.visible.address(linked.key.address());
        match linked.machine.program().function_at(callback) {
            Some(number) => drop(self.run_function(number, [map, at, value, 0, 0])),
            None => self.fail(FailureKind::BadCall, "a timer's callback is no function".to_owned()),
        }
    }

    fn run_function(&mut self, number: usize, arguments: [u64; 5]) -> u64 {
        let mut linked = self.code.linked().take().expect(ONE_AT_A_TIME);
        let answer = linked.machine.call(self, number, arguments).unwrap_or_else(|fault| {
            self.fail(FailureKind::Fault, fault.told(linked.machine.program()));
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

    /// The fields of an idle task, which is in no row.
    fn may_write(&self, address: u64, size: Size) -> bool {
        let is_task = |at: usize| {
            address.checked_sub(at as u64).is_some_and(|task| self.task_at(task).is_some())
        };
        size == Size::Double && written_fields().into_iter().any(is_task)
    }
}
