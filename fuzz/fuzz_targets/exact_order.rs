//! Every exact structure does what a sorted list does, whatever it is asked.
//!
//! Bytes are read as a program of queue operations: single ones, and bursts that grow a queue
//! across the sizes at which structures change their minds. A plain sorted list says what must come
//! of it; then each form of the exact time ring that this processor has runs the program, and every
//! other structure runs one program in four. Keys tie, jump up to 2^60 ahead, fall behind what was
//! popped, and cross the wrap-around. `make fuzz` runs it, watched by the address sanitizer.

#![no_main]

use libfuzzer_sys::fuzz_target;
use runqueue::hold::Random;
use runqueue::*;

/// How far keys may be from the present, so that all queued ones are less than 2^62 apart.
const FAR: u64 = 1 << 61;
/// Most items of a queue: several times the largest tier's border.
const CAPACITIES: [u32; 4] = [3, 40, 150, 700];
/// Most work of a program, a unit a step and one an item that is walked past: many short programs
/// reach more than few long ones.
const WORK_MAX: usize = 5_000;

/// One operation and what must come of it.
#[derive(Debug)]
enum Step {
    Push(u32, u64),
    Pop(Option<u32>),
    Peek(Option<u32>),
    Remove(u32),
    Requeue(u32, u64),
    /// All items and keys in order.
    Walk(Vec<(u32, u64)>),
    /// How many are queued; one item, its key, and whether it is queued.
    Ask(usize, u32, u64, bool),
}

fuzz_target!(|bytes: &[u8]| {
    let mut program = Program::new(bytes);
    program.write();
    let (capacity, steps) = (program.keys.len(), &program.steps);
    run::<ExactTimeRingScalar>(capacity, steps);
    run::<ExactTimeRingAvx2>(capacity, steps);
    run::<ExactTimeRingAvx512>(capacity, steps);
    // The others are simpler and take most of the time: a quarter of all programs will do.
    if bytes.first().is_some_and(|choice| choice >> 6 == 0) {
        run::<RedBlackTree>(capacity, steps);
        run::<GavlTree>(capacity, steps);
        run::<GavlTreeDelete>(capacity, steps);
        run::<GavlTreePublished>(capacity, steps);
        run::<BinaryHeap>(capacity, steps);
        run::<FourAryHeap>(capacity, steps);
        run::<PairingHeap>(capacity, steps);
        run::<SkipList>(capacity, steps);
        run::<SkipListMuqss>(capacity, steps);
        run::<CalendarQueue>(capacity, steps);
        run::<RadixWheel>(capacity, steps);
    }
});

/// Runs a program; panics where the structure differs.
fn run<Q: RunQueue>(capacity: usize, steps: &[Step]) {
    if !Q::is_here() {
        return;
    }
    let mut queue = Q::with_capacity(capacity);
    for (number, step) in steps.iter().enumerate() {
        let name = Q::NAME;
        match *step {
            Step::Push(item, key) => queue.push(item, key),
            Step::Pop(first) => assert_eq!(queue.pop(), first, "{name}, step {number}, pop"),
            Step::Peek(first) => assert_eq!(queue.peek(), first, "{name}, step {number}, peek"),
            Step::Remove(item) => queue.remove(item),
            Step::Requeue(item, key) => queue.requeue(item, key),
            Step::Walk(ref all) => {
                let mut walked = Vec::with_capacity(all.len());
                queue.for_each(&mut |item, key| walked.push((item, key)));
                assert_eq!(&walked, all, "{name}, step {number}, walk");
            }
            Step::Ask(len, item, key, queued) => {
                let answers = (queue.len(), queue.key(item), queue.contains(item));
                assert_eq!(answers, (len, key, queued), "{name}, step {number}, item {item}");
            }
        }
    }
}

/// The operations that bytes stand for, and the sorted list that says what comes of them.
struct Program<'a> {
    bytes: std::slice::Iter<'a, u8>,
    steps: Vec<Step>,
    /// Items that were walked past.
    walked: usize,
    /// Items in order.
    order: Vec<u32>,
    /// What each item was last pushed with, and whether it is queued.
    keys: Vec<u64>,
    queued: Vec<bool>,
    /// The latest key that was popped. No queued key is [`FAR`] from it.
    present: u64,
}

impl<'a> Program<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let mut bytes = bytes.iter();
        let choice = bytes.next().copied().unwrap_or(0);
        let capacity = CAPACITIES[choice as usize % CAPACITIES.len()] as usize;
        // Half of all programs begin shortly before the wrap-around, or before its half.
        let present = match choice >> 2 & 3 {
            0 => 0,
            1 => 0u64.wrapping_sub(1000),
            2 => (1 << 63) - 1000,
            _ => u64::from(choice) << 56,
        };
        Program {
            bytes,
            steps: Vec::new(),
            walked: 0,
            order: Vec::new(),
            keys: vec![0; capacity],
            queued: vec![false; capacity],
            present,
        }
    }

    fn byte(&mut self) -> u64 {
        u64::from(self.bytes.next().copied().unwrap_or(0))
    }

    fn item(&mut self) -> u32 {
        let number = self.byte() << 8 | self.byte();
        (number % self.keys.len() as u64) as u32
    }

    /// A key not far from the present.
    fn key(&mut self) -> u64 {
        let (kind, size) = (self.byte(), self.byte());
        let key = match kind % 8 {
            0 => self.present.wrapping_add(size),
            1 => self.present.wrapping_add(size << 19),
            2 => self.present.wrapping_add(size << 11 | self.byte()),
            3 => self.present.wrapping_add(size << (kind >> 3)),
            4 => self.present.wrapping_add(1 << (size % 61)),
            5 => self.present.wrapping_sub(size),
            6 => self.present.wrapping_sub(1 << (size % 61)),
            // The key of another item.
            _ => match self.order.get(size as usize % self.order.len().max(1)) {
                Some(&other) => self.keys[other as usize],
                None => self.present,
            },
        };
        self.near(key)
    }

    /// The key, or the present if it is too far from that.
    fn near(&self, key: u64) -> u64 {
        let distance = (key.wrapping_sub(self.present) as i64).unsigned_abs();
        if distance < FAR { key } else { self.present }
    }

    fn write(&mut self) {
        while self.bytes.len() > 0 && self.steps.len() + self.walked < WORK_MAX {
            let operation = self.byte();
            match operation % 12 {
                0 | 1 => self.touch(),
                2 => drop(self.pop()),
                3 => {
                    let increment = self.byte() << (operation >> 3);
                    self.hold(increment);
                }
                4 => self.remove_one(),
                5 => self.requeue_one(),
                6 => self.steps.push(Step::Peek(self.order.first().copied())),
                7 => self.ask(),
                8 => self.walk(),
                9 => self.push_burst(operation >> 4),
                10 => {
                    for _ in 0..self.byte() {
                        self.pop();
                    }
                }
                _ => self.hold_burst(operation >> 4),
            }
        }
        self.walk();
        while !self.order.is_empty() {
            self.pop();
        }
        self.pop();
    }

    fn push(&mut self, item: u32, key: u64) {
        self.insert(item, key);
        self.steps.push(Step::Push(item, key));
    }

    fn insert(&mut self, item: u32, key: u64) {
        let keys = &self.keys;
        let place = self.order.partition_point(|&other| !before(key, keys[other as usize]));
        self.order.insert(place, item);
        self.keys[item as usize] = key;
        self.queued[item as usize] = true;
    }

    fn take(&mut self, place: usize) -> u32 {
        let item = self.order.remove(place);
        self.queued[item as usize] = false;
        item
    }

    fn pop(&mut self) -> Option<u32> {
        let first = (!self.order.is_empty()).then(|| self.take(0));
        self.steps.push(Step::Pop(first));
        if let Some(item) = first {
            let key = self.keys[item as usize];
            if before(self.present, key) {
                self.present = key;
            }
        }
        first
    }

    /// Pushes an item, or gives it a new key.
    fn touch(&mut self) {
        let (item, key) = (self.item(), self.key());
        if self.queued[item as usize] {
            self.requeue(item, key);
        } else {
            self.push(item, key);
        }
    }

    fn requeue(&mut self, item: u32, key: u64) {
        self.order.retain(|&other| other != item);
        self.insert(item, key);
        self.steps.push(Step::Requeue(item, key));
    }

    /// A queued item, by its place in order, from either end.
    fn place(&mut self) -> Option<usize> {
        let place = self.byte() as usize;
        let len = self.order.len();
        let from_end = place % 2 == 1;
        (len > 0).then(|| place / 2 % len).map(|at| if from_end { len - 1 - at } else { at })
    }

    fn remove_one(&mut self) {
        if let Some(place) = self.place() {
            let item = self.take(place);
            self.steps.push(Step::Remove(item));
        }
    }

    fn requeue_one(&mut self) {
        if let Some(place) = self.place() {
            let (item, key) = (self.order[place], self.key());
            self.requeue(item, key);
        }
    }

    fn hold(&mut self, increment: u64) {
        if let Some(item) = self.pop() {
            let key = self.near(self.keys[item as usize].wrapping_add(increment));
            self.push(item, key);
        }
    }

    fn ask(&mut self) {
        let item = self.item();
        let (key, queued) = (self.keys[item as usize], self.queued[item as usize]);
        self.steps.push(Step::Ask(self.order.len(), item, key, queued));
    }

    fn walk(&mut self) {
        let all = self.order.iter().map(|&item| (item, self.keys[item as usize])).collect();
        self.walked += self.order.len();
        self.steps.push(Step::Walk(all));
    }

    /// Increments of a burst: alike, rising, random, in steps, or rarely long.
    fn increment(kind: u64, size: u32, turn: u64, random: &mut Random) -> u64 {
        match kind % 8 {
            0 => 0,
            1 => 1 << size,
            2 => turn << size,
            3 => random.below(1 << size),
            4 => random.below(8) << size,
            5 if turn.is_multiple_of(16) => 1 << size,
            5 => random.below(1 << 10),
            6 => (1 << 10) - (turn & 1023),
            _ => random.below(1 << (1 + turn % (1 + u64::from(size)))),
        }
    }

    /// Pushes all items of a stretch that are not queued.
    fn push_burst(&mut self, kind: u64) {
        let (from, count) = (self.item(), self.byte() * 2);
        let (size, base) = ((self.byte() % 50) as u32, self.key());
        let mut random = Random::new(count ^ base);
        for turn in 0..count {
            let item = ((u64::from(from) + turn) % self.keys.len() as u64) as u32;
            if !self.queued[item as usize] {
                let ahead = Self::increment(kind, size, turn, &mut random);
                let key = self.near(base.wrapping_add(ahead));
                self.push(item, key);
            }
        }
    }

    /// The loop of 2007, some turns of it.
    fn hold_burst(&mut self, kind: u64) {
        let (count, size) = (self.byte() * 2, (self.byte() % 50) as u32);
        let mut random = Random::new(count);
        for turn in 0..count {
            let increment = Self::increment(kind, size, turn, &mut random);
            self.hold(increment);
        }
    }
}
