//! What a kernel's scheduler did, recorded by its own tracepoints.
//!
//! A [`Recorder`] makes an instance of tracefs for itself, so that nobody else's tracing is
//! disturbed, lets the kernel write its scheduling events into one buffer a CPU, and reads the
//! buffers only when the recording is over: nothing of ours runs meanwhile. [`Schedule`] turns
//! the events into what the simulator reports.
//!
//! Sources: Linux Documentation/trace/ftrace.rst (files and clocks) and
//! Documentation/trace/ring-buffer-design.rst.

mod format;
mod play;
mod ring;
mod run_queues;
mod schedule;
mod text;

pub use play::{RecordError, record_play};
pub use run_queues::{QueueOperation, QueueRecord};
pub use schedule::{Schedule, Stay, TaskSchedule, Wakeup};
pub use text::{TextError, TextTrace};

use format::{Field, Layout};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Something that the scheduler did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, on `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// The CPU that wrote it.
    pub cpu: u32,
    /// What.
    pub kind: Kind,
}

/// What the scheduler did. Tasks are named by the kernel's pid, that is, their thread id; 0 is a
/// CPU's idle task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The CPU goes from one task to another.
    Switch {
        /// The task that leaves.
        previous: i32,
        /// Whether it blocked, slept or ended; else it could have gone on.
        voluntarily: bool,
        /// The task that comes.
        next: i32,
    },
    /// A task has become runnable.
    Wakeup {
        /// The task.
        task: i32,
        /// The CPU that it is to wait for.
        target_cpu: u32,
        /// Whether it was forked and never ran.
        is_new: bool,
    },
    /// A task was made.
    Fork {
        /// The maker.
        parent: i32,
        /// The new task.
        child: i32,
    },
    /// A task ends; its last switch is still to come.
    Exit {
        /// The task.
        task: i32,
    },
    /// A task was moved to another CPU's queue.
    Migrate {
        /// The task.
        task: i32,
        /// From this CPU.
        from: u32,
        /// To this one.
        to: u32,
    },
}

/// A recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Events by time; those of one CPU in the order in which it wrote them.
    pub events: Vec<Event>,
    /// CPUs of the machine.
    pub nr_cpus: u32,
    /// Events that did not fit into the buffers; if not 0, the recording ends early on some CPU.
    pub lost: u64,
}

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// There is no tracefs.
    #[error(
        "no tracefs in {}\nhint: as root, mount -t tracefs nodev /sys/kernel/tracing",
        PLACES.join(" or ")
    )]
    NotMounted,
    /// A file of tracefs could not be used.
    #[error("cannot use {}: {source}\nhint: tracing needs root and a kernel with CONFIG_FTRACE",
        path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A format or a buffer is not what its documentation says.
    #[error("{}: {problem}\nhint: this kernel's tracing is not known; please report its release",
        path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// Where tracefs may be mounted.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Events that are recorded, and how each is read.
const EVENTS: [(&str, Reader); 6] = [
    ("sched_switch", read_switch),
    ("sched_wakeup", read_wakeup),
    ("sched_wakeup_new", read_wakeup_new),
    ("sched_process_fork", read_fork),
    ("sched_process_exit", read_exit),
    ("sched_migrate_task", read_migrate),
];

type Reader = fn(&Layout, &[u8]) -> Option<Kind>;

/// `O_NONBLOCK` of Linux on x86 and ARM.
const O_NONBLOCK: i32 = 0o4000;

/// A recording in progress. Dropping it ends the recording and removes its instance.
#[derive(Debug)]
pub struct Recorder {
    instance: PathBuf,
    nr_cpus: u32,
    /// Of the buffers of an instance that stays; else it goes with this.
    stays_with_kib: Option<u32>,
}

/// An instance with buffers of so many KiB that waits for a recording, see [`Recorder::prepare`].
#[derive(Debug)]
struct Prepared {
    instance: PathBuf,
    nr_cpus: u32,
    kib_per_cpu: u32,
    is_empty: bool,
}

static PREPARED: Mutex<Option<Prepared>> = Mutex::new(None);

/// Attempts to remove an instance, and what lies between them: 2 s in all.
const REMOVALS_MAX: u32 = 100;
const BETWEEN_REMOVALS: Duration = Duration::from_millis(20);

/// Tells apart the recordings of one process.
static NR_RECORDERS: AtomicU32 = AtomicU32::new(0);

impl Recorder {
    /// Begins to record into buffers of `kib_per_cpu` KiB; an event takes about 60 bytes, and
    /// when a buffer is full what comes later is lost.
    ///
    /// # Errors
    /// If there is no tracefs or it refuses (without root it does).
    pub fn start(kib_per_cpu: u32) -> Result<Recorder, TraceError> {
        let ready = prepared().take_if(|ready| ready.kib_per_cpu >= kib_per_cpu);
        let recorder = match ready {
            Some(Prepared { instance, nr_cpus, kib_per_cpu, is_empty }) => {
                let recorder = Recorder { instance, nr_cpus, stays_with_kib: Some(kib_per_cpu) };
                if !is_empty {
                    recorder.write("trace", "")?;
                }
                recorder
            }
            None => Recorder::make(kib_per_cpu)?,
        };
        recorder.write("tracing_on", "1")?;
        Ok(recorder)
    }

    /// Does all that takes long about recordings into buffers of up to `kib_per_cpu` KiB before
    /// their time. Their memory stays taken until this process ends.
    ///
    /// # Errors
    /// As [`Recorder::start`].
    pub fn prepare(kib_per_cpu: u32) -> Result<(), TraceError> {
        let mut recorder = Recorder::make(kib_per_cpu)?;
        recorder.put_back(kib_per_cpu, true);
        std::mem::forget(recorder);
        Ok(())
    }

    /// An instance that is ready to record.
    fn make(kib_per_cpu: u32) -> Result<Recorder, TraceError> {
        let root = PLACES.iter().map(Path::new).find(|place| place.join("instances").is_dir());
        let root = root.ok_or(TraceError::NotMounted)?;
        let number = NR_RECORDERS.fetch_add(1, Ordering::Relaxed);
        let instance =
            root.join("instances").join(format!("schedlab-{}-{number}", std::process::id()));
        fs::create_dir(&instance).map_err(|source| file_error(&instance, source))?;
        // From here on `drop` removes the instance.
        let mut recorder = Recorder { instance, nr_cpus: 0, stays_with_kib: None };
        recorder.nr_cpus = recorder.count_cpus()?;
        recorder.write("tracing_on", "0")?;
        recorder.write("trace_clock", "mono")?;
        recorder.write("buffer_size_kb", &kib_per_cpu.to_string())?;
        recorder.write("options/overwrite", "0")?;
        for (event, _) in EVENTS {
            recorder.write(&format!("events/sched/{event}/enable"), "1")?;
        }
        Ok(recorder)
    }

    /// The recording's own directory in tracefs.
    pub fn instance(&self) -> &Path {
        &self.instance
    }

    /// Ends the recording and reads it.
    ///
    /// # Errors
    /// If tracefs fails or is not as documented.
    pub fn stop(self) -> Result<Trace, TraceError> {
        self.write("tracing_on", "0")?;
        let header = self.read("events/header_page")?;
        let page = format::page_layout(&header)
            .ok_or_else(|| self.unknown("events/header_page", "no commit or data in it".into()))?;
        let mut readers = Vec::new();
        for (event, reader) in EVENTS {
            let file = format!("events/sched/{event}/format");
            let layout = Layout::parse(&self.read(&file)?)
                .ok_or_else(|| self.unknown(&file, "no ID or no fields in it".into()))?;
            readers.push((layout, reader));
        }
        let mut trace = Trace { nr_cpus: self.nr_cpus, ..Trace::default() };
        for cpu in 0..self.nr_cpus {
            self.read_cpu(cpu, &page, &readers, &mut trace)?;
        }
        // Stable: what one CPU wrote in one nanosecond keeps its order.
        trace.events.sort_by_key(|event| event.at_ns);
        Ok(trace)
    }

    fn read_cpu(
        &self,
        cpu: u32,
        page: &format::PageLayout,
        readers: &[(Layout, Reader)],
        trace: &mut Trace,
    ) -> Result<(), TraceError> {
        let name = format!("per_cpu/cpu{cpu}/trace_pipe_raw");
        let path = self.instance.join(&name);
        let failed = |source| file_error(&path, source);
        let mut file = fs::OpenOptions::new()
            .read(true)
            .custom_flags(O_NONBLOCK)
            .open(&path)
            .map_err(failed)?;
        let mut bytes = vec![0; page.size];
        loop {
            let filled = match file.read(&mut bytes) {
                Ok(0) => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other.map_err(failed)?,
            };
            ring::read_page(&bytes[..filled], page, |at_ns, data| {
                let id = Field { offset: 0, size: 2 }.unsigned(data).unwrap_or(0);
                let found = readers.iter().find(|(layout, _)| layout.id == id);
                if let Some(kind) = found.and_then(|(layout, reader)| reader(layout, data)) {
                    trace.events.push(Event { at_ns, cpu, kind });
                }
            })
            .map_err(|problem| self.unknown(&name, problem))?;
        }
        let stats = self.read(&format!("per_cpu/cpu{cpu}/stats"))?;
        for line in stats.lines() {
            if let Some((what, count)) = line.split_once(": ")
                && ["overrun", "commit overrun", "dropped events"].contains(&what)
            {
                trace.lost += count.trim().parse::<u64>().unwrap_or(0);
            }
        }
        Ok(())
    }

    fn put_back(&mut self, kib_per_cpu: u32, is_empty: bool) {
        let (instance, nr_cpus) = (std::mem::take(&mut self.instance), self.nr_cpus);
        *prepared() = Some(Prepared { instance, nr_cpus, kib_per_cpu, is_empty });
    }

    fn count_cpus(&self) -> Result<u32, TraceError> {
        let per_cpu = self.instance.join("per_cpu");
        let entries = fs::read_dir(&per_cpu).map_err(|source| file_error(&per_cpu, source))?;
        let numbers = entries.flatten().filter_map(|entry| {
            entry.file_name().to_string_lossy().strip_prefix("cpu")?.parse::<u32>().ok()
        });
        Ok(numbers.max().map_or(0, |last| last + 1))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), TraceError> {
        let path = self.instance.join(name);
        fs::write(&path, text).map_err(|source| file_error(&path, source))
    }

    /// Reads a file of the instance, or of tracefs where instances have none.
    fn read(&self, name: &str) -> Result<String, TraceError> {
        let own = self.instance.join(name);
        let shared = self.instance.join("../..").join(name);
        let path = if own.exists() { own } else { shared };
        read_at_once(&path).map_err(|source| file_error(&path, source))
    }

    fn unknown(&self, name: &str, problem: String) -> TraceError {
        TraceError::Unknown { path: self.instance.join(name), problem }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Nothing can be done about what fails here, and all of it is gone with the next boot.
        let _ = self.write("tracing_on", "0");
        if let Some(kib_per_cpu) = self.stays_with_kib.take() {
            self.put_back(kib_per_cpu, false);
            return;
        }
        let _ = self.write("events/enable", "0");
        // A process that another thread forked meanwhile may hold one of our files for a while.
        for _ in 0..REMOVALS_MAX {
            if fs::remove_dir(&self.instance).is_ok() || !self.instance.exists() {
                return;
            }
            std::thread::sleep(BETWEEN_REMOVALS);
        }
    }
}

fn prepared() -> MutexGuard<'static, Option<Prepared>> {
    PREPARED.lock().expect("nobody panics while it is held")
}

/// The text of a file of tracefs. Some of these files give all they have to the first read, however
/// little that asks for, so reads must be large.
fn read_at_once(path: &Path) -> io::Result<String> {
    const READ_BYTES: usize = 64 << 10;
    let mut file = fs::File::open(path)?;
    let mut text = Vec::new();
    let mut part = vec![0; READ_BYTES];
    loop {
        match file.read(&mut part)? {
            0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
            filled => text.extend_from_slice(&part[..filled]),
        }
    }
}

fn file_error(path: &Path, source: io::Error) -> TraceError {
    TraceError::File { path: path.to_path_buf(), source }
}

// ---- the events ---------------------------------------------------------------------------------

/// Bits of a `prev_state` that mean blocked, stopped or dead; the next one says preempted.
/// Source: Linux include/linux/sched.h, `TASK_REPORT`, and trace/events/sched.h.
const NOT_RUNNABLE: u64 = 0xff;

fn number(layout: &Layout, data: &[u8], field: &str) -> Option<i32> {
    Some(layout.field(field)?.unsigned(data)? as i32)
}

fn cpu(layout: &Layout, data: &[u8], field: &str) -> Option<u32> {
    u32::try_from(number(layout, data, field)?).ok()
}

fn read_switch(layout: &Layout, data: &[u8]) -> Option<Kind> {
    Some(Kind::Switch {
        previous: number(layout, data, "prev_pid")?,
        voluntarily: layout.field("prev_state")?.unsigned(data)? & NOT_RUNNABLE != 0,
        next: number(layout, data, "next_pid")?,
    })
}

fn read_wakeup(layout: &Layout, data: &[u8]) -> Option<Kind> {
    let task = number(layout, data, "pid")?;
    Some(Kind::Wakeup { task, target_cpu: cpu(layout, data, "target_cpu")?, is_new: false })
}

fn read_wakeup_new(layout: &Layout, data: &[u8]) -> Option<Kind> {
    let task = number(layout, data, "pid")?;
    Some(Kind::Wakeup { task, target_cpu: cpu(layout, data, "target_cpu")?, is_new: true })
}

fn read_fork(layout: &Layout, data: &[u8]) -> Option<Kind> {
    let parent = number(layout, data, "parent_pid")?;
    Some(Kind::Fork { parent, child: number(layout, data, "child_pid")? })
}

fn read_exit(layout: &Layout, data: &[u8]) -> Option<Kind> {
    Some(Kind::Exit { task: number(layout, data, "pid")? })
}

fn read_migrate(layout: &Layout, data: &[u8]) -> Option<Kind> {
    let task = number(layout, data, "pid")?;
    let (from, to) = (cpu(layout, data, "orig_cpu")?, cpu(layout, data, "dest_cpu")?);
    Some(Kind::Migrate { task, from, to })
}
