/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* nodes - first in, first out; and what calls about nodes and about the heads of queues answer.
 *
 * They are of Linux 7.1 and later.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 7
#define OPS_IDLE_PER_NODE (1ULL << 6)
#define IN_NODE (1ULL << 1)

u32 scx_bpf_nr_node_ids(void) __ksym __weak;
int scx_bpf_cpu_node(s32 cpu) __ksym __weak;
s32 scx_bpf_pick_idle_cpu_node(const cpumask_t *allowed, int node, u64 flags) __ksym __weak;
s32 scx_bpf_pick_any_cpu_node(const cpumask_t *allowed, int node, u64 flags) __ksym __weak;
const struct cpumask *scx_bpf_get_idle_cpumask_node(int node) __ksym __weak;
const struct cpumask *scx_bpf_get_idle_smtmask_node(int node) __ksym __weak;
struct task_struct *scx_bpf_dsq_peek(u64 id) __ksym __weak;
void scx_bpf_dsq_reenq(u64 id, u64 flags) __ksym __weak;

#define EXPECT(holds)                                                                              \
	do {                                                                                       \
		if (!(holds))                                                                      \
			scx_bpf_error("line %d: not " #holds, __LINE__);                           \
	} while (0)

/* How often the queue was enqueued again. */
static u64 nr_asked;

s32 BPF_STRUCT_OPS(nodes_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	int node = scx_bpf_cpu_node(prev_cpu);
	const struct cpumask *idle, *idle_cores;
	s32 cpu, other;

	EXPECT(node >= 0 && (u32)node < scx_bpf_nr_node_ids());
	cpu = scx_bpf_pick_idle_cpu_node(p->cpus_ptr, node, IN_NODE);
	if (cpu >= 0) {
		EXPECT(scx_bpf_cpu_node(cpu) == node);
		EXPECT(bpf_cpumask_test_cpu((u32)cpu, p->cpus_ptr));
		idle = scx_bpf_get_idle_cpumask_node(node);
		idle_cores = scx_bpf_get_idle_smtmask_node(node);
		EXPECT(!bpf_cpumask_test_cpu((u32)cpu, idle));
		EXPECT(!bpf_cpumask_test_cpu((u32)cpu, idle_cores));
		scx_bpf_put_idle_cpumask(idle_cores);
		scx_bpf_put_idle_cpumask(idle);
	}
	other = scx_bpf_pick_any_cpu_node(p->cpus_ptr, node, 0);
	EXPECT(other >= 0 && bpf_cpumask_test_cpu((u32)other, p->cpus_ptr));
	EXPECT(scx_bpf_pick_idle_cpu_node(p->cpus_ptr, -1, 0) == -ENOENT);
	return cpu >= 0 ? cpu : other;
}

void BPF_STRUCT_OPS(nodes_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (enq_flags & SCX_ENQ_REENQ)
		EXPECT(nr_asked);
	scx_bpf_dsq_insert(p, SHARED_DSQ, 3 * NSEC_PER_MSEC, enq_flags);
	if (scx_bpf_dsq_nr_queued(SHARED_DSQ) == 1)
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(nodes_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *first;

	if (!scx_bpf_dsq_move_to_local(SHARED_DSQ))
		return;
	first = scx_bpf_dsq_peek(SHARED_DSQ);
	if (first && (u32)first->pid % 7 == 0) {
		__sync_fetch_and_add(&nr_asked, 1);
		scx_bpf_dsq_reenq(SHARED_DSQ, 0);
	}
}

s32 BPF_STRUCT_OPS_SLEEPABLE(nodes_init)
{
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

void BPF_STRUCT_OPS(nodes_exit, struct scx_exit_info *ei)
{
	bpf_printk("asked %llu times", nr_asked);
}

SCX_OPS_DEFINE(nodes_ops, .select_cpu = (void *)nodes_select_cpu, .enqueue = (void *)nodes_enqueue,
	       .dispatch = (void *)nodes_dispatch, .init = (void *)nodes_init,
	       .exit = (void *)nodes_exit, .flags = OPS_IDLE_PER_NODE, .name = "nodes");
