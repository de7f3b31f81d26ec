/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* starves_one - strict priority by nice, so the nicest waits as long as anybody else is there. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0

s32 BPF_STRUCT_OPS(starves_one_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void BPF_STRUCT_OPS(starves_one_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert_vtime(p, SHARED_DSQ, NSEC_PER_MSEC, p->static_prio, enq_flags);
}

void BPF_STRUCT_OPS(starves_one_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *p;

	/* Whoever runs goes on unless somebody of at least its priority waits. */
	bpf_for_each(scx_dsq, p, SHARED_DSQ, 0) {
		if (prev && prev->scx.flags & SCX_TASK_QUEUED &&
		    prev->static_prio < p->static_prio) {
			prev->scx.slice = NSEC_PER_MSEC;
			return;
		}
		break;
	}
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(starves_one_init)
{
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

SCX_OPS_DEFINE(starves_one_ops, .select_cpu = (void *)starves_one_select_cpu,
	       .enqueue = (void *)starves_one_enqueue, .dispatch = (void *)starves_one_dispatch,
	       .init = (void *)starves_one_init, .timeout_ms = 5000, .name = "starves_one");
