//! Programs of this machine that we start: none outlives us, none is waited for without a limit.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod compiler;
mod group;
pub mod sink;

use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getppid};

use crate::sink::Sink;

pub use compiler::Compiler;
pub use group::end_with_parent;

/// How often a running program is looked at.
const POLL: Duration = Duration::from_millis(5);
/// More than any program has to say that we ask something.
const OUTPUT_BYTES_MAX: usize = 16 << 20;

/// The file of a program that is named as a path, or is the first on `PATH` that can be run.
pub fn file_of(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(program.into());
    }
    let path = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(program));
    files.find(|file| {
        file.metadata()
            .is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
    })
}

/// A program that ended by itself.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed on its standard output.
    pub stdout: Vec<u8>,
    /// What it printed on its standard error.
    pub stderr: Vec<u8>,
}

/// Why there is no end of a program to tell of.
#[derive(Debug, thiserror::Error)]
pub enum Unended {
    /// It could not be started or waited for.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It took too long, and was killed.
    #[error("it did not end within {} s", limit.as_secs_f64())]
    Late {
        /// What it was given.
        limit: Duration,
    },
    /// It printed too much, and was killed.
    #[error("it printed more than {OUTPUT_BYTES_MAX} bytes and did not stop")]
    Flooded,
    /// Whoever waits for it no longer wants to, so it was killed.
    #[error("it was interrupted")]
    Stopped,
}

/// Has the kernel kill the program when the thread that starts it ends, even by SIGKILL.
///
/// It also gets a process group of its own, so that Ctrl-C reaches us and not it.
pub fn tie_to_us(command: &mut Command) {
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
}

/// Lets the program, and each that it starts, ask for so much memory and for no more.
pub fn bound_memory(command: &mut Command, bytes: u64) {
    let bound = move || {
        // A user's own limit may be lower, and cannot be raised.
        let bytes = bytes.min(getrlimit(Resource::RLIMIT_AS)?.1);
        Ok(setrlimit(Resource::RLIMIT_AS, bytes, bytes)?)
    };
    // SAFETY: as above.
    unsafe { command.pre_exec(bound) };
}

/// Runs a program to its end, and gives what it printed.
///
/// `goes_on` is asked many times a second; false kills the program and all that it started.
///
/// # Errors
///
/// [`Unended`] if it could not be started, or was killed.
pub fn run(
    command: &mut Command,
    limit: Duration,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Ended, Unended> {
    let (stdout, stderr) = (Sink::with(b"")?, Sink::with(b"")?);
    command.stdout(stdout.handle()?);
    wait(command, stdout, stderr, limit, goes_on)
}

/// The same, of a program whose output goes to `file` as it is, however much it is.
///
/// # Errors
///
/// Those of [`run`].
pub fn run_into(
    file: File,
    command: &mut Command,
    limit: Duration,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Ended, Unended> {
    command.stdout(file);
    wait(command, Sink::with(b"")?, Sink::with(b"")?, limit, goes_on)
}

fn wait(
    command: &mut Command,
    mut stdout: Sink,
    mut stderr: Sink,
    limit: Duration,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Ended, Unended> {
    if !goes_on() {
        return Err(Unended::Stopped);
    }
    tie_to_us(command);
    let mut child = command.stdin(Stdio::null()).stderr(stderr.handle()?).spawn()?;
    let started = Instant::now();
    let (mut said, mut complained) = (Vec::new(), Vec::new());
    loop {
        // Whether it is gone is asked first: what it printed last is then read below.
        let status = child.try_wait()?;
        while stdout.read_new(&mut said)? + stderr.read_new(&mut complained)? > 0
            && said.len().max(complained.len()) <= OUTPUT_BYTES_MAX
        {}
        let why = if said.len().max(complained.len()) > OUTPUT_BYTES_MAX {
            Unended::Flooded
        } else if let Some(status) = status {
            return Ok(Ended { status, stdout: said, stderr: complained });
        } else if !goes_on() {
            Unended::Stopped
        } else if started.elapsed() > limit {
            Unended::Late { limit }
        } else {
            std::thread::sleep(POLL);
            continue;
        };
        kill(&mut child)?;
        return Err(why);
    }
}

/// Ends it with all that it started, and waits until it is gone.
fn kill(child: &mut Child) -> io::Result<()> {
    let group = i32::try_from(child.id()).map_err(io::Error::other)?;
    // It fails only if all of them are gone already.
    let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    child.wait().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_and_status_come_back() {
        let ended = run(&mut shell("echo out; echo err >&2; exit 3"), LONG, &mut || true).unwrap();
        assert_eq!((&ended.stdout[..], &ended.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(ended.status.code(), Some(3));
    }

    #[test]
    fn output_can_go_to_a_file_instead() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let to = file.reopen().unwrap();
        let ended = run_into(to, &mut shell("echo out"), LONG, &mut || true).unwrap();
        assert!(ended.status.success() && ended.stdout.is_empty());
        assert_eq!(std::fs::read(file.path()).unwrap(), b"out\n");
    }

    #[test]
    fn who_does_not_end_is_killed_at_the_limit_with_all_that_it_started() {
        let directory = tempfile::tempdir().unwrap();
        let started = Instant::now();
        let limit = Duration::from_millis(300);
        let mut command = shell("sleep 1000 & echo $! >pid; wait");
        let late = run(command.current_dir(directory.path()), limit, &mut || true).unwrap_err();
        assert_eq!(late.to_string(), "it did not end within 0.3 s");
        assert!(started.elapsed() < Duration::from_secs(20));
        let pid = std::fs::read_to_string(directory.path().join("pid")).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        // The killed child of the killed shell is reaped by whoever inherits it, if by anyone.
        let gone = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(2));
            state().map_or(true, |stat| stat.contains(") Z "))
        });
        assert!(gone, "{:?}", state());
    }

    #[test]
    fn who_is_no_longer_wanted_is_killed_at_once() {
        let started = Instant::now();
        let mut asked = 0;
        let mut goes_on = || {
            asked += 1;
            asked < 3
        };
        let stopped = run(&mut shell("sleep 1000"), LONG, &mut goes_on).unwrap_err();
        assert!(matches!(stopped, Unended::Stopped));
        assert!(started.elapsed() < LONG);
    }

    #[test]
    fn who_prints_without_end_is_killed() {
        let flooded = run(&mut shell("yes"), LONG, &mut || true).unwrap_err();
        assert!(matches!(flooded, Unended::Flooded), "{flooded}");
    }
}
