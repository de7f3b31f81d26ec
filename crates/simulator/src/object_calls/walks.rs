//! Iterators: walks over a dispatch queue, and numbers.
//!
//! A walk's state is the simulator's; the iterator on the policy's stack holds its number.

use super::{Calling, kernel, shown, task, writable};
use crate::kernel::Kernel;
use crate::kernel_calls::queues;
use crate::policy_maps::errno;
use crate::visible::NO_WALK;
use bytecode::Stop;
use policy::abi::DsqIterator;

/// Longest range of numbers. Source: Linux, kernel/bpf/bpf_iter.c (`BPF_MAX_LOOPS`).
const NUMBERS_MAX: i64 = 8 << 20;

/// The walk of an iterator; `None` for one that did not begin.
fn walk(run: &mut Calling<'_, '_>, iterator: u64) -> Result<Option<*mut DsqIterator>, Stop> {
    let number = writable::<u64>(run, iterator)?;
    // SAFETY: a word of the policy's own.
    let at = unsafe { *number }.wrapping_sub(1) as usize;
    let walk = run.host.visible.walks.get(at);
    Ok(walk.map(std::ptr::from_mut))
}

pub(super) fn begin(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [iterator, dsq, flags, ..] = given;
    let words = writable::<[u64; 6]>(run, iterator)?;
    // Where all are open, one more is refused all the same, and said why.
    let mut refused = NO_WALK;
    let (at, walk) = match run.host.visible.walks.open() {
        Some((at, walk)) => (Some(at), std::ptr::from_mut(walk)),
        None => (None, &raw mut refused),
    };
    // SAFETY: as in `kernel`; an iterator.
    let answer = unsafe { queues::iter_new(kernel(run), walk, dsq, flags) };
    let number = match at {
        Some(at) if answer == 0 => {
            // So that the first task is found without a call.
            // SAFETY: as in `kernel`; an iterator that has just begun.
            unsafe { queues::iter_fill(kernel(run), walk) };
            at as u64 + 1
        }
        Some(at) => {
            run.host.visible.walks.end(at);
            0
        }
        None => 0,
    };
    // SAFETY: words of the policy's own.
    unsafe { *words = [number, 0, 0, 0, 0, 0] };
    Ok(answer as u64)
}

pub(super) fn next(run: &mut Calling<'_, '_>, [iterator, ..]: [u64; 5]) -> Result<u64, Stop> {
    let Some(walk) = walk(run, iterator)? else { return Ok(0) };
    loop {
        // SAFETY: the walk is open, and nobody else uses it meanwhile.
        let it = unsafe { &mut *walk };
        while it.next < it.filled {
            let p = run.host.visible.shift.find(it.chunk[it.next as usize]);
            it.next += 1;
            it.steps += 1;
            // SAFETY: tasks in a walk's chunk are the simulator's.
            let entity = unsafe { &(*p).scx };
            if entity.dsq == it.dsq && entity.dsq_seq <= it.seq {
                return Ok(shown(run, p));
            }
        }
        // SAFETY: as in `kernel`; an iterator.
        if !unsafe { queues::iter_fill(kernel(run), walk) } {
            return Ok(0);
        }
    }
}

pub(super) fn end(run: &mut Calling<'_, '_>, [iterator, ..]: [u64; 5]) -> Result<u64, Stop> {
    if let Some(walk) = walk(run, iterator)? {
        // SAFETY: as in `kernel`; an iterator.
        unsafe { queues::iter_destroy(kernel(run), walk) };
        let number = writable::<u64>(run, iterator)?;
        // SAFETY: a word of the policy's own, which names an open walk.
        let at = unsafe { std::mem::take(&mut *number) } as usize - 1;
        run.host.visible.walks.end(at);
    }
    Ok(0)
}

pub(super) fn move_task(
    run: &mut Calling<'_, '_>,
    [iterator, p, dsq, flags, _]: [u64; 5],
    by_vtime: bool,
) -> Result<u64, Stop> {
    let p = task(run, p)?;
    let Some(walk) = walk(run, iterator)? else { return Ok(0) };
    // SAFETY: as in `kernel`; an iterator, and a task or null.
    Ok(unsafe { queues::dsq_move(kernel(run), walk, p, dsq, flags, by_vtime) }.into())
}

pub(super) fn set_slice(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    if let Some(walk) = walk(run, given[0])? {
        // SAFETY: as above.
        unsafe { queues::dsq_move_set_slice(kernel(run), walk, given[1]) };
    }
    Ok(0)
}

pub(super) fn set_vtime(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    if let Some(walk) = walk(run, given[0])? {
        // SAFETY: as above.
        unsafe { queues::dsq_move_set_vtime(kernel(run), walk, given[1]) };
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

impl Kernel<'_> {
    /// The run queue of a CPU, as far as policies look at it: its task. It holds until the next
    /// call.
    pub(super) fn rq_of(&mut self, task: u64) -> u64 {
        *self.given.rq = task;
        self.visible.address(self.given.rq.address())
    }
}
