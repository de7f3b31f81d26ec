/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* rings - first in, first out; and what callbacks, texts and ring buffers that nobody reads answer.
 *
 * As in maps.bpf.c, `init` asks, and ends the policy by an error that names the line of the first
 * answer that is not a kernel's. The headers do not declare what is asked here.
 */
#include <scx/common.bpf.h>
#include "expect.bpf.h"

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0
#define ENTRIES 5
#define RING_BYTES 4096
#define EAGAIN 11

static long (*const bpf_loop)(u32 turns, void *callback, void *context, u64 flags) = (void *)181;
static long (*const bpf_for_each_map_elem)(void *map, void *callback, void *context,
					   u64 flags) = (void *)164;
static long (*const bpf_snprintf)(char *text, u32 size, const char *format, u64 *words,
				  u32 words_size) = (void *)165;
static long (*const bpf_ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static void *(*const bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;
static void (*const bpf_ringbuf_discard)(void *data, u64 flags) = (void *)133;
static u64 (*const bpf_ringbuf_query)(void *ring, u64 flags) = (void *)134;
static long (*const bpf_user_ringbuf_drain)(void *ring, void *callback, void *context,
					    u64 flags) = (void *)209;
static u64 (*const bpf_ktime_get_boot_ns)(void) = (void *)125;

extern int LINUX_KERNEL_VERSION __kconfig;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ENTRIES);
	__type(key, u32);
	__type(value, u64);
} array SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ENTRIES);
	__type(key, u64);
	__type(value, u64);
} hash SEC(".maps");

struct {
	__uint(type, 27); /* BPF_MAP_TYPE_RINGBUF */
	__uint(max_entries, RING_BYTES);
} ring SEC(".maps");

struct {
	__uint(type, 31); /* BPF_MAP_TYPE_USER_RINGBUF */
	__uint(max_entries, RING_BYTES);
} from_user SEC(".maps");

struct walk {
	u64 sum;
	u64 stop_at;
};

static long add_turn(u32 turn, struct walk *walk)
{
	walk->sum += turn;
	return turn == walk->stop_at;
}

static long add_element(void *map, u32 *key, u64 *value, struct walk *walk)
{
	walk->sum += *value * 100 + *key;
	return *key == walk->stop_at;
}

static long add_entry(void *map, u64 *key, u64 *value, struct walk *walk)
{
	walk->sum += *value * 100 + *key;
	return 0;
}

static long never(void *data, void *context)
{
	return 0;
}

static s32 ask_loop(void)
{
	struct walk walk = {.stop_at = 100};

	EXPECT(bpf_loop(0, add_turn, &walk, 0) == 0 && walk.sum == 0);
	EXPECT(bpf_loop(5, add_turn, &walk, 0) == 5 && walk.sum == 10);
	walk.stop_at = 2;
	/* The turn that ends it counts. */
	EXPECT(bpf_loop(5, add_turn, &walk, 0) == 3 && walk.sum == 13);
	/* Where a kernel puts a loop in place of the call, the error has 32 bits. */
	EXPECT(bpf_loop((1 << 23) + 1, never, NULL, 0) == (u32)-E2BIG);
	EXPECT(bpf_loop(1, never, NULL, 1) == -EINVAL);
	return 0;
}

static s32 ask_walks(void)
{
	struct walk walk = {.stop_at = 100};
	u64 key, value = 2;
	u32 number;

	bpf_for(number, 0, ENTRIES) {
		u64 twice = 2 * number;
		u32 at = number;

		EXPECT(bpf_map_update_elem(&array, &at, &twice, BPF_ANY) == 0);
	}
	EXPECT(bpf_for_each_map_elem(&array, add_element, &walk, 0) == ENTRIES);
	EXPECT(walk.sum == 2010);
	walk = (struct walk){.stop_at = 1};
	EXPECT(bpf_for_each_map_elem(&array, add_element, &walk, 0) == 2 && walk.sum == 201);
	EXPECT(bpf_for_each_map_elem(&array, add_element, &walk, 1) == -EINVAL);
	walk.sum = 0;
	EXPECT(bpf_for_each_map_elem(&hash, add_entry, &walk, 0) == 0 && walk.sum == 0);
	bpf_for(number, 1, 4) {
		key = 7 * number;
		EXPECT(bpf_map_update_elem(&hash, &key, &value, BPF_ANY) == 0);
	}
	EXPECT(bpf_for_each_map_elem(&hash, add_entry, &walk, 0) == 3 && walk.sum == 642);
	return 0;
}

static s32 ask_texts(void)
{
	static const char format[] = "%d and %s", next[] = "next", whole[] = "-7 and next";
	u64 words[] = {-7, 0};
	char text[16], half[5];
	u32 at;

	/* A constant would have no address when it is loaded. */
	words[1] = (u64)next;
	asm volatile("" ::"r"(words) : "memory");
	EXPECT(bpf_snprintf(text, sizeof(text), format, words, sizeof(words)) == sizeof(whole));
	bpf_for(at, 0, sizeof(whole))
		EXPECT(at < sizeof(text) && text[at] == whole[at]);
	EXPECT(bpf_snprintf(half, sizeof(half), format, words, sizeof(words)) == sizeof(whole));
	EXPECT(half[0] == '-' && half[3] == 'a' && half[4] == 0);
	return 0;
}

static s32 ask_ring(void)
{
	u64 data = 5, *record;
	u32 number;

	EXPECT(bpf_ringbuf_query(&ring, 1) == RING_BYTES);
	EXPECT(bpf_ringbuf_query(&ring, 0) == 0);
	record = bpf_ringbuf_reserve(&ring, 13, 0);
	if (!record) {
		scx_bpf_error("there is no room");
		return -EINVAL;
	}
	*record = 1;
	bpf_ringbuf_submit(record, 1 /* BPF_RB_NO_WAKEUP */);
	EXPECT(bpf_ringbuf_query(&ring, 0) == 24 && bpf_ringbuf_query(&ring, 3) == 24);
	/* What is discarded takes room, too. */
	record = bpf_ringbuf_reserve(&ring, 8, 0);
	if (record)
		bpf_ringbuf_discard(record, 0);
	EXPECT(record && bpf_ringbuf_query(&ring, 0) == 40);
	EXPECT(bpf_ringbuf_output(&ring, &data, 8, 8) == -EINVAL);
	bpf_for(number, 0, 253)
		EXPECT(bpf_ringbuf_output(&ring, &data, 8, 1) == 0);
	/* 8 bytes are left, and 16 are needed; the last byte would stay free, too. */
	EXPECT(bpf_ringbuf_query(&ring, 0) == RING_BYTES - 8);
	EXPECT(bpf_ringbuf_output(&ring, &data, 8, 1) == -EAGAIN);
	record = bpf_ringbuf_reserve(&ring, 8, 0);
	if (record)
		bpf_ringbuf_discard(record, 0);
	EXPECT(!record);
	EXPECT(bpf_user_ringbuf_drain(&from_user, never, NULL, 0) == 0);
	return 0;
}

void BPF_STRUCT_OPS(rings_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED_DSQ, 3 * NSEC_PER_MSEC, enq_flags);
}

void BPF_STRUCT_OPS(rings_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(rings_init)
{
	s32 err = scx_bpf_create_dsq(SHARED_DSQ, -1);
	u64 now = bpf_ktime_get_ns();

	if (!err)
		err = ask_loop();
	if (!err)
		err = ask_walks();
	if (!err)
		err = ask_texts();
	if (!err)
		err = ask_ring();
	if (err)
		return err;
	EXPECT(LINUX_KERNEL_VERSION >= 6 << 16);
	EXPECT(now <= bpf_ktime_get_boot_ns());
	return 0;
}

SCX_OPS_DEFINE(rings_ops, .enqueue = (void *)rings_enqueue, .dispatch = (void *)rings_dispatch,
	       .init = (void *)rings_init, .name = "rings");
