//! Numbers of a policy's that somebody follows: `stats.wakeups`, `counts[3]`, `map[key].field`.
//!
//! They are found by the types that the object describes before a run begins, and looked at
//! whenever the policy has returned, which only watched runs do.

use crate::linked::Linked;
use crate::record::{
    Record, Recordable, Recording, Spool, put_after, put_beside, take_after, take_beside,
};
use crate::task::Tasks;
use bytecode::{Maps, Object};
use policy::inside::{Number, Place, find_number};
use serde::Serialize;

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

/// A number that is followed.
#[derive(Debug)]
struct Watch {
    expression: String,
    number: Number,
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
            let number = find_number(object, expression, nr_cpus)?;
            let samples = Recording::new(spool);
            Ok(Watch { expression: expression.clone(), number, last: None, samples })
        };
        asked.iter().map(watch).collect::<Result<_, _>>().map(Watches)
    }

    /// Looks at all of them.
    pub fn look(&mut self, at_ns: u64, linked: &Linked, maps: &Maps, tasks: &Tasks) {
        for watch in &mut self.0 {
            let spot = &watch.number.spot;
            let begin = address(&watch.number.place, linked, maps, tasks);
            let address = begin.map(|begin| begin + spot.offset);
            let memory = linked.machine.memory();
            let bytes = address.and_then(|address| memory.shown(address, spot.bytes));
            let number = bytes.map(|bytes| spot.number(bytes));
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
            type_name: watch.number.spot.type_name,
            samples: watch.samples.finish(),
        };
        self.0.into_iter().map(watched).collect()
    }
}

/// Where a value begins, if it is there.
fn address(place: &Place, linked: &Linked, maps: &Maps, tasks: &Tasks) -> Option<u64> {
    match place {
        Place::Variable(section, offset) => Some(linked.data[*section] + offset),
        Place::Entry { map, key, cpu } => maps.value_of(*map, key, *cpu),
        Place::Task { map, pid } => {
            let number = usize::try_from(pid - 1).ok().filter(|&number| number < tasks.len())?;
            let storage = tasks.seen(number as u32).storage;
            Some(storage[maps.view(*map).index as usize]).filter(|&address| address != 0)
        }
    }
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
