/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* walks - first in, first out; and what walks over tasks find, and the kernel's own counts say.
 *
 * As in maps.bpf.c, `init` asks, and ends the policy by an error that names the line of the first
 * answer that is not a kernel's. The headers do not declare what is asked here.
 */
#include <scx/cgroups.bpf.h>
#include "expect.bpf.h"

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0
#define UNTOUCHED 77

enum { ALL_PROCESSES, ALL_THREADS, THREADS_OF_ONE, NO_SUCH_WALK };
enum { ALL_OF_GROUP, PROCESSES_OF_GROUP, NO_SUCH_PART };

struct bpf_iter_task {
	u64 opaque[3];
} __attribute__((aligned(8)));

struct bpf_iter_css_task {
	u64 opaque[1];
} __attribute__((aligned(8)));

struct scx_event_stats {
	s64 SCX_EV_SELECT_CPU_FALLBACK;
	s64 SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE;
	s64 SCX_EV_DISPATCH_KEEP_LAST;
};

extern int bpf_iter_task_new(struct bpf_iter_task *it, struct task_struct *of,
			     unsigned int flags) __ksym;
extern struct task_struct *bpf_iter_task_next(struct bpf_iter_task *it) __ksym;
extern void bpf_iter_task_destroy(struct bpf_iter_task *it) __ksym;
extern int bpf_iter_css_task_new(struct bpf_iter_css_task *it, struct cgroup_subsys_state *css,
				 unsigned int flags) __ksym;
extern struct task_struct *bpf_iter_css_task_next(struct bpf_iter_css_task *it) __ksym;
extern void bpf_iter_css_task_destroy(struct bpf_iter_css_task *it) __ksym;
extern void scx_bpf_events(struct scx_event_stats *events, u64 bytes) __ksym;

/* What walks count: where the verifier knows no values, so that it follows a round once. */
static int nr_tasks, nr_processes, nr_of_one, first_pid, one_pid, nr_wrong;

static __noinline int ask_of_tasks(void)
{
	struct task_struct *p;

	nr_tasks = nr_processes = nr_of_one = nr_wrong = 0;
	first_pid = -1;
	bpf_rcu_read_lock();
	bpf_for_each(task, p, NULL, ALL_PROCESSES) {
		if (first_pid < 0)
			first_pid = p->pid;
		nr_wrong += p->pid != p->tgid;
		nr_processes++;
	}
	bpf_for_each(task, p, NULL, ALL_THREADS)
		nr_tasks++;
	bpf_for_each(task, p, bpf_get_current_task_btf(), THREADS_OF_ONE) {
		if (!nr_of_one++)
			one_pid = p->pid;
	}
	bpf_for_each(task, p, NULL, THREADS_OF_ONE)
		nr_wrong++;
	bpf_for_each(task, p, NULL, NO_SUCH_WALK)
		nr_wrong++;
	bpf_rcu_read_unlock();
	EXPECT(first_pid == 0);
	EXPECT(nr_processes >= 1 && nr_tasks >= nr_processes && nr_wrong == 0);
	EXPECT(nr_of_one >= 1 && one_pid == bpf_get_current_task_btf()->pid);
	return 0;
}

static __noinline int ask_of_group(struct cgroup *root)
{
	struct bpf_iter_css_task it;
	struct task_struct *p;
	int error = bpf_iter_css_task_new(&it, &root->self, NO_SUCH_PART);

	p = bpf_iter_css_task_next(&it);
	bpf_iter_css_task_destroy(&it);
	EXPECT(error == -EINVAL && !p);
	nr_tasks = nr_wrong = 0;
	bpf_for_each(css_task, p, &root->self, ALL_OF_GROUP) {
		nr_wrong += p->cgroups->dfl_cgrp->kn->id != 1;
		nr_tasks++;
	}
	nr_processes = 0;
	bpf_for_each(css_task, p, &root->self, PROCESSES_OF_GROUP)
		nr_processes++;
	EXPECT(nr_wrong == 0 && nr_tasks >= nr_processes);
	return 0;
}

static __noinline int ask_of_events(void)
{
	struct scx_event_stats events = {UNTOUCHED, UNTOUCHED, UNTOUCHED};

	scx_bpf_events(&events, sizeof(events));
	EXPECT(events.SCX_EV_SELECT_CPU_FALLBACK == 0);
	EXPECT(events.SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE == 0);
	EXPECT(events.SCX_EV_DISPATCH_KEEP_LAST == 0);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(walks_init)
{
	struct cgroup *root = bpf_cgroup_from_id(1);
	int error = scx_bpf_create_dsq(SHARED_DSQ, -1) ?: ask_of_tasks() ?: ask_of_events();

	if (root) {
		error = error ?: ask_of_group(root);
		bpf_cgroup_release(root);
	}
	return error;
}

void BPF_STRUCT_OPS(walks_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED_DSQ, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(walks_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

SCX_OPS_DEFINE(walks_ops, .init = (void *)walks_init, .enqueue = (void *)walks_enqueue,
	       .dispatch = (void *)walks_dispatch, .name = "walks");
