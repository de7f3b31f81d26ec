//! The entries of a hash: where each key's value is, and which was used least recently.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

#[derive(Debug)]
struct Entry {
    value: u64,
    /// When it was used last, of a hash that forgets.
    used: u64,
}

/// Keys and their values' addresses. The walk over all is in the order of keys.
#[derive(Debug, Default)]
pub(super) struct Entries {
    by_key: BTreeMap<Vec<u8>, Entry>,
    /// Of a hash that forgets: keys by when they were used last.
    by_use: Option<BTreeMap<u64, Vec<u8>>>,
    /// Keys by where their values are, from when somebody asks for that.
    by_value: Option<BTreeMap<u64, Vec<u8>>>,
    /// Values whose entries went since then, until somebody takes them.
    gone: Vec<u64>,
    clock: u64,
}

impl Entries {
    /// None yet; `forgets` says whether it is known which was used least recently.
    pub(super) fn new(forgets: bool) -> Entries {
        Entries { by_use: forgets.then(BTreeMap::new), ..Entries::default() }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// A key's value, which is used by that.
    pub(super) fn find(&mut self, key: &[u8]) -> Option<u64> {
        let entry = self.by_key.get_mut(key)?;
        if let Some(by_use) = &mut self.by_use {
            let key = by_use.remove(&entry.used).expect("each entry has its time");
            self.clock += 1;
            entry.used = self.clock;
            by_use.insert(self.clock, key);
        }
        Some(entry.value)
    }

    /// A key's value, which is not used by that.
    pub(super) fn peek(&self, key: &[u8]) -> Option<u64> {
        self.by_key.get(key).map(|entry| entry.value)
    }

    /// All keys and their values, by key.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.by_key.iter().map(|(key, entry)| (&key[..], entry.value))
    }

    /// The key behind this one, or the first, and its value, which is not used by that.
    pub(super) fn behind(&self, key: Option<&[u8]>) -> Option<(&[u8], u64)> {
        let from = key.map_or(Unbounded, Excluded);
        let (key, entry) = self.by_key.range::<[u8], _>((from, Unbounded)).next()?;
        Some((key, entry.value))
    }

    /// The last value that begins at an address or before it, and its key.
    pub(super) fn with_value(&mut self, address: u64) -> Option<(u64, &[u8])> {
        let by_key = &self.by_key;
        let by_value = self.by_value.get_or_insert_with(|| {
            by_key.iter().map(|(key, entry)| (entry.value, key.clone())).collect()
        });
        let (&value, key) = by_value.range(..=address).next_back()?;
        Some((value, key))
    }

    /// Whether anybody has asked where values are.
    pub(super) fn knows_values(&self) -> bool {
        self.by_value.is_some()
    }

    /// Adds a key that is not there.
    pub(super) fn add(&mut self, key: Vec<u8>, value: u64) {
        if let Some(by_value) = &mut self.by_value {
            by_value.insert(value, key.clone());
        }
        if let Some(by_use) = &mut self.by_use {
            self.clock += 1;
            by_use.insert(self.clock, key.clone());
        }
        self.by_key.insert(key, Entry { value, used: self.clock });
    }

    /// Removes a key and gives its value.
    pub(super) fn remove(&mut self, key: &[u8]) -> Option<u64> {
        let entry = self.by_key.remove(key)?;
        if let Some(by_use) = &mut self.by_use {
            by_use.remove(&entry.used);
        }
        Some(self.gone(entry.value))
    }

    /// Removes the one that was used least recently and gives its value, if the hash forgets.
    pub(super) fn forget(&mut self) -> Option<u64> {
        let (_, key) = self.by_use.as_mut()?.pop_first()?;
        let value = self.by_key.remove(&key)?.value;
        Some(self.gone(value))
    }

    fn gone(&mut self, value: u64) -> u64 {
        if let Some(by_value) = &mut self.by_value {
            by_value.remove(&value);
            self.gone.push(value);
        }
        value
    }

    /// Values whose entries went, of those who know where values are.
    pub(super) fn take_gone(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.gone)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the one that was used least recently goes first, and values are found where they are.
    //! Method: a list in the order of use.

    use super::*;

    #[test]
    fn the_least_recently_used_is_forgotten() {
        let mut entries = Entries::new(true);
        let mut model: Vec<u64> = Vec::new();
        let mut draw = 1u64;
        for _ in 0..2_000 {
            draw = draw.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let key = (draw >> 33) % 24;
            let bytes = key.to_le_bytes();
            let there = model.iter().position(|&used| used == key);
            match (draw >> 60, there) {
                (0, Some(at)) => {
                    assert_eq!(entries.remove(&bytes), Some(model.remove(at)));
                }
                (_, Some(at)) => {
                    let used = model.remove(at);
                    model.push(used);
                    assert_eq!(entries.find(&bytes), Some(key));
                }
                (_, None) => {
                    assert_eq!(entries.find(&bytes), None);
                    if model.len() == 16 {
                        assert_eq!(entries.forget(), Some(model.remove(0)));
                    }
                    entries.add(bytes.to_vec(), key);
                    model.push(key);
                }
            }
            assert_eq!(entries.len(), model.len());
            let before = model.iter().copied().filter(|&one| one <= key).max();
            let found = entries.with_value(key).map(|(value, key)| (value, key.to_vec()));
            assert_eq!(found, before.map(|one| (one, one.to_le_bytes().to_vec())));
            let gone = entries.take_gone();
            assert!(gone.len() <= 1 && gone.iter().all(|one| !model.contains(one)));
        }
        assert_eq!(Entries::new(false).forget(), None, "others forget nothing");
    }
}
