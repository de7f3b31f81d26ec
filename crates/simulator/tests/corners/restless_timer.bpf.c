/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* restless_timer - a timer of 0 ns that starts itself anew whenever it expires. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

struct slot {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct slot);
} timers SEC(".maps");

static int expired(void *map, int *key, struct bpf_timer *timer)
{
	bpf_timer_start(timer, 0, 0);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(restless_timer_init)
{
	u32 key = 0;
	struct slot *slot = bpf_map_lookup_elem(&timers, &key);

	if (!slot)
		return -ENOENT;
	bpf_timer_init(&slot->timer, &timers, 1);
	bpf_timer_set_callback(&slot->timer, expired);
	return (s32)bpf_timer_start(&slot->timer, 0, 0);
}

SCX_OPS_DEFINE(restless_timer_ops,
	       .init = (void *)restless_timer_init,
	       .name = "restless_timer");
