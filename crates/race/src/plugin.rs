//! Plug-ins: anybody's queues in C or C++ take part.
//!
//! A plug-in is a shared object that exports a version and a list of records; the header
//! `schedlab_race.h` beside this crate describes them. What a plug-in does is not confined: it is
//! code of this process, and its order is verified but not its use of memory.

mod compile;

pub use compile::compile;

use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use runqueue::hold::{Increments, Random};

use crate::RaceError;
use crate::raced::{Raced, increment};

/// The version of the interface.
pub const ABI: u32 = 1;
/// The most queues of a plug-in; a list without an end is seen here.
const QUEUES_MAX: usize = 256;
/// The longest name of a queue: a table has room for it beside a time.
const NAME_MAX: usize = 40;
/// What a name may have beside letters and digits.
const NAME_MARKS: &str = "_-.:+";

type Create = unsafe extern "C" fn(u32) -> *mut c_void;
type Destroy = unsafe extern "C" fn(*mut c_void);
type Push = unsafe extern "C" fn(*mut c_void, u32, u64);
type Pop = unsafe extern "C" fn(*mut c_void) -> i64;
type Remove = unsafe extern "C" fn(*mut c_void, u32);
type KeyOf = unsafe extern "C" fn(*const c_void, u32) -> u64;
type MemoryBytes = unsafe extern "C" fn(*const c_void) -> u64;
type Hold = unsafe extern "C" fn(*mut c_void, *const u64, *const u64, u64, u64);
type HoldAndRemove =
    unsafe extern "C" fn(*mut c_void, u32, *const u64, *const u64, u64, u64, *mut u64);

/// `struct schedlab_race_queue`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawRecord {
    name: *const c_char,
    exact: u32,
    can_remove: u32,
    create: Option<Create>,
    destroy: Option<Destroy>,
    push: Option<Push>,
    pop: Option<Pop>,
    remove: Option<Remove>,
    key: Option<KeyOf>,
    memory_bytes: Option<MemoryBytes>,
    hold: Option<Hold>,
    hold_and_remove: Option<HoldAndRemove>,
}

/// A queue's functions, none of those missing that it must have.
#[derive(Clone, Copy)]
struct Functions {
    create: Create,
    destroy: Destroy,
    push: Push,
    pop: Pop,
    remove: Option<Remove>,
    key: KeyOf,
    memory_bytes: MemoryBytes,
    hold: Option<Hold>,
    hold_and_remove: Option<HoldAndRemove>,
}

/// A kind of queue that a plug-in offers.
#[derive(Clone)]
pub struct Record {
    name: String,
    exact: bool,
    path: PathBuf,
    functions: Functions,
    /// The functions are there as long as this is.
    library: Arc<Library>,
}

impl Record {
    /// Its name in tables.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it promises exact order.
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// Whether it can remove.
    pub fn can_remove(&self) -> bool {
        self.functions.remove.is_some()
    }

    /// "plugin:" and the name of the file that its author knows.
    pub fn source(&self) -> String {
        let named = compile::source_of(&self.path);
        let file = named.file_name().unwrap_or(named.as_os_str());
        format!("plugin:{}", file.to_string_lossy())
    }
}

/// The queues of the shared object at `path`.
///
/// # Errors
///
/// [`RaceError::Plugin`] if it cannot be loaded, is of another version, or has a queue that lacks
/// something.
pub fn load(path: &Path) -> Result<Vec<Record>, RaceError> {
    let refused =
        |problem: String, hint| RaceError::Plugin { path: compile::source_of(path), problem, hint };
    // A name without a slash would be looked for among the system's libraries.
    let file = path.canonicalize().map_err(|cause| RaceError::Io {
        action: "read",
        path: path.to_owned(),
        cause,
    })?;
    // Everything that it calls must be there now and not in the midst of a race.
    let flags = RTLD_NOW | RTLD_LOCAL;
    // SAFETY: loading runs the object's constructors, which its user has asked for.
    let library = unsafe { Library::open(Some(&file), flags) }.map_err(|error| {
        // The loader's own words, such as the symbol that is missing, are in the cause.
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        let hint = "a plug-in is a shared object: build it with -shared -fPIC";
        refused(cause.unwrap_or_else(|| error.to_string()), hint)
    })?;
    // SAFETY: the header declares the version as a u32 and the list as pointers to records up to
    // a null one; the library is there while the symbols are.
    let records = unsafe {
        let missing = |_| {
            let problem = "it does not export schedlab_race_abi and schedlab_race_queues";
            refused(
                problem.to_owned(),
                "include schedlab_race.h and define both; in C++ the \
                header makes them extern \"C\"",
            )
        };
        let abi = **library.get::<*const u32>(b"schedlab_race_abi\0").map_err(missing)?;
        if abi != ABI {
            let problem = format!("it is of version {abi} of the interface, and this is {ABI}");
            return Err(refused(problem, "build it again with the header of this version"));
        }
        let list =
            library.get::<*const *const RawRecord>(b"schedlab_race_queues\0").map_err(missing)?;
        let records = (0..QUEUES_MAX).map(|place| *list.add(place));
        records.take_while(|record| !record.is_null()).map(|record| *record).collect::<Vec<_>>()
    };
    if records.is_empty() || records.len() == QUEUES_MAX {
        let problem = format!("its list has {} queues, or no end", records.len());
        return Err(refused(problem, "schedlab_race_queues ends with NULL behind the last queue"));
    }
    let library = Arc::new(library);
    let complete = |raw: RawRecord| {
        complete(raw, path, &library).map_err(|problem| {
            refused(
                problem,
                "what a queue must have is in schedlab_race.h; only remove, hold and \
                hold_and_remove may be NULL",
            )
        })
    };
    records.into_iter().map(complete).collect()
}

/// The record with everything checked that can be checked, or what it lacks.
fn complete(raw: RawRecord, path: &Path, library: &Arc<Library>) -> Result<Record, String> {
    if raw.name.is_null() {
        return Err("a queue has no name".to_owned());
    }
    // SAFETY: the header declares the name as a C string of the object.
    let name = unsafe { CStr::from_ptr(raw.name) }.to_string_lossy().into_owned();
    if !is_fit_for_tables(&name) {
        return Err(format!(
            "its queue {name:?} has a name that no table can show: 1 to {NAME_MAX} letters, \
             digits or any of {NAME_MARKS} will do"
        ));
    }
    let lacks = |function: &str| format!("its queue {name} has no {function}");
    let functions = Functions {
        create: raw.create.ok_or_else(|| lacks("create"))?,
        destroy: raw.destroy.ok_or_else(|| lacks("destroy"))?,
        push: raw.push.ok_or_else(|| lacks("push"))?,
        pop: raw.pop.ok_or_else(|| lacks("pop"))?,
        remove: raw.remove.filter(|_| raw.can_remove != 0),
        key: raw.key.ok_or_else(|| lacks("key"))?,
        memory_bytes: raw.memory_bytes.ok_or_else(|| lacks("memory_bytes"))?,
        hold: raw.hold,
        hold_and_remove: raw.hold_and_remove,
    };
    if raw.can_remove != 0 && raw.remove.is_none() {
        return Err(lacks("remove, but says can_remove = 1"));
    }
    let library = Arc::clone(library);
    Ok(Record { name, exact: raw.exact != 0, path: path.to_owned(), functions, library })
}

/// Whether a name is a word in a terminal's table, on a page, and on a command line.
fn is_fit_for_tables(name: &str) -> bool {
    let fits = |mark: char| mark.is_ascii_alphanumeric() || NAME_MARKS.contains(mark);
    (1..=NAME_MAX).contains(&name.len()) && name.chars().all(fits)
}

/// A queue of a plug-in.
///
/// Hold, hold_remove and cold run in the plug-in's own loops if it has them; every other operation
/// is a call through a pointer, some ticks more than an entrant pays that is compiled in.
pub struct Plugged {
    queue: *mut c_void,
    functions: Functions,
    /// Keeps the functions; dropped after the queue.
    _library: Arc<Library>,
}

impl Plugged {
    /// An empty queue for items `0..capacity`.
    ///
    /// # Errors
    ///
    /// [`RaceError::NoMemory`] if the plug-in makes none.
    pub fn new(record: &Record, capacity: u32) -> Result<Self, RaceError> {
        let functions = record.functions;
        // SAFETY: the header says that create takes any capacity.
        let queue = unsafe { (functions.create)(capacity) };
        if queue.is_null() {
            return Err(RaceError::NoMemory { structure: record.name.clone(), capacity });
        }
        Ok(Plugged { queue, functions, _library: Arc::clone(&record.library) })
    }
}

impl Drop for Plugged {
    fn drop(&mut self) {
        // SAFETY: create made it, and nobody has it any more.
        unsafe { (self.functions.destroy)(self.queue) }
    }
}

fn slowness(increments: &Increments) -> *const u64 {
    increments.slowness().map_or(std::ptr::null(), |slowness| slowness.as_ptr())
}

impl Raced for Plugged {
    #[inline(always)]
    fn push(&mut self, item: u32, key: u64) {
        // SAFETY: the race pushes items below the capacity that are not queued.
        unsafe { (self.functions.push)(self.queue, item, key) }
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<u32> {
        // SAFETY: create made the queue.
        let item = unsafe { (self.functions.pop)(self.queue) };
        // What is neither an item nor -1 is no item of this race, which whoever checks order sees.
        (item >= 0).then(|| u32::try_from(item).unwrap_or(u32::MAX))
    }

    #[inline(always)]
    fn remove(&mut self, item: u32) {
        let Some(remove) = self.functions.remove else {
            unreachable!("who cannot remove is not asked to");
        };
        // SAFETY: the race removes queued items only.
        unsafe { remove(self.queue, item) }
    }

    #[inline(always)]
    fn key(&self, item: u32) -> u64 {
        // SAFETY: the race asks for the keys of items below the capacity.
        unsafe { (self.functions.key)(self.queue, item) }
    }

    fn memory_bytes(&self) -> u64 {
        // SAFETY: create made the queue.
        unsafe { (self.functions.memory_bytes)(self.queue) }
    }

    #[inline(always)]
    fn hold(&mut self, increments: &Increments, round: u64, loops: u64) {
        if let Some(hold) = self.functions.hold {
            let table = increments.table().as_ptr();
            // SAFETY: both tables have the lengths that the header gives.
            unsafe { hold(self.queue, table, slowness(increments), round, loops) };
            return;
        }
        for round in round..round + loops {
            let Some(item) = self.pop() else { return };
            let key = self.key(item).wrapping_add(increment(increments, round, item));
            self.push(item, key);
        }
    }

    #[inline(always)]
    fn hold_and_remove(
        &mut self,
        items: u32,
        increments: &Increments,
        round: u64,
        loops: u64,
        random: &mut Random,
    ) {
        if let Some(hold_and_remove) = self.functions.hold_and_remove {
            let table = increments.table().as_ptr();
            let slowness = slowness(increments);
            let mut state = random.state();
            let queue = self.queue;
            // SAFETY: as in `hold`; all of `items` are queued, and the state outlives the call.
            unsafe { hold_and_remove(queue, items, table, slowness, round, loops, &mut state) };
            *random = Random::new(state);
            return;
        }
        for round in round..round + loops {
            self.hold(increments, round, 1);
            let sleeper = random.below(u64::from(items)) as u32;
            let key = self.key(sleeper);
            self.remove(sleeper);
            self.push(sleeper, key);
        }
    }
}
