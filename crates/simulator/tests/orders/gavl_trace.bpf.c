/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* gavl_trace - cfs_gavl's tree goes through a random trace beside a sorted list.
 *
 * Every node must know how much higher its left side is, too.
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

#include "trace.h"

/* How much higher the tree ever was than an AVL tree of as many nodes may be. */
static s32 levels_over = -100;

static u64 rank_of(u32 n)
{
	return waiting_of(n)->vruntime;
}

static u32 found[MODEL_MAX];
static s32 heights[MODEL_MAX + 1];

/* The height of the tree; an error if a node has a wrong parent, side or difference. Parents are
 * found before their children, so that heights come in the other order. */
static s32 height(u32 root)
{
	u32 nr = 0, at, side;

	if (root)
		found[nr++] = root;
	for (at = 0; at < nr; at++) {
		for (side = LEFT; side <= RIGHT; side++) {
			u32 n = child(found[at], side);

			if (!n)
				continue;
			if (node(n)->side != side || node(n)->parent != found[at])
				scx_bpf_error("step %llu: node %u hangs on side %u of %u, not %u",
					      step, n, node(n)->side, node(n)->parent, side);
			if (nr == MODEL_MAX)
				return -1;
			found[nr++] = n;
		}
	}
	while (nr) {
		u32 n = found[--nr];
		s32 left = heights[child(n, LEFT)], right = heights[child(n, RIGHT)];

		if (node(n)->hdiff != left - right)
			scx_bpf_error("step %llu: node %u has hdiff %d, not %d", step, n,
				      node(n)->hdiff, left - right);
		heights[n] = 1 + max(left, right);
	}
	return root ? heights[root] : 0;
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

static void check_structure(void)
{
	levels_over = max(levels_over, height(trees[0].root) - avl_levels(nr_model));
}

static void report(void)
{
	scx_bpf_error("done, at most %d levels over AVL", levels_over);
}

SCX_OPS_DEFINE(trace_ops, .init = (void *)trace_init, .name = "gavl_trace");
