/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* loses_a_task - a first-in-first-out policy that forgets one task for good. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0

/* The task that is forgotten. */
const volatile s32 lost_pid = 2;

void BPF_STRUCT_OPS(loses_a_task_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (p->pid == lost_pid)
		return;
	scx_bpf_dsq_insert(p, SHARED_DSQ, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(loses_a_task_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

s32 BPF_STRUCT_OPS(loses_a_task_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(loses_a_task_init)
{
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

SCX_OPS_DEFINE(loses_a_task_ops, .select_cpu = (void *)loses_a_task_select_cpu,
	       .enqueue = (void *)loses_a_task_enqueue, .dispatch = (void *)loses_a_task_dispatch,
	       .init = (void *)loses_a_task_init, .name = "loses_a_task");
