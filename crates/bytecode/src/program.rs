//! What can be run: functions one after the other, in which everything has an address.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::Place;
use crate::instruction::{Instruction, Size};
use crate::memory::Memory;
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

impl Rows {
    /// Whether a row begins at this address.
    pub(crate) fn has(self, memory: &Memory, address: u64) -> bool {
        let count = memory.load(self.count_at, Size::Double).unwrap_or(0);
        let offset = address.wrapping_sub(self.begin);
        offset.is_multiple_of(self.bytes) && offset / self.bytes < count
    }

    /// Where the row with this number begins, wherever the rows end.
    #[inline]
    pub const fn address(self, number: u64) -> u64 {
        self.begin.wrapping_add(number.wrapping_mul(self.bytes))
    }

    /// Which of `count` rows begins at an address; `None` if none does. No division is needed, see
    /// [`Rows::divisor`], if the rows are known where it is compiled.
    #[inline]
    pub const fn number(self, address: u64, count: u64) -> Option<u64> {
        let (inverse, even) = self.divisor();
        let product = address.wrapping_sub(self.begin).wrapping_mul(inverse);
        let number = product.rotate_right(even);
        if number < count { Some(number) } else { None }
    }

    /// A number is a multiple of a row's bytes, and not too large, exactly if the product with the
    /// inverse of its odd part, turned by the even part, is the row's number. These are that
    /// inverse, and by how many bits to turn.
    pub(crate) const fn divisor(self) -> (u64, u32) {
        let even = self.bytes.trailing_zeros();
        (inverse(self.bytes >> even), even)
    }
}

/// The number that `odd` times gives 1, of 64 bits, by Newton's steps: each doubles the bits that
/// are right, of which there are three at first.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut right = 3;
    while right < u64::BITS {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        right *= 2;
    }
    inverse
}

/// Values of a map, one behind the other, in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements {
    /// The address of the first.
    pub begin: u64,
    /// From one to the next.
    pub bytes: u32,
    /// How many there are.
    pub count: u32,
    /// For values of which there are several copies: the address of the number, 4 bytes, of the
    /// one that is meant, and how far apart they are.
    pub copies: Option<(u64, u32)>,
}

/// Walks over items, of which each holds the addresses of some, and at last a 0 that is never
/// passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walks {
    /// The address of the first walk, a multiple of `bytes`.
    pub begin: u64,
    /// From one to the next, a power of 2.
    pub bytes: u32,
    /// How many there are.
    pub count: u32,
    /// From where a walk begins to the address of its next item's word. That word has the item's
    /// address. Where it is 0, the call is made.
    pub next: u32,
    /// The address of a word that is always 0.
    pub nothing: u64,
    /// Of which rows items are.
    pub rows: Rows,
}

/// A lock whose word, 4 bytes at an address, holds its number.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// The address of the word; 0 for none.
    pub address: u32,
    /// Who held it last.
    pub holder: u32,
    /// When it is free.
    pub free_at: u64,
}

/// Locks by their numbers. The first is nobody's, so that a word of 0 is no lock's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locks {
    /// The address of the first of them, a [`Lock`].
    pub begin: u64,
    /// How many there are.
    pub count: u32,
    /// The address of the time, 8 bytes.
    pub now_at: u64,
    /// The address of who takes locks, 4 bytes.
    pub holder_at: u64,
    /// The address of how long it takes who held it last to take a lock that is free, 8 bytes.
    pub take_at: u64,
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
    /// The value in a map of the first argument's that has the number at the second argument; if
    /// these [`Elements`] are not known, or have no such value, the call is made.
    Element,
    /// 1 if a bit is set, of so many that begin at the second argument, an address that is a
    /// multiple of 8; the lower half of the first is its number. If there is no such bit, the call
    /// is made.
    Bit(u32),
    /// The next item of the walk whose number, the first being 1, is at the first argument. If
    /// there is none, the call is made.
    NextItem(Walks),
    /// `bpf_iter_num_new` of a pair of numbers at the first argument: what comes before the second
    /// one, and the third, which is the end. The call is made for a range that is longer than this.
    BeginNumbers(u32),
    /// `bpf_iter_num_next` of a pair of numbers, the present one and the end, at the first
    /// argument. At the end the call is made.
    NextNumber,
    /// Takes the lock whose word is at the first argument: the time goes on, and the answer is 0.
    /// Where there is no lock, or somebody else held it last, or until later, the call is made.
    Lock(Locks),
    /// Gives up that lock: it is free from now on, and the answer is 0. Where there is no lock, the
    /// call is made.
    Unlock(Locks),
}

impl Shortcut {
    /// Whether the call is never made.
    pub(crate) fn is_always(self) -> bool {
        matches!(self, Shortcut::Zero | Shortcut::First | Shortcut::Load { .. })
    }

    /// Registers of the arguments that it looks at.
    pub(crate) fn arguments(self) -> Range<usize> {
        match self {
            Shortcut::Zero | Shortcut::Load { .. } => 0..0,
            Shortcut::First
            | Shortcut::Field { .. }
            | Shortcut::NextItem(_)
            | Shortcut::NextNumber
            | Shortcut::Lock(_)
            | Shortcut::Unlock(_) => 1..2,
            Shortcut::Cell { .. } | Shortcut::Element | Shortcut::Bit(_) => 1..3,
            Shortcut::BeginNumbers(_) => 1..4,
        }
    }
}

/// What a call does to what a program holds, which a strict run follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// What it gives, unless 0, is to be given back.
    Gives,
    /// The same of something in a list or tree, which whoever holds a lock may ask for.
    GivesLinked,
    /// Its first argument is given back.
    Takes,
    /// Its second argument, unless 0, is given back, to stay where the first one leads. What stood
    /// there is the answer and to be given back, unless 0.
    Exchanges,
    /// Its second argument is given back, to be linked in a list or tree, and lent from there on.
    Links,
    /// What it gives, unless 0, is of a list or tree, and may be used as long as the lock is held.
    Lends,
    /// Asks about a list or tree, which whoever holds a lock may do.
    Asks,
    /// Begins the iterator at its first argument.
    Begins,
    /// Needs an iterator there that was begun.
    Goes,
    /// Ends the iterator there.
    Ends,
    /// Takes the lock at its first argument.
    Locks,
    /// Gives up the lock there.
    Unlocks,
    /// Gives or takes pages of an arena, which whoever holds a lock may ask for.
    Pages,
}

impl Holding {
    /// Whether such a call may be made by whoever holds a lock. Source: Linux,
    /// kernel/bpf/verifier.c, `kfunc_spin_allowed`, which says so of iterators over numbers, of
    /// lists and trees, and of arenas.
    pub(crate) fn is_allowed_with_lock(self) -> bool {
        use Holding::{Asks, Begins, Ends, GivesLinked, Goes, Lends, Links, Pages, Unlocks};
        matches!(self, Unlocks | Begins | Goes | Ends | GivesLinked | Links | Lends | Asks | Pages)
    }
}

/// A variable of a program, or a section without names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) bytes: u64,
    pub(crate) name: String,
}

/// A linked object.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// One entry a slot. Distances count from the next slot.
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) functions: Vec<LinkedFunction>,
    /// Whether a jump back leads to an instruction: there it is asked whether there were too many.
    pub(crate) loop_heads: Vec<bool>,
    /// Registers of arguments that nothing was written to, by bits, of each call.
    pub(crate) unwritten: BTreeMap<usize, u8>,
    /// Calls whose answer lies in the memory.
    pub(crate) shortcuts: BTreeMap<usize, Shortcut>,
    /// The values of maps, by what stands for the map.
    pub(crate) elements: BTreeMap<u64, Elements>,
    /// How many bytes there are where cells lead, by the column.
    pub(crate) cells: BTreeMap<u64, u32>,
    /// Fields that programs may write though they lie where others may not.
    pub(crate) written_fields: Vec<(Rows, u32, Size)>,
    /// Beginnings of lines.
    pub(crate) lines: BTreeMap<usize, Line>,
    /// Variables by their addresses.
    pub(crate) variables: BTreeMap<u64, Extent>,
    /// What calls do to what a program holds.
    pub(crate) holdings: BTreeMap<usize, Holding>,
    /// What is called with the cookie of an exception, by the function that was called first.
    pub(crate) catchers: BTreeMap<usize, usize>,
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

    /// The function that is called with the cookie of an exception which was thrown under this one,
    /// and whose answer counts in its place; without one the cookie is the answer.
    pub fn catcher(&self, number: usize) -> Option<usize> {
        self.catchers.get(&number).copied()
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

    /// The registers of arguments that nothing was written to before this call.
    pub(crate) fn unwritten_at(&self, call: usize) -> impl Iterator<Item = usize> {
        let bits = self.unwritten.get(&call).copied().unwrap_or(0);
        (1..6).filter(move |register| bits >> register & 1 == 1)
    }

    /// Whether a write is one of a field that programs may write.
    pub(crate) fn may_write_field(&self, memory: &Memory, address: u64, size: Size) -> bool {
        let is_field = |&(rows, offset, of): &(Rows, u32, Size)| {
            size == of && rows.has(memory, address.wrapping_sub(offset.into()))
        };
        self.written_fields.iter().any(is_field)
    }

    /// How many bytes the variable has that begins at an address.
    pub(crate) fn variable_at(&self, address: u64) -> Option<u64> {
        self.variables.get(&address).map(|variable| variable.bytes)
    }

    /// Begin and size of the variable that has the byte at an address.
    pub(crate) fn variable_with(&self, address: u64) -> Option<(u64, u64)> {
        let (&begin, variable) = self.variables.range(..=address).next_back()?;
        (address - begin < variable.bytes).then_some((begin, variable.bytes))
    }

    /// The name of the variable that begins at an address.
    pub(crate) fn variable_name(&self, address: u64) -> Option<&str> {
        self.variables.get(&address).map(|variable| &*variable.name)
    }

    /// What is said of an instruction, with its place before it. For one of an inlined function
    /// that is where `own` is, from which it came there.
    pub(crate) fn told(&self, at: usize, own: Option<usize>, said: &str) -> String {
        let inner = self.place(at);
        let Some(own) = own else { return format!("{inner}: {said}") };
        let within = inner.line.map_or(String::new(), |line| {
            let name = line.file.rsplit('/').next().unwrap_or_default();
            format!(" (in {name}:{})", line.line)
        });
        format!("{}: {said}{within}", self.place(own))
    }

    /// Whether each instruction is of the file in which its function begins.
    pub(crate) fn own_lines(&self) -> Vec<bool> {
        let mut own = vec![true; self.instructions.len()];
        for function in &self.functions {
            let mut lines = self.lines.range(function.first..function.end).peekable();
            let file = lines.peek().map(|(_, line)| line.file.clone());
            while let Some((&first, line)) = lines.next() {
                let end = lines.peek().map_or(function.end, |(next, _)| **next);
                own[first..end].fill(Some(&line.file) == file.as_ref());
            }
        }
        own
    }

    /// Where in the source an instruction comes from.
    pub fn place(&self, at: usize) -> Place {
        let behind = self.functions.partition_point(|one| one.first <= at);
        let function = self.functions[..behind].last().filter(|one| at < one.end);
        let (name, first) = function.map_or(("", 0), |one| (&one.name, one.first));
        let line = self.lines.range(first..=at).next_back().map(|(_, line)| line.clone());
        let slot = function.map_or(0, |one| one.slot) + (at - first) as u32;
        Place { function: name.to_owned(), slot, line }
    }
}
