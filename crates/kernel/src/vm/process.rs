//! A QEMU process that cannot outlive us.

use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};

use super::{Qemu, VmError};
use crate::child;
use crate::sink::Sink;

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
        child::tie_to_us(&mut command);
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
