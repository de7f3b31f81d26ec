//! What can be run: functions one after the other, in which everything has an address.

use std::collections::BTreeMap;

use crate::error::Place;
use crate::instruction::Instruction;
use crate::notes::Line;

/// What a program takes for the address of its first function. Nobody can read there.
pub const FUNCTIONS_BEGIN: u64 = 0xf000_0000_0000_0000;

/// A linked object.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// One entry a slot. Distances count from the next slot.
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) functions: Vec<LinkedFunction>,
    /// Whether a jump back leads to an instruction: there it is asked whether there were too many.
    pub(crate) loop_heads: Vec<bool>,
    /// Beginnings of lines.
    pub(crate) lines: BTreeMap<usize, Line>,
}

/// A function of a program.
#[derive(Clone, Debug)]
pub(crate) struct LinkedFunction {
    pub(crate) name: String,
    /// Its number in the object.
    pub(crate) function: usize,
    /// Its first slot in its section of the object.
    pub(crate) slot: u32,
    pub(crate) first: usize,
    pub(crate) end: usize,
}

impl Program {
    /// The number of a function of the object in this program; `None` if it was not linked.
    pub fn function(&self, number_in_object: usize) -> Option<usize> {
        self.functions.iter().position(|one| one.function == number_in_object)
    }

    /// The number of the function at an address that the program gave away.
    pub fn function_at(&self, address: u64) -> Option<usize> {
        let number = usize::try_from(address.checked_sub(FUNCTIONS_BEGIN)?).ok()?;
        (number < self.functions.len()).then_some(number)
    }

    /// Its instructions, with the second halves of loads of 64 bits.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Where in the source an instruction comes from.
    pub fn place(&self, at: usize) -> Place {
        let function = self.functions.iter().find(|one| (one.first..one.end).contains(&at));
        let (name, first) = function.map_or(("", 0), |one| (&one.name, one.first));
        let line = self.lines.range(first..=at).next_back().map(|(_, line)| line.clone());
        let slot = function.map_or(0, |one| one.slot) + (at - first) as u32;
        Place { function: name.to_owned(), slot, line }
    }
}
