//! Operations of a policy's object, run.

use crate::core::Core;
use crate::cpu::Spent;
use crate::failure::{Failure, FailureKind};
use crate::linked::Linked;
use crate::operations::{Function, Operation};
use crate::place::TaskId;
use crate::world::{WorldKind, world};
use bytecode::{Executed, Fault, FaultKind};

impl Core<'_> {
    /// Calls an operation of an object; its answer, 0 after a fault, which ends the run. It is
    /// given the arguments one by one, so that they need not pass through memory twice.
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
        self.run_opened(function, a, b, c)
    }

    /// The same of one that takes a word, and no time beyond what it calls.
    #[cold]
    pub fn run_free_operation(&mut self, operation: Operation, function: Function, a: u64) -> u64 {
        self.open_free(operation);
        self.run_opened(function, a, 0, 0)
    }

    /// Calls the one operation that has a fourth argument, which the others never write.
    #[cold]
    pub fn run_set_bandwidth(&mut self, function: Function, [a, b, c, d]: [u64; 4]) {
        self.open(Operation::CgroupSetBandwidth);
        let mut linked = self.policy.take_code();
        linked.arguments.last = d;
        self.policy.put_code(linked);
        self.run_opened(function, a, b, c);
    }

    #[inline(always)]
    fn run_opened(&mut self, function: Function, a: u64, b: u64, c: u64) -> u64 {
        let mut linked = self.policy.take_code();
        linked.arguments.first = [a, b, c];
        let at = self.policy.arguments_at();
        self.run_code(linked, function.0 as usize, at, 0, 0)
    }

    /// Calls what a timer calls; the key is a number, if it has no place.
    pub fn run_callback(
        &mut self,
        callback: u64,
        map: u64,
        (number, key_at): (u32, Option<u64>),
        value: u64,
    ) {
        self.open(Operation::Timer);
        let mut linked = self.policy.take_code();
        *linked.key = number;
        let at = key_at.unwrap_or_else(|| self.visible.room.address(linked.key.address()));
        let number = linked.machine.program().function_at(callback);
        let number = number.expect("a callback, which was a function when it was set");
        self.run_code(linked, number, map, at, value);
    }

    /// Calls a function that a loader calls, and gives its answer.
    pub fn run_syscall(&mut self, function: u64, context: u64) -> u64 {
        self.open(Operation::Syscall);
        let linked = self.policy.take_code();
        self.run_code(linked, function as usize, context, 0, 0)
    }

    /// Calls a function and puts back what runs.
    #[inline(always)]
    fn run_code(&mut self, mut linked: Box<Linked>, number: usize, a: u64, b: u64, c: u64) -> u64 {
        let answer = if self.policy.given.runs_as_is {
            self.run_function(&mut linked, number, a, b, c)
        } else {
            self.run_looked_at(&mut linked, number, a, b, c)
        };
        self.policy.put_code(linked);
        answer
    }

    #[inline(always)]
    fn run_function(&mut self, linked: &mut Linked, number: usize, a: u64, b: u64, c: u64) -> u64 {
        self.policy.given.had_failed = self.recorder.has_failed();
        // No closure: it would want all that it needs in memory.
        match linked.machine.call(self, number, [a, b, c, 0, 0]) {
            Ok(answer) => {
                self.catch_up();
                answer
            }
            Err(fault) => self.caught(&fault, linked, number),
        }
    }

    /// Charges what the operation that runs has executed since the last time.
    pub fn charge_instructions(&mut self, taken: Executed) {
        let ns = self.policy.time.charge(taken);
        self.charge(Spent::Instructions, ns);
        // The program finds the clock there.
        self.visible.facts.now_ns = self.now_ns();
    }

    /// Charges what was executed, if that takes time; the next call counts from 0.
    fn charge_executed(&mut self, linked: &Linked) {
        if self.policy.time.is_taken() {
            self.charge_instructions(linked.machine.taken());
            self.policy.time.begin();
        }
    }

    /// What comes of a fault. Of an exception it is what the function's own callback answers, or
    /// the cookie. Only what a kernel calls itself catches one, which timers' callbacks are not
    /// (`bpf_throw`).
    #[cold]
    #[inline(never)]
    fn caught(&mut self, fault: &Fault, linked: &mut Linked, number: usize) -> u64 {
        let FaultKind::Thrown(cookie) = fault.kind else { return self.fault(fault, linked) };
        if self.policy.given.operation == Operation::Timer {
            return self.fault(fault, linked);
        }
        self.catch_up();
        let Some(catcher) = linked.machine.program().catcher(number) else { return cookie };
        self.charge_executed(linked);
        match linked.machine.call(self, catcher, [cookie, 0, 0, 0, 0]) {
            Ok(answer) => {
                self.catch_up();
                answer
            }
            Err(mut fault) => {
                if matches!(fault.kind, FaultKind::Thrown(_)) {
                    let why = "it throws an exception, and is what catches one: nobody catches its";
                    fault.kind = FaultKind::Refused(why.to_owned());
                }
                self.fault(&fault, linked)
            }
        }
    }

    /// The same where it is counted, or looked at, what is executed, where that takes time, or
    /// where cids are taken.
    #[cold]
    #[inline(never)]
    fn run_looked_at(&mut self, linked: &mut Linked, number: usize, a: u64, b: u64, c: u64) -> u64 {
        let takes_cids = self.policy.takes_cids();
        if takes_cids {
            self.give_cids(linked);
        }
        let given = &mut self.policy.given;
        let is_enable = given.operation == Operation::Enable;
        if given.operation != Operation::Syscall {
            let nr = given.operation.parameters() + u64::from(takes_cids && is_enable);
            given.arguments = (a, 8 * nr);
        }
        given.may_sleep = linked.sleepable.contains(&(number as u64));
        let mut answer = self.run_function(linked, number, a, b, c);
        self.charge_executed(linked);
        if takes_cids && self.policy.given.operation == Operation::SelectCpu {
            answer = self.take_cid(answer);
        }
        linked.count_watched(&mut self.policy.given.watched);
        let now_ns = self.now_ns();
        if let Some(watches) = self.recorder.watches() {
            watches.look(now_ns, linked, &self.policy.maps, &self.tasks);
        }
        if let Some(profiler) = self.recorder.profiler() {
            profiler.count(self.policy.given.operation, linked.machine.instructions());
        }
        answer
    }

    /// Charges an operation, and opens this kernel to calls from the policy.
    #[inline]
    fn open(&mut self, operation: Operation) {
        self.charge(Spent::Operation, self.cpus.costs().hook_ns);
        self.open_free(operation);
    }

    /// Opens this kernel to calls from the policy.
    #[inline]
    fn open_free(&mut self, operation: Operation) {
        self.policy.given.operation = operation;
        if self.queues.has_walks() || !self.policy.given.bits.is_empty() {
            self.end_iterators();
        }
        let (now_ns, cpu) = (self.now_ns(), self.here() as u32);
        let facts = &mut *self.visible.facts;
        (facts.now_ns, facts.cpu) = (now_ns, cpu);
    }

    /// Spends what the program spent by itself, up to what it takes for now.
    #[inline]
    pub fn catch_up(&mut self) {
        let ns = self.visible.facts.now_ns - self.now_ns();
        if ns != 0 {
            self.charge(Spent::Lock, ns);
        }
    }

    /// Ends iterators that an operation has left open, and the run.
    #[cold]
    fn end_iterators(&mut self) {
        let mut what = "a walk over a dispatch queue";
        if let Some((_, bits)) = std::mem::take(&mut self.policy.given.bits).pop_first() {
            what = "an iterator over bits";
            self.policy.given.failed_in_call(bits.begun_at);
        }
        self.queues.end_walks();
        self.visible.walks.clear();
        self.fail(FailureKind::BadCall, format!("{what} was begun and not destroyed"));
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

    /// Ends the run by what a program did wrong, on behalf of the task that its operation is for;
    /// its answer is 0 then.
    #[cold]
    #[inline(never)]
    fn fault(&mut self, fault: &Fault, linked: &Linked) -> u64 {
        self.catch_up();
        let is_endless = matches!(fault.kind, FaultKind::Endless(_));
        let kind = if is_endless { FailureKind::Limit } else { FailureKind::Fault };
        let mut message = fault.told(linked.machine.program());
        if let FaultKind::ReadOnly { address, .. } = fault.kind
            && let Some(field) = self.field_of_task(address)
        {
            message += &format!(": {field} of a task");
        }
        let operation = self.policy.given.operation;
        let is_of_task = !matches!(operation, Operation::Timer | Operation::Syscall);
        match self.visible.task_number(linked.arguments.first[0]).filter(|_| is_of_task) {
            Some(task) => self.fail_about(task as TaskId, kind, message),
            None => self.fail(kind, message),
        }
        0
    }

    /// The name of the field of some task that is at an address.
    fn field_of_task(&self, address: u64) -> Option<String> {
        let (width, takes_cids) = (self.visible.width(), self.policy.takes_cids());
        let rows = width.tasks();
        let offset = address.checked_sub(rows.begin)?;
        let is_task = offset / rows.bytes <= width.tasks_max() as u64;
        let kind = WorldKind { width, takes_cids, ..WorldKind::default() };
        let of_all = &world(kind, None).structures;
        of_all.field_at("task_struct", (offset % rows.bytes) as u32).filter(|_| is_task)
    }
}
