/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* fields - first in, first out; and what fields of a task say that schedlab's headers do not have.
 *
 * Operations compare fields with what they were told, and end the policy by an error that names the
 * line of the first that is wrong. So a kernel that keeps it has judged the test, too.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0
#define PF_FORKNOEXEC 0x40

struct sched_ext_entity___more {
	s32 selected_cpu;
	bool disallow;
	unsigned long runnable_at;
} __attribute__((preserve_access_index));

struct thread_info___more {
	u32 cpu;
} __attribute__((preserve_access_index));

struct sched_info___more {
	unsigned long pcount;
	unsigned long long run_delay;
} __attribute__((preserve_access_index));

struct task_struct___more {
	struct thread_info___more thread_info;
	struct sched_ext_entity___more scx;
	struct sched_info___more sched_info;
	unsigned int flags;
	int wake_cpu;
	u64 utime;
	u64 stime;
} __attribute__((preserve_access_index));

/* What was seen of a task. */
struct record {
	s32 selected;
	u64 jiffies;
	u64 stays;
	u64 pcount;
	u64 run_delay;
	u64 computed_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct record);
} records SEC(".maps");

#define EXPECT(holds)                                                                              \
	do {                                                                                       \
		if (!(holds))                                                                      \
			scx_bpf_error("line %d: not " #holds, __LINE__);                           \
	} while (0)

extern struct rq *scx_bpf_locked_rq(void) __ksym __weak;

struct rq___more {
	int cpu;
} __attribute__((preserve_access_index));

/* Whether the run queue that is locked is that of a CPU. */
static bool is_locked(s32 cpu)
{
	struct rq___more *rq;

	if (!bpf_ksym_exists(scx_bpf_locked_rq))
		return true;
	rq = (void *)scx_bpf_locked_rq();
	return rq && rq->cpu == cpu;
}

static struct record *record_of(struct task_struct *p)
{
	return bpf_task_storage_get(&records, p, 0, 0);
}

s32 BPF_STRUCT_OPS(fields_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct record *record = record_of(p);

	if (record) {
		record->selected = prev_cpu;
		record->jiffies = bpf_jiffies64();
	}
	return prev_cpu;
}

void BPF_STRUCT_OPS(fields_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_struct___more *more = (void *)p;
	struct record *record = record_of(p);
	u64 stays = p->nvcsw + p->nivcsw;

	EXPECT((s32)more->thread_info.cpu == scx_bpf_task_cpu(p));
	EXPECT(more->wake_cpu == scx_bpf_task_cpu(p));
	EXPECT(is_locked(scx_bpf_task_cpu(p)));
	/* Another mask counts only where a task may not leave its CPU for now. */
	EXPECT(p->cpus_ptr == &p->cpus_mask || bpf_cpumask_weight(p->cpus_ptr) == 1);
	/* On one CPU schedlab's tasks may use more that do not come. */
	if (scx_bpf_nr_cpu_ids() > 1)
		EXPECT(p->nr_cpus_allowed == (s32)bpf_cpumask_weight(&p->cpus_mask));
	/* It waits since it was woken up or put back. */
	if (record)
		EXPECT(more->scx.runnable_at >= record->jiffies);
	EXPECT(more->scx.runnable_at <= bpf_jiffies64());
	if (record && enq_flags & SCX_ENQ_CPU_SELECTED)
		EXPECT(more->scx.selected_cpu == record->selected);
	if (record && enq_flags & SCX_ENQ_WAKEUP) {
		/* It ran since it woke up last. */
		EXPECT(stays == record->stays || more->sched_info.pcount > record->pcount);
		record->stays = stays;
		record->pcount = more->sched_info.pcount;
		EXPECT(more->sched_info.run_delay >= record->run_delay);
		record->run_delay = more->sched_info.run_delay;
	}
	scx_bpf_dsq_insert(p, SHARED_DSQ, 3 * NSEC_PER_MSEC, enq_flags);
}

void BPF_STRUCT_OPS(fields_dispatch, s32 cpu, struct task_struct *prev)
{
	EXPECT(is_locked(cpu));
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
	EXPECT(is_locked(cpu));
}

void BPF_STRUCT_OPS(fields_stopping, struct task_struct *p, bool runnable)
{
	struct task_struct___more *more = (void *)p;
	struct record *record = record_of(p);
	u64 computed_ns = more->utime + more->stime;

	EXPECT(more->sched_info.pcount > 0);
	EXPECT(is_locked(scx_bpf_task_cpu(p)));
	if (record) {
		record->jiffies = bpf_jiffies64();
		EXPECT(computed_ns >= record->computed_ns);
		record->computed_ns = computed_ns;
	}
}

s32 BPF_STRUCT_OPS(fields_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_struct___more *more = (void *)p;

	EXPECT(!more->scx.disallow);
	EXPECT(!args->fork || more->flags & PF_FORKNOEXEC);
	if (!args->fork) {
		more->scx.disallow = true;
		EXPECT(more->scx.disallow);
		more->scx.disallow = false;
	}
	return bpf_task_storage_get(&records, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -ENOMEM;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(fields_init)
{
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

SCX_OPS_DEFINE(fields_ops, .select_cpu = (void *)fields_select_cpu,
	       .enqueue = (void *)fields_enqueue, .dispatch = (void *)fields_dispatch,
	       .stopping = (void *)fields_stopping, .init_task = (void *)fields_init_task,
	       .init = (void *)fields_init, .name = "fields");
