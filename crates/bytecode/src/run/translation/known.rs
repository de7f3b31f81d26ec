//! What registers are known to hold, from one instruction to the next.
//!
//! Nothing is known where a jump leads back to, and of memory nothing is known at all: so a program
//! cannot make any of it untrue.

use crate::compute;
use crate::instruction::{Arithmetic, Instruction, Operand, Register, Width, wide_number};

/// What a register holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Value {
    /// Anything.
    #[default]
    Any,
    /// This number.
    Number(u64),
    /// An address so far from the end of the function's frame.
    Frame(i64),
    /// What a call gave, or an address so far from it.
    Given(Given),
}

/// What a call gave: where there are bytes that may be written, or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// The call. It is not made twice before a jump leads back, where nothing is known any more.
    pub(super) call: usize,
    /// From what it gave.
    pub(super) offset: i64,
    /// How many bytes there are.
    pub(super) bytes: u32,
    /// Whether it is known not to be 0.
    pub(super) is_there: bool,
}

/// What each register holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known([Value; 11]);

impl Default for Known {
    fn default() -> Known {
        let mut values = [Value::Any; 11];
        values[Register::FRAME.number()] = Value::Frame(0);
        Known(values)
    }
}

impl Known {
    pub(super) fn of(&self, register: Register) -> Value {
        self.0[register.number()]
    }

    /// What holds on both of two ways.
    pub(super) fn join(&mut self, other: &Known) {
        for (one, other) in self.0.iter_mut().zip(other.0) {
            if *one != other {
                *one = Value::Any;
            }
        }
    }

    /// What holds after an instruction that has not jumped.
    pub(super) fn after(&mut self, of: &Instruction) {
        let value = match *of {
            Instruction::LoadWide { low, high, .. } => Value::Number(wide_number(low, high)),
            Instruction::Arithmetic { operation, width, to, by } => {
                self.computed(operation, width, to, by)
            }
            Instruction::Call(_) => {
                self.0[..6].fill(Value::Any);
                Value::Any
            }
            _ => Value::Any,
        };
        if let Some(written) = of.writes() {
            self.0[written.number()] = value;
        }
    }

    /// What holds of R0 after a call that gives so many bytes, or 0.
    pub(super) fn gave(&mut self, call: usize, bytes: u32) {
        let given = Given { call, offset: 0, bytes, is_there: false };
        self.0[Register::ANSWER.number()] = Value::Given(given);
    }

    /// What holds where this register is not 0.
    pub(super) fn is_there(&mut self, register: Register) {
        let Value::Given(Given { call, offset: 0, .. }) = self.of(register) else { return };
        for value in &mut self.0 {
            if let Value::Given(given) = value
                && given.call == call
            {
                given.is_there = true;
            }
        }
    }

    fn computed(&self, operation: Arithmetic, width: Width, to: Register, by: Operand) -> Value {
        let by = match by {
            Operand::Register(register) => self.of(register),
            Operand::Number(number) => Value::Number(number as i64 as u64),
        };
        match (operation, width, self.of(to), by) {
            (Arithmetic::Move, Width::Bits64, _, by) => by,
            (Arithmetic::Move, _, _, Value::Number(by)) => {
                Value::Number(compute::arithmetic(operation, width, 0, by))
            }
            (_, _, Value::Number(to), Value::Number(by)) => {
                Value::Number(compute::arithmetic(operation, width, to, by))
            }
            (Arithmetic::Add, Width::Bits64, Value::Frame(to), Value::Number(by)) => {
                to.checked_add(by as i64).map_or(Value::Any, Value::Frame)
            }
            (Arithmetic::Add, Width::Bits64, Value::Given(to), Value::Number(by)) => {
                let moved = to.offset.checked_add(by as i64);
                moved.map_or(Value::Any, |offset| Value::Given(Given { offset, ..to }))
            }
            _ => Value::Any,
        }
    }
}
