//! Ways through a function, and what is known on each: which registers were written to, and which
//! hold a constant. A way that constants close is no way, as for a kernel's verifier.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::compute;
use crate::error::LinkError;
use crate::instruction::{Arithmetic, Instruction, Operand, Register, wide_number};

/// What is known at instructions of a function, as far as ways to them differ.
const APART_MAX: usize = 100_000;

/// Where a way goes on from an instruction: behind it, and where it jumps to.
pub(crate) type Onwards = (Option<usize>, Option<usize>);

/// Goes every way from the first of a function's instructions until no more is learnt. `step` makes
/// of what is known before an instruction what is known behind it; where ways meet, `join` keeps
/// what holds on both.
pub(crate) fn each_way<State: Copy + PartialEq>(
    function: Range<usize>,
    at_entry: State,
    join: impl Fn(State, State) -> State,
    mut step: impl FnMut(usize, &mut State) -> Result<Onwards, LinkError>,
) -> Result<(), LinkError> {
    let mut states = vec![None; function.len()];
    states[0] = Some(at_entry);
    let mut open = BTreeSet::from([function.start]);
    while let Some(at) = open.pop_first() {
        let Some(mut state) = states[at - function.start] else { continue };
        let (next, target) = step(at, &mut state)?;
        for to in next.into_iter().chain(target) {
            let known = &mut states[to - function.start];
            let joined = known.map_or(state, |known| join(known, state));
            if *known != Some(joined) {
                *known = Some(joined);
                open.insert(to);
            }
        }
    }
    Ok(())
}

/// Goes every way from an instruction without joining any; whether there were few enough.
pub(crate) fn each_way_apart<State: Copy + Ord>(
    first: usize,
    at_entry: State,
    mut step: impl FnMut(usize, &mut State) -> Result<Onwards, LinkError>,
) -> Result<bool, LinkError> {
    let mut seen = BTreeSet::new();
    let mut open = vec![(first, at_entry)];
    while let Some((at, mut state)) = open.pop() {
        if !seen.insert((at, state)) {
            continue;
        }
        if seen.len() > APART_MAX {
            return Ok(false);
        }
        let (next, target) = step(at, &mut state)?;
        open.extend(next.into_iter().chain(target).map(|to| (to, state)));
    }
    Ok(true)
}

/// Registers that something was written to, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Written(u16);

impl Written {
    /// R0 is 0, R1 to R5 are arguments, R10 is the frame.
    pub(crate) const AT_ENTRY: Written = Written(0b100_0011_1111);

    pub(crate) fn has(self, register: Register) -> bool {
        self.0 >> register.number() & 1 == 1
    }

    /// Those of R1 to R5 that nothing was written to, by bits.
    pub(crate) fn unwritten_arguments(self) -> u8 {
        (!self.0 & 0b11_1110) as u8
    }

    pub(crate) fn join(self, other: Written) -> Written {
        Written(self.0 & other.0)
    }

    pub(crate) fn after(&mut self, instruction: &Instruction) {
        if matches!(instruction, Instruction::Call(_)) {
            self.0 &= !0b11_1110;
        }
        if let Some(register) = instruction.writes() {
            self.0 |= 1 << register.number();
        }
    }
}

/// Memory that never changes.
#[derive(Clone, Debug)]
pub struct Constant {
    /// Its address.
    pub begin: u64,
    /// How many bytes it has.
    pub len: usize,
    /// The first of them; all others are 0.
    pub bytes: Vec<u8>,
}

impl Constant {
    /// The number of so many bytes at an address, if all are within.
    fn number(&self, address: u64, bytes: u64) -> Option<u64> {
        let from = usize::try_from(address.checked_sub(self.begin)?).ok()?;
        let to = from.checked_add(bytes as usize).filter(|&to| to <= self.len)?;
        let byte = |at: usize| u64::from(self.bytes.get(at).copied().unwrap_or(0));
        Some((from..to).rev().fold(0, |value, at| value << 8 | byte(at)))
    }
}

/// What registers are known to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Constants([Option<u64>; 11]);

impl Constants {
    /// What a register is known to hold.
    pub(crate) fn held_by(&self, register: Register) -> Option<u64> {
        self.0[register.number()]
    }

    fn of(&self, operand: Operand) -> Option<u64> {
        match operand {
            Operand::Register(register) => self.0[register.number()],
            Operand::Number(number) => Some(number as i64 as u64),
        }
    }

    pub(crate) fn join(self, other: Constants) -> Constants {
        let both = |n: usize| self.0[n].filter(|_| self.0[n] == other.0[n]);
        Constants(std::array::from_fn(both))
    }

    /// What an instruction loads, if that never changes.
    fn loaded(&self, of: &Instruction, constants: &[Constant]) -> Option<u64> {
        let Instruction::Load { size, signed: false, base, offset, .. } = *of else { return None };
        let address = self.0[base.number()]?.wrapping_add_signed(offset.into());
        constants.iter().find_map(|constant| constant.number(address, size.bytes()))
    }

    /// What holds behind an instruction; where it goes on, and where a jump may lead.
    pub(crate) fn step(&mut self, at: usize, of: &Instruction, constants: &[Constant]) -> Onwards {
        let next = (!of.leaves()).then_some(at + of.slots());
        match *of {
            Instruction::Arithmetic { operation, width, to, by } => {
                // A move does not ask what was there.
                let is_move = operation == Arithmetic::Move;
                let before = if is_move { Some(0) } else { self.0[to.number()] };
                let both = before.zip(self.of(by));
                let value = both.map(|(a, b)| compute::arithmetic(operation, width, a, b));
                self.0[to.number()] = value;
            }
            Instruction::LoadWide { to, low, high, .. } => {
                self.0[to.number()] = Some(wide_number(low, high));
            }
            Instruction::Load { to, .. } => self.0[to.number()] = self.loaded(of, constants),
            Instruction::Call(_) => self.0[..6].fill(None),
            Instruction::Branch { condition, width, left, right, .. } => {
                let both = self.0[left.number()].zip(self.of(right));
                match both.map(|(a, b)| compute::holds(condition, width, a, b)) {
                    Some(true) => return (None, of.target(at)),
                    Some(false) => return (next, None),
                    None => {}
                }
            }
            _ => {
                if let Some(written) = of.writes() {
                    self.0[written.number()] = None;
                }
            }
        }
        (next, of.target(at))
    }
}
