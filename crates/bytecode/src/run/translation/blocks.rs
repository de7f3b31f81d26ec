//! A program, block by block: which instructions stand together, and how many are counted where.
//!
//! What an instruction becomes is said by the module that is named like this machine.

use std::collections::BTreeMap;

use dynasmrt::{AssemblyOffset, DynamicLabel, DynasmApi, DynasmLabelApi, ExecutableBuffer};

use super::Assembler;
use super::known::{Known, Value};
use super::states::State;
use crate::instruction::{Callee, Instruction, Register, wide_number};
use crate::memory::Layout;
use crate::program::{Program, Shortcut, Walks};

/// A way out of a block, to the interpreter.
pub(super) struct Stub {
    pub(super) label: DynamicLabel,
    pub(super) at: usize,
    /// How many instructions of the block have run and were not counted, or the other way round.
    pub(super) uncounted: i32,
}

/// The search for a walk's next item where it is not known: it stands behind the function.
#[cfg_attr(target_arch = "aarch64", allow(dead_code))] // No walk is followed there.
pub(super) struct Search {
    pub(super) label: DynamicLabel,
    pub(super) found: DynamicLabel,
    pub(super) call: DynamicLabel,
    pub(super) iterator: i32,
}

/// A call of the host whose answer was not found where it is made: it stands behind the function.
pub(super) struct Made {
    pub(super) label: DynamicLabel,
    pub(super) done: DynamicLabel,
    pub(super) at: usize,
    pub(super) call: usize,
    /// How many instructions are not counted there, with the call.
    pub(super) uncounted: i32,
    /// What was not loaded for it.
    pub(super) late: Vec<(Register, Value)>,
    /// What is asked of its answer.
    pub(super) asked: Option<Asked>,
}

/// A branch that asks whether the answer of a call before it is 0, which it is not where code finds
/// the answer itself: so only where the call is made, this is asked.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) call: usize,
    pub(super) branch: usize,
}

pub(super) struct Translator<'a> {
    pub(super) to: Assembler,
    pub(super) program: &'a Program,
    pub(super) layout: Layout,
    /// Whether there is an arena, see [`Reach`](super::Reach).
    pub(super) has_arena: bool,
    /// Whether divisions and calls of the host are counted by themselves, too.
    pub(super) tells_apart: bool,
    /// How many more each instruction is on a machine of 32 bits; empty: that is not counted.
    pub(super) wide: &'a [u8],
    /// By function.
    pub(super) functions: Vec<DynamicLabel>,
    /// The end of a function.
    pub(super) leave: DynamicLabel,
    /// Where the interpreter goes on with a function.
    pub(super) resume: DynamicLabel,
    /// Numbers of 64 bits that lie behind the code, each with as many that are 0 behind it.
    pub(super) constants: BTreeMap<u64, DynamicLabel>,
    /// Registers that the next call of a function must keep for the present one.
    pub(super) kept: Vec<Register>,
    /// Whether a jump leads to an instruction, where ways meet.
    pub(super) targets: Vec<bool>,
    /// What is known here; `None` where no way leads.
    pub(super) state: Option<State>,
    /// What is known where jumps lead that were met.
    pub(super) ahead: BTreeMap<usize, State>,
    /// By instruction.
    pub(super) labels: Vec<DynamicLabel>,
    /// Where jumps back lead, which have asked whether there were too many instructions.
    bodies: BTreeMap<usize, DynamicLabel>,
    /// How many instructions are uncounted where jumps lead that were met.
    pub(super) due: BTreeMap<usize, i32>,
    /// What is known where jumps lead back to.
    pub(super) heads: BTreeMap<usize, Known>,
    /// What is known where jumps back are, joined by where they lead.
    pub(super) back: BTreeMap<usize, Known>,
    /// Which of R1 to R5 hold what is known but was not loaded, by bits.
    pub(super) late: u16,
    /// The last branch that asked whether the answer of a call is 0.
    pub(super) asked: Option<Asked>,
    /// What walks are like, if the present function has any.
    pub(super) walks: Option<Walks>,
    /// Where in its frame the iterator is whose next item a register of its own leads to.
    pub(super) walked: Option<i32>,
    pub(super) searches: Vec<Search>,
    stubs: Vec<Stub>,
    pub(super) made: Vec<Made>,
    /// Which of R6 to R9 functions write, by bits.
    own: Vec<u16>,
    /// The same with what stays written by functions that they call.
    pub(super) changed: Vec<u16>,
}

/// Where functions are entered.
type Entries = Vec<AssemblyOffset>;

impl<'a> Translator<'a> {
    pub(super) fn new(
        program: &'a Program,
        layout: Layout,
        has_arena: bool,
        tells_apart: bool,
        wide: &'a [u8],
    ) -> Option<Translator<'a>> {
        let mut to = Assembler::new().ok()?;
        let labels = program.instructions.iter().map(|_| to.new_dynamic_label()).collect();
        let functions = program.functions.iter().map(|_| to.new_dynamic_label()).collect();
        let (leave, resume) = (to.new_dynamic_label(), to.new_dynamic_label());
        Some(Translator {
            to,
            program,
            layout,
            has_arena,
            tells_apart,
            wide,
            functions,
            leave,
            resume,
            constants: BTreeMap::new(),
            kept: vec![],
            targets: vec![false; program.instructions.len()],
            state: None,
            ahead: BTreeMap::new(),
            labels,
            bodies: BTreeMap::new(),
            due: BTreeMap::new(),
            heads: BTreeMap::new(),
            back: BTreeMap::new(),
            late: 0,
            asked: None,
            walks: None,
            walked: None,
            searches: vec![],
            stubs: vec![],
            made: vec![],
            own: vec![],
            changed: vec![],
        })
    }

    /// The code, which is to run for so many instructions at the most, and where each function is
    /// entered: first, and from within a call of the host. `None` if a branch has not the room that
    /// its target is away.
    pub(super) fn code(mut self, most: u64) -> Option<(ExecutableBuffer, Entries, Entries)> {
        self.leave_and_resume();
        self.find_changed();
        (0..self.program.functions.len()).for_each(|one| self.function(one));
        let mut entries = |most| {
            let all = (0..self.program.functions.len()).map(|number| {
                let offset = self.to.offset();
                self.entry(number, most);
                offset
            });
            all.collect()
        };
        let (first, inner) = (entries(Some(most)), entries(None));
        self.constants();
        self.to.commit().ok()?;
        Some((self.to.finalize().ok()?, first, inner))
    }

    fn function(&mut self, number: usize) {
        let (first, end) =
            (self.program.functions[number].first, self.program.functions[number].end);
        self.find_targets(first, end);
        let instructions = &self.program.instructions[first..end];
        let may_goto = instructions.iter().any(|of| matches!(of, Instruction::MayGoto { .. }));
        (self.walks, self.walked) = (instructions.iter().find_map(|of| self.walks_of(of)), None);
        self.begin(number, may_goto);
        self.forget_walk();
        self.find_heads(first, end);
        self.state = Some(State::default());
        let mut uncounted = 0;
        let mut at = first;
        while at < end {
            if self.targets[at] {
                if self.state.is_some() {
                    self.load_late();
                    uncounted = self.count_for(at, uncounted);
                } else {
                    uncounted = self.due(at, 0);
                }
                self.late = 0;
                self.to.dynamic_label(self.labels[at]);
                self.arrive(at);
                if self.program.loop_heads[at] {
                    let out = self.stub(at, 0);
                    self.go_if_too_many(out);
                    let body = self.to.new_dynamic_label();
                    self.bodies.insert(at, body);
                    self.to.dynamic_label(body);
                }
            }
            let of = self.program.instructions[at];
            // No way leads to what has no state, and nothing is made of it.
            if self.state.is_some() {
                // What jumps counts itself before it does.
                let jumps = of.is_jump() && self.outcome(&of) != Some(false);
                uncounted = self.instruction(at, of, uncounted, number);
                if !jumps {
                    self.count_wide(at);
                }
                self.after(at, &of);
            }
            at += of.slots();
        }
        std::mem::take(&mut self.made).into_iter().for_each(|made| self.make_late(made));
        std::mem::take(&mut self.searches).into_iter().for_each(|search| self.search(search));
        std::mem::take(&mut self.stubs).into_iter().for_each(|stub| self.way_out(stub));
    }

    /// Those of R6 to R9 that a function writes and one that it calls changes.
    fn kept_registers(&self, caller: usize, called: usize) -> Vec<Register> {
        let both = self.own[caller] & self.changed[called];
        (6..10).filter(|number| both >> number & 1 == 1).filter_map(Register::new).collect()
    }

    /// Finds which of R6 to R9 each function changes: a caller keeps only what it writes itself.
    fn find_changed(&mut self) {
        let mut calls = vec![];
        for (caller, one) in self.program.functions.iter().enumerate() {
            let mut own = 0;
            for of in &self.program.instructions[one.first..one.end] {
                let written = of.writes().map_or(0, |register| 1 << register.number());
                own |= written & 0b11_1100_0000;
                if let Instruction::Call(Callee::Function(called)) = *of {
                    calls.push((caller, called as usize));
                }
            }
            self.own.push(own);
        }
        self.changed.clone_from(&self.own);
        // What is called stands behind its callers, mostly: two rounds are enough then. Each round
        // adds one of four registers to a function, or is the last.
        for _ in 0..=4 * self.own.len() {
            let before = self.changed.clone();
            for &(caller, called) in calls.iter().rev() {
                self.changed[caller] |= self.changed[called];
            }
            if self.changed == before {
                break;
            }
        }
    }

    /// What walks are like, if this is the call that gives the next item of one.
    fn walks_of(&self, of: &Instruction) -> Option<Walks> {
        let Instruction::Call(Callee::Offered(call)) = of else { return None };
        match self.program.shortcuts.get(call) {
            Some(&Shortcut::NextItem(walks)) => Some(walks),
            _ => None,
        }
    }

    fn find_targets(&mut self, first: usize, end: usize) {
        self.targets[first] = true;
        for at in first..end {
            if let Some(target) = self.program.instructions[at].target(at) {
                self.targets[target] = true;
            }
            if let Some(asked) = self.asked_of(at) {
                self.targets[asked.branch + 1] = true;
            }
        }
    }

    pub(super) fn stub(&mut self, at: usize, uncounted: i32) -> DynamicLabel {
        let label = self.to.new_dynamic_label();
        self.stubs.push(Stub { label, at, uncounted });
        label
    }

    /// Where a number of 64 bits will lie.
    pub(super) fn constant(&mut self, number: u64) -> DynamicLabel {
        *self.constants.entry(number).or_insert_with(|| self.to.new_dynamic_label())
    }

    /// Leaves an instruction, and the rest of the function, to the interpreter.
    fn leave_to_interpreter(&mut self, at: usize, uncounted: i32) {
        let out = self.stub(at, uncounted);
        self.go_to(out);
    }

    /// Translates one instruction of a function; gives how many are then not yet counted.
    fn instruction(&mut self, at: usize, of: Instruction, before: i32, function: usize) -> i32 {
        let after = before + 1;
        self.count_apart(&of);
        let is_late = self.is_late(&of);
        if !is_late && !matches!(of, Instruction::Call(Callee::Offered(_))) {
            self.load_for(at, &of);
        }
        match of {
            _ if is_late => {}
            Instruction::Arithmetic { operation, width, to, by } => {
                self.arithmetic(operation, width, to, by);
            }
            Instruction::Negate { width, to } => self.negate(width, to),
            Instruction::MoveSigned { width, to, from, bits } => {
                self.move_signed(width, to, from, bits);
            }
            Instruction::Reorder { order, to, bits } => self.reorder(order, to, bits),
            Instruction::Cast { to, from, upper } => self.cast(to, from, upper),
            _ if self.is_in_arena(&of) => self.access_arena(at, of, before),
            Instruction::LoadWide { to, low, high, .. } => {
                self.load_wide(to, wide_number(low, high));
            }
            Instruction::Load { size, signed, to, base, offset } => {
                self.check(at, base, false, before);
                match self.fixed(&of) {
                    Some(behind) => self.load_fixed(size, signed, to, behind),
                    None => self.load(size, signed, to, base, offset),
                }
            }
            Instruction::Store { size, base, offset, value } => {
                self.check(at, base, true, before);
                self.store(size, base, offset, value);
                self.forget_walk_if_written(&of, base);
            }
            Instruction::Atomic { base, .. } => {
                self.check(at, base, true, before);
                if !self.atomic(of) {
                    self.leave_to_interpreter(at, before);
                }
                self.forget_walk_if_written(&of, base);
            }
            Instruction::Call(Callee::Helper(_) | Callee::KernelFunction(_))
            | Instruction::Half
            | Instruction::Missing => {
                self.leave_to_interpreter(at, before);
                return 0;
            }
            Instruction::Call(Callee::Offered(call)) => {
                let left = self.call_host(at, call, after);
                self.state().checked.forget_arguments();
                self.state().checked.forget(Register::ANSWER.number());
                return left;
            }
            Instruction::Branch { .. } if self.outcome(&of) == Some(false) => {
                self.part_ways(at, of, after);
            }
            Instruction::Branch { .. } | Instruction::Jump { .. } | Instruction::MayGoto { .. } => {
                return self.branch(at, of, after);
            }
            _ => {
                self.count(after);
                self.last_of_block(at, of, function);
                return 0;
            }
        }
        if let Some(written) = of.writes() {
            self.state().checked.forget(written.number());
        }
        after
    }

    /// Translates an instruction after which a block ends; it is counted already.
    fn last_of_block(&mut self, at: usize, of: Instruction, function: usize) {
        match of {
            Instruction::Call(Callee::Function(number)) => {
                // The interpreter, which refuses the call, counts it again.
                let out = self.stub(at, -1);
                self.kept = self.kept_registers(function, number as usize);
                self.call_function(at, number as usize, out);
                self.state().checked.forget_arguments();
            }
            Instruction::Exit => self.exit(),
            _ => {}
        }
    }

    /// Keeps for the other way of a branch, if it has one, what is known and counted.
    fn part_ways(&mut self, at: usize, of: Instruction, uncounted: i32) {
        if let Some((_, other)) = self.other_way(at, of) {
            self.due(other, uncounted);
            self.part_if_asked(at, of);
        }
    }

    /// Translates an instruction that may jump; gives how many are not yet counted if it does not.
    fn branch(&mut self, at: usize, of: Instruction, after: i32) -> i32 {
        let Some(target) = of.target(at) else { return after };
        self.part_ways(at, of, after);
        self.look_ahead(at, target);
        let (left, label) = match self.bodies.get(&target) {
            Some(&body) => {
                // The interpreter, which asks it at the head of the loop, counts the jump again.
                let out = self.stub(at, -1);
                self.count_or_go(after, out);
                (0, body)
            }
            None => (self.count_for(target, after), self.labels[target]),
        };
        self.count_wide(at);
        if self.outcome(&of) == Some(true) {
            self.go_to(label);
        } else {
            self.jump(of, label);
        }
        left
    }
}
