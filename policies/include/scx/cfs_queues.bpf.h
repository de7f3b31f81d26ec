/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* CFS's queues: tunables, what is known of a task and of a CPU, vruntime.
 *
 * A policy includes cfs_rules.bpf.h, which includes this. It holds all of CFS but the timeline, the
 * waiting tasks of each CPU in order of vruntime: that is what cfs.bpf.c, cfs_gavl.bpf.c and
 * timering.bpf.c differ in, and each defines the functions declared below for its own. What CPUs
 * know of each other's load is in tick_loads.bpf.h, and how they even it out in
 * queue_per_cpu.bpf.h.
 */
#ifndef SCX_CFS_QUEUES_BPF_H
#define SCX_CFS_QUEUES_BPF_H

#include <scx/tick_loads.bpf.h>
#include <scx/topology.bpf.h>
#include <scx/tunables.bpf.h>
#include <scx/weights.bpf.h>

/* Each task runs once in this time while few are runnable; ns, before scaling by CPUs. */
const volatile u64 latency_ns = 20 * NSEC_PER_MSEC;
/* With many runnable tasks the period grows by this for each; ns, before scaling by CPUs. */
const volatile u64 min_granularity_ns = 4 * NSEC_PER_MSEC;
/* A waking task preempts if it is further behind than this; ns, before scaling by CPUs. */
const volatile u64 wakeup_granularity_ns = 5 * NSEC_PER_MSEC;
/* The three above are scaled by 1 + log2 of the number of CPUs, counted up to this; 1 is off. */
const volatile u64 scale_cpus_max = 1024;
/* The first two are never scaled to more than this; ns. */
const volatile u64 latency_max_ns = 200 * NSEC_PER_MSEC;
/* 1: no slice is shorter than min_granularity_ns, as scaled; 0: only the weight decides. */
const volatile u64 slice_floor = 0;
/* Whose weight scales the wake-up granularity: 0 nobody's, 1 the running task's, 2 the waking's. */
const volatile u64 wakeup_weight = 2;
/* 1: shorten the wake-up granularity for tasks that soon wake others themselves. */
const volatile u64 adaptive_granularity = 1;
/* A task that slept starts up to one latency behind the others; 1: up to half of one. */
const volatile u64 gentle_sleepers = 0;
/* 1: a new task on its parent's CPU changes places with the parent if that is ahead. */
const volatile u64 child_runs_first = 1;
/* 1: a CPU that gets a new task always chooses again; 0: only if the new one preempts. */
const volatile u64 fork_reschedules = 0;
/* 1: a new task starts no earlier than its parent's vruntime. */
const volatile u64 fork_inherits = 0;
/* The task woken last is picked first unless it is too far ahead: 1, 2 if it preempts, 0 never. */
const volatile u64 next_buddy = 1;
/* Who ran at a wake-up is picked after the woken: 1 always, 2 if preempted among many, 0 never. */
const volatile u64 last_buddy = 1;
/* 1: a tick also ends a slice once the running task is a slice ahead of the first in the queue. */
const volatile u64 tick_compares = 0;
/* 1: sched_yield moves the task behind all others; 0: it keeps its place. */
const volatile u64 compat_yield = 0;
/* 1: who yields is passed over once, unless the next is more than a wake-up granularity ahead. */
const volatile u64 yield_skips = 0;
/* 0: a new task starts on its parent's CPU; 1: on the idlest CPU. */
const volatile u64 fork_balance = 1;
/* Load that fork compares: 0 now, 1 at the last tick, 2 and 3 averaged over ticks. */
const volatile u64 fork_load_index = 1;
/* Load that a wake-up compares, counted like fork_load_index. */
const volatile u64 wake_load_index = 1;
/* 1: a wake-up moves to the waker's CPU if that is less loaded than the task's last one. */
const volatile u64 wake_balance = 1;
/* 1: a wake-up always may move to a waker's CPU without load. */
const volatile u64 affine_if_free = 0;
/* A wake-up looks for an idle CPU that shares the cache: 1, 2 if its own runs one task, 0 never; 3:
 * for an idle core, or an idle thread of its own. */
const volatile u64 idle_sibling = 0;
/* 1: a CPU that runs out of tasks pulls one at once. */
const volatile u64 newidle = 0;
/* Not if it was idle for less than this on average when tasks woke up on it; ns. */
const volatile u64 newidle_idle_ns = 0;
/* An idle CPU tries to pull a task once in this time; ns, 0 is never. */
const volatile u64 idle_balance_ns = 4 * NSEC_PER_MSEC;
/* 1: an idle CPU does not try before it would have as a busy one (2.6.23 to 2.6.36); 0: it does. */
const volatile u64 idle_waits_as_busy = 0;
/* 1: the load of an idle CPU fades as with ticks, which the one that balances for the idle ones has
 * (up to 2.6.35) or which are counted afterwards; 0: it stays as at the last tick. */
const volatile u64 idle_loads_fade = 1;
/* Shortest interval between two balancing attempts of a busy CPU, before busy_factor; ns. */
const volatile u64 balance_min_ns = 1 * NSEC_PER_MSEC;
/* Longest interval between two balancing attempts of a busy CPU, before busy_factor; ns. */
const volatile u64 balance_max_ns = 4 * NSEC_PER_MSEC;
/* 1: these two intervals are for each CPU that there is. */
const volatile u64 balance_per_cpu = 0;
/* A busy CPU balances this many times less often than the interval says; 0 is never. */
const volatile u64 busy_factor = 64;
/* Load that a busy CPU balances by, counted like fork_load_index. */
const volatile u64 busy_load_index = 2;
/* Load that an idle CPU balances by, counted like fork_load_index. */
const volatile u64 idle_load_index = 1;
/* Load that a CPU that just became idle balances by, counted like fork_load_index. */
const volatile u64 newidle_load_index = 2;
/* Whether a task moves if that only swaps who is overloaded: 0 no (2.6.22), 1 yes (2.6.23), 2 once
 * attempts have failed, each of which halves its weight (6.1). */
const volatile u64 odd_task_moves = 1;
/* Balance only if the other CPU's load is this many percent of ours. */
const volatile u64 imbalance_percent = 125;
/* A task that ran less than this ago is cache-hot; ns. */
const volatile u64 migration_cost_ns = 500 * NSEC_PER_USEC;
/* Failed attempts after which the balancer takes cache-hot tasks too. */
const volatile u64 cache_nice_tries = 1;

#define IDLE_WEIGHT 3
#define VRUNTIME_START (1ULL << 40) /* away from 0, so that sleeper credit never wraps */
#define PULL_STEPS_MAX 32
#define FAILED_MAX 16 /* a weight shifted by more is 0 anyhow */

struct cfs_task {
	u64 vruntime; /* comparable within the queue of `cpu`; stale while the task runs */
	u64 weight;
	u64 ran_ns;         /* CPU time in all, up to when it last stopped running */
	u64 stopped_at_ns;  /* when that was */
	u64 woken_ran_ns;   /* ran_ns when it last woke up */
	u64 waking_ran_ns;  /* ran_ns when it last woke another task, if has_woken */
	s64 wakeup_ns_avg;  /* how long it runs before it wakes another task */
	s64 overlap_ns_avg; /* how long it runs on after that */
	u32 cpu;            /* whose queue's sums include it */
	u32 number;         /* of its node, where the policy keeps its timeline itself */
	bool is_runnable;
	bool is_new;
	bool is_put_back; /* neither new nor woken: its affinity or nice value was changed */
	bool has_woken;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cfs_task);
} tasks SEC(".maps");

/* One CPU. Its own operations change it; other CPUs only `base` and `load`, as these say. */
struct cfs_queue {
	struct cpu_queue base;
	struct load load;
	u64 min_vruntime;
	u64 left_vruntime; /* of the first waiting task, if has_left */
	bool has_left;
	bool skips;      /* the running task has yielded, and is passed over at the next pick */
	u64 idle_at_ns;  /* when it had no task, until one wakes up on it; 0 then */
	s64 idle_ns_avg; /* how long it was idle then, no more than twice the migration cost each */
	/* The running task, if is_busy. */
	bool is_busy;
	s32 pid;
	u32 policy;
	u64 vruntime;
	u64 weight;
	u64 charged_at_ns;
	u64 ran_ns;        /* since it was switched to */
	u64 picked_ran_ns; /* ran_ns when it was last picked */
	/* Tasks that are preferred at the next pick; 0 is none. */
	s32 next_pid;
	s32 last_pid;
	u64 pull_steps; /* that a pull may yet look at; here, as the verifier need not follow it */
};

static struct cfs_queue queues[CPUS_MAX];
static u64 scaled_latency_ns, scaled_granularity_ns, scaled_wakeup_ns, nr_latency;

static struct cfs_queue *queue_of(u32 cpu)
{
	return &queues[cpu & (CPUS_MAX - 1)];
}

static struct cpu_queue *cpu_queue_of(u32 cpu)
{
	return &queue_of(cpu)->base;
}

static struct load *load_of(u32 cpu)
{
	return &queue_of(cpu)->load;
}

static struct cfs_task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

/* ---- the timeline, defined by the policy ---------------------------------------------------- */

/* What a pick must know of the first waiting tasks of a CPU. */
struct first {
	s32 pid; /* of the first waiting task, 0 if there is none */
	u64 vruntime;
	u64 weight;
	u64 second_vruntime;
	bool has_second;
};

/* Makes the timeline of a CPU; 0 or an error. */
static s32 timeline_create(u32 cpu);
/* A task has come that may wait in timelines from now on; 0 or an error. */
static s32 timeline_meet(struct cfs_task *t, s32 pid);
/* Puts a task into the timeline of t->cpu, behind those of equal vruntime. */
static void timeline_add(struct task_struct *p, struct cfs_task *t, u64 enq_flags);
/* Fills in a `first` of zeros. */
static void timeline_look(u32 cpu, struct first *first);
/* Whether a task of `vruntime`, put back, would stand before the first one. */
static bool timeline_is_before(u32 cpu, u64 vruntime, u64 first_vruntime);
/* The vruntime of the last one; `otherwise` if nobody waits. */
static u64 timeline_last(u32 cpu, u64 otherwise);
/* Takes the first, or the one of that pid, to this CPU to run; whether there was one. */
static bool timeline_run_first(u32 cpu);
static bool timeline_run(u32 cpu, s32 pid);
/* Moves tasks that may_pull allows, of the first PULL_STEPS_MAX, while note_pulled wants more. */
static void timeline_pull(u32 from, u32 here, struct cfs_queue *q, u64 now);

/* ---- time: how vruntime passes ------------------------------------------------------------- */

static u64 period_ns(u64 nr_running)
{
	return nr_running <= nr_latency ? scaled_latency_ns : nr_running * scaled_granularity_ns;
}

/* The part of the period that a task of `weight` has among all weights `load`. */
static u64 slice_ns(u64 nr_running, u64 weight, u64 load)
{
	u64 ns = period_ns(nr_running) * weight / max(load, 1ULL);

	return slice_floor ? max(ns, scaled_granularity_ns) : ns;
}

/* min_vruntime follows the task that is furthest behind, and never goes back. */
static void advance_min_vruntime(struct cfs_queue *q)
{
	u64 lowest = q->vruntime;

	if (q->base.nr_running > 1 && q->has_left && vtime_before(q->left_vruntime, lowest))
		lowest = q->left_vruntime;
	if (vtime_before(q->min_vruntime, lowest))
		q->min_vruntime = lowest;
}

/* Brings the running task's vruntime up to date. */
static void charge(struct cfs_queue *q, u64 now)
{
	u64 ran_ns = since(q->charged_at_ns, now);

	if (!q->is_busy)
		return;
	q->charged_at_ns += ran_ns;
	q->ran_ns += ran_ns;
	q->vruntime += weighted(ran_ns, q->weight);
	advance_min_vruntime(q);
}

static void update_average(s64 *average, u64 sample)
{
	*average += ((s64)sample - *average) >> 3;
}

#endif /* SCX_CFS_QUEUES_BPF_H */
