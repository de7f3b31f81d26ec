//! A QEMU process that cannot outlive us.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::getppid;

use super::sink::Sink;
use super::{Qemu, VmError};

/// A child with a process group of its own, so that Ctrl-C reaches us and not it.
pub(super) struct Process {
    program: String,
    child: Child,
    output: Sink,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts QEMU. The kernel kills it when the calling thread ends, even by SIGKILL.
    pub fn start(qemu: &Qemu, arguments: &[String]) -> Result<Process, VmError> {
        let output = Sink::with(b"").map_err(VmError::Memory)?;
        let handle = || output.handle().map(Stdio::from).map_err(VmError::Memory);
        let mut command = Command::new(&qemu.program);
        command.args(arguments).stdin(Stdio::null()).stdout(handle()?).stderr(handle()?);
        command.process_group(0);
        let parent = nix::unistd::getpid();
        let end_with_parent = move || {
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            if getppid() == parent {
                Ok(())
            } else {
                // It ended before the kernel was told.
                Err(io::Error::from_raw_os_error(nix::errno::Errno::ESRCH as i32))
            }
        };
        // SAFETY: between fork and exec only two system calls are made and nothing is allocated,
        // so no lock that another thread held at the fork is waited for.
        unsafe { command.pre_exec(end_with_parent) };
        let program = qemu.program.clone();
        match command.spawn() {
            Ok(child) => Ok(Process { program, child, output, status: None }),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                Err(VmError::QemuMissing { program })
            }
            Err(cause) => Err(VmError::Process { action: "start", program, cause }),
        }
    }

    /// Whether it has ended, by itself or by [`Process::kill`].
    pub fn exited(&mut self) -> Result<bool, VmError> {
        if self.status.is_none() {
            self.status = self.child.try_wait().map_err(|cause| VmError::Process {
                action: "wait for",
                program: self.program.clone(),
                cause,
            })?;
        }
        Ok(self.status.is_some())
    }

    /// Ends it and waits until it is gone.
    pub fn kill(&mut self) {
        if self.status.is_none() {
            // It fails only if the process is gone already.
            let _ = self.child.kill();
            self.status = self.child.wait().ok();
        }
    }

    /// If it ended with an error of its own: how, and what it printed.
    pub fn failure(&self) -> Option<String> {
        let status = self.status.filter(|status| !status.success())?;
        // What it printed is a help to understand; without it the status must do.
        let said = std::fs::read(self.output.path()).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        Some(format!("QEMU ended with {status}: {}", said.trim()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
