/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* cfs_gavl - cfs with each CPU's waiting tasks in a GAVL tree that the policy keeps itself.
 *
 * A GAVL tree is an AVL tree whose nodes tell how much higher their left side is than their right
 * one. Its first and last nodes are remembered, equal vruntimes keep the order in which they came,
 * and the first node is cut off, which is what schedulers do most, without any rotation: the nodes
 * above only note what became lower, until one's height stays. Later insertions, and removals of
 * others, rotate what they meet out of balance, one step each.
 *
 * Guarantee: cfs's, and in detail: it makes the same decisions as cfs where operations on queues
 * cost nothing. An insertion or a removal takes O(log waiting tasks) steps, in practice never more
 * than an AVL tree's height.
 *
 * Ignored or approximated: what cfs ignores, and:
 *  1. Tasks that wait are not in a dispatch queue of the core, but in arrays here, and are given to
 *     the core one by one in dispatch. There may be 32767 tasks.
 *  2. The simulator charges the lock of a tree, but no step in it, while it charges what an
 *     operation on cfs's dispatch queues costs: only on a machine whose operations cost nothing do
 *     the two agree to the nanosecond.
 *  3. When the first is cut off, the library's stored code adds to what the nodes note, where the
 *     left side became lower. The order stays right by that, the balance does not; here it is
 *     subtracted.
 *  4. When a CPU comes or goes the kernel ends the policy, and its loader begins it anew.
 *
 * Source: P. Pisa, GAVL of the library uLUt, 2001 to 2004, and his comparison with CFS's queue and
 * D. Libenzi's time ring, linux-kernel, April 2007; for the rules: see cfs.bpf.c.
 */
#include <scx/waiting_tasks.bpf.h>

char _license[] SEC("license") = "GPL";

/* An AVL tree of 32767 nodes has at most 21 levels. */
#define HEIGHT_MAX 40

enum side { LEFT, RIGHT };

struct gavl_node {
	u32 child[2];
	u32 parent;
	u32 side;  /* on which it hangs below its parent */
	s32 hdiff; /* height of the left subtree less height of the right one */
};

struct gavl_tree {
	u32 root;
	u32 first;
	u32 last;
	/* Where a removal made a subtree lower; here, as the verifier need not follow it. */
	u32 lower_parent;
	u32 lower_side;
};

static struct gavl_node nodes[NODES_MAX];
static struct gavl_tree trees[CPUS_MAX];

static struct gavl_node *node(u32 n)
{
	return &nodes[masked(n, NODES_MAX)];
}

static struct gavl_tree *tree_of(u32 cpu)
{
	return &trees[masked(cpu, CPUS_MAX)];
}

static s32 order_create(u32 cpu)
{
	return 0; /* an empty tree is all zeros */
}

static bool timeline_is_before(u32 cpu, u64 vruntime, u64 first_vruntime)
{
	return vtime_before(vruntime, first_vruntime);
}

/* ---- walking ------------------------------------------------------------------------------- */

static u32 child(u32 n, u32 side)
{
	return node(n)->child[masked(side, 2)];
}

/* Here and in sign_of a side is computed with. A comparison would make the kernel's verifier go
 * through all that follows for each of the two sides, and that again at each level. */
static u32 opposite(u32 side)
{
	return side ^ 1;
}

/* The last node that is reached by always going to that side. */
static u32 outermost(u32 n, u32 side)
{
	u32 below;

	bpf_repeat(HEIGHT_MAX) {
		below = child(n, side);
		if (!below)
			break;
		n = below;
	}
	return n;
}

/* The next node in order on that side. */
static u32 neighbour(u32 n, u32 side)
{
	u32 below = child(n, side), parent;

	if (below)
		return outermost(below, opposite(side));
	bpf_repeat(HEIGHT_MAX) {
		parent = node(n)->parent;
		if (!parent || child(parent, side) != n)
			return parent;
		n = parent;
	}
	return NO_NODE;
}

/* ---- balance ------------------------------------------------------------------------------- */

static s32 sign_of(u32 side)
{
	return 1 - 2 * (s32)side;
}

/* How much higher a node's subtree on that side is than the other one. */
static s32 lean(u32 n, u32 side)
{
	return sign_of(side) * node(n)->hdiff;
}

static void set_lean(u32 n, u32 side, s32 levels)
{
	node(n)->hdiff = sign_of(side) * levels;
}

/* Hangs `n`, which may be none, on that side of `parent`, or makes it the root if that is none. */
static void hang(struct gavl_tree *tree, u32 parent, u32 side, u32 n)
{
	if (parent)
		node(parent)->child[masked(side, 2)] = n;
	else
		tree->root = n;
	if (!n)
		return;
	node(n)->parent = parent;
	node(n)->side = side;
}

/* The child on that side and its parent `n` change places. Right for any difference of heights. */
static void rotate(struct gavl_tree *tree, u32 n, u32 side)
{
	u32 up = child(n, side);
	s32 lean_of_n = lean(n, side), lean_of_up = lean(up, side);

	hang(tree, node(n)->parent, node(n)->side, up);
	hang(tree, n, side, child(up, opposite(side)));
	hang(tree, up, opposite(side), n);
	lean_of_n -= 1 + max(lean_of_up, 0);
	lean_of_up += min(lean_of_n, 0) - 1;
	set_lean(n, side, lean_of_n);
	set_lean(up, side, lean_of_up);
}

/* One step against a lean of two or more; whether the subtree became lower by it. */
static bool straighten(struct gavl_tree *tree, u32 n, u32 side)
{
	u32 below = child(n, side), inner = child(below, opposite(side));
	s32 lean_below = lean(below, side);
	bool inner_leans = lean(inner, opposite(side)) > 0;

	if (lean_below < 0)
		rotate(tree, below, opposite(side));
	/* What was out of balance itself became lower by this, and that is the step. */
	if (lean_below < -1 && inner_leans) {
		set_lean(n, side, lean(n, side) - 1);
		return true;
	}
	rotate(tree, n, side);
	return lean_below != 0;
}

/* The subtree `n` has become a level higher. */
static void note_higher(struct gavl_tree *tree, u32 n)
{
	u32 parent, side;
	s32 before;

	bpf_repeat(HEIGHT_MAX) {
		parent = node(n)->parent;
		side = node(n)->side;
		if (!parent)
			break;
		before = lean(parent, side);
		set_lean(parent, side, before + 1);
		if (before < 0 || (before > 0 && straighten(tree, parent, side)))
			break;
		n = before > 0 ? node(parent)->parent : parent;
	}
}

/* The subtree of `parent` on that side has become a level lower. */
static void note_lower(struct gavl_tree *tree, u32 parent, u32 side, bool straightens)
{
	u32 above, side_above;
	s32 before;

	bpf_repeat(HEIGHT_MAX) {
		if (!parent)
			break;
		above = node(parent)->parent;
		side_above = node(parent)->side;
		before = lean(parent, side);
		set_lean(parent, side, before - 1);
		if (before == 0 ||
		    (before < 0 && !(straightens && straighten(tree, parent, opposite(side)))))
			break;
		parent = above;
		side = side_above;
	}
}

/* ---- the order ----------------------------------------------------------------------------- */

static bool order_insert(u32 cpu, u32 n)
{
	struct gavl_tree *tree = tree_of(cpu);
	u64 vruntime = waiting_of(n)->vruntime;
	u32 at = tree->root, parent = NO_NODE, side = LEFT;
	bool is_first = true, is_last = true;

	bpf_repeat(HEIGHT_MAX) {
		if (!at)
			break;
		parent = at;
		side = vtime_before(vruntime, waiting_of(at)->vruntime) ? LEFT : RIGHT;
		is_first &= side == LEFT;
		is_last &= side == RIGHT;
		at = child(at, side);
	}
	if (at)
		return false;
	node(n)->child[LEFT] = NO_NODE;
	node(n)->child[RIGHT] = NO_NODE;
	node(n)->hdiff = 0;
	hang(tree, parent, side, n);
	if (is_first)
		tree->first = n;
	if (is_last)
		tree->last = n;
	note_higher(tree, n);
	return true;
}

/* Puts the neighbour of `n` from its higher side in the place of `n`. */
static void replace(struct gavl_tree *tree, u32 n)
{
	u32 side = node(n)->hdiff >= 0 ? LEFT : RIGHT;
	u32 by = outermost(child(n, side), opposite(side)), parent = node(by)->parent;

	tree->lower_parent = parent == n ? by : parent;
	tree->lower_side = node(by)->side;
	hang(tree, parent, node(by)->side, child(by, side));
	hang(tree, node(n)->parent, node(n)->side, by);
	hang(tree, by, LEFT, child(n, LEFT));
	hang(tree, by, RIGHT, child(n, RIGHT));
	node(by)->hdiff = node(n)->hdiff;
}

/* Puts the only child of `n`, if it has one, in the place of `n`. */
static void lift_child(struct gavl_tree *tree, u32 n)
{
	u32 left = child(n, LEFT);

	tree->lower_parent = node(n)->parent;
	tree->lower_side = node(n)->side;
	hang(tree, node(n)->parent, node(n)->side, left ? left : child(n, RIGHT));
}

/* Cutting off the first rotates nothing: what hangs on its right takes its place. */
static void order_remove(u32 cpu, u32 n)
{
	struct gavl_tree *tree = tree_of(cpu);
	bool straightens = n != tree->first;

	if (n == tree->first)
		tree->first = neighbour(n, RIGHT);
	if (n == tree->last)
		tree->last = neighbour(n, LEFT);
	if (child(n, LEFT) && child(n, RIGHT))
		replace(tree, n);
	else
		lift_child(tree, n);
	note_lower(tree, tree->lower_parent, tree->lower_side, straightens);
}

static u32 order_first(u32 cpu)
{
	return tree_of(cpu)->first;
}

static u32 order_last(u32 cpu)
{
	return tree_of(cpu)->last;
}

static u32 order_next(u32 cpu, u32 n)
{
	return neighbour(n, RIGHT);
}

SCX_OPS_DEFINE(cfs_gavl_ops, WAITING_TASKS_OPS, .name = "cfs_gavl");
