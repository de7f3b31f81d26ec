/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How long turns are: what main.bpf.c is joined with. */
#include <scx/common.bpf.h>
#include <turns.h>

char _license[] SEC("license") = "GPL";

const volatile u64 scale = 7;

u64 turn_ns(u32 times)
{
	return times * TURN_NS * scale;
}
