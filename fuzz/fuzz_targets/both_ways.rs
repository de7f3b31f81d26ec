//! A program of BPF, interpreted and translated: both must end alike.

use bytecode::{Host, Machine, Memory, Object, Program, Run, Stop, World};

/// Few enough that a loop without an end costs little.
const INSTRUCTIONS_MAX: u64 = 10_000;

/// Gives the sum of a call's arguments, or calls a function of the program's.
struct Answers;

impl Host for Answers {
    fn call(run: &mut Run<'_, Self>, number: usize, given: [u64; 5]) -> Result<u64, Stop> {
        if let Some(function) = run.program().function_at(given[0]).filter(|_| number == 1) {
            return Ok(run.function(function, [given[1], given[2], given[3], given[4], 0])?);
        }
        Ok(given.iter().fold(0, |sum, one| sum.wrapping_add(*one)))
    }
}

/// A world whose every name is known, so that programs get far.
pub fn world(object: &Object) -> World {
    let name = |one: &bytecode::Extern| bytecode::essential_name(&one.name).to_owned();
    let (variables, functions): (Vec<_>, Vec<_>) =
        object.externs.iter().partition(|one| one.configuration);
    World {
        helpers: (1..20).map(|number| (number, number as usize % 2)).collect(),
        functions: functions.into_iter().map(|one| (name(one), 1)).collect(),
        variables: variables.into_iter().map(|one| (name(one), bytecode::MEMORY_BEGIN)).collect(),
        ..World::default()
    }
}

/// Calls these functions; panics where the ways differ.
pub fn run(program: &Program, memory: &Memory, functions: &[usize]) {
    let begun = || Machine::new(program.clone(), Box::new(memory.clone()), INSTRUCTIONS_MAX);
    let (mut interpreted, mut translated) = (begun(), begun());
    translated.translate();
    for function in functions.iter().filter_map(|&function| program.function(function)) {
        let given = [bytecode::MEMORY_BEGIN, 1, 2, 3, 4];
        let one = interpreted.call(&mut Answers, function, given);
        let other = translated.call(&mut Answers, function, given);
        assert_eq!(one, other);
        assert_eq!(interpreted.instructions(), translated.instructions());
        if let Err(fault) = one {
            fault.told(program);
        }
    }
    assert!(interpreted.memory() == translated.memory(), "other bytes");
}
