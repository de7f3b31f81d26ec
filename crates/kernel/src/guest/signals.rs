//! Waiting for what may happen to a job: a child's end, a wish to stop, or nothing.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// A child may have ended.
    Child,
    /// Somebody wants us to stop.
    Stop,
    /// The time is over.
    Time,
}

/// SIGCHLD, SIGINT and SIGTERM as something to wait for. Children get them as usual.
pub(super) struct Signals {
    fd: SignalFd,
}

impl Signals {
    pub fn block() -> io::Result<Self> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGCHLD, Signal::SIGINT, Signal::SIGTERM] {
            set.add(signal);
        }
        set.thread_block()?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Signals { fd: SignalFd::with_flags(&set, flags)? })
    }

    /// Waits for a signal; forever without `limit`. Milliseconds are rounded up.
    pub fn wait(&self, limit: Option<Duration>) -> io::Result<Wake> {
        let timeout = limit.map_or(PollTimeout::NONE, |limit| {
            let ms = limit.as_nanos().div_ceil(1_000_000);
            PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX)
        });
        let mut polled = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, timeout) {
            Ok(0) => return Ok(Wake::Time),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let Some(info) = self.fd.read_signal()? else { return Ok(Wake::Time) };
        let child = info.ssi_signo == Signal::SIGCHLD as u32;
        Ok(if child { Wake::Child } else { Wake::Stop })
    }
}
