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

/* The height of a subtree; an error if a node has a wrong parent, side or difference. */
static s32 height(u32 n, u32 parent, u32 side)
{
	s32 left, right;

	if (!n)
		return 0;
	left = height(child(n, LEFT), n, LEFT);
	right = height(child(n, RIGHT), n, RIGHT);
	if (parent && node(n)->side != side)
		scx_bpf_error("step %llu: node %u hangs on side %u, not %u", step, n, node(n)->side,
			      side);
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

static void check_structure(void)
{
	levels_over = max(levels_over, height(trees[0].root, NO_NODE, LEFT) - avl_levels(nr_model));
}

static void report(void)
{
	scx_bpf_error("done, at most %d levels over AVL", levels_over);
}

SCX_OPS_DEFINE(trace_ops, .init = (void *)trace_init, .name = "gavl_trace");
