//! What is known where an instruction begins.

use super::known::Known;

/// How far accesses by a register were compared with the borders: the lowest offset, and the end of
/// the highest.
pub(super) type Reached = Option<(i64, i64)>;

/// Accesses that were compared with the borders, by register.
#[derive(Clone, Copy, Default)]
pub(super) struct Checked {
    pub(super) reads: [Reached; 11],
    pub(super) writes: [Reached; 11],
}

impl Checked {
    pub(super) fn forget(&mut self, register: usize) {
        (self.reads[register], self.writes[register]) = (None, None);
    }

    /// After a call, the borders are what they were, and so are R6 to R9.
    pub(super) fn forget_arguments(&mut self) {
        (0..6).for_each(|register| self.forget(register));
    }

    /// What was compared on both of two ways.
    pub(super) fn join(&mut self, other: &Checked) {
        let both = |one: &mut [Reached; 11], other: &[Reached; 11]| {
            for (one, other) in one.iter_mut().zip(other) {
                *one = one.zip(*other).map(|(a, b)| (a.0.max(b.0), a.1.min(b.1)));
            }
        };
        both(&mut self.reads, &other.reads);
        both(&mut self.writes, &other.writes);
    }
}

/// What is known where an instruction begins.
#[derive(Clone, Copy, Default)]
pub(super) struct State {
    pub(super) checked: Checked,
    pub(super) known: Known,
}
