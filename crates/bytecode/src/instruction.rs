//! One instruction of BPF: what stands in its eight bytes.
//!
//! Jumps are numbers of slots relative to the next one, as they are encoded. Source: RFC 9669 for
//! all but `may_goto` (Linux 6.9, kernel/bpf/verifier.c).

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

/// The parts of a slot, before it is known what they mean.
#[derive(Clone, Copy)]
struct Slot {
    opcode: u8,
    to: u8,
    from: u8,
    offset: i16,
    number: i32,
}

impl Slot {
    fn read(bytes: &[u8; SLOT_BYTES]) -> Slot {
        let [opcode, registers, offset @ .., n0, n1, n2, n3] = *bytes;
        Slot {
            opcode,
            to: registers & 0xf,
            from: registers >> 4,
            offset: i16::from_le_bytes(offset),
            number: i32::from_le_bytes([n0, n1, n2, n3]),
        }
    }

    fn field(self, field: &'static str, value: impl Into<i32>) -> NoInstruction {
        NoInstruction::Field { opcode: self.opcode, field, value: value.into() }
    }

    /// Refuses values in fields that the instruction does not use, since they may come to mean
    /// something.
    fn unused(self, offset: bool, number: bool, from: bool) -> Result<(), NoInstruction> {
        if offset && self.offset != 0 {
            return Err(self.field("offset", self.offset));
        }
        if number && self.number != 0 {
            return Err(self.field("immediate", self.number));
        }
        if from && self.from != 0 {
            return Err(self.field("source register", self.from));
        }
        Ok(())
    }

    fn to(self) -> Result<Register, NoInstruction> {
        Register::new(self.to).ok_or(NoInstruction::Register(self.to))
    }

    fn written(self) -> Result<Register, NoInstruction> {
        let to = self.to()?;
        if to == Register::FRAME { Err(NoInstruction::FrameWritten) } else { Ok(to) }
    }

    fn from(self) -> Result<Register, NoInstruction> {
        Register::new(self.from).ok_or(NoInstruction::Register(self.from))
    }

    /// Whether the second value is a register, and that value.
    fn operand(self) -> Result<Operand, NoInstruction> {
        if self.opcode & 0x08 == 0 {
            self.unused(false, false, true)?;
            return Ok(Operand::Number(self.number));
        }
        self.unused(false, true, false)?;
        Ok(Operand::Register(self.from()?))
    }

    fn size(self) -> Size {
        match self.opcode & 0x18 {
            0x00 => Size::Word,
            0x08 => Size::Half,
            0x10 => Size::Byte,
            _ => Size::Double,
        }
    }
}

impl Instruction {
    /// The instruction at the beginning of `bytes`.
    ///
    /// # Errors
    ///
    /// [`NoInstruction`] where the bytes have no meaning, or one that is not supported.
    pub fn decode(bytes: &[u8]) -> Result<Instruction, NoInstruction> {
        let (first, rest) = bytes.split_first_chunk().ok_or(NoInstruction::Half)?;
        let slot = Slot::read(first);
        match slot.opcode & 0x07 {
            0x00 => load_wide(slot, rest),
            0x01 => load(slot),
            0x02 => {
                slot.unused(false, false, true)?;
                store(slot, Operand::Number(slot.number))
            }
            0x03 if slot.opcode & 0xe0 == 0xc0 => atomic(slot),
            0x03 => {
                slot.unused(false, true, false)?;
                store(slot, Operand::Register(slot.from()?))
            }
            0x04 => arithmetic(slot, Width::Bits32),
            0x07 => arithmetic(slot, Width::Bits64),
            0x05 => jump(slot, Width::Bits64),
            _ => jump(slot, Width::Bits32),
        }
    }

    /// How many slots it takes: 2 for a load of 64 bits from the program, else 1.
    pub fn slots(&self) -> usize {
        if matches!(self, Instruction::LoadWide { .. }) { 2 } else { 1 }
    }
}

impl Instruction {
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
            Instruction::MoveSigned { from, .. } => [Some(from), None, None],
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

fn load_wide(slot: Slot, rest: &[u8]) -> Result<Instruction, NoInstruction> {
    if slot.opcode != 0x18 {
        return Err(match slot.opcode & 0xe0 {
            0x20 | 0x40 => NoInstruction::Unsupported("access to a packet"),
            _ => NoInstruction::Opcode(slot.opcode),
        });
    }
    let second = Slot::read(rest.first_chunk().ok_or(NoInstruction::Half)?);
    if second.opcode != 0 || second.to != 0 {
        return Err(NoInstruction::Half);
    }
    second.unused(true, false, true)?;
    slot.unused(true, false, false)?;
    let (low, high) = (slot.number, second.number);
    Ok(Instruction::LoadWide { to: slot.written()?, kind: slot.from, low, high })
}

fn load(slot: Slot) -> Result<Instruction, NoInstruction> {
    slot.unused(false, true, false)?;
    let signed = match slot.opcode & 0xe0 {
        0x60 => false,
        0x80 if slot.size() != Size::Double => true,
        0x20 | 0x40 => return Err(NoInstruction::Unsupported("access to a packet")),
        _ => return Err(NoInstruction::Opcode(slot.opcode)),
    };
    let (to, base) = (slot.written()?, slot.from()?);
    Ok(Instruction::Load { size: slot.size(), signed, to, base, offset: slot.offset })
}

fn store(slot: Slot, value: Operand) -> Result<Instruction, NoInstruction> {
    if slot.opcode & 0xe0 != 0x60 {
        return Err(NoInstruction::Opcode(slot.opcode));
    }
    Ok(Instruction::Store { size: slot.size(), base: slot.to()?, offset: slot.offset, value })
}

fn atomic(slot: Slot) -> Result<Instruction, NoInstruction> {
    let size = match slot.size() {
        size @ (Size::Word | Size::Double) => size,
        _ => return Err(NoInstruction::Opcode(slot.opcode)),
    };
    let (kind, fetch) = match slot.number {
        0x00 => (AtomicKind::Add, false),
        0x01 => (AtomicKind::Add, true),
        0x40 => (AtomicKind::Or, false),
        0x41 => (AtomicKind::Or, true),
        0x50 => (AtomicKind::And, false),
        0x51 => (AtomicKind::And, true),
        0xa0 => (AtomicKind::Xor, false),
        0xa1 => (AtomicKind::Xor, true),
        0xe1 => (AtomicKind::Exchange, true),
        0xf1 => (AtomicKind::CompareExchange, true),
        0x100 | 0x110 => return Err(NoInstruction::Unsupported("an access with an order")),
        number => return Err(slot.field("immediate", number)),
    };
    let value = slot.from()?;
    if fetch && kind != AtomicKind::CompareExchange && value == Register::FRAME {
        return Err(NoInstruction::FrameWritten);
    }
    let (base, offset) = (slot.to()?, slot.offset);
    Ok(Instruction::Atomic { kind, size, base, offset, value, fetch })
}

fn arithmetic(slot: Slot, width: Width) -> Result<Instruction, NoInstruction> {
    let to = slot.written()?;
    let signed = slot.offset == 1;
    let operation = match slot.opcode & 0xf0 {
        0x00 => Arithmetic::Add,
        0x10 => Arithmetic::Subtract,
        0x20 => Arithmetic::Multiply,
        0x30 if signed => Arithmetic::DivideSigned,
        0x30 => Arithmetic::Divide,
        0x40 => Arithmetic::Or,
        0x50 => Arithmetic::And,
        0x60 => Arithmetic::ShiftLeft,
        0x70 => Arithmetic::ShiftRight,
        0x80 if slot.opcode & 0x08 == 0 => {
            slot.unused(true, true, true)?;
            return Ok(Instruction::Negate { width, to });
        }
        0x90 if signed => Arithmetic::ModuloSigned,
        0x90 => Arithmetic::Modulo,
        0xa0 => Arithmetic::Xor,
        0xb0 => return move_value(slot, width, to),
        0xc0 => Arithmetic::ShiftRightSigned,
        0xd0 => return reorder(slot, width, to),
        _ => return Err(NoInstruction::Opcode(slot.opcode)),
    };
    let divides = matches!(slot.opcode & 0xf0, 0x30 | 0x90);
    slot.unused(!(divides && signed), false, false)?;
    let by = slot.operand()?;
    let bits = if width == Width::Bits32 { 32 } else { 64 };
    let shifts = matches!(slot.opcode & 0xf0, 0x60 | 0x70 | 0xc0);
    match by {
        Operand::Number(0) if divides => Err(slot.field("immediate", 0)),
        Operand::Number(n) if shifts && !(0..bits).contains(&n) => Err(slot.field("immediate", n)),
        _ => Ok(Instruction::Arithmetic { operation, width, to, by }),
    }
}

fn move_value(slot: Slot, width: Width, to: Register) -> Result<Instruction, NoInstruction> {
    let by = slot.operand()?;
    match (by, slot.offset) {
        (_, 0) => Ok(Instruction::Arithmetic { operation: Arithmetic::Move, width, to, by }),
        (Operand::Register(from), bits @ (8 | 16)) => {
            Ok(Instruction::MoveSigned { width, to, from, bits: bits as u8 })
        }
        (Operand::Register(from), 32) if width == Width::Bits64 => {
            Ok(Instruction::MoveSigned { width, to, from, bits: 32 })
        }
        (Operand::Register(_), 1) if width == Width::Bits64 => {
            Err(NoInstruction::Unsupported("a cast of an arena's address"))
        }
        (_, offset) => Err(slot.field("offset", offset)),
    }
}

fn reorder(slot: Slot, width: Width, to: Register) -> Result<Instruction, NoInstruction> {
    slot.unused(true, false, true)?;
    let order = match (width, slot.opcode & 0x08) {
        (Width::Bits32, 0) => ByteOrder::Little,
        (Width::Bits32, _) => ByteOrder::Big,
        (Width::Bits64, 0) => ByteOrder::Reversed,
        (Width::Bits64, _) => return Err(NoInstruction::Opcode(slot.opcode)),
    };
    match slot.number {
        bits @ (16 | 32 | 64) => Ok(Instruction::Reorder { order, to, bits: bits as u8 }),
        number => Err(slot.field("immediate", number)),
    }
}

fn jump(slot: Slot, width: Width) -> Result<Instruction, NoInstruction> {
    let by_register = slot.opcode & 0x08 != 0;
    let condition = match slot.opcode & 0xf0 {
        0x00 if !by_register => {
            let wide = width == Width::Bits32;
            slot.unused(wide, !wide, true)?;
            slot.unused_to()?;
            let distance = if wide { slot.number } else { slot.offset.into() };
            return Ok(Instruction::Jump { distance });
        }
        0x80 if !by_register && width == Width::Bits64 => return call(slot),
        0x90 if !by_register && width == Width::Bits64 => {
            slot.unused(true, true, true)?;
            slot.unused_to()?;
            return Ok(Instruction::Exit);
        }
        0xe0 if !by_register && width == Width::Bits64 => {
            slot.unused(false, true, true)?;
            slot.unused_to()?;
            return Ok(Instruction::MayGoto { distance: slot.offset });
        }
        0x10 => Condition::Equal,
        0x20 => Condition::Greater,
        0x30 => Condition::GreaterEqual,
        0x40 => Condition::Test,
        0x50 => Condition::NotEqual,
        0x60 => Condition::GreaterSigned,
        0x70 => Condition::GreaterEqualSigned,
        0xa0 => Condition::Less,
        0xb0 => Condition::LessEqual,
        0xc0 => Condition::LessSigned,
        0xd0 => Condition::LessEqualSigned,
        _ => return Err(NoInstruction::Opcode(slot.opcode)),
    };
    let (left, right) = (slot.to()?, slot.operand()?);
    Ok(Instruction::Branch { condition, width, left, right, distance: slot.offset })
}

fn call(slot: Slot) -> Result<Instruction, NoInstruction> {
    slot.unused(true, false, false)?;
    slot.unused_to()?;
    Ok(Instruction::Call(match slot.from {
        0 => Callee::Helper(slot.number),
        1 => Callee::Function(slot.number),
        2 => Callee::KernelFunction(slot.number),
        from => return Err(slot.field("source register", from)),
    }))
}

impl Slot {
    fn unused_to(self) -> Result<(), NoInstruction> {
        if self.to == 0 { Ok(()) } else { Err(self.field("destination register", self.to)) }
    }
}

impl fmt::Display for Register {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "R{}", self.0)
    }
}
