/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* cgroups - groups of tasks share the CPUs by their weights; and what calls on groups answer.
 *
 * All tasks wait in one queue, each at the virtual time that its group had when it came: CPU time
 * of the group by its weight, so that groups which are always busy get shares by their weights.
 * Groups of groups are not told apart.
 *
 * Operations ask what a kernel says of groups, and end the policy by an error that names the line
 * of the first answer that is not a kernel's. So a kernel that keeps it has judged the test, too.
 */
#include <scx/cgroups.bpf.h>

#include "expect.bpf.h"

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0
#define SLICE_NS (4 * NSEC_PER_MSEC)
#define NO_GROUP 0x7fffffffffffULL

struct group {
	u64 vtime;
	u64 weight;
	u64 tasks;
};

struct {
	__uint(type, BPF_MAP_TYPE_CGRP_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct group);
} groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGRP_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} asked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} ran SEC(".maps");

/* The latest virtual time that a task ran at. */
static u64 vtime_now;

/* What walks count: where the verifier knows no values, so that it follows a round once. */
static int nr_down, nr_back, nr_up, nr_none, last_level;

static __noinline void ask_of_levels(struct cgroup *root)
{
	struct cgroup *found = bpf_cgroup_ancestor(root, 0);

	must(found && found->kn->id == 1 && found->level == 0 && !found->self.parent);
	if (found)
		bpf_cgroup_release(found);
	found = bpf_cgroup_ancestor(root, 1);
	must(!found);
	if (found)
		bpf_cgroup_release(found);
	found = bpf_cgroup_ancestor(root, -1);
	must(!found);
	if (found)
		bpf_cgroup_release(found);
	found = bpf_cgroup_acquire(root);
	must(found && found->kn->id == 1);
	if (found)
		bpf_cgroup_release(found);
}

static __noinline void ask_of_storage(struct cgroup *root)
{
	u64 *value = bpf_cgrp_storage_get(&asked, root, NULL, 0);

	must(!value);
	must(bpf_cgrp_storage_delete(&asked, root) == -ENOENT);
	value = bpf_cgrp_storage_get(&asked, root, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	must(value && *value == 0);
	if (value)
		*value = 5;
	value = bpf_cgrp_storage_get(&asked, root, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	must(value && *value == 5);
	must(bpf_cgrp_storage_delete(&asked, root) == 0);
	must(!bpf_cgrp_storage_get(&asked, root, NULL, 0));
}

/* Walks that begin at the root find as many groups down as back, the root first and last. */
static __noinline void ask_of_walks(struct cgroup *root)
{
	struct cgroup_subsys_state *pos;

	last_level = -1;
	bpf_rcu_read_lock();
	bpf_for_each(css, pos, &root->self, BPF_CGROUP_ITER_DESCENDANTS_PRE) {
		int level = pos->cgroup->level;

		must(level <= last_level + 1);
		last_level = level;
		nr_down++;
	}
	bpf_for_each(css, pos, &root->self, BPF_CGROUP_ITER_DESCENDANTS_POST) {
		last_level = pos->cgroup->level;
		nr_back++;
	}
	must(nr_down >= 1 && nr_down == nr_back && last_level == 0);
	bpf_for_each(css, pos, &root->self, BPF_CGROUP_ITER_ANCESTORS_UP)
		nr_up++;
	must(nr_up == 1);
	bpf_for_each(css, pos, &root->self, 0)
		nr_none++;
	must(nr_none == 0);
	bpf_rcu_read_unlock();
}

s32 BPF_STRUCT_OPS_SLEEPABLE(cgroups_init)
{
	struct cgroup *root = bpf_cgroup_from_id(1), *none = bpf_cgroup_from_id(NO_GROUP);

	must(!none);
	if (none)
		bpf_cgroup_release(none);
	must(root);
	if (root) {
		must(root->kn->id == 1 && root->level == 0);
		ask_of_levels(root);
		ask_of_storage(root);
		ask_of_walks(root);
		bpf_cgroup_release(root);
	}
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

/* Groups above come before those below them. */
s32 BPF_STRUCT_OPS_SLEEPABLE(cgroups_cgroup_init, struct cgroup *cgrp,
			     struct scx_cgroup_init_args *args)
{
	struct group *group =
		bpf_cgrp_storage_get(&groups, cgrp, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct cgroup *above;

	if (!group)
		return -ENOENT;
	above = bpf_cgroup_ancestor(cgrp, cgrp->level);
	group->weight = args->weight;
	must(args->weight >= 1 && args->weight <= 10000);
	must(args->bw_period_us >= 1000 && args->bw_period_us <= 1000000);
	must(above && above->kn->id == cgrp->kn->id);
	if (above)
		bpf_cgroup_release(above);
	above = bpf_cgroup_ancestor(cgrp, cgrp->level - 1);
	must(!above == !cgrp->level);
	if (above) {
		must(bpf_cgrp_storage_get(&groups, above, NULL, 0));
		bpf_cgroup_release(above);
	}
	return 0;
}

void BPF_STRUCT_OPS(cgroups_cgroup_exit, struct cgroup *cgrp)
{
	must(bpf_cgrp_storage_get(&groups, cgrp, NULL, 0));
}

void BPF_STRUCT_OPS(cgroups_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	struct group *group = bpf_cgrp_storage_get(&groups, cgrp, NULL, 0);

	must(group);
	if (group)
		group->weight = weight;
}

s32 BPF_STRUCT_OPS(cgroups_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct group *group = bpf_cgrp_storage_get(&groups, args->cgroup, NULL, 0);

	must(group);
	if (group)
		__sync_fetch_and_add(&group->tasks, 1);
	/* A task that is being forked is in the root yet, in a kernel. */
	must(args->fork || p->cgroups->dfl_cgrp->kn->id == args->cgroup->kn->id);
	if (!bpf_task_storage_get(&ran, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE))
		return -ENOENT;
	return 0;
}

void BPF_STRUCT_OPS(cgroups_cgroup_move, struct task_struct *p, struct cgroup *from,
		    struct cgroup *to)
{
	struct group *before = bpf_cgrp_storage_get(&groups, from, NULL, 0);
	struct group *after = bpf_cgrp_storage_get(&groups, to, NULL, 0);
	struct cgroup *now = scx_bpf_task_cgroup(p);

	must(before && before->tasks && after);
	must(now->kn->id == to->kn->id && from->kn->id != to->kn->id);
	bpf_cgroup_release(now);
	if (before && after) {
		__sync_fetch_and_sub(&before->tasks, 1);
		__sync_fetch_and_add(&after->tasks, 1);
	}
}

void BPF_STRUCT_OPS(cgroups_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct cgroup *cgrp = scx_bpf_task_cgroup(p);
	struct group *group = bpf_cgrp_storage_get(&groups, cgrp, NULL, 0);
	u64 vtime = vtime_now;

	must(group && group->tasks);
	if (group) {
		/* Who comes after a pause has nothing saved up but a slice. */
		if (time_before(group->vtime, vtime_now - SLICE_NS))
			group->vtime = vtime_now - SLICE_NS;
		vtime = group->vtime;
	}
	must(p->cgroups->dfl_cgrp->kn->id == cgrp->kn->id);
	must(bpf_task_under_cgroup(p, cgrp) == 1);
	must(bpf_get_current_cgroup_id());
	bpf_cgroup_release(cgrp);
	scx_bpf_dsq_insert_vtime(p, SHARED_DSQ, SLICE_NS, vtime, enq_flags);
}

void BPF_STRUCT_OPS(cgroups_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

void BPF_STRUCT_OPS(cgroups_running, struct task_struct *p)
{
	u64 *before = bpf_task_storage_get(&ran, p, NULL, 0);

	if (before)
		*before = p->se.sum_exec_runtime;
	if (time_before(vtime_now, p->scx.dsq_vtime))
		vtime_now = p->scx.dsq_vtime;
}

void BPF_STRUCT_OPS(cgroups_stopping, struct task_struct *p, bool runnable)
{
	u64 *before = bpf_task_storage_get(&ran, p, NULL, 0);
	struct cgroup *cgrp = scx_bpf_task_cgroup(p);
	struct group *group = bpf_cgrp_storage_get(&groups, cgrp, NULL, 0);

	if (before && group && group->weight) {
		u64 ran_ns = p->se.sum_exec_runtime - *before;

		__sync_fetch_and_add(&group->vtime, ran_ns * CGROUP_WEIGHT_DFL / group->weight);
	}
	bpf_cgroup_release(cgrp);
}

void BPF_STRUCT_OPS(cgroups_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct cgroup *cgrp = bpf_cgroup_from_id(1);

	must(cgrp);
	if (cgrp)
		bpf_cgroup_release(cgrp);
}

SCX_OPS_DEFINE(cgroups_ops, .init = (void *)cgroups_init,
	       .cgroup_init = (void *)cgroups_cgroup_init,
	       .cgroup_exit = (void *)cgroups_cgroup_exit,
	       .cgroup_set_weight = (void *)cgroups_cgroup_set_weight,
	       .cgroup_move = (void *)cgroups_cgroup_move,
	       .init_task = (void *)cgroups_init_task, .exit_task = (void *)cgroups_exit_task,
	       .enqueue = (void *)cgroups_enqueue, .dispatch = (void *)cgroups_dispatch,
	       .running = (void *)cgroups_running, .stopping = (void *)cgroups_stopping,
	       .name = "cgroups");
