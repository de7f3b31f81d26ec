//! What an object may call: the kernel's functions and helpers, by name.
//!
//! Arguments are checked here: a pointer must lead to as many bytes of the memory as the call
//! takes, and to a task where it takes one.

mod arenas;
mod callbacks;
mod cids;
mod groups;
mod host;
mod masks;
mod objects;
mod rings;
mod rules;
mod run_queues;
mod texts;
mod values;
mod walks;

use crate::abi::Task;
use crate::core::Core;
use crate::dispatch_queue::LOCAL;
use crate::failure::FailureKind;
use crate::place::TaskId;
use bytecode::{FaultKind, Run, Stop, Touch, Words, errno, kind};
pub use rules::HOLDINGS;
pub use run_queues::{FREQUENCY_POLICIES, RUN_QUEUES};
use std::cmp::Ordering;
pub use walks::NUMBERS_MAX;

/// A program of a policy that runs.
pub type Calling<'r, 'k> = Run<'r, Core<'k>>;
/// What answers a call.
pub type Call = fn(&mut Calling<'_, '_>, [u64; 5]) -> Result<u64, Stop>;

/// All calls, helpers included. Names that older releases of Linux have stand beside the newer.
pub const CALLS: &[(&str, Call)] = &[
    // Time, CPUs, tasks.
    ("scx_bpf_now", |run, _| Ok(run.host.now_ns())),
    ("bpf_ktime_get_ns", |run, _| Ok(run.host.now_ns())),
    ("bpf_jiffies64", |run, _| Ok(run.host.now_ns() / run.host.time.tick_period_ns())),
    ("bpf_get_smp_processor_id", |run, _| Ok(run.host.here() as u64)),
    ("scx_bpf_nr_cpu_ids", |run, _| Ok(run.host.nr_cpu_ids().into())),
    ("bpf_get_current_task_btf", |run, _| Ok(shown(run, run.host.current_of(run.host.here())))),
    ("bpf_get_current_pid_tgid", |run, _| {
        let current = run.host.current_of(run.host.here());
        // SAFETY: a task.
        let (pid, tgid) = unsafe { ((*current).pid, (*current).tgid) };
        Ok((tgid as u64) << 32 | u64::from(pid as u32))
    }),
    ("scx_bpf_task_cpu", |run, [p, ..]| {
        // SAFETY: a task, which is not null.
        Ok(unsafe { (*some_task(run, p)?).cpu } as u32 as u64)
    }),
    ("scx_bpf_task_running", |run, [p, ..]| {
        // SAFETY: as above.
        Ok(u64::from(unsafe { (*some_task(run, p)?).on_cpu } != 0))
    }),
    ("scx_bpf_cpu_curr", |run, [cpu, ..]| {
        let task = run.host.cpu_curr(cpu as i32);
        Ok(shown(run, task))
    }),
    ("scx_bpf_cpu_rq", |run, [cpu, ..]| {
        let task = run.host.cpu_curr(cpu as i32);
        Ok(if task.is_null() { 0 } else { run_queues::of(run, cpu as usize) })
    }),
    ("scx_bpf_locked_rq", run_queues::locked),
    ("scx_bpf_cpuperf_cap", |_, _| Ok(CPUPERF_ONE)),
    ("scx_bpf_cpuperf_cur", |_, _| Ok(CPUPERF_ONE)),
    ("scx_bpf_cpuperf_set", |_, _| Ok(0)),
    ("bpf_task_from_pid", |run, [pid, ..]| {
        let task = run.host.task_from_pid(pid as i32);
        Ok(shown(run, task))
    }),
    // There is one namespace of pids.
    ("bpf_task_from_vpid", |run, [pid, ..]| {
        let task = run.host.task_from_pid(pid as i32);
        Ok(shown(run, task))
    }),
    ("bpf_task_acquire", |_, [p, ..]| Ok(p)),
    ("bpf_task_release", |_, _| Ok(0)),
    ("bpf_rcu_read_lock", |_, _| Ok(0)),
    ("bpf_rcu_read_unlock", |_, _| Ok(0)),
    ("bpf_get_prandom_u32", |run, _| Ok(run.host.policy.draw() >> 32)),
    // Dispatch queues.
    ("scx_bpf_create_dsq", |run, [id, node, ..]| Ok(run.host.create_dsq(id, node as i32) as u64)),
    ("scx_bpf_destroy_dsq", |run, [id, ..]| {
        run.host.destroy_dsq(id);
        Ok(0)
    }),
    ("scx_bpf_dsq_insert___v2", insert),
    ("scx_bpf_dsq_insert", insert),
    ("scx_bpf_dispatch", insert),
    ("__scx_bpf_dsq_insert_vtime", |run, [p, arguments, ..]| {
        let [dsq, slice, vtime, flags] = words(run, arguments)?;
        insert_vtime(run, [p, dsq, slice, vtime, flags])
    }),
    ("scx_bpf_dsq_insert_vtime", insert_vtime),
    ("scx_bpf_dispatch_vtime", insert_vtime),
    ("scx_bpf_dsq_peek", |run, [id, ..]| {
        let first = run.host.dsq_peek(id);
        keep_place_of_failure(run);
        Ok(shown(run, first))
    }),
    ("scx_bpf_dsq_nr_queued", |run, [id, ..]| Ok(run.host.dsq_nr_queued(id) as u64)),
    ("scx_bpf_dsq_move_to_local___v2", move_to_local),
    ("scx_bpf_dsq_move_to_local", move_to_local),
    ("scx_bpf_consume", move_to_local),
    ("scx_bpf_dispatch_nr_slots", |run, _| Ok(run.host.dispatch_nr_slots().into())),
    ("scx_bpf_dispatch_cancel", |run, _| {
        run.host.dispatch_cancel();
        Ok(0)
    }),
    ("scx_bpf_reenqueue_local", |run, _| Ok(run.host.reenqueue_local().into())),
    ("scx_bpf_task_set_slice", |run, [p, slice, ..]| {
        // SAFETY: a task, which is not null.
        unsafe { (*some_task(run, p)?).scx.slice = slice };
        Ok(1)
    }),
    ("scx_bpf_task_set_dsq_vtime", |run, [p, vtime, ..]| {
        // SAFETY: as above.
        unsafe { (*some_task(run, p)?).scx.dsq_vtime = vtime };
        Ok(1)
    }),
    ("scx_bpf_dsq_reenq", |run, [id, flags, ..]| {
        run.host.dsq_reenq(id, flags);
        keep_place_of_failure(run);
        Ok(0)
    }),
    ("scx_bpf_reenqueue_local___v2", |run, _| {
        run.host.dsq_reenq(LOCAL, 0);
        Ok(0)
    }),
    ("bpf_iter_scx_dsq_new", walks::begin),
    ("bpf_iter_scx_dsq_next", walks::next),
    ("bpf_iter_scx_dsq_destroy", walks::end),
    ("scx_bpf_dsq_move", |run, given| walks::move_task(run, given, false)),
    ("scx_bpf_dispatch_from_dsq", |run, given| walks::move_task(run, given, false)),
    ("scx_bpf_dsq_move_vtime", |run, given| walks::move_task(run, given, true)),
    ("scx_bpf_dispatch_vtime_from_dsq", |run, given| walks::move_task(run, given, true)),
    ("scx_bpf_dsq_move_set_slice", walks::set_slice),
    ("scx_bpf_dispatch_from_dsq_set_slice", walks::set_slice),
    ("scx_bpf_dsq_move_set_vtime", walks::set_vtime),
    ("scx_bpf_dispatch_from_dsq_set_vtime", walks::set_vtime),
    ("bpf_iter_num_new", walks::numbers_begin),
    ("bpf_iter_num_next", walks::numbers_next),
    ("bpf_iter_num_destroy", |_, _| Ok(0)),
    // Idle CPUs and kicks.
    ("scx_bpf_kick_cpu", |run, [cpu, flags, ..]| {
        run.host.kick_cpu(cpu as i32, flags);
        keep_place_of_failure(run);
        Ok(0)
    }),
    ("scx_bpf_select_cpu_dfl", |run, [p, prev, flags, is_idle, _]| {
        let is_idle = writable::<bool>(run, is_idle)?;
        let Some(p) = schedulable(run, p)? else { return Ok(prev) };
        let (cpu, idle) = run.host.select_cpu_dfl(p, prev as i32, flags);
        if let Some(idle) = idle {
            // SAFETY: a byte of the policy's own.
            unsafe { *is_idle = idle };
        }
        Ok(cpu as u64)
    }),
    ("__scx_bpf_select_cpu_and", |run, [p, allowed, arguments, ..]| {
        let [prev, wake_flags, flags] = words(run, arguments)?;
        select_cpu_and(run, [p, prev, wake_flags, allowed, flags])
    }),
    ("scx_bpf_select_cpu_and", select_cpu_and),
    ("scx_bpf_test_and_clear_cpu_idle", |run, [cpu, ..]| {
        Ok(run.host.test_and_clear_cpu_idle(cpu as i32).into())
    }),
    ("scx_bpf_pick_idle_cpu", |run, [allowed, flags, ..]| {
        let found = masks::find_idle(run, allowed, flags)?;
        Ok(run.host.pick_idle_cpu(found) as u64)
    }),
    ("scx_bpf_pick_any_cpu", |run, [allowed, flags, ..]| {
        let found = masks::find_idle(run, allowed, flags)?;
        let any = masks::find_any(run, allowed)?;
        Ok(run.host.pick_any_cpu(found, any) as u64)
    }),
    ("scx_bpf_get_idle_cpumask", |run, _| masks::idle(run, |masks| &masks.idle_cpus)),
    ("scx_bpf_get_idle_smtmask", |run, _| masks::idle(run, |masks| &masks.idle_cores)),
    ("scx_bpf_put_idle_cpumask", |_, _| Ok(0)),
    ("scx_bpf_get_online_cpumask", |run, _| {
        Ok(shown(run, run.host.idle.masks().online.bits.as_ptr()))
    }),
    ("scx_bpf_get_possible_cpumask", |run, _| {
        Ok(shown(run, run.host.idle.masks().possible.bits.as_ptr()))
    }),
    ("scx_bpf_put_cpumask", |_, _| Ok(0)),
    // Nodes.
    ("scx_bpf_nr_node_ids", |run, _| Ok(run.host.cpus.nr_nodes() as u64)),
    ("scx_bpf_cpu_node", |run, [cpu, ..]| Ok(run.host.cpu_node(cpu as i32) as u64)),
    ("scx_bpf_pick_idle_cpu_node", |run, [allowed, node, flags, ..]| {
        masks::pick_of_node(run, allowed, node as i32, flags, false)
    }),
    ("scx_bpf_pick_any_cpu_node", |run, [allowed, node, flags, ..]| {
        masks::pick_of_node(run, allowed, node as i32, flags, true)
    }),
    ("scx_bpf_get_idle_cpumask_node", |run, [node, ..]| {
        masks::idle_of_node(run, node as i32, |masks| &masks.idle_cpus)
    }),
    ("scx_bpf_get_idle_smtmask_node", |run, [node, ..]| {
        masks::idle_of_node(run, node as i32, |masks| &masks.idle_cores)
    }),
    // Sets of CPUs.
    ("bpf_cpumask_test_cpu", masks::test_cpu),
    ("bpf_cpumask_first", masks::first),
    ("bpf_cpumask_any_distribute", masks::first),
    ("bpf_cpumask_first_zero", masks::first_zero),
    ("bpf_cpumask_first_and", masks::first_and),
    ("bpf_cpumask_any_and_distribute", masks::first_and),
    ("bpf_cpumask_weight", masks::weight),
    ("bpf_cpumask_empty", masks::empty),
    ("bpf_cpumask_full", masks::full),
    ("bpf_cpumask_intersects", masks::intersects),
    ("bpf_cpumask_subset", masks::subset),
    ("bpf_cpumask_equal", masks::equal),
    ("bpf_cpumask_create", masks::create),
    ("bpf_cpumask_acquire", masks::acquire),
    ("bpf_cpumask_release", masks::release),
    ("bpf_cpumask_set_cpu", masks::set_cpu),
    ("bpf_cpumask_clear_cpu", masks::clear_cpu),
    ("bpf_cpumask_test_and_set_cpu", masks::test_and_set_cpu),
    ("bpf_cpumask_test_and_clear_cpu", masks::test_and_clear_cpu),
    ("bpf_cpumask_clear", masks::clear),
    ("bpf_cpumask_setall", masks::set_all),
    ("bpf_cpumask_and", masks::and),
    ("bpf_cpumask_or", masks::or),
    ("bpf_cpumask_xor", masks::xor),
    ("bpf_cpumask_copy", masks::copy),
    ("bpf_cpumask_populate", masks::populate),
    // Groups of tasks.
    ("scx_bpf_task_cgroup", groups::of),
    ("bpf_cgroup_from_id", groups::of_id),
    ("bpf_get_current_cgroup_id", groups::current_id),
    ("bpf_cgroup_acquire", groups::acquire),
    ("bpf_cgroup_release", groups::release),
    ("bpf_cgroup_ancestor", groups::ancestor),
    ("bpf_task_under_cgroup", groups::has_task),
    ("bpf_iter_css_new", groups::begin),
    ("bpf_iter_css_next", groups::next),
    ("bpf_iter_css_destroy", |_, _| Ok(0)),
    // Maps, timers, locks.
    ("bpf_task_storage_get", |run, given| values::storage_get(run, kind::TASK_STORAGE, given)),
    ("bpf_task_storage_delete", |run, given| {
        values::storage_delete(run, kind::TASK_STORAGE, given)
    }),
    ("bpf_cgrp_storage_get", |run, given| values::storage_get(run, kind::CGRP_STORAGE, given)),
    ("bpf_cgrp_storage_delete", |run, given| {
        values::storage_delete(run, kind::CGRP_STORAGE, given)
    }),
    ("bpf_map_lookup_elem", values::lookup),
    ("bpf_map_lookup_percpu_elem", values::lookup_of_cpu),
    ("bpf_map_update_elem", values::update),
    ("bpf_map_delete_elem", values::delete),
    ("bpf_map_push_elem", values::push),
    ("bpf_map_pop_elem", |run, given| values::next(run, given, true)),
    ("bpf_map_peek_elem", |run, given| values::next(run, given, false)),
    ("bpf_kptr_xchg", values::exchange),
    ("bpf_probe_read_kernel", values::read),
    ("bpf_probe_read_kernel_str", values::read_text),
    ("bpf_timer_init", values::timer_init),
    ("bpf_timer_set_callback", values::timer_set_callback),
    ("bpf_timer_start", values::timer_start),
    ("bpf_timer_cancel", values::timer_cancel),
    // What a worker does at once is what a timer does that expires at once.
    ("bpf_wq_init", values::work_init),
    ("bpf_wq_set_callback_impl", values::timer_set_callback),
    ("bpf_wq_set_callback", values::timer_set_callback),
    ("bpf_wq_start", |run, [work, flags, ..]| {
        let flags = if flags == 0 { 0 } else { u64::MAX };
        values::timer_start(run, [work, 0, flags, 0, 0])
    }),
    ("bpf_spin_lock", values::lock),
    ("bpf_spin_unlock", values::unlock),
    // Functions that are called back, and what runs as it is.
    ("bpf_loop", callbacks::repeat),
    ("bpf_for_each_map_elem", callbacks::for_each),
    ("bpf_preempt_disable", |_, _| Ok(0)),
    ("bpf_preempt_enable", |_, _| Ok(0)),
    ("bpf_res_spin_lock", values::lock),
    ("bpf_res_spin_unlock", values::unlock),
    // Other clocks, other places to read, the CPU's node and task.
    ("bpf_ktime_get_boot_ns", |run, _| Ok(run.host.now_ns())),
    ("bpf_ktime_get_coarse_ns", |run, _| Ok(run.host.now_ns())),
    ("bpf_ktime_get_tai_ns", |run, _| Ok(run.host.now_ns())),
    ("bpf_get_numa_node_id", |run, _| Ok(run.host.cpus.node(run.host.here()) as u64)),
    ("bpf_get_current_task", |run, _| Ok(shown(run, run.host.current_of(run.host.here())))),
    ("bpf_get_current_comm", values::name_of_current),
    ("bpf_probe_read", |run, given| values::read_either(run, given, values::read)),
    ("bpf_probe_read_str", |run, given| values::read_either(run, given, values::read_text)),
    ("bpf_probe_read_user", values::read_user),
    ("bpf_probe_read_user_str", values::read_user),
    // Ring buffers, events, memory with a size.
    ("bpf_ringbuf_output", rings::output),
    ("bpf_ringbuf_reserve", rings::reserve),
    ("bpf_ringbuf_submit", rings::submit),
    ("bpf_ringbuf_discard", rings::submit),
    ("bpf_ringbuf_query", rings::query),
    ("bpf_ringbuf_reserve_dynptr", rings::dynptr_reserve),
    ("bpf_ringbuf_submit_dynptr", rings::dynptr_submit),
    ("bpf_ringbuf_discard_dynptr", rings::dynptr_submit),
    ("bpf_user_ringbuf_drain", rings::drain),
    ("bpf_perf_event_read", rings::event),
    ("bpf_perf_event_read_value", rings::event_value),
    ("bpf_perf_event_output", rings::event_output),
    ("bpf_dynptr_from_mem", rings::dynptr_from),
    ("bpf_dynptr_read", rings::dynptr_read),
    ("bpf_dynptr_write", rings::dynptr_write),
    ("bpf_dynptr_data", rings::dynptr_data),
    // Objects of the policy's own types, lists and trees of them. Linux 7.0 takes the types as
    // arguments that no program gives, and has the names without `_impl`.
    ("bpf_obj_new_impl", objects::new),
    ("bpf_obj_new", objects::new),
    ("bpf_percpu_obj_new_impl", objects::new_per_cpu),
    ("bpf_percpu_obj_new", objects::new_per_cpu),
    ("bpf_obj_drop_impl", objects::give_up),
    ("bpf_obj_drop", objects::give_up),
    ("bpf_percpu_obj_drop_impl", objects::give_up),
    ("bpf_percpu_obj_drop", objects::give_up),
    ("bpf_refcount_acquire_impl", objects::acquire),
    ("bpf_refcount_acquire", objects::acquire),
    ("bpf_per_cpu_ptr", objects::of_cpu),
    ("bpf_this_cpu_ptr", objects::of_this_cpu),
    ("bpf_list_push_front_impl", objects::push_front),
    ("bpf_list_push_front", objects::push_front),
    ("bpf_list_push_back_impl", objects::push_back),
    ("bpf_list_push_back", objects::push_back),
    ("bpf_list_pop_front", objects::pop_front),
    ("bpf_list_pop_back", objects::pop_back),
    ("bpf_list_front", objects::first),
    ("bpf_list_back", objects::back),
    ("bpf_list_add", objects::add_behind),
    ("bpf_list_del", objects::remove),
    ("bpf_list_is_first", |run, [list, node, ..]| objects::is_at(run, list, node, |_| 0)),
    ("bpf_list_is_last", |run, [list, node, ..]| objects::is_at(run, list, node, |nr| nr - 1)),
    ("bpf_list_empty", objects::is_empty),
    ("bpf_rbtree_add_impl", objects::add),
    ("bpf_rbtree_add", objects::add),
    ("bpf_rbtree_remove", objects::remove),
    ("bpf_rbtree_first", objects::first),
    ("bpf_rbtree_root", objects::root),
    ("bpf_rbtree_left", |run, given| objects::below(run, given, Ordering::Less)),
    ("bpf_rbtree_right", |run, given| objects::below(run, given, Ordering::Greater)),
    // Messages and the end.
    ("scx_bpf_error_bstr", |run, [format, words, bytes, ..]| {
        let message = said(run, format, Words::At(words, bytes))?;
        run.host.fail(FailureKind::PolicyError, format!("scx_bpf_error ({message})"));
        Ok(0)
    }),
    ("scx_bpf_exit_bstr", |run, [code, format, words, bytes, _]| {
        let message = said(run, format, Words::At(words, bytes))?;
        let text = format!("policy asked to exit with code {} ({message})", code as i64);
        run.host.fail(FailureKind::PolicyExit, text);
        Ok(0)
    }),
    ("scx_bpf_dump_bstr", |run, [format, words, bytes, ..]| {
        let message = run.message(format, Words::At(words, bytes))?;
        match &mut run.host.policy.given.said {
            Some(said) => said.add(&message.unwrap_or_else(|| "[!] failed to format\n".to_owned())),
            None => {
                let message = "scx_bpf_dump() must only be called from ops.dump() and friends";
                run.host.fail(FailureKind::BadCall, message.to_owned());
            }
        }
        Ok(0)
    }),
    // libbpf's `bpf_printk` calls the first of these where a message has three words or fewer.
    ("bpf_trace_printk", |run, [format, _, words @ ..]| print(run, format, Words::Given(words))),
    ("bpf_trace_vprintk", |run, [format, _, words, bytes, _]| {
        print(run, format, Words::At(words, bytes))
    }),
    // The first word is the number of a stream, which nobody reads.
    ("bpf_stream_vprintk", |run, [_, format, words, bytes, _]| {
        print(run, format, Words::At(words, bytes)).map(|answer| answer.cast_signed().min(0) as u64)
    }),
    ("bpf_snprintf", values::print_to),
    ("bpf_strncmp", |run, [first, bytes, second, ..]| {
        let most = bytes as u32 as usize;
        let (first, second) = (run.text(first, most)?, run.text(second, most)?);
        Ok(first.cmp(&second) as i64 as u64)
    }),
    // Arenas.
    ("bpf_arena_alloc_pages", arenas::allocate),
    ("bpf_arena_free_pages", arenas::give_back),
    ("bpf_arena_reserve_pages", arenas::reserve),
    // Exceptions, walks over tasks, what happened.
    ("bpf_throw", |_, [cookie, ..]| Err(FaultKind::Thrown(cookie).into())),
    ("bpf_iter_task_new", walks::tasks_begin),
    ("bpf_iter_task_next", walks::tasks_next),
    ("bpf_iter_task_destroy", |_, _| Ok(0)),
    ("bpf_iter_css_task_new", groups::tasks_begin),
    ("bpf_iter_css_task_next", groups::tasks_next),
    ("bpf_iter_css_task_destroy", |_, _| Ok(0)),
    ("scx_bpf_events", values::events),
    // CPUs by their places in the topology, schedulers below others, tasks by numbers of their own.
    ("scx_bpf_nr_cids", |run, _| Ok(run.host.nr_cpu_ids().into())),
    ("scx_bpf_nr_online_cids", cids::nr_online),
    ("scx_bpf_this_cid", cids::of_this),
    ("scx_bpf_task_cid", cids::of_task),
    ("scx_bpf_cid_to_cpu", cids::to_cpu),
    ("scx_bpf_cpu_to_cid", cids::of_cpu),
    ("scx_bpf_cid_topo", cids::topology),
    ("scx_bpf_cid_override", cids::replace),
    ("scx_bpf_cid_curr", cids::current),
    ("scx_bpf_kick_cid", cids::kick),
    ("scx_bpf_cidperf_cap", cids::speed),
    ("scx_bpf_cidperf_cur", cids::speed),
    ("scx_bpf_cidperf_set", cids::set_speed),
    ("scx_bpf_online_cmask", |run, _| Ok(run.host.policy.given.cid_masks.online)),
    ("scx_bpf_sub_caps", cids::capabilities),
    ("scx_bpf_sub_grant", cids::no_child),
    ("scx_bpf_sub_revoke", cids::no_child),
    ("scx_bpf_sub_kill_bstr", cids::no_child),
    ("scx_bpf_sub_dispatch", |_, _| Ok(0)),
    ("scx_bpf_tid_to_task", cids::task),
    // Texts, bits, and more of memory with a size.
    ("bpf_strcmp", |run, given| texts::compare(run, given, false, u64::MAX)),
    ("bpf_strcasecmp", |run, given| texts::compare(run, given, true, u64::MAX)),
    ("bpf_strncasecmp", |run, given| texts::compare(run, given, true, given[2])),
    ("bpf_strlen", |run, [text, ..]| texts::find(run, text, None, u64::MAX)),
    ("bpf_strnlen", |run, [text, most, ..]| texts::find(run, text, None, most)),
    ("bpf_strchr", |run, [text, one, ..]| texts::find(run, text, Some(one as u8), u64::MAX)),
    ("bpf_strnchr", |run, [text, most, one, ..]| texts::find(run, text, Some(one as u8), most)),
    ("bpf_strstr", |run, given| texts::find_text(run, given, u64::MAX)),
    ("bpf_strnstr", |run, given| texts::find_text(run, given, given[2])),
    ("bpf_iter_bits_new", texts::bits_begin),
    ("bpf_iter_bits_next", texts::bits_next),
    ("bpf_iter_bits_destroy", texts::bits_end),
    ("bpf_dynptr_slice", rings::dynptr_slice),
    ("bpf_dynptr_slice_rdwr", rings::dynptr_slice),
    ("bpf_dynptr_adjust", rings::dynptr_adjust),
    ("bpf_dynptr_is_null", rings::dynptr_is_null),
    ("bpf_dynptr_is_rdonly", |_, _| Ok(0)),
    ("bpf_dynptr_size", rings::dynptr_size),
    ("bpf_dynptr_clone", rings::dynptr_clone),
    // Nothing interrupts an operation.
    ("bpf_local_irq_save", |run, [flags, ..]| {
        // SAFETY: a word of the policy's own.
        unsafe { *writable::<u64>(run, flags)? = 0 };
        Ok(0)
    }),
    ("bpf_local_irq_restore", |_, _| Ok(0)),
    ("bpf_timer_cancel_async", values::timer_cancel_async),
];

/// Simulated CPUs have one speed each; a request for another changes nothing.
const CPUPERF_ONE: u64 = 1024;

fn print(run: &mut Calling<'_, '_>, format: u64, words: Words) -> Result<u64, Stop> {
    let Some(message) = run.message(format, words)? else { return Ok(-errno::EINVAL as u64) };
    run.host.print(&message);
    Ok(message.len() as u64)
}

/// What a policy says at its end. Source: Linux, kernel/sched/ext.c, `bstr_format`.
fn said(run: &mut Calling<'_, '_>, format: u64, words: Words) -> Result<String, Stop> {
    let message = run.message(format, words)?;
    Ok(message.unwrap_or_else(|| "a format that a kernel refuses".to_owned()))
}

/// What a program is shown for an address; 0 for none.
fn shown<T>(run: &Calling<'_, '_>, at: *const T) -> u64 {
    if at.is_null() { 0 } else { run.host.visible.room.address(at) }
}

fn refused(why: String) -> Stop {
    FaultKind::Refused(why).into()
}

/// The number of the function that a program gives for a callback.
fn function(run: &Calling<'_, '_>, address: u64) -> Result<usize, Stop> {
    let found = run.program().function_at(address);
    found.ok_or_else(|| refused(format!("{address:#x} is given for a callback and is none")))
}

/// The task at an address; null for NULL, which the calls themselves refuse.
fn task(run: &mut Calling<'_, '_>, address: u64) -> Result<*mut Task, Stop> {
    if address == 0 {
        return Ok(std::ptr::null_mut());
    }
    some_task(run, address)
}

fn some_task(run: &mut Calling<'_, '_>, address: u64) -> Result<*mut Task, Stop> {
    let found = run.host.task_at(address);
    let none = || refused(format!("{address:#x} is given for a task and is none"));
    let found = found.ok_or_else(none)?;
    run.check(address, 0, size_of::<Task>() as u64, Touch::Read)?;
    Ok(found)
}

/// The task at an address, to be scheduled; for NULL and idle tasks, which cannot be, a failure.
#[inline]
fn schedulable(run: &mut Calling<'_, '_>, address: u64) -> Result<Option<TaskId>, Stop> {
    let Some(number) = run.host.visible.task_number(address) else {
        return not_schedulable(run, address);
    };
    run.check(address, 0, size_of::<Task>() as u64, Touch::Read)?;
    Ok(Some(number as TaskId))
}

#[cold]
#[inline(never)]
fn not_schedulable(run: &mut Calling<'_, '_>, address: u64) -> Result<Option<TaskId>, Stop> {
    task(run, address)?;
    run.host.refuse_to_schedule(address == 0);
    keep_place_of_failure(run);
    Ok(None)
}

/// Bytes that a call reads.
fn readable<T>(run: &mut Calling<'_, '_>, address: u64) -> Result<*const T, Stop> {
    let at = at(run, address, size_of::<T>(), align_of::<T>(), Touch::Read)?;
    Ok(at.cast_const().cast())
}

/// Bytes that a call writes.
fn writable<T>(run: &mut Calling<'_, '_>, address: u64) -> Result<*mut T, Stop> {
    Ok(at(run, address, size_of::<T>(), align_of::<T>(), Touch::Write)?.cast())
}

fn at(
    run: &mut Calling<'_, '_>,
    address: u64,
    bytes: usize,
    alignment: usize,
    touch: Touch,
) -> Result<*mut u8, Stop> {
    let found = run.host.visible.room.find(address, bytes, touch == Touch::Write);
    let found = found.filter(|_| address.is_multiple_of(alignment as u64));
    let refused = FaultKind::Memory { address, bytes: bytes as u64, write: touch == Touch::Write };
    let found = found.ok_or(refused)?;
    run.check(address, 0, bytes as u64, touch)?;
    Ok(found)
}

/// Words that a call takes in a structure.
fn words<const COUNT: usize>(
    run: &mut Calling<'_, '_>,
    address: u64,
) -> Result<[u64; COUNT], Stop> {
    // SAFETY: so many words are there.
    Ok(unsafe { readable::<[u64; COUNT]>(run, address)?.read_unaligned() })
}

fn insert(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [p, dsq, slice, flags, _] = given;
    insert_at(run, [p, dsq, slice, flags], None)
}

fn insert_vtime(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [p, dsq, slice, vtime, flags] = given;
    insert_at(run, [p, dsq, slice, flags], Some(vtime))
}

#[inline(always)]
fn insert_at(
    run: &mut Calling<'_, '_>,
    [p, dsq, slice, flags]: [u64; 4],
    vtime: Option<u64>,
) -> Result<u64, Stop> {
    if let Some(p) = schedulable(run, p)? {
        run.host.policy.given.call = Some(run.place());
        run.host.dsq_insert(p, dsq, slice, vtime, flags);
        keep_place_of_failure(run);
    }
    Ok(1)
}

fn move_to_local(run: &mut Calling<'_, '_>, [id, ..]: [u64; 5]) -> Result<u64, Stop> {
    let moved = run.host.dsq_move_to_local(id);
    keep_place_of_failure(run);
    Ok(moved.into())
}

/// Where a call may end the run, its place is kept if it did. Strict runs do so for every call.
#[inline]
fn keep_place_of_failure(run: &mut Calling<'_, '_>) {
    if run.host.recorder.has_failed() && !run.host.policy.is_strict() {
        let place = run.place();
        run.host.policy.given.failed_in_call(place);
    }
}

fn select_cpu_and(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [p, prev, wake_flags, allowed, flags] = given;
    let allowed = masks::copy_of(run, allowed)?;
    let Some(p) = schedulable(run, p)? else { return Ok(-errno::EINVAL as u64) };
    Ok(run.host.select_cpu_and(p, prev as i32, wake_flags, &allowed, flags) as u64)
}
