/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* parts - one queue, with turns that another source decides; built of two sources. */
#include <scx/common.bpf.h>
#include <turns.h>

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0

s32 BPF_STRUCT_OPS_SLEEPABLE(parts_init)
{
	if (turn_ns(2) != 2 * TURN_NS || FACTOR != 3)
		return -EINVAL;
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

void BPF_STRUCT_OPS(parts_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED_DSQ, turn_ns(FACTOR), enq_flags);
}

void BPF_STRUCT_OPS(parts_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

SCX_OPS_DEFINE(parts_ops, .enqueue = (void *)parts_enqueue, .dispatch = (void *)parts_dispatch,
	       .init = (void *)parts_init, .name = "parts");
