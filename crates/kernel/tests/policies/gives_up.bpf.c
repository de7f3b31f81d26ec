/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* gives_up - ends by itself with a message after some wake-ups: scx_bpf_error with numbers. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Wake-ups until it gives up. */
const volatile u64 wake_ups_max = 100;

static u64 wake_ups;

/* Not in enqueue, which a task that wakes up beside an idle CPU never sees. */
void BPF_STRUCT_OPS(gives_up_runnable, struct task_struct *p, u64 enq_flags)
{
	if (__sync_fetch_and_add(&wake_ups, 1) == wake_ups_max)
		scx_bpf_error("pid %d was one too many after %llu", p->pid, wake_ups_max);
}

void BPF_STRUCT_OPS(gives_up_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(gives_up_ops,
	       .runnable = (void *)gives_up_runnable,
	       .exit = (void *)gives_up_exit,
	       .name = "gives_up");
