/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* maps - first in, first out, by a queue of its own; and what maps of each kind answer.
 *
 * `init` asks maps, and ends the policy by an error that names the line of the first answer that is
 * not a kernel's. So a kernel that takes and keeps it has judged the test, too.
 */
#include <scx/common.bpf.h>
#include "expect.bpf.h"

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0
#define ENTRIES 4
#define CROWD 64
#define BPF_F_LOCK 4

struct pair {
	u32 first;
	u32 second;
};

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, ENTRIES);
	__type(value, struct pair);
} queue SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, ENTRIES);
	__type(value, u32);
} stack SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CROWD);
	__type(key, u64);
	__type(value, u64);
} forgets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, ENTRIES);
	__type(key, u64);
	__type(value, u64);
} of_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_PERCPU_HASH);
	__uint(max_entries, CROWD);
	__type(key, u32);
	__type(value, u32);
} forgets_of_cpus SEC(".maps");

struct inner {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, ENTRIES);
	__type(value, u32);
} first SEC(".maps"), third SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 3);
	__type(key, u32);
	__array(values, struct inner);
} by_number SEC(".maps") = {.values = {[0] = &first, [2] = &third}};

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, 3);
	__type(key, u32);
	__array(values, struct inner);
} by_key SEC(".maps") = {.values = {[1] = &third}};

/* Tasks that wait, by their pids. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 4096);
	__type(value, s32);
} waiting SEC(".maps");

static s32 ask_queue(void)
{
	struct pair given = {}, got = {.first = 7, .second = 8};
	u32 number;

	EXPECT(bpf_map_peek_elem(&queue, &got) == -ENOENT);
	EXPECT(got.first == 0 && got.second == 0);
	bpf_for(number, 0, ENTRIES) {
		given.first = number;
		given.second = number * number;
		EXPECT(bpf_map_push_elem(&queue, &given, BPF_ANY) == 0);
	}
	EXPECT(bpf_map_push_elem(&queue, &given, BPF_ANY) == -E2BIG);
	EXPECT(bpf_map_push_elem(&queue, &given, BPF_NOEXIST) == -EINVAL);
	given.first = 100;
	/* The oldest makes way. */
	EXPECT(bpf_map_push_elem(&queue, &given, BPF_EXIST) == 0);
	EXPECT(bpf_map_peek_elem(&queue, &got) == 0 && got.first == 1);
	EXPECT(bpf_map_pop_elem(&queue, &got) == 0 && got.first == 1 && got.second == 1);
	EXPECT(bpf_map_pop_elem(&queue, &got) == 0 && got.first == 2 && got.second == 4);
	EXPECT(bpf_map_pop_elem(&queue, &got) == 0 && got.first == 3);
	EXPECT(bpf_map_pop_elem(&queue, &got) == 0 && got.first == 100);
	EXPECT(bpf_map_pop_elem(&queue, &got) == -ENOENT && got.first == 0);
	return 0;
}

struct kept {
	struct bpf_spin_lock lock;
	struct bpf_cpumask __kptr *mask;
	u64 number;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct kept);
} keeps SEC(".maps");

/* An update takes neither locks nor pointers that calls write, so nobody need write them. */
static s32 ask_what_is_kept(void)
{
	struct kept given, *kept;
	struct bpf_cpumask *mask;
	u32 key = 0;

	given.number = 7;
	EXPECT(bpf_map_update_elem(&keeps, &key, &given, BPF_EXIST) == 0);
	kept = bpf_map_lookup_elem(&keeps, &key);
	EXPECT(kept && kept->number == 7);
	mask = bpf_cpumask_create();
	if (!mask)
		return -ENOMEM;
	mask = bpf_kptr_xchg(&kept->mask, mask);
	if (mask)
		bpf_cpumask_release(mask);
	EXPECT(!mask && kept->mask);
	given.number = 8;
	EXPECT(bpf_map_update_elem(&keeps, &key, &given, BPF_EXIST) == 0);
	EXPECT(kept->mask && kept->number == 8);
	EXPECT(bpf_map_update_elem(&keeps, &key, &given, BPF_F_LOCK) == 0);
	return 0;
}

static s32 ask_stack(void)
{
	u32 number, got = 7;

	EXPECT(bpf_map_pop_elem(&stack, &got) == -ENOENT && got == 0);
	bpf_for(number, 0, ENTRIES) {
		u32 given = number;

		EXPECT(bpf_map_push_elem(&stack, &given, BPF_ANY) == 0);
	}
	got = 100;
	EXPECT(bpf_map_push_elem(&stack, &got, BPF_ANY) == -E2BIG);
	EXPECT(bpf_map_push_elem(&stack, &got, BPF_EXIST) == 0);
	EXPECT(bpf_map_peek_elem(&stack, &got) == 0 && got == 100);
	EXPECT(bpf_map_pop_elem(&stack, &got) == 0 && got == 100);
	EXPECT(bpf_map_pop_elem(&stack, &got) == 0 && got == 3);
	EXPECT(bpf_map_pop_elem(&stack, &got) == 0 && got == 2);
	EXPECT(bpf_map_pop_elem(&stack, &got) == 0 && got == 1);
	EXPECT(bpf_map_pop_elem(&stack, &got) == -ENOENT);
	return 0;
}

/* A kernel keeps free entries by CPU, so which of the older ones it forgets is its own choice. */
static s32 ask_what_forgets(void)
{
	u64 key, value = 1;
	u32 number, small = 5;
	u64 *found;
	u32 *of_cpu;

	bpf_for(number, 0, 4 * CROWD) {
		key = number;
		EXPECT(bpf_map_update_elem(&forgets, &key, &value, BPF_ANY) == 0);
	}
	found = bpf_map_lookup_elem(&forgets, &key);
	EXPECT(found && *found == 1);
	key = 0;
	EXPECT(!bpf_map_lookup_elem(&forgets, &key));
	EXPECT(bpf_map_delete_elem(&forgets, &key) == -ENOENT);
	EXPECT(bpf_map_update_elem(&forgets, &key, &value, BPF_EXIST) == -ENOENT);
	EXPECT(bpf_map_update_elem(&forgets, &key, &value, BPF_F_LOCK) == -EINVAL);
	EXPECT(bpf_map_update_elem(&forgets_of_cpus, &small, &small, BPF_NOEXIST) == 0);
	EXPECT(bpf_map_update_elem(&forgets_of_cpus, &small, &small, BPF_NOEXIST) == -EEXIST);
	of_cpu = bpf_map_lookup_elem(&forgets_of_cpus, &small);
	EXPECT(of_cpu && *of_cpu == 5);
	return 0;
}

static s32 ask_hash_of_cpus(void)
{
	u32 here = bpf_get_smp_processor_id(), other = here ? 0 : 1;
	u64 key = 9, value = 3, *found, *elsewhere;

	EXPECT(!bpf_map_lookup_elem(&of_cpus, &key));
	EXPECT(bpf_map_update_elem(&of_cpus, &key, &value, BPF_EXIST) == -ENOENT);
	EXPECT(bpf_map_update_elem(&of_cpus, &key, &value, BPF_NOEXIST) == 0);
	EXPECT(bpf_map_update_elem(&of_cpus, &key, &value, BPF_NOEXIST) == -EEXIST);
	found = bpf_map_lookup_percpu_elem(&of_cpus, &key, here);
	EXPECT(found && *found == 3);
	elsewhere = bpf_map_lookup_percpu_elem(&of_cpus, &key, other);
	EXPECT(!elsewhere || *elsewhere == 0);
	EXPECT(!bpf_map_lookup_percpu_elem(&of_cpus, &key, 1 << 20));
	EXPECT(bpf_map_delete_elem(&of_cpus, &key) == 0);
	EXPECT(bpf_map_delete_elem(&of_cpus, &key) == -ENOENT);
	bpf_for(key, 0, ENTRIES)
		EXPECT(bpf_map_update_elem(&of_cpus, &key, &value, BPF_ANY) == 0);
	key = ENTRIES;
	EXPECT(bpf_map_update_elem(&of_cpus, &key, &value, BPF_ANY) == -E2BIG);
	return 0;
}

static s32 ask_maps_of_maps(void)
{
	u32 number = 2, value = 17, got;
	void *inner = bpf_map_lookup_elem(&by_number, &number);

	EXPECT(inner && bpf_map_push_elem(inner, &value, BPF_ANY) == 0);
	EXPECT(bpf_map_pop_elem(&first, &got) == -ENOENT);
	EXPECT(bpf_map_pop_elem(&third, &got) == 0 && got == 17);
	number = 1;
	EXPECT(!bpf_map_lookup_elem(&by_number, &number));
	number = 3;
	EXPECT(!bpf_map_lookup_elem(&by_number, &number));
	inner = bpf_map_lookup_elem(&by_key, &number);
	EXPECT(!inner);
	number = 1;
	inner = bpf_map_lookup_elem(&by_key, &number);
	EXPECT(inner && bpf_map_push_elem(inner, &value, BPF_ANY) == 0);
	EXPECT(bpf_map_pop_elem(&third, &got) == 0 && got == 17);
	return 0;
}

void BPF_STRUCT_OPS(maps_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 pid = p->pid;

	if (bpf_map_push_elem(&waiting, &pid, BPF_ANY))
		scx_bpf_dsq_insert(p, SHARED_DSQ, 3 * NSEC_PER_MSEC, enq_flags);
}

void BPF_STRUCT_OPS(maps_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *p;
	s32 pid;

	if (!bpf_map_pop_elem(&waiting, &pid) && (p = bpf_task_from_pid(pid))) {
		scx_bpf_dsq_insert(p, SHARED_DSQ, 3 * NSEC_PER_MSEC, 0);
		bpf_task_release(p);
	}
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(maps_init)
{
	s32 err = scx_bpf_create_dsq(SHARED_DSQ, -1);

	if (!err)
		err = ask_queue();
	if (!err)
		err = ask_what_is_kept();
	if (!err)
		err = ask_stack();
	if (!err)
		err = ask_what_forgets();
	if (!err)
		err = ask_maps_of_maps();
	return err ? err : ask_hash_of_cpus();
}

SCX_OPS_DEFINE(maps_ops, .enqueue = (void *)maps_enqueue, .dispatch = (void *)maps_dispatch,
	       .init = (void *)maps_init, .name = "maps");
