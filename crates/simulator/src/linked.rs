//! A policy's object, linked with this world and run.

use crate::failure::FailureKind;
use crate::kernel::Kernel;
use crate::object_calls::{self, map_token};
use crate::operations::{Code, Operations};
use crate::policy_maps::{PolicyMaps, UnknownMap};
use crate::visible::{Placed, Visible};
use crate::world::world;
use bytecode::{Addresses, Host, Memory, Program, Run, Size, Stop, Translation};
use policy::{Loaded, LoadedMap, ObjectCopy, abi};
use std::mem::offset_of;

/// Instructions after which an operation is taken to be one that does not return.
const INSTRUCTIONS_MAX: u64 = 1 << 30;
/// Most arguments of an operation.
const ARGUMENTS_MAX: usize = 4;

/// An object that can be run.
pub struct Linked {
    program: Program,
    translation: Option<Translation>,
    /// Where operations find their arguments.
    arguments: Placed<[u64; ARGUMENTS_MAX]>,
    /// The key that a timer's callback is given.
    key: Placed<u32>,
}

impl Linked {
    /// Links a copy, whose variables and maps get their places in the memory.
    ///
    /// # Errors
    ///
    /// What it needs and this world lacks, with its line.
    pub fn new(copy: &ObjectCopy, visible: &mut Visible) -> Result<(Linked, Operations), String> {
        let arguments = visible.place([0; ARGUMENTS_MAX]);
        let key = visible.place(0);
        let mut data = Vec::new();
        for (section, bytes) in copy.object.data.iter().zip(&copy.data) {
            let address = visible.copy(bytes, section.read_only);
            data.push(address.ok_or_else(|| format!("no room for section {}", section.name))?);
        }
        let maps = (0..copy.object.maps.len()).map(map_token).collect();
        let table = &copy.object.tables[copy.operations];
        let roots: Vec<usize> = table.functions.values().copied().collect();
        let addresses = Addresses { data, maps };
        let program = Program::link(&copy.object, &roots, world(), &addresses);
        let program = program.map_err(|error| error.to_string())?;
        let number = |function| program.function(function).map_or(u64::MAX, |number| number as u64);
        let operations = Operations::of_object(copy, number)
            .map_err(|name| format!("the simulator does not know the operation {name}"))?;
        let translation = Translation::new(&program, visible.memory().layout());
        Ok((Linked { program, translation, arguments, key }, operations))
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

/// A copy of a policy that a machine has taken.
pub struct Adopted {
    /// In this machine's own code.
    pub native: Option<policy::Native>,
    /// As an object.
    pub linked: Option<Box<Linked>>,
    /// Its operations.
    pub ops: Operations,
    /// Its maps.
    pub maps: PolicyMaps,
}

impl Adopted {
    /// Gives a copy its place in the memory, and its maps.
    pub fn new(loaded: Loaded, visible: &mut Visible, nr_cpus: usize) -> Result<Self, Refusal> {
        match loaded {
            Loaded::Native(native) => {
                let maps = PolicyMaps::new(visible, &native.maps, nr_cpus).map_err(Refusal::Map)?;
                let ops = Operations::of_native(&native);
                Ok(Adopted { native: Some(native), linked: None, ops, maps })
            }
            Loaded::Object(copy) => {
                let (linked, ops) = Linked::new(&copy, visible).map_err(Refusal::Object)?;
                let declared: Vec<_> = copy.object.maps.iter().map(declaration).collect();
                let maps = PolicyMaps::new(visible, &declared, nr_cpus).map_err(Refusal::Map)?;
                Ok(Adopted { native: None, linked: Some(Box::new(linked)), ops, maps })
            }
        }
    }
}

fn declaration(map: &bytecode::MapDefinition) -> LoadedMap {
    LoadedMap {
        name: map.name.clone(),
        kind: map.kind,
        key_size: map.key_bytes,
        value_size: map.value_bytes,
        max_entries: map.entries_max,
        variable: std::ptr::null_mut(),
    }
}

impl Kernel<'_> {
    /// Calls an operation of an object; its answer, 0 after a fault, which ends the run.
    pub fn run_operation(&mut self, code: Code, arguments: &[u64]) -> u64 {
        let linked = self.linked.as_mut().expect("no operation runs inside another");
        linked.arguments[..arguments.len()].copy_from_slice(arguments);
        let at = linked.arguments.address();
        let at = self.visible.address(at);
        self.run_function(code.0 as usize, [at, 0, 0, 0, 0])
    }

    /// Calls what a timer calls.
    pub fn run_callback(&mut self, callback: u64, map: u64, key: u32, value: u64) {
        let linked = self.linked.as_mut().expect("no operation runs inside another");
        *linked.key = key;
        let at = self.visible.address(linked.key.address());
        match linked.program.function_at(callback) {
            Some(number) => drop(self.run_function(number, [map, at, value, 0, 0])),
            None => self.fail(FailureKind::BadCall, "a timer's callback is no function".to_owned()),
        }
    }

    fn run_function(&mut self, number: usize, arguments: [u64; 5]) -> u64 {
        let linked = self.linked.take().expect("no operation runs inside another");
        let mut memory = self.visible.lend();
        let mut run = Run::new(&linked.program, &mut memory, self, INSTRUCTIONS_MAX);
        if let Some(translation) = &linked.translation {
            run = run.translated(translation);
        }
        let answer = run.function(number, arguments);
        self.visible.give_back(memory);
        let answer = answer.unwrap_or_else(|fault| {
            self.fail(FailureKind::Fault, fault.told(&linked.program));
            0
        });
        self.linked = Some(linked);
        answer
    }

    /// The task, or idle task, whose structure is at an address that the policy gave.
    pub fn task_at(&self, shown: u64) -> Option<*mut abi::Task> {
        let pid =
            self.visible.read::<i32>(shown.checked_add(offset_of!(abi::Task, pid) as u64)?)?;
        let cpu =
            self.visible.read::<i32>(shown.checked_add(offset_of!(abi::Task, cpu) as u64)?)?;
        let at = if pid == 0 {
            self.idle_tasks.get(cpu as usize)?.address()
        } else {
            let id = u32::try_from(pid).ok()? - 1;
            ((id as usize) < self.tasks.len()).then(|| self.tasks.address(id))?
        };
        (self.visible.address(at) == shown).then_some(at)
    }
}

impl Host for Kernel<'_> {
    fn call(run: &mut Run<'_, Self>, number: usize, arguments: [u64; 5]) -> Result<u64, Stop> {
        object_calls::CALLS[number].1(run, arguments)
    }

    /// A policy may write two fields of a task (Linux kernel/sched/ext.c,
    /// `bpf_scx_btf_struct_access`).
    fn write(&mut self, memory: &mut Memory, address: u64, size: Size, value: u64) -> bool {
        const FIELDS: [usize; 2] =
            [offset_of!(abi::Task, scx.slice), offset_of!(abi::Task, scx.dsq_vtime)];
        let is_task = |at: usize| {
            address.checked_sub(at as u64).is_some_and(|task| self.task_at(task).is_some())
        };
        size.bytes() == 8
            && FIELDS.into_iter().any(is_task)
            && memory.store(address, size, value).is_some()
    }
}
