//! A QEMU process that cannot outlive us.

use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};

use super::monitor::Monitor;
use super::{Qemu, VmError};
use crate::sink::Sink;

/// Last bytes of QEMU's own output that are kept: it says why it fails in few lines.
const SAID_BYTES_MAX: usize = 16 * 1024;

/// A child with a process group of its own, so that Ctrl-C reaches us and not it.
pub(super) struct Process {
    program: String,
    child: Child,
    output: Sink,
    /// The last of it.
    said: Vec<u8>,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts QEMU, and opens its monitor. The kernel kills it when the calling thread ends, even
    /// by SIGKILL.
    pub fn start(qemu: &Qemu, arguments: &[String]) -> Result<(Process, Monitor), VmError> {
        let in_memory = || Sink::with(b"").map_err(VmError::Memory);
        let (output, answers) = (in_memory()?, in_memory()?);
        let handle = |of: &Sink| of.handle().map(Stdio::from).map_err(VmError::Memory);
        let mut command = Command::new(&qemu.program);
        command.args(arguments).stdin(Stdio::piped());
        command.stdout(handle(&answers)?).stderr(handle(&output)?);
        child::tie_to_us(&mut command);
        let program = qemu.program.clone();
        match command.spawn() {
            Ok(mut child) => {
                let to = child.stdin.take().expect("its standard input is a pipe of ours");
                let process = Process { program, child, output, said: vec![], status: None };
                Ok((process, Monitor::open(to, answers)))
            }
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

    /// Its number among this machine's processes.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it and waits until it is gone.
    pub fn kill(&mut self) {
        if self.status.is_none() {
            // It fails only if the process is gone already.
            let _ = self.child.kill();
            self.status = self.child.wait().ok();
        }
    }

    /// Takes in what it printed as errors since the last time, of which the end is kept; whether
    /// that was anything.
    pub fn read_output(&mut self) -> io::Result<bool> {
        let bytes = self.output.read_new(&mut self.said)?;
        let surplus = self.said.len().saturating_sub(SAID_BYTES_MAX);
        self.said.drain(..surplus);
        Ok(bytes > 0)
    }

    /// How much it printed, in bytes.
    pub fn printed_bytes(&self) -> u64 {
        self.output.length()
    }

    /// If it ended with an error of its own: how, and the last that it printed.
    pub fn failure(&self) -> Option<String> {
        let status = self.status.filter(|status| !status.success())?;
        let said = String::from_utf8_lossy(&self.said);
        Some(format!("QEMU ended with {status}: {}", said.trim()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn of_what_qemu_prints_without_end_the_last_is_kept() {
        let (program, version_text) = ("sh".to_owned(), String::new());
        let shell = Qemu { program, version: (10, 0), version_text };
        let script = "(yes '0123456' | head -c 3000000; echo 'why it ended') >&2; exit 1";
        let (mut process, _monitor) =
            Process::start(&shell, &["-c".to_owned(), script.to_owned()]).unwrap();
        while !process.exited().unwrap() {
            process.read_output().unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        while process.read_output().unwrap() {}
        assert_eq!(process.printed_bytes(), 3_000_000 + 13);
        let told = process.failure().unwrap();
        assert!(told.starts_with("QEMU ended with exit status: 1: "), "{}", &told[..64]);
        assert!(told.ends_with("0123456\nwhy it ended"), "{}", &told[told.len() - 64..]);
        assert!(told.len() <= SAID_BYTES_MAX + 64, "{}", told.len());
    }
}
