//! Calls of the host: which of them have their answer in the memory, and what is known of them.

use dynasmrt::DynasmLabelApi;

use super::blocks::Translator;
use super::known::Value;
use crate::instruction::{Register, Size};
use crate::memory::FRAME_BYTES;
use crate::program::{Elements, Shortcut};

impl Translator<'_> {
    pub(super) fn call_host(&mut self, at: usize, call: usize) {
        self.clear_unwritten(at);
        let Some(&shortcut) = self.program.shortcuts.get(&call) else {
            return self.make_call(at, call);
        };
        if shortcut == Shortcut::Element && self.elements().is_none() {
            return self.make_call(at, call);
        }
        let (made, done) = (self.to.new_dynamic_label(), self.to.new_dynamic_label());
        self.shortcut(shortcut, made);
        if shortcut.is_always() {
            return;
        }
        self.go_to(done);
        self.to.dynamic_label(made);
        self.make_call(at, call);
        self.to.dynamic_label(done);
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
