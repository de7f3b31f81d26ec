//! The loops for AVX2: those of the first tier by hand, as for AVX-512; the others are the plain
//! ones, built for it.

use super::super::chunks::Chunk;
use super::{PLACES, Sorted, plain};
use bytemuck::must_cast;
use std::arch::x86_64::*;
use std::ops::Range;

#[inline]
#[target_feature(enable = "avx2")]
fn load(from: &[u64], at: usize) -> __m256i {
    must_cast(*from[at..at + 4].first_chunk::<4>().expect("four numbers"))
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(to: &mut [u64], at: usize, value: __m256i) {
    *to[at..at + 4].first_chunk_mut::<4>().expect("four numbers") = must_cast(value);
}

#[inline]
#[target_feature(enable = "avx2")]
fn min(a: __m256i, b: __m256i) -> __m256i {
    _mm256_castpd_si256(_mm256_min_pd(_mm256_castsi256_pd(a), _mm256_castsi256_pd(b)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn max(a: __m256i, b: __m256i) -> __m256i {
    _mm256_castpd_si256(_mm256_max_pd(_mm256_castsi256_pd(a), _mm256_castsi256_pd(b)))
}

/// Each number's successor.
#[inline]
#[target_feature(enable = "avx2")]
fn after(here: __m256i, next: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0b00_11_10_01>(_mm256_blend_epi32::<0b0000_0011>(here, next))
}

/// Each number's predecessor.
#[inline]
#[target_feature(enable = "avx2")]
fn before(here: __m256i, last: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0b10_01_00_11>(_mm256_blend_epi32::<0b1100_0000>(here, last))
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
pub fn replace_first(sorted: &mut Sorted, count: usize, entry: u64) {
    let entry = _mm256_set1_epi64x(entry as i64);
    let mut here = load(sorted, 0);
    for at in (0..count.min(PLACES)).step_by(4) {
        let next = load(sorted, at + 4);
        store(sorted, at, max(here, min(entry, after(here, next))));
        here = next;
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
pub fn insert(sorted: &mut Sorted, count: usize, entry: u64) {
    let entry = _mm256_set1_epi64x(entry as i64);
    let mut last = _mm256_setzero_si256();
    for at in (0..=count.min(PLACES)).step_by(4) {
        let here = load(sorted, at);
        store(sorted, at, min(here, max(entry, before(here, last))));
        last = here;
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
pub fn replace(sorted: &mut Sorted, count: usize, out: u64, entry: u64) {
    let (out, entry) = (_mm256_set1_epi64x(out as i64), _mm256_set1_epi64x(entry as i64));
    let (mut old, mut last) = (load(sorted, 0), _mm256_setzero_si256());
    for at in (0..count.min(PLACES)).step_by(4) {
        let next = load(sorted, at + 4);
        // All from the one that leaves on move up by one.
        let stays = _mm256_cmpgt_epi64(out, old);
        let here = _mm256_blendv_epi8(after(old, next), old, stays);
        store(sorted, at, min(here, max(entry, before(here, last))));
        (old, last) = (next, here);
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
pub fn insert_front(keys: &mut [i64], tags: &mut [u64], key: i64, tag: u64) {
    plain::insert_front(keys, tags, key, tag);
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
pub fn sort_chunks(
    first: &Chunk,
    second: &Chunk,
    entries: usize,
    stretch: &Range<i64>,
    to_keys: &mut [i64],
    to_tags: &mut [u64],
) {
    plain::sort_chunks(first, second, entries, stretch, to_keys, to_tags);
}
