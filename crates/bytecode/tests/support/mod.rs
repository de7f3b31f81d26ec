//! Objects made for a test, and a world as small as one can be.

use std::path::{Path, PathBuf};
use std::process::Command;

use bytecode::{
    Addresses, Data, Fault, FaultKind, Full, Host, Machine, Memory, Object, Program, Run, Stop,
    Structures, World,
};

/// Room beside an object's own variables, in each part of the memory.
const ROOM: usize = 4 << 10;
/// Most bytes of variables that a test's object may bring.
const DATA_MAX: usize = 64 << 20;
const INSTRUCTIONS_MAX: u64 = 1_000_000;

/// The folder of this crate.
pub fn crate_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The bytes of the object that clang makes of a C file for this version of BPF.
pub fn built(source: &Path, cpu: &str, options: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let object = folder.path().join("object.o");
    let mut command = Command::new("clang-19");
    command.args(["-std=gnu17", "-O2", "-g", "-target", "bpf", "-fwrapv", "-fno-strict-aliasing"]);
    command.arg(format!("-mcpu={cpu}")).args(options).arg("-c").arg("-o").arg(&object).arg(source);
    let done = command.output().expect("clang-19 is installed");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    std::fs::read(object).expect("what clang made")
}

/// The bytes of the object of this text.
pub fn built_of(text: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("test.c");
    std::fs::write(&source, text).expect("a file");
    built(&source, "v3", &["-ffile-compilation-dir=.", "-fdebug-prefix-map=/=/"])
}

/// An object in a memory of its own, ready to be called.
pub struct Loaded {
    pub object: Object,
    pub program: Program,
    pub memory: Memory,
    pub addresses: Addresses,
}

/// Answers calls by their number: 0 gives the sum of its arguments, 1 calls the function whose
/// address is its first argument with the others, 2 refuses, 3 calls a function for ever, 4 panics,
/// others give their first argument.
pub struct Answers;

impl Host for Answers {
    fn call(run: &mut Run<'_, Self>, number: usize, given: [u64; 5]) -> Result<u64, Stop> {
        match number {
            0 => Ok(given.iter().fold(0, |sum, one| sum.wrapping_add(*one))),
            1 => {
                let function = run.program().function_at(given[0]);
                let function = function.ok_or_else(|| FaultKind::Refused("no function".into()))?;
                Ok(run.function(function, [given[1], given[2], given[3], given[4], 0])?)
            }
            3 => {
                let function = run.program().function_at(given[0]).expect("a function");
                loop {
                    run.function(function, [0; 5])?;
                }
            }
            4 => panic!("the host is broken"),
            5.. => Ok(given[0]),
            _ => Err(FaultKind::Refused("the call was refused".into()).into()),
        }
    }
}

/// A world with the calls of [`Answers`]: helper 7, `sum` and `each`, and `refuse`.
pub fn world() -> World {
    let mut world = World { structures: Structures::default(), ..World::default() };
    world.helpers.insert(7, 0);
    world.functions = [("sum", 0), ("each", 1), ("refuse", 2), ("often", 3), ("broken", 4)]
        .map(|(n, i)| (n.into(), i))
        .into();
    world
}

impl Loaded {
    /// Links all functions of an object, which must be sound.
    pub fn new(object: &[u8], world: &World) -> Loaded {
        let object = Object::read(object).expect("an object");
        let roots: Vec<_> = (0..object.functions.len()).collect();
        Loaded::linked(object, &roots, world).expect("a program")
    }

    pub fn linked(object: Object, roots: &[usize], world: &World) -> Result<Loaded, String> {
        let room = |read_only: bool| {
            let data = object.data.iter().filter(|data| data.read_only == read_only);
            data.map(|data| data.len + 16).sum::<usize>() + ROOM
        };
        if room(true) + room(false) > DATA_MAX {
            return Err("too large for a test".into());
        }
        let mut memory = Memory::new(room(true), room(false)).expect("addresses");
        let data = object.data.iter().map(|data| placed(&mut memory, data));
        let data = data.collect::<Result<_, _>>().map_err(|full| full.to_string())?;
        let maps = vec![0xaaaa; object.maps.len()];
        let addresses = Addresses { data, maps, ..Addresses::default() };
        let program = Program::link(&object, roots, world, &addresses);
        let program = program.map_err(|error| error.to_string())?;
        Ok(Loaded { object, program, memory, addresses })
    }

    /// Calls a function twice, interpreted and translated, which must be the same: the answer or
    /// fault, the count of instructions and every byte of the memory.
    pub fn call(&mut self, name: &str, arguments: &[u64]) -> Result<u64, Box<Fault>> {
        let function = self.object.functions.iter().position(|one| one.name == name);
        let number = self.program.function(function.expect(name)).expect(name);
        let mut given = [0; 5];
        given[..arguments.len()].copy_from_slice(arguments);
        let mut machines = [false, true].map(|translated| self.machine(translated));
        let [interpreted, translated] = machines.each_mut().map(|machine| {
            let answer = machine.call(&mut Answers, number, given);
            (answer, machine.taken())
        });
        assert_eq!(interpreted, translated, "{name}{arguments:x?}");
        let [one, other] = machines.map(Machine::into_memory);
        assert!(one == other, "{name}{arguments:x?} leaves other bytes");
        self.memory = *one;
        interpreted.0
    }

    /// Calls a function of a machine of this program.
    pub fn call_in(
        &self,
        machine: &mut Machine,
        name: &str,
        arguments: &[u64],
    ) -> Result<u64, Box<Fault>> {
        let function = self.object.functions.iter().position(|one| one.name == name);
        let number = self.program.function(function.expect(name)).expect(name);
        let mut given = [0; 5];
        given[..arguments.len()].copy_from_slice(arguments);
        machine.call(&mut Answers, number, given)
    }

    /// Calls a function in a watched machine of its own, which leaves nothing behind.
    pub fn call_strictly(&self, name: &str, arguments: &[u64]) -> Result<u64, Box<Fault>> {
        let mut machine = self.machine(false);
        machine.watch(true);
        self.call_in(&mut machine, name, arguments)
    }

    /// A machine of its own for the program, in a memory like this one.
    pub fn machine(&self, translated: bool) -> Machine {
        let memory = Box::new(self.memory.clone());
        let mut machine = Machine::new(self.program.clone(), memory, INSTRUCTIONS_MAX);
        machine.tell_apart(self.program.wide(&[]));
        assert!(!translated || machine.translate(), "this machine");
        machine
    }

    /// What a call ended with, as a person reads it.
    pub fn fault(&mut self, name: &str, arguments: &[u64]) -> String {
        self.call(name, arguments).expect_err("a fault").told(&self.program)
    }
}

fn placed(memory: &mut Memory, data: &Data) -> Result<u64, Full> {
    let address = if data.read_only {
        memory.add_read_only(data.len, 16)?
    } else {
        memory.add_writable(data.len, 16)?
    };
    let place = memory.bytes_mut(address, data.bytes.len() as u64).expect("just added");
    place.copy_from_slice(&data.bytes);
    Ok(address)
}
