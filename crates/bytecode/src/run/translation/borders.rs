//! Which accesses are compared with the memory's borders, and with which of them.

use dynasmrt::DynasmLabelApi;

use super::blocks::Translator;
use super::known::Value;
use super::states::Reached;
use crate::instruction::{Instruction, Register, Size};
use crate::memory::{FRAME_BYTES, Layout, MEMORY_BEGIN};
use crate::program::Rows;

/// Bytes of an iterator that say which walk is its own.
const ITERATOR_BYTES: i64 = size_of::<u64>() as i64;

impl Translator<'_> {
    /// Compares all that is read or written by a register from here on with the borders, at once.
    /// The interpreter goes on where that is too much, also if only a later access would be.
    pub(super) fn check(&mut self, at: usize, base: Register, write: bool, uncounted: i32) {
        if self.is_known_to_be_inside(at, base, write) || self.is_known_field(at, base) {
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
        let (begin, size) = self.part(write);
        let out = self.stub(at, uncounted);
        match size.checked_sub((reach.1 - reach.0) as u64) {
            None => self.go_to(out),
            Some(last) => {
                self.compare_distance(base, begin as i64 - reach.0, last);
                self.go_if_above(out);
            }
        }
        let checked = &mut self.state().checked;
        let of = if write { &mut checked.writes } else { &mut checked.reads };
        of[number] = Some(reach);
    }

    /// The first address that may be read, or written, and how many bytes there are from there on.
    pub(super) fn part(&self, write: bool) -> (u64, u64) {
        let Layout { bytes, writable } = self.layout;
        if write { (MEMORY_BEGIN + writable, bytes - writable) } else { (MEMORY_BEGIN, bytes) }
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
        let Instruction::Store { size, base, offset, .. } = *of else { return None };
        let is_field = |&&(_, field, of): &&(Rows, u32, Size)| {
            size == of && offset >= 0 && field == offset as u32
        };
        let fields = &self.program.written_fields;
        fields.iter().find(is_field).map(|&(rows, ..)| rows).filter(|_| base != Register::FRAME)
    }

    /// Forgets which walk is followed after a write that may have reached its iterator.
    pub(super) fn forget_walk_if_written(&mut self, of: &Instruction, base: Register) {
        let Some((low, high)) = own_reach(of) else { return };
        let reaches_it = match (self.known(base), self.walked) {
            (Value::Frame(offset), Some(at)) => {
                let reach = offset.saturating_add(low)..offset.saturating_add(high);
                reach.start < i64::from(at) + ITERATOR_BYTES && i64::from(at) < reach.end
            }
            (Value::Given(given), _) => given.may_be_in_frame,
            _ => true,
        };
        if reaches_it {
            self.forget_walk();
        }
    }

    /// The same where an iterator at a place in the frame, if that is known, has been written; the
    /// one that is followed may be met behind here, and a jump lead back.
    #[cfg_attr(target_arch = "aarch64", allow(dead_code))]
    pub(super) fn forget_walk_at(&mut self, iterator: Option<i32>) {
        if iterator.is_none() || self.walked.is_none() || iterator == self.walked {
            self.forget_walk();
        }
    }

    /// Whether an access writes a field of what is known to be a row that has it.
    fn is_known_field(&self, at: usize, base: Register) -> bool {
        let rows = self.written_rows(&self.program.instructions[at]);
        rows.is_some() && self.known_row(base) == rows
    }

    /// The rows of which one is known to begin where a register leads.
    pub(super) fn known_row(&self, register: Register) -> Option<Rows> {
        match self.known(register) {
            Value::Given(given) if given.is_there && given.offset == 0 => given.row_of,
            _ => None,
        }
    }

    /// Lets a field of a row be written, or what the program may write anyway.
    fn check_field(&mut self, at: usize, base: Register, rows: Rows, uncounted: i32) {
        let Some((low, high)) = own_reach(&self.program.instructions[at]) else { return };
        let (begin, size) = self.part(true);
        let inside = self.to.new_dynamic_label();
        self.compare_distance(base, begin as i64 - low, size - (high - low) as u64);
        self.go_unless_above(inside);
        let out = self.stub(at, uncounted);
        self.check_row(base, rows, out);
        self.to.dynamic_label(inside);
    }

    /// How far behind the memory's first byte is what an instruction loads, if that is known here.
    pub(super) fn fixed(&self, of: &Instruction) -> Option<i32> {
        let Instruction::Load { base, offset, .. } = *of else { return None };
        let Value::Number(number) = self.known(base) else { return None };
        let address = number.wrapping_add_signed(offset.into());
        i32::try_from(address.wrapping_sub(MEMORY_BEGIN)).ok()
    }

    /// Whether an access is inside, whatever the program did before.
    pub(super) fn is_known_to_be_inside(&self, at: usize, base: Register, write: bool) -> bool {
        let reach = own_reach(&self.program.instructions[at]);
        reach.is_some_and(|reach| self.is_known_inside(base, reach, write))
    }

    /// The same of the bytes from so far behind a register to so far behind it.
    pub(super) fn is_known_inside(
        &self,
        base: Register,
        (low, high): (i64, i64),
        write: bool,
    ) -> bool {
        match self.known(base) {
            Value::Any | Value::Arena => false,
            Value::Frame(offset) => {
                let reach = offset.saturating_add(low)..offset.saturating_add(high);
                reach.start >= -(FRAME_BYTES as i64) && reach.end <= 0
            }
            Value::Given(given) => {
                let reach = given.offset.saturating_add(low)..given.offset.saturating_add(high);
                let is_allowed = given.is_there && !(write && given.row_of.is_some());
                is_allowed && reach.start >= 0 && reach.end <= given.bytes.into()
            }
            Value::Number(number) => self.is_inside(number, number, (low, high), write),
            Value::Between(first, last) => self.is_inside(first, last, (low, high), write),
        }
    }
}

impl Translator<'_> {
    /// Whether an access by each of these addresses is inside, that reaches so far from it.
    fn is_inside(&self, first: u64, last: u64, (low, high): (i64, i64), write: bool) -> bool {
        let (begin, size) = self.part(write);
        let (low, high) = (first.checked_add_signed(low), last.checked_add_signed(high));
        low.is_some_and(|low| low >= begin) && high.is_some_and(|high| high <= begin + size)
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
