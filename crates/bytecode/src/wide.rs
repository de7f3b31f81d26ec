//! Numbers of 64 bits on a machine whose registers have 32: how many further instructions it takes
//! for what is one instruction here.
//!
//! Such a machine computes both halves of a number, one after the other. It computes no upper half
//! that is known to be 0 or that nobody asks for, and addresses have none: so it is followed
//! forwards what is known of upper halves, and backwards who asks for them. What is handed to a
//! call counts as asked for by nobody, as only its receiver knows.

use std::ops::Range;

use crate::error::LinkError;
use crate::instruction::{Arithmetic, Condition, Instruction, Operand, Register, Size, Width};
use crate::memory::FRAME_BYTES;
use crate::program::Program;
use crate::ways::{Constant, Constants, each_way};

/// What is known of the upper half of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Upper {
    /// It is 0.
    Zero,
    /// All of its bits are the sign of the lower half.
    Sign,
    /// Nothing.
    #[default]
    Any,
    /// There is none: the number is an address.
    Absent,
    /// Nothing, but the number is a call's answer. Who compares it with 0 asks for an address.
    Answer,
}

use Upper::{Absent, Answer, Any, Sign, Zero};

impl Upper {
    fn of_number(number: u64) -> Upper {
        match number {
            _ if number <= u32::MAX.into() => Zero,
            _ if i32::try_from(number as i64).is_ok() => Sign,
            _ => Any,
        }
    }

    /// Where two ways meet. A null pointer is an address, too.
    fn join(self, other: Upper) -> Upper {
        match (self, other) {
            _ if self == other => self,
            (Absent, Zero) | (Zero, Absent) => Absent,
            (Answer, Zero) | (Zero, Answer) => Answer,
            _ => Any,
        }
    }
}

/// What is known before an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Known {
    uppers: [Upper; 11],
    constants: Constants,
}

impl Known {
    fn join(self, other: Known) -> Known {
        Known {
            uppers: std::array::from_fn(|n| self.uppers[n].join(other.uppers[n])),
            constants: self.constants.join(other.constants),
        }
    }

    fn get(&self, register: Register) -> Upper {
        self.constants.held_by(register).map_or(self.uppers[register.number()], Upper::of_number)
    }

    fn of(&self, operand: Operand) -> Upper {
        match operand {
            Operand::Register(register) => self.get(register),
            Operand::Number(number) => Upper::of_number(i64::from(number) as u64),
        }
    }

    /// What is known of what an instruction writes.
    fn written(&self, of: &Instruction) -> Upper {
        match *of {
            Instruction::Arithmetic { width: Width::Bits32, .. }
            | Instruction::Negate { width: Width::Bits32, .. }
            | Instruction::MoveSigned { width: Width::Bits32, .. } => Zero,
            Instruction::Arithmetic { operation, to, by, .. } => {
                computed(operation, self.get(to), self.of(by), by)
            }
            Instruction::MoveSigned { .. } => Sign,
            Instruction::Load { size, signed, .. } if size != Size::Double => {
                if signed {
                    Sign
                } else {
                    Zero
                }
            }
            Instruction::Reorder { bits, .. } if bits < 64 => Zero,
            Instruction::Cast { .. } => Absent,
            Instruction::Call(_) => Answer,
            _ => Any,
        }
    }
}

/// The same of an operation on numbers of 64 bits of which this is known.
fn computed(operation: Arithmetic, a: Upper, b: Upper, by: Operand) -> Upper {
    use Arithmetic as A;
    let shifts_half = matches!(by, Operand::Number(32..));
    match (operation, a, b) {
        (A::Move, _, _) => b,
        (A::And, Zero, _) | (A::And, _, Zero) => Zero,
        (_, Absent, _) | (_, _, Absent) => Absent,
        (A::And | A::Or | A::Xor, Zero | Sign, _) if a == b => a,
        (A::ShiftRight, _, _) if shifts_half => Zero,
        (A::ShiftRightSigned, _, _) if shifts_half => Sign,
        (A::ShiftRight | A::ShiftRightSigned | A::Divide | A::Modulo, Zero, _) => Zero,
        (A::Modulo, _, Zero) => Zero,
        (A::ShiftRightSigned, Sign, _) => Sign,
        _ => Any,
    }
}

/// Which upper halves are asked for behind an instruction, and which registers will be addresses,
/// a bit each; the same of the frame's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Asked {
    uppers: u16,
    addresses: u16,
    uppers_in_frame: u64,
    addresses_in_frame: u64,
}

impl Asked {
    fn join(&mut self, other: Asked) {
        self.uppers |= other.uppers;
        self.addresses |= other.addresses;
        self.uppers_in_frame |= other.uppers_in_frame;
        self.addresses_in_frame |= other.addresses_in_frame;
    }

    fn upper(&self, register: Register) -> bool {
        self.uppers >> register.number() & 1 == 1 && !self.address(register)
    }

    fn address(&self, register: Register) -> bool {
        self.addresses >> register.number() & 1 == 1
    }

    fn forget(&mut self, register: Register) {
        self.uppers &= !(1 << register.number());
        self.addresses &= !(1 << register.number());
    }

    fn ask(&mut self, operand: Operand, upper: bool, address: bool) {
        if let Operand::Register(register) = operand {
            self.uppers |= u16::from(upper) << register.number();
            self.addresses |= u16::from(address) << register.number();
        }
    }

    /// What is asked before an instruction, of what is asked behind it.
    fn step(&mut self, of: &Instruction, known: &Known) {
        let written = of.writes();
        let (upper, address) =
            written.map_or((false, false), |to| (self.upper(to), self.address(to)));
        if let Some(written) = written {
            self.forget(written);
        }
        match *of {
            Instruction::Arithmetic { operation, width, to, by } => {
                let is_wide = width == Width::Bits64;
                use Arithmetic as A;
                let asks = |other: Upper| match operation {
                    A::And => upper && other != Zero,
                    A::ShiftRight | A::ShiftRightSigned => true,
                    _ => upper || operation.divides(),
                };
                if operation != A::Move {
                    self.ask(Operand::Register(to), is_wide && asks(known.of(by)), address);
                }
                let shifts =
                    matches!(operation, A::ShiftLeft | A::ShiftRight | A::ShiftRightSigned);
                self.ask(by, is_wide && !shifts && asks(known.get(to)), address);
            }
            Instruction::Negate { to, .. } => self.ask(Operand::Register(to), upper, address),
            Instruction::Reorder { to, bits, .. } => {
                self.ask(Operand::Register(to), bits > 32, false);
            }
            Instruction::Load { size, base, offset, .. } => {
                if let Some(bit) = word_of_frame(size, base, offset) {
                    self.uppers_in_frame |= u64::from(upper) << bit;
                    self.addresses_in_frame |= u64::from(address) << bit;
                }
                self.ask(Operand::Register(base), false, true);
            }
            Instruction::Store { size, base, offset, value } => {
                if let Some(bit) = word_of_frame(size, base, offset) {
                    let (upper, address) =
                        (self.uppers_in_frame >> bit & 1, self.addresses_in_frame >> bit & 1);
                    self.uppers_in_frame &= !(1 << bit);
                    self.addresses_in_frame &= !(1 << bit);
                    self.ask(value, upper == 1, address == 1);
                } else {
                    self.ask(value, size == Size::Double, false);
                }
                self.ask(Operand::Register(base), false, true);
            }
            Instruction::Atomic { size, base, value, .. } => {
                self.ask(Operand::Register(value), size == Size::Double, false);
                self.ask(Operand::Register(base), false, true);
            }
            Instruction::Branch { width: Width::Bits64, left, right, .. } => {
                let is_found = known.get(left) == Answer && asks_for_zero(of);
                self.ask(Operand::Register(left), !is_found, false);
                self.ask(right, true, false);
            }
            Instruction::Call(_) => {
                (1..6).filter_map(Register::new).for_each(|register| self.forget(register))
            }
            _ => {}
        }
    }
}

/// Whether it compares a number of 64 bits with 0.
fn asks_for_zero(of: &Instruction) -> bool {
    let asked = of.asks_for_zero().map(|(condition, _)| condition);
    matches!(asked, Some(Condition::Equal | Condition::NotEqual))
}

/// Which word of its function's frame an access is to, if it is one.
fn word_of_frame(size: Size, base: Register, offset: i16) -> Option<u32> {
    let from_begin = FRAME_BYTES as i64 + i64::from(offset);
    let is_word = size == Size::Double && base == Register::FRAME && from_begin % 8 == 0;
    (is_word && (0..FRAME_BYTES as i64).contains(&from_begin)).then_some((from_begin / 8) as u32)
}

impl Program {
    /// How many further instructions a machine of 32 bits takes for each instruction.
    pub fn wide(&self, constants: &[Constant]) -> Vec<u8> {
        let mut further = vec![0; self.instructions.len()];
        for function in &self.functions {
            self.find_further(function.first..function.end, constants, &mut further);
        }
        further
    }

    fn find_further(&self, of: Range<usize>, constants: &[Constant], further: &mut [u8]) {
        let known = self.known_in(of.clone(), constants);
        let mut asked = vec![Asked::default(); of.len()];
        let behind = |asked: &[Asked], at: usize| {
            let instruction = &self.instructions[at];
            let next = (!instruction.leaves()).then_some(at + instruction.slots());
            let mut all = Asked::default();
            for to in next.into_iter().chain(instruction.target(at)) {
                all.join(asked.get(to - of.start).copied().unwrap_or_default());
            }
            all
        };
        // An address asks for no upper half: which there are is settled first, or what is asked
        // for would come and go for ever.
        for only_addresses in [true, false] {
            let mut is_done = false;
            while !is_done {
                is_done = true;
                for at in of.clone().rev() {
                    let Some(known) = &known[at - of.start] else { continue };
                    let mut before = behind(&asked, at);
                    before.step(&self.instructions[at], known);
                    if only_addresses {
                        (before.uppers, before.uppers_in_frame) = (0, 0);
                    }
                    is_done &= asked[at - of.start] == before;
                    asked[at - of.start] = before;
                }
            }
        }
        for at in of.clone() {
            if let Some(known) = &known[at - of.start] {
                let (before, behind) = (asked[at - of.start], behind(&asked, at));
                further[at] = further_of(&self.instructions[at], known, before, behind);
            }
        }
    }

    /// What is known before each instruction to which a way leads.
    fn known_in(&self, of: Range<usize>, constants: &[Constant]) -> Vec<Option<Known>> {
        let mut known = vec![None; of.len()];
        let mut at_entry = Known::default();
        at_entry.uppers[Register::FRAME.number()] = Absent;
        let all = each_way(of.clone(), at_entry, Known::join, |at, state| {
            known[at - of.start] = Some(*state);
            let instruction = &self.instructions[at];
            let written = instruction.writes().map(|to| (to, state.written(instruction)));
            let onwards = state.constants.step(at, instruction, constants);
            if let Some((to, upper)) = written {
                state.uppers[to.number()] = upper;
            }
            Ok::<_, LinkError>(onwards)
        });
        all.expect("nothing is refused");
        known
    }
}

/// How many further instructions an instruction takes. Of a comparison and a branch, which is one
/// instruction here, there is another one for the other half. A product is three, and two sums.
fn further_of(of: &Instruction, known: &Known, before: Asked, behind: Asked) -> u8 {
    let is_one = |register| known.get(register) == Absent || before.address(register);
    if let Some(to) = of.writes()
        && !matches!(of, Instruction::Call(_))
        && (!behind.upper(to) || matches!(known.written(of), Zero | Absent))
    {
        return 0;
    }
    match *of {
        Instruction::Arithmetic { operation, width: Width::Bits64, to, by } => {
            use Arithmetic as A;
            match (operation, by) {
                (A::Add | A::Subtract | A::And | A::Or | A::Xor | A::Move, _) => 1,
                (A::Multiply, _) => match (known.get(to), known.of(by)) {
                    (Zero, Zero) => 0,
                    (Zero, _) | (_, Zero) => 2,
                    _ => 4,
                },
                (A::ShiftLeft | A::ShiftRight | A::ShiftRightSigned, Operand::Number(by)) => {
                    u8::from(by < 32)
                }
                (A::ShiftLeft | A::ShiftRight | A::ShiftRightSigned, _) => 5,
                (A::Divide | A::DivideSigned | A::Modulo | A::ModuloSigned, _) => 0,
            }
        }
        Instruction::Negate { width: Width::Bits64, .. } => 2,
        Instruction::MoveSigned { .. } | Instruction::Load { .. } => 1,
        Instruction::LoadWide { .. } => 1,
        Instruction::Store { size: Size::Double, base, offset, value } => {
            let is_address = match value {
                Operand::Register(register) => is_one(register),
                Operand::Number(_) => false,
            };
            let is_asked_for = word_of_frame(Size::Double, base, offset)
                .is_none_or(|bit| behind.uppers_in_frame >> bit & 1 == 1);
            u8::from(!is_address && is_asked_for)
        }
        Instruction::Branch { width: Width::Bits64, left, right, .. } => {
            let (a, b) = (known.get(left), known.of(right));
            let right_is_one = matches!(right, Operand::Register(right) if is_one(right));
            match (a, b) {
                (Answer, _) if asks_for_zero(of) => 0,
                (Zero, Zero) | (Sign, Sign) => 0,
                _ if is_one(left) || right_is_one => 0,
                _ if asks_for_zero(of) => 1,
                _ => 2,
            }
        }
        _ => 0,
    }
}
