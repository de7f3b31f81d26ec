//! One boot of a kernel in a virtual machine, from power on to its end.
//!
//! A machine is a QEMU process that lives no longer than we do. Its guest has two ways out: lines
//! of records, and the kernel's console, which is kept as evidence. Whatever the guest does, it
//! has an [`End`]: power off, panic, a limit that it reached. Nothing here waits without a limit,
//! and no file is left behind but what is kept on purpose: initramfs, job, records and console are
//! in memory.
//!
//! A guest that is given a job stops where it has booted and is ready for it, and once more when it
//! has loaded the job's policy. There its machine is saved, and the next one with the same kernel
//! and options goes on from there, in a fraction of the time; see [`kept`].

mod accelerator;
mod arguments;
mod clock;
mod cpus;
mod effort;
mod end;
mod error;
mod kept;
mod monitor;
mod process;
mod qemu;
mod spare_cpu;

use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use accelerator::{Accelerator, fastest, kvm_state};
pub use cpus::Cpus;
pub use end::End;
pub use error::VmError;
pub use qemu::Qemu;

use crate::initramfs::Initramfs;
use crate::job::{ALIGN_VARIABLE, COUNTS_VARIABLE, RECORD_VARIABLE, SETTLE_VARIABLE};
use crate::kernels::Kernel;
use crate::sink::Sink;
use kept::{Draft, Found, Place, Way};
use monitor::{Monitor, Told};
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
    /// Seed of the random numbers that the machine gives its guest. Machines of different seeds
    /// are different boots.
    pub seed: u32,
    /// How long the guest waits before it gets ready for its job, by its own clock.
    pub settle: Duration,
    /// Whether it brings its clocks together before.
    pub align_clocks: bool,
    /// Buffers that it prepares for recordings before, in KiB a CPU.
    pub record_kib_per_cpu: u32,
    /// Where machines that have booted are kept, and found; none are without it.
    pub keep_in: Option<PathBuf>,
    /// Whether a machine is kept again when it has loaded its policy.
    pub keep_with_policy: bool,
    /// What QEMU may compute, by its CPU time, until the first line of records. However busy this
    /// machine is, a boot takes what it takes.
    pub boot_effort: Duration,
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
            settle: Duration::ZERO,
            align_clocks: false,
            record_kib_per_cpu: 0,
            keep_in: None,
            keep_with_policy: false,
            boot_effort: Duration::from_secs(45),
            boot_limit: Duration::from_secs(600),
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

/// What a guest of ours, `schedlab-guest`, gets once it has booted: archives of files.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// A policy that it loads before all else.
    pub policy: Option<&'a Initramfs>,
    /// What it does then.
    pub job: &'a Initramfs,
}

/// A running machine. Dropping it ends it.
pub struct Vm {
    process: Process,
    monitor: Monitor,
    stage: Stage,
    way: Way,
    drafts: Vec<Draft>,
    records: Sink,
    console: Sink,
    console_tail: Vec<u8>,
    line: Vec<u8>,
    booted_after: Option<Duration>,
    started: Instant,
    limits: Limits,
    end: Option<End>,
    // The guest's initramfs, its policy and its job are read from here.
    _inputs: [Sink; 3],
}

struct Limits {
    boot_effort: Duration,
    boot: Duration,
    wall: Duration,
}

/// How far a machine is. One that never stops for us, as it is given no job, stays `Booting`.
enum Stage {
    /// On its way to where it stops first.
    Booting,
    /// It stopped, and is written to a file.
    Saving,
    /// It is read from a file.
    Restoring,
    /// It loads its policy or does its job. QEMU may refuse to go on for a moment after it saved,
    /// so often so far.
    Working { nr_refusals: u32 },
}

/// How often a machine is looked at while it is quiet.
const POLL: Duration = Duration::from_millis(4);
/// Last bytes of the console that are kept.
const CONSOLE_BYTES_MAX: usize = 64 * 1024;
/// More than the longest record. A longer line is no record and is given in pieces.
const LINE_BYTES_MAX: usize = 64 << 20;
/// More than any run has to say.
const OUTPUT_BYTES_MAX: u64 = 8 << 30;
/// What reading a machine from its file may compute. It takes 0.2 s; of an empty file QEMU 7.2
/// waits for the first byte for ever.
const RESTORE_EFFORT_MAX: Duration = Duration::from_secs(4);
/// A machine that boots has always something to do, or waits for its turn to do it.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// So often QEMU is told to go on, with a [`POLL`] between.
const REFUSALS_MAX: u32 = 1000;

/// Starts a machine. It is running when this returns; [`Vm::next`] tells what becomes of it.
///
/// A guest that is given something must be `schedlab-guest`, which stops for us where it is ready
/// for it; others may be anything.
///
/// The machine is killed when the thread that called this ends, because Linux ties a child to a
/// thread.
pub fn boot(
    qemu: &Qemu,
    kernel: &Kernel,
    initramfs: &Initramfs,
    given: Option<Given<'_>>,
    options: &Options,
) -> Result<Vm, VmError> {
    options.check()?;
    let in_memory = |content: &[u8]| Sink::with(content).map_err(VmError::Memory);
    let archive = initramfs.archive();
    let options = spare_cpu::with_spare_cpu(options.with_arguments(given.is_some()), qemu, kernel)?;
    let place = options.place(given.is_some(), qemu, kernel, &archive);
    let tar = |files: Option<&Initramfs>| files.map(Initramfs::tar).transpose();
    let policy = tar(given.and_then(|given| given.policy)).map_err(VmError::Memory)?;
    let job = tar(given.map(|given| given.job)).map_err(VmError::Memory)?;
    let way = Way::past(place, policy.as_deref(), options.keep_with_policy);
    let is_restored = way.found.is_some();
    let inputs = [
        in_memory(&archive)?,
        in_memory(policy.as_deref().unwrap_or_default())?,
        in_memory(job.as_deref().unwrap_or_default())?,
    ];
    let (records, console) = (in_memory(&[])?, in_memory(&[])?);
    let files = arguments::Files {
        initramfs: inputs[0].path(),
        policy: policy.map(|_| inputs[1].path()),
        job: job.map(|_| inputs[2].path()),
        records: records.path(),
        console: console.path(),
        is_restored,
    };
    let options = if is_restored { options } else { options.with_clock() };
    let (process, mut monitor) =
        Process::start(qemu, &arguments::of(qemu, kernel, &files, &options))?;
    if let Some(found) = &way.found {
        monitor.restore(&found.path());
    }
    Ok(Vm {
        process,
        monitor,
        stage: if is_restored { Stage::Restoring } else { Stage::Booting },
        way,
        drafts: vec![],
        records,
        console,
        console_tail: vec![],
        line: vec![],
        booted_after: None,
        started: Instant::now(),
        limits: Limits {
            boot_effort: options.boot_effort,
            boot: options.boot_limit,
            wall: options.wall_limit,
        },
        end: None,
        _inputs: inputs,
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

    /// The same, with the words to a guest that is given a job. The kernel hands words that it does
    /// not know on to the guest's first program. Source: Linux,
    /// Documentation/admin-guide/kernel-parameters.rst.
    fn with_arguments(&self, has_job: bool) -> Options {
        let mut options = self.clone();
        if has_job {
            let settle_ms = self.settle.as_millis();
            let record_kib = self.record_kib_per_cpu;
            options.kernel_arguments.push(format!("{SETTLE_VARIABLE}={settle_ms}"));
            options.kernel_arguments.push(format!("{RECORD_VARIABLE}={record_kib}"));
            let words =
                [(self.align_clocks, ALIGN_VARIABLE), (self.deterministic, COUNTS_VARIABLE)];
            let wanted = words.iter().filter(|(is_wanted, _)| *is_wanted);
            options.kernel_arguments.extend(wanted.map(|(_, word)| format!("{word}=1")));
        }
        options
    }

    /// Where such a machine is kept, if it can be.
    fn place(
        &self,
        has_job: bool,
        qemu: &Qemu,
        kernel: &Kernel,
        initramfs: &[u8],
    ) -> Option<Place> {
        let directory = self.keep_in.as_ref().filter(|_| has_job && self.can_be_kept())?;
        Some(Place::of(directory, qemu, kernel, initramfs, self))
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
            self.attend()?;
            if self.end.is_some() {
                continue;
            }
            if exited {
                while self.read()? {}
                self.end_with(self.end_of_process());
            } else if let Some(end) = self.limit_reached() {
                self.process.kill();
                self.end_with(self.panic().unwrap_or(end));
            } else if !read {
                let rest = deadline.saturating_duration_since(Instant::now());
                if rest.is_zero() {
                    return Ok(Step::Quiet);
                }
                std::thread::sleep(rest.min(POLL));
            }
        }
    }

    /// Takes a machine from stage to stage, as QEMU tells of it.
    fn attend(&mut self) -> Result<(), VmError> {
        for told in self.monitor.heard().map_err(VmError::Memory)? {
            match (&self.stage, told) {
                (Stage::Booting | Stage::Working { .. }, Told::Stopped) => self.save(),
                (Stage::Saving | Stage::Restoring, Told::Migrated) => self.go_on(),
                // Where there is no room for it, it goes on as it is.
                (Stage::Saving, Told::NotMigrated | Told::Refused(_)) => {
                    self.drafts.pop();
                    self.go_on();
                }
                (&Stage::Working { nr_refusals }, Told::Refused(_))
                    if nr_refusals < REFUSALS_MAX =>
                {
                    std::thread::sleep(POLL);
                    self.monitor.go_on();
                    self.stage = Stage::Working { nr_refusals: nr_refusals + 1 };
                }
                (Stage::Restoring, Told::NotMigrated)
                | (Stage::Working { .. }, Told::Refused(_)) => self.process.kill(),
                _ => {}
            }
        }
        let is_kept = |draft: &mut Draft| !draft.has_policy && draft.is_whole();
        for draft in self.drafts.extract_if(.., is_kept) {
            // What cannot be kept is booted the next time.
            let _ = draft.keep();
        }
        Ok(())
    }

    /// Saves a machine that stopped, if this stop has a place; else it just goes on. Some kernels
    /// stop their machine when they panic, which is no place to go on from.
    fn save(&mut self) {
        let place = self.way.stops.pop_front().filter(|_| self.panic().is_none());
        let Some(draft) = place.and_then(|place| place.draft(&self.way.boot).ok()) else {
            return self.go_on();
        };
        self.monitor.save(&draft.path(), &draft.mark_path());
        self.drafts.push(draft);
        self.stage = Stage::Saving;
    }

    fn go_on(&mut self) {
        self.monitor.go_on();
        self.stage = Stage::Working { nr_refusals: 0 };
    }

    /// Keeps this machine with its policy, if it was saved so: the policy did well.
    pub fn keep_policy(&mut self) {
        for draft in self.drafts.extract_if(.., |draft| draft.is_whole()) {
            let _ = draft.keep();
        }
    }

    /// Keeps no machine with this one's policy: it did not do well there.
    pub fn forget_policy(&mut self) {
        self.drafts.clear();
        self.way.with_policy.iter().for_each(Place::clear);
    }

    /// Notes how the machine ended. One that was kept and did not come to its first line is kept no
    /// longer.
    fn end_with(&mut self, end: End) {
        if self.booted_after.is_none() {
            self.way.found.iter().for_each(Found::remove);
        }
        self.end = Some(end);
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

    /// Which boot of which machine this is: equal for all that go on from one boot. Empty for one
    /// that is neither kept nor given a job.
    pub fn boot(&self) -> &str {
        &self.way.boot
    }

    /// How far it is, in a word: `booting`, `saving`, `restoring`, `working`.
    pub fn stage(&self) -> &'static str {
        match self.stage {
            Stage::Booting => "booting",
            Stage::Saving => "saving",
            Stage::Restoring => "restoring",
            Stage::Working { .. } => "working",
        }
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
        let bytes = self.records.length()
            + self.console.length()
            + self.process.printed_bytes()
            + self.monitor.said_bytes();
        if bytes > OUTPUT_BYTES_MAX {
            Some(End::Flooded { bytes })
        } else if elapsed > self.limits.wall {
            Some(End::TimedOut { limit: self.limits.wall })
        } else if self.booted_after.is_some() {
            None
        } else if matches!(self.stage, Stage::Restoring) {
            self.silence(RESTORE_EFFORT_MAX).map(|message| End::NotRestored { message })
        } else {
            self.silence(self.limits.boot_effort).map(|message| End::BootTimedOut { message })
        }
    }

    /// Why a machine that has said nothing so far will not, if that is so.
    fn silence(&self, boot_effort: Duration) -> Option<String> {
        let elapsed = self.started.elapsed();
        let effort = effort::of(self.process.id());
        let boot = self.limits.boot;
        if elapsed > boot {
            Some(format!("it said nothing within {} s", boot.as_secs_f64()))
        } else if effort.ran > boot_effort {
            let computed_s = boot_effort.as_secs_f64();
            Some(format!("it said nothing while it computed for {computed_s} s"))
        } else if elapsed.saturating_sub(effort.busiest) > IDLE_MAX {
            let idle_s = IDLE_MAX.as_secs_f64();
            Some(format!("it said nothing and had nothing to do for {idle_s} s"))
        } else {
            None
        }
    }

    fn end_of_process(&self) -> End {
        let failure = self.process.failure();
        if matches!(self.stage, Stage::Restoring) {
            return End::NotRestored { message: failure.unwrap_or_default() };
        }
        let end = || match failure {
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
