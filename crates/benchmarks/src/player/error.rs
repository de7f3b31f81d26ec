//! What a play can fail at, in words.

use std::io;

/// A step of a play that can fail in one of its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Step {
    /// The group of all tasks is made.
    Group = 1,
    /// An initial task is created.
    Create,
    /// An initial task reports that it is there.
    Report,
    /// A task takes its nice value.
    Nice,
    /// A task takes its CPUs.
    Affinity,
    /// A task goes into its scheduling class.
    Class,
    /// A task takes memory for messages.
    Memory,
    /// A task forks.
    Fork,
    /// A task sends.
    Send,
    /// A task receives.
    Receive,
    /// A task waits for the end of its children.
    Join,
    /// A task died without having ended; the error is the signal, 0 if that is not known.
    Death,
    /// A CPU is taken down or brought up.
    Hotplug,
    /// A task notes that a request begins or is done.
    Request,
    /// A task goes into its cgroup.
    Cgroup,
    /// A cgroup is given other limits.
    Limits,
}

impl Step {
    /// The step with this number.
    pub(crate) fn of(number: u8) -> Option<Step> {
        use Step::*;
        let tasks =
            [Nice, Affinity, Class, Cgroup, Memory, Fork, Send, Receive, Join, Death, Request];
        let own = [Group, Create, Report, Hotplug, Limits];
        own.into_iter().chain(tasks).find(|step| *step as u8 == number)
    }

    /// What could not be done.
    fn what(self) -> &'static str {
        match self {
            Step::Group => "the process group of the tasks could not be made",
            Step::Create => "could not be created",
            Step::Report => "did not come to its start",
            Step::Nice => "could not take its nice value",
            Step::Affinity => "could not take its CPUs",
            Step::Class => "could not enter its scheduling class",
            Step::Cgroup => "could not enter its cgroup",
            Step::Limits => "a cgroup could not be given other limits",
            Step::Memory => "got no memory for its messages",
            Step::Fork => "could not fork",
            Step::Send => "could not send",
            Step::Receive => "could not receive",
            Step::Join => "could not wait for its children",
            Step::Death => "died before its end",
            Step::Hotplug => "a CPU could not be taken down or brought up",
            Step::Request => "could not note that a request begins or is done",
        }
    }

    /// A way out.
    fn hint(self) -> &'static str {
        match self {
            Step::Group | Step::Create | Step::Fork => {
                "raise the limit on processes (ulimit -u, the cgroup's pids.max, \
                 kernel.pid_max), free memory, or play fewer tasks"
            }
            Step::Report => "the machine is too busy, or its scheduler starves tasks",
            Step::Nice => "negative nice values need root or CAP_SYS_NICE",
            Step::Affinity => "give `cpus` that are online and allowed to this process",
            Step::Class => "the class `ext` needs a kernel with sched_ext",
            Step::Request => "a play notes some 4 million releases and ends: play less of it",
            Step::Cgroup => "the policy may refuse it in `cgroup_prep_move`",
            Step::Memory => "send smaller messages or free memory",
            Step::Send | Step::Receive | Step::Join | Step::Limits => {
                "see the error's number in errno(3)"
            }
            Step::Death => "was it killed for lack of memory? `dmesg` tells",
            Step::Hotplug => {
                "it needs root, a kernel with CONFIG_HOTPLUG_CPU, and a file `online` of that \
                 CPU in /sys/devices/system/cpu"
            }
        }
    }
}

/// Why a workload was not played.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The workload itself is wrong.
    #[error(transparent)]
    Workload(#[from] scenario::ScenarioError),
    /// A task would fork a child into an address space that it is not in itself.
    #[error(
        "workload {workload}: task `{parent}` forks `{child}` into another address space; \
         a real task can only share its own\n\
         hint: give both the same address_space, or the child none"
    )]
    AddressSpace {
        /// The workload.
        workload: String,
        /// Name of the template that forks.
        parent: String,
        /// Name of the template that is forked.
        child: String,
    },
    /// Messages are too small, too large or too irregular to carry the number of a request.
    #[error(
        "workload {workload}: task `{task}` has `{key}` of {bytes} bytes, through a channel that \
         carries requests and whose first `send` has {sent_bytes}; real messages carry requests \
         if those of a channel have one size of 4 to 4096 bytes and are received whole\n\
         hint: give all `send` and `recv` of that channel the same `bytes`, from 4 to 4096"
    )]
    Request {
        /// The workload.
        workload: String,
        /// Name of the template.
        task: String,
        /// `send` or `recv`.
        key: &'static str,
        /// How many bytes.
        bytes: u32,
        /// What the first that sends sends.
        sent_bytes: u32,
    },
    /// It takes CPUs down, and nobody said that it may.
    #[error(
        "workload {workload} takes CPUs of this machine down, which touches all that runs here\n\
         hint: play it in a virtual machine (`--on vm`), simulate it, or allow it explicitly"
    )]
    Hotplug {
        /// The workload.
        workload: String,
    },
    /// It has groups of tasks, and nobody said that they may be made.
    #[error(
        "workload {workload} has cgroups, which are made of this machine's\n\
         hint: play it in a virtual machine (`--on vm`), simulate it, or allow it explicitly"
    )]
    Cgroups {
        /// The workload.
        workload: String,
    },
    /// A group of tasks cannot be made.
    #[error("workload {workload}: {path}: {source}\nhint: {hint}", path = path.display())]
    Cgroup {
        /// The workload.
        workload: String,
        /// What could not be made or written.
        path: std::path::PathBuf,
        /// The kernel's error.
        source: io::Error,
        /// A way out.
        hint: &'static str,
    },
    /// Tasks of one address space are in more than one group.
    #[error(
        "workload {workload}: tasks `{one}` and `{other}` share an address space and not a cgroup; \
         real threads are in the cgroup of their process\n\
         hint: give both the same `cgroup`, or leave `address_space` out"
    )]
    CgroupOfThread {
        /// The workload.
        workload: String,
        /// A task.
        one: String,
        /// One with another group.
        other: String,
    },
    /// A task is bound to CPUs that are not here.
    #[error(
        "workload {workload}: task `{task}` is bound to CPUs {cpus:?}, and this process may use \
         {here:?}\nhint: change `cpus` of the task, or play where there are more CPUs"
    )]
    Cpus {
        /// The workload.
        workload: String,
        /// Name of the template.
        task: String,
        /// Its CPUs.
        cpus: Vec<u32>,
        /// CPUs that there are.
        here: Vec<u32>,
    },
    /// Its channels need more descriptors than a process may have.
    #[error(
        "workload {workload}: {nr_channels} channels need {needed} descriptors, and {allowed} are \
         allowed\nhint: ulimit -n {needed} (as root, fs.nr_open is the most), or play fewer groups"
    )]
    Descriptors {
        /// The workload.
        workload: String,
        /// Its channels.
        nr_channels: usize,
        /// Descriptors for them and for what is open.
        needed: u64,
        /// What the hard limit allows.
        allowed: u64,
    },
    /// A channel is smaller than it should be.
    #[error(
        "channel {channel} holds {got_bytes} bytes here instead of {wanted_bytes}\nhint: {hint}"
    )]
    Capacity {
        /// Index of the channel.
        channel: usize,
        /// What it should hold, in the kernel's own reckoning.
        wanted_bytes: u64,
        /// What it does hold.
        got_bytes: u64,
        /// A way out.
        hint: &'static str,
    },
    /// A system call of the player itself failed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A task could not do what its program says.
    #[error("{} {}: {source}\nhint: {}", who.label(), step.what(), step.hint())]
    Task {
        /// The task, or the player itself.
        who: Who,
        /// What failed.
        step: Step,
        /// The kernel's error.
        source: io::Error,
    },
    /// A task was killed.
    #[error("{} died before its end (signal {signal})\nhint: {}", who.label(), Step::Death.hint())]
    Died {
        /// The task.
        who: Who,
        /// The signal; 0 if that is not known.
        signal: i32,
    },
    /// The process that starts and ends the tasks has died; its tasks have been killed.
    #[error("the player's process died (wait status {status:#x}); its tasks have been killed")]
    ConductorDied {
        /// Its wait status.
        status: i32,
    },
    /// The caller asked for an end.
    #[error("interrupted; all tasks have been killed")]
    Interrupted,
}

/// A task in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// The player itself.
    Player,
    /// A task: its number and its template's name.
    Task(u32, String),
}

impl Who {
    fn label(&self) -> String {
        match self {
            Who::Player => "the player:".to_string(),
            Who::Task(number, name) => format!("task {number} (`{name}`)"),
        }
    }
}

impl PlayError {
    pub(crate) fn system(what: &'static str, errno: i32) -> PlayError {
        PlayError::System { what, source: io::Error::from_raw_os_error(errno) }
    }
}
