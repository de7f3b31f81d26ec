//! Accesses to memory, whose addresses were compared with the borders before.

#![allow(clippy::useless_conversion)] // `dynasm!` converts every register.

use dynasmrt::{DynasmApi, dynasm};

use super::super::blocks::Translator;
use super::{ANSWER, native};
use crate::instruction::{AtomicKind, Instruction, Operand, Register, Size, Width};
use crate::memory::MEMORY_BEGIN;

/// The register that is always 0, and into which what is written is lost.
const ZERO: u8 = 31;

impl Translator<'_> {
    /// Compares how far an address is behind a number with the last distance that is allowed.
    pub(in super::super) fn compare_distance(&mut self, base: Register, from: i64, last: u64) {
        self.compare_distance_of(native(base), from, last);
    }

    /// The same, of a register of the machine's.
    pub(super) fn compare_distance_of(&mut self, base: u8, from: i64, last: u64) {
        self.add_number(9, base, from.wrapping_neg());
        self.load_number(10, last);
        dynasm!(self.to ; .arch aarch64 ; cmp x9, x10);
    }

    /// A register that holds an address and an offset: the address's own if there is none.
    pub(super) fn moved(&mut self, base: u8, offset: i64) -> u8 {
        if offset == 0 {
            return base;
        }
        self.add_number(11, base, offset);
        11
    }

    /// Loads what lies at an address.
    pub(super) fn load_at(&mut self, size: Size, signed: bool, to: u8, at: u8) {
        match (size, signed) {
            (Size::Byte, false) => dynasm!(self.to ; .arch aarch64 ; ldrb W(to), [x25, X(at)]),
            (Size::Half, false) => dynasm!(self.to ; .arch aarch64 ; ldrh W(to), [x25, X(at)]),
            (Size::Word, false) => dynasm!(self.to ; .arch aarch64 ; ldr W(to), [x25, X(at)]),
            (Size::Byte, true) => dynasm!(self.to ; .arch aarch64 ; ldrsb X(to), [x25, X(at)]),
            (Size::Half, true) => dynasm!(self.to ; .arch aarch64 ; ldrsh X(to), [x25, X(at)]),
            (Size::Word, true) => dynasm!(self.to ; .arch aarch64 ; ldrsw X(to), [x25, X(at)]),
            (Size::Double, _) => dynasm!(self.to ; .arch aarch64 ; ldr X(to), [x25, X(at)]),
        }
    }

    /// Stores the lower bytes of a register at an address.
    pub(super) fn store_at(&mut self, size: Size, from: u8, at: u8) {
        match size {
            Size::Byte => dynasm!(self.to ; .arch aarch64 ; strb W(from), [x25, X(at)]),
            Size::Half => dynasm!(self.to ; .arch aarch64 ; strh W(from), [x25, X(at)]),
            Size::Word => dynasm!(self.to ; .arch aarch64 ; str W(from), [x25, X(at)]),
            Size::Double => dynasm!(self.to ; .arch aarch64 ; str X(from), [x25, X(at)]),
        }
    }

    pub(in super::super) fn load(
        &mut self,
        size: Size,
        signed: bool,
        to: Register,
        base: Register,
        offset: i16,
    ) {
        let at = self.moved(native(base), offset.into());
        self.load_at(size, signed, native(to), at);
    }

    /// Loads what lies so far behind the memory's first byte.
    pub(in super::super) fn load_fixed(&mut self, size: Size, signed: bool, to: Register, at: i32) {
        self.load_number(11, MEMORY_BEGIN.wrapping_add_signed(at.into()));
        self.load_at(size, signed, native(to), 11);
    }

    pub(in super::super) fn store(
        &mut self,
        size: Size,
        base: Register,
        offset: i16,
        value: Operand,
    ) {
        let at = self.moved(native(base), offset.into());
        let from = match value {
            Operand::Register(from) => native(from),
            Operand::Number(0) => ZERO,
            Operand::Number(number) => {
                self.load_number(10, number as i64 as u64);
                10
            }
        };
        self.store_at(size, from, at);
    }

    /// An operation on memory; `false` if there is none. A run has one thread, so that nothing
    /// needs to be locked.
    pub(in super::super) fn atomic(&mut self, of: Instruction) -> bool {
        let Instruction::Atomic { kind, size, base, offset, value, fetch } = of else {
            return false;
        };
        let at = self.moved(native(base), offset.into());
        let value = native(value);
        self.load_at(size, false, 9, at);
        match kind {
            AtomicKind::Add => dynasm!(self.to ; .arch aarch64 ; add x10, x9, X(value)),
            AtomicKind::Or => dynasm!(self.to ; .arch aarch64 ; orr x10, x9, X(value)),
            AtomicKind::And => dynasm!(self.to ; .arch aarch64 ; and x10, x9, X(value)),
            AtomicKind::Xor => dynasm!(self.to ; .arch aarch64 ; eor x10, x9, X(value)),
            AtomicKind::Exchange => dynasm!(self.to ; .arch aarch64 ; mov x10, X(value)),
            AtomicKind::CompareExchange => {
                let width = if size == Size::Word { Width::Bits32 } else { Width::Bits64 };
                match width {
                    Width::Bits32 => dynasm!(self.to ; .arch aarch64 ; cmp w9, W(ANSWER)),
                    Width::Bits64 => dynasm!(self.to ; .arch aarch64 ; cmp x9, X(ANSWER)),
                }
                dynasm!(self.to ; .arch aarch64 ; csel x10, X(value), x9, eq);
            }
        }
        self.store_at(size, 10, at);
        match kind {
            AtomicKind::CompareExchange => dynasm!(self.to ; .arch aarch64 ; mov X(ANSWER), x9),
            _ if fetch => dynasm!(self.to ; .arch aarch64 ; mov X(value), x9),
            _ => {}
        }
        true
    }
}
