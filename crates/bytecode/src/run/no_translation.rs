//! For machines whose instructions are not known: everything is interpreted.

use super::{Host, Run};
use crate::fault::Fault;
use crate::memory::Layout;
use crate::program::Program;

/// A program's code for this machine, which none can have.
pub enum Translation {}

impl Translation {
    /// `None`: the interpreter runs everywhere.
    pub fn new(_: &Program, _: Layout) -> Option<Translation> {
        None
    }

    pub(crate) fn call<H: Host>(
        &self,
        _: &mut Run<'_, H>,
        _: usize,
        _: [u64; 5],
        _: u64,
    ) -> Result<u64, Box<Fault>> {
        match *self {}
    }
}
