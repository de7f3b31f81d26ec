//! Runs a program, in this machine's own instructions where they are known.
//!
//! Instructions are counted exactly. Whether there were too many is asked where a program can
//! repeat itself: where jumps back lead to, and at calls of its functions.

mod interpreter;
#[cfg_attr(not(target_arch = "x86_64"), path = "run/no_translation.rs")]
mod translation;

use crate::fault::{Fault, FaultKind, Stop};
use crate::instruction::Size;
use crate::memory::{FRAME_BYTES, Memory};
use crate::program::Program;
use interpreter::Frame;

pub use translation::Translation;

/// How often a function's `may_goto` are passed before they jump. Source: Linux,
/// include/linux/bpf.h, `BPF_MAX_LOOPS`.
const MAY_GOTO_MAX: u64 = 8 << 20;

/// What a world gives a program: what it may call, and what its writes do.
pub trait Host: Sized {
    /// Answers a call, by its number in the [`World`](crate::World).
    ///
    /// # Errors
    ///
    /// What ends the program.
    fn call(run: &mut Run<'_, Self>, number: usize, arguments: [u64; 5]) -> Result<u64, Stop>;

    /// Writes to what programs may only read, where that is allowed after all. `false` if not.
    fn write(&mut self, _memory: &mut Memory, _address: u64, _size: Size, _value: u64) -> bool {
        false
    }
}

/// A program that runs.
pub struct Run<'a, H> {
    /// What it runs.
    pub program: &'a Program,
    /// What it may touch.
    pub memory: &'a mut Memory,
    /// Whom it calls.
    pub host: &'a mut H,
    /// Instructions so far.
    pub instructions: u64,
    /// Most instructions.
    pub instructions_max: u64,
    /// The end of the frame of the innermost function.
    frame_end: u64,
    translation: Option<&'a Translation>,
}

impl<'a, H: Host> Run<'a, H> {
    /// A run that has not begun.
    pub fn new(
        program: &'a Program,
        memory: &'a mut Memory,
        host: &'a mut H,
        instructions_max: u64,
    ) -> Run<'a, H> {
        let frame_end = memory.frames_begin();
        Run {
            program,
            memory,
            host,
            instructions: 0,
            instructions_max,
            frame_end,
            translation: None,
        }
    }

    /// The same, by this program's translation for the memory's layout.
    pub fn translated(self, translation: &'a Translation) -> Run<'a, H> {
        Run { translation: Some(translation), ..self }
    }

    /// Instructions that are left; fewer than 0 if there were too many.
    fn left(&self) -> i64 {
        self.instructions_max.wrapping_sub(self.instructions) as i64
    }

    fn set_left(&mut self, left: i64) {
        self.instructions = self.instructions_max.wrapping_sub(left as u64);
    }

    /// Goes on with a function at an instruction, to the function's end.
    fn resume(
        &mut self,
        at: usize,
        registers: [u64; 11],
        loops_left: u64,
    ) -> Result<u64, Box<Fault>> {
        let frame_end = self.frame_end;
        self.frame_end = registers[10];
        let answer = Frame { run: self, registers, loops_left }.run(at);
        self.frame_end = frame_end;
        answer
    }

    /// Calls a function of the program, also from within a call that it made, and gives R0.
    ///
    /// # Errors
    ///
    /// [`Fault`] says what ended it, and where.
    pub fn function(&mut self, number: usize, arguments: [u64; 5]) -> Result<u64, Box<Fault>> {
        let first = self.program.functions[number].first;
        let outer = self.frame_end;
        let frame_end = outer + FRAME_BYTES;
        if frame_end > self.memory.layout().deepest_frame() {
            return Err(Stop::from(FaultKind::Depth).at(first));
        }
        // A host that calls back for ever is a program that does not return.
        if self.instructions > self.instructions_max {
            return Err(Stop::from(FaultKind::Endless(self.instructions_max)).at(first));
        }
        self.frame_end = frame_end;
        let answer = if let Some(translation) = self.translation {
            translation.call(self, number, arguments, frame_end)
        } else {
            let [a, b, c, d, e] = arguments;
            let registers = [0, a, b, c, d, e, 0, 0, 0, 0, frame_end];
            Frame { run: self, registers, loops_left: MAY_GOTO_MAX }.run(first)
        };
        self.frame_end = outer;
        answer
    }
}
