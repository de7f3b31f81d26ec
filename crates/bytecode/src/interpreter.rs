//! Runs a program, one instruction after the other.
//!
//! It runs everywhere, and is what a translation is compared with. Instructions are counted
//! exactly; whether there were too many is asked where a program can repeat itself: at jumps back
//! and at calls.

use crate::compute;
use crate::fault::{Fault, FaultKind, Stop};
use crate::instruction::{AtomicKind, Callee, Instruction, Operand, Register, Size};
use crate::memory::{FRAMES_MAX, Memory};
use crate::program::Program;

/// How often a function's `may_goto` are passed before they jump. Source: Linux,
/// include/linux/bpf.h, `BPF_MAX_LOOPS`.
const MAY_GOTO_MAX: u64 = 8 << 20;

/// What a world gives a program: what it may call, and what its writes do.
pub trait Host: Sized {
    /// Answers a call, by its number in the [`World`](crate::World).
    ///
    /// # Errors
    ///
    /// What ends the program.
    fn call(run: &mut Run<'_, Self>, number: usize, arguments: [u64; 5]) -> Result<u64, Stop>;

    /// Writes to what programs may only read, where that is allowed after all. `false` if not.
    fn write(&mut self, _memory: &mut Memory, _address: u64, _size: Size, _value: u64) -> bool {
        false
    }
}

/// A program that runs.
pub struct Run<'a, H> {
    /// What it runs.
    pub program: &'a Program,
    /// What it may touch.
    pub memory: &'a mut Memory,
    /// Whom it calls.
    pub host: &'a mut H,
    /// Instructions so far.
    pub instructions: u64,
    /// Most instructions.
    pub instructions_max: u64,
    depth: u64,
}

impl<'a, H: Host> Run<'a, H> {
    /// A run that has not begun.
    pub fn new(
        program: &'a Program,
        memory: &'a mut Memory,
        host: &'a mut H,
        instructions_max: u64,
    ) -> Run<'a, H> {
        Run { program, memory, host, instructions: 0, instructions_max, depth: 0 }
    }

    /// Calls a function of the program, also from within a call that it made, and gives R0.
    ///
    /// # Errors
    ///
    /// [`Fault`] says what ended it, and where.
    pub fn function(&mut self, number: usize, arguments: [u64; 5]) -> Result<u64, Fault> {
        let first = self.program.functions[number].first;
        if self.depth == FRAMES_MAX {
            return Err(Fault { kind: FaultKind::Depth, at: first });
        }
        let mut registers = [0; 11];
        registers[1..6].copy_from_slice(&arguments);
        registers[10] = self.memory.frame_end(self.depth);
        self.depth += 1;
        let answer = Frame { run: self, registers, loops_left: MAY_GOTO_MAX }.run(first);
        self.depth -= 1;
        answer
    }
}

struct Frame<'r, 'a, H> {
    run: &'r mut Run<'a, H>,
    registers: [u64; 11],
    loops_left: u64,
}

impl<H: Host> Frame<'_, '_, H> {
    fn run(&mut self, first: usize) -> Result<u64, Fault> {
        let mut at = first;
        loop {
            self.run.instructions += 1;
            let of = self.run.program.instructions[at];
            match self.step(at, of).map_err(|stop| stop.at(at))? {
                Next::Slot(next) if next <= at => {
                    self.check_instructions().map_err(|kind| Fault { kind, at })?;
                    at = next;
                }
                Next::Slot(next) => at = next,
                Next::Function(number) => {
                    self.check_instructions().map_err(|kind| Fault { kind, at })?;
                    let arguments = self.arguments();
                    self.registers[0] = self.run.function(number, arguments)?;
                    at += 1;
                }
                Next::Exit => return Ok(self.registers[0]),
            }
        }
    }

    fn check_instructions(&self) -> Result<(), FaultKind> {
        let max = self.run.instructions_max;
        if self.run.instructions > max { Err(FaultKind::Endless(max)) } else { Ok(()) }
    }

    fn arguments(&self) -> [u64; 5] {
        std::array::from_fn(|n| self.registers[n + 1])
    }

    fn get(&self, register: Register) -> u64 {
        self.registers[register.number()]
    }

    fn set(&mut self, register: Register, value: u64) {
        self.registers[register.number()] = value;
    }

    fn operand(&self, operand: Operand) -> u64 {
        match operand {
            Operand::Register(register) => self.get(register),
            Operand::Number(number) => number as i64 as u64,
        }
    }

    fn step(&mut self, at: usize, of: Instruction) -> Result<Next, Stop> {
        match of {
            Instruction::Arithmetic { operation, width, to, by } => {
                let (a, b) = (self.get(to), self.operand(by));
                self.set(to, compute::arithmetic(operation, width, a, b));
            }
            Instruction::Negate { width, to } => {
                let operation = crate::instruction::Arithmetic::Subtract;
                self.set(to, compute::arithmetic(operation, width, 0, self.get(to)));
            }
            Instruction::MoveSigned { width, to, from, bits } => {
                self.set(to, compute::moved_signed(width, self.get(from), bits));
            }
            Instruction::Reorder { order, to, bits } => {
                self.set(to, compute::reordered(order, self.get(to), bits));
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
                self.set(to, u64::from(low as u32) | u64::from(high as u32) << 32);
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
                let arguments = self.arguments();
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
        self.run.memory.load(address, size).ok_or_else(refused)
    }

    fn store(&mut self, address: u64, size: Size, value: u64) -> Result<(), FaultKind> {
        let bytes = size.bytes();
        let memory = &mut *self.run.memory;
        if memory.is_writable(address, bytes) {
            memory.store(address, size, value);
            Ok(())
        } else if memory.bytes(address, bytes).is_none() {
            Err(FaultKind::Memory { address, bytes, write: true })
        } else if self.run.host.write(memory, address, size, value) {
            Ok(())
        } else {
            Err(FaultKind::ReadOnly { address, bytes })
        }
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

enum Next {
    Slot(usize),
    Function(usize),
    Exit,
}

impl Next {
    fn to(at: usize, distance: i32) -> Next {
        Next::Slot((at + 1).wrapping_add_signed(distance as isize))
    }
}
