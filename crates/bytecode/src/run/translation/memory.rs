//! Accesses to memory: compared with its borders, then done.

#![allow(clippy::useless_conversion)] // `dynasm!` converts every register.

use dynasmrt::{DynasmApi, DynasmLabelApi, dynasm};

use super::known::Value;
use super::states::Reached;
use super::{Translator, native};
use crate::instruction::{AtomicKind, Instruction, Operand, Register, Size};
use crate::memory::{FRAME_BYTES, MEMORY_BEGIN};
use crate::program::Rows;

impl Translator<'_> {
    /// Compares all that is read or written by a register from here on with the borders, at once.
    /// The interpreter goes on where that is too much, also if only a later access would be.
    pub(super) fn check(&mut self, at: usize, base: Register, write: bool, uncounted: i32) {
        if self.is_known_to_be_inside(at, base, write) {
            return;
        }
        let number = base.number();
        let covers = |known: Reached, reach: (i64, i64)| {
            known.is_some_and(|known| known.0 <= reach.0 && reach.1 <= known.1)
        };
        let checked = self.state().checked;
        // What may be written may be read. No access is looked at twice.
        if let Some(own) = own_reach(&self.program.instructions[at])
            && (covers(checked.writes[number], own) || !write && covers(checked.reads[number], own))
        {
            return;
        }
        if let Some(rows) = self.written_rows(&self.program.instructions[at]) {
            return self.check_field(at, base, rows, uncounted);
        }
        let (reach, write) = self.reach(at, base, write);
        let (begin, size) = if write {
            (MEMORY_BEGIN + self.layout.writable, self.layout.bytes - self.layout.writable)
        } else {
            (MEMORY_BEGIN, self.layout.bytes)
        };
        let out = self.stub(at, uncounted);
        match size.checked_sub((reach.1 - reach.0) as u64) {
            None => dynasm!(self.to ; .arch x64 ; jmp =>out),
            Some(last) => dynasm!(self.to
                ; .arch x64
                ; lea r10, [Rq(native(base)) + (reach.0 - begin as i64) as i32]
                ; cmp r10, last as i32
                ; ja =>out
            ),
        }
        let checked = &mut self.state().checked;
        let of = if write { &mut checked.writes } else { &mut checked.reads };
        of[number] = Some(reach);
    }

    /// The lowest byte and the end of the highest that are read or written by this register until
    /// it changes or a jump may lead in, and whether any is written. A jump may lead out before:
    /// then more is asked than is needed, and at the worst the interpreter goes on.
    fn reach(&self, at: usize, base: Register, write: bool) -> ((i64, i64), bool) {
        let (mut reach, mut any_write): (Option<(i64, i64)>, _) = (None, write);
        for (next, of) in (at + 1..).zip(&self.program.instructions[at..]) {
            let access = match *of {
                Instruction::Load { base, .. } => Some((base, false)),
                Instruction::Store { base, .. } | Instruction::Atomic { base, .. } => {
                    Some((base, true))
                }
                _ => None,
            };
            if let Some((_, writes)) = access.filter(|access| access.0 == base)
                && let Some((low, high)) = own_reach(of)
                && self.written_rows(of).is_none()
            {
                reach = Some(reach.map_or((low, high), |(a, b)| (a.min(low), b.max(high))));
                any_write |= writes;
            }
            let changes = of.writes() == Some(base)
                || matches!(of, Instruction::Call(_)) && base.number() < 6;
            if changes || of.leaves() || self.targets.get(next).copied().unwrap_or(true) {
                break;
            }
        }
        (reach.unwrap_or((0, 0)), any_write)
    }

    /// The rows in which this may write a field, if its base is where a row begins.
    fn written_rows(&self, of: &Instruction) -> Option<Rows> {
        let Instruction::Store { size: Size::Double, base, offset, .. } = *of else { return None };
        let is_field = |&&(_, field): &&(Rows, u32)| field == offset as u32 && offset >= 0;
        let fields = &self.program.written_fields;
        fields.iter().find(is_field).map(|&(rows, _)| rows).filter(|_| base != Register::FRAME)
    }

    /// Lets a field of a row be written, or what the program may write anyway.
    fn check_field(&mut self, at: usize, base: Register, rows: Rows, uncounted: i32) {
        let Some((low, high)) = own_reach(&self.program.instructions[at]) else { return };
        let begin = MEMORY_BEGIN + self.layout.writable;
        let last = (self.layout.bytes - self.layout.writable) - (high - low) as u64;
        let inside = self.to.new_dynamic_label();
        dynasm!(self.to
            ; .arch x64
            ; lea r10, [Rq(native(base)) + (low - begin as i64) as i32]
            ; cmp r10, last as i32
            ; jbe =>inside
        );
        let out = self.stub(at, uncounted);
        self.check_row(native(base), rows, out);
        dynasm!(self.to ; .arch x64 ; =>inside);
    }

    /// Whether an access is inside, whatever the program did before.
    fn is_known_to_be_inside(&self, at: usize, base: Register, write: bool) -> bool {
        let Some((low, high)) = own_reach(&self.program.instructions[at]) else { return false };
        match self.known(base) {
            Value::Any => false,
            Value::Frame(offset) => {
                let reach = offset.saturating_add(low)..offset.saturating_add(high);
                reach.start >= -(FRAME_BYTES as i64) && reach.end <= 0
            }
            Value::Given(given) => {
                let reach = given.offset.saturating_add(low)..given.offset.saturating_add(high);
                given.is_there && reach.start >= 0 && reach.end <= given.bytes.into()
            }
            Value::Number(number) => {
                let begin = MEMORY_BEGIN + if write { self.layout.writable } else { 0 };
                let end = MEMORY_BEGIN + self.layout.bytes;
                let (low, high) = (number.checked_add_signed(low), number.checked_add_signed(high));
                low.is_some_and(|low| low >= begin) && high.is_some_and(|high| high <= end)
            }
        }
    }

    fn displacement(offset: i16) -> i32 {
        i32::from(offset) - MEMORY_BEGIN as i32
    }

    pub(super) fn load(&mut self, size: Size, signed: bool, to: u8, base: u8, offset: i16) {
        let at = Self::displacement(offset);
        match (size, signed) {
            (Size::Byte, false) => {
                dynasm!(self.to ; .arch x64 ; movzx Rd(to), BYTE [r11 + Rq(base) + at]);
            }
            (Size::Half, false) => {
                dynasm!(self.to ; .arch x64 ; movzx Rd(to), WORD [r11 + Rq(base) + at]);
            }
            (Size::Word, false) => dynasm!(self.to ; .arch x64 ; mov Rd(to), [r11 + Rq(base) + at]),
            (Size::Byte, true) => {
                dynasm!(self.to ; .arch x64 ; movsx Rq(to), BYTE [r11 + Rq(base) + at]);
            }
            (Size::Half, true) => {
                dynasm!(self.to ; .arch x64 ; movsx Rq(to), WORD [r11 + Rq(base) + at]);
            }
            (Size::Word, true) => {
                dynasm!(self.to ; .arch x64 ; movsxd Rq(to), DWORD [r11 + Rq(base) + at]);
            }
            (Size::Double, _) => dynasm!(self.to ; .arch x64 ; mov Rq(to), [r11 + Rq(base) + at]),
        }
    }

    pub(super) fn store(&mut self, size: Size, base: u8, offset: i16, value: Operand) {
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
    pub(super) fn atomic(
        &mut self,
        kind: AtomicKind,
        size: Size,
        base: u8,
        offset: i16,
        value: u8,
        fetch: bool,
    ) -> bool {
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

/// The first byte of an access and the end of its last, from what its register holds.
fn own_reach(of: &Instruction) -> Option<(i64, i64)> {
    match *of {
        Instruction::Load { size, offset, .. }
        | Instruction::Store { size, offset, .. }
        | Instruction::Atomic { size, offset, .. } => {
            Some((offset.into(), i64::from(offset) + size.bytes() as i64))
        }
        _ => None,
    }
}
