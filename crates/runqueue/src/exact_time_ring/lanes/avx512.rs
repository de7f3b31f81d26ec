//! The loops for AVX-512. Entries are read from and written to the same eight places each time,
//! and moved by one lane in registers: a load that straddles two earlier stores waits for both.

use super::super::chunks::{CHUNK, Chunk};
use super::{PLACES, PREPARED, Sorted};
use bytemuck::{Pod, must_cast};
use std::arch::x86_64::*;
use std::ops::Range;

/// Entries are sorted as numbers of 32 bits, 16 in a vector: the highest so many bits of the key's
/// distance from the start, and below them in 5 bits the place, which keeps equal keys in order.
/// Where the stretch has more bits and keys differ in the lower ones only, all are sorted again.
const NEAR_BITS: u32 = 26;
/// What the place takes of a number.
const PLACE_BITS: u32 = 5;

#[inline]
#[target_feature(enable = "avx512f")]
fn load<T: Pod>(from: &[T], at: usize) -> __m512i {
    must_cast(*from[at..at + 8].first_chunk::<8>().expect("eight numbers"))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store<T: Pod>(to: &mut [T], at: usize, value: __m512i) {
    *to[at..at + 8].first_chunk_mut::<8>().expect("eight numbers") = must_cast(value);
}

#[inline]
#[target_feature(enable = "avx512f")]
fn min(a: __m512i, b: __m512i) -> __m512i {
    _mm512_castpd_si512(_mm512_min_pd(_mm512_castsi512_pd(a), _mm512_castsi512_pd(b)))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn max(a: __m512i, b: __m512i) -> __m512i {
    _mm512_castpd_si512(_mm512_max_pd(_mm512_castsi512_pd(a), _mm512_castsi512_pd(b)))
}

#[target_feature(enable = "avx512f,avx512vl,avx512dq,bmi1,bmi2")]
pub fn replace_first(sorted: &mut Sorted, count: usize, entry: u64) {
    let entry = _mm512_set1_epi64(entry as i64);
    let mut here = load(sorted, 0);
    for at in (0..count.min(PLACES)).step_by(8) {
        let next = load(sorted, at + 8);
        let shifted = _mm512_alignr_epi64::<1>(next, here);
        store(sorted, at, max(here, min(entry, shifted)));
        here = next;
    }
}

#[target_feature(enable = "avx512f,avx512vl,avx512dq,bmi1,bmi2")]
pub fn insert(sorted: &mut Sorted, count: usize, entry: u64) {
    let entry = _mm512_set1_epi64(entry as i64);
    let mut before = _mm512_setzero_si512();
    for at in (0..=count.min(PLACES)).step_by(8) {
        let here = load(sorted, at);
        let shifted = _mm512_alignr_epi64::<7>(here, before);
        store(sorted, at, min(here, max(entry, shifted)));
        before = here;
    }
}

#[target_feature(enable = "avx512f,avx512vl,avx512dq,bmi1,bmi2")]
pub fn replace(sorted: &mut Sorted, count: usize, out: u64, entry: u64) {
    let (out, entry) = (_mm512_set1_epi64(out as i64), _mm512_set1_epi64(entry as i64));
    let (mut old, mut before) = (load(sorted, 0), _mm512_setzero_si512());
    for at in (0..count.min(PLACES)).step_by(8) {
        let next = load(sorted, at + 8);
        // All from the one that leaves on move up by one.
        let moves = _mm512_cmpge_epi64_mask(old, out);
        let here = _mm512_mask_alignr_epi64::<1>(old, moves, next, old);
        let shifted = _mm512_alignr_epi64::<7>(here, before);
        store(sorted, at, min(here, max(entry, shifted)));
        (old, before) = (next, here);
    }
}

/// One vector of an insertion: what stays, the entry, or what was one place before.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,bmi1,bmi2")]
fn moved_up(here: [__m512i; 2], before: [__m512i; 2], entry: [__m512i; 2]) -> [__m512i; 2] {
    let shifted = _mm512_alignr_epi64::<7>(here[0], before[0]);
    let shifted_tag = _mm512_alignr_epi64::<7>(here[1], before[1]);
    let stays = _mm512_cmple_epi64_mask(here[0], entry[0]);
    let behind = _mm512_cmple_epi64_mask(shifted, entry[0]);
    let key = _mm512_mask_mov_epi64(shifted, behind, entry[0]);
    let tag = _mm512_mask_mov_epi64(shifted_tag, behind, entry[1]);
    [_mm512_mask_mov_epi64(key, stays, here[0]), _mm512_mask_mov_epi64(tag, stays, here[1])]
}

#[target_feature(enable = "avx512f,avx512vl,avx512dq,bmi1,bmi2")]
pub fn insert_front(keys: &mut [i64], tags: &mut [u64], key: i64, tag: u64) {
    let (keys, tags) = (&mut keys[..PREPARED], &mut tags[..PREPARED]);
    let entry = [_mm512_set1_epi64(key), _mm512_set1_epi64(tag as i64)];
    let mut before = [_mm512_set1_epi64(i64::MIN), _mm512_setzero_si512()];
    for at in (0..PREPARED).step_by(8) {
        let here = [load(keys, at), load(tags, at)];
        let result = moved_up(here, before, entry);
        store(keys, at, result[0]);
        store(tags, at, result[1]);
        before = here;
    }
}

#[target_feature(enable = "avx512f,avx512vl,avx512dq,bmi1,bmi2")]
pub fn sort_chunks(
    first: &Chunk,
    second: &Chunk,
    entries: usize,
    stretch: &Range<i64>,
    to_keys: &mut [i64],
    to_tags: &mut [u64],
) {
    let bits = 64 - ((stretch.end - stretch.start) as u64).leading_zeros();
    let dropped = bits.saturating_sub(NEAR_BITS);
    let unclear = if entries <= CHUNK {
        sort_one(first, stretch.start, dropped, to_keys, to_tags)
    } else {
        sort_two(first, second, stretch.start, dropped, to_keys, to_tags)
    };
    if dropped == 0 || !unclear {
        return;
    }
    match entries {
        0..=8 => rank::<1>(first, second, to_keys, to_tags),
        9..=16 => rank::<2>(first, second, to_keys, to_tags),
        _ => rank::<4>(first, second, to_keys, to_tags),
    }
}

/// A place's rank is how many keys are smaller, or equal and before it.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,bmi1,bmi2")]
fn rank<const VECTORS: usize>(
    first: &Chunk,
    second: &Chunk,
    to_keys: &mut [i64],
    to_tags: &mut [u64],
) {
    const HALF: usize = CHUNK / 8;
    let chunk = |vector: usize| if vector < HALF { first } else { second };
    let mut keys = [_mm512_setzero_si512(); VECTORS];
    for (vector, keys) in keys.iter_mut().enumerate() {
        *keys = load(&chunk(vector).keys, vector % HALF * 8);
    }
    let one = _mm512_set1_epi64(1);
    let mut rank = [_mm512_setzero_si512(); VECTORS];
    for other in 0..VECTORS {
        for lane in 0..8 {
            let key = _mm512_set1_epi64(chunk(other).keys[other % HALF * 8 + lane]);
            for vector in 0..VECTORS {
                let before = if vector < other {
                    _mm512_cmplt_epi64_mask(key, keys[vector])
                } else if vector > other {
                    _mm512_cmple_epi64_mask(key, keys[vector])
                } else {
                    let behind = (0xfe_u32 << lane) as u8;
                    _mm512_cmplt_epi64_mask(key, keys[vector])
                        | _mm512_mask_cmple_epi64_mask(behind, key, keys[vector])
                };
                rank[vector] = _mm512_mask_add_epi64(rank[vector], before, rank[vector], one);
            }
        }
    }
    let (to_keys, to_tags) = (&mut to_keys[..VECTORS * 8], &mut to_tags[..VECTORS * 8]);
    for vector in 0..VECTORS {
        let (chunk, at) = (chunk(vector), vector % HALF * 8);
        let ranks: [u64; 8] = must_cast(rank[vector]);
        for (lane, rank) in ranks.into_iter().enumerate() {
            to_keys[rank as usize] = chunk.keys[at + lane];
            to_tags[rank as usize] = chunk.tags[at + lane];
        }
    }
}

/// The numbers that the entries of a chunk are sorted as, whose first place has this number, less
/// so many bits of the distances. Holes are behind all others.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,bmi1,bmi2")]
fn numbers(chunk: &Chunk, start: i64, dropped: u32, place: i32) -> __m512i {
    let start = _mm512_set1_epi64(start);
    let dropped = _mm_cvtsi32_si128(dropped as i32);
    let distances = |at| {
        let distances = _mm512_sub_epi64(load(&chunk.keys, at), start);
        _mm512_cvtusepi64_epi32(_mm512_srl_epi64(distances, dropped))
    };
    let (low, high) = (distances(0), distances(8));
    let distances = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
    let distances = _mm512_min_epu32(distances, _mm512_set1_epi32(1 << NEAR_BITS));
    let places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let places = _mm512_add_epi32(places, _mm512_set1_epi32(place));
    _mm512_or_si512(_mm512_slli_epi32::<PLACE_BITS>(distances), places)
}

/// Whether two entries that are neighbours in order have the same distance, as far as these
/// numbers say it; `before` holds the number before the first in its last lane.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,bmi1,bmi2")]
fn has_equals(sorted: __m512i, before: __m512i) -> bool {
    let differences = _mm512_xor_si512(sorted, _mm512_alignr_epi32::<15>(sorted, before));
    let equals = _mm512_cmplt_epu32_mask(differences, _mm512_set1_epi32(1 << PLACE_BITS));
    let holes = _mm512_set1_epi32(1 << (NEAR_BITS + PLACE_BITS));
    _mm512_mask_cmplt_epu32_mask(equals, sorted, holes) != 0
}

/// One step of sorting: each number beside its partner, of which the masked lanes keep the larger.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,bmi1,bmi2")]
fn step(numbers: __m512i, partners: __m512i, larger: __mmask16) -> __m512i {
    let smaller = _mm512_min_epu32(numbers, partners);
    _mm512_mask_max_epu32(smaller, larger, numbers, partners)
}

/// The lanes in reverse.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,bmi1,bmi2")]
fn reverse(numbers: __m512i) -> __m512i {
    let lanes = _mm512_setr_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    _mm512_permutexvar_epi32(lanes, numbers)
}

/// Steps with partners 4, 2 and 1 lanes away.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,bmi1,bmi2")]
fn merge_eight(numbers: __m512i) -> __m512i {
    let numbers = step(numbers, _mm512_shuffle_i32x4::<0b10_11_00_01>(numbers, numbers), 0xf0f0);
    merge_four(numbers)
}

/// Steps with partners 2 and 1 lanes away.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,bmi1,bmi2")]
fn merge_four(numbers: __m512i) -> __m512i {
    let numbers = step(numbers, _mm512_shuffle_epi32::<0b01_00_11_10>(numbers), 0xcccc);
    step(numbers, _mm512_shuffle_epi32::<0b10_11_00_01>(numbers), 0xaaaa)
}

/// Sorts 16 numbers: K. Batcher's bitonic network, 1968, with the first step of each merge against
/// the other half in reverse, so that all steps have the smaller number in the lower lane.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,bmi1,bmi2")]
fn sort_numbers(numbers: __m512i) -> __m512i {
    let numbers = step(numbers, _mm512_shuffle_epi32::<0b10_11_00_01>(numbers), 0xaaaa);
    let numbers = step(numbers, _mm512_shuffle_epi32::<0b00_01_10_11>(numbers), 0xcccc);
    let numbers = step(numbers, _mm512_shuffle_epi32::<0b10_11_00_01>(numbers), 0xaaaa);
    let fours = _mm512_shuffle_epi32::<0b00_01_10_11>(numbers);
    let eights = _mm512_shuffle_i32x4::<0b10_11_00_01>(fours, fours);
    let numbers = merge_four(step(numbers, eights, 0xf0f0));
    merge_eight(step(numbers, reverse(numbers), 0xff00))
}

/// Writes the entries of a chunk in order. Returns whether some may not be, as of their distances
/// so many bits were dropped.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,bmi1,bmi2")]
fn sort_one(
    chunk: &Chunk,
    start: i64,
    dropped: u32,
    to_keys: &mut [i64],
    to_tags: &mut [u64],
) -> bool {
    let sorted = sort_numbers(numbers(chunk, start, dropped, 0));
    let halves = [_mm512_castsi512_si256(sorted), _mm512_extracti64x4_epi64::<1>(sorted)];
    let keys = [load(&chunk.keys, 0), load(&chunk.keys, 8)];
    let tags = [load(&chunk.tags, 0), load(&chunk.tags, 8)];
    for (half, at) in halves.into_iter().zip([0, 8]) {
        // Of each number its lowest four bits count here.
        let places = _mm512_cvtepu32_epi64(half);
        store(to_keys, at, _mm512_permutex2var_epi64(keys[0], places, keys[1]));
        store(to_tags, at, _mm512_permutex2var_epi64(tags[0], places, tags[1]));
    }
    has_equals(sorted, _mm512_set1_epi32(-1))
}

/// The same of two chunks.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,bmi1,bmi2")]
fn sort_two(
    first: &Chunk,
    second: &Chunk,
    start: i64,
    dropped: u32,
    to_keys: &mut [i64],
    to_tags: &mut [u64],
) -> bool {
    let low = sort_numbers(numbers(first, start, dropped, 0));
    let high = reverse(sort_numbers(numbers(second, start, dropped, CHUNK as i32)));
    let sorted = [_mm512_min_epu32(low, high), _mm512_max_epu32(low, high)];
    let keys = [first, second].map(|chunk| [load(&chunk.keys, 0), load(&chunk.keys, 8)]);
    let tags = [first, second].map(|chunk| [load(&chunk.tags, 0), load(&chunk.tags, 8)]);
    let (mut before, mut unclear) = (_mm512_set1_epi32(-1), false);
    for (numbers, at) in sorted.into_iter().zip([0, 16]) {
        let partners = _mm512_shuffle_i32x4::<0b01_00_11_10>(numbers, numbers);
        let numbers = merge_eight(step(numbers, partners, 0xff00));
        unclear |= has_equals(numbers, before);
        before = numbers;
        let halves = [_mm512_castsi512_si256(numbers), _mm512_extracti64x4_epi64::<1>(numbers)];
        for (half, at) in halves.into_iter().zip([at, at + 8]) {
            let places = _mm512_cvtepu32_epi64(half);
            let later = _mm512_test_epi64_mask(places, _mm512_set1_epi64(CHUNK as i64));
            let [ours, theirs] =
                keys.map(|keys| _mm512_permutex2var_epi64(keys[0], places, keys[1]));
            store(to_keys, at, _mm512_mask_mov_epi64(ours, later, theirs));
            let [ours, theirs] =
                tags.map(|tags| _mm512_permutex2var_epi64(tags[0], places, tags[1]));
            store(to_tags, at, _mm512_mask_mov_epi64(ours, later, theirs));
        }
    }
    unclear
}
