//! What a policy's object finds here: structures by name, calls, variables.

use crate::abi;
use crate::object_calls::{CALLS, HELPERS, HOLDINGS};
use crate::policy_maps::STORAGES_BEGIN;
use crate::shown::{Part, Shown};
use crate::visible::{FACTS, Facts, TASKS, WALKS, WALKS_MAX};
use bytecode::{Field, Shape, Shortcut, Size, Structures, Walks, World};
use std::mem::offset_of;
use std::sync::OnceLock;

/// `struct scx_exit_info`, whose texts are addresses.
#[repr(C)]
#[derive(Clone, Copy, Debug)]

pub struct ExitInfo {
    pub kind: u32,
    pub exit_code: i64,
    pub reason: u64,
    pub msg: u64,
    pub dump: u64,
}

impl Shown for ExitInfo {
    const PARTS: &'static [Part] = &[Part::of::<ExitInfo>(0, "the struct scx_exit_info")];
}

/// The world that every object is linked with.
pub fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let number = |name: &str| CALLS.iter().position(|(known, _)| *known == name);
        let functions = CALLS.iter().enumerate().map(|(at, (name, _))| ((*name).to_owned(), at));
        let helper = |&(id, name): &(i32, &str)| (id, number(name).expect("a call of that name"));
        World {
            structures: structures(),
            functions: functions.collect(),
            helpers: HELPERS.iter().map(helper).collect(),
            shortcuts: shortcuts().into_iter().filter_map(|(n, s)| Some((number(n)?, s))).collect(),
            holdings: HOLDINGS.iter().filter_map(|&(n, what)| Some((number(n)?, what))).collect(),
            written_fields: written_fields().map(|offset| (TASKS, offset as u32)).to_vec(),
            variables: [("CONFIG_HZ".to_owned(), FACTS + offset_of!(Facts, hz) as u64)].into(),
        }
    })
}

/// The fields of a task that a policy may write (Linux kernel/sched/ext.c,
/// `bpf_scx_btf_struct_access`).
pub fn written_fields() -> [usize; 2] {
    [offset_of!(abi::Task, scx.slice), offset_of!(abi::Task, scx.dsq_vtime)]
}

/// Calls whose answers policies find themselves: what is called most, by what was counted.
fn shortcuts() -> [(&'static str, Shortcut); 16] {
    let fact = |offset: usize, size| Shortcut::Load {
        address: FACTS + offset as u64,
        size,
        signed: false,
    };
    let field = |offset: usize| {
        let (offset, size) = (offset as u32, Size::Word);
        Shortcut::Field { rows: TASKS, offset, size, signed: false }
    };
    let now = fact(offset_of!(Facts, now_ns), Size::Double);
    [
        ("scx_bpf_now", now),
        ("bpf_ktime_get_ns", now),
        ("bpf_get_smp_processor_id", fact(offset_of!(Facts, cpu), Size::Word)),
        ("scx_bpf_nr_cpu_ids", fact(offset_of!(Facts, nr_cpu_ids), Size::Word)),
        ("bpf_get_current_task_btf", fact(offset_of!(Facts, current), Size::Double)),
        ("scx_bpf_task_cpu", field(offset_of!(abi::Task, cpu))),
        ("scx_bpf_task_running", field(offset_of!(abi::Task, on_cpu))),
        ("bpf_task_acquire", Shortcut::First),
        ("bpf_task_release", Shortcut::Zero),
        ("bpf_rcu_read_lock", Shortcut::Zero),
        ("bpf_rcu_read_unlock", Shortcut::Zero),
        ("bpf_iter_num_next", Shortcut::NextNumber),
        ("bpf_map_lookup_elem", Shortcut::Element),
        ("bpf_cpumask_test_cpu", Shortcut::Bit(abi::CPUS_MAX as u32)),
        ("bpf_iter_scx_dsq_next", Shortcut::NextItem(walks())),
        (
            "bpf_task_storage_get",
            Shortcut::Cell {
                columns_begin: STORAGES_BEGIN,
                columns: abi::STORAGE_MAX as u32,
                rows: TASKS,
                offset: offset_of!(abi::Task, storage) as u32,
            },
        ),
    ]
}

/// A walk passes over tasks that left the queue, or came since it began.
fn walks() -> Walks {
    Walks {
        begin: WALKS,
        bytes: size_of::<abi::DsqIterator>() as u32,
        count: WALKS_MAX as u32,
        next: offset_of!(abi::DsqIterator, next) as u32,
        filled: offset_of!(abi::DsqIterator, filled) as u32,
        steps: offset_of!(abi::DsqIterator, steps) as u32,
        items: offset_of!(abi::DsqIterator, chunk) as u32,
        same: (offset_of!(abi::Task, scx.dsq) as u32, offset_of!(abi::DsqIterator, dsq) as u32),
        last: (offset_of!(abi::Task, scx.dsq_seq) as u32, offset_of!(abi::DsqIterator, seq) as u32),
    }
}

fn unsigned(bytes: u32) -> Shape {
    Shape::Number { bytes, signed: false }
}

fn signed(bytes: u32) -> Shape {
    Shape::Number { bytes, signed: true }
}

macro_rules! fields {
    ($of:ty: $($name:literal = $($field:ident).+ => $shape:expr),* $(,)?) => {
        vec![$(Field {
            name: $name,
            offset: offset_of!($of, $($field).+) as u32,
            shape: $shape,
        }),*]
    };
}

/// `struct task_struct`
fn task() -> Vec<Field> {
    let mut fields = fields! { abi::Task:
        "scx" = scx => Shape::Structure("sched_ext_entity"),
        "cpus_ptr" = cpus_ptr => Shape::Pointer,
        "mm" = mm => Shape::Pointer,
        "pid" = pid => signed(4),
        "tgid" = tgid => signed(4),
        "prio" = prio => signed(4),
        "static_prio" = static_prio => signed(4),
        "normal_prio" = normal_prio => signed(4),
        "nr_cpus_allowed" = nr_cpus_allowed => signed(4),
        "recent_used_cpu" = recent_used_cpu => signed(4),
        "wake_cpu" = wake_cpu => signed(4),
        "on_cpu" = on_cpu => signed(4),
        "__state" = state => unsigned(4),
        "flags" = flags => unsigned(4),
        "policy" = policy => unsigned(4),
        "rt_priority" = rt_priority => unsigned(4),
        "se" = se => Shape::Structure("sched_entity"),
    };
    fields.extend(fields! { abi::Task:
        "nvcsw" = nvcsw => unsigned(8),
        "nivcsw" = nivcsw => unsigned(8),
        "start_time" = start_time => unsigned(8),
        "real_parent" = real_parent => Shape::Pointer,
        "parent" = parent => Shape::Pointer,
        "group_leader" = group_leader => Shape::Pointer,
        "comm" = comm => Shape::Array(Box::new(signed(1)), 16),
        "cpus_mask" = cpus_mask => Shape::Structure("cpumask"),
    });
    fields
}

fn structures() -> Structures {
    let mut all = Structures::default();
    all.structure("task_struct", size_of::<abi::Task>(), task());
    let entity = fields! { abi::Entity:
        "dsq" = dsq => Shape::Pointer,
        "dsq_vtime" = dsq_vtime => unsigned(8),
        "slice" = slice => unsigned(8),
        "weight" = weight => unsigned(4),
        "flags" = flags => unsigned(4),
    };
    all.structure("sched_ext_entity", size_of::<abi::Entity>(), entity);
    let entity = fields! { abi::SchedEntity:
        "sum_exec_runtime" = sum_exec_runtime => unsigned(8),
        "load" = load_weight => Shape::Structure("load_weight"),
    };
    all.structure("sched_entity", size_of::<abi::SchedEntity>(), entity);
    let weight = Field { name: "weight", offset: 0, shape: unsigned(8) };
    all.structure("load_weight", 8, vec![weight]);
    let queue = fields! { abi::DispatchQueueView:
        "id" = id => unsigned(8),
        "nr" = nr => unsigned(4),
    };
    all.structure("scx_dispatch_q", size_of::<abi::DispatchQueueView>(), queue);
    let words = Shape::Array(Box::new(unsigned(8)), abi::CPUS_MAX as u32 / 64);
    let mask = fields! { abi::CpuMask: "bits" = bits => words };
    all.structure("cpumask", size_of::<abi::CpuMask>(), mask);
    let whole = Field { name: "cpumask", offset: 0, shape: Shape::Structure("cpumask") };
    all.structure("bpf_cpumask", size_of::<abi::CpuMask>(), vec![whole]);
    all.structure("mm_struct", size_of::<abi::AddressSpace>(), Vec::new());
    let curr = Field { name: "curr", offset: 0, shape: Shape::Pointer };
    all.structure("rq", 8, vec![curr]);
    let info = fields! { ExitInfo:
        "kind" = kind => unsigned(4),
        "exit_code" = exit_code => signed(8),
        "reason" = reason => Shape::Pointer,
        "msg" = msg => Shape::Pointer,
        "dump" = dump => Shape::Pointer,
    };
    all.structure("scx_exit_info", size_of::<ExitInfo>(), info);
    let arguments = fields! { abi::InitTaskArgs:
        "fork" = fork => unsigned(1),
        "cgroup" = cgroup => Shape::Pointer,
    };
    all.structure("scx_init_task_args", size_of::<abi::InitTaskArgs>(), arguments);
    let arguments = fields! { abi::ExitTaskArgs: "cancelled" = cancelled => unsigned(1) };
    all.structure("scx_exit_task_args", size_of::<abi::ExitTaskArgs>(), arguments);
    enumerations(&mut all);
    all
}

/// Source: Linux 6.12 to 7.3, kernel/sched/ext.c, include/linux/sched/ext.h.
fn enumerations(all: &mut Structures) {
    all.enumeration(
        "scx_enq_flags",
        &[
            ("SCX_ENQ_WAKEUP", 1),
            ("SCX_ENQ_HEAD", 1 << 4),
            ("SCX_ENQ_CPU_SELECTED", 1 << 10),
            ("SCX_ENQ_PREEMPT", 1 << 32),
            ("SCX_ENQ_REENQ", 1 << 40),
            ("SCX_ENQ_LAST", 1 << 41),
        ],
    );
    all.enumeration("scx_deq_flags", &[("SCX_DEQ_SLEEP", 1), ("SCX_DEQ_CORE_SCHED_EXEC", 1 << 32)]);
    let kicks = [("SCX_KICK_IDLE", 1), ("SCX_KICK_PREEMPT", 2), ("SCX_KICK_WAIT", 4)];
    all.enumeration("scx_kick_flags", &kicks);
    all.enumeration("scx_pick_idle_cpu_flags", &[("SCX_PICK_IDLE_CORE", 1)]);
    let queues = [
        ("SCX_DSQ_GLOBAL", i64::MIN | 1),
        ("SCX_DSQ_LOCAL", i64::MIN | 2),
        ("SCX_DSQ_LOCAL_ON", i64::MIN | 1 << 62),
        ("SCX_DSQ_LOCAL_CPU_MASK", 0xffff_ffff),
    ];
    all.enumeration("scx_dsq_id_flags", &queues);
    all.enumeration("scx_public_consts", &[("SCX_SLICE_DFL", 20_000_000), ("SCX_SLICE_INF", -1)]);
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
