//! What is known where an instruction begins, on every way that leads there.
//!
//! Jumps forwards are met before their target is, so what is known on all of them is joined there.
//! Where a jump leads back to, nothing is known.

use super::blocks::Translator;
use super::known::Value;
use super::states::State;
use crate::compute;
use crate::instruction::{Callee, Condition, Instruction, Operand, Register};
use crate::program::Shortcut;

impl Translator<'_> {
    /// What is known where jumps lead in: what is known on each way, of which those that lead back
    /// were not looked at yet.
    pub(super) fn arrive(&mut self, at: usize) {
        let ahead = self.ahead.remove(&at);
        self.state = match (self.state, ahead) {
            _ if self.program.loop_heads[at] => Some(State::default()),
            (Some(mut state), Some(other)) => {
                state.checked.join(&other.checked);
                state.known.join(&other.known);
                Some(state)
            }
            (here, ahead) => here.or(ahead),
        };
    }

    /// What is known after an instruction that has not jumped.
    pub(super) fn after(&mut self, at: usize, of: &Instruction) {
        let given = self.given_bytes(of);
        let known = &mut self.state().known;
        known.after(of);
        if let Some(bytes) = given {
            known.gave(at, bytes);
        }
        if let Some((Condition::Equal, register)) = of.asks_for_zero() {
            known.is_there(register);
        }
        if of.leaves() || self.outcome(of) == Some(true) {
            self.state = None;
        }
    }

    /// Whether a branch jumps, if what it compares is known here.
    pub(super) fn outcome(&self, of: &Instruction) -> Option<bool> {
        let Instruction::Branch { condition, width, left, right, .. } = *of else { return None };
        let Value::Number(left) = self.known(left) else { return None };
        let right = match right {
            Operand::Number(number) => number as i64 as u64,
            Operand::Register(register) => match self.known(register) {
                Value::Number(number) => number,
                _ => return None,
            },
        };
        Some(compute::holds(condition, width, left, right))
    }

    /// How many bytes there are where a call leads, if not to 0.
    fn given_bytes(&self, of: &Instruction) -> Option<u32> {
        let &Instruction::Call(Callee::Offered(call)) = of else { return None };
        let Value::Number(map) = self.known(Register::FIRST) else { return None };
        match self.program.shortcuts.get(&call)? {
            Shortcut::Element => self.program.elements.get(&map).map(|elements| elements.bytes),
            Shortcut::Cell { .. } => self.program.cells.get(&map).copied(),
            _ => None,
        }
    }

    /// What is known here. Nothing is where no way leads.
    pub(super) fn state(&mut self) -> &mut State {
        self.state.get_or_insert_default()
    }

    pub(super) fn known(&self, register: Register) -> Value {
        self.state.map_or(Value::Any, |state| state.known.of(register))
    }

    /// Keeps what is known for where a jump leads.
    pub(super) fn look_ahead(&mut self, at: usize, target: usize) {
        if target > at {
            let mut state = *self.state();
            if let Some((Condition::NotEqual, register)) =
                self.program.instructions[at].asks_for_zero()
            {
                state.known.is_there(register);
            }
            let ahead = self.ahead.entry(target).or_insert(state);
            ahead.checked.join(&state.checked);
            ahead.known.join(&state.known);
        }
    }
}
