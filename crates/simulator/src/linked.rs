//! A copy of a policy that a machine has taken.

use crate::abi::STORAGE_MAX;
use crate::operations::{Operations, is_never_called};
use crate::releases;
use crate::shown::{Part, Shown};
use crate::visible::{CPU_AT, Placed, Visible};
use crate::{ON_VM, Options};
use bytecode::{
    Addresses, Arena, Constant, Machine, Maps, NoAddresses, Program, Table, UnknownMap, World,
    arena_of, tokens,
};
use policy::{Call, Loaded, Made, Write};
use scenario::machine::{PolicyCosts, Release};
use std::collections::BTreeSet;

/// Arguments of an operation, of which only one has a fourth.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Arguments {
    /// Most have no more.
    pub first: [u64; 3],
    /// That of `cgroup_set_bandwidth`.
    pub last: u64,
}

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

impl Shown for Arguments {
    const PARTS: &'static [Part] =
        &[Part::of::<Arguments>(0, "the list of the operation's arguments")];
}

/// How an object is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As instructions of this machine.
    Translated,
    /// The same, and what is followed is looked at whenever it has returned.
    Watched,
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
            Options { watch, .. } if !watch.is_empty() => Mode::Watched,
            _ => Mode::Translated,
        }
    }

    fn instructions_max(self) -> u64 {
        if self == Mode::Strict { STRICT_INSTRUCTIONS_MAX } else { INSTRUCTIONS_MAX }
    }
}

/// An object that can be run.
pub struct Linked {
    /// Its operations and all that they call, in the memory that the policy sees.
    pub machine: Machine,
    /// Where operations find their arguments.
    pub arguments: Placed<Arguments>,
    /// The key that a timer's callback is given.
    pub key: Placed<u32>,
    /// Operations that may sleep, by their numbers.
    pub sleepable: Vec<u64>,
    /// What its loader calls before it is attached.
    pub calls: Vec<Syscall>,
    /// Where each section of its variables is.
    pub data: Vec<u64>,
}

/// A program of section `syscall`, and what it is given.
#[derive(Clone, Debug)]
pub struct Syscall {
    /// Its name in C.
    pub name: String,
    /// Its number in the program.
    pub function: u64,
    /// The address of what it is given.
    pub context: u64,
    /// The CPU that it is to run on, if that matters.
    pub cpu: Option<usize>,
    /// Whether it is called after `init`, and not before.
    pub is_attached: bool,
    /// What is made for it first: by which program, and the rest of it.
    pub made: Vec<(Syscall, Made)>,
}

impl Syscall {
    /// Gives a call its place in the memory; `number` has the program's numbers of functions.
    fn new(
        copy: &Loaded,
        call: &Call,
        visible: &mut Visible,
        number: &dyn Fn(usize) -> u64,
    ) -> Result<Syscall, String> {
        let context = visible.copy(&call.context, false);
        let context = context.ok_or("no room for what its loader gives to programs")?;
        let name = copy.object.functions[call.function].name.clone();
        let mut made = Vec::new();
        for one in &call.made {
            made.push((Syscall::new(copy, &one.by, visible, number)?, one.clone()));
        }
        let (function, cpu) = (number(call.function), call.cpu);
        Ok(Syscall { name, function, context, cpu, is_attached: call.is_attached, made })
    }
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
        release: Option<Release>,
        (mode, costs): (Mode, PolicyCosts),
    ) -> Result<(Linked, Operations), Refusal> {
        let arguments = visible.place_for_policy(Arguments::default());
        let key = visible.place_for_policy(0);
        let (mut arena, user_upper) = arena_of(&copy.object.maps)?.unzip();
        let data = place_variables(copy, visible, arena.as_mut())?;
        visible.set_arena(arena);
        let maps = tokens(copy.object.maps.iter().map(|map| map.kind));
        let table = &copy.object.tables[copy.operations];
        let called = table.functions.iter().filter(|(name, _)| !is_never_called(name));
        let made = copy.calls.iter().flat_map(|call| &call.made);
        let by_loader = copy.calls.iter().chain(made.map(|made| &made.by));
        let by_loader = by_loader.map(|call| call.function);
        let roots: Vec<usize> = called.map(|(_, &function)| function).chain(by_loader).collect();
        let (elements, cells) = (known.elements(CPU_AT), known.cells());
        let constants = constants(copy, &data, world);
        let data_at = data.clone();
        let apart = apart(table, release);
        let addresses =
            Addresses { data: data_at, maps, constants, elements, cells, user_upper, apart };
        let program = Program::link(&copy.object, &roots, world, &addresses);
        let program = program.map_err(|error| match release {
            _ if !error.is_of_this_world() => error.to_string(),
            Some(release) => format!("{error}{}", releases::another(release)),
            None => format!("{error}{ON_VM}"),
        })?;
        let number = |function| program.function(function).map_or(u64::MAX, |number| number as u64);
        let operations = Operations::of_object(copy, number)
            .map_err(|name| format!("the simulator lacks the operation {name}{ON_VM}"))?;
        releases::check(release, copy, operations.flags)?;
        if operations.take_cids {
            check_arena(copy)?;
        }
        if operations.dispatch_max_batch > BATCH_MAX {
            let batch = operations.dispatch_max_batch;
            let said = "no kernel has room for more than";
            return Err(format!("dispatch_max_batch is {batch}; {said} {BATCH_MAX}").into());
        }
        let may_sleep = |&&function: &&usize| {
            copy.object.code[copy.object.functions[function].code].may_sleep()
        };
        let sleepable = roots.iter().filter(may_sleep).map(|&function| number(function)).collect();
        let calls = copy.calls.iter().map(|call| Syscall::new(copy, call, visible, &number));
        let calls = calls.collect::<Result<_, String>>()?;
        let wide = if costs.wide_ps > 0 { program.wide(&addresses.constants) } else { vec![] };
        let mut machine = Machine::new(program, visible.lend(), mode.instructions_max());
        if costs.any() {
            machine.tell_apart(wide);
        }
        match mode {
            Mode::Translated | Mode::Watched => drop(machine.translate()),
            Mode::Interpreted => {}
            Mode::Counted => machine.count_executed(),
            Mode::Strict => machine.watch(!copy.is_built),
        }
        for (section, begin) in copy.object.data.iter().zip(&data) {
            let variables = section.variables.values();
            let kept = variables.filter(|variable| copy.object.btf.is_kernels(variable.of));
            kept.for_each(|variable| machine.expect_pointer(begin + variable.offset));
        }
        let linked = Linked { machine, arguments, key, sleepable, calls, data };
        Ok((linked, operations))
    }
}

/// Operations that have a stack for each frame. Source: Linux 7.3, kernel/sched/ext/ext.c,
/// `bpf_scx_check_member`.
fn apart(table: &Table, release: Option<Release>) -> BTreeSet<usize> {
    let nested = ["dispatch", "sub_caps_updated"];
    let own = table.functions.iter().filter(|(name, _)| nested.contains(&name.as_str()));
    let is_new = release.is_none_or(|release| release >= Release::Linux7_3);
    own.map(|(_, &function)| function).filter(|_| is_new).collect()
}

/// Why a policy cannot begin.
#[derive(Debug)]
pub enum Refusal {
    /// There are no addresses for what it sees.
    Addresses(NoAddresses),
    /// A map that the simulator does not have.
    Map(UnknownMap),
    /// Something else that an object needs.
    Object(String),
    /// A number to follow that is not there.
    Watch(String),
}

impl From<NoAddresses> for Refusal {
    fn from(error: NoAddresses) -> Refusal {
        Refusal::Addresses(error)
    }
}

impl From<String> for Refusal {
    fn from(reason: String) -> Refusal {
        Refusal::Object(reason)
    }
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
    /// Where operations find their arguments, as it sees that.
    pub arguments_at: u64,
}

impl Adopted {
    /// Gives a copy its place in the memory, and its maps. It is told how the copy is run, and
    /// what its instructions cost.
    pub fn new(
        loaded: &Loaded,
        visible: &mut Visible,
        world: &World,
        release: Option<Release>,
        nr_cpus: usize,
        (mode, costs): (Mode, PolicyCosts),
    ) -> Result<Self, Refusal> {
        visible.forget_locks();
        let declared = &loaded.object.maps;
        let mut maps =
            Maps::new(&mut visible.room, declared, nr_cpus, STORAGE_MAX).map_err(Refusal::Map)?;
        for (number, map) in declared.iter().enumerate() {
            let (btf, value) = (&loaded.object.btf, map.value_type);
            maps.set_members(number, btf.kernels_pointers(value), btf.has_lock(value));
        }
        if mode == Mode::Strict {
            for (number, map) in declared.iter().enumerate() {
                let members = loaded.object.btf.scalars(map.value_type);
                maps.watch(number, &map.name, members, nr_cpus);
            }
        }
        visible.fill(&mut maps, loaded, nr_cpus)?;
        let (linked, ops) = Linked::new(loaded, visible, &maps, world, release, (mode, costs))?;
        let arguments_at = visible.room.address(linked.arguments.address());
        Ok(Adopted { code: Some(Box::new(linked)), ops, maps, arguments_at })
    }
}

/// Refuses a table with cids none of whose operations names an arena, whatever else does. Source:
/// Linux 7.3, kernel/sched/ext/ext.c, `bpf_scx_reg_cid`.
fn check_arena(copy: &Loaded) -> Result<(), String> {
    let operations = &copy.object.tables[copy.operations].functions;
    if copy.object.uses_arena(operations.values().copied()) {
        return Ok(());
    }
    let refused = "a sched_ext_ops_cid has an arena, which one of its operations refers to";
    Err(format!(
        "{refused}; here none does\n\
         hint: where there is a map of type BPF_MAP_TYPE_ARENA, as arena, say in an operation \
         asm volatile(\"\" ::\"r\"(&arena))"
    ))
}

/// What the policy cannot change and nobody else does: its constants, by their addresses, and what
/// no kernel's configuration says.
fn constants(copy: &Loaded, data: &[u64], world: &World) -> Vec<Constant> {
    let sections = copy.object.data.iter().zip(&copy.data).zip(data);
    let read_only = sections.filter(|((section, _), _)| section.read_only);
    let constants = read_only.map(|((section, bytes), &begin)| {
        let len = section.len;
        Constant { begin, len, bytes: bytes.clone() }
    });
    let zero = Constant { begin: world.zero, len: size_of::<u64>(), bytes: Vec::new() };
    constants.chain([zero]).collect()
}

/// Places an object's variables, and says where each section of them is.
fn place_variables(
    copy: &Loaded,
    visible: &mut Visible,
    mut arena: Option<&mut Arena>,
) -> Result<Vec<u64>, String> {
    let mut data = Vec::new();
    for (section, bytes) in copy.object.data.iter().zip(&copy.data) {
        let (name, len) = (&section.name, section.len);
        let address = match &mut arena {
            Some(arena) if section.is_of_arena() => arena.place(len, bytes),
            None if section.is_of_arena() => {
                let lacks = "are an arena's, and no map has the type BPF_MAP_TYPE_ARENA";
                return Err(format!("the variables of section {name} {lacks}"));
            }
            _ => visible.copy_to(len, bytes, section.read_only),
        };
        data.push(address.ok_or_else(|| format!("no room for section {name}"))?);
    }
    for Write { section, offset, bytes, variable } in &copy.writes {
        let address = data[*section] + offset;
        let is_there = match &mut arena {
            Some(arena) if copy.object.data[*section].is_of_arena() => arena.fill(address, bytes),
            _ => visible.write(address, bytes),
        };
        is_there.ok_or_else(|| format!("variable {variable} is not in its section"))?;
    }
    Ok(data)
}
