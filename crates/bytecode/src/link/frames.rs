//! Whether the frames of a linked program's functions fit into a kernel's stack.

use std::collections::BTreeSet;

use super::Link;
use crate::error::LinkError;
use crate::instruction::{Callee, Instruction, Register};
use crate::program::LinkedFunction;
use crate::stack::{Frame, FrameEnds, too_deep};
use crate::ways::{Constants, each_way};

/// Calls whose second argument is a function that a kernel calls later, by itself. Source: Linux
/// 7.3, kernel/bpf/verifier.c, `is_async_callback_calling_function` and
/// `is_async_callback_calling_kfunc`.
const CALLING_LATER: [&str; 3] =
    ["bpf_timer_set_callback", "bpf_wq_set_callback", "bpf_wq_set_callback_impl"];

impl Link<'_> {
    /// Refuses calls within each other whose frames take more than there is, on ways that constants
    /// leave open.
    pub(super) fn check_stack(&self) -> Result<(), LinkError> {
        let (program, apart) = (&self.program, &self.addresses.apart);
        let most = |one: &LinkedFunction| Frame::most(program, one.first..one.end);
        let most: Vec<Frame> = program.functions.iter().map(most).collect();
        if too_deep(program, &most, apart, &BTreeSet::new()).is_none() {
            return Ok(());
        }
        let (frames, called_later) = self.frames()?;
        let found = too_deep(program, &frames, apart, &called_later);
        let Some(found) = found else { return Ok(()) };
        let named =
            |&(number, bytes): &(usize, u64)| (program.functions[number].name.clone(), bytes);
        let (chain, bytes) = (found.chain.iter().map(named).collect(), found.bytes());
        Err(LinkError::Stack { chain, bytes })
    }

    /// The frame of each function on the ways that constants leave open, and the functions that
    /// calls there have a kernel call later: all whose address is taken, if one gives an address
    /// that is not known.
    fn frames(&self) -> Result<(Vec<Frame>, BTreeSet<usize>), LinkError> {
        let program = &self.program;
        let setters = CALLING_LATER.iter().filter_map(|name| self.world.functions.get(*name));
        let setters: BTreeSet<usize> = setters.copied().collect();
        let mut called_later = BTreeSet::new();
        let mut frames = Vec::new();
        for function in &program.functions {
            let mut frame = Frame::default();
            let at_entry = (Constants::default(), FrameEnds::AT_ENTRY);
            let join = |(a, b): (Constants, FrameEnds), (c, d)| (a.join(c), b.join(d));
            each_way(function.first..function.end, at_entry, join, |at, (constants, ends)| {
                let instruction = &program.instructions[at];
                frame.add(program, instruction, *ends);
                ends.after(instruction);
                if let Instruction::Call(Callee::Offered(number)) = instruction
                    && setters.contains(number)
                {
                    let given = constants.held_by(Register::SECOND);
                    match given.and_then(|address| program.function_at(address)) {
                        Some(callback) => called_later.extend([callback]),
                        None => called_later.extend(0..program.functions.len()),
                    }
                }
                Ok(constants.step(at, instruction, &self.addresses.constants))
            })?;
            frames.push(frame);
        }
        Ok((frames, called_later))
    }
}
