//! Goal: a translated program does what the interpreter does, to the last byte and instruction.

use bytecode::{
    Addresses, Code, Fault, Function, Machine, Memory, Notes, Object, Program, Rows, Size, World,
};

use crate::instructions::slot;
use crate::support::{Answers, world};

/// How many programs; `BYTECODE_PROGRAMS` asks for more.
const PROGRAMS: u64 = 20_000;
/// Few enough that a loop without an end costs little.
const INSTRUCTIONS_MAX: u64 = 300;
const READ_ONLY_BYTES: usize = 64;
const WRITABLE_BYTES: usize = 128;
/// Programs of which a part must be sound, or nothing is asked.
const SOUND_SHARE_MIN: f64 = 0.5;

/// Numbers that look random. Source: Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    fn number(&mut self) -> i32 {
        match self.below(4) {
            0 => self.below(33) as i32,
            1 => -(self.below(4) as i32),
            2 => self.of(&[i32::MIN, i32::MAX, 255, 256, 65535, 65536]),
            _ => self.next() as i32,
        }
    }

    fn wide(&mut self) -> u64 {
        match self.below(4) {
            0 => self.below(66),
            1 => self.number() as i64 as u64,
            2 => 1 << self.below(64),
            _ => self.next(),
        }
    }
}

/// The two slots of a load of 64 bits.
fn load_wide(to: u8, value: u64) -> [[u8; 8]; 2] {
    [slot(0x18, to, 0, 0, value as i32), slot(0, 0, 0, 0, (value >> 32) as i32)]
}

/// A function: all registers get values, then anything happens to them.
fn function(numbers: &mut Numbers, memory: &Memory, functions: usize) -> Vec<[u8; 8]> {
    let mut code = vec![];
    for register in 0..10 {
        if !(1..6).contains(&register) || numbers.one_in(2) {
            let value = match register {
                7 => memory_end(memory) - numbers.below(160),
                8 => bytecode::MEMORY_BEGIN + numbers.below(80),
                9 => ROWS.begin + ROWS.bytes * numbers.below(3) + numbers.of(&[0, 0, 0, 8]),
                _ => numbers.wide(),
            };
            code.extend(load_wide(register, value));
        }
    }
    let body = 1 + numbers.below(30);
    let end = code.len() as u64 + body;
    for _ in 0..body {
        let at = code.len() as u64;
        code.extend(instruction(numbers, at, end, functions));
    }
    code.push(slot(0x95, 0, 0, 0, 0));
    code
}

/// Rows in the part that is only read, of which programs may write two fields all the same.
const ROWS: Rows =
    Rows { begin: bytecode::MEMORY_BEGIN + 8, bytes: 24, count_at: bytecode::MEMORY_BEGIN };
const ROWS_MAX: u64 = 2;

fn world_with_rows() -> World {
    World { written_fields: vec![(ROWS, 0), (ROWS, 16)], ..world() }
}

fn memory_end(memory: &Memory) -> u64 {
    let mut end = bytecode::MEMORY_BEGIN;
    while memory.bytes(end, 1).is_some() {
        end += 1;
    }
    end
}

fn instruction(numbers: &mut Numbers, at: u64, end: u64, functions: usize) -> Vec<[u8; 8]> {
    let (to, from) = (numbers.below(10) as u8, numbers.below(11) as u8);
    let number = numbers.number();
    match numbers.below(20) {
        0..=5 => vec![arithmetic(numbers, to, from, number)],
        6 => vec![slot(numbers.of(&[0xd4, 0xdc, 0xd7]), to, 0, 0, numbers.of(&[16, 32, 64]))],
        7 => vec![slot(numbers.of(&[0x84, 0x87]), to, 0, 0, 0)],
        8 => {
            let (opcode, bits) = numbers.of(&[(0xbf, 8), (0xbf, 16), (0xbf, 32), (0xbc, 8)]);
            vec![slot(opcode, to, from, bits, 0)]
        }
        9..=13 => vec![access(numbers, to, from, number)],
        14..=16 => {
            let condition = numbers.of(&[0x1, 0x2, 0x3, 0x4, 0x5, 0x6, 0x7, 0xa, 0xb, 0xc, 0xd]);
            let class = numbers.of(&[0x05, 0x06]);
            // Most jumps lead forwards, to where the body ends at the farthest.
            let distance = if numbers.one_in(6) {
                -(numbers.below(8) as i16)
            } else {
                numbers.below((end - at.min(end)).max(1)) as i16
            };
            match numbers.below(8) {
                0 => vec![slot(0x05, 0, 0, distance, 0)],
                1 => vec![slot(0xe5, 0, 0, distance, 0)],
                2..=4 => vec![slot(condition << 4 | class, to, 0, distance, number)],
                _ => vec![slot(condition << 4 | class | 0x08, to, from, distance, 0)],
            }
        }
        17 => load_wide(to, numbers.wide()).to_vec(),
        18 if numbers.one_in(3) => vec![slot(0x95, 0, 0, 0, 0)],
        _ => {
            // A helper, or a function of the object; then what stood in R1 to R5 is gone.
            let call = if numbers.one_in(2) {
                slot(0x85, 0, 0, 0, 7)
            } else {
                slot(0x85, 0, 1, 0, -1000 - numbers.below(functions as u64) as i32)
            };
            let mut all = vec![call];
            if numbers.one_in(2) {
                all.extend((1..6).map(|register| slot(0xb7, register, 0, 0, number)));
            }
            all
        }
    }
}

fn arithmetic(numbers: &mut Numbers, to: u8, from: u8, number: i32) -> [u8; 8] {
    let class = numbers.of(&[0x04, 0x07]);
    let operation = numbers.of(&[0x0, 0x1, 0x2, 0x3, 0x4, 0x5, 0x6, 0x7, 0x9, 0xa, 0xb, 0xc]);
    let divides = matches!(operation, 0x3 | 0x9);
    let offset = i16::from(divides && numbers.one_in(2));
    if numbers.one_in(2) {
        return slot(operation << 4 | 0x08 | class, to, from, offset, 0);
    }
    let number = match operation {
        0x3 | 0x9 if number == 0 => 1,
        0x6 | 0x7 | 0xc => number & if class == 0x04 { 31 } else { 63 },
        _ => number,
    };
    slot(operation << 4 | class, to, 0, offset, number)
}

fn access(numbers: &mut Numbers, to: u8, from: u8, number: i32) -> [u8; 8] {
    // Mostly by the frame, or by the registers that hold addresses near borders.
    let base = numbers.of(&[10, 10, 10, 10, 7, 7, 8, 9, from]);
    let offset = match (base, numbers.below(12)) {
        (_, 0) => numbers.next() as i16,
        (10, 1) => -(numbers.below(530) as i16),
        (10, _) => -8 * (1 + numbers.below(8) as i16),
        (9, _) => 8 * numbers.below(4) as i16,
        _ => numbers.below(32) as i16 - 8,
    };
    let size = numbers.of(&[0x00, 0x08, 0x10, 0x18]);
    match numbers.below(8) {
        0..=2 => slot(0x61 | size, to, base, offset, 0),
        3 => slot(0x81 | numbers.of(&[0x00, 0x08, 0x10]), to, base, offset, 0),
        4 | 5 => slot(0x63 | size, base, from, offset, 0),
        6 => slot(0x62 | size, base, 0, offset, number),
        _ => {
            let kind = numbers.of(&[0x00, 0x01, 0x40, 0x41, 0x50, 0x51, 0xa0, 0xa1, 0xe1, 0xf1]);
            slot(numbers.of(&[0xc3, 0xdb]), base, to, offset, kind)
        }
    }
}

/// An object of some functions, each in a section of its own.
fn object(numbers: &mut Numbers, memory: &Memory) -> Object {
    let count = 1 + numbers.below(3) as usize;
    let mut object = Object::default();
    let codes: Vec<_> = (0..count).map(|_| function(numbers, memory, count)).collect();
    let starts: Vec<_> = codes
        .iter()
        .scan(0, |first, code| Some(std::mem::replace(first, *first + code.len())))
        .collect();
    let mut bytes = vec![];
    for (n, code) in codes.into_iter().enumerate() {
        let slots = code.len() as u32;
        for one in code {
            let mut one = one;
            let number = i32::from_le_bytes([one[4], one[5], one[6], one[7]]);
            if one[0] == 0x85 && one[1] == 0x10 {
                let target = starts[(-1000 - number) as usize] as i32;
                let here = (bytes.len() / 8) as i32;
                one[4..].copy_from_slice(&(target - here - 1).to_le_bytes());
            }
            bytes.extend(one);
        }
        let name = format!("f{n}");
        object.functions.push(Function { name, code: 0, first: starts[n] as u32, slots });
    }
    let (references, notes) = (Default::default(), Notes::default());
    object.code.push(Code { name: ".text".into(), bytes, references, notes });
    object
}

type Outcome = (Result<u64, Box<Fault>>, u64, Box<Memory>);

fn outcome(program: &Program, translated: bool, memory: &Memory, given: [u64; 5]) -> Outcome {
    let memory = Box::new(memory.clone());
    let mut machine = Machine::new(program.clone(), memory, INSTRUCTIONS_MAX);
    assert!(!translated || machine.translate(), "this machine");
    let answer = machine.call(&mut Answers, 0, given);
    (answer, machine.instructions(), machine.into_memory())
}

#[test]
fn a_memory_without_room_for_displacements_is_not_translated() {
    let memory = Memory::new(READ_ONLY_BYTES, WRITABLE_BYTES);
    let sound = |seed| {
        let object = object(&mut Numbers(seed), &memory);
        Program::link(&object, &[0], &world(), &Addresses::default()).ok()
    };
    let program = (0..).find_map(sound).expect("a sound program");
    // Nothing of it is touched, so that it takes no room.
    let large = Memory::new(i32::MAX as usize - 4096, 0);
    let translates = |memory| Machine::new(program.clone(), Box::new(memory), 1).translate();
    assert!(!translates(large));
    assert!(translates(memory));
}

#[test]
fn random_programs_do_the_same_translated() {
    let asked = std::env::var("BYTECODE_PROGRAMS").ok();
    let programs = asked.map_or(PROGRAMS, |text| text.parse().expect("a number of programs"));
    let (mut sound, mut exits) = (0, 0);
    for seed in 0..programs {
        let mut numbers = Numbers(seed);
        let mut memory = Memory::new(READ_ONLY_BYTES, WRITABLE_BYTES);
        for at in 0..20 {
            let address = bytecode::MEMORY_BEGIN + 8 * at;
            memory.store(address, Size::Double, numbers.wide());
        }
        memory.store(ROWS.count_at, Size::Double, numbers.below(ROWS_MAX + 1));
        let world = world_with_rows();
        let object = object(&mut numbers, &memory);
        let Ok(program) = Program::link(&object, &[0], &world, &Addresses::default()) else {
            continue;
        };
        sound += 1;
        let given = std::array::from_fn(|_| numbers.wide());
        let interpreted = outcome(&program, false, &memory, given);
        let translated = outcome(&program, true, &memory, given);
        exits += u64::from(interpreted.0.is_ok());
        let same = (&interpreted.0, interpreted.1) == (&translated.0, translated.1);
        assert!(
            same,
            "program {seed}: {:?} {}, {:?} {}: {:#?}",
            interpreted.0,
            interpreted.1,
            translated.0,
            translated.1,
            program.instructions()
        );
        assert!(interpreted.2 == translated.2, "program {seed} leaves other bytes");
    }
    let share = |part: u64| part as f64 / programs as f64;
    assert!(share(sound) >= SOUND_SHARE_MIN, "{sound} of {programs} were sound");
    assert!(share(exits) >= 0.1, "{exits} of {programs} came to their exit");
    println!("{programs} programs, {sound} sound, {exits} to their exit");
}
