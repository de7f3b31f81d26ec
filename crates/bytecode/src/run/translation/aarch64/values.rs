//! What instructions compute, in this machine's own.

#![allow(clippy::useless_conversion)] // `dynasm!` converts every register.

use dynasmrt::{DynasmApi, DynasmLabelApi, dynasm};

use super::super::blocks::Translator;
use super::{SHORT_MAX, native};
use crate::instruction::{Arithmetic, ByteOrder, Operand, Register, Width};

impl Translator<'_> {
    pub(in super::super) fn load_wide(&mut self, to: Register, value: u64) {
        self.load_number(native(to), value);
    }

    pub(in super::super) fn load_in_frame(&mut self, to: Register, offset: i64) {
        self.add_number(native(to), native(Register::FRAME), offset);
    }

    /// Puts a number together from quarters of it, of which those that are all 0, or all 1 if there
    /// are more of these, need no instruction.
    pub(super) fn load_number(&mut self, to: u8, value: u64) {
        let quarters = [0, 16, 32, 48].map(|shift| ((value >> shift) as u16, shift));
        let count = |quarter: u16| quarters.iter().filter(|(of, _)| *of == quarter).count();
        let inverted = count(u16::MAX) > count(0);
        let usual = if inverted { u16::MAX } else { 0 };
        let mut rest = quarters.into_iter().filter(|&(of, _)| of != usual);
        let (first, shift) = rest.next().unwrap_or((usual, 0));
        let bits = u32::from(if inverted { !first } else { first });
        match (inverted, shift) {
            (false, 0) => dynasm!(self.to ; .arch aarch64 ; movz X(to), bits),
            (false, 16) => dynasm!(self.to ; .arch aarch64 ; movz X(to), bits, lsl 16),
            (false, 32) => dynasm!(self.to ; .arch aarch64 ; movz X(to), bits, lsl 32),
            (false, _) => dynasm!(self.to ; .arch aarch64 ; movz X(to), bits, lsl 48),
            (true, 0) => dynasm!(self.to ; .arch aarch64 ; movn X(to), bits),
            (true, 16) => dynasm!(self.to ; .arch aarch64 ; movn X(to), bits, lsl 16),
            (true, 32) => dynasm!(self.to ; .arch aarch64 ; movn X(to), bits, lsl 32),
            (true, _) => dynasm!(self.to ; .arch aarch64 ; movn X(to), bits, lsl 48),
        }
        for (quarter, shift) in rest {
            let bits = u32::from(quarter);
            match shift {
                16 => dynasm!(self.to ; .arch aarch64 ; movk X(to), bits, lsl 16),
                32 => dynasm!(self.to ; .arch aarch64 ; movk X(to), bits, lsl 32),
                _ => dynasm!(self.to ; .arch aarch64 ; movk X(to), bits, lsl 48),
            }
        }
    }

    /// Adds a number to a register, by way of X10 if it is long.
    pub(super) fn add_number(&mut self, to: u8, from: u8, number: i64) {
        let of = number.unsigned_abs();
        if of <= SHORT_MAX {
            let of = of as u32;
            if number < 0 {
                dynasm!(self.to ; .arch aarch64 ; sub XSP(to), XSP(from), of);
            } else {
                dynasm!(self.to ; .arch aarch64 ; add XSP(to), XSP(from), of);
            }
        } else {
            self.load_number(10, number as u64);
            dynasm!(self.to ; .arch aarch64 ; add X(to), X(from), x10);
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
        let by = match (operation, width, by) {
            (Arithmetic::Add, Width::Bits64, Operand::Number(number)) => {
                return self.add_number(to, to, number.into());
            }
            (Arithmetic::Subtract, Width::Bits64, Operand::Number(number)) => {
                return self.add_number(to, to, -i64::from(number));
            }
            (Arithmetic::Move, Width::Bits64, Operand::Number(number)) => {
                return self.load_number(to, number as i64 as u64);
            }
            (Arithmetic::Move, Width::Bits32, Operand::Number(number)) => {
                return self.load_number(to, (number as u32).into());
            }
            (_, _, Operand::Register(by)) => native(by),
            (_, _, Operand::Number(number)) => {
                self.load_number(10, number as i64 as u64);
                10
            }
        };
        self.compute(operation, width, to, by);
    }

    fn compute(&mut self, operation: Arithmetic, width: Width, to: u8, by: u8) {
        macro_rules! two {
            ($name:ident) => {
                match width {
                    Width::Bits64 => dynasm!(self.to ; .arch aarch64 ; $name X(to), X(to), X(by)),
                    Width::Bits32 => dynasm!(self.to ; .arch aarch64 ; $name W(to), W(to), W(by)),
                }
            };
        }
        match operation {
            Arithmetic::Add => two!(add),
            Arithmetic::Subtract => two!(sub),
            Arithmetic::Or => two!(orr),
            Arithmetic::And => two!(and),
            Arithmetic::Xor => two!(eor),
            Arithmetic::Multiply => two!(mul),
            // The machine takes the lower 5 or 6 bits of what it shifts by, as BPF does.
            Arithmetic::ShiftLeft => two!(lsl),
            Arithmetic::ShiftRight => two!(lsr),
            Arithmetic::ShiftRightSigned => two!(asr),
            // By zero it gives 0, and the least number by -1 is itself, as in BPF.
            Arithmetic::Divide => two!(udiv),
            Arithmetic::DivideSigned => two!(sdiv),
            Arithmetic::Modulo | Arithmetic::ModuloSigned => {
                self.rest(operation == Arithmetic::ModuloSigned, width, to, by);
            }
            Arithmetic::Move => match width {
                Width::Bits64 => dynasm!(self.to ; .arch aarch64 ; mov X(to), X(by)),
                Width::Bits32 => dynasm!(self.to ; .arch aarch64 ; mov W(to), W(by)),
            },
        }
    }

    /// What is left of a division: by zero all of it, since that gives 0.
    fn rest(&mut self, signed: bool, width: Width, to: u8, by: u8) {
        match (signed, width) {
            (true, Width::Bits64) => dynasm!(self.to ; .arch aarch64 ; sdiv x9, X(to), X(by)),
            (true, Width::Bits32) => dynasm!(self.to ; .arch aarch64 ; sdiv w9, W(to), W(by)),
            (false, Width::Bits64) => dynasm!(self.to ; .arch aarch64 ; udiv x9, X(to), X(by)),
            (false, Width::Bits32) => dynasm!(self.to ; .arch aarch64 ; udiv w9, W(to), W(by)),
        }
        match width {
            Width::Bits64 => dynasm!(self.to ; .arch aarch64 ; msub X(to), x9, X(by), X(to)),
            Width::Bits32 => dynasm!(self.to ; .arch aarch64 ; msub W(to), w9, W(by), W(to)),
        }
    }

    pub(in super::super) fn negate(&mut self, width: Width, to: Register) {
        let to = native(to);
        match width {
            Width::Bits64 => dynasm!(self.to ; .arch aarch64 ; neg X(to), X(to)),
            Width::Bits32 => dynasm!(self.to ; .arch aarch64 ; neg W(to), W(to)),
        }
    }

    pub(in super::super) fn cast(&mut self, to: Register, from: Register, upper: u32) {
        let (to, from) = (native(to), native(from));
        dynasm!(self.to ; .arch aarch64 ; mov W(to), W(from));
        if upper != 0 {
            let null = self.to.new_dynamic_label();
            dynasm!(self.to ; .arch aarch64 ; cbz W(to), =>null);
            self.load_number(9, u64::from(upper) << 32);
            dynasm!(self.to ; .arch aarch64 ; orr X(to), X(to), x9 ; =>null);
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
            (Width::Bits64, 8) => dynasm!(self.to ; .arch aarch64 ; sxtb X(to), W(from)),
            (Width::Bits64, 16) => dynasm!(self.to ; .arch aarch64 ; sxth X(to), W(from)),
            (Width::Bits64, _) => dynasm!(self.to ; .arch aarch64 ; sxtw X(to), W(from)),
            (Width::Bits32, 8) => dynasm!(self.to ; .arch aarch64 ; sxtb W(to), W(from)),
            (Width::Bits32, _) => dynasm!(self.to ; .arch aarch64 ; sxth W(to), W(from)),
        }
    }

    pub(in super::super) fn reorder(&mut self, order: ByteOrder, to: Register, bits: u8) {
        let to = native(to);
        match (bits, order != ByteOrder::Little) {
            (16, true) => {
                dynasm!(self.to ; .arch aarch64 ; rev16 W(to), W(to) ; uxth W(to), W(to));
            }
            (16, false) => dynasm!(self.to ; .arch aarch64 ; uxth W(to), W(to)),
            (32, true) => dynasm!(self.to ; .arch aarch64 ; rev W(to), W(to)),
            (32, false) => dynasm!(self.to ; .arch aarch64 ; mov W(to), W(to)),
            (_, true) => dynasm!(self.to ; .arch aarch64 ; rev X(to), X(to)),
            (_, false) => {}
        }
    }
}
