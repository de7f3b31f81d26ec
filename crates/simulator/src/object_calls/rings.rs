//! Ring buffers, events of the processor, and memory with a size (`struct bpf_dynptr`).
//!
//! A simulated machine has no program beside the policy's: nobody reads a ring buffer, nobody
//! writes one, and no event is opened. So a ring buffer fills, and then is full.

use super::values::{check_given, map, view};
use super::{Calling, at, readable, refused, writable};
use bytecode::{Stop, Touch, errno, kind};

/// `BPF_RB_NO_WAKEUP` and `BPF_RB_FORCE_WAKEUP`
const WAKEUPS: u64 = 3;
/// `BPF_F_INDEX_MASK`; all of it is `BPF_F_CURRENT_CPU`.
const INDEX: u64 = u32::MAX as u64;
/// Bytes of a `struct bpf_perf_event_value`.
const EVENT_BYTES: u64 = 24;

/// The number of a map of this kind.
fn map_of(run: &Calling<'_, '_>, token: u64, wanted: u32) -> Result<usize, Stop> {
    let map = map(run, token)?;
    if view(run, map).kind == wanted {
        return Ok(map);
    }
    let wanted = bytecode::map_kind_name(wanted);
    Err(refused(format!("a map of another type than {wanted} is given for one")))
}

pub(super) fn reserve(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [token, bytes, flags, ..] = given;
    let map = map_of(run, token, kind::RINGBUF)?;
    Ok(if flags == 0 { run.host.policy.maps.reserve(map, bytes) } else { 0 })
}

/// `bpf_ringbuf_submit` and `bpf_ringbuf_discard`: both keep their room.
pub(super) fn submit(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let why = || refused(format!("{:#x} is given for a record and is none", given[0]));
    run.host.policy.maps.submit(given[0]).ok_or_else(why)?;
    Ok(0)
}

pub(super) fn output(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [token, data, bytes, flags, _] = given;
    let map = map_of(run, token, kind::RINGBUF)?;
    check_given(run, data, bytes)?;
    if flags & !WAKEUPS != 0 {
        return Ok(-errno::EINVAL as u64);
    }
    let record = run.host.policy.maps.reserve(map, bytes);
    if record == 0 {
        return Ok(-errno::EAGAIN as u64);
    }
    run.host.policy.maps.submit(record);
    run.memory_and_host().0.copy(record, data, bytes).expect("bytes that were looked at");
    Ok(0)
}

/// `bpf_ringbuf_query`: what is to be read, the size, and how far who reads and who writes are.
pub(super) fn query(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let map = map_of(run, given[0], kind::RINGBUF)?;
    Ok(match given[1] {
        0 | 3 => run.host.policy.maps.taken(map),
        1 => view(run, map).max_entries.into(),
        _ => 0,
    })
}

/// `bpf_user_ringbuf_drain`: how many records there were.
pub(super) fn drain(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    map_of(run, given[0], kind::USER_RINGBUF)?;
    let is_known = given[3] & !WAKEUPS == 0;
    Ok(if is_known { 0 } else { -errno::EINVAL as u64 })
}

/// What a kernel answers where no event is opened. Source: Linux, kernel/trace/bpf_trace.c.
fn no_event(run: &Calling<'_, '_>, token: u64, flags: u64) -> Result<u64, Stop> {
    let map = map_of(run, token, kind::PERF_EVENT_ARRAY)?;
    let cpu = run.host.here() as u64;
    let index = if flags & INDEX == INDEX { cpu } else { flags & INDEX };
    let is_there = index < view(run, map).max_entries.into();
    let errno = match flags & !INDEX {
        0 if is_there => errno::ENOENT,
        0 => errno::E2BIG,
        _ => errno::EINVAL,
    };
    Ok(-errno as u64)
}

pub(super) fn event(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    no_event(run, given[0], given[1])
}

pub(super) fn event_value(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [token, flags, value, bytes, _] = given;
    at(run, value, bytes as u32 as usize, 1, Touch::Write)?;
    let value = run.memory_and_host().0.bytes_mut(value, bytes as u32 as u64);
    value.expect("bytes that were looked at").fill(0);
    let answer = no_event(run, token, flags)?;
    Ok(if bytes == EVENT_BYTES { answer } else { -errno::EINVAL as u64 })
}

pub(super) fn event_output(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [_, token, flags, data, bytes] = given;
    check_given(run, data, bytes)?;
    no_event(run, token, flags)
}

// ---- memory with a size -------------------------------------------------------------------------

/// Begin and size of what a dynptr is of; both 0 for none.
fn sized(run: &mut Calling<'_, '_>, dynptr: u64) -> Result<[u64; 2], Stop> {
    // SAFETY: two words of the policy's own.
    Ok(unsafe { *readable::<[u64; 2]>(run, dynptr)? })
}

fn set_sized(run: &mut Calling<'_, '_>, dynptr: u64, of: [u64; 2]) -> Result<(), Stop> {
    // SAFETY: as above.
    unsafe { *writable::<[u64; 2]>(run, dynptr)? = of };
    Ok(())
}

/// Where so many bytes, so far from its begin, are in what a dynptr is of.
fn part(run: &mut Calling<'_, '_>, dynptr: u64, [from, bytes]: [u64; 2]) -> Result<u64, i32> {
    let Ok([begin, size]) = sized(run, dynptr) else { return Err(-errno::EINVAL) };
    let (from, bytes) = (u64::from(from as u32), u64::from(bytes as u32));
    if begin == 0 {
        return Err(-errno::EINVAL);
    }
    if from + bytes > size { Err(-errno::E2BIG) } else { Ok(begin + from) }
}

pub(super) fn dynptr_from(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [data, bytes, flags, dynptr, _] = given;
    at(run, data, bytes as u32 as usize, 1, Touch::Write)?;
    let of = if flags == 0 { [data, u64::from(bytes as u32)] } else { [0; 2] };
    set_sized(run, dynptr, of)?;
    Ok(if flags == 0 { 0 } else { -errno::EINVAL as u64 })
}

pub(super) fn dynptr_reserve(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [token, bytes, flags, dynptr, _] = given;
    let record = reserve(run, [token, u64::from(bytes as u32), flags, 0, 0])?;
    let of = if record == 0 { [0; 2] } else { [record, u64::from(bytes as u32)] };
    set_sized(run, dynptr, of)?;
    Ok(match (flags, record) {
        (0, 0) => -errno::EAGAIN as u64,
        (0, _) => 0,
        _ => -errno::EINVAL as u64,
    })
}

pub(super) fn dynptr_submit(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [record, _] = sized(run, given[0])?;
    set_sized(run, given[0], [0; 2])?;
    if record == 0 { Ok(0) } else { submit(run, [record, given[1], 0, 0, 0]) }
}

pub(super) fn dynptr_data(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [dynptr, from, bytes, ..] = given;
    Ok(part(run, dynptr, [from, bytes]).unwrap_or(0))
}

/// `bpf_dynptr_slice` and `_rdwr`, which need no room to copy to.
pub(super) fn dynptr_slice(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [dynptr, from, _, bytes, _] = given;
    dynptr_data(run, [dynptr, from, bytes, 0, 0])
}

pub(super) fn dynptr_is_null(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [begin, _] = sized(run, given[0])?;
    Ok((begin == 0).into())
}

pub(super) fn dynptr_size(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [begin, size] = sized(run, given[0])?;
    Ok(if begin == 0 { -errno::EINVAL as u64 } else { size })
}

pub(super) fn dynptr_clone(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let of = sized(run, given[0])?;
    set_sized(run, given[1], of)?;
    Ok(if of[0] == 0 { -errno::EINVAL as u64 } else { 0 })
}

/// Lets a dynptr be of a part of what it was of.
pub(super) fn dynptr_adjust(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [dynptr, from, to, ..] = given;
    let [begin, size] = sized(run, dynptr)?;
    if begin == 0 || from > to {
        return Ok(-errno::EINVAL as u64);
    }
    if to > size {
        return Ok(-errno::ERANGE as u64);
    }
    set_sized(run, dynptr, [begin + from, to - from])?;
    Ok(0)
}

pub(super) fn dynptr_read(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [to, bytes, dynptr, from, flags] = given;
    let part = if flags == 0 { part(run, dynptr, [from, bytes]) } else { Err(-errno::EINVAL) };
    copy_part(run, part, bytes, |part| [to, part])
}

pub(super) fn dynptr_write(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [dynptr, to, from, bytes, flags] = given;
    let part = if flags == 0 { part(run, dynptr, [to, bytes]) } else { Err(-errno::EINVAL) };
    copy_part(run, part, bytes, |part| [part, from])
}

/// Copies bytes from or to what a dynptr is of; which of both addresses is which `ends` says.
fn copy_part(
    run: &mut Calling<'_, '_>,
    part: Result<u64, i32>,
    bytes: u64,
    ends: impl Fn(u64) -> [u64; 2],
) -> Result<u64, Stop> {
    let part = match part {
        Ok(part) => part,
        Err(errno) => return Ok(errno as u64),
    };
    let (bytes, [to, from]) = (bytes as u32 as usize, ends(part));
    at(run, to, bytes, 1, Touch::Write)?;
    at(run, from, bytes, 1, Touch::Read)?;
    run.count(bytes as u64 / 8)?;
    let copied = run.memory_and_host().0.copy(to, from, bytes as u64);
    copied.expect("bytes that were looked at");
    Ok(0)
}
