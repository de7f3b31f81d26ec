//! Queues and stacks: values without keys, which are pushed, looked at and popped.
//!
//! Source: Linux, kernel/bpf/queue_stack_maps.c.

use super::{CHECKED, Maps, errno, kind};
use crate::memory::Memory;

/// Which places of a map's memory have values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ring {
    /// The place of the oldest.
    first: u64,
    count: u64,
}

impl Ring {
    /// How many values there are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }
}

impl Maps {
    /// Adds the value at an address to a queue or stack; 0 or a negative error number. With
    /// `BPF_EXIST` the oldest makes way where it is full.
    ///
    /// # Panics
    ///
    /// If the memory does not have the value.
    pub fn push(&mut self, memory: &mut Memory, map: usize, value: u64, flags: u64) -> i32 {
        const EXIST: u64 = 2;
        if flags != 0 && flags != EXIST {
            return -errno::EINVAL;
        }
        let map = &mut self.maps[map];
        let capacity = u64::from(map.view.max_entries);
        if map.ring.count == capacity {
            if flags == 0 {
                return -errno::E2BIG;
            }
            map.ring.first = (map.ring.first + 1) % capacity;
            map.ring.count -= 1;
        }
        let to = map.place(map.ring.count);
        memory.copy(to, value, map.view.value_size.into()).expect(CHECKED);
        map.ring.count += 1;
        0
    }

    /// Copies the value that is next, the oldest of a queue or the newest of a stack, to an
    /// address, and takes it away if it is popped; 0, or a negative error number and zeros if there
    /// is none.
    ///
    /// # Panics
    ///
    /// If the memory does not have room for the value there.
    pub fn take(&mut self, memory: &mut Memory, map: usize, to: u64, is_popped: bool) -> i32 {
        let map = &mut self.maps[map];
        let bytes = u64::from(map.view.value_size);
        if map.ring.count == 0 {
            memory.bytes_mut(to, bytes).expect(CHECKED).fill(0);
            return -errno::ENOENT;
        }
        let is_stack = map.view.kind == kind::STACK;
        let from = map.place(if is_stack { map.ring.count - 1 } else { 0 });
        memory.copy(to, from, bytes).expect(CHECKED);
        if is_popped {
            map.ring.count -= 1;
            let passed = u64::from(!is_stack);
            map.ring.first = (map.ring.first + passed) % u64::from(map.view.max_entries);
        }
        0
    }
}

impl super::Map {
    /// Where the value is that so many are older than.
    pub(super) fn place(&self, older: u64) -> u64 {
        let place = (self.ring.first + older) % u64::from(self.view.max_entries);
        self.view.values + place * u64::from(self.view.value_stride)
    }
}
