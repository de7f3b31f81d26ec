//! The loops over many keys at once, in three forms: plain Rust, and by hand for AVX2
//! and AVX-512, where a compiler does not find what matters. Which one runs is settled when a
//! queue is made.

use super::chunks::{CHUNK, Chunk};
use std::ops::Range;

/// Room for entries of the first tier: 16 AVX-512 vectors.
pub(super) const PLACES: usize = 128;
/// Places of the front that a refill prepares for insertions by vectors.
pub(super) const PREPARED: usize = 32;

/// Entries of the first tier, in order. A vector of nothing follows, so that the last one has a
/// neighbour.
pub(super) type Sorted = [u64; PLACES + 8];

/// What the processor can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// Nothing is asked of it.
    Scalar,
    /// 256-bit vectors.
    Avx2,
    /// 512-bit vectors with masks.
    Avx512,
}

impl Lanes {
    /// The widest that this processor has.
    #[must_use]
    pub fn detect() -> Self {
        [Lanes::Avx512, Lanes::Avx2]
            .into_iter()
            .find(|lanes| lanes.is_here())
            .unwrap_or(Lanes::Scalar)
    }

    /// Whether this processor has them.
    #[must_use]
    pub fn is_here(self) -> bool {
        match self {
            Lanes::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
            }
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx512 => {
                Lanes::Avx2.is_here()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }
}

macro_rules! dispatch {
    ($lanes:expr, $name:ident ( $($arg:expr),* )) => {
        match $lanes {
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx512 => {
                #[allow(unsafe_code)]
                // SAFETY: a queue is made with these lanes only if the processor has them.
                let done = unsafe { avx512::$name($($arg),*) };
                done
            }
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx2 => {
                #[allow(unsafe_code)]
                // SAFETY: as above.
                let done = unsafe { avx2::$name($($arg),*) };
                done
            }
            _ => plain::$name($($arg),*),
        }
    };
}

/// Takes the first of `count` sorted entries out and puts another in:
/// `R[i] = max(A[i], min(entry, A[i + 1]))`. `NOTHING` only closes the gap.
#[inline(always)]
pub(super) fn replace_first(lanes: Lanes, sorted: &mut Sorted, count: usize, entry: u64) {
    dispatch!(lanes, replace_first(sorted, count, entry));
}

/// Puts an entry among `count` sorted ones: `R[i] = min(A[i], max(entry, A[i - 1]))`.
#[inline(always)]
pub(super) fn insert(lanes: Lanes, sorted: &mut Sorted, count: usize, entry: u64) {
    dispatch!(lanes, insert(sorted, count, entry));
}

/// Takes the entry `out`, which must be there, out of `count` sorted ones, and puts another in,
/// as the two above do.
#[inline(always)]
pub(super) fn replace(lanes: Lanes, sorted: &mut Sorted, count: usize, out: u64, entry: u64) {
    dispatch!(lanes, replace(sorted, count, out, entry));
}

/// Puts an entry into the first `PREPARED` places of the front, behind all that are not after it.
/// Whatever is not an entry before those of the front may be spoilt, behind them are holes.
#[inline(always)]
pub(super) fn insert_front(lanes: Lanes, keys: &mut [i64], tags: &mut [u64], key: i64, tag: u64) {
    dispatch!(lanes, insert_front(keys, tags, key, tag));
}

/// Writes the `entries` of one or two chunks, whose keys are in this stretch or equal to its end,
/// where younger ones wait behind it, to `to_keys` and `to_tags` in order, those of the first chunk
/// first where keys are equal. Holes follow.
#[inline(always)]
pub(super) fn sort_chunks(
    lanes: Lanes,
    first: &Chunk,
    second: &Chunk,
    entries: usize,
    stretch: &Range<i64>,
    to_keys: &mut [i64],
    to_tags: &mut [u64],
) {
    debug_assert!([first, second].iter().flat_map(|chunk| &chunk.keys).all(|&key| {
        key == super::chunks::HOLE || (stretch.start..=stretch.end).contains(&key)
    }));
    dispatch!(lanes, sort_chunks(first, second, entries, stretch, to_keys, to_tags));
}

/// Asks for a cache line that will be written to soon.
#[allow(unsafe_code)]
#[inline(always)]
pub(super) fn fetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads and writes nothing.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>((&raw const *place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Asks for the cache lines of a chunk.
#[inline(always)]
pub(super) fn fetch_lines(chunk: &Chunk) {
    fetch(&chunk.keys[0]);
    fetch(&chunk.keys[CHUNK / 2]);
    fetch(&chunk.tags[0]);
    fetch(&chunk.tags[CHUNK / 2]);
}

/// The loops in plain Rust, which compilers turn into vectors as far as they can.
mod plain {
    use super::*;

    // As floating-point numbers, of which compilers make vectors of any processor.
    #[inline(always)]
    fn min(a: u64, b: u64) -> u64 {
        let (a, b) = (f64::from_bits(a), f64::from_bits(b));
        (if a < b { a } else { b }).to_bits()
    }

    #[inline(always)]
    fn max(a: u64, b: u64) -> u64 {
        let (a, b) = (f64::from_bits(a), f64::from_bits(b));
        (if a > b { a } else { b }).to_bits()
    }

    /// The eight numbers from `at` on.
    #[inline(always)]
    fn eight(from: &[u64], at: usize) -> [u64; 8] {
        std::array::from_fn(|lane| from[at..at + 8][lane])
    }

    #[inline(always)]
    pub fn replace_first(sorted: &mut Sorted, count: usize, entry: u64) {
        for at in (0..count.min(PLACES)).step_by(8) {
            let (here, next) = (eight(sorted, at), eight(sorted, at + 1));
            for lane in 0..8 {
                sorted[at..at + 8][lane] = max(here[lane], min(entry, next[lane]));
            }
        }
    }

    /// How many of the first `count` are smaller.
    #[inline(always)]
    fn smaller(sorted: &Sorted, count: usize, entry: u64) -> usize {
        let entry = f64::from_bits(entry);
        let sorted = &sorted[..count.min(PLACES)];
        sorted.iter().map(|other| u64::from(f64::from_bits(*other) < entry)).sum::<u64>() as usize
    }

    #[inline(always)]
    pub fn insert(sorted: &mut Sorted, count: usize, entry: u64) {
        let to = smaller(sorted, count, entry);
        sorted.copy_within(to..count, to + 1);
        sorted[to] = entry;
    }

    #[inline(always)]
    pub fn replace(sorted: &mut Sorted, count: usize, out: u64, entry: u64) {
        let (from, to) = (smaller(sorted, count, out), smaller(sorted, count, entry));
        if from < to {
            sorted.copy_within(from + 1..to, from);
            sorted[to - 1] = entry;
        } else {
            sorted.copy_within(to..from, to + 1);
            sorted[to] = entry;
        }
    }

    #[inline(always)]
    pub fn insert_front(keys: &mut [i64], tags: &mut [u64], key: i64, tag: u64) {
        let (keys, tags) = (&mut keys[..PREPARED], &mut tags[..PREPARED]);
        // From behind: places before the front's first entry may hold anything.
        let mut place = PREPARED - 1;
        while place > 0 && keys[place - 1] > key {
            keys[place] = keys[place - 1];
            tags[place] = tags[place - 1];
            place -= 1;
        }
        keys[place] = key;
        tags[place] = tag;
    }

    #[inline(always)]
    pub fn sort_chunks(
        first: &Chunk,
        second: &Chunk,
        entries: usize,
        _stretch: &Range<i64>,
        to_keys: &mut [i64],
        to_tags: &mut [u64],
    ) {
        match entries {
            0..=8 => rank::<8>(first, second, to_keys, to_tags),
            9..=16 => rank::<16>(first, second, to_keys, to_tags),
            _ => rank::<32>(first, second, to_keys, to_tags),
        }
    }

    /// A place's rank is how many keys are smaller, or equal and before it.
    #[inline(always)]
    fn rank<const COUNT: usize>(
        first: &Chunk,
        second: &Chunk,
        to_keys: &mut [i64],
        to_tags: &mut [u64],
    ) {
        let chunk = |place: usize| if place < CHUNK { first } else { second };
        let keys: [i64; COUNT] = std::array::from_fn(|place| chunk(place).keys[place % CHUNK]);
        let tags: [u64; COUNT] = std::array::from_fn(|place| chunk(place).tags[place % CHUNK]);
        let mut ranks = [0u64; COUNT];
        for other in 0..COUNT {
            for place in 0..COUNT {
                let first =
                    (keys[other] < keys[place]) | ((keys[other] == keys[place]) & (other < place));
                ranks[place] += u64::from(first);
            }
        }
        let (to_keys, to_tags) = (&mut to_keys[..COUNT], &mut to_tags[..COUNT]);
        for place in 0..COUNT {
            let rank = ranks[place] as usize % COUNT;
            to_keys[rank] = keys[place];
            to_tags[rank] = tags[place];
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

#[cfg(test)]
mod tests {
    //! Goal: all forms sort as the plain one does. Method: random chunks with holes, in stretches
    //! of all lengths, of keys that tie, or differ in their lowest bits only.

    use super::super::chunks::HOLE;
    use super::*;
    use crate::hold::Random;

    const ROOM: usize = 2 * CHUNK;

    fn sorted(lanes: Lanes, chunks: &[Chunk; 2], places: usize, stretch: &Range<i64>) -> Vec<i64> {
        let (mut keys, mut tags) = ([HOLE; ROOM], [0; ROOM]);
        sort_chunks(lanes, &chunks[0], &chunks[1], places, stretch, &mut keys, &mut tags);
        let entries = std::iter::zip(keys, tags).take_while(|entry| entry.0 != HOLE);
        entries.flat_map(|(key, tag)| [key, tag as i64]).collect()
    }

    #[test]
    fn every_form_sorts_slots_of_any_width_as_the_plain_one_does() {
        let mut random = Random::new(5);
        for round in 0..40_000 {
            let (bits, places) = (round % 60, 1 + random.below(ROOM as u64) as usize);
            let start = random.below(1 << 60) as i64 - (1 << 59);
            let stretch = start..start + (1 << bits);
            // All in the stretch, some of which differ in so few bits that a network that drops
            // bits does not see it.
            let few = random.below(bits + 1);
            let mut chunks = [Chunk::BLANK, Chunk::BLANK];
            for place in 0..places {
                let width = if random.below(3) == 0 { bits } else { few };
                let key = start + random.below((1 << width) + 1) as i64;
                let hole = random.below(6) == 0;
                let chunk = &mut chunks[place / CHUNK];
                chunk.keys[place % CHUNK] = if hole { HOLE } else { key };
                chunk.tags[place % CHUNK] = place as u64;
            }
            let plain = sorted(Lanes::Scalar, &chunks, places, &stretch);
            for lanes in [Lanes::Avx2, Lanes::Avx512].into_iter().filter(|lanes| lanes.is_here()) {
                let ours = sorted(lanes, &chunks, places, &stretch);
                assert_eq!(ours, plain, "round {round}, {lanes:?}, {places} in {stretch:?}");
            }
        }
    }
}
