/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The weighted average of the virtual times on a CPU, kept exactly while tasks come, go and run.
 *
 * A task's virtual time v passes by 1024 / weight of its CPU time. The average of all v_i with
 * weights w_i is where an ideal CPU that runs all tasks at once would be: who is behind it is owed
 * time, who is ahead has had too much. Summing it up anew at each decision costs a step for each
 * task, so a sum is kept. Of the v_i themselves it would overflow, so it is of their distances from
 * a time `zero` near them:
 *
 *	load   = sum of w_i
 *	moment = sum of (v_i - zero) x w_i
 *	V      = zero + moment / load
 *
 * A task that comes adds its term to both sums, one that goes takes it away, and one whose time
 * passes by d adds d x w. None of that divides, so none of it is rounded. Who asks for V divides
 * once; `zero` moves there, so that the moment is less than the load and the remainder is kept.
 * Whether a task is owed time needs no division at all: v <= V is moment >= (v - zero) x load.
 *
 * Source: Linux 6.12 kernel/sched/fair.c: avg_vruntime, avg_vruntime_add, avg_vruntime_sub,
 * vruntime_eligible; before that R. Zippel, "Really Fair Scheduler", linux-kernel, August 2007.
 */
#ifndef SCX_WEIGHTED_AVERAGE_BPF_H
#define SCX_WEIGHTED_AVERAGE_BPF_H

#include <scx/common.bpf.h>

struct average {
	u64 zero;   /* any time near the others, so that moment does not overflow */
	s64 moment; /* sum of (time - zero) x weight of the runnable tasks */
	u64 load;   /* sum of weight */
};

static void average_add(struct average *a, u64 time, u64 weight)
{
	a->moment += (s64)(time - a->zero) * (s64)weight;
	a->load += weight;
}

static void average_remove(struct average *a, u64 time, u64 weight)
{
	a->moment -= (s64)(time - a->zero) * (s64)weight;
	a->load -= weight;
}

/* The time of a task of that weight passes. */
static void average_advance(struct average *a, u64 passed, u64 weight)
{
	a->moment += (s64)passed * (s64)weight;
}

/* BPF divides unsigned numbers only. */
static s64 divided_down(s64 value, u64 over)
{
	if (value >= 0)
		return (s64)((u64)value / over);
	return -(s64)((-(u64)value + over - 1) / over);
}

/* V, rounded down; where the last one left it if there is no task. */
static u64 average_of(struct average *a)
{
	s64 shift = a->load ? divided_down(a->moment, a->load) : 0;

	a->zero += shift;
	a->moment -= shift * (s64)a->load;
	return a->zero;
}

/* Whether time <= V, without dividing: the task is owed CPU time. */
static inline bool is_eligible(const struct average *a, u64 time)
{
	return a->moment >= (s64)(time - a->zero) * (s64)a->load;
}

#endif /* SCX_WEIGHTED_AVERAGE_BPF_H */
