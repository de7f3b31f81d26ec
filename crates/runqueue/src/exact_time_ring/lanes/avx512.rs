//! The loops for AVX-512. Entries are read from and written to the same eight places each time,
//! and moved by one lane in registers: a load that straddles two earlier stores waits for both.

use super::super::chunks::{CHUNK, Chunk};
use super::super::front::PREPARED;
use super::super::packed::{PLACES, Sorted};
use std::arch::x86_64::*;

#[inline]
#[target_feature(enable = "avx512f")]
fn load(from: &[i64], at: usize) -> __m512i {
    // SAFETY: the slice has eight numbers from `at` on.
    unsafe { _mm512_loadu_epi64(from[at..at + 8].as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_tags(from: &[u64], at: usize) -> __m512i {
    // SAFETY: as above.
    unsafe { _mm512_loadu_epi64(from[at..at + 8].as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(to: &mut [i64], at: usize, value: __m512i) {
    // SAFETY: as above.
    unsafe { _mm512_storeu_epi64(to[at..at + 8].as_mut_ptr(), value) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_tags(to: &mut [u64], at: usize, value: __m512i) {
    // SAFETY: as above.
    unsafe { _mm512_storeu_epi64(to[at..at + 8].as_mut_ptr().cast(), value) }
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
    let mut here = load_tags(sorted, 0);
    for at in (0..count.min(PLACES)).step_by(8) {
        let next = load_tags(sorted, at + 8);
        let shifted = _mm512_alignr_epi64::<1>(next, here);
        store_tags(sorted, at, max(here, min(entry, shifted)));
        here = next;
    }
}

#[target_feature(enable = "avx512f,avx512vl,avx512dq,bmi1,bmi2")]
pub fn insert(sorted: &mut Sorted, count: usize, entry: u64) {
    let entry = _mm512_set1_epi64(entry as i64);
    let mut before = _mm512_setzero_si512();
    for at in (0..=count.min(PLACES)).step_by(8) {
        let here = load_tags(sorted, at);
        let shifted = _mm512_alignr_epi64::<7>(here, before);
        store_tags(sorted, at, min(here, max(entry, shifted)));
        before = here;
    }
}

#[target_feature(enable = "avx512f,avx512vl,avx512dq,bmi1,bmi2")]
pub fn replace(sorted: &mut Sorted, count: usize, out: u64, entry: u64) {
    let (out, entry) = (_mm512_set1_epi64(out as i64), _mm512_set1_epi64(entry as i64));
    let (mut old, mut before) = (load_tags(sorted, 0), _mm512_setzero_si512());
    for at in (0..count.min(PLACES)).step_by(8) {
        let next = load_tags(sorted, at + 8);
        // All from the one that leaves on move up by one.
        let moves = _mm512_cmpge_epi64_mask(old, out);
        let here = _mm512_mask_alignr_epi64::<1>(old, moves, next, old);
        let shifted = _mm512_alignr_epi64::<7>(here, before);
        store_tags(sorted, at, min(here, max(entry, shifted)));
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
        let here = [load(keys, at), load_tags(tags, at)];
        let result = moved_up(here, before, entry);
        store(keys, at, result[0]);
        store_tags(tags, at, result[1]);
        before = here;
    }
}

#[target_feature(enable = "avx512f,avx512vl,avx512dq,bmi1,bmi2")]
pub fn sort_chunks(
    first: &Chunk,
    second: &Chunk,
    entries: usize,
    to_keys: &mut [i64],
    to_tags: &mut [u64],
) {
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
        let tags = load_tags(&chunk(vector).tags, vector % HALF * 8);
        // SAFETY: ranks are different numbers below `VECTORS` times 8, the slices' length.
        unsafe {
            _mm512_i64scatter_epi64::<8>(to_keys.as_mut_ptr().cast(), rank[vector], keys[vector]);
            _mm512_i64scatter_epi64::<8>(to_tags.as_mut_ptr().cast(), rank[vector], tags);
        }
    }
}
