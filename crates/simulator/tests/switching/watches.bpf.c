/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* watches - first in, first out on one CPU; ends the run when a switch looks other than it should. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0

/* A turn. */
const volatile u64 slice_ns = 10 * NSEC_PER_MSEC;
/* Whether the CPU is kicked when it puts a task back for the first time, and how. */
const volatile bool kicks = false;
const volatile u64 kick_flags = 0;

static u32 nr_put_back;

static void check_current(s32 cpu, struct task_struct *p, const char *when)
{
	struct task_struct *current = scx_bpf_cpu_curr(cpu);

	if (!current || current->pid != p->pid || !scx_bpf_task_running(p))
		scx_bpf_error("%s %s is not current", p->comm, when);
}

s32 BPF_STRUCT_OPS(watches_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void BPF_STRUCT_OPS(watches_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);

	if (!(enq_flags & SCX_ENQ_WAKEUP)) {
		check_current(cpu, p, "that is put back");
		if (kicks && nr_put_back++ == 0)
			scx_bpf_kick_cpu(cpu, kick_flags);
	}
	scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags);
}

void BPF_STRUCT_OPS(watches_dispatch, s32 cpu, struct task_struct *prev)
{
	if (prev)
		check_current(cpu, prev, "that is to be switched from");
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(watches_init)
{
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

SCX_OPS_DEFINE(watches_ops,
	       .select_cpu = (void *)watches_select_cpu,
	       .enqueue = (void *)watches_enqueue,
	       .dispatch = (void *)watches_dispatch,
	       .init = (void *)watches_init,
	       .name = "watches");
