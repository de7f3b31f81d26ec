//! The tasks of a benchmark: all are started first, wait at a gate, and begin together.
//!
//! The gate is a byte in a pipe that nobody reads, so that one write lets all go: as in
//! hackbench, whose measured time begins with that write. Whoever comes to it has said so by a byte
//! in another pipe.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, pipe};
use serde::{Deserialize, Serialize};

use super::MeasureError;
use crate::system::{self, Fork};

/// What a benchmark's tasks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tasks {
    /// Processes of their own.
    Processes,
    /// Threads of one process.
    Threads,
}

/// Stack of a thread. The least that the system takes would do, but for debug builds.
const STACK_BYTES: usize = 128 << 10;

/// How long after a task that only lacked another's messages that other one may be heard of.
const CAUSE_WITHIN: Duration = Duration::from_millis(500);

/// The tasks of one run. Dropping it ends those that are left.
pub struct Crew {
    tasks: Tasks,
    wanted: u32,
    members: Vec<Member>,
    /// Bytes of those that are ready; the other end is the members'.
    ready: OwnedFd,
    gate: Option<OwnedFd>,
    door: Arc<Door>,
    before: Usage,
}

enum Member {
    Process { name: String, pid: Pid },
    Thread { name: String, handle: JoinHandle<std::io::Result<()>> },
    Gone,
}

/// The members' side of the gate.
struct Door {
    ready: OwnedFd,
    gate: OwnedFd,
}

/// What a member is given.
pub struct Gate(Arc<Door>);

impl Gate {
    /// Says that this task is ready, and waits until all may begin.
    ///
    /// # Errors
    ///
    /// If the crew is gone.
    pub fn wait(&self) -> std::io::Result<()> {
        nix::unistd::write(&self.0.ready, b"r")?;
        let mut gate = [PollFd::new(self.0.gate.as_fd(), PollFlags::POLLIN)];
        loop {
            match poll(&mut gate, PollTimeout::NONE) {
                Ok(_) => break,
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match gate[0].revents() {
            Some(events) if events.contains(PollFlags::POLLIN) => Ok(()),
            _ => Err(std::io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// What the tasks of a run used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    /// CPU time in user mode, nanoseconds.
    pub user_ns: u64,
    /// CPU time in the kernel, nanoseconds.
    pub system_ns: u64,
    /// Times that a CPU was given up.
    pub voluntary_switches: u64,
    /// Times that it was taken.
    pub involuntary_switches: u64,
}

impl Crew {
    /// Nobody yet; `wanted` is told in errors.
    ///
    /// # Errors
    ///
    /// If there are no pipes left.
    pub fn new(tasks: Tasks, wanted: u32) -> Result<Self, MeasureError> {
        let no_pipe = |error| MeasureError::system("make a pipe", error);
        let (ready, says_ready) = pipe().map_err(no_pipe)?;
        let (waits, gate) = pipe().map_err(no_pipe)?;
        let door = Arc::new(Door { ready: says_ready, gate: waits });
        let before = used_by(tasks)?;
        let members = Vec::with_capacity(wanted as usize);
        Ok(Crew { tasks, wanted, members, ready, gate: Some(gate), door, before })
    }

    /// Starts a task, which is to call [`Gate::wait`] once before what is measured. What `work`
    /// owns is closed here as soon as the task has it.
    ///
    /// # Errors
    ///
    /// If the system gives no more tasks.
    pub fn add(
        &mut self,
        name: String,
        work: impl FnOnce(Gate) -> std::io::Result<()> + Send + 'static,
    ) -> Result<(), MeasureError> {
        let gate = Gate(Arc::clone(&self.door));
        let member = match self.tasks {
            Tasks::Processes => match system::fork() {
                Ok(Fork::Child) => in_child(|| work(gate)),
                Ok(Fork::Parent(pid)) => Ok(Member::Process { name, pid: Pid::from_raw(pid) }),
                Err(error) => Err(std::io::Error::from_raw_os_error(error)),
            },
            Tasks::Threads => std::thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn(move || work(gate))
                .map(|handle| Member::Thread { name, handle }),
        };
        let number = self.members.len() as u32 + 1;
        self.members.push(member.map_err(|source| MeasureError::NoTask {
            number,
            of: self.wanted,
            source,
        })?);
        Ok(())
    }

    /// Waits until all are ready, opens the gate, and returns when that was.
    ///
    /// # Errors
    ///
    /// If a task ended instead of becoming ready.
    pub fn begin(&mut self) -> Result<Instant, MeasureError> {
        let mut nr_ready = 0;
        let mut bytes = [0; 512];
        while nr_ready < self.members.len() {
            let mut ready = [PollFd::new(self.ready.as_fd(), PollFlags::POLLIN)];
            let timeout =
                PollTimeout::try_from(Duration::from_millis(100)).unwrap_or(PollTimeout::ZERO);
            match poll(&mut ready, timeout) {
                Ok(0) => self.refuse_deserters()?,
                Ok(_) => nr_ready += read(&self.ready, &mut bytes)?,
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(MeasureError::system("wait for tasks", error)),
            }
        }
        let Some(gate) = &self.gate else { unreachable!("it is taken when the crew is dropped") };
        let begin = Instant::now();
        nix::unistd::write(gate, b"g").map_err(|e| MeasureError::system("start tasks", e))?;
        Ok(begin)
    }

    /// Waits for the end of all.
    ///
    /// # Errors
    ///
    /// That of the first task that failed.
    pub fn finish(mut self) -> Result<Used, MeasureError> {
        match self.tasks {
            Tasks::Processes => self.wait_for_processes()?,
            Tasks::Threads => self.wait_for_threads()?,
        }
        used_since(self.tasks, self.before)
    }

    /// In the order in which they end: who waits for one that failed would wait for ever.
    fn wait_for_processes(&mut self) -> Result<(), MeasureError> {
        let mut places: HashMap<Pid, usize> = HashMap::new();
        for (place, member) in self.members.iter().enumerate() {
            if let Member::Process { pid, .. } = member {
                places.insert(*pid, place);
            }
        }
        let mut failed: Option<(Instant, MeasureError)> = None;
        while !places.is_empty() {
            // One that lacks another's messages may be heard of before that other one.
            let how = match &failed {
                Some((since, _)) if since.elapsed() > CAUSE_WITHIN => break,
                Some(_) => Some(WaitPidFlag::WNOHANG),
                None => None,
            };
            let status = match waitpid(None, how) {
                Err(nix::errno::Errno::EINTR) => continue,
                Err(error) => return Err(MeasureError::system("wait for tasks", error)),
                Ok(WaitStatus::StillAlive) => {
                    std::thread::sleep(CAUSE_WITHIN / 100);
                    continue;
                }
                Ok(status) => status,
            };
            // Another child of this program is nothing to us.
            let Some(place) = status.pid().and_then(|pid| places.remove(&pid)) else { continue };
            let Member::Process { name, .. } =
                std::mem::replace(&mut self.members[place], Member::Gone)
            else {
                continue;
            };
            match judged(&name, status) {
                Ok(()) => {}
                // As `is_of_another_task`.
                Err(error)
                    if matches!(status, WaitStatus::Exited(_, libc::EPIPE | libc::ECONNRESET)) =>
                {
                    failed.get_or_insert((Instant::now(), error));
                }
                Err(error) => return Err(error),
            }
        }
        failed.map_or(Ok(()), |(_, error)| Err(error))
    }

    /// All of them: who lacks another's messages only says that these ended, so such an error is
    /// told only if there is no better one.
    fn wait_for_threads(&mut self) -> Result<(), MeasureError> {
        let mut failed: Option<(String, std::io::Error)> = None;
        for member in &mut self.members {
            let Member::Thread { name, handle } = std::mem::replace(member, Member::Gone) else {
                continue;
            };
            let Err(error) = joined(handle) else { continue };
            if failed.as_ref().is_none_or(|(_, known)| is_of_another_task(known)) {
                failed = Some((name, error));
            }
        }
        failed.map_or(Ok(()), |(name, error)| Err(early(&name, &error.to_string())))
    }

    fn wait_for(&mut self, index: usize) -> Result<(), MeasureError> {
        match std::mem::replace(&mut self.members[index], Member::Gone) {
            Member::Process { name, pid } => loop {
                match waitpid(pid, None) {
                    Err(nix::errno::Errno::EINTR) => {}
                    Err(error) => return Err(MeasureError::system("wait for a task", error)),
                    Ok(status) => return judged(&name, status),
                }
            },
            Member::Thread { name, handle } => {
                joined(handle).map_err(|error| early(&name, &error.to_string()))
            }
            Member::Gone => Ok(()),
        }
    }

    /// An error if a task has ended before the gate was opened.
    fn refuse_deserters(&mut self) -> Result<(), MeasureError> {
        for index in 0..self.members.len() {
            match &mut self.members[index] {
                Member::Process { name, pid } => match waitpid(*pid, Some(WaitPidFlag::WNOHANG)) {
                    Ok(WaitStatus::StillAlive) | Err(_) => {}
                    Ok(status) => {
                        let name = std::mem::take(name);
                        self.members[index] = Member::Gone;
                        judged(&name, status)?;
                        return Err(early(&name, "it did not wait"));
                    }
                },
                Member::Thread { name, handle } => {
                    if handle.is_finished() {
                        let name = name.clone();
                        self.wait_for(index)?;
                        return Err(early(&name, "it did not wait"));
                    }
                }
                Member::Gone => {}
            }
        }
        Ok(())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // A thread that waits at the gate sees that nobody is left to open it.
        self.gate = None;
        for member in &self.members {
            if let Member::Process { pid, .. } = member {
                let _ = kill(*pid, Signal::SIGKILL);
            }
        }
        for index in 0..self.members.len() {
            let _ = self.wait_for(index);
        }
    }
}

/// What all tasks have used that have ended.
fn used_by(tasks: Tasks) -> Result<Usage, MeasureError> {
    let whose = match tasks {
        Tasks::Processes => UsageWho::RUSAGE_CHILDREN,
        Tasks::Threads => UsageWho::RUSAGE_SELF,
    };
    getrusage(whose).map_err(|error| MeasureError::system("read the use of CPUs", error))
}

/// What tasks have used that have ended since [`used_by`] said `before`.
fn used_since(tasks: Tasks, before: Usage) -> Result<Used, MeasureError> {
    let after = used_by(tasks)?;
    let ns = |after: TimeVal, before: TimeVal| (after - before).num_microseconds() as u64 * 1000;
    let times = |after: i64, before: i64| (after - before) as u64;
    let voluntary = Usage::voluntary_context_switches;
    let involuntary = Usage::involuntary_context_switches;
    Ok(Used {
        user_ns: ns(after.user_time(), before.user_time()),
        system_ns: ns(after.system_time(), before.system_time()),
        voluntary_switches: times(voluntary(&after), voluntary(&before)),
        involuntary_switches: times(involuntary(&after), involuntary(&before)),
    })
}

/// Does a child's work and ends it; its exit code is the number of the error, or 0. It does not
/// outlive its parent.
fn in_child(work: impl FnOnce() -> std::io::Result<()>) -> ! {
    system::set_process(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64);
    let code = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error.raw_os_error().unwrap_or(libc::EPIPE),
        Err(_) => PANICKED,
    };
    system::exit_process(code)
}

/// Exit code of a task that panicked, as Rust's own.
const PANICKED: i32 = 101;

fn judged(name: &str, status: WaitStatus) -> Result<(), MeasureError> {
    match status {
        WaitStatus::Exited(_, 0) => Ok(()),
        WaitStatus::Exited(_, PANICKED) => Err(early(name, "it panicked")),
        WaitStatus::Exited(_, code) => {
            Err(early(name, &std::io::Error::from_raw_os_error(code).to_string()))
        }
        WaitStatus::Signaled(_, signal, _) => Err(early(name, &format!("signal {signal}"))),
        other => Err(early(name, &format!("{other:?}"))),
    }
}

/// The end of a thread, a panic too.
fn joined(handle: JoinHandle<std::io::Result<()>>) -> std::io::Result<()> {
    handle.join().unwrap_or_else(|_| Err(std::io::Error::other("it panicked")))
}

/// Whether it says only that another task went away first.
fn is_of_another_task(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

fn early(task: &str, reason: &str) -> MeasureError {
    MeasureError::Task { task: task.to_owned(), reason: reason.to_owned() }
}

fn read(from: &OwnedFd, bytes: &mut [u8]) -> Result<usize, MeasureError> {
    nix::unistd::read(from, bytes).map_err(|e| MeasureError::system("read from a pipe", e))
}

/// Writes all of `bytes`.
///
/// # Errors
///
/// Those of the system.
pub fn send(to: &OwnedFd, bytes: &[u8]) -> std::io::Result<()> {
    let mut left = bytes;
    while !left.is_empty() {
        match nix::unistd::write(to, left) {
            Ok(written) => left = &left[written..],
            Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Fills all of `bytes`.
///
/// # Errors
///
/// Those of the system; `UnexpectedEof` where the other side is gone.
pub fn receive(from: &OwnedFd, bytes: &mut [u8]) -> std::io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match nix::unistd::read(from, &mut bytes[filled..]) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => filled += read,
            Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
