//! What the kernel says about sched_ext: its files in sysfs, and its log.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use crate::records::Exit;

/// The directory that only kernels with sched_ext have.
pub const SCHED_EXT_DIR: &str = "/sys/kernel/sched_ext";

/// How long a policy may take to go, once told to. Every task is taken from it one by one.
const DISABLE_WALL_MAX: Duration = Duration::from_secs(30);
const DISABLE_POLL: Duration = Duration::from_millis(1);

/// The state of sched_ext at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// `enabled`, `disabled`, or on the way between them.
    pub state: String,
    /// The policy in charge, by the name in its `sched_ext_ops`.
    pub ops: Option<String>,
    /// Policies enabled since boot.
    pub enable_seq: u64,
    /// Tasks that were turned away by a policy since boot.
    pub nr_rejected: u64,
}

impl Status {
    /// Asks the kernel; empty where it has no sched_ext.
    pub fn now() -> Self {
        Status {
            state: read("state").unwrap_or_default(),
            ops: read("root/ops"),
            enable_seq: number("enable_seq"),
            nr_rejected: number("nr_rejected"),
        }
    }

    /// Whether the policy that was enabled as number `enable_seq` is in charge.
    pub fn is_enabled_with(&self, enable_seq: u64) -> bool {
        self.state == "enabled" && self.enable_seq == enable_seq
    }
}

/// Whether the running kernel has sched_ext at all.
pub fn has_sched_ext() -> bool {
    fs::metadata(SCHED_EXT_DIR).is_ok()
}

/// What sched_ext counts itself, by its names; empty before Linux 6.15 and without a policy.
pub fn events() -> BTreeMap<String, u64> {
    let text = read("root/events").unwrap_or_default();
    let pair = |line: &str| {
        let (name, count) = line.split_once(' ')?;
        Some((name.to_owned(), count.trim().parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

/// `uname -r`.
pub fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// Returns when the policy that was enabled as number `enable_seq` is gone, or time is over.
pub(super) fn wait_until_disabled(enable_seq: u64) {
    let start = Instant::now();
    while start.elapsed() < DISABLE_WALL_MAX {
        let status = Status::now();
        if status.state == "disabled" || status.enable_seq != enable_seq {
            return;
        }
        std::thread::sleep(DISABLE_POLL);
    }
}

fn read(file: &str) -> Option<String> {
    let text = fs::read_to_string(format!("{SCHED_EXT_DIR}/{file}")).ok()?;
    Some(text.trim().to_owned())
}

fn number(file: &str) -> u64 {
    read(file).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// What the kernel writes to its log from some moment on.
#[derive(Debug)]
pub(super) struct KernelMessages {
    log: Option<File>,
    said: RefCell<String>,
}

/// Most messages read at once; the kernel's buffer holds some thousands.
const MESSAGES_MAX: usize = 10_000;
/// No message of the kernel's log is longer.
const MESSAGE_BYTES_MAX: usize = 8192;

impl KernelMessages {
    /// Begins now. Without the right to read the log, there will be no messages.
    pub fn from_now() -> Self {
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
            .open("/dev/kmsg");
        let at_end = opened.and_then(|mut log| log.seek(SeekFrom::End(0)).map(|_| log));
        KernelMessages { log: at_end.ok(), said: RefCell::default() }
    }

    /// The messages of sched_ext since then, one a line.
    pub fn text(&self) -> String {
        let mut text = self.said.borrow_mut();
        let Some(mut log) = self.log.as_ref() else { return String::new() };
        read_messages(&mut log, &mut text);
        text.clone()
    }

    /// The end of a policy that keeps no record of it. The kernel logs two lines: that the policy
    /// was disabled and in brackets why, then the message.
    pub fn exit(&self, policy: &str) -> Exit {
        exit_of(&self.text(), policy)
    }
}

/// Appends what sched_ext said to `text`; from `log` each read gives one record.
fn read_messages(log: &mut impl Read, text: &mut String) {
    let mut record = vec![0; MESSAGE_BYTES_MAX];
    for _ in 0..MESSAGES_MAX {
        let said = match log.read(&mut record) {
            Ok(0) => break,
            Ok(bytes) => String::from_utf8_lossy(&record[..bytes]),
            // Some were overwritten before we came; the next read gives the oldest that is left.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => continue,
            // There are no more (EAGAIN).
            Err(_) => break,
        };
        let body = said.split_once(';').map_or("", |(_, body)| body);
        if let Some(line) = body.lines().next().filter(|line| line.contains("sched_ext")) {
            text.push_str(line);
            text.push('\n');
        }
    }
}

fn exit_of(log: &str, policy: &str) -> Exit {
    let mut lines = log.lines();
    let disabled = lines.find(|line| line.contains("disabled ("));
    let reason = disabled
        .and_then(|line| line.rsplit_once('(')?.1.strip_suffix(')'))
        .unwrap_or_default()
        .to_owned();
    let about = format!("sched_ext: {policy}: ");
    // What a kernel says of the policy before its end is a warning, such as on its timeout.
    let message = lines.find_map(|line| line.split_once(&about));
    let kind = kind_of(&reason);
    Exit { kind, reason, message: message.map_or("", |m| m.1).to_owned(), ..Exit::default() }
}

/// The kernel's number of a reason. Source: `scx_exit_reason()`, kernel/sched/ext.c.
fn kind_of(reason: &str) -> i32 {
    const REASONS: [(&str, i32); 7] = [
        ("unregistered from user space", 64),
        ("unregistered from BPF", 65),
        ("unregistered from the main kernel", 66),
        ("disabled by sysrq-S", 67),
        ("runtime error", 1024),
        ("scx_bpf_error", 1025),
        ("runnable task stall", 1026),
    ];
    REASONS.iter().find(|known| known.0 == reason).map_or(0, |known| known.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log whose reads give these, and then say that there is no more.
    struct Log(Vec<io::Result<&'static str>>);

    impl Read for Log {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let record = self.0.pop().unwrap_or(Err(io::ErrorKind::WouldBlock.into()))?;
            to[..record.len()].copy_from_slice(record.as_bytes());
            Ok(record.len())
        }
    }

    #[test]
    fn messages_that_were_overwritten_hide_none_that_came_after_them() {
        let overwritten = || Err(nix::errno::Errno::EPIPE.into());
        let mut log = Log(vec![
            Ok("6,11,14,-;sched_ext: simple: message\n"),
            overwritten(),
            Ok("6,9,13,-;usb 1-1: new device\n"),
            Ok("6,8,12,-;sched_ext: BPF scheduler \"simple\" disabled\n SUBSYSTEM=x\n"),
            overwritten(),
        ]);
        let mut text = String::new();
        read_messages(&mut log, &mut text);
        let expected = "sched_ext: BPF scheduler \"simple\" disabled\nsched_ext: simple: message\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_end_of_a_policy_without_a_record_is_read_from_the_kernels_log() {
        let log = "sched_ext: simple: watchdog timeout 3000ms <= rescue overload threshold\n\
                   sched_ext: BPF scheduler \"simple\" enabled\n\
                   sched_ext: BPF scheduler \"simple\" disabled (runnable task stall)\n\
                   sched_ext: simple: hackbench[157] failed to run for 4.256s\n";
        let exit = exit_of(log, "simple");
        assert_eq!((exit.kind, exit.reason.as_str()), (1026, "runnable task stall"));
        assert_eq!(exit.message, "hackbench[157] failed to run for 4.256s");
        assert_eq!(exit_of("", "simple"), Exit::default());
    }
}
