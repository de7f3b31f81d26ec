/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* arena - first in, first out, by pids that it keeps in an arena; and what arenas answer.
 *
 * `init` asks, and ends the policy by an error that names the line of the first answer that is not
 * a kernel's. So a kernel that takes and keeps it has judged the test, too.
 */
#include <scx/common.bpf.h>
#include "expect.bpf.h"

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0
#define __arena __attribute__((address_space(1)))
#define BPF_MAP_TYPE_ARENA 33
#define BPF_F_MMAPABLE (1 << 10)
#define PAGE_BYTES 4096
#define PAGES 64
#define NO_NODE (-1)
#define WAITING 4096

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PAGES);
	/* Where user space has it; libbpf puts variables on its first pages, or its last. */
	enum { USER_BEGIN = (1ull << 44) + (1 << 20) } map_extra;
} arena SEC(".maps");

void __arena *bpf_arena_alloc_pages(void *map, void __arena *address, u32 pages, int node,
				    u64 flags) __ksym;
void bpf_arena_free_pages(void *map, void __arena *address, u32 pages) __ksym;
/* Linux 6.17 */
int bpf_arena_reserve_pages(void *map, void __arena *address, u32 pages) __ksym __weak;
void bpf_preempt_disable(void) __ksym;
void bpf_preempt_enable(void) __ksym;

struct node {
	struct node __arena *next;
	u64 value;
	u8 byte;
	u16 half;
	s32 word;
};

/* They lie in the arena, too. */
u64 __arena number = 7;
struct node __arena *__arena head;
u32 __arena zeros[2000];
s32 __arena waiting[WAITING];
u64 __arena nr_pushed, nr_popped;

/* Nobody may know what stands there. */
#define READ(place) (*(volatile typeof(place) *)&(place))
/* So that no compiler knows what it is. */
#define HIDE(value) asm volatile("" : "+r"(value))

static void __arena *take(void __arena *at, u32 pages)
{
	return bpf_arena_alloc_pages(&arena, at, pages, NO_NODE, 0);
}

static s32 ask_pages(void)
{
	void __arena *begin = (void __arena *)USER_BEGIN, *one = begin + 23 * PAGE_BYTES;
	void __arena *other;

	EXPECT(take(one, 1) == one);
	EXPECT(!take(one, 1));
	EXPECT(!take(begin + 22 * PAGE_BYTES, 2));
	EXPECT(!take(begin + 25 * PAGE_BYTES + 8, 1));
	EXPECT(!take(begin + 25 * PAGE_BYTES, PAGES - 20));
	EXPECT(!take(NULL, PAGES + 1));
	EXPECT(!take(NULL, 0));
	EXPECT(!bpf_arena_alloc_pages(&arena, NULL, 1, NO_NODE, 1));
	other = take(NULL, 2);
	EXPECT(other && other != one && (u64)other >> 32 == USER_BEGIN >> 32);
	bpf_arena_free_pages(&arena, other, 2);
	EXPECT(take(other, 2) == other);
	bpf_arena_free_pages(&arena, other, 2);
	bpf_arena_free_pages(&arena, one, 1);
	EXPECT(take(one, 1) == one);
	bpf_arena_free_pages(&arena, one, 1);
	return 0;
}

/* One that user space sees can have no lock. */
struct bpf_spin_lock lock SEC(".data.lock") __attribute__((aligned(8), visibility("hidden")));

/* Pages may be asked for by who holds a lock. Linux 7.3 translates no program that asks so and
 * otherwise, so `init` does not.
 */
static s32 ask_locked(void)
{
	void __arena *page;

	bpf_spin_lock(&lock);
	page = take(NULL, 1);
	if (page)
		bpf_arena_free_pages(&arena, page, 1);
	bpf_spin_unlock(&lock);
	EXPECT(page);
	return 0;
}

static s32 ask_reserved(void)
{
	void __arena *at = (void __arena *)USER_BEGIN + 28 * PAGE_BYTES;

	if (!bpf_ksym_exists(bpf_arena_reserve_pages))
		return 0;
	EXPECT(take(at, 1) == at);
	EXPECT(bpf_arena_reserve_pages(&arena, at, 2) == -EBUSY);
	bpf_arena_free_pages(&arena, at, 1);
	EXPECT(bpf_arena_reserve_pages(&arena, at, PAGES) == -EINVAL);
	EXPECT(bpf_arena_reserve_pages(&arena, at, 0) == 0);
	EXPECT(bpf_arena_reserve_pages(&arena, at, 2) == 0);
	EXPECT(bpf_arena_reserve_pages(&arena, at, 1) == -EBUSY);
	EXPECT(!take(at + PAGE_BYTES, 1));
	bpf_arena_free_pages(&arena, at, 2);
	EXPECT(take(at, 2) == at);
	bpf_arena_free_pages(&arena, at, 2);
	return 0;
}

static s32 ask_memory(void)
{
	struct node __arena *node = take((void __arena *)USER_BEGIN + 23 * PAGE_BYTES, 1);
	struct node __arena *last;

	EXPECT(node && READ(node->value) == 0);
	node->value = 0x1122334455667788;
	node->byte = 0xff;
	node->half = 0xeeee;
	node->word = -5;
	head = node;
	EXPECT(READ(head) == node && READ(READ(head)->word) == -5);
	EXPECT(READ(node->byte) == 0xff && READ(node->half) == 0xeeee);
	EXPECT(READ(*(u32 __arena *)&node->value) == 0x55667788);
	/* A page ends there. */
	last = node + PAGE_BYTES / sizeof(*node) - 1;
	last->value = 9;
	EXPECT(READ(last->value) == 9);
	bpf_arena_free_pages(&arena, node, 1);
	EXPECT(READ(node->value) == 0 && READ(node->word) == 0);
	node->value = 5;
	EXPECT(READ(node->value) == 0);
	EXPECT(take(node, 1) == node && READ(node->value) == 0 && READ(last->value) == 0);
	bpf_arena_free_pages(&arena, node, 1);
	return 0;
}

static s32 ask_variables(void)
{
	struct node __arena *none = NULL;

	EXPECT(READ(number) == 7 && READ(zeros[0]) == 0 && READ(zeros[1999]) == 0);
	number += 1;
	EXPECT(READ(number) == 8);
	zeros[1999] = 4;
	EXPECT(READ(zeros[1999]) == 4 && READ(zeros[1998]) == 0);
	EXPECT((u64)&number >> 32 == USER_BEGIN >> 32);
	head = NULL;
	EXPECT(!READ(head));
	/* NULL is an address, and no page of the arena is there. */
	HIDE(none);
	EXPECT(READ(none->value) == 0 && READ(none->next) == NULL);
	none->value = 6;
	EXPECT(READ(none->value) == 0);
	none -= 3;
	EXPECT(READ(none->value) == 0);
	return 0;
}

static s32 ask_atomics(void)
{
	struct node __arena *nowhere = (void __arena *)USER_BEGIN + 25 * PAGE_BYTES;
	u64 there = 8;

	EXPECT(READ(number) == there);
	EXPECT(__sync_fetch_and_add(&number, 3) == 8 && READ(number) == 11);
	__sync_fetch_and_or(&number, 4);
	EXPECT(READ(number) == 15);
	EXPECT(__sync_lock_test_and_set(&number, 20) == 15 && READ(number) == 20);
	EXPECT(__sync_val_compare_and_swap(&number, 21, 30) == 20 && READ(number) == 20);
	EXPECT(__sync_val_compare_and_swap(&number, 20, 30) == 20 && READ(number) == 30);
	/* Where no page is, nothing happens. */
	__sync_fetch_and_add(&nowhere->value, 3);
	__sync_val_compare_and_swap(&nowhere->value, 0, 5);
	EXPECT(READ(nowhere->value) == 0);
	return 0;
}

/* For so many tasks that no place is taken twice. */
void BPF_STRUCT_OPS(arena_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 at = __sync_fetch_and_add(&nr_pushed, 1);

	waiting[at % WAITING] = p->pid;
	if (!at)
		ask_locked();
}

void BPF_STRUCT_OPS(arena_dispatch, s32 cpu, struct task_struct *prev)
{
	u64 at = READ(nr_popped);
	s32 pid = READ(waiting[at % WAITING]);
	struct task_struct *p;

	/* Whoever wins has the place for himself. */
	if (pid && __sync_val_compare_and_swap(&nr_popped, at, at + 1) == at) {
		waiting[at % WAITING] = 0;
		p = bpf_task_from_pid(pid);
		if (p) {
			scx_bpf_dsq_insert(p, SHARED_DSQ, 3 * NSEC_PER_MSEC, 0);
			bpf_task_release(p);
		}
	}
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(arena_init)
{
	s32 err = scx_bpf_create_dsq(SHARED_DSQ, -1);

	bpf_preempt_disable();
	bpf_preempt_enable();
	if (!err)
		err = ask_pages();
	if (!err)
		err = ask_reserved();
	if (!err)
		err = ask_memory();
	if (!err)
		err = ask_variables();
	return err ? err : ask_atomics();
}

SCX_OPS_DEFINE(arena_ops, .enqueue = (void *)arena_enqueue, .dispatch = (void *)arena_dispatch,
	       .init = (void *)arena_init, .name = "arena");
