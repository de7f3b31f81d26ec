//! Calls of the host whose answer lies in the memory: translated code finds it itself.

#![allow(clippy::useless_conversion)] // `dynasm!` converts every register.

use std::mem::offset_of;

use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi, dynasm};

use super::super::blocks::{Search, Translator};
use super::native;
use crate::instruction::{Register, Size};
use crate::memory::MEMORY_BEGIN;
use crate::program::{Elements, Lock, Locks, Rows, Shortcut, Walks};

/// From an address to where it lies, behind the memory's first byte.
fn behind(address: u64) -> i32 {
    (address - MEMORY_BEGIN) as i32
}

/// What a field's offset becomes where a row's address is added.
fn behind_row(offset: u32) -> i32 {
    offset as i32 - MEMORY_BEGIN as i32
}

impl Translator<'_> {
    /// Puts the answer into R0. Where the call is to be made after all, it goes to `call`.
    pub(in super::super) fn shortcut(&mut self, shortcut: Shortcut, call: DynamicLabel) {
        match shortcut {
            Shortcut::Zero => dynasm!(self.to ; .arch x64 ; xor eax, eax),
            Shortcut::First => dynasm!(self.to ; .arch x64 ; mov rax, rdi),
            Shortcut::Load { address, size, signed } => {
                self.load_fixed(size, signed, Register::ANSWER, behind(address));
            }
            Shortcut::Field { rows, offset, size, signed } => {
                self.check_row(Register::FIRST, rows, call);
                let (row, at) = (Register::FIRST, behind_row(offset));
                self.load_behind(size, signed, Register::ANSWER, row, at);
            }
            Shortcut::Cell { columns_begin, columns, rows, offset } => {
                self.check_row(Register::SECOND, rows, call);
                self.cell(columns_begin, columns, offset, call);
            }
            Shortcut::Element => self.element(call),
            Shortcut::Bit(bits) => self.bit(bits, call),
            Shortcut::NextItem(walks) => self.next_item(walks, call),
            Shortcut::BeginNumbers(most) => self.begin_numbers(most, call),
            Shortcut::NextNumber => {
                let (base, at) = self.checked_iterator(4, call);
                self.forget_walk_at(self.iterator());
                dynasm!(self.to
                    ; .arch x64
                    ; mov r10d, [r11 + Rq(base) + behind_row(0) + at]
                    ; add r10d, 1
                    ; cmp r10d, [r11 + Rq(base) + behind_row(4) + at]
                    ; jge =>call
                    ; mov [r11 + Rq(base) + behind_row(0) + at], r10d
                    ; lea rax, [Rq(base) + at]
                );
            }
            Shortcut::Lock(locks) => self.lock(locks, call),
            Shortcut::Unlock(locks) => self.unlock(locks, call),
        }
    }

    /// Puts into RAX how far the lock at the first argument is from the first one.
    fn find_lock(&mut self, locks: Locks, call: DynamicLabel) {
        let bytes = Size::Word.bytes() as i64;
        if !self.is_known_inside(Register::FIRST, (0, bytes), false) {
            let last = (self.layout.bytes - bytes as u64) as i32;
            dynasm!(self.to
                ; .arch x64
                ; lea r10, [rdi - MEMORY_BEGIN as i32]
                ; cmp r10, last
                ; ja =>call
            );
        }
        let address = behind(locks.begin) + offset_of!(Lock, address) as i32;
        dynasm!(self.to
            ; .arch x64
            ; mov eax, [r11 + rdi + behind_row(0)]
            ; cmp eax, locks.count as i32
            ; jae =>call
            ; shl rax, size_of::<Lock>().trailing_zeros() as i8
            ; cmp edi, [r11 + rax + address]
            ; jne =>call
        );
    }

    fn lock(&mut self, locks: Locks, call: DynamicLabel) {
        self.find_lock(locks, call);
        let begin = behind(locks.begin);
        dynasm!(self.to
            ; .arch x64
            ; mov edx, [r11 + behind(locks.holder_at)]
            ; cmp edx, [r11 + rax + begin + offset_of!(Lock, holder) as i32]
            ; jne =>call
            ; mov rdx, [r11 + behind(locks.now_at)]
            ; cmp rdx, [r11 + rax + begin + offset_of!(Lock, free_at) as i32]
            ; jb =>call
            ; add rdx, [r11 + behind(locks.take_at)]
            ; mov [r11 + behind(locks.now_at)], rdx
            ; xor eax, eax
        );
    }

    fn unlock(&mut self, locks: Locks, call: DynamicLabel) {
        self.find_lock(locks, call);
        let begin = behind(locks.begin);
        dynasm!(self.to
            ; .arch x64
            ; mov edx, [r11 + behind(locks.holder_at)]
            ; mov [r11 + rax + begin + offset_of!(Lock, holder) as i32], edx
            ; mov rdx, [r11 + behind(locks.now_at)]
            ; mov [r11 + rax + begin + offset_of!(Lock, free_at) as i32], rdx
            ; xor eax, eax
        );
    }

    /// 8 bytes at the first argument, which the program may write and which are so aligned: the
    /// register from which they are so far.
    fn checked_iterator(&mut self, alignment: i32, call: DynamicLabel) -> (u8, i32) {
        if let Some(at) = self.iterator() {
            return (native(Register::FRAME), at);
        }
        let begin = (MEMORY_BEGIN + self.layout.writable) as i32;
        let last = (self.layout.bytes - self.layout.writable) as i32 - 8;
        dynasm!(self.to
            ; .arch x64
            ; lea r10, [rdi - begin]
            ; cmp r10, last
            ; ja =>call
            ; test rdi, alignment - 1
            ; jnz =>call
        );
        (native(Register::FIRST), 0)
    }

    fn begin_numbers(&mut self, most: u32, call: DynamicLabel) {
        let (base, at) = self.checked_iterator(4, call);
        self.forget_walk_at(self.iterator());
        dynasm!(self.to
            ; .arch x64
            ; movsxd rax, edx
            ; movsxd r10, esi
            ; sub rax, r10
            ; cmp rax, most as i32
            ; ja =>call
            ; sub r10d, 1
            ; mov [r11 + Rq(base) + behind_row(0) + at], r10d
            ; mov [r11 + Rq(base) + behind_row(4) + at], edx
            ; xor eax, eax
        );
    }

    /// A word of the row at the second argument, if it is not 0.
    fn cell(&mut self, columns_begin: u64, columns: u32, offset: u32, call: DynamicLabel) {
        if let Some(at) = self.known_column(columns_begin, columns) {
            dynasm!(self.to ; .arch x64 ; mov rax, [r11 + rsi + behind_row(offset + at)]);
        } else {
            dynasm!(self.to
                ; .arch x64
                ; mov rax, QWORD columns_begin as i64
                ; mov r10, rdi
                ; sub r10, rax
                ; cmp r10, 8 * columns as i32
                ; jae =>call
                ; test r10, 7
                ; jnz =>call
                ; add r10, rsi
                ; mov rax, [r11 + r10 + behind_row(offset)]
            );
        }
        dynasm!(self.to ; .arch x64 ; test rax, rax ; jz =>call);
    }

    fn bit(&mut self, bits: u32, call: DynamicLabel) {
        let last = self.layout.bytes as i32 - (bits / 8) as i32;
        dynasm!(self.to
            ; .arch x64
            // Which word it is; what lies between words becomes too large.
            ; lea r10, [rsi - MEMORY_BEGIN as i32]
            ; ror r10, 3
            ; cmp r10, last / 8
            ; ja =>call
            ; cmp edi, bits as i32
            ; jae =>call
            ; mov eax, edi
            ; shr eax, 6
            ; add rax, r10
            ; mov rax, [r11 + 8 * rax]
            ; bt rax, rdi
            ; setc al
            ; movzx eax, al
        );
    }

    /// Of one iterator of a function XMM15 leads to the next item, as long as nothing was called
    /// that may have gone on with its walk, or ended it: else to a word that is 0. So each item
    /// waits for an addition, and not for what the one before has stored.
    fn next_item(&mut self, walks: Walks, call: DynamicLabel) {
        let followed = self.iterator().filter(|at| *self.walked.get_or_insert(*at) == *at);
        let Some(iterator) = followed else {
            let (base, at) = self.checked_iterator(8, call);
            self.find_item(walks, (base, at), call);
            dynasm!(self.to
                ; .arch x64
                ; add QWORD [r11 + r10 + behind_row(walks.next)], size_of::<u64>() as i32
            );
            return self.forget_walk();
        };
        let (label, found) = (self.to.new_dynamic_label(), self.to.new_dynamic_label());
        let word = self.constant(size_of::<u64>() as u64);
        dynasm!(self.to
            ; .arch x64
            ; movq r10, xmm15
            ; mov rax, [r11 + r10 + behind_row(0)]
            ; test rax, rax
            ; jz =>label
            ; =>found
            ; and r10, -(walks.bytes as i32)
            ; paddq xmm15, [=>word]
            ; movq [r11 + r10 + behind_row(walks.next)], xmm15
        );
        self.searches.push(Search { label, found, call, iterator });
    }

    /// Puts the next item of an iterator's walk into RAX, and the walk's address into R10.
    fn find_item(&mut self, walks: Walks, (base, at): (u8, i32), call: DynamicLabel) {
        let Walks { begin, bytes, count, next, .. } = walks;
        dynasm!(self.to
            ; .arch x64
            ; mov r10, [r11 + Rq(base) + behind_row(0) + at]
            ; sub r10, 1
            ; cmp r10, count as i32
            ; jae =>call
            ; shl r10, bytes.trailing_zeros() as i8
            ; add r10, begin as i32
            ; mov rax, [r11 + r10 + behind_row(next)]
            ; mov rax, [r11 + rax + behind_row(0)]
            ; test rax, rax
            ; jz =>call
        );
    }

    /// Finds the next item of the walk that is followed, and follows it from here on.
    pub(in super::super) fn search(&mut self, search: Search) {
        let (Some(walks), Search { label, found, call, iterator }) = (self.walks, search) else {
            return;
        };
        dynasm!(self.to ; .arch x64 ; =>label);
        self.find_item(walks, (native(Register::FRAME), iterator), call);
        dynasm!(self.to
            ; .arch x64
            ; mov r10, [r11 + r10 + behind_row(walks.next)]
            ; movq xmm15, r10
            ; jmp =>found
        );
    }

    /// No walk is followed from here on.
    pub(in super::super) fn forget_walk(&mut self) {
        if let Some(walks) = self.walks {
            let nothing = self.constant(walks.nothing);
            dynasm!(self.to ; .arch x64 ; movq xmm15, [=>nothing]);
        }
    }

    fn element(&mut self, call: DynamicLabel) {
        let Some(Elements { begin, bytes, count, copies }) = self.elements() else { return };
        if !self.is_key_in_frame() {
            let last = self.layout.bytes as i32 - Size::Word.bytes() as i32;
            dynasm!(self.to
                ; .arch x64
                ; lea r10, [rsi - MEMORY_BEGIN as i32]
                ; cmp r10, last
                ; ja =>call
            );
        }
        dynasm!(self.to
            ; .arch x64
            ; mov eax, [r11 + rsi + behind_row(0)]
            ; cmp eax, count as i32
            ; jae =>call
            ; imul rax, rax, bytes as i32
            ; add rax, begin as i32
        );
        if let Some((number_at, apart)) = copies {
            dynasm!(self.to
                ; .arch x64
                ; mov r10d, [r11 + behind(number_at)]
                ; imul r10, r10, apart as i32
                ; add rax, r10
            );
        }
    }

    /// Goes to `call` unless a row begins at an address.
    pub(in super::super) fn check_row(
        &mut self,
        address: Register,
        rows: Rows,
        call: DynamicLabel,
    ) {
        if self.known_row(address) == Some(rows) {
            return;
        }
        let address = native(address);
        let (inverse, even) = rows.divisor();
        let inverse = self.constant(inverse);
        dynasm!(self.to
            ; .arch x64
            ; lea r10, [Rq(address) - rows.begin as i32]
            ; imul r10, QWORD [=>inverse]
            ; ror r10, even as i8
            ; cmp r10, [r11 + behind(rows.count_at)]
            ; jae =>call
        );
    }
}
