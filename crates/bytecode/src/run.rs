//! Runs a program, in this machine's own instructions where they are known.
//!
//! Instructions are counted exactly. Whether there were too many is asked where a program can
//! repeat itself: where jumps back lead to, and at calls of its functions.

mod interpreter;
mod message;
mod shadow;
mod strict;
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    path = "run/no_translation.rs"
)]
mod translation;

use std::any::Any;
use std::mem::MaybeUninit;

use crate::arena::Arena;
use crate::fault::{Fault, FaultKind, Stop};
use crate::instruction::Size;
use crate::memory::{FRAME_BYTES, Memory};
use crate::program::Program;
use interpreter::Frame;
use shadow::Shadow;

pub use message::Words;
pub use shadow::Touch;
use translation::Translation;

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

    /// Whether a program may write to what programs may only read.
    fn may_write(&self, _address: u64, _size: Size) -> bool {
        false
    }

    /// Begin and size of the object that a pointer to this address leads to, for strict runs. The
    /// program's own variables and its stack are known.
    fn object_at(&self, _address: u64) -> Option<(u64, u64)> {
        None
    }

    /// What a reader calls the object that begins at an address.
    fn object_name(&self, _address: u64) -> String {
        "an object".to_owned()
    }
}

/// What translated code reaches besides the memory: it knows where each of these is.
#[repr(C)]
struct Reach {
    /// The memory's first byte.
    first: *mut u8,
    /// How many instructions may still run; fewer than 0 if there were too many.
    left: i64,
    /// The end of the frame of the innermost function.
    frame_end: u64,
    /// Not 0: a fault ends the run, and every function returns at once.
    ended: u32,
    /// Which call the host is to answer, of those that have no code of their own.
    call: u32,
    /// The instruction that called the host.
    place: u64,
    /// What answers calls, by their numbers, and behind them what goes on in the interpreter.
    calls: *const (),
    /// Whom the program calls.
    host: *mut (),
    /// What the registers hold where the interpreter goes on.
    registers: MaybeUninit<[u64; 11]>,
    /// The arena's first byte, and the table of its pages that are there; null if there is none.
    arena: *mut u8,
    pages: *const u8,
    /// Divisions, calls of the host and what wide numbers take so far, see
    /// [`Machine::tell_apart`].
    divisions: u64,
    calls_made: u64,
    wide: u64,
}

/// What a program has executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Instructions of the last call, all of them.
    pub instructions: u64,
    /// Those of them that divide, since the machine began.
    pub divisions: u64,
    /// Those of them that call the host, since the machine began.
    pub calls: u64,
    /// How many more a machine of 32 bits would have executed, since the machine began.
    pub wide: u64,
}

/// A program in a memory, whose functions can be called.
#[repr(C)]
pub struct Machine {
    reach: Reach,
    program: Program,
    /// Translated code has its address, so nobody exchanges it.
    memory: Box<Memory>,
    /// Most instructions of a call.
    instructions_max: u64,
    /// Where the first frame ends, and the last that there may be.
    outermost_frame: u64,
    deepest_frame: u64,
    translation: Option<Translation>,
    /// Whether translated code counts divisions and calls of the host by themselves.
    tells_apart: bool,
    /// How many more each instruction is on a machine of 32 bits; empty: that is not counted.
    wide: Vec<u8>,
    /// How often each instruction was executed, where that is counted.
    executed: Vec<u64>,
    /// What a strict run knows beside its values.
    shadow: Option<Box<Shadow>>,
    /// What ended translated code.
    fault: Option<Box<Fault>>,
    panic: Option<Box<dyn Any + Send>>,
}

impl Machine {
    /// A machine that interprets its program, so many instructions a call at the most.
    pub fn new(program: Program, mut memory: Box<Memory>, instructions_max: u64) -> Machine {
        let none = (std::ptr::null_mut(), std::ptr::null());
        let (arena, pages) = memory.arena().map_or(none, Arena::first);
        let reach = Reach {
            first: memory.first(),
            left: instructions_max as i64,
            frame_end: memory.frames_begin(),
            ended: 0,
            call: 0,
            place: 0,
            calls: std::ptr::null(),
            host: std::ptr::null_mut(),
            registers: MaybeUninit::uninit(),
            arena,
            pages,
            divisions: 0,
            calls_made: 0,
            wide: 0,
        };
        Machine {
            reach,
            program,
            outermost_frame: memory.layout().outermost_frame(),
            deepest_frame: memory.layout().deepest_frame(),
            memory,
            instructions_max,
            translation: None,
            tells_apart: false,
            wide: vec![],
            executed: vec![],
            shadow: None,
            fault: None,
            panic: None,
        }
    }

    /// Translates the program, which runs so from here on, and is not watched. `false` where this
    /// machine's instructions are not known, or have no room for the memory: it is interpreted
    /// there.
    pub fn translate(&mut self) -> bool {
        self.shadow = None;
        let layout = self.memory.layout();
        let has_arena = self.memory.has_arena();
        self.translation = Translation::new(
            &self.program,
            layout,
            has_arena,
            self.instructions_max,
            self.tells_apart,
            &self.wide,
        );
        self.translation.is_some()
    }

    /// Divisions and calls of the host are counted by themselves, too, in what is translated from
    /// here on. The interpreter always does so. What [`Program::wide`] says of each
    /// instruction is counted as well, unless `wide` is empty.
    pub fn tell_apart(&mut self, wide: Vec<u8>) {
        (self.tells_apart, self.wide) = (true, wide);
    }

    /// Interprets the program from here on, and ends it where a pointer leads out of the object
    /// that it was derived from, where it reads what nobody wrote to its stack, and where it does
    /// not give back what it must. That takes about twice the time of the interpreter alone. Unless
    /// `refuses_open`, what C leaves open and BPF does not is not refused: a division by 0, and
    /// what nobody wrote, which a kernel lets those read who may load schedulers
    /// (`bpf_allow_uninit_stack`).
    pub fn watch(&mut self, refuses_open: bool) {
        self.translation = None;
        let own_lines = self.program.own_lines();
        let mut shadow = Shadow::new(self.memory.frames_begin(), own_lines);
        shadow.refuses_open = refuses_open;
        self.shadow = Some(Box::new(shadow));
    }

    /// Where watched, takes what stands at this address for a pointer, as the type there says.
    pub fn expect_pointer(&mut self, address: u64) {
        if let Some(shadow) = &mut self.shadow {
            shadow.pointers.insert(address);
        }
    }

    /// Interprets the program from here on, and counts each instruction.
    pub fn count_executed(&mut self) {
        self.translation = None;
        self.executed = vec![0; self.program.instructions.len()];
    }

    /// How often each instruction of the program was executed, if that is counted; what a call
    /// counts as instructions is added to it.
    pub fn executed(&self) -> &[u64] {
        &self.executed
    }

    /// Whether it is watched, see [`Machine::watch`].
    pub fn is_watched(&self) -> bool {
        self.shadow.is_some()
    }

    /// What it runs.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// What its program may touch.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The same, to be changed between calls.
    pub fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// The memory, for another machine.
    pub fn into_memory(self) -> Box<Memory> {
        self.memory
    }

    /// Instructions of the last call.
    pub fn instructions(&self) -> u64 {
        self.instructions_max.wrapping_sub(self.reach.left as u64)
    }

    /// The same with those of them that are counted by themselves, see [`Machine::tell_apart`].
    pub fn taken(&self) -> Executed {
        let Reach { divisions, calls_made: calls, wide, .. } = self.reach;
        Executed { instructions: self.instructions(), divisions, calls, wide }
    }

    /// Calls a function of the program and gives R0.
    ///
    /// # Errors
    ///
    /// [`Fault`] says what ended it, and where.
    #[inline]
    pub fn call<H: Host>(
        &mut self,
        host: &mut H,
        function: usize,
        arguments: [u64; 5],
    ) -> Result<u64, Box<Fault>> {
        if self.translation.is_some() {
            return translation::call(Run { machine: self, host }, function, true, arguments);
        }
        self.reach.left = self.instructions_max as i64;
        self.reach.frame_end = self.outermost_frame;
        let [a, b, c, d, e] = arguments;
        Run { machine: self, host }.interpret(function, a, b, c, d, e)
    }
}

/// A program that runs, as its host sees it.
pub struct Run<'a, H> {
    machine: &'a mut Machine,
    /// Whom it calls.
    pub host: &'a mut H,
}

impl<H: Host> Run<'_, H> {
    /// What runs.
    pub fn program(&self) -> &Program {
        &self.machine.program
    }

    /// What it has executed, with the call that is answered now.
    pub fn taken(&self) -> Executed {
        self.machine.taken()
    }

    /// The same run, to be given away: then this one need not stand in memory.
    pub fn again(&mut self) -> Run<'_, H> {
        Run { machine: self.machine, host: self.host }
    }

    /// What the program may touch.
    pub fn memory(&self) -> &Memory {
        &self.machine.memory
    }

    /// The same, to be written, and whom the program calls.
    pub fn memory_and_host(&mut self) -> (&mut Memory, &mut H) {
        (&mut self.machine.memory, self.host)
    }

    /// The instruction that made the call that is answered now.
    pub fn place(&self) -> u32 {
        self.machine.reach.place as u32
    }

    /// What is said of the call that is answered now, with its place before it.
    pub fn told(&self, said: &str) -> String {
        let own = self.machine.shadow.as_ref().and_then(|shadow| shadow.calls_own);
        self.program().told(self.machine.reach.place as usize, own, said)
    }

    /// Writes the lower bytes of a number for the program; `None` if it has no such bytes.
    pub fn store(&mut self, address: u64, size: Size, value: u64) -> Option<()> {
        self.machine.memory.store(address, size, value)
    }

    /// Counts what a call does as so many instructions.
    ///
    /// # Errors
    ///
    /// [`FaultKind::Endless`] if there were too many.
    pub fn count(&mut self, instructions: u64) -> Result<(), FaultKind> {
        let left = &mut self.machine.reach.left;
        *left = left.saturating_sub_unsigned(instructions);
        if let Some(executed) = self.machine.executed.get_mut(self.machine.reach.place as usize) {
            *executed += instructions;
        }
        let endless = FaultKind::Endless(self.machine.instructions_max);
        if self.machine.reach.left < 0 { Err(endless) } else { Ok(()) }
    }

    /// Goes on with a function at an instruction, to the function's end.
    fn resume(
        &mut self,
        at: usize,
        registers: [u64; 11],
        loops_left: u64,
    ) -> Result<u64, Box<Fault>> {
        self.machine.reach.frame_end = registers[10];
        Frame { run: self, registers, loops_left }.run(at)
    }

    /// Calls a function of the program, from within a call that it made, and gives R0.
    ///
    /// # Errors
    ///
    /// [`Fault`] says what ended it, and where.
    pub fn function(&mut self, number: usize, arguments: [u64; 5]) -> Result<u64, Box<Fault>> {
        let machine = &mut *self.machine;
        let outer = machine.reach.frame_end;
        let frame_end = outer + FRAME_BYTES;
        // A host that calls back for ever is a program that does not return.
        if frame_end > machine.deepest_frame || machine.reach.left < 0 {
            return Err(machine.refused(number, frame_end));
        }
        // What runs calls the host, too, and each call is known by its place.
        let place = machine.reach.place;
        machine.reach.frame_end = frame_end;
        let answer = if self.machine.translation.is_some() {
            translation::call(self.again(), number, false, arguments)
        } else {
            let [a, b, c, d, e] = arguments;
            self.again().interpret(number, a, b, c, d, e)
        };
        (self.machine.reach.frame_end, self.machine.reach.place) = (outer, place);
        answer
    }

    /// Runs a function, whose frame is there, without a translation. It is given all one by one, so
    /// that whoever has a translation needs none of it in memory.
    #[cold]
    #[inline(never)]
    fn interpret(
        mut self,
        number: usize,
        a: u64,
        b: u64,
        c: u64,
        d: u64,
        e: u64,
    ) -> Result<u64, Box<Fault>> {
        if self.machine.shadow.is_some() {
            return strict::call(&mut self, number, [a, b, c, d, e]);
        }
        let registers = [0, a, b, c, d, e, 0, 0, 0, 0, self.machine.reach.frame_end];
        let first = self.machine.program.functions[number].first;
        Frame { run: &mut self, registers, loops_left: MAY_GOTO_MAX }.run(first)
    }
}

impl Machine {
    /// Whether no function may be called from the innermost one.
    fn is_deepest(&self) -> bool {
        self.reach.frame_end + FRAME_BYTES > self.deepest_frame
    }

    /// What ends a program in the call that is answered now.
    #[cold]
    #[inline(never)]
    fn stopped(&self, stop: Stop) -> Box<Fault> {
        stop.at(self.reach.place as usize)
    }

    /// Why a function is not called at all.
    #[cold]
    fn refused(&self, number: usize, frame_end: u64) -> Box<Fault> {
        let endless = FaultKind::Endless(self.instructions_max);
        let kind = if frame_end > self.deepest_frame { FaultKind::Depth } else { endless };
        Stop::from(kind).at(self.program.functions[number].first)
    }
}
