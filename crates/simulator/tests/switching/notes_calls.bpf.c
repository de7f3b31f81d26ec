/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* notes_calls - writes down the operations of the one task there is, a letter each, and ends the
 * run with them when the task has ended. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define CALLS_MAX 64

static char calls[CALLS_MAX];
static u32 nr_calls;

static void note(char call)
{
	if (nr_calls < CALLS_MAX - 1)
		calls[nr_calls++] = call;
}

void BPF_STRUCT_OPS(notes_calls_enqueue, struct task_struct *p, u64 enq_flags)
{
	note('e');
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(notes_calls_runnable, struct task_struct *p, u64 enq_flags)
{
	bool is_selected = enq_flags & SCX_ENQ_CPU_SELECTED;

	if (enq_flags & SCX_ENQ_WAKEUP)
		note(is_selected ? 'C' : 'W');
	else
		note(is_selected ? 'c' : 'r');
}

void BPF_STRUCT_OPS(notes_calls_running, struct task_struct *p)
{
	note('+');
}

void BPF_STRUCT_OPS(notes_calls_stopping, struct task_struct *p, bool runnable)
{
	note(runnable ? '~' : '-');
}

void BPF_STRUCT_OPS(notes_calls_quiescent, struct task_struct *p, u64 deq_flags)
{
	note(deq_flags & SCX_DEQ_SLEEP ? 'S' : 'q');
}

void BPF_STRUCT_OPS(notes_calls_set_weight, struct task_struct *p, u32 weight)
{
	note(p->scx.flags & SCX_TASK_QUEUED ? '?' : 'w');
}

s32 BPF_STRUCT_OPS(notes_calls_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void BPF_STRUCT_OPS(notes_calls_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	const char *text = calls;

	/* A constant address would stand in .rodata, where a kernel's loader puts none. */
	asm volatile("" : "+r"(text));
	scx_bpf_exit(0, "%s", text);
}

SCX_OPS_DEFINE(notes_calls_ops,
	       .select_cpu = (void *)notes_calls_select_cpu,
	       .enqueue = (void *)notes_calls_enqueue,
	       .runnable = (void *)notes_calls_runnable,
	       .running = (void *)notes_calls_running,
	       .stopping = (void *)notes_calls_stopping,
	       .quiescent = (void *)notes_calls_quiescent,
	       .set_weight = (void *)notes_calls_set_weight,
	       .exit_task = (void *)notes_calls_exit_task,
	       .name = "notes_calls");
