//! Calls of the host whose answer lies in the memory: translated code finds it itself.

#![allow(clippy::useless_conversion)] // `dynasm!` converts every register.

use std::mem::offset_of;

use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi, dynasm};

use super::super::blocks::{Search, Translator};
use super::{ANSWER, native};
use crate::instruction::{Register, Size};
use crate::memory::MEMORY_BEGIN;
use crate::program::{Elements, Lock, Locks, Rows, Shortcut, Walks};

/// The machine's registers of the first three arguments.
const FIRST: u8 = 0;
const SECOND: u8 = 1;
const THIRD: u8 = 2;

impl Translator<'_> {
    /// Puts the answer into R0. Where the call is to be made after all, it goes to `call`.
    pub(in super::super) fn shortcut(&mut self, shortcut: Shortcut, call: DynamicLabel) {
        match shortcut {
            Shortcut::Zero => dynasm!(self.to ; .arch aarch64 ; mov X(ANSWER), xzr),
            Shortcut::First => dynasm!(self.to ; .arch aarch64 ; mov X(ANSWER), X(FIRST)),
            Shortcut::Load { address, size, signed } => {
                self.load_number(9, address);
                self.load_at(size, signed, ANSWER, 9);
            }
            Shortcut::Field { rows, offset, size, signed } => {
                self.check_row(Register::FIRST, rows, call);
                let at = self.moved(FIRST, offset.into());
                self.load_at(size, signed, ANSWER, at);
            }
            Shortcut::Cell { columns_begin, columns, rows, offset } => {
                self.check_row(Register::SECOND, rows, call);
                self.cell(columns_begin, columns, offset, call);
            }
            Shortcut::Element => self.element(call),
            Shortcut::Bit(bits) => self.bit(bits, call),
            Shortcut::NextItem(walks) => self.next_item(walks, call),
            Shortcut::BeginNumbers(most) => self.begin_numbers(most, call),
            Shortcut::NextNumber => self.next_number(call),
            Shortcut::Lock(locks) => self.lock(locks, call),
            Shortcut::Unlock(locks) => self.unlock(locks, call),
        }
    }

    /// Puts into X9 where the lock at the first argument is.
    fn find_lock(&mut self, locks: Locks, call: DynamicLabel) {
        let bytes = Size::Word.bytes();
        if !self.is_known_inside(Register::FIRST, (0, bytes as i64), false) {
            let last = self.layout.bytes - bytes;
            self.compare_distance_of(FIRST, MEMORY_BEGIN as i64, last);
            self.go_if_above(call);
        }
        self.load_at(Size::Word, false, 9, FIRST);
        self.load_number(10, locks.count.into());
        dynasm!(self.to ; .arch aarch64 ; cmp w9, w10 ; b.hs =>call);
        self.load_number(10, locks.begin);
        let shift = size_of::<Lock>().trailing_zeros();
        dynasm!(self.to ; .arch aarch64 ; add x9, x10, x9, lsl shift);
        self.field(12, Size::Word, 9, offset_of!(Lock, address) as u32);
        dynasm!(self.to ; .arch aarch64 ; cmp w12, W(FIRST) ; b.ne =>call);
    }

    fn lock(&mut self, locks: Locks, call: DynamicLabel) {
        self.find_lock(locks, call);
        self.load_from(12, Size::Word, locks.holder_at);
        self.field(13, Size::Word, 9, offset_of!(Lock, holder) as u32);
        dynasm!(self.to ; .arch aarch64 ; cmp w12, w13 ; b.ne =>call);
        self.field(13, Size::Double, 9, offset_of!(Lock, free_at) as u32);
        self.load_from(12, Size::Double, locks.now_at);
        dynasm!(self.to ; .arch aarch64 ; cmp x12, x13 ; b.lo =>call);
        self.load_from(13, Size::Double, locks.take_at);
        dynasm!(self.to ; .arch aarch64 ; add x12, x12, x13 ; mov X(ANSWER), xzr);
        self.load_number(9, locks.now_at);
        self.store_at(Size::Double, 12, 9);
    }

    fn unlock(&mut self, locks: Locks, call: DynamicLabel) {
        self.find_lock(locks, call);
        self.load_from(12, Size::Word, locks.holder_at);
        let holder = self.moved(9, offset_of!(Lock, holder) as i64);
        self.store_at(Size::Word, 12, holder);
        self.load_from(12, Size::Double, locks.now_at);
        let free_at = self.moved(9, offset_of!(Lock, free_at) as i64);
        self.store_at(Size::Double, 12, free_at);
        dynasm!(self.to ; .arch aarch64 ; mov X(ANSWER), xzr);
    }

    /// Loads what lies at an address that is known.
    fn load_from(&mut self, to: u8, size: Size, address: u64) {
        self.load_number(11, address);
        self.load_at(size, false, to, 11);
    }

    fn begin_numbers(&mut self, most: u32, call: DynamicLabel) {
        self.load_iterator();
        self.check_iterator(4, call);
        self.load_number(10, most.into());
        dynasm!(self.to
            ; .arch aarch64
            ; sxtw x9, W(THIRD)
            ; sxtw x12, W(SECOND)
            ; sub x9, x9, x12
            ; cmp x9, x10
            ; b.hi =>call
            ; sub w9, w12, 1
        );
        self.store_at(Size::Word, 9, FIRST);
        let end = self.moved(FIRST, 4);
        self.store_at(Size::Word, THIRD, end);
        dynasm!(self.to ; .arch aarch64 ; mov X(ANSWER), xzr);
    }

    fn next_number(&mut self, call: DynamicLabel) {
        self.load_iterator();
        self.check_iterator(4, call);
        self.load_at(Size::Word, false, 9, FIRST);
        let end = self.moved(FIRST, 4);
        self.load_at(Size::Word, false, 12, end);
        dynasm!(self.to ; .arch aarch64 ; add w9, w9, 1 ; cmp w9, w12 ; b.ge =>call);
        self.store_at(Size::Word, 9, FIRST);
        dynasm!(self.to ; .arch aarch64 ; mov X(ANSWER), X(FIRST));
    }

    /// Goes to `call` unless an address is a multiple of a power of two.
    fn check_alignment(&mut self, address: u8, alignment: u64, call: DynamicLabel) {
        self.load_number(10, alignment - 1);
        dynasm!(self.to ; .arch aarch64 ; tst X(address), x10 ; b.ne =>call);
    }

    /// Loads the first argument, also where it is known.
    fn load_iterator(&mut self) {
        self.load_one(Register::FIRST);
    }

    /// 8 bytes at the first argument, which the program may write and which are so aligned.
    fn check_iterator(&mut self, alignment: u64, call: DynamicLabel) {
        if self.iterator().is_some() {
            return;
        }
        let (begin, size) = self.part(true);
        self.compare_distance_of(FIRST, begin as i64, size - 8);
        self.go_if_above(call);
        self.check_alignment(FIRST, alignment, call);
    }

    /// A word of the row at the second argument, if it is not 0.
    fn cell(&mut self, columns_begin: u64, columns: u32, offset: u32, call: DynamicLabel) {
        if let Some(column) = self.known_column(columns_begin, columns) {
            let at = self.moved(SECOND, i64::from(offset + column));
            self.load_at(Size::Double, false, ANSWER, at);
        } else {
            let last = 8 * u64::from(columns) - 1;
            self.compare_distance_of(FIRST, columns_begin as i64, last);
            self.go_if_above(call);
            self.check_alignment(9, 8, call);
            dynasm!(self.to ; .arch aarch64 ; add x9, x9, X(SECOND));
            let at = self.moved(9, offset.into());
            self.load_at(Size::Double, false, ANSWER, at);
        }
        dynasm!(self.to ; .arch aarch64 ; cbz X(ANSWER), =>call);
    }

    fn bit(&mut self, bits: u32, call: DynamicLabel) {
        let last = self.layout.bytes - u64::from(bits / 8);
        self.compare_distance_of(SECOND, MEMORY_BEGIN as i64, last);
        self.go_if_above(call);
        self.check_alignment(SECOND, 8, call);
        self.load_number(10, bits.into());
        dynasm!(self.to
            ; .arch aarch64
            ; cmp W(FIRST), w10
            ; b.hs =>call
            ; lsr w9, W(FIRST), 6
            ; add x9, X(SECOND), x9, lsl 3
        );
        self.load_at(Size::Double, false, 9, 9);
        self.load_number(10, 1);
        dynasm!(self.to ; .arch aarch64 ; lsr x9, x9, X(FIRST) ; and X(ANSWER), x9, x10);
    }

    /// X9 is where the walk is, X13 where the word of its next item is.
    fn next_item(&mut self, walks: Walks, call: DynamicLabel) {
        let Walks { begin, bytes, count, next, .. } = walks;
        self.load_iterator();
        self.check_iterator(8, call);
        self.load_at(Size::Double, false, 9, FIRST);
        self.load_number(10, count.into());
        dynasm!(self.to ; .arch aarch64 ; sub x9, x9, 1 ; cmp x9, x10 ; b.hs =>call);
        self.load_number(10, bytes.into());
        dynasm!(self.to ; .arch aarch64 ; mul x9, x9, x10);
        self.add_number(9, 9, begin as i64);
        let place = self.field(13, Size::Double, 9, next);
        self.load_at(Size::Double, false, ANSWER, 13);
        dynasm!(self.to ; .arch aarch64 ; cbz X(ANSWER), =>call ; add x13, x13, 8);
        self.store_at(Size::Double, 13, place);
    }

    /// Nothing is known of where walks are.
    pub(in super::super) fn forget_walk(&mut self) {}

    /// Nobody asks for one.
    pub(in super::super) fn search(&mut self, _: Search) {}

    /// Loads a field of what lies at an address; gives the register that holds its place.
    fn field(&mut self, to: u8, size: Size, base: u8, offset: u32) -> u8 {
        let place = self.moved(base, offset.into());
        self.load_at(size, false, to, place);
        place
    }

    fn element(&mut self, call: DynamicLabel) {
        let Some(Elements { begin, bytes, count, copies }) = self.elements() else { return };
        if !self.is_key_in_frame() {
            let last = self.layout.bytes - Size::Word.bytes();
            self.compare_distance_of(SECOND, MEMORY_BEGIN as i64, last);
            self.go_if_above(call);
        }
        self.load_at(Size::Word, false, 9, SECOND);
        self.load_number(10, count.into());
        dynasm!(self.to ; .arch aarch64 ; cmp w9, w10 ; b.hs =>call);
        self.load_number(10, bytes.into());
        self.load_number(11, begin);
        dynasm!(self.to ; .arch aarch64 ; madd X(ANSWER), x9, x10, x11);
        if let Some((number_at, apart)) = copies {
            self.load_number(9, number_at);
            self.load_at(Size::Word, false, 9, 9);
            self.load_number(10, apart.into());
            dynasm!(self.to ; .arch aarch64 ; madd X(ANSWER), x9, x10, X(ANSWER));
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
        let (inverse, even) = rows.divisor();
        self.add_number(9, native(address), (rows.begin as i64).wrapping_neg());
        let inverse = self.constant(inverse);
        dynasm!(self.to
            ; .arch aarch64
            ; ldr x10, =>inverse
            ; mul x9, x9, x10
            ; ror x9, x9, even
        );
        self.load_number(10, rows.count_at);
        self.load_at(Size::Double, false, 10, 10);
        dynasm!(self.to ; .arch aarch64 ; cmp x9, x10 ; b.hs =>call);
    }
}
