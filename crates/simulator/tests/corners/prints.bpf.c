/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* prints - first come, first served, 1 ms at a time, telling of each task that it queues.
 *
 * Source: own.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define QUEUE 0

void BPF_STRUCT_OPS(prints_enqueue, struct task_struct *p, u64 enq_flags)
{
	bpf_printk("%s %d, %d %%\n", p->comm, p->pid, 50);
	scx_bpf_dsq_insert(p, QUEUE, NSEC_PER_MSEC, enq_flags);
}

void BPF_STRUCT_OPS(prints_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(prints_init)
{
	bpf_printk("begin");
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS_DEFINE(prints_ops, .enqueue = (void *)prints_enqueue, .dispatch = (void *)prints_dispatch,
	       .init = (void *)prints_init, .name = "prints");
