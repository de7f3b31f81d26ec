/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* scans - one queue for all CPUs that keeps its order: who is preempted or wakes up goes behind.
 *
 * For tests: unlike fifo it has no select_cpu of its own, dispatches nothing directly and wakes
 * nobody but the CPU on which the task was, so that every task passes through the one queue.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

#define SHARED_DSQ 0

s32 BPF_STRUCT_OPS(scans_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void BPF_STRUCT_OPS(scans_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED_DSQ, SCX_SLICE_INF, enq_flags);
}

void BPF_STRUCT_OPS(scans_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(scans_init)
{
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

void BPF_STRUCT_OPS(scans_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(scans_ops,
	       .select_cpu = (void *)scans_select_cpu,
	       .enqueue = (void *)scans_enqueue,
	       .dispatch = (void *)scans_dispatch,
	       .init = (void *)scans_init,
	       .exit = (void *)scans_exit,
	       .name = "scans");
