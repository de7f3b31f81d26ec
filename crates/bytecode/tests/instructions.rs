//! Goal: instructions mean what RFC 9669 says, at the borders where languages differ.

use bytecode::{Arithmetic, Instruction, NoInstruction, Object, Operand, Register, Size, Width};

use crate::support::{Loaded, built_of, world};

/// Eight bytes of an instruction.
pub const fn slot(opcode: u8, to: u8, from: u8, offset: i16, number: i32) -> [u8; 8] {
    let [o0, o1] = offset.to_le_bytes();
    let [n0, n1, n2, n3] = number.to_le_bytes();
    [opcode, from << 4 | to, o0, o1, n0, n1, n2, n3]
}

/// What `R0 = R1; R0 op= R2` gives, by its opcode.
fn answer(opcode: u8, offset: i16, a: u64, b: u64) -> u64 {
    let mut loaded = Loaded::new(&patched(&[slot(opcode, 0, 2, offset, 0)]), &world());
    loaded.call("f", &[a, b]).expect("an answer")
}

/// An object whose function is `R0 = R1`, these instructions, `exit`.
pub fn patched(instructions: &[[u8; 8]]) -> Vec<u8> {
    let slots = instructions.len();
    let text = format!(
        "unsigned long f(unsigned long a, unsigned long b) {{\n\
         asm volatile(\".rept {slots}\\n r9 = 77 \\n.endr\" ::: \"r0\", \"r9\", \"memory\");\n\
         register unsigned long r asm(\"r0\"); asm volatile(\"\" : \"=r\"(r)); return r; }}"
    );
    let mut object = built_of(&text);
    let placeholder = slot(0xb7, 9, 0, 0, 77);
    let at = object.windows(8).position(|bytes| bytes == placeholder).expect("placeholders");
    // What stands before them is at most a move; R0 gets R1 by the first of the instructions.
    for (n, bytes) in instructions.iter().enumerate() {
        assert_eq!(object[at + 8 * n..at + 8 * n + 8], placeholder);
        object[at + 8 * n..at + 8 * n + 8].copy_from_slice(bytes);
    }
    object
}

#[test]
fn division_by_zero_gives_zero_and_its_rest_the_dividend() {
    let with_r0 = |opcode, offset, a, b| {
        let first = slot(0xbf, 0, 1, 0, 0);
        let mut loaded = Loaded::new(&patched(&[first, slot(opcode, 0, 2, offset, 0)]), &world());
        loaded.call("f", &[a, b]).expect("an answer")
    };
    let minimum = i64::MIN as u64;
    let narrow_minimum = u64::from(i32::MIN as u32);
    for (opcode, offset, a, b, expected) in [
        (0x3f, 0, 7, 0, 0),
        (0x9f, 0, 7, 0, 7),
        (0x3f, 1, minimum, u64::MAX, minimum),
        (0x9f, 1, minimum, u64::MAX, 0),
        (0x3f, 1, 7, 0, 0),
        (0x9f, 1, -7_i64 as u64, 0, -7_i64 as u64),
        (0x3f, 1, -7_i64 as u64, 2, -3_i64 as u64),
        (0x9f, 1, -7_i64 as u64, 2, -1_i64 as u64),
        (0x3c, 1, narrow_minimum, u64::MAX, narrow_minimum),
        (0x9c, 0, 0xffff_ffff_0000_0007, 0, 7),
        (0x3c, 0, 0xffff_ffff_0000_0007, 1 << 32, 0),
        // Shifts take the lower bits of what they shift by.
        (0x6f, 0, 1, 65, 2),
        (0x6c, 0, 1, 33, 2),
        (0xcf, 0, minimum, 63, u64::MAX),
        (0xcc, 0, narrow_minimum, 31, u64::from(u32::MAX)),
        (0x7c, 0, u64::MAX, 4, 0x0fff_ffff),
        // Moves with a sign.
        (0xbf, 8, 0, 0x80, 0xffff_ffff_ffff_ff80),
        (0xbc, 8, 0, 0x80, 0xffff_ff80),
        (0xbf, 32, 0, 0x8000_0000, 0xffff_ffff_8000_0000),
        (0xbc, 16, 0, 0x7fff, 0x7fff),
    ] {
        let found = with_r0(opcode, offset, a, b);
        assert_eq!(found, expected, "{opcode:#x}/{offset}: {a:#x}, {b:#x} gave {found:#x}");
    }
    assert_eq!(answer(0xbf, 0, 1, 2), 2);
}

#[test]
fn bytes_are_put_into_order() {
    let value = 0x0102_0304_0506_0708_u64;
    for (opcode, bits, expected) in [
        (0xd7, 16, 0x0807),
        (0xd7, 32, 0x0807_0605),
        (0xd7, 64, 0x0807_0605_0403_0201),
        (0xdc, 64, 0x0807_0605_0403_0201),
        (0xdc, 16, 0x0807),
        (0xd4, 32, 0x0506_0708),
        (0xd4, 64, value),
    ] {
        let instructions = [slot(0xbf, 0, 1, 0, 0), slot(opcode, 0, 0, 0, bits)];
        let mut loaded = Loaded::new(&patched(&instructions), &world());
        assert_eq!(loaded.call("f", &[value]), Ok(expected), "{opcode:#x} {bits}");
    }
}

#[test]
fn a_register_that_nothing_was_written_to_is_not_read() {
    let object =
        |instructions: &[[u8; 8]]| Object::read(&patched(instructions)).expect("an object");
    let refused = |instructions: &[[u8; 8]]| {
        let object = object(instructions);
        let root = object.functions.iter().position(|one| one.name == "f").expect("f");
        Loaded::linked(object, &[root], &world()).err()
    };
    let text = refused(&[slot(0xbf, 0, 6, 0, 0)]).expect("a refusal");
    assert!(text.ends_with("f: it reads R6, which nothing was written to"), "{text}");
    // Helper 7 is called; what was in R2 is then gone, and its answer is in R0.
    let call = slot(0x85, 0, 0, 0, 7);
    let text = refused(&[call, slot(0x0f, 0, 2, 0, 0)]).expect("a refusal");
    assert!(text.ends_with("f: it reads R2, which nothing was written to"), "{text}");
    assert_eq!(refused(&[call, slot(0x07, 0, 0, 0, 1)]), None);
    // R6 is written on one of two ways only.
    let branch = slot(0x15, 1, 0, 1, 0);
    let text = refused(&[branch, slot(0xb7, 6, 0, 0, 1), slot(0xbf, 0, 6, 0, 0)]);
    assert!(text.expect("a refusal").contains("R6"));
}

#[test]
fn what_has_no_meaning_is_refused() {
    let decoded = |bytes: &[u8]| Instruction::decode(bytes);
    let refused = |bytes: [u8; 8]| decoded(&bytes).expect_err("no instruction");
    assert_eq!(refused(slot(0x8d, 0, 0, 0, 0)), NoInstruction::Opcode(0x8d));
    assert_eq!(refused(slot(0xb7, 11, 0, 0, 0)), NoInstruction::Register(11));
    assert_eq!(refused(slot(0xb7, 10, 0, 0, 0)), NoInstruction::FrameWritten);
    assert_eq!(refused(slot(0x79, 10, 1, 0, 0)), NoInstruction::FrameWritten);
    assert_eq!(refused(slot(0x18, 1, 0, 0, 0)), NoInstruction::Half);
    for bytes in [
        slot(0x37, 1, 0, 0, 0),  // division by the number 0
        slot(0x67, 1, 0, 0, 64), // shifts by more than there are bits
        slot(0x64, 1, 0, 0, 32),
        slot(0x07, 1, 2, 0, 1), // a source register beside a number
        slot(0x0f, 1, 2, 3, 0), // an offset
        slot(0xdb, 1, 2, 0, 2), // an atomic operation that does not exist
        slot(0x95, 0, 0, 0, 1),
    ] {
        assert!(matches!(refused(bytes), NoInstruction::Field { .. }), "{bytes:?}");
    }
    let (to, by) = (Register::new(3).expect("R3"), Operand::Number(-1));
    let add = Instruction::Arithmetic { operation: Arithmetic::Add, width: Width::Bits64, to, by };
    assert_eq!(decoded(&slot(0x07, 3, 0, 0, -1)), Ok(add));
    let base = Register::FRAME;
    let load = Instruction::Load { size: Size::Half, signed: true, to, base, offset: -8 };
    assert_eq!(decoded(&slot(0x89, 3, 10, -8, 0)), Ok(load));
}
