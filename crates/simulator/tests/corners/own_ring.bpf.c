/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* own_ring - no dispatch queue of its own: waiting tasks are pids in a ring without a lock. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define RING_SIZE 4096

static s32 ring[RING_SIZE];
static u32 head, tail;

s32 BPF_STRUCT_OPS(own_ring_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void BPF_STRUCT_OPS(own_ring_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	ring[tail++ & (RING_SIZE - 1)] = p->pid;
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(own_ring_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *p;

	if (head == tail)
		return;
	p = bpf_task_from_pid(ring[head++ & (RING_SIZE - 1)]);
	if (!p)
		return;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
	bpf_task_release(p);
}

SCX_OPS_DEFINE(own_ring_ops,
	       .select_cpu = (void *)own_ring_select_cpu,
	       .enqueue = (void *)own_ring_enqueue,
	       .dispatch = (void *)own_ring_dispatch,
	       .name = "own_ring");
