//! Why an object cannot be read or linked, in words its author can act on.

use crate::btf::BtfError;
use crate::instruction::NoInstruction;

/// What is wrong with the bytes of an object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum ObjectError {
    #[error("it is no object: {0}")]
    Elf(#[from] object::Error),
    #[error(
        "it is built for {}, not for BPF\nhint: build it with clang -target bpf", built_for(*.0)
    )]
    Machine(u16),
    #[error("it has more than {0} sections or symbols")]
    Items(usize),
    #[error("its sections have bytes in common")]
    Overlap,
    #[error("a symbol's name has more than {0} bytes")]
    Name(usize),
    #[error("it does not describe its types\nhint: build it with -g, and do not strip it")]
    NoTypes,
    #[error(transparent)]
    Types(#[from] BtfError),
    #[error("section {section} has a size that is no multiple of 8 bytes")]
    Slots { section: String },
    #[error("its {what} have more than {most} bytes; section {section} has {bytes}")]
    Bytes { what: &'static str, section: String, bytes: u64, most: u64 },
    #[error("function {name} has no instructions")]
    Empty { name: String },
    #[error("function {name} does not lie in its section, or overlaps another")]
    Function { name: String },
    #[error("variable {name} does not lie in its section, or is of a wrong type")]
    Variable { name: String },
    #[error("map {name} has a member `{member}` that is not known")]
    Map { name: String, member: String },
    #[error("section {section} has at {at} a relocation of kind {kind}, which is not supported")]
    Relocation { section: String, at: u64, kind: u32 },
    #[error(
        "section {section} refers at {at} to `{name}`, which is no function, variable or map of it"
    )]
    Undefined { section: String, at: u64, name: String },
}

/// Why an object cannot run in a world, or anywhere.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum LinkError {
    #[error("{place}: {why}")]
    Instruction { place: Box<Place>, why: NoInstruction },
    #[error("{place}: it jumps to where no instruction of its function begins")]
    Jump { place: Box<Place> },
    #[error("{place}: it reads {register}, which nothing was written to")]
    Unwritten { place: Box<Place>, register: crate::instruction::Register },
    #[error("function {function} does not end in an exit or a jump")]
    End { function: String },
    #[error("{place}: a call of something that is no function")]
    Callee { place: Box<Place> },
    #[error("{place}: the helper {} is not offered", crate::kernel_call_name(*number))]
    Helper { place: Box<Place>, number: i32 },
    #[error("{place}: `{name}` is not offered")]
    Missing { place: Box<Place>, name: String },
    #[error("{place}: {field} does not exist{instead}")]
    Field { place: Box<Place>, field: String, instead: String },
    #[error("{place}: it names a field in a way that is not known here, as of p[1] ({why})")]
    Access { place: Box<Place>, why: BtfError },
    #[error("{place}: a relocation that does not fit its instruction")]
    Relocation { place: Box<Place> },
    #[error(
        "{place}: the object has a field of {object} bytes where there are {world}, and no loader \
         changes the width of one with a sign\nhint: give it the type that it has in the kernel"
    )]
    Width { place: Box<Place>, object: u64, world: u64 },
    #[error(
        "{place}: it casts an address of an arena, and the object has none\nhint: declare a map of \
         type BPF_MAP_TYPE_ARENA"
    )]
    Arena { place: Box<Place> },
    #[error(transparent)]
    Types(#[from] BtfError),
    #[error("it has more than {0} instructions")]
    Size(usize),
    #[error(
        "{}: combined stack size of {} calls is {bytes}. Too large: {}",
        chain[0].0, chain.len(), frames(chain)
    )]
    Stack { chain: Vec<(String, u64)>, bytes: u64 },
}

/// Functions that call each other, with their frames.
fn frames(chain: &[(String, u64)]) -> String {
    let each: Vec<String> = chain.iter().map(|(name, bytes)| format!("{name} {bytes}")).collect();
    format!("{} bytes", each.join(", "))
}

/// A machine by its number. Source: include/uapi/linux/elf-em.h.
fn built_for(machine: u16) -> String {
    match machine {
        62 => "x86-64".to_owned(),
        183 => "aarch64".to_owned(),
        number => format!("machine {number}"),
    }
}

impl LinkError {
    /// Whether a real kernel may have what is lacking here.
    pub fn is_of_this_world(&self) -> bool {
        matches!(
            self,
            LinkError::Instruction { why: NoInstruction::Unsupported(_), .. }
                | LinkError::Helper { .. }
                | LinkError::Missing { .. }
                | LinkError::Field { .. }
                | LinkError::Access { .. }
        )
    }
}

/// An instruction as a person finds it: function, file and line where the object says them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The function's name.
    pub function: String,
    /// The instruction's number in the function's section.
    pub slot: u32,
    /// Its line, if the object says it.
    pub line: Option<crate::notes::Line>,
}

impl std::fmt::Display for Place {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.line {
            Some(line) => write!(to, "{}:{}: {}", line.file, line.line, self.function),
            None => write!(to, "{}, instruction {}", self.function, self.slot),
        }
    }
}
