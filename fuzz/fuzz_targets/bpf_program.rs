//! Whatever instructions the linker takes, they do the same interpreted and translated: answer or
//! fault, count, and every byte. `make fuzz-bytecode` runs it, watched by the address sanitizer.

#![no_main]

mod both_ways;

use bytecode::{Addresses, Code, Function, Memory, Notes, Object, Program, SLOT_BYTES, Size};
use libfuzzer_sys::fuzz_target;

const SLOTS_MAX: usize = 200;
const EXIT: [u8; SLOT_BYTES] = [0x95, 0, 0, 0, 0, 0, 0, 0];

fuzz_target!(|bytes: &[u8]| {
    let mut memory = Memory::new(64, 256).expect("addresses");
    for word in 0..8 {
        memory.store(bytecode::MEMORY_BEGIN + 8 * word, Size::Double, 3 * word);
    }
    // The first byte says where the second function begins.
    let Some((&cut, code)) = bytes.split_first() else { return };
    let mut slots: Vec<[u8; SLOT_BYTES]> = code.as_chunks().0.to_vec();
    slots.truncate(SLOTS_MAX);
    let cut = usize::from(cut).min(slots.len());
    slots.insert(cut, EXIT);
    slots.push(EXIT);
    let function = |name: &str, first: usize, end: usize| Function {
        name: name.to_owned(),
        code: 0,
        first: first as u32,
        slots: (end - first) as u32,
    };
    let functions = vec![function("one", 0, cut + 1), function("two", cut + 1, slots.len())];
    let code = Code {
        name: ".text".to_owned(),
        bytes: slots.into_flattened(),
        references: Default::default(),
        notes: Notes::default(),
    };
    let object = Object { code: vec![code].into(), functions, ..Object::default() };
    let world = both_ways::world(&object);
    if let Ok(program) = Program::link(&object, &[0, 1], &world, &Addresses::default()) {
        both_ways::run(&program, &memory, &[0, 1]);
    }
});
