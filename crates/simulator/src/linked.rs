//! A copy of a policy that a machine has taken.

use crate::abi::STORAGE_MAX;
use crate::operations::{Operations, is_never_called};
use crate::shown::{Part, Shown};
use crate::visible::{CPU_AT, Placed, Visible};
use crate::{ON_VM, Options};
use bytecode::{Addresses, Arena, Machine, Maps, Program, UnknownMap, World, arena_of, tokens};
use policy::Loaded;

/// Most arguments of an operation.
pub const ARGUMENTS_MAX: usize = 3;
/// Instructions after which an operation is taken to be one that does not return.
const INSTRUCTIONS_MAX: u64 = 1 << 30;

/// The same where each instruction is looked at: more than an operation has time for.
const STRICT_INSTRUCTIONS_MAX: u64 = 1 << 26;
/// Instructions of a run after which they are not looked at any more: what a policy does wrong it
/// does soon, or so rarely that other scenarios show it. They take some 0.05 s. Random scenarios
/// have a twentieth of it in the mean.
const WATCHED_MAX: u64 = 1 << 22;
/// Tasks that one `dispatch` may dispatch: entries of 32 bytes, behind 16, in what a kernel
/// allocates at once for each CPU. Source: Linux, kernel/sched/ext.c, `struct scx_dsp_ctx`, and
/// mm/percpu-internal.h, `PCPU_MIN_UNIT_SIZE`. Linux 6.18 takes 1,023 and not 1,024, 7.3 fewer.
const BATCH_MAX: u32 = ((32 << 10) - 16) / 32;

impl Shown for [u64; ARGUMENTS_MAX] {
    const PARTS: &'static [Part] =
        &[Part::of::<[u64; ARGUMENTS_MAX]>(0, "the list of the operation's arguments")];
}

/// How an object is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As instructions of this machine.
    Translated,
    /// One instruction after the other.
    Interpreted,
    /// The same, and each is counted.
    Counted,
    /// So that it is told what a kernel's verifier could have found.
    Strict,
}

impl Mode {
    /// The one that is asked for.
    pub fn of(options: &Options) -> Mode {
        match options {
            Options { strict: true, .. } => Mode::Strict,
            Options { profile: true, .. } => Mode::Counted,
            Options { interpreted: true, .. } => Mode::Interpreted,
            _ => Mode::Translated,
        }
    }
}

/// An object that can be run.
pub struct Linked {
    /// Its operations and all that they call, in the memory that the policy sees.
    pub machine: Machine,
    /// Where operations find their arguments.
    pub arguments: Placed<[u64; ARGUMENTS_MAX]>,
    /// The key that a timer's callback is given.
    pub key: Placed<u32>,
    /// Operations that may sleep, by their numbers.
    pub sleepable: Vec<u64>,
}

impl Linked {
    /// Counts the instructions of the last operation among those that were watched, and watches no
    /// more when there are enough.
    pub fn count_watched(&mut self, watched: &mut u64) {
        if self.machine.is_watched() {
            *watched += self.machine.instructions();
            if *watched > WATCHED_MAX {
                self.machine.translate();
            }
        }
    }

    /// Links a copy, whose variables and maps get their places in the memory.
    ///
    /// # Errors
    ///
    /// What it needs and this world lacks, with its line.
    pub fn new(
        copy: &Loaded,
        visible: &mut Visible,
        known: &Maps,
        world: &World,
        mode: Mode,
    ) -> Result<(Linked, Operations), String> {
        let arguments = visible.place([0; ARGUMENTS_MAX]);
        let key = visible.place(0);
        let (mut arena, user_upper) = arena_of(&copy.object.maps).unzip();
        let mut data = Vec::new();
        for (section, bytes) in copy.object.data.iter().zip(&copy.data) {
            let address = if section.is_of_arena() {
                arena.as_mut().and_then(|arena: &mut Arena| arena.place(section.bytes.len(), bytes))
            } else {
                visible.copy_to(section.bytes.len(), bytes, section.read_only)
            };
            data.push(address.ok_or_else(|| format!("no room for section {}", section.name))?);
        }
        visible.set_arena(arena);
        let maps = tokens(copy.object.maps.iter().map(|map| map.kind));
        let table = &copy.object.tables[copy.operations];
        let called = table.functions.iter().filter(|(name, _)| !is_never_called(name));
        let roots: Vec<usize> = called.map(|(_, &function)| function).collect();
        let (elements, cells) = (known.elements(CPU_AT), known.cells());
        let addresses = Addresses { data, maps, elements, cells, user_upper };
        let program = Program::link(&copy.object, &roots, world, &addresses);
        let program = program.map_err(|error| {
            let hint = if error.is_of_this_world() { ON_VM } else { "" };
            format!("{error}{hint}")
        })?;
        let number = |function| program.function(function).map_or(u64::MAX, |number| number as u64);
        let operations = Operations::of_object(copy, number)
            .map_err(|name| format!("the simulator lacks the operation {name}{ON_VM}"))?;
        if operations.dispatch_max_batch > BATCH_MAX {
            let batch = operations.dispatch_max_batch;
            return Err(format!(
                "dispatch_max_batch is {batch}; no kernel has room for more than {BATCH_MAX}"
            ));
        }
        let may_sleep = |&&function: &&usize| {
            copy.object.code[copy.object.functions[function].code].may_sleep()
        };
        let sleepable = roots.iter().filter(may_sleep).map(|&function| number(function)).collect();
        let instructions_max =
            if mode == Mode::Strict { STRICT_INSTRUCTIONS_MAX } else { INSTRUCTIONS_MAX };
        let mut machine = Machine::new(program, visible.lend(), instructions_max);
        match mode {
            Mode::Translated => drop(machine.translate()),
            Mode::Interpreted => {}
            Mode::Counted => machine.count_executed(),
            Mode::Strict => machine.watch(),
        }
        Ok((Linked { machine, arguments, key, sleepable }, operations))
    }
}

/// Why a policy cannot begin.
#[derive(Debug)]
pub enum Refusal {
    /// A map that the simulator does not have.
    Map(UnknownMap),
    /// Something else that an object needs.
    Object(String),
}

/// What runs of a policy; absent while an operation of it runs.
pub type Code = Option<Box<Linked>>;

/// A copy of a policy that a machine has taken.
pub struct Adopted {
    /// What runs.
    pub code: Code,
    /// Its operations.
    pub ops: Operations,
    /// Its maps.
    pub maps: Maps,
}

impl Adopted {
    /// Gives a copy its place in the memory, and its maps.
    pub fn new(
        loaded: &Loaded,
        visible: &mut Visible,
        world: &World,
        nr_cpus: usize,
        mode: Mode,
    ) -> Result<Self, Refusal> {
        visible.forget_locks();
        let declared = &loaded.object.maps;
        let mut maps =
            Maps::new(&mut visible.room, declared, nr_cpus, STORAGE_MAX).map_err(Refusal::Map)?;
        if mode == Mode::Strict {
            for (number, map) in declared.iter().enumerate() {
                let members = loaded.object.btf.scalars(map.value_type);
                maps.watch(number, &map.name, members, nr_cpus);
            }
        }
        let linked = Linked::new(loaded, visible, &maps, world, mode);
        let (linked, ops) = linked.map_err(Refusal::Object)?;
        Ok(Adopted { code: Some(Box::new(linked)), ops, maps })
    }
}
