//! The run queues as a static library for C: names and conversions, no decisions.
//!
//! `include/schedlab_runqueue.h` describes every function, a test holds the two together. Wrong
//! use comes back as a negative number and no panic crosses the border (`queue.rs`). What cannot be
//! checked is what C cannot check either: that a pointer that is not null points to a queue that
//! was created and not destroyed, and that one thread uses it at a time. It is each function's
//! safety rule.

mod queue;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use queue::{Queue, Refusal, STRUCTURES};

/// The number of a refusal.
const fn code(refusal: Refusal) -> c_int {
    refusal as c_int
}

/// 0 or the refusal's number.
fn done(result: Result<(), Refusal>) -> c_int {
    result.map_or_else(code, |()| 0)
}

/// 1, 0 or the refusal's number.
fn answer(result: Result<bool, Refusal>) -> c_int {
    result.map_or_else(code, c_int::from)
}

/// The number or the refusal's.
fn number(result: Result<usize, Refusal>) -> i64 {
    result.map_or_else(|refusal| i64::from(code(refusal)), |number| number as i64)
}

/// The item or the refusal's number.
fn item(result: Result<u32, Refusal>) -> i64 {
    result.map_or_else(|refusal| i64::from(code(refusal)), i64::from)
}

/// The queue behind a pointer.
///
/// # Safety
/// `queue` is null, or was created, is not destroyed while the result lives, and is used by no
/// other thread meanwhile.
unsafe fn behind<'a>(queue: *const Queue) -> Result<&'a Queue, Refusal> {
    // SAFETY: the caller's promise. The reference is shared: a queue that is used while it is
    // walked finds its cell borrowed.
    unsafe { queue.as_ref() }.ok_or(Refusal::Null)
}

/// What a code means.
#[unsafe(no_mangle)]
pub extern "C" fn schedlab_runqueue_explain(code: c_int) -> *const c_char {
    let refusal = Refusal::ALL.into_iter().find(|&refusal| refusal as c_int == code);
    match refusal {
        Some(refusal) => refusal.text(),
        None if code >= 0 => c"done",
        None => c"no code of schedlab_runqueue",
    }
    .as_ptr()
}

/// The name of a structure.
#[unsafe(no_mangle)]
pub extern "C" fn schedlab_runqueue_structure(index: usize) -> *const c_char {
    STRUCTURES.get(index).map_or(null(), |structure| structure.name.as_ptr())
}

/// Creates a queue.
///
/// # Safety
/// `structure` is null or a string; `queue` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_runqueue_create(
    structure: *const c_char,
    capacity: u32,
    queue: *mut *mut Queue,
) -> c_int {
    // SAFETY: the caller's promise; nobody else has the place yet.
    let Some(place) = (unsafe { queue.as_mut() }) else { return code(Refusal::Null) };
    *place = null_mut();
    if structure.is_null() {
        return code(Refusal::Null);
    }
    // SAFETY: it is not null, and then a string.
    let structure = unsafe { CStr::from_ptr(structure) };
    done(Queue::new(structure, capacity).map(|made| *place = Box::into_raw(Box::new(made))))
}

/// Destroys a queue.
///
/// # Safety
/// As [`behind`]; the queue is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_runqueue_destroy(queue: *mut Queue) -> c_int {
    // SAFETY: the caller's promise; the reference is gone after this line.
    match unsafe { behind(queue) }.map(Queue::is_busy) {
        Err(_) => 0,
        Ok(true) => code(Refusal::Busy),
        Ok(false) => {
            // SAFETY: it was made by `create` of a box, and nobody walks it, so this is the only
            // use of it that is left.
            drop(unsafe { Box::from_raw(queue) });
            0
        }
    }
}

/// Queues an item.
///
/// # Safety
/// As [`behind`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_runqueue_push(queue: *mut Queue, item: u32, key: u64) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { behind(queue) }.and_then(|queue| queue.push(item, key)))
}

/// Removes the first item.
///
/// # Safety
/// As [`behind`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_runqueue_pop(queue: *mut Queue) -> i64 {
    // SAFETY: the caller's promise.
    item(unsafe { behind(queue) }.and_then(Queue::pop))
}

/// The first item.
///
/// # Safety
/// As [`behind`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_runqueue_peek(queue: *mut Queue) -> i64 {
    // SAFETY: the caller's promise.
    item(unsafe { behind(queue) }.and_then(Queue::peek))
}

/// Removes an item.
///
/// # Safety
/// As [`behind`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_runqueue_remove(queue: *mut Queue, item: u32) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { behind(queue) }.and_then(|queue| queue.remove(item)))
}

/// Gives an item another key.
///
/// # Safety
/// As [`behind`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_runqueue_requeue(
    queue: *mut Queue,
    item: u32,
    key: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { behind(queue) }.and_then(|queue| queue.requeue(item, key)))
}

/// The key that an item was last pushed with.
///
/// # Safety
/// As [`behind`]; `key` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_runqueue_key(
    queue: *const Queue,
    item: u32,
    key: *mut u64,
) -> c_int {
    // SAFETY: the caller's promise.
    let (queue, place) = unsafe { (behind(queue), key.as_mut()) };
    let Some(place) = place else { return code(Refusal::Null) };
    done(queue.and_then(|queue| queue.key(item)).map(|key| *place = key))
}

/// Whether an item is queued.
///
/// # Safety
/// As [`behind`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_runqueue_contains(queue: *const Queue, item: u32) -> c_int {
    // SAFETY: the caller's promise.
    answer(unsafe { behind(queue) }.and_then(|queue| queue.contains(item)))
}

/// How many items are queued.
///
/// # Safety
/// As [`behind`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_runqueue_len(queue: *const Queue) -> i64 {
    // SAFETY: the caller's promise.
    number(unsafe { behind(queue) }.and_then(Queue::len))
}

/// Whether order is exact.
///
/// # Safety
/// As [`behind`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_runqueue_is_exact(queue: *const Queue) -> c_int {
    // SAFETY: the caller's promise.
    answer(unsafe { behind(queue) }.and_then(Queue::is_exact))
}

/// Shows every item and its key in order.
///
/// # Safety
/// As [`behind`]; `visit` is null or returns when it is called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_runqueue_for_each(
    queue: *mut Queue,
    visit: Option<unsafe extern "C" fn(*mut c_void, u32, u64)>,
    context: *mut c_void,
) -> c_int {
    let Some(visit) = visit else { return code(Refusal::Null) };
    // SAFETY: the caller's promise, for both.
    let mut shown = |item, key| unsafe { visit(context, item, key) };
    // SAFETY: the caller's promise.
    done(unsafe { behind(queue) }.and_then(|queue| queue.for_each(&mut shown)))
}

/// Bytes that the queue holds.
///
/// # Safety
/// As [`behind`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_runqueue_memory_bytes(queue: *const Queue) -> i64 {
    // SAFETY: the caller's promise.
    number(unsafe { behind(queue) }.and_then(Queue::memory_bytes))
}
