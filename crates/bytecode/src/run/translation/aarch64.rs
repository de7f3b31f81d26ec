//! What a program becomes on aarch64.
//!
//! X24 holds the address of the machine, X25 where the address 0 would lie behind which the memory
//! is found, X26 how many instructions are left. X9 to X13 are nobody's.

#![allow(clippy::useless_conversion)] // `dynasm!` converts every register.

mod memory;
mod shortcuts;
mod values;

use std::ops::Range;

use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi, dynasm};

use super::blocks::{Stub, Translator};
use super::shortcuts::ARGUMENTS;
use super::{
    ANY_CALL, CALL, CALLS, ENDED, FIRST, FRAME_END, LEFT, MAY_GOTO_MAX, PLACE, REGISTERS_AT, RESUME,
};
use crate::instruction::{Condition, Instruction, Operand, Register, Width};
use crate::memory::{FRAME_BYTES, MEMORY_BEGIN};

/// What code is written with.
pub(super) type Assembler = dynasmrt::aarch64::Assembler;

/// The machine's registers by those of BPF: those of arguments are where the AAPCS64 calling
/// convention has them, and R6 to R10 are kept by functions that are called.
const REGISTERS: [u8; 11] = [ANSWER, 0, 1, 2, 3, 4, 19, 20, 21, 22, 23];
/// R0. The convention has a first argument where it has an answer, and R1 is not R0.
const ANSWER: u8 = 7;
/// Numbers of 12 bits can be part of an addition or comparison.
const SHORT_MAX: u64 = (1 << 12) - 1;

fn native(register: Register) -> u8 {
    REGISTERS[register.number()]
}

impl Translator<'_> {
    /// The end of every function, and the way there through the interpreter. A function has two
    /// words on the stack: where it returns to, and how often it may pass `may_goto`.
    pub(super) fn leave_and_resume(&mut self) {
        let saved = |number: usize| (REGISTERS_AT + 8 * number as i32) as u32;
        let (leave, resume) = (self.leave, self.resume);
        dynasm!(self.to ; .arch aarch64 ; =>resume);
        for (number, register) in REGISTERS.into_iter().enumerate() {
            dynasm!(self.to ; .arch aarch64 ; str X(register), [x24, saved(number)]);
        }
        dynasm!(self.to
            ; .arch aarch64
            ; str x26, [x24, LEFT as u32]
            ; mov x0, x9
            ; ldr x1, [sp, 8]
            ; mov x5, x24
            ; ldr x9, [x24, CALLS as u32]
            ; ldr x9, [x9, 8 * RESUME as u32]
            ; blr x9
            ; mov X(ANSWER), x0
            ; ldr x26, [x24, LEFT as u32]
            ; =>leave
            ; ldr x30, [sp], 16
            ; ret
        );
    }

    /// From Rust to a function: its arguments are where it expects them, and the machine is the
    /// sixth. All registers that Rust wants kept are, so functions keep none. The first function
    /// may run for `most` instructions, and its frame is the outermost.
    pub(super) fn entry(&mut self, number: usize, most: Option<u64>) {
        let function = self.functions[number];
        dynasm!(self.to
            ; .arch aarch64
            ; stp x29, x30, [sp, -80]!
            ; stp x19, x20, [sp, 16]
            ; stp x21, x22, [sp, 32]
            ; stp x23, x24, [sp, 48]
            ; stp x25, x26, [sp, 64]
            ; mov x24, x5
            ; ldr x25, [x24, FIRST as u32]
        );
        self.add_number(25, 25, (MEMORY_BEGIN as i64).wrapping_neg());
        match most {
            Some(most) => {
                self.load_number(26, most);
                self.load_number(23, self.layout.outermost_frame());
            }
            None => dynasm!(self.to
                ; .arch aarch64
                ; ldr x26, [x24, LEFT as u32]
                ; ldr x23, [x24, FRAME_END as u32]
            ),
        }
        dynasm!(self.to
            ; .arch aarch64
            ; bl =>function
            ; str x26, [x24, LEFT as u32]
            ; mov x0, X(ANSWER)
            ; ldp x19, x20, [sp, 16]
            ; ldp x21, x22, [sp, 32]
            ; ldp x23, x24, [sp, 48]
            ; ldp x25, x26, [sp, 64]
            ; ldp x29, x30, [sp], 80
            ; ret
        );
    }

    /// The beginning of a function.
    pub(super) fn begin(&mut self, number: usize, may_goto: bool) {
        let function = self.functions[number];
        dynasm!(self.to ; .arch aarch64 ; =>function ; mov X(ANSWER), xzr);
        let loops = if may_goto { MAY_GOTO_MAX } else { 0 };
        self.load_number(9, loops);
        dynasm!(self.to ; .arch aarch64 ; stp x30, x9, [sp, -16]!);
    }

    pub(super) fn way_out(&mut self, Stub { label, at, uncounted }: Stub) {
        let resume = self.resume;
        dynasm!(self.to ; .arch aarch64 ; =>label);
        self.count(uncounted);
        self.load_number(9, at as u64);
        dynasm!(self.to ; .arch aarch64 ; b =>resume);
    }

    pub(super) fn constants(&mut self) {
        for (number, label) in std::mem::take(&mut self.constants) {
            dynasm!(self.to ; .arch aarch64 ; .align 8 ; =>label ; .u64 number);
        }
    }

    pub(super) fn count(&mut self, instructions: i32) {
        if instructions != 0 {
            self.add_number(26, 26, -i64::from(instructions));
        }
    }

    /// Adds so many to a count of the machine's.
    pub(super) fn count_at(&mut self, offset: i32, by: u8) {
        dynasm!(self.to
            ; .arch aarch64
            ; ldr x9, [x24, offset as u32]
            ; add x9, x9, by.into()
            ; str x9, [x24, offset as u32]
        );
    }

    /// Counts some instructions, and goes where it leads if there are too many.
    pub(super) fn count_or_go(&mut self, instructions: i32, label: DynamicLabel) {
        self.count(instructions);
        self.go_if_too_many(label);
    }

    pub(super) fn go_if_too_many(&mut self, label: DynamicLabel) {
        dynasm!(self.to ; .arch aarch64 ; cmp x26, 0 ; b.lt =>label);
    }

    pub(super) fn go_to(&mut self, label: DynamicLabel) {
        dynasm!(self.to ; .arch aarch64 ; b =>label);
    }

    pub(super) fn go_if_above(&mut self, label: DynamicLabel) {
        dynasm!(self.to ; .arch aarch64 ; b.hi =>label);
    }

    pub(super) fn go_unless_above(&mut self, label: DynamicLabel) {
        dynasm!(self.to ; .arch aarch64 ; b.ls =>label);
    }

    pub(super) fn exit(&mut self) {
        dynasm!(self.to ; .arch aarch64 ; ldr x30, [sp], 16 ; ret);
    }

    pub(super) fn jump(&mut self, of: Instruction, target: DynamicLabel) {
        match of {
            Instruction::Branch { condition, width, left, right, .. } => {
                self.compare(condition, width, native(left), right);
                match condition {
                    Condition::Equal => dynasm!(self.to ; .arch aarch64 ; b.eq =>target),
                    Condition::NotEqual | Condition::Test => {
                        dynasm!(self.to ; .arch aarch64 ; b.ne =>target);
                    }
                    Condition::Greater => dynasm!(self.to ; .arch aarch64 ; b.hi =>target),
                    Condition::GreaterEqual => dynasm!(self.to ; .arch aarch64 ; b.hs =>target),
                    Condition::Less => dynasm!(self.to ; .arch aarch64 ; b.lo =>target),
                    Condition::LessEqual => dynasm!(self.to ; .arch aarch64 ; b.ls =>target),
                    Condition::GreaterSigned => dynasm!(self.to ; .arch aarch64 ; b.gt =>target),
                    Condition::GreaterEqualSigned => {
                        dynasm!(self.to ; .arch aarch64 ; b.ge =>target);
                    }
                    Condition::LessSigned => dynasm!(self.to ; .arch aarch64 ; b.lt =>target),
                    Condition::LessEqualSigned => dynasm!(self.to ; .arch aarch64 ; b.le =>target),
                }
            }
            Instruction::MayGoto { .. } => dynasm!(self.to
                ; .arch aarch64
                ; ldr x9, [sp, 8]
                ; cbz x9, =>target
                ; sub x9, x9, 1
                ; str x9, [sp, 8]
            ),
            _ => dynasm!(self.to ; .arch aarch64 ; b =>target),
        }
    }

    fn compare(&mut self, condition: Condition, width: Width, left: u8, right: Operand) {
        let right = match right {
            Operand::Register(right) => native(right),
            Operand::Number(number) if condition != Condition::Test => {
                return self.compare_number(width, left, number);
            }
            Operand::Number(number) => {
                self.load_number(10, number as i64 as u64);
                10
            }
        };
        match (condition == Condition::Test, width) {
            (true, Width::Bits64) => dynasm!(self.to ; .arch aarch64 ; tst X(left), X(right)),
            (true, Width::Bits32) => dynasm!(self.to ; .arch aarch64 ; tst W(left), W(right)),
            (false, Width::Bits64) => dynasm!(self.to ; .arch aarch64 ; cmp X(left), X(right)),
            (false, Width::Bits32) => dynasm!(self.to ; .arch aarch64 ; cmp W(left), W(right)),
        }
    }

    /// Compares a register with a number that is extended by its sign.
    fn compare_number(&mut self, width: Width, left: u8, number: i32) {
        let short = u64::from(number.unsigned_abs()) <= SHORT_MAX;
        let of = number.unsigned_abs();
        match (width, short, number < 0) {
            (Width::Bits64, true, false) => dynasm!(self.to ; .arch aarch64 ; cmp XSP(left), of),
            (Width::Bits32, true, false) => dynasm!(self.to ; .arch aarch64 ; cmp WSP(left), of),
            (Width::Bits64, true, true) => dynasm!(self.to ; .arch aarch64 ; cmn XSP(left), of),
            (Width::Bits32, true, true) => dynasm!(self.to ; .arch aarch64 ; cmn WSP(left), of),
            (_, false, _) => {
                self.load_number(10, number as i64 as u64);
                match width {
                    Width::Bits64 => dynasm!(self.to ; .arch aarch64 ; cmp X(left), x10),
                    Width::Bits32 => dynasm!(self.to ; .arch aarch64 ; cmp W(left), w10),
                }
            }
        }
    }

    pub(super) fn make_call(&mut self, at: usize, call: usize) {
        let leave = self.leave;
        let shim = call.min(ANY_CALL);
        if shim == ANY_CALL {
            self.load_number(9, call as u64);
            dynasm!(self.to ; .arch aarch64 ; str w9, [x24, CALL as u32]);
        }
        self.load_number(9, at as u64);
        dynasm!(self.to
            ; .arch aarch64
            ; str x9, [x24, PLACE as u32]
            ; str x26, [x24, LEFT as u32]
            ; str x23, [x24, FRAME_END as u32]
            ; mov x5, x24
            ; ldr x9, [x24, CALLS as u32]
            ; ldr x9, [x9, 8 * shim as u32]
            ; blr x9
            ; mov X(ANSWER), x0
            ; ldr x26, [x24, LEFT as u32]
            ; ldr w9, [x24, ENDED as u32]
            ; cbnz w9, =>leave
        );
    }

    /// What a call leaves in R1 to R5 may be this process's, and no program's business: it cannot
    /// read it, and no other call is given it.
    pub(super) fn clear_unwritten(&mut self, call: usize, among: Range<usize>) {
        for register in self.program.unwritten_at(call).filter(|one| among.contains(one)) {
            dynasm!(self.to ; .arch aarch64 ; mov X(REGISTERS[register]), xzr);
        }
    }

    /// Calls a function, or goes to `out` where that is refused.
    pub(super) fn call_function(&mut self, at: usize, number: usize, out: DynamicLabel) {
        let target = self.functions[number];
        let leave = self.leave;
        self.go_if_too_many(out);
        self.load_number(9, self.layout.deepest_frame());
        dynasm!(self.to
            ; .arch aarch64
            ; cmp x23, x9
            ; b.hs =>out
            ; add x23, x23, FRAME_BYTES as u32
        );
        self.clear_unwritten(at, ARGUMENTS);
        let kept: Vec<_> = self.kept.iter().copied().map(native).collect();
        for pair in kept.chunks(2) {
            let (one, other) = (pair[0], *pair.last().unwrap_or(&pair[0]));
            dynasm!(self.to ; .arch aarch64 ; stp X(one), X(other), [sp, -16]!);
        }
        dynasm!(self.to ; .arch aarch64 ; bl =>target ; sub x23, x23, FRAME_BYTES as u32);
        for pair in kept.chunks(2).rev() {
            match *pair {
                [one, other] => dynasm!(self.to ; .arch aarch64 ; ldp X(one), X(other), [sp], 16),
                [one, ..] => dynasm!(self.to ; .arch aarch64 ; ldr X(one), [sp], 16),
                [] => {}
            }
        }
        dynasm!(self.to
            ; .arch aarch64
            ; ldr w9, [x24, ENDED as u32]
            ; cbnz w9, =>leave
        );
    }
}
