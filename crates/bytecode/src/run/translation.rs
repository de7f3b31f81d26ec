//! A program as instructions of this machine.
//!
//! What a translation cannot do itself, it leaves to the interpreter, which goes on at the very
//! instruction with the registers as they are: a fault, a write that only the host may allow, an
//! operation that is rare. So there is one place that says what is wrong, and it is never fast.
//!
//! Each register of BPF has one of the machine. A register is compared with the memory's borders
//! once for all accesses by it, until it changes or a jump leads back; what is known of a register,
//! as that it is so far from R10, needs no comparison. Instructions are counted where ways meet.
//!
//! All unsafe code of the crate is here.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod arenas;
mod blocks;
mod borders;
mod counts;
mod known;
mod late;
mod shortcuts;
mod states;
mod ways;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::any::Any;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

use dynasmrt::ExecutableBuffer;

#[cfg(target_arch = "aarch64")]
use aarch64::Assembler;
use blocks::Translator;
#[cfg(target_arch = "x86_64")]
use x86_64::Assembler;

use super::{Host, MAY_GOTO_MAX, Machine, Reach, Run};
use crate::fault::Fault;
use crate::memory::Layout;
use crate::program::Program;

/// Where the parts of [`Reach`] are, with which a machine begins.
const FIRST: i32 = offset_of!(Reach, first) as i32;
const LEFT: i32 = offset_of!(Reach, left) as i32;
const ENDED: i32 = offset_of!(Reach, ended) as i32;
const CALL: i32 = offset_of!(Reach, call) as i32;
const FRAME_END: i32 = offset_of!(Reach, frame_end) as i32;
const PLACE: i32 = offset_of!(Reach, place) as i32;
const CALLS: i32 = offset_of!(Reach, calls) as i32;
const ARENA: i32 = offset_of!(Reach, arena) as i32;
const DIVISIONS: i32 = offset_of!(Reach, divisions) as i32;
const CALLS_MADE: i32 = offset_of!(Reach, calls_made) as i32;
const WIDE: i32 = offset_of!(Reach, wide) as i32;
const PAGES: i32 = offset_of!(Reach, pages) as i32;
const REGISTERS_AT: i32 = offset_of!(Reach, registers) as i32;

/// Code as it is entered: a function's arguments, and the machine.
type Enter = extern "C" fn(u64, u64, u64, u64, u64, *mut ()) -> u64;

/// Calls that have code of their own, so that each is known where it is compiled and each place
/// in a program always jumps to the same: half the time of a call was the search for it.
const OWN_CALLS: usize = 128;
/// The number of those that have none, and of what goes on in the interpreter.
const ANY_CALL: usize = OWN_CALLS;
const RESUME: usize = ANY_CALL + 1;

struct Shims<H>(PhantomData<H>);

macro_rules! shims {
    ($($tens:literal)*) => {
        &[$(
            answer::<H, { 8 * $tens }>, answer::<H, { 8 * $tens + 1 }>,
            answer::<H, { 8 * $tens + 2 }>, answer::<H, { 8 * $tens + 3 }>,
            answer::<H, { 8 * $tens + 4 }>, answer::<H, { 8 * $tens + 5 }>,
            answer::<H, { 8 * $tens + 6 }>, answer::<H, { 8 * $tens + 7 }>,
        )* answer::<H, ANY_CALL>, resume::<H>]
    };
}

impl<H: Host> Shims<H> {
    const CALLS: &[Enter; RESUME + 1] = shims!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
}

/// A program's code for this machine.
pub(super) struct Translation {
    /// How each function is entered first, and from within a call of the host. All is in the code.
    entries: Vec<Enter>,
    inner: Vec<Enter>,
    _code: ExecutableBuffer,
}

impl Translation {
    /// Translates a program that is to run in memories of this layout, for so many instructions at
    /// the most.
    ///
    /// `None` where this machine's instructions are not known, or have no room for the layout: the
    /// interpreter runs everywhere.
    pub(super) fn new(
        program: &Program,
        layout: Layout,
        has_arena: bool,
        most: u64,
        tells_apart: bool,
        wide: &[u8],
    ) -> Option<Translation> {
        // Displacements of 32 bits must hold the layout, the first address and any offset.
        if layout.bytes > i32::MAX as u64 - (1 << 17) {
            return None;
        }
        let translator = Translator::new(program, layout, has_arena, tells_apart, wide)?;
        let (code, entries, inner) = translator.code(most)?;
        // SAFETY: an entry is code that takes these arguments, keeps the registers that its caller
        // needs, and lives as long as the buffer.
        let entry = |at| unsafe { std::mem::transmute::<*const u8, Enter>(code.ptr(at)) };
        let all = |offsets: Vec<_>| offsets.into_iter().map(entry).collect();
        Some(Translation { entries: all(entries), inner: all(inner), _code: code })
    }
}

/// Calls a function of a machine that has a translation: the first one, or one from within a call
/// of the host, whose frame ends where the machine says.
#[inline]
pub(super) fn call<H: Host>(
    run: Run<'_, H>,
    number: usize,
    is_first: bool,
    [a, b, c, d, e]: [u64; 5],
) -> Result<u64, Box<Fault>> {
    let machine = run.machine;
    let translation = machine.translation.as_ref().expect("asked before");
    let enter = if is_first { translation.entries[number] } else { translation.inner[number] };
    machine.reach.host = ptr::from_mut(run.host).cast();
    machine.reach.calls = Shims::<H>::CALLS.as_ptr().cast();
    // What runs was translated from a program that was checked when it was linked: every access
    // is compared with the borders of the machine's memory. Nobody else uses the machine or the
    // host until it returns.
    let answer = enter(a, b, c, d, e, ptr::from_mut(machine).cast());
    if machine.reach.ended == 0 { Ok(answer) } else { Err(ended(machine)) }
}

/// What ended a run; a panic of the host goes on.
#[cold]
fn ended(machine: &mut Machine) -> Box<Fault> {
    machine.reach.ended = 0;
    if let Some(panic) = machine.panic.take() {
        resume_unwind(panic);
    }
    machine.fault.take().expect("what ended a run is kept")
}

/// Answers a call of the host.
extern "C" fn answer<H: Host, const NUMBER: usize>(
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    machine: *mut (),
) -> u64 {
    in_run::<H>(machine, |run| {
        let number = if NUMBER == ANY_CALL { run.machine.reach.call as usize } else { NUMBER };
        H::call(run, number, [a, b, c, d, e]).map_err(|stop| run.machine.stopped(stop))
    })
}

/// Goes on with a function in the interpreter, from instruction `at` to its end.
extern "C" fn resume<H: Host>(
    at: u64,
    loops_left: u64,
    _: u64,
    _: u64,
    _: u64,
    machine: *mut (),
) -> u64 {
    in_run::<H>(machine, |run| {
        // SAFETY: all of them were written on the way here.
        let registers = unsafe { run.machine.reach.registers.assume_init() };
        run.resume(at as usize, registers, loops_left)
    })
}

#[inline]
fn in_run<H: Host>(
    machine: *mut (),
    go_on: impl FnOnce(&mut Run<'_, H>) -> Result<u64, Box<Fault>>,
) -> u64 {
    // SAFETY: code gives the machine that it was called with; nobody else uses it meanwhile.
    let machine = unsafe { &mut *machine.cast::<Machine>() };
    // SAFETY: `call` put it there, for shims of the same type, and waits.
    let host = unsafe { &mut *machine.reach.host.cast::<H>() };
    let mut run = Run { machine, host };
    // No panic may cross the code; it goes on where the code was called.
    match catch_unwind(AssertUnwindSafe(|| go_on(&mut run))) {
        Ok(Ok(answer)) => answer,
        Ok(Err(fault)) => end(run.machine, Some(fault), None),
        Err(panic) => end(run.machine, None, Some(panic)),
    }
}

#[cold]
fn end(
    machine: &mut Machine,
    fault: Option<Box<Fault>>,
    panic: Option<Box<dyn Any + Send>>,
) -> u64 {
    (machine.fault, machine.panic) = (fault, panic);
    machine.reach.ended = 1;
    0
}
