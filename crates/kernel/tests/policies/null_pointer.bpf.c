/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* null_pointer - a mistake on purpose: a record that may not be there is used untested. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} seen SEC(".maps");

void BPF_STRUCT_OPS(null_pointer_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 *count = bpf_task_storage_get(&seen, p, NULL, 0);

	*count += 1;
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(null_pointer_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(null_pointer_ops,
	       .enqueue = (void *)null_pointer_enqueue,
	       .exit = (void *)null_pointer_exit,
	       .name = "null_pointer");
