//! Few items whose keys are too far apart for the first tier, in a queue that can hold no more
//! than that tier does: a sorted array. Such a queue needs no ring, and so has none.

/// Items in order, the first one last.
#[derive(Clone, Debug)]
pub(super) struct Wide {
    entries: Vec<(i64, u32)>,
}

impl Wide {
    pub fn new(capacity: usize) -> Self {
        Wide { entries: Vec::with_capacity(capacity) }
    }

    pub fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<(i64, u32)>()
    }

    /// Where the last of those with this key is, or would be.
    fn last_of(&self, key: i64) -> usize {
        self.entries.partition_point(|entry| entry.0 > key)
    }

    /// Adds an item behind all with an equal key.
    #[cold]
    #[inline(never)]
    pub fn push(&mut self, key: i64, item: u32) {
        self.entries.insert(self.last_of(key), (key, item));
    }

    pub fn first(&self) -> Option<u32> {
        self.entries.last().map(|entry| entry.1)
    }

    pub fn pop(&mut self) -> Option<u32> {
        self.entries.pop().map(|entry| entry.1)
    }

    /// Takes an item out that was pushed with this key and is still here.
    pub fn remove(&mut self, key: i64, item: u32) {
        let last = self.last_of(key);
        let equals = self.entries[last..].iter().take_while(|entry| entry.0 == key);
        let place = equals.take_while(|entry| entry.1 != item).count();
        self.entries.remove(last + place);
    }
}
