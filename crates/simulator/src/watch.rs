//! Numbers of a policy's that somebody follows: `stats.wakeups`, `counts[3]`, `map[key].field`.
//!
//! They are found by the types that the object describes before a run begins, and looked at
//! whenever the policy has returned, which only watched runs do.

use crate::linked::Linked;
use crate::record::{
    Record, Recordable, Recording, Spool, put_after, put_beside, take_after, take_beside,
};
use crate::task::Tasks;
use bytecode::{MapDefinition, Maps, Object, PathError, Spot, Step, kind, read_path};
use policy::nearest;
use serde::Serialize;
use std::fmt::Write as _;

/// Names that a message lists.
const NAMES_MAX: usize = 24;

/// A number at a time: in ns, and none where no value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sample(pub u64, pub Option<i128>);

impl Recordable for Sample {
    /// Time and number of the sample before.
    type Before = (u64, u64);

    fn write(self, before: &mut (u64, u64), bytes: &mut Vec<u8>) {
        let Sample(at_ns, number) = self;
        let kind = number.map_or(0, |number| 1 + u8::from(number < 0));
        put_beside(kind, &mut before.0, at_ns, bytes);
        if let Some(number) = number {
            put_after(&mut before.1, number as u64, bytes);
        }
    }

    fn read(before: &mut (u64, u64), bytes: &mut &[u8]) -> Self {
        let (kind, at_ns) = take_beside(&mut before.0, bytes);
        let mut word = || take_after(&mut before.1, bytes);
        Sample(
            at_ns,
            match kind {
                0 => None,
                1 => Some(word().into()),
                _ => Some((word() as i64).into()),
            },
        )
    }
}

/// What a followed number was, over time: a sample for each change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Watched {
    /// As it was asked for.
    pub expression: String,
    /// Its type in C.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Its changes.
    pub samples: Record<Sample>,
}

/// Where the number is.
#[derive(Debug)]
enum Place {
    /// In a section of variables, so far from its begin.
    Variable(usize, u64),
    /// In the value that a map has for this key, of this CPU.
    Entry { map: usize, key: Vec<u8>, cpu: u64 },
    /// In what is stored for the task of this pid.
    Task { map: usize, pid: i64 },
}

/// A number that is followed.
#[derive(Debug)]
struct Watch {
    expression: String,
    place: Place,
    spot: Spot,
    last: Option<Option<i128>>,
    samples: Recording<Sample>,
}

/// All numbers that are followed in a run.
#[derive(Debug, Default)]
pub struct Watches(Vec<Watch>);

impl Watches {
    /// Finds what is asked for.
    ///
    /// # Errors
    /// What is not there, with what is.
    pub fn new(
        asked: &[String],
        object: &Object,
        nr_cpus: usize,
        spool: &Spool,
    ) -> Result<Watches, String> {
        let watch = |expression: &String| {
            let (place, spot) = find(object, expression, nr_cpus)
                .map_err(|why| format!("--watch {expression}: {why}"))?;
            let samples = Recording::new(spool);
            Ok(Watch { expression: expression.clone(), place, spot, last: None, samples })
        };
        asked.iter().map(watch).collect::<Result<_, _>>().map(Watches)
    }

    /// Looks at all of them.
    pub fn look(&mut self, at_ns: u64, linked: &Linked, maps: &Maps, tasks: &Tasks) {
        for watch in &mut self.0 {
            let begin = watch.place.address(linked, maps, tasks);
            let address = begin.map(|begin| begin + watch.spot.offset);
            let memory = linked.machine.memory();
            let bytes = address.and_then(|address| memory.bytes(address, watch.spot.bytes));
            let number = bytes.map(|bytes| watch.spot.number(bytes));
            if watch.last != Some(number) {
                watch.last = Some(number);
                watch.samples.push(Sample(at_ns, number));
            }
        }
    }

    /// What they were.
    pub fn finish(self) -> Vec<Watched> {
        let watched = |watch: Watch| Watched {
            expression: watch.expression,
            type_name: watch.spot.type_name,
            samples: watch.samples.finish(),
        };
        self.0.into_iter().map(watched).collect()
    }
}

impl Place {
    /// Where the value begins, if it is there.
    fn address(&self, linked: &Linked, maps: &Maps, tasks: &Tasks) -> Option<u64> {
        match self {
            Place::Variable(section, offset) => Some(linked.data[*section] + offset),
            Place::Entry { map, key, cpu } => maps.value_of(*map, key, *cpu),
            Place::Task { map, pid } => {
                let number =
                    usize::try_from(pid - 1).ok().filter(|&number| number < tasks.len())?;
                let storage = tasks.seen(number as u32).storage;
                Some(storage[maps.view(*map).index as usize]).filter(|&address| address != 0)
            }
        }
    }
}

/// Where the number of an expression is.
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
        if is_per_cpu(map) {
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
    let spot = object.btf.find_number(map.value_type, rest, written);
    Ok((place, spot.map_err(|why| told(&why))?))
}

fn is_per_cpu(map: &MapDefinition) -> bool {
    [kind::PERCPU_ARRAY, kind::PERCPU_HASH, kind::LRU_PERCPU_HASH].contains(&map.kind)
}

/// A number as the bytes of a map's key.
fn key_bytes(map: &MapDefinition, key: i64) -> Result<Vec<u8>, String> {
    let arrays = [kind::ARRAY, kind::PERCPU_ARRAY];
    let hashes = [kind::HASH, kind::LRU_HASH, kind::PERCPU_HASH, kind::LRU_PERCPU_HASH];
    let name = &map.name;
    if !arrays.contains(&map.kind) && !hashes.contains(&map.kind) {
        let kind = bytecode::map_kind_name(map.kind);
        return Err(format!("{name} is of type {kind}, whose values have no keys to name here"));
    }
    if arrays.contains(&map.kind) && !(0..map.entries_max.into()).contains(&key) {
        return Err(format!("{name} has entries 0 to {}", map.entries_max.saturating_sub(1)));
    }
    let bytes = map.key_bytes as usize;
    if ![1, 2, 4, 8].contains(&bytes) {
        return Err(format!("keys of {name} have {bytes} bytes; only numbers can be named here"));
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

#[cfg(test)]
mod tests {
    //! Goal: samples are read as they were written. Method: numbers at the ends of their ranges.

    use super::*;

    #[test]
    fn samples_are_read_as_they_were_written() {
        let numbers = [0, -1, 1, u64::MAX.into(), i64::MIN.into(), 7].map(Some);
        let samples = numbers.into_iter().chain([None, Some(7)]).zip(1..);
        let samples: Vec<Sample> = samples.map(|(number, at)| Sample(at * 977, number)).collect();
        let (mut bytes, mut before) = (Vec::new(), (0, 0));
        samples.iter().for_each(|sample| sample.write(&mut before, &mut bytes));
        let (mut rest, mut before) = (&bytes[..], (0, 0));
        let read = samples.iter().map(|_| Sample::read(&mut before, &mut rest));
        assert_eq!(read.collect::<Vec<_>>(), samples);
    }
}
