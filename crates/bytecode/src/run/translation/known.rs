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
            _ => Value::Any,
        }
    }
}
