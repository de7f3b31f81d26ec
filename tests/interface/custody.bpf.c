/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* custody - keeps tasks in a list, in a queue of its own, or not at all, by their pids.
 *
 * Since Linux 7.1 `dequeue` tells a policy whenever it has a task no longer, and only then. The
 * policy ends by an error that names the line of what was otherwise, so a kernel judges it, too.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define OWN_DSQ 0
#define SLICE_NS (3 * NSEC_PER_MSEC)
#define POPS_MAX 8

enum scx_deq_flags___new {
	SCX_DEQ_SCHED_CHANGE = 1LLU << 33,
};

/* Whether this kernel tells of each task that leaves. */
#define TELLS __builtin_preserve_enum_value(*(enum scx_deq_flags___new *)SCX_DEQ_SCHED_CHANGE, 0)

struct record {
	bool is_held;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct record);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 4096);
	__type(value, s32);
} waiting SEC(".maps");

#define EXPECT(holds)                                                                              \
	do {                                                                                       \
		if (TELLS && !(holds))                                                             \
			scx_bpf_error("line %d: not " #holds, __LINE__);                           \
	} while (0)

static struct record *record_of(struct task_struct *p)
{
	return bpf_task_storage_get(&records, p, 0, 0);
}

void BPF_STRUCT_OPS(custody_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct record *record = record_of(p);
	u32 way = (u32)p->pid % 4;
	s32 pid = p->pid;

	if (!record)
		return;
	EXPECT(!record->is_held);
	record->is_held = way < 2;
	if (way == 0 && bpf_map_push_elem(&waiting, &pid, BPF_ANY)) {
		record->is_held = false;
		way = 2;
	}
	if (way == 1)
		scx_bpf_dsq_insert(p, OWN_DSQ, SLICE_NS, enq_flags);
	else if (way == 2)
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SLICE_NS, enq_flags);
	else if (way == 3)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags);
}

void BPF_STRUCT_OPS(custody_dequeue, struct task_struct *p, u64 deq_flags)
{
	struct record *record = record_of(p);

	if (!record)
		return;
	EXPECT(record->is_held);
	EXPECT(!(deq_flags & SCX_DEQ_SLEEP));
	/* Who is dispatched leaves without a reason. */
	EXPECT(!deq_flags || deq_flags & SCX_DEQ_SCHED_CHANGE);
	record->is_held = false;
}

/* Whether a task that was in the list was dispatched; the list may still have who has left. */
static bool run_here(s32 cpu, s32 pid)
{
	struct task_struct *p = bpf_task_from_pid(pid);
	struct record *record;
	bool runs = false;

	if (!p)
		return false;
	record = record_of(p);
	if (record && record->is_held) {
		runs = bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
		scx_bpf_dsq_insert(p, runs ? SCX_DSQ_LOCAL_ON | cpu : SCX_DSQ_GLOBAL, SLICE_NS, 0);
	}
	bpf_task_release(p);
	return runs;
}

void BPF_STRUCT_OPS(custody_dispatch, s32 cpu, struct task_struct *prev)
{
	s32 i, pid;

	bpf_for(i, 0, POPS_MAX) {
		if (bpf_map_pop_elem(&waiting, &pid))
			break;
		if (run_here(cpu, pid))
			return;
	}
	scx_bpf_dsq_move_to_local(OWN_DSQ);
}

void BPF_STRUCT_OPS(custody_running, struct task_struct *p)
{
	struct record *record = record_of(p);

	if (record)
		EXPECT(!record->is_held);
}

s32 BPF_STRUCT_OPS(custody_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return bpf_task_storage_get(&records, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -ENOMEM;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(custody_init)
{
	return scx_bpf_create_dsq(OWN_DSQ, -1);
}

SCX_OPS_DEFINE(custody_ops, .enqueue = (void *)custody_enqueue, .dequeue = (void *)custody_dequeue,
	       .dispatch = (void *)custody_dispatch, .running = (void *)custody_running,
	       .init_task = (void *)custody_init_task, .init = (void *)custody_init,
	       .name = "custody");
