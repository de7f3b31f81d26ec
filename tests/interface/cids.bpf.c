/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* cids - first in, first out, by places in the topology; and what is said of those.
 *
 * Its table is a sched_ext_ops_cid, of Linux 7.3. If IS_REVERSED, its `init_cids` turns the cids
 * round, and shards have all but the first; else they are as the kernel has them, and shards have
 * one.
 */
#include <scx/common.bpf.h>
#include "expect.bpf.h"

char _license[] SEC("license") = "GPL";

#ifndef IS_REVERSED
#define IS_REVERSED false
#endif

#define SHARED_DSQ 7
#define __arena __attribute__((address_space(1)))
#define BPF_MAP_TYPE_ARENA 33
#define BPF_F_MMAPABLE (1 << 10)
#define CPUS_MAX 64
#define PIDS (1 << 12)
#define OPS_TID_TO_TASK (1ULL << 8)
#define ENODEV 19
#define EOPNOTSUPP 95
/* SCX_CAP_ENQ */
#define CAP_ENQ (1ULL << 1)
/* Nobody may know what stands there. */
#define READ(place) (*(volatile typeof(place) *)&(place))

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 64);
	/* Where user space has it. */
	enum { USER_BEGIN = 1ull << 44 } map_extra;
} arena SEC(".maps");

/* A program has the arena that it names. */
#define TOUCH_ARENA() asm volatile("" ::"r"(&arena))

struct scx_cmask {
	u32 base;
	u32 nr_cids;
	u32 alloc_words;
	u64 bits[];
};

struct scx_cid_topo {
	s32 core_cid, core_idx;
	s32 llc_cid, llc_idx;
	s32 node_cid, node_idx;
	s32 shard_cid, shard_idx;
};

struct scx_enable_args {
	u64 cmask_arena_addr;
} __attribute__((preserve_access_index));

struct sched_ext_entity___tid {
	u64 tid;
} __attribute__((preserve_access_index));

struct sched_ext_ops_cid {
	s32 (*select_cid)(struct task_struct *p, s32 prev_cid, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cid, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*running)(struct task_struct *p);
	void (*set_weight)(struct task_struct *p, u32 weight);
	void (*set_cmask)(struct task_struct *p, const struct scx_cmask *cmask);
	void (*update_idle)(s32 cid, bool idle);
	void (*enable)(struct task_struct *p, struct scx_enable_args *args);
	s32 (*init_cids)(void);
	s32 (*init)(void);
	u64 flags;
	u32 cid_shard_size;
	char name[128];
};

u32 scx_bpf_nr_cids(void) __ksym __weak;
u32 scx_bpf_nr_online_cids(void) __ksym __weak;
s32 scx_bpf_this_cid(void) __ksym __weak;
s32 scx_bpf_task_cid(const struct task_struct *p) __ksym __weak;
s32 scx_bpf_cid_to_cpu(s32 cid) __ksym __weak;
s32 scx_bpf_cpu_to_cid(s32 cpu) __ksym __weak;
void scx_bpf_cid_topo(s32 cid, struct scx_cid_topo *out, unsigned long out__sz) __ksym __weak;
void scx_bpf_cid_override(const s32 __arena *cids, u32 nr_cids, const s32 __arena *shards,
			  u32 nr_shards) __ksym __weak;
void scx_bpf_kick_cid(s32 cid, u64 flags) __ksym __weak;
struct task_struct *scx_bpf_cid_curr(s32 cid) __ksym __weak;
struct task_struct *scx_bpf_tid_to_task(u64 tid) __ksym __weak;
u32 scx_bpf_cidperf_cap(s32 cid) __ksym __weak;
u32 scx_bpf_cidperf_cur(s32 cid) __ksym __weak;
s32 scx_bpf_cidperf_set(s32 cid, u32 perf) __ksym __weak;
const void __arena *scx_bpf_online_cmask(void) __ksym __weak;
s32 scx_bpf_sub_caps(u64 cgroup_id, u64 caps, struct scx_cmask __arena *out) __ksym __weak;
s32 scx_bpf_sub_grant(u64 cgroup_id, u64 caps, const struct scx_cmask __arena *cmask,
		      struct scx_cmask __arena *denied) __ksym __weak;
void bpf_rcu_read_lock(void) __ksym;
void bpf_rcu_read_unlock(void) __ksym;

struct wide_topo {
	struct scx_cid_topo known;
	s32 more[2];
};

s32 __arena cids[CPUS_MAX];
s32 __arena shards[2];
u64 __arena words[2 + CPUS_MAX / 64 + 1];
/* By pid: the set that `enable` was given, and whether `set_cmask` has had it. */
u64 __arena enabled[PIDS];

static bool has(const struct scx_cmask __arena *mask, s32 cid)
{
	return READ(mask->bits[cid / 64]) >> (cid % 64) & 1;
}

/* That a level goes on from cid to cid, or a unit begins whose number is the next. */
static bool follows(s32 cid, s32 first, s32 idx, s32 first_before, s32 idx_before)
{
	if (first == cid)
		return idx == idx_before + 1;
	return first == first_before && idx == idx_before;
}

static bool all_follow(s32 cid, const struct scx_cid_topo *topo, const struct scx_cid_topo *before)
{
	return follows(cid, topo->core_cid, topo->core_idx, before->core_cid, before->core_idx) &&
	       follows(cid, topo->llc_cid, topo->llc_idx, before->llc_cid, before->llc_idx) &&
	       follows(cid, topo->node_cid, topo->node_idx, before->node_cid, before->node_idx) &&
	       topo->shard_cid == topo->core_cid && topo->shard_idx == topo->core_idx;
}

static s32 ask_topology(u32 nr_cids)
{
	struct scx_cid_topo before = {-1, -1, -1, -1, -1, -1, -1, -1};
	struct wide_topo wide;
	s32 cid, cpu;

	bpf_for(cid, 0, nr_cids) {
		cpu = scx_bpf_cid_to_cpu(cid);
		EXPECT(cpu >= 0 && scx_bpf_cpu_to_cid(cpu) == cid);
		wide.more[0] = 5;
		scx_bpf_cid_topo(cid, &wide.known, sizeof(wide));
		EXPECT(wide.more[0] == -1 && wide.more[1] == -1);
		if (IS_REVERSED) {
			EXPECT(cpu == nr_cids - 1 - cid);
			EXPECT(wide.known.core_cid == -1 && wide.known.node_idx == -1);
			EXPECT(wide.known.shard_cid == !!cid && wide.known.shard_idx == !!cid);
			continue;
		}
		EXPECT(all_follow(cid, &wide.known, &before));
		before = wide.known;
		before.llc_cid = 5;
		scx_bpf_cid_topo(cid, &before, 8);
		EXPECT(before.core_cid == wide.known.core_cid && before.llc_cid == 5);
		before = wide.known;
	}
	return 0;
}

static s32 ask_masks(u32 nr_cids)
{
	const struct scx_cmask __arena *online = scx_bpf_online_cmask();
	struct scx_cmask __arena *held = (void __arena *)words;
	s32 cid, err;

	EXPECT(online && READ(online->base) == 0 && READ(online->nr_cids) == nr_cids);
	EXPECT(READ(online->alloc_words) == (nr_cids + 63) / 64 + 1);
	bpf_for(cid, 0, nr_cids)
		EXPECT(has(online, cid));
	held->nr_cids = nr_cids;
	held->alloc_words = CPUS_MAX / 64 + 1;
	err = scx_bpf_sub_caps(0, CAP_ENQ, held);
	EXPECT(!err || err == -EOPNOTSUPP);
	if (!err) {
		bpf_for(cid, 0, nr_cids)
			EXPECT(has(held, cid));
		EXPECT(scx_bpf_sub_caps(77, CAP_ENQ, held) == -ENODEV);
		EXPECT(scx_bpf_sub_grant(77, CAP_ENQ, held, NULL) == -ENODEV);
	}
	return 0;
}

#define FAIL_UNLESS(holds)                                                                         \
	do {                                                                                       \
		if (!(holds))                                                                      \
			scx_bpf_error("line %d: not " #holds, __LINE__);                           \
	} while (0)

/* What a mask says of the CPUs of a task; and in the second bit of each cid that it said it. */
static u64 told(struct task_struct *p, const struct scx_cmask __arena *mask)
{
	u32 nr_cids = scx_bpf_nr_cids();
	u64 all = 0;
	s32 cid, cpu;

	FAIL_UNLESS(READ(mask->base) == 0 && READ(mask->nr_cids) == nr_cids);
	FAIL_UNLESS(READ(mask->alloc_words) == (nr_cids + 63) / 64 + 1);
	bpf_for(cid, 0, nr_cids) {
		cpu = scx_bpf_cid_to_cpu(cid);
		FAIL_UNLESS(has(mask, cid) == bpf_cpumask_test_cpu(cpu, p->cpus_ptr));
		all = all * 31 + has(mask, cid) + 1;
	}
	return all;
}

void BPF_STRUCT_OPS(cids_enable, struct task_struct *p, struct scx_enable_args *args)
{
	u32 place = (u32)p->pid % PIDS;

	TOUCH_ARENA();
	enabled[place] = told(p, (const struct scx_cmask __arena *)args->cmask_arena_addr);
}

void BPF_STRUCT_OPS(cids_set_cmask, struct task_struct *p, const struct scx_cmask *cmask)
{
	u64 all = told(p, (const struct scx_cmask __arena *)(long)cmask);
	u32 place = (u32)p->pid % PIDS;
	u64 before = enabled[place];

	TOUCH_ARENA();
	FAIL_UNLESS(!before || before == all);
	enabled[place] = 0;
}

void BPF_STRUCT_OPS(cids_set_weight, struct task_struct *p, u32 weight)
{
	u32 place = (u32)p->pid % PIDS;

	TOUCH_ARENA();
	FAIL_UNLESS(!enabled[place]);
}

s32 BPF_STRUCT_OPS(cids_select_cid, struct task_struct *p, s32 prev_cid, u64 wake_flags)
{
	struct sched_ext_entity___tid *entity = (void *)&p->scx;

	FAIL_UNLESS(prev_cid == scx_bpf_task_cid(p));
	bpf_rcu_read_lock();
	FAIL_UNLESS(scx_bpf_tid_to_task(entity->tid) == p);
	FAIL_UNLESS(!scx_bpf_tid_to_task(0));
	bpf_rcu_read_unlock();
	return prev_cid;
}

void BPF_STRUCT_OPS(cids_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cid = scx_bpf_task_cid(p);

	/* Every third goes to its CPU, by the cid of that. */
	if ((u32)p->pid % 3 == 0) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cid, 3 * NSEC_PER_MSEC, enq_flags);
		return;
	}
	scx_bpf_dsq_insert(p, SHARED_DSQ, 3 * NSEC_PER_MSEC, enq_flags);
	scx_bpf_kick_cid(cid, SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(cids_dispatch, s32 cid, struct task_struct *prev)
{
	FAIL_UNLESS(cid == scx_bpf_this_cid());
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
	FAIL_UNLESS(scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cid) ==
		    scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL));
}

void BPF_STRUCT_OPS(cids_running, struct task_struct *p)
{
	FAIL_UNLESS(scx_bpf_task_cid(p) == scx_bpf_this_cid());
}

void BPF_STRUCT_OPS(cids_tick, struct task_struct *p)
{
	s32 cid = scx_bpf_this_cid();
	struct task_struct *current;

	bpf_rcu_read_lock();
	current = scx_bpf_cid_curr(cid);
	FAIL_UNLESS(current && current->pid == p->pid);
	bpf_rcu_read_unlock();
	FAIL_UNLESS(scx_bpf_cidperf_set(cid, 512) == 0);
	FAIL_UNLESS(scx_bpf_cidperf_cap(cid) && scx_bpf_cidperf_cur(cid));
}

void BPF_STRUCT_OPS(cids_update_idle, s32 cid, bool idle)
{
	FAIL_UNLESS(cid >= 0 && (u32)cid < scx_bpf_nr_cids());
}

s32 BPF_STRUCT_OPS_SLEEPABLE(cids_init_cids)
{
	u32 nr = scx_bpf_nr_cids();
	s32 cpu;

	TOUCH_ARENA();
	EXPECT(nr <= CPUS_MAX && nr == scx_bpf_nr_cpu_ids());
	EXPECT(!scx_bpf_online_cmask());
	EXPECT(scx_bpf_cid_to_cpu(0) == -EINVAL && scx_bpf_this_cid() == -EINVAL);
	if (!IS_REVERSED)
		return 0;
	bpf_for(cpu, 0, nr)
		cids[(u32)cpu % CPUS_MAX] = nr - 1 - cpu;
	shards[1] = 1;
	scx_bpf_cid_override(cids, nr, shards, 2);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(cids_init)
{
	u32 nr_cids = scx_bpf_nr_cids();
	s32 err = scx_bpf_create_dsq(SHARED_DSQ, -1);

	EXPECT(nr_cids <= CPUS_MAX && scx_bpf_nr_online_cids() == nr_cids);
	if (!err)
		err = ask_topology(nr_cids);
	return err ? err : ask_masks(nr_cids);
}

SEC(".struct_ops.link")
struct sched_ext_ops_cid cids_ops = {
	.select_cid = (void *)cids_select_cid,
	.enqueue = (void *)cids_enqueue,
	.dispatch = (void *)cids_dispatch,
	.tick = (void *)cids_tick,
	.running = (void *)cids_running,
	.set_weight = (void *)cids_set_weight,
	.set_cmask = (void *)cids_set_cmask,
	.update_idle = (void *)cids_update_idle,
	.enable = (void *)cids_enable,
	.init_cids = (void *)cids_init_cids,
	.init = (void *)cids_init,
	.flags = OPS_TID_TO_TASK | SCX_OPS_KEEP_BUILTIN_IDLE,
	.cid_shard_size = 1,
	.name = "cids",
};
