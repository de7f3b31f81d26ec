/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* few - as `many`, without the ten instructions. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

void BPF_STRUCT_OPS(few_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS_DEFINE(few_ops, .enqueue = (void *)few_enqueue, .name = "few");
