//! Where instructions are counted.
//!
//! What was not counted yet is known at every instruction: a jump leads on with it, and nothing is
//! counted where ways part. Where they meet again, all must have left the same uncounted: that is
//! what the first jump there had. Whoever comes by another way counts the difference, so a way that
//! skips some instructions counts nothing at all. Where a jump leads back to, all is counted.

use super::blocks::Translator;
use super::{CALLS_MADE, DIVISIONS, WIDE};
use crate::instruction::{Callee, Instruction};

impl Translator<'_> {
    /// How many instructions are uncounted where a jump leads, or are to be if `uncounted` are on
    /// the first way there.
    pub(super) fn due(&mut self, target: usize, uncounted: i32) -> i32 {
        if self.program.loop_heads[target] {
            return 0;
        }
        *self.due.entry(target).or_insert(uncounted)
    }

    /// Counts what is too much for where a jump leads; gives what is left.
    pub(super) fn count_for(&mut self, target: usize, uncounted: i32) -> i32 {
        let due = self.due(target, uncounted);
        self.count(uncounted - due);
        due
    }

    /// Counts an instruction by itself, too, if it is one of those that are.
    pub(super) fn count_apart(&mut self, of: &Instruction) {
        match of {
            _ if !self.tells_apart => {}
            Instruction::Arithmetic { operation, .. } if operation.divides() => {
                self.count_at(DIVISIONS, 1);
            }
            Instruction::Call(Callee::Offered(_)) => self.count_at(CALLS_MADE, 1),
            _ => {}
        }
    }

    /// Counts how many more an instruction is that is not left to the interpreter any more.
    pub(super) fn count_wide(&mut self, at: usize) {
        if let Some(&wide @ 1..) = self.wide.get(at) {
            self.count_at(WIDE, wide);
        }
    }
}
