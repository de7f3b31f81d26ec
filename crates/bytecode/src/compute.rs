//! What instructions compute, on values alone. Source: RFC 9669, section 4.

use crate::instruction::{Arithmetic, AtomicKind, ByteOrder, Condition, Size, Width};

/// The answer of an operation; narrow ones have an upper half of 0.
pub(crate) fn arithmetic(operation: Arithmetic, width: Width, a: u64, b: u64) -> u64 {
    match width {
        Width::Bits64 => arithmetic_64(operation, a, b),
        Width::Bits32 => arithmetic_32(operation, a as u32, b as u32).into(),
    }
}

/// The two widths differ in nothing but their types.
macro_rules! arithmetic_of {
    ($name:ident, $unsigned:ty, $signed:ty) => {
        fn $name(operation: Arithmetic, a: $unsigned, b: $unsigned) -> $unsigned {
            let signed = (a as $signed, b as $signed);
            match operation {
                Arithmetic::Add => a.wrapping_add(b),
                Arithmetic::Subtract => a.wrapping_sub(b),
                Arithmetic::Multiply => a.wrapping_mul(b),
                Arithmetic::Divide => a.checked_div(b).unwrap_or(0),
                Arithmetic::Modulo => a.checked_rem(b).unwrap_or(a),
                Arithmetic::DivideSigned if b == 0 => 0,
                Arithmetic::DivideSigned => signed.0.wrapping_div(signed.1) as $unsigned,
                Arithmetic::ModuloSigned if b == 0 => a,
                Arithmetic::ModuloSigned => signed.0.wrapping_rem(signed.1) as $unsigned,
                Arithmetic::Or => a | b,
                Arithmetic::And => a & b,
                Arithmetic::Xor => a ^ b,
                Arithmetic::ShiftLeft => a.wrapping_shl(b as u32),
                Arithmetic::ShiftRight => a.wrapping_shr(b as u32),
                Arithmetic::ShiftRightSigned => signed.0.wrapping_shr(b as u32) as $unsigned,
                Arithmetic::Move => b,
            }
        }
    };
}

arithmetic_of!(arithmetic_64, u64, i64);
arithmetic_of!(arithmetic_32, u32, i32);

/// The lower `bits` of a value, extended by their sign.
pub(crate) fn extended(value: u64, bits: u32) -> u64 {
    let above = 64 - bits;
    ((value << above) as i64 >> above) as u64
}

/// As [`extended`], in this width.
pub(crate) fn moved_signed(width: Width, value: u64, bits: u8) -> u64 {
    let value = extended(value, bits.into());
    if width == Width::Bits32 { value as u32 as u64 } else { value }
}

/// As [`Instruction::Cast`](crate::Instruction::Cast).
pub(crate) fn cast(value: u64, upper: u32) -> u64 {
    let lower = value as u32;
    if lower == 0 { 0 } else { u64::from(upper) << 32 | u64::from(lower) }
}

/// The lower bits in another order, the upper ones 0.
pub(crate) fn reordered(order: ByteOrder, value: u64, bits: u8) -> u64 {
    let swaps = match order {
        ByteOrder::Little => cfg!(target_endian = "big"),
        ByteOrder::Big => cfg!(target_endian = "little"),
        ByteOrder::Reversed => true,
    };
    match (bits, swaps) {
        (16, false) => u64::from(value as u16),
        (16, true) => u64::from((value as u16).swap_bytes()),
        (32, false) => u64::from(value as u32),
        (32, true) => u64::from((value as u32).swap_bytes()),
        (_, false) => value,
        (_, true) => value.swap_bytes(),
    }
}

/// Whether a branch is taken.
pub(crate) fn holds(condition: Condition, width: Width, a: u64, b: u64) -> bool {
    // Narrow values keep their order, signed and unsigned, when they are extended by their sign.
    let (a, b) = match width {
        Width::Bits64 => (a, b),
        Width::Bits32 => (extended(a, 32), extended(b, 32)),
    };
    let signed = (a as i64, b as i64);
    match condition {
        Condition::Equal => a == b,
        Condition::NotEqual => a != b,
        Condition::Test => a & b != 0,
        Condition::Greater => a > b,
        Condition::GreaterEqual => a >= b,
        Condition::Less => a < b,
        Condition::LessEqual => a <= b,
        Condition::GreaterSigned => signed.0 > signed.1,
        Condition::GreaterEqualSigned => signed.0 >= signed.1,
        Condition::LessSigned => signed.0 < signed.1,
        Condition::LessEqualSigned => signed.0 <= signed.1,
    }
}

/// What is in a place after an atomic operation, which found `before` there.
pub(crate) fn atomic(kind: AtomicKind, size: Size, before: u64, value: u64, expected: u64) -> u64 {
    let mask = if size == Size::Word { u64::from(u32::MAX) } else { u64::MAX };
    let after = match kind {
        AtomicKind::Add => before.wrapping_add(value),
        AtomicKind::Or => before | value,
        AtomicKind::And => before & value,
        AtomicKind::Xor => before ^ value,
        AtomicKind::Exchange => value,
        AtomicKind::CompareExchange if before == expected & mask => value,
        AtomicKind::CompareExchange => before,
    };
    after & mask
}
