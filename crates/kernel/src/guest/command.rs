//! Running one program to its end, or to the end of its time.
//!
//! Its output goes to a file in memory and not through a pipe, so that nobody has to read along
//! and thereby take part in what the policy schedules.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;

use super::signals::Wake;
use crate::records::{Finished, OUTPUT_BYTES_MAX};

/// Runs `argv` and returns its end. Every wait goes through `watch`, which may also say that
/// somebody wants us to stop. Processes that the program leaves behind are killed.
pub(super) fn run(
    index: usize,
    argv: &[String],
    limit: Option<Duration>,
    mut watch: impl FnMut(Option<Duration>) -> io::Result<Wake>,
) -> io::Result<Finished> {
    let mut output = File::from(memfd_create(c"output", MFdFlags::MFD_CLOEXEC)?);
    nix::fcntl::fcntl(&output, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_APPEND))?;
    let before = used_by_children()?;
    let start = Instant::now();
    let mut child = match spawn(argv, &output) {
        Ok(child) => child,
        Err(error) => return Ok(not_started(index, argv, &error)),
    };
    let mut timed_out = false;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
        timed_out = left.is_some_and(|left| left.is_zero());
        if timed_out || watch(left)? == Wake::Stop {
            break kill(&mut child)?;
        }
    };
    let wall_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let after = used_by_children()?;
    let _ = kill_group(&child);
    Ok(Finished {
        index,
        wall_ns,
        user_ns: after.0.saturating_sub(before.0),
        system_ns: after.1.saturating_sub(before.1),
        status: status.code(),
        signal: status.signal(),
        timed_out,
        output: read_output(&mut output)?,
    })
}

/// CPU time of all children that were waited for, in user and in kernel mode, nanoseconds. We have
/// one child at a time, so that a difference is one child's.
fn used_by_children() -> io::Result<(u64, u64)> {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let as_ns = |time: nix::sys::time::TimeVal| u64::try_from(time.num_nanoseconds()).unwrap_or(0);
    Ok((as_ns(used.user_time()), as_ns(used.system_time())))
}

fn spawn(argv: &[String], output: &File) -> io::Result<Child> {
    let (program, arguments) = argv
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .process_group(0);
    // We block signals to wait for them; a shell that inherits this never hears of its children.
    // SAFETY: between fork and exec, setting the signal mask is all that is done, which is allowed.
    unsafe { command.pre_exec(|| Ok(SigSet::empty().thread_set_mask()?)) };
    command.spawn()
}

fn not_started(index: usize, argv: &[String], error: &io::Error) -> Finished {
    // 127 is what a shell gives for a program that it cannot start.
    let output = format!("cannot start {:?}: {error}\n", argv.first().map_or("", |p| p.as_str()));
    Finished {
        index,
        wall_ns: 0,
        user_ns: 0,
        system_ns: 0,
        status: Some(127),
        signal: None,
        timed_out: false,
        output,
    }
}

fn kill(child: &mut Child) -> io::Result<ExitStatus> {
    kill_group(child)?;
    child.wait()
}

fn kill_group(child: &Child) -> io::Result<()> {
    let group = i32::try_from(child.id()).map_err(io::Error::other)?;
    killpg(Pid::from_raw(group), Signal::SIGKILL).map_err(Into::into)
}

fn read_output(output: &mut File) -> io::Result<String> {
    output.rewind()?;
    let mut bytes = Vec::new();
    output.take(OUTPUT_BYTES_MAX as u64).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_here(argv: &[&str], limit: Option<Duration>) -> Finished {
        let argv: Vec<String> = argv.iter().map(ToString::to_string).collect();
        let nap = |left: Option<Duration>| {
            let longest = Duration::from_millis(5);
            std::thread::sleep(left.unwrap_or(longest).min(longest));
            Ok(Wake::Time)
        };
        run(0, &argv, limit, nap).unwrap()
    }

    #[test]
    fn output_and_status_come_back() {
        let finished = run_here(&["sh", "-c", "echo out; echo err >&2; exit 3"], None);
        assert_eq!((finished.status, finished.output.as_str()), (Some(3), "out\nerr\n"));
        assert!(!finished.timed_out);
    }

    #[test]
    fn a_program_whose_time_is_over_is_killed_with_its_children() {
        let limit = Some(Duration::from_millis(50));
        let finished = run_here(&["sh", "-c", "echo $$; sleep 1000 & wait"], limit);
        assert!(finished.timed_out && finished.status.is_none(), "{finished:?}");
        let group: i32 = finished.output.trim().parse().unwrap();
        // The killed child of the killed shell is reaped by whoever inherits it, soon.
        let gone = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(2));
            killpg(Pid::from_raw(group), None).is_err()
        });
        assert!(gone, "something is left of group {group}");
    }

    #[test]
    fn the_signal_that_ended_a_program_and_its_cpu_time_are_told() {
        // The shell's own loop, and a child that it waits for, take some milliseconds each.
        let loops = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        let finished = run_here(&["sh", "-c", &format!("({loops}); {loops}; kill -9 $$")], None);
        assert_eq!((finished.status, finished.signal), (None, Some(9)));
        assert!(finished.user_ns + finished.system_ns > 1_000_000, "{finished:?}");
        let idle = run_here(&["sleep", "0.05"], None);
        assert_eq!((idle.status, idle.signal), (Some(0), None));
        assert!(idle.wall_ns >= 50_000_000);
    }

    #[test]
    fn a_program_has_no_signal_blocked_although_we_have() {
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGCHLD);
        blocked.thread_block().unwrap();
        let finished = run_here(&["grep", "SigBlk", "/proc/self/status"], None);
        assert_eq!(finished.output.split_whitespace().nth(1), Some("0000000000000000"));
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let finished = run_here(&["/no/such/program"], None);
        assert_eq!(finished.status, Some(127));
        assert!(finished.output.contains("/no/such/program"), "{finished:?}");
    }
}
