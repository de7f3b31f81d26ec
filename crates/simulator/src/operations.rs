//! The operations of a policy.

use policy::Loaded;

/// An operation: a function of the policy's program, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function(pub u64);

/// What of a policy is called: an operation of `sched_ext_ops`, or the callback of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Init,
    Exit,
    InitTask,
    ExitTask,
    Enable,
    Disable,
    SelectCpu,
    Enqueue,
    Dequeue,
    Dispatch,
    Tick,
    Runnable,
    Running,
    Stopping,
    Quiescent,
    Yield,
    SetWeight,
    SetCpumask,
    UpdateIdle,
    CpuOnline,
    CpuOffline,
    /// The callback that was given to `bpf_timer_set_callback`.
    Timer,
}

impl Operation {
    /// What it is called in C.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Init => "init",
            Operation::Exit => "exit",
            Operation::InitTask => "init_task",
            Operation::ExitTask => "exit_task",
            Operation::Enable => "enable",
            Operation::Disable => "disable",
            Operation::SelectCpu => "select_cpu",
            Operation::Enqueue => "enqueue",
            Operation::Dequeue => "dequeue",
            Operation::Dispatch => "dispatch",
            Operation::Tick => "tick",
            Operation::Runnable => "runnable",
            Operation::Running => "running",
            Operation::Stopping => "stopping",
            Operation::Quiescent => "quiescent",
            Operation::Yield => "yield",
            Operation::SetWeight => "set_weight",
            Operation::SetCpumask => "set_cpumask",
            Operation::UpdateIdle => "update_idle",
            Operation::CpuOnline => "cpu_online",
            Operation::CpuOffline => "cpu_offline",
            Operation::Timer => "a timer's callback",
        }
    }
}

/// `struct sched_ext_ops`, as far as the simulator calls it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Operations {
    pub select_cpu: Option<Function>,
    pub enqueue: Option<Function>,
    pub dequeue: Option<Function>,
    pub dispatch: Option<Function>,
    pub tick: Option<Function>,
    pub runnable: Option<Function>,
    pub running: Option<Function>,
    pub stopping: Option<Function>,
    pub quiescent: Option<Function>,
    pub yield_: Option<Function>,
    pub set_weight: Option<Function>,
    pub set_cpumask: Option<Function>,
    pub update_idle: Option<Function>,
    pub init_task: Option<Function>,
    pub exit_task: Option<Function>,
    pub enable: Option<Function>,
    pub disable: Option<Function>,
    pub cpu_online: Option<Function>,
    pub cpu_offline: Option<Function>,
    pub init: Option<Function>,
    pub exit: Option<Function>,
    pub dispatch_max_batch: u32,
    pub flags: u64,
    pub timeout_ms: u32,
}

/// Operations that an object may have and that nothing here calls.
pub const NEVER_CALLED: [&str; 6] =
    ["core_sched_before", "cpu_acquire", "cpu_release", "dump", "dump_cpu", "dump_task"];

macro_rules! by_name {
    ($($name:literal $field:ident),* $(,)?) => {
        impl Operations {
            /// The operation of this name, to be set; `None` if there is no such operation.
            fn named(&mut self, name: &str) -> Option<&mut Option<Function>> {
                match name {
                    $($name => Some(&mut self.$field),)*
                    _ => None,
                }
            }
        }
    };
}

by_name! {
    "select_cpu" select_cpu, "enqueue" enqueue, "dequeue" dequeue, "dispatch" dispatch,
    "tick" tick, "runnable" runnable, "running" running, "stopping" stopping,
    "quiescent" quiescent, "yield" yield_, "set_weight" set_weight, "set_cpumask" set_cpumask,
    "update_idle" update_idle, "init_task" init_task, "exit_task" exit_task, "enable" enable,
    "disable" disable, "cpu_online" cpu_online, "cpu_offline" cpu_offline, "init" init,
    "exit" exit,
}

impl Operations {
    /// Those of an object; `number` gives the number that a function of the object has in its
    /// program.
    ///
    /// # Errors
    ///
    /// The name of an operation that is unknown here.
    pub fn of_object(copy: &Loaded, number: impl Fn(usize) -> u64) -> Result<Operations, String> {
        let table = &copy.object.tables[copy.operations];
        let value = |name: &str| {
            let bytes = table.values.get(name).map_or(&[][..], Vec::as_slice);
            bytes.iter().rev().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte))
        };
        let mut all = Operations {
            dispatch_max_batch: value("dispatch_max_batch") as u32,
            flags: value("flags"),
            timeout_ms: value("timeout_ms") as u32,
            ..Operations::default()
        };
        for (name, &function) in &table.functions {
            match all.named(name) {
                Some(place) => *place = Some(Function(number(function))),
                None if NEVER_CALLED.contains(&name.as_str()) => {}
                None => return Err(name.clone()),
            }
        }
        Ok(all)
    }
}
