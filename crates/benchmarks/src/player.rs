//! Plays a workload with real tasks and says what came of it.
//!
//! The caller's process may have threads and signal handlers of its own: all that is special
//! happens in a child of it, the conductor. [`play`] says where a play and a simulation of the
//! same workload must differ.

mod cgroups;
mod changes;
pub mod channel;
mod conductor;
pub mod distribution;
pub mod error;
pub mod pace;
pub mod requests;
pub mod score;
mod setting;
mod stage;
mod task;

use crate::system::{self, Cpus, Fork};
use cgroups::{Cgroups, check_cgroups};
use changes::has_hotplug;
use error::{PlayError, Step, Who};
use pace::Burner;
use requests::{Requests, check_messages};
use scenario::workload::{ChangeKind, CpuSet, Op, Workload};
use score::{Played, Status};
use serde::{Deserialize, Serialize};
use setting::Setting;
use stage::{Ending, Stage};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

/// What `Run` operations are measured by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// CPU time of the task: a loop that is timed before the play, and for long work the thread's
    /// own clock. For machines whose clock is time.
    #[default]
    CpuTime,
    /// A nanosecond is an instruction, as in a virtual machine whose clock counts them.
    Instructions,
}

/// The scheduling class of the tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// `SCHED_OTHER`: the kernel's own scheduler, or a policy that took over the whole machine.
    #[default]
    Normal,
    /// `SCHED_EXT`: a policy that schedules only tasks which ask for it.
    Ext,
}

/// How to play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Seed of all random draws: the same draws as in a simulation with this seed.
    pub seed: u64,
    /// The longest that it may take from the workload's time 0, in ns.
    pub limit_ns: u64,
    /// What computing is measured by.
    pub pace: Pace,
    /// Class of the tasks.
    pub class: Class,
    /// Time, in ns, from when all initial tasks lie down to the workload's time 0. It is the
    /// caller's: `interrupted` is asked in it, and may load a policy for tasks that are as new to
    /// it as those of a simulation.
    pub lead_ns: u64,
    /// Whether CPUs of this machine may be taken down and cgroups made, which needs root and may
    /// touch all that runs here. Both are undone at the end, unless the player is killed.
    pub hotplug: bool,
}

impl Default for Options {
    fn default() -> Self {
        let limit_ns = 60_000_000_000;
        let (pace, class) = (Pace::default(), Class::default());
        Options { seed: 0, limit_ns, pace, class, lead_ns: 0, hotplug: false }
    }
}

/// A play that goes on, for whoever looks at it meanwhile.
pub struct Playing<'a> {
    stage: &'a Stage,
    is_over: AtomicBool,
}

impl Playing<'_> {
    /// When the workload's time 0 is, on `CLOCK_MONOTONIC`; `None` before all tasks lie down for
    /// it.
    pub fn start_at_ns(&self) -> Option<u64> {
        let play = self.stage.play();
        play.start_counts().then(|| play.start_at_ns.load(SeqCst))
    }

    /// The thread that plays the task of this number, if it has begun.
    pub fn thread(&self, number: u32) -> Option<i32> {
        let has_task = number < self.stage.play().nr_tasks.load(SeqCst);
        let tid = || self.stage.slot(number).tid.load(SeqCst);
        has_task.then(tid).filter(|&tid| tid != 0)
    }

    /// Whether all tasks are gone.
    pub fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }
}

/// What looks at a play from a thread of its own, until the play is over.
pub type Beside<'a> = &'a (dyn Fn(&Playing<'_>) + Sync);

/// How often the caller is asked whether to go on.
const INTERRUPT_MS: i32 = 200;
/// The same, but for the first time, where instructions are time: there every look would be a
/// part of what is played.
const INTERRUPT_COUNTED_MS: i32 = 60_000;

/// Plays `workload` on this machine, under the scheduler that it has, and returns when every task
/// is gone. `interrupted` is asked a few times a second, in the caller's own process, whether to
/// end; once at the beginning and then each minute, where instructions are counted.
///
/// Each task draws from the stream that it has in the simulator and runs the same operations. What
/// differs from a simulation, whatever the scheduler: operations take the time that they take
/// here; a task computes between birth and first operation (name, nice value, CPUs) and when it
/// exits; a fork is numbered when it begins, in a simulation when it ends; a message to a pipe
/// wakes a receiver only if the pipe was empty, and socket buffers round as the kernel rounds;
/// initial tasks are woken by a timer, not as new tasks; who joins children that fork themselves
/// or that are threads is woken by the last of them a moment before that one is gone.
///
/// # Errors
/// If the workload cannot be played here, a task fails or is killed, or `interrupted` says so.
/// In every case all tasks are gone.
pub fn play(
    workload: &Workload,
    options: &Options,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Played, PlayError> {
    play_beside(workload, options, interrupted, None)
}

/// As [`play`], and meanwhile `beside` runs, before all tasks of the play if real-time priorities
/// are allowed.
///
/// # Errors
/// As [`play`].
pub fn play_beside(
    workload: &Workload,
    options: &Options,
    interrupted: &mut dyn FnMut() -> bool,
    beside: Option<Beside<'_>>,
) -> Result<Played, PlayError> {
    workload.check()?;
    let all_cpus =
        system::affinity().map_err(|errno| PlayError::system("cannot ask for CPUs", errno))?;
    check_cpus(workload, &all_cpus)?;
    check_playable(workload)?;
    if has_hotplug(workload) && !options.hotplug {
        return Err(PlayError::Hotplug { workload: workload.name.clone() });
    }
    if !workload.cgroups.is_empty() && !options.hotplug {
        return Err(PlayError::Cgroups { workload: workload.name.clone() });
    }
    let channels = channel::make_channels(workload)?;
    let stage = Stage::new(workload.nr_gates as usize)
        .map_err(|errno| PlayError::system("cannot map the memory of all tasks", errno))?;
    let requests = Requests::new(workload)
        .map_err(|errno| PlayError::system("cannot map the memory of requests", errno))?;
    let cgroups = Cgroups::new(workload)?;
    let burner = match options.pace {
        Pace::CpuTime => Burner::measured(),
        Pace::Instructions => Burner::counting_instructions(),
    };
    stage.play().turns_per_ms.store(burner.turns_per_ms, SeqCst);
    let setting = Setting {
        workload,
        stage: &stage,
        channels: &channels,
        requests: requests.as_ref(),
        cgroups: &cgroups,
        seed: options.seed,
        burner,
        class: options.class,
        lead_ns: options.lead_ns,
        all_cpus,
        message_bytes: message_bytes_max(workload),
        has_mark: workload.templates.iter().any(|kind| kind.program.contains(&Op::Mark)),
    };
    let caller = system::pid();
    let conductor = match system::fork() {
        Err(errno) => return Err(PlayError::system("cannot start the player's process", errno)),
        Ok(Fork::Child) => conductor::conduct(&setting, caller, options.limit_ns),
        Ok(Fork::Parent(conductor)) => conductor,
    };
    let again_ms = match options.pace {
        Pace::CpuTime => INTERRUPT_MS,
        Pace::Instructions => INTERRUPT_COUNTED_MS,
    };
    // It begins after the fork: of a process with threads, a fork is half a process.
    let wait_status =
        with_beside(beside, &stage, || await_conductor(conductor, again_ms, interrupted))?;
    let nr_cpus = all_cpus.iter().map(|word| u64::from(word.count_ones())).sum();
    match Ending::of(stage.play().ending.load(SeqCst)) {
        Some(Ending::AllEnded | Ending::WorkloadStopped) => {
            Ok(score::score(&setting, Status::Completed, nr_cpus))
        }
        Some(Ending::TimeIsUp) => Ok(score::score(&setting, Status::Stopped, nr_cpus)),
        Some(Ending::Interrupted) => Err(PlayError::Interrupted),
        Some(Ending::Failed) => Err(failed(&stage, workload)),
        None => Err(PlayError::ConductorDied { status: wait_status }),
    }
}

/// What `wait` gives, during which `beside` runs, if there is such.
fn with_beside<T>(beside: Option<Beside<'_>>, stage: &Stage, wait: impl FnOnce() -> T) -> T {
    let playing = Playing { stage, is_over: AtomicBool::new(false) };
    thread::scope(|threads| {
        if let Some(beside) = beside {
            threads.spawn(|| {
                let _ = system::set_class(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1);
                beside(&playing);
            });
        }
        let waited = wait();
        playing.is_over.store(true, SeqCst);
        waited
    })
}

/// Whether real tasks can do at all what the workload says, on whatever machine.
///
/// # Errors
/// If a task forks into an address space that it is not in, tasks of one address space are in more
/// than one cgroup, or messages cannot carry requests.
pub fn check_playable(workload: &Workload) -> Result<(), PlayError> {
    check_address_spaces(workload)?;
    check_cgroups(workload)?;
    check_messages(workload)
}

/// Waits for the conductor and returns its wait status; passes an interrupt of the caller on, who
/// is asked first after [`INTERRUPT_MS`] and then every `again_ms`.
fn await_conductor(
    conductor: i32,
    again_ms: i32,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<i32, PlayError> {
    let mut wait_ms = INTERRUPT_MS;
    loop {
        let ended = system::reap_child(conductor, wait_ms)
            .map_err(|errno| PlayError::system("cannot wait for the player's process", errno))?;
        if let Some(status) = ended {
            return Ok(status);
        }
        if interrupted() {
            system::send_signal(conductor, libc::SIGTERM);
        }
        wait_ms = again_ms;
    }
}

fn failed(stage: &Stage, workload: &Workload) -> PlayError {
    let Some(failure) = stage.play().first_failure() else {
        return PlayError::ConductorDied { status: 0 };
    };
    let who = failure.task.map_or(Who::Player, |task| {
        let template = stage.slot(task).template.load(SeqCst) as usize;
        Who::Task(task, workload.templates[template].name.clone())
    });
    let step = Step::of(failure.step).expect("only steps are stored");
    if step == Step::Death {
        return PlayError::Died { who, signal: failure.errno };
    }
    PlayError::Task { who, step, source: std::io::Error::from_raw_os_error(failure.errno) }
}

fn check_cpus(workload: &Workload, all_cpus: &Cpus) -> Result<(), PlayError> {
    let is_here =
        |cpu: u32| all_cpus.get(cpu as usize / 64).is_some_and(|word| word & 1 << (cpu % 64) != 0);
    for (task, cpus) in all_cpu_sets(workload) {
        let cpus = cpus.as_deref().unwrap_or_default();
        if !cpus.iter().all(|&cpu| is_here(cpu)) {
            return Err(PlayError::Cpus {
                workload: workload.name.clone(),
                task: task.to_string(),
                cpus: cpus.to_vec(),
                here: (0..all_cpus.len() as u32 * 64).filter(|&cpu| is_here(cpu)).collect(),
            });
        }
    }
    Ok(())
}

/// All sets of CPUs that tasks are ever bound to, with the tasks' names.
fn all_cpu_sets(workload: &Workload) -> Vec<(&str, &CpuSet)> {
    let mut found = Vec::new();
    for kind in &workload.templates {
        found.push((kind.name.as_str(), &kind.cpus));
        let binds = |op: &Op| match *op {
            Op::Affinity { set } => Some((kind.name.as_str(), &workload.cpu_sets[set as usize])),
            _ => None,
        };
        found.extend(kind.program.iter().filter_map(binds));
    }
    found.extend(workload.changes.iter().filter_map(|change| match &change.what {
        ChangeKind::Affinity { task, cpus } => Some((task.as_str(), cpus)),
        _ => None,
    }));
    found
}

/// A task can have a child in its own address space or in a new one, nowhere else.
fn check_address_spaces(workload: &Workload) -> Result<(), PlayError> {
    for parent in &workload.templates {
        for op in parent.program.iter() {
            let Op::Fork { template } = *op else { continue };
            let child = &workload.templates[template as usize];
            if child.address_space.is_some() && child.address_space != parent.address_space {
                return Err(PlayError::AddressSpace {
                    workload: workload.name.clone(),
                    parent: parent.name.clone(),
                    child: child.name.clone(),
                });
            }
        }
    }
    Ok(())
}

fn message_bytes_max(workload: &Workload) -> usize {
    let ops = workload.templates.iter().flat_map(|kind| kind.program.iter());
    let sizes = ops.map(|op| match *op {
        Op::Send { bytes, .. } | Op::Recv { bytes, .. } => bytes as usize,
        _ => 0,
    });
    sizes.max().unwrap_or(0)
}
