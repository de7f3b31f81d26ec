//! Loading a policy's BPF object into the running kernel, and taking it out again.
//!
//! Whatever happens to this process, the kernel goes back to its own scheduler: the policy lives
//! as long as its [`LoadedPolicy`], and the kernel lets go of it when the process dies. Objects
//! need not come from schedlab: any object with one `sched_ext_ops` is loaded.

mod error;
mod exit_record;
mod front_end;
mod inside;
pub(crate) mod kernel_dump;
mod kernel_enums;
mod open;
mod reason;
mod run_counts;
mod settings;
pub mod status;
mod topology;
mod variables;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use libbpf_rs::{Link, MapCore, MapType, Object, OpenObject, PrintLevel};

use crate::records::{Attached, Exit, Program};
pub use error::LoadError;
use exit_record::ExitRecord;
pub use inside::Inside;
use inside::Origin;
use kernel_dump::KernelDump;
use run_counts::RunCounts;
use status::Status;

/// Source: Linux kernel/sched/ext_internal.h; the same in all releases with sched_ext.
const SCX_OPS_SWITCH_PARTIAL: u64 = 1 << 3;
/// Name of a policy's section for `struct sched_ext_ops`, for messages.
const OPS_STRUCT: &str = "sched_ext_ops";

/// Which tasks a policy gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// What the policy itself says: usually all but real-time tasks.
    #[default]
    AsWritten,
    /// Only tasks that have asked for it, by the class `SCHED_EXT`. All others stay with the
    /// kernel's own scheduler, and run before them.
    Willing,
}

/// A policy that was accepted. Dropping it gives the machine back to the kernel's scheduler.
#[derive(Debug)]
pub struct LoadedPolicy {
    // Dropped first: a policy must be detached before its maps go.
    link: Option<Link>,
    object: Object,
    exit_record: Option<ExitRecord>,
    attached: Attached,
    messages: status::KernelMessages,
    run_counts: Option<RunCounts>,
    origin: Origin,
}

/// Loads the object in the file `object`, with the tunables `set` to other values, and lets it
/// schedule the machine. Takes 0.3 s to some seconds, most of it the kernel's verifier.
///
/// # Errors
///
/// [`LoadError`] says which step failed and why; the machine is then on the kernel's own scheduler.
pub fn load(object: &Path, set: &BTreeMap<String, String>) -> Result<LoadedPolicy, LoadError> {
    load_for(Reach::AsWritten, object, set)
}

/// Joins objects, as the compiler made each of one source, to one.
///
/// # Errors
///
/// What libbpf says of objects that do not fit together.
pub fn join(into: &Path, objects: &[&Path]) -> Result<(), String> {
    let log = LoaderLog::begin();
    let joined = libbpf_rs::Linker::new(into).and_then(|mut linker| {
        objects.iter().try_for_each(|object| linker.add_file(object))?;
        linker.link()
    });
    joined.map_err(|error| format!("{error}\n{}", log.text()))
}

/// As [`load`], for some tasks or all.
///
/// # Errors
///
/// As [`load`].
pub fn load_for(
    reach: Reach,
    object: &Path,
    set: &BTreeMap<String, String>,
) -> Result<LoadedPolicy, LoadError> {
    require_sched_ext()?;
    let image = read_object(object)?;
    let log = LoaderLog::begin();
    let variables = variables::of_object(&image)?;
    let mut opened =
        open::open(&image).map_err(|e| LoadError::unreadable(object, &e, log.text()))?;
    topology::fill(&mut opened, &variables);
    kernel_enums::fill(&mut opened, &variables);
    let plan = front_end::of_object(&image)?;
    if let Some(plan) = &plan {
        front_end::prepare(&mut opened, &variables, plan)?;
    }
    if reach == Reach::Willing {
        settings::raise_ops_flags(&mut opened, &variables, SCX_OPS_SWITCH_PARTIAL);
    }
    let name = settings::ops_name(&opened, &variables);
    let before = Status::now();
    let messages = status::KernelMessages::from_now();
    if !opened.maps().any(|map| map.map_type() == MapType::StructOps) {
        return Err(LoadError::NoPolicy { wanted: OPS_STRUCT });
    }
    settings::apply(&mut opened, &variables, set)?;
    let origin = Origin::of(image, &opened);
    let exit_record = ExitRecord::find(&variables);
    if exit_record.is_none() && std::process::id() == 1 {
        // In a machine of ours, the kernel's dump comes to us all the same; without it the rest of
        // a policy's end is told.
        let _ = KernelDump::begin_for_end();
    }
    let (mut loaded, load_ns) = verify(opened, &log)?;
    if let Some(plan) = &plan {
        front_end::fill(&mut loaded, plan)?;
    }
    let mut policy = attach(loaded, &before, messages, &log)?;
    policy.attached.policy = name.or_else(|| Status::now().ops).unwrap_or_default();
    policy.attached.load_ns = load_ns;
    policy.origin = origin;
    policy.exit_record = exit_record;
    policy.require_enabled()?;
    if let Some(plan) = &plan {
        front_end::call(&mut policy.object, plan, true)?;
    }
    Ok(policy)
}

fn require_sched_ext() -> Result<(), LoadError> {
    if !status::has_sched_ext() {
        return Err(LoadError::NoSchedExt { kernel_release: status::kernel_release() });
    }
    if !nix::unistd::geteuid().is_root() {
        return Err(LoadError::NotRoot);
    }
    let status = Status::now();
    match status.ops {
        Some(ops) if status.state != "disabled" => Err(LoadError::Occupied { ops }),
        _ => Ok(()),
    }
}

impl LoadedPolicy {
    /// How loading went.
    pub fn attached(&self) -> &Attached {
        &self.attached
    }

    /// Why the policy has ended, or `None` while it schedules.
    pub fn exit(&self) -> Option<Exit> {
        let status = Status::now();
        if status.is_enabled_with(self.attached.enable_seq) {
            return None;
        }
        // `ops.exit` runs on the way out.
        status::wait_until_disabled(self.attached.enable_seq);
        Some(self.exit_from_kernel())
    }

    /// Ends the policy, and returns its end as the kernel describes it.
    pub fn detach(mut self) -> Exit {
        self.link = None;
        status::wait_until_disabled(self.attached.enable_seq);
        self.exit_from_kernel()
    }

    /// What it has inside, on a machine of so many CPUs, as long as anybody looks: its maps stay
    /// when it has ended, its variables as long as this policy.
    ///
    /// # Errors
    ///
    /// A sentence on why nobody can look.
    pub fn inside(&self, nr_cpus: usize) -> Result<Inside, String> {
        Inside::new(&self.origin, &self.object, nr_cpus)
    }

    /// Lets the kernel count runs of programs from now on, for [`LoadedPolicy::calls`]. Where it
    /// cannot, counts stay zero.
    pub fn count_calls(&mut self) {
        self.run_counts = RunCounts::begin().ok();
    }

    /// How often each of its programs has run while they were counted, by name.
    pub fn calls(&self) -> BTreeMap<String, u64> {
        let count = |p: libbpf_rs::Program<'_>| {
            let name = p.name().to_string_lossy().into_owned();
            (name, fdinfo_number(p.as_fd().as_raw_fd(), "run_cnt").unwrap_or(0))
        };
        self.object.progs().map(count).collect()
    }

    /// The policy's own record if it keeps one, else what the kernel wrote to its log and dumped.
    fn exit_from_kernel(&self) -> Exit {
        let recorded = self.exit_record.as_ref().and_then(|record| record.read(&self.object));
        let logged =
            || Exit { dump: kernel_dump::taken(), ..self.messages.exit(&self.attached.policy) };
        recorded.unwrap_or_else(logged).with_hint()
    }

    /// The kernel reports success even where `ops.init` failed, so its state is looked at. A policy
    /// that was enabled and broke a rule since then is not refused but ejected.
    fn require_enabled(&self) -> Result<(), LoadError> {
        let status = Status::now();
        if status.enable_seq >= self.attached.enable_seq {
            return Ok(());
        }
        match self.exit() {
            Some(exit) if exit.kind != 0 => Err(LoadError::Ended { exit: Box::new(exit) }),
            _ => Err(LoadError::NotEnabled { state: status.state }),
        }
    }
}

fn read_object(path: &Path) -> Result<Vec<u8>, LoadError> {
    let mut image = Vec::new();
    std::fs::File::open(path)
        .and_then(|mut file| file.read_to_end(&mut image))
        .map_err(|source| LoadError::NoObject { path: path.to_owned(), source })?;
    Ok(image)
}

/// Has the kernel verify every program.
fn verify(opened: OpenObject, log: &LoaderLog) -> Result<(Object, u64), LoadError> {
    let start = Instant::now();
    let loaded = opened.load().map_err(|e| LoadError::verifier(&e, log.text()))?;
    Ok((loaded, elapsed_ns(start)))
}

fn attach(
    mut object: Object,
    before: &Status,
    messages: status::KernelMessages,
    log: &LoaderLog,
) -> Result<LoadedPolicy, LoadError> {
    let start = Instant::now();
    let link = object
        .maps_mut()
        .find(|map| map.map_type() == MapType::StructOps)
        .ok_or(LoadError::NoPolicy { wanted: OPS_STRUCT })?
        .attach_struct_ops()
        .map_err(|e| LoadError::attach(&e, before, &messages.text(), log.text()))?;
    let attach_ns = elapsed_ns(start);
    let attached = Attached {
        policy: String::new(),
        load_ns: 0,
        attach_ns,
        // The kernel counts a policy when it is enabled; one that failed in init never is.
        enable_seq: before.enable_seq + 1,
        programs: programs(&object),
    };
    Ok(LoadedPolicy {
        link: Some(link),
        object,
        exit_record: None,
        attached,
        messages,
        run_counts: None,
        origin: Origin::default(),
    })
}

fn programs(object: &Object) -> Vec<Program> {
    let program = |p: libbpf_rs::Program<'_>| Program {
        name: p.name().to_string_lossy().into_owned(),
        verified_instructions: fdinfo_number(p.as_fd().as_raw_fd(), "verified_insns")
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(0),
    };
    object.progs().map(program).collect()
}

/// A number that the kernel tells about one of our open files.
fn fdinfo_number(fd: i32, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    let line = text.lines().find(|line| line.split(':').next() == Some(field))?;
    line.split(':').nth(1)?.trim().parse().ok()
}

fn elapsed_ns(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Whether a map of a loaded object holds the section of this name.
fn holds_section(map_name: &OsStr, section: &str) -> bool {
    let name = map_name.to_string_lossy();
    // The loader puts the object's name before the names of sections that every object has.
    name == section || name.strip_suffix(section).is_some_and(|front| !front.contains('.'))
}

/// What libbpf says, the verifier's log included, while one of these lives.
///
/// libbpf has one printer a process, so loads take turns.
struct LoaderLog(#[expect(dead_code, reason = "held for its lifetime")] LoaderTurn);

type LoaderTurn = std::sync::MutexGuard<'static, ()>;

static LOADER_TURN: Mutex<()> = Mutex::new(());
static LOADER_SAID: Mutex<String> = Mutex::new(String::new());

/// Most bytes kept of the loader's words; a verifier's log is cut in its middle by libbpf.
const LOADER_SAID_BYTES_MAX: usize = 16 << 20;

impl LoaderLog {
    fn begin() -> Self {
        let turn = LOADER_TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        said().clear();
        libbpf_rs::set_print(Some((PrintLevel::Info, |_, text| {
            let mut said = said();
            if said.len() + text.len() <= LOADER_SAID_BYTES_MAX {
                said.push_str(&text);
            }
        })));
        LoaderLog(turn)
    }

    fn text(&self) -> String {
        said().clone()
    }
}

fn said() -> std::sync::MutexGuard<'static, String> {
    LOADER_SAID.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_found_by_its_section() {
        let holds = |map: &str, section| holds_section(OsStr::new(map), section);
        assert!(holds("round_ro.rodata", ".rodata"));
        assert!(holds(".data.exit_record", ".data.exit_record"));
        assert!(!holds("round_ro.rodata.str1.1", ".rodata"));
        assert!(!holds(".data.rodata", ".rodata"));
    }
}
