//! Where instructions are counted.
//!
//! What was not counted yet is known at every instruction: a jump leads on with it, and nothing is
//! counted where ways part. Where they meet again, all must have left the same uncounted: that is
//! what the first jump there had. Whoever comes by another way counts the difference, so a way that
//! skips some instructions counts nothing at all. Where a jump leads back to, all is counted.

use super::blocks::Translator;

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
}
