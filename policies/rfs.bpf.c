/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* rfs - the runnable task that has had least CPU time for its weight runs next, without rounding.
 *
 * RFS-like, reconstructed: the patch itself was not at hand. A task's normalised time is its CPU
 * time x 2^32 / weight. That quotient is rounded once for each weight; the products are summed up
 * exactly, in whole ns of nice 0 and parts of 2^-22 ns, so no error grows with the number of
 * switches. The weighted average of a CPU's tasks is kept exactly too, and divided only where it
 * is asked for: tasks that slept start at most limit_ns behind it, new ones a granularity ahead.
 * A tick ends the running task's turn once it is granularity_ns ahead of the first that waits.
 *
 * Guarantee: on one CPU the CPU time of a task that never sleeps is its weight's part, within
 * about two turns and 2^-20 of it (2^-16 below nice 0, where inverses are short), however long and
 * however finely it runs. Across CPUs: only what balancing does.
 *
 * Ignored or approximated:
 *  1. Verified by R. Zippel's mails is the arithmetic: normalised time, an average over the queue,
 *     no rounding but that of 2^32 / weight. Granularities, placing, preemption by a waking task
 *     and what yield does are assumed to be those of the CFS of that time.
 *  2. How RFS treated several CPUs is not known. Here a wake-up takes an idle CPU as sched_ext's
 *     default does, a new task starts on its parent's CPU, and CPUs balance the sum of weights.
 *     A task that changes CPUs keeps its distance from the average.
 *  3. Groups, SCHED_BATCH. A running CPU's tick balances for it, and wakes idle CPUs whose turn has
 *     come. The balancer takes the tasks that are furthest behind.
 *
 * Source: R. Zippel, "[ANNOUNCE/RFC] Really Fair Scheduler" and its thread, linux-kernel, 30 August
 * to 2 September 2007; commit e9acbff6, "sched: introduce se->vruntime", Linux 2.6.24.
 */
#include <scx/queue_per_cpu.bpf.h>
#include <scx/tunables.bpf.h>
#include <scx/weighted_average.bpf.h>
#include <scx/weights.bpf.h>

char _license[] SEC("license") = "GPL";
UEI_DEFINE(uei);

/* A turn ends at a tick once the task is further ahead of the first than this, by its own CPU
 * time; ns, before scaling by CPUs. Assumed: 2 ms, as in the CFS of that time. */
const volatile u64 granularity_ns = 2 * NSEC_PER_MSEC;
/* The same for a task that has just woken up; ns, before scaling by CPUs. Assumed: 1 ms. */
const volatile u64 wakeup_granularity_ns = 1 * NSEC_PER_MSEC;
/* How far behind the average a task that slept starts at most; ns of nice 0, before scaling by
 * CPUs. Assumed: 20 ms, one latency of CFS; 0: it starts at the average. */
const volatile u64 limit_ns = 20 * NSEC_PER_MSEC;
/* The above are scaled by 1 + log2 of the number of CPUs, counted up to this; 1 is off. */
const volatile u64 scale_cpus_max = 1024;
/* 1: a new task starts a granularity ahead of the average; 0: where its parent is. Assumed. */
const volatile u64 start_debit = 1;
/* 1: a product is rounded down to whole ns at each charge, which RFS avoids; 0: nothing is lost. */
const volatile u64 round_each_charge = 0;
/* 1: a CPU that runs out of tasks pulls one at once. */
const volatile u64 newidle = 1;
/* An idle CPU tries to pull a task once in this time; ns, 0 is never. */
const volatile u64 idle_balance_ns = 4 * NSEC_PER_MSEC;
/* A busy CPU balances once in this time; ns, 0 is never (CFS of that time: 64 to 256 ms). */
const volatile u64 busy_balance_ns = 64 * NSEC_PER_MSEC;
/* A busy CPU balances only if the other's load is this many percent of its own. */
const volatile u64 imbalance_percent = 125;

#define IDLE_WEIGHT 2
#define INVERSE_SHIFT 32
#define PART_SHIFT 22 /* 2^32 / 1024: a ns of nice 0 */
#define CHARGE_MAX_NS (1ULL << 32)
#define TIME_START (1ULL << 40) /* away from 0, so that subtracting never wraps */

/* Normalised time, exactly: ns of nice 0, and parts of 2^-22 ns that are not a whole one yet. */
struct norm {
	u64 ns;
	u64 parts;
};

struct rfs_task {
	struct norm norm; /* comparable on `cpu`; stale while the task runs */
	u64 weight;
	u64 inverse; /* 2^32 / weight, rounded to the nearest */
	u32 cpu;     /* whose queue's sums include it */
	bool is_runnable;
	bool is_counted; /* in its queue's sums */
	bool is_new;
	bool is_put_back; /* neither new nor woken: its affinity or nice value was changed */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct rfs_task);
} tasks SEC(".maps");

struct running_task {
	struct norm norm;
	u64 weight;
	u64 inverse;
	u64 charged_at_ns;
	s32 pid;
	bool exists;
};

/* One CPU. `lock` is for `average`, `running` and nr_running; the rest is the CPU's own. */
struct rfs_queue {
	struct bpf_spin_lock lock;
	struct cpu_queue base;
	struct average average; /* of whole ns of normalised time */
	struct running_task running;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS_MAX);
	__type(key, u32);
	__type(value, struct rfs_queue);
} queues SEC(".maps");

static u64 scaled_granularity_ns, scaled_wakeup_ns, scaled_limit_ns;

static struct rfs_queue *queue_of(u32 cpu)
{
	return bpf_map_lookup_elem(&queues, &cpu);
}

static struct cpu_queue *cpu_queue_of(u32 cpu)
{
	struct rfs_queue *q = queue_of(cpu);

	return q ? &q->base : NULL;
}

static struct rfs_task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

/* ---- normalised time; q->lock is held ------------------------------------------------------ */

/* Adds ran_ns / weight; what is less than a ns is kept for the next time. */
static void advance(struct norm *norm, u64 ran_ns, u64 inverse)
{
	norm->parts += min(ran_ns, CHARGE_MAX_NS) * inverse;
	norm->ns += norm->parts >> PART_SHIFT;
	norm->parts &= (1ULL << PART_SHIFT) - 1;
	if (round_each_charge)
		norm->parts = 0;
}

static void count_in(struct rfs_queue *q, struct rfs_task *t)
{
	average_add(&q->average, t->norm.ns, t->weight);
	q->base.nr_running++;
	t->is_counted = true;
}

/* The average of an empty queue is the time of the last that left. */
static void count_out(struct rfs_queue *q, struct rfs_task *t)
{
	average_remove(&q->average, t->norm.ns, t->weight);
	q->base.nr_running--;
	t->is_counted = false;
	if (!q->base.nr_running)
		q->average.zero = t->norm.ns;
}

/* Brings the running task's normalised time up to date, and with it the average. */
static void charge(struct rfs_queue *q, u64 now)
{
	struct running_task *r = &q->running;
	u64 ran_ns = since(r->charged_at_ns, now);
	u64 before_ns = r->norm.ns;

	if (!r->exists)
		return;
	r->charged_at_ns += ran_ns;
	advance(&r->norm, ran_ns, r->inverse);
	average_advance(&q->average, r->norm.ns - before_ns, r->weight);
}

/* ---- becoming runnable --------------------------------------------------------------------- */

/* Where the average of a queue is now. */
static u64 average_at(struct rfs_queue *q, u64 now)
{
	u64 ns;

	bpf_spin_lock(&q->lock);
	charge(q, now);
	ns = average_of(&q->average);
	bpf_spin_unlock(&q->lock);
	return ns;
}

/* The normalised time of a waiting task in another queue: at the same distance from the average. */
static u64 norm_in(struct rfs_queue *from, struct rfs_queue *to, const struct rfs_task *t)
{
	u64 distance_ns, average;

	bpf_spin_lock(&from->lock);
	distance_ns = t->norm.ns - average_of(&from->average);
	bpf_spin_unlock(&from->lock);
	bpf_spin_lock(&to->lock);
	average = average_of(&to->average);
	bpf_spin_unlock(&to->lock);
	return average + distance_ns;
}

/* Takes a waiting task from one queue to another. It may at the same time be taken off by whoever
 * changes its affinity: is_runnable and is_counted tell each other. */
static void change_queue(struct rfs_queue *from, struct rfs_queue *to, struct rfs_task *t, u32 cpu)
{
	u64 norm_ns = norm_in(from, to, t);

	bpf_spin_lock(&from->lock);
	if (t->is_counted)
		count_out(from, t);
	bpf_spin_unlock(&from->lock);
	t->norm.ns = norm_ns;
	bpf_spin_lock(&to->lock);
	if (t->is_runnable)
		count_in(to, t);
	bpf_spin_unlock(&to->lock);
	t->cpu = cpu;
}

/* A new task's turn comes when all have had one, or with its parent's. */
static void place_new(struct rfs_queue *q, struct rfs_task *t, const struct task_struct *p)
{
	const struct running_task *r = &q->running;

	t->norm.ns = average_of(&q->average);
	if (start_debit)
		t->norm.ns += weighted(scaled_granularity_ns, t->weight);
	else if (r->exists && p->real_parent && p->real_parent->pid == r->pid)
		t->norm = r->norm;
}

/* Sleeping earns no more than the limit. */
static void place_waking(struct rfs_queue *q, struct rfs_task *t)
{
	u64 least_ns = average_of(&q->average) - scaled_limit_ns;

	if (vtime_before(t->norm.ns, least_ns))
		t->norm.ns = least_ns;
}

void BPF_STRUCT_OPS(rfs_runnable, struct task_struct *p, u64 enq_flags)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct rfs_queue *q = queue_of(cpu), *from;
	struct rfs_task *t = task_of(p);
	u64 now = scx_bpf_now(), to_here_ns = 0;

	if (!t || !q)
		return;
	from = queue_of(t->cpu);
	if (from && t->cpu != cpu)
		to_here_ns = average_at(q, now) - average_at(from, now);
	t->cpu = cpu;
	t->is_runnable = true;
	t->is_put_back = !t->is_new && !(enq_flags & SCX_ENQ_WAKEUP);
	bpf_spin_lock(&q->lock);
	charge(q, now);
	t->norm.ns += to_here_ns;
	if (t->is_new)
		place_new(q, t, p);
	else if (enq_flags & SCX_ENQ_WAKEUP)
		place_waking(q, t);
	count_in(q, t);
	bpf_spin_unlock(&q->lock);
}

/* ---- preemption ---------------------------------------------------------------------------- */

/* Whether the running task is further ahead of `norm_ns` than `granularity` of its own CPU time. */
static bool is_ahead(const struct running_task *r, u64 norm_ns, u64 granularity)
{
	return (s64)(r->norm.ns - norm_ns) > (s64)weighted(granularity, r->weight);
}

void BPF_STRUCT_OPS(rfs_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct rfs_task *t = task_of(p);
	u32 cpu = scx_bpf_task_cpu(p);
	struct rfs_queue *q = queue_of(cpu), *from;
	bool comes_anew;

	if (!t || !q)
		return;
	/* After a change of affinity the core moves a task without asking anybody. */
	from = queue_of(t->cpu);
	if (from && t->cpu != cpu)
		change_queue(from, q, t, cpu);
	scx_bpf_dsq_insert_vtime(p, cpu, SCX_SLICE_INF, t->norm.ns, enq_flags);
	/* The core does not wake the CPU for it, and it may have waited in another one's queue. */
	if (t->is_put_back)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	comes_anew = t->is_new || (enq_flags & SCX_ENQ_WAKEUP);
	if (comes_anew && q->running.exists && !q->base.need_resched &&
	    is_ahead(&q->running, t->norm.ns, scaled_wakeup_ns))
		preempt(&q->base, cpu);
	t->is_new = false;
	t->is_put_back = false;
}

/* ---- choosing a CPU ------------------------------------------------------------------------ */

s32 BPF_STRUCT_OPS(rfs_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;

	if (wake_flags & SCX_WAKE_FORK)
		return prev_cpu;
	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
}

/* ---- balancing: what load is, and what may be pulled --------------------------------------- */

static u64 load_seen(u32 cpu, u32 here, enum balance_reason reason, u64 now)
{
	const struct rfs_queue *q = queue_of(cpu);

	return q ? q->average.load : 0;
}

static u64 load_to_pull(const struct busiest *busiest, u32 here, enum balance_reason reason)
{
	return half_of_difference(busiest, reason, imbalance_percent);
}

/* A busy CPU also takes a task that makes it the busier one: so an odd task goes round. Its CPU, or
 * a third, may take a task at the same time: who has moved it, and nobody else, then changes the
 * sums. Until t->cpu says so, no other CPU pulls it from here. */
static void pull(u32 busiest, u32 here, enum balance_reason reason, u64 now)
{
	struct rfs_queue *from = queue_of(busiest), *q = queue_of(here);
	struct task_struct *p;

	if (!from || !q)
		return;
	bpf_for_each(scx_dsq, p, busiest, 0) {
		struct rfs_task *t = task_of(p);

		if (!t || t->cpu != busiest || !bpf_cpumask_test_cpu(here, p->cpus_ptr) ||
		    (reason == BALANCE_BUSY && t->weight / 2 > q->base.pull_load))
			continue;
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, norm_in(from, q, t));
		if (!scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, here, 0))
			continue;
		change_queue(from, q, t, here);
		q->base.pull_load -= min(q->base.pull_load, t->weight);
		if (!q->base.pull_load)
			break;
	}
}

/* ---- picking the next task ----------------------------------------------------------------- */

/* Runs the task with the least normalised time; whether there was one. */
static bool pick(u32 cpu, struct task_struct *prev)
{
	const struct rfs_queue *q = queue_of(cpu);
	u64 first_ns = 0;
	bool others_wait = first_key(cpu, &first_ns);

	if (q && prev && (!others_wait || vtime_before(q->running.norm.ns, first_ns))) {
		go_on(prev);
		return true;
	}
	return others_wait && scx_bpf_dsq_move_to_local(cpu);
}

void BPF_STRUCT_OPS(rfs_dispatch, s32 cpu, struct task_struct *prev)
{
	struct rfs_queue *q = queue_of(cpu);
	u64 now = scx_bpf_now();

	if (!q)
		return;
	bpf_spin_lock(&q->lock);
	charge(q, now);
	bpf_spin_unlock(&q->lock);
	choose_next(cpu, &q->base, q->running.exists ? prev : NULL, newidle, now);
}

/* ---- running ------------------------------------------------------------------------------- */

void BPF_STRUCT_OPS(rfs_running, struct task_struct *p)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct rfs_queue *q = queue_of(cpu), *from;
	struct rfs_task *t = task_of(p);
	u64 now = scx_bpf_now();

	if (!t || !q)
		return;
	from = queue_of(t->cpu);
	if (from && t->cpu != cpu)
		change_queue(from, q, t, cpu);
	q->base.need_resched = false;
	bpf_spin_lock(&q->lock);
	q->running.exists = true;
	q->running.charged_at_ns = now;
	q->running.pid = p->pid;
	q->running.norm = t->norm;
	q->running.weight = t->weight;
	q->running.inverse = t->inverse;
	bpf_spin_unlock(&q->lock);
}

void BPF_STRUCT_OPS(rfs_stopping, struct task_struct *p, bool runnable)
{
	struct rfs_queue *q = queue_of(scx_bpf_task_cpu(p));
	struct rfs_task *t = task_of(p);
	u64 now = scx_bpf_now();

	if (!t || !q || !q->running.exists)
		return;
	bpf_spin_lock(&q->lock);
	charge(q, now);
	t->norm = q->running.norm;
	q->running.exists = false;
	bpf_spin_unlock(&q->lock);
}

void BPF_STRUCT_OPS(rfs_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct rfs_task *t = task_of(p);
	struct rfs_queue *q;

	if (!t || !t->is_runnable)
		return;
	q = queue_of(t->cpu);
	if (!q)
		return;
	bpf_spin_lock(&q->lock);
	t->is_runnable = false;
	if (t->is_counted)
		count_out(q, t);
	bpf_spin_unlock(&q->lock);
}

void BPF_STRUCT_OPS(rfs_tick, struct task_struct *p)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct rfs_queue *q = queue_of(cpu);
	u64 now = scx_bpf_now(), first_ns = 0;

	if (!q)
		return;
	bpf_spin_lock(&q->lock);
	charge(q, now);
	bpf_spin_unlock(&q->lock);
	if (q->base.nr_running > 1 && first_key(cpu, &first_ns) &&
	    is_ahead(&q->running, first_ns, scaled_granularity_ns))
		end_turn(&q->base, p);
	balance_at_tick(&q->base, p, idle_balance_ns, busy_balance_ns ? 1 : 0, now);
}

/* Who yields goes on if it is still the one with the least normalised time. */
bool BPF_STRUCT_OPS(rfs_yield, struct task_struct *from, struct task_struct *to)
{
	struct rfs_queue *q = queue_of(scx_bpf_task_cpu(from));

	if (!q || q->base.nr_running == 1)
		return false;
	end_turn(&q->base, from);
	return false;
}

/* ---- weights, tasks coming, the policy starting -------------------------------------------- */

static void set_weight_of(const struct task_struct *p, struct rfs_task *t)
{
	t->weight = weight_of(p, IDLE_WEIGHT);
	t->inverse = ((1ULL << INVERSE_SHIFT) + t->weight / 2) / max(t->weight, 1ULL);
}

/* Its place stays; time passes at another speed for it from now on. */
void BPF_STRUCT_OPS(rfs_set_weight, struct task_struct *p, u32 weight)
{
	struct rfs_task *t = task_of(p);
	u64 now = scx_bpf_now();
	struct rfs_queue *q;
	bool is_running;

	if (!t)
		return;
	q = queue_of(t->cpu);
	if (!q)
		return;
	bpf_spin_lock(&q->lock);
	charge(q, now);
	is_running = q->running.exists && q->running.pid == p->pid;
	if (is_running)
		t->norm = q->running.norm;
	if (t->is_runnable)
		count_out(q, t);
	set_weight_of(p, t);
	if (t->is_runnable)
		count_in(q, t);
	if (is_running) {
		q->running.weight = t->weight;
		q->running.inverse = t->inverse;
	}
	bpf_spin_unlock(&q->lock);
}

s32 BPF_STRUCT_OPS(rfs_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct rfs_task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	t->cpu = scx_bpf_task_cpu(p);
	t->is_new = true;
	set_weight_of(p, t);
	return 0;
}

static bool tunables_are_sound(void)
{
	return tunable_is_within(granularity_ns, 1, TUNABLE_NS_MAX) &&
	       tunable_is_within(wakeup_granularity_ns, 0, TUNABLE_NS_MAX) &&
	       tunable_is_within(limit_ns, 0, TUNABLE_NS_MAX) &&
	       tunable_is_within(imbalance_percent, 100, IMBALANCE_PERCENT_MAX);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(rfs_init)
{
	u64 factor;
	s32 error;
	u32 cpu;

	if (!tunables_are_sound())
		return -EINVAL;
	error = count_cpus();
	if (error)
		return error;
	factor = scale_by_cpus(scale_cpus_max);
	scaled_granularity_ns = granularity_ns * factor;
	scaled_wakeup_ns = wakeup_granularity_ns * factor;
	scaled_limit_ns = limit_ns * factor;
	shortest_interval_ns = longest_interval_ns = busy_balance_ns;
	bpf_for(cpu, 0, nr_cpus) {
		struct rfs_queue *q = queue_of(cpu);

		if (!q)
			return -ENOENT;
		q->average.zero = TIME_START;
		q->base.interval_ns = longest_interval_ns;
		error = scx_bpf_create_dsq(cpu, -1);
		if (error)
			return error;
	}
	return 0;
}

void BPF_STRUCT_OPS(rfs_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

/* The core takes the tasks of this CPU's queue to other CPUs, as migrate_dead_tasks did. */
void BPF_STRUCT_OPS(rfs_cpu_offline, s32 cpu)
{
	give_back_all((u64)cpu);
}

/* It balances as soon as it can. Without this operation the kernel ends the policy. */
void BPF_STRUCT_OPS(rfs_cpu_online, s32 cpu)
{
}

SCX_OPS_DEFINE(rfs_ops, .select_cpu = (void *)rfs_select_cpu, .enqueue = (void *)rfs_enqueue,
	       .dispatch = (void *)rfs_dispatch, .tick = (void *)rfs_tick,
	       .runnable = (void *)rfs_runnable, .running = (void *)rfs_running,
	       .stopping = (void *)rfs_stopping, .quiescent = (void *)rfs_quiescent,
	       .yield = (void *)rfs_yield, .set_weight = (void *)rfs_set_weight,
	       .init_task = (void *)rfs_init_task, .init = (void *)rfs_init,
	       .cpu_online = (void *)rfs_cpu_online,
	       .cpu_offline = (void *)rfs_cpu_offline,
	       .exit = (void *)rfs_exit, .name = "rfs");
