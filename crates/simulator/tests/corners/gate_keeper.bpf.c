/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* gate_keeper - tasks wait before a gate that a timer opens every millisecond; only then do they
 * join the queue from which CPUs take them. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define GATE_DSQ 1
#define READY_DSQ 2

struct slot {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct slot);
} timers SEC(".maps");

/* Counts pairs of tasks, one of either queue, by a walk within a walk. */
static void check_pairs(void)
{
	s32 nr_pairs = scx_bpf_dsq_nr_queued(GATE_DSQ) * scx_bpf_dsq_nr_queued(READY_DSQ);
	struct task_struct *p, *q;

	bpf_for_each(scx_dsq, p, GATE_DSQ, 0) {
		bpf_for_each(scx_dsq, q, READY_DSQ, 0) {
			nr_pairs -= p != q;
		}
	}
	if (nr_pairs)
		scx_bpf_error("%d pairs of tasks were not seen", nr_pairs);
}

static int expired(void *map, int *key, struct bpf_timer *timer)
{
	struct task_struct *p;

	check_pairs();
	bpf_for_each(scx_dsq, p, GATE_DSQ, 0) {
		if (!scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, READY_DSQ, 0))
			scx_bpf_error("%s cannot pass the gate", p->comm);
	}
	check_pairs();
	scx_bpf_kick_cpu((s32)bpf_get_smp_processor_id(), SCX_KICK_IDLE);
	bpf_timer_start(timer, NSEC_PER_MSEC, 0);
	return 0;
}

s32 BPF_STRUCT_OPS(gate_keeper_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void BPF_STRUCT_OPS(gate_keeper_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, GATE_DSQ, SCX_SLICE_DFL, 0);
}

void BPF_STRUCT_OPS(gate_keeper_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(READY_DSQ);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(gate_keeper_init)
{
	u32 key = 0;
	struct slot *slot = bpf_map_lookup_elem(&timers, &key);
	s32 result = scx_bpf_create_dsq(GATE_DSQ, -1);

	if (!result)
		result = scx_bpf_create_dsq(READY_DSQ, -1);
	if (result || !slot)
		return -ENOENT;
	/* One queue a node, neither of which has this number. */
	if (scx_bpf_dsq_nr_queued(SCX_DSQ_GLOBAL) != -ENOENT ||
	    scx_bpf_dsq_nr_queued(SCX_DSQ_INVALID) != -ENOENT)
		return -EINVAL;
	if (scx_bpf_create_dsq(READY_DSQ, -1) != -EEXIST)
		return -EINVAL;
	bpf_timer_init(&slot->timer, &timers, 1);
	bpf_timer_set_callback(&slot->timer, expired);
	return (s32)bpf_timer_start(&slot->timer, NSEC_PER_MSEC, 0);
}

SCX_OPS_DEFINE(gate_keeper_ops,
	       .select_cpu = (void *)gate_keeper_select_cpu,
	       .enqueue = (void *)gate_keeper_enqueue,
	       .dispatch = (void *)gate_keeper_dispatch,
	       .init = (void *)gate_keeper_init,
	       .name = "gate_keeper");
