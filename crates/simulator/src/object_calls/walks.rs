//! Iterators: walks over a dispatch queue, and numbers.
//!
//! A walk's state is the simulator's; the iterator on the policy's stack holds its number.

use super::{Calling, keep_place_of_failure, schedulable, writable};
use bytecode::{Stop, errno};

/// Longest range of numbers. Source: Linux, kernel/bpf/bpf_iter.c (`BPF_MAX_LOOPS`).
const NUMBERS_MAX: i64 = 8 << 20;

/// The number, less one, of an iterator's walk; `None` for one that did not begin.
fn walk(run: &mut Calling<'_, '_>, iterator: u64) -> Result<Option<usize>, Stop> {
    let number = writable::<u64>(run, iterator)?;
    // SAFETY: a word of the policy's own.
    let at = unsafe { *number }.wrapping_sub(1) as usize;
    Ok(run.host.visible.walks.is_open(at).then_some(at))
}

pub(super) fn begin(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [iterator, dsq, flags, ..] = given;
    let words = writable::<[u64; 6]>(run, iterator)?;
    let (number, answer) = match run.host.iter_new(dsq, flags) {
        Ok(at) => (at as u64 + 1, 0),
        Err(errno) => (0, errno),
    };
    // SAFETY: words of the policy's own.
    unsafe { *words = [number, 0, 0, 0, 0, 0] };
    Ok(answer as u64)
}

pub(super) fn next(run: &mut Calling<'_, '_>, [iterator, ..]: [u64; 5]) -> Result<u64, Stop> {
    let walk = walk(run, iterator)?;
    Ok(walk.and_then(|at| run.host.iter_next(at)).unwrap_or(0))
}

pub(super) fn end(run: &mut Calling<'_, '_>, [iterator, ..]: [u64; 5]) -> Result<u64, Stop> {
    if let Some(at) = walk(run, iterator)? {
        run.host.iter_destroy(at);
        // SAFETY: a word of the policy's own.
        unsafe { *writable::<u64>(run, iterator)? = 0 };
    }
    Ok(0)
}

pub(super) fn move_task(
    run: &mut Calling<'_, '_>,
    [iterator, p, dsq, flags, _]: [u64; 5],
    by_vtime: bool,
) -> Result<u64, Stop> {
    let Some(at) = walk(run, iterator)? else { return Ok(0) };
    let Some(task) = schedulable(run, p)? else { return Ok(0) };
    let moved = run.host.dsq_move(at, task, dsq, flags, by_vtime);
    keep_place_of_failure(run);
    Ok(moved.into())
}

pub(super) fn set_slice(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    if let Some(at) = walk(run, given[0])? {
        run.host.visible.walks.get(at).pending_slice = Some(given[1]);
    }
    Ok(0)
}

pub(super) fn set_vtime(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    if let Some(at) = walk(run, given[0])? {
        run.host.visible.walks.get(at).pending_vtime = Some(given[1]);
    }
    Ok(0)
}

/// An iterator over numbers: the present one and the end. Source: Linux, kernel/bpf/bpf_iter.c.
pub(super) fn numbers_begin(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [iterator, from, to, ..] = given;
    let (from, to) = (from as i32, to as i32);
    let state = writable::<[i32; 2]>(run, iterator)?;
    let (numbers, answer) = match i64::from(to) - i64::from(from) {
        ..0 => ([0, 0], -errno::EINVAL),
        count if count > NUMBERS_MAX => ([0, 0], -errno::E2BIG),
        _ => ([from.wrapping_sub(1), to], 0),
    };
    // SAFETY: words of the policy's own.
    unsafe { *state = numbers };
    Ok(answer as u64)
}

pub(super) fn numbers_next(
    run: &mut Calling<'_, '_>,
    [iterator, ..]: [u64; 5],
) -> Result<u64, Stop> {
    let state = writable::<[i32; 2]>(run, iterator)?;
    // SAFETY: as above.
    let [at, end] = unsafe { &mut *state };
    if at.wrapping_add(1) >= *end {
        (*at, *end) = (0, 0);
        return Ok(0);
    }
    *at = at.wrapping_add(1);
    Ok(iterator)
}
