//! A program's maps, timers and locks: memory that it reads and writes in place.
//!
//! Values never move while the program may hold a pointer to them. So a timer or lock is known by
//! its address: the number kept inside it only saves a search, and a program that overwrites it, as
//! an update of the value around it does, loses nothing. A kernel's update leaves both alone
//! (`copy_map_value`).

mod arenas;
mod entries;
mod looking;
mod pieces;
mod queue;
mod sizes;
mod storage;
mod timers;

use crate::instruction::Size;
use crate::kernel_names::map_kind_name;
use crate::memory::Memory;
use crate::object_file::MapDefinition;
use crate::program::Elements;
use crate::room::Room;
pub use arenas::arena_of;
use entries::Entries;
use kind::{is_array, is_hash, is_per_cpu};
pub use looking::Key;
use pieces::Pieces;
use queue::Ring;
pub use sizes::KEY_BYTES_MAX;
use sizes::{ring_bytes, stride_of, what_no_kernel_makes};
use std::collections::{BTreeMap, VecDeque};
use storage::{is_storage, owner};
pub use timers::{PLACES_MAX as LOCKS_MAX, TimerCall};
use timers::{Places, Timer};

/// Kinds of maps, `enum bpf_map_type`.
pub mod kind {
    /// Values by keys of any size.
    pub const HASH: u32 = 1;
    /// Values by numbers.
    pub const ARRAY: u32 = 2;
    /// Counters of the processor by numbers: none is opened.
    pub const PERF_EVENT_ARRAY: u32 = 4;
    /// A hash with values of each CPU's own.
    pub const PERCPU_HASH: u32 = 5;
    /// An array with values of each CPU's own.
    pub const PERCPU_ARRAY: u32 = 6;
    /// A hash that forgets where it is full: the entry that was used least recently; a kernel keeps
    /// free entries by CPU and forgets one of the older.
    pub const LRU_HASH: u32 = 9;
    /// Such a hash with values of each CPU's own.
    pub const LRU_PERCPU_HASH: u32 = 10;
    /// Maps by numbers: those that the object begins with.
    pub const ARRAY_OF_MAPS: u32 = 12;
    /// Maps by keys of 4 bytes: those that the object begins with.
    pub const HASH_OF_MAPS: u32 = 13;
    /// Values without keys: the oldest is next.
    pub const QUEUE: u32 = 22;
    /// Values without keys: the newest is next.
    pub const STACK: u32 = 23;
    /// Records for a program beside the policy: nobody reads them.
    pub const RINGBUF: u32 = 27;
    /// A value for each task.
    pub const TASK_STORAGE: u32 = 29;
    /// Records of a program beside the policy: nobody writes them.
    pub const USER_RINGBUF: u32 = 31;
    /// A value for each group of tasks.
    pub const CGRP_STORAGE: u32 = 32;
    /// Pages of memory that pointers lead through.
    pub const ARENA: u32 = 33;

    /// Whether a map of this kind has values by keys of any size.
    pub fn is_hash(kind: u32) -> bool {
        [HASH, PERCPU_HASH, LRU_HASH, LRU_PERCPU_HASH].contains(&kind)
    }

    /// Whether it has values by numbers.
    pub fn is_array(kind: u32) -> bool {
        [ARRAY, PERCPU_ARRAY].contains(&kind)
    }

    /// Whether each CPU has values of its own.
    pub fn is_per_cpu(kind: u32) -> bool {
        [PERCPU_HASH, PERCPU_ARRAY, LRU_PERCPU_HASH].contains(&kind)
    }
}

/// What stands for the first map of an object; no address.
const MAPS_BEGIN: u64 = 0xe000_0000_0000_0000;
/// What stands for the first map that is task storage; the next ones are each 8 more, as their
/// values' places in a task are.
pub const STORAGES_BEGIN: u64 = 0xe800_0000_0000_0000;
/// From one of them to the next.
const TOKEN_STEP: u64 = 8;

/// What stands for the map with this number, unless it is task storage.
pub fn array_token(number: usize) -> u64 {
    MAPS_BEGIN + number as u64 * TOKEN_STEP
}

/// What stands for maps of these kinds.
pub fn tokens(kinds: impl Iterator<Item = u32>) -> Vec<u64> {
    let mut storages = (0..).map(|at| STORAGES_BEGIN + at * TOKEN_STEP);
    let mut token = |(number, kind)| match kind {
        kind::TASK_STORAGE => storages.next().unwrap_or(0),
        _ => array_token(number),
    };
    kinds.enumerate().map(&mut token).collect()
}

/// Error numbers that map calls return, negated.
pub mod errno {
    /// No such entry.
    pub const ENOENT: i32 = 2;
    /// The map is full.
    pub const E2BIG: i32 = 7;
    /// There is no room now.
    pub const EAGAIN: i32 = 11;
    /// There is no room for another one.
    pub const ENOMEM: i32 = 12;
    /// Not allowed.
    pub const EACCES: i32 = 13;
    /// No memory there.
    pub const EFAULT: i32 = 14;
    /// Made already, or no CPU is free.
    pub const EBUSY: i32 = 16;
    /// Already there, or in use.
    pub const EEXIST: i32 = 17;
    /// There is none.
    pub const ENODEV: i32 = 19;
    /// Not possible with this map.
    pub const EINVAL: i32 = 22;
    /// Beyond what there is.
    pub const ERANGE: i32 = 34;
    /// It would wait for itself.
    pub const EDEADLK: i32 = 35;
    /// Not possible here.
    pub const EOPNOTSUPP: i32 = 95;
}

/// Bytes that an entry of a hash takes besides key and value: what it takes of this process, some
/// 90 with a key of 8 bytes, is not more, so that the room for values bounds both.
const ENTRY_BYTES: usize = 96;
/// What callers see to.
const CHECKED: &str = "the memory has keys and values that are given";
/// Values of deleted keys that are left alone, newest first.
const DELETED_SPARED: usize = 4096;

/// Values are aligned to cache lines, so that a small one never lies on two of them.
const LINE_BYTES: usize = 64;

/// What describes a map.
#[derive(Clone, Copy, Debug)]
pub struct MapView {
    /// See [`kind`].
    pub kind: u32,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// Most entries.
    pub max_entries: u32,
    /// Of storage, its place in a task or a group.
    pub index: u32,
    /// Bytes from one value to the next.
    pub value_stride: u32,
    /// Bytes from a CPU's values to the next one's, 0 if they have none of their own.
    pub cpu_stride: u64,
    /// Where the values of an array, a queue or a stack are, and the records of a ring buffer, else
    /// 0.
    pub values: u64,
}

impl MapView {
    /// Whether its values are found by keys of any size.
    pub fn is_hash(&self) -> bool {
        is_hash(self.kind)
    }

    /// Whether its values are found by numbers.
    pub fn is_array(&self) -> bool {
        is_array(self.kind)
    }

    /// Whether its values are maps.
    pub fn is_of_maps(&self) -> bool {
        is_of_maps(self.kind)
    }

    /// Whether its values have no keys: it is a queue or a stack.
    pub fn is_queue(&self) -> bool {
        is_queue(self.kind)
    }
}

/// Whether a hash makes room by what was used least recently.
fn forgets(kind: u32) -> bool {
    [kind::LRU_HASH, kind::LRU_PERCPU_HASH].contains(&kind)
}

fn is_queue(kind: u32) -> bool {
    [kind::QUEUE, kind::STACK].contains(&kind)
}

/// Whether a map has neither keys nor values but records.
fn is_ring(kind: u32) -> bool {
    [kind::RINGBUF, kind::USER_RINGBUF].contains(&kind)
}

fn is_of_maps(kind: u32) -> bool {
    [kind::ARRAY_OF_MAPS, kind::HASH_OF_MAPS].contains(&kind)
}

#[derive(Debug)]
struct Map {
    view: MapView,
    /// What only strict runs ask.
    watched: Option<Watched>,
    /// Bytes of a hash's value, those of all CPUs.
    value_bytes: usize,
    /// Where a value has pointers of the kernel's.
    pointers: Vec<u64>,
    /// Whether a value has a lock.
    has_lock: bool,
    /// Values of storage that nobody uses.
    free: Vec<u64>,
    entries: Entries,
    /// What a queue or stack holds, or a ring buffer, in bytes.
    ring: Ring,
    /// Of a map of maps what stands for each, by key.
    inner: BTreeMap<u32, u64>,
    /// Values of deleted keys, oldest first. A program may read one until its operation ends, as
    /// under RCU; the oldest are used again.
    deleted: VecDeque<u64>,
}

/// Where values lie one behind the other: of which map, and how many.
type Chunks = BTreeMap<u64, (usize, u64)>;

/// What is known of a map whose values are told apart by their addresses.
#[derive(Debug)]
struct Watched {
    name: String,
    /// What of a value a program writes, in bytes.
    members: Vec<(u64, u64)>,
}

/// All maps, timers and locks of one program.
#[derive(Debug, Default)]
pub struct Maps {
    maps: Vec<Map>,
    /// Which of them are task storage.
    storages: Vec<usize>,
    /// Values of those that are watched.
    chunks: Chunks,
    timers: Vec<Timer>,
    /// Numbers of those that are gone, to be used again.
    free_timers: Vec<u32>,
    /// The one whose callback runs, 0 if none does.
    running_timer: u32,
    /// Expiries that were set and do not hold any more.
    nr_stale: usize,
    timer_places: Places,
    lock_places: Places,
    pieces: Pieces,
}

/// A map that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMap {
    /// The variable's name.
    pub name: String,
    /// Its `type`, or why there is no place for it.
    pub reason: String,
    /// Whether it is one of a kind that is not known here.
    pub is_of_unknown_kind: bool,
}

impl UnknownMap {
    fn new(declaration: &MapDefinition, reason: String) -> UnknownMap {
        UnknownMap { name: declaration.name.clone(), reason, is_of_unknown_kind: false }
    }
}

impl Maps {
    /// Makes the maps that an object declares; `storages_max` of them may be storage of each kind.
    ///
    /// # Errors
    ///
    /// Which of them cannot be made, and why.
    pub fn new(
        room: &mut Room,
        declared: &[MapDefinition],
        nr_cpus: usize,
        storages_max: usize,
    ) -> Result<Self, UnknownMap> {
        let mut maps = Maps::default();
        arenas::check(declared)?;
        for declaration in declared {
            let mut map = Map::new(room, declaration, nr_cpus)?;
            let kind = map.view.kind;
            if is_storage(kind) {
                let before = maps.maps.iter().filter(|other| other.view.kind == kind).count();
                if before == storages_max {
                    let reason = format!("more than {storages_max} maps of {}", owner(kind));
                    return Err(UnknownMap::new(declaration, reason));
                }
                map.view.index = before as u32;
            }
            if kind == kind::TASK_STORAGE {
                maps.storages.push(maps.maps.len());
            }
            map.inner = inner_maps(declaration, declared)?;
            maps.maps.push(map);
        }
        Ok(maps)
    }

    /// The values of arrays, which never move, by what stands for each; the number of the CPU that
    /// runs is at the address `cpu_at`.
    pub fn elements(&self, cpu_at: u64) -> BTreeMap<u64, Elements> {
        let elements = |(number, map): (usize, &Map)| {
            let view = &map.view;
            let apart = i32::try_from(view.cpu_stride).ok()? as u32;
            let is_array = view.is_array();
            let copies = (view.kind == kind::PERCPU_ARRAY).then_some((cpu_at, apart));
            let elements = Elements {
                begin: view.values,
                bytes: view.value_stride,
                count: view.max_entries,
                copies,
            };
            is_array.then_some((array_token(number), elements))
        };
        self.maps.iter().enumerate().filter_map(elements).collect()
    }

    /// How many bytes the values of task storage have, by what stands for each.
    pub fn cells(&self) -> BTreeMap<u64, u32> {
        let bytes = |&at: &usize| self.maps[at].view.value_stride;
        let tokens = (0..).map(|at| STORAGES_BEGIN + at * TOKEN_STEP);
        tokens.zip(self.storages.iter().map(bytes)).collect()
    }

    /// The number of the map that a token stands for.
    pub fn number(&self, token: u64) -> Option<usize> {
        if !token.is_multiple_of(TOKEN_STEP) {
            return None;
        }
        let number = if token >= STORAGES_BEGIN {
            *self.storages.get(((token - STORAGES_BEGIN) / TOKEN_STEP) as usize)?
        } else {
            (token.checked_sub(MAPS_BEGIN)? / TOKEN_STEP) as usize
        };
        (number < self.maps.len()).then_some(number)
    }

    /// What describes the map with this number.
    pub fn view(&self, number: usize) -> &MapView {
        &self.maps[number].view
    }

    /// Notes from here on where the values of a map with this number lie; `members` are offsets and
    /// sizes of what is in each. No value was made before but those of arrays.
    pub fn watch(&mut self, number: usize, name: &str, members: Vec<(u64, u64)>, nr_cpus: usize) {
        let map = &mut self.maps[number];
        let copies = if map.view.cpu_stride > 0 { nr_cpus } else { 1 };
        let count = u64::from(map.view.max_entries) * copies as u64;
        map.watched = Some(Watched { name: name.to_owned(), members });
        // No program has the address of a value of a queue.
        if map.view.values != 0 && map.view.key_size > 0 {
            self.chunks.insert(map.view.values, (number, count));
        }
    }

    /// The name of the watched map that has a value there, and the size of its values.
    pub fn value_at(&self, address: u64) -> Option<(&str, u32)> {
        let (&begin, &(map, count)) = self.chunks.range(..=address).next_back()?;
        let Map { view, watched, .. } = &self.maps[map];
        let (distance, stride) = (address - begin, u64::from(view.value_stride));
        let is_value = distance.is_multiple_of(stride) && distance / stride < count;
        is_value.then_some((&*watched.as_ref()?.name, view.value_size))
    }

    /// The member of a watched map's values with this number, if there is one.
    pub fn member(&self, map: usize, number: usize) -> Option<(u64, u64)> {
        self.maps[map].watched.as_ref()?.members.get(number).copied()
    }

    /// The address of the value that a hash has for the key at an address, that of a CPU where each
    /// has its own, or 0.
    pub fn lookup(&mut self, memory: &Memory, map: usize, key: u64, cpu: u64) -> u64 {
        let map = &mut self.maps[map];
        let key = memory.bytes(key, map.view.key_size.into()).expect(CHECKED);
        map.entries.find(key).map_or(0, |value| value + cpu * map.view.cpu_stride)
    }

    /// The key behind this one, or the first, and the address of its value, that of a CPU where
    /// each has its own. Keys of a hash come in the order of their bytes.
    pub fn entry_behind(&self, map: usize, key: Option<&[u8]>, cpu: u64) -> Option<(Vec<u8>, u64)> {
        let map = &self.maps[map];
        if map.view.is_hash() {
            let (key, value) = map.entries.behind(key)?;
            return Some((key.to_vec(), value + cpu * map.view.cpu_stride));
        }
        let number = key.and_then(|key| key.first_chunk()).map_or(0, |&last| {
            u32::from_le_bytes(last) + 1 // Less than the number of values.
        });
        let value = map.array_value(number, cpu as usize);
        (value != 0).then(|| (number.to_le_bytes().to_vec(), value))
    }

    /// What stands for the map that a map of maps has for a key, or 0.
    pub fn inner(&self, map: usize, key: u32) -> u64 {
        self.maps[map].inner.get(&key).copied().unwrap_or(0)
    }

    /// Sets the value for a key, both at their addresses; 0 or a negative error number.
    ///
    /// # Panics
    ///
    /// If the memory does not have the key and the value.
    pub fn update(
        &mut self,
        (memory, room): (&mut Memory, &mut Room),
        map: usize,
        (key, value): (u64, u64),
        flags: u64,
        cpu: usize,
    ) -> i32 {
        const NOEXIST: u64 = 1;
        const EXIST: u64 = 2;
        const LOCK: u64 = 4;
        let view = self.maps[map].view;
        let is_hash = view.is_hash();
        let locks_nothing = flags & LOCK != 0 && !self.maps[map].has_lock;
        if flags & !LOCK > EXIST || locks_nothing || !(is_hash || view.is_array()) {
            return -errno::EINVAL;
        }
        let there = if is_hash { self.lookup(memory, map, key, cpu as u64) } else { 0 };
        let (number, map) = (map, &mut self.maps[map]);
        let of_cpu = cpu as u64 * map.view.cpu_stride;
        let to = match (is_hash, there, flags & !LOCK) {
            (true, 0, EXIST) => return -errno::ENOENT,
            (true, 1.., NOEXIST) => return -errno::EEXIST,
            (true, 0, _) => match map.add_entry((memory, room), key, number, &mut self.chunks) {
                0 => 0,
                begin => begin + of_cpu,
            },
            (true, 1.., _) => there,
            (false, ..) => {
                let index = memory.load(key, Size::Word).expect(CHECKED);
                map.array_value(index as u32, cpu)
            }
        };
        if to == 0 {
            return -errno::E2BIG;
        }
        // All values of an array are there from the beginning.
        if !is_hash && flags & NOEXIST != 0 {
            return -errno::EEXIST;
        }
        map.copy_around_pointers(memory, to, value, is_hash && there == 0);
        if map.entries.knows_values() {
            // A kernel puts another value in place of one that is there.
            self.end_timers(number, (there != 0 && flags & LOCK == 0).then_some(there));
        }
        0
    }

    /// Of a map's values, which members hold pointers of the kernel's, and whether there is a lock.
    /// An update leaves the pointers alone, as that of Linux 7.3; up to 6.18 it gave them back
    /// (`bpf_obj_free_fields`).
    pub fn set_members(&mut self, map: usize, pointers: Vec<u64>, has_lock: bool) {
        (self.maps[map].pointers, self.maps[map].has_lock) = (pointers, has_lock);
    }

    /// Removes the key at an address from a hash; 0 or a negative error number.
    pub fn delete(&mut self, memory: &Memory, map: usize, key: u64) -> i32 {
        let (number, map) = (map, &mut self.maps[map]);
        if !map.view.is_hash() {
            return -errno::EINVAL;
        }
        let key = memory.bytes(key, map.view.key_size.into()).expect(CHECKED);
        let Some(value) = map.entries.remove(key) else { return -errno::ENOENT };
        map.deleted.push_back(value);
        if map.entries.knows_values() {
            self.end_timers(number, None);
        }
        0
    }
}

/// What stands for each map in a map of maps, by key.
fn inner_maps(
    of: &MapDefinition,
    declared: &[MapDefinition],
) -> Result<BTreeMap<u32, u64>, UnknownMap> {
    let mut inner = BTreeMap::new();
    for &(key, map) in &of.inner {
        let kind = declared[map].kind;
        if !is_of_maps(of.kind) || key >= of.entries_max {
            let reason = format!("a map with number {key} inside, for which it has no place");
            return Err(UnknownMap::new(of, reason));
        }
        if is_of_maps(kind) || is_storage(kind) {
            let reason = format!("{} inside; no kernel takes it there", declared[map].name);
            return Err(UnknownMap::new(of, reason));
        }
        inner.insert(key, array_token(map));
    }
    Ok(inner)
}

impl Map {
    fn new(
        room: &mut Room,
        declaration: &MapDefinition,
        nr_cpus: usize,
    ) -> Result<Self, UnknownMap> {
        let refused = |reason| UnknownMap::new(declaration, reason);
        if let Some(reason) = what_no_kernel_makes(declaration) {
            return Err(refused(reason));
        }
        let stride = stride_of(declaration.kind, declaration.value_bytes as usize);
        let max_entries = match declaration.kind {
            // As libbpf has it: a power of 2, and whole pages; and all CPUs.
            kind if is_ring(kind) => ring_bytes(declaration.entries_max)
                .ok_or_else(|| refused(format!("{} bytes", declaration.entries_max)))?,
            kind::PERF_EVENT_ARRAY if declaration.entries_max == 0 => nr_cpus as u32,
            _ => declaration.entries_max,
        };
        let entries = max_entries as usize;
        let copies = match declaration.kind {
            kind::ARRAY | kind::QUEUE | kind::STACK | kind::RINGBUF => 1,
            kind::PERCPU_ARRAY => nr_cpus,
            kind::PERF_EVENT_ARRAY | kind::USER_RINGBUF | kind::ARENA => 0,
            kind if is_hash(kind) || is_of_maps(kind) || is_storage(kind) => 0,
            other => {
                let reason = format!(
                    "type {}; known are arrays (2, 4, 6), hashes (1, 5, 9, 10), both of maps \
                     (12, 13), queues (22), stacks (23), ring buffers (27, 31), storage of tasks \
                     (29) and of cgroups (32), and arenas (33)",
                    map_kind_name(other)
                );
                return Err(UnknownMap { is_of_unknown_kind: true, ..refused(reason) });
            }
        };
        let bytes = stride.checked_mul(entries).and_then(|bytes| bytes.checked_mul(copies));
        let values = bytes.and_then(|bytes| room.take(bytes, LINE_BYTES, false));
        let values = values.ok_or_else(|| {
            let times = if copies == 1 { String::new() } else { format!(", {copies} times") };
            refused(format!("no room for {entries} values of {stride} bytes{times}"))
        })?;
        let values = if copies == 0 { 0 } else { values };
        let of_cpu = if is_hash(declaration.kind) { stride } else { stride * entries };
        let view = MapView {
            kind: declaration.kind,
            key_size: declaration.key_bytes,
            value_size: declaration.value_bytes,
            max_entries,
            index: 0,
            value_stride: stride as u32,
            cpu_stride: if is_per_cpu(declaration.kind) { of_cpu as u64 } else { 0 },
            values,
        };
        Ok(Map {
            entries: Entries::new(forgets(view.kind)),
            ring: Ring::default(),
            inner: BTreeMap::new(),
            value_bytes: if is_per_cpu(view.kind) { stride * nr_cpus } else { stride },
            view,
            watched: None,
            pointers: Vec::new(),
            has_lock: false,
            free: Vec::new(),
            deleted: VecDeque::new(),
        })
    }

    /// Copies a value but for pointers of the kernel's, which are NULL in a new one.
    fn copy_around_pointers(&self, memory: &mut Memory, to: u64, value: u64, is_new: bool) {
        let kept = |at: &u64| memory.load(to + at, Size::Double).filter(|_| !is_new).unwrap_or(0);
        let kept: Vec<u64> = self.pointers.iter().map(kept).collect();
        memory.copy(to, value, self.view.value_size.into()).expect(CHECKED);
        for (at, pointer) in self.pointers.iter().zip(kept) {
            let place = memory.bytes_mut(to + at, 8).expect(CHECKED);
            place.copy_from_slice(&pointer.to_le_bytes());
        }
    }

    /// A value for the key at an address; 0 if there is no room.
    fn add_entry(
        &mut self,
        (memory, room): (&mut Memory, &mut Room),
        key: u64,
        number: usize,
        chunks: &mut Chunks,
    ) -> u64 {
        if self.entries.len() >= self.view.max_entries as usize {
            let Some(value) = self.entries.forget() else { return 0 };
            self.deleted.push_back(value);
        }
        let key = memory.bytes(key, self.view.key_size.into()).expect(CHECKED).to_vec();
        let bytes = self.value_bytes;
        let spared = self.deleted.len() > DELETED_SPARED;
        let oldest = if spared { self.deleted.pop_front() } else { None };
        // What forgets knows each key twice.
        let times = if forgets(self.view.kind) { 2 } else { 1 };
        let wanted = bytes + times * (key.len() + ENTRY_BYTES);
        let value = oldest.or_else(|| room.take(wanted, 8, false));
        let Some(value) = value.or_else(|| self.deleted.pop_front()) else { return 0 };
        if self.watched.is_some() {
            chunks.insert(value, (number, (bytes / self.view.value_stride as usize) as u64));
        }
        memory.bytes_mut(value, bytes as u64).expect("a value of this map").fill(0);
        self.entries.add(key, value);
        value
    }

    /// The address of an array's value; 0 if it has none of this number.
    fn array_value(&self, key: u32, cpu: usize) -> u64 {
        if key >= self.view.max_entries || self.view.values == 0 {
            return 0;
        }
        let strides = u64::from(key) * u64::from(self.view.value_stride);
        self.view.values + cpu as u64 * self.view.cpu_stride + strides
    }
}
