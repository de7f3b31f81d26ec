//! A run in which every pointer may lead only into the object that it was derived from.
//!
//! The interpreter takes each instruction, and this module looks at it before and behind: what a
//! pointer was derived from travels beside the value, through registers, the stack and arguments.
//! What is right here is what a kernel's verifier can see to be right, as far as values that do
//! occur show it.

use super::interpreter::{Frame, Next};
use super::shadow::{Origin, Shadow, Touch};
use super::{Host, MAY_GOTO_MAX, Run};
use crate::arena;
use crate::fault::{Beyond, Fault, FaultKind, Stop};
use crate::instruction::{
    ARENA_UPPER, Arithmetic, AtomicKind, Callee, Instruction, Operand, Register, Size, Width,
    wide_number,
};
use crate::memory::FRAME_BYTES;
use crate::program::Holding;

/// A function that is being run, with the origins of what its registers hold.
struct StrictFrame<'r, 'a, H> {
    frame: Frame<'r, 'a, H>,
    origins: [Origin; 11],
    /// The instruction of the function's own file that was taken last.
    own: usize,
    /// Where the present instruction accesses memory, if it does.
    address: u64,
}

/// Of an object with this begin and size, none of which has 4 GiB.
fn origin_of((begin, bytes): (u64, u64)) -> Origin {
    Origin { begin, bytes: bytes as u32, held: 0 }
}

/// Runs a function of a strict machine, whose frame is there.
pub(super) fn call<H: Host>(
    run: &mut Run<'_, H>,
    number: usize,
    arguments: [u64; 5],
) -> Result<u64, Box<Fault>> {
    let frame_end = run.machine.reach.frame_end;
    let is_outermost = frame_end == run.machine.outermost_frame;
    let shadow = run.shadow();
    if is_outermost {
        shadow.begin_run();
    }
    shadow.begin_frame(frame_end);
    // A call during which this one is made goes on with its own arguments.
    let outer = (shadow.given, shadow.given_origins);
    let passed = shadow.passed.take();
    let passed = passed.unwrap_or_else(|| {
        arguments.map(|value| {
            // What calls this function back hands on what it was given itself.
            let given = run.shadow().origins_of_given(value).find(|one| !one.is_none());
            given.filter(|_| !is_outermost).unwrap_or_else(|| run.object_at(value))
        })
    });
    let [a, b, c, d, e] = arguments;
    let registers = [0, a, b, c, d, e, 0, 0, 0, 0, frame_end];
    let first = run.machine.program.functions[number].first;
    let mut origins = [Origin::NONE; 11];
    origins[1..6].copy_from_slice(&passed);
    let begin = frame_end - FRAME_BYTES;
    origins[10] = Origin { begin, bytes: FRAME_BYTES as u32, held: 0 };
    let frame = Frame { run, registers, loops_left: MAY_GOTO_MAX };
    let mut frame = StrictFrame { frame, origins, own: first, address: 0 };
    let answer = frame.run(first);
    let origin = frame.origins[0];
    // An exception ends what holds something no better than an answer does.
    if answer.as_ref().is_err_and(|fault| !matches!(fault.kind, FaultKind::Thrown(_))) {
        return answer;
    }
    let shadow = run.shadow();
    shadow.answer = origin;
    (shadow.given, shadow.given_origins) = outer;
    match shadow.left().filter(|_| is_outermost) {
        Some((why, at)) => Err(Stop::from(FaultKind::Holding(why)).at(at)),
        None => answer,
    }
}

impl<H: Host> Run<'_, H> {
    fn shadow(&mut self) -> &mut Shadow {
        self.machine.shadow.as_mut().expect("of a strict machine")
    }

    /// The object that a pointer to this address leads to.
    fn object_at(&self, address: u64) -> Origin {
        let variable = self.machine.program.variable_at(address).map(|bytes| (address, bytes));
        variable.or_else(|| self.host.object_at(address)).map_or(Origin::NONE, origin_of)
    }

    /// Whether these bytes, so far from a pointer, may be touched.
    fn check_origin(
        &self,
        origin: Origin,
        address: u64,
        bytes: u64,
        write: bool,
    ) -> Result<(), FaultKind> {
        let machine = &*self.machine;
        let shadow = machine.shadow.as_ref().expect("of a strict machine");
        let size = u64::from(origin.bytes);
        let before = address.wrapping_sub(origin.begin);
        let is_inside = before <= size && size - before >= bytes;
        // What is not inside is nowhere, and harms nobody.
        if origin == Origin::ARENA {
            return Ok(());
        }
        if is_inside && origin.held == 0 && !shadow.has_on_stack(origin.begin) {
            return Ok(());
        }
        if origin.is_none() {
            // What lies outside is told by whoever touches it.
            if arena::is_next_to_null(address) {
                return Err(FaultKind::Memory { address, bytes, write });
            }
            let is_there = machine.memory.bytes(address, bytes).is_some();
            let refused = FaultKind::NoPointer { address, bytes, write };
            return if is_there { Err(refused) } else { Ok(()) };
        }
        let is_stack = shadow.has_on_stack(origin.begin);
        if is_stack && origin.begin >= machine.reach.frame_end {
            return Err(FaultKind::Holding("it uses the stack of a function that has returned"));
        }
        if !shadow.is_held(origin) {
            return Err(FaultKind::Holding("it uses what it has given back"));
        }
        if is_inside {
            return Ok(());
        }
        let name = match machine.program.variable_name(origin.begin) {
            Some(name) => format!("variable {name}"),
            None if is_stack => "a frame of its stack".to_owned(),
            None => self.host.object_name(origin.begin),
        };
        let begin = origin.begin;
        Err(FaultKind::Beyond(Box::new(Beyond { address, bytes, write, begin, size, name })))
    }

    /// Whether a call may touch bytes so far from a pointer, which the program gave it or which it
    /// found. Where nothing is strict, all may be.
    ///
    /// # Errors
    ///
    /// [`FaultKind`] says what is wrong with the access.
    #[inline]
    pub fn check(
        &mut self,
        pointer: u64,
        offset: u64,
        bytes: u64,
        touch: Touch,
    ) -> Result<(), FaultKind> {
        if self.machine.shadow.is_none() {
            return Ok(());
        }
        self.check_strictly(pointer, offset, bytes, touch)
    }

    #[cold]
    fn check_strictly(
        &mut self,
        pointer: u64,
        offset: u64,
        bytes: u64,
        touch: Touch,
    ) -> Result<(), FaultKind> {
        let given = self.shadow().origins_of_given(pointer).next();
        let address = pointer.wrapping_add(offset);
        let is_write = touch == Touch::Write;
        match given {
            Some(origin) => self.check_origin(origin, address, bytes, is_write)?,
            // A pointer that the call found in memory has no origin that is known.
            None => {
                let origin = self.object_at(pointer);
                if !origin.is_none() {
                    self.check_origin(origin, address, bytes, is_write)?;
                }
            }
        }
        if is_write {
            self.shadow().note_write(address, bytes);
        }
        self.shadow().check_written(address, bytes, touch)
    }

    /// A call put a pointer in a word of the program's own memory.
    pub fn keep_pointer(&mut self, address: u64) {
        if let Some(shadow) = &mut self.machine.shadow {
            shadow.keep(address);
        }
    }
}

impl<H: Host> StrictFrame<'_, '_, H> {
    /// Runs it from an instruction to its end, and gives R0.
    fn run(&mut self, first: usize) -> Result<u64, Box<Fault>> {
        let mut at = first;
        loop {
            if self.frame.run.shadow().own_lines[at] {
                self.own = at;
            }
            self.frame.check_loop(at).map_err(|kind| self.fault(kind, at))?;
            let of = self.frame.run.machine.program.instructions[at];
            self.before(at, of).map_err(|kind| self.fault(kind, at))?;
            match self.frame.step(at, of).map_err(|stop| self.fault(stop, at))? {
                Next::Slot(next) => {
                    self.behind(at, of);
                    at = next;
                }
                Next::Function(number) => {
                    let arguments = self.frame.arguments_of_function(at);
                    let arguments = arguments.map_err(|kind| self.fault(kind, at))?;
                    let shadow = self.frame.run.shadow();
                    shadow.passed = Some(std::array::from_fn(|n| self.origins[n + 1]));
                    self.frame.registers[0] = self.frame.run.function(number, arguments)?;
                    self.origins[1..6].fill(Origin::NONE);
                    self.origins[0] = self.frame.run.shadow().answer;
                    at += 1;
                }
                Next::Exit => return Ok(self.frame.registers[0]),
            }
        }
    }

    fn fault(&self, why: impl Into<Stop>, at: usize) -> Box<Fault> {
        why.into().at_from(at, self.own_of(at))
    }

    /// Where an instruction that is not of the function's own file came from.
    fn own_of(&self, at: usize) -> Option<usize> {
        (self.own != at).then_some(self.own)
    }

    fn origin(&self, register: Register) -> Origin {
        self.origins[register.number()]
    }

    fn origin_by(&self, operand: Operand) -> Origin {
        match operand {
            Operand::Register(register) => self.origin(register),
            Operand::Number(_) => Origin::NONE,
        }
    }

    /// What is wrong with an instruction that comes next.
    fn before(&mut self, at: usize, of: Instruction) -> Result<(), FaultKind> {
        match of {
            Instruction::Load { size, base, offset, .. } => {
                let address = self.checked(base, offset, size, false)?;
                self.frame.run.shadow().check_written(address, size.bytes(), Touch::Read)
            }
            Instruction::Store { size, base, offset, .. } => {
                self.checked(base, offset, size, true).map(|_| ())
            }
            Instruction::Atomic { size, base, offset, .. } => {
                let address = self.checked(base, offset, size, true)?;
                self.frame.run.shadow().check_written(address, size.bytes(), Touch::Read)
            }
            Instruction::Arithmetic { operation, width, by, .. } if operation.divides() => {
                let by = self.frame.operand(by);
                let is_zero = if width == Width::Bits32 { by as u32 == 0 } else { by == 0 };
                let is_refused = is_zero && self.frame.run.shadow().refuses_open;
                if is_refused { Err(FaultKind::Division) } else { Ok(()) }
            }
            Instruction::Call(Callee::Offered(number)) => {
                let given = self.frame.arguments(at);
                let own = self.own_of(at);
                let holding = self.frame.run.machine.program.holdings.get(&number).copied();
                let shadow = self.frame.run.shadow();
                shadow.given = given;
                shadow.calls_own = own;
                let origin = |n| if given[n] == 0 { Origin::NONE } else { self.origins[n + 1] };
                shadow.given_origins = std::array::from_fn(origin);
                shadow.before_call(at, holding)
            }
            _ => Ok(()),
        }
    }

    /// The address of an access that may be made.
    fn checked(
        &mut self,
        base: Register,
        offset: i16,
        size: Size,
        write: bool,
    ) -> Result<u64, FaultKind> {
        let address = self.frame.get(base).wrapping_add_signed(offset.into());
        self.address = address;
        self.frame.run.check_origin(self.origin(base), address, size.bytes(), write)?;
        Ok(address)
    }

    /// Moves origins as an instruction that was taken moved values.
    fn behind(&mut self, at: usize, of: Instruction) {
        let address = self.address;
        match of {
            Instruction::Arithmetic { operation, width, to, by } => {
                self.origins[to.number()] = self.computed(operation, width, to, by);
            }
            Instruction::Load { size, to, .. } => {
                self.origins[to.number()] = self.loaded(size, to, address);
            }
            Instruction::Store { size: Size::Double, value, .. } => {
                let origin = self.origin_by(value);
                self.frame.run.shadow().note_word(address, origin);
            }
            Instruction::Store { size, .. } => {
                self.frame.run.shadow().note_write(address, size.bytes());
            }
            Instruction::Atomic { kind, size, value, fetch, .. } => {
                let fetched = match kind {
                    AtomicKind::CompareExchange => Some(Register::ANSWER),
                    _ => fetch.then_some(value),
                };
                if let Some(to) = fetched {
                    self.origins[to.number()] = self.loaded(size, to, address);
                }
                self.frame.run.shadow().note_write(address, size.bytes());
            }
            Instruction::LoadWide { to, low, high, .. } => {
                let value = wide_number(low, high);
                let run = &*self.frame.run;
                let within = run.machine.program.variable_with(value);
                let within = within.map(origin_of);
                self.origins[to.number()] = within.unwrap_or_else(|| run.object_at(value));
            }
            Instruction::Cast { to, upper, .. } => {
                let is_kernels = upper == ARENA_UPPER;
                self.origins[to.number()] = if is_kernels { Origin::ARENA } else { Origin::NONE };
            }
            Instruction::Negate { to, .. }
            | Instruction::MoveSigned { to, .. }
            | Instruction::Reorder { to, .. } => self.origins[to.number()] = Origin::NONE,
            Instruction::Call(Callee::Offered(number)) => self.behind_call(at, number),
            _ => {}
        }
    }

    /// The origin of what an operation gave.
    fn computed(&self, operation: Arithmetic, width: Width, to: Register, by: Operand) -> Origin {
        let (left, right) = (self.origin(to), self.origin_by(by));
        let value = self.frame.get(to);
        match (operation, width) {
            // Half of a pointer is none.
            (_, Width::Bits32) => Origin::NONE,
            (Arithmetic::Move, _) => right,
            (Arithmetic::Add, _) if left.is_none() || right.is_none() => left.or(right),
            // A number may happen to be an address.
            (Arithmetic::Add | Arithmetic::Or | Arithmetic::And, _) => {
                left.if_at(value).or(right.if_at(value))
            }
            (Arithmetic::Subtract, _) if right.is_none() => left,
            _ => Origin::NONE,
        }
    }

    /// The origin of what was loaded from an address, and stands in a register.
    fn loaded(&mut self, size: Size, to: Register, address: u64) -> Origin {
        if size != Size::Double {
            return Origin::NONE;
        }
        let value = self.frame.get(to);
        let run = &mut *self.frame.run;
        let shadow = run.shadow();
        if shadow.has_on_stack(address) {
            return shadow.word(address);
        }
        // What a program writes to its own memory is a number for the kernel, unless a call put it
        // there.
        let memory = &run.machine.memory;
        let is_own = memory.is_writable(address, 8) || memory.bytes(address, 8).is_none();
        if is_own && !run.shadow().keeps(address) {
            return Origin::NONE;
        }
        run.object_at(value)
    }

    fn behind_call(&mut self, at: usize, number: usize) {
        let answer = self.frame.registers[0];
        let run = &mut *self.frame.run;
        let holding = run.machine.program.holdings.get(&number).copied();
        let same = run.shadow().origins_of_given(answer).find(|origin| !origin.is_none());
        // What is of a part of memory may begin inside a variable.
        let within = || run.machine.program.variable_with(answer).map(origin_of);
        let mut origin = same.or_else(within).unwrap_or_else(|| run.object_at(answer));
        if !origin.is_none() && answer != 0 {
            match holding {
                Some(Holding::Gives | Holding::GivesLinked | Holding::Exchanges) => {
                    origin.held = run.shadow().hold(at);
                }
                Some(Holding::Lends) => origin.held = run.shadow().lend(),
                _ => {}
            }
        }
        self.origins[1..6].fill(Origin::NONE);
        self.origins[0] = origin;
    }
}
