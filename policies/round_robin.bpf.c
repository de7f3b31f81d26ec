/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* round_robin - every runnable task gets slice_ns in turn.
 *
 * An idle CPU takes a waking task at once; otherwise the task joins one queue
 * shared by all CPUs and waits at most ceil(nr_runnable / nr_cpus) slices.
 * A slice ends at the first timer tick that finds it used up, so count it in whole ticks.
 * Weights are ignored: cfs is a policy that honours them.
 *
 * Source: L. Kleinrock, "Analysis of a time-shared processor", 1964.
 */
#include <scx/common.bpf.h>
#include <scx/hotplug.bpf.h>
#include <scx/tunables.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Nanoseconds a task runs before it goes behind the others that wait. */
const volatile u64 slice_ns = 3 * NSEC_PER_MSEC;

/* SCX_DSQ_GLOBAL is one queue per NUMA node; turns are taken across nodes. */
#define SHARED_DSQ 0

/* Where should this waking task run? An idle CPU takes it without any queue. */
s32 BPF_STRUCT_OPS(round_robin_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle && cpu_is_online((u32)cpu))
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}

/* This task is runnable and has no CPU: it goes to the end of the queue. */
void BPF_STRUCT_OPS(round_robin_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags);

	/* A CPU may have gone idle since select_cpu looked; queueing wakes nobody. */
	cpu = pick_idle_online_cpu(p);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* This CPU has nothing to run, or prev has used its slice: take the head of the queue. */
void BPF_STRUCT_OPS(round_robin_dispatch, s32 cpu, struct task_struct *prev)
{
	/* With nobody waiting prev takes another turn. The default slice is far longer. */
	if (!scx_bpf_dsq_move_to_local(SHARED_DSQ) && prev)
		prev->scx.slice = slice_ns;
}

/* The others find in the queue what this CPU leaves. */
void BPF_STRUCT_OPS(round_robin_cpu_offline, s32 cpu)
{
	give_back_stranded(SHARED_DSQ, cpu);
}

/* It looks into the queue as soon as it can. Without this operation the kernel ends the policy. */
void BPF_STRUCT_OPS(round_robin_cpu_online, s32 cpu)
{
}

s32 BPF_STRUCT_OPS_SLEEPABLE(round_robin_init)
{
	if (!tunable_is_within(slice_ns, 1, SCX_SLICE_INF))
		return -EINVAL;
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

void BPF_STRUCT_OPS(round_robin_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(round_robin_ops,
	       .select_cpu = (void *)round_robin_select_cpu,
	       .enqueue = (void *)round_robin_enqueue,
	       .dispatch = (void *)round_robin_dispatch,
	       .cpu_online = (void *)round_robin_cpu_online,
	       .cpu_offline = (void *)round_robin_cpu_offline,
	       .init = (void *)round_robin_init,
	       .exit = (void *)round_robin_exit,
	       .name = "round_robin");
