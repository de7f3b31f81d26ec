/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* init_fails - a mistake on purpose: init refuses to begin. The kernel still reports success to
 * whoever attaches it. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* What init returns, negative; 0 lets it begin. */
const volatile u32 error_number = ENOSPC;

s32 BPF_STRUCT_OPS_SLEEPABLE(init_fails_init)
{
	return -(s32)error_number;
}

void BPF_STRUCT_OPS(init_fails_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(init_fails_ops,
	       .init = (void *)init_fails_init,
	       .exit = (void *)init_fails_exit,
	       .name = "init_fails");
