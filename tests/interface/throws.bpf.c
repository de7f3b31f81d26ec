/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* throws - first in, first out; and what comes of exceptions.
 *
 * An exception ends all functions under the operation, and the operation answers with its cookie,
 * or with what its own callback makes of that. Whatever goes on behind one ends the policy by its
 * line, and so does an operation before which one has not come to what it should.
 */
#include <scx/common.bpf.h>

#include "expect.bpf.h"

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0
#define CATCHER(name) __attribute__((btf_decl_tag("exception_callback:" #name)))
extern void bpf_throw(u64 cookie) __ksym;

#define CPUS_MAX 1024 /* a power of two */

static u64 nr_turns, nr_behind;
/* By CPU: while one throws, others may be on their way to their callback. */
static u64 nr_thrown[CPUS_MAX], nr_caught[CPUS_MAX];

static u32 this_cpu(void)
{
	return bpf_get_smp_processor_id() & (CPUS_MAX - 1);
}

static __noinline int throw_lowest(int turn)
{
	nr_turns++;
	if (turn == 2)
		bpf_throw(0);
	return turn;
}

static __noinline int throw_below(void)
{
	int turn, sum = 0;

	for (turn = 0; turn < 5; turn++)
		sum += throw_lowest(turn);
	nr_behind++;
	return sum;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(throws_init)
{
	int error = scx_bpf_create_dsq(SHARED_DSQ, -1);

	if (error)
		return error;
	error = throw_below();
	nr_behind++;
	return error ? -EINVAL : 0;
}

/* Linux wants such a function to be global, and it may have no argument but the cookie. */
__noinline int throws_catch(u64 cookie)
{
	nr_caught[this_cpu()]++;
	return cookie - 5;
}

CATCHER(throws_catch)
s32 BPF_STRUCT_OPS(throws_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u32 cpu = this_cpu();

	must(nr_turns == 3 && !nr_behind && nr_caught[cpu] == nr_thrown[cpu]);
	nr_thrown[cpu]++;
	bpf_throw((prev_cpu & 1023) + 5);
	return prev_cpu;
}

void BPF_STRUCT_OPS(throws_enqueue, struct task_struct *p, u64 enq_flags)
{
	must(!nr_behind);
	scx_bpf_dsq_insert(p, SHARED_DSQ, SCX_SLICE_DFL, enq_flags);
	/* What was done before stays done. */
	if (p->pid & 1)
		bpf_throw(7);
}

void BPF_STRUCT_OPS(throws_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

SCX_OPS_DEFINE(throws_ops, .init = (void *)throws_init, .select_cpu = (void *)throws_select_cpu,
	       .enqueue = (void *)throws_enqueue, .dispatch = (void *)throws_dispatch,
	       .name = "throws");
