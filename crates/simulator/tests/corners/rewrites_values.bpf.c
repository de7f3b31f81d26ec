/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* rewrites_values - updates a map's value while its timer and lock are in use. A kernel's update
 * leaves both as they are, whatever the new value has in their places. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

/* Expiries after which the policy says good-bye. */
const volatile u32 nr_expiries_max = 5;

struct slot {
	struct bpf_timer timer;
	struct bpf_spin_lock lock;
	u32 nr_expiries;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

static int expired(void *map, int *key, struct bpf_timer *timer)
{
	struct slot *slot = bpf_map_lookup_elem(&slots, key), value;
	u32 nr_expiries;

	if (!slot)
		return 0;
	bpf_spin_lock(&slot->lock);
	nr_expiries = ++slot->nr_expiries;
	bpf_spin_unlock(&slot->lock);
	if (nr_expiries == nr_expiries_max)
		scx_bpf_exit(nr_expiries, "slot %d expired", *key);
	/* 0, 1 and a number that nothing has, in turn. */
	__builtin_memset(&value, nr_expiries % 3 == 2 ? 0x55 : 0, sizeof(value));
	*(u64 *)&value.timer += nr_expiries % 3 == 1;
	*(u32 *)&value.lock += nr_expiries % 3 == 1;
	value.nr_expiries = nr_expiries;
	bpf_map_update_elem(&slots, key, &value, BPF_ANY);
	if (bpf_timer_init(timer, &slots, 1) != -EBUSY)
		scx_bpf_error("the timer of slot %d was lost", *key);
	bpf_timer_start(timer, NSEC_PER_MSEC, 0);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(rewrites_values_init)
{
	u32 key = 1;
	struct slot *slot = bpf_map_lookup_elem(&slots, &key);

	if (!slot)
		return -ENOENT;
	bpf_timer_init(&slot->timer, &slots, 1);
	bpf_timer_set_callback(&slot->timer, expired);
	return (s32)bpf_timer_start(&slot->timer, NSEC_PER_MSEC, 0);
}

SCX_OPS_DEFINE(rewrites_values_ops,
	       .init = (void *)rewrites_values_init,
	       .name = "rewrites_values");
