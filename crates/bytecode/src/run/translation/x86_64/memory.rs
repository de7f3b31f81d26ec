//! Accesses to memory, whose addresses were compared with the borders before.

#![allow(clippy::useless_conversion)] // `dynasm!` converts every register.

use dynasmrt::{DynasmApi, dynasm};

use super::super::blocks::Translator;
use super::native;
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
        let base = native(base);
        let at = Self::displacement(offset);
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
        let Instruction::Atomic { kind, size, base, offset, value, fetch } = of else {
            return false;
        };
        let (base, value) = (native(base), native(value));
        let at = Self::displacement(offset);
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
