//! Goal: a translated program does what the interpreter does, to the last byte and instruction.

use bytecode::{
    Addresses, Code, Elements, Executed, FRAME_BYTES, Fault, FaultKind, Function, Host, Locks,
    Machine, Memory, Notes, Object, Program, Rows, Run, Shortcut, Size, Stop, Walks, World,
};

use crate::arenas::{ARENA_BEGIN, ARENA_ONE_IN, arena, in_arena};
use crate::instructions::slot;
use crate::support::world;

/// How many programs; `BYTECODE_PROGRAMS` asks for more.
const PROGRAMS: u64 = 20_000;
/// Few enough that a loop without an end costs little.
const INSTRUCTIONS_MAX: u64 = 300;
pub const READ_ONLY_BYTES: usize = 288;
pub const WRITABLE_BYTES: usize = 128;
/// Programs of which a part must be sound, or nothing is asked.
const SOUND_SHARE_MIN: f64 = 0.5;

/// Numbers that look random. Source: Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014.
pub struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
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

    pub fn wide(&mut self) -> u64 {
        match self.below(4) {
            0 => self.below(66),
            1 => self.number() as i64 as u64,
            2 => 1 << self.below(64),
            _ => self.next(),
        }
    }
}

/// The two slots of a load of 64 bits.
pub fn load_wide(to: u8, value: u64) -> [[u8; 8]; 2] {
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
        if memory.has_arena() && numbers.one_in(3) {
            let number = numbers.number();
            code.extend(in_arena(numbers, number));
        } else {
            code.extend(instruction(numbers, at, end, functions));
        }
    }
    code.push(slot(0x95, 0, 0, 0, 0));
    code
}

/// Rows in the part that is only read, of which programs may write two fields all the same.
pub const ROWS: Rows =
    Rows { begin: bytecode::MEMORY_BEGIN + 8, bytes: 24, count_at: bytecode::MEMORY_BEGIN };
const ROWS_MAX: u64 = 2;

/// What stands for a map of two values, of which there are two copies.
const MAP: u64 = 0xe000_0000_0000_0000;
/// Columns are in a row from its second word on.
const COLUMNS: u64 = 0xe800_0000_0000_0000;
/// Walks lie where programs may only read: address of the next item's word, two items, which are
/// rows or 0, and a 0.
pub const WALKS: u64 = bytecode::MEMORY_BEGIN + 64;
pub const WALK_BYTES: u32 = 64;
const WALKS_COUNT: u32 = 2;
/// Which copy of the map's values is meant.
const COPY: u64 = WALKS + (WALKS_COUNT * WALK_BYTES) as u64;

/// Locks, behind which time, holder and cost are.
const LOCKS: Locks = Locks {
    begin: COPY + 16,
    count: 3,
    now_at: COPY + 64,
    holder_at: COPY + 72,
    take_at: COPY + 80,
};

/// The map's values, behind which nothing is.
fn elements(memory: &Memory) -> Elements {
    let begin = memory_end(memory) - 32;
    Elements { begin, bytes: 8, count: 2, copies: Some((COPY, 16)) }
}

/// Calls by the numbers of their helpers, with what code does for them.
fn shortcuts() -> [(i32, Shortcut); 12] {
    let (size, signed) = (Size::Word, true);
    let walks = Walks {
        begin: WALKS,
        bytes: WALK_BYTES,
        count: WALKS_COUNT,
        next: 0,
        nothing: WALKS + 32,
        rows: ROWS,
    };
    [
        (20, Shortcut::Zero),
        (21, Shortcut::First),
        (22, Shortcut::Load { address: ROWS.begin + 4, size, signed }),
        (23, Shortcut::Field { rows: ROWS, offset: 12, size, signed }),
        (24, Shortcut::Cell { columns_begin: COLUMNS, columns: 2, rows: ROWS, offset: 8 }),
        (25, Shortcut::Element),
        (26, Shortcut::Bit(64)),
        (27, Shortcut::NextItem(walks)),
        (28, Shortcut::NextNumber),
        (29, Shortcut::Lock(LOCKS)),
        (30, Shortcut::Unlock(LOCKS)),
        (31, Shortcut::BeginNumbers(4)),
    ]
}

fn written_fields() -> Vec<(Rows, u32, Size)> {
    vec![(ROWS, 0, Size::Double), (ROWS, 16, Size::Double), (ROWS, 9, Size::Byte)]
}

pub fn world_with_rows() -> World {
    let mut world = World { written_fields: written_fields(), ..world() };
    for (at, (helper, shortcut)) in shortcuts().into_iter().enumerate() {
        world.helpers.insert(helper, SHORTCUTS_BEGIN + at);
        world.shortcuts.insert(SHORTCUTS_BEGIN + at, shortcut);
    }
    world
}

/// Calls from here on are answered by what [`Asked`] finds itself.
const SHORTCUTS_BEGIN: usize = 10;

/// Answers by looking, where code has a shortcut; a second implementation of each.
struct Asked;

impl Host for Asked {
    fn call(run: &mut Run<'_, Self>, number: usize, given: [u64; 5]) -> Result<u64, Stop> {
        let sum = |given: [u64; 5]| given.iter().fold(0, |sum: u64, one| sum.wrapping_add(*one));
        let Some(shortcut) = number.checked_sub(SHORTCUTS_BEGIN) else { return Ok(sum(given)) };
        let shortcut = shortcuts()[shortcut].1;
        looked_up(run, shortcut, given).ok_or_else(|| FaultKind::Refused("no".into()).into())
    }
}

fn row_of(memory: &Memory, address: u64) -> Option<u64> {
    let count = memory.load(ROWS.count_at, Size::Double)?;
    (0..count).map(|n| ROWS.begin + n * ROWS.bytes).find(|&row| row == address)
}

fn looked_up(run: &mut Run<'_, Asked>, shortcut: Shortcut, given: [u64; 5]) -> Option<u64> {
    let memory = run.memory();
    match shortcut {
        Shortcut::Zero => Some(0),
        Shortcut::First => Some(given[0]),
        Shortcut::Load { address, .. } => Some(memory.load(address, Size::Word)? as i32 as u64),
        Shortcut::Field { offset, .. } => {
            let row = row_of(memory, given[0])?;
            Some(memory.load(row + u64::from(offset), Size::Word)? as i32 as u64)
        }
        Shortcut::Cell { columns_begin, offset, .. } => {
            let row = row_of(memory, given[1])?;
            let column = (0..2).find(|column| columns_begin + 8 * column == given[0])?;
            let word = memory.load(row + u64::from(offset) + 8 * column, Size::Double)?;
            (word != 0).then_some(word)
        }
        Shortcut::Element => {
            let key = memory.load(given[1], Size::Word)?;
            let copy = memory.load(COPY, Size::Word)?;
            let place = elements(memory).begin + 8 * key + 16 * copy;
            Some(if given[0] == MAP && key < 2 { place } else { 0 })
        }
        Shortcut::Bit(bits) => {
            let (at, number) = (given[1], given[0] as u32);
            let words = at.is_multiple_of(8).then(|| memory.load(at, Size::Double))??;
            (number < bits).then(|| words >> number & 1)
        }
        Shortcut::NextItem(walks) => {
            let at = given[0];
            let is_own = at.is_multiple_of(8) && memory.is_writable(at, 8);
            let number = memory.load(at, Size::Double).filter(|_| is_own)?;
            let number = number.checked_sub(1).filter(|&number| number < walks.count.into())?;
            next_item(run, walks, walks.begin + number * u64::from(walks.bytes))
        }
        Shortcut::BeginNumbers(most) => begin_numbers(run, most.into(), given),
        Shortcut::NextNumber => {
            let at = given[0];
            let is_own = at.is_multiple_of(4) && memory.is_writable(at, 8);
            let next = (memory.load(at, Size::Word).filter(|_| is_own)? as i32).wrapping_add(1);
            let is_left = next < memory.load(at + 4, Size::Word)? as i32;
            if !is_left {
                run.store(at, Size::Double, 0)?;
                return Some(0);
            }
            run.store(at, Size::Word, u64::from(next as u32))?;
            Some(at)
        }
        Shortcut::Lock(_) => {
            let (lock, now, holder) = lock_of(memory, given[0])?;
            let is_free = memory.load(lock + 8, Size::Double)? <= now;
            let is_here = memory.load(lock + 4, Size::Word)? == holder;
            let took = now.wrapping_add(memory.load(LOCKS.take_at, Size::Double)?);
            (is_free && is_here).then(|| run.store(LOCKS.now_at, Size::Double, took))??;
            Some(0)
        }
        Shortcut::Unlock(_) => {
            let (lock, now, holder) = lock_of(memory, given[0])?;
            run.store(lock + 4, Size::Word, holder)?;
            run.store(lock + 8, Size::Double, now)?;
            Some(0)
        }
    }
}

fn begin_numbers(run: &mut Run<'_, Asked>, most: i64, given: [u64; 5]) -> Option<u64> {
    let [at, first, end, ..] = given;
    let count = i64::from(end as i32) - i64::from(first as i32);
    let is_own = at.is_multiple_of(4) && run.memory().is_writable(at, 8);
    if !is_own || !(0..=most).contains(&count) {
        return None;
    }
    run.store(at, Size::Word, first.wrapping_sub(1))?;
    run.store(at + 4, Size::Word, end)?;
    Some(0)
}

/// Where the lock is whose word is at an address, the time, and who takes locks.
fn lock_of(memory: &Memory, address: u64) -> Option<(u64, u64, u64)> {
    let number = memory.load(address, Size::Word)?;
    let lock = LOCKS.begin + 16 * number;
    let is_one = number < LOCKS.count.into() && memory.load(lock, Size::Word)? == address;
    let now = memory.load(LOCKS.now_at, Size::Double)?;
    is_one.then_some((lock, now, memory.load(LOCKS.holder_at, Size::Word)?))
}

fn next_item(run: &mut Run<'_, Asked>, walks: Walks, walk: u64) -> Option<u64> {
    let next = run.memory().load(walk + u64::from(walks.next), Size::Double)?;
    let item = run.memory().load(next, Size::Double)?;
    if item == 0 {
        return None;
    }
    run.store(walk + u64::from(walks.next), Size::Double, next + 8)?;
    Some(item)
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
        18 if numbers.one_in(4) => indexed(numbers, number),
        18 if numbers.one_in(3) => walked(numbers),
        18 => asked(numbers),
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

/// An access to a table by an index that is masked, which is sometimes too large all the same.
fn indexed(numbers: &mut Numbers, number: i32) -> Vec<[u8; 8]> {
    let (index, table) = numbers.of(&[(6, 0), (0, 7)]);
    let mask = numbers.of(&[0, 1, 3, 15, 64, -8, number]);
    let begin = bytecode::MEMORY_BEGIN + numbers.below(640) * 8;
    let mut all = vec![slot(numbers.of(&[0x54, 0x57]), index, 0, 0, mask)];
    if numbers.one_in(2) {
        all.push(slot(numbers.of(&[0x64, 0x67]), index, 0, 0, numbers.of(&[0, 1, 3, 31])));
    }
    all.extend(load_wide(table, begin));
    all.push(slot(0x0f, table, index, 0, 0));
    let offset = numbers.of(&[0, 0, 4, -8]);
    all.push(match numbers.below(3) {
        0 => slot(0x7b, table, index, offset, 0),
        _ => slot(0x79, index, table, offset, 0),
    });
    all
}

/// A walk that is followed for some items, with what may end that in between.
fn walked(numbers: &mut Numbers) -> Vec<[u8; 8]> {
    // Two iterators of one walk.
    let walk = numbers.of(&[1, 2]);
    let mut all = vec![slot(0x7a, 10, 0, -8, walk), slot(0x7a, 10, 0, -16, walk)];
    for _ in 0..1 + numbers.below(5) {
        let (at, other) = (numbers.of(&[-8, -8, -8, -16]), numbers.of(&[1, 2]));
        all.extend(match numbers.below(9) {
            // The iterator is another walk's from here on: written itself, and by another register.
            0 => vec![slot(0x7a, 10, 0, -8, other)],
            1 => vec![slot(0x62, 10, 0, -12, 0)],
            2 => vec![slot(0xbf, 8, 10, 0, 0), slot(0x07, 8, 0, 0, -8), slot(0x7a, 8, 0, 0, other)],
            // A range of numbers begins there.
            3 => vec![
                slot(0xbf, 1, 10, 0, 0),
                slot(0x07, 1, 0, 0, -8),
                slot(0xb7, 2, 0, 0, 0),
                slot(0xb7, 3, 0, 0, 3),
                slot(0x85, 0, 0, 0, 31),
            ],
            // Something is called.
            4 => vec![slot(0x85, 0, 0, 0, 7)],
            _ => vec![],
        });
        let next = [slot(0xbf, 1, 10, 0, 0), slot(0x07, 1, 0, 0, at), slot(0x85, 0, 0, 0, 27)];
        all.extend(next);
        if numbers.one_in(2) {
            all.extend([slot(0xbf, 7, 0, 0, 0), slot(0x15, 0, 0, 1, 0), slot(0x79, 6, 7, 8, 0)]);
        }
    }
    all
}

/// A call that has a shortcut, with arguments that it often takes.
fn asked(numbers: &mut Numbers) -> Vec<[u8; 8]> {
    let row = ROWS.begin + ROWS.bytes * numbers.below(3);
    // Of a negative one, the upper half is -1: numbers are left up to there.
    let number = numbers.of(&[0, 1, 2, 3, -2, -5]);
    let mut all = vec![slot(0x7a, 10, 0, -8, number)];
    let given = [
        MAP,
        MAP,
        MAP,
        MAP,
        MAP,
        COLUMNS,
        COLUMNS + 8,
        COLUMNS + 4,
        row,
        row + 8,
        numbers.below(80),
    ];
    let frame = |register| [slot(0xbf, register, 10, 0, 0), slot(0x07, register, 0, 0, -8)];
    match numbers.below(3) {
        0 => all.extend(frame(1)),
        1 => all.extend(load_wide(1, numbers.of(&given))),
        _ => {}
    }
    match numbers.below(3) {
        0 => all.extend(frame(2)),
        1 => all.extend(load_wide(2, row)),
        _ => {}
    }
    let helper =
        numbers.of(&[20, 21, 22, 23, 24, 25, 25, 25, 25, 26, 27, 28, 28, 29, 29, 30, 31, 31]);
    if helper == 31 && numbers.one_in(2) {
        let first = numbers.of(&[0, -3, 7, i32::MIN, i32::MAX]);
        all.push(slot(0xb7, 2, 0, 0, first));
        all.push(slot(0xb7, 3, 0, 0, first.wrapping_add(numbers.of(&[-1, 0, 1, 4, 5]))));
    }
    all.push(slot(0x85, 0, 0, 0, helper));
    if numbers.one_in(2) {
        // What it gave is used, mostly after a look whether it gave anything.
        let base = numbers.of(&[0, 0, 6]);
        let offset = numbers.of(&[0, 0, 1, 4, 8, -1, 24]);
        all.push(slot(0xbf, 6, 0, 0, 0));
        match numbers.below(4) {
            0 => all.push(slot(0x55, 0, 0, 1, 0)),
            1 => {}
            _ => all.push(slot(0x15, 0, 0, 2, 0)),
        }
        all.push(slot(0x07, 6, 0, 0, numbers.of(&[0, 0, 4, -8])));
        all.push(match numbers.below(3) {
            0 => slot(0x79, 7, base, offset, 0),
            1 => slot(0x61, 7, base, offset, 0),
            _ => slot(0x7a, base, 0, offset, number),
        });
    }
    all
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

pub fn access(numbers: &mut Numbers, to: u8, from: u8, number: i32) -> [u8; 8] {
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
    object_of((0..count).map(|_| function(numbers, memory, count)).collect())
}

/// An object of these functions, which call each other by -1000 less their numbers.
pub fn object_of(codes: Vec<Vec<[u8; 8]>>) -> Object {
    let mut object = Object::default();
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
    object.code = vec![Code { name: ".text".into(), bytes, references, notes }].into();
    object
}

pub type Outcome = (Result<u64, Box<Fault>>, Executed, Box<Memory>);

pub fn outcome(program: &Program, translated: bool, memory: &Memory, given: [u64; 5]) -> Outcome {
    let memory = Box::new(memory.clone());
    let mut machine = Machine::new(program.clone(), memory, INSTRUCTIONS_MAX);
    machine.tell_apart(program.wide(&[]));
    assert!(!translated || machine.translate(), "this machine");
    let answer = machine.call(&mut Asked, 0, given);
    (answer, machine.taken(), machine.into_memory())
}

#[test]
fn a_function_keeps_what_one_changes_that_is_called_by_what_it_calls() {
    let exit = slot(0x95, 0, 0, 0, 0);
    let set = |register, number| slot(0xb7, register, 0, 0, number);
    let call = |number: i32| slot(0x85, 0, 1, 0, -1000 - number);
    for register in 6..10 {
        let object = object_of(vec![
            vec![set(register, 1), call(1), slot(0xbf, 0, register, 0, 0), exit],
            vec![call(2), exit],
            vec![set(register, 2), set(0, 3), exit],
        ]);
        let memory = Memory::new(READ_ONLY_BYTES, WRITABLE_BYTES).expect("addresses");
        let program =
            Program::link(&object, &[0], &world(), &Addresses::default()).expect("a sound program");
        for translated in [false, true] {
            let (answer, executed, _) = outcome(&program, translated, &memory, [0; 5]);
            assert_eq!((answer, executed.instructions), (Ok(1), 9), "R{register}, {translated}");
        }
    }
}

#[test]
fn a_memory_without_room_for_displacements_is_not_translated() {
    let memory = Memory::new(READ_ONLY_BYTES, WRITABLE_BYTES).expect("addresses");
    let sound = |seed| {
        let object = object(&mut Numbers(seed), &memory);
        Program::link(&object, &[0], &world(), &Addresses::default()).ok()
    };
    let program = (0..).find_map(sound).expect("a sound program");
    // Nothing of it is touched, so that it takes no room.
    let large = Memory::new(i32::MAX as usize - 4096, 0).expect("addresses");
    let translates = |memory| Machine::new(program.clone(), Box::new(memory), 1).translate();
    assert!(!translates(large));
    assert!(translates(memory));
}

/// Locks whose words are where a program has them in its frame, or at the end of its memory.
fn place_locks(numbers: &mut Numbers, memory: &mut Memory) {
    let in_frame = bytecode::MEMORY_BEGIN + READ_ONLY_BYTES as u64 + FRAME_BYTES - 8;
    let end = memory_end(memory);
    memory.store(LOCKS.now_at, Size::Double, numbers.below(4));
    for lock in (0..u64::from(LOCKS.count)).map(|number| LOCKS.begin + 16 * number) {
        let words = [in_frame, in_frame, in_frame, end - 4, bytecode::MEMORY_BEGIN, 0];
        memory.store(lock, Size::Word, numbers.of(&words));
        let holder = memory.load(LOCKS.holder_at, Size::Word).unwrap_or(0);
        memory.store(lock + 4, Size::Word, holder ^ u64::from(numbers.one_in(4)));
        memory.store(lock + 8, Size::Double, numbers.below(5));
    }
}

#[test]
fn random_programs_do_the_same_translated() {
    let asked = std::env::var("BYTECODE_PROGRAMS").ok();
    let programs = asked.map_or(PROGRAMS, |text| text.parse().expect("a number of programs"));
    let (mut sound, mut exits) = (0, 0);
    for seed in 0..programs {
        let mut numbers = Numbers(seed);
        let mut memory = Memory::new(READ_ONLY_BYTES, WRITABLE_BYTES).expect("addresses");
        for at in 0..READ_ONLY_BYTES as u64 / 8 {
            let address = bytecode::MEMORY_BEGIN + 8 * at;
            memory.store(address, Size::Double, numbers.wide());
        }
        memory.store(ROWS.count_at, Size::Double, numbers.below(ROWS_MAX + 1));
        for walk in 0..u64::from(WALKS_COUNT) {
            let at = WALKS + walk * u64::from(WALK_BYTES);
            memory.store(at, Size::Double, at + 16 + 8 * numbers.below(3));
            for place in [16, 24] {
                let row = ROWS.begin + ROWS.bytes * numbers.below(2);
                memory.store(at + place, Size::Double, numbers.of(&[row, row, 0]));
            }
            memory.store(at + 32, Size::Double, 0);
        }
        memory.store(COPY, Size::Double, numbers.below(2));
        place_locks(&mut numbers, &mut memory);
        let has_arena = seed % ARENA_ONE_IN == 0;
        if has_arena {
            memory.set_arena(Some(arena()));
        }
        let world = world_with_rows();
        let object = object(&mut numbers, &memory);
        let elements = [(MAP, elements(&memory))].into();
        let user_upper = has_arena.then_some((ARENA_BEGIN >> 32) as u32);
        let addresses = Addresses { elements, user_upper, ..Addresses::default() };
        let Ok(program) = Program::link(&object, &[0], &world, &addresses) else {
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
            "program {seed}: {:?} {:?}, {:?} {:?}: {:#?}",
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
