//! Calls of the host: which of them have their answer in the memory, and what is known of them.

use std::ops::Range;

use dynasmrt::DynasmLabelApi;

use super::blocks::{Made, Translator};
use super::known::Value;
use crate::instruction::{Register, Size};
use crate::memory::FRAME_BYTES;
use crate::program::{Elements, Shortcut};

/// Registers of arguments.
pub(super) const ARGUMENTS: Range<usize> = 1..6;

impl Translator<'_> {
    pub(super) fn call_host(&mut self, at: usize, call: usize) {
        let shortcut = self.program.shortcuts.get(&call).copied();
        let is_unknown = shortcut == Some(Shortcut::Element) && self.elements().is_none();
        let Some(shortcut) = shortcut.filter(|_| !is_unknown) else {
            self.clear_unwritten(at, ARGUMENTS);
            return self.make_call(at, call);
        };
        self.clear_unwritten(at, shortcut.arguments());
        let (label, done) = (self.to.new_dynamic_label(), self.to.new_dynamic_label());
        self.shortcut(shortcut, label);
        if !shortcut.is_always() {
            self.to.dynamic_label(done);
            self.made.push(Made { label, done, at, call });
        }
    }

    /// Makes a call whose answer was not found, and goes on behind it.
    pub(super) fn make_late(&mut self, Made { label, done, at, call }: Made) {
        self.to.dynamic_label(label);
        self.clear_unwritten(at, ARGUMENTS);
        self.make_call(at, call);
        self.go_to(done);
    }

    /// Whether the answer of a call is found without one.
    pub(super) fn is_always_found(&self, call: usize) -> bool {
        self.program.shortcuts.get(&call).is_some_and(|shortcut| shortcut.is_always())
    }

    /// The map of the first argument, if that is known here.
    pub(super) fn elements(&self) -> Option<Elements> {
        match self.known(Register::FIRST) {
            Value::Number(map) => self.program.elements.get(&map).copied(),
            _ => None,
        }
    }

    /// How far the column of the first argument is behind the first one, if that is known here.
    pub(super) fn known_column(&self, columns_begin: u64, columns: u32) -> Option<u32> {
        let Value::Number(number) = self.known(Register::FIRST) else { return None };
        let column = number.checked_sub(columns_begin)?;
        (column % 8 == 0 && column < 8 * u64::from(columns)).then_some(column as u32)
    }

    /// Whether the key at the second argument is known to lie in the frame.
    pub(super) fn is_key_in_frame(&self) -> bool {
        let key_bytes = Size::Word.bytes() as i64;
        matches!(self.known(Register::SECOND), Value::Frame(offset)
            if (-(FRAME_BYTES as i64)..=-key_bytes).contains(&offset))
    }
}
