//! What `schedlab-guest` does: one [`Job`], on whatever kernel it runs on.
//!
//! Everything that happens becomes a record as soon as it happens, so that a kernel which dies in
//! the middle has told everything up to there. The same code is the first process of a virtual
//! machine and a plain program on a user's machine.

mod clocks;
mod command;
mod counters;
mod debug_dump;
mod files;
mod init;
mod inside;
mod machine;
mod play;
mod port;
mod prints;
mod signals;

use std::env;
use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use benchmarks::{Beside, Playing};
use serde::de::DeserializeOwned;

use crate::job::{
    ALIGN_VARIABLE, COUNTS_VARIABLE, JOB_NAME, JOB_PATH, Job, POLICY_NAME, POLICY_PATH, Play,
    PolicyJob, RECORD_VARIABLE, SETTLE_VARIABLE, Work,
};
use crate::loader::{self, LoadError, LoadedPolicy, Reach, kernel_dump, status};
use crate::records::{Booted, Files, Record, Stage};
use crate::trace::Recorder;
use counters::CounterSource;
use inside::Looker;
pub use port::Port;
use signals::{Signals, Wake};

/// How a job ended; a record has told it in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All work was done, under the policy if there was one.
    Done,
    /// The kernel refused or ejected the policy.
    PolicyFailed,
    /// Something else failed, or work did not succeed.
    Failed,
}

impl Outcome {
    /// The exit code of a program that ends so: 0, 1 for a verdict, 2 for an error.
    pub fn exit_code(self) -> u8 {
        match self {
            Outcome::Done => 0,
            Outcome::PolicyFailed => 1,
            Outcome::Failed => 2,
        }
    }
}

/// The life of a virtual machine's first process: it mounts, stops where it is ready, loads the
/// policy that it is given and stops again, gets its job and does it, and powers off.
pub fn run_as_init() -> ! {
    let prepared = init::mount_all();
    let mut port = Port::open_in_guest();
    let done = prepared.and_then(|()| get_ready()).and_then(|()| be_given_work(&mut port));
    if let Err(error) = done {
        port.send(&Record::Error { message: error.to_string() });
    }
    if let Some(printed) = prints::take() {
        port.send(&Record::Printed(printed));
    }
    port.send(&Record::Done { at_ns: uptime_ns() });
    drop(port);
    init::power_off()
}

/// Waits as the kernel's command line says, and stops the machine until somebody lets it go on.
fn get_ready() -> io::Result<()> {
    let number = |name| env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let record_kib = number(RECORD_VARIABLE);
    if record_kib > 0 {
        // Where it is not possible, the play that asks for it says why.
        let _ = Recorder::prepare(u32::try_from(record_kib).unwrap_or(u32::MAX));
    }
    thread::sleep(Duration::from_millis(number(SETTLE_VARIABLE)));
    if env::var_os(ALIGN_VARIABLE).is_some() {
        clocks::align()?;
    }
    stop()
}

fn stop() -> io::Result<()> {
    machine::hold(env::var_os(COUNTS_VARIABLE).is_some())
}

/// Loads the policy that the machine has for this guest, if it has one, and does its job then.
///
/// The machine stops in between. One that goes on from there may have another job, and is told
/// again what it is.
fn be_given_work(port: &mut Port) -> io::Result<Outcome> {
    let mut loaded = None;
    if take_in(POLICY_NAME)? {
        port.send(&Record::Booted(booted()));
        let policy: PolicyJob = read_json(Path::new(POLICY_PATH))?;
        match loader::load_for(Reach::AsWritten, &policy.object, &policy.set) {
            Ok(found) => loaded = Some((found, policy)),
            Err(refusal) => return Ok(refuse(&refusal, port)),
        }
        prints::make_room();
        // One that has ended already is not worth to be kept.
        if loaded.as_ref().is_some_and(|(policy, _)| policy.exit().is_none()) {
            stop()?;
        }
    }
    if !take_in(JOB_NAME)? {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the machine has no job"));
    }
    run_job_under(loaded, &read_json(Path::new(JOB_PATH))?, port)
}

/// Puts the files of an archive that the machine has where they belong; whether it has it.
fn take_in(archive: &str) -> io::Result<bool> {
    let Some(files) = machine::file(archive)? else { return Ok(false) };
    tar::Archive::new(files.as_slice()).unpack("/")?;
    Ok(true)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let text = fs::read_to_string(path)
        .map_err(|e| io::Error::new(e.kind(), format!("cannot read {}: {e}", path.display())))?;
    serde_json::from_str(&text).map_err(|e| {
        let message = format!("{} is not what it should be: {e}", path.display());
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}

/// Does the job in a file, and sends what happens.
///
/// # Errors
///
/// If the file is not a job, or the process may not handle signals.
pub fn run_job_file(path: &Path, port: &mut Port) -> io::Result<Outcome> {
    run_job(&read_json(path)?, port)
}

/// Does a job: settle, load, work, unload. SIGINT and SIGTERM end it early and cleanly.
///
/// # Errors
///
/// If the process may not handle signals.
pub fn run_job(job: &Job, port: &mut Port) -> io::Result<Outcome> {
    run_job_under(None, job, port)
}

fn run_job_under(
    loaded: Option<(LoadedPolicy, PolicyJob)>,
    job: &Job,
    port: &mut Port,
) -> io::Result<Outcome> {
    let signals = Signals::block()?;
    let mut run =
        Run { job, port, signals, policy: None, present: None, nr_restarts: 0, interrupted: false };
    run.port.send(&Record::Booted(booted()));
    if let Some((policy, from)) = loaded {
        run.adopt(policy);
        run.present = Some(from);
    }
    run.pause(Duration::from_nanos(job.settle_ns))?;
    if run.interrupted {
        return Ok(Outcome::Done);
    }
    if !job.isolated_plays
        && let Some(policy) = &job.policy
        && let Err(refusal) = run.load(policy)
    {
        return Ok(refuse(&refusal, run.port));
    }
    run.do_all()
}

fn refuse(refusal: &LoadError, port: &mut Port) -> Outcome {
    port.send(&refusal.record());
    // An object or a tunable that is wrong is the caller's fault, not the kernel's verdict.
    if refusal.stage() == Stage::Open { Outcome::Failed } else { Outcome::PolicyFailed }
}

/// A job while it is done.
struct Run<'a> {
    job: &'a Job,
    port: &'a mut Port,
    signals: Signals,
    policy: Option<LoadedPolicy>,
    /// What `policy` was loaded from.
    present: Option<PolicyJob>,
    /// Times that it was loaded again since.
    nr_restarts: u32,
    interrupted: bool,
}

/// Times that a policy is loaded again because the kernel asks for it, at the most.
const RESTARTS_MAX: u32 = 1000;
/// Times that this is tried each time.
const RESTART_TRIES_MAX: u32 = 5;

impl Run<'_> {
    /// Loads a policy where there is none.
    fn load(&mut self, policy: &PolicyJob) -> Result<(), LoadError> {
        self.load_once(policy)?;
        self.present = Some(policy.clone());
        self.nr_restarts = 0;
        Ok(())
    }

    fn load_once(&mut self, policy: &PolicyJob) -> Result<(), LoadError> {
        let reach = if self.job.isolated_plays { Reach::Willing } else { Reach::AsWritten };
        let loaded = loader::load_for(reach, &policy.object, &policy.set)?;
        if std::process::id() == 1 {
            prints::make_room();
        }
        self.adopt(loaded);
        Ok(())
    }

    fn adopt(&mut self, mut loaded: LoadedPolicy) {
        if self.job.counters_every_ns > 0 {
            loaded.count_calls();
        }
        self.port.send(&Record::Attached(loaded.attached().clone()));
        self.policy = Some(loaded);
    }

    fn do_all(&mut self) -> io::Result<Outcome> {
        let mut outcome = Outcome::Done;
        for (index, work) in self.job.work.iter().enumerate() {
            // What comes after an ejection would be measured on another scheduler.
            if self.report_ejection() {
                return Ok(Outcome::PolicyFailed);
            }
            if self.interrupted {
                break;
            }
            self.port.send(&Record::Started { index, title: work.title(), at_ns: uptime_ns() });
            match self.do_one(index, work)? {
                Outcome::Done => {}
                Outcome::Failed => outcome = Outcome::Failed,
                Outcome::PolicyFailed => return Ok(Outcome::PolicyFailed),
            }
        }
        if self.report_ejection() {
            return Ok(Outcome::PolicyFailed);
        }
        self.detach();
        Ok(outcome)
    }

    fn detach(&mut self) {
        if let Some(policy) = self.policy.take() {
            self.port.send(&Record::Detached(policy.detach()));
        }
    }

    fn do_one(&mut self, index: usize, work: &Work) -> io::Result<Outcome> {
        let own_ns =
            if let Work::Command { time_limit_ns, .. } = work { *time_limit_ns } else { 0 };
        let limit_ns = [own_ns, self.job.time_limit_ns].into_iter().find(|&ns| ns > 0);
        let limit = limit_ns.map(Duration::from_nanos);
        let succeeded = match work {
            Work::Load(policy) => {
                self.detach();
                if let Err(refusal) = self.load(policy) {
                    return Ok(refuse(&refusal, self.port));
                }
                true
            }
            Work::Command { argv, .. } => {
                let finished = command::run(index, argv, limit, |wait| self.watch(wait))?;
                let succeeded = finished.status == Some(0);
                self.port.send(&Record::Finished(finished));
                succeeded
            }
            Work::Read { paths } => {
                let texts = files::texts(paths);
                self.port.send(&Record::Files(Files { index, texts }));
                true
            }
            Work::Wait { wall_ns } => {
                self.pause(Duration::from_nanos(*wall_ns))?;
                true
            }
            Work::Play(play) if self.job.isolated_plays => {
                self.play_under_new_policy(index, play, limit)
            }
            Work::Play(play) => self.play(index, play, limit),
        };
        Ok(if succeeded { Outcome::Done } else { Outcome::Failed })
    }

    /// Loads the policy again if the kernel ended it and asks for that: it does so to a policy that
    /// does not hear of CPUs which come and go. Whether it was loaded.
    fn restart_if_asked(&mut self) -> bool {
        let Some(exit) = self.policy.as_ref().and_then(LoadedPolicy::exit) else { return false };
        let Some(present) = self.present.clone() else { return false };
        if !exit.asks_for_restart() || self.nr_restarts >= RESTARTS_MAX {
            return false;
        }
        self.policy = None;
        self.nr_restarts += 1;
        self.port.send(&Record::Restarted(exit));
        for _ in 1..RESTART_TRIES_MAX {
            match self.load_once(&present) {
                Ok(()) => return true,
                // Another CPU came or went while it was enabled, which ends it before it begins.
                Err(refusal) if refusal.stage() == Stage::Attach => thread::sleep(LOOK_EVERY),
                Err(_) => break,
            }
        }
        let last = self.load_once(&present);
        if let Err(refusal) = &last {
            refuse(refusal, self.port);
        }
        last.is_ok()
    }

    /// A signal that cannot be asked for is none; the limit of time remains.
    fn is_told_to_stop(&mut self) -> bool {
        self.restart_if_asked();
        self.watch(Some(Duration::ZERO)).is_ok_and(|wake| wake == Wake::Stop)
    }

    /// Plays, and looks into the policy meanwhile as is asked; whether all went well.
    fn play(&mut self, index: usize, play: &Play, limit: Option<Duration>) -> bool {
        let looker = match &self.policy {
            Some(policy) if !play.inside.is_empty() => match Looker::new(&play.inside, policy) {
                Ok(looker) => Some(looker),
                Err(message) => {
                    self.port.send(&Record::Error { message });
                    return false;
                }
            },
            _ => None,
        };
        let look = looker.as_ref().map(|looker| |playing: &Playing<'_>| looker.look(playing));
        let beside = look.as_ref().map(|look| look as Beside<'_>);
        let mut stop = || {
            let has_ended = self.policy.as_ref().is_some_and(|policy| policy.exit().is_some());
            looker.iter().filter(|_| has_ended).for_each(Looker::end);
            self.is_told_to_stop()
        };
        let record = play::play(index, play, limit, (None, beside), &mut stop);
        let succeeded = matches!(record, Record::Played(_));
        self.port.send(&record);
        let policy = self.policy.as_ref().filter(|policy| policy.exit().is_none());
        for record in looker.into_iter().flat_map(|looker| looker.records(policy)) {
            self.port.send(&record);
        }
        succeeded
    }

    /// Loads the policy when the play's tasks lie down, unloads it after them; whether all went
    /// well.
    fn play_under_new_policy(
        &mut self,
        index: usize,
        play: &Play,
        limit: Option<Duration>,
    ) -> bool {
        let mut loaded_at_ns = None;
        let mut refusal = None;
        let mut load_and_go_on = || {
            if loaded_at_ns.is_none() {
                refusal = self.job.policy.as_ref().and_then(|policy| self.load(policy).err());
                loaded_at_ns = Some(uptime_ns());
            }
            refusal.is_some() || self.is_told_to_stop()
        };
        let mut record = play::play(index, play, limit, (Some(LOADING), None), &mut load_and_go_on);
        if let Some(refusal) = refusal {
            refuse(&refusal, self.port);
            return false;
        }
        if let Record::Played(played) = &record
            && loaded_at_ns.is_none_or(|at_ns| at_ns >= played.played.start_at_monotonic_ns)
        {
            let message = format!("the policy was not loaded within {} s", LOADING.as_secs());
            record = Record::Error { message };
        }
        let succeeded = matches!(record, Record::Played(_));
        self.port.send(&record);
        if self.report_ejection() {
            return false;
        }
        self.detach();
        succeeded
    }

    /// Lets time pass; whether that was interrupted, by a signal or the policy's end.
    fn pause(&mut self, wall: Duration) -> io::Result<bool> {
        let end = uptime().saturating_add(wall);
        let mut counters = CounterSource::begin(self.job.counters_every_ns);
        loop {
            let left = end.saturating_sub(uptime());
            if left.is_zero() || self.interrupted {
                return Ok(self.interrupted);
            }
            let next = counters.next_in().map_or(left, |due| due.min(left)).min(LOOK_EVERY);
            self.watch(Some(next))?;
            if let Some(found) = counters.due(self.policy.as_ref()) {
                self.port.send(&Record::Counters(found));
            }
            let has_ended = |policy: &LoadedPolicy| policy.exit().is_some();
            if self.policy.as_ref().is_some_and(has_ended) && !self.restart_if_asked() {
                return Ok(true);
            }
        }
    }

    /// Waits for a child's end or a signal, at most as long as said.
    fn watch(&mut self, wait: Option<Duration>) -> io::Result<Wake> {
        let wake = self.signals.wait(wait)?;
        self.interrupted |= wake == Wake::Stop;
        Ok(wake)
    }

    fn report_ejection(&mut self) -> bool {
        if self.restart_if_asked() {
            return false;
        }
        let Some(exit) = self.policy.as_ref().and_then(LoadedPolicy::exit) else { return false };
        let kernels = if exit.dump.is_empty() { kernel_dump::taken() } else { exit.dump.clone() };
        let policy = self.policy.take();
        if let Some(dumped) = policy.and_then(|policy| inside::state_at_end(&policy, &kernels)) {
            self.port.send(&Record::Dumped(dumped));
        }
        self.port.send(&Record::Ejected(exit));
        true
    }
}

/// What loading a policy may take, of a play whose tasks wait for it.
const LOADING: Duration = Duration::from_secs(6);

/// How often a policy that nobody disturbs is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

fn booted() -> Booted {
    Booted {
        kernel_release: status::kernel_release(),
        nr_cpus: online_cpus(),
        at_ns: uptime_ns(),
        sched_ext: status::has_sched_ext(),
    }
}

fn online_cpus() -> u32 {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Time since the kernel's start.
fn uptime() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Into::into)
}

fn uptime_ns() -> u64 {
    u64::try_from(uptime().as_nanos()).unwrap_or(u64::MAX)
}
