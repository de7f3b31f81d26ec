//! Calls on maps, timers, locks and memory.

use super::{Calling, at, function, groups, refused, task, writable};
use crate::abi::STORAGE_MAX;
use crate::dispatch_queue;
use crate::failure::FailureKind;
use crate::timer::Timer;
use bytecode::{Lock, MapView, Size, Stop, Touch, Words, errno, kind};

/// `BPF_LOCAL_STORAGE_GET_F_CREATE`
const CREATE: u64 = 1;

/// The number of the map that a token stands for.
pub(super) fn map(run: &Calling<'_, '_>, token: u64) -> Result<usize, Stop> {
    let found = run.host.policy.maps.number(token);
    found.ok_or_else(|| refused(format!("{token:#x} is given for a map and is none")))
}

/// What describes a map.
pub(super) fn view(run: &Calling<'_, '_>, map: usize) -> MapView {
    *run.host.policy.maps.view(map)
}

/// The number of a map of storage of this kind.
fn storage(run: &Calling<'_, '_>, kind: u32, token: u64) -> Result<usize, Stop> {
    let map = map(run, token)?;
    if view(run, map).kind == kind {
        return Ok(map);
    }
    let of = if kind == kind::TASK_STORAGE { "task" } else { "cgrp" };
    Err(refused(format!("bpf_{of}_storage_get() or _delete() of another kind of map")))
}

/// Where the values are that maps of storage of a kind have for a task or a group; `None` for NULL.
fn owned(
    run: &mut Calling<'_, '_>,
    kind: u32,
    owner: u64,
) -> Result<Option<*mut [u64; STORAGE_MAX]>, Stop> {
    if kind == kind::CGRP_STORAGE {
        let group = groups::group(run, owner)?;
        return Ok(group.map(|group| std::ptr::from_mut(run.host.groups.storage(group))));
    }
    let task = task(run, owner)?;
    // SAFETY: a task, of which a place is taken and nothing read.
    Ok((!task.is_null()).then(|| unsafe { &raw mut (*task).storage }))
}

pub(super) fn storage_get(
    run: &mut Calling<'_, '_>,
    kind: u32,
    given: [u64; 5],
) -> Result<u64, Stop> {
    let [token, owner, initial, flags, _] = given;
    let map = storage(run, kind, token)?;
    let Some(storage) = owned(run, kind, owner)? else { return Ok(0) };
    // SAFETY: values of a task or a group, to which nobody else holds a reference.
    let value = unsafe { (*storage)[view(run, map).index as usize] };
    if value != 0 || flags & CREATE == 0 {
        return Ok(value);
    }
    let bytes = view(run, map).value_size as usize;
    count(run, bytes)?;
    let (memory, kernel) = run.memory_and_host();
    // SAFETY: as above.
    let storage = unsafe { &mut *storage };
    let value = kernel.policy.maps.create_storage(memory, &mut kernel.visible.room, map, storage);
    if value != 0 && initial != 0 {
        check_members(run, map, initial)?;
        at(run, initial, bytes, 1, Touch::Read)?;
        let copied = run.memory_and_host().0.copy(value, initial, bytes as u64);
        copied.expect("bytes that were looked at");
    }
    Ok(value)
}

pub(super) fn storage_delete(
    run: &mut Calling<'_, '_>,
    kind: u32,
    given: [u64; 5],
) -> Result<u64, Stop> {
    let map = storage(run, kind, given[0])?;
    let Some(storage) = owned(run, kind, given[1])? else { return Ok(-errno::EINVAL as u64) };
    // SAFETY: values of a task or a group, to which nobody else holds a reference.
    Ok(run.host.policy.maps.delete_storage(map, unsafe { &mut *storage }) as u64)
}

/// Refuses an address where no key of a map is.
fn check_key(run: &mut Calling<'_, '_>, map: usize, address: u64) -> Result<(), Stop> {
    at(run, address, view(run, map).key_size as usize, 1, Touch::ReadAll).map(drop)
}

/// Refuses a value with a member that was not written, in strict runs.
fn check_members(run: &mut Calling<'_, '_>, map: usize, value: u64) -> Result<(), Stop> {
    if !run.host.policy.is_strict() {
        return Ok(());
    }
    let mut number = 0;
    while let Some((offset, bytes)) = run.host.policy.maps.member(map, number) {
        run.check(value, offset, bytes, Touch::ReadAll)?;
        number += 1;
    }
    Ok(())
}

fn value_of_cpu(
    run: &mut Calling<'_, '_>,
    map: usize,
    address: u64,
    cpu: u64,
) -> Result<u64, Stop> {
    check_key(run, map, address)?;
    if view(run, map).is_hash() {
        if cpu >= run.host.nr_cpu_ids().into() {
            return Ok(0);
        }
        let (memory, kernel) = run.memory_and_host();
        return Ok(kernel.policy.maps.lookup(memory, map, address, cpu));
    }
    let map = view(run, map);
    if map.key_size != 4 {
        return Err(refused("a map whose values have no numbers is asked for one".to_owned()));
    }
    let key = run.memory().load(address, Size::Word).expect("a key that was looked at");
    if key >= map.max_entries.into() || cpu >= run.host.nr_cpu_ids().into() || map.values == 0 {
        return Ok(0);
    }
    Ok(map.values + cpu * map.cpu_stride + key * u64::from(map.value_stride))
}

pub(super) fn lookup(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let map = map(run, given[0])?;
    if view(run, map).is_of_maps() {
        check_key(run, map, given[1])?;
        let key = run.memory().load(given[1], Size::Word).expect("a key that was looked at");
        return Ok(run.host.policy.maps.inner(map, key as u32));
    }
    let cpu = run.host.here() as u64;
    value_of_cpu(run, map, given[1], cpu)
}

pub(super) fn lookup_of_cpu(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let map = map(run, given[0])?;
    value_of_cpu(run, map, given[1], u64::from(given[2] as u32))
}

pub(super) fn update(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [token, key, value, flags, _] = given;
    let map = map(run, token)?;
    check_key(run, map, key)?;
    check_members(run, map, value)?;
    let bytes = view(run, map).value_size as usize;
    at(run, value, bytes, 1, Touch::Read)?;
    count(run, bytes)?;
    let cpu = run.host.here();
    let (memory, kernel) = run.memory_and_host();
    let room = (memory, &mut kernel.visible.room);
    Ok(kernel.policy.maps.update(room, map, (key, value), flags, cpu) as u64)
}

pub(super) fn delete(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let map = map(run, given[0])?;
    check_key(run, map, given[1])?;
    let (memory, kernel) = run.memory_and_host();
    Ok(kernel.policy.maps.delete(memory, map, given[1]) as u64)
}

/// The number of a queue or stack, the only maps whose values have no keys.
fn queue(run: &Calling<'_, '_>, token: u64) -> Result<usize, Stop> {
    let map = map(run, token)?;
    if view(run, map).is_queue() {
        return Ok(map);
    }
    Err(refused("a map that is no queue is asked for what is next".to_owned()))
}

pub(super) fn push(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [token, value, flags, ..] = given;
    let map = queue(run, token)?;
    check_members(run, map, value)?;
    let bytes = view(run, map).value_size as usize;
    at(run, value, bytes, 1, Touch::Read)?;
    count(run, bytes)?;
    let (memory, kernel) = run.memory_and_host();
    Ok(kernel.policy.maps.push(memory, map, value, flags) as u64)
}

/// Gives what is next, and takes it away if it is popped.
pub(super) fn next(
    run: &mut Calling<'_, '_>,
    given: [u64; 5],
    is_popped: bool,
) -> Result<u64, Stop> {
    let map = queue(run, given[0])?;
    let bytes = view(run, map).value_size as usize;
    at(run, given[1], bytes, 1, Touch::Write)?;
    count(run, bytes)?;
    let (memory, kernel) = run.memory_and_host();
    Ok(kernel.policy.maps.take(memory, map, given[1], is_popped) as u64)
}

pub(super) fn exchange(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let slot = writable::<u64>(run, given[0])?;
    run.keep_pointer(given[0]);
    // SAFETY: a word of the policy's own.
    Ok(unsafe { std::mem::replace(&mut *slot, given[1]) })
}

/// Counts what a call does byte by byte as instructions, so that no policy computes for free.
fn count(run: &mut Calling<'_, '_>, bytes: usize) -> Result<(), Stop> {
    Ok(run.count(bytes as u64 / 8)?)
}

/// Where a kernel's own addresses begin.
const KERNEL_BEGIN: u64 = !0 << 47;

/// Why nothing can be read at an address. A kernel reads none of a task's addresses for its own.
/// Source: Linux, arch/x86/mm/maccess.c, `copy_from_kernel_nofault_allowed`.
fn unreadable(from: u64) -> u64 {
    (if from < KERNEL_BEGIN { -errno::ERANGE } else { -errno::EFAULT }) as u64
}

/// `bpf_probe_read` and `bpf_probe_read_str`, which take a task's addresses, too.
pub(super) fn read_either(
    run: &mut Calling<'_, '_>,
    given: [u64; 5],
    read: fn(&mut Calling<'_, '_>, [u64; 5]) -> Result<u64, Stop>,
) -> Result<u64, Stop> {
    let answer = read(run, given)?;
    Ok(if answer == -errno::ERANGE as u64 { -errno::EFAULT as u64 } else { answer })
}

/// `bpf_probe_read_kernel`: zeros for what cannot be read.
pub(super) fn read(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [to, bytes, from, ..] = given;
    let bytes = u64::from(bytes as u32);
    at(run, to, bytes as usize, 1, Touch::Write)?;
    count(run, bytes as usize)?;
    let (memory, _) = run.memory_and_host();
    if memory.copy(to, from, bytes).is_some() {
        return Ok(0);
    }
    memory.bytes_mut(to, bytes).expect("bytes that were looked at").fill(0);
    Ok(unreadable(from))
}

/// `bpf_probe_read_kernel_str`: bytes copied, the closing zero included.
pub(super) fn read_text(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [to, bytes, from, ..] = given;
    let bytes = u64::from(bytes as u32);
    at(run, to, bytes as usize, 1, Touch::Write)?;
    count(run, 8 * bytes as usize)?;
    let (memory, _) = run.memory_and_host();
    for copied in 0..bytes {
        let byte = from.checked_add(copied).and_then(|from| memory.load(from, Size::Byte));
        let Some(byte) = byte else {
            memory.bytes_mut(to, bytes).expect("bytes that were looked at").fill(0);
            return Ok(unreadable(from));
        };
        let byte = if copied + 1 == bytes { 0 } else { byte };
        memory.store(to + copied, Size::Byte, byte).expect("a byte that was looked at");
        if byte == 0 {
            return Ok(copied + 1);
        }
    }
    Ok(bytes)
}

/// `bpf_probe_read_user` and `bpf_probe_read_user_str`: no task has memory of its own, so zeros.
pub(super) fn read_user(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    read_either(run, [given[0], given[1], 0, 0, 0], read)
}

/// `bpf_get_current_comm`. Source: Linux, kernel/bpf/helpers.c: zeros fill the rest.
pub(super) fn name_of_current(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [to, bytes, ..] = given;
    let bytes = u64::from(bytes as u32);
    at(run, to, bytes as usize, 1, Touch::Write)?;
    // SAFETY: a task.
    let name = unsafe { (*run.host.current_of(run.host.here())).comm };
    let place = run.memory_and_host().0.bytes_mut(to, bytes).expect("bytes that were looked at");
    place.fill(0);
    if let Some(most) = place.len().checked_sub(1).map(|most| most.min(name.len())) {
        place[..most].copy_from_slice(&name[..most]);
    }
    Ok(0)
}

/// `scx_bpf_events`: as much as the program has room for.
pub(super) fn events(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [to, bytes, ..] = given;
    let events = run.host.policy.given.events.map(u64::to_le_bytes);
    let events = events.as_flattened();
    let bytes = (events.len() as u64).min(bytes);
    at(run, to, bytes as usize, 1, Touch::Write)?;
    let place = run.memory_and_host().0.bytes_mut(to, bytes).expect("bytes that were looked at");
    place.copy_from_slice(&events[..bytes as usize]);
    Ok(0)
}

/// `bpf_snprintf`: how long the text is, the closing zero included, or would be.
pub(super) fn print_to(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [to, bytes, format, words, words_bytes] = given;
    let bytes = u64::from(bytes as u32);
    let message = run.message(format, Words::At(words, words_bytes))?;
    let Some(message) = message else { return Ok(-errno::EINVAL as u64) };
    let needed = message.len() as u64 + 1;
    if bytes != 0 {
        at(run, to, bytes as usize, 1, Touch::Write)?;
        let place = run.memory_and_host().0.bytes_mut(to, bytes.min(needed));
        let (zero, text) =
            place.and_then(<[u8]>::split_last_mut).expect("bytes that were looked at");
        text.copy_from_slice(&message.as_bytes()[..text.len()]);
        *zero = 0;
    }
    Ok(needed)
}

/// Refuses an address where not so many bytes are that a call takes, and counts them.
pub(super) fn check_given(run: &mut Calling<'_, '_>, data: u64, bytes: u64) -> Result<(), Stop> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    at(run, data, bytes, 1, Touch::Read)?;
    count(run, bytes)?;
    Ok(())
}

/// The number of the timer at an address, if `bpf_timer_init` made one there.
fn timer(run: &mut Calling<'_, '_>, address: u64) -> Result<Option<u32>, Stop> {
    let words = writable::<[u64; 2]>(run, address)?;
    // SAFETY: words of the policy's own.
    let kept = unsafe { (*words)[0] };
    Ok(run.host.policy.maps.find_timer(address, kept))
}

/// `bpf_timer_init`. Source: Linux, kernel/bpf/helpers.c.
pub(super) fn timer_init(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    // `CLOCK_REALTIME`, `CLOCK_MONOTONIC`, `CLOCK_BOOTTIME`
    const CLOCKS: [u64; 3] = [0, 1, 7];
    async_init(run, given, CLOCKS.contains(&given[2]))
}

/// `bpf_wq_init`
pub(super) fn work_init(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    async_init(run, given, given[2] as u32 == 0)
}

fn async_init(run: &mut Calling<'_, '_>, given: [u64; 5], takes_flags: bool) -> Result<u64, Stop> {
    let (_, map) = (timer(run, given[0])?, map(run, given[1])?);
    if !takes_flags {
        return Ok(-errno::EINVAL as u64);
    }
    match run.host.policy.maps.add_timer(map, given[0]) {
        Ok(number) => run.store(given[0], Size::Double, number).expect("a timer"),
        Err(errno) => return Ok(errno as u64),
    }
    Ok(0)
}

pub(super) fn timer_set_callback(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let number = timer(run, given[0])?;
    function(run, given[1])?;
    let Some(number) = number else { return Ok(-errno::EINVAL as u64) };
    run.host.policy.maps.set_callback(number, given[1]);
    Ok(0)
}

pub(super) fn timer_start(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    const ABSOLUTE: u64 = 1;
    const PINNED: u64 = 2;
    let [address, ns, flags, ..] = given;
    let number = timer(run, address)?.filter(|_| flags & !(ABSOLUTE | PINNED) == 0);
    let cpu = run.host.here();
    let armed = number.and_then(|number| run.host.policy.maps.arm(number, cpu));
    let Some((index, generation)) = armed else { return Ok(-errno::EINVAL as u64) };
    let now_ns = run.host.now_ns();
    let at_ns = if flags & ABSOLUTE != 0 { ns.max(now_ns) } else { now_ns.saturating_add(ns) };
    run.host.forget_stale_timers();
    run.host.time.add_timer(at_ns, Timer::Policy(index, generation));
    Ok(0)
}

/// `bpf_timer_cancel`, which waits for a callback that runs and forgets it.
pub(super) fn timer_cancel(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let Some(number) = timer(run, given[0])? else { return Ok(-errno::EINVAL as u64) };
    let maps = &mut run.host.policy.maps;
    if maps.is_running(number) {
        return Ok(-errno::EDEADLK as u64);
    }
    maps.set_callback(number, 0);
    Ok(maps.disarm(number).into())
}

/// `bpf_timer_cancel_async`, which does neither.
pub(super) fn timer_cancel_async(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let Some(number) = timer(run, given[0])? else { return Ok(-errno::EINVAL as u64) };
    let maps = &mut run.host.policy.maps;
    Ok(if maps.is_running(number) { -1_i64 as u64 } else { maps.disarm(number).into() })
}

/// A program takes a lock itself that is free and was held here last.
#[inline(always)]
pub(super) fn lock(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let lock = writable::<u32>(run, given[0])?;
    // SAFETY: a word of the policy's own.
    let known = run.host.policy.maps.find_lock(given[0], unsafe { *lock });
    let number = match known {
        Some(number) => number,
        None => match new_lock(run, given[0]) {
            Some(number) => number,
            None => return Ok(0),
        },
    };
    let kernel = &mut *run.host;
    // SAFETY: as above.
    unsafe { *lock = number };
    let Lock { free_at, holder, .. } = kernel.visible.locks[number as usize];
    kernel.take(dispatch_queue::Lock { free_at_ns: free_at, holder });
    Ok(0)
}

/// The number of a lock that was never taken; none, and the end of the run, if there are too many.
#[cold]
#[inline(never)]
fn new_lock(run: &mut Calling<'_, '_>, address: u64) -> Option<u32> {
    let kernel = &mut *run.host;
    match kernel.policy.maps.add_lock(address) {
        Some(number) => kernel.visible.locks[number as usize].address = address as u32,
        None => {
            let message = "bpf_spin_lock() of more locks than there may be".to_owned();
            kernel.fail(FailureKind::Limit, message);
        }
    }
    kernel.policy.maps.find_lock(address, 0)
}

#[inline(always)]
pub(super) fn unlock(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let lock = writable::<u32>(run, given[0])?;
    let kernel = &mut *run.host;
    // SAFETY: a word of the policy's own.
    match kernel.policy.maps.find_lock(given[0], unsafe { *lock }) {
        Some(number) => {
            let dispatch_queue::Lock { free_at_ns, holder } = kernel.released();
            let lock = &mut kernel.visible.locks[number as usize];
            (lock.free_at, lock.holder) = (free_at_ns, holder);
        }
        None => {
            let message = "bpf_spin_unlock() of a lock that was never taken".to_owned();
            kernel.fail(FailureKind::BadCall, message);
        }
    }
    Ok(0)
}
