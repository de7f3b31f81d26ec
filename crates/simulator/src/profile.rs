//! How many instructions of its own a policy takes, and where.

use crate::operations::Operation;
use bytecode::{Callee, Instruction, Line, Machine, Place};
use serde::Serialize;
use std::collections::BTreeMap;

/// Instructions of a policy's operations, from the first call to the last of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// Operations that were called, the one with the most instructions first.
    pub operations: Vec<OperationProfile>,
    /// Lines that were executed, the one with the most instructions first.
    pub lines: Vec<LineProfile>,
    /// How often each function of the object called each of the kernel, the most first.
    pub kernel_calls: Vec<KernelCalls>,
    /// How often functions of the policy's own called each other.
    pub function_calls: u64,
    /// How many of the instructions divide.
    pub divisions: u64,
    /// How many of them jump or go on as they find.
    pub branches: u64,
}

/// What the calls of one operation took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperationProfile {
    /// Its name in `sched_ext_ops`.
    pub operation: &'static str,
    /// How often it was called.
    pub calls: u64,
    /// Instructions of all calls.
    pub instructions: u64,
    /// The least that half of the calls did not exceed.
    pub p50: u64,
    /// The least that 99 % of the calls did not exceed.
    pub p99: u64,
    /// The most of a call.
    pub max: u64,
}

/// What a line of the source took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LineProfile {
    /// The file, as the compiler was given it; empty where the object does not say.
    pub file: String,
    /// The line, from 1; 0 where the object does not say.
    pub line: u32,
    /// The function of the object in which it is executed, which may have it from another one.
    pub function: String,
    /// How many instructions of it were executed.
    pub instructions: u64,
    /// Its text, if the object has it.
    pub text: String,
}

/// Calls of a function of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KernelCalls {
    /// The function of the object that calls.
    pub function: String,
    /// What it calls.
    pub called: &'static str,
    /// How often.
    pub calls: u64,
}

/// A profile that is being made.
#[derive(Debug, Default)]
pub struct Profiler {
    /// Of each operation, how many calls took so many instructions.
    calls: BTreeMap<&'static str, BTreeMap<u64, u64>>,
    /// Of copies of the policy that have been replaced, by file, line and function.
    lines: BTreeMap<(String, u32, String), (u64, String)>,
    /// Calls of the kernel of these copies, by name.
    kernel_calls: BTreeMap<(String, &'static str), u64>,
    /// Their calls of their own functions, their divisions and their branches.
    function_calls: u64,
    divisions: u64,
    branches: u64,
}

impl Profiler {
    /// Counts a call.
    pub fn count(&mut self, operation: Operation, instructions: u64) {
        *self.calls.entry(operation.name()).or_default().entry(instructions).or_default() += 1;
    }

    /// Adds what a machine that runs no more has executed; `name` is that of a call by its number.
    pub fn add(&mut self, machine: &Machine, name: impl Fn(usize) -> &'static str) {
        for (at, &count) in machine.executed().iter().enumerate().filter(|(_, count)| **count > 0) {
            let Place { function, line, .. } = machine.program().place(at);
            let of = |line: Line| (line.file.to_string(), line.line, line.text.to_string());
            let (file, line, text) = line.map_or_else(Default::default, of);
            match machine.program().instructions()[at] {
                Instruction::Call(Callee::Offered(call)) => {
                    let caller = (function.clone(), name(call));
                    *self.kernel_calls.entry(caller).or_default() += count;
                }
                Instruction::Call(_) => self.function_calls += count,
                Instruction::Arithmetic { operation, .. } if operation.divides() => {
                    self.divisions += count;
                }
                Instruction::Branch { .. } => self.branches += count,
                _ => {}
            }
            let found = self.lines.entry((file, line, function)).or_insert((0, text));
            found.0 += count;
        }
    }

    /// All that was counted.
    pub fn into_profile(self) -> Profile {
        let of_operation = |(operation, calls): (&'static str, BTreeMap<u64, u64>)| {
            let nr_calls: u64 = calls.values().sum();
            let quantile = |percent: u64| {
                let rank = (nr_calls * percent).div_ceil(100);
                let mut seen = 0;
                let reached = calls.iter().find(|(_, count)| {
                    seen += *count;
                    seen >= rank
                });
                reached.map_or(0, |(&instructions, _)| instructions)
            };
            OperationProfile {
                operation,
                calls: nr_calls,
                instructions: calls.iter().map(|(instructions, calls)| instructions * calls).sum(),
                p50: quantile(50),
                p99: quantile(99),
                max: quantile(100),
            }
        };
        let mut operations: Vec<_> = self.calls.into_iter().map(of_operation).collect();
        operations.sort_by_key(|one| std::cmp::Reverse(one.instructions));
        let of_line = |((file, line, function), (instructions, text))| LineProfile {
            file,
            line,
            function,
            instructions,
            text,
        };
        let mut lines: Vec<_> = self.lines.into_iter().map(of_line).collect();
        lines.sort_by_key(|one| std::cmp::Reverse(one.instructions));
        let of_call = |((function, called), calls)| KernelCalls { function, called, calls };
        let mut kernel_calls: Vec<_> = self.kernel_calls.into_iter().map(of_call).collect();
        kernel_calls.sort_by_key(|one| std::cmp::Reverse(one.calls));
        let Self { function_calls, divisions, branches, .. } = self;
        Profile { operations, lines, kernel_calls, function_calls, divisions, branches }
    }
}
