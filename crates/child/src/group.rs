//! A process that ends with the one that started it, and takes along all that it has started.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::errno::Errno;
use nix::libc::c_int;
use nix::sys::prctl;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, sigaction};
use nix::unistd::{Pid, getpid, getppid};

static PARENT: AtomicI32 = AtomicI32::new(0);
static SELF: AtomicI32 = AtomicI32::new(0);

/// Has this process, which leads a group, end with that group when the thread that started it does,
/// even by SIGKILL, and even while this process is stopped.
///
/// # Errors
///
/// The system's, and `ESRCH` if `parent` is gone already.
pub fn end_with_parent(parent: i32) -> io::Result<()> {
    PARENT.store(parent, Ordering::Relaxed);
    SELF.store(getpid().as_raw(), Ordering::Relaxed);
    let action = SigAction::new(SigHandler::Handler(end), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler makes system calls and reads two words, and nothing else.
    unsafe { sigaction(Signal::SIGCONT, &action) }?;
    // Of all signals that a process can answer only this one reaches it while it is stopped.
    prctl::set_pdeathsig(Signal::SIGCONT)?;
    if is_orphan() { Err(Errno::ESRCH.into()) } else { Ok(()) }
}

fn is_orphan() -> bool {
    // What it has started has the same handler, and another parent.
    getpid().as_raw() == SELF.load(Ordering::Relaxed)
        && getppid().as_raw() != PARENT.load(Ordering::Relaxed)
}

extern "C" fn end(_: c_int) {
    if is_orphan() {
        let _ = kill(Pid::from_raw(0), Signal::SIGKILL);
    }
}
