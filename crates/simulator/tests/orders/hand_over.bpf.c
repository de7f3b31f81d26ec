/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hand_over - who may touch the node of a waiting task, in `init`, as if several CPUs were at it.
 *
 * The simulator never takes a waiting task back, and lets nobody in between two steps of an
 * operation; a kernel does both. Here those steps come in the orders that a kernel allows.
 *
 * Source: own; the functions are those of scx/waiting_tasks.bpf.h.
 */
#include <scx/common.bpf.h>

/* The policy's own operations are left out. */
#pragma push_macro("SCX_OPS_DEFINE")
#undef SCX_OPS_DEFINE
#define SCX_OPS_DEFINE(name, ...) extern int name
#include "../../../../policies/cfs_gavl.bpf.c"
#pragma pop_macro("SCX_OPS_DEFINE")

#define NOWHERE (-1)

static struct cfs_task task = {.vruntime = 5, .weight = NICE_0_WEIGHT};

/* Whether the task is in the tree of that CPU, and in no other. */
static void expect_on(s32 expected, const char *when)
{
	u32 place = waiting_of(task.number)->place;
	s32 cpu;

	for (cpu = 0; cpu < 3; cpu++) {
		if (order_first(cpu) != (cpu == expected ? task.number : NO_NODE))
			scx_bpf_error("%s: CPU %d has node %u first", when, cpu, order_first(cpu));
	}
	if (place != (u32)(expected + 1))
		scx_bpf_error("%s: the place is %u, not %d", when, place, expected + 1);
}

static void is_taken_back_once(void)
{
	put_in(0, &task, PLACE_NONE);
	expect_on(0, "put in");
	if (take_out(1, task.number, PLACE_NONE))
		scx_bpf_error("taken out of a tree that it is not in");
	take_back(task.number);
	expect_on(NOWHERE, "taken back");
	take_back(task.number);
	expect_on(NOWHERE, "taken back again");
}

static void moves(void)
{
	put_in(0, &task, PLACE_NONE);
	if (!take_out(0, task.number, PLACE_MOVING))
		scx_bpf_error("not taken out");
	put_in(1, &task, PLACE_MOVING);
	expect_on(1, "moved");
	take_back(task.number);
}

/* The core takes it back and queues it elsewhere while CPU 2 pulls it from CPU 0. */
static void is_taken_back_on_its_way(void)
{
	put_in(0, &task, PLACE_NONE);
	take_out(0, task.number, PLACE_MOVING);
	take_back(task.number);
	put_in(2, &task, PLACE_MOVING);
	expect_on(NOWHERE, "taken back on its way");
	put_in(0, &task, PLACE_NONE);
	take_out(0, task.number, PLACE_MOVING);
	take_back(task.number);
	put_in(1, &task, PLACE_NONE);
	put_in(2, &task, PLACE_MOVING);
	expect_on(1, "queued elsewhere on its way");
	take_back(task.number);
}

/* A dispatch takes it in vain: it is already queued again, and is queued once more later. */
static void is_queued_twice(void)
{
	put_in(0, &task, PLACE_NONE);
	task.cpu = 1;
	timeline_add(NULL, &task, 0);
	expect_on(1, "queued twice");
	take_back(task.number);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(hand_over_init)
{
	if (timeline_meet(&task, 7))
		return -ENOMEM;
	is_taken_back_once();
	moves();
	is_taken_back_on_its_way();
	is_queued_twice();
	return 0;
}

SCX_OPS_DEFINE(hand_over_ops, .init = (void *)hand_over_init, .name = "hand_over");
