/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* fifo - first come, first served: a task runs until it sleeps, yields or exits.
 *
 * An idle CPU takes a waking task at once; otherwise the task joins one queue shared by all
 * CPUs, and the CPU that is free first takes the head. Guarantees that tasks start in the order
 * in which they became runnable, and that no CPU idles while a task it may run is waiting.
 *
 * Ignores weights, deadlines and waiting time: nothing bounds how long a task waits for others
 * that do not sleep. A kernel ends a policy whose task waits longer than its watchdog allows.
 *
 * Source: the textbook baseline; SCHED_FIFO of POSIX 1003.1 with a single priority.
 */
#include <scx/common.bpf.h>
#include <scx/hotplug.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* SCX_DSQ_GLOBAL is one queue per NUMA node; first come, first served across nodes. */
#define SHARED_DSQ 0

s32 BPF_STRUCT_OPS(fifo_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle && cpu_is_online((u32)cpu))
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_INF, 0);
	return cpu;
}

void BPF_STRUCT_OPS(fifo_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	scx_bpf_dsq_insert(p, SHARED_DSQ, SCX_SLICE_INF, enq_flags);

	/* A CPU may have gone idle since select_cpu looked; queueing wakes nobody. */
	cpu = pick_idle_online_cpu(p);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(fifo_dispatch, s32 cpu, struct task_struct *prev)
{
	/* With nobody waiting a task that yielded goes on, and is not to be stopped later. */
	if (!scx_bpf_dsq_move_to_local(SHARED_DSQ) && prev)
		prev->scx.slice = SCX_SLICE_INF;
}

/* The others find in the queue what this CPU leaves. */
void BPF_STRUCT_OPS(fifo_cpu_offline, s32 cpu)
{
	give_back_stranded(SHARED_DSQ, cpu);
}

/* It looks into the queue as soon as it can. Without this operation the kernel ends the policy. */
void BPF_STRUCT_OPS(fifo_cpu_online, s32 cpu)
{
}

s32 BPF_STRUCT_OPS_SLEEPABLE(fifo_init)
{
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

void BPF_STRUCT_OPS(fifo_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(fifo_ops,
	       .select_cpu = (void *)fifo_select_cpu,
	       .enqueue = (void *)fifo_enqueue,
	       .dispatch = (void *)fifo_dispatch,
	       .cpu_online = (void *)fifo_cpu_online,
	       .cpu_offline = (void *)fifo_cpu_offline,
	       .init = (void *)fifo_init,
	       .exit = (void *)fifo_exit,
	       .name = "fifo");
