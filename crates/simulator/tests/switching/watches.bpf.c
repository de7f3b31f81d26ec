/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* watches - first in, first out on one CPU; ends the run when a switch is not as it should be. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0

/* A turn. */
const volatile u64 slice_ns = 10 * NSEC_PER_MSEC;
/* Whether the CPU is kicked when it puts a task back for the first time, and how. */
const volatile bool kicks = false;
const volatile u64 kick_flags = 0;

static u32 nr_put_back;
/* The task that became runnable last, until it is enqueued. */
static s32 runnable_pid;
/* The task that blocked last, as long as `dispatch` has not been given it. */
static s32 blocked_pid;

static bool is_queued(const struct task_struct *p)
{
	return p->scx.flags & SCX_TASK_QUEUED;
}

static void check_current(s32 cpu, struct task_struct *p, const char *when)
{
	struct task_struct *current = scx_bpf_cpu_curr(cpu);

	if (!current || current->pid != p->pid || !scx_bpf_task_running(p))
		scx_bpf_error("%s %s is not current", p->comm, when);
}

s32 BPF_STRUCT_OPS(watches_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	if (is_queued(p))
		scx_bpf_error("%s is queued before it is runnable", p->comm);
	return prev_cpu;
}

void BPF_STRUCT_OPS(watches_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);

	if (p->pid != runnable_pid) {
		check_current(cpu, p, "that is put back");
		if (kicks && nr_put_back++ == 0)
			scx_bpf_kick_cpu(cpu, kick_flags);
	}
	runnable_pid = 0;
	scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags);
}

void BPF_STRUCT_OPS(watches_dispatch, s32 cpu, struct task_struct *prev)
{
	if (prev) {
		check_current(cpu, prev, "that is to be switched from");
		if (is_queued(prev) == (prev->pid == blocked_pid))
			scx_bpf_error("%s: the flag of %s is wrong", "dispatch", prev->comm);
		blocked_pid = 0;
	}
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

void BPF_STRUCT_OPS(watches_runnable, struct task_struct *p, u64 enq_flags)
{
	if (!is_queued(p))
		scx_bpf_error("%s is runnable and not queued", p->comm);
	runnable_pid = p->pid;
}

void BPF_STRUCT_OPS(watches_running, struct task_struct *p)
{
	if (blocked_pid)
		scx_bpf_error("dispatch was not given task %d", blocked_pid);
}

void BPF_STRUCT_OPS(watches_quiescent, struct task_struct *p, u64 deq_flags)
{
	if (!is_queued(p))
		scx_bpf_error("%s is quiescent and was not queued", p->comm);
	blocked_pid = p->pid;
}

void BPF_STRUCT_OPS(watches_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	if (blocked_pid)
		scx_bpf_error("%s is gone before dispatch was given it", p->comm);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(watches_init)
{
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

SCX_OPS_DEFINE(watches_ops,
	       .select_cpu = (void *)watches_select_cpu,
	       .enqueue = (void *)watches_enqueue,
	       .dispatch = (void *)watches_dispatch,
	       .runnable = (void *)watches_runnable,
	       .running = (void *)watches_running,
	       .quiescent = (void *)watches_quiescent,
	       .exit_task = (void *)watches_exit_task,
	       .init = (void *)watches_init,
	       .name = "watches");
