/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* beyond - counts how often each CPU runs a task, and has room for one CPU.
 *
 * Faulty on purpose: what it counts of other CPUs it writes behind the end of an array.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

u64 nr_runs[1];

void BPF_STRUCT_OPS(beyond_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(beyond_running, struct task_struct *p)
{
	nr_runs[scx_bpf_task_cpu(p)]++;
}

SCX_OPS_DEFINE(beyond_ops,
	       .enqueue = (void *)beyond_enqueue,
	       .running = (void *)beyond_running,
	       .name = "beyond");
