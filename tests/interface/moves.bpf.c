/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* moves - every CPU takes the oldest task, and a policy that is told of groups which change.
 *
 * moves.toml says what changes, and when. What a kernel must hold to is asked whenever an
 * operation is called; that all has been told is asked when the last task goes to the group
 * whose weight is LAST. An answer that is not a kernel's ends the policy by its line.
 */
#include <scx/cgroups.bpf.h>

#include "expect.bpf.h"

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0
#define ROOT_ID 1

/* Source: Linux, kernel/sched/sched.h. */
#define DEQUEUE_MOVE 4

/* Weights of groups, by which operations know them in every kernel. */
enum { LATER_WEIGHT = 71, PICKY_WEIGHT = 80, LAST_WEIGHT = 90 };

/* What must have been told when the last task moves. */
enum {
	SAW_WEIGHT = 1 << 0,
	SAW_MAX = 1 << 1,
	SAW_BURST = 1 << 2,
	SAW_IDLE = 1 << 3,
	SAW_ROOT = 1 << 4,
	SAW_CANCEL = 1 << 5,
	SAW_RUNNING = 1 << 6,
	SAW_ASLEEP = 1 << 7,
	SAW_REFUSED = 1 << 8,
	SAW_LEAVING = 1 << 9,
	SAW_ALL = (1 << 10) - 1,
};

struct group {
	u64 weight, period_us, quota_us, burst_us;
	bool idle;
};

/* What a task waits for: a move to the group of this number. */
struct moving {
	u64 from, to;
	bool is_queued;
};

struct {
	__uint(type, BPF_MAP_TYPE_CGRP_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct group);
} groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct moving);
} tasks SEC(".maps");

static u64 saw, nr_picky;

static void see(u64 what)
{
	__sync_fetch_and_or(&saw, what);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(moves_init)
{
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(moves_cgroup_init, struct cgroup *cgrp,
			     struct scx_cgroup_init_args *args)
{
	struct group *group =
		bpf_cgrp_storage_get(&groups, cgrp, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!group)
		return -ENOMEM;
	group->weight = args->weight;
	group->period_us = args->bw_period_us;
	group->quota_us = args->bw_quota_us;
	group->burst_us = args->bw_burst_us;
	return 0;
}

void BPF_STRUCT_OPS(moves_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	struct group *group = bpf_cgrp_storage_get(&groups, cgrp, NULL, 0);

	must(group && group->weight != weight);
	if (!group)
		return;
	if (weight == LATER_WEIGHT) {
		must(!group->idle);
		see(SAW_WEIGHT);
	}
	group->weight = weight;
}

void BPF_STRUCT_OPS(moves_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us,
		    u64 burst_us)
{
	struct group *group = bpf_cgrp_storage_get(&groups, cgrp, NULL, 0);

	must(group);
	if (!group)
		return;
	must(group->period_us != period_us || group->quota_us != quota_us ||
	     group->burst_us != burst_us);
	if (group->weight == LATER_WEIGHT && quota_us == 20000 && period_us == 50000) {
		/* Two files are written, and each is told. */
		see(burst_us == 5000 ? SAW_BURST : SAW_MAX);
		must(burst_us == 5000 || burst_us == 0);
	}
	group->period_us = period_us;
	group->quota_us = quota_us;
	group->burst_us = burst_us;
}

void BPF_STRUCT_OPS(moves_cgroup_set_idle, struct cgroup *cgrp, bool idle)
{
	struct group *group = bpf_cgrp_storage_get(&groups, cgrp, NULL, 0);

	must(group && group->idle != idle);
	if (!group)
		return;
	group->idle = idle;
	if (group->weight == LATER_WEIGHT)
		see(SAW_IDLE);
}

s32 BPF_STRUCT_OPS(moves_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -ENOMEM;
}

s32 BPF_STRUCT_OPS(moves_cgroup_prep_move, struct task_struct *p, struct cgroup *from,
		   struct cgroup *to)
{
	struct group *group = bpf_cgrp_storage_get(&groups, to, NULL, 0);
	struct moving *moving = bpf_task_storage_get(&tasks, p, NULL, 0);

	must(group && moving && !moving->to && from->kn->id != to->kn->id);
	must(p->cgroups->dfl_cgrp->kn->id == from->kn->id);
	if (!group || !moving)
		return -ENOMEM;
	if (group->weight == LAST_WEIGHT) {
		must(saw == SAW_ALL);
		return -EPERM;
	}
	/* Of two threads that go together, the second is refused. */
	if (group->weight == PICKY_WEIGHT && nr_picky++) {
		see(SAW_REFUSED);
		return -EPERM;
	}
	moving->from = from->kn->id;
	moving->to = to->kn->id;
	return 0;
}

void BPF_STRUCT_OPS(moves_cgroup_cancel_move, struct task_struct *p, struct cgroup *from,
		    struct cgroup *to)
{
	struct moving *moving = bpf_task_storage_get(&tasks, p, NULL, 0);

	must(moving && moving->to == to->kn->id);
	must(p->cgroups->dfl_cgrp->kn->id == from->kn->id);
	if (moving)
		moving->to = 0;
	see(SAW_CANCEL);
}

void BPF_STRUCT_OPS(moves_cgroup_move, struct task_struct *p, struct cgroup *from,
		    struct cgroup *to)
{
	struct moving *moving = bpf_task_storage_get(&tasks, p, NULL, 0);
	struct cgroup *now = scx_bpf_task_cgroup(p);

	must(moving && moving->to == to->kn->id && from->kn->id != to->kn->id);
	must(now->kn->id == to->kn->id && p->cgroups->dfl_cgrp->kn->id == to->kn->id);
	bpf_cgroup_release(now);
	if (to->kn->id == ROOT_ID)
		see(SAW_ROOT);
	if (moving) {
		/* Whoever is runnable has left the queues for as long as it moves. */
		must(!moving->is_queued);
		moving->to = 0;
		see(p->__state ? SAW_ASLEEP : SAW_RUNNING);
	}
}

void BPF_STRUCT_OPS(moves_runnable, struct task_struct *p, u64 enq_flags)
{
	struct moving *moving = bpf_task_storage_get(&tasks, p, NULL, 0);

	if (moving)
		moving->is_queued = true;
}

void BPF_STRUCT_OPS(moves_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct moving *moving = bpf_task_storage_get(&tasks, p, NULL, 0);

	if (!moving)
		return;
	moving->is_queued = false;
	if (moving->to && deq_flags & DEQUEUE_MOVE) {
		/* It is among the tasks of one, and counts for the other until it has moved. */
		struct cgroup *now = scx_bpf_task_cgroup(p);

		must(p->cgroups->dfl_cgrp->kn->id == moving->to);
		must(now->kn->id == moving->from);
		bpf_cgroup_release(now);
		see(SAW_LEAVING);
	}
}

void BPF_STRUCT_OPS(moves_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct cgroup *cgrp = scx_bpf_task_cgroup(p);
	struct group *group = bpf_cgrp_storage_get(&groups, cgrp, NULL, 0);

	/* Nobody gets where the policy does not let them. */
	must(group && group->weight != PICKY_WEIGHT && group->weight != LAST_WEIGHT);
	bpf_cgroup_release(cgrp);
	scx_bpf_dsq_insert(p, SHARED_DSQ, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(moves_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

SCX_OPS_DEFINE(moves_ops, .init = (void *)moves_init, .init_task = (void *)moves_init_task,
	       .cgroup_init = (void *)moves_cgroup_init,
	       .cgroup_prep_move = (void *)moves_cgroup_prep_move,
	       .cgroup_move = (void *)moves_cgroup_move,
	       .cgroup_cancel_move = (void *)moves_cgroup_cancel_move,
	       .cgroup_set_weight = (void *)moves_cgroup_set_weight,
	       .cgroup_set_bandwidth = (void *)moves_cgroup_set_bandwidth,
	       .cgroup_set_idle = (void *)moves_cgroup_set_idle,
	       .runnable = (void *)moves_runnable, .quiescent = (void *)moves_quiescent,
	       .enqueue = (void *)moves_enqueue, .dispatch = (void *)moves_dispatch,
	       .name = "moves");
