//! What a policy's own front end would do: the file that says it lies behind the policy's object.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;

use libbpf_rs::libbpf_sys::{bpf_map_create_opts, size_t};
use libbpf_rs::{
    MapCore, MapFlags, MapHandle, MapType, Object, OpenMapMut, OpenObject, ProgramInput,
};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use policy::{Call, Entry, Plan, PolicyError};

use super::variables::Variable;
use super::{LoadError, holds_section, settings, topology};

/// What the kernel calls the memory of a map that a process has. Source: Linux,
/// kernel/bpf/syscall.c, `bpf_map_new_fd`.
const SHARED_MAP: &str = "anon_inode:bpf-map";

/// Done, or a sentence on why not.
type Told = Result<(), String>;

/// What is to be done on this machine; `None` if the object has no such file behind it.
pub(super) fn of_object(image: &[u8]) -> Result<Option<Plan>, LoadError> {
    let wrong = |error: PolicyError| refused(error.to_string());
    policy::plan_behind(image, &topology::of_this_machine()).map_err(wrong)
}

fn refused(reason: String) -> LoadError {
    let (reason, hint) = reason.split_once("\nhint: ").unwrap_or((&reason, ""));
    LoadError::FrontEnd { reason: reason.to_owned(), hint: hint.to_owned() }
}

/// Sets sizes, operations and variables, before the object is loaded.
pub(super) fn prepare(
    opened: &mut OpenObject,
    variables: &[Variable],
    plan: &Plan,
) -> Result<(), LoadError> {
    for (name, entries) in plan.object.maps.iter().map(|map| (&map.name, map.entries_max)) {
        let map = opened.maps_mut().find(|map| map.name() == OsStr::new(name));
        if let Some(mut map) = map.filter(|map| map.max_entries() != entries && entries != 0) {
            let said =
                |error| refused(format!("map {name} cannot have {entries} entries: {error}"));
            map.set_max_entries(entries).map_err(said)?;
        }
    }
    for data in &plan.object.data {
        let (name, bytes) = (&data.name, data.len as u32);
        let map = opened.maps_mut().find(|map| holds_section(map.name(), name));
        if let Some(mut map) = map.filter(|map| map.value_size() != bytes) {
            let said =
                |error| refused(format!("section {name} cannot have {bytes} bytes: {error}"));
            map.set_value_size(bytes).map_err(said)?;
        }
    }
    let tables = plan.object.tables.iter().filter(|table| table.of == super::OPS_STRUCT);
    for (member, bytes) in tables.take(1).flat_map(|table| &table.values) {
        settings::write_operation(opened, variables, member, bytes);
    }
    for write in &plan.writes {
        let section = &plan.object.data[write.section].name;
        let holds = |map: &OpenMapMut<'_>| holds_section(map.name(), section);
        let offset = write.offset as usize;
        if !settings::put(opened, holds, offset, &write.bytes) {
            let variable = &write.variable;
            return Err(refused(format!("variable {variable} is not in section {section}")));
        }
    }
    Ok(())
}

/// Fills maps of a loaded object, and calls what is called before it is attached.
pub(super) fn fill(object: &mut Object, plan: &Plan) -> Result<(), LoadError> {
    plan.inner.iter().try_for_each(|one| add_map(object, plan, *one)).map_err(refused)?;
    plan.entries.iter().try_for_each(|entry| add(object, plan, entry)).map_err(refused)?;
    call(object, plan, false)
}

/// Calls the programs that are called before or after the policy is attached.
pub(super) fn call(object: &mut Object, plan: &Plan, is_attached: bool) -> Result<(), LoadError> {
    let calls = plan.calls.iter().filter(|call| call.is_attached == is_attached);
    calls.into_iter().try_for_each(|call| run(object, plan, call)).map_err(refused)
}

/// Makes a map and puts it into a map of maps, which then keeps it.
fn add_map(object: &mut Object, plan: &Plan, (outer, key, inner): (usize, u32, usize)) -> Told {
    let (name, inner) = (&plan.object.maps[outer].name, &plan.object.maps[inner]);
    let wrong = |error: libbpf_rs::Error| format!("map {} cannot be made: {error}", inner.name);
    let options = bpf_map_create_opts {
        sz: size_of::<bpf_map_create_opts>() as size_t,
        map_flags: inner.flags,
        ..bpf_map_create_opts::default()
    };
    let kind = MapType::from(inner.kind);
    let sizes = (inner.key_bytes, inner.value_bytes, inner.entries_max);
    let made = MapHandle::create(kind, None::<&str>, sizes.0, sizes.1, sizes.2, &options);
    let made = made.map_err(wrong)?;
    let map = object.maps_mut().find(|map| map.name() == OsStr::new(name));
    let map = map.ok_or_else(|| format!("there is no map {name}"))?;
    let number = made.as_fd().as_raw_fd().to_le_bytes();
    map.update(&key.to_le_bytes(), &number, MapFlags::ANY).map_err(wrong)
}

fn add(object: &mut Object, plan: &Plan, entry: &Entry) -> Told {
    let (name, key) = (&plan.object.maps[entry.map].name, &entry.key);
    let map = object.maps_mut().find(|map| map.name() == OsStr::new(name));
    let map = map.ok_or_else(|| format!("there is no map {name}"))?;
    let is_of_cpus = [MapType::PercpuHash, MapType::PercpuArray, MapType::LruPercpuHash];
    let answer = if is_of_cpus.contains(&map.map_type()) {
        let cpus = libbpf_rs::num_possible_cpus().map_err(|error| error.to_string())?;
        let mut values = entry.values.clone();
        if let ([value], true) = (&entry.values[..], cpus > 1) {
            values = vec![value.clone(); cpus];
        }
        map.update_percpu(key, &values, MapFlags::ANY)
    } else {
        map.update(key, &entry.values[0], MapFlags::ANY)
    };
    answer.map_err(|error| format!("map {name} does not take the key {key:02x?}: {error}"))
}

fn run(object: &mut Object, plan: &Plan, call: &Call) -> Told {
    let mut context = call.context.clone();
    for made in &call.made {
        let mut makers = made.by.context.clone();
        run_in(object, plan, &made.by, &mut makers)?;
        let word = &makers[made.from..made.from + 8];
        context[made.to..made.to + 8].copy_from_slice(word);
        let address = u64::from_le_bytes(word.try_into().expect("8 bytes"));
        for (offset, bytes) in &made.pieces {
            let name = &plan.object.functions[made.by.function].name;
            write_shared(address.wrapping_add(*offset), bytes).map_err(|error| {
                format!("{name} made nothing in an arena: it left {address:#x}: {error}")
            })?;
        }
    }
    run_in(object, plan, call, &mut context)
}

/// Where the maps that share their memory with this process have it: from and to.
pub(super) fn shared_maps() -> io::Result<Vec<(u64, u64)>> {
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let range = |line: &str| {
        let (begin, end) = line.split(' ').next()?.split_once('-')?;
        Some((number(begin)?, number(end)?))
    };
    let mappings = fs::read_to_string("/proc/self/maps")?;
    let shared = mappings.lines().filter(|line| line.ends_with(SHARED_MAP));
    Ok(shared.filter_map(range).collect())
}

/// Writes into memory that a map shares with this process.
fn write_shared(address: u64, bytes: &[u8]) -> io::Result<()> {
    let end = address.saturating_add(bytes.len() as u64);
    if !shared_maps()?.into_iter().any(|(from, to)| from <= address && end <= to) {
        return Err(io::Error::other("no map has it in this process"));
    }
    // The kernel writes, and says if there is no page; a pointer would end this process.
    OpenOptions::new().write(true).open("/proc/self/mem")?.write_all_at(bytes, address)
}

/// Calls a program, which may change its context.
fn run_in(object: &mut Object, plan: &Plan, call: &Call, context: &mut [u8]) -> Told {
    let name = &plan.object.functions[call.function].name;
    let program = object.progs_mut().find(|program| program.name() == OsStr::new(name));
    let program = program.ok_or_else(|| format!("there is no program {name}"))?;
    let given = (!context.is_empty()).then_some(context);
    let input = ProgramInput { context_in: given, ..ProgramInput::default() };
    let output = on_cpu(call.cpu, || program.test_run(input))
        .map_err(|error| format!("cannot run on CPU {:?} for {name}: {error}", call.cpu))?
        .map_err(|error| format!("the kernel does not run {name}: {error}"))?;
    match output.return_value.cast_signed() {
        0 => Ok(()),
        other => Err(format!("{name}, which its loader calls, answered {other}")),
    }
}

/// Does `work` on a CPU, if one is given.
fn on_cpu<T>(cpu: Option<usize>, work: impl FnOnce() -> T) -> nix::Result<T> {
    let Some(cpu) = cpu else { return Ok(work()) };
    let this = Pid::from_raw(0);
    let before = sched_getaffinity(this)?;
    let mut only = CpuSet::new();
    only.set(cpu)?;
    sched_setaffinity(this, &only)?;
    let done = work();
    sched_setaffinity(this, &before)?;
    Ok(done)
}
