//! For machines whose instructions are not known: everything is interpreted.

use super::{Host, Run};
use crate::fault::Fault;
use crate::memory::Layout;
use crate::program::Program;

/// A program's code for this machine, which none can have.
pub(super) enum Translation {}

impl Translation {
    /// `None`: the interpreter runs everywhere.
    pub(super) fn new(_: &Program, _: Layout, _: bool, _: u64, _: bool) -> Option<Translation> {
        None
    }
}

pub(super) fn call<H: Host>(
    run: Run<'_, H>,
    _: usize,
    _: bool,
    _: [u64; 5],
) -> Result<u64, Box<Fault>> {
    match *run.machine.translation.as_ref().expect("asked before") {}
}
