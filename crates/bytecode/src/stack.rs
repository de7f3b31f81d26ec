//! How much of the stack calls take that are in each other. Their frames share one stack, unless a
//! kernel gives each its own, and no kernel takes a program in which they need more than it has,
//! however seldom they meet.
//!
//! Source: Linux 7.3, kernel/bpf/verifier.c, `check_max_stack_depth`. Functions that other calls
//! call back count as roots of their own, which some kernels are stricter about.

use crate::instruction::{Arithmetic, Callee, Instruction, Operand, Register};
use crate::memory::{FRAME_BYTES, FRAMES_MAX};
use crate::program::Program;
use std::collections::BTreeSet;

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

/// What a function needs of the stack, and whom it calls.
struct Frame {
    bytes: u64,
    callees: Vec<usize>,
}

/// The deepest chain of calls, if it takes more than a stack has. Only instructions count that
/// `is_reached`, and no chain that begins with one of these functions of the object, `apart`, where
/// each frame has a stack of its own. O(instructions).
pub(crate) fn too_deep(
    program: &Program,
    apart: &BTreeSet<usize>,
    is_reached: impl Fn(usize) -> bool,
) -> Option<TooDeep> {
    let frames: Vec<Frame> = program
        .functions
        .iter()
        .map(|function| frame(program, (function.first..function.end).filter(|&at| is_reached(at))))
        .collect();
    // What a function takes with so many calls below it: more are refused where they are made.
    let mut depths = vec![frames.iter().map(|frame| frame.bytes).collect::<Vec<u64>>()];
    for _ in 1..FRAMES_MAX {
        let below = &depths[depths.len() - 1];
        let deepest = |frame: &Frame| frame.callees.iter().map(|&one| below[one]).max();
        let depth = frames.iter().map(|frame| frame.bytes + deepest(frame).unwrap_or(0)).collect();
        depths.push(depth);
    }
    let last = &depths[depths.len() - 1];
    // Of equal ones the first, as who calls has the smaller number.
    let called: BTreeSet<usize> = frames.iter().flat_map(|frame| frame.callees.clone()).collect();
    let begins = |number: &usize| {
        !called.contains(number) && !apart.contains(&program.functions[*number].function)
    };
    let chains = last.iter().enumerate().rev().filter(|(number, _)| begins(number));
    let (mut at, &bytes) = chains.max_by_key(|(_, bytes)| **bytes)?;
    if bytes <= FRAME_BYTES {
        return None;
    }
    let mut found = TooDeep { chain: vec![(at, frames[at].bytes)] };
    for below in depths.iter().rev().skip(1) {
        let next = frames[at].callees.iter().max_by_key(|&&one| below[one]);
        let Some(&next) = next.filter(|_| found.bytes() <= FRAME_BYTES) else { break };
        at = next;
        found.chain.push((at, frames[at].bytes));
    }
    Some(found)
}

fn frame(program: &Program, instructions: impl Iterator<Item = usize>) -> Frame {
    let mut found = Frame { bytes: 0, callees: vec![] };
    // Registers that hold the end of the frame.
    let mut is_frame = [false; 11];
    is_frame[Register::FRAME.number()] = true;
    for at in instructions {
        let instruction = program.instructions[at];
        let lowest = match instruction {
            Instruction::Load { base, offset, .. }
            | Instruction::Store { base, offset, .. }
            | Instruction::Atomic { base, offset, .. }
                if base == Register::FRAME =>
            {
                i64::from(offset)
            }
            Instruction::Arithmetic {
                operation: Arithmetic::Add,
                to,
                by: Operand::Number(n),
                ..
            } if is_frame[to.number()] && i64::from(n) >= -(FRAME_BYTES as i64) => i64::from(n),
            Instruction::Call(Callee::Function(callee)) => {
                found.callees.push(callee as usize);
                0
            }
            _ => 0,
        };
        found.bytes = found.bytes.max(lowest.min(0).unsigned_abs());
        let copies = matches!(
            instruction,
            Instruction::Arithmetic {
                operation: Arithmetic::Move,
                by: Operand::Register(Register::FRAME),
                ..
            }
        );
        if let Some(to) = instruction.writes() {
            is_frame[to.number()] = copies;
        }
    }
    found.bytes = found.bytes.next_multiple_of(ROUNDED_TO);
    found
}

#[cfg(test)]
mod tests {
    //! Goal: the deepest chain is found, and no more. Method: programs made by hand.
    use super::*;
    use crate::instruction::{Size, Width};
    use crate::program::LinkedFunction;

    /// Functions with frames of so many bytes, each with the numbers of those that it calls.
    fn program(functions: &[(i16, &[usize])]) -> Program {
        let mut program = Program::default();
        for (number, &(bytes, callees)) in functions.iter().enumerate() {
            let first = program.instructions.len();
            let (base, value) = (Register::FRAME, Operand::Number(0));
            let store = Instruction::Store { size: Size::Double, base, offset: -bytes, value };
            program.instructions.push(store);
            let call = |&callee: &usize| Instruction::Call(Callee::Function(callee as i32));
            program.instructions.extend(callees.iter().map(call));
            let (name, end) = (format!("f{number}"), program.instructions.len());
            let function = LinkedFunction { name, function: number, slot: 0, first, end };
            program.functions.push(function);
        }
        program
    }

    fn chain(functions: &[(i16, &[usize])]) -> Option<Vec<(usize, u64)>> {
        too_deep(&program(functions), &BTreeSet::new(), |_| true).map(|found| found.chain)
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
    fn what_no_way_leads_to_takes_nothing_and_neither_do_frames_apart() {
        let program = program(&[(320, &[1]), (320, &[])]);
        let none = BTreeSet::new();
        assert!(too_deep(&program, &none, |_| true).is_some());
        assert!(too_deep(&program, &BTreeSet::from([1]), |_| true).is_some());
        assert!(too_deep(&program, &BTreeSet::from([0]), |_| true).is_none());
        // Without the call.
        assert!(too_deep(&program, &none, |at| at != 1).is_none());
    }

    #[test]
    fn an_address_in_the_frame_counts() {
        let none = BTreeSet::new();
        let mut program = program(&[(8, &[1]), (320, &[])]);
        let to = Register::FIRST;
        let step =
            |operation, by| Instruction::Arithmetic { operation, width: Width::Bits64, to, by };
        let add = step(Arithmetic::Add, Operand::Number(-320));
        program.instructions[0] = step(Arithmetic::Move, Operand::Register(Register::FRAME));
        program.instructions.insert(1, add);
        for (function, (first, end)) in program.functions.iter_mut().zip([(0, 3), (3, 4)]) {
            (function.first, function.end) = (first, end);
        }
        assert_eq!(too_deep(&program, &none, |_| true).map(|found| found.bytes()), Some(640));
        program.instructions[0] = step(Arithmetic::Move, Operand::Number(1));
        assert!(too_deep(&program, &none, |_| true).is_none());
    }
}
