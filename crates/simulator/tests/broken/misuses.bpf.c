/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* misuses - uses the interface in one wrong way, chosen by `fault`. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 7

/* Which fault; see the cases below. */
const volatile u32 fault = 0;
/* Tasks that are scheduled rightly before the fault. */
const volatile u32 after = 5;

static u32 nr_enqueued;
static struct bpf_spin_lock never_taken;

enum {
	INSERTS_TWICE = 1,
	BAD_CPU = 2,
	CPU_NOT_ALLOWED = 3,
	BAD_QUEUE = 4,
	VTIME_INTO_LOCAL = 5,
	MIXED_ORDERS = 6,
	OVERFLOWS_BUFFER = 7,
	CALLS_ERROR = 8,
	INIT_FAILS = 9,
	INIT_TASK_FAILS = 10,
	SELECTS_BAD_CPU = 11,
	INSERTS_OUTSIDE = 12,
	MOVES_OUTSIDE = 13,
	KICKS_BAD_CPU = 14,
	ANOTHER_TASK = 15,
	UNLOCKS_UNTAKEN = 16,
	CREATES_TOO_MANY = 17,
	MOVES_BY_WALK_OUTSIDE = 18,
	MOVES_INTO_OTHER_ORDER = 19,
	COUNTS_BAD_CPU = 20,
	CREATES_ON_NO_NODE = 21,
};

static bool due(u32 which)
{
	return fault == which && nr_enqueued > after;
}

s32 BPF_STRUCT_OPS(misuses_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return due(SELECTS_BAD_CPU) ? -22 : prev_cpu;
}

static u64 bad_target(const struct task_struct *p)
{
	s32 cpu;

	if (due(BAD_CPU))
		return SCX_DSQ_LOCAL_ON | 9999;
	if (due(BAD_QUEUE))
		return 12345;
	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids())
		if (due(CPU_NOT_ALLOWED) && !bpf_cpumask_test_cpu((u32)cpu, p->cpus_ptr))
			return SCX_DSQ_LOCAL_ON | (u32)cpu;
	return SHARED_DSQ;
}

/* The queue is in order of arrival, so this is wrong in `dispatch`, too. */
static void move_first_by_vtime(void)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, SHARED_DSQ, 0) {
		scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, SHARED_DSQ, 0);
		break;
	}
}

void BPF_STRUCT_OPS(misuses_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_struct *other;

	nr_enqueued++;
	if (due(CALLS_ERROR)) {
		scx_bpf_error("task %d came %u times", p->pid, nr_enqueued);
		return;
	}
	if (due(VTIME_INTO_LOCAL)) {
		scx_bpf_dsq_insert_vtime(p, SCX_DSQ_LOCAL, NSEC_PER_MSEC, 1, enq_flags);
		return;
	}
	if (due(MIXED_ORDERS) && scx_bpf_dsq_nr_queued(SHARED_DSQ) > 0) {
		scx_bpf_dsq_insert_vtime(p, SHARED_DSQ, NSEC_PER_MSEC, 1, enq_flags);
		return;
	}
	if (due(ANOTHER_TASK)) {
		other = bpf_task_from_pid(p->pid == 1 ? 2 : 1);
		if (other) {
			scx_bpf_dsq_insert(other, SHARED_DSQ, NSEC_PER_MSEC, enq_flags);
			bpf_task_release(other);
			return;
		}
	}
	if (due(MOVES_OUTSIDE))
		scx_bpf_dsq_move_to_local(SHARED_DSQ);
	if (due(MOVES_BY_WALK_OUTSIDE))
		move_first_by_vtime();
	if (due(COUNTS_BAD_CPU))
		scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | 9999);
	if (due(UNLOCKS_UNTAKEN)) {
		*(u32 *)&never_taken = 99;
		bpf_spin_unlock(&never_taken);
	}
	if (due(KICKS_BAD_CPU))
		scx_bpf_kick_cpu(-1, 0);
	scx_bpf_dsq_insert(p, bad_target(p), NSEC_PER_MSEC, enq_flags);
	if (due(INSERTS_TWICE))
		scx_bpf_dsq_insert(p, SHARED_DSQ, NSEC_PER_MSEC, enq_flags);
}

void BPF_STRUCT_OPS(misuses_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 i;

	if (due(OVERFLOWS_BUFFER) && prev)
		bpf_for(i, 0, 100)
			scx_bpf_dsq_insert(prev, SCX_DSQ_LOCAL, NSEC_PER_MSEC, 0);
	if (due(MOVES_INTO_OTHER_ORDER))
		move_first_by_vtime();
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

void BPF_STRUCT_OPS(misuses_running, struct task_struct *p)
{
	if (due(INSERTS_OUTSIDE))
		scx_bpf_dsq_insert(p, SHARED_DSQ, NSEC_PER_MSEC, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(misuses_init_task, struct task_struct *p,
			     struct scx_init_task_args *args)
{
	return fault == INIT_TASK_FAILS ? -ENOMEM : 0;
}

static s32 create_too_many(void)
{
	s32 result = 0;
	u32 i;

	bpf_for(i, 0, 1U << 21) {
		result = scx_bpf_create_dsq(SHARED_DSQ + 1 + i, -1);
		if (result)
			break;
	}
	return result;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(misuses_init)
{
	if (fault == INIT_FAILS)
		return -ENOSPC;
	if (fault == CREATES_TOO_MANY)
		return create_too_many();
	return scx_bpf_create_dsq(SHARED_DSQ, fault == CREATES_ON_NO_NODE ? 1 : -1);
}

SCX_OPS_DEFINE(misuses_ops, .select_cpu = (void *)misuses_select_cpu,
	       .enqueue = (void *)misuses_enqueue, .dispatch = (void *)misuses_dispatch,
	       .running = (void *)misuses_running, .init_task = (void *)misuses_init_task,
	       .init = (void *)misuses_init, .name = "misuses");
