//! Operations of a policy's object, run.

use crate::core::Core;
use crate::failure::{Failure, FailureKind};
use crate::linked::{ARGUMENTS_MAX, Mode};
use crate::operations::Function;
use crate::place::TaskId;
use bytecode::{Fault, FaultKind, Program};

impl Core<'_> {
    /// Calls an operation of an object; its answer, 0 after a fault, which ends the run.
    pub fn run_operation(&mut self, function: Function, arguments: [u64; ARGUMENTS_MAX]) -> u64 {
        let (linked, given) = self.policy.parts();
        *linked.arguments = arguments;
        let at = self.visible.room.address(linked.arguments.address());
        if given.mode == Mode::Strict {
            given.arguments = (at, 8 * given.operation.parameters());
            given.may_sleep = linked.sleepable.contains(&function.0);
        }
        self.run_function(function.0 as usize, [at, 0, 0, 0, 0], arguments[0])
    }

    /// Calls what a timer calls.
    pub fn run_callback(&mut self, callback: u64, map: u64, key: u32, value: u64) {
        let (linked, given) = self.policy.parts();
        *linked.key = key;
        let at = self.visible.room.address(linked.key.address());
        given.may_sleep = false;
        match linked.machine.program().function_at(callback) {
            Some(number) => drop(self.run_function(number, [map, at, value, 0, 0], 0)),
            None => self.fail(FailureKind::BadCall, "a timer's callback is no function".to_owned()),
        }
    }

    /// Calls a function; `whom` it is for is the address of a task, or is none.
    #[inline]
    fn run_function(&mut self, number: usize, arguments: [u64; 5], whom: u64) -> u64 {
        let mut linked = self.policy.take_code();
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
        linked.count_watched(&mut self.policy.given.watched);
        if self.recorder.profiler().is_some() {
            self.count_call(linked.machine.instructions());
        }
        self.policy.put_code(linked);
        answer
    }

    /// Counts the instructions of the present operation.
    #[cold]
    #[inline(never)]
    fn count_call(&mut self, instructions: u64) {
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
