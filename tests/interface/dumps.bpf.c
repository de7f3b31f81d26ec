/* dumps - tells what it knows of itself when it is asked.
 *
 * One queue for all CPUs by virtual time, and another one in order of arrival.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

enum queue { BY_VTIME_DSQ = 5, IDLE_DSQ = 0x123456789 };

struct counts {
	u64 enqueued;
	s32 last_pid;
	bool is_odd;
	u8 flags : 3, more : 5;
	char name[16];
};

struct task_state {
	u64 wakeups;
	u32 cpu;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_state);
} task_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, struct counts);
} by_pid SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} switches SEC(".maps");

const volatile u64 slice_ns = 3 * NSEC_PER_MSEC;
struct counts all;
u64 by_cpu[64];
u64 nr_dumps;
s64 balance = -3;
enum queue last_queue;

s32 BPF_STRUCT_OPS_SLEEPABLE(dumps_init)
{
	return scx_bpf_create_dsq(IDLE_DSQ, -1) ?: scx_bpf_create_dsq(BY_VTIME_DSQ, -1);
}

void BPF_STRUCT_OPS(dumps_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_state *state;
	struct counts own = {}, *known;
	u32 pid = p->pid;

	last_queue = BY_VTIME_DSQ;
	all.enqueued++;
	all.last_pid = pid;
	all.is_odd = pid & 1;
	all.flags = pid & 7;
	bpf_probe_read_kernel_str(all.name, sizeof(all.name), p->comm);
	known = bpf_map_lookup_elem(&by_pid, &pid);
	if (known) {
		known->enqueued++;
	} else {
		own.enqueued = 1;
		bpf_map_update_elem(&by_pid, &pid, &own, 0);
	}
	state = bpf_task_storage_get(&task_states, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (state) {
		state->wakeups++;
		state->cpu = scx_bpf_task_cpu(p);
	}
	scx_bpf_dsq_insert_vtime(p, BY_VTIME_DSQ, slice_ns, p->scx.dsq_vtime, enq_flags);
}

void BPF_STRUCT_OPS(dumps_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(BY_VTIME_DSQ);
}

void BPF_STRUCT_OPS(dumps_running, struct task_struct *p)
{
	u32 first = 0, cpu = bpf_get_smp_processor_id();
	u64 *count = bpf_map_lookup_elem(&switches, &first);

	if (count)
		(*count)++;
	if (cpu < 64)
		by_cpu[cpu]++;
}

void BPF_STRUCT_OPS(dumps_stopping, struct task_struct *p, bool runnable)
{
	u64 left = p->scx.slice, ran = left < slice_ns ? slice_ns - left : 0;

	scx_bpf_task_set_dsq_vtime(p, p->scx.dsq_vtime + ran);
}

void BPF_STRUCT_OPS(dumps_dump, struct scx_dump_ctx *context)
{
	nr_dumps++;
	scx_bpf_dump("%llu enqueued, kind %d", all.enqueued, context->kind);
	scx_bpf_dump(", %d waiting\n", scx_bpf_dsq_nr_queued(BY_VTIME_DSQ));
}

void BPF_STRUCT_OPS(dumps_dump_cpu, struct scx_dump_ctx *context, s32 cpu, bool idle)
{
	if (!idle && cpu < 64)
		scx_bpf_dump("switches=%llu", by_cpu[cpu & 63]);
}

void BPF_STRUCT_OPS(dumps_dump_task, struct scx_dump_ctx *context, struct task_struct *p)
{
	struct task_state *state = bpf_task_storage_get(&task_states, p, 0, 0);

	if (state)
		scx_bpf_dump("wakeups=%llu\nat=%llu", state->wakeups, context->at_ns);
}

SCX_OPS_DEFINE(dumps_ops, .enqueue = (void *)dumps_enqueue, .dispatch = (void *)dumps_dispatch,
	       .running = (void *)dumps_running, .stopping = (void *)dumps_stopping,
	       .dump = (void *)dumps_dump, .dump_cpu = (void *)dumps_dump_cpu,
	       .dump_task = (void *)dumps_dump_task, .init = (void *)dumps_init, .name = "dumps");
