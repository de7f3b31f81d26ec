/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* cfs - the runnable task that has had the least CPU time for its weight runs next.
 *
 * Each CPU has a queue in order of vruntime: CPU time x 1024 / weight. The first task runs for
 * period x its weight / all weights; one that wakes up at least wakeup_granularity_ns behind
 * the running task preempts it. A wake-up or a fork chooses a CPU by load; after that only the
 * load balancer moves tasks. The defaults are Linux 2.6.31, but for idle_waits_as_busy;
 * cfs.sets.toml has the values of releases from 2.6.24 to 6.1, and says of each what it lacks.
 *
 * All rules and tunables are in scx/cfs_rules.bpf.h and the headers that it names, since other
 * policies keep CFS's waiting tasks in other structures. Here each CPU's are a dispatch queue.
 *
 * Guarantee: on one CPU shares are proportional to weights, and a waiting task runs within
 * max(latency, nr_running x min_granularity) plus a tick. Across CPUs: only what balancing does.
 *
 * Ignored or approximated:
 *  1. Groups, autogroups, and wake-up statistics of interrupts (a timer that wakes a task counts
 *     as the task it interrupted).
 *  2. Scheduling domains: all CPUs are one domain of one-CPU groups, with the constants of 2.6.31's
 *     MC and CPU domains. No exec balancing (sched_ext has no hook for it), no power saving, no
 *     active balancing, no CPU power in the small-imbalance rule.
 *  3. A running CPU's tick balances for it and, in place of the idle load balancer, wakes the idle
 *     CPUs whose turn has come. Tasks change queues in dispatch, where sched_ext allows it.
 *  4. The balancer takes waiting tasks in order of vruntime; 2.6.31 takes the newest first.
 *  5. The leftmost vruntime is exact at each pick; it may lag after the balancer took a task.
 *
 * Source: Linux 2.6.24, 2.6.31 and 2.6.32 kernel/sched.c, kernel/sched_fair.c,
 * include/linux/topology.h; Linux 3.6 and 6.1 kernel/sched/fair.c; cfs.sets.toml says more;
 * I. Molnar, "Modular Scheduler Core and Completely Fair Scheduler", 2007.
 */
#include <scx/cfs_rules.bpf.h>

char _license[] SEC("license") = "GPL";

static s32 timeline_create(u32 cpu)
{
	return scx_bpf_create_dsq(cpu, -1);
}

static s32 timeline_meet(struct cfs_task *t, s32 pid)
{
	return 0;
}

static void timeline_add(struct task_struct *p, struct cfs_task *t, u64 enq_flags)
{
	scx_bpf_dsq_insert_vtime(p, t->cpu, SCX_SLICE_INF, t->vruntime, enq_flags);
}

static void timeline_look(u32 cpu, struct first *first)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, cpu, 0) {
		struct cfs_task *t = task_of(p);

		if (first->pid) {
			first->second_vruntime = p->scx.dsq_vtime;
			first->has_second = true;
			break;
		}
		first->pid = p->pid;
		first->vruntime = p->scx.dsq_vtime;
		first->weight = t ? t->weight : NICE_0_WEIGHT;
	}
}

static bool timeline_is_before(u32 cpu, u64 vruntime, u64 first_vruntime)
{
	return vtime_before(vruntime, first_vruntime);
}

static u64 timeline_last(u32 cpu, u64 otherwise)
{
	u64 vruntime = otherwise;
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, cpu, SCX_DSQ_ITER_REV) {
		vruntime = p->scx.dsq_vtime;
		break;
	}
	return vruntime;
}

static bool timeline_run_first(u32 cpu)
{
	return scx_bpf_dsq_move_to_local(cpu);
}

static bool timeline_run(u32 cpu, s32 pid)
{
	struct task_struct *p, *found;
	bool moved = false;

	bpf_for_each(scx_dsq, p, cpu, 0) {
		found = bpf_task_from_pid(pid);
		if (found) {
			moved = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, found, SCX_DSQ_LOCAL, 0);
			bpf_task_release(found);
		}
		break;
	}
	return moved;
}

static void timeline_pull(u32 from, u32 here, struct cfs_queue *q, u64 now)
{
	struct task_struct *p;

	q->pull_steps = PULL_STEPS_MAX;
	bpf_for_each(scx_dsq, p, from, 0) {
		struct cfs_task *t = task_of(p);

		if (!q->pull_steps--)
			break;
		if (!t || t->cpu != from || !may_pull(p, t, here, now))
			continue;
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, vruntime_on(t, here));
		if (!scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, here, 0))
			continue;
		if (!note_pulled(q, p, t, here))
			break;
	}
}

/* The core takes the tasks of this CPU's queue to other CPUs, as migrate_dead_tasks did. */
void BPF_STRUCT_OPS(cfs_cpu_offline, s32 cpu)
{
	give_back_all((u64)cpu);
}

/* It balances as soon as it can. Without this operation the kernel ends the policy. */
void BPF_STRUCT_OPS(cfs_cpu_online, s32 cpu)
{
}

SCX_OPS_DEFINE(cfs_ops, CFS_OPS, .cpu_online = (void *)cfs_cpu_online,
	       .cpu_offline = (void *)cfs_cpu_offline, .name = "cfs");
