//! What the kernel refuses of calls before it runs a program, which only strict runs ask.

use crate::core::Core;
use crate::flags::OPS_IDLE_PER_NODE;
use crate::operations::Operation;
use bytecode::Holding;

/// What calls do to what a policy holds. Source: the flags of kfuncs (`KF_ACQUIRE`, `KF_RELEASE`,
/// `KF_ITER_NEW` and so on) in Linux, kernel/bpf/cpumask.c, kernel/bpf/helpers.c,
/// kernel/sched/ext.c, kernel/sched/ext_idle.c; for helpers kernel/bpf/verifier.c.
pub const HOLDINGS: &[(&str, Holding)] = &[
    ("bpf_cpumask_create", Holding::Gives),
    ("bpf_cpumask_acquire", Holding::Gives),
    ("bpf_cpumask_release", Holding::Takes),
    ("bpf_task_acquire", Holding::Gives),
    ("bpf_task_from_pid", Holding::Gives),
    ("bpf_task_from_vpid", Holding::Gives),
    ("bpf_task_release", Holding::Takes),
    ("scx_bpf_get_idle_cpumask", Holding::Gives),
    ("scx_bpf_get_idle_smtmask", Holding::Gives),
    ("scx_bpf_get_idle_cpumask_node", Holding::Gives),
    ("scx_bpf_get_idle_smtmask_node", Holding::Gives),
    ("scx_bpf_put_idle_cpumask", Holding::Takes),
    ("scx_bpf_get_online_cpumask", Holding::Gives),
    ("scx_bpf_get_possible_cpumask", Holding::Gives),
    ("scx_bpf_put_cpumask", Holding::Takes),
    ("bpf_kptr_xchg", Holding::Exchanges),
    ("bpf_cgroup_acquire", Holding::Gives),
    ("bpf_cgroup_ancestor", Holding::Gives),
    ("bpf_cgroup_from_id", Holding::Gives),
    ("scx_bpf_task_cgroup", Holding::Gives),
    ("bpf_cgroup_release", Holding::Takes),
    ("bpf_iter_css_new", Holding::Begins),
    ("bpf_iter_css_next", Holding::Goes),
    ("bpf_iter_css_destroy", Holding::Ends),
    ("bpf_iter_task_new", Holding::Begins),
    ("bpf_iter_task_next", Holding::Goes),
    ("bpf_iter_task_destroy", Holding::Ends),
    ("bpf_iter_bits_new", Holding::Begins),
    ("bpf_iter_bits_next", Holding::Goes),
    ("bpf_iter_bits_destroy", Holding::Ends),
    ("bpf_iter_css_task_new", Holding::Begins),
    ("bpf_iter_css_task_next", Holding::Goes),
    ("bpf_iter_css_task_destroy", Holding::Ends),
    ("bpf_iter_scx_dsq_new", Holding::Begins),
    ("bpf_iter_scx_dsq_next", Holding::Goes),
    ("bpf_iter_scx_dsq_destroy", Holding::Ends),
    ("scx_bpf_dsq_move", Holding::Goes),
    ("scx_bpf_dsq_move_vtime", Holding::Goes),
    ("scx_bpf_dsq_move_set_slice", Holding::Goes),
    ("scx_bpf_dsq_move_set_vtime", Holding::Goes),
    ("scx_bpf_dispatch_from_dsq", Holding::Goes),
    ("scx_bpf_dispatch_vtime_from_dsq", Holding::Goes),
    ("scx_bpf_dispatch_from_dsq_set_slice", Holding::Goes),
    ("scx_bpf_dispatch_from_dsq_set_vtime", Holding::Goes),
    ("bpf_iter_num_new", Holding::Begins),
    ("bpf_iter_num_next", Holding::Goes),
    ("bpf_iter_num_destroy", Holding::Ends),
    ("bpf_arena_alloc_pages", Holding::Pages),
    ("bpf_arena_free_pages", Holding::Pages),
    ("bpf_arena_reserve_pages", Holding::Pages),
    ("bpf_spin_lock", Holding::Locks),
    ("bpf_spin_unlock", Holding::Unlocks),
    ("bpf_ringbuf_reserve", Holding::Gives),
    ("bpf_ringbuf_submit", Holding::Takes),
    ("bpf_ringbuf_discard", Holding::Takes),
    ("bpf_obj_new_impl", Holding::Gives),
    ("bpf_obj_new", Holding::Gives),
    ("bpf_percpu_obj_new_impl", Holding::Gives),
    ("bpf_percpu_obj_new", Holding::Gives),
    ("bpf_obj_drop_impl", Holding::Takes),
    ("bpf_obj_drop", Holding::Takes),
    ("bpf_percpu_obj_drop_impl", Holding::Takes),
    ("bpf_percpu_obj_drop", Holding::Takes),
    ("bpf_refcount_acquire_impl", Holding::GivesLinked),
    ("bpf_refcount_acquire", Holding::GivesLinked),
    ("bpf_list_push_front_impl", Holding::Links),
    ("bpf_list_push_front", Holding::Links),
    ("bpf_list_push_back_impl", Holding::Links),
    ("bpf_list_push_back", Holding::Links),
    ("bpf_list_add", Holding::Links),
    ("bpf_rbtree_add_impl", Holding::Links),
    ("bpf_rbtree_add", Holding::Links),
    ("bpf_list_pop_front", Holding::GivesLinked),
    ("bpf_list_pop_back", Holding::GivesLinked),
    ("bpf_list_del", Holding::GivesLinked),
    ("bpf_list_is_first", Holding::Asks),
    ("bpf_list_is_last", Holding::Asks),
    ("bpf_list_empty", Holding::Asks),
    ("bpf_rbtree_remove", Holding::GivesLinked),
    ("bpf_list_front", Holding::Lends),
    ("bpf_list_back", Holding::Lends),
    ("bpf_rbtree_first", Holding::Lends),
    ("bpf_rbtree_root", Holding::Lends),
    ("bpf_rbtree_left", Holding::Lends),
    ("bpf_rbtree_right", Holding::Lends),
];

/// Calls that name CPUs, and their masks. Source: Linux 7.3, `scx_kfunc_ids_cpu_only`.
const OF_CPUS: [&str; 23] = [
    "scx_bpf_kick_cpu",
    "scx_bpf_task_cpu",
    "scx_bpf_cpu_curr",
    "scx_bpf_cpu_node",
    "scx_bpf_cpuperf_cap",
    "scx_bpf_cpuperf_cur",
    "scx_bpf_cpuperf_set",
    "scx_bpf_get_possible_cpumask",
    "scx_bpf_get_online_cpumask",
    "scx_bpf_put_cpumask",
    "scx_bpf_select_cpu_dfl",
    "__scx_bpf_select_cpu_and",
    "scx_bpf_select_cpu_and",
    "scx_bpf_get_idle_cpumask",
    "scx_bpf_get_idle_cpumask_node",
    "scx_bpf_get_idle_smtmask",
    "scx_bpf_get_idle_smtmask_node",
    "scx_bpf_put_idle_cpumask",
    "scx_bpf_test_and_clear_cpu_idle",
    "scx_bpf_pick_idle_cpu",
    "scx_bpf_pick_idle_cpu_node",
    "scx_bpf_pick_any_cpu",
    "scx_bpf_pick_any_cpu_node",
];

impl Core<'_> {
    /// Why the operation that runs may not make this call. Source: Linux, kernel/sched/ext.c and
    /// ext_idle.c, the sets of kfuncs and `scx_kf_allowed`, in the most permissive of 6.12 to 7.3.
    /// What is not here is refused by the calls themselves, in every run.
    pub fn forbidden(&self, call: &str) -> Option<String> {
        let operation = self.policy.given.operation;
        if self.policy.takes_cids() && OF_CPUS.contains(&call) {
            return Some(format!("{call}() is not for a sched_ext_ops_cid, which has cids"));
        }
        let (is_allowed, where_it_is) = match call {
            "scx_bpf_create_dsq" | "bpf_iter_css_task_new" => {
                (self.policy.given.may_sleep, "operations that may sleep")
            }
            "scx_bpf_select_cpu_dfl" | "__scx_bpf_select_cpu_and" | "scx_bpf_select_cpu_and" => {
                (may_select(operation), "select_cpu, enqueue, timers and init")
            }
            "scx_bpf_pick_idle_cpu_node"
            | "scx_bpf_pick_any_cpu_node"
            | "scx_bpf_get_idle_cpumask_node"
            | "scx_bpf_get_idle_smtmask_node" => {
                let by_node = self.policy.flags() & OPS_IDLE_PER_NODE != 0;
                (by_node, "policies with SCX_OPS_BUILTIN_IDLE_PER_NODE")
            }
            "scx_bpf_dispatch_nr_slots" | "scx_bpf_dispatch_cancel" | "scx_bpf_sub_dispatch" => {
                (operation == Operation::Dispatch, "dispatch")
            }
            "scx_bpf_cid_override" => (operation == Operation::InitCids, "init_cids"),
            _ => return None,
        };
        let name = operation.name();
        (!is_allowed).then(|| format!("{call}() is called in {name}; it is for {where_it_is}"))
    }
}

/// Whether an operation may look for an idle CPU: it holds no run queue, or the task's own.
fn may_select(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::SelectCpu
            | Operation::Enqueue
            | Operation::Init
            | Operation::Exit
            | Operation::InitTask
            | Operation::CpuOnline
            | Operation::CpuOffline
            | Operation::InitCids
            | Operation::CgroupInit
            | Operation::CgroupExit
            | Operation::CgroupPrepMove
            | Operation::CgroupCancelMove
            | Operation::CgroupSetWeight
            | Operation::CgroupSetBandwidth
            | Operation::CgroupSetIdle
            | Operation::Timer
            | Operation::Syscall
    )
}
