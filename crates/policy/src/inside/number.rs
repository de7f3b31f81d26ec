//! Which number an expression means: `stats.wakeups`, `counts[3]`, `map[key].field`.

use crate::nearest;
use bytecode::{MapDefinition, Object, PathError, Spot, Step, kind, read_path};
use std::fmt::Write as _;

/// Names that a message lists.
const NAMES_MAX: usize = 24;

/// Where a number is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a section of variables, so far from its begin.
    Variable(usize, u64),
    /// In the value that a map has for this key, of this CPU.
    Entry {
        /// The map's number.
        map: usize,
        /// The bytes of the key.
        key: Vec<u8>,
        /// Which of the values, where each CPU has its own.
        cpu: u64,
    },
    /// In what is stored for the task of this pid.
    Task {
        /// The map's number.
        map: usize,
        /// The pid.
        pid: i64,
    },
}

/// A number of a policy's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// Where the value is that it is part of.
    pub place: Place,
    /// Where it is in there.
    pub spot: Spot,
}

/// The number that an expression means, on a machine of so many CPUs.
///
/// # Errors
///
/// What is not there, with what is.
pub fn find_number(object: &Object, expression: &str, nr_cpus: usize) -> Result<Number, String> {
    let (place, spot) =
        find(object, expression, nr_cpus).map_err(|why| format!("to watch {expression}: {why}"))?;
    Ok(Number { place, spot })
}

fn find(object: &Object, expression: &str, nr_cpus: usize) -> Result<(Place, Spot), String> {
    let (name, steps) = read_path(expression).map_err(|why| told(&why))?;
    let variables = object.data.iter().enumerate().filter(|(_, data)| data.name != ".kconfig");
    for (section, data) in variables {
        if let Some(variable) = data.variables.get(&name) {
            let spot = object.btf.find_number(variable.of, &steps, name);
            return Ok((Place::Variable(section, variable.offset), spot.map_err(|e| told(&e))?));
        }
    }
    let map = object.maps.iter().position(|map| map.name == name);
    let Some(map) = map else { return Err(no_such_name(object, &name)) };
    find_entry(object, map, &steps, nr_cpus)
}

fn find_entry(
    object: &Object,
    number: usize,
    steps: &[Step],
    nr_cpus: usize,
) -> Result<(Place, Spot), String> {
    let map = &object.maps[number];
    let name = &map.name;
    let of_tasks = map.kind == kind::TASK_STORAGE;
    let what = if of_tasks { "pid" } else { "key" };
    let Some((Step::Element(key), mut rest)) = steps.split_first() else {
        return Err(format!("{name} is a map: name an entry of it, {name}[{what}]"));
    };
    let (mut written, mut cpu) = (format!("{name}[{key}]"), 0);
    let place = if of_tasks {
        Place::Task { map: number, pid: *key }
    } else {
        if kind::is_per_cpu(map.kind) {
            let Some((Step::Element(of), after)) = rest.split_first() else {
                return Err(format!("each CPU has its own: name one, {written}[cpu]"));
            };
            if !(0..nr_cpus as i64).contains(of) {
                return Err(format!("there is no CPU {of}: the machine has {nr_cpus}"));
            }
            (cpu, rest) = (*of as u64, after);
            let _ = write!(written, "[{of}]");
        }
        Place::Entry { map: number, key: key_bytes(map, *key)?, cpu }
    };
    if let Some(spot) = untyped(map).filter(|_| rest.is_empty()) {
        return Ok((place, spot));
    }
    let spot = object.btf.find_number(map.value_type, rest, written);
    Ok((place, spot.map_err(|why| told(&why))?))
}

/// The value of a map that says only how large its values are, if that can be a number.
pub(super) fn untyped(map: &MapDefinition) -> Option<Spot> {
    let bytes = u64::from(map.value_bytes);
    let is_number = map.value_type == 0 && [1, 2, 4, 8].contains(&bytes);
    let type_name = format!("u{}", 8 * bytes);
    is_number.then_some(Spot { offset: 0, bytes, bits: None, signed: false, type_name })
}

/// A number as the bytes of a map's key.
fn key_bytes(map: &MapDefinition, key: i64) -> Result<Vec<u8>, String> {
    let (name, is_array) = (&map.name, kind::is_array(map.kind));
    if !is_array && !kind::is_hash(map.kind) {
        let kind = bytecode::map_kind_name(map.kind);
        return Err(format!("{name} is of type {kind}, whose values have no keys to name here"));
    }
    if is_array && !(0..map.entries_max.into()).contains(&key) {
        return Err(format!("{name} has entries 0 to {}", map.entries_max.saturating_sub(1)));
    }
    let bytes = map.key_bytes as usize;
    if ![1, 2, 4, 8].contains(&bytes) {
        return Err(format!("keys of {name} have {bytes} bytes; only numbers can be named here"));
    }
    let bits = 8 * map.key_bytes;
    // A number that is negative has ones above it, as what is written in hexadecimal may have.
    if bits < 64 && key >> bits != 0 && key >> (bits - 1) != -1 {
        let most = (1_u64 << bits) - 1;
        return Err(format!("{name} has no key {key}: its keys have {bits} bits, 0 to {most}"));
    }
    Ok(key.to_le_bytes()[..bytes].to_vec())
}

fn told(why: &PathError) -> String {
    match why {
        PathError::Unreadable => {
            "cannot be read; write NAME, NAME.FIELD, NAME[3] or MAP[KEY].FIELD".to_owned()
        }
        PathError::NoMember { of, name, known } => {
            format!("{of} has no field {name}{}", listed(name, known.iter()))
        }
        PathError::NoElement { of, count } => {
            format!("{of} has elements 0 to {}", count.saturating_sub(1))
        }
        PathError::Unfit { of, is } => {
            let how = "of a structure by field, of an array by element";
            format!("{of} is of type {is}; only numbers can be followed, {how}")
        }
    }
}

fn no_such_name(object: &Object, name: &str) -> String {
    let is_own = |name: &&String| !name.contains("__") && *name != "_license";
    let sections = object.data.iter().filter(|data| !data.name.starts_with(".rodata."));
    let variables = sections.flat_map(|data| data.variables.keys()).filter(is_own);
    let known: Vec<&String> = variables.chain(object.maps.iter().map(|map| &map.name)).collect();
    format!("the policy has no variable or map {name}{}", listed(name, known.into_iter()))
}

/// What is there instead, and what may have been meant.
fn listed<'a>(name: &str, known: impl Iterator<Item = &'a String> + Clone) -> String {
    let meant = nearest(name, known.clone().map(String::as_str));
    let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
    let (first, count) = (known.clone().take(NAMES_MAX).cloned(), known.count());
    let mut names = first.collect::<Vec<_>>().join(", ");
    if count > NAMES_MAX {
        let _ = write!(names, " and {} more", count - NAMES_MAX);
    }
    let names = if names.is_empty() { "nothing".to_owned() } else { names };
    format!("{meant}\nhint: there is: {names}")
}
