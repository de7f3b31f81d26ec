//! What instructions compute, in this machine's own.

#![allow(clippy::useless_conversion)] // `dynasm!` converts every register.

use dynasmrt::{DynasmApi, DynasmLabelApi, dynasm};

use super::super::blocks::Translator;
use super::{RAX, RCX, RDX, native};
use crate::instruction::{Arithmetic, ByteOrder, Operand, Register, Width};

impl Translator<'_> {
    pub(in super::super) fn load_wide(&mut self, to: Register, value: u64) {
        self.load_number(native(to), value);
    }

    pub(in super::super) fn load_in_frame(&mut self, to: Register, offset: i64) {
        let (to, frame) = (native(to), native(Register::FRAME));
        match i32::try_from(offset) {
            Ok(offset) => dynasm!(self.to ; .arch x64 ; lea Rq(to), [Rq(frame) + offset]),
            Err(_) => {
                self.load_number(to, offset as u64);
                dynasm!(self.to ; .arch x64 ; add Rq(to), Rq(frame));
            }
        }
    }

    pub(in super::super) fn cast(&mut self, to: Register, from: Register, upper: u32) {
        let (to, from) = (native(to), native(from));
        dynasm!(self.to ; .arch x64 ; mov Rd(to), Rd(from));
        if upper != 0 {
            let upper = (u64::from(upper) << 32) as i64;
            let null = self.to.new_dynamic_label();
            dynasm!(self.to
                ; .arch x64
                ; test Rd(to), Rd(to)
                ; je =>null
                ; mov r10, QWORD upper
                ; or Rq(to), r10
                ; =>null
            );
        }
    }

    fn load_number(&mut self, to: u8, value: u64) {
        if let Ok(number) = u32::try_from(value) {
            dynasm!(self.to ; .arch x64 ; mov Rd(to), number as i32);
        } else if let Ok(number) = i32::try_from(value as i64) {
            dynasm!(self.to ; .arch x64 ; mov Rq(to), number);
        } else {
            dynasm!(self.to ; .arch x64 ; mov Rq(to), QWORD value as i64);
        }
    }

    pub(in super::super) fn arithmetic(
        &mut self,
        operation: Arithmetic,
        width: Width,
        to: Register,
        by: Operand,
    ) {
        let to = native(to);
        macro_rules! two {
            ($name:ident) => {
                match (width, by) {
                    (Width::Bits64, Operand::Register(by)) => {
                        dynasm!(self.to ; .arch x64 ; $name Rq(to), Rq(native(by)))
                    }
                    (Width::Bits32, Operand::Register(by)) => {
                        dynasm!(self.to ; .arch x64 ; $name Rd(to), Rd(native(by)))
                    }
                    (Width::Bits64, Operand::Number(number)) => {
                        dynasm!(self.to ; .arch x64 ; $name Rq(to), number)
                    }
                    (Width::Bits32, Operand::Number(number)) => {
                        dynasm!(self.to ; .arch x64 ; $name Rd(to), number)
                    }
                }
            };
        }
        match operation {
            Arithmetic::Add => two!(add),
            Arithmetic::Subtract => two!(sub),
            Arithmetic::Or => two!(or),
            Arithmetic::And => two!(and),
            Arithmetic::Xor => two!(xor),
            Arithmetic::Multiply => self.multiply(width, to, by),
            Arithmetic::Move => match (width, by) {
                (Width::Bits64, Operand::Number(number)) => {
                    self.load_number(to, number as i64 as u64);
                }
                (Width::Bits32, Operand::Number(number)) => {
                    dynasm!(self.to ; .arch x64 ; mov Rd(to), number);
                }
                (Width::Bits64, Operand::Register(by)) => {
                    dynasm!(self.to ; .arch x64 ; mov Rq(to), Rq(native(by)));
                }
                (Width::Bits32, Operand::Register(by)) => {
                    dynasm!(self.to ; .arch x64 ; mov Rd(to), Rd(native(by)));
                }
            },
            Arithmetic::ShiftLeft | Arithmetic::ShiftRight | Arithmetic::ShiftRightSigned => {
                self.shift(operation, width, to, by);
            }
            Arithmetic::Divide
            | Arithmetic::DivideSigned
            | Arithmetic::Modulo
            | Arithmetic::ModuloSigned => self.divide(operation, width, to, by),
        }
    }

    fn multiply(&mut self, width: Width, to: u8, by: Operand) {
        match (width, by) {
            (Width::Bits64, Operand::Register(by)) => {
                dynasm!(self.to ; .arch x64 ; imul Rq(to), Rq(native(by)));
            }
            (Width::Bits32, Operand::Register(by)) => {
                dynasm!(self.to ; .arch x64 ; imul Rd(to), Rd(native(by)));
            }
            (Width::Bits64, Operand::Number(number)) => {
                dynasm!(self.to ; .arch x64 ; imul Rq(to), Rq(to), number);
            }
            (Width::Bits32, Operand::Number(number)) => {
                dynasm!(self.to ; .arch x64 ; imul Rd(to), Rd(to), number);
            }
        }
    }

    /// The machine shifts by what stands in CL, and takes its lower 5 or 6 bits as BPF does.
    fn shift(&mut self, operation: Arithmetic, width: Width, to: u8, by: Operand) {
        macro_rules! shift {
            ($of:expr, $by:tt) => {
                match (operation, width) {
                    (Arithmetic::ShiftLeft, Width::Bits64) => {
                        dynasm!(self.to ; .arch x64 ; shl Rq($of), $by)
                    }
                    (Arithmetic::ShiftLeft, Width::Bits32) => {
                        dynasm!(self.to ; .arch x64 ; shl Rd($of), $by)
                    }
                    (Arithmetic::ShiftRight, Width::Bits64) => {
                        dynasm!(self.to ; .arch x64 ; shr Rq($of), $by)
                    }
                    (Arithmetic::ShiftRight, Width::Bits32) => {
                        dynasm!(self.to ; .arch x64 ; shr Rd($of), $by)
                    }
                    (_, Width::Bits64) => dynasm!(self.to ; .arch x64 ; sar Rq($of), $by),
                    (_, Width::Bits32) => dynasm!(self.to ; .arch x64 ; sar Rd($of), $by),
                }
            };
        }
        // A narrow shift by nothing leaves the upper half, which is to be 0.
        let clears = width == Width::Bits32;
        match by {
            Operand::Number(number) => {
                if clears && number == 0 {
                    dynasm!(self.to ; .arch x64 ; mov Rd(to), Rd(to));
                }
                let number = number as i8;
                shift!(to, number);
            }
            Operand::Register(by) => {
                let by = native(by);
                dynasm!(self.to ; .arch x64 ; mov r10, rcx);
                if by != RCX {
                    dynasm!(self.to ; .arch x64 ; mov rcx, Rq(by));
                }
                if to == RCX {
                    if clears {
                        dynasm!(self.to ; .arch x64 ; mov r10d, r10d);
                    }
                    shift!(10, cl);
                } else {
                    if clears {
                        dynasm!(self.to ; .arch x64 ; mov Rd(to), Rd(to));
                    }
                    shift!(to, cl);
                }
                dynasm!(self.to ; .arch x64 ; mov rcx, r10);
            }
        }
    }

    /// The machine divides what stands in RDX and RAX, and traps where BPF has an answer.
    fn divide(&mut self, operation: Arithmetic, width: Width, to: u8, by: Operand) {
        let rest = matches!(operation, Arithmetic::Modulo | Arithmetic::ModuloSigned);
        let signed = matches!(operation, Arithmetic::DivideSigned | Arithmetic::ModuloSigned);
        let [zero, minus_one, done] = std::array::from_fn(|_| self.to.new_dynamic_label());
        match by {
            Operand::Register(by) => dynasm!(self.to ; .arch x64 ; mov r10, Rq(native(by))),
            Operand::Number(number) => dynasm!(self.to ; .arch x64 ; mov r10, number),
        }
        let wide = width == Width::Bits64;
        let is_plain = matches!(by, Operand::Number(number) if number != 0 && number != -1);
        match wide {
            _ if is_plain => {}
            true => dynasm!(self.to ; .arch x64 ; test r10, r10 ; je =>zero),
            false => dynasm!(self.to ; .arch x64 ; test r10d, r10d ; je =>zero),
        }
        match (signed, wide) {
            _ if is_plain => {}
            (true, true) => dynasm!(self.to ; .arch x64 ; cmp r10, -1 ; je =>minus_one),
            (true, false) => dynasm!(self.to ; .arch x64 ; cmp r10d, -1 ; je =>minus_one),
            _ => {}
        }
        dynasm!(self.to ; .arch x64 ; push rax ; push rdx ; mov rax, Rq(to));
        match (signed, wide) {
            (true, true) => dynasm!(self.to ; .arch x64 ; cqo ; idiv r10),
            (true, false) => dynasm!(self.to ; .arch x64 ; cdq ; idiv r10d),
            (false, true) => dynasm!(self.to ; .arch x64 ; xor edx, edx ; div r10),
            (false, false) => dynasm!(self.to ; .arch x64 ; xor edx, edx ; div r10d),
        }
        let answer = if rest { RDX } else { RAX };
        dynasm!(self.to
            ; .arch x64
            ; mov r10, Rq(answer)
            ; pop rdx
            ; pop rax
            ; mov Rq(to), r10
        );
        if is_plain {
            return;
        }
        dynasm!(self.to ; .arch x64 ; jmp =>done ; =>minus_one);
        match (rest, wide) {
            (true, _) => dynasm!(self.to ; .arch x64 ; xor Rd(to), Rd(to)),
            (false, true) => dynasm!(self.to ; .arch x64 ; neg Rq(to)),
            (false, false) => dynasm!(self.to ; .arch x64 ; neg Rd(to)),
        }
        dynasm!(self.to ; .arch x64 ; jmp =>done ; =>zero);
        match (rest, wide) {
            (true, true) => {}
            (true, false) => dynasm!(self.to ; .arch x64 ; mov Rd(to), Rd(to)),
            (false, _) => dynasm!(self.to ; .arch x64 ; xor Rd(to), Rd(to)),
        }
        dynasm!(self.to ; .arch x64 ; =>done);
    }

    pub(in super::super) fn negate(&mut self, width: Width, to: Register) {
        match width {
            Width::Bits64 => dynasm!(self.to ; .arch x64 ; neg Rq(native(to))),
            Width::Bits32 => dynasm!(self.to ; .arch x64 ; neg Rd(native(to))),
        }
    }

    pub(in super::super) fn move_signed(
        &mut self,
        width: Width,
        to: Register,
        from: Register,
        bits: u8,
    ) {
        let (to, from) = (native(to), native(from));
        match (width, bits) {
            (Width::Bits64, 8) => dynasm!(self.to ; .arch x64 ; movsx Rq(to), Rb(from)),
            (Width::Bits64, 16) => dynasm!(self.to ; .arch x64 ; movsx Rq(to), Rw(from)),
            (Width::Bits64, _) => dynasm!(self.to ; .arch x64 ; movsxd Rq(to), Rd(from)),
            (Width::Bits32, 8) => dynasm!(self.to ; .arch x64 ; movsx Rd(to), Rb(from)),
            (Width::Bits32, _) => dynasm!(self.to ; .arch x64 ; movsx Rd(to), Rw(from)),
        }
    }

    pub(in super::super) fn reorder(&mut self, order: ByteOrder, to: Register, bits: u8) {
        let to = native(to);
        let swaps = order != ByteOrder::Little;
        match (bits, swaps) {
            (16, true) => dynasm!(self.to ; .arch x64 ; rol Rw(to), 8 ; movzx Rd(to), Rw(to)),
            (16, false) => dynasm!(self.to ; .arch x64 ; movzx Rd(to), Rw(to)),
            (32, true) => dynasm!(self.to ; .arch x64 ; bswap Rd(to)),
            (32, false) => dynasm!(self.to ; .arch x64 ; mov Rd(to), Rd(to)),
            (_, true) => dynasm!(self.to ; .arch x64 ; bswap Rq(to)),
            (_, false) => {}
        }
    }
}
