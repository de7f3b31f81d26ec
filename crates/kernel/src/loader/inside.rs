//! What a loaded policy has inside, for whoever looks at it while it schedules.
//!
//! Variables are read where libbpf shows them in this process's memory, through the file that a
//! process has of it: other CPUs write them meanwhile. Maps are asked by system calls that change
//! nothing, not even what an LRU map forgets first.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use bytecode::{MapDefinition, Object, PAGE_BYTES, kind};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, OpenObject};
use nix::libc;
use policy::inside::{Entry, Label, Number, Place, Values};

use super::{front_end, holds_section};

/// Elements of an array, or entries of a hash, that are looked at.
const ENTRIES_MAX: u32 = 65_536;
/// Tasks of the machine that are looked at.
const TASKS_MAX: usize = 4096;
/// `BPF_F_MMAPABLE`. Source: Linux, include/uapi/linux/bpf.h.
const MMAPABLE: u32 = 1 << 10;
/// In /proc/self/pagemap, that a page is there. Source: Linux,
/// Documentation/admin-guide/mm/pagemap.rst.
const PRESENT: u64 = 1 << 63;
/// `PF_KTHREAD`. Source: Linux, include/linux/sched.h.
const KERNEL_THREAD: u64 = 0x20_0000;
/// `PIDFD_THREAD`, since Linux 6.9. Source: Linux, include/uapi/linux/pidfd.h.
const PIDFD_THREAD: i32 = libc::O_EXCL;

/// What is known of an object before it is loaded.
#[derive(Debug, Default)]
pub(super) struct Origin {
    image: Vec<u8>,
    /// Maps that are sections of variables, and where they are in this process.
    sections: Vec<(OsString, u64)>,
}

impl Origin {
    /// Of an object that is about to be loaded, which leaves its sections where they are.
    pub fn of(image: Vec<u8>, opened: &OpenObject) -> Origin {
        // Others go from this process when they are loaded, such as those of pointers that the
        // kernel counts.
        let is_section = |map: &libbpf_rs::OpenMap<'_>| {
            map.map_flags() & MMAPABLE != 0 && map.map_type() != MapType::Arena
        };
        let begin = |map: libbpf_rs::OpenMap<'_>| {
            Some((map.name().to_owned(), map.initial_value()?.as_ptr().addr() as u64))
        };
        let sections = opened.maps().filter(is_section).filter_map(begin).collect();
        Origin { image, sections }
    }
}

/// A policy that one looks into.
#[derive(Debug)]
pub struct Inside {
    /// What it is.
    pub object: Object,
    /// By the numbers of its maps.
    maps: Vec<Option<MapHandle>>,
    /// Where its sections are in this process, by their numbers.
    sections: Vec<Option<u64>>,
    /// This process's memory.
    memory: File,
    nr_cpus: usize,
}

impl Inside {
    /// Of an object with this origin, and the maps that were made of it.
    pub(super) fn new(
        origin: &Origin,
        loaded: &libbpf_rs::Object,
        nr_cpus: usize,
    ) -> Result<Inside, String> {
        let plan = front_end::of_object(&origin.image).map_err(|error| error.to_string())?;
        let object = match plan {
            Some(plan) => plan.object,
            None => Object::read(&origin.image).map_err(|error| error.to_string())?,
        };
        let handle = |map: &MapDefinition| {
            let found = loaded.maps().find(|one| one.name() == map.name.as_str())?;
            MapHandle::try_from(&found).ok()
        };
        let maps = object.maps.iter().map(handle).collect();
        let begin = |data: &bytecode::Data| {
            if data.is_of_arena() {
                return in_arena(&object, data.len as u64, &origin.sections);
            }
            let mut all = origin.sections.iter();
            all.find(|(map, _)| holds_section(map, &data.name)).map(|&(_, begin)| begin)
        };
        let sections = object.data.iter().map(begin).collect();
        let memory = File::open("/proc/self/mem").map_err(|error| error.to_string())?;
        Ok(Inside { object, maps, sections, memory, nr_cpus })
    }

    /// A number now; none where no value is. `thread` says which thread a task is.
    pub fn number(&self, number: &Number, thread: impl FnOnce(i64) -> Option<i32>) -> Option<i128> {
        let spot = &number.spot;
        let value = match &number.place {
            Place::Variable(section, offset) => {
                let bytes = self.variable(*section, offset + spot.offset, spot.bytes)?;
                return Some(spot.number(&bytes));
            }
            Place::Entry { map, key, cpu } => {
                self.values(*map, key)?.into_iter().nth(*cpu as usize)
            }
            Place::Task { map, pid } => {
                let thread = pidfd(thread(*pid)?)?;
                self.values(*map, &thread.as_raw_fd().to_ne_bytes())?.into_iter().next()
            }
        }?;
        let range = spot.offset as usize..(spot.offset + spot.bytes) as usize;
        value.get(range).map(|bytes| spot.number(bytes))
    }

    /// The value of a key, or those of all CPUs.
    fn values(&self, map: usize, key: &[u8]) -> Option<Vec<Vec<u8>>> {
        let handle = self.maps[map].as_ref()?;
        if handle.map_type().is_percpu() {
            return handle.lookup_percpu(key, MapFlags::ANY).ok()?;
        }
        Some(vec![handle.lookup(key, MapFlags::ANY).ok()??])
    }

    /// A key's values as entries.
    fn of_key(&self, map: usize, key: &[u8], label: &Label<'static>) -> Vec<Entry<'static>> {
        let values = self.values(map, key).unwrap_or_default();
        let has_several = values.len() > 1 && self.nr_cpus > 1;
        let entry = |(cpu, value): (usize, Vec<u8>)| Entry {
            label: label.clone(),
            cpu: has_several.then_some(cpu),
            value: Some(value.into()),
        };
        values.into_iter().take(self.nr_cpus).enumerate().map(entry).collect()
    }

    /// The keys of a hash in their order; it may change meanwhile.
    fn keys(&self, map: usize) -> Vec<Vec<u8>> {
        let Some(handle) = &self.maps[map] else { return vec![] };
        let keys: BTreeMap<_, ()> =
            handle.keys().take(ENTRIES_MAX as usize).map(|key| (key, ())).collect();
        keys.into_keys().collect()
    }
}

impl Values for Inside {
    fn variable(&self, section: usize, offset: u64, bytes: u64) -> Option<Cow<'_, [u8]>> {
        let mut read = vec![0; usize::try_from(bytes).ok()?];
        self.memory.read_exact_at(&mut read, self.sections[section]? + offset).ok()?;
        Some(read.into())
    }

    fn nr_entries(&self, map: usize) -> Option<u64> {
        match self.object.maps[map].kind {
            kind::ARRAY | kind::PERCPU_ARRAY => Some(self.maps[map].as_ref()?.max_entries().into()),
            of if kind::is_hash(of) => Some(self.keys(map).len() as u64),
            _ => None,
        }
    }

    fn entries(&self, map: usize) -> Box<dyn Iterator<Item = Entry<'_>> + '_> {
        let Some(handle) = &self.maps[map] else { return Box::new(std::iter::empty()) };
        match self.object.maps[map].kind {
            kind::ARRAY | kind::PERCPU_ARRAY => {
                let numbers = 0..handle.max_entries().min(ENTRIES_MAX);
                Box::new(numbers.flat_map(move |number| {
                    self.of_key(map, &number.to_ne_bytes(), &Label::Number(number))
                }))
            }
            // Without taking it out, a kernel gives the next value alone.
            kind::QUEUE | kind::STACK => Box::new(self.of_key(map, &[], &Label::Next).into_iter()),
            kind::TASK_STORAGE => Box::new(tasks().into_iter().flat_map(move |task| {
                let Some(fd) = pidfd(task.tid) else { return vec![] };
                let label = Label::Owner(format!("{}[{}]", task.name, task.tid));
                self.of_key(map, &fd.as_raw_fd().to_ne_bytes(), &label)
            })),
            of if kind::is_hash(of) => Box::new(self.keys(map).into_iter().flat_map(move |key| {
                let label = Label::Bytes(key.clone().into());
                self.of_key(map, &key, &label)
            })),
            _ => Box::new(std::iter::empty()),
        }
    }

    /// The kernel does not tell what its addresses mean.
    fn name_of(&self, _address: u64) -> Option<String> {
        None
    }
}

/// Where an arena's variables of so many bytes are in this process: libbpf puts them on its last
/// pages, or, for kernels that address them otherwise, on its first. Nobody has touched others. A
/// section of other variables may be as large as the arena.
fn in_arena(object: &Object, bytes: u64, sections: &[(OsString, u64)]) -> Option<u64> {
    let arena = object.maps.iter().find(|map| map.kind == kind::ARENA)?;
    let size = u64::from(arena.entries_max) * PAGE_BYTES;
    let mappings = front_end::shared_maps().ok()?;
    let is_section = |begin| sections.iter().any(|&(_, section)| section == begin);
    let is_arena = |&(begin, end): &(u64, u64)| end - begin == size && !is_section(begin);
    let (begin, end) = mappings.into_iter().find(is_arena)?;
    let last = end - bytes.next_multiple_of(PAGE_BYTES).min(size);
    [last, begin].into_iter().find(|&address| is_there(address) == Some(true))
}

/// Whether this process has ever touched the page at an address.
fn is_there(address: u64) -> Option<bool> {
    let mut entry = [0; 8];
    let pages = File::open("/proc/self/pagemap").ok()?;
    pages.read_exact_at(&mut entry, address / PAGE_BYTES * 8).ok()?;
    Some(u64::from_ne_bytes(entry) & PRESENT != 0)
}

struct Task {
    tid: i32,
    name: String,
    is_of_kernel: bool,
}

/// All tasks by their pids, the kernel's own last.
fn tasks() -> Vec<Task> {
    let threads =
        numbers("/proc").into_iter().flat_map(|pid| numbers(&format!("/proc/{pid}/task")));
    let mut tasks: Vec<Task> = threads.take(TASKS_MAX).filter_map(task).collect();
    tasks.sort_by_key(|task| (task.is_of_kernel, task.tid));
    tasks
}

fn numbers(directory: &str) -> Vec<i32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Source: proc_pid_stat(5): name in brackets, state, five numbers, flags.
fn task(tid: i32) -> Option<Task> {
    let stat = fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
    let (front, rest) = stat.rsplit_once(") ")?;
    let flags: u64 = rest.split(' ').nth(6)?.parse().ok()?;
    let name = front.split_once(" (")?.1.to_owned();
    Some(Task { tid, name, is_of_kernel: flags & KERNEL_THREAD != 0 })
}

/// What stands for a thread where a kernel asks for one.
fn pidfd(tid: i32) -> Option<OwnedFd> {
    // SAFETY: the call takes two numbers and gives a descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, tid, PIDFD_THREAD) };
    let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0)?;
    // SAFETY: the descriptor is open, and nobody else has it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_found_and_named() {
        let own = std::process::id() as i32;
        let found = tasks();
        let name = fs::read_to_string("/proc/self/comm").unwrap();
        let this = found.iter().find(|task| task.tid == own).unwrap();
        assert_eq!((this.name.as_str(), this.is_of_kernel), (name.trim(), false));
        assert!(pidfd(own).is_some());
    }
}
