//! Accesses to memory, whose addresses were compared with the borders before.

#![allow(clippy::useless_conversion)] // `dynasm!` converts every register.

use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi, dynasm};

use super::super::blocks::Translator;
use super::super::{ARENA, PAGES};
use super::{ANSWER, native};
use crate::arena::{ARENA_BEGIN, PAGE_BITS};
use crate::instruction::{AtomicKind, Instruction, Operand, Register, Size, Width};
use crate::memory::MEMORY_BEGIN;

/// The register that is always 0, and into which what is written is lost.
const ZERO: u8 = 31;

/// Arenas: X11 is a place, counted as addresses of the memory are, while it is accessed.
impl Translator<'_> {
    /// Finds a place in the arena, or goes to `out` unless all of it is on a page that is there.
    pub(in super::super) fn find_in_arena(
        &mut self,
        base: Register,
        offset: i16,
        size: Size,
        out: DynamicLabel,
    ) {
        self.load_number(10, i64::from(offset).wrapping_sub(ARENA_BEGIN as i64) as u64);
        dynasm!(self.to ; .arch aarch64 ; add x11, X(native(base)), x10);
        if size != Size::Byte {
            let rest = size.bytes() as u32 - 1;
            dynasm!(self.to ; .arch aarch64 ; and w9, w11, rest ; cbnz w9, =>out);
        }
        let page_bits = PAGE_BITS;
        dynasm!(self.to
            ; .arch aarch64
            ; lsr x10, x11, page_bits
            ; lsr x9, x11, 32
            ; cbnz x9, =>out
            ; ldr x9, [x24, PAGES as u32]
            ; ldrb w9, [x9, x10]
            ; cbz w9, =>out
            ; ldr x9, [x24, ARENA as u32]
            ; add x11, x11, x9
            ; sub x11, x11, x25
        );
    }

    pub(in super::super) fn load_found(&mut self, size: Size, signed: bool, to: Register) {
        self.load_at(size, signed, native(to), 11);
    }

    pub(in super::super) fn store_found(&mut self, size: Size, value: Operand) {
        self.store_value_at(size, value, 11);
    }

    /// As [`Translator::atomic`].
    pub(in super::super) fn atomic_found(&mut self, of: Instruction) -> bool {
        self.atomic_at(of, 11)
    }
}

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
        self.store_value_at(size, value, at);
    }

    fn store_value_at(&mut self, size: Size, value: Operand, at: u8) {
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
        let Instruction::Atomic { base, offset, .. } = of else { return false };
        let at = self.moved(native(base), offset.into());
        self.atomic_at(of, at)
    }

    fn atomic_at(&mut self, of: Instruction, at: u8) -> bool {
        let Instruction::Atomic { kind, size, value, fetch, .. } = of else { return false };
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
