//! What a policy's object finds here: structures by name, calls, variables.

use crate::abi::{self, MaskWidth};
use crate::groups::{WALK_BACK, WALK_DOWN, WALK_UP};
use crate::object_calls::{CALLS, FREQUENCY_POLICIES, HOLDINGS, NUMBERS_MAX, RUN_QUEUES};
use crate::operations::track_idle;
use crate::releases;
use crate::shown::written_fields;
use crate::visible::{FACTS, Facts, TASK_MASK_AT, WALKS, WALKS_MAX};
use bytecode::{Field, Rows, STORAGES_BEGIN, Shape, Shortcut, Size, Structures, Walks, World};
use policy::Loaded;
use scenario::machine::Release;
use std::mem::offset_of;
use std::sync::OnceLock;

/// What worlds differ by, beside releases.
#[derive(Clone, Copy, Debug)]
pub struct WorldKind {
    /// How wide masks are.
    pub width: MaskWidth,
    /// Whether operations take cids where others take CPUs.
    pub takes_cids: bool,
    /// Whether the policy's own instructions take time: then the calls that tell it are made.
    pub takes_time: bool,
    /// Whether the kernel knows which CPUs are idle.
    pub tracks_idle: bool,
}

impl Default for WorldKind {
    /// Most objects'.
    fn default() -> Self {
        let width = MaskWidth::default();
        WorldKind { width, takes_cids: false, takes_time: false, tracks_idle: true }
    }
}

impl WorldKind {
    /// That of an object.
    pub fn of(copy: &Loaded, width: MaskWidth, takes_time: bool) -> Self {
        let (takes_cids, tracks_idle) = (copy.takes_cids(), track_idle(copy));
        WorldKind { width, takes_cids, takes_time, tracks_idle }
    }
}

/// Calls that depend on the time, or tell it.
const TIMED: [&str; 4] = ["scx_bpf_now", "bpf_ktime_get_ns", "bpf_spin_lock", "bpf_spin_unlock"];

/// The world that every object is linked with that a kernel of this release takes.
pub fn world(kind: WorldKind, release: Option<Release>) -> &'static World {
    const FORMS: usize = 16;
    const KINDS: usize = FORMS * (Release::ALL.len() + 1);
    static WORLDS: [OnceLock<World>; KINDS] = [const { OnceLock::new() }; KINDS];
    let WorldKind { width, takes_cids, takes_time, tracks_idle } = kind;
    let flags = [width == MaskWidth::Wide, takes_cids, takes_time, tracks_idle];
    let form = flags.into_iter().fold(0, |form, flag| 2 * form + usize::from(flag));
    WORLDS[form + FORMS * release.map_or(0, |release| 1 + release as usize)].get_or_init(|| {
        let number = |name: &str| CALLS.iter().position(|(known, _)| *known == name);
        let functions = CALLS.iter().enumerate().map(|(at, (name, _))| ((*name).to_owned(), at));
        World {
            structures: structures(width, release),
            functions: functions.filter(|(name, _)| releases::has_call(release, name)).collect(),
            helpers: bytecode::kernel_calls()
                .filter_map(|(n, name)| Some((n, number(&name)?)))
                .collect(),
            shortcuts: shortcuts(width)
                .into_iter()
                .filter(|(name, _)| !(takes_time && TIMED.contains(name)))
                // Without idle CPUs the calls are made, which are refused.
                .filter(|(name, _)| tracks_idle || !name.starts_with("scx_bpf_get_idle_"))
                .filter_map(|(n, s)| Some((number(n)?, s)))
                .collect(),
            holdings: HOLDINGS.iter().filter_map(|&(n, what)| Some((number(n)?, what))).collect(),
            written_fields: written_fields(takes_cids)
                .iter()
                .map(|&(offset, size)| (width.tasks(), offset as u32, size))
                .collect(),
            variables: VARIABLES
                .iter()
                .map(|&(name, offset)| (name.to_owned(), FACTS + offset as u64))
                .chain(PER_CPU.map(|(name, address)| (name.to_owned(), address)))
                .collect(),
            zero: FACTS + offset_of!(Facts, zero) as u64,
        }
    })
}

/// Variables of the kernel's configuration, each with its place among the [`Facts`]: as Debian's
/// kernels have them, but for the number of CPUs.
const VARIABLES: [(&str, usize); 5] = [
    ("CONFIG_HZ", offset_of!(Facts, hz)),
    ("CONFIG_NR_CPUS", offset_of!(Facts, nr_cpus_max)),
    ("CONFIG_NO_HZ_IDLE", offset_of!(Facts, yes)),
    ("CONFIG_PREEMPT_RCU", offset_of!(Facts, yes)),
    ("LINUX_KERNEL_VERSION", offset_of!(Facts, version)),
];

/// Variables of the kernel of which each CPU has one, by what stands for them.
const PER_CPU: [(&str, u64); 2] =
    [("runqueues", RUN_QUEUES), ("cpufreq_cpu_data", FREQUENCY_POLICIES)];

/// Calls whose answers policies find themselves: what is called most, by what was counted.
fn shortcuts(width: MaskWidth) -> [(&'static str, Shortcut); 23] {
    let fact = |offset: usize, size| Shortcut::Load {
        address: FACTS + offset as u64,
        size,
        signed: false,
    };
    let field = |offset: usize| {
        let (offset, size) = (offset as u32, Size::Word);
        Shortcut::Field { rows: width.tasks(), offset, size, signed: false }
    };
    let now = fact(offset_of!(Facts, now_ns), Size::Double);
    [
        ("scx_bpf_now", now),
        ("bpf_ktime_get_ns", now),
        ("bpf_get_smp_processor_id", fact(offset_of!(Facts, cpu), Size::Word)),
        ("scx_bpf_nr_cpu_ids", fact(offset_of!(Facts, nr_cpu_ids), Size::Word)),
        ("scx_bpf_task_cpu", field(offset_of!(abi::Task, cpu))),
        ("scx_bpf_task_running", field(offset_of!(abi::Task, on_cpu))),
        ("bpf_task_acquire", Shortcut::First),
        ("bpf_task_release", Shortcut::Zero),
        ("bpf_rcu_read_lock", Shortcut::Zero),
        ("bpf_rcu_read_unlock", Shortcut::Zero),
        ("scx_bpf_get_idle_cpumask", fact(offset_of!(Facts, idle_cpus), Size::Double)),
        ("scx_bpf_get_idle_smtmask", fact(offset_of!(Facts, idle_cores), Size::Double)),
        ("scx_bpf_put_idle_cpumask", Shortcut::Zero),
        ("scx_bpf_put_cpumask", Shortcut::Zero),
        ("bpf_iter_num_new", Shortcut::BeginNumbers(NUMBERS_MAX)),
        ("bpf_iter_num_next", Shortcut::NextNumber),
        ("bpf_iter_num_destroy", Shortcut::Zero),
        ("bpf_map_lookup_elem", Shortcut::Element),
        ("bpf_spin_lock", Shortcut::Lock(width.locks())),
        ("bpf_spin_unlock", Shortcut::Unlock(width.locks())),
        ("bpf_cpumask_test_cpu", Shortcut::Bit(width.cpus() as u32)),
        ("bpf_iter_scx_dsq_next", Shortcut::NextItem(walks(width.tasks()))),
        (
            "bpf_task_storage_get",
            Shortcut::Cell {
                columns_begin: STORAGES_BEGIN,
                columns: abi::STORAGE_MAX as u32,
                rows: width.tasks(),
                offset: offset_of!(abi::Task, storage) as u32,
            },
        ),
    ]
}

/// Walks over dispatch queues, which hold the tasks to come.
fn walks(rows: Rows) -> Walks {
    Walks {
        begin: WALKS,
        bytes: size_of::<abi::DsqIterator>() as u32,
        count: WALKS_MAX as u32,
        next: offset_of!(abi::DsqIterator, next) as u32,
        nothing: WALKS + offset_of!(abi::DsqIterator, nothing) as u64,
        rows,
    }
}

/// A type of fields, as relocations ask for it.
trait Seen {
    fn shape() -> Shape;
}

macro_rules! numbers {
    ($($of:ty: $signed:literal),*) => {
        $(impl Seen for $of {
            fn shape() -> Shape {
                Shape::Number { bytes: size_of::<$of>() as u32, signed: $signed }
            }
        })*
    };
}

numbers!(bool: false, u8: false, i32: true, u32: false, i64: true, u64: false);

impl<T> Seen for *const T {
    fn shape() -> Shape {
        Shape::Pointer
    }
}

impl<T> Seen for *mut T {
    fn shape() -> Shape {
        Shape::Pointer
    }
}

impl<T: Seen, const COUNT: usize> Seen for [T; COUNT] {
    fn shape() -> Shape {
        Shape::Array(Box::new(T::shape()), COUNT as u32)
    }
}

fn field<S, T: Seen>(names: &[&'static str], offset: usize, _: impl Fn(&S) -> &T) -> Field {
    Field { name: names[names.len() - 1], offset: offset as u32, shape: T::shape() }
}

/// Structures by their names in Linux, with the fields that policies may find; a field's name
/// there stands behind it where it is another.
macro_rules! structures {
    ($($of:path, $structure:literal: $($field:ident $($name:literal)?),*;)*) => {
        $(impl Seen for $of {
            fn shape() -> Shape {
                Shape::Structure($structure)
            }
        })*

        fn structures(width: MaskWidth, release: Option<Release>) -> Structures {
            let mut all = Structures::default();
            $(all.structure($structure, size_of::<$of>(), vec![$({
                let names = [stringify!($field) $(, $name)?];
                field(&names, offset_of!($of, $field), |seen: &$of| &seen.$field)
            }),*]);)*
            masks(&mut all, width);
            scattered(&mut all);
            groups(&mut all);
            events(&mut all);
            enumerations(&mut all, release);
            releases::declare(&mut all, release);
            all
        }
    };
}

structures! {
    abi::Task, "task_struct": scx, cpus_ptr, mm, pid, tgid, prio, static_prio, prio "normal_prio",
        nr_cpus_allowed, recent_used_cpu, cpu "wake_cpu", on_cpu, state "__state", flags, policy,
        rt_priority, se, nvcsw, nivcsw, sched_info, start_time, real_parent,
        real_parent "parent", group_leader, cgroups, task_group "sched_task_group",
        cgroups "real_cred", cgroups "cred", comm, utime, stime, mempolicy,
        mempolicy "thread_pid", mempolicy "signal";
    abi::Entity, "sched_ext_entity": dsq, dsq_vtime, slice, weight, flags;
    abi::SchedEntity, "sched_entity": sum_exec_runtime, load;
    abi::LoadWeight, "load_weight": weight;
    abi::SchedInfo, "sched_info": pcount, run_delay;
    abi::DispatchQueueView, "scx_dispatch_q": id, nr;
    abi::AddressSpace, "mm_struct": ;
    abi::RunQueue, "rq": curr, cpu, clock, clock_task, clock_pelt, lost_idle_time;
    abi::ExitInfo, "scx_exit_info": kind, exit_code, reason, msg, dump;
    abi::Group, "cgroup": css "self", kn, level, ancestors;
    abi::GroupState, "cgroup_subsys_state": cgroup, parent;
    abi::GroupNode, "kernfs_node": id, name;
    abi::GroupInit, "scx_cgroup_init_args": weight, bw_period_us, bw_quota_us, bw_burst_us,
        sched_idle;
    abi::DumpContext, "scx_dump_ctx": kind, exit_code, reason, at_ns, at_jiffies;
    abi::InitTaskArgs, "scx_init_task_args": fork, cgroup;
    abi::EnableArgs, "scx_enable_args": cmask_arena_addr;
    abi::ExitTaskArgs, "scx_exit_task_args": cancelled;
}

/// Fields that do not lie where the others of their structure do: `sched_ext_entity` begins where a
/// task does, and what is seldom looked at of it is among the task's own; `thread_info` is where
/// its only field is.
fn scattered(all: &mut Structures) {
    const { assert!(offset_of!(abi::Task, scx) == 0) };
    const { assert!(offset_of!(abi::Task, pid) % 8 == 0) };
    const { assert!(offset_of!(abi::Task, tgid) == offset_of!(abi::Task, pid) + 4) };
    let thread_info = Shape::Structure("thread_info");
    let half = Shape::Number { bytes: 2, signed: false };
    let fields = [
        ("sched_ext_entity", "selected_cpu", offset_of!(abi::Task, selected_cpu), i32::shape()),
        ("sched_ext_entity", "runnable_at", offset_of!(abi::Task, runnable_at), u64::shape()),
        ("sched_ext_entity", "ddsp_dsq_id", offset_of!(abi::Task, ddsp_dsq_id), u64::shape()),
        ("sched_ext_entity", "ddsp_enq_flags", offset_of!(abi::Task, mempolicy), u64::shape()),
        // No task has the pid 0, so that the two numbers, as one, are that of no other task.
        ("sched_ext_entity", "tid", offset_of!(abi::Task, pid), u64::shape()),
        // No task disables its migration, and no memory policy is other than NULL.
        ("task_struct", "migration_disabled", offset_of!(abi::Task, mempolicy), half),
        ("sched_ext_entity", "disallow", offset_of!(abi::Task, disallow), bool::shape()),
        ("task_struct", "thread_info", offset_of!(abi::Task, cpu), thread_info),
        ("thread_info", "cpu", 0, u32::shape()),
    ];
    for (structure, name, offset, shape) in fields {
        let known = all.get(structure).map(|one| (one.bytes, one.fields.clone()));
        let (bytes, mut fields) = known.unwrap_or((size_of::<u32>() as u32, vec![]));
        fields.push(Field { name, offset: offset as u32, shape });
        all.structure(structure, bytes as usize, fields);
    }
}

/// Structures that are as wide as the machine needs.
fn masks(all: &mut Structures, width: MaskWidth) {
    let bits = Shape::Array(Box::new(u64::shape()), width.words() as u32);
    all.structure("cpumask", width.bytes(), vec![Field { name: "bits", offset: 0, shape: bits }]);
    let mask = |name, offset| Field { name, offset, shape: Shape::Structure("cpumask") };
    // The rest of this structure is the kernel's.
    all.structure("bpf_cpumask", width.bytes(), vec![mask("cpumask", 0)]);
    let task = all.get("task_struct").map(|task| task.fields.clone()).unwrap_or_default();
    let fields = task.into_iter().chain([mask("cpus_mask", TASK_MASK_AT as u32)]).collect();
    all.structure("task_struct", width.task_bytes(), fields);
}

/// What happened, as numbers.
fn events(all: &mut Structures) {
    let field = |(at, &name)| Field { name, offset: 8 * at as u32, shape: i64::shape() };
    let fields = abi::EVENTS.iter().enumerate().map(field).collect();
    all.structure("scx_event_stats", 8 * abi::EVENTS.len(), fields);
}

/// What a group is besides, see [`abi::Group`].
fn groups(all: &mut Structures) {
    let mut first = |structure, name, shape| {
        let bytes = size_of::<abi::Group>();
        all.structure(structure, bytes, vec![Field { name, offset: 0, shape }]);
    };
    first("css_set", "dfl_cgrp", Shape::Pointer);
    first("task_group", "css", abi::GroupState::shape());
    let offset = offset_of!(abi::Group, user) as u32;
    let of_user = |name, shape| Field { name, offset, shape };
    let ids = ["uid", "euid"].map(|name| of_user(name, Shape::Structure("kuid_t")));
    let group_ids = ["gid", "egid"].map(|name| of_user(name, Shape::Structure("kgid_t")));
    all.structure("cred", size_of::<abi::Group>(), [ids, group_ids].concat());
    for id in ["kuid_t", "kgid_t"] {
        let val = Field { name: "val", offset: 0, shape: u32::shape() };
        all.structure(id, size_of::<u32>(), vec![val]);
    }
}

const _: () = assert!(offset_of!(abi::Group, css) + offset_of!(abi::GroupState, cgroup) == 0);

/// Source: Linux 6.12 to 7.3, kernel/sched/ext.c, include/linux/sched/ext.h.
fn enumerations(all: &mut Structures, release: Option<Release>) {
    let [head, selected] = releases::enq_head_and_selected(release).map(|flag| flag as i64);
    all.enumeration(
        "scx_enq_flags",
        &[
            ("SCX_ENQ_WAKEUP", 1),
            ("SCX_ENQ_HEAD", head),
            ("SCX_ENQ_CPU_SELECTED", selected),
            ("SCX_ENQ_PREEMPT", 1 << 32),
            ("SCX_ENQ_REENQ", 1 << 40),
            ("SCX_ENQ_LAST", 1 << 41),
        ],
    );
    let dequeues = [
        ("SCX_DEQ_SLEEP", 1),
        ("SCX_DEQ_CORE_SCHED_EXEC", 1 << 32),
        ("SCX_DEQ_SCHED_CHANGE", crate::flags::DEQ_SCHED_CHANGE as i64),
    ];
    let known = dequeues.into_iter().filter(|(name, _)| releases::has_enumerator(release, name));
    all.enumeration("scx_deq_flags", &known.collect::<Vec<_>>());
    let wakes = [
        ("SCX_WAKE_FORK", crate::flags::WAKE_FORK as i64),
        ("SCX_WAKE_TTWU", crate::flags::WAKE_TTWU as i64),
        ("SCX_WAKE_SYNC", crate::flags::WAKE_SYNC as i64),
    ];
    all.enumeration("scx_wake_flags", &wakes);
    let kicks = [("SCX_KICK_IDLE", 1), ("SCX_KICK_PREEMPT", 2), ("SCX_KICK_WAIT", 4)];
    all.enumeration("scx_kick_flags", &kicks);
    all.enumeration("scx_pick_idle_cpu_flags", &[("SCX_PICK_IDLE_CORE", 1)]);
    all.enumeration("scx_ent_flags", &[("SCX_TASK_QUEUED", crate::flags::TASK_QUEUED.into())]);
    let queues = [
        ("SCX_DSQ_FLAG_BUILTIN", i64::MIN),
        ("SCX_DSQ_FLAG_LOCAL_ON", 1 << 62),
        ("SCX_DSQ_INVALID", i64::MIN),
        ("SCX_DSQ_GLOBAL", i64::MIN | 1),
        ("SCX_DSQ_LOCAL", i64::MIN | 2),
        ("SCX_DSQ_LOCAL_ON", i64::MIN | 1 << 62),
        ("SCX_DSQ_LOCAL_CPU_MASK", 0xffff_ffff),
    ];
    all.enumeration("scx_dsq_id_flags", &queues);
    let constants =
        [("SCX_OPS_NAME_LEN", 128), ("SCX_SLICE_DFL", 20_000_000), ("SCX_SLICE_INF", -1)];
    all.enumeration("scx_public_consts", &constants);
    let walks = [
        ("BPF_CGROUP_ITER_DESCENDANTS_PRE", WALK_DOWN as i64),
        ("BPF_CGROUP_ITER_DESCENDANTS_POST", WALK_BACK as i64),
        ("BPF_CGROUP_ITER_ANCESTORS_UP", WALK_UP as i64),
    ];
    all.enumeration("bpf_cgroup_iter_order", &walks);
    let kinds = [
        ("SCX_EXIT_NONE", 0),
        ("SCX_EXIT_DONE", 1),
        ("SCX_EXIT_UNREG", 64),
        ("SCX_EXIT_UNREG_BPF", 65),
        ("SCX_EXIT_UNREG_KERN", 66),
        ("SCX_EXIT_SYSRQ", 67),
        ("SCX_EXIT_ERROR", 1024),
        ("SCX_EXIT_ERROR_BPF", 1025),
        ("SCX_EXIT_ERROR_STALL", 1026),
    ];
    all.enumeration("scx_exit_kind", &kinds);
}
