//! No bytes make the reader of objects or the linker panic or hang, and what they take runs alike
//! interpreted and translated. `make fuzz-bytecode` runs it, watched by the address sanitizer.

#![no_main]

mod both_ways;

use bytecode::{Addresses, Data, Memory, Object, Program};
use libfuzzer_sys::fuzz_target;

/// Most bytes of variables that an object may bring.
const DATA_MAX: usize = 1 << 16;
const ROOM: usize = 4096;

fuzz_target!(|bytes: &[u8]| {
    let Ok(object) = Object::read(bytes) else { return };
    if object.data.iter().map(|data| data.len).sum::<usize>() > DATA_MAX {
        return;
    }
    let mut memory = Memory::new(DATA_MAX + ROOM, DATA_MAX + ROOM).expect("addresses");
    let Some(data) = object.data.iter().map(|data| placed(&mut memory, data)).collect() else {
        return;
    };
    let maps = vec![0xaaaa; object.maps.len()];
    let addresses = Addresses { data, maps, ..Addresses::default() };
    let functions: Vec<_> = (0..object.functions.len()).collect();
    let world = both_ways::world(&object);
    if let Ok(program) = Program::link(&object, &functions, &world, &addresses) {
        both_ways::run(&program, &memory, &functions);
    }
});

fn placed(memory: &mut Memory, data: &Data) -> Option<u64> {
    let len = data.len;
    let address =
        if data.read_only { memory.add_read_only(len, 8) } else { memory.add_writable(len, 8) };
    let address = address.ok()?;
    memory.bytes_mut(address, data.bytes.len() as u64)?.copy_from_slice(&data.bytes);
    Some(address)
}
