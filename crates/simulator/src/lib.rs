//! One deterministic machine that runs a sched_ext policy in virtual time.
//!
//! [`simulate`] is a pure function: equal inputs give equal results, to the last digit of the
//! digest, on every machine and beside any number of other simulations. It uses no thread, clock,
//! file or environment, but for one file without a name, in the folder for temporary files, while
//! more is recorded of a run than is to be kept in memory.
//!
//! To read on: `engine` takes events in their order; `program` is what tasks do; `core` is the
//! kernel that the policy reaches, made of parts; `scheduling` is how sched_ext picks;
//! `kernel_calls` is what the policy may call; `invariants` is what must hold.

mod abi;
mod affinity;
mod agenda;
mod allocator;
mod background;
mod birth;
mod buses;
mod cache_mates;
mod caches;
mod changes;
mod channel;
mod choices;
mod cid_form;
mod cids;
mod content;
mod core;
mod cpu;
mod cpus;
mod dispatch_queue;
mod dump;
mod ending;
mod engine;
mod enqueueing;
mod failure;
mod flags;
mod groups;
mod hooks;
mod hotplug;
mod idle;
mod interrupts;
mod invariants;
mod kernel;
mod kernel_calls;
mod limits;
mod line;
mod linked;
mod moves;
mod neighbours;
mod next_event;
mod object_calls;
mod object_runs;
mod observation;
mod operations;
mod picking;
mod place;
mod placement;
mod policy_state;
mod policy_time;
mod prints;
mod profile;
mod program;
mod programs;
mod queue_record;
mod queueing;
mod queues;
mod record;
mod recorder;
mod releases;
mod requests;
mod restart;
mod scheduling;
mod shown;
mod task;
mod ticks;
mod time;
mod timer;
mod timers;
mod times;
mod visible;
mod watch;
mod world;

pub use choices::Choice;
pub use dump::DUMPS_MAX;
pub use failure::{Failure, FailureKind};
pub use observation::{Allowed, Event, Observation};
pub use policy_time::PolicyExecuted;
pub use prints::{PRINTS_MAX, Show};
pub use profile::{LineProfile, OperationProfile, Profile};
pub use queue_record::{QueueOperation, QueueRecord};
pub use record::{Record, RecordError};
pub use recorder::{CpuTime, Dump, Overhead, RunResult, Status, Stay, TaskGroup, Wakeup};
pub use requests::RequestGroup;
pub use task::nice_weight;
pub use times::Distribution;
pub use watch::{Sample, Watched};

use bytecode::UnknownMap;
use linked::Refusal;
use scenario::machine::{CPUS_MAX, Machine, Release};
use scenario::workload::Workload;
use std::collections::BTreeMap;

/// What a run is given beside policy, machine and workload.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Seed of all random draws.
    pub seed: u64,
    /// Stop at this simulated time in ns.
    pub until_ns: Option<u64>,
    /// Fail after so many events: a run that needs more repeats something in next to no time, such
    /// as a timer of a nanosecond. Without it there is a limit that no run lives to see.
    pub events_max: Option<u64>,
    /// Record who ran where.
    pub timeline: bool,
    /// Record what happened to tasks and CPUs.
    pub observe: bool,
    /// Record what was done to each dispatch queue.
    pub queues: bool,
    /// Which of several CPUs goes first where they have something to do at the same nanosecond,
    /// counted in the fixed order that all take without this list, and after its end.
    pub choices: Option<Vec<u32>>,
    /// The policy's tunables that are not to keep their defaults.
    pub tunables: BTreeMap<String, i64>,
    /// Take the policy's instructions one by one, as where none of this machine are known for them:
    /// the same, at a fourth of the speed of a whole run or less.
    pub interpreted: bool,
    /// Interpret an object, and end the run where a kernel's verifier could have said that
    /// something is wrong: a pointer leads out of the object that it was derived from, a byte of
    /// the stack is read that nobody wrote, a call is made where the kernel forbids it, something
    /// is not given back. A policy that does nothing of that runs the same. Instructions are looked
    /// at up to the 4 millionth of a run, and take twice as long as interpreted ones.
    pub strict: bool,
    /// Count the policy's own instructions, by operation and by line. It is interpreted.
    pub profile: bool,
    /// Numbers of the policy's to follow, as `stats.wakeups`, `counts[3]`, `map[key].field`.
    pub watch: Vec<String>,
    /// What is to be told of the state of the run, and when.
    pub dumps: Dumps,
    /// Who is shown each line that the policy prints (`bpf_printk`), in the form of a kernel's
    /// `trace_pipe`.
    pub prints: Option<Show>,
}

/// When the state of a run is to be told.
#[derive(Clone, Debug, Default)]
pub struct Dumps {
    /// At these times, in ns.
    pub at_ns: Vec<u64>,
    /// At its end, whatever that is.
    pub at_end: bool,
    /// If it fails.
    pub on_failure: bool,
}

/// What else can be done with a policy that needs what the simulator lacks.
const ON_VM: &str =
    "\nhint: a real kernel may have what the simulator lacks: `schedlab run` has --on vm";

/// A run that could not begin, or of which something that was asked for is lost.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// The policy cannot be loaded with these tunables.
    #[error(transparent)]
    Policy(#[from] policy::PolicyError),
    /// The workload names CPUs that the machine lacks.
    #[error(transparent)]
    Workload(#[from] scenario::ScenarioError),
    /// The policy has a map that the simulator lacks.
    #[error("policy {policy}: map {map} has {reason}")]
    Map {
        /// The policy.
        policy: String,
        /// The map's variable.
        map: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The policy's object needs what the simulator lacks.
    #[error("policy {policy}: {reason}")]
    Object {
        /// The policy.
        policy: String,
        /// What, and where, and a way out if there is one.
        reason: String,
    },
    /// The policy has no number that is to be followed.
    #[error("policy {policy}: {reason}")]
    Watch {
        /// The policy.
        policy: String,
        /// What is not there, and what is.
        reason: String,
    },
    /// The machine has no CPUs, or more than the policy interface can name.
    #[error("machine {machine} has {cpus} CPUs; 1 to {max} can be simulated")]
    Cpus {
        /// The machine.
        machine: String,
        /// Its CPUs.
        cpus: usize,
        /// The most there may be.
        max: usize,
    },
    /// There is no memory for the run.
    #[error(transparent)]
    Addresses(#[from] bytecode::NoAddresses),
    /// What was to be recorded of the run could not be kept.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Runs `workload` on `machine` under `policy`.
///
/// A policy that misbehaves is not an error here: the run ends with [`Status::Failed`] and the
/// kernel's message.
///
/// # Errors
/// If the policy cannot be loaded, the machine cannot be simulated, it lacks CPUs that the workload
/// names, or there is no room for what is to be recorded.
pub fn simulate(
    policy: &policy::Policy,
    machine: &Machine,
    workload: &Workload,
    options: &Options,
) -> Result<RunResult, SimulateError> {
    let nr_cpus = machine.cpus.len();
    if nr_cpus == 0 || nr_cpus > CPUS_MAX {
        let (machine, max) = (machine.name.clone(), CPUS_MAX);
        return Err(SimulateError::Cpus { machine, cpus: nr_cpus, max });
    }
    workload.check_on(machine)?;
    let filled: Vec<_> =
        topology_arrays(machine).into_iter().chain(enumerators(machine.release)).collect();
    let arrays: Vec<(&str, &[u8])> =
        filled.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    let topology = topology(machine);
    let load = || policy.load(&options.tunables, &arrays, &topology);
    let loaded = load()?;
    let new = |loaded, options| {
        kernel::Kernel::new(loaded, &load, machine, workload, &policy.name, options)
    };
    let refused = |refusal| {
        let policy = policy.name.clone();
        match refusal {
            Refusal::Map(UnknownMap { name: map, reason, is_of_unknown_kind }) => {
                let hint = if is_of_unknown_kind { ON_VM } else { "" };
                SimulateError::Map { policy, map, reason: reason + hint }
            }
            Refusal::Addresses(error) => SimulateError::Addresses(error),
            Refusal::Object(reason) => SimulateError::Object { policy, reason },
            Refusal::Watch(reason) => SimulateError::Watch { policy, reason },
        }
    };
    let mut result = new(loaded, options).map_err(refused)?.run()?;
    if options.dumps.at_end || !options.dumps.at_ns.is_empty() {
        let (prints, watch) = (None, vec![]);
        let (timeline, observe, queues, profile) = (false, false, false, false);
        let bare = Options { prints, watch, timeline, observe, queues, profile, ..options.clone() };
        let again = new(load()?, &bare).map_err(refused)?;
        result.dumps.splice(0..0, again.dumps(&options.dumps));
    }
    Ok(result)
}

/// What `scx/topology.bpf.h` asks the loader to fill in.
fn topology_arrays(machine: &Machine) -> [(String, Vec<u8>); 3] {
    let array = |number: fn(&scenario::machine::Cpu) -> u32| {
        machine.cpus.iter().flat_map(|cpu| (number(cpu) as u16).to_ne_bytes()).collect()
    };
    [
        ("topology_core".to_owned(), array(|cpu| cpu.core)),
        ("topology_cache".to_owned(), array(|cpu| cpu.cache)),
        ("topology_node".to_owned(), array(|cpu| cpu.node)),
    ]
}

/// What the file of a policy's loader may ask.
fn topology(machine: &Machine) -> policy::Topology {
    let cpus = machine.cpus.iter().map(|cpu| policy::Processor {
        core: cpu.core,
        llc: cpu.cache,
        node: cpu.node,
        speed: cpu.speed_permille,
    });
    policy::Topology::new(cpus.collect())
}

/// What the headers of other people's schedulers ask the loader to fill in; names that are not
/// known here stay 0, as in a kernel that lacks them.
fn enumerators(release: Option<Release>) -> impl Iterator<Item = (String, Vec<u8>)> {
    let known = world::world(world::WorldKind::default(), release).structures.enumerators();
    known.map(|(name, value)| (format!("__{name}"), value.to_le_bytes().to_vec()))
}
