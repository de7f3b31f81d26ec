//! Runs a program, one instruction after the other.
//!
//! It runs everywhere, and is what a translation is compared with.

use super::{Host, Run};
use crate::compute;
use crate::fault::{Fault, FaultKind, Stop};
use crate::instruction::{
    Arithmetic, AtomicKind, Callee, Instruction, Operand, Register, Size, wide_number,
};

/// A function that is being run.
pub(super) struct Frame<'r, 'a, H> {
    pub(super) run: &'r mut Run<'a, H>,
    pub(super) registers: [u64; 11],
    /// How often `may_goto` may still be passed.
    pub(super) loops_left: u64,
}

impl<H: Host> Frame<'_, '_, H> {
    /// Runs it from an instruction to its end, and gives R0.
    pub(super) fn run(&mut self, first: usize) -> Result<u64, Box<Fault>> {
        let mut at = first;
        loop {
            self.check_loop(at).map_err(|kind| Stop::from(kind).at(at))?;
            let of = self.run.machine.program.instructions[at];
            match self.step(at, of).map_err(|stop| stop.at(at))? {
                Next::Slot(next) => at = next,
                Next::Function(number) => {
                    let arguments = self.arguments_of_function(at);
                    let arguments = arguments.map_err(|kind| Stop::from(kind).at(at))?;
                    self.registers[0] = self.run.function(number, arguments)?;
                    at += 1;
                }
                Next::Exit => return Ok(self.registers[0]),
            }
        }
    }

    /// Counts an instruction, and asks whether there were too many where a jump back leads to.
    pub(super) fn check_loop(&mut self, at: usize) -> Result<(), FaultKind> {
        if self.run.machine.program.loop_heads[at] {
            self.check_instructions()?;
        }
        self.run.machine.reach.left -= 1;
        let wide = self.run.machine.wide.get(at).copied().unwrap_or(0);
        self.run.machine.reach.wide += u64::from(wide);
        if let Some(executed) = self.run.machine.executed.get_mut(at) {
            *executed += 1;
        }
        Ok(())
    }

    /// What a function is given, if it may be called here.
    pub(super) fn arguments_of_function(&mut self, call: usize) -> Result<[u64; 5], FaultKind> {
        if self.run.machine.is_deepest() {
            return Err(FaultKind::Depth);
        }
        self.check_instructions()?;
        Ok(self.arguments(call))
    }

    fn check_instructions(&self) -> Result<(), FaultKind> {
        let max = self.run.machine.instructions_max;
        if self.run.machine.reach.left < 0 { Err(FaultKind::Endless(max)) } else { Ok(()) }
    }

    /// What a call is given: 0 where nothing was written to.
    pub(super) fn arguments(&mut self, call: usize) -> [u64; 5] {
        for register in self.run.machine.program.unwritten_at(call) {
            self.registers[register] = 0;
        }
        std::array::from_fn(|n| self.registers[n + 1])
    }

    pub(super) fn get(&self, register: Register) -> u64 {
        self.registers[register.number()]
    }

    fn set(&mut self, register: Register, value: u64) {
        self.registers[register.number()] = value;
    }

    pub(super) fn operand(&self, operand: Operand) -> u64 {
        match operand {
            Operand::Register(register) => self.get(register),
            Operand::Number(number) => number as i64 as u64,
        }
    }

    /// Takes one instruction, and says where to go on.
    pub(super) fn step(&mut self, at: usize, of: Instruction) -> Result<Next, Stop> {
        match of {
            Instruction::Arithmetic { operation, width, to, by } => {
                self.run.machine.reach.divisions += u64::from(operation.divides());
                let (a, b) = (self.get(to), self.operand(by));
                self.set(to, compute::arithmetic(operation, width, a, b));
            }
            Instruction::Negate { width, to } => {
                let operation = Arithmetic::Subtract;
                self.set(to, compute::arithmetic(operation, width, 0, self.get(to)));
            }
            Instruction::MoveSigned { width, to, from, bits } => {
                self.set(to, compute::moved_signed(width, self.get(from), bits));
            }
            Instruction::Reorder { order, to, bits } => {
                self.set(to, compute::reordered(order, self.get(to), bits));
            }
            Instruction::Cast { to, from, upper } => {
                self.set(to, compute::cast(self.get(from), upper));
            }
            Instruction::Load { size, signed, to, base, offset } => {
                let value = self.load(self.get(base).wrapping_add_signed(offset.into()), size)?;
                let bits = size.bytes() as u32 * 8;
                self.set(to, if signed { compute::extended(value, bits) } else { value });
            }
            Instruction::Store { size, base, offset, value } => {
                let address = self.get(base).wrapping_add_signed(offset.into());
                self.store(address, size, self.operand(value))?;
            }
            Instruction::Atomic { kind, size, base, offset, value, fetch } => {
                let address = self.get(base).wrapping_add_signed(offset.into());
                self.atomic(kind, address, size, value, fetch)?;
            }
            Instruction::LoadWide { to, low, high, .. } => {
                self.set(to, wide_number(low, high));
                return Ok(Next::Slot(at + 2));
            }
            Instruction::Jump { distance } => return Ok(Next::to(at, distance)),
            Instruction::Branch { condition, width, left, right, distance } => {
                let (a, b) = (self.get(left), self.operand(right));
                if compute::holds(condition, width, a, b) {
                    return Ok(Next::to(at, distance.into()));
                }
            }
            Instruction::MayGoto { distance } => {
                if self.loops_left == 0 {
                    return Ok(Next::to(at, distance.into()));
                }
                self.loops_left -= 1;
            }
            Instruction::Call(Callee::Offered(number)) => {
                let arguments = self.arguments(at);
                self.run.machine.reach.place = at as u64;
                self.run.machine.reach.calls_made += 1;
                self.registers[0] = H::call(self.run, number, arguments)?;
            }
            Instruction::Call(Callee::Function(number)) => {
                return Ok(Next::Function(number as usize));
            }
            Instruction::Exit => return Ok(Next::Exit),
            Instruction::Call(_) | Instruction::Half | Instruction::Missing => {
                return Err(FaultKind::Missing.into());
            }
        }
        Ok(Next::Slot(at + 1))
    }

    fn load(&self, address: u64, size: Size) -> Result<u64, FaultKind> {
        let bytes = size.bytes();
        let refused = || FaultKind::Memory { address, bytes, write: false };
        let memory = &self.run.machine.memory;
        let loaded = memory.load(address, size);
        loaded.or_else(|| memory.arena_to_read()?.load(address, size)).ok_or_else(refused)
    }

    fn store(&mut self, address: u64, size: Size, value: u64) -> Result<(), FaultKind> {
        let (bytes, machine) = (size.bytes(), &mut *self.run.machine);
        let is_open = machine.memory.is_writable(address, bytes)
            || machine.program.may_write_field(&machine.memory, address, size)
            || self.run.host.may_write(address, size);
        let is_there = machine.memory.bytes(address, bytes).is_some();
        if is_there && !is_open {
            return Err(FaultKind::ReadOnly { address, bytes });
        }
        let stored = machine.memory.store(address, size, value);
        let stored = stored.or_else(|| machine.memory.arena()?.store(address, size, value));
        stored.ok_or(FaultKind::Memory { address, bytes, write: true })
    }

    fn atomic(
        &mut self,
        kind: AtomicKind,
        address: u64,
        size: Size,
        value: Register,
        fetch: bool,
    ) -> Result<(), FaultKind> {
        let before = self.load(address, size)?;
        let after =
            compute::atomic(kind, size, before, self.get(value), self.get(Register::ANSWER));
        self.store(address, size, after)?;
        match (kind, fetch) {
            (AtomicKind::CompareExchange, _) => self.set(Register::ANSWER, before),
            (_, true) => self.set(value, before),
            _ => {}
        }
        Ok(())
    }
}

/// Where a function goes on.
pub(super) enum Next {
    Slot(usize),
    Function(usize),
    Exit,
}

impl Next {
    fn to(at: usize, distance: i32) -> Next {
        Next::Slot((at + 1).wrapping_add_signed(distance as isize))
    }
}
