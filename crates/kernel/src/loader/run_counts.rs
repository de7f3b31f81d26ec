//! Having the kernel count how often BPF programs run.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys::{BPF_STATS_RUN_TIME, bpf_enable_stats};

/// As long as this lives the kernel counts, for every program of the machine; each run then costs
/// some 20 ns more. Ends by itself with the process.
#[derive(Debug)]
pub(super) struct RunCounts(#[expect(dead_code, reason = "open for its lifetime")] OwnedFd);

impl RunCounts {
    pub fn begin() -> io::Result<Self> {
        // SAFETY: the call takes a number and gives a descriptor or an error.
        let fd = unsafe { bpf_enable_stats(BPF_STATS_RUN_TIME) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is open, and nobody else has it.
        Ok(RunCounts(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
}
