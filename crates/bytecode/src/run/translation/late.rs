//! Numbers and addresses in the frame that R1 to R5 are given, mostly for a call: they are loaded
//! where something needs them, and a call whose answer lies in the memory needs few.

use super::blocks::Translator;
use super::known::Value;
use super::shortcuts::ARGUMENTS;
use crate::instruction::{Arithmetic, Instruction, Operand, Register};

impl Translator<'_> {
    /// Whether an instruction does no more than to give one of R1 to R5 what is known: then that is
    /// not loaded yet.
    pub(super) fn is_late(&mut self, of: &Instruction) -> bool {
        let Some(to) = of.writes().filter(|to| ARGUMENTS.contains(&to.number())) else {
            return false;
        };
        if !matches!(of, Instruction::Arithmetic { .. } | Instruction::LoadWide { .. }) {
            return false;
        }
        let mut known = self.state().known;
        known.after(of);
        let is_late = matches!(known.of(to), Value::Number(_) | Value::Frame(_));
        if is_late {
            self.late |= 1 << to.number();
        }
        is_late
    }

    /// Loads what an instruction needs that was not loaded; all of it, if it may leave the block.
    pub(super) fn load_for(&mut self, at: usize, of: &Instruction) {
        if self.late == 0 {
            return;
        }
        let needed = match *of {
            Instruction::Arithmetic { operation, to, by, .. } => {
                let by = match by {
                    Operand::Register(by) => Some(by),
                    Operand::Number(_) => None,
                };
                [by, (operation != Arithmetic::Move).then_some(to)]
            }
            Instruction::MoveSigned { from, .. } | Instruction::Cast { from, .. } => {
                [Some(from), None]
            }
            Instruction::Negate { to, .. } | Instruction::Reorder { to, .. } => [Some(to), None],
            Instruction::LoadWide { .. } => [None, None],
            Instruction::Load { base, .. } if self.is_known_to_be_inside(at, base, false) => {
                [Some(base).filter(|_| self.fixed(of).is_none()), None]
            }
            _ => return self.load_late(),
        };
        needed.into_iter().flatten().for_each(|register| self.load_one(register));
        if let Some(written) = of.writes() {
            self.late &= !(1 << written.number());
        }
    }

    /// Loads all that was not.
    pub(super) fn load_late(&mut self) {
        (1..6).filter_map(Register::new).for_each(|register| self.load_one(register));
    }

    /// Loads a register, if it was not.
    pub(super) fn load_one(&mut self, register: Register) {
        if self.late >> register.number() & 1 == 1 {
            self.late &= !(1 << register.number());
            let value = self.known(register);
            self.load_known(register, value);
        }
    }

    /// Registers that were not loaded, with what is known of them; they are forgotten.
    pub(super) fn take_late(&mut self) -> Vec<(Register, Value)> {
        let late = std::mem::take(&mut self.late);
        let registers = (1..6).filter(|number| late >> number & 1 == 1);
        let registers = registers.filter_map(Register::new);
        registers.map(|register| (register, self.known(register))).collect()
    }

    pub(super) fn load_known(&mut self, register: Register, value: Value) {
        match value {
            Value::Number(number) => self.load_wide(register, number),
            Value::Frame(offset) => self.load_in_frame(register, offset),
            Value::Any | Value::Between(..) | Value::Given(_) | Value::Arena => {
                unreachable!("only what is known is loaded late")
            }
        }
    }
}
