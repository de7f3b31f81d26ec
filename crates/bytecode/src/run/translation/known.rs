//! What registers are known to hold, from one instruction to the next.
//!
//! Of memory nothing is known at all: so a program cannot make any of it untrue.

use crate::compute;
use crate::instruction::{
    ARENA_UPPER, Arithmetic, Instruction, Operand, Register, Width, wide_number,
};
use crate::program::Rows;

/// What a register holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Value {
    /// Anything.
    #[default]
    Any,
    /// This number.
    Number(u64),
    /// A number from the first to the last: an index that was masked, or an address in a table, its
    /// begin and such an index.
    Between(u64, u64),
    /// An address so far from the end of the function's frame.
    Frame(i64),
    /// What a call gave, or an address so far from it.
    Given(Given),
    /// Perhaps an address in an arena, or NULL.
    Arena,
}

/// What a call gave: where there are bytes that may be read, or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// The call, or [`EARLIER`]. It is not made twice before a jump leads back.
    pub(super) call: usize,
    /// From what it gave.
    pub(super) offset: i64,
    /// How many bytes there are.
    pub(super) bytes: u32,
    /// The rows of which it is one, if it is: these may only be read.
    pub(super) row_of: Option<Rows>,
    /// Whether it is known not to be 0.
    pub(super) is_there: bool,
    /// Whether it may lie in a frame, where the iterator of a walk may be.
    pub(super) may_be_in_frame: bool,
}

/// What stands for a call that was made before a jump led back, or on one of two ways.
const EARLIER: usize = usize::MAX;

impl Value {
    /// What holds on both of two ways.
    fn join(self, other: Value) -> Value {
        match (self.after_jump_back(), other.after_jump_back()) {
            _ if self == other => self,
            (Value::Given(one), Value::Given(other))
                if (one.offset, one.row_of) == (other.offset, other.row_of) =>
            {
                let may_be_in_frame = one.may_be_in_frame || other.may_be_in_frame;
                Value::Given(Given { bytes: one.bytes.min(other.bytes), may_be_in_frame, ..one })
            }
            _ => self.if_asked_once(other).unwrap_or(Value::Any),
        }
    }

    /// What one call gave where it was asked on only one of two ways whether that is 0.
    fn if_asked_once(self, other: Value) -> Option<Value> {
        let unasked = |value| match value {
            Value::Given(given) => Some(Given { is_there: false, ..given }),
            _ => None,
        };
        unasked(self).filter(|_| unasked(self) == unasked(other)).map(Value::Given)
    }

    /// What still holds where a jump leads back to: a call may be made again there.
    fn after_jump_back(self) -> Value {
        match self {
            Value::Given(given) if given.is_there => Value::Given(Given { call: EARLIER, ..given }),
            Value::Given(_) => Value::Any,
            _ => self,
        }
    }
}

/// What each register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
            *one = one.join(other);
        }
    }

    /// What still holds where a jump leads back to.
    pub(super) fn after_jump_back(mut self) -> Known {
        for value in &mut self.0 {
            *value = value.after_jump_back();
        }
        self
    }

    /// What holds after an instruction that has not jumped.
    pub(super) fn after(&mut self, of: &Instruction) {
        let value = match *of {
            Instruction::LoadWide { low, high, .. } => Value::Number(wide_number(low, high)),
            Instruction::Arithmetic { operation, width, to, by } => {
                self.computed(operation, width, to, by)
            }
            Instruction::Cast { upper: ARENA_UPPER, .. } => Value::Arena,
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

    /// What a call finds in a register that nothing was written to on one of the ways to it.
    pub(super) fn is_cleared(&mut self, register: usize) {
        self.0[register] = Value::Number(0);
    }

    /// What holds of R0 after a call that gave this.
    pub(super) fn gave(&mut self, given: Given) {
        self.0[Register::ANSWER.number()] = Value::Given(given);
    }

    /// What holds where a call gave 0.
    pub(super) fn gave_none(&mut self, call: usize) {
        for value in &mut self.0 {
            match value {
                Value::Given(given) if given.call == call && given.offset == 0 => {
                    *value = Value::Number(0);
                }
                Value::Given(given) if given.call == call => *value = Value::Any,
                _ => {}
            }
        }
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
            (Arithmetic::And, _, value, Value::Number(mask))
                if !matches!(value, Value::Number(_)) =>
            {
                let mask = if width == Width::Bits32 { mask & u64::from(u32::MAX) } else { mask };
                Value::Between(0, mask)
            }
            (
                Arithmetic::ShiftLeft,
                Width::Bits64,
                Value::Between(first, last),
                Value::Number(by),
            ) if by < last.leading_zeros().into() => Value::Between(first << by, last << by),
            (Arithmetic::Add, Width::Bits64, Value::Between(first, last), Value::Number(by))
            | (Arithmetic::Add, Width::Bits64, Value::Number(by), Value::Between(first, last)) => {
                let moved = first.checked_add(by).zip(last.checked_add(by));
                moved.map_or(Value::Any, |(first, last)| Value::Between(first, last))
            }
            (Arithmetic::Move, Width::Bits64, _, by) => by,
            (Arithmetic::Add | Arithmetic::Subtract, Width::Bits64, Value::Arena, _)
            | (Arithmetic::Add, Width::Bits64, _, Value::Arena) => Value::Arena,
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

#[cfg(test)]
mod tests {
    //! Goal: what is known on two ways holds on both. Method: examples.

    use super::*;

    fn given(call: usize, is_there: bool) -> Value {
        let may_be_in_frame = false;
        Value::Given(Given { call, offset: 8, bytes: 64, row_of: None, is_there, may_be_in_frame })
    }

    #[test]
    fn what_a_call_gave_is_known_where_one_way_has_not_asked_for_it() {
        assert_eq!(given(7, true).join(given(7, false)), given(7, false));
        assert_eq!(given(7, false).join(given(7, true)), given(7, false));
        assert_eq!(given(7, true).join(given(7, true)), given(7, true));
    }

    #[test]
    fn of_what_two_calls_gave_it_is_known_only_that_it_is_there() {
        assert_eq!(given(7, true).join(given(9, true)), given(EARLIER, true));
        assert_eq!(given(7, true).join(given(9, false)), Value::Any);
        assert_eq!(given(7, false).join(given(9, false)), Value::Any);
        let Value::Given(one) = given(7, true) else { unreachable!("made above") };
        let elsewhere = Value::Given(Given { offset: 0, is_there: false, ..one });
        assert_eq!(given(7, true).join(elsewhere), Value::Any);
        let in_frame = Given { may_be_in_frame: true, ..one };
        let both = Value::Given(Given { call: EARLIER, ..in_frame });
        assert_eq!(given(9, true).join(Value::Given(in_frame)), both);
    }
}
