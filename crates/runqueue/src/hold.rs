//! The loop of 2007 and the keys it is run with.
//!
//! The hold model: take the first item, give it a later key, queue it again. It is what a
//! scheduler does with tasks that never sleep, and the measure of April 2007's race. The original
//! program is not to be had; its post fixes "one dequeue and one queue a loop", not the keys, so
//! eight distributions of increments stand in for them.
//!
//! Source: J. Vaucher, P. Duval, "A comparison of simulation event list algorithms", 1975;
//! D. Jones, "An empirical comparison of priority-queue and event-set implementations", 1986.

use std::ops::Range;

use crate::RunQueue;

/// How many increments are drawn; the loop goes through them in turn.
pub const INCREMENTS: usize = 1 << 16;

/// A mean slice of 2.1 ms, in nanoseconds.
const MEAN_NS: u64 = 1 << 21;

/// A coarse clock's tick: 2^19 ns.
const TICK_SHIFT: u32 = 19;

/// What is added to the key of an item that was popped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// 1 to 2^22, all alike.
    Uniform,
    /// Always 2^21: round robin.
    Constant,
    /// Exponential with a mean of 2^21.
    Exponential,
    /// Nine of ten as uniform, one of ten 128 times as long.
    Bimodal,
    /// One of eight values, multiples of a tick of 2^19.
    Ties,
    /// As uniform, divided by a weight of the item: CFS's 40 nice levels.
    Weighted,
    /// 1 to 2^44, all alike.
    Wide,
    /// 0.9 to 1.1 times 2^21.
    Biased,
}

/// All distributions, by the numbers they go by in tables: d0 to d7.
pub const ALL_KEYS: [Keys; 8] = [
    Keys::Uniform,
    Keys::Constant,
    Keys::Exponential,
    Keys::Bimodal,
    Keys::Ties,
    Keys::Weighted,
    Keys::Wide,
    Keys::Biased,
];

impl Keys {
    /// The distribution's name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Keys::Uniform => "uniform",
            Keys::Constant => "constant",
            Keys::Exponential => "exponential",
            Keys::Bimodal => "bimodal",
            Keys::Ties => "ties",
            Keys::Weighted => "weighted",
            Keys::Wide => "wide",
            Keys::Biased => "biased",
        }
    }

    fn draw(self, random: &mut Random) -> u64 {
        let uniform = 1 + random.below(2 * MEAN_NS);
        match self {
            Keys::Uniform | Keys::Weighted => uniform,
            Keys::Constant => MEAN_NS,
            Keys::Exponential => {
                let unit = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
                1 + (-(1.0 - unit).ln() * MEAN_NS as f64) as u64
            }
            Keys::Bimodal if random.below(10) == 0 => 128 * uniform,
            Keys::Bimodal => uniform,
            Keys::Ties => (1 + random.below(8)) << TICK_SHIFT,
            Keys::Wide => 1 + random.below(1 << 44),
            Keys::Biased => MEAN_NS * 9 / 10 + random.below(MEAN_NS / 5),
        }
    }
}

/// A generator of random numbers, the same everywhere: splitmix64 (G. Steele and others, 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// What [`new`](Self::new) takes to go on from here.
    pub fn state(&self) -> u64 {
        self.0
    }

    /// The next 64 bits.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    /// A number in `0..bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// Increments, and the first keys of a queue that has been in use for long.
#[derive(Clone, Debug)]
pub struct Increments {
    table: Box<[u64; INCREMENTS]>,
    /// 1024 divided by the item's weight over 1024, for [`Keys::Weighted`].
    slowness: [u64; 64],
    weighted: bool,
    /// Whether keys are multiples of a tick, the first ones too, or nothing would tie.
    ticking: bool,
}

impl Increments {
    /// Draws the increments of a distribution.
    pub fn new(keys: Keys, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut table = Box::new([0; INCREMENTS]);
        table.fill_with(|| keys.draw(&mut random));
        // Each nice level changes the weight by a quarter, 1024 at nice 0: nice -20 to 19, and
        // items beyond the 40th begin again.
        let slowness = std::array::from_fn(|index| {
            (1024.0 * 1.25f64.powi((index % 40) as i32 - 20)).round() as u64
        });
        Increments {
            table,
            slowness,
            weighted: keys == Keys::Weighted,
            ticking: keys == Keys::Ties,
        }
    }

    /// What was drawn, for loops written in another language.
    pub fn table(&self) -> &[u64; INCREMENTS] {
        &self.table
    }

    /// By how much each of 64 items in a row is slowed down, in 1024ths; `None` if all are alike.
    pub fn slowness(&self) -> Option<&[u64; 64]> {
        self.weighted.then_some(&self.slowness)
    }

    /// What loop number `round` adds to the key of `item`; `WEIGHTED` says that items differ.
    #[inline(always)]
    pub fn of<const WEIGHTED: bool>(&self, round: usize, item: u32) -> u64 {
        let increment = self.table[round % INCREMENTS];
        if WEIGHTED {
            ((increment * self.slowness[item as usize % 64]) >> 10) + 1
        } else {
            increment
        }
    }

    /// Queues `items` with keys from `start` on, as far ahead as they would be after a long time:
    /// a long increment is met with the probability of its length, anywhere inside it.
    pub fn fill<Q: RunQueue>(&self, queue: &mut Q, items: u32, start: u64, seed: u64) {
        self.first_keys(items, start, seed, |item, key| queue.push(item, key));
    }

    /// Shows each of `items` and the key that [`fill`](Self::fill) queues it with.
    pub fn first_keys(&self, items: u32, start: u64, seed: u64, mut show: impl FnMut(u32, u64)) {
        let mut random = Random::new(seed);
        let longest = self.table.iter().copied().max().unwrap_or(1);
        for item in 0..items {
            let mut increment;
            loop {
                increment = self.table[random.below(INCREMENTS as u64) as usize];
                if random.below(longest) < increment {
                    break;
                }
            }
            let slowness = if self.weighted { self.slowness[item as usize % 64] } else { 1024 };
            let mut ahead = (random.below(increment) * slowness) >> 10;
            if self.ticking {
                ahead = ahead >> TICK_SHIFT << TICK_SHIFT;
            }
            show(item, start.wrapping_add(ahead));
        }
    }

    /// The loop: takes the first item and queues it again with a later key, `loops` times from
    /// `round` on.
    #[inline(never)]
    pub fn hold<Q: RunQueue>(&self, queue: &mut Q, round: usize, loops: usize) {
        if self.weighted {
            self.hold_loop::<Q, true>(queue, round, loops);
        } else {
            self.hold_loop::<Q, false>(queue, round, loops);
        }
    }

    #[inline(always)]
    fn hold_loop<Q: RunQueue, const WEIGHTED: bool>(
        &self,
        queue: &mut Q,
        round: usize,
        loops: usize,
    ) {
        for round in round..round + loops {
            if !self.hold_once::<Q, WEIGHTED>(queue, round) {
                return;
            }
        }
    }

    /// The loop with sleepers: after each turn a random queued item of `items` is removed and
    /// queued again with the key it had.
    #[inline(never)]
    pub fn hold_and_remove<Q: RunQueue>(
        &self,
        queue: &mut Q,
        items: u32,
        round: usize,
        loops: usize,
        random: &mut Random,
    ) {
        let rounds = round..round + loops;
        if self.weighted {
            self.hold_and_remove_loop::<Q, true>(queue, items, rounds, random);
        } else {
            self.hold_and_remove_loop::<Q, false>(queue, items, rounds, random);
        }
    }

    /// One loop with both operations in it, as entrants in C++ have it: no call once a turn.
    #[inline(always)]
    fn hold_and_remove_loop<Q: RunQueue, const WEIGHTED: bool>(
        &self,
        queue: &mut Q,
        items: u32,
        rounds: Range<usize>,
        random: &mut Random,
    ) {
        // A copy, so that no store to a key can change it.
        let mut chance = random.clone();
        for round in rounds {
            if !self.hold_once::<Q, WEIGHTED>(queue, round) {
                break;
            }
            let sleeper = chance.below(u64::from(items)) as u32;
            let key = queue.key(sleeper);
            queue.remove(sleeper);
            queue.push(sleeper, key);
        }
        *random = chance;
    }

    /// One turn; whether anything was queued.
    #[inline(always)]
    fn hold_once<Q: RunQueue, const WEIGHTED: bool>(&self, queue: &mut Q, round: usize) -> bool {
        let Some(item) = queue.pop() else { return false };
        let key = queue.key(item).wrapping_add(self.of::<WEIGHTED>(round, item));
        queue.push(item, key);
        true
    }
}

/// Mixes one popped item into a hash of the order of all.
#[inline]
pub fn mix(hash: u64, item: u32, key: u64) -> u64 {
    (hash ^ u64::from(item) ^ key.rotate_left(32))
        .wrapping_mul(0x0000_0100_0000_01b3)
        .rotate_left(5)
}

#[cfg(test)]
mod tests {
    //! Goal: keys are what their names say. Method: count and average what was drawn.

    use super::*;
    use crate::RedBlackTree;
    use std::collections::BTreeSet;

    #[test]
    fn ties_are_many_and_all_other_keys_are_rarely_equal() {
        for keys in ALL_KEYS {
            let mut queue = RedBlackTree::with_capacity(1000);
            let increments = Increments::new(keys, 1);
            increments.fill(&mut queue, 1000, 0, 3);
            increments.hold(&mut queue, 0, 5000);
            let mut different = BTreeSet::new();
            queue.for_each(&mut |_, key| {
                different.insert(key);
            });
            assert_eq!(different.len() < 20, keys == Keys::Ties, "{keys:?}: {}", different.len());
        }
    }

    #[test]
    fn the_loop_with_sleepers_is_a_turn_and_a_removal_each() {
        for keys in [Keys::Uniform, Keys::Weighted] {
            let increments = Increments::new(keys, 1);
            let mut queues = [(); 2].map(|()| RedBlackTree::with_capacity(50));
            let mut random = [(); 2].map(|()| Random::new(7));
            for queue in &mut queues {
                increments.fill(queue, 50, 0, 3);
            }
            increments.hold_and_remove(&mut queues[0], 50, 5, 1000, &mut random[0]);
            for round in 5..1005 {
                increments.hold(&mut queues[1], round, 1);
                let sleeper = random[1].below(50) as u32;
                let key = queues[1].key(sleeper);
                queues[1].remove(sleeper);
                queues[1].push(sleeper, key);
            }
            assert_eq!(random[0].state(), random[1].state());
            for pop in 0..50 {
                let [one, other] =
                    queues.each_mut().map(|queue| queue.pop().map(|item| (item, queue.key(item))));
                assert_eq!(one, other, "{keys:?}: pop {pop}");
            }
        }
    }

    #[test]
    fn means_are_those_of_the_distributions() {
        let slice = MEAN_NS as f64;
        for (keys, mean) in [
            (Keys::Uniform, slice),
            (Keys::Constant, slice),
            (Keys::Exponential, slice),
            (Keys::Bimodal, slice * (0.9 + 0.1 * 128.0)),
            (Keys::Ties, 4.5 * (1 << TICK_SHIFT) as f64),
            (Keys::Wide, (1u64 << 43) as f64),
            (Keys::Biased, slice),
        ] {
            let table = Increments::new(keys, 1).table;
            let drawn = table.iter().map(|&next| next as f64).sum::<f64>() / INCREMENTS as f64;
            assert!((drawn / mean - 1.0).abs() < 0.03, "{keys:?}: {drawn} and not {mean}");
        }
    }
}
