//! Goal: code does what the interpreter does where it knows more than holds on every way: of
//! arguments that one way does not write, and of which walk an iterator in the frame stands for.
//! Method: small programs, both ways.

use crate::agreement::{
    READ_ONLY_BYTES, ROWS, WALK_BYTES, WALKS, WRITABLE_BYTES, object_of, outcome, world_with_rows,
};
use crate::instructions::slot;
use bytecode::{Addresses, Memory, Program, Size};

/// The calls by which the programs below ask.
const NEXT_ITEM: i32 = 27;
const NEXT_NUMBER: i32 = 28;
const LOCK: i32 = 29;
const BEGIN_NUMBERS: i32 = 31;

fn call(helper: i32) -> [u8; 8] {
    slot(0x85, 0, 0, 0, helper)
}

/// R1 leads to the last word of the frame.
fn first_is_last_word() -> [[u8; 8]; 2] {
    [slot(0xbf, 1, 10, 0, 0), slot(0x07, 1, 0, 0, -8)]
}

/// Runs a program both ways, with two walks of two rows each, which they give in other orders.
fn does_the_same(code: Vec<[u8; 8]>) {
    let mut memory = Memory::new(READ_ONLY_BYTES, WRITABLE_BYTES).expect("addresses");
    memory.store(ROWS.count_at, Size::Double, 2);
    for walk in 0..2 {
        let at = WALKS + walk * u64::from(WALK_BYTES);
        memory.store(at, Size::Double, at + 16);
        memory.store(at + 16, Size::Double, ROWS.begin);
        memory.store(at + 24, Size::Double, ROWS.begin + ROWS.bytes * (1 - walk));
    }
    let object = object_of(vec![code]);
    let world = world_with_rows();
    let program = Program::link(&object, &[0], &world, &Addresses::default()).expect("sound");
    let interpreted = outcome(&program, false, &memory, [0; 5]);
    let translated = outcome(&program, true, &memory, [0; 5]);
    assert_eq!((&interpreted.0, interpreted.1), (&translated.0, translated.1));
    assert!(interpreted.2 == translated.2, "other bytes");
}

#[test]
fn an_argument_that_one_way_does_not_write_is_0_although_that_way_is_closed() {
    let mut code = vec![slot(0xb7, 9, 0, 0, 1), call(7)];
    // if r9 == 0, which it is not, the lock's address is left out.
    code.push(slot(0x15, 9, 0, 3, 0));
    code.push(slot(0x7a, 10, 0, -8, 3));
    code.extend(first_is_last_word());
    code.extend([call(LOCK), slot(0x95, 0, 0, 0, 0)]);
    does_the_same(code);
}

#[test]
fn a_walk_is_another_once_its_iterator_was_written_where_a_number_had_been() {
    let mut code = Vec::from(first_is_last_word());
    code.extend([slot(0xb7, 2, 0, 0, 0), slot(0xb7, 3, 0, 0, 3), call(BEGIN_NUMBERS)]);
    code.extend(first_is_last_word());
    code.extend([call(NEXT_NUMBER), slot(0x15, 0, 0, 9, 0), slot(0xbf, 6, 0, 0, 0)]);
    code.push(slot(0x7a, 10, 0, -8, 1));
    code.extend(first_is_last_word());
    // Through what the call gave, R6, the first walk becomes the second.
    code.extend([call(NEXT_ITEM), slot(0x7a, 6, 0, 0, 2)]);
    code.extend(first_is_last_word());
    code.extend([call(NEXT_ITEM), slot(0x95, 0, 0, 0, 0)]);
    does_the_same(code);
}

#[test]
fn a_walk_ends_where_numbers_begin_in_a_loop_that_leads_back_before_it() {
    let mut code = vec![slot(0xb7, 8, 0, 0, 0)];
    code.extend(first_is_last_word());
    code.extend([slot(0xb7, 2, 0, 0, 5), slot(0xb7, 3, 0, 0, 6), call(BEGIN_NUMBERS)]);
    // In the second round the iterator is left as numbers.
    code.extend([slot(0x55, 8, 0, 1, 0), slot(0x7a, 10, 0, -8, 1)]);
    code.extend(first_is_last_word());
    code.extend([call(NEXT_ITEM), slot(0x07, 8, 0, 0, 1), slot(0xa5, 8, 0, -12, 2)]);
    code.push(slot(0x95, 0, 0, 0, 0));
    does_the_same(code);
}
