/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* cfs_2007 - the first CFS: whoever is owed most CPU time runs, counted against a fair clock.
 *
 * On each CPU a fair clock shows how far an ideal CPU that runs all tasks at once would have
 * brought a nice-0 task. wait_runtime is what a task is owed: it grows while the task waits,
 * shrinks while it runs, and never leaves +-runtime_limit_ns. A task's key is the fair clock minus
 * wait_runtime x 1024 / weight; the least key runs. A tick moves the running task to its new key,
 * and ends its turn once it is a granularity behind the first: a part of latency_ns that depends
 * on the number of tasks. Sleeping counts as waiting, up to the limit; that bonus is taken back
 * from whoever runs. The defaults are Linux 2.6.23; cfs_2007.sets.toml has CFS as first merged, and
 * as announced as far as that is known.
 *
 * Guarantee: on one CPU hogs share by weight as long as no wait_runtime meets its limit, and equal
 * hogs take turns of latency_ns / n, at least min_granularity_ns, up to the next tick. Where a tick
 * costs a task of little weight more fair time than twice the limit, the rest of its wait is not
 * counted: beside a nice-0 hog and with ticks of 4 ms, nice 15 has 0.7 % in place of 3.4 %.
 *
 * Ignored or approximated:
 *  1. The code of April 2007 was not at hand. The first merge (July 2007) keeps its two numbers,
 *     key and wait_runtime; cfs_2007.sets.toml says what is known of granularities then.
 *  2. Key and wait_runtime are rounded down as in Linux, which multiplies with the inverse of the
 *     load and divides when the load has changed; here the quotients are exact. Other weights than
 *     nice 0 are divided by. stat_granularity is 0.
 *  3. Groups, and PRECISE_CPU_LOAD: load is averaged over ticks as in 2.6.22.
 *  4. Scheduling domains: all CPUs are one domain of one-CPU groups, with the constants of the CPU
 *     domain. No exec balancing (sched_ext has no hook for it), no power saving, no active
 *     balancing, no CPU power in the small-imbalance rule.
 *  5. A running CPU's tick balances for it and, in place of the idle load balancer, wakes the idle
 *     CPUs whose turn has come. Tasks change queues in dispatch, where sched_ext allows it.
 *  6. Numbers have the widths that they had on i386, where a long has 32 bits; balancing computes
 *     with 64.
 *
 * Source: Linux 2.6.23 and its release candidates, kernel/sched.c, kernel/sched_fair.c;
 * I. Molnar, "Modular Scheduler Core and Completely Fair Scheduler", linux-kernel, 13 April 2007.
 */
#define LOADS_OF_I386
#include <scx/tick_loads.bpf.h>
#include <scx/tunables.bpf.h>
#include <scx/weights.bpf.h>

char _license[] SEC("license") = "GPL";
UEI_DEFINE(uei);

/* 1: the first merge's formulas: credit counts by weight in keys, no finer granularity for nice
 * values below 0, and a runner pays back its weight's part of the sleepers' bonus at once. */
const volatile u32 as_announced = 0;
/* Time in which each of few tasks runs once; ns, before scaling by CPUs (2.6.23: 20 ms). 0: every
 * turn has the granularity min_granularity_ns, as in the first merge. */
const volatile u32 latency_ns = 20 * NSEC_PER_MSEC;
/* Least granularity of ticks; ns, before scaling by CPUs (2.6.23: 2 ms). */
const volatile u32 min_granularity_ns = 2 * NSEC_PER_MSEC;
/* A waking task preempts if its key is further ahead than this; ns, before scaling by CPUs
 * (2.6.23: half of min_granularity_ns). */
const volatile u32 wakeup_granularity_ns = 1 * NSEC_PER_MSEC;
/* The same for a waking SCHED_BATCH task; ns, not scaled (2.6.23: 25 ms, first merge: 10 ms). */
const volatile u32 batch_wakeup_granularity_ns = 25 * NSEC_PER_MSEC;
/* Bound of wait_runtime either way; ns, before scaling by CPUs (2.6.23: the latency; first merge:
 * four granularities). */
const volatile u32 runtime_limit_ns = 20 * NSEC_PER_MSEC;
/* The above are scaled by 1 + log2 of the number of CPUs, counted up to this; 1 is off. */
const volatile u64 scale_cpus_max = 1024;
/* 1: sleeping counts as waiting; 0: it does not (feature FAIR_SLEEPERS, on). */
const volatile u32 fair_sleepers = 1;
/* 1: as if the sleeper had run meanwhile: credit x load / (load + weight) (feature SLEEPER_AVG, on
 * in the first merge, off in 2.6.23). */
const volatile u32 sleeper_avg = 0;
/* 1: what sleepers were credited with is taken from those who run; 0: it is a gift. */
const volatile u32 sleeper_bonus = 1;
/* 1: a new task owes half a granularity (feature START_DEBIT, on). */
const volatile u32 start_debit = 1;
/* 1: a new task on its parent's CPU runs before its parent goes on (2.6.23: 1). */
const volatile u32 child_runs_first = 1;
/* 1: sched_yield moves the task behind all others; 0: to its present key (2.6.23: 0). */
const volatile u32 compat_yield = 0;
/* 1: a task whose CPU runs one other task wakes up on an idle CPU (2.6.23: flag WAKE_IDLE of the
 * CPU domain; before, only hardware threads had it). */
const volatile u32 wake_idle = 1;
/* 1: a wake-up may move to the waker's CPU; 0: it never does (flag WAKE_AFFINE). */
const volatile u32 wake_affine = 1;
/* 1: a CPU that runs out of tasks pulls one at once (flag BALANCE_NEWIDLE). */
const volatile u32 newidle = 1;
/* An idle CPU tries to pull a task once in this time; ns, 0 is never. */
const volatile u64 idle_balance_ns = 4 * NSEC_PER_MSEC;
/* 1: an idle CPU does not try before it would have as a busy one (2.6.23: 1; 2.6.22: 0). */
const volatile u64 idle_waits_as_busy = 1;
/* A busy CPU balances this many times less often than an interval of 1 to 4 ms; 0 is never. */
const volatile u64 busy_factor = 64;
/* Balance only if the other CPU's load is this many percent of ours. */
const volatile u64 imbalance_percent = 125;
/* Weight by which an imbalance may fall short of a task that is moved all the same (2.6.23: 1024);
 * 0: never, as in 2.6.22. */
const volatile u64 load_fuzz = 1024;

#define IDLE_WEIGHT 2
#define GRANULARITY_MAX_NS (100 * NSEC_PER_MSEC)
#define FAIR_CLOCK_START (1ULL << 40) /* away from 0, so that keys never wrap */
#define INVERSE_ONE (1ULL << 32)
#define LONG_MAX ((1ULL << 31) - 1) /* of i386 */
/* What is charged at once: longer than a tick, and short enough that 32 bits hold what follows from
 * it. The rest is charged next time. Linux has 32 bits for it, too, as a tick never is far and a
 * clock that jumps is not followed (2.6.23 update_curr and __update_rq_clock). */
#define RUN_NS_MAX (1 * NSEC_PER_SEC)
#define PULL_STEPS_MAX 32
#define LOAD_FUZZ_MAX (1ULL << 20)
#define BALANCE_MIN_NS (1 * NSEC_PER_MSEC)
#define BALANCE_MAX_NS (4 * NSEC_PER_MSEC)

/* Which average of past loads is compared, 0 being the present load. */
#define WAKE_LOAD_INDEX 1
#define IDLE_LOAD_INDEX 1
#define BUSY_LOAD_INDEX 2
#define NEWIDLE_LOAD_INDEX 2

struct cfs_task {
	u64 key;             /* in the order of `cpu`; only ticks and enqueueing move it */
	u64 since_fair_ns;   /* fair clock of `cpu` when it began to wait, or to sleep */
	s32 wait_runtime_ns; /* what the task is owed; stale while it runs */
	u32 weight;
	u32 cpu; /* whose queue's sums include it */
	bool is_runnable;
	bool is_waiting;
	bool is_new;
	bool is_put_back; /* neither new nor woken: its affinity or nice value was changed */
	bool is_sync;     /* woken by a task that is about to sleep */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cfs_task);
} tasks SEC(".maps");

/* One CPU. Its own operations change it; other CPUs only `base` and `load`, as these say. */
struct cfs_queue {
	struct cpu_queue base;
	struct load load;
	u32 divisor;     /* the load by which time was divided last */
	u32 inverse;     /* 2^32 / divisor, rounded down; of 1 it is 2^32 - 1 */
	u32 not_covered; /* what is left of 2^32 */
	u64 fair_clock_ns;
	u64 bonus_ns; /* credited to sleepers and not yet taken back */
	/* The running task, if is_busy. */
	bool is_busy;
	s32 pid;
	u32 weight;
	s32 wait_runtime_ns;
	u64 key;
	u64 charged_at_ns;
	u64 ran_ns;        /* since it was switched to */
	u64 picked_ran_ns; /* ran_ns when it was last picked */
	u64 pull_steps; /* that a pull may yet look at; here, as the verifier need not follow it */
};

static struct cfs_queue queues[CPUS_MAX];
static u32 scaled_latency_ns, scaled_granularity_ns, scaled_wakeup_ns, limit_ns;

static struct cfs_queue *queue_of(u32 cpu)
{
	return &queues[cpu & (CPUS_MAX - 1)];
}

static struct cpu_queue *cpu_queue_of(u32 cpu)
{
	return &queue_of(cpu)->base;
}

static struct load *load_of(u32 cpu)
{
	return &queue_of(cpu)->load;
}

static struct cfs_task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

/* ---- what a task is owed ------------------------------------------------------------------- */

static s32 limited(s32 wait_runtime_ns)
{
	return clamp(wait_runtime_ns, -(s32)limit_ns, (s32)limit_ns);
}

/* As announced a running task pays its weight's part of the sleepers' bonus back, whatever it is
 * entitled to. What is beyond RUN_NS_MAX leads to the limit all the same. */
static u32 pay_part_back(struct cfs_queue *q)
{
	u64 ns = q->bonus_ns * q->weight / max(q->load.now, q->weight);

	q->bonus_ns -= ns;
	return (u32)min(ns, RUN_NS_MAX);
}

/* The part of `entitled_ns` that it pays back. */
static u32 pay_back(struct cfs_queue *q, u32 entitled_ns)
{
	u32 ns;

	if (!sleeper_bonus)
		return 0;
	if (as_announced)
		return pay_part_back(q);
	if (q->bonus_ns <= scaled_granularity_ns)
		return 0;
	ns = (u32)min(entitled_ns, q->bonus_ns);
	ns = min(ns, limit_ns - (u32)q->wait_runtime_ns);
	q->bonus_ns -= ns;
	return ns;
}

static void note_divisor(struct cfs_queue *q, u32 load)
{
	if (q->divisor == load)
		return;
	q->divisor = load;
	q->inverse = load > 1 ? (u32)(INVERSE_ONE / load) : (u32)(INVERSE_ONE - 1);
	q->not_covered = -(load * q->inverse);
}

/* value / divisor, LONG_MAX at the most. Of a value below 2^32 the product falls short of the
 * quotient by less than 1: rounded down it is right or one too low, which the remainder tells. By
 * an inverse without a remainder it is right. */
static u32 divided(const struct cfs_queue *q, u64 value)
{
	u32 quotient = (u32)(value * q->inverse / INVERSE_ONE);

	/* As calc_delta_mine of 2.6.24; that of the first merge has the limit of wait_runtime. */
	if (value >= INVERSE_ONE / 2)
		return (u32)min(value / q->divisor, LONG_MAX);
	if (!q->not_covered)
		return quotient;
	return (u32)value - quotient * q->divisor < q->divisor ? quotient : quotient + 1;
}

/* Lets the fair clock pass: the running task gets more than an ideal CPU would have given it. */
static void charge(struct cfs_queue *q, u64 now)
{
	u32 ran_ns = (u32)min(since(q->charged_at_ns, now), RUN_NS_MAX);
	u32 entitled_ns;

	if (!q->is_busy)
		return;
	note_divisor(q, max(q->load.now, q->weight));
	entitled_ns = divided(q, (u64)ran_ns * q->weight);
	q->charged_at_ns += ran_ns;
	q->ran_ns += ran_ns;
	q->wait_runtime_ns = limited(q->wait_runtime_ns +
				     (s32)(entitled_ns - pay_back(q, entitled_ns) - ran_ns));
	q->fair_clock_ns += divided(q, (u64)ran_ns * NICE_0_WEIGHT);
}

/* Adds the fair time since the task began to wait or sleep, for its weight; never beyond the limit,
 * so that whoever waits longer than that loses the rest. */
static void credit(struct cfs_task *t, u32 fair_ns)
{
	if (t->weight != NICE_0_WEIGHT)
		fair_ns = (u32)min((u64)fair_ns * t->weight / NICE_0_WEIGHT, 2ULL * limit_ns);
	t->wait_runtime_ns = limited(t->wait_runtime_ns + (s32)fair_ns);
}

static u32 fair_since(const struct cfs_task *t, const struct cfs_queue *q)
{
	return (u32)min(since(t->since_fair_ns, q->fair_clock_ns), 2ULL * limit_ns);
}

static void begin_wait(struct cfs_task *t, const struct cfs_queue *q)
{
	t->is_waiting = true;
	t->since_fair_ns = q->fair_clock_ns;
}

static void end_wait(struct cfs_task *t, const struct cfs_queue *q)
{
	if (t->is_waiting)
		credit(t, fair_since(t, q));
	t->is_waiting = false;
}

/* Credits the sleep that ends now, unless those who run have much to pay back already. */
static void credit_sleep(const struct task_struct *p, struct cfs_task *t, struct cfs_queue *q)
{
	u32 fair_ns = fair_since(t, q), load = q->load.past[PAST_LOADS - 1];
	s32 before_ns = t->wait_runtime_ns;

	if (!fair_sleepers || p->policy == SCHED_BATCH)
		return;
	if (sleeper_bonus && !as_announced && q->bonus_ns > limit_ns)
		return;
	if (sleeper_avg)
		fair_ns = (u32)((u64)fair_ns * load / max(load + t->weight, 1U));
	credit(t, fair_ns);
	q->bonus_ns += (u32)(t->wait_runtime_ns - before_ns);
}

/* ---- keys ---------------------------------------------------------------------------------- */

static u64 key_of(const struct cfs_queue *q, s32 wait_runtime_ns, u32 weight)
{
	bool is_owed = wait_runtime_ns > 0;
	u64 ns = is_owed ? (u32)wait_runtime_ns : -(u32)wait_runtime_ns;

	if (is_owed && as_announced)
		ns = ns * weight / NICE_0_WEIGHT;
	else if (weight != NICE_0_WEIGHT)
		ns = ns * NICE_0_WEIGHT / max(weight, 1U);
	return is_owed ? q->fair_clock_ns - ns : q->fair_clock_ns + ns;
}

/* A granularity in key space: finer for whatever is not nice 0. */
static u32 niced(u32 ns, u32 weight)
{
	if (weight < NICE_0_WEIGHT)
		return (u32)((u64)ns * weight / NICE_0_WEIGHT);
	if (weight > NICE_0_WEIGHT && !as_announced)
		return (u32)((u64)ns * NICE_0_WEIGHT / weight);
	return ns;
}

/* Granularity of ticks: with it equal hogs have turns of latency / nr_running. */
static u32 tick_granularity(const struct cfs_queue *q)
{
	u32 nr = max((u32)q->base.nr_running, 1U);
	u32 turn_ns = scaled_latency_ns / nr;

	if (latency_ns && nr == 1)
		return turn_ns;
	return max(turn_ns - turn_ns / nr, scaled_granularity_ns);
}

/* Whether a task of this key must run in place of the running one. What that has run since it was
 * picked is cut to 32 bits, as in Linux on i386. */
static bool is_due(const struct cfs_queue *q, u64 key, u32 granularity_ns)
{
	u32 nr = max((u32)q->base.nr_running, 1U);
	u32 turn_ns = max(scaled_latency_ns / nr, scaled_granularity_ns);

	if (latency_ns && (u32)(q->ran_ns - q->picked_ran_ns) > turn_ns)
		granularity_ns = 0;
	return (s64)(q->key - key) > (s64)niced(granularity_ns, q->weight);
}

/* ---- becoming runnable --------------------------------------------------------------------- */

/* The task is to wait in its CPU's queue from now on. */
static void place(struct cfs_task *t, const struct cfs_queue *q)
{
	begin_wait(t, q);
	t->key = key_of(q, t->wait_runtime_ns, t->weight);
}

/* A waiting task changes queues: what it is owed goes with it. */
static void change_queue(struct cfs_task *t, u32 cpu)
{
	end_wait(t, queue_of(t->cpu));
	place(t, queue_of(cpu));
	remove_load(t->cpu, t->weight);
	t->cpu = cpu;
	add_load(t->cpu, t->weight);
}

/* What the key of a task that waits is going to be in another CPU's queue. */
static u64 key_in(const struct cfs_task *t, u32 cpu)
{
	struct cfs_task there = *t;

	end_wait(&there, queue_of(t->cpu));
	place(&there, queue_of(cpu));
	return there.key;
}

/* Whether the parent of a new task runs on the CPU to which the child comes. */
static bool parent_runs_here(const struct task_struct *p, const struct cfs_queue *q)
{
	return q->is_busy && p->real_parent && p->real_parent->pid == q->pid;
}

/* The child's first key makes it preempt its parent. */
static void place_before_parent(struct cfs_task *t, const struct cfs_queue *q)
{
	u32 granularity_ns = tick_granularity(q);

	t->key = q->key - niced(granularity_ns, q->weight) - 1;
	if (start_debit)
		t->wait_runtime_ns = -(s32)(granularity_ns / 2);
}

void BPF_STRUCT_OPS(cfs_2007_runnable, struct task_struct *p, u64 enq_flags)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct cfs_queue *q = queue_of(cpu);
	struct cfs_task *t = task_of(p);
	u64 now = scx_bpf_now();

	if (!t)
		return;
	charge(q, now);
	note_load_of_idle(cpu, now);
	if (t->cpu != cpu)
		t->since_fair_ns += q->fair_clock_ns - queue_of(t->cpu)->fair_clock_ns;
	t->cpu = cpu;
	t->is_put_back = !t->is_new && !(enq_flags & SCX_ENQ_WAKEUP);
	if (!t->is_new && (enq_flags & SCX_ENQ_WAKEUP))
		credit_sleep(p, t, q);
	place(t, q);
	if (t->is_new && child_runs_first && parent_runs_here(p, q))
		place_before_parent(t, q);
	t->is_runnable = true;
	add_load(t->cpu, t->weight);
}

static bool preempts(struct cfs_queue *q, const struct task_struct *p, const struct cfs_task *t)
{
	u32 ns = p->policy == SCHED_BATCH ? batch_wakeup_granularity_ns : scaled_wakeup_ns;

	return q->is_busy && !q->base.need_resched && is_due(q, t->key, ns);
}

void BPF_STRUCT_OPS(cfs_2007_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct cfs_task *t = task_of(p);
	struct cfs_queue *q;
	bool comes_anew;

	if (!t)
		return;
	/* After a change of affinity the core moves a task without asking anybody. */
	if (t->cpu != (u32)scx_bpf_task_cpu(p))
		change_queue(t, scx_bpf_task_cpu(p));
	q = queue_of(t->cpu);
	scx_bpf_dsq_insert_vtime(p, t->cpu, SCX_SLICE_INF, t->key, enq_flags);
	/* The core does not wake the CPU for it, and it may have waited in another one's queue. */
	if (t->is_put_back)
		scx_bpf_kick_cpu(t->cpu, SCX_KICK_IDLE);
	comes_anew = t->is_new || (enq_flags & SCX_ENQ_WAKEUP);
	/* Whoever wakes up synchronously has its turn when the waker sleeps. */
	if (comes_anew && !(t->is_sync && t->cpu == bpf_get_smp_processor_id()) &&
	    preempts(q, p, t))
		preempt(&q->base, t->cpu);
	t->is_new = false;
	t->is_put_back = false;
	t->is_sync = false;
}

/* ---- choosing a CPU ------------------------------------------------------------------------ */

/* Whether the waker's CPU `cpu` suits a waking task better than `prev`, where it last ran. */
static bool wakes_at_waker(const struct cfs_task *t, u32 cpu, u32 prev, u64 now)
{
	const struct cfs_queue *here = queue_of(cpu);
	u64 percent = 100 + (imbalance_percent - 100) / 2;
	u64 prev_load = source_load(prev, WAKE_LOAD_INDEX, now);
	u64 load = target_load(cpu, WAKE_LOAD_INDEX, now);

	if (t->is_sync && here->is_busy)
		load -= min(load, (u64)here->weight);
	if (100 * (load + t->weight) <= percent * prev_load)
		return true;
	return load <= prev_load &&
	       load + target_load(prev, WAKE_LOAD_INDEX, now) <= load_per_task(cpu);
}

/* An idle CPU in place of one that runs a single task. */
static u32 idle_cpu_for(struct task_struct *p, u32 target)
{
	u32 cpu;

	if (queue_of(target)->base.nr_running != 1)
		return target;
	bpf_for(cpu, 0, nr_cpus) {
		if (!queue_of(cpu)->base.nr_running && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) &&
		    cpu_is_online(cpu))
			return cpu;
	}
	return target;
}

/* A new task starts on its parent's CPU: only NUMA domains balanced forks. */
s32 BPF_STRUCT_OPS(cfs_2007_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u32 here = bpf_get_smp_processor_id();
	u32 target = prev_cpu;
	struct cfs_task *t = task_of(p);

	if (!t || (wake_flags & SCX_WAKE_FORK))
		return prev_cpu;
	t->is_sync = wake_flags & SCX_WAKE_SYNC;
	if (here != target && wake_affine && bpf_cpumask_test_cpu(here, p->cpus_ptr) &&
	    wakes_at_waker(t, here, target, scx_bpf_now()))
		target = here;
	return wake_idle ? idle_cpu_for(p, target) : target;
}

/* ---- balancing: what load is, and what may be pulled --------------------------------------- */

static u64 load_seen(u32 cpu, u32 here, enum balance_reason reason, u64 now)
{
	u64 index = NEWIDLE_LOAD_INDEX;

	if (reason == BALANCE_BUSY)
		index = BUSY_LOAD_INDEX;
	else if (reason == BALANCE_IDLE)
		index = IDLE_LOAD_INDEX;
	return cpu == here ? target_load(cpu, index, now) : source_load(cpu, index, now);
}

static u64 load_to_pull(const struct busiest *busiest, u32 here, enum balance_reason reason)
{
	u64 load;

	if (!is_imbalanced(busiest, imbalance_percent))
		return 0;
	load = load_to_average(busiest);
	return load >= load_per_task(busiest->cpu) ? load : odd_task(busiest, here, load_fuzz);
}

/* Least key first. 2.6.23 has no notion of a warm cache. Another CPU may take a task at the same
 * time: who has moved it, and nobody else, then changes what is known of it. */
static void pull(u32 from, u32 here, enum balance_reason reason, u64 now)
{
	struct cfs_queue *q = queue_of(here);
	struct task_struct *p;

	q->pull_steps = PULL_STEPS_MAX;
	bpf_for_each(scx_dsq, p, from, 0) {
		struct cfs_task *t = task_of(p);

		if (!q->pull_steps--)
			break;
		if (!t || t->cpu != from || t->weight / 2 > q->base.pull_load + load_fuzz ||
		    !bpf_cpumask_test_cpu(here, p->cpus_ptr))
			continue;
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, key_in(t, here));
		if (!scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, here, 0))
			continue;
		change_queue(t, here);
		q->base.need_resched |= preempts(q, p, t);
		q->base.pull_load -= min(q->base.pull_load, (u64)t->weight);
		if (!q->base.pull_load)
			break;
	}
}

/* ---- picking the next task ----------------------------------------------------------------- */

/* Runs the task with the least key; whether there was one. */
static bool pick(u32 cpu, struct task_struct *prev)
{
	struct cfs_queue *q = queue_of(cpu);
	u64 key = 0;
	bool others_wait = first_key(cpu, &key);

	if (prev && (!others_wait || vtime_before(q->key, key))) {
		q->picked_ran_ns = q->ran_ns;
		go_on(prev);
		return true;
	}
	return others_wait && scx_bpf_dsq_move_to_local(cpu);
}

void BPF_STRUCT_OPS(cfs_2007_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cfs_queue *q = queue_of(cpu);
	u64 now = scx_bpf_now();

	charge(q, now);
	choose_next(cpu, &q->base, q->is_busy ? prev : NULL, newidle, now);
}

/* ---- running ------------------------------------------------------------------------------- */

void BPF_STRUCT_OPS(cfs_2007_running, struct task_struct *p)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct cfs_queue *q = queue_of(cpu);
	struct cfs_task *t = task_of(p);

	if (!t)
		return;
	if (t->cpu != cpu)
		change_queue(t, cpu);
	end_wait(t, q);
	q->is_busy = true;
	q->base.need_resched = false;
	q->pid = p->pid;
	q->key = t->key;
	q->weight = t->weight;
	q->wait_runtime_ns = t->wait_runtime_ns;
	q->charged_at_ns = scx_bpf_now();
	q->ran_ns = 0;
	q->picked_ran_ns = 0;
}

/* Whoever is put back keeps the key of its last tick. */
void BPF_STRUCT_OPS(cfs_2007_stopping, struct task_struct *p, bool runnable)
{
	struct cfs_task *t = task_of(p);
	struct cfs_queue *q = queue_of(scx_bpf_task_cpu(p));

	if (!t || !q->is_busy)
		return;
	charge(q, scx_bpf_now());
	t->wait_runtime_ns = q->wait_runtime_ns;
	t->key = q->key;
	q->is_busy = false;
	if (runnable)
		begin_wait(t, q);
}

void BPF_STRUCT_OPS(cfs_2007_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct cfs_task *t = task_of(p);
	struct cfs_queue *q;

	if (!t || !t->is_runnable)
		return;
	q = queue_of(t->cpu);
	charge(q, scx_bpf_now());
	end_wait(t, q);
	t->since_fair_ns = q->fair_clock_ns;
	t->is_runnable = false;
	remove_load(t->cpu, t->weight);
}

void BPF_STRUCT_OPS(cfs_2007_tick, struct task_struct *p)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct cfs_queue *q = queue_of(cpu);
	u64 now = scx_bpf_now(), key = 0;

	charge(q, now);
	q->key = key_of(q, q->wait_runtime_ns, q->weight);
	note_load_at_tick(&q->load, now);
	if (q->base.nr_running > 1 && first_key(cpu, &key) && is_due(q, key, tick_granularity(q)))
		end_turn(&q->base, p);
	balance_at_tick(&q->base, p, idle_balance_ns, busy_factor, now);
}

bool BPF_STRUCT_OPS(cfs_2007_yield, struct task_struct *from, struct task_struct *to)
{
	u32 cpu = scx_bpf_task_cpu(from);
	struct cfs_queue *q = queue_of(cpu);
	struct task_struct *p;

	if (q->base.nr_running == 1)
		return false;
	charge(q, scx_bpf_now());
	q->key = key_of(q, q->wait_runtime_ns, q->weight);
	if (compat_yield) {
		bpf_for_each(scx_dsq, p, cpu, SCX_DSQ_ITER_REV) {
			if (!vtime_before(p->scx.dsq_vtime, q->key))
				q->key = p->scx.dsq_vtime + 1;
			break;
		}
	}
	end_turn(&q->base, from);
	return false;
}

/* ---- weights, tasks coming, the policy starting -------------------------------------------- */

void BPF_STRUCT_OPS(cfs_2007_set_weight, struct task_struct *p, u32 weight)
{
	struct cfs_task *t = task_of(p);
	struct cfs_queue *q;

	if (!t)
		return;
	q = queue_of(t->cpu);
	charge(q, scx_bpf_now());
	end_wait(t, q);
	if (t->is_runnable)
		remove_load(t->cpu, t->weight);
	t->weight = (u32)weight_of(p, IDLE_WEIGHT);
	if (t->is_runnable)
		add_load(t->cpu, t->weight);
	if (!q->is_busy || q->pid != p->pid) {
		if (t->is_runnable)
			place(t, q);
		return;
	}
	q->weight = t->weight;
	q->key = key_of(q, q->wait_runtime_ns, q->weight);
}

s32 BPF_STRUCT_OPS(cfs_2007_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct cfs_task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	t->cpu = scx_bpf_task_cpu(p);
	t->weight = (u32)weight_of(p, IDLE_WEIGHT);
	t->is_new = true;
	return 0;
}

static bool tunables_are_sound(void)
{
	return tunable_is_within(min_granularity_ns, 1, TUNABLE_NS_MAX) &&
	       tunable_is_within(runtime_limit_ns, 1, TUNABLE_NS_MAX) &&
	       tunable_is_within(busy_factor, 0, BUSY_FACTOR_MAX) &&
	       tunable_is_within(imbalance_percent, 100, IMBALANCE_PERCENT_MAX) &&
	       tunable_is_within(load_fuzz, 0, LOAD_FUZZ_MAX);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(cfs_2007_init)
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
	scaled_latency_ns = (u32)min(latency_ns * factor, GRANULARITY_MAX_NS);
	scaled_granularity_ns = (u32)min(min_granularity_ns * factor, GRANULARITY_MAX_NS);
	scaled_wakeup_ns = (u32)min(wakeup_granularity_ns * factor, LONG_MAX);
	limit_ns = (u32)min(runtime_limit_ns * factor, GRANULARITY_MAX_NS);
	idle_keeps_turn = idle_waits_as_busy;
	shortest_interval_ns = BALANCE_MIN_NS;
	longest_interval_ns = BALANCE_MAX_NS;
	bpf_for(cpu, 0, nr_cpus) {
		queue_of(cpu)->fair_clock_ns = FAIR_CLOCK_START;
		queue_of(cpu)->base.interval_ns = longest_interval_ns;
		error = scx_bpf_create_dsq(cpu, -1);
		if (error)
			return error;
	}
	return 0;
}

void BPF_STRUCT_OPS(cfs_2007_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

/* The core takes the tasks of this CPU's queue to other CPUs, as migrate_dead_tasks did. */
void BPF_STRUCT_OPS(cfs_2007_cpu_offline, s32 cpu)
{
	give_back_all((u64)cpu);
}

/* It balances as soon as it can. Without this operation the kernel ends the policy. */
void BPF_STRUCT_OPS(cfs_2007_cpu_online, s32 cpu)
{
}

SCX_OPS_DEFINE(cfs_2007_ops, .select_cpu = (void *)cfs_2007_select_cpu,
	       .enqueue = (void *)cfs_2007_enqueue, .dispatch = (void *)cfs_2007_dispatch,
	       .tick = (void *)cfs_2007_tick, .runnable = (void *)cfs_2007_runnable,
	       .running = (void *)cfs_2007_running, .stopping = (void *)cfs_2007_stopping,
	       .quiescent = (void *)cfs_2007_quiescent, .yield = (void *)cfs_2007_yield,
	       .set_weight = (void *)cfs_2007_set_weight,
	       .init_task = (void *)cfs_2007_init_task, .init = (void *)cfs_2007_init,
	       .cpu_online = (void *)cfs_2007_cpu_online,
	       .cpu_offline = (void *)cfs_2007_cpu_offline,
	       .exit = (void *)cfs_2007_exit, .name = "cfs_2007");
