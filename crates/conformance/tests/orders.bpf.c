/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* orders - fails if, at one nanosecond, a CPU stops a task after a CPU of a higher number did.
 *
 * In the order that every run takes, CPU 0 comes first; only another order shows the fault.
 *
 * Source: own.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

static u64 stopped_at_ns;
static s32 stopped_on;

void BPF_STRUCT_OPS(orders_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_INF, enq_flags);
}

void BPF_STRUCT_OPS(orders_stopping, struct task_struct *p, bool runnable)
{
	s32 cpu = scx_bpf_task_cpu(p);
	u64 now_ns = scx_bpf_now();

	if (now_ns == stopped_at_ns && cpu < stopped_on)
		scx_bpf_error("CPU %d stopped after CPU %d", cpu, stopped_on);
	stopped_at_ns = now_ns;
	stopped_on = cpu;
}

SCX_OPS_DEFINE(orders_ops, .enqueue = (void *)orders_enqueue, .stopping = (void *)orders_stopping,
	       .name = "orders");
