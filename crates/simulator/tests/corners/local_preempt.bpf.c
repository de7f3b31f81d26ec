/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* local_preempt - everybody into the CPU's own queue; negative nice values preempt. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

s32 BPF_STRUCT_OPS(local_preempt_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void BPF_STRUCT_OPS(local_preempt_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 flags = p->static_prio < DEFAULT_PRIO ? SCX_ENQ_PREEMPT : 0;

	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, flags);
}

SCX_OPS_DEFINE(local_preempt_ops,
	       .select_cpu = (void *)local_preempt_select_cpu,
	       .enqueue = (void *)local_preempt_enqueue,
	       .name = "local_preempt");
