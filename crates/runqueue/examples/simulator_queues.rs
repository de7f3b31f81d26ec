//! Which structure serves each of the simulator's three queues best: `cargo run --release -p
//! runqueue --example simulator_queues`. `docs/speed.md` has a run of it and what was chosen.
//!
//! - **Next events**: one key a CPU and one for all timers. The first is replaced by a later one;
//!   every other time another CPU's is replaced before it came, as a wake-up does.
//! - **Timers**: as many as tasks sleep. The first goes, another one comes.
//! - **Virtual time**: as many as tasks wait in a dispatch queue. The first goes and comes back
//!   later, and every fourth time one from the middle leaves and comes back.
//!
//! All candidates of a job do the same operations on the same keys and must name the same winners.
//! Rounds are interleaved, each begins with another candidate, and the minimum is printed.

use runqueue::hold::{Random, mix};
use runqueue::{
    ExactTimeRing, FourAryHeap, Key, Ordered, PairingHeap, RedBlackTree, RunQueue, Tournament,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

const ROUNDS: usize = 9;
const OPERATIONS: u64 = 200_000;
const MEAN_NS: u64 = 1 << 20;

/// What the jobs ask for. Items are `0..n`; `replace` takes the item out if it is in.
trait Candidate {
    fn replace(&mut self, item: u32, key: u64);
    fn first(&mut self) -> (u32, u64);
}

/// As in the simulator: a time and a turn, compared as one number.
impl Candidate for Tournament<u128> {
    fn replace(&mut self, item: u32, key: u64) {
        self.set(item as usize, u128::from(key) << 64 | u128::from(item));
    }
    fn first(&mut self) -> (u32, u64) {
        let key = Tournament::first(self);
        (key as u32, (key >> 64) as u64)
    }
}

/// Any run queue.
struct Queue<Q>(Q);

impl<Q: RunQueue> Candidate for Queue<Q> {
    fn replace(&mut self, item: u32, key: u64) {
        if self.0.contains(item) {
            self.0.requeue(item, key);
        } else {
            self.0.push(item, key);
        }
    }
    fn first(&mut self) -> (u32, u64) {
        let item = self.0.peek().expect("it is never empty");
        (item, self.0.key(item))
    }
}

/// The standard library's heap, which can replace only its first.
#[derive(Default)]
struct Heap(BinaryHeap<Reverse<(u64, u32)>>);

impl Candidate for Heap {
    fn replace(&mut self, item: u32, key: u64) {
        match self.0.peek_mut() {
            Some(mut first) if first.0.1 == item => first.0.0 = key,
            other => {
                drop(other);
                self.0.push(Reverse((key, item)));
            }
        }
    }
    fn first(&mut self) -> (u32, u64) {
        let Reverse((key, item)) = *self.0.peek().expect("it is never empty");
        (item, key)
    }
}

/// The simulator's queue by virtual time: a B-tree and, in the tasks, what they were queued by.
struct ByVtime {
    queue: Ordered,
    keys: Vec<Option<Key>>,
    arrivals: u64,
}

impl Candidate for ByVtime {
    fn replace(&mut self, item: u32, key: u64) {
        if let Some(key) = self.keys[item as usize].take() {
            self.queue.remove(key);
        }
        self.arrivals += 1;
        let key = Key { at: key as i64, arrival: self.arrivals };
        self.keys[item as usize] = Some(key);
        self.queue.push(key, item);
    }
    fn first(&mut self) -> (u32, u64) {
        let item = self.queue.first().expect("it is never empty");
        (item, self.keys[item as usize].map_or(0, |key| key.at as u64))
    }
}

/// A job: its name, sizes, and how often (of four times) another item than the first is replaced.
struct Job {
    name: &'static str,
    sizes: &'static [u32],
    others_of_four: u64,
    candidates: fn(u32) -> Vec<(&'static str, Racer)>,
}

type Racer = Box<dyn FnMut(u64, u64) -> u64>;

/// A key some time after another one, which no other item can have: winners must not be chance.
fn later(key: u64, item: u32, random: &mut Random) -> u64 {
    const ITEM_BITS: u32 = 14;
    ((key >> ITEM_BITS) + 1 + random.below(2 * MEAN_NS)) << ITEM_BITS | u64::from(item)
}

/// A racer of this candidate: does operations from a seed on, and returns a hash of the winners.
fn racer(mut candidate: impl Candidate + 'static, items: u32) -> Racer {
    let mut random = Random::new(7);
    for item in 0..items {
        candidate.replace(item, later(0, item, &mut random));
    }
    Box::new(move |operations, others_of_four| {
        let mut winners = 0;
        for operation in 0..operations {
            let (item, key) = candidate.first();
            winners = mix(winners, item, key);
            candidate.replace(item, later(key, item, &mut random));
            if operation % 4 < others_of_four {
                let other = random.below(u64::from(items)) as u32;
                candidate.replace(other, later(key, other, &mut random));
            }
        }
        winners
    })
}

macro_rules! candidates {
    ($items:expr; $($name:literal: $made:expr),* $(,)?) => {
        vec![$(($name, racer($made, $items))),*]
    };
}

fn next_events(items: u32) -> Vec<(&'static str, Racer)> {
    let capacity = items as usize;
    candidates![items;
        "tournament": Tournament::new(capacity, u128::MAX),
        "exact_time_ring": Queue(ExactTimeRing::with_capacity(capacity)),
        "four_ary_heap": Queue(FourAryHeap::with_capacity(capacity)),
        "pairing_heap": Queue(PairingHeap::with_capacity(capacity)),
        "red_black_tree": Queue(RedBlackTree::with_capacity(capacity)),
    ]
}

fn timers(items: u32) -> Vec<(&'static str, Racer)> {
    let capacity = items as usize;
    candidates![items;
        "rust_binary_heap": Heap::default(),
        "exact_time_ring": Queue(ExactTimeRing::with_capacity(capacity)),
        "four_ary_heap": Queue(FourAryHeap::with_capacity(capacity)),
        "red_black_tree": Queue(RedBlackTree::with_capacity(capacity)),
    ]
}

fn by_vtime(items: u32) -> Vec<(&'static str, Racer)> {
    let capacity = items as usize;
    candidates![items;
        "ordered": ByVtime {
            queue: Ordered::default(), keys: vec![None; capacity], arrivals: 0,
        },
        "exact_time_ring": Queue(ExactTimeRing::with_capacity(capacity)),
        "red_black_tree": Queue(RedBlackTree::with_capacity(capacity)),
    ]
}

const JOBS: [Job; 3] = [
    Job {
        name: "next events",
        sizes: &[3, 9, 65, 257, 1025],
        others_of_four: 2,
        candidates: next_events,
    },
    Job { name: "timers", sizes: &[10, 100, 1000, 10_000], others_of_four: 0, candidates: timers },
    Job {
        name: "virtual time",
        sizes: &[2, 10, 50, 400, 10_000],
        others_of_four: 1,
        candidates: by_vtime,
    },
];

fn main() {
    for job in &JOBS {
        println!("{}: nanoseconds an operation, minimum of {ROUNDS} rounds", job.name);
        print!("{:<20}", "");
        job.sizes.iter().for_each(|items| print!("{items:>10}"));
        println!();
        let mut table: Vec<(&str, Vec<f64>)> = Vec::new();
        for &items in job.sizes {
            for (name, ns) in measured(job, items) {
                match table.iter_mut().find(|row| row.0 == name) {
                    Some(row) => row.1.push(ns),
                    None => table.push((name, vec![ns])),
                }
            }
        }
        for (name, row) in table {
            print!("{name:<20}");
            row.iter().for_each(|ns| print!("{ns:>10.1}"));
            println!();
        }
    }
}

/// The candidates and the fewest nanoseconds that an operation took.
fn measured(job: &Job, items: u32) -> Vec<(&'static str, f64)> {
    let mut racers = (job.candidates)(items);
    let mut least = vec![f64::INFINITY; racers.len()];
    for round in 0..ROUNDS {
        let mut winners = Vec::new();
        for step in 0..racers.len() {
            let place = (round + step) % racers.len();
            let begin = Instant::now();
            winners.push((racers[place].1)(OPERATIONS, job.others_of_four));
            let ns = begin.elapsed().as_nanos() as f64 / OPERATIONS as f64;
            least[place] = least[place].min(ns);
        }
        assert!(winners.iter().all(|&hash| hash == winners[0]), "{}: winners differ", job.name);
    }
    racers.iter().map(|(name, _)| *name).zip(least).collect()
}
