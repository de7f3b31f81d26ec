//! Where the simulation of this process is, and what its policy prints, for whoever watches it.
//!
//! A policy may end its process, or stop it. So whoever started the process gives it memory that
//! both see.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use simulator::{BOARD_WORDS, Board, Position, Progress};

/// The board of this process.
static BOARD: OnceLock<&'static Board> = OnceLock::new();

/// Who is called with each line that the policy prints.
static SHOWN_TO: Mutex<Option<Py<PyAny>>> = Mutex::new(None);

fn board() -> &'static Board {
    BOARD.get_or_init(|| Box::leak(Box::default()))
}

fn shown_to() -> MutexGuard<'static, Option<Py<PyAny>>> {
    SHOWN_TO.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A simulation that can be watched from now on, until this is dropped.
pub struct Watched;

/// What a simulation tells its progress to; `prints` is called with each line of its policy.
pub fn watched(prints: Option<Py<PyAny>>) -> (Arc<Progress>, Watched) {
    let progress = if prints.is_some() { Progress::showing(show) } else { Progress::default() };
    *shown_to() = prints;
    (Arc::new(progress.on(board())), Watched)
}

impl Drop for Watched {
    /// Also after a panic: whoever watches would take what stands still for a loop.
    fn drop(&mut self) {
        board().leave();
    }
}

/// What is no simulation has gone on.
pub fn step() {
    board().step();
}

fn show(line: &str) {
    Python::attach(|py| {
        let shown_to = shown_to().as_ref().map(|callable| callable.clone_ref(py));
        // Nobody may be there any more to read it, which is no reason to end the run.
        let _ = shown_to.map(|callable| callable.call1(py, (line,)));
    });
}

/// Has this process write where its simulations are into `memory` from now on.
#[pyfunction]
pub fn show_position_on(memory: PyBuffer<u8>) -> PyResult<()> {
    let start = memory.buf_ptr().cast::<Board>();
    let is_fit = memory.len_bytes() >= size_of::<Board>()
        && memory.is_c_contiguous()
        && !memory.readonly()
        && start.is_aligned();
    if !is_fit {
        let message =
            format!("a position needs {} aligned bytes that can be written", size_of::<Board>());
        return Err(PyValueError::new_err(message));
    }
    // It is never given back, so Python keeps the memory where it is.
    std::mem::forget(memory);
    // SAFETY: aligned, long enough, and there as long as this process. A board is made of words of
    // which any bits are valid, and is only read and written atomically by us; Python copies it.
    let shared = BOARD.set(unsafe { &*start });
    shared.map_err(|_| PyValueError::new_err("a simulation has begun, or this was called twice"))
}

/// Has this process, which leads a group, end with its group when `parent`, its parent, does.
#[pyfunction]
pub fn end_with_parent(parent: i32) -> PyResult<()> {
    Ok(child::end_with_parent(parent)?)
}

/// Where a simulation is: which of several runs, steps, simulated time in ns, CPU, operation, task.
type Where = (u64, u64, u64, u64, &'static str, Option<(u64, String)>);

/// Where the simulation of this process is; see [`position_on`].
#[pyfunction]
pub fn position() -> Option<Where> {
    told(&board().words())
}

/// Where the simulation is that writes into memory of which `words` is a copy: which of several
/// runs it is, events and operations of the policy that were begun, and of the last of them the
/// simulated time in ns, the CPU, the operation's name, empty for an event, and number and name of
/// the task that it was called for. `None` while there is no simulation.
#[pyfunction]
pub fn position_on(words: &[u8]) -> Option<Where> {
    let (words, _) = words.as_chunks();
    let words: Vec<u64> = words.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect();
    told(words.get(..BOARD_WORDS)?.try_into().ok()?)
}

fn told(words: &[u64; BOARD_WORDS]) -> Option<Where> {
    let Position { run, steps, began_at_ns, cpu, operation, task } = Position::of(words)?;
    Some((run, steps, began_at_ns, cpu, operation.name(), task))
}
