//! Iterators: walks over a dispatch queue, tasks, and numbers.
//!
//! A walk's state is the simulator's; the iterator on the policy's stack holds its number.

use super::{Calling, keep_place_of_failure, schedulable, shown, some_task, writable};
use bytecode::{Stop, errno};

/// Longest range of numbers. Source: Linux, kernel/bpf/bpf_iter.c (`BPF_MAX_LOOPS`).
pub const NUMBERS_MAX: u32 = 8 << 20;

/// The number, less one, of an iterator's walk; `None` for one that did not begin.
fn walk(run: &mut Calling<'_, '_>, iterator: u64) -> Result<Option<usize>, Stop> {
    let number = writable::<u64>(run, iterator)?;
    // SAFETY: a word of the policy's own.
    let at = unsafe { *number }.wrapping_sub(1) as usize;
    Ok(run.host.visible.walks.is_open(at).then_some(at))
}

// What policies call most are parts of the code that is called: nothing passes through memory.
#[inline(always)]
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

#[inline(always)]
pub(super) fn next(run: &mut Calling<'_, '_>, [iterator, ..]: [u64; 5]) -> Result<u64, Stop> {
    let walk = walk(run, iterator)?;
    Ok(walk.and_then(|at| run.host.iter_next(at)).unwrap_or(0))
}

#[inline(always)]
pub(super) fn end(run: &mut Calling<'_, '_>, [iterator, ..]: [u64; 5]) -> Result<u64, Stop> {
    if let Some(at) = walk(run, iterator)? {
        run.host.iter_destroy(at);
        // SAFETY: a word of the policy's own.
        unsafe { *writable::<u64>(run, iterator)? = 0 };
    }
    Ok(0)
}

#[inline(always)]
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

/// An iterator over tasks: one more than the pid that is next, 0 at the end, and the last pid. All
/// begin with the first CPU's idle task, whose pid is 0. Each task is a process of its own. Source:
/// Linux, kernel/bpf/task_iter.c, `bpf_iter_task_new`.
pub(super) fn tasks_begin(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [iterator, p, flags, ..] = given;
    let state = writable::<[u64; 3]>(run, iterator)?;
    let (words, answer) = match flags as u32 {
        ALL_PROCESSES | ALL_THREADS => ([1, u64::MAX, 0], 0),
        THREADS if p != 0 => {
            // SAFETY: a task.
            let pid = unsafe { (*some_task(run, p)?).pid } as u64;
            ([pid + 1, pid, 0], 0)
        }
        _ => ([0; 3], -errno::EINVAL),
    };
    // SAFETY: words of the policy's own.
    unsafe { *state = words };
    Ok(answer as u64)
}

/// `BPF_TASK_ITER_ALL_PROCS`, `BPF_TASK_ITER_ALL_THREADS`, `BPF_TASK_ITER_PROC_THREADS`
const ALL_PROCESSES: u32 = 0;
const ALL_THREADS: u32 = 1;
const THREADS: u32 = 2;

pub(super) fn tasks_next(run: &mut Calling<'_, '_>, [iterator, ..]: [u64; 5]) -> Result<u64, Stop> {
    let state = writable::<[u64; 3]>(run, iterator)?;
    // SAFETY: words of the policy's own, to which nobody else holds a reference.
    let [next, last, _] = unsafe { &mut *state };
    let Some(pid) = next.checked_sub(1) else { return Ok(0) };
    let end = (*last).min(run.host.tasks.len() as u64);
    let found = (pid..=end).find_map(|pid| {
        let task = run.host.task_of_walk(pid as i32);
        (!task.is_null()).then_some((pid, task))
    });
    *next = found.map_or(0, |(pid, _)| pid + 2);
    Ok(found.map_or(0, |(_, task)| shown(run, task)))
}

/// An iterator over numbers: the present one and the end. Source: Linux, kernel/bpf/bpf_iter.c.
pub(super) fn numbers_begin(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [iterator, from, to, ..] = given;
    let (from, to) = (from as i32, to as i32);
    let state = writable::<[i32; 2]>(run, iterator)?;
    let (numbers, answer) = match i64::from(to) - i64::from(from) {
        ..0 => ([0, 0], -errno::EINVAL),
        count if count > NUMBERS_MAX.into() => ([0, 0], -errno::E2BIG),
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
