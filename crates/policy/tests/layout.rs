//! Goal: `abi.rs` lays out every member of every shared structure as the headers do.
//! Method: the C compiler checks each offset and size that Rust gives, member by member.

#![allow(clippy::unwrap_used)]

use std::mem::{offset_of, size_of};

use crate::workshop::{COUNTING, Workshop, compilers};
use policy::abi::{
    CpuMask, DispatchQueueView, DsqIterator, Entity, ExitInfo, ExitTaskArgs, Host, HostCalls,
    InitTaskArgs, Map, Ops, PolicyDescription, SchedEntity, SpinLock, Task, Timer,
};

/// C assertions that the Rust structure equals the C one: `member` alone if both sides name it
/// alike, `member = c_member` if C names it differently.
macro_rules! assertions {
    ($c:literal, $rust:ty, { $($member:ident $(= $other:literal)?),* $(,)? }) => {{
        let mut text = format!("SIZE({}, {});\n", $c, size_of::<$rust>());
        let mut last_end = 0;
        $(
            let c_member = [$($other,)? stringify!($member)][0];
            let offset = offset_of!($rust, $member);
            text += &format!("OFFSET({}, {}, {});\n", $c, c_member, offset);
            last_end = last_end.max(offset + size_of_member(|it: &$rust| &raw const it.$member));
        )*
        // Were a member left out here, its bytes would be missed, unless padding hides them.
        assert!(size_of::<$rust>() - last_end < 8, "{} has members that are not listed", $c);
        text
    }};
}

fn size_of_member<T, M>(_: impl Fn(&T) -> *const M) -> usize {
    size_of::<M>()
}

fn tasks() -> String {
    assertions!("struct task_struct", Task, {
        scx, pid, tgid, prio, static_prio, storage, cpus_ptr, mm, nr_cpus_allowed, cpu,
        recent_used_cpu, wake_cpu, state = "__state", flags, policy, rt_priority, normal_prio,
        on_cpu, se, nvcsw, nivcsw, start_time, real_parent, parent, group_leader, comm, cpus_mask,
    }) + &assertions!("struct sched_ext_entity", Entity, {
        dsq, dsq_seq, dsq_vtime, slice, weight, flags,
    }) + &assertions!("struct sched_entity", SchedEntity, {
        sum_exec_runtime, load_weight = "load.weight",
    }) + &assertions!("struct cpumask", CpuMask, { bits })
        + &assertions!("struct scx_init_task_args", InitTaskArgs, { fork, cgroup })
        + &assertions!("struct scx_exit_task_args", ExitTaskArgs, { cancelled })
        + &assertions!("struct scx_exit_info", ExitInfo, { kind, exit_code, reason, msg })
}

fn operations() -> String {
    assertions!("struct sched_ext_ops", Ops, {
        select_cpu, enqueue, dequeue, dispatch, tick, runnable, running, stopping, quiescent,
        yield_ = "yield", core_sched_before, set_weight, set_cpumask, update_idle, cpu_acquire,
        cpu_release, init_task, exit_task, enable, disable, dump, dump_cpu, dump_task, cpu_online,
        cpu_offline, init, exit, dispatch_max_batch, flags, timeout_ms, exit_dump_len,
        hotplug_seq, name,
    }) + &assertions!("struct scx_policy_description", PolicyDescription, {
        abi_version, sizes, ops, host,
    })
}

fn queues_and_maps() -> String {
    assertions!("struct scx_dispatch_q", DispatchQueueView, { id, nr })
        + &assertions!("struct bpf_iter_scx_dsq", DsqIterator, {
            dsq, seq, steps, flags, cursor, next, filled, chunk,
        })
        + &assertions!("struct scx_map", Map, {
            kind = "type", key_size, value_size, max_entries, index, value_stride, cpu_stride,
            values,
        })
        + &assertions!("struct bpf_timer", Timer, { id, reserved })
        + &assertions!("struct bpf_spin_lock", SpinLock, { id })
}

fn host() -> String {
    assertions!("struct scx_host", Host, {
        now_ns, cpu, nr_cpu_ids, hz, nr_online_cpus, current, idle_cpus, idle_cores, online_cpus,
        possible_cpus, calls,
    }) + &assertions!("struct scx_host_calls", HostCalls, {
        create_dsq, destroy_dsq, dsq_insert, dsq_insert_vtime, dsq_nr_queued, dsq_move_to_local,
        dsq_move, dsq_move_set_slice, dsq_move_set_vtime, iter_new, iter_fill, iter_destroy,
        dispatch_nr_slots, dispatch_cancel, reenqueue_local, kick_cpu, select_cpu_dfl,
        select_cpu_and, test_and_clear_cpu_idle, pick_idle_cpu, pick_any_cpu, cpu_curr,
        task_from_pid, task_storage_create, task_storage_delete, hash_lookup, map_update,
        map_delete, timer_init, timer_set_callback, timer_start, timer_cancel, spin_lock,
        spin_unlock, prandom, error, exit, print,
    })
}

#[test]
fn every_member_lies_where_the_headers_put_it() {
    let macros = "
#define SIZE(type, bytes) _Static_assert(sizeof(type) == bytes, \"size of \" #type)
#define OFFSET(type, member, bytes) \\
\t_Static_assert(__builtin_offsetof(type, member) == bytes, \"offset of \" #type \".\" #member)
";
    let assertions = tasks() + &operations() + &queues_and_maps() + &host();
    let text = [COUNTING, macros, &assertions].concat();
    for compiler in compilers() {
        if let Err(error) = Workshop::new(compiler).build("counting", &text) {
            panic!("{error}");
        }
    }
}
