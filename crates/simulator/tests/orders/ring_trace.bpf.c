/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* ring_trace - timering's ring goes through a random trace beside a list sorted by slots.
 *
 * Which slot a task gets is said here without a ring: its own, or as near to it as the slots that
 * are taken allow when all must be within `slots` of each other.
 *
 * Source: own; the ring is timering's, included as it is.
 */
#include <scx/common.bpf.h>

/* The policy's own operations are left out. */
#pragma push_macro("SCX_OPS_DEFINE")
#undef SCX_OPS_DEFINE
#define SCX_OPS_DEFINE(name, ...) extern int name
#include "../../../../policies/timering.bpf.c"
#pragma pop_macro("SCX_OPS_DEFINE")

#include "trace.h"

/* How often a task did not get its own slot. */
static u64 nr_early, nr_late;

static u64 rank_of(u32 n)
{
	u64 slot = waiting_of(n)->vruntime / granularity_ns, lowest, highest;

	if (!nr_model)
		return slot;
	lowest = ranks[model[0]];
	highest = ranks[model[nr_model - 1]];
	if (slot >= lowest + slots) {
		nr_early++;
		return lowest + slots - 1;
	}
	if (slot + slots <= highest) {
		nr_late++;
		return highest + 1 - slots;
	}
	return slot;
}

/* A bit is set for each slot that somebody is in, and for no other. */
static void check_structure(void)
{
	u64 expected[WORDS_MAX] = {}, slot;
	u32 i;

	for (i = 0; i < nr_model; i++) {
		slot = ranks[model[i]] % slots;
		expected[slot / 64] |= 1ULL << (slot % 64);
	}
	for (i = 0; i < WORDS_MAX; i++) {
		if (rings[0].occupied[i] != expected[i])
			scx_bpf_error("step %llu: bits %#llx, not %#llx", step,
				      rings[0].occupied[i], expected[i]);
	}
}

static void report(void)
{
	scx_bpf_error("done, %llu early and %llu late", nr_early, nr_late);
}

SCX_OPS_DEFINE(trace_ops, .init = (void *)trace_init, .name = "ring_trace");
