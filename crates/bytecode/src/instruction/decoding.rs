//! What eight bytes mean.

use super::{
    ARENA_UPPER, Arithmetic, AtomicKind, ByteOrder, Callee, Condition, Instruction, NoInstruction,
    Operand, Register, SLOT_BYTES, Size, Width,
};

/// From which address space to which a cast is: the first one's number, and 2^16 times the
/// other's. Source: Linux, kernel/bpf/verifier.c, of `BPF_ADDR_SPACE_CAST`.
const CAST_TO_KERNEL: i32 = 1;
const CAST_TO_USER: i32 = 1 << 16;

/// What atomic instructions are that only load or store. Source: Linux, include/uapi/linux/bpf.h.
const LOAD_ACQUIRE: i32 = 0x100;
const STORE_RELEASE: i32 = 0x110;

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
    // A run has one thread, in which all accesses have an order.
    match (slot.number, slot.size(), slot.offset) {
        (LOAD_ACQUIRE, size, offset) => {
            let (to, base) = (slot.written()?, slot.from()?);
            return Ok(Instruction::Load { size, signed: false, to, base, offset });
        }
        (STORE_RELEASE, size, offset) => {
            let (base, value) = (slot.to()?, Operand::Register(slot.from()?));
            return Ok(Instruction::Store { size, base, offset, value });
        }
        _ => {}
    }
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
    if (slot.offset, width, slot.opcode & 0x08) == (1, Width::Bits64, 0x08) {
        let upper = match slot.number {
            CAST_TO_KERNEL => ARENA_UPPER,
            CAST_TO_USER => 0,
            number => return Err(slot.field("immediate", number)),
        };
        return Ok(Instruction::Cast { to, from: slot.from()?, upper });
    }
    let by = slot.operand()?;
    match (by, slot.offset) {
        (_, 0) => Ok(Instruction::Arithmetic { operation: Arithmetic::Move, width, to, by }),
        (Operand::Register(from), bits @ (8 | 16)) => {
            Ok(Instruction::MoveSigned { width, to, from, bits: bits as u8 })
        }
        (Operand::Register(from), 32) if width == Width::Bits64 => {
            Ok(Instruction::MoveSigned { width, to, from, bits: 32 })
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
