/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* nested_walks - while it walks over the queue, moves all but the first task away and back. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0
#define OTHER_DSQ 1

void BPF_STRUCT_OPS(nested_walks_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED_DSQ, NSEC_PER_MSEC, 0);
}

static void move_all_but(s32 pid, u64 from, u64 to)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, from, 0) {
		if (p->pid != pid)
			scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, to, 0);
	}
}

void BPF_STRUCT_OPS(nested_walks_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *p;
	s32 first = 0;

	bpf_for_each(scx_dsq, p, SHARED_DSQ, 0) {
		if (first)
			scx_bpf_error("%d left since the walk began", p->pid);
		first = p->pid;
		move_all_but(first, SHARED_DSQ, OTHER_DSQ);
		move_all_but(first, OTHER_DSQ, SHARED_DSQ);
	}
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(nested_walks_init)
{
	s32 err = scx_bpf_create_dsq(SHARED_DSQ, -1);

	return err ? err : scx_bpf_create_dsq(OTHER_DSQ, -1);
}

SCX_OPS_DEFINE(nested_walks_ops,
	       .enqueue = (void *)nested_walks_enqueue,
	       .dispatch = (void *)nested_walks_dispatch,
	       .init = (void *)nested_walks_init,
	       .name = "nested_walks");
