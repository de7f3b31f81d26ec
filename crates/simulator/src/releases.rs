//! What policies can tell releases of Linux apart by: calls, operations, flags, enumerators.
//!
//! A kernel of no release in particular has what any of them has, so that what was written for one
//! runs. Sources: Linux 6.12, kernel/sched/ext.c and kernel/bpf/helpers.c; the types that Debian's
//! kernels 6.18.15 and 7.3.4 tell of themselves, which tests/policies/test_releases.py reads again.

use crate::flags::DEQ_SCHED_CHANGE;
use bytecode::Structures;
use policy::{Loaded, names_of_flags};
use scenario::machine::Release;

use Release::{Linux6_12, Linux6_18, Linux7_3};

/// Releases from one to another.
type Span = (Release, Release);

const SINCE_6_18: Span = (Linux6_18, Linux7_3);
const SINCE_7_3: Span = (Linux7_3, Linux7_3);
const UNTIL_6_12: Span = (Linux6_12, Linux6_12);
const UNTIL_6_18: Span = (Linux6_12, Linux6_18);

/// Calls that not every release has. Calls that are not here are in all.
const CALLS: [(Span, &[&str]); 4] = [
    (
        UNTIL_6_12,
        &[
            "scx_bpf_consume",
            "scx_bpf_dispatch",
            "scx_bpf_dispatch_from_dsq",
            "scx_bpf_dispatch_from_dsq_set_slice",
            "scx_bpf_dispatch_from_dsq_set_vtime",
            "scx_bpf_dispatch_vtime",
            "scx_bpf_dispatch_vtime_from_dsq",
        ],
    ),
    (UNTIL_6_18, &["bpf_wq_set_callback_impl", "scx_bpf_cpu_rq"]),
    (
        SINCE_6_18,
        &[
            "bpf_arena_reserve_pages",
            "bpf_cpumask_populate",
            "bpf_list_back",
            "bpf_list_front",
            "bpf_local_irq_restore",
            "bpf_local_irq_save",
            "bpf_rbtree_left",
            "bpf_rbtree_right",
            "bpf_rbtree_root",
            "bpf_res_spin_lock",
            "bpf_res_spin_unlock",
            "bpf_strcasecmp",
            "bpf_strchr",
            "bpf_strcmp",
            "bpf_strlen",
            "bpf_strnchr",
            "bpf_strnlen",
            "bpf_strnstr",
            "bpf_strstr",
            "bpf_task_from_vpid",
            "scx_bpf_cpu_curr",
            "scx_bpf_cpu_node",
            "scx_bpf_dsq_insert",
            "scx_bpf_dsq_insert_vtime",
            "scx_bpf_dsq_move",
            "scx_bpf_dsq_move_set_slice",
            "scx_bpf_dsq_move_set_vtime",
            "scx_bpf_dsq_move_to_local",
            "scx_bpf_dsq_move_vtime",
            "scx_bpf_events",
            "scx_bpf_get_idle_cpumask_node",
            "scx_bpf_get_idle_smtmask_node",
            "scx_bpf_locked_rq",
            "scx_bpf_now",
            "scx_bpf_nr_node_ids",
            "scx_bpf_pick_any_cpu_node",
            "scx_bpf_pick_idle_cpu_node",
            "scx_bpf_select_cpu_and",
        ],
    ),
    (
        SINCE_7_3,
        &[
            "__scx_bpf_dsq_insert_vtime",
            "__scx_bpf_select_cpu_and",
            "bpf_list_add",
            "bpf_list_del",
            "bpf_list_empty",
            "bpf_list_is_first",
            "bpf_list_is_last",
            "bpf_list_push_back",
            "bpf_list_push_front",
            "bpf_obj_drop",
            "bpf_obj_new",
            "bpf_percpu_obj_drop",
            "bpf_percpu_obj_new",
            "bpf_rbtree_add",
            "bpf_refcount_acquire",
            "bpf_stream_vprintk",
            "bpf_strncasecmp",
            "bpf_timer_cancel_async",
            "bpf_wq_set_callback",
            "scx_bpf_cid_curr",
            "scx_bpf_cid_override",
            "scx_bpf_cid_to_cpu",
            "scx_bpf_cid_topo",
            "scx_bpf_cidperf_cap",
            "scx_bpf_cidperf_cur",
            "scx_bpf_cidperf_set",
            "scx_bpf_cpu_to_cid",
            "scx_bpf_dsq_insert___v2",
            "scx_bpf_dsq_move_to_local___v2",
            "scx_bpf_dsq_peek",
            "scx_bpf_dsq_reenq",
            "scx_bpf_kick_cid",
            "scx_bpf_nr_cids",
            "scx_bpf_nr_online_cids",
            "scx_bpf_online_cmask",
            "scx_bpf_reenqueue_local___v2",
            "scx_bpf_sub_caps",
            "scx_bpf_sub_dispatch",
            "scx_bpf_sub_grant",
            "scx_bpf_sub_kill_bstr",
            "scx_bpf_sub_revoke",
            "scx_bpf_task_cid",
            "scx_bpf_task_set_dsq_vtime",
            "scx_bpf_task_set_slice",
            "scx_bpf_this_cid",
            "scx_bpf_tid_to_task",
        ],
    ),
];

/// Operations that not every release has.
const OPERATIONS: [(Span, &[&str]); 2] = [
    (SINCE_6_18, &["cgroup_set_bandwidth"]),
    (
        SINCE_7_3,
        &[
            "cgroup_set_idle",
            "init_cids",
            "sub_attach",
            "sub_detach",
            "sub_caps_updated",
            "sub_ecaps_updated",
        ],
    ),
];

/// Enumerators, and among them flags of `sched_ext_ops`, that not every release has.
const ENUMERATORS: [(Span, &[&str]); 3] = [
    (UNTIL_6_18, &["SCX_OPS_HAS_CGROUP_WEIGHT"]),
    (
        SINCE_6_18,
        &[
            "SCX_OPS_ENQ_MIGRATION_DISABLED",
            "SCX_OPS_ALLOW_QUEUED_WAKEUP",
            "SCX_OPS_BUILTIN_IDLE_PER_NODE",
        ],
    ),
    (SINCE_7_3, &["SCX_OPS_ALWAYS_ENQ_IMMED", "SCX_OPS_TID_TO_TASK", "SCX_DEQ_SCHED_CHANGE"]),
];

/// Types of the interface: a line begins with the releases that have what stands behind it.
const INTERFACE: &str = include_str!("releases/interface.txt");

/// Lets programs find of the interface's types what the release has, though nothing here may read
/// or write it, and nothing that it lacks. Of no release in particular, values are the newest.
pub fn declare(all: &mut Structures, release: Option<Release>) {
    let (mut kind, mut of) = ("", "");
    for line in INTERFACE.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        if !line.starts_with(' ') {
            (kind, of) = (first, words.next().unwrap_or_default());
            continue;
        }
        let (since, until) = span(first);
        let asked = release.unwrap_or(until);
        let is_there = (since..=until).contains(&asked);
        for word in words {
            let (name, values) = word.split_once('=').unwrap_or((word, ""));
            match (kind, is_there) {
                ("enum", true) => all.declare_value(of, name, value(values, since, asked)),
                ("enum", false) => all.remove_value(of, name),
                (_, true) => all.declare_field(of, name),
                (_, false) => all.remove_field(of, name),
            }
        }
    }
}

/// From the first to the last release that a line is about.
fn span(text: &str) -> Span {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = if text == "all" { ("6.12", "7.3") } else { (first, last) };
    Release::named(first).zip(Release::named(last)).expect("releases that are known")
}

/// A value in a release, of one that all from `since` on have or one for each.
fn value(texts: &str, since: Release, asked: Release) -> i64 {
    let behind = Release::ALL.iter().filter(|one| (since..asked).contains(one)).count();
    let text = texts.split('/').nth(behind).or_else(|| texts.split('/').next());
    let number = text.and_then(|text| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    });
    number.expect("a number") as i64
}

fn has<const N: usize>(lists: &[(Span, &[&str]); N], release: Option<Release>, name: &str) -> bool {
    let Some(release) = release else { return true };
    let listed = lists.iter().find(|(_, names)| names.contains(&name));
    listed.is_none_or(|((first, last), _)| (*first..=*last).contains(&release))
}

/// Whether policies find the call of this name.
pub fn has_call(release: Option<Release>, name: &str) -> bool {
    has(&CALLS, release, name)
}

/// Whether they find the enumerator of this name.
pub fn has_enumerator(release: Option<Release>, name: &str) -> bool {
    has(&ENUMERATORS, release, name)
}

/// `LINUX_KERNEL_VERSION`
pub fn version(release: Option<Release>) -> u64 {
    let (major, minor) = release.unwrap_or(Linux7_3).version();
    u64::from(major) << 16 | u64::from(minor) << 8
}

/// Whether `ops.dequeue` is called for each task that leaves the policy's custody, as Linux does
/// from 7.1 on, and not only for one that is taken out of it.
pub fn tells_custody(release: Option<Release>) -> bool {
    release.is_none_or(|release| release >= Linux7_3)
}

/// Flags of `ops.dequeue` and `ops.quiescent` that are not the release's.
pub fn unknown_deq_flags(release: Option<Release>) -> u64 {
    if tells_custody(release) { 0 } else { DEQ_SCHED_CHANGE }
}

/// Whether a CPU that goes takes back the tasks that only it could have run, wherever the policy
/// keeps them. Updates do so, too, such as Linux 6.12.117.
pub fn takes_back_bound(release: Option<Release>) -> bool {
    release.is_none_or(|release| release >= Linux7_3)
}

/// Whether `scx_bpf_select_cpu_dfl` may be called by `enqueue`, and not only by `select_cpu`.
pub fn selects_in_enqueue(release: Option<Release>) -> bool {
    release.is_none_or(|release| release >= Linux6_18)
}

/// The flags `SCX_ENQ_HEAD` and `SCX_ENQ_CPU_SELECTED` have the numbers of `ENQUEUE_` flags, which
/// have moved.
pub fn enq_head_and_selected(release: Option<Release>) -> [u64; 2] {
    if release.is_none_or(|release| release >= Linux7_3) {
        [1 << 16, 1 << 20]
    } else {
        [1 << 4, 1 << 10]
    }
}

/// What a policy's table has that this release lacks, if anything.
///
/// # Errors
///
/// The first such thing, for a person.
pub fn check(release: Option<Release>, copy: &Loaded, flags: u64) -> Result<(), String> {
    let Some(named) = release else { return Ok(()) };
    let operations = copy.object.tables[copy.operations].functions.keys();
    let operations = operations.filter(|name| !has(&OPERATIONS, release, name));
    let table = Some("table sched_ext_ops_cid".to_owned());
    let table = table.filter(|_| copy.takes_cids() && named < Linux7_3);
    let flags = names_of_flags(flags).filter(|name| !has_enumerator(release, name));
    let operations = operations.map(|name| format!("operation {name}"));
    let lacks = table.into_iter().chain(operations);
    match lacks.chain(flags.map(|name| format!("flag {name}"))).next() {
        Some(lacks) => Err(format!("Linux {named} has no {lacks}{}", another(named))),
        None => Ok(()),
    }
}

/// The way out where a release lacks something.
pub fn another(release: Release) -> String {
    format!("\nhint: Linux {release} was asked for; choose another release by --kernel, or none")
}
