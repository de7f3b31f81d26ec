//! Races the structures over the loop of 2007, to tune them: `cargo run --release -p runqueue
//! --example hold_loop -- [sizes] [keys] [names] [rounds] [remove]`.
//!
//! All structures take part in every round, each round begins with another one, and the minimum
//! and the median of the rounds are printed: ticks of the time stamp counter a loop. Pin it to one
//! processor: `taskset -c 1`. The rounds of one row are comparable with each other; two runs are
//! only where the machine was idle. Sizes and names are separated by commas; `all` means all.

use runqueue::hold::{ALL_KEYS, Increments, Keys, Random};
use runqueue::*;
use std::collections::{BTreeMap, BinaryHeap as StdHeap};

/// What a race asks of a structure, with its type forgotten.
trait Racer {
    fn name(&self) -> &'static str;
    fn run(&mut self, increments: &Increments, loops: usize, removing: bool) -> u64;
    fn bytes_an_item(&self) -> usize;
}

struct Entrant<Q> {
    queue: Q,
    items: u32,
    round: usize,
    random: Random,
}

impl<Q: RunQueue> Entrant<Q> {
    fn boxed(items: u32) -> Box<dyn Racer>
    where
        Q: 'static,
    {
        let queue = Q::with_capacity(items as usize);
        Box::new(Entrant { queue, items, round: 0, random: Random::new(9) })
    }
}

impl<Q: RunQueue> Racer for Entrant<Q> {
    fn name(&self) -> &'static str {
        Q::NAME
    }

    fn run(&mut self, increments: &Increments, loops: usize, removing: bool) -> u64 {
        if self.queue.is_empty() {
            increments.fill(&mut self.queue, self.items, 0, 3);
        }
        let begin = ticks();
        if removing {
            let (queue, random) = (&mut self.queue, &mut self.random);
            increments.hold_and_remove(queue, self.items, self.round, loops, random);
        } else {
            increments.hold(&mut self.queue, self.round, loops);
        }
        let end = ticks();
        self.round += loops;
        end - begin
    }

    fn bytes_an_item(&self) -> usize {
        self.queue.memory_bytes() / self.items as usize
    }
}

/// The time stamp counter, all earlier instructions done.
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: both instructions exist on every x86-64 processor and touch no memory.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        let ticks = std::arch::x86_64::_rdtsc();
        std::arch::x86_64::_mm_lfence();
        ticks
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::sync::OnceLock;
        use std::time::Instant;
        static BEGIN: OnceLock<Instant> = OnceLock::new();
        BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

#[derive(Clone)]
#[repr(align(64))]
struct Line {
    key: u64,
    serial: u64,
}

/// The standard library's B-tree, with serial numbers for ties.
struct StdBTreeMap {
    tree: BTreeMap<(i64, u64), u32>,
    lines: Vec<Line>,
    serial: u64,
}

impl RunQueue for StdBTreeMap {
    const NAME: &'static str = "rust_btree_map";
    fn with_capacity(capacity: usize) -> Self {
        let lines = vec![Line { key: 0, serial: u64::MAX }; capacity];
        StdBTreeMap { tree: BTreeMap::new(), lines, serial: 0 }
    }
    fn push(&mut self, item: u32, key: u64) {
        self.lines[item as usize] = Line { key, serial: self.serial };
        self.tree.insert((key as i64, self.serial), item);
        self.serial += 1;
    }
    fn pop(&mut self) -> Option<u32> {
        self.tree.pop_first().map(|(_, item)| item)
    }
    fn peek(&mut self) -> Option<u32> {
        self.tree.first_key_value().map(|(_, &item)| item)
    }
    fn remove(&mut self, item: u32) {
        let Line { key, serial } = self.lines[item as usize];
        self.tree.remove(&(key as i64, serial));
    }
    fn key(&self, item: u32) -> u64 {
        self.lines[item as usize].key
    }
    fn contains(&self, item: u32) -> bool {
        let Line { key, serial } = self.lines[item as usize];
        self.tree.contains_key(&(key as i64, serial))
    }
    fn len(&self) -> usize {
        self.tree.len()
    }
    fn for_each(&mut self, visit: &mut dyn FnMut(u32, u64)) {
        self.tree.iter().for_each(|(&(key, _), &item)| visit(item, key as u64));
    }
    fn memory_bytes(&self) -> usize {
        // The tree itself cannot be asked: a guess of its leaves, two thirds full.
        self.lines.len() * (size_of::<Line>() + 24 * 3 / 2)
    }
}

/// The standard library's heap, with serial numbers for ties. It cannot remove.
struct StdBinaryHeap {
    heap: StdHeap<std::cmp::Reverse<(i64, u64, u32)>>,
    lines: Vec<Line>,
    serial: u64,
}

impl RunQueue for StdBinaryHeap {
    const NAME: &'static str = "rust_binary_heap";
    fn with_capacity(capacity: usize) -> Self {
        let lines = vec![Line { key: 0, serial: 0 }; capacity];
        StdBinaryHeap { heap: StdHeap::with_capacity(capacity), lines, serial: 0 }
    }
    fn push(&mut self, item: u32, key: u64) {
        self.lines[item as usize].key = key;
        self.heap.push(std::cmp::Reverse((key as i64, self.serial, item)));
        self.serial += 1;
    }
    fn pop(&mut self) -> Option<u32> {
        self.heap.pop().map(|first| first.0.2)
    }
    fn peek(&mut self) -> Option<u32> {
        self.heap.peek().map(|first| first.0.2)
    }
    fn remove(&mut self, _item: u32) {
        unimplemented!("the standard library's heap cannot remove")
    }
    fn key(&self, item: u32) -> u64 {
        self.lines[item as usize].key
    }
    fn contains(&self, _item: u32) -> bool {
        unimplemented!("the standard library's heap cannot be asked")
    }
    fn len(&self) -> usize {
        self.heap.len()
    }
    fn for_each(&mut self, _visit: &mut dyn FnMut(u32, u64)) {
        unimplemented!("the standard library's heap has no order to walk in")
    }
    fn memory_bytes(&self) -> usize {
        self.lines.len() * (size_of::<Line>() + 24)
    }
}

/// Everything that takes part with this many items.
fn entrants(items: u32, removing: bool, ties: bool) -> Vec<Box<dyn Racer>> {
    let mut entrants = vec![
        Entrant::<FifoList>::boxed(items),
        Entrant::<TimeRing>::boxed(items),
        Entrant::<RedBlackTree>::boxed(items),
        Entrant::<GavlTree>::boxed(items),
        Entrant::<GavlTreeDelete>::boxed(items),
        Entrant::<GavlTreePublished>::boxed(items),
        Entrant::<BinaryHeap>::boxed(items),
        Entrant::<FourAryHeap>::boxed(items),
        Entrant::<PairingHeap>::boxed(items),
        Entrant::<SkipList>::boxed(items),
        Entrant::<RadixWheel>::boxed(items),
        Entrant::<StdBTreeMap>::boxed(items),
        Entrant::<ExactTimeRing>::boxed(items),
        Entrant::<ExactTimeRingScalar>::boxed(items),
    ];
    if Lanes::Avx2.is_here() {
        entrants.push(Entrant::<ExactTimeRingAvx2>::boxed(items));
    }
    if Lanes::Avx512.is_here() {
        entrants.push(Entrant::<ExactTimeRingAvx512>::boxed(items));
    }
    if !removing {
        entrants.push(Entrant::<StdBinaryHeap>::boxed(items));
    }
    // These two need minutes a round beyond their limits.
    if !ties || items <= 10_000 {
        entrants.push(Entrant::<CalendarQueue>::boxed(items));
    }
    if items <= 1000 {
        entrants.push(Entrant::<SkipListMuqss>::boxed(items));
    }
    entrants
}

struct Options {
    sizes: Vec<u32>,
    keys: Vec<Keys>,
    names: Option<Vec<String>>,
    rounds: usize,
    removing: bool,
}

fn options() -> Result<Options, String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |place: usize| arguments.get(place).map_or("all", String::as_str);
    let published = "1,2,4,8,10,16,32,64,100,1000,10000,100000,1000000";
    let sizes = if argument(0) == "all" { published } else { argument(0) };
    let sizes = sizes.split(',').map(|size| {
        size.parse().map_err(|_| format!("{size} is no number of items; say for example 10,1000"))
    });
    let keys: Vec<Keys> = ALL_KEYS
        .into_iter()
        .filter(|keys| {
            argument(1) == "all" || argument(1).split(',').any(|name| name == keys.name())
        })
        .collect();
    if keys.is_empty() {
        let names = ALL_KEYS.map(Keys::name).join(", ");
        return Err(format!("{} names no keys; there are {names}", argument(1)));
    }
    let names = (argument(2) != "all").then(|| argument(2).split(',').map(str::to_owned).collect());
    let rounds = if argument(3) == "all" { "9" } else { argument(3) };
    let rounds = rounds.parse().map_err(|_| format!("{rounds} is no number of rounds"))?;
    let sizes = sizes.collect::<Result<_, _>>()?;
    Ok(Options { sizes, keys, names, rounds, removing: argument(4) == "remove" })
}

fn race(keys: Keys, items: u32, options: &Options) {
    let increments = Increments::new(keys, 1);
    let mut entrants = entrants(items, options.removing, keys == Keys::Ties);
    if let Some(names) = &options.names {
        entrants.retain(|entrant| names.iter().any(|name| name == entrant.name()));
    }
    // Long enough to be measured, short enough that nobody disturbs most rounds.
    let loops = (items as usize / 4).clamp(20_000, 250_000);
    for entrant in &mut entrants {
        entrant.run(&increments, 3 * items as usize + 20_000, options.removing);
    }
    let mut measured = vec![Vec::new(); entrants.len()];
    for round in 0..options.rounds {
        for step in 0..entrants.len() {
            let place = (round + step) % entrants.len();
            let ticks = entrants[place].run(&increments, loops, options.removing);
            measured[place].push(ticks as f64 / loops as f64);
        }
    }
    for (entrant, ticks) in entrants.iter().zip(&mut measured) {
        ticks.sort_by(f64::total_cmp);
        println!(
            "{:12} {items:8} {:24} {:9.1} {:9.1} {:6}",
            keys.name(),
            entrant.name(),
            ticks[0],
            ticks[ticks.len() / 2],
            entrant.bytes_an_item(),
        );
    }
}

fn main() {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(2);
        }
    };
    println!("keys            items structure                  min    median  bytes/item");
    for &keys in &options.keys {
        for &items in &options.sizes {
            race(keys, items, &options);
        }
    }
}
