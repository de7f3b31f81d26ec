/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What a policy does for waiting tasks when a CPU goes offline.
 *
 * The core moves what it finds in the run queue of that CPU; tasks in a dispatch queue of the
 * policy are the policy's. Once cpu_offline is called the CPU dispatches no more, so a queue that
 * only this CPU looks into must be emptied, and of a queue that all look into those must be taken
 * out that may run nowhere else: the core then allows them all CPUs.
 *
 * Who is given to the own queue of its CPU goes with that CPU's others: if the CPU is the one that
 * goes, the core finds the task another one, and enqueues it there.
 */
#ifndef SCX_HOTPLUG_BPF_H
#define SCX_HOTPLUG_BPF_H

#include <scx/common.bpf.h>

/* CPUs that were offline and still counted as idle that a search passes over at most. */
#define GONE_CPUS_PASSED_MAX 16

static inline bool cpu_is_online(u32 cpu)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	bool is_online = bpf_cpumask_test_cpu(cpu, online);

	scx_bpf_put_cpumask(online);
	return is_online;
}

/* Claims an idle CPU for a task; negative if there is none. A CPU that went counts as idle until it
 * is claimed once. */
static inline s32 pick_idle_online_cpu(struct task_struct *p)
{
	s32 cpu = -EBUSY;

	bpf_repeat(GONE_CPUS_PASSED_MAX) {
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (cpu < 0 || cpu_is_online((u32)cpu))
			break;
	}
	return cpu;
}

/* Gives all tasks of a queue to the core. */
static inline void give_back_all(u64 dsq)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL_ON | (u64)scx_bpf_task_cpu(p),
				 0);
	}
}

/* Whether a task may run on a CPU that is online when `gone` no more is. */
static inline bool may_run_without(struct task_struct *p, s32 gone)
{
	u32 cpu;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		if (cpu != (u32)gone && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) &&
		    cpu_is_online(cpu))
			return true;
	}
	return false;
}

/* Gives the core those tasks of a queue that have no CPU left when `gone` is. */
static inline void give_back_stranded(u64 dsq, s32 gone)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		if (!may_run_without(p, gone))
			scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p,
					 SCX_DSQ_LOCAL_ON | (u64)scx_bpf_task_cpu(p), 0);
	}
}

#endif /* SCX_HOTPLUG_BPF_H */
