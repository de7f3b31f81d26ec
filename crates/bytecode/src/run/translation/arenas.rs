//! Accesses to an arena, by addresses that a cast gave.
//!
//! That an address was cast is a guess, which is asked where it is used: only a whole place on a
//! page that is there is touched, which lies in the arena's own memory. All else is left to the
//! interpreter, as a page that is not there, an address that is not aligned, or one of the other
//! memory.

use super::blocks::Translator;
use super::known::Value;
use crate::instruction::{Instruction, Register, Size};

impl Translator<'_> {
    /// Whether an instruction seems to access an arena.
    pub(super) fn is_in_arena(&self, of: &Instruction) -> bool {
        let place = place_of(of);
        self.has_arena && place.is_some_and(|(base, ..)| self.known(base) == Value::Arena)
    }

    /// Translates an instruction that does.
    pub(super) fn access_arena(&mut self, at: usize, of: Instruction, uncounted: i32) {
        let Some((base, offset, size)) = place_of(&of) else { return };
        let out = self.stub(at, uncounted);
        self.find_in_arena(base, offset, size, out);
        match of {
            Instruction::Load { size, signed, to, .. } => self.load_found(size, signed, to),
            Instruction::Store { size, value, .. } => self.store_found(size, value),
            _ if self.atomic_found(of) => {}
            _ => self.go_to(out),
        }
    }
}

/// What an instruction accesses: so far behind a register, and how many bytes.
fn place_of(of: &Instruction) -> Option<(Register, i16, Size)> {
    match *of {
        Instruction::Load { size, base, offset, .. }
        | Instruction::Store { size, base, offset, .. }
        | Instruction::Atomic { size, base, offset, .. } => Some((base, offset, size)),
        _ => None,
    }
}
