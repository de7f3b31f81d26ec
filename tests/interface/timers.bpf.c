/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* timers - first in, first out; and timers and work in values of hashes, which end with those.
 *
 * `init` asks, and ends the policy by an error that names the line of the first answer that is not
 * a kernel's. What has expired is judged by a timer that expires later than the others.
 */
#include <scx/common.bpf.h>
#include "expect.bpf.h"

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0
#define EDEADLK 35
#define SOON_NS NSEC_PER_MSEC
/* Long enough for `init` to end what it has started, on a slow machine. */
#define ENDED_NS (100 * NSEC_PER_MSEC)
#define LATER_NS (15 * NSEC_PER_MSEC)
#define WAITS_MAX 9

enum { STAYS, IS_DELETED, IS_UPDATED, DELETES_ITSELF, CANCELS_ITSELF, COMES_AGAIN, NR_KEYS };

struct bpf_wq {
	u64 opaque[2];
} __attribute__((aligned(8)));

extern int bpf_wq_init(struct bpf_wq *work, void *map, unsigned int flags) __ksym;
extern int bpf_wq_start(struct bpf_wq *work, unsigned int flags) __ksym;
extern int bpf_wq_set_callback_impl(struct bpf_wq *work, int (*callback)(void *, int *, void *),
				    unsigned int flags, void *aux) __ksym __weak;
extern int bpf_wq_set_callback(struct bpf_wq *work, int (*callback)(void *, int *, void *),
			       unsigned int flags) __ksym __weak;

struct timed {
	u64 key;
	/* No update touches it, and the timer ends all the same. */
	struct task_struct __kptr *task;
	struct bpf_timer timer;
};

struct worked {
	u64 key;
	struct bpf_wq work;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, NR_KEYS);
	__type(key, u64);
	__type(value, struct timed);
} timed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 64);
	__type(key, u64);
	__type(value, struct worked);
} worked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timed);
} judges SEC(".maps");

static u64 expired, done, wrong, nr_waits;

static int expire(void *map, u64 *key, struct timed *value)
{
	u64 copy = *key;

	wrong += copy >= NR_KEYS || value->key != copy || (expired >> (copy & 63) & 1);
	expired |= 1ULL << (copy & 63);
	if (copy == CANCELS_ITSELF)
		wrong += bpf_timer_cancel(&value->timer) != -EDEADLK;
	if (copy == DELETES_ITSELF)
		wrong += bpf_map_delete_elem(map, &copy) != 0;
	return 0;
}

static int work(void *map, int *key, void *value)
{
	done |= 1ULL << (*key & 63);
	return 0;
}

static int judge(void *map, u32 *key, struct timed *value)
{
	u64 expected = 1 << STAYS | 1 << DELETES_ITSELF | 1 << CANCELS_ITSELF | 1 << COMES_AGAIN;

	if (nr_waits++ < WAITS_MAX) {
		bpf_timer_start(&value->timer, LATER_NS, 0);
		return 0;
	}
	if (expired != expected || done != 1 << 9 || wrong)
		scx_bpf_error("expired %llx, done %llx, %llu wrong", expired, done, wrong);
	return 0;
}

static int start(u64 key, u64 ns)
{
	struct timed zero = {.key = key}, *value;

	EXPECT(!bpf_map_update_elem(&timed, &key, &zero, 0));
	value = bpf_map_lookup_elem(&timed, &key);
	if (!value)
		return -ENOENT;
	EXPECT(bpf_timer_start(&value->timer, SOON_NS, 0) == -EINVAL);
	EXPECT(bpf_timer_init(&value->timer, &timed, 99) == -EINVAL);
	EXPECT(bpf_timer_init(&value->timer, &timed, 2) == -EINVAL);
	EXPECT(!bpf_timer_init(&value->timer, &timed, 1));
	EXPECT(bpf_timer_init(&value->timer, &timed, 1) == -EBUSY);
	EXPECT(bpf_timer_start(&value->timer, SOON_NS, 0) == -EINVAL);
	EXPECT(!bpf_timer_set_callback(&value->timer, expire));
	EXPECT(!bpf_timer_start(&value->timer, ns, 0));
	EXPECT(bpf_timer_cancel(&value->timer) == 1);
	EXPECT(bpf_timer_start(&value->timer, ns, 0) == -EINVAL);
	EXPECT(!bpf_timer_set_callback(&value->timer, expire));
	EXPECT(!bpf_timer_start(&value->timer, ns, 0));
	return 0;
}

static __noinline int ask_of_hash(void)
{
	u64 deleted = IS_DELETED, updated = IS_UPDATED, again = COMES_AGAIN;
	struct timed zero = {.key = IS_UPDATED}, *value;
	int error = start(IS_DELETED, ENDED_NS);

	if (error)
		return error;
	EXPECT(!bpf_map_delete_elem(&timed, &deleted));
	error = start(IS_UPDATED, ENDED_NS);
	if (error)
		return error;
	EXPECT(!bpf_map_update_elem(&timed, &updated, &zero, 0));
	value = bpf_map_lookup_elem(&timed, &updated);
	if (!value)
		return -ENOENT;
	EXPECT(bpf_timer_start(&value->timer, SOON_NS, 0) == -EINVAL);
	EXPECT(bpf_timer_cancel(&value->timer) == -EINVAL);
	error = start(COMES_AGAIN, ENDED_NS);
	if (error)
		return error;
	EXPECT(!bpf_map_delete_elem(&timed, &again));
	error = start(COMES_AGAIN, SOON_NS);
	if (!error)
		error = start(STAYS, SOON_NS);
	error = error ?: start(CANCELS_ITSELF, SOON_NS);
	return error ?: start(DELETES_ITSELF, SOON_NS);
}

static __noinline int ask_of_work(void)
{
	struct worked zero = {.key = 9}, *value;
	u64 key = 9;

	EXPECT(!bpf_map_update_elem(&worked, &key, &zero, 0));
	value = bpf_map_lookup_elem(&worked, &key);
	if (!value)
		return -ENOENT;
	EXPECT(bpf_wq_init(&value->work, &worked, 1) == -EINVAL);
	EXPECT(!bpf_wq_init(&value->work, &worked, 0));
	if (bpf_wq_set_callback)
		EXPECT(!bpf_wq_set_callback(&value->work, work, 0));
	else
		EXPECT(!bpf_wq_set_callback_impl(&value->work, work, 0, NULL));
	EXPECT(!bpf_wq_start(&value->work, 0));
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(timers_init)
{
	int error = scx_bpf_create_dsq(SHARED_DSQ, -1) ?: ask_of_hash() ?: ask_of_work();
	struct timed *value;
	u32 first = 0;

	value = bpf_map_lookup_elem(&judges, &first);
	if (error || !value)
		return error;
	EXPECT(!bpf_timer_init(&value->timer, &judges, 1));
	EXPECT(!bpf_timer_set_callback(&value->timer, judge));
	EXPECT(!bpf_timer_start(&value->timer, LATER_NS, 0));
	return 0;
}

void BPF_STRUCT_OPS(timers_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED_DSQ, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(timers_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

SCX_OPS_DEFINE(timers_ops, .init = (void *)timers_init, .enqueue = (void *)timers_enqueue,
	       .dispatch = (void *)timers_dispatch, .name = "timers");
