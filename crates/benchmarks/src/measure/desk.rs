//! What the tasks of a benchmark are told after the gate, and what they tell in the end: when the
//! measured time begins, and what each has found.
//!
//! Both go through pipes, because tasks may be processes, which share no memory.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::unistd::pipe;

use super::MeasureError;
use super::crew::{receive, send};
use crate::system;

/// The measuring side. It is made before the tasks are.
pub struct Office {
    desk: Arc<Desk>,
    begins: OwnedFd,
    found: OwnedFd,
}

/// The tasks' side.
pub struct Desk {
    begins: OwnedFd,
    found: OwnedFd,
}

/// Tasks that can be told at once: 8 bytes each in the least that a pipe holds, a page.
pub const TASKS_MAX: u32 = 512;

/// Numbers in what a task tells.
const NUMBERS: usize = 2;

impl Office {
    /// # Errors
    ///
    /// If there are no pipes left.
    pub fn new() -> Result<Self, MeasureError> {
        let no_pipe = |error| MeasureError::system("make a pipe", error);
        let (told, begins) = pipe().map_err(no_pipe)?;
        let (found, tells) = pipe().map_err(no_pipe)?;
        Ok(Office { desk: Arc::new(Desk { begins: told, found: tells }), begins, found })
    }

    /// For a task that is about to be added.
    pub fn desk(&self) -> Arc<Desk> {
        Arc::clone(&self.desk)
    }

    /// Tells `nr_tasks` tasks, all at once, that the measured time begins now; to be called when
    /// the gate is open. Returns that time of [`system::now_ns`].
    ///
    /// # Errors
    ///
    /// If the tasks are gone.
    pub fn begin_now(&self, nr_tasks: u32) -> Result<u64, MeasureError> {
        let begin_ns = system::now_ns();
        let told = begin_ns.to_le_bytes().repeat(nr_tasks as usize);
        send(&self.begins, &told).map_err(|error| MeasureError::system("start tasks", error))?;
        Ok(begin_ns)
    }

    /// All that tasks tell, until the last of them has ended.
    ///
    /// # Errors
    ///
    /// If the pipe cannot be read.
    pub fn hear_all(self) -> Result<Vec<[u64; NUMBERS]>, MeasureError> {
        drop(self.desk);
        let mut heard = vec![];
        let mut bytes = [0; 8 * NUMBERS];
        loop {
            match receive(&self.found, &mut bytes) {
                Ok(()) => heard.push(numbers(&bytes)),
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    return Ok(heard);
                }
                Err(error) => return Err(MeasureError::system("hear of the tasks", error)),
            }
        }
    }
}

impl Desk {
    /// When the measured time began; waits until that is told.
    ///
    /// # Errors
    ///
    /// Those of the pipe.
    pub fn begin_ns(&self) -> std::io::Result<u64> {
        let mut bytes = [0; 8];
        receive(&self.begins, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Tells what was found. Such notes never mix, whoever else tells some at the same time.
    ///
    /// # Errors
    ///
    /// Those of the pipe.
    pub fn tell(&self, numbers: [u64; NUMBERS]) -> std::io::Result<()> {
        send(&self.found, &numbers.map(u64::to_le_bytes).concat())
    }
}

fn numbers(bytes: &[u8; 8 * NUMBERS]) -> [u64; NUMBERS] {
    std::array::from_fn(|place| {
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[place * 8..(place + 1) * 8]);
        u64::from_le_bytes(number)
    })
}
