//! What the policy sees: structures and values in one memory, at places that never change.

use crate::abi;
use crate::place::TaskId;
use crate::shown::{Part, Shown};
use bytecode::{MEMORY_BEGIN, Memory, Room, Rows};
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Tasks that may exist: they lie in a row, so that an address says which it is.
pub const TASKS_MAX: usize = (1 << 21) - 2;
const TASK_BYTES: usize = size_of::<abi::Task>().next_multiple_of(LINE_BYTES);
const LINE_BYTES: usize = 64;

/// Bytes that policies only read: tasks first, then idle tasks, masks, queues. Source of the sum of
/// both: the most that a translated program can address.
const READ_ONLY_BYTES: usize = 1000 << 20;
/// Bytes that are theirs: values of maps, variables.
const WRITABLE_BYTES: usize = 1047 << 20;
/// Bytes that are left for masks, queues and address spaces, whatever a policy brings.
const RESERVED_BYTES: usize = 48 << 20;

/// What policies ask for most, where they find it themselves. It is the first in the memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// The clock of the CPU whose operation runs.
    pub now_ns: u64,
    /// The address of the task on that CPU.
    pub current: u64,
    /// How many tasks there are.
    pub nr_tasks: u64,
    /// CPUs.
    pub nr_cpu_ids: u32,
    /// That CPU.
    pub cpu: u32,
    /// Ticks a second.
    pub hz: u32,
    /// What a kernel's configuration does not say.
    pub zero: u64,
}

impl Shown for Facts {
    const PARTS: &'static [Part] = &[Part::of::<u32>(offset_of!(Facts, hz), "CONFIG_HZ")];
}

/// A policy has only their numbers.
impl Shown for [abi::DsqIterator; WALKS_MAX] {
    const PARTS: &'static [Part] = &[];
}

/// Where the [`Facts`] are.
pub const FACTS: u64 = MEMORY_BEGIN;
/// Where the number of the CPU is whose operation runs.
pub const CPU_AT: u64 = FACTS + offset_of!(Facts, cpu) as u64;
/// Where walks over dispatch queues are, and how many may be open at once.
pub const WALKS: u64 = (FACTS + size_of::<Facts>() as u64).next_multiple_of(LINE_BYTES as u64);
/// See [`WALKS`].
pub const WALKS_MAX: usize = 64;
const WALKS_END: u64 = WALKS + (WALKS_MAX * size_of::<abi::DsqIterator>()) as u64;
/// Where tasks are, one after the other.
pub const TASKS: Rows = Rows {
    begin: WALKS_END.next_multiple_of(LINE_BYTES as u64),
    bytes: TASK_BYTES as u64,
    count_at: FACTS + offset_of!(Facts, nr_tasks) as u64,
};

/// What a policy is shown for the address of a task.
#[inline]
pub fn shown_task(task: TaskId) -> *mut abi::Task {
    std::ptr::without_provenance_mut(TASKS.address(task.into()) as usize)
}

/// The memory that a policy sees, as long as its machine.
#[derive(Debug)]
pub struct Visible {
    /// The memory itself, unless a machine has it.
    memory: Option<Box<Memory>>,
    /// What of it is not taken.
    pub room: Room,
    /// What the policy may have addresses of, except tasks and values of maps, for strict runs.
    parts: Option<BTreeMap<u64, Part>>,
    /// What lies at its begin.
    pub facts: Placed<Facts>,
    /// Walks over dispatch queues that are open, or may be opened.
    pub walks: Walks,
}

/// Something in the visible memory, which must not be used longer than that.
///
/// No reference to it may live across a call of the policy.
#[derive(Debug)]
pub struct Placed<T>(NonNull<T>);

impl<T> Placed<T> {
    /// Where it lies.
    pub fn address(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T> Deref for Placed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `Visible::place` wrote a value there that nobody else owns, and the policy
        // writes only while it is called.
        unsafe { self.0.as_ref() }
    }
}

impl<T> DerefMut for Placed<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { self.0.as_mut() }
    }
}

/// Walks over dispatch queues, by their numbers less one.
#[derive(Debug)]
pub struct Walks {
    places: Placed<[abi::DsqIterator; WALKS_MAX]>,
    /// Which of them are open, by bits.
    open: u64,
}

impl Walks {
    /// Ends all of them.
    pub fn clear(&mut self) {
        (0..WALKS_MAX).for_each(|at| self.end(at));
    }

    /// Whether the walk with this number less one is open.
    pub fn is_open(&self, at: usize) -> bool {
        at < WALKS_MAX && self.open >> at & 1 == 1
    }

    /// The walk with this number less one, which is open.
    pub fn get(&mut self, at: usize) -> &mut abi::DsqIterator {
        &mut self.places[at]
    }

    /// Opens a walk that has not begun; its number less one.
    pub fn open(&mut self) -> Option<usize> {
        let at = self.open.trailing_ones() as usize;
        (at < WALKS_MAX).then(|| {
            self.open |= 1 << at;
            at
        })
    }

    /// Ends the walk with this number less one.
    pub fn end(&mut self, at: usize) {
        self.open &= !(1 << at);
        let walk = &mut self.places[at];
        (walk.next, walk.filled) = (0, 0);
    }
}

impl Visible {
    /// Memory that holds nothing but the number of ticks a second, at its first address; with
    /// `has_parts` it is noted what is placed where, see [`Visible::part_at`].
    pub fn new(hz: u32, nr_cpu_ids: u32, has_parts: bool) -> Visible {
        let (room, memory) = Room::new(READ_ONLY_BYTES, WRITABLE_BYTES);
        let placed = |address| NonNull::new(room.pointer(address)).expect("memory is not at 0");
        let (facts, walks) = (Placed(placed(FACTS).cast()), Placed(placed(WALKS).cast()));
        let walks = Walks { places: walks, open: 0 };
        let parts = has_parts.then(BTreeMap::new);
        let mut visible = Visible { memory: Some(memory), room, parts, facts, walks };
        let placed = visible.place(Facts { hz, nr_cpu_ids, ..Facts::default() });
        visible.room.take(LINE_BYTES - size_of::<Facts>() % LINE_BYTES, 1, true);
        // Walks that are not open, and so have no next task.
        let none = visible.place([abi::DsqIterator::default(); WALKS_MAX]);
        assert_eq!(visible.room.address(none.address()), WALKS);
        let tasks = visible.room.take((TASKS_MAX + 1) * TASK_BYTES, LINE_BYTES, true);
        assert_eq!((visible.room.address(placed.address()), tasks), (FACTS, Some(TASKS.begin)));
        visible
    }

    /// The memory, for a machine that runs programs in it.
    pub fn lend(&mut self) -> Box<Memory> {
        self.memory.take().expect("one machine at a time")
    }

    /// The memory of a machine that is gone.
    pub fn give_back(&mut self, memory: Box<Memory>) {
        self.memory = Some(memory);
    }

    /// Puts a structure where the policy may only read it. It is never dropped.
    ///
    /// # Panics
    ///
    /// If there is no room; all that is placed so is limited in number.
    pub fn place<T: Shown>(&mut self, value: T) -> Placed<T> {
        let place = self.room.take(size_of::<T>(), align_of::<T>(), true);
        let address = place.expect("room for what is limited");
        self.note_parts(address, T::PARTS);
        let place = self.room.pointer(address).cast::<T>();
        // SAFETY: the room was just taken, is large enough and aligned, since the memory begins
        // with a page and its first address too.
        unsafe { place.write(value) };
        Placed(NonNull::new(place).expect("memory is not at 0"))
    }

    /// Puts the next task where the policy may only read it.
    ///
    /// # Panics
    ///
    /// If there is no room, for more than [`TASKS_MAX`] and one.
    pub fn place_task(&mut self, task: abi::Task) -> Placed<abi::Task> {
        let number = self.facts.nr_tasks;
        assert!(number <= TASKS_MAX as u64, "room for a task");
        let place = self.room.pointer(TASKS.begin + number * TASKS.bytes);
        self.facts.nr_tasks += 1;
        let place = place.cast::<abi::Task>();
        // SAFETY: room that was taken for tasks, of which this is the next.
        unsafe { place.write(task) };
        Placed(NonNull::new(place).expect("memory is not at 0"))
    }

    /// Which task is at this address, by the order in which they were placed.
    #[inline]
    pub fn task_number(&self, address: u64) -> Option<u64> {
        TASKS.number(address, self.facts.nr_tasks)
    }

    /// The address of a copy of these bytes; `None` if there is no room.
    pub fn copy(&mut self, bytes: &[u8], read_only: bool) -> Option<u64> {
        if read_only && self.room.read_only_left() < (bytes.len() + RESERVED_BYTES) as u64 {
            return None;
        }
        let begin = self.room.take(bytes.len(), LINE_BYTES, read_only)?;
        let place = self.room.pointer(begin);
        // SAFETY: the room was just taken and is large enough.
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.note_parts(begin, &[Part { offset: 0, bytes: bytes.len(), name: "a text" }]);
        Some(begin)
    }

    fn note_parts(&mut self, begin: u64, placed: &[Part]) {
        if let Some(parts) = &mut self.parts {
            parts.extend(placed.iter().map(|part| (begin + part.offset as u64, *part)));
        }
    }

    /// What begins at an address, of all but tasks and values of maps, if that is noted.
    pub fn part_at(&self, address: u64) -> Option<&Part> {
        self.parts.as_ref()?.get(&address)
    }
}
