/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* endless - a mistake on purpose: a loop that never ends, which the verifier refuses. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

static volatile u64 turns;

void BPF_STRUCT_OPS(endless_enqueue, struct task_struct *p, u64 enq_flags)
{
	while (turns < SCX_SLICE_INF)
		turns++;
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(endless_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(endless_ops,
	       .enqueue = (void *)endless_enqueue,
	       .exit = (void *)endless_exit,
	       .name = "endless");
