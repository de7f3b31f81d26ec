//! What caches make a task pay: lines that another CPU has written, footprints that are gone.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Cost, keep_on, pieces};
use crate::measure::MeasureError;
use crate::measure::crew::{Crew, Gate, Tasks};
use crate::system;

const PIECES: usize = 2000;

/// Footprints whose refill is measured, KiB.
const SIZES_KIB: [usize; 3] = [64, 256, 1024];

/// What throws a footprint out of the caches of a CPU: twice the largest second level of today.
const EVICTING_KIB: usize = 8 << 10;

/// How often a footprint is thrown out and read again.
const REFILLS: usize = 40;

/// Handing a line to another CPU and back, in a piece.
const HAND_OVERS: u32 = 100;

/// Where the lists lie that are walked: a task of the kernel takes about so much, and of those in
/// the cache there are some hundred.
const TASK_LINES: usize = 16;
const LINE_WORDS: usize = 16;
const CACHED_TASKS: usize = 256;
/// 128 MiB of them are in no cache of a CPU's own.
const MISSING_TASKS: usize = 128 << 10;

pub fn measure(
    [here, there]: [usize; 2],
    watch: &mut dyn FnMut(Cost) -> Result<(), MeasureError>,
) -> Result<(), MeasureError> {
    let lock = AtomicU32::new(0);
    let taken = pieces(PIECES, 200, || {
        black_box(lock.swap(1, Ordering::Acquire));
        lock.store(0, Ordering::Release);
    });
    watch(Cost::of("lock_ns", taken, "an atomic exchange and a store, 200 in a row"))?;
    let how = "steps through a list of 256 items, 1 KiB from each to the next";
    watch(Cost::of("scan_step_ns", steps(CACHED_TASKS), how))?;
    let how = "steps through a list of 131072 items, 1 KiB each, in random order";
    watch(Cost::of("scan_miss_ns", steps(MISSING_TASKS), how))?;
    for kib in SIZES_KIB {
        let how = "a footprint summed up after 8 MiB of other memory, less once more";
        watch(Cost::of("refill_ns_per_kib", refills(kib), how).between(format!("same {kib} KiB")))?;
    }
    if here == there {
        return Ok(());
    }
    let how = "an atomic word goes to a thread on another CPU and back, half of it";
    watch(Cost::of("line_transfer_ns", hand_overs([here, there])?, how))?;
    for kib in SIZES_KIB {
        let how = "a footprint that another CPU has written summed up, less once more";
        let refills = refills_from([here, there], kib)?;
        watch(Cost::of("refill_ns_per_kib", refills, how).between(format!("other {kib} KiB")))?;
    }
    Ok(())
}

/// Nanoseconds of a step through a list of `tasks` items in random order.
fn steps(tasks: usize) -> Vec<f64> {
    let mut next = vec![0u32; tasks * TASK_LINES * LINE_WORDS];
    let mut order: Vec<u32> = (0..tasks as u32).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    for place in (1..tasks).rev() {
        // Xorshift, G. Marsaglia, 2003.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        order.swap(place, (random % (place as u64 + 1)) as usize);
    }
    for (place, &task) in order.iter().enumerate() {
        let following = line_of(order[(place + 1) % tasks] as usize) * LINE_WORDS;
        next[line_of(task as usize) * LINE_WORDS] = following as u32;
    }
    let mut word = line_of(0) * LINE_WORDS;
    pieces(PIECES, 256, || word = black_box(next[word]) as usize)
}

/// The line that is looked at of a task. Were it always the first, all would share the few sets of
/// a cache that are a task's size apart, and throw each other out of it.
fn line_of(task: usize) -> usize {
    let turn = task / 4 + task / 64;
    task * TASK_LINES + turn % TASK_LINES
}

fn sum(memory: &[u64]) -> u64 {
    memory.iter().fold(0, |sum, &word| sum.wrapping_add(word))
}

/// Nanoseconds of summing up.
fn summing_ns(memory: &[u64]) -> f64 {
    let begin_ns = system::now_ns();
    black_box(sum(black_box(memory)));
    (system::now_ns() - begin_ns) as f64
}

/// Nanoseconds a KiB more than when it is cached.
fn refills(kib: usize) -> Vec<f64> {
    let footprint: Vec<u64> = (0..kib as u64 * 128).collect();
    let mut others: Vec<u64> = (0..EVICTING_KIB as u64 * 128).collect();
    let refill = |_| {
        others.iter_mut().for_each(|word| *word = word.wrapping_add(1));
        black_box(&mut others);
        let missing_ns = summing_ns(&footprint);
        (missing_ns - summing_ns(&footprint)).max(0.0) / kib as f64
    };
    (0..REFILLS).map(refill).collect()
}

/// As [`refills`], after a thread on another CPU has written all of it.
fn refills_from(cpus: [usize; 2], kib: usize) -> Result<Vec<f64>, MeasureError> {
    let footprint: Arc<Vec<AtomicU64>> =
        Arc::new((0..kib as u64 * 128).map(AtomicU64::new).collect());
    let reading_ns = |footprint: &[AtomicU64]| {
        let begin_ns = system::now_ns();
        let sum =
            footprint.iter().fold(0u64, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)));
        black_box(sum);
        (system::now_ns() - begin_ns) as f64
    };
    let written = Arc::clone(&footprint);
    let write = move || {
        for word in written.iter() {
            word.store(1, Ordering::Relaxed);
        }
    };
    in_turns(cpus, REFILLS, write, move || {
        let missing_ns = reading_ns(&footprint);
        (missing_ns - reading_ns(&footprint)).max(0.0) / kib as f64
    })
}

/// What `measured` finds on the first CPU, each time after `before` was done on the second.
fn in_turns(
    cpus: [usize; 2],
    times: usize,
    before: impl Fn() + Send + 'static,
    measured: impl Fn() -> f64 + Send + 'static,
) -> Result<Vec<f64>, MeasureError> {
    let turn = Arc::new(AtomicU32::new(0));
    let other_turn = Arc::clone(&turn);
    let other = move || {
        for time in 0..times as u32 {
            wait_for(&other_turn, 2 * time);
            before();
            other_turn.store(2 * time + 1, Ordering::Release);
        }
    };
    found_by_two(cpus, other, move || {
        let turns = 0..times as u32;
        turns
            .map(|time| {
                wait_for(&turn, 2 * time + 1);
                let ns = measured();
                turn.store(2 * time + 2, Ordering::Release);
                ns
            })
            .collect()
    })
}

/// What `measuring` finds in a thread on the first CPU, beside `other` in one on the second.
fn found_by_two(
    cpus: [usize; 2],
    other: impl FnOnce() + Send + 'static,
    measuring: impl FnOnce() -> Vec<f64> + Send + 'static,
) -> Result<Vec<f64>, MeasureError> {
    let found = Arc::new(Mutex::new(vec![]));
    let tells = Arc::clone(&found);
    let mut crew = Crew::new(Tasks::Threads, 2)?;
    crew.add("the task on the other CPU".into(), move |gate: Gate| {
        keep_on(cpus[1])?;
        gate.wait()?;
        other();
        Ok(())
    })?;
    crew.add("the task that measures".into(), move |gate: Gate| {
        keep_on(cpus[0])?;
        gate.wait()?;
        *tells.lock().unwrap_or_else(PoisonError::into_inner) = measuring();
        Ok(())
    })?;
    crew.begin()?;
    crew.finish()?;
    let found = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(found)
}

/// Looks until it is so, and gives way where the other one may need this CPU.
fn wait_for(turn: &AtomicU32, wanted: u32) {
    let mut looks = 0u32;
    while turn.load(Ordering::Acquire) != wanted {
        looks += 1;
        if looks.is_multiple_of(1 << 12) {
            system::give_way();
        }
        std::hint::spin_loop();
    }
}

/// Nanoseconds of handing a line over, from pieces of some.
fn hand_overs(cpus: [usize; 2]) -> Result<Vec<f64>, MeasureError> {
    let line = Arc::new(AtomicU32::new(0));
    let other_line = Arc::clone(&line);
    let all = PIECES as u32 * HAND_OVERS;
    let other = move || {
        for time in 0..all {
            wait_for(&other_line, 2 * time + 1);
            other_line.store(2 * time + 2, Ordering::Release);
        }
    };
    found_by_two(cpus, other, move || {
        let mut time = 0;
        let halves = pieces(PIECES, HAND_OVERS, || {
            line.store(2 * time + 1, Ordering::Release);
            wait_for(&line, 2 * time + 2);
            time += 1;
        });
        halves.iter().map(|ns| ns / 2.0).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_cached_tasks_are_spread_over_all_sets_of_a_cache() {
        for sets in [64, 128, 256, 512, 1024, 2048] {
            let mut in_set = vec![0; sets];
            for task in 0..CACHED_TASKS {
                assert_eq!(line_of(task) / TASK_LINES, task, "it lies within its task");
                in_set[line_of(task) % sets] += 1;
            }
            let fair = CACHED_TASKS.div_ceil(sets);
            assert!(in_set.iter().all(|&lines| lines <= fair), "{sets} sets: {in_set:?}");
        }
    }
}
