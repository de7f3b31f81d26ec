//! Writes programs as nested loops; keeps the indices of loops and their ends right.

use crate::model::workload::{Op, Program, Repeat};

/// A program under construction.
#[derive(Debug, Default)]
pub struct ProgramBuilder {
    ops: Vec<Op>,
    open: Vec<usize>,
}

impl ProgramBuilder {
    /// A program without any operation.
    pub fn new() -> ProgramBuilder {
        ProgramBuilder::default()
    }

    /// Appends an operation that is neither a loop nor its end.
    ///
    /// # Panics
    /// If `op` is `Loop` or `End`: use [`begin`](Self::begin) and [`end`](Self::end).
    pub fn push(&mut self, op: Op) -> &mut ProgramBuilder {
        assert!(!matches!(op, Op::Loop { .. } | Op::End { .. }), "begin and end make loops");
        self.ops.push(op);
        self
    }

    /// Opens a loop; all that follows up to the matching [`end`](Self::end) is its body.
    pub fn begin(&mut self, repeat: Repeat) -> &mut ProgramBuilder {
        self.open.push(self.ops.len());
        self.ops.push(Op::Loop { repeat, end: u32::MAX });
        self
    }

    /// Closes the loop opened last.
    ///
    /// # Panics
    /// If no loop is open.
    pub fn end(&mut self) -> &mut ProgramBuilder {
        let start = self.open.pop().expect("a loop is open");
        let here = self.ops.len() as u32;
        if let Op::Loop { end, .. } = &mut self.ops[start] {
            *end = here;
        }
        self.ops.push(Op::End { start: start as u32 });
        self
    }

    /// How many loops are open.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// How many operations there are so far.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there is no operation yet.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// The finished program.
    ///
    /// # Panics
    /// If a loop is still open.
    pub fn build(self) -> Program {
        assert!(self.open.is_empty(), "a loop is still open");
        self.ops.into()
    }
}

#[cfg(test)]
mod tests {
    //! Goal: loops and ends point at each other. Method: a nested example.
    use super::*;
    use crate::model::workload::Amount;

    #[test]
    fn nested_loops_point_at_each_other() {
        let mut builder = ProgramBuilder::new();
        let twice = Repeat::Times(Amount::Fixed(2));
        builder.begin(twice).push(Op::Yield).begin(Repeat::Forever).push(Op::Join).end().end();
        assert_eq!(
            builder.build()[..],
            [
                Op::Loop { repeat: twice, end: 5 },
                Op::Yield,
                Op::Loop { repeat: Repeat::Forever, end: 4 },
                Op::Join,
                Op::End { start: 2 },
                Op::End { start: 0 },
            ]
        );
    }

    #[test]
    #[should_panic(expected = "a loop is still open")]
    fn an_open_loop_is_not_a_program() {
        let mut builder = ProgramBuilder::new();
        builder.begin(Repeat::Forever);
        builder.build();
    }
}
