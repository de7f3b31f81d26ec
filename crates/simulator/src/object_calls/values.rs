//! Calls on maps, timers, locks and memory.

use super::{Calling, at, refused, shown, some_task, task, writable};
use crate::abi::{SpinLock, Timer};
use crate::dispatch_queue::Lock;
use crate::failure::FailureKind;
use crate::policy_maps::{View, errno, kind};
use bytecode::{Stop, Touch};

/// `BPF_LOCAL_STORAGE_GET_F_CREATE`
const CREATE: u64 = 1;

/// The number of the map that a token stands for.
fn map(run: &Calling<'_, '_>, token: u64) -> Result<usize, Stop> {
    let found = run.host.maps.number(token);
    found.ok_or_else(|| refused(format!("{token:#x} is given for a map and is none")))
}

/// What describes a map.
fn view(run: &Calling<'_, '_>, map: usize) -> View {
    *run.host.maps.view(map)
}

pub(super) fn storage_get(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [token, p, initial, flags, _] = given;
    let map = map(run, token)?;
    if view(run, map).kind != kind::TASK_STORAGE {
        return Err(refused("bpf_task_storage_get() of another kind of map".to_owned()));
    }
    if p == 0 {
        return Ok(0);
    }
    let p = some_task(run, p)?;
    // SAFETY: a task.
    let value = unsafe { (*p).storage[view(run, map).index as usize] };
    if !value.is_null() || flags & CREATE == 0 {
        return Ok(value.addr() as u64);
    }
    count(run, view(run, map).value_size as usize);
    // SAFETY: a task, to which nobody else holds a reference.
    let value = run.host.maps.create_storage(&mut run.host.visible, map, unsafe { &mut *p });
    if !value.is_null() && initial != 0 {
        check_members(run, map, initial)?;
        let bytes = view(run, map).value_size as usize;
        let from = at(run, initial, bytes, 1, Touch::Read)?;
        // SAFETY: both are as long; a value may be given for itself.
        unsafe { value.copy_from(from, bytes) };
    }
    Ok(shown(run, value))
}

pub(super) fn storage_delete(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let (map, p) = (map(run, given[0])?, task(run, given[1])?);
    // SAFETY: a task or null; nobody else holds a reference.
    if let Some(task) = unsafe { p.as_mut() } {
        run.host.maps.delete_storage(map, task);
    }
    Ok(0)
}

/// The key of a map at an address.
fn key(run: &mut Calling<'_, '_>, map: usize, address: u64) -> Result<*mut u8, Stop> {
    at(run, address, view(run, map).key_size as usize, 1, Touch::ReadAll)
}

/// Refuses a value with a member that was not written, in strict runs.
fn check_members(run: &mut Calling<'_, '_>, map: usize, value: u64) -> Result<(), Stop> {
    if !run.host.is_strict() {
        return Ok(());
    }
    let mut number = 0;
    while let Some((offset, bytes)) = run.host.maps.member(map, number) {
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
    let key = key(run, map, address)?;
    let map = view(run, map);
    if map.key_size != 4 {
        return Err(refused("a map whose values have no numbers is asked for one".to_owned()));
    }
    // SAFETY: the key was found, and arrays have keys of four bytes.
    let key = unsafe { key.cast::<u32>().read_unaligned() };
    if key >= map.max_entries || cpu >= run.host.nr_cpu_ids().into() || map.values.is_null() {
        return Ok(0);
    }
    let offset = cpu * map.cpu_stride + u64::from(key) * u64::from(map.value_stride);
    Ok(run.host.visible.address(map.values) + offset)
}

pub(super) fn lookup(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let map = map(run, given[0])?;
    if view(run, map).kind == kind::HASH {
        let key = key(run, map, given[1])?;
        // SAFETY: a key of the map's.
        let value = unsafe { run.host.maps.lookup(map, key) };
        return Ok(shown(run, value));
    }
    let cpu = run.host.cpu as u64;
    value_of_cpu(run, map, given[1], cpu)
}

pub(super) fn lookup_of_cpu(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let map = map(run, given[0])?;
    value_of_cpu(run, map, given[1], u64::from(given[2] as u32))
}

pub(super) fn update(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [token, key_at, value, flags, _] = given;
    let map = map(run, token)?;
    let key = key(run, map, key_at)?;
    check_members(run, map, value)?;
    let value = at(run, value, view(run, map).value_size as usize, 1, Touch::Read)?;
    count(run, view(run, map).value_size as usize);
    let cpu = run.host.here();
    let kernel = &mut *run.host;
    // SAFETY: a key and a value of the map's.
    let answer = unsafe { kernel.maps.update(&mut kernel.visible, map, (key, value), flags, cpu) };
    Ok(answer as u64)
}

pub(super) fn delete(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let map = map(run, given[0])?;
    let key = key(run, map, given[1])?;
    // SAFETY: a key of the map's.
    Ok(unsafe { run.host.maps.delete(map, key) } as u64)
}

pub(super) fn exchange(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let slot = writable::<u64>(run, given[0])?;
    run.keep_pointer(given[0]);
    // SAFETY: a word of the policy's own.
    Ok(unsafe { std::mem::replace(&mut *slot, given[1]) })
}

/// Counts what a call does byte by byte as instructions, so that no policy computes for free.
fn count(run: &mut Calling<'_, '_>, bytes: usize) {
    run.count(bytes as u64 / 8);
}

/// `bpf_probe_read_kernel`: zeros for what cannot be read.
pub(super) fn read(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let bytes = given[1] as u32 as usize;
    let to = at(run, given[0], bytes, 1, Touch::Write)?;
    count(run, bytes);
    let Some(from) = run.host.visible.find(given[2], bytes, false) else {
        // SAFETY: so many bytes of the policy's own.
        unsafe { to.write_bytes(0, bytes) };
        return Ok(-errno::EFAULT as u64);
    };
    // SAFETY: both are as long; they may overlap.
    unsafe { to.copy_from(from, bytes) };
    Ok(0)
}

/// `bpf_probe_read_kernel_str`: bytes copied, the closing zero included.
pub(super) fn read_text(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let bytes = given[1] as u32 as usize;
    let to = at(run, given[0], bytes, 1, Touch::Write)?;
    count(run, 8 * bytes);
    for copied in 0..bytes {
        let from = given[2].checked_add(copied as u64);
        let from = from.and_then(|from| run.host.visible.find(from, 1, false));
        let Some(from) = from else {
            // SAFETY: so many bytes of the policy's own.
            unsafe { to.write_bytes(0, bytes) };
            return Ok(-errno::EFAULT as u64);
        };
        // SAFETY: a byte that was found, and one of the policy's own.
        let byte = unsafe { *from };
        let last = copied + 1 == bytes;
        // SAFETY: as above.
        unsafe { to.add(copied).write(if last { 0 } else { byte }) };
        if byte == 0 {
            return Ok(copied as u64 + 1);
        }
    }
    Ok(bytes as u64)
}

/// The timer at an address, and its number, if `bpf_timer_init` made one there.
fn timer(run: &mut Calling<'_, '_>, address: u64) -> Result<(*mut Timer, Option<u32>), Stop> {
    let timer = writable::<Timer>(run, address)?;
    // SAFETY: bytes of the policy's own.
    let kept = unsafe { (*timer).id };
    Ok((timer, run.host.maps.find_timer(timer, kept)))
}

pub(super) fn timer_init(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let ((timer, _), map) = (timer(run, given[0])?, map(run, given[1])?);
    match run.host.maps.add_timer(map, timer) {
        // SAFETY: a timer inside a value of the policy's map.
        Ok(number) => unsafe { (*timer).id = number },
        Err(errno) => return Ok(errno as u64),
    }
    Ok(0)
}

pub(super) fn timer_set_callback(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let (_, number) = timer(run, given[0])?;
    if run.program().function_at(given[1]).is_none() {
        return Err(refused(format!("{:#x} is given for a callback and is none", given[1])));
    }
    let Some(number) = number else { return Ok(-errno::EINVAL as u64) };
    run.host.maps.set_callback(number, given[1]);
    Ok(0)
}

pub(super) fn timer_start(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    const ABSOLUTE: u64 = 1;
    let [address, ns, flags, ..] = given;
    let (_, number) = timer(run, address)?;
    let cpu = run.host.here();
    let armed = number.and_then(|number| run.host.maps.arm(number, cpu));
    let Some((index, generation)) = armed else { return Ok(-errno::EINVAL as u64) };
    let now_ns = run.host.now_ns;
    let at_ns = if flags & ABSOLUTE != 0 { ns.max(now_ns) } else { now_ns.saturating_add(ns) };
    run.host.add_timer(at_ns, crate::timer::Timer::Policy(index, generation));
    Ok(0)
}

pub(super) fn timer_cancel(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let (_, Some(number)) = timer(run, given[0])? else { return Ok(-errno::EINVAL as u64) };
    run.host.maps.disarm(number);
    Ok(0)
}

pub(super) fn lock(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let lock = writable::<SpinLock>(run, given[0])?;
    let kernel = &mut *run.host;
    // SAFETY: a word of the policy's own.
    let known = kernel.maps.find_lock(lock, unsafe { (*lock).id });
    let Some(number) = known.or_else(|| kernel.maps.add_lock(lock)) else {
        let message = "bpf_spin_lock() of more locks than there may be".to_owned();
        kernel.fail(FailureKind::Limit, message);
        return Ok(0);
    };
    if known.is_none() {
        kernel.spin_locks.push(Lock::default());
    }
    // SAFETY: as above.
    unsafe { (*lock).id = number };
    kernel.take(kernel.spin_locks[number as usize - 1]);
    Ok(0)
}

pub(super) fn unlock(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let lock = writable::<SpinLock>(run, given[0])?;
    let kernel = &mut *run.host;
    // SAFETY: a word of the policy's own.
    match kernel.maps.find_lock(lock, unsafe { (*lock).id }) {
        Some(number) => kernel.spin_locks[number as usize - 1] = kernel.released(),
        None => {
            let message = "bpf_spin_unlock() of a lock that was never taken".to_owned();
            kernel.fail(FailureKind::BadCall, message);
        }
    }
    Ok(0)
}
