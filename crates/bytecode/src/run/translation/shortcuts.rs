//! Calls of the host: which of them have their answer in the memory, and what is known of them.

use std::ops::Range;

use dynasmrt::DynasmLabelApi;

use super::blocks::{Asked, Made, Translator};
use super::known::Value;
use crate::instruction::{
    Arithmetic, Callee, Condition, Instruction, Operand, Register, Size, Width,
};
use crate::memory::FRAME_BYTES;
use crate::program::{Elements, Shortcut};

/// Registers of arguments.
pub(super) const ARGUMENTS: Range<usize> = 1..6;

impl Translator<'_> {
    /// Translates a call; gives how many instructions are then not yet counted.
    pub(super) fn call_host(&mut self, at: usize, call: usize, uncounted: i32) -> i32 {
        self.know_cleared(at);
        let shortcut = self.program.shortcuts.get(&call).copied();
        let is_unknown = shortcut == Some(Shortcut::Element) && self.elements().is_none();
        let Some(shortcut) = shortcut.filter(|_| !is_unknown) else {
            self.load_late();
            self.clear_unwritten(at, ARGUMENTS);
            self.count(uncounted);
            self.make_call(at, call);
            return 0;
        };
        self.clear_unwritten(at, shortcut.arguments());
        let (label, done) = (self.to.new_dynamic_label(), self.to.new_dynamic_label());
        self.load_arguments(shortcut);
        let asked = self.asked_of(at).filter(|_| !shortcut.is_always());
        self.asked = asked.or(self.asked);
        self.shortcut(shortcut, label);
        let late = self.take_late();
        if !shortcut.is_always() {
            self.to.dynamic_label(done);
            self.made.push(Made { label, done, at, call, uncounted, late, asked });
        }
        uncounted
    }

    /// Loads the arguments that code looks at which finds the answer of a call.
    fn load_arguments(&mut self, shortcut: Shortcut) {
        let first_is_known = match shortcut {
            Shortcut::NextItem(_) | Shortcut::BeginNumbers(_) | Shortcut::NextNumber => {
                self.iterator().is_some()
            }
            Shortcut::Element => true,
            Shortcut::Cell { columns_begin, columns, .. } => {
                self.known_column(columns_begin, columns).is_some()
            }
            _ => false,
        };
        for register in [Register::FIRST, Register::SECOND, Register::THIRD] {
            let is_known = first_is_known && register == Register::FIRST;
            if shortcut.arguments().contains(&register.number()) && !is_known {
                self.load_one(register);
            }
        }
    }

    /// Makes a call whose answer was not found, and goes on behind it.
    pub(super) fn make_late(&mut self, made: Made) {
        let Made { label, done, at, call, uncounted, late, asked } = made;
        self.to.dynamic_label(label);
        self.clear_unwritten(at, ARGUMENTS);
        late.into_iter().for_each(|(register, value)| self.load_known(register, value));
        self.count(uncounted);
        self.make_call(at, call);
        match asked {
            Some(asked) => self.ask(asked),
            None => {
                self.count(-uncounted);
                self.go_to(done);
            }
        }
    }

    /// Asks what a branch asks that is only reached from here, and goes where it leads.
    fn ask(&mut self, Asked { call, branch }: Asked) {
        let of = self.program.instructions[branch];
        let (behind, Some(target)) = (branch + 1, of.target(branch)) else { return };
        if branch == call + 2
            && let Instruction::Arithmetic { operation, width, to, by } =
                self.program.instructions[call + 1]
        {
            self.arithmetic(operation, width, to, by);
        }
        let counted = (branch - call) as i32;
        let jumps = self.to.new_dynamic_label();
        self.jump(of, jumps);
        self.count_for(behind, counted);
        self.go_to(self.labels[behind]);
        self.to.dynamic_label(jumps);
        self.count_for(target, counted);
        self.go_to(self.labels[target]);
    }

    /// The branch that asks at once whether the answer of a call is 0, if code may find an answer
    /// that is not.
    pub(super) fn asked_of(&self, call: usize) -> Option<Asked> {
        let instructions = &self.program.instructions;
        let Instruction::Call(Callee::Offered(number)) = instructions[call] else { return None };
        let gives_no_zero = matches!(
            self.program.shortcuts.get(&number)?,
            Shortcut::Cell { .. }
                | Shortcut::Element
                | Shortcut::NextItem(_)
                | Shortcut::NextNumber
        );
        let (mut branch, mut asks_of) = (call + 1, Register::ANSWER);
        if let Some(&Instruction::Arithmetic {
            operation: Arithmetic::Move,
            width: Width::Bits64,
            to,
            by: Operand::Register(Register::ANSWER),
        }) = instructions.get(branch)
        {
            (branch, asks_of) = (branch + 1, to);
        }
        let (condition, asked) = instructions.get(branch)?.asks_for_zero()?;
        let is_asked = gives_no_zero
            && (asked == asks_of || asked == Register::ANSWER)
            && matches!(condition, Condition::Equal | Condition::NotEqual)
            && !self.targets[call + 1..=branch].contains(&true)
            && branch + 1 < instructions.len();
        is_asked.then_some(Asked { call, branch })
    }

    /// The way that a branch does not go by itself, see [`Asked`].
    pub(super) fn other_way(&self, at: usize, of: Instruction) -> Option<(Asked, usize)> {
        let asked = self.asked.filter(|asked| asked.branch == at)?;
        let target = of.target(at)?;
        let jumps_at_zero = matches!(of.asks_for_zero(), Some((Condition::Equal, _)));
        Some((asked, if jumps_at_zero { target } else { at + 1 }))
    }

    /// What is known on the way that a branch does not go by itself, but from where the call is
    /// made of whose answer it asks.
    pub(super) fn part_if_asked(&mut self, at: usize, of: Instruction) {
        let Some((asked, other)) = self.other_way(at, of) else { return };
        let known = self.state().known;
        self.state().known.gave_none(asked.call);
        self.look_ahead(at, other);
        self.state().known = known;
    }

    /// Where the iterator at the first argument is in the frame, from R10, if that is known here.
    pub(super) fn iterator(&self) -> Option<i32> {
        match self.known(Register::FIRST) {
            // Frames are aligned.
            Value::Frame(offset) => i32::try_from(offset)
                .ok()
                .filter(|at| (-(FRAME_BYTES as i32)..=-8).contains(at) && at % 8 == 0),
            _ => None,
        }
    }

    /// The map of the first argument, if that is known here.
    pub(super) fn elements(&self) -> Option<Elements> {
        match self.known(Register::FIRST) {
            Value::Number(map) => self.program.elements.get(&map).copied(),
            _ => None,
        }
    }

    /// How far the column of the first argument is behind the first one, if that is known here.
    pub(super) fn known_column(&self, columns_begin: u64, columns: u32) -> Option<u32> {
        let Value::Number(number) = self.known(Register::FIRST) else { return None };
        let column = number.checked_sub(columns_begin)?;
        (column % 8 == 0 && column < 8 * u64::from(columns)).then_some(column as u32)
    }

    /// Whether the key at the second argument is known to lie in the frame.
    pub(super) fn is_key_in_frame(&self) -> bool {
        let key_bytes = Size::Word.bytes() as i64;
        matches!(self.known(Register::SECOND), Value::Frame(offset)
            if (-(FRAME_BYTES as i64)..=-key_bytes).contains(&offset))
    }
}
