//! One instruction of BPF: what stands in its eight bytes.
//!
//! Jumps are numbers of slots relative to the next one, as they are encoded. Source: RFC 9669 for
//! all but `may_goto` (Linux 6.9, kernel/bpf/verifier.c).

mod decoding;

use std::fmt;

/// Bytes of an instruction. A load of 64 bits from the program has two of these slots.
pub const SLOT_BYTES: usize = 8;

/// A register: R0 to R9, and R10, the end of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Register(u8);

impl Register {
    /// The register that answers stand in.
    pub const ANSWER: Register = Register(0);
    /// A call's first argument.
    pub const FIRST: Register = Register(1);
    /// A call's second argument.
    pub const SECOND: Register = Register(2);
    /// The third argument.
    pub const THIRD: Register = Register(3);
    /// The end of the frame, which no instruction may write.
    pub const FRAME: Register = Register(10);

    /// The register of this number; `None` if there is no such.
    pub fn new(number: u8) -> Option<Register> {
        (number <= 10).then_some(Register(number))
    }

    /// Its number, 0 to 10.
    pub fn number(self) -> usize {
        usize::from(self.0)
    }
}

/// What an operation takes: a register, or a number that is part of the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The value of a register.
    Register(Register),
    /// A number of 32 bits, extended by its sign.
    Number(i32),
}

/// Bits that an operation computes with. The narrow ones clear the upper half of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Width {
    Bits32,
    Bits64,
}

/// Bytes of an access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Size {
    Byte = 1,
    Half = 2,
    Word = 4,
    Double = 8,
}

impl Size {
    /// 1, 2, 4 or 8.
    pub fn bytes(self) -> u64 {
        self as u64
    }
}

/// An operation on two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    /// By zero gives 0.
    Divide,
    /// Rounds towards zero; by zero gives 0.
    DivideSigned,
    /// By zero gives the dividend, as [`Arithmetic::ModuloSigned`] does.
    Modulo,
    ModuloSigned,
    Or,
    And,
    Xor,
    /// Shifts take the lower 5 or 6 bits of the second value.
    ShiftLeft,
    ShiftRight,
    ShiftRightSigned,
    /// The second value.
    Move,
}

impl Arithmetic {
    /// Whether it divides: it takes longer than others do, and its second value may not be 0 in C.
    pub fn divides(self) -> bool {
        use Arithmetic::{Divide, DivideSigned, Modulo, ModuloSigned};
        matches!(self, Divide | DivideSigned | Modulo | ModuloSigned)
    }
}

/// What a branch asks of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Condition {
    Equal,
    NotEqual,
    /// Whether they have a bit in common.
    Test,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    GreaterSigned,
    GreaterEqualSigned,
    LessSigned,
    LessEqualSigned,
}

/// What happens to a place in memory in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum AtomicKind {
    Add,
    Or,
    And,
    Xor,
    Exchange,
    /// Compares with R0, which gets what was there.
    CompareExchange,
}

/// How the bytes of a register are put into another order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ByteOrder {
    Little,
    Big,
    /// The other order than now.
    Reversed,
}

/// What a call in an object names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee {
    /// A helper of the kernel, by its number.
    Helper(i32),
    /// A function of the object: the distance in slots, where no relocation says more. In a
    /// program: its number there.
    Function(i32),
    /// A function of the kernel, by a number that a relocation replaces.
    KernelFunction(i32),
    /// Only in a program: what the world offers, by its number there.
    Offered(usize),
}

/// An instruction as it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Instruction {
    Arithmetic {
        operation: Arithmetic,
        width: Width,
        to: Register,
        by: Operand,
    },
    Negate {
        width: Width,
        to: Register,
    },
    /// Moves the lower bits of a register, extended by their sign.
    MoveSigned {
        width: Width,
        to: Register,
        from: Register,
        bits: u8,
    },
    Reorder {
        order: ByteOrder,
        to: Register,
        bits: u8,
    },
    /// Puts this upper half to the lower half of an arena's address, unless that is 0. One that is
    /// for user space has none before it is linked.
    Cast {
        to: Register,
        from: Register,
        upper: u32,
    },
    Load {
        size: Size,
        signed: bool,
        to: Register,
        base: Register,
        offset: i16,
    },
    Store {
        size: Size,
        base: Register,
        offset: i16,
        value: Operand,
    },
    /// `fetch`: the value register gets what was there.
    Atomic {
        kind: AtomicKind,
        size: Size,
        base: Register,
        offset: i16,
        value: Register,
        fetch: bool,
    },
    /// Loads 64 bits from the program itself, in two slots. `kind` is 0 for a number.
    LoadWide {
        to: Register,
        kind: u8,
        low: i32,
        high: i32,
    },
    Jump {
        distance: i32,
    },
    Branch {
        condition: Condition,
        width: Width,
        left: Register,
        right: Operand,
        distance: i16,
    },
    /// A jump that is taken when a loop has gone on for too long.
    MayGoto {
        distance: i16,
    },
    Call(Callee),
    Exit,
    /// Only in a program: the second half of a load of 64 bits, which is never reached.
    Half,
    /// Only in a program: what the world lacks, and no way that is known leads there.
    Missing,
}

/// The upper half that a cast gives an address by which a program reaches into an arena.
pub(crate) const ARENA_UPPER: u32 = 0xd000_0000;

/// Why eight bytes are no instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum NoInstruction {
    #[error("{}", no_opcode(*.0))]
    Opcode(u8),
    #[error("register {0} does not exist")]
    Register(u8),
    #[error("opcode {opcode:#04x} has {field} {value}, which has no meaning there")]
    Field { opcode: u8, field: &'static str, value: i32 },
    #[error("a load of 64 bits lacks its second half")]
    Half,
    #[error("the program writes R10, the end of its frame")]
    FrameWritten,
    #[error("{0} is not supported")]
    Unsupported(&'static str),
}

/// `BPF_JMP | BPF_CALL | BPF_X`, which clang makes of a call through a pointer.
const CALL_OF_POINTER: u8 = 0x8d;

fn no_opcode(opcode: u8) -> String {
    if opcode == CALL_OF_POINTER {
        return "it calls a function through a pointer (callx), which no kernel takes\n\
                hint: call the function by its name"
            .to_owned();
    }
    format!("opcode {opcode:#04x} does not exist")
}

impl Instruction {
    /// How many slots it takes: 2 for a load of 64 bits from the program, else 1.
    pub fn slots(&self) -> usize {
        if matches!(self, Instruction::LoadWide { .. }) { 2 } else { 1 }
    }

    /// The registers that it reads. A call is not said to read its arguments, since only their
    /// receiver knows how many there are.
    pub(crate) fn reads(&self) -> impl Iterator<Item = Register> {
        let of = |operand| match operand {
            Operand::Register(register) => Some(register),
            Operand::Number(_) => None,
        };
        match *self {
            Instruction::Arithmetic { operation: Arithmetic::Move, by, .. } => [of(by), None, None],
            Instruction::Arithmetic { to, by, .. } => [Some(to), of(by), None],
            Instruction::Negate { to, .. } | Instruction::Reorder { to, .. } => {
                [Some(to), None, None]
            }
            Instruction::MoveSigned { from, .. } | Instruction::Cast { from, .. } => {
                [Some(from), None, None]
            }
            Instruction::Load { base, .. } => [Some(base), None, None],
            Instruction::Store { base, value, .. } => [Some(base), of(value), None],
            Instruction::Atomic { kind, base, value, .. } => {
                let compared = kind == AtomicKind::CompareExchange;
                [Some(base), Some(value), compared.then_some(Register::ANSWER)]
            }
            Instruction::Branch { left, right, .. } => [Some(left), of(right), None],
            _ => [None; 3],
        }
        .into_iter()
        .flatten()
    }

    /// The slot that a jump leads to from slot `at`; `None` if it is no jump.
    pub(crate) fn target(&self, at: usize) -> Option<usize> {
        let distance = match *self {
            Instruction::Jump { distance } => distance,
            Instruction::Branch { distance, .. } | Instruction::MayGoto { distance } => {
                distance.into()
            }
            _ => return None,
        };
        at.checked_add_signed(distance as isize + 1)
    }

    /// Whether it may lead elsewhere than to the next.
    pub(crate) fn is_jump(&self) -> bool {
        matches!(
            self,
            Instruction::Jump { .. } | Instruction::Branch { .. } | Instruction::MayGoto { .. }
        )
    }

    /// Whether the instruction behind it is never the next.
    pub(crate) fn leaves(&self) -> bool {
        matches!(self, Instruction::Exit | Instruction::Jump { .. } | Instruction::Missing)
    }

    /// Whether it is a branch that compares all bits of a register with 0, and how.
    pub(crate) fn asks_for_zero(&self) -> Option<(Condition, Register)> {
        match *self {
            Instruction::Branch {
                condition,
                width: Width::Bits64,
                left,
                right: Operand::Number(0),
                ..
            } => Some((condition, left)),
            _ => None,
        }
    }

    /// The register that it writes.
    pub(crate) fn writes(&self) -> Option<Register> {
        match *self {
            Instruction::Arithmetic { to, .. }
            | Instruction::Negate { to, .. }
            | Instruction::MoveSigned { to, .. }
            | Instruction::Reorder { to, .. }
            | Instruction::Cast { to, .. }
            | Instruction::Load { to, .. }
            | Instruction::LoadWide { to, .. } => Some(to),
            Instruction::Atomic { kind: AtomicKind::CompareExchange, .. }
            | Instruction::Call(_) => Some(Register::ANSWER),
            Instruction::Atomic { value, fetch: true, .. } => Some(value),
            _ => None,
        }
    }
}

/// The number that a load of 64 bits has in two halves.
pub(crate) fn wide_number(low: i32, high: i32) -> u64 {
    u64::from(low as u32) | u64::from(high as u32) << 32
}

impl fmt::Display for Register {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "R{}", self.0)
    }
}
