//! What comes back from a kernel, one JSON object a line.
//!
//! A guest sends these lines over a port of its virtual machine; `schedlab-guest load` writes
//! them to its output. Lines that are not JSON objects with a `record` are console noise (firmware
//! and kernel messages) and are skipped by [`parse`].

use std::collections::BTreeMap;

use benchmarks::Played;
use serde::{Deserialize, Serialize};

use crate::trace::Schedule;
use crate::ways_out::way_out;

/// Name of a virtual machine's port that records go through, in `/sys/class/virtio-ports/*/name`.
pub const PORT_NAME: &str = "schedlab";

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// The guest's first process runs.
    Booted(Booted),
    /// The policy schedules the machine.
    Attached(Attached),
    /// The kernel did not take the policy.
    Refused(Refused),
    /// The kernel ended the policy by itself and went back to its own scheduler.
    Ejected(Exit),
    /// The kernel ended the policy because a CPU came or went, and asked for it once more: it is
    /// loaded again.
    Restarted(Exit),
    /// The policy ended because we asked for it.
    Detached(Exit),
    /// A piece of work begins.
    Started {
        /// Its place in the job's list.
        index: usize,
        /// What it is, for messages.
        title: String,
        /// Nanoseconds since the kernel's start.
        at_ns: u64,
    },
    /// A piece of work ended.
    Finished(Finished),
    /// Files were read.
    Files(Files),
    /// A workload was played to its end.
    Played(Box<Play>),
    /// What was followed of a policy during a play.
    Watched {
        /// In the order in which they were asked for.
        numbers: Vec<Watched>,
    },
    /// What a policy was like.
    Dumped(Dumped),
    /// What the scheduler did lately.
    Counters(Counters),
    /// What policies printed since the machine was switched on.
    Printed(Printed),
    /// Something failed that is not the kernel's verdict on the policy.
    Error {
        /// What failed, with its value and place.
        message: String,
    },
    /// Nothing more comes. A guest that ends without it was cut off.
    Done {
        /// Nanoseconds since the kernel's start.
        at_ns: u64,
    },
}

/// A number of a policy's that was looked at again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// As it was asked for.
    pub expression: String,
    /// Its type in C.
    #[serde(rename = "type")]
    pub type_name: String,
    /// When it was first seen with a number, in nanoseconds since the kernel's start, and the
    /// number; none where no value is.
    pub samples: Vec<(u64, Option<serde_json::Number>)>,
    /// Changes that were seen later and are not among them.
    pub nr_left_out: u64,
}

/// The state of a policy and of all that it schedules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dumped {
    /// The time for which it was asked for, from the play's time 0 on; none at the end.
    pub asked_at_ns: Option<u64>,
    /// Nanoseconds since the kernel's start.
    pub at_ns: u64,
    /// It, in lines.
    pub text: String,
}

/// Lines of `bpf_printk`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Printed {
    /// The first of those that the kernel still had, as in its `trace_pipe`.
    pub lines: Vec<String>,
    /// How many more there were.
    pub nr_left_out: usize,
}

/// The machine that the guest finds itself on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Booted {
    /// `uname -r`.
    pub kernel_release: String,
    /// CPUs that are online.
    pub nr_cpus: u32,
    /// Nanoseconds since the kernel's start.
    pub at_ns: u64,
    /// Whether this kernel has sched_ext.
    pub sched_ext: bool,
}

/// A policy that the kernel has accepted and enabled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// The name in its `sched_ext_ops`.
    pub policy: String,
    /// Nanoseconds for relocation and verification of all its programs.
    pub load_ns: u64,
    /// Nanoseconds until every task was handed over to it.
    pub attach_ns: u64,
    /// `enable_seq` of sched_ext: how many policies this kernel has enabled since it booted.
    pub enable_seq: u64,
    /// Its programs, by name.
    pub programs: Vec<Program>,
}

/// One program of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The C function's name.
    pub name: String,
    /// Instructions that the verifier went through; 1,000,000 is the most it does.
    pub verified_instructions: u32,
}

/// Why a policy does not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// How far it came.
    pub stage: Stage,
    /// The reason in plain words, the kernel's own where it gave one.
    pub reason: String,
    /// A way out; empty where none is known.
    pub hint: String,
    /// What the verifier and the loader said; of a long one its beginning and its end, see
    /// [`shortened`].
    pub log: String,
}

/// Most bytes of a log in a record. A verifier writes up to 16 MB, over a slow line.
pub const LOG_BYTES_MAX: usize = 256 * 1024;

/// A log of at most [`LOG_BYTES_MAX`] bytes and a line: its first quarter and its end, where the
/// reason is.
pub fn shortened(log: &str) -> String {
    if log.len() <= LOG_BYTES_MAX {
        return log.to_owned();
    }
    let tail = log.len() - LOG_BYTES_MAX / 4 * 3;
    let (head, tail) = (&log.as_bytes()[..LOG_BYTES_MAX / 4], &log.as_bytes()[tail..]);
    let left_out = log.len() - head.len() - tail.len();
    let [head, tail] = [head, tail].map(String::from_utf8_lossy);
    format!("{head}\n... {left_out} bytes left out ...\n{tail}")
}

/// Where loading a policy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The object could not be read as a policy, or a tunable could not be set.
    Open,
    /// The kernel's verifier, or a relocation, refused a program.
    Load,
    /// The kernel would not enable it, or its `init` failed.
    Attach,
}

/// A policy's end, as the kernel describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// `enum scx_exit_kind`: 64 to 67 are requested, from 1024 on it is an error.
    pub kind: i32,
    /// What the policy or the kernel adds to the kind.
    pub code: i64,
    /// The kernel's words for the kind.
    pub reason: String,
    /// The kernel's or the policy's words for this case.
    pub message: String,
    /// The kernel's dump of queues and tasks; empty where it made none.
    pub dump: String,
    /// What to do about it; empty where nothing is known.
    #[serde(default)]
    pub hint: String,
}

impl Exit {
    /// Whether the policy broke a rule, or gave up with an error.
    pub fn is_error(&self) -> bool {
        self.kind >= Self::FIRST_ERROR_KIND
    }

    /// Whether the policy, which had begun, broke a rule. One that could not begin says so of its
    /// own: `ops.init() failed`, `ops.init_task() failed`.
    pub fn breaks_a_rule(&self) -> bool {
        self.is_error() && !self.message.starts_with("ops.")
    }

    /// Whether the kernel asks to have the policy loaded once more, as after CPU hotplug.
    pub fn asks_for_restart(&self) -> bool {
        !self.is_error() && self.code & Self::RESTART_CODE != 0
    }

    /// The end in one sentence.
    pub fn sentence(&self) -> String {
        match self.message.as_str() {
            "" => self.reason.clone(),
            message => format!("{}: {message}", self.reason),
        }
    }

    /// The same end with what to do about it.
    #[must_use]
    pub fn with_hint(self) -> Self {
        Exit { hint: self.hint_of(), ..self }
    }

    fn hint_of(&self) -> String {
        if self.asks_for_restart() {
            return "the machine's CPUs changed: load the policy again".to_owned();
        }
        if let Some(known) = way_out(&self.message) {
            return known.to_owned();
        }
        // As in `ops.init() failed (-28)`.
        let errno = self.message.rsplit_once("(-").and_then(|(_, n)| n.strip_suffix(')'));
        errno.and_then(|errno| errno.parse().ok()).map_or_else(String::new, |errno: i32| {
            format!("-{errno} is: {}", std::io::Error::from_raw_os_error(errno))
        })
    }

    /// `SCX_EXIT_ERROR`.
    const FIRST_ERROR_KIND: i32 = 1024;
    /// `SCX_ECODE_ACT_RESTART`.
    const RESTART_CODE: i64 = 1 << 48;
}

/// How a piece of work ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// Its place in the job's list.
    pub index: usize,
    /// Nanoseconds that it took.
    pub wall_ns: u64,
    /// Nanoseconds of CPU time that it and all that it waited for spent as programs. Source:
    /// `ru_utime` of `getrusage`, in microseconds.
    pub user_ns: u64,
    /// The same, spent in the kernel: `ru_stime`.
    pub system_ns: u64,
    /// Its exit status; `None` if a signal ended it.
    pub status: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Whether it was killed because its time was over.
    pub timed_out: bool,
    /// What it printed, at most [`OUTPUT_BYTES_MAX`] bytes, errors after output.
    pub output: String,
}

/// What stands in files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// The place in the job's list of the work that read them.
    pub index: usize,
    /// Their first [`FILE_BYTES_MAX`] bytes by their paths; those that are not there are left out.
    pub texts: BTreeMap<String, String>,
}

/// Most bytes that are told of a file.
pub const FILE_BYTES_MAX: usize = 64 * 1024;
/// Most files that are read of a directory.
pub const FILES_MAX: usize = 256;

/// Most bytes kept of a program's output; the rest is read and dropped.
pub const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// What came of a play.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Play {
    /// Its place in the job's list.
    pub index: usize,
    /// The tasks' own account.
    pub played: Played,
    /// What the scheduler did with the tasks, if that was recorded.
    pub schedule: Option<Schedule>,
}

/// What happened since the previous counters, and how things stand.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Nanoseconds since the kernel's start.
    pub at_ns: u64,
    /// Nanoseconds that the differences below cover.
    pub wall_ns: u64,
    /// Context switches of the machine, of every scheduling class. Source: `/proc/stat`.
    pub switches: u64,
    /// Forks. Source: `/proc/stat`.
    pub forks: u64,
    /// Tasks that run or wait for a CPU now, of every class. Source: `/proc/loadavg`.
    pub nr_runnable: u64,
    /// Tasks that exist now. Source: `/proc/loadavg`.
    pub nr_tasks: u64,
    /// Runs of each of the policy's programs: `..._dispatch` is how often a CPU asked for work.
    pub calls: BTreeMap<String, u64>,
    /// What sched_ext itself did, by its names. Source: `/sys/kernel/sched_ext/root/events`.
    pub events: BTreeMap<String, u64>,
    /// Runnable tasks beyond one a CPU: at least so many wait in queues now. The kernel does not
    /// tell how long a policy's own queues are.
    pub nr_waiting: u64,
    /// Tasks that a policy has turned away since boot. Source: `nr_rejected` of sched_ext.
    pub nr_rejected: u64,
}

/// The record in a line, or `None` if the line is something else.
///
/// A firmware's escape codes may stand before the object on its line.
pub fn parse(line: &str) -> Option<Record> {
    let start = line.find("{\"record\":")?;
    serde_json::from_str(line[start..].trim_end()).ok()
}

/// The record's line, with its newline.
pub fn line(record: &Record) -> String {
    // Records hold numbers and strings only, which JSON always takes.
    let mut text = serde_json::to_string(record).expect("a record is plain data");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_its_line() {
        let record = Record::Ejected(Exit {
            kind: 1026,
            code: 0,
            reason: "runnable task stall".into(),
            message: "a[1] failed\nto run".into(),
            dump: "d".into(),
            hint: String::new(),
        });
        let text = line(&record);
        assert_eq!(text.matches('\n').count(), 1);
        assert_eq!(parse(&text), Some(record));
    }

    #[test]
    fn noise_of_the_console_is_skipped() {
        assert_eq!(parse("[    0.1] Linux version 6.18"), None);
        assert_eq!(parse("{\"record\":\"no such\"}"), None);
        let done = line(&Record::Done { at_ns: 7 });
        assert_eq!(parse(&format!("\u{1b}[2J{done}")), Some(Record::Done { at_ns: 7 }));
    }

    #[test]
    fn a_long_log_keeps_its_beginning_and_its_end() {
        let log = format!("begin {} end", "ü".repeat(LOG_BYTES_MAX));
        let short = shortened(&log);
        assert!(short.len() < LOG_BYTES_MAX + 100, "{}", short.len());
        assert!(short.starts_with("begin ") && short.ends_with(" end"));
        assert_eq!(shortened("begin end"), "begin end");
    }

    #[test]
    fn only_kinds_from_1024_on_are_errors() {
        let exit = |kind, code| Exit { kind, code, ..Exit::default() };
        assert!(exit(1024, 0).is_error() && !exit(67, 0).is_error());
        assert!(exit(66, 0x1_0001_0000_0000).asks_for_restart());
        assert!(!exit(64, 0).asks_for_restart());
    }

    #[test]
    fn who_cannot_begin_breaks_no_rule() {
        let exit = |kind, message: &str| Exit { kind, message: message.into(), ..Exit::default() };
        assert!(exit(1024, "non-existent DSQ 0x1 for a[1]").breaks_a_rule());
        assert!(exit(1025, "").breaks_a_rule());
        assert!(!exit(1024, "ops.init_task() failed (-12) for a[1]").breaks_a_rule());
        assert!(!exit(66, "cpu 1 going offline").breaks_a_rule());
    }

    #[test]
    fn an_end_comes_with_a_way_out() {
        let hint_of =
            |message: &str| Exit { message: message.into(), ..Exit::default() }.with_hint().hint;
        assert!(hint_of("a[1] failed to run for 2.928s").contains("enqueue"));
        assert!(hint_of("ops.init() failed (-28)").contains("No space left"));
        assert_eq!(hint_of("pid 1 (-x)"), "");
        let restart = Exit { kind: 66, code: 0x1_0001_0000_0000, ..Exit::default() };
        assert!(restart.with_hint().hint.contains("again"));
    }
}
