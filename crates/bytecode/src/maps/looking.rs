//! What maps hold, for whoever looks at them while no program runs: nothing is used by that.

use super::{Maps, kind};

/// Where a value is, and what leads to it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// A number.
    Number(u32),
    /// The bytes of a hash's key.
    Bytes(&'a [u8]),
    /// Nothing but an order.
    Next,
}

impl Maps {
    /// How many maps there are.
    pub fn len(&self) -> usize {
        self.maps.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.maps.is_empty()
    }

    /// How many entries the map with this number has; none where that is not known here.
    pub fn nr_entries(&self, map: usize) -> Option<u64> {
        let map = &self.maps[map];
        match map.view.kind {
            kind::ARRAY | kind::PERCPU_ARRAY => Some(map.view.max_entries.into()),
            kind::QUEUE | kind::STACK => Some(map.ring.count()),
            _ if map.view.is_hash() => Some(map.entries.len() as u64),
            _ => None,
        }
    }

    /// Keys and the addresses of their values, of all CPUs one behind the other where each has its
    /// own: numbers and keys in their order, queues from the oldest to the newest. Nothing for
    /// what is not of these kinds.
    pub fn entries(&self, map: usize) -> Box<dyn Iterator<Item = (Key<'_>, u64)> + '_> {
        let map = &self.maps[map];
        let (values, stride) = (map.view.values, u64::from(map.view.value_stride));
        match map.view.kind {
            kind::ARRAY | kind::PERCPU_ARRAY => Box::new(
                (0..map.view.max_entries)
                    .map(move |number| (Key::Number(number), values + u64::from(number) * stride)),
            ),
            kind::QUEUE | kind::STACK => {
                Box::new((0..map.ring.count()).map(|older| (Key::Next, map.place(older))))
            }
            _ => Box::new(map.entries.iter().map(|(key, value)| (Key::Bytes(key), value))),
        }
    }

    /// The address of the value that an array or a hash has for a key of these bytes, that of a
    /// CPU where each has its own.
    pub fn value_of(&self, map: usize, key: &[u8], cpu: u64) -> Option<u64> {
        let map = &self.maps[map];
        if map.view.is_hash() {
            return Some(map.entries.peek(key)? + cpu * map.view.cpu_stride);
        }
        let number = u32::from_le_bytes(key.try_into().ok()?);
        let is_there = map.view.values != 0 && number < map.view.max_entries;
        is_there.then(|| map.array_value(number, cpu as usize))
    }
}
