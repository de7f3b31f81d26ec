//! What can be run: functions one after the other, in which everything has an address.

use std::collections::BTreeMap;

use crate::error::Place;
use crate::instruction::{Instruction, Size};
use crate::notes::Line;

/// What a program takes for the address of its first function. Nobody can read there.
pub const FUNCTIONS_BEGIN: u64 = 0xf000_0000_0000_0000;

/// Structures of one type in a row, which calls take by their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The address of the first.
    pub begin: u64,
    /// From one to the next.
    pub bytes: u64,
    /// The address of their number, 8 bytes.
    pub count_at: u64,
}

/// A call whose answer lies in the memory: whoever makes it and whoever looks there get the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortcut {
    /// 0.
    Zero,
    /// The first argument.
    First,
    /// A number at an address.
    Load {
        /// The address.
        address: u64,
        /// How wide it is.
        size: Size,
        /// Whether it is extended by its sign.
        signed: bool,
    },
    /// A field of the row at the first argument. If there is no row, the call is made.
    Field {
        /// The rows.
        rows: Rows,
        /// Where it is in its row.
        offset: u32,
        /// How wide it is.
        size: Size,
        /// Whether it is extended by its sign.
        signed: bool,
    },
    /// A word of the row at the second argument, in the column that the first one stands for. If
    /// there is no such row or column, or the word is 0, the call is made.
    Cell {
        /// What stands for the first column; each is 8 more.
        columns_begin: u64,
        /// How many there are.
        columns: u32,
        /// The rows.
        rows: Rows,
        /// Where the first column is in its row.
        offset: u32,
    },
    /// `bpf_iter_num_next` of a pair of numbers, the present one and the end, at the first
    /// argument. At the end the call is made.
    NextNumber,
}

impl Shortcut {
    /// Whether the call is never made.
    pub(crate) fn is_always(self) -> bool {
        matches!(self, Shortcut::Zero | Shortcut::First | Shortcut::Load { .. })
    }
}

/// A linked object.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// One entry a slot. Distances count from the next slot.
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) functions: Vec<LinkedFunction>,
    /// Whether a jump back leads to an instruction: there it is asked whether there were too many.
    pub(crate) loop_heads: Vec<bool>,
    /// Calls whose answer lies in the memory.
    pub(crate) shortcuts: BTreeMap<usize, Shortcut>,
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
