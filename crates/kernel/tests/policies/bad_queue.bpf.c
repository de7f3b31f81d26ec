/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* bad_queue - a mistake on purpose: tasks go to a queue that was never created. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

#define MISSING_DSQ 12345

void BPF_STRUCT_OPS(bad_queue_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, MISSING_DSQ, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(bad_queue_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(bad_queue_ops,
	       .enqueue = (void *)bad_queue_enqueue,
	       .exit = (void *)bad_queue_exit,
	       .name = "bad_queue");
