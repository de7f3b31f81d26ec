//! One attempt at a number of groups: a process of its own, watched and put away.

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::{Cage, predict};

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// All messages were read.
    Completed,
    /// The cgroup that we made gave no more tasks.
    CageFull,
    /// Some limit on tasks (EAGAIN).
    NoTasks,
    /// No more descriptors in a process (EMFILE) or the system (ENFILE).
    NoDescriptors,
    /// No memory for a task or a message (ENOMEM, ENOBUFS).
    NoMemory,
    /// It was killed from outside: most likely the kernel was out of memory.
    Killed,
    /// It took longer than can be meant.
    TimedOut,
    /// Anything else; `said` has it.
    Failed,
}

/// An attempt that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// With so many groups.
    pub groups: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Wall time of the whole attempt in nanoseconds.
    pub wall_ns: u64,
    /// What it said on its standard error.
    pub said: String,
}

/// How attempts are made.
#[derive(Debug)]
pub struct Attempts {
    /// The program and its words, but for the number of groups, which comes last.
    command: Vec<String>,
    cage: Option<Cage>,
    /// Nanoseconds of a group in the slowest attempt yet.
    group_ns: u64,
}

/// The time limit of an attempt is so many times what the slowest group took before.
const PATIENCE: u64 = 8;
const TIME_LIMIT_MIN: Duration = Duration::from_secs(20);
/// How long a machine may take to have its memory back.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(2);

impl Attempts {
    /// Attempts of this command, in a cage if there is one.
    pub fn new(command: Vec<String>, cage: Option<Cage>) -> Self {
        Attempts { command, cage, group_ns: 0 }
    }

    /// Makes one, and returns when the machine is as it was.
    ///
    /// # Errors
    ///
    /// If the program cannot be started at all.
    pub fn make(&mut self, groups: u32) -> std::io::Result<Attempt> {
        let memory_before = predict::available_bytes().unwrap_or(0);
        let refusals_before = self.cage.as_ref().map_or(0, Cage::refusals);
        let limit = Duration::from_nanos(PATIENCE * self.group_ns * u64::from(groups));
        let limit = limit.max(TIME_LIMIT_MIN);
        let begin = Instant::now();
        let mut child = self.start(groups)?;
        // Of all processes this one and its children are to go first.
        let _ = std::fs::write(format!("/proc/{}/oom_score_adj", child.id()), "1000");
        let ended = wait(&mut child, begin + limit)?;
        let wall_ns = begin.elapsed().as_nanos() as u64;
        let mut said = String::new();
        if let Some(stderr) = &mut child.stderr {
            let _ = stderr.read_to_string(&mut said);
        }
        let is_caged = self.cage.as_ref().map_or(0, Cage::refusals) > refusals_before;
        let outcome = judged(ended, &said, is_caged);
        self.settle(memory_before);
        if outcome == Outcome::Completed {
            self.group_ns = self.group_ns.max(wall_ns / u64::from(groups));
        }
        Ok(Attempt { groups, outcome, wall_ns, said: said.trim().to_owned() })
    }

    fn start(&self, groups: u32) -> std::io::Result<Child> {
        let mut command = match &self.cage {
            // A shell goes in and becomes the program, so that nothing of it is ever outside.
            Some(cage) => {
                let mut shell = Command::new("sh");
                let script = "echo $$ > \"$0\" && exec \"$@\"";
                shell.args(["-c", script]).arg(cage.door()).args(&self.command);
                shell
            }
            None => {
                let mut program = Command::new(&self.command[0]);
                program.args(&self.command[1..]);
                program
            }
        };
        command.arg(groups.to_string()).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
    }

    /// Waits until nobody is left in the cage and memory is back, as far as it comes back at all.
    fn settle(&self, memory_before: u64) {
        if let Some(cage) = &self.cage {
            cage.empty();
        }
        let begin = Instant::now();
        let is_back = || predict::available_bytes().is_none_or(|now| now >= memory_before / 10 * 9);
        while !is_back() && begin.elapsed() < SETTLED_WITHIN {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// How it ended, or `None` if it had to be killed. Its whole group of processes is gone then.
fn wait(child: &mut Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    let group = Pid::from_raw(child.id() as i32);
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() >= deadline {
            let _ = killpg(group, Signal::SIGKILL);
            child.wait()?;
            break None;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    let _ = killpg(group, Signal::SIGKILL);
    Ok(ended)
}

fn judged(ended: Option<ExitStatus>, said: &str, is_caged: bool) -> Outcome {
    let Some(status) = ended else { return Outcome::TimedOut };
    if status.success() {
        return Outcome::Completed;
    }
    if status.signal().is_some() {
        return Outcome::Killed;
    }
    let says = |number: i32| said.contains(&format!("(os error {number})"));
    if says(libc::EAGAIN) {
        if is_caged { Outcome::CageFull } else { Outcome::NoTasks }
    } else if says(libc::EMFILE) || says(libc::ENFILE) {
        Outcome::NoDescriptors
    } else if says(libc::ENOMEM) || says(libc::ENOBUFS) {
        Outcome::NoMemory
    } else if said.contains("signal SIGKILL") {
        Outcome::Killed
    } else {
        Outcome::Failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(script: &str) -> Attempt {
        let command = ["sh", "-c", script, "sh"].map(str::to_owned).to_vec();
        Attempts::new(command, None).make(7).expect("sh starts")
    }

    #[test]
    fn what_ended_an_attempt_is_told_apart() {
        assert_eq!(attempt("test $1 = 7").outcome, Outcome::Completed);
        let fails = |number: i32| format!("echo 'error: cannot: (os error {number})' >&2; exit 2");
        assert_eq!(attempt(&fails(libc::EAGAIN)).outcome, Outcome::NoTasks);
        assert_eq!(attempt(&fails(libc::EMFILE)).outcome, Outcome::NoDescriptors);
        assert_eq!(attempt(&fails(libc::ENOBUFS)).outcome, Outcome::NoMemory);
        assert_eq!(attempt("kill -9 $$").outcome, Outcome::Killed);
        assert_eq!(attempt("exit 3").outcome, Outcome::Failed);
        assert_eq!(judged(None, "", false), Outcome::TimedOut);
        let said = attempt(&fails(libc::EAGAIN)).said;
        assert!(said.starts_with("error: cannot"), "{said}");
    }
}
