/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* without_record - a policy that does not say how it ended, as somebody else's may not; only the
 * kernel's log tells. Its mistake is that of bad_queue. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define MISSING_DSQ 12345

void BPF_STRUCT_OPS(without_record_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, MISSING_DSQ, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS_DEFINE(without_record_ops,
	       .enqueue = (void *)without_record_enqueue,
	       .name = "without_record");
