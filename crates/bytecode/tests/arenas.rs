//! Goal: what a program does by an address of an arena ends there, translated too.

use bytecode::{Addresses, Arena, Memory, Program, Reserved};

use crate::agreement::{Numbers, access, load_wide, object_of, outcome};
use crate::instructions::slot;
use crate::support::world;

/// An arena of two pages, of which the first is there, for user space and for programs.
pub fn arena() -> Arena {
    let mut arena = Arena::new(ARENA_BEGIN, 2).expect("addresses");
    assert_eq!(arena.allocate(ARENA_BEGIN, 1), ARENA_BEGIN);
    arena
}

/// Its upper half stands before every address for user space.
pub const ARENA_BEGIN: u64 = 5 << 32 | 0x1000;
/// One in so many programs has it. Elsewhere an emulator runs this, which keeps notes of each page
/// of each mapping that ever was: 24 MB for an arena.
pub const ARENA_ONE_IN: u64 = if cfg!(target_arch = "x86_64") { 16 } else { 512 };

/// Accesses by an address that was cast, most of them where a page is, and a cast back.
pub fn in_arena(numbers: &mut Numbers, number: i32) -> Vec<[u8; 8]> {
    let ends = [0, 0xff8, 0xffc, 0xffe, 0x1000, 0x2000, -0x1000, -0x1008];
    let near = ARENA_BEGIN.wrapping_add_signed(numbers.of(&ends));
    let (from, base, value) = numbers.of(&[(1, 6, 2), (0, 0, 7), (7, 8, 9)]);
    let mut all = vec![];
    if !numbers.one_in(8) {
        let addresses = [ARENA_BEGIN + 16, ARENA_BEGIN + 16, ARENA_BEGIN + 20, near, 0];
        all.extend(load_wide(from, numbers.of(&addresses)));
    }
    all.extend(load_wide(value, numbers.wide()));
    all.push(slot(0xbf, base, from, 1, 1));
    all.push(slot(0x07, base, 0, 0, numbers.of(&[0, 0, 8, -4])));
    for _ in 0..1 + numbers.below(4) {
        let mut instruction = access(numbers, value, value, number);
        let is_load = instruction[0] & 0x07 == 0x01;
        let (to, by) = if is_load { (value, base) } else { (base, value) };
        instruction[1] = by << 4 | to;
        if instruction[0] & 0x07 == 0x02 {
            instruction[1] = to;
        }
        all.push(instruction);
    }
    all.push(slot(0xbf, from, base, 1, numbers.of(&[1, 1 << 16])));
    all
}

const PAGE: u64 = bytecode::PAGE_BYTES;
const EXIT: [u8; 8] = slot(0x95, 0, 0, 0, 0);
/// `R2 = (kernel) R1`, `R3 = 9`.
const CAST: [u8; 8] = slot(0xbf, 2, 1, 1, 1);
const NINE: [u8; 8] = slot(0xb7, 3, 0, 0, 9);

/// What a function of these instructions gives, whose R1 is an address for user space.
fn answer(address: u64, instructions: &[[u8; 8]]) -> u64 {
    let code = [&load_wide(1, address)[..], &[CAST, NINE], instructions, &[EXIT]].concat();
    let mut memory = Memory::new(64, 64).expect("addresses");
    memory.set_arena(Some(arena()));
    let user_upper = Some((ARENA_BEGIN >> 32) as u32);
    let addresses = Addresses { user_upper, ..Addresses::default() };
    let program = Program::link(&object_of(vec![code]), &[0], &world(), &addresses);
    let program = program.expect("a sound program");
    let both = [false, true].map(|translated| outcome(&program, translated, &memory, [0; 5]));
    assert_eq!(both[0].0, both[1].0, "{address:#x}");
    assert!(both[0].2 == both[1].2, "{address:#x} leaves other bytes");
    both[0].0.clone().expect("an answer")
}

#[test]
fn what_is_written_to_a_page_is_there_and_lost_where_none_is() {
    let [store, load] = [slot(0x7b, 2, 3, 8, 0), slot(0x79, 0, 2, 8, 0)];
    let fetch = [slot(0xdb, 2, 3, 8, 1), slot(0xbf, 0, 3, 0, 0)];
    let ends_before = ARENA_BEGIN + PAGE - 12;
    for (address, expected) in [
        (ARENA_BEGIN, 9),
        (ARENA_BEGIN + PAGE - 16, 9),
        (ends_before, 0),
        (ARENA_BEGIN + PAGE, 0),
        (ARENA_BEGIN - PAGE, 0),
        (ARENA_BEGIN + 2 * PAGE, 0),
        // Of addresses only the lower half counts.
        (ARENA_BEGIN & 0xffff_ffff, 9),
        (0, 0),
        (0xffff_fff8, 0),
    ] {
        assert_eq!(answer(address, &[store, load]), expected, "{address:#x}");
        let fetched = [&[store][..], &fetch].concat();
        assert_eq!(answer(address, &fetched), expected, "{address:#x}");
        let added = [&[store][..], &fetch[..1], &[load]].concat();
        assert_eq!(answer(address, &added), 2 * expected, "{address:#x}");
    }
}

#[test]
fn an_address_that_is_cast_there_and_back_is_the_same_and_null_stays_null() {
    let null = [slot(0xbf, 0, 2, 0, 0)];
    let back = [slot(0xbf, 0, 2, 1, 1 << 16)];
    for address in [ARENA_BEGIN, ARENA_BEGIN + PAGE + 5] {
        assert_eq!(answer(address, &back), address);
    }
    assert_eq!(answer(0, &null), 0);
    assert_eq!(answer(1 << 32, &null), 0);
    assert_eq!(answer(1 << 32, &back), 0);
}

#[test]
fn loads_and_stores_with_an_order_are_loads_and_stores() {
    let [store, load] = [slot(0xdb, 2, 3, 8, 0x110), slot(0xdb, 0, 2, 8, 0x100)];
    assert_eq!(answer(ARENA_BEGIN, &[store, load]), 9);
}

#[test]
fn pages_are_taken_where_they_fit_best_and_given_back_as_zeros() {
    let at = |page: u64| ARENA_BEGIN + page * PAGE;
    let mut arena = Arena::new(ARENA_BEGIN, 16).expect("addresses");
    assert_eq!(arena.allocate(at(4), 2), at(4));
    assert_eq!(arena.allocate(at(9), 1), at(9));
    // Free are 0 to 3, 6 to 8, 10 to 15.
    assert_eq!(arena.allocate(0, 3), at(6));
    assert_eq!(arena.allocate(0, 5), at(10));
    assert_eq!(arena.allocate(0, 1), at(15));
    assert_eq!(arena.allocate(0, 5), 0);
    assert_eq!(arena.give_back(at(5), 3), 3);
    assert_eq!(arena.reserve(at(3), 1), Reserved::Done);
    assert_eq!(arena.reserve(at(3), 1), Reserved::Taken);
    assert_eq!(arena.reserve(at(15), 2), Reserved::Outside);
    assert_eq!(arena.allocate(0, 3), at(0));
    assert_eq!(arena.allocate(0, 3), at(5));
    // Beyond its end are none.
    assert_eq!(arena.give_back(at(15), 9), 1);
    assert_eq!(arena.place(PAGE as usize + 1, &[1]), None);
    assert_eq!(arena.place(PAGE as usize, &[1; 8]), Some(at(15)));
    let mut huge = Arena::new(0, 1 << 20).expect("addresses");
    assert_eq!(huge.allocate(0, (1 << 18) + 1), 0);
    assert_ne!(huge.allocate(0, 1 << 18), 0);
    assert_eq!(huge.allocate(0, 1), 0);
}
