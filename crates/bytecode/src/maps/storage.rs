//! Storage: maps that have a value for each task, or for each group of tasks.

use super::{Chunks, LINE_BYTES, Map, Maps, errno, kind};
use crate::memory::Memory;
use crate::room::Room;

/// Values of storage that are allocated together.
const STORAGE_CHUNK: usize = 64;

pub(super) fn is_storage(kind: u32) -> bool {
    [kind::TASK_STORAGE, kind::CGRP_STORAGE].contains(&kind)
}

/// What a map of storage is called by what has its values.
pub(super) fn owner(kind: u32) -> &'static str {
    if kind == kind::CGRP_STORAGE { "cgroup storage" } else { "task storage" }
}

impl Maps {
    /// The address of a zeroed value for a task or a group, of the present one if it has one; 0 if
    /// there is no room. `storage` has the addresses of the values of its own, for all maps.
    pub fn create_storage(
        &mut self,
        memory: &mut Memory,
        room: &mut Room,
        map: usize,
        storage: &mut [u64],
    ) -> u64 {
        let (number, map) = (map, &mut self.maps[map]);
        let place = &mut storage[map.view.index as usize];
        if *place == 0 {
            *place = map.take_value(memory, room, number, &mut self.chunks);
        }
        *place
    }

    /// Gives the value of a task or a group back; 0, or a negative error number if it has none.
    pub fn delete_storage(&mut self, map: usize, storage: &mut [u64]) -> i32 {
        let map = &mut self.maps[map];
        if map.give_back(map.view.kind, storage) { 0 } else { -errno::ENOENT }
    }

    /// Gives all values of a task back.
    pub fn forget_task(&mut self, storage: &mut [u64]) {
        for map in &mut self.maps {
            map.give_back(kind::TASK_STORAGE, storage);
        }
    }

    /// Gives all values of a group of tasks back.
    pub fn forget_group(&mut self, storage: &mut [u64]) {
        for map in &mut self.maps {
            map.give_back(kind::CGRP_STORAGE, storage);
        }
    }
}

impl Map {
    /// A value for a task or a group; 0 if there is no room.
    fn take_value(
        &mut self,
        memory: &mut Memory,
        room: &mut Room,
        number: usize,
        chunks: &mut Chunks,
    ) -> u64 {
        let stride = u64::from(self.view.value_stride);
        if self.free.is_empty()
            && let Some(begin) = room.take(stride as usize * STORAGE_CHUNK, LINE_BYTES, false)
        {
            if self.watched.is_some() {
                chunks.insert(begin, (number, STORAGE_CHUNK as u64));
            }
            self.free.extend((0..STORAGE_CHUNK as u64).rev().map(|at| begin + at * stride));
        }
        let Some(value) = self.free.pop() else { return 0 };
        memory.bytes_mut(value, stride).expect("a value of this map").fill(0);
        value
    }

    /// Takes the value of one that has those of a kind, if it has one of this map; whether it had.
    fn give_back(&mut self, kind: u32, storage: &mut [u64]) -> bool {
        if !is_storage(kind) || self.view.kind != kind {
            return false;
        }
        let value = std::mem::take(&mut storage[self.view.index as usize]);
        self.free.extend((value != 0).then_some(value));
        value != 0
    }
}
