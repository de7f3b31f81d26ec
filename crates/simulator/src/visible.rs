//! What the policy sees: structures and values in one memory, at places that never change.

use crate::abi::{self, CpuMask, MaskWidth};
use crate::shown::{Part, Shown};
use bytecode::{
    Arena, LOCKS_MAX, Lock, Locks, MEMORY_BEGIN, Maps, Memory, NoAddresses, Room, Rows,
};
use policy::{Entry, Loaded};
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

const LINE_BYTES: usize = 64;

/// Bytes that policies only read: tasks first, then idle tasks, masks, queues. Source of the sum of
/// both: the most that a translated program can address.
const READ_ONLY_BYTES: usize = 1000 << 20;
/// Bytes that are theirs: values of maps, variables.
const WRITABLE_BYTES: usize = 1047 << 20;
/// Bytes that are left for masks, queues and address spaces, whatever a policy brings: 2^16 of 512
/// bytes, 2^20 of 16 and 2^20 of 4 on a wide machine.
const RESERVED_BYTES: usize = 56 << 20;

/// What policies ask for most, where they find it themselves. It is the first in the memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// The clock of the CPU whose operation runs.
    pub now_ns: u64,
    /// How many tasks there are.
    pub nr_tasks: u64,
    /// CPUs.
    pub nr_cpu_ids: u32,
    /// That CPU.
    pub cpu: u32,
    /// Ticks a second.
    pub hz: u32,
    /// What a kernel was configured with by `y`: 1.
    pub yes: u32,
    /// What a kernel's configuration does not say.
    pub zero: u64,
    /// What it costs a CPU to take a free lock that it held last.
    pub lock_ns: u64,
    /// CPUs that a mask can hold, which a kernel was configured with.
    pub nr_cpus_max: u64,
    /// The release of the kernel that the simulated one is like.
    pub version: u64,
    /// The address of the mask of idle CPUs.
    pub idle_cpus: u64,
    /// The address of the mask of CPUs whose whole core is idle.
    pub idle_cores: u64,
}

impl Shown for Facts {
    const PARTS: &'static [Part] = &[
        Part::of::<u32>(offset_of!(Facts, hz), "CONFIG_HZ"),
        Part::of::<u32>(offset_of!(Facts, yes), "a variable of the kernel's configuration"),
        Part::of::<u64>(offset_of!(Facts, zero), "a variable of the kernel's configuration"),
        Part::of::<u64>(offset_of!(Facts, nr_cpus_max), "CONFIG_NR_CPUS"),
        Part::of::<u64>(offset_of!(Facts, version), "LINUX_KERNEL_VERSION"),
    ];
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
pub const WALKS: u64 =
    (FACTS + size_of::<Facts>() as u64).next_multiple_of(align_of::<abi::DsqIterator>() as u64);
/// See [`WALKS`].
pub const WALKS_MAX: usize = 64;
const WALKS_END: u64 = WALKS + (WALKS_MAX * size_of::<abi::DsqIterator>()) as u64;
/// Where a task's own mask begins in what is seen of it.
pub const TASK_MASK_AT: usize = size_of::<abi::Task>();
const TASKS: Rows = MaskWidth::Usual.tasks();
const WIDE_TASKS: Rows = MaskWidth::Wide.tasks();

impl MaskWidth {
    /// Where tasks are, one after the other, so that an address says which it is.
    pub const fn tasks(self) -> Rows {
        Rows {
            begin: WALKS_END.next_multiple_of(LINE_BYTES as u64),
            bytes: self.task_bytes().next_multiple_of(LINE_BYTES) as u64,
            count_at: FACTS + offset_of!(Facts, nr_tasks) as u64,
        }
    }

    /// What is seen of a task.
    pub const fn task_bytes(self) -> usize {
        TASK_MASK_AT + self.bytes()
    }

    /// Locks of the policy's own, behind all tasks.
    pub const fn locks(self) -> Locks {
        Locks {
            begin: self.tasks().address(self.tasks_max() as u64 + 1),
            count: LOCKS_MAX as u32 + 1,
            now_at: FACTS + offset_of!(Facts, now_ns) as u64,
            holder_at: CPU_AT,
            take_at: FACTS + offset_of!(Facts, lock_ns) as u64,
        }
    }

    /// Tasks that may exist.
    pub const fn tasks_max(self) -> usize {
        match self {
            MaskWidth::Usual => (1 << 21) - 2,
            MaskWidth::Wide => (1 << 20) - 2,
        }
    }
}

/// The memory that a policy sees, as long as its machine.
#[derive(Debug)]
pub struct Visible {
    /// The memory itself, unless a machine has it.
    memory: Option<Box<Memory>>,
    /// What of it is not taken.
    pub room: Room,
    width: MaskWidth,
    /// From one task to the next.
    task_bytes: u64,
    /// What the policy may have addresses of, except tasks and values of maps, for strict runs.
    parts: Option<BTreeMap<u64, Part>>,
    /// What lies at its begin.
    pub facts: Placed<Facts>,
    /// Walks over dispatch queues that are open, or may be opened.
    pub walks: Walks,
    /// Locks of the policy's own, by their numbers.
    pub locks: Placed<[Lock; LOCKS_MAX + 1]>,
}

/// Something in the visible memory, which must not be used longer than that.
///
/// No reference to it may live across a call of the policy.
#[derive(Debug)]
pub struct Placed<T: ?Sized>(NonNull<T>);

impl<T: ?Sized> Placed<T> {
    /// Where it lies.
    pub fn address(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T: ?Sized> Deref for Placed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `Visible::place` wrote a value there that nobody else owns, and the policy
        // writes only while it is called.
        unsafe { self.0.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for Placed<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { self.0.as_mut() }
    }
}

impl Placed<abi::Task> {
    /// The task's own mask, of so many words. As it is made anew each time, whoever changes it sees
    /// to it that there is no other reference.
    #[inline]
    pub fn mask(&self, words: usize) -> Placed<CpuMask> {
        mask_at(self.address().wrapping_byte_add(TASK_MASK_AT).cast(), words)
    }
}

#[inline]
fn mask_at(first: *mut u64, words: usize) -> Placed<CpuMask> {
    let bits = std::ptr::slice_from_raw_parts_mut(first, words);
    Placed(NonNull::new(bits as *mut CpuMask).expect("memory is not at 0"))
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
        self.places[at].hold(0);
    }

    /// A task has left its queue: no walk gives it any more.
    pub fn forget(&mut self, task: *mut abi::Task) {
        let mut open = self.open;
        while open != 0 {
            let walk = &mut self.places[open.trailing_zeros() as usize];
            open &= open - 1;
            let to_come = walk.place() as usize..walk.filled as usize;
            let gone = walk.chunk[to_come].iter_mut().filter(|one| **one == task);
            gone.for_each(|one| *one = std::ptr::null_mut());
        }
    }
}

impl Visible {
    /// Memory that holds nothing but the number of ticks a second, at its first address; with
    /// `has_parts` it is noted what is placed where, see [`Visible::part_at`].
    ///
    /// # Errors
    ///
    /// [`NoAddresses`] if this process may not have as many.
    pub fn new(hz: u32, nr_cpu_ids: u32, has_parts: bool) -> Result<Visible, NoAddresses> {
        let (room, memory) = Room::new(READ_ONLY_BYTES, WRITABLE_BYTES)?;
        let placed = |address| NonNull::new(room.pointer(address)).expect("memory is not at 0");
        let (facts, walks) = (Placed(placed(FACTS).cast()), Placed(placed(WALKS).cast()));
        let walks = Walks { places: walks, open: 0 };
        let parts = has_parts.then(BTreeMap::new);
        let width = MaskWidth::of(nr_cpu_ids as usize);
        let (memory, task_bytes) = (Some(memory), width.tasks().bytes);
        let locks = Placed(placed(width.locks().begin).cast());
        let mut visible = Visible { memory, room, width, task_bytes, parts, facts, walks, locks };
        let (yes, nr_cpus_max) = (1, width.cpus() as u64);
        let facts = Facts { hz, nr_cpu_ids, yes, nr_cpus_max, ..Facts::default() };
        let placed = visible.place(facts);
        visible.room.take(WALKS as usize - FACTS as usize - size_of::<Facts>(), 1, true);
        // Walks that are not open, and so have no next task.
        let none = visible.place([abi::DsqIterator::default(); WALKS_MAX]);
        assert_eq!(visible.room.address(none.address()), WALKS);
        let addresses = (WALKS..).step_by(size_of::<abi::DsqIterator>());
        visible.walks.places.iter_mut().zip(addresses).for_each(|(walk, at)| walk.lies_at(at));
        let bytes = (width.tasks_max() + 1) * task_bytes as usize;
        let tasks = visible.room.take(bytes, LINE_BYTES, true);
        assert_eq!((visible.room.address(placed.address()), tasks), (FACTS, Some(TASKS.begin)));
        let locks = visible.room.take(size_of_val(&*visible.locks), align_of::<Lock>(), true);
        assert_eq!(locks, Some(width.locks().begin));
        Ok(visible)
    }

    /// Makes nobody's of all locks, as when the policy is gone.
    pub fn forget_locks(&mut self) {
        self.locks[1..].iter_mut().take_while(|lock| lock.address != 0).for_each(|lock| {
            *lock = Lock::default();
        });
    }

    /// How wide its masks are.
    pub fn width(&self) -> MaskWidth {
        self.width
    }

    /// Gives the memory the arena of the policy that comes.
    pub fn set_arena(&mut self, arena: Option<Arena>) {
        self.memory.as_mut().expect("no machine has it").set_arena(arena);
    }

    /// The memory, for a machine that runs programs in it.
    pub fn lend(&mut self) -> Box<Memory> {
        self.memory.take().expect("one machine at a time")
    }

    /// The memory of a machine that is gone, with the policy: its variables, constant or not, the
    /// values of its maps and what else it took to write to is nobody's.
    pub fn give_back(&mut self, mut memory: Box<Memory>) {
        let first = self.room.take_back(&mut memory);
        self.parts.as_mut().map(|parts| parts.split_off(&first));
        self.memory = Some(memory);
    }

    /// Puts a structure where the policy may only read it. It is never dropped.
    ///
    /// # Panics
    ///
    /// If there is no room; all that is placed so is limited in number.
    pub fn place<T: Shown>(&mut self, value: T) -> Placed<T> {
        let place = self.room.take(size_of::<T>(), align_of::<T>(), true);
        self.put(place, value, T::PARTS)
    }

    /// The same of what has other parts, with so many bytes of 0 behind it.
    pub fn place_with<T: Copy>(&mut self, value: T, more: usize, parts: &[Part]) -> Placed<T> {
        let place = self.room.take(size_of::<T>() + more, align_of::<T>(), true);
        self.put(place, value, parts)
    }

    /// The same of what goes with the policy.
    pub fn place_for_policy<T: Shown>(&mut self, value: T) -> Placed<T> {
        let place = self.room.take_constant(size_of::<T>(), align_of::<T>());
        self.put(place, value, T::PARTS)
    }

    fn put<T>(&mut self, place: Option<u64>, value: T, parts: &[Part]) -> Placed<T> {
        let address = place.expect("room for what is limited");
        self.note_parts(address, parts);
        let place = self.room.pointer(address).cast::<T>();
        // SAFETY: the room was just taken, is large enough and aligned, since the memory begins
        // with a page and its first address too.
        unsafe { place.write(value) };
        Placed(NonNull::new(place).expect("memory is not at 0"))
    }

    /// Puts a mask of no CPU where the policy may only read it.
    ///
    /// # Panics
    ///
    /// As above.
    pub fn place_mask(&mut self, name: &'static str) -> Placed<CpuMask> {
        let bytes = self.width.bytes();
        let place = self.room.take(bytes, align_of::<u64>(), true);
        let address = place.expect("room for what is limited");
        self.note_parts(address, &[Part { offset: 0, bytes, name }]);
        mask_at(self.room.pointer(address).cast(), self.width.words())
    }

    /// Puts an idle task, whose mask holds no CPU, where the policy may only read it.
    ///
    /// # Panics
    ///
    /// As above.
    pub fn place_idle_task(&mut self, task: abi::Task) -> Placed<abi::Task> {
        let mask = self.width.bytes();
        let whole = Part { offset: 0, bytes: self.width.task_bytes(), name: "an idle task" };
        let parts = [whole, Part { offset: TASK_MASK_AT, bytes: mask, name: "a task's cpumask" }];
        self.place_with(task, mask, &parts)
    }

    /// Puts the next task, whose mask holds no CPU, where the policy may only read it.
    ///
    /// # Panics
    ///
    /// If there is no room, for more than [`MaskWidth::tasks_max`] and one.
    pub fn place_task(&mut self, task: abi::Task) -> Placed<abi::Task> {
        let number = self.facts.nr_tasks;
        assert!(number <= self.width.tasks_max() as u64, "room for a task");
        let place = self.room.pointer(self.task_address(number));
        self.facts.nr_tasks += 1;
        let place = place.cast::<abi::Task>();
        // SAFETY: room that was taken for tasks, of which this is the next.
        unsafe { place.write(task) };
        Placed(NonNull::new(place).expect("memory is not at 0"))
    }

    /// Where a task is, by the order in which they were placed.
    #[inline]
    pub fn task_address(&self, number: u64) -> u64 {
        TASKS.begin + number * self.task_bytes
    }

    /// Which task is at this address, by the order in which they were placed.
    #[inline]
    pub fn task_number(&self, address: u64) -> Option<u64> {
        let nr_tasks = self.facts.nr_tasks;
        // Two constants, so that neither needs a division.
        match self.width {
            MaskWidth::Usual => TASKS.number(address, nr_tasks),
            MaskWidth::Wide => WIDE_TASKS.number(address, nr_tasks),
        }
    }

    /// The address of a text that the policy may only read, and that stays when it goes; `None` if
    /// there is no room.
    pub fn copy_name(&mut self, name: &str) -> Option<u64> {
        let begin = self.room.take(name.len() + 1, LINE_BYTES, true);
        self.copy_into(begin, name.len() + 1, name.as_bytes())
    }

    /// The address of a copy of these bytes, which goes with the policy; `None` if there is no
    /// room.
    pub fn copy(&mut self, bytes: &[u8], read_only: bool) -> Option<u64> {
        self.copy_to(bytes.len(), bytes, read_only)
    }

    /// The address of so many bytes, the first of which are a copy of these and the others 0;
    /// `None` if there is no room.
    pub fn copy_to(&mut self, wanted: usize, bytes: &[u8], read_only: bool) -> Option<u64> {
        assert!(bytes.len() <= wanted, "{} bytes are to be {wanted}", bytes.len());
        let begin = match read_only {
            true if self.room.read_only_left() < (wanted + RESERVED_BYTES) as u64 => None,
            true => self.room.take_constant(wanted, LINE_BYTES),
            false => self.room.take(wanted, LINE_BYTES, false),
        };
        self.copy_into(begin, wanted, bytes)
    }

    fn copy_into(&mut self, begin: Option<u64>, wanted: usize, bytes: &[u8]) -> Option<u64> {
        let place = self.room.pointer(begin?);
        // SAFETY: the room was just taken and is large enough.
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.note_parts(begin?, &[Part { offset: 0, bytes: wanted, name: "a text" }]);
        begin
    }

    /// Writes bytes where a policy has room for them; `None` if they are beyond all.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        let memory = self.memory.as_mut().expect("no machine has it");
        memory.bytes_mut(address, bytes.len() as u64)?.copy_from_slice(bytes);
        Some(())
    }

    /// Puts into maps what they begin with; where that is not possible, a sentence on it.
    pub fn fill(&mut self, maps: &mut Maps, of: &Loaded, nr_cpus: usize) -> Result<(), String> {
        let Some(memory) = self.memory.as_mut().filter(|_| !of.entries.is_empty()) else {
            return Ok(());
        };
        let most = |bytes: fn(&Entry) -> usize| of.entries.iter().map(bytes).max().unwrap_or(0);
        let (keys, values) = (most(|entry| entry.key.len()), most(|entry| entry.values[0].len()));
        let key = self.room.take(keys, LINE_BYTES, false).ok_or("no room for a key")?;
        let value = self.room.take(values, LINE_BYTES, false).ok_or("no room for a value")?;
        for entry in &of.entries {
            let map = &of.object.maps[entry.map].name;
            let cpus = if maps.view(entry.map).cpu_stride > 0 { nr_cpus } else { 1 };
            if entry.values.len() != 1 && entry.values.len() != cpus {
                let nr_values = entry.values.len();
                return Err(format!("map {map} is given {nr_values} values for {cpus} CPUs"));
            }
            for (cpu, bytes) in (0..cpus).zip(entry.values.iter().cycle()) {
                for (at, bytes) in [(key, &entry.key), (value, bytes)] {
                    let place = memory.bytes_mut(at, bytes.len() as u64).expect("room taken above");
                    place.copy_from_slice(bytes);
                }
                let answer = if maps.view(entry.map).is_queue() {
                    maps.push(memory, entry.map, value, 0)
                } else {
                    maps.update((memory, &mut self.room), entry.map, (key, value), 0, cpu)
                };
                if answer != 0 {
                    let key = &entry.key;
                    return Err(format!("map {map} does not take the key {key:02x?} ({answer})"));
                }
            }
        }
        Ok(())
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
