//! Accesses to memory, whose addresses were compared with the borders before.

#![allow(clippy::useless_conversion)] // `dynasm!` converts every register.

use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi, dynasm};

use super::super::blocks::Translator;
use super::super::{ARENA, FIRST, PAGES};
use super::{R10, native};
use crate::arena::{ARENA_BEGIN, PAGE_BITS, PAGES_ADDRESSED};
use crate::instruction::{AtomicKind, Instruction, Operand, Register, Size};
use crate::memory::MEMORY_BEGIN;

/// Loads what lies at a place into a register.
macro_rules! load {
    ($translator:ident, $size:ident, $signed:ident, $to:ident, $($at:tt)*) => {
        match ($size, $signed) {
            (Size::Byte, false) => dynasm!($translator.to
                ; .arch x64 ; movzx Rd(native($to)), BYTE [$($at)*]),
            (Size::Half, false) => dynasm!($translator.to
                ; .arch x64 ; movzx Rd(native($to)), WORD [$($at)*]),
            (Size::Word, false) => dynasm!($translator.to
                ; .arch x64 ; mov Rd(native($to)), [$($at)*]),
            (Size::Byte, true) => dynasm!($translator.to
                ; .arch x64 ; movsx Rq(native($to)), BYTE [$($at)*]),
            (Size::Half, true) => dynasm!($translator.to
                ; .arch x64 ; movsx Rq(native($to)), WORD [$($at)*]),
            (Size::Word, true) => dynasm!($translator.to
                ; .arch x64 ; movsxd Rq(native($to)), DWORD [$($at)*]),
            (Size::Double, _) => dynasm!($translator.to
                ; .arch x64 ; mov Rq(native($to)), [$($at)*]),
        }
    };
}

/// Arenas: R10 is a place behind R11, the arena's first byte, while it is accessed.
impl Translator<'_> {
    /// Finds a place in the arena, or goes to `out` unless all of it is on a page that is there.
    pub(in super::super) fn find_in_arena(
        &mut self,
        base: Register,
        offset: i16,
        size: Size,
        out: DynamicLabel,
    ) {
        let behind = i64::from(offset).wrapping_sub(ARENA_BEGIN as i64);
        dynasm!(self.to ; .arch x64 ; mov r10, QWORD behind ; add r10, Rq(native(base)));
        if size != Size::Byte {
            dynasm!(self.to ; .arch x64 ; test r10d, size.bytes() as i32 - 1 ; jne =>out);
        }
        dynasm!(self.to
            ; .arch x64
            ; mov r11, r10
            ; shr r11, PAGE_BITS as i8
            ; cmp r11, PAGES_ADDRESSED as i32
            ; jae =>out
            ; add r11, [r12 + PAGES]
            ; cmp BYTE [r11], 0
            ; je =>out
            ; mov r11, [r12 + ARENA]
        );
    }

    pub(in super::super) fn load_found(&mut self, size: Size, signed: bool, to: Register) {
        load!(self, size, signed, to, r11 + r10);
        self.leave_arena();
    }

    pub(in super::super) fn store_found(&mut self, size: Size, value: Operand) {
        self.store_behind(size, R10, 0, value);
        self.leave_arena();
    }

    /// As [`Translator::atomic`].
    pub(in super::super) fn atomic_found(&mut self, of: Instruction) -> bool {
        let is_known = self.atomic_behind(of, R10, 0);
        self.leave_arena();
        is_known
    }

    fn leave_arena(&mut self) {
        dynasm!(self.to ; .arch x64 ; mov r11, [r12 + FIRST]);
    }
}

impl Translator<'_> {
    /// Compares how far an address is behind a number with the last distance that is allowed.
    pub(in super::super) fn compare_distance(&mut self, base: Register, from: i64, last: u64) {
        dynasm!(self.to
            ; .arch x64
            ; lea r10, [Rq(native(base)) + -from as i32]
            ; cmp r10, last as i32
        );
    }

    fn displacement(offset: i16) -> i32 {
        i32::from(offset) - MEMORY_BEGIN as i32
    }

    pub(in super::super) fn load(
        &mut self,
        size: Size,
        signed: bool,
        to: Register,
        base: Register,
        offset: i16,
    ) {
        self.load_behind(size, signed, to, base, Self::displacement(offset));
    }

    /// Loads what lies so far behind an address, which is itself behind the memory's first byte.
    pub(super) fn load_behind(
        &mut self,
        size: Size,
        signed: bool,
        to: Register,
        base: Register,
        at: i32,
    ) {
        load!(self, size, signed, to, r11 + Rq(native(base)) + at);
    }

    /// Loads what lies so far behind the memory's first byte.
    pub(in super::super) fn load_fixed(&mut self, size: Size, signed: bool, to: Register, at: i32) {
        load!(self, size, signed, to, r11 + at);
    }

    pub(in super::super) fn store(
        &mut self,
        size: Size,
        base: Register,
        offset: i16,
        value: Operand,
    ) {
        self.store_behind(size, native(base), Self::displacement(offset), value);
    }

    fn store_behind(&mut self, size: Size, base: u8, at: i32, value: Operand) {
        match (size, value) {
            (Size::Byte, Operand::Register(from)) => {
                dynasm!(self.to ; .arch x64 ; mov [r11 + Rq(base) + at], Rb(native(from)));
            }
            (Size::Half, Operand::Register(from)) => {
                dynasm!(self.to ; .arch x64 ; mov [r11 + Rq(base) + at], Rw(native(from)));
            }
            (Size::Word, Operand::Register(from)) => {
                dynasm!(self.to ; .arch x64 ; mov [r11 + Rq(base) + at], Rd(native(from)));
            }
            (Size::Double, Operand::Register(from)) => {
                dynasm!(self.to ; .arch x64 ; mov [r11 + Rq(base) + at], Rq(native(from)));
            }
            (Size::Byte, Operand::Number(number)) => {
                dynasm!(self.to ; .arch x64 ; mov BYTE [r11 + Rq(base) + at], number as i8);
            }
            (Size::Half, Operand::Number(number)) => {
                dynasm!(self.to ; .arch x64 ; mov WORD [r11 + Rq(base) + at], number as i16);
            }
            (Size::Word, Operand::Number(number)) => {
                dynasm!(self.to ; .arch x64 ; mov DWORD [r11 + Rq(base) + at], number);
            }
            (Size::Double, Operand::Number(number)) => {
                dynasm!(self.to ; .arch x64 ; mov QWORD [r11 + Rq(base) + at], number);
            }
        }
    }

    /// An operation on memory; `false` if the machine has no such instruction. A run has one
    /// thread, so that nothing needs to be locked.
    pub(in super::super) fn atomic(&mut self, of: Instruction) -> bool {
        let Instruction::Atomic { base, offset, .. } = of else { return false };
        self.atomic_behind(of, native(base), Self::displacement(offset))
    }

    fn atomic_behind(&mut self, of: Instruction, base: u8, at: i32) -> bool {
        let Instruction::Atomic { kind, size, value, fetch, .. } = of else { return false };
        let value = native(value);
        macro_rules! on_memory {
            ($operation:ident) => {
                match size {
                    Size::Word => {
                        dynasm!(self.to ; .arch x64 ; $operation [r11 + Rq(base) + at], Rd(value))
                    }
                    _ => dynasm!(self.to ; .arch x64 ; $operation [r11 + Rq(base) + at], Rq(value)),
                }
            };
        }
        match (kind, fetch) {
            (AtomicKind::Add, false) => on_memory!(add),
            (AtomicKind::Or, false) => on_memory!(or),
            (AtomicKind::And, false) => on_memory!(and),
            (AtomicKind::Xor, false) => on_memory!(xor),
            (AtomicKind::Add, true) => on_memory!(xadd),
            (AtomicKind::Exchange, _) => on_memory!(xchg),
            (AtomicKind::CompareExchange, _) => {
                on_memory!(cmpxchg);
                if size == Size::Word {
                    dynasm!(self.to ; .arch x64 ; mov eax, eax);
                }
            }
            _ => return false,
        }
        true
    }
}
