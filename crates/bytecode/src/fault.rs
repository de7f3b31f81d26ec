//! How a run of a program can end before its exit.

use std::fmt;

use crate::program::Program;

/// What a program did that ends it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// An access to what is not its own.
    #[error("it {} {} at {address:#x}, {}", verb(*write), counted(*bytes), where_is(*address))]
    Memory {
        /// The first byte.
        address: u64,
        /// How many bytes.
        bytes: u64,
        /// Whether they should be written.
        write: bool,
    },
    /// A write where it may only read.
    #[error("it writes {} at {address:#x}, which it may only read", counted(*bytes))]
    ReadOnly {
        /// The first byte.
        address: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// An access by a pointer out of the object that it was derived from.
    #[error("{0}")]
    Beyond(Box<Beyond>),
    /// An access by a number that was derived from no pointer.
    #[error(
        "it {} {} at {address:#x}, through a number that is no pointer",
        verb(*write), counted(*bytes)
    )]
    NoPointer {
        /// The first byte.
        address: u64,
        /// How many bytes.
        bytes: u64,
        /// Whether they should be written.
        write: bool,
    },
    /// A read of bytes of its stack to which nothing was written.
    #[error("it reads {} of its stack, {}", counted(*bytes), unwritten(*bytes, *written))]
    Unwritten {
        /// How many bytes.
        bytes: u64,
        /// How many of them were written.
        written: u64,
    },
    /// A mistake with what is to be given back.
    #[error("{0}")]
    Holding(&'static str),
    /// A division by zero. BPF defines what comes of it, C does not: whoever wrote it means no such
    /// thing.
    #[error("it divides by 0")]
    Division,
    /// A function calls others too deep.
    #[error("calls are nested more than 8 deep")]
    Depth,
    /// It does not return.
    #[error("it has not returned after {0} instructions")]
    Endless(u64),
    /// An instruction that the world lacks something for was reached after all.
    #[error("it needs what does not exist here")]
    Missing,
    /// A call refused.
    #[error("{0}")]
    Refused(String),
    /// An exception with its cookie, which ends all functions. What comes of it is the caller's to
    /// say, see [`Program::catcher`].
    #[error("it throws an exception out of a callback, which no kernel lets it")]
    Thrown(u64),
}

/// An access beside an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beyond {
    /// The first byte.
    pub address: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Whether they should be written.
    pub write: bool,
    /// The object's first byte.
    pub begin: u64,
    /// The object's size in bytes.
    pub size: u64,
    /// What a reader calls the object.
    pub name: String,
}

/// A fault, and where it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What it did.
    pub kind: FaultKind,
    /// The instruction's number in the program.
    pub at: usize,
    /// Where that is in an inlined function of a header: the instruction of the function's own file
    /// from which it came there. Only strict runs know.
    pub own: Option<usize>,
}

impl Fault {
    /// The fault as a sentence that begins with file, line and function.
    pub fn told(&self, program: &Program) -> String {
        program.told(self.at, self.own, &self.kind.to_string())
    }
}

/// Why a call that a program made gives no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The call itself ends the program.
    Call(FaultKind),
    /// A function of the program that was called back ended it.
    Inside(Box<Fault>),
}

impl From<FaultKind> for Stop {
    fn from(kind: FaultKind) -> Stop {
        Stop::Call(kind)
    }
}

impl From<Box<Fault>> for Stop {
    fn from(fault: Box<Fault>) -> Stop {
        Stop::Inside(fault)
    }
}

impl Stop {
    /// The fault, for a call at this place.
    pub(crate) fn at(self, at: usize) -> Box<Fault> {
        self.at_from(at, None)
    }

    /// The fault, for a call at this place; `own` is as in [`Fault`].
    pub(crate) fn at_from(self, at: usize, own: Option<usize>) -> Box<Fault> {
        match self {
            Stop::Call(kind) => Box::new(Fault { kind, at, own }),
            Stop::Inside(fault) => fault,
        }
    }
}

fn verb(write: bool) -> &'static str {
    if write { "writes" } else { "reads" }
}

fn counted(bytes: u64) -> String {
    if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") }
}

impl fmt::Display for Beyond {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Beyond { address, bytes, write, begin, size, ref name } = *self;
        write!(to, "it {} {}", verb(write), counted(bytes))?;
        let end = begin.saturating_add(size);
        match (address.checked_sub(end), begin.checked_sub(address)) {
            (Some(0), _) => write!(to, " right behind the end of")?,
            (Some(distance), _) => write!(to, ", {} behind the end of", counted(distance))?,
            (_, Some(distance @ 1..)) => {
                write!(to, ", {} before the beginning of", counted(distance))?;
            }
            _ => write!(to, ", of which only {} in", lie(end - address))?,
        }
        write!(to, " {name}, which has {}", counted(size))
    }
}

fn lie(bytes: u64) -> String {
    format!("{bytes} {}", if bytes == 1 { "lies" } else { "lie" })
}

fn unwritten(bytes: u64, written: u64) -> String {
    match written {
        0 => "which nobody wrote".to_owned(),
        _ => format!("of which nobody wrote {}", bytes - written),
    }
}

fn where_is(address: u64) -> &'static str {
    if (address as i64).unsigned_abs() < crate::memory::MEMORY_BEGIN {
        "next to NULL"
    } else {
        "which is nothing of its own"
    }
}
