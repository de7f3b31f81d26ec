/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* front_end - one queue; and whether all is there that its front end would have put there.
 *
 * front_end.loader.toml says it in the front end's place. `init` looks for it, and ends the policy
 * by an error that names the line of the first thing that is not there. So a kernel that takes and
 * keeps it has judged the test, too.
 */
#include <scx/common.bpf.h>
#include "expect.bpf.h"

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0
#define CPUS 64
#define __arena __attribute__((address_space(1)))
#define BPF_MAP_TYPE_ARENA 33

enum mode { CALM, EAGER = 7 };

struct config {
	u32 nr_cpus;
	struct {
		bool fair;
		s16 bias;
	};
	enum mode mode;
	char name[8];
	struct {
		u64 slice_ns;
	} times[2];
};

struct order {
	u32 cpu;
	s32 times;
};

/* What a CPU has in the arena. */
struct page {
	u64 before;
	u64 cpus[2];
};

struct page_of {
	u32 cpu;
	u64 page;
};

const volatile u32 nr_llcs;
const volatile u64 slice_ns = 1;
const volatile struct config config;
const volatile u32 llc_of[CPUS];
const volatile u64 everyone[1];
u32 partner[CPUS];
u64 begun = 5;

/* Their loader says how many elements they have. */
const volatile u32 numbers[1] SEC(".rodata.numbers");
u64 squares[1] SEC(".data.squares");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, u32);
	__type(value, struct order);
} sized SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4);
	__type(key, u64);
	__type(value, struct order);
} filled SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} of_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 2);
	__type(value, u32);
} queue SEC(".maps");

/* Their loader makes those inside. */
struct of_one {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 2);
	__type(value, u32);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 4);
	__type(key, u32);
	__array(values, struct of_one);
} queues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, 1 << 10);
	__uint(max_entries, CPUS);
} arena SEC(".maps");

void __arena *bpf_arena_alloc_pages(void *map, void __arena *address, u32 pages, int node,
				    u64 flags) __ksym;

u32 nr_calls, sum, nr_bare, last_cpu, nr_pages;
struct page __arena *last_page;

SEC("syscall")
int add(struct order *given)
{
	nr_calls++;
	sum += given->cpu * given->times;
	return given->times < 0 ? -EINVAL : 0;
}

SEC("syscall")
int bare(void *nothing)
{
	nr_bare++;
	return 0;
}

SEC("syscall")
int make_page(struct page_of *given)
{
	struct page __arena *page = bpf_arena_alloc_pages(&arena, NULL, 1, -1, 0);

	if (!page || given->cpu || given->page)
		return -ENOMEM;
	last_page = page;
	page->before = ++nr_pages;
	given->page = (u64)page;
	return 0;
}

SEC("syscall")
int take_page(struct page_of *given)
{
	struct page __arena *page = (struct page __arena *)given->page;
	void *map = &arena;

	/* A kernel takes a program's arena to be the one that it names. */
	asm volatile("" : "+r"(map));
	if (page->before != given->cpu + 1 || page->cpus[1] != 5)
		return -EINVAL;
	return page->cpus[0] == 1ULL << given->cpu ? 0 : -ENOENT;
}

/* Called when the policy schedules already. */
SEC("syscall")
int look(struct order *given)
{
	if (!given->times)
		scx_bpf_error("it was given no times");
	last_cpu = bpf_get_smp_processor_id();
	return given->cpu == last_cpu ? 0 : -EINVAL;
}

static s32 find_variables(void)
{
	u32 cpu, nr_cpus = scx_bpf_nr_cpu_ids();

	EXPECT(slice_ns == 2 * NSEC_PER_MSEC && begun == 6 && nr_llcs >= 1);
	EXPECT(config.nr_cpus == nr_cpus && config.fair && config.bias == -3);
	EXPECT(config.mode == EAGER && config.name[1] == 'b' && !config.name[2]);
	EXPECT(config.times[0].slice_ns == 0 && config.times[1].slice_ns == 20 * NSEC_PER_USEC);
	EXPECT(everyone[0] == (1ULL << nr_cpus) - 1);
	bpf_for(cpu, 0, nr_cpus) {
		if (cpu >= CPUS)
			break;
		EXPECT(llc_of[cpu] < nr_llcs);
		EXPECT(partner[cpu] == (cpu + 1 < nr_cpus ? cpu + 1 : 0));
	}
	return 0;
}

/* The compiler takes them for arrays of one element, so it must not know what they are. */
static s32 find_arrays(void)
{
	const volatile u32 *number = numbers;
	u64 *square = squares;

	asm volatile("" : "+r"(number), "+r"(square));
	EXPECT(number[0] == 10 && number[1] == 11 && number[2] == 12);
	EXPECT(square[0] == 0 && square[1] == 1 && square[2] == 4);
	return 0;
}

static s32 find_entries(void)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), at = nr_cpus - 1, got;
	struct order *order = bpf_map_lookup_elem(&sized, &at);
	u64 key = 9, *of_cpu;

	EXPECT(order && order->cpu == at && order->times == 2);
	at = nr_cpus;
	EXPECT(!bpf_map_lookup_elem(&sized, &at));
	order = bpf_map_lookup_elem(&filled, &key);
	EXPECT(order && order->cpu == 0 && order->times == -1);
	at = 0;
	of_cpu = bpf_map_lookup_percpu_elem(&of_cpus, &at, nr_cpus - 1);
	EXPECT(of_cpu && *of_cpu == 4);
	at = 1;
	of_cpu = bpf_map_lookup_percpu_elem(&of_cpus, &at, nr_cpus - 1);
	EXPECT(of_cpu && *of_cpu == nr_cpus + 6);
	EXPECT(bpf_map_pop_elem(&queue, &got) == 0 && got == 3);
	EXPECT(bpf_map_pop_elem(&queue, &got) == 0 && got == 4);
	return 0;
}

static s32 find_inner_maps(void)
{
	u32 first = 0, last = 2, none = 3, got = 0;
	void *one = bpf_map_lookup_elem(&queues, &first);
	void *other = bpf_map_lookup_elem(&queues, &last);

	EXPECT(!bpf_map_lookup_elem(&queues, &none));
	EXPECT(one && other);
	EXPECT(bpf_map_push_elem(other, &last, BPF_ANY) == 0);
	EXPECT(bpf_map_pop_elem(one, &got) == -ENOENT);
	EXPECT(bpf_map_pop_elem(other, &got) == 0);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(front_end_init)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids();
	s32 err = scx_bpf_create_dsq(SHARED_DSQ, -1);

	if (!err)
		err = find_variables();
	if (!err)
		err = find_arrays();
	if (!err)
		err = find_entries();
	if (!err)
		err = find_inner_maps();
	if (err)
		return err;
	EXPECT(nr_calls == nr_cpus + 1 && sum == nr_cpus * (nr_cpus - 1) + 21 && nr_bare == 1);
	EXPECT(nr_pages == nr_cpus && last_page);
	return 0;
}

void BPF_STRUCT_OPS(front_end_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags);
}

void BPF_STRUCT_OPS(front_end_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

SCX_OPS_DEFINE(front_end_ops, .enqueue = (void *)front_end_enqueue,
	       .dispatch = (void *)front_end_dispatch, .init = (void *)front_end_init,
	       .name = "front_end");
