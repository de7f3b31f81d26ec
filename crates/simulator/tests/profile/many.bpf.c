/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* many - ten instructions that do nothing, two of them branches, in each call of `enqueue`. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define FIVE "r0 = r0; r0 = r0; r0 = r0; r0 = r0; if r0 == 0 goto +0;"
#define TEN_MORE asm volatile(FIVE FIVE::: "r0")

void BPF_STRUCT_OPS(many_enqueue, struct task_struct *p, u64 enq_flags)
{
	TEN_MORE;
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS_DEFINE(many_ops, .enqueue = (void *)many_enqueue, .name = "many");
