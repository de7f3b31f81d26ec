/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* open_walk - returns from dispatch without having destroyed its iterator. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0

static struct bpf_iter_scx_dsq walk;
static u32 nr_dispatches;

void BPF_STRUCT_OPS(open_walk_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED_DSQ, SCX_SLICE_DFL, 0);
}

void BPF_STRUCT_OPS(open_walk_dispatch, s32 cpu, struct task_struct *prev)
{
	if (nr_dispatches++ == 1)
		bpf_iter_scx_dsq_new(&walk, SHARED_DSQ, 0);
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(open_walk_init)
{
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

SCX_OPS_DEFINE(open_walk_ops,
	       .enqueue = (void *)open_walk_enqueue,
	       .dispatch = (void *)open_walk_dispatch,
	       .init = (void *)open_walk_init,
	       .name = "open_walk");
