//! What a program becomes on x86-64.
//!
//! R12 holds the address of the machine, R11 that of the memory's first byte, R9 how many
//! instructions are left. R10 is nobody's. XMM15 holds the address of the word of a walk's next
//! item, see `shortcuts`.

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
use crate::memory::FRAME_BYTES;

/// What code is written with.
pub(super) type Assembler = dynasmrt::x64::Assembler;

/// The machine's registers by those of BPF: those of arguments and of the answer are where the
/// System V calling convention has them, and R6 to R10 are kept by functions that are called.
const REGISTERS: [u8; 11] = [RAX, RDI, RSI, RDX, RCX, 8, RBX, 13, 14, 15, RBP];
const RAX: u8 = 0;
const RCX: u8 = 1;
const RDX: u8 = 2;
const RBX: u8 = 3;
const RBP: u8 = 5;
const RSI: u8 = 6;
const RDI: u8 = 7;
const R10: u8 = 10;
const R12: u8 = 12;

fn native(register: Register) -> u8 {
    REGISTERS[register.number()]
}

impl Translator<'_> {
    /// The end of every function, and the way there through the interpreter. A function has one
    /// word on the stack, which also aligns it for calls: how often it may pass `may_goto`.
    pub(super) fn leave_and_resume(&mut self) {
        let saved = |number: usize| REGISTERS_AT + 8 * number as i32;
        let (leave, resume) = (self.leave, self.resume);
        dynasm!(self.to ; .arch x64 ; =>resume);
        for (number, register) in REGISTERS.into_iter().enumerate() {
            dynasm!(self.to ; .arch x64 ; mov [r12 + saved(number)], Rq(register));
        }
        dynasm!(self.to
            ; .arch x64
            ; mov [r12 + LEFT], r9
            ; mov rdi, r10
            ; mov rsi, [rsp]
            ; mov r9, r12
            ; mov rax, [r12 + CALLS]
            ; call QWORD [rax + 8 * RESUME as i32]
            ; mov r11, [r12 + FIRST]
            ; mov r9, [r12 + LEFT]
            ; =>leave
            ; add rsp, 8
            ; ret
        );
    }

    /// From Rust to a function: its arguments are where it expects them, and the machine is the
    /// sixth. What Rust wants kept of the registers that the function changes is, so functions keep
    /// none. The first function may run for `most` instructions, and its frame is the outermost.
    pub(super) fn entry(&mut self, number: usize, most: Option<u64>) {
        let (function, changed) = (self.functions[number], self.changed[number]);
        let changed = (6..10).filter(|&one| changed >> one & 1 == 1).map(|one| REGISTERS[one]);
        let mut kept: Vec<u8> = [R12, RBP].into_iter().chain(changed).collect();
        if kept.len().is_multiple_of(2) {
            // Code is called with an aligned stack.
            kept.push(RAX);
        }
        kept.iter().for_each(|&one| dynasm!(self.to ; .arch x64 ; push Rq(one)));
        dynasm!(self.to ; .arch x64 ; mov r12, r9 ; mov r11, [r12 + FIRST]);
        match most {
            Some(most) => dynasm!(self.to
                ; .arch x64
                ; mov r9, QWORD most as i64
                ; mov ebp, self.layout.outermost_frame() as i32
            ),
            None => dynasm!(self.to
                ; .arch x64
                ; mov r9, [r12 + LEFT]
                ; mov rbp, [r12 + FRAME_END]
            ),
        }
        dynasm!(self.to ; .arch x64 ; call =>function ; mov [r12 + LEFT], r9);
        if kept.last() == Some(&RAX) {
            kept.pop();
            dynasm!(self.to ; .arch x64 ; add rsp, 8);
        }
        kept.iter().rev().for_each(|&one| dynasm!(self.to ; .arch x64 ; pop Rq(one)));
        dynasm!(self.to ; .arch x64 ; ret);
    }

    /// The beginning of a function.
    pub(super) fn begin(&mut self, number: usize, may_goto: bool) {
        let function = self.functions[number];
        dynasm!(self.to ; .arch x64 ; =>function ; sub rsp, 8 ; xor eax, eax);
        if may_goto {
            dynasm!(self.to ; .arch x64 ; mov QWORD [rsp], MAY_GOTO_MAX as i32);
        }
    }

    pub(super) fn way_out(&mut self, Stub { label, at, uncounted }: Stub) {
        let resume = self.resume;
        dynasm!(self.to
            ; .arch x64
            ; =>label
            ; mov r10d, at as i32
            ; lea r9, [r9 - uncounted]
            ; jmp =>resume
        );
    }

    pub(super) fn constants(&mut self) {
        for (number, label) in std::mem::take(&mut self.constants) {
            dynasm!(self.to ; .arch x64 ; .align 16 ; =>label ; .u64 number ; .u64 0);
        }
    }

    pub(super) fn count(&mut self, instructions: i32) {
        if instructions != 0 {
            dynasm!(self.to ; .arch x64 ; lea r9, [r9 - instructions]);
        }
    }

    /// Adds so many to a count of the machine's.
    pub(super) fn count_at(&mut self, offset: i32, by: u8) {
        dynasm!(self.to ; .arch x64 ; add QWORD [r12 + offset], by.into());
    }

    /// Counts some instructions, and goes where it leads if there are too many.
    pub(super) fn count_or_go(&mut self, instructions: i32, label: DynamicLabel) {
        dynasm!(self.to ; .arch x64 ; sub r9, instructions ; js =>label);
    }

    pub(super) fn go_if_too_many(&mut self, label: DynamicLabel) {
        dynasm!(self.to ; .arch x64 ; test r9, r9 ; js =>label);
    }

    pub(super) fn go_to(&mut self, label: DynamicLabel) {
        dynasm!(self.to ; .arch x64 ; jmp =>label);
    }

    pub(super) fn go_if_above(&mut self, label: DynamicLabel) {
        dynasm!(self.to ; .arch x64 ; ja =>label);
    }

    pub(super) fn go_unless_above(&mut self, label: DynamicLabel) {
        dynasm!(self.to ; .arch x64 ; jbe =>label);
    }

    pub(super) fn exit(&mut self) {
        dynasm!(self.to ; .arch x64 ; add rsp, 8 ; ret);
    }

    pub(super) fn jump(&mut self, of: Instruction, target: DynamicLabel) {
        match of {
            Instruction::Branch { condition, width, left, right, .. } => {
                self.compare(condition, width, native(left), right);
                match condition {
                    Condition::Equal => dynasm!(self.to ; .arch x64 ; je =>target),
                    Condition::NotEqual | Condition::Test => {
                        dynasm!(self.to ; .arch x64 ; jne =>target);
                    }
                    Condition::Greater => dynasm!(self.to ; .arch x64 ; ja =>target),
                    Condition::GreaterEqual => dynasm!(self.to ; .arch x64 ; jae =>target),
                    Condition::Less => dynasm!(self.to ; .arch x64 ; jb =>target),
                    Condition::LessEqual => dynasm!(self.to ; .arch x64 ; jbe =>target),
                    Condition::GreaterSigned => dynasm!(self.to ; .arch x64 ; jg =>target),
                    Condition::GreaterEqualSigned => dynasm!(self.to ; .arch x64 ; jge =>target),
                    Condition::LessSigned => dynasm!(self.to ; .arch x64 ; jl =>target),
                    Condition::LessEqualSigned => dynasm!(self.to ; .arch x64 ; jle =>target),
                }
            }
            Instruction::MayGoto { .. } => dynasm!(self.to
                ; .arch x64
                ; cmp QWORD [rsp], 0
                ; je =>target
                ; sub QWORD [rsp], 1
            ),
            _ => dynasm!(self.to ; .arch x64 ; jmp =>target),
        }
    }

    fn compare(&mut self, condition: Condition, width: Width, left: u8, right: Operand) {
        let tests = condition == Condition::Test;
        match (width, right) {
            (Width::Bits64, Operand::Register(right)) if tests => {
                dynasm!(self.to ; .arch x64 ; test Rq(left), Rq(native(right)));
            }
            (Width::Bits32, Operand::Register(right)) if tests => {
                dynasm!(self.to ; .arch x64 ; test Rd(left), Rd(native(right)));
            }
            (Width::Bits64, Operand::Number(number)) if tests => {
                dynasm!(self.to ; .arch x64 ; test Rq(left), number);
            }
            (Width::Bits32, Operand::Number(number)) if tests => {
                dynasm!(self.to ; .arch x64 ; test Rd(left), number);
            }
            (Width::Bits64, Operand::Register(right)) => {
                dynasm!(self.to ; .arch x64 ; cmp Rq(left), Rq(native(right)));
            }
            (Width::Bits32, Operand::Register(right)) => {
                dynasm!(self.to ; .arch x64 ; cmp Rd(left), Rd(native(right)));
            }
            (Width::Bits64, Operand::Number(number)) => {
                dynasm!(self.to ; .arch x64 ; cmp Rq(left), number);
            }
            (Width::Bits32, Operand::Number(number)) => {
                dynasm!(self.to ; .arch x64 ; cmp Rd(left), number);
            }
        }
    }

    pub(super) fn make_call(&mut self, at: usize, call: usize) {
        let leave = self.leave;
        let shim = call.min(ANY_CALL);
        if shim == ANY_CALL {
            dynasm!(self.to ; .arch x64 ; mov DWORD [r12 + CALL], call as i32);
        }
        dynasm!(self.to
            ; .arch x64
            ; mov QWORD [r12 + PLACE], at as i32
            ; mov [r12 + LEFT], r9
            ; mov [r12 + FRAME_END], rbp
            ; mov r9, r12
            ; mov rax, [r12 + CALLS]
            ; call QWORD [rax + 8 * shim as i32]
            ; mov r11, [r12 + FIRST]
            ; mov r9, [r12 + LEFT]
            ; cmp DWORD [r12 + ENDED], 0
            ; jne =>leave
        );
        self.forget_walk();
    }

    /// What a call leaves in R1 to R5 may be this process's, and no program's business: it cannot
    /// read it, and no other call is given it.
    pub(super) fn clear_unwritten(&mut self, call: usize, among: Range<usize>) {
        for register in self.program.unwritten_at(call).filter(|one| among.contains(one)) {
            let register = REGISTERS[register];
            dynasm!(self.to ; .arch x64 ; xor Rd(register), Rd(register));
        }
    }

    /// Calls a function, or goes to `out` where that is refused.
    pub(super) fn call_function(&mut self, at: usize, number: usize, out: DynamicLabel) {
        let deepest = self.layout.deepest_frame() as i32;
        let target = self.functions[number];
        let leave = self.leave;
        dynasm!(self.to
            ; .arch x64
            ; test r9, r9
            ; js =>out
            ; cmp rbp, deepest
            ; jae =>out
            ; add rbp, FRAME_BYTES as i32
        );
        self.clear_unwritten(at, ARGUMENTS);
        let kept: Vec<_> = self.kept.iter().copied().map(native).collect();
        let padding = 8 * (kept.len() % 2) as i32;
        kept.iter().for_each(|&one| dynasm!(self.to ; .arch x64 ; push Rq(one)));
        if padding != 0 {
            dynasm!(self.to ; .arch x64 ; sub rsp, padding);
        }
        dynasm!(self.to ; .arch x64 ; call =>target ; sub rbp, FRAME_BYTES as i32);
        if padding != 0 {
            dynasm!(self.to ; .arch x64 ; add rsp, padding);
        }
        kept.iter().rev().for_each(|&one| dynasm!(self.to ; .arch x64 ; pop Rq(one)));
        dynasm!(self.to ; .arch x64 ; cmp DWORD [r12 + ENDED], 0 ; jne =>leave);
        self.forget_walk();
    }
}
