/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* untold - one queue, and no word of CPUs: it is loaded again whenever one comes or goes. It says
 * what it remembers of the time before, which must be nothing. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0

/* More than half of what there is room for: it is free again when the policy is loaded again. */
#define SLOTS (75 << 20)

u64 slots[SLOTS];

struct slot {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct slot);
} timers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} marks SEC(".maps");

static int expired(void *map, int *key, struct bpf_timer *timer)
{
	bpf_printk("timer");
	bpf_timer_start(timer, 3 * NSEC_PER_MSEC, 0);
	return 0;
}

void BPF_STRUCT_OPS(untold_enqueue, struct task_struct *p, u64 enq_flags)
{
	slots[SLOTS - 1]++;
	scx_bpf_dsq_insert(p, SHARED_DSQ, SCX_SLICE_DFL, 0);
}

void BPF_STRUCT_OPS(untold_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

s32 BPF_STRUCT_OPS(untold_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	bool is_known = bpf_task_storage_get(&marks, p, NULL, 0);

	if (!bpf_task_storage_get(&marks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE))
		return -ENOMEM;
	bpf_printk("init_task %s, known %d", p->comm, is_known);
	return 0;
}

void BPF_STRUCT_OPS(untold_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	bpf_printk("exit_task %s", p->comm);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(untold_init)
{
	u32 key = 0;
	struct slot *slot = bpf_map_lookup_elem(&timers, &key);
	s32 error = scx_bpf_create_dsq(SHARED_DSQ, -1);
	struct task_struct *current = scx_bpf_cpu_curr(1);

	if (error || !slot)
		return error ? error : -ENOENT;
	if (current && current->pid == 0) {
		if (bpf_task_storage_get(&marks, current, NULL, 0))
			bpf_printk("an idle task is known");
		bpf_task_storage_get(&marks, current, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	}
	bpf_printk("init after %llu tasks", slots[SLOTS - 1]);
	bpf_timer_init(&slot->timer, &timers, 1);
	bpf_timer_set_callback(&slot->timer, expired);
	return (s32)bpf_timer_start(&slot->timer, 3 * NSEC_PER_MSEC, 0);
}

void BPF_STRUCT_OPS(untold_exit, struct scx_exit_info *info)
{
	bpf_printk("exit %d, code %llx: %s", info->kind, info->exit_code, info->msg);
}

SCX_OPS_DEFINE(untold_ops,
	       .enqueue = (void *)untold_enqueue,
	       .dispatch = (void *)untold_dispatch,
	       .init_task = (void *)untold_init_task,
	       .exit_task = (void *)untold_exit_task,
	       .init = (void *)untold_init,
	       .exit = (void *)untold_exit,
	       .name = "untold");
