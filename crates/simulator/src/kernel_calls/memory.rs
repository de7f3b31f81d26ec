//! Calls on the policy's maps, timers and locks.

use super::kernel;
use crate::dispatch_queue::Lock;
use crate::failure::FailureKind;
use crate::kernel::Kernel;
use crate::policy_maps::errno;
use crate::timer::Timer;
use policy::abi::{self, Host, Map, SpinLock, Task};
use std::ffi::c_void;

pub(crate) unsafe extern "C" fn task_storage_create(
    host: *mut Host,
    map: *mut Map,
    task: *mut Task,
) -> *mut u8 {
    let k = unsafe { kernel(host) };
    if task.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: a task structure; the policy holds no reference while this runs.
    k.maps.create_storage(&mut k.visible, map, unsafe { &mut *task })
}

pub(crate) unsafe extern "C" fn task_storage_delete(
    host: *mut Host,
    map: *mut Map,
    task: *mut Task,
) {
    let k = unsafe { kernel(host) };
    if !task.is_null() {
        // SAFETY: as above.
        k.maps.delete_storage(map, unsafe { &mut *task });
    }
}

pub(crate) unsafe extern "C" fn hash_lookup(
    host: *mut Host,
    map: *mut Map,
    key: *const u8,
) -> *mut u8 {
    // SAFETY: the policy passes a key of the map's type.
    unsafe { kernel(host).maps.lookup(map, key) }
}

pub(crate) unsafe extern "C" fn map_update(
    host: *mut Host,
    map: *mut Map,
    key: *const u8,
    value: *const u8,
    flags: u64,
) -> i32 {
    let k = unsafe { kernel(host) };
    let cpu = k.here();
    // SAFETY: the policy passes a key and a value of the map's types.
    unsafe { k.maps.update(&mut k.visible, map, (key, value), flags, cpu) }
}

pub(crate) unsafe extern "C" fn map_delete(host: *mut Host, map: *mut Map, key: *const u8) -> i32 {
    // SAFETY: the policy passes a key of the map's type.
    unsafe { kernel(host).maps.delete(map, key) }
}

/// Number of the timer at an address, if `bpf_timer_init` made one there.
///
/// # Safety
/// `timer` is a timer of the policy's.
unsafe fn timer_number(k: &Kernel<'_>, timer: *mut abi::Timer) -> Option<u32> {
    // SAFETY: promised by the caller.
    k.maps.find_timer(timer, unsafe { (*timer).id })
}

pub(crate) unsafe extern "C" fn timer_init(
    host: *mut Host,
    timer: *mut abi::Timer,
    map: *mut Map,
) -> i32 {
    let k = unsafe { kernel(host) };
    match k.maps.add_timer(map, timer) {
        Ok(number) => {
            // SAFETY: the policy's timer, inside a value of its map.
            unsafe { (*timer).id = number };
            0
        }
        Err(errno) => errno,
    }
}

pub(crate) unsafe extern "C" fn timer_set_callback(
    host: *mut Host,
    timer: *mut abi::Timer,
    callback: *mut c_void,
) -> i32 {
    let k = unsafe { kernel(host) };
    let Some(number) = (unsafe { timer_number(k, timer) }) else { return -errno::EINVAL };
    k.maps.set_callback(number, callback);
    0
}

pub(crate) unsafe extern "C" fn timer_start(
    host: *mut Host,
    timer: *mut abi::Timer,
    ns: u64,
    flags: u64,
) -> i32 {
    const ABSOLUTE: u64 = 1;
    let k = unsafe { kernel(host) };
    let cpu = k.here();
    let number = unsafe { timer_number(k, timer) };
    let armed = number.and_then(|number| k.maps.arm(number, cpu));
    let Some((index, generation)) = armed else { return -errno::EINVAL };
    let now_ns = k.host.now_ns;
    let at_ns = if flags & ABSOLUTE != 0 { ns.max(now_ns) } else { now_ns.saturating_add(ns) };
    k.add_timer(at_ns, Timer::Policy(index, generation));
    0
}

pub(crate) unsafe extern "C" fn timer_cancel(host: *mut Host, timer: *mut abi::Timer) -> i32 {
    let k = unsafe { kernel(host) };
    let Some(number) = (unsafe { timer_number(k, timer) }) else { return -errno::EINVAL };
    k.maps.disarm(number);
    0
}

pub(crate) unsafe extern "C" fn spin_lock(host: *mut Host, lock: *mut SpinLock) {
    let k = unsafe { kernel(host) };
    // SAFETY: the policy's lock.
    let kept = unsafe { (*lock).id };
    let known = k.maps.find_lock(lock, kept);
    let Some(number) = known.or_else(|| k.maps.add_lock(lock)) else {
        let message = "bpf_spin_lock() of more locks than there may be".to_owned();
        return k.fail(FailureKind::Limit, message);
    };
    if known.is_none() {
        k.spin_locks.push(Lock::default());
    }
    // SAFETY: as above.
    unsafe { (*lock).id = number };
    k.take(k.spin_locks[number as usize - 1]);
}

pub(crate) unsafe extern "C" fn spin_unlock(host: *mut Host, lock: *mut SpinLock) {
    let k = unsafe { kernel(host) };
    // SAFETY: the policy's lock.
    let kept = unsafe { (*lock).id };
    match k.maps.find_lock(lock, kept) {
        Some(number) => k.spin_locks[number as usize - 1] = k.released(),
        None => {
            let message = "bpf_spin_unlock() of a lock that was never taken".to_owned();
            k.fail(FailureKind::BadCall, message);
        }
    }
}
