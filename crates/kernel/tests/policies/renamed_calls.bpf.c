/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* renamed_calls - uses every call whose name or arguments differ between kernels, so that loading
 * it shows whether the headers hide that. Otherwise it is one queue in order of virtual time. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

#define TIMED_DSQ 0
#define PLAIN_DSQ 1

static u64 seen_at_ns;

s32 BPF_STRUCT_OPS(renamed_calls_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = scx_bpf_select_cpu_and(p, prev_cpu, wake_flags, p->cpus_ptr, 0);

	return cpu >= 0 ? cpu : prev_cpu;
}

void BPF_STRUCT_OPS(renamed_calls_enqueue, struct task_struct *p, u64 enq_flags)
{
	seen_at_ns = scx_bpf_now();
	if (enq_flags & SCX_ENQ_WAKEUP)
		scx_bpf_dsq_insert(p, PLAIN_DSQ, SCX_SLICE_DFL, enq_flags);
	else
		scx_bpf_dsq_insert_vtime(p, TIMED_DSQ, SCX_SLICE_DFL, p->scx.dsq_vtime, enq_flags);
	if (enq_flags & SCX_ENQ_CPU_SELECTED)
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(renamed_calls_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, PLAIN_DSQ, 0) {
		scx_bpf_dsq_move_set_slice(BPF_FOR_EACH_ITER, 2 * NSEC_PER_MSEC);
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, p->scx.dsq_vtime + 1);
		scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, TIMED_DSQ, 0);
	}
	bpf_for_each(scx_dsq, p, TIMED_DSQ, 0) {
		if (bpf_cpumask_test_cpu((u32)cpu, p->cpus_ptr) &&
		    scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0))
			return;
	}
	scx_bpf_dsq_move_to_local(TIMED_DSQ);
}

void BPF_STRUCT_OPS(renamed_calls_tick, struct task_struct *p)
{
	struct task_struct *curr;

	bpf_rcu_read_lock();
	curr = scx_bpf_cpu_curr(scx_bpf_task_cpu(p));
	if (curr && curr->pid == p->pid)
		scx_bpf_task_set_slice(p, p->scx.slice / 2);
	bpf_rcu_read_unlock();
}

void BPF_STRUCT_OPS(renamed_calls_stopping, struct task_struct *p, bool runnable)
{
	scx_bpf_task_set_dsq_vtime(p, p->scx.dsq_vtime + NSEC_PER_MSEC);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(renamed_calls_init)
{
	s32 error = scx_bpf_create_dsq(TIMED_DSQ, -1);

	return error ? error : scx_bpf_create_dsq(PLAIN_DSQ, -1);
}

void BPF_STRUCT_OPS(renamed_calls_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(renamed_calls_ops,
	       .select_cpu = (void *)renamed_calls_select_cpu,
	       .enqueue = (void *)renamed_calls_enqueue,
	       .dispatch = (void *)renamed_calls_dispatch,
	       .tick = (void *)renamed_calls_tick,
	       .stopping = (void *)renamed_calls_stopping,
	       .init = (void *)renamed_calls_init,
	       .exit = (void *)renamed_calls_exit,
	       .name = "renamed_calls");
