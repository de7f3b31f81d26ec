//! A program as instructions of this machine.
//!
//! What a translation cannot do itself, it leaves to the interpreter, which goes on at the very
//! instruction with the registers as they are: a fault, a write that only the host may allow, an
//! operation that is rare. So there is one place that says what is wrong, and it is never fast.
//!
//! Each register of BPF has one of the machine. A register is compared with the memory's borders
//! once for all accesses by it, until it changes or a jump leads back; what is known of a register,
//! as that it is so far from R10, needs no comparison. Instructions are counted once a block.
//!
//! All unsafe code of the crate is here.

#![allow(clippy::useless_conversion)] // `dynasm!` converts every register.

mod known;
mod memory;
mod shortcuts;
mod states;
mod values;

use std::any::Any;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

use dynasmrt::x64::Assembler;
use dynasmrt::{AssemblyOffset, DynamicLabel, DynasmApi, DynasmLabelApi, ExecutableBuffer, dynasm};

use states::State;

use super::{Host, MAY_GOTO_MAX, Machine, Reach, Run};
use crate::fault::{Fault, Stop};
use crate::instruction::{Callee, Condition, Instruction, Operand, Register, Width, wide_number};
use crate::memory::{FRAME_BYTES, Layout};
use crate::program::{Program, Shortcut};

/// The machine's registers by those of BPF: those of arguments and of the answer are where the
/// System V calling convention has them, and R6 to R10 are kept by functions that are called.
const REGISTERS: [u8; 11] = [RAX, RDI, RSI, RDX, RCX, 8, RBX, 13, 14, 15, RBP];
const RAX: u8 = 0;
const RCX: u8 = 1;
const RDX: u8 = 2;
const RBX: u8 = 3;
const RBP: u8 = 5;
const RSI: u8 = 6;
const RDI: u8 = 7;

/// Where the parts of [`Reach`] are. R12 holds the address of the machine, which begins with it,
/// R11 that of the memory, R9 how many instructions are left.
const FIRST: i32 = offset_of!(Reach, first) as i32;
const LEFT: i32 = offset_of!(Reach, left) as i32;
const ENDED: i32 = offset_of!(Reach, ended) as i32;
const CALL: i32 = offset_of!(Reach, call) as i32;
const FRAME_END: i32 = offset_of!(Reach, frame_end) as i32;
const PLACE: i32 = offset_of!(Reach, place) as i32;
const CALLS: i32 = offset_of!(Reach, calls) as i32;
const RESUME: i32 = offset_of!(Reach, resume) as i32;
const REGISTERS_AT: i32 = offset_of!(Reach, registers) as i32;

/// Code as it is entered: a function's arguments, and the machine.
type Enter = extern "sysv64" fn(u64, u64, u64, u64, u64, *mut ()) -> u64;

/// Calls that have code of their own, so that each is known where it is compiled and each place
/// in a program always jumps to the same: half the time of a call was the search for it.
const OWN_CALLS: usize = 128;
/// The number of those that have none.
const ANY_CALL: usize = OWN_CALLS;

struct Shims<H>(PhantomData<H>);

macro_rules! shims {
    ($($tens:literal)*) => {
        &[$(
            answer::<H, { 8 * $tens }>, answer::<H, { 8 * $tens + 1 }>,
            answer::<H, { 8 * $tens + 2 }>, answer::<H, { 8 * $tens + 3 }>,
            answer::<H, { 8 * $tens + 4 }>, answer::<H, { 8 * $tens + 5 }>,
            answer::<H, { 8 * $tens + 6 }>, answer::<H, { 8 * $tens + 7 }>,
        )* answer::<H, ANY_CALL>]
    };
}

impl<H: Host> Shims<H> {
    const CALLS: &[Enter; OWN_CALLS + 1] = shims!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
}

/// A program's code for this machine.
pub(super) struct Translation {
    /// How each function is entered. They lie in the code.
    entries: Vec<Enter>,
    _code: ExecutableBuffer,
}

impl Translation {
    /// Translates a program that is to run in memories of this layout.
    ///
    /// `None` where this machine's instructions are not known, or have no room for the layout: the
    /// interpreter runs everywhere.
    pub(super) fn new(program: &Program, layout: Layout) -> Option<Translation> {
        // Displacements of 32 bits must hold the layout, the first address and any offset.
        if layout.bytes > i32::MAX as u64 - (1 << 17) {
            return None;
        }
        let mut to = Assembler::new().ok()?;
        let labels = program.instructions.iter().map(|_| to.new_dynamic_label()).collect();
        let functions = program.functions.iter().map(|_| to.new_dynamic_label()).collect();
        let (leave, resume) = (to.new_dynamic_label(), to.new_dynamic_label());
        let mut translator = Translator {
            to,
            program,
            layout,
            labels,
            functions,
            leave,
            resume,
            stubs: vec![],
            constants: BTreeMap::new(),
            kept: vec![],
            leaders: vec![false; program.instructions.len()],
            targets: vec![false; program.instructions.len()],
            state: None,
            ahead: BTreeMap::new(),
        };
        translator.leave_and_resume();
        (0..program.functions.len()).for_each(|one| translator.function(one));
        let entries: Vec<_> = (0..program.functions.len()).map(|n| translator.entry(n)).collect();
        translator.constants();
        let code = translator.to.finalize().ok()?;
        // SAFETY: an entry is code that takes these arguments, keeps the registers that its caller
        // needs, and lives as long as the buffer.
        let entry = |at| unsafe { std::mem::transmute::<*const u8, Enter>(code.ptr(at)) };
        Some(Translation { entries: entries.into_iter().map(entry).collect(), _code: code })
    }
}

/// Calls a function of a machine that has a translation; its frame ends where the machine says.
#[inline]
pub(super) fn call<H: Host>(
    run: &mut Run<'_, H>,
    number: usize,
    [a, b, c, d, e]: [u64; 5],
) -> Result<u64, Box<Fault>> {
    let machine = &mut *run.machine;
    let enter = machine.translation.as_ref().expect("asked before").entries[number];
    machine.reach.host = ptr::from_mut(&mut *run.host).cast();
    machine.reach.calls = Shims::<H>::CALLS.as_ptr().cast();
    machine.reach.resume = resume::<H> as *const ();
    // What runs was translated from a program that was checked when it was linked: every access
    // is compared with the borders of the machine's memory. Nobody else uses the machine or the
    // host until it returns.
    let answer = enter(a, b, c, d, e, ptr::from_mut(machine).cast());
    if machine.reach.ended == 0 { Ok(answer) } else { Err(ended(machine)) }
}

/// What ended a run; a panic of the host goes on.
#[cold]
fn ended(machine: &mut Machine) -> Box<Fault> {
    machine.reach.ended = 0;
    if let Some(panic) = machine.panic.take() {
        resume_unwind(panic);
    }
    machine.fault.take().expect("what ended a run is kept")
}

/// Answers a call of the host.
extern "sysv64" fn answer<H: Host, const NUMBER: usize>(
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    machine: *mut (),
) -> u64 {
    in_run::<H>(machine, |run| {
        let number = if NUMBER == ANY_CALL { run.machine.reach.call as usize } else { NUMBER };
        let place = run.machine.reach.place as usize;
        H::call(run, number, [a, b, c, d, e]).map_err(|stop| match stop {
            Stop::Call(_) => stop.at(place),
            Stop::Inside(fault) => fault,
        })
    })
}

/// Goes on with a function in the interpreter, from instruction `at` to its end.
extern "sysv64" fn resume<H: Host>(machine: *mut (), at: u64, loops_left: u64) -> u64 {
    in_run::<H>(machine, |run| {
        // SAFETY: all of them were written on the way here.
        let registers = unsafe { run.machine.reach.registers.assume_init() };
        run.resume(at as usize, registers, loops_left)
    })
}

#[inline]
fn in_run<H: Host>(
    machine: *mut (),
    go_on: impl FnOnce(&mut Run<'_, H>) -> Result<u64, Box<Fault>>,
) -> u64 {
    // SAFETY: code gives the machine that it was called with; nobody else uses it meanwhile.
    let machine = unsafe { &mut *machine.cast::<Machine>() };
    // SAFETY: `call` put it there, for shims of the same type, and waits.
    let host = unsafe { &mut *machine.reach.host.cast::<H>() };
    let mut run = Run { machine, host };
    // No panic may cross the code; it goes on where the code was called.
    match catch_unwind(AssertUnwindSafe(|| go_on(&mut run))) {
        Ok(Ok(answer)) => answer,
        Ok(Err(fault)) => end(run.machine, Some(fault), None),
        Err(panic) => end(run.machine, None, Some(panic)),
    }
}

#[cold]
fn end(
    machine: &mut Machine,
    fault: Option<Box<Fault>>,
    panic: Option<Box<dyn Any + Send>>,
) -> u64 {
    (machine.fault, machine.panic) = (fault, panic);
    machine.reach.ended = 1;
    0
}

/// A way out of a block, to the interpreter.
struct Stub {
    label: DynamicLabel,
    at: usize,
    /// How many instructions of the block have run and were not counted, or the other way round.
    uncounted: i32,
}

struct Translator<'a> {
    to: Assembler,
    program: &'a Program,
    layout: Layout,
    /// By instruction.
    labels: Vec<DynamicLabel>,
    /// By function.
    functions: Vec<DynamicLabel>,
    leave: DynamicLabel,
    resume: DynamicLabel,
    stubs: Vec<Stub>,
    /// Numbers of 64 bits that lie behind the code.
    constants: BTreeMap<u64, DynamicLabel>,
    /// Registers that calls of functions must keep for the present one.
    kept: Vec<u8>,
    /// Whether a block begins, by instruction.
    leaders: Vec<bool>,
    /// Whether a jump leads to an instruction, where ways meet.
    targets: Vec<bool>,
    /// What is known here; `None` where no way leads.
    state: Option<State>,
    /// What is known where jumps lead that were met.
    ahead: BTreeMap<usize, State>,
}

fn native(register: Register) -> u8 {
    REGISTERS[register.number()]
}

impl Translator<'_> {
    /// The end of every function, and the way there through the interpreter. A function has one
    /// word on the stack, which also aligns it for calls: how often it may pass `may_goto`.
    fn leave_and_resume(&mut self) {
        let saved = |number: usize| REGISTERS_AT + 8 * number as i32;
        let (leave, resume) = (self.leave, self.resume);
        dynasm!(self.to ; .arch x64 ; =>resume);
        for (number, register) in REGISTERS.into_iter().enumerate() {
            dynasm!(self.to ; .arch x64 ; mov [r12 + saved(number)], Rq(register));
        }
        dynasm!(self.to
            ; .arch x64
            ; mov [r12 + LEFT], r9
            ; mov rdi, r12
            ; mov rsi, r10
            ; mov rdx, [rsp]
            ; call QWORD [r12 + RESUME]
            ; mov r11, [r12 + FIRST]
            ; mov r9, [r12 + LEFT]
            ; =>leave
            ; add rsp, 8
            ; ret
        );
    }

    /// From Rust to a function: its arguments are where it expects them, and the machine is the
    /// sixth. All registers that Rust wants kept are, so functions keep none.
    fn entry(&mut self, number: usize) -> AssemblyOffset {
        let offset = self.to.offset();
        let function = self.functions[number];
        dynasm!(self.to
            ; .arch x64
            ; push rbp
            ; push rbx
            ; push r12
            ; push r13
            ; push r14
            ; push r15
            ; sub rsp, 8
            ; mov r12, r9
            ; mov r11, [r12 + FIRST]
            ; mov r9, [r12 + LEFT]
            ; mov rbp, [r12 + FRAME_END]
            ; call =>function
            ; mov [r12 + LEFT], r9
            ; add rsp, 8
            ; pop r15
            ; pop r14
            ; pop r13
            ; pop r12
            ; pop rbx
            ; pop rbp
            ; ret
        );
        offset
    }

    fn function(&mut self, number: usize) {
        let (first, end) =
            (self.program.functions[number].first, self.program.functions[number].end);
        self.find_leaders(first, end);
        self.kept = self.kept_registers(first, end);
        let function = self.functions[number];
        dynasm!(self.to ; .arch x64 ; =>function ; sub rsp, 8 ; xor eax, eax);
        let instructions = &self.program.instructions[first..end];
        if instructions.iter().any(|of| matches!(of, Instruction::MayGoto { .. })) {
            dynasm!(self.to ; .arch x64 ; mov QWORD [rsp], MAY_GOTO_MAX as i32);
        }
        self.state = Some(State::default());
        let mut uncounted = 0;
        let mut at = first;
        while at < end {
            if self.leaders[at] {
                self.count(uncounted);
                uncounted = 0;
                let label = self.labels[at];
                dynasm!(self.to ; .arch x64 ; =>label);
                if self.targets[at] {
                    self.arrive(at);
                }
                if self.program.loop_heads[at] {
                    let out = self.stub(at, 0);
                    dynasm!(self.to ; .arch x64 ; test r9, r9 ; js =>out);
                }
            }
            let of = self.program.instructions[at];
            uncounted = self.instruction(at, of, uncounted);
            self.after(at, &of);
            at += of.slots();
        }
        for Stub { label, at, uncounted } in std::mem::take(&mut self.stubs) {
            let resume = self.resume;
            dynasm!(self.to
                ; .arch x64
                ; =>label
                ; mov r10d, at as i32
                ; lea r9, [r9 - uncounted]
                ; jmp =>resume
            );
        }
    }

    /// Those of R6 to R9 that a function writes: a function that it calls may change them.
    fn kept_registers(&self, first: usize, end: usize) -> Vec<u8> {
        let mut written: Vec<_> = self.program.instructions[first..end]
            .iter()
            .filter_map(Instruction::writes)
            .filter(|register| (6..10).contains(&register.number()))
            .map(native)
            .collect();
        written.sort_unstable();
        written.dedup();
        written
    }

    fn find_leaders(&mut self, first: usize, end: usize) {
        self.leaders[first] = true;
        self.targets[first] = true;
        for at in first..end {
            let of = &self.program.instructions[at];
            let target = of.target(at);
            let ends_block = target.is_some() || matches!(of, Instruction::Call(_));
            for leader in target.into_iter().chain(ends_block.then_some(at + 1)) {
                if leader < end {
                    self.leaders[leader] = true;
                }
            }
            if let Some(target) = target {
                self.targets[target] = true;
            }
        }
    }

    /// Where a number of 64 bits will lie.
    fn constant(&mut self, number: u64) -> DynamicLabel {
        *self.constants.entry(number).or_insert_with(|| self.to.new_dynamic_label())
    }

    fn constants(&mut self) {
        for (number, label) in std::mem::take(&mut self.constants) {
            dynasm!(self.to ; .arch x64 ; .align 8 ; =>label ; .u64 number);
        }
    }

    fn count(&mut self, instructions: i32) {
        if instructions != 0 {
            dynasm!(self.to ; .arch x64 ; lea r9, [r9 - instructions]);
        }
    }

    fn stub(&mut self, at: usize, uncounted: i32) -> DynamicLabel {
        let label = self.to.new_dynamic_label();
        self.stubs.push(Stub { label, at, uncounted });
        label
    }

    /// Leaves an instruction, and the rest of the function, to the interpreter.
    fn leave_to_interpreter(&mut self, at: usize, uncounted: i32) {
        let out = self.stub(at, uncounted);
        dynasm!(self.to ; .arch x64 ; jmp =>out);
    }

    /// Translates one instruction; gives how many are then not yet counted.
    fn instruction(&mut self, at: usize, of: Instruction, before: i32) -> i32 {
        let after = before + 1;
        match of {
            Instruction::Arithmetic { operation, width, to, by } => {
                self.arithmetic(operation, width, native(to), by);
            }
            Instruction::Negate { width: Width::Bits64, to } => {
                dynasm!(self.to ; .arch x64 ; neg Rq(native(to)));
            }
            Instruction::Negate { width: Width::Bits32, to } => {
                dynasm!(self.to ; .arch x64 ; neg Rd(native(to)));
            }
            Instruction::MoveSigned { width, to, from, bits } => {
                self.move_signed(width, native(to), native(from), bits);
            }
            Instruction::Reorder { order, to, bits } => self.reorder(order, native(to), bits),
            Instruction::LoadWide { to, low, high, .. } => {
                self.load_number(native(to), wide_number(low, high));
            }
            Instruction::Load { size, signed, to, base, offset } => {
                self.check(at, base, false, before);
                self.load(size, signed, native(to), native(base), offset);
            }
            Instruction::Store { size, base, offset, value } => {
                self.check(at, base, true, before);
                self.store(size, native(base), offset, value);
            }
            Instruction::Atomic { kind, size, base, offset, value, fetch } => {
                self.check(at, base, true, before);
                if !self.atomic(kind, size, native(base), offset, native(value), fetch) {
                    self.leave_to_interpreter(at, before);
                }
            }
            Instruction::Jump { .. } | Instruction::Branch { .. } | Instruction::MayGoto { .. } => {
                self.count(after);
                self.jump(at, of);
                return 0;
            }
            Instruction::Call(Callee::Offered(call)) => {
                self.count(after);
                self.call_host(at, call);
                self.state().checked.forget_arguments();
                return 0;
            }
            Instruction::Call(Callee::Function(number)) => {
                self.count(after);
                self.call_function(at, number as usize);
                self.state().checked.forget_arguments();
                return 0;
            }
            Instruction::Exit => {
                self.count(after);
                let leave = self.leave;
                dynasm!(self.to ; .arch x64 ; jmp =>leave);
                return 0;
            }
            Instruction::Call(_) | Instruction::Half | Instruction::Missing => {
                self.leave_to_interpreter(at, before);
                return 0;
            }
        }
        if let Some(written) = of.writes() {
            self.state().checked.forget(written.number());
        }
        after
    }

    fn jump(&mut self, at: usize, of: Instruction) {
        let Some(target) = of.target(at) else { return };
        self.look_ahead(at, target);
        let target = self.labels[target];
        match of {
            Instruction::Branch { condition, width, left, right, .. } => {
                self.compare(condition, width, native(left), right);
                match condition {
                    Condition::Equal => dynasm!(self.to ; .arch x64 ; je =>target),
                    Condition::NotEqual | Condition::Test => {
                        dynasm!(self.to ; .arch x64 ; jne =>target);
                    }
                    Condition::Greater => dynasm!(self.to ; .arch x64 ; ja =>target),
                    Condition::GreaterEqual => dynasm!(self.to ; .arch x64 ; jae =>target),
                    Condition::Less => dynasm!(self.to ; .arch x64 ; jb =>target),
                    Condition::LessEqual => dynasm!(self.to ; .arch x64 ; jbe =>target),
                    Condition::GreaterSigned => dynasm!(self.to ; .arch x64 ; jg =>target),
                    Condition::GreaterEqualSigned => dynasm!(self.to ; .arch x64 ; jge =>target),
                    Condition::LessSigned => dynasm!(self.to ; .arch x64 ; jl =>target),
                    Condition::LessEqualSigned => dynasm!(self.to ; .arch x64 ; jle =>target),
                }
            }
            Instruction::MayGoto { .. } => dynasm!(self.to
                ; .arch x64
                ; cmp QWORD [rsp], 0
                ; je =>target
                ; sub QWORD [rsp], 1
            ),
            _ => dynasm!(self.to ; .arch x64 ; jmp =>target),
        }
    }

    fn compare(&mut self, condition: Condition, width: Width, left: u8, right: Operand) {
        let tests = condition == Condition::Test;
        match (width, right) {
            (Width::Bits64, Operand::Register(right)) if tests => {
                dynasm!(self.to ; .arch x64 ; test Rq(left), Rq(native(right)));
            }
            (Width::Bits32, Operand::Register(right)) if tests => {
                dynasm!(self.to ; .arch x64 ; test Rd(left), Rd(native(right)));
            }
            (Width::Bits64, Operand::Number(number)) if tests => {
                dynasm!(self.to ; .arch x64 ; test Rq(left), number);
            }
            (Width::Bits32, Operand::Number(number)) if tests => {
                dynasm!(self.to ; .arch x64 ; test Rd(left), number);
            }
            (Width::Bits64, Operand::Register(right)) => {
                dynasm!(self.to ; .arch x64 ; cmp Rq(left), Rq(native(right)));
            }
            (Width::Bits32, Operand::Register(right)) => {
                dynasm!(self.to ; .arch x64 ; cmp Rd(left), Rd(native(right)));
            }
            (Width::Bits64, Operand::Number(number)) => {
                dynasm!(self.to ; .arch x64 ; cmp Rq(left), number);
            }
            (Width::Bits32, Operand::Number(number)) => {
                dynasm!(self.to ; .arch x64 ; cmp Rd(left), number);
            }
        }
    }

    fn call_host(&mut self, at: usize, call: usize) {
        self.clear_unwritten(at);
        let Some(&shortcut) = self.program.shortcuts.get(&call) else {
            return self.make_call(at, call);
        };
        if shortcut == Shortcut::Element && self.elements().is_none() {
            return self.make_call(at, call);
        }
        let (made, done) = (self.to.new_dynamic_label(), self.to.new_dynamic_label());
        self.shortcut(shortcut, made);
        if shortcut.is_always() {
            return;
        }
        dynasm!(self.to ; .arch x64 ; jmp =>done ; =>made);
        self.make_call(at, call);
        dynasm!(self.to ; .arch x64 ; =>done);
    }

    fn make_call(&mut self, at: usize, call: usize) {
        let leave = self.leave;
        let shim = call.min(ANY_CALL);
        if shim == ANY_CALL {
            dynasm!(self.to ; .arch x64 ; mov DWORD [r12 + CALL], call as i32);
        }
        dynasm!(self.to
            ; .arch x64
            ; mov QWORD [r12 + PLACE], at as i32
            ; mov [r12 + LEFT], r9
            ; mov [r12 + FRAME_END], rbp
            ; mov r9, r12
            ; mov rax, [r12 + CALLS]
            ; call QWORD [rax + 8 * shim as i32]
            ; mov r11, [r12 + FIRST]
            ; mov r9, [r12 + LEFT]
            ; cmp DWORD [r12 + ENDED], 0
            ; jne =>leave
        );
    }

    /// What a call leaves in R1 to R5 may be this process's, and no program's business: it cannot
    /// read it, and no other call is given it.
    fn clear_unwritten(&mut self, call: usize) {
        for register in self.program.unwritten_at(call) {
            let register = REGISTERS[register];
            dynasm!(self.to ; .arch x64 ; xor Rd(register), Rd(register));
        }
    }

    /// The instruction was counted already; the interpreter, which refuses the call, counts again.
    fn call_function(&mut self, at: usize, number: usize) {
        let out = self.stub(at, -1);
        let deepest = self.layout.deepest_frame() as i32;
        let target = self.functions[number];
        let leave = self.leave;
        dynasm!(self.to
            ; .arch x64
            ; test r9, r9
            ; js =>out
            ; cmp rbp, deepest
            ; jae =>out
            ; add rbp, FRAME_BYTES as i32
        );
        self.clear_unwritten(at);
        let kept = self.kept.clone();
        let padding = 8 * (kept.len() % 2) as i32;
        kept.iter().for_each(|&one| dynasm!(self.to ; .arch x64 ; push Rq(one)));
        if padding != 0 {
            dynasm!(self.to ; .arch x64 ; sub rsp, padding);
        }
        dynasm!(self.to ; .arch x64 ; call =>target ; sub rbp, FRAME_BYTES as i32);
        if padding != 0 {
            dynasm!(self.to ; .arch x64 ; add rsp, padding);
        }
        kept.iter().rev().for_each(|&one| dynasm!(self.to ; .arch x64 ; pop Rq(one)));
        dynasm!(self.to ; .arch x64 ; cmp DWORD [r12 + ENDED], 0 ; jne =>leave);
    }
}
