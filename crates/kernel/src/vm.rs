//! One boot of a kernel in a virtual machine, from power on to its end.
//!
//! A machine is a QEMU process that lives no longer than we do. Its guest has two ways out: lines
//! of records, and the kernel's console, which is kept as evidence. Whatever the guest does, it
//! has an [`End`]: power off, panic, a limit that it reached. Nothing here waits without a limit,
//! and no file is left behind: initramfs, records and console are in memory.

mod accelerator;
mod arguments;
mod clock;
mod cpus;
mod error;
mod process;
mod qemu;
mod spare_cpu;

use std::fmt;
use std::time::{Duration, Instant};

pub use accelerator::{Accelerator, fastest, kvm_state};
pub use cpus::Cpus;
pub use error::VmError;
pub use qemu::Qemu;

use crate::initramfs::Initramfs;
use crate::kernels::Kernel;
use crate::sink::Sink;
use process::Process;

/// What machine a kernel is booted on, and how long it may take.
#[derive(Clone, Debug)]
pub struct Options {
    /// Processors of the guest.
    pub cpus: Cpus,
    /// Memory of the guest in MiB.
    pub memory_mib: u32,
    /// What executes the guest's instructions.
    pub accelerator: Accelerator,
    /// Whether the guest's clock counts its instructions: same kernel, same initramfs, same
    /// options, same trace to the nanosecond. Needs [`Accelerator::Tcg`].
    pub deterministic: bool,
    /// Seed of the random numbers that the machine gives its guest.
    pub seed: u32,
    /// Longest time from power on to the first line of records.
    pub boot_limit: Duration,
    /// Longest time from power on to the end. A guest's own clock may be slower or faster.
    pub wall_limit: Duration,
    /// More words for the kernel's command line.
    pub kernel_arguments: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            cpus: Cpus::count(1),
            memory_mib: 1024,
            accelerator: Accelerator::Tcg,
            deterministic: false,
            seed: 1,
            boot_limit: Duration::from_secs(60),
            wall_limit: Duration::from_secs(600),
            kernel_arguments: vec![],
        }
    }
}

/// What a machine did while we waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The guest sent a line, given without its end.
    Line(String),
    /// Nothing yet.
    Quiet,
    /// The machine is gone. Every later step says so again.
    Ended(End),
}

/// How a machine ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The guest switched it off.
    PoweredOff,
    /// The kernel gave up.
    Panicked {
        /// Its reason, as on the console.
        message: String,
    },
    /// No line of records came in time; we switched it off.
    BootTimedOut {
        /// The limit that was reached.
        limit: Duration,
    },
    /// It went on for too long; we switched it off.
    TimedOut {
        /// The limit that was reached.
        limit: Duration,
    },
    /// It sent more than can be meant; we switched it off.
    Flooded {
        /// Bytes of records, console and QEMU's own output.
        bytes: u64,
    },
    /// QEMU itself failed.
    QemuFailed {
        /// How, and what it printed.
        message: String,
    },
}

impl End {
    /// One word for programs: `powered_off`, `panicked`, `boot_timed_out`, `timed_out`,
    /// `flooded`, `qemu_failed`.
    pub fn kind(&self) -> &'static str {
        match self {
            End::PoweredOff => "powered_off",
            End::Panicked { .. } => "panicked",
            End::BootTimedOut { .. } => "boot_timed_out",
            End::TimedOut { .. } => "timed_out",
            End::Flooded { .. } => "flooded",
            End::QemuFailed { .. } => "qemu_failed",
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::PoweredOff => write!(formatter, "the guest powered off"),
            End::Panicked { message } => {
                write!(formatter, "the guest's kernel panicked: {message}")
            }
            End::BootTimedOut { limit } => {
                let limit_s = limit.as_secs_f64();
                write!(formatter, "the guest's kernel started no program within {limit_s} s")
            }
            End::TimedOut { limit } => {
                write!(formatter, "the guest was not done after {} s", limit.as_secs_f64())
            }
            End::Flooded { bytes } => {
                write!(formatter, "the guest had written {bytes} bytes and did not stop")
            }
            End::QemuFailed { message } => write!(formatter, "{message}"),
        }
    }
}

/// A running machine. Dropping it ends it.
pub struct Vm {
    process: Process,
    records: Sink,
    console: Sink,
    console_tail: Vec<u8>,
    line: Vec<u8>,
    booted_after: Option<Duration>,
    started: Instant,
    boot_limit: Duration,
    wall_limit: Duration,
    end: Option<End>,
    // The guest's initramfs is read from here while it boots.
    _initramfs: Sink,
}

/// How often a machine is looked at while it is quiet.
const POLL: Duration = Duration::from_millis(4);
/// Last bytes of the console that are kept.
const CONSOLE_BYTES_MAX: usize = 64 * 1024;
/// More than the longest record. A longer line is no record and is given in pieces.
const LINE_BYTES_MAX: usize = 64 << 20;
/// More than any run has to say.
const OUTPUT_BYTES_MAX: u64 = 8 << 30;

/// Starts a machine. It is running when this returns; [`Vm::next`] tells what becomes of it.
///
/// It is killed when the thread that called this ends, because Linux ties a child to a thread.
pub fn boot(
    qemu: &Qemu,
    kernel: &Kernel,
    initramfs: &Initramfs,
    options: &Options,
) -> Result<Vm, VmError> {
    options.check()?;
    let in_memory = |content: &[u8]| Sink::with(content).map_err(VmError::Memory);
    let (initramfs, records, console) =
        (in_memory(&initramfs.archive())?, in_memory(&[])?, in_memory(&[])?);
    let files = arguments::Files {
        initramfs: initramfs.path(),
        records: records.path(),
        console: console.path(),
    };
    let options = &spare_cpu::with_spare_cpu(options.with_clock(), qemu, kernel)?;
    let process = Process::start(qemu, &arguments::of(qemu, kernel, &files, options))?;
    Ok(Vm {
        process,
        records,
        console,
        console_tail: vec![],
        line: vec![],
        booted_after: None,
        started: Instant::now(),
        boot_limit: options.boot_limit,
        wall_limit: options.wall_limit,
        end: None,
        _initramfs: initramfs,
    })
}

impl Options {
    /// The same, and where the guest's time is ours, it is told how fast its counter runs.
    fn with_clock(&self) -> Options {
        let mut options = self.clone();
        let is_told = self.accelerator == Accelerator::Tcg && !self.deterministic;
        if let (true, Some(khz)) = (is_told, clock::rate_khz()) {
            options.kernel_arguments.insert(0, format!("tsc_early_khz={khz}"));
        }
        options
    }

    fn check(&self) -> Result<(), VmError> {
        const MEMORY_MIB_MIN: u32 = 128;
        if self.deterministic && self.accelerator != Accelerator::Tcg {
            return Err(VmError::DeterministicNeedsTcg);
        }
        if self.memory_mib < MEMORY_MIB_MIN {
            return Err(VmError::TooLittleMemory { memory_mib: self.memory_mib });
        }
        Ok(())
    }
}

impl Vm {
    /// What happens next, waiting for it at most this long.
    pub fn next(&mut self, wait: Duration) -> Result<Step, VmError> {
        let deadline = Instant::now() + wait;
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Step::Line(line));
            }
            if let Some(end) = &self.end {
                return Ok(Step::Ended(end.clone()));
            }
            // Whether it is gone is asked first: what it wrote last is then read below.
            let exited = self.process.exited()?;
            let read = self.read()?;
            if !exited && !read && self.limit_reached().is_none() {
                let rest = deadline.saturating_duration_since(Instant::now());
                if rest.is_zero() {
                    return Ok(Step::Quiet);
                }
                std::thread::sleep(rest.min(POLL));
            } else if exited {
                while self.read()? {}
                self.end = Some(self.end_of_process());
            } else if let Some(end) = self.limit_reached() {
                self.process.kill();
                self.end = Some(self.panic().unwrap_or(end));
            }
        }
    }

    /// Every line until the machine's end, and the end.
    pub fn run_to_end(&mut self) -> Result<(Vec<String>, End), VmError> {
        let mut lines = Vec::new();
        loop {
            match self.next(Duration::from_secs(1))? {
                Step::Line(line) => lines.push(line),
                Step::Quiet => {}
                Step::Ended(end) => return Ok((lines, end)),
            }
        }
    }

    /// The end of what the kernel wrote to its console, without the firmware's escape codes.
    pub fn console_tail(&self) -> String {
        readable(&self.console_tail)
    }

    /// Time from power on to the first line of records, once there was one.
    pub fn booted_after(&self) -> Option<Duration> {
        self.booted_after
    }

    /// The process of this machine's QEMU, whose CPU time is what the guest takes of this machine.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Takes in what was written since the last time; whether that was anything.
    fn read(&mut self) -> Result<bool, VmError> {
        let known = self.line.len();
        self.records.read_new(&mut self.line).map_err(VmError::Memory)?;
        let spoke = self.line.len() > known;
        if self.booted_after.is_none() && self.line.contains(&b'\n') {
            self.booted_after = Some(self.started.elapsed());
        }
        let of_console = self.console.read_new(&mut self.console_tail).map_err(VmError::Memory)?;
        let surplus = self.console_tail.len().saturating_sub(CONSOLE_BYTES_MAX);
        self.console_tail.drain(..surplus);
        let of_qemu = self.process.read_output().map_err(VmError::Memory)?;
        Ok(spoke || of_console > 0 || of_qemu)
    }

    /// The first whole line of what was read; the last, unfinished one once the machine is gone.
    fn take_line(&mut self) -> Option<String> {
        let newline = self.line.iter().position(|&byte| byte == b'\n');
        let gone = self.end.is_some() && !self.line.is_empty();
        let length = match newline {
            Some(at) => at + 1,
            None if gone || self.line.len() > LINE_BYTES_MAX => self.line.len(),
            None => return None,
        };
        let line: Vec<u8> = self.line.drain(..length).collect();
        Some(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned())
    }

    fn limit_reached(&self) -> Option<End> {
        let elapsed = self.started.elapsed();
        let bytes = self.records.length() + self.console.length() + self.process.printed_bytes();
        if bytes > OUTPUT_BYTES_MAX {
            Some(End::Flooded { bytes })
        } else if elapsed > self.wall_limit {
            Some(End::TimedOut { limit: self.wall_limit })
        } else if self.booted_after.is_none() && elapsed > self.boot_limit {
            Some(End::BootTimedOut { limit: self.boot_limit })
        } else {
            None
        }
    }

    fn end_of_process(&self) -> End {
        let end = || match self.process.failure() {
            Some(message) => End::QemuFailed { message },
            None => End::PoweredOff,
        };
        self.panic().unwrap_or_else(end)
    }

    fn panic(&self) -> Option<End> {
        const MARK: &str = "Kernel panic - not syncing: ";
        let console = self.console_tail();
        let message = console.lines().find_map(|line| Some(line.split_once(MARK)?.1.to_owned()))?;
        Some(End::Panicked { message })
    }
}

/// Text of a console: no escape sequences, no carriage returns.
fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut kept = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\x1b' => {
                // A sequence ends with a letter.
                letters.by_ref().find(char::is_ascii_alphabetic);
            }
            '\r' => {}
            other => kept.push(other),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_is_text_without_escape_codes() {
        let bytes = b"\x1bc\x1b[?7l\x1b[2J[    0.1] a\r\n\xffb\n";
        assert_eq!(readable(bytes), "[    0.1] a\n\u{fffd}b\n");
    }

    #[test]
    fn a_deterministic_machine_is_not_accelerated() {
        let options =
            Options { deterministic: true, accelerator: Accelerator::Kvm, ..Options::default() };
        assert!(matches!(options.check(), Err(VmError::DeterministicNeedsTcg)));
        assert!(Options { deterministic: true, ..Options::default() }.check().is_ok());
        assert!(Options { memory_mib: 1, ..Options::default() }.check().is_err());
    }
}
