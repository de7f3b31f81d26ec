//! The operations of a policy.

use bytecode::Table;
use policy::Loaded;
use std::borrow::Cow;

/// `SCX_OPS_KEEP_BUILTIN_IDLE`
const KEEP_BUILTIN_IDLE: u64 = 1;

/// An operation: a function of the policy's program, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function(pub u64);

/// Operations, each with what it is called in C, and how many arguments it has, of which the kernel
/// lets a program read no more.
macro_rules! operations {
    ($($operation:ident: $name:literal, $parameters:literal;)*) => {
        /// What of a policy is called: an operation of `sched_ext_ops`, the callback of a timer, or
        /// a program of section `syscall`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Operation {
            $($operation,)*
        }

        const NAMES: &[&str] = &[$($name),*];
        const PARAMETERS: &[u64] = &[$($parameters),*];
    };
}

// Source: Linux, kernel/sched/ext.c, `struct sched_ext_ops`.
operations! {
    Init: "init", 0;
    Exit: "exit", 1;
    InitTask: "init_task", 2;
    ExitTask: "exit_task", 2;
    Enable: "enable", 1;
    Disable: "disable", 1;
    SelectCpu: "select_cpu", 3;
    Enqueue: "enqueue", 2;
    Dequeue: "dequeue", 2;
    Dispatch: "dispatch", 2;
    Tick: "tick", 1;
    Runnable: "runnable", 2;
    Running: "running", 1;
    Stopping: "stopping", 2;
    Quiescent: "quiescent", 2;
    Yield: "yield", 2;
    SetWeight: "set_weight", 2;
    SetCpumask: "set_cpumask", 2;
    UpdateIdle: "update_idle", 2;
    CpuOnline: "cpu_online", 1;
    CpuOffline: "cpu_offline", 1;
    InitCids: "init_cids", 0;
    CgroupInit: "cgroup_init", 2;
    CgroupExit: "cgroup_exit", 1;
    CgroupPrepMove: "cgroup_prep_move", 3;
    CgroupMove: "cgroup_move", 3;
    CgroupCancelMove: "cgroup_cancel_move", 3;
    CgroupSetWeight: "cgroup_set_weight", 2;
    CgroupSetBandwidth: "cgroup_set_bandwidth", 4;
    CgroupSetIdle: "cgroup_set_idle", 2;
    Dump: "dump", 1;
    DumpCpu: "dump_cpu", 3;
    DumpTask: "dump_task", 2;
    Timer: "a timer's callback", 2; // What was given to `bpf_timer_set_callback`.
    Syscall: "a program that its loader calls", 0; // Its argument is what the loader gives.
}

impl Operation {
    /// What it is called in C.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// How many arguments it has.
    pub fn parameters(self) -> u64 {
        PARAMETERS[self as usize]
    }
}

/// `struct sched_ext_ops`, as far as the simulator calls it.
#[derive(Clone, Copy, Debug)]
pub struct Operations {
    functions: [Option<Function>; Operation::Timer as usize],
    pub dispatch_max_batch: u32,
    pub flags: u64,
    pub timeout_ms: u32,
    pub cid_shard_size: u32,
    /// Whether they take cids where others take CPUs.
    pub take_cids: bool,
    /// Whether the kernel knows for them which CPUs are idle.
    pub track_idle: bool,
}

/// None.
impl Default for Operations {
    fn default() -> Self {
        Operations {
            functions: [None; Operation::Timer as usize],
            dispatch_max_batch: 0,
            flags: 0,
            timeout_ms: 0,
            cid_shard_size: 0,
            take_cids: false,
            track_idle: true,
        }
    }
}

/// What `sched_ext_ops` calls an operation of either table. Source: Linux 7.3,
/// kernel/sched/ext/ext.c, `scx_init`.
fn usual_name(name: &str) -> Cow<'_, str> {
    match name {
        "select_cid" => "select_cpu".into(),
        "set_cmask" => "set_cpumask".into(),
        "cid_online" => "cpu_online".into(),
        "cid_offline" => "cpu_offline".into(),
        "dump_cid" => "dump_cpu".into(),
        _ => match name.strip_prefix("cpuctl_") {
            Some(rest) => format!("cgroup_{rest}").into(),
            None => name.into(),
        },
    }
}

/// Whether nothing here calls an operation that an object may have: there are no other scheduling
/// classes, no core scheduling and no schedulers below others.
pub fn is_never_called(name: &str) -> bool {
    let name = &*usual_name(name);
    name.starts_with("sub_") || matches!(name, "core_sched_before" | "cpu_acquire" | "cpu_release")
}

/// A number of an object's table of operations; 0 if it names none.
fn value_of(table: &Table, name: &str) -> u64 {
    let bytes = table.values.get(name).map_or(&[][..], Vec::as_slice);
    bytes.iter().rev().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Whether the kernel knows for an object which CPUs are idle. Source: Linux, kernel/sched/ext.c,
/// `scx_idle_enable`.
pub fn track_idle(copy: &Loaded) -> bool {
    let table = &copy.object.tables[copy.operations];
    !table.functions.contains_key("update_idle")
        || value_of(table, "flags") & KEEP_BUILTIN_IDLE != 0
}

impl Operations {
    /// The function that is this operation, if the policy has it.
    pub fn get(&self, operation: Operation) -> Option<Function> {
        self.functions[operation as usize]
    }

    /// Whether the policy has this operation.
    pub fn has(&self, operation: Operation) -> bool {
        self.get(operation).is_some()
    }

    /// Those of an object; `number` gives the number that a function of the object has in its
    /// program.
    ///
    /// # Errors
    ///
    /// The name of an operation that is unknown here.
    pub fn of_object(copy: &Loaded, number: impl Fn(usize) -> u64) -> Result<Operations, String> {
        let table = &copy.object.tables[copy.operations];
        let value = |name| value_of(table, name);
        let mut all = Operations {
            dispatch_max_batch: value("dispatch_max_batch") as u32,
            flags: value("flags"),
            timeout_ms: value("timeout_ms") as u32,
            cid_shard_size: value("cid_shard_size") as u32,
            take_cids: copy.takes_cids(),
            track_idle: track_idle(copy),
            ..Operations::default()
        };
        for (name, &function) in &table.functions {
            let usual = usual_name(name);
            match NAMES[..all.functions.len()].iter().position(|known| *known == usual) {
                Some(at) => all.functions[at] = Some(Function(number(function))),
                None if is_never_called(name) => {}
                None => return Err(name.clone()),
            }
        }
        Ok(all)
    }
}
