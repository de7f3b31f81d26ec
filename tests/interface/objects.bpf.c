/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* objects - first in, first out; and what objects of its own, lists and trees of them answer.
 *
 * As in maps.bpf.c, `init` asks, and ends the policy by an error that names the line of the first
 * answer that is not a kernel's. The headers do not declare what is asked here.
 */
#include <scx/common.bpf.h>
#include "expect.bpf.h"

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0
#define NODES 7
#define object_of(address, type, member)                                                           \
	((type *)((void *)(address) - __builtin_offsetof(type, member)))

struct bpf_list_head {
	u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_list_node {
	u64 opaque[3];
} __attribute__((aligned(8)));

struct bpf_rb_root {
	u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_rb_node {
	u64 opaque[4];
} __attribute__((aligned(8)));

struct bpf_refcount {
	u32 opaque[1];
} __attribute__((aligned(4)));

extern void *bpf_obj_new_impl(u64 type, void *meta) __ksym;
extern void bpf_obj_drop_impl(void *object, void *meta) __ksym;
extern void *bpf_refcount_acquire_impl(void *object, void *meta) __ksym;
extern int bpf_list_push_front_impl(struct bpf_list_head *head, struct bpf_list_node *node,
				    void *meta, u64 offset) __ksym;
extern int bpf_list_push_back_impl(struct bpf_list_head *head, struct bpf_list_node *node,
				   void *meta, u64 offset) __ksym;
extern struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *head) __ksym;
extern struct bpf_list_node *bpf_list_pop_back(struct bpf_list_head *head) __ksym;
extern struct bpf_list_node *bpf_list_front(struct bpf_list_head *head) __ksym __weak;
extern struct bpf_list_node *bpf_list_back(struct bpf_list_head *head) __ksym __weak;
extern int bpf_list_add(struct bpf_list_head *head, struct bpf_list_node *node,
			struct bpf_list_node *before) __ksym __weak;
extern struct bpf_list_node *bpf_list_del(struct bpf_list_head *head,
					  struct bpf_list_node *node) __ksym __weak;
extern bool bpf_list_is_first(struct bpf_list_head *head, struct bpf_list_node *node) __ksym __weak;
extern bool bpf_list_is_last(struct bpf_list_head *head, struct bpf_list_node *node) __ksym __weak;
extern bool bpf_list_empty(struct bpf_list_head *head) __ksym __weak;
extern int bpf_rbtree_add_impl(struct bpf_rb_root *root, struct bpf_rb_node *node,
			       bool(less)(struct bpf_rb_node *a, const struct bpf_rb_node *b),
			       void *meta, u64 offset) __ksym;
extern struct bpf_rb_node *bpf_rbtree_remove(struct bpf_rb_root *root,
					     struct bpf_rb_node *node) __ksym;
extern struct bpf_rb_node *bpf_rbtree_first(struct bpf_rb_root *root) __ksym;

struct item {
	u64 number;
	struct bpf_list_node in_list;
	struct bpf_rb_node in_tree;
	struct bpf_refcount holders;
};

/* What is in a map's value as long as nobody else has it. */
struct slot {
	struct item __kptr *item;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

private(A) struct bpf_spin_lock list_lock;
private(A) struct bpf_list_head list __contains(item, in_list);
private(B) struct bpf_spin_lock tree_lock;
private(B) struct bpf_rb_root tree __contains(item, in_tree);

static struct item *new_item(u64 number)
{
	struct item *item = bpf_obj_new_impl(__builtin_btf_type_id(*(struct item *)0, 0), NULL);

	if (item)
		item->number = number;
	return item;
}

static bool is_less(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	return object_of(a, struct item, in_tree)->number <
	       object_of(b, struct item, in_tree)->number;
}

/* The number of an item that is given back, or -1. */
static s64 number_of(struct item *item)
{
	s64 number = item ? item->number : -1;

	if (item)
		bpf_obj_drop_impl(item, NULL);
	return number;
}

static s64 pop(bool from_front)
{
	struct bpf_list_node *node;

	bpf_spin_lock(&list_lock);
	node = from_front ? bpf_list_pop_front(&list) : bpf_list_pop_back(&list);
	bpf_spin_unlock(&list_lock);
	return node ? number_of(object_of(node, struct item, in_list)) : -1;
}

static s32 ask_list(void)
{
	struct item *item;
	u32 number;

	EXPECT(pop(true) == -1 && pop(false) == -1);
	bpf_for(number, 0, NODES) {
		item = new_item(number);
		if (!item)
			return -ENOMEM;
		bpf_spin_lock(&list_lock);
		if (number % 2)
			bpf_list_push_back_impl(&list, &item->in_list, NULL, 0);
		else
			bpf_list_push_front_impl(&list, &item->in_list, NULL, 0);
		bpf_spin_unlock(&list_lock);
	}
	/* 6 4 2 0 1 3 5 */
	EXPECT(pop(true) == 6 && pop(false) == 5 && pop(false) == 3 && pop(true) == 4);
	EXPECT(pop(true) == 2 && pop(true) == 0 && pop(true) == 1 && pop(true) == -1);
	return 0;
}

/* Adds an item behind the first or last one, or else as the only one. */
static s32 add_behind(u64 number, bool is_first)
{
	struct item *item = new_item(number);
	struct bpf_list_node *before;
	s32 err;

	if (!item)
		return -ENOMEM;
	bpf_spin_lock(&list_lock);
	before = is_first ? bpf_list_front(&list) : bpf_list_back(&list);
	if (before)
		err = bpf_list_add(&list, &item->in_list, before);
	else
		err = bpf_list_push_back_impl(&list, &item->in_list, NULL, 0);
	bpf_spin_unlock(&list_lock);
	return err;
}

/* What the list says of its first and last one, as bits; 0 if there is none. */
static u32 ends_of_list(void)
{
	struct bpf_list_node *first, *last;
	u32 bits = 0;

	bpf_spin_lock(&list_lock);
	first = bpf_list_front(&list);
	last = bpf_list_back(&list);
	if (first && last) {
		bits |= bpf_list_is_first(&list, first) ? 1 : 0;
		bits |= bpf_list_is_last(&list, first) ? 2 : 0;
		bits |= bpf_list_is_first(&list, last) ? 4 : 0;
		bits |= bpf_list_is_last(&list, last) ? 8 : 0;
	}
	bits |= bpf_list_empty(&list) ? 16 : 0;
	bpf_spin_unlock(&list_lock);
	return bits;
}

/* The number of the last item, which is taken out by its node. */
static s64 delete_last(void)
{
	struct bpf_list_node *node;

	bpf_spin_lock(&list_lock);
	node = bpf_list_back(&list);
	if (node)
		node = bpf_list_del(&list, node);
	bpf_spin_unlock(&list_lock);
	return node ? number_of(object_of(node, struct item, in_list)) : -1;
}

static s32 ask_midst_of_list(void)
{
	if (!bpf_ksym_exists(bpf_list_add))
		return 0;
	EXPECT(ends_of_list() == 16 && delete_last() == -1);
	EXPECT(add_behind(0, true) == 0 && ends_of_list() == 15);
	EXPECT(add_behind(1, true) == 0 && add_behind(2, true) == 0 && add_behind(3, false) == 0);
	/* 0 2 1 3 */
	EXPECT(ends_of_list() == 9 && delete_last() == 3 && pop(true) == 0 && pop(true) == 2);
	EXPECT(ends_of_list() == 15 && delete_last() == 1 && ends_of_list() == 16);
	return 0;
}

/* The least number of the tree, which is taken out. */
static s64 take_first(void)
{
	struct bpf_rb_node *node;

	bpf_spin_lock(&tree_lock);
	node = bpf_rbtree_first(&tree);
	if (!node) {
		bpf_spin_unlock(&tree_lock);
		return -1;
	}
	node = bpf_rbtree_remove(&tree, node);
	bpf_spin_unlock(&tree_lock);
	return node ? number_of(object_of(node, struct item, in_tree)) : -2;
}

static s32 ask_tree(void)
{
	struct item *item;
	u32 number;

	EXPECT(take_first() == -1);
	bpf_for(number, 0, NODES) {
		s32 err;

		item = new_item(number * 3 % NODES);
		if (!item)
			return -ENOMEM;
		bpf_spin_lock(&tree_lock);
		err = bpf_rbtree_add_impl(&tree, &item->in_tree, is_less, NULL, 0);
		bpf_spin_unlock(&tree_lock);
		EXPECT(err == 0);
	}
	bpf_for(number, 0, NODES)
		EXPECT(take_first() == number);
	EXPECT(take_first() == -1);
	return 0;
}

/* One item in the tree, in the list and in a slot; each holds it. */
static s32 ask_holders(void)
{
	struct item *item = new_item(40), *second, *third;
	struct slot *slot;
	u32 key = 0;

	if (!item)
		return -ENOMEM;
	second = bpf_refcount_acquire_impl(item, NULL);
	third = bpf_refcount_acquire_impl(item, NULL);
	bpf_spin_lock(&tree_lock);
	bpf_rbtree_add_impl(&tree, &item->in_tree, is_less, NULL, 0);
	bpf_spin_unlock(&tree_lock);
	bpf_spin_lock(&list_lock);
	bpf_list_push_back_impl(&list, &second->in_list, NULL, 0);
	bpf_spin_unlock(&list_lock);
	third->number = 41;
	slot = bpf_map_lookup_elem(&slots, &key);
	if (!slot) {
		bpf_obj_drop_impl(third, NULL);
		return -ENOENT;
	}
	third = bpf_kptr_xchg(&slot->item, third);
	if (third) {
		bpf_obj_drop_impl(third, NULL);
		return -EINVAL;
	}
	EXPECT(take_first() == 41 && pop(true) == 41 && pop(true) == -1);
	third = bpf_kptr_xchg(&slot->item, NULL);
	EXPECT(number_of(third) == 41);
	third = bpf_kptr_xchg(&slot->item, NULL);
	EXPECT(number_of(third) == -1);
	return 0;
}

void BPF_STRUCT_OPS(objects_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED_DSQ, 3 * NSEC_PER_MSEC, enq_flags);
}

void BPF_STRUCT_OPS(objects_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

/* Memory of the policy's own, which a call takes for a mask. */
static u64 some_cpus[132];

static int ask_mask(void)
{
	struct bpf_cpumask *mask = (struct bpf_cpumask *)some_cpus;

	bpf_cpumask_set_cpu(0, mask);
	EXPECT(some_cpus[0] == 1 && bpf_cpumask_test_cpu(0, (struct cpumask *)mask));
	EXPECT(bpf_cpumask_weight((struct cpumask *)mask) == 1);
	bpf_cpumask_clear(mask);
	EXPECT(some_cpus[0] == 0 && bpf_cpumask_empty((struct cpumask *)mask));
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(objects_init)
{
	s32 err = scx_bpf_create_dsq(SHARED_DSQ, -1);

	if (!err)
		err = ask_list();
	if (!err)
		err = ask_midst_of_list();
	if (!err)
		err = ask_tree();
	if (!err)
		err = ask_mask();
	return err ? err : ask_holders();
}

SCX_OPS_DEFINE(objects_ops, .enqueue = (void *)objects_enqueue,
	       .dispatch = (void *)objects_dispatch, .init = (void *)objects_init,
	       .name = "objects");
