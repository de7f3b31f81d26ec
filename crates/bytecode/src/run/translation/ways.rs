//! What is known where an instruction begins, on every way that leads there.
//!
//! Jumps forwards are met before their target is, so what is known on all of them is joined there.
//! Where a jump leads back to, what is known on all ways is found first: a function is looked at
//! again and again, with less known there each time, until all ways agree.

use super::blocks::Translator;
use super::known::{Given, Known, Value};
use super::states::State;
use crate::compute;
use crate::instruction::{Callee, Condition, Instruction, Operand, Register, Size};
use crate::program::Shortcut;

/// How often a function is looked at. Each round is to lose something, of few registers.
const ROUNDS_MAX: usize = 100;

impl Translator<'_> {
    /// What is known where jumps lead in: what is known on each way, of which those that lead back
    /// were not looked at yet.
    pub(super) fn arrive(&mut self, at: usize) {
        let ahead = self.ahead.remove(&at);
        self.state = match (self.state, ahead) {
            _ if self.program.loop_heads[at] => self.state_at_head(at),
            (Some(mut state), Some(other)) => {
                state.checked.join(&other.checked);
                state.known.join(&other.known);
                Some(state)
            }
            (here, ahead) => here.or(ahead),
        };
    }

    /// Finds what is known where jumps lead back to.
    pub(super) fn find_heads(&mut self, first: usize, end: usize) {
        for _ in 0..ROUNDS_MAX {
            let before = self.heads.clone();
            self.look_through(first, end);
            if self.heads == before {
                return self.asked = None;
            }
        }
        let heads = (first..end).filter(|&at| self.program.loop_heads[at]);
        self.heads = heads.map(|at| (at, Known::default())).collect();
    }

    /// Follows all ways once, and joins what is known on them where jumps lead back to.
    fn look_through(&mut self, first: usize, end: usize) {
        self.state = Some(State::default());
        self.back.clear();
        for at in first..end {
            if self.program.loop_heads[at] {
                self.enter_head(at);
            } else if self.targets[at] {
                self.arrive(at);
            }
            let of = self.program.instructions[at];
            if self.state.is_none() || of == Instruction::Half {
                continue;
            }
            if let Instruction::Call(Callee::Offered(_)) = of {
                self.know_cleared(at);
                self.asked = self.asked_of(at).or(self.asked);
            }
            self.part_if_asked(at, of);
            if let Some(target) = of.target(at)
                && self.outcome(&of) != Some(false)
            {
                self.look_ahead(at, target);
            }
            self.after(at, &of);
        }
        for (at, known) in std::mem::take(&mut self.back) {
            self.join_head(at, known);
        }
    }

    /// Joins what is known on ways forward with what is known of others that lead here.
    fn enter_head(&mut self, at: usize) {
        let ahead = self.ahead.remove(&at).into_iter().chain(self.state);
        for state in ahead.collect::<Vec<_>>() {
            self.join_head(at, state.known);
        }
        self.state = self.state_at_head(at);
    }

    fn state_at_head(&self, at: usize) -> Option<State> {
        self.heads.get(&at).map(|&known| State { known, ..State::default() })
    }

    fn join_head(&mut self, at: usize, known: Known) {
        let known = known.after_jump_back();
        self.heads.entry(at).or_insert(known).join(&known);
    }

    /// What is known after an instruction that has not jumped.
    pub(super) fn after(&mut self, at: usize, of: &Instruction) {
        let given = self.given(at, of);
        let known = &mut self.state().known;
        known.after(of);
        if let Some(given) = given {
            known.gave(given);
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
        let left = match self.known(left) {
            Value::Number(left) => left,
            // A call gave it, and it is not 0.
            Value::Given(Given { is_there: true, offset: 0, .. }) => {
                return match of.asks_for_zero()?.0 {
                    Condition::Equal => Some(false),
                    Condition::NotEqual => Some(true),
                    _ => None,
                };
            }
            _ => return None,
        };
        let right = match right {
            Operand::Number(number) => number as i64 as u64,
            Operand::Register(register) => match self.known(register) {
                Value::Number(number) => number,
                _ => return None,
            },
        };
        Some(compute::holds(condition, width, left, right))
    }

    /// What is known of what a call gives.
    fn given(&self, at: usize, of: &Instruction) -> Option<Given> {
        let &Instruction::Call(Callee::Offered(call)) = of else { return None };
        let map = match self.known(Register::FIRST) {
            Value::Number(map) => Some(map),
            _ => None,
        };
        let shortcut = *self.program.shortcuts.get(&call)?;
        let (bytes, row_of) = match shortcut {
            Shortcut::Element => (self.program.elements.get(&map?)?.bytes, None),
            Shortcut::Cell { .. } => (*self.program.cells.get(&map?)?, None),
            Shortcut::NextItem(walks) => (walks.rows.bytes as u32, Some(walks.rows)),
            Shortcut::NextNumber => (Size::Double.bytes() as u32, None),
            _ => return None,
        };
        // Where it is 0, another way is gone: see `Asked`.
        let is_there = self.asked.is_some_and(|asked| asked.call == at);
        let may_be_in_frame = shortcut == Shortcut::NextNumber;
        Some(Given { call: at, offset: 0, bytes, row_of, is_there, may_be_in_frame })
    }

    /// Knows what a call finds in registers that were not written on each way to it: ways that are
    /// closed here, by what is known, count there.
    pub(super) fn know_cleared(&mut self, call: usize) {
        for register in self.program.unwritten_at(call) {
            self.late &= !(1 << register);
            self.state.get_or_insert_default().known.is_cleared(register);
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
        if target <= at {
            let known = self.state().known;
            self.back.entry(target).or_insert(known).join(&known);
        } else {
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
