//! hackbench: groups of senders and receivers, each sender writes to each receiver of its group.
//!
//! The measured time begins when all tasks are let go and ends when the last one is gone. With
//! `fds` = 20 a group is 40 tasks, 20 channels and 400 messages a loop.
//!
//! Source: R. Russell's hackbench of 2003 (groups of 20 and 20 processes, sockets, 100 loops of 100
//! bytes) and its form in rt-tests, which added pipes, threads, and the sizes as options.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::pipe;
use serde::{Deserialize, Serialize};

use super::crew::{Crew, Gate, Tasks, receive, send};
use super::{Figure, MeasureError, Sample};

/// What messages go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// Pairs of Unix stream sockets.
    Sockets,
    /// Pipes.
    Pipes,
}

/// The benchmark and its parameters; the default is the form of 2003.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Hackbench {
    /// Groups.
    pub groups: u32,
    /// Senders of a group, and receivers.
    pub fds: u32,
    /// Messages from each sender to each receiver of its group.
    pub loops: u32,
    /// Bytes of a message.
    pub bytes: u32,
    /// What messages go through.
    pub channel: Channel,
    /// What tasks are.
    pub tasks: Tasks,
}

impl Default for Hackbench {
    fn default() -> Self {
        Hackbench {
            groups: 10,
            fds: 20,
            loops: 100,
            bytes: 100,
            channel: Channel::Sockets,
            tasks: Tasks::Processes,
        }
    }
}

impl Hackbench {
    /// How many tasks take part.
    pub fn nr_tasks(&self) -> u32 {
        self.groups * self.fds * 2
    }

    /// Measures once.
    ///
    /// # Errors
    ///
    /// [`MeasureError`], where the system does not give so many tasks or channels.
    pub fn run(&self) -> Result<Sample, MeasureError> {
        self.check()?;
        let mut crew = Crew::new(self.tasks, self.nr_tasks())?;
        for group in 1..=self.groups {
            self.add_group(group, &mut crew)?;
        }
        let begin = crew.begin()?;
        let used = crew.finish()?;
        let wall_ns = begin.elapsed().as_nanos() as u64;
        let figure = Figure { value: wall_ns as f64 / 1e9, unit: "s" };
        Ok(Sample::of("hackbench", self.nr_tasks(), wall_ns, figure, used, None))
    }

    /// Whether it can be run at all.
    ///
    /// # Errors
    ///
    /// [`MeasureError::Parameter`] names what cannot be used.
    pub fn check(&self) -> Result<(), MeasureError> {
        let parameters = [
            ("groups", self.groups),
            ("fds", self.fds),
            ("loops", self.loops),
            ("bytes", self.bytes),
        ];
        for (name, value) in parameters {
            if value == 0 {
                let why = "is nothing to measure: take 1 or more";
                return Err(MeasureError::Parameter { name, value: 0, why });
            }
        }
        let tasks = u64::from(self.groups) * u64::from(self.fds) * 2;
        if tasks > TASKS_MAX {
            let why = "makes more tasks than any Linux takes (4,194,304): take fewer";
            return Err(MeasureError::Parameter { name: "groups", value: self.groups.into(), why });
        }
        Ok(())
    }

    /// Receivers first, then senders, as in the original: with processes the order decides what
    /// they inherit.
    fn add_group(&self, group: u32, crew: &mut Crew) -> Result<(), MeasureError> {
        let mut outlets = Vec::with_capacity(self.fds as usize);
        for number in 1..=self.fds {
            let (inlet, outlet) = self.open()?;
            outlets.push(outlet);
            let work = self.receiver(inlet);
            crew.add(format!("receiver {number} of group {group}"), work)?;
        }
        let outlets = Arc::new(outlets);
        for number in 1..=self.fds {
            let work = self.sender(Arc::clone(&outlets));
            crew.add(format!("sender {number} of group {group}"), work)?;
        }
        Ok(())
    }

    /// A channel: where it is read and where it is written.
    fn open(&self) -> Result<(OwnedFd, OwnedFd), MeasureError> {
        match self.channel {
            Channel::Pipes => pipe().map_err(|e| MeasureError::system("make a pipe", e)),
            Channel::Sockets => {
                let flags = SockFlag::empty();
                socketpair(AddressFamily::Unix, SockType::Stream, None, flags)
                    .map_err(|e| MeasureError::system("make a pair of sockets", e))
            }
        }
    }

    fn receiver(&self, inlet: OwnedFd) -> impl FnOnce(Gate) -> std::io::Result<()> + Send + use<> {
        let mut message = vec![0; self.bytes as usize];
        let nr_messages = u64::from(self.fds) * u64::from(self.loops);
        move |gate| {
            gate.wait()?;
            for _ in 0..nr_messages {
                receive(&inlet, &mut message)?;
            }
            Ok(())
        }
    }

    fn sender(
        &self,
        outlets: Arc<Vec<OwnedFd>>,
    ) -> impl FnOnce(Gate) -> std::io::Result<()> + Send + use<> {
        let message = vec![b'-'; self.bytes as usize];
        let loops = self.loops;
        move |gate| {
            gate.wait()?;
            for _ in 0..loops {
                for outlet in outlets.iter() {
                    send(outlet, &message)?;
                }
            }
            Ok(())
        }
    }
}

/// `PID_MAX_LIMIT` of 64-bit Linux.
const TASKS_MAX: u64 = 1 << 22;
