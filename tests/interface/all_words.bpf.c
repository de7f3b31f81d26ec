/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* all_words - a round robin that says every word of the policy interface once.
 *
 * Its only purpose is to be compiled by every compiler for both back ends, and to run:
 * a word that one back end lacks, or gives another type, fails here and not in a policy.
 */
#include <scx/common.bpf.h>
#include <scx/topology.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Nanoseconds of one turn. */
const volatile u64 slice_ns = 3 * NSEC_PER_MSEC;

#define FIFO_DSQ 0
#define VTIME_DSQ 1
#define CPUS_MAX 64

struct task_record {
	u64 turns;
	u64 started_at_ns;
};

struct cpu_record {
	u64 switches;
	enum cpu_distance distance;
};

struct timer_slot {
	struct bpf_timer timer;
};

struct locked_count {
	struct bpf_spin_lock lock;
	u64 count;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_record);
} task_records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_record);
} cpu_records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} timers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct locked_count);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 128);
	__type(key, s32);
	__type(value, u64);
} by_pid SEC(".maps");

u64 nr_ticks;
u64 nr_loops;
u64 seen;
u32 running_pid[CPUS_MAX];

static struct task_record *record_of(struct task_struct *p)
{
	return bpf_task_storage_get(&task_records, p, NULL, 0);
}

static void count_under_lock(void)
{
	u32 key = 0;
	struct locked_count *count = bpf_map_lookup_elem(&counts, &key);

	if (!count)
		return;
	bpf_spin_lock(&count->lock);
	count->count++;
	bpf_spin_unlock(&count->lock);
}

static void use_cpumasks(struct task_struct *p)
{
	struct bpf_cpumask *a = bpf_cpumask_create();
	struct bpf_cpumask *b;

	if (!a)
		return;
	b = bpf_cpumask_create();
	if (!b) {
		bpf_cpumask_release(a);
		return;
	}
	bpf_cpumask_copy(a, p->cpus_ptr);
	bpf_cpumask_setall(b);
	bpf_cpumask_clear_cpu(0, b);
	bpf_cpumask_set_cpu(0, b);
	bpf_cpumask_test_and_set_cpu(1, b);
	bpf_cpumask_test_and_clear_cpu(1, b);
	bpf_cpumask_and(a, (const struct cpumask *)a, (const struct cpumask *)b);
	bpf_cpumask_or(a, (const struct cpumask *)a, p->cpus_ptr);
	bpf_cpumask_xor(b, (const struct cpumask *)a, (const struct cpumask *)b);
	bpf_cpumask_clear(b);
	seen += bpf_cpumask_first(p->cpus_ptr) + bpf_cpumask_first_zero(p->cpus_ptr);
	seen += bpf_cpumask_first_and(p->cpus_ptr, (const struct cpumask *)a);
	seen += bpf_cpumask_any_distribute(p->cpus_ptr) + bpf_cpumask_weight(p->cpus_ptr);
	seen += bpf_cpumask_any_and_distribute(p->cpus_ptr, (const struct cpumask *)a);
	seen += bpf_cpumask_empty(p->cpus_ptr) + bpf_cpumask_full(p->cpus_ptr);
	seen += bpf_cpumask_equal(p->cpus_ptr, (const struct cpumask *)a);
	seen += bpf_cpumask_subset(p->cpus_ptr, (const struct cpumask *)a);
	seen += bpf_cpumask_intersects(p->cpus_ptr, (const struct cpumask *)a);
	bpf_cpumask_release(b);
	bpf_cpumask_release(a);
}

static void use_machine_masks(struct task_struct *p)
{
	const struct cpumask *mask = scx_bpf_get_idle_cpumask();

	seen += bpf_cpumask_test_cpu(0, mask);
	scx_bpf_put_idle_cpumask(mask);
	mask = scx_bpf_get_idle_smtmask();
	seen += bpf_cpumask_test_cpu(0, mask);
	scx_bpf_put_idle_cpumask(mask);
	mask = scx_bpf_get_online_cpumask();
	seen += bpf_cpumask_intersects(mask, p->cpus_ptr);
	scx_bpf_put_cpumask(mask);
	mask = scx_bpf_get_possible_cpumask();
	seen += bpf_cpumask_weight(mask);
	scx_bpf_put_cpumask(mask);
}

s32 BPF_STRUCT_OPS(all_words_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu;

	if (wake_flags & (SCX_WAKE_SYNC | SCX_WAKE_TTWU | SCX_WAKE_FORK))
		seen++;
	use_machine_masks(p);
	cpu = scx_bpf_select_cpu_and(p, prev_cpu, wake_flags, p->cpus_ptr, 0);
	if (cpu < 0 && scx_bpf_test_and_clear_cpu_idle(prev_cpu))
		cpu = prev_cpu;
	if (cpu < 0)
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, SCX_PICK_IDLE_CORE);
	if (cpu >= 0) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
		return cpu;
	}
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
	return cpu;
}

void BPF_STRUCT_OPS(all_words_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_record *record = record_of(p);
	s32 cpu = scx_bpf_task_cpu(p);

	if (!record) {
		scx_bpf_error("task %d (%s) has no record", p->pid, p->comm);
		return;
	}
	record->turns++;
	if (!(enq_flags & SCX_ENQ_CPU_SELECTED) && enq_flags & SCX_ENQ_LAST)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, slice_ns, SCX_ENQ_PREEMPT);
	else if (enq_flags & (SCX_ENQ_HEAD | SCX_ENQ_REENQ))
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_INF, 0);
	else if (enq_flags & SCX_ENQ_WAKEUP)
		scx_bpf_dsq_insert_vtime(p, VTIME_DSQ, slice_ns, record->turns, enq_flags);
	else
		scx_bpf_dsq_insert(p, FIFO_DSQ, slice_ns, enq_flags);
	/* Nobody but the policy wakes a CPU that put its last task into its own queue. */
	if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(cpu, 0);
	else if (!scx_bpf_task_running(p))
		scx_bpf_kick_cpu(scx_bpf_pick_any_cpu(p->cpus_ptr, 0), SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(all_words_dequeue, struct task_struct *p, u64 deq_flags)
{
	seen += !!(deq_flags & (SCX_DEQ_SLEEP | SCX_DEQ_CORE_SCHED_EXEC));
}

/* Moves the task that waits longest in the vtime queue; true if there was one. */
static bool move_first_by_hand(void)
{
	struct task_struct *p, *best;
	bool moved = false;
	s32 pid = 0;

	bpf_for_each(scx_dsq, p, VTIME_DSQ, SCX_DSQ_ITER_REV) {
		pid = p->pid;
	}
	bpf_for_each(scx_dsq, p, VTIME_DSQ, 0) {
		best = bpf_task_from_pid(pid);
		if (!best)
			break;
		scx_bpf_dsq_move_set_slice(BPF_FOR_EACH_ITER, slice_ns);
		moved = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, best, SCX_DSQ_LOCAL, 0);
		bpf_task_release(best);
		break;
	}
	return moved;
}

/* Ages the queue's first task by a turn. */
static void age_first(void)
{
	struct task_struct *p, *first;

	bpf_for_each(scx_dsq, p, VTIME_DSQ, 0) {
		first = bpf_task_from_pid(p->pid);
		if (!first)
			break;
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, p->scx.dsq_vtime + 1);
		scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, first, VTIME_DSQ, 0);
		bpf_task_release(first);
		break;
	}
}

void BPF_STRUCT_OPS(all_words_dispatch, s32 cpu, struct task_struct *prev)
{
	if (prev && prev->scx.slice)
		seen++;
	if (scx_bpf_dsq_nr_queued(FIFO_DSQ) && scx_bpf_dispatch_nr_slots() &&
	    scx_bpf_dsq_move_to_local(FIFO_DSQ))
		return;
	age_first();
	move_first_by_hand();
}

void BPF_STRUCT_OPS(all_words_tick, struct task_struct *p)
{
	s32 i;

	__sync_fetch_and_add(&nr_ticks, 1);
	bpf_for(i, 0, CPUS_MAX) {
		if (!running_pid[i & (CPUS_MAX - 1)])
			break;
	}
	bpf_repeat(4) {
		nr_loops++;
	}
	while (nr_loops > 3 && can_loop)
		nr_loops--;
	for (;;) {
		if (!nr_loops)
			break;
		nr_loops--;
		cond_break;
	}
	if (time_after(scx_bpf_now(), bpf_ktime_get_ns() + NSEC_PER_SEC))
		p->scx.slice = 0;
}

void BPF_STRUCT_OPS(all_words_runnable, struct task_struct *p, u64 enq_flags)
{
	u64 turns = 1, *known;
	s32 pid = p->pid;

	known = bpf_map_lookup_elem(&by_pid, &pid);
	if (known)
		turns += *known;
	bpf_map_update_elem(&by_pid, &pid, &turns, BPF_ANY);
	count_under_lock();
}

void BPF_STRUCT_OPS(all_words_running, struct task_struct *p)
{
	struct task_record *record = record_of(p);
	u32 here = bpf_get_smp_processor_id(), key = 0;
	struct cpu_record *cpu = bpf_map_lookup_elem(&cpu_records, &key);

	if (!record || !cpu)
		return;
	record->started_at_ns = scx_bpf_now();
	cpu->switches++;
	cpu->distance = cpu_distance(here, (u32)p->recent_used_cpu);
	running_pid[here & (CPUS_MAX - 1)] = (u32)p->pid;
	cpu = bpf_map_lookup_percpu_elem(&cpu_records, &key, 0);
	if (cpu && vtime_before(cpu->switches, 1))
		seen++;
}

void BPF_STRUCT_OPS(all_words_stopping, struct task_struct *p, bool runnable)
{
	struct task_record *record = record_of(p);
	u64 ran_ns;

	if (!record)
		return;
	ran_ns = (u64)time_delta(scx_bpf_now(), record->started_at_ns);
	scx_bpf_task_set_dsq_vtime(p, p->scx.dsq_vtime + min(ran_ns, slice_ns));
	if (runnable && unlikely(task_nice(p) > 0))
		scx_bpf_task_set_slice(p, max(p->scx.slice, 1ULL));
	seen += p->se.sum_exec_runtime + p->se.load.weight + p->nvcsw + p->nivcsw + p->start_time;
}

void BPF_STRUCT_OPS(all_words_quiescent, struct task_struct *p, u64 deq_flags)
{
	seen += p->__state == TASK_UNINTERRUPTIBLE || p->flags & (PF_EXITING | PF_KTHREAD);
	seen += p->policy == SCHED_BATCH || p->rt_priority || p->prio != p->normal_prio;
	if (p->parent && p->real_parent && p->group_leader) {
		seen += p->mm == p->parent->mm && p->tgid == p->group_leader->pid;
		seen += p->real_parent->nr_cpus_allowed > 1 && p->on_cpu && p->wake_cpu;
	}
}

bool BPF_STRUCT_OPS(all_words_yield, struct task_struct *from, struct task_struct *to)
{
	from->scx.slice = 0;
	return false;
}

void BPF_STRUCT_OPS(all_words_set_weight, struct task_struct *p, u32 weight)
{
	seen += weight == p->scx.weight && p->static_prio < MAX_PRIO;
}

void BPF_STRUCT_OPS(all_words_set_cpumask, struct task_struct *p, const struct cpumask *mask)
{
	seen += bpf_cpumask_test_cpu((u32)scx_bpf_task_cpu(p), mask);
}

void BPF_STRUCT_OPS(all_words_update_idle, s32 cpu, bool idle)
{
	if (idle)
		running_pid[(u32)cpu & (CPUS_MAX - 1)] = 0;
}

void BPF_STRUCT_OPS(all_words_cpu_online, s32 cpu)
{
	seen += (u64)scx_bpf_cpuperf_cap(cpu) + scx_bpf_cpuperf_cur(cpu);
	scx_bpf_cpuperf_set(cpu, 1024);
}

void BPF_STRUCT_OPS(all_words_cpu_offline, s32 cpu)
{
	bpf_printk("cpu %d of %d goes", cpu, scx_bpf_nr_cpu_ids());
}

void BPF_STRUCT_OPS(all_words_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	seen += scx_bpf_reenqueue_local();
}

s32 BPF_STRUCT_OPS(all_words_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task_record *record;

	record = bpf_task_storage_get(&task_records, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!record)
		return -ENOMEM;
	if (args->fork)
		record->turns = (u64)parent->pid & bpf_get_prandom_u32() & 1;
	use_cpumasks(p);
	return 0;
}

void BPF_STRUCT_OPS(all_words_enable, struct task_struct *p)
{
	p->scx.dsq_vtime = bpf_jiffies64() * (NSEC_PER_SEC / CONFIG_HZ);
}

void BPF_STRUCT_OPS(all_words_disable, struct task_struct *p)
{
	s32 pid = p->pid;

	bpf_map_delete_elem(&by_pid, &pid);
}

void BPF_STRUCT_OPS(all_words_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	if (!args->cancelled)
		bpf_task_storage_delete(&task_records, p);
}

/* Looks at what runs on CPU 0 once a millisecond. */
static int look_at_cpu_0(void *map, int *key, struct bpf_timer *timer)
{
	struct task_struct *p;

	bpf_rcu_read_lock();
	p = scx_bpf_cpu_curr(0);
	if (p)
		seen += (u64)p->pid;
	bpf_rcu_read_unlock();
	bpf_timer_start(timer, NSEC_PER_MSEC, 0);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(all_words_init)
{
	struct timer_slot *slot;
	u32 key = 0;
	s32 err;

	err = scx_bpf_create_dsq(FIFO_DSQ, -1);
	if (!err)
		err = scx_bpf_create_dsq(VTIME_DSQ, -1);
	if (err)
		return err;
	slot = bpf_map_lookup_elem(&timers, &key);
	if (!slot)
		return -ESRCH;
	bpf_timer_init(&slot->timer, &timers, 1 /* CLOCK_MONOTONIC */);
	bpf_timer_set_callback(&slot->timer, look_at_cpu_0);
	return (s32)bpf_timer_start(&slot->timer, NSEC_PER_MSEC, 0);
}

void BPF_STRUCT_OPS(all_words_exit, struct scx_exit_info *info)
{
	if (info->kind >= SCX_EXIT_ERROR)
		seen = 0;
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(all_words_ops,
	       .select_cpu = (void *)all_words_select_cpu,
	       .enqueue = (void *)all_words_enqueue,
	       .dequeue = (void *)all_words_dequeue,
	       .dispatch = (void *)all_words_dispatch,
	       .tick = (void *)all_words_tick,
	       .runnable = (void *)all_words_runnable,
	       .running = (void *)all_words_running,
	       .stopping = (void *)all_words_stopping,
	       .quiescent = (void *)all_words_quiescent,
	       .yield = (void *)all_words_yield,
	       .set_weight = (void *)all_words_set_weight,
	       .set_cpumask = (void *)all_words_set_cpumask,
	       .update_idle = (void *)all_words_update_idle,
	       .cpu_online = (void *)all_words_cpu_online,
	       .cpu_offline = (void *)all_words_cpu_offline,
	       .cpu_release = (void *)all_words_cpu_release,
	       .init_task = (void *)all_words_init_task,
	       .enable = (void *)all_words_enable,
	       .disable = (void *)all_words_disable,
	       .exit_task = (void *)all_words_exit_task,
	       .init = (void *)all_words_init,
	       .exit = (void *)all_words_exit,
	       .flags = SCX_OPS_KEEP_BUILTIN_IDLE | SCX_OPS_ENQ_LAST,
	       .timeout_ms = 20000,
	       .name = "all_words");
