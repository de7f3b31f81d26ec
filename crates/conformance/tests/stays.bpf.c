/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* stays - every task has turns on the CPU that it was born for, and no other ever helps.
 *
 * Faulty on purpose: a CPU that runs dry looks nowhere.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define SLICE_NS (3 * NSEC_PER_MSEC)

s32 BPF_STRUCT_OPS(stays_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = p->pid % scx_bpf_nr_cpu_ids();

	if ((wake_flags & SCX_WAKE_FORK) && bpf_cpumask_test_cpu((u32)cpu, p->cpus_ptr))
		return cpu;
	return prev_cpu;
}

void BPF_STRUCT_OPS(stays_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags);
}

SCX_OPS_DEFINE(stays_ops,
	       .select_cpu = (void *)stays_select_cpu,
	       .enqueue = (void *)stays_enqueue,
	       .name = "stays");
