/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* CFS's timeline for policies that keep it in a structure of their own, in arrays.
 *
 * Every task has a node for as long as the policy knows it. A waiting task's node is in the
 * structure of one CPU, under that CPU's lock; `dispatch` takes it out and gives the task to the
 * core by its pid. The policy defines the order_ functions below: they keep one CPU's nodes in
 * order of vruntime, and all but order_create are called with its lock held.
 *
 * The core may take a waiting task back at any time (`dequeue`: its affinity or nice value
 * changes), also while another CPU is moving or dispatching it. `place` says who may touch the
 * node. What `dispatch` then gives to the core in vain, the core drops, and asks again.
 */
#ifndef SCX_WAITING_TASKS_BPF_H
#define SCX_WAITING_TASKS_BPF_H

#include <scx/cfs_rules.bpf.h>

#define NODES_MAX 32768 /* a power of two */
#define NO_NODE 0
#define FIRST_NODE NODES_MAX

/* Where a node is: nowhere, on its way from one CPU to another, or in CPU n's structure, n + 1. */
#define PLACE_NONE 0
#define PLACE_MOVING (CPUS_MAX + 1)
#define TAKE_BACK_TRIES 4 /* a task that moves has another place each time */

struct waiting {
	u64 vruntime;
	u64 weight;
	u32 place;
	u32 next_free;
	s32 pid;
};

static struct waiting waiting_tasks[NODES_MAX];
static u32 nr_nodes_used = 1; /* node 0 is none */
static u32 first_free;

/* One CPU's nodes, and the numbers of nodes that are free, each under a lock of its own. */
struct timeline_lock {
	struct bpf_spin_lock lock;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS_MAX + 1);
	__type(key, u32);
	__type(value, struct timeline_lock);
} timeline_locks SEC(".maps");

#define FREE_NODES_LOCK CPUS_MAX

static s32 candidates[CPUS_MAX][PULL_STEPS_MAX];

/* ---- the order, defined by the policy ------------------------------------------------------ */

/* Makes the structure of a CPU; 0 or an error. */
static s32 order_create(u32 cpu);
/* Puts a node behind those of equal vruntime; false if the structure cannot hold it. */
static bool order_insert(u32 cpu, u32 n);
static void order_remove(u32 cpu, u32 n);
/* The first, the last and the next one; NO_NODE if there is none. */
static u32 order_first(u32 cpu);
static u32 order_last(u32 cpu);
static u32 order_next(u32 cpu, u32 n);

/* ---- nodes --------------------------------------------------------------------------------- */

static struct waiting *waiting_of(u32 n)
{
	return &waiting_tasks[masked(n, NODES_MAX)];
}

static struct timeline_lock *lock_of(u32 cpu)
{
	return bpf_map_lookup_elem(&timeline_locks, &cpu);
}

static s32 timeline_meet(struct cfs_task *t, s32 pid)
{
	struct timeline_lock *free_nodes = lock_of(FREE_NODES_LOCK);
	u32 n = NO_NODE;

	if (!free_nodes)
		return -ENOMEM;
	bpf_spin_lock(&free_nodes->lock);
	if (first_free) {
		n = first_free;
		first_free = waiting_of(n)->next_free;
	} else if (nr_nodes_used < NODES_MAX) {
		n = nr_nodes_used++;
	}
	bpf_spin_unlock(&free_nodes->lock);
	if (n == NO_NODE)
		return -ENOMEM;
	waiting_of(n)->pid = pid;
	t->number = n;
	return 0;
}

/* ---- changing a CPU's structure ------------------------------------------------------------- */

/* These two are not static: a kernel's verifier then goes through them once, for any arguments, and
 * not from every call for what is known there, which for a tree was most of all that it did. */

/* Takes a node, or FIRST_NODE, out of this CPU's structure; its pid, 0 if it was not in it, as
 * NO_NODE never is. */
__noinline s32 take_out(u32 cpu, u32 n, u32 to_place)
{
	struct timeline_lock *line = lock_of(cpu);
	s32 pid = 0;

	if (!line)
		return 0;
	bpf_spin_lock(&line->lock);
	if (n == FIRST_NODE)
		n = order_first(cpu);
	if (waiting_of(n)->place == cpu + 1) {
		order_remove(cpu, n);
		waiting_of(n)->place = to_place;
		pid = waiting_of(n)->pid;
	}
	bpf_spin_unlock(&line->lock);
	return pid;
}

/* Puts a node that is at `from_place` into this CPU's structure, unless it is there no more; false
 * if the structure cannot hold it. */
__noinline bool put_node_in(u32 cpu, u32 n, u32 from_place, u64 vruntime, u64 weight)
{
	struct timeline_lock *line = lock_of(cpu);
	struct waiting *node = waiting_of(n);
	bool has_place = true;

	if (!line)
		return false;
	bpf_spin_lock(&line->lock);
	if (__sync_val_compare_and_swap(&node->place, from_place, cpu + 1) == from_place) {
		node->vruntime = vruntime;
		node->weight = weight;
		has_place = order_insert(cpu, n);
	}
	bpf_spin_unlock(&line->lock);
	return has_place;
}

/* ---- where a task waits --------------------------------------------------------------------- */

/* Puts a task that is at `from_place` into this CPU's structure, unless it is there no more. */
static void put_in(u32 cpu, const struct cfs_task *t, u32 from_place)
{
	if (!put_node_in(cpu, t->number, from_place, t->vruntime, t->weight))
		scx_bpf_error("the timeline of CPU %u has no place for %d", cpu,
			      waiting_of(t->number)->pid);
}

/* Wherever a task waits, from now on it does not. */
static void take_back(u32 n)
{
	struct waiting *node = waiting_of(n);
	u32 place;

	bpf_repeat(TAKE_BACK_TRIES) {
		place = node->place;
		if (place == PLACE_NONE)
			break;
		if (place == PLACE_MOVING)
			__sync_val_compare_and_swap(&node->place, PLACE_MOVING, PLACE_NONE);
		else
			take_out(place - 1, n, PLACE_NONE);
	}
}

/* ---- operations of the timeline's own ------------------------------------------------------ */

void BPF_STRUCT_OPS(waiting_dequeue, struct task_struct *p, u64 deq_flags)
{
	struct cfs_task *t = task_of(p);

	if (t)
		take_back(t->number);
}

void BPF_STRUCT_OPS(waiting_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct timeline_lock *free_nodes = lock_of(FREE_NODES_LOCK);
	struct cfs_task *t = task_of(p);

	if (!t || !t->number || !free_nodes)
		return;
	take_back(t->number);
	bpf_spin_lock(&free_nodes->lock);
	waiting_of(t->number)->next_free = first_free;
	first_free = t->number;
	bpf_spin_unlock(&free_nodes->lock);
	t->number = NO_NODE;
}

#define WAITING_TASKS_OPS                                                                          \
	CFS_OPS, .dequeue = (void *)waiting_dequeue, .exit_task = (void *)waiting_exit_task

/* ---- what CFS's rules ask of a timeline ---------------------------------------------------- */

static s32 timeline_create(u32 cpu)
{
	return order_create(cpu);
}

static void timeline_add(struct task_struct *p, struct cfs_task *t, u64 enq_flags)
{
	take_back(t->number);
	put_in(t->cpu, t, PLACE_NONE);
}

static void timeline_look(u32 cpu, struct first *first)
{
	struct timeline_lock *line = lock_of(cpu);
	u32 n, second;

	if (!line)
		return;
	bpf_spin_lock(&line->lock);
	n = order_first(cpu);
	if (n) {
		first->pid = waiting_of(n)->pid;
		first->vruntime = waiting_of(n)->vruntime;
		first->weight = waiting_of(n)->weight;
		second = order_next(cpu, n);
		first->has_second = second;
		first->second_vruntime = waiting_of(second)->vruntime;
	}
	bpf_spin_unlock(&line->lock);
}

static u64 timeline_last(u32 cpu, u64 otherwise)
{
	struct timeline_lock *line = lock_of(cpu);
	u64 vruntime = otherwise;
	u32 n;

	if (!line)
		return vruntime;
	bpf_spin_lock(&line->lock);
	n = order_last(cpu);
	if (n)
		vruntime = waiting_of(n)->vruntime;
	bpf_spin_unlock(&line->lock);
	return vruntime;
}

/* Gives a task that was taken out to this CPU; whether it could. */
static bool run_here(u32 cpu, struct task_struct *p)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_INF, 0);
	/* Asked last: of a task whose affinity changes after the insertion the core drops it. */
	if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return true;
	scx_bpf_dispatch_cancel();
	return false;
}

static bool timeline_run_first(u32 cpu)
{
	s32 pid = take_out(cpu, FIRST_NODE, PLACE_NONE);
	struct task_struct *p = pid ? bpf_task_from_pid(pid) : NULL;
	bool runs = false;

	if (p) {
		runs = run_here(cpu, p);
		bpf_task_release(p);
	}
	return runs;
}

static bool timeline_run(u32 cpu, s32 pid)
{
	struct task_struct *p = bpf_task_from_pid(pid);
	struct cfs_task *t;
	bool runs;

	if (!p)
		return false;
	t = task_of(p);
	runs = t && take_out(cpu, t->number, PLACE_NONE) && run_here(cpu, p);
	bpf_task_release(p);
	return runs;
}

/* The pids of the first waiting tasks of `from`, into the candidates of `here`; how many. */
static u32 list_candidates(u32 from, u32 here)
{
	struct timeline_lock *line = lock_of(from);
	s32 *pids = candidates[masked(here, CPUS_MAX)];
	u32 n, i, nr = 0;

	if (!line)
		return 0;
	bpf_spin_lock(&line->lock);
	n = order_first(from);
	bpf_for(i, 0, PULL_STEPS_MAX) {
		if (!n)
			break;
		pids[masked(i, PULL_STEPS_MAX)] = waiting_of(n)->pid;
		n = order_next(from, n);
		nr = i + 1;
	}
	bpf_spin_unlock(&line->lock);
	return nr;
}

/* Moves one task if the rules allow it; whether the next one is to be looked at. */
static bool pull_one(u32 from, u32 here, struct cfs_queue *q, s32 pid, u64 now)
{
	struct task_struct *p = bpf_task_from_pid(pid);
	struct cfs_task *t;
	bool wants_more = true;

	if (!p)
		return true;
	t = task_of(p);
	if (t && t->cpu == from && may_pull(p, t, here, now) &&
	    take_out(from, t->number, PLACE_MOVING)) {
		wants_more = note_pulled(q, p, t, here);
		put_in(here, t, PLACE_MOVING);
	}
	bpf_task_release(p);
	return wants_more;
}

static void timeline_pull(u32 from, u32 here, struct cfs_queue *q, u64 now)
{
	u32 i, nr = list_candidates(from, here);

	bpf_for(i, 0, PULL_STEPS_MAX) {
		if (i >= nr ||
		    !pull_one(from, here, q,
			      candidates[masked(here, CPUS_MAX)][masked(i, PULL_STEPS_MAX)], now))
			break;
	}
}

#endif /* SCX_WAITING_TASKS_BPF_H */
