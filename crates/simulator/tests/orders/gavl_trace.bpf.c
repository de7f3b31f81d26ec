/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* gavl_trace - cfs_gavl's tree goes through a random trace beside a sorted list, in `init`.
 *
 * After each step the tree must have the list's order, and every node must know how much higher
 * its left side is; a difference is an error that names the step.
 *
 * Source: own; the tree is cfs_gavl's, included as it is.
 */
#include <scx/common.bpf.h>

/* The policy's own operations are left out. */
#pragma push_macro("SCX_OPS_DEFINE")
#undef SCX_OPS_DEFINE
#define SCX_OPS_DEFINE(name, ...) extern int name
#include "../../../../policies/cfs_gavl.bpf.c"
#pragma pop_macro("SCX_OPS_DEFINE")

/* What the trace does. */
enum pattern {
	MIXED, /* insertions, cuts of the first and removals of any */
	HOLD,  /* the first is cut and comes again later, as a scheduler does */
	STORM, /* some are cut and come again with the least keys, as sleepers do */
	DRAIN, /* all come, then all are cut */
	PATTERNS,
};

/* One of the patterns above. */
const volatile u64 pattern = MIXED;
/* Starts the random numbers. */
const volatile u64 trace_seed = 1;
/* How many nodes there are at most. */
const volatile u64 nodes_most = 200;
/* How many different vruntimes there are. */
const volatile u64 keys = 1000000;
/* How many steps there are. */
const volatile u64 steps = 20000;

#define MODEL_MAX 4096

static u32 model[MODEL_MAX];
static u32 nr_model, nr_spare, spare[MODEL_MAX];
static u64 random_state, step, latest;
/* How much higher the tree ever was than an AVL tree of as many nodes may be. */
s32 levels_over = -100;

static u64 random_below(u64 limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % limit;
}

/* ---- the list beside it -------------------------------------------------------------------- */

static void add(u64 vruntime)
{
	u32 n = spare[--nr_spare], at = nr_model++;

	waiting_of(n)->vruntime = vruntime;
	for (; at && waiting_of(model[at - 1])->vruntime > vruntime; at--)
		model[at] = model[at - 1];
	model[at] = n;
	if (!order_insert(0, n))
		scx_bpf_error("step %llu: no place", step);
}

static void take(u32 at)
{
	u32 n = model[at];

	order_remove(0, n);
	spare[nr_spare++] = n;
	for (nr_model--; at < nr_model; at++)
		model[at] = model[at + 1];
}

/* ---- what must hold ------------------------------------------------------------------------ */

/* The height of a subtree; an error if a node has a wrong parent or difference. */
static s32 height(u32 n, u32 parent)
{
	s32 left, right;

	if (!n)
		return 0;
	left = height(child(n, LEFT), n);
	right = height(child(n, RIGHT), n);
	if (node(n)->parent != parent || node(n)->hdiff != left - right)
		scx_bpf_error("step %llu: node %u has parent %u and hdiff %d, not %u and %d", step,
			      n, node(n)->parent, node(n)->hdiff, parent, left - right);
	return 1 + max(left, right);
}

/* Levels of the highest AVL tree of `nr` nodes: one with h levels has at least as many nodes as
 * the ones with h - 1 and h - 2 levels together, and one more. */
static s32 avl_levels(u32 nr)
{
	u32 least = 1, least_before = 0, next;
	s32 levels = 0;

	while (least <= nr) {
		next = least + least_before + 1;
		least_before = least;
		least = next;
		levels++;
	}
	return levels;
}

static void check(void)
{
	u32 n = order_first(0), i;

	for (i = 0; i < nr_model; i++, n = order_next(0, n)) {
		if (n != model[i])
			scx_bpf_error("step %llu: node %u is number %u, not %u", step, n, i,
				      model[i]);
	}
	if (n != NO_NODE || order_last(0) != (nr_model ? model[nr_model - 1] : NO_NODE))
		scx_bpf_error("step %llu: after %u nodes comes %u, the last is %u", step, nr_model,
			      n, order_last(0));
	levels_over = max(levels_over, height(trees[0].root, NO_NODE) - avl_levels(nr_model));
}

/* ---- the trace ----------------------------------------------------------------------------- */

static void mixed(void)
{
	u64 what = random_below(10);

	if (what < 5 && nr_spare)
		add(random_below(keys));
	else if (what < 8 && nr_model)
		take(0);
	else if (nr_model)
		take(random_below(nr_model));
}

static void hold(void)
{
	latest = waiting_of(model[0])->vruntime;
	take(0);
	add(latest + 1 + random_below(keys));
}

static void storm(void)
{
	u32 i, nr = 1 + random_below(nr_model - 1);

	for (i = 0; i < nr; i++)
		take(0);
	for (i = 0; i < nr; i++)
		add(random_below(keys));
}

static void drain(void)
{
	if (!nr_model) {
		while (nr_spare)
			add(random_below(keys));
	}
	take(0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(gavl_trace_init)
{
	void (*const patterns[PATTERNS])(void) = {mixed, hold, storm, drain};
	u32 n;

	if (!tunable_is_within(pattern, 0, PATTERNS - 1) || !tunable_is_within(keys, 1, ~0ULL) ||
	    !tunable_is_within(nodes_most, 2, MODEL_MAX))
		return -EINVAL;
	random_state = trace_seed * 0x9e3779b97f4a7c15 + 1;
	for (n = 1; n <= nodes_most; n++)
		spare[nr_spare++] = n;
	while ((pattern == HOLD || pattern == STORM) && nr_spare)
		add(random_below(keys));
	for (step = 0; step < steps; step++) {
		patterns[pattern]();
		check();
	}
	scx_bpf_error("done, at most %d levels over AVL", levels_over);
	return 0;
}

SCX_OPS_DEFINE(gavl_trace_ops, .init = (void *)gavl_trace_init, .name = "gavl_trace");
