/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Groups of tasks (cgroups), for policies that know them; in place of `common.bpf.h`.
 *
 * Source: interface names of Linux 6.12 to 7.3, kernel/sched/ext.c, kernel/bpf/helpers.c and
 * kernel/bpf/cgroup_iter.c. Not all of these have `cgroup_set_bandwidth` and `cgroup_set_idle`: a
 * kernel that lacks one refuses a policy that has it.
 */
#ifndef SCX_CGROUPS_BPF_H
#define SCX_CGROUPS_BPF_H

#include "common.bpf.h"

#define BPF_MAP_TYPE_CGRP_STORAGE 32
#define CGROUP_WEIGHT_DFL 100

static u64 (*const bpf_get_current_cgroup_id)(void) = (void *)80;
static void *(*const bpf_cgrp_storage_get)(void *map, struct cgroup *cgrp, void *initial,
					   u64 flags) = (void *)210;
static long (*const bpf_cgrp_storage_delete)(void *map, struct cgroup *cgrp) = (void *)211;

extern struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) __ksym;
extern struct cgroup *bpf_cgroup_from_id(u64 id) __ksym;
extern struct cgroup *bpf_cgroup_acquire(struct cgroup *cgrp) __ksym;
extern struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level) __ksym;
extern void bpf_cgroup_release(struct cgroup *cgrp) __ksym;
extern long bpf_task_under_cgroup(struct task_struct *p, struct cgroup *above) __ksym;

enum bpf_cgroup_iter_order {
	BPF_CGROUP_ITER_DESCENDANTS_PRE = 2,
	BPF_CGROUP_ITER_DESCENDANTS_POST = 3,
	BPF_CGROUP_ITER_ANCESTORS_UP = 4,
};

struct bpf_iter_css {
	u64 opaque[3];
} __attribute__((aligned(8)));

extern int bpf_iter_css_new(struct bpf_iter_css *it, struct cgroup_subsys_state *start,
			    unsigned int flags) __ksym;
extern struct cgroup_subsys_state *bpf_iter_css_next(struct bpf_iter_css *it) __ksym;
extern void bpf_iter_css_destroy(struct bpf_iter_css *it) __ksym;

#endif /* SCX_CGROUPS_BPF_H */
