//! Operations of a policy's object, run.

use crate::core::Core;
use crate::failure::{Failure, FailureKind};
use crate::linked::{Linked, Mode};
use crate::operations::{Function, Operation};
use crate::place::TaskId;
use bytecode::{Fault, FaultKind, Program};

impl Core<'_> {
    /// Calls an operation of an object; its answer, 0 after a fault, which ends the run. It is given
    /// the arguments one by one, so that they need not pass through memory twice.
    #[inline(never)]
    pub fn run_operation(
        &mut self,
        operation: Operation,
        function: Function,
        a: u64,
        b: u64,
        c: u64,
    ) -> u64 {
        self.open(operation);
        let mut linked = self.policy.take_code();
        *linked.arguments = [a, b, c];
        let at = self.visible.room.address(linked.arguments.address());
        if self.policy.is_strict() {
            let given = &mut self.policy.given;
            given.arguments = (at, 8 * operation.parameters());
            given.may_sleep = linked.sleepable.contains(&function.0);
        }
        self.run_function(linked, function.0 as usize, [at, 0, 0, 0, 0], a)
    }

    /// Calls what a timer calls.
    pub fn run_callback(&mut self, callback: u64, map: u64, key: u32, value: u64) {
        self.open(Operation::Timer);
        let mut linked = self.policy.take_code();
        *linked.key = key;
        let at = self.visible.room.address(linked.key.address());
        self.policy.given.may_sleep = false;
        let number = linked.machine.program().function_at(callback);
        let number = number.expect("a callback, which was a function when it was set");
        self.run_function(linked, number, [map, at, value, 0, 0], 0);
    }

    /// Calls a function; `whom` it is for is the address of a task, or is none.
    #[inline(always)]
    fn run_function(
        &mut self,
        mut linked: Box<Linked>,
        number: usize,
        arguments: [u64; 5],
        whom: u64,
    ) -> u64 {
        self.policy.given.had_failed = self.recorder.has_failed();
        let answer = linked.machine.call(self, number, arguments);
        self.catch_up();
        // No closure: it would want all that it needs in memory.
        let answer = match answer {
            Ok(answer) => answer,
            Err(fault) => {
                self.fault(&fault, linked.machine.program(), whom);
                0
            }
        };
        if self.policy.given.mode != Mode::Translated {
            self.count_call(&mut linked);
        }
        self.policy.put_code(linked);
        answer
    }

    /// Counts the instructions of the present operation.
    #[cold]
    #[inline(never)]
    fn count_call(&mut self, linked: &mut Linked) {
        let instructions = linked.machine.instructions();
        linked.count_watched(&mut self.policy.given.watched);
        if let Some(profiler) = self.recorder.profiler() {
            profiler.count(self.policy.given.operation, instructions);
        }
    }

    /// Puts the place of the call that was wrong before what is said of it.
    pub fn place_failure(&self, failure: &mut Failure) {
        let (Some(place), Some(linked)) = (self.policy.given.failed_at, self.policy.code()) else {
            return;
        };
        if failure.kind.is_of_calls() {
            let place = linked.machine.program().place(place as usize);
            failure.message = format!("{place}: {}", failure.message);
        }
    }

    /// Ends the run by what a program did wrong, on behalf of `whom`.
    #[cold]
    fn fault(&mut self, fault: &Fault, program: &Program, whom: u64) {
        let is_endless = matches!(fault.kind, FaultKind::Endless(_));
        let kind = if is_endless { FailureKind::Limit } else { FailureKind::Fault };
        let message = fault.told(program);
        match self.visible.task_number(whom) {
            Some(task) => self.fail_about(task as TaskId, kind, message),
            None => self.fail(kind, message),
        }
    }
}
