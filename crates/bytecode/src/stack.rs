//! How much of the stack calls take that are in each other. Their frames share one stack, unless a
//! kernel gives each its own, and no kernel takes a program in which they need more than it has,
//! however seldom they meet.
//!
//! Whoever takes the address of a function counts as calling it, as for `bpf_loop`: only what a
//! kernel calls later by itself, such as a timer's callback, begins a stack of its own.
//!
//! Source: Linux 7.3, kernel/bpf/verifier.c, `check_max_stack_depth`.

use crate::instruction::{Arithmetic, Callee, Instruction, Operand, Register, Width, wide_number};
use crate::memory::{FRAME_BYTES, FRAMES_MAX};
use crate::program::Program;
use std::collections::BTreeSet;
use std::ops::Range;

/// To what a kernel rounds a frame.
const ROUNDED_TO: u64 = 16;

/// A chain of calls that takes too much.
pub(crate) struct TooDeep {
    /// The functions' numbers, from the first caller on, each with the bytes of its frame.
    pub(crate) chain: Vec<(usize, u64)>,
}

impl TooDeep {
    pub(crate) fn bytes(&self) -> u64 {
        self.chain.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// Registers that may hold the end of the frame, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameEnds(u16);

impl FrameEnds {
    pub(crate) const AT_ENTRY: FrameEnds = FrameEnds(1 << 10);

    fn has(self, register: Register) -> bool {
        self.0 >> register.number() & 1 == 1
    }

    pub(crate) fn join(self, other: FrameEnds) -> FrameEnds {
        FrameEnds(self.0 | other.0)
    }

    /// Whether an instruction gives a register the end of the frame.
    fn copies(self, instruction: &Instruction) -> bool {
        let Instruction::Arithmetic { operation, width, by, .. } = *instruction else {
            return false;
        };
        let is_move = operation == Arithmetic::Move && width == Width::Bits64;
        is_move && matches!(by, Operand::Register(from) if self.has(from))
    }

    pub(crate) fn after(&mut self, instruction: &Instruction) {
        let copies = self.copies(instruction);
        if let Some(to) = instruction.writes() {
            self.0 = self.0 & !(1 << to.number()) | u16::from(copies) << to.number();
        }
    }
}

/// What a function needs of the stack, whom it calls, and whose addresses it takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    bytes: u64,
    callees: BTreeSet<usize>,
    taken: BTreeSet<usize>,
}

impl Frame {
    /// The most that the instructions of a function can need, wherever ways lead.
    pub(crate) fn most(program: &Program, instructions: Range<usize>) -> Frame {
        let instructions = &program.instructions[instructions];
        let mut ends = FrameEnds::AT_ENTRY;
        // Each round finds a register more.
        loop {
            let copies = instructions.iter().filter(|one| ends.copies(one));
            let found = copies.filter_map(Instruction::writes);
            let all = found.fold(ends, |all, to| all.join(FrameEnds(1 << to.number())));
            if all == ends {
                break;
            }
            ends = all;
        }
        let mut frame = Frame::default();
        instructions.iter().for_each(|one| frame.add(program, one, ends));
        frame
    }

    /// Adds what an instruction needs where these registers may hold the end of the frame.
    pub(crate) fn add(&mut self, program: &Program, instruction: &Instruction, ends: FrameEnds) {
        let lowest = match *instruction {
            Instruction::Load { base, offset, .. }
            | Instruction::Store { base, offset, .. }
            | Instruction::Atomic { base, offset, .. }
                if ends.has(base) =>
            {
                i64::from(offset)
            }
            Instruction::Arithmetic {
                operation: Arithmetic::Add,
                to,
                by: Operand::Number(n),
                ..
            } if ends.has(to) && i64::from(n) >= -(FRAME_BYTES as i64) => i64::from(n),
            _ => 0,
        };
        let needed = lowest.min(0).unsigned_abs().next_multiple_of(ROUNDED_TO);
        self.bytes = self.bytes.max(needed);
        match *instruction {
            Instruction::Call(Callee::Function(callee)) => {
                self.callees.insert(callee as usize);
            }
            Instruction::LoadWide { low, high, .. } => {
                self.taken.extend(program.function_at(wide_number(low, high)));
            }
            _ => {}
        }
    }

    /// Whose frames lie below, where some functions are called later.
    fn leads_to<'a>(
        &'a self,
        called_later: &'a BTreeSet<usize>,
    ) -> impl Iterator<Item = usize> + 'a {
        self.callees.iter().chain(self.taken.difference(called_later)).copied()
    }
}

/// The deepest chain of calls, if it takes more than a stack has, by the frame of each function.
/// Chains begin with a function that nobody calls or that is `called_later`, but with none of these
/// functions of the object, `apart`, where each frame has a stack of its own.
pub(crate) fn too_deep(
    program: &Program,
    frames: &[Frame],
    apart: &BTreeSet<usize>,
    called_later: &BTreeSet<usize>,
) -> Option<TooDeep> {
    // What a function takes with so many calls below it: more are refused where they are made.
    let mut depths = vec![frames.iter().map(|frame| frame.bytes).collect::<Vec<u64>>()];
    for _ in 1..FRAMES_MAX {
        let below = &depths[depths.len() - 1];
        let deepest = |frame: &Frame| frame.leads_to(called_later).map(|one| below[one]).max();
        let depth = frames.iter().map(|frame| frame.bytes + deepest(frame).unwrap_or(0)).collect();
        depths.push(depth);
    }
    let last = &depths[depths.len() - 1];
    // Of equal ones the first, as who calls has the smaller number.
    let called: BTreeSet<usize> =
        frames.iter().flat_map(|frame| frame.leads_to(called_later)).collect();
    let begins = |number: &usize| {
        (!called.contains(number) || called_later.contains(number))
            && !apart.contains(&program.functions[*number].function)
    };
    let chains = last.iter().enumerate().rev().filter(|(number, _)| begins(number));
    let (mut at, &bytes) = chains.max_by_key(|(_, bytes)| **bytes)?;
    if bytes <= FRAME_BYTES {
        return None;
    }
    let mut found = TooDeep { chain: vec![(at, frames[at].bytes)] };
    for below in depths.iter().rev().skip(1) {
        let next = frames[at].leads_to(called_later).max_by_key(|&one| below[one]);
        let Some(next) = next.filter(|_| found.bytes() <= FRAME_BYTES) else { break };
        at = next;
        found.chain.push((at, frames[at].bytes));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    //! Goal: the deepest chain is found, and no more. Method: programs made by hand.
    use super::*;
    use crate::instruction::Size;
    use crate::program::{FUNCTIONS_BEGIN, LinkedFunction};

    const NONE: BTreeSet<usize> = BTreeSet::new();

    fn store(base: Register, offset: i16) -> Instruction {
        Instruction::Store { size: Size::Double, base, offset, value: Operand::Number(0) }
    }

    fn call(callee: usize) -> Instruction {
        Instruction::Call(Callee::Function(callee as i32))
    }

    fn take(function: usize) -> Instruction {
        let address = FUNCTIONS_BEGIN + function as u64;
        let (low, high) = (address as i32, (address >> 32) as i32);
        Instruction::LoadWide { to: Register::FIRST, kind: 0, low, high }
    }

    fn step(operation: Arithmetic, by: Operand) -> Instruction {
        Instruction::Arithmetic { operation, width: Width::Bits64, to: Register::FIRST, by }
    }

    /// Functions of these instructions.
    fn program_of(functions: &[Vec<Instruction>]) -> Program {
        let mut program = Program::default();
        for (number, instructions) in functions.iter().enumerate() {
            let first = program.instructions.len();
            program.instructions.extend(instructions);
            let (name, end) = (format!("f{number}"), program.instructions.len());
            let function = LinkedFunction { name, function: number, slot: 0, first, end };
            program.functions.push(function);
        }
        program
    }

    /// Functions with frames of so many bytes, each with the numbers of those that it calls.
    fn program(functions: &[(i16, &[usize])]) -> Program {
        let made = functions.iter().map(|&(bytes, callees)| {
            let calls = callees.iter().map(|&callee| call(callee));
            [store(Register::FRAME, -bytes)].into_iter().chain(calls).collect()
        });
        program_of(&made.collect::<Vec<_>>())
    }

    fn frames(program: &Program) -> Vec<Frame> {
        let most = |one: &LinkedFunction| Frame::most(program, one.first..one.end);
        program.functions.iter().map(most).collect()
    }

    fn bytes_of(program: &Program, apart: &BTreeSet<usize>, later: &BTreeSet<usize>) -> u64 {
        let found = too_deep(program, &frames(program), apart, later);
        found.map_or(0, |found| found.bytes())
    }

    fn chain(functions: &[(i16, &[usize])]) -> Option<Vec<(usize, u64)>> {
        let program = program(functions);
        too_deep(&program, &frames(&program), &NONE, &NONE).map(|found| found.chain)
    }

    #[test]
    fn frames_of_calls_within_each_other_add_up_to_what_a_stack_has() {
        assert_eq!(chain(&[(512, &[])]), None);
        assert_eq!(chain(&[(256, &[1, 2]), (256, &[]), (200, &[])]), None);
        // Each is rounded up to 16 bytes.
        assert_eq!(chain(&[(8, &[1]), (488, &[])]), None);
        assert_eq!(chain(&[(8, &[1]), (500, &[])]), Some(vec![(0, 16), (1, 512)]));
        let deep = [(0, &[2, 1][..]), (320, &[3]), (300, &[]), (320, &[2])];
        assert_eq!(chain(&deep), Some(vec![(0, 0), (1, 320), (3, 320)]));
    }

    #[test]
    fn frames_apart_take_nothing() {
        let program = program(&[(320, &[1]), (320, &[])]);
        assert_eq!(bytes_of(&program, &NONE, &NONE), 640);
        assert_eq!(bytes_of(&program, &BTreeSet::from([1]), &NONE), 640);
        assert_eq!(bytes_of(&program, &BTreeSet::from([0]), &NONE), 0);
    }

    #[test]
    fn who_takes_an_address_calls_unless_that_is_later() {
        let large = || store(Register::FRAME, -320);
        let taking = program_of(&[vec![large(), take(1)], vec![large()]]);
        assert_eq!(bytes_of(&taking, &NONE, &NONE), 640);
        let later = BTreeSet::from([1]);
        assert_eq!(bytes_of(&taking, &NONE, &later), 0);
        // A call is one, and what is called later may call others.
        let calling = program_of(&[vec![large(), take(1), call(1)], vec![large()]]);
        assert_eq!(bytes_of(&calling, &NONE, &later), 640);
        let below = program_of(&[vec![take(1)], vec![large(), call(2)], vec![large()]]);
        assert_eq!(bytes_of(&below, &NONE, &later), 640);
        // Also where only an operation with frames apart takes its address or calls it.
        let called = program_of(&[vec![call(1), take(1)], vec![large(), call(2)], vec![large()]]);
        let apart = BTreeSet::from([0]);
        assert_eq!(bytes_of(&called, &apart, &later), 640);
        assert_eq!(bytes_of(&called, &apart, &NONE), 0);
    }

    #[test]
    fn an_address_in_the_frame_counts() {
        let (to_frame, add) = (
            step(Arithmetic::Move, Operand::Register(Register::FRAME)),
            step(Arithmetic::Add, Operand::Number(-320)),
        );
        let bytes = |first: &[Instruction]| {
            let first = [first, &[call(1)]].concat();
            bytes_of(&program_of(&[first, vec![store(Register::FRAME, -320)]]), &NONE, &NONE)
        };
        assert_eq!(bytes(&[to_frame, add]), 640);
        assert_eq!(bytes(&[to_frame, store(Register::FIRST, -320)]), 640);
        assert_eq!(bytes(&[step(Arithmetic::Move, Operand::Number(1)), add]), 0);
        // A jump back may lead from one to the other.
        assert_eq!(bytes(&[add, to_frame]), 640);
    }

    #[test]
    fn the_end_of_the_frame_is_followed_from_register_to_register() {
        let to = |number| Register::new(number).expect("one of eleven");
        let copy = |into, from| Instruction::Arithmetic {
            operation: Arithmetic::Move,
            width: Width::Bits64,
            to: to(into),
            by: Operand::Register(to(from)),
        };
        let mut ends = FrameEnds::AT_ENTRY;
        for instruction in [copy(6, 10), copy(7, 6), copy(6, 1)] {
            ends.after(&instruction);
        }
        assert_eq!([1, 6, 7, 10].map(|one| ends.has(to(one))), [false, false, true, true]);
        assert!(ends.join(FrameEnds::AT_ENTRY).has(to(7)));
    }
}
