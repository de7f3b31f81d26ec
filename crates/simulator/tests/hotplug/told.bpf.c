/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* told - a queue for each CPU, and a line for each operation; it hears of CPUs that come and go. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

/* 1: a CPU that goes gets the tasks of its queue, so that the core moves them; 0: they stay. */
const volatile u64 drains = 1;
/* 1: the policy keeps a task that waits to itself, one for each CPU. */
const volatile u64 holds = 0;
/* A CPU to whose own queue every task is given, or -1. */
const volatile s64 aims_at = -1;
/* A CPU that is kicked whenever a task is enqueued, or -1. */
const volatile s64 kicks = -1;

#define CPUS_MAX 8

static s32 held[CPUS_MAX];

static s32 *held_by(s32 cpu)
{
	return &held[(u32)cpu & (CPUS_MAX - 1)];
}

s32 BPF_STRUCT_OPS(told_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return (s32)((u32)p->pid % scx_bpf_nr_cpu_ids());
}

void BPF_STRUCT_OPS(told_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);

	bpf_printk("enqueue %s %llu on %d", p->comm, enq_flags, cpu);
	if (kicks >= 0)
		scx_bpf_kick_cpu((s32)kicks, SCX_KICK_PREEMPT);
	if (aims_at >= 0)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | (u64)aims_at, SCX_SLICE_DFL, 0);
	else if (holds)
		*held_by(cpu) = p->pid;
	else
		scx_bpf_dsq_insert(p, (u64)cpu, SCX_SLICE_DFL, 0);
}

void BPF_STRUCT_OPS(told_dequeue, struct task_struct *p, u64 deq_flags)
{
	bpf_printk("dequeue %s %u", p->comm, (u32)deq_flags);
	if (*held_by(scx_bpf_task_cpu(p)) == p->pid)
		*held_by(scx_bpf_task_cpu(p)) = 0;
}

void BPF_STRUCT_OPS(told_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *p;

	if (!holds) {
		scx_bpf_dsq_move_to_local((u64)cpu);
		return;
	}
	p = *held_by(cpu) ? bpf_task_from_pid(*held_by(cpu)) : NULL;
	*held_by(cpu) = 0;
	if (p) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
		bpf_task_release(p);
	}
}

void BPF_STRUCT_OPS(told_runnable, struct task_struct *p, u64 enq_flags)
{
	bpf_printk("runnable %s %llu", p->comm, enq_flags);
}

void BPF_STRUCT_OPS(told_running, struct task_struct *p)
{
	bpf_printk("running %s on %d", p->comm, scx_bpf_task_cpu(p));
}

void BPF_STRUCT_OPS(told_stopping, struct task_struct *p, bool runnable)
{
	bpf_printk("stopping %s %d", p->comm, runnable);
}

void BPF_STRUCT_OPS(told_quiescent, struct task_struct *p, u64 deq_flags)
{
	bpf_printk("quiescent %s %u", p->comm, (u32)deq_flags);
}

void BPF_STRUCT_OPS(told_set_cpumask, struct task_struct *p, const struct cpumask *cpumask)
{
	bpf_printk("set_cpumask %s %d%d", p->comm, bpf_cpumask_test_cpu(0, cpumask),
		   bpf_cpumask_test_cpu(1, cpumask));
}

static void tell(const char *what, s32 cpu)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();

	bpf_printk("%s %d, online %d%d", what, cpu, bpf_cpumask_test_cpu(0, online),
		   bpf_cpumask_test_cpu(1, online));
	scx_bpf_put_cpumask(online);
}

void BPF_STRUCT_OPS(told_cpu_online, s32 cpu)
{
	tell("cpu_online", cpu);
}

void BPF_STRUCT_OPS(told_cpu_offline, s32 cpu)
{
	struct task_struct *p;

	tell("cpu_offline", cpu);
	if (!drains)
		return;
	bpf_for_each(scx_dsq, p, (u64)cpu, 0) {
		scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL_ON | (u64)cpu, 0);
	}
}

s32 BPF_STRUCT_OPS_SLEEPABLE(told_init)
{
	u32 cpu;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		s32 error = scx_bpf_create_dsq(cpu, -1);

		if (error)
			return error;
	}
	return 0;
}

SCX_OPS_DEFINE(told_ops,
	       .select_cpu = (void *)told_select_cpu,
	       .enqueue = (void *)told_enqueue,
	       .dequeue = (void *)told_dequeue,
	       .dispatch = (void *)told_dispatch,
	       .runnable = (void *)told_runnable,
	       .running = (void *)told_running,
	       .stopping = (void *)told_stopping,
	       .quiescent = (void *)told_quiescent,
	       .set_cpumask = (void *)told_set_cpumask,
	       .cpu_online = (void *)told_cpu_online,
	       .cpu_offline = (void *)told_cpu_offline,
	       .init = (void *)told_init,
	       .name = "told");
