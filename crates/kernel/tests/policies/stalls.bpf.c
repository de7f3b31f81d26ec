/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* stalls - a mistake on purpose: some tasks are queued where nobody ever looks.
 *
 * The first process and kernel threads run first come, first served; all others wait for ever. The
 * kernel's watchdog ends the policy after timeout_ms.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

#define SHARED_DSQ 0
#define FORGOTTEN_DSQ 1

void BPF_STRUCT_OPS(stalls_enqueue, struct task_struct *p, u64 enq_flags)
{
	bool is_forgotten = p->tgid != 1 && !(p->flags & PF_KTHREAD);

	scx_bpf_dsq_insert(p, is_forgotten ? FORGOTTEN_DSQ : SHARED_DSQ, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(stalls_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

s32 BPF_STRUCT_OPS(stalls_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(stalls_init)
{
	s32 error = scx_bpf_create_dsq(SHARED_DSQ, -1);

	return error ? error : scx_bpf_create_dsq(FORGOTTEN_DSQ, -1);
}

void BPF_STRUCT_OPS(stalls_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(stalls_ops,
	       .select_cpu = (void *)stalls_select_cpu,
	       .enqueue = (void *)stalls_enqueue,
	       .dispatch = (void *)stalls_dispatch,
	       .init = (void *)stalls_init,
	       .exit = (void *)stalls_exit,
	       .timeout_ms = 2000,
	       .name = "stalls");
