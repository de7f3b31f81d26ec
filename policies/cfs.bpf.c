/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* cfs - the runnable task that has had the least CPU time for its weight runs next.
 *
 * Each CPU has a queue in order of vruntime: CPU time x 1024 / weight. The first task runs for
 * period x its weight / all weights; one that wakes up at least wakeup_granularity_ns behind
 * the running task preempts it. A wake-up or a fork chooses a CPU by load; after that only the
 * load balancer moves tasks. The defaults are Linux 2.6.31; cfs.sets.toml has the values of other
 * releases from 2.6.24 to 6.1, and says of each what it lacks.
 *
 * Guarantee: on one CPU shares are proportional to weights, and a waiting task runs within
 * max(latency, nr_running x min_granularity) plus a tick. Across CPUs: only what balancing does.
 *
 * Ignored or approximated:
 *  1. Groups, autogroups, and wake-up statistics of interrupts (a timer that wakes a task counts
 *     as the task it interrupted).
 *  2. Scheduling domains: all CPUs are one domain of one-CPU groups, with the constants of 2.6.31's
 *     MC and CPU domains. No exec balancing (sched_ext has no hook for it), no power saving, no
 *     active balancing, no CPU power in the small-imbalance rule.
 *  3. A running CPU's tick balances for it and, in place of the idle load balancer, wakes the idle
 *     CPUs whose turn has come. Tasks change queues in dispatch, where sched_ext allows it.
 *  4. The balancer takes waiting tasks in order of vruntime; 2.6.31 takes the newest first.
 *  5. The leftmost vruntime is exact at each pick; it may lag after the balancer took a task.
 *
 * Source: Linux 2.6.24, 2.6.31 and 2.6.32 kernel/sched.c, kernel/sched_fair.c,
 * include/linux/topology.h; Linux 3.6 and 6.1 kernel/sched/fair.c; cfs.sets.toml says more;
 * I. Molnar, "Modular Scheduler Core and Completely Fair Scheduler", 2007.
 */
#include <scx/common.bpf.h>
#include <scx/topology.bpf.h>
#include <scx/tunables.bpf.h>

char _license[] SEC("license") = "GPL";
UEI_DEFINE(uei);

/* Each task runs once in this time while few are runnable; ns, before scaling by CPUs. */
const volatile u64 latency_ns = 20 * NSEC_PER_MSEC;
/* With many runnable tasks the period grows by this for each; ns, before scaling by CPUs. */
const volatile u64 min_granularity_ns = 4 * NSEC_PER_MSEC;
/* A waking task preempts if it is further behind than this; ns, before scaling by CPUs. */
const volatile u64 wakeup_granularity_ns = 5 * NSEC_PER_MSEC;
/* The three above are scaled by 1 + log2 of the number of CPUs, counted up to this; 1 is off. */
const volatile u64 scale_cpus_max = 1024;
/* The first two are never scaled to more than this; ns. */
const volatile u64 latency_max_ns = 200 * NSEC_PER_MSEC;
/* 1: no slice is shorter than min_granularity_ns, as scaled; 0: only the weight decides. */
const volatile u64 slice_floor = 0;
/* Whose weight scales the wake-up granularity: 0 nobody's, 1 the running task's, 2 the waking's. */
const volatile u64 wakeup_weight = 2;
/* 1: shorten the wake-up granularity for tasks that soon wake others themselves. */
const volatile u64 adaptive_granularity = 1;
/* A task that slept starts up to one latency behind the others; 1: up to half of one. */
const volatile u64 gentle_sleepers = 0;
/* 1: a new task on its parent's CPU changes places with the parent if that is ahead. */
const volatile u64 child_runs_first = 1;
/* 1: a CPU that gets a new task always chooses again; 0: only if the new one preempts. */
const volatile u64 fork_reschedules = 0;
/* 1: a new task starts no earlier than its parent's vruntime. */
const volatile u64 fork_inherits = 0;
/* The task woken last is picked first unless it is too far ahead: 1, 2 if it preempts, 0 never. */
const volatile u64 next_buddy = 1;
/* Who ran at a wake-up is picked after the woken: 1 always, 2 if preempted among many, 0 never. */
const volatile u64 last_buddy = 1;
/* 1: a tick also ends a slice once the running task is a slice ahead of the first in the queue. */
const volatile u64 tick_compares = 0;
/* 1: sched_yield moves the task behind all others; 0: it keeps its place. */
const volatile u64 compat_yield = 0;
/* 1: who yields is passed over once, unless the next is more than a wake-up granularity ahead. */
const volatile u64 yield_skips = 0;
/* 0: a new task starts on its parent's CPU; 1: on the idlest CPU. */
const volatile u64 fork_balance = 1;
/* Load that fork compares: 0 now, 1 at the last tick, 2 and 3 averaged over ticks. */
const volatile u64 fork_load_index = 1;
/* Load that a wake-up compares, counted like fork_load_index. */
const volatile u64 wake_load_index = 1;
/* 1: a wake-up moves to the waker's CPU if that is less loaded than the task's last one. */
const volatile u64 wake_balance = 1;
/* 1: a wake-up always may move to a waker's CPU without load. */
const volatile u64 affine_if_free = 0;
/* A wake-up looks for an idle CPU that shares the cache: 1, 2 if its own runs one task, 0 never. */
const volatile u64 idle_sibling = 0;
/* 1: a CPU that runs out of tasks pulls one at once. */
const volatile u64 newidle = 0;
/* An idle CPU tries to pull a task once in this time; ns, 0 is never. */
const volatile u64 idle_balance_ns = 4 * NSEC_PER_MSEC;
/* Shortest interval between two balancing attempts of a busy CPU, before busy_factor; ns. */
const volatile u64 balance_min_ns = 1 * NSEC_PER_MSEC;
/* Longest interval between two balancing attempts of a busy CPU, before busy_factor; ns. */
const volatile u64 balance_max_ns = 4 * NSEC_PER_MSEC;
/* 1: these two intervals are for each CPU that there is. */
const volatile u64 balance_per_cpu = 0;
/* A busy CPU balances this many times less often than the interval says; 0 is never. */
const volatile u64 busy_factor = 64;
/* Load that a busy CPU balances by, counted like fork_load_index. */
const volatile u64 busy_load_index = 2;
/* Load that an idle CPU balances by, counted like fork_load_index. */
const volatile u64 idle_load_index = 1;
/* Load that a CPU that just became idle balances by, counted like fork_load_index. */
const volatile u64 newidle_load_index = 2;
/* Whether a task moves if that only swaps who is overloaded: 0 no (2.6.22), 1 yes (2.6.23), 2 once
 * attempts have failed, each of which halves its weight (6.1). */
const volatile u64 odd_task_moves = 1;
/* Balance only if the other CPU's load is this many percent of ours. */
const volatile u64 imbalance_percent = 125;
/* A task that ran less than this ago is cache-hot; ns. */
const volatile u64 migration_cost_ns = 500 * NSEC_PER_USEC;
/* Failed attempts after which the balancer takes cache-hot tasks too. */
const volatile u64 cache_nice_tries = 1;

#define CPUS_MAX TOPOLOGY_CPUS_MAX
#define NICE_0_WEIGHT 1024
#define IDLE_WEIGHT 3
#define PAST_LOADS 3
#define IDLE_TICKS_MAX 16           /* (3/4)^16 of a load is nothing */
#define VRUNTIME_START (1ULL << 40) /* away from 0, so that sleeper credit never wraps */
#define PULL_STEPS_MAX 32
#define BUSY_FACTOR_MAX 1000000
#define IMBALANCE_PERCENT_MAX 100000
#define FAILED_MAX 16 /* a weight shifted by more is 0 anyhow */

/* Weight of each nice value from -20 to 19; each step is a factor of about 1.25. */
static const u32 nice_weights[40] = {
	88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
	9548,  7620,  6100,  4904,  3906,  3121,  2501,  1991,  1586,  1277,
	1024,  820,   655,   526,   423,   335,   272,   215,   172,   137,
	110,   87,    70,    56,    45,    36,    29,    23,    18,    15,
};

enum balance_reason { BALANCE_NONE, BALANCE_BUSY, BALANCE_IDLE, BALANCE_NEWIDLE };

struct cfs_task {
	u64 vruntime; /* comparable within the queue of `cpu`; stale while the task runs */
	u64 weight;
	u64 ran_ns;         /* CPU time in all, up to when it last stopped running */
	u64 stopped_at_ns;  /* when that was */
	u64 woken_ran_ns;   /* ran_ns when it last woke up */
	u64 waking_ran_ns;  /* ran_ns when it last woke another task, if has_woken */
	s64 wakeup_ns_avg;  /* how long it runs before it wakes another task */
	s64 overlap_ns_avg; /* how long it runs on after that */
	u32 cpu;            /* whose queue's sums include it */
	bool is_runnable;
	bool is_new;
	bool is_put_back; /* neither new nor woken: its affinity or nice value was changed */
	bool has_woken;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cfs_task);
} tasks SEC(".maps");

/* One CPU. Its own operations change it; other CPUs only its two sums (atomically) and `reason`. */
struct cfs_queue {
	u64 load;       /* weights of the runnable tasks, the running one included */
	u64 nr_running; /* how many these are */
	u64 min_vruntime;
	u64 left_vruntime; /* of the first waiting task, if has_left */
	bool has_left;
	bool need_resched;
	bool skips; /* the running task has yielded, and is passed over at the next pick */
	/* The running task, if is_busy. */
	bool is_busy;
	s32 pid;
	u32 policy;
	u64 vruntime;
	u64 weight;
	u64 charged_at_ns;
	u64 ran_ns;        /* since it was switched to */
	u64 picked_ran_ns; /* ran_ns when it was last picked */
	/* Tasks that are preferred at the next pick; 0 is none. */
	s32 next_pid;
	s32 last_pid;
	/* Load as it was at ticks: averages over 1, 2 and 4 ticks. */
	u64 past_load[PAST_LOADS];
	u64 ticked_at_ns;
	/* Balancing. */
	enum balance_reason reason;
	u64 balanced_at_ns;
	u64 interval_ns;
	u64 nr_failed;
	u64 pull_load; /* what a pull has yet to move; here, as the verifier need not follow it */
	u64 pull_steps;
};

static struct cfs_queue queues[CPUS_MAX];
static u32 nr_cpus;
static u64 scaled_latency_ns, scaled_granularity_ns, scaled_wakeup_ns, nr_latency, tick_ns;
static u64 shortest_interval_ns, longest_interval_ns;

static struct cfs_queue *queue_of(u32 cpu)
{
	return &queues[cpu & (CPUS_MAX - 1)];
}

static struct cfs_task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

/* ---- time: how vruntime passes ------------------------------------------------------------- */

/* From an earlier time to a later one; 0 if they are the other way round, as the clocks of two
 * CPUs may be. */
static u64 since(u64 earlier, u64 later)
{
	return time_delta(later, earlier);
}

static u64 weighted(u64 ns, u64 weight)
{
	return weight == NICE_0_WEIGHT ? ns : ns * NICE_0_WEIGHT / max(weight, 1ULL);
}

static u64 period_ns(u64 nr_running)
{
	return nr_running <= nr_latency ? scaled_latency_ns : nr_running * scaled_granularity_ns;
}

/* The part of the period that a task of `weight` has among all weights `load`. */
static u64 slice_ns(u64 nr_running, u64 weight, u64 load)
{
	u64 ns = period_ns(nr_running) * weight / max(load, 1ULL);

	return slice_floor ? max(ns, scaled_granularity_ns) : ns;
}

/* min_vruntime follows the task that is furthest behind, and never goes back. */
static void advance_min_vruntime(struct cfs_queue *q)
{
	u64 lowest = q->vruntime;

	if (q->nr_running > 1 && q->has_left && vtime_before(q->left_vruntime, lowest))
		lowest = q->left_vruntime;
	if (vtime_before(q->min_vruntime, lowest))
		q->min_vruntime = lowest;
}

/* Brings the running task's vruntime up to date. */
static void charge(struct cfs_queue *q, u64 now)
{
	u64 ran_ns = since(q->charged_at_ns, now);

	if (!q->is_busy)
		return;
	q->charged_at_ns += ran_ns;
	q->ran_ns += ran_ns;
	q->vruntime += weighted(ran_ns, q->weight);
	advance_min_vruntime(q);
}

static void update_average(s64 *average, u64 sample)
{
	*average += ((s64)sample - *average) >> 3;
}

/* ---- load as other CPUs see it ------------------------------------------------------------- */

static u64 past_load(const struct cfs_queue *q, u32 i, u64 now)
{
	u64 load = q->past_load[i < PAST_LOADS ? i : 0];
	u64 ticks = since(q->ticked_at_ns, now) / tick_ns;
	u64 tick;

	if (q->nr_running || !ticks)
		return load;
	bpf_for(tick, 0, IDLE_TICKS_MAX) {
		if (tick < ticks)
			load = (load * ((1ULL << i) - 1)) >> i;
	}
	return ticks > IDLE_TICKS_MAX ? 0 : load;
}

/* Underestimates the load of a CPU from which a task might go away. */
static u64 source_load(u32 cpu, u64 index, u64 now)
{
	const struct cfs_queue *q = queue_of(cpu);

	return index ? min(q->load, past_load(q, index - 1, now)) : q->load;
}

/* Overestimates the load of a CPU to which a task might go. */
static u64 target_load(u32 cpu, u64 index, u64 now)
{
	const struct cfs_queue *q = queue_of(cpu);

	return index ? max(q->load, past_load(q, index - 1, now)) : q->load;
}

static void note_load_at_tick(struct cfs_queue *q, u64 now)
{
	u32 i;

	bpf_for(i, 0, PAST_LOADS) {
		u64 *past = &q->past_load[i < PAST_LOADS ? i : 0];
		u64 up = q->load > *past ? (1ULL << i) - 1 : 0;

		*past = (*past * ((1ULL << i) - 1) + q->load + up) >> i;
	}
	q->ticked_at_ns = now;
}

/* An idle CPU has no ticks: the first task to come makes up for those of the idle time. */
static void note_load_of_idle(struct cfs_queue *q, u64 now)
{
	u64 ticks = since(q->ticked_at_ns, now) / tick_ns;
	u32 i;

	bpf_for(i, 0, PAST_LOADS) {
		q->past_load[i < PAST_LOADS ? i : 0] = past_load(q, i, now);
	}
	q->ticked_at_ns += ticks * tick_ns;
}

/* ---- becoming runnable --------------------------------------------------------------------- */

/* The task that is running here, unless this CPU is idle. */
static struct cfs_task *task_here(const struct cfs_queue *here)
{
	struct task_struct *current = bpf_get_current_task_btf();

	return here->is_busy && here->pid == current->pid ? task_of(current) : NULL;
}

static void note_waking(u64 now)
{
	struct cfs_queue *here = queue_of(bpf_get_smp_processor_id());
	struct cfs_task *waker = task_here(here);
	u64 ran_ns, last_ran_ns;

	if (!waker)
		return;
	ran_ns = waker->ran_ns + here->ran_ns + since(here->charged_at_ns, now);
	last_ran_ns = waker->has_woken ? waker->waking_ran_ns : waker->woken_ran_ns;
	update_average(&waker->wakeup_ns_avg, since(last_ran_ns, ran_ns));
	waker->waking_ran_ns = ran_ns;
	waker->has_woken = true;
}

/* A new task waits for the others' current period to end: its slice is debited in advance. */
static void place_new(struct cfs_task *t, const struct cfs_queue *q)
{
	const struct cfs_queue *here = queue_of(bpf_get_smp_processor_id());
	u64 load = q->load + t->weight;
	u64 debit = period_ns(q->nr_running + 1) * NICE_0_WEIGHT / max(load, 1ULL);
	u64 parent = here->vruntime - here->min_vruntime + q->min_vruntime;
	u64 vruntime;

	if (slice_floor)
		debit = max(debit, weighted(scaled_granularity_ns, t->weight));
	vruntime = q->min_vruntime + debit;
	if (fork_inherits && here->is_busy && vtime_before(vruntime, parent))
		vruntime = parent;
	t->vruntime = vruntime;
}

/* A sleeper is credited with at most one latency, and never put back. */
static void place_waking(struct cfs_task *t, const struct cfs_queue *q)
{
	u64 vruntime = q->min_vruntime - (scaled_latency_ns >> (gentle_sleepers ? 1 : 0));

	if (vtime_before(t->vruntime, vruntime))
		t->vruntime = vruntime;
}

/* Moves a task's place, but not its lead, to another CPU's queue. */
static void renormalise(struct cfs_task *t, u32 cpu)
{
	t->vruntime += queue_of(cpu)->min_vruntime - queue_of(t->cpu)->min_vruntime;
	t->cpu = cpu;
}

static void count_in(const struct cfs_task *t)
{
	__sync_fetch_and_add(&queue_of(t->cpu)->load, t->weight);
	__sync_fetch_and_add(&queue_of(t->cpu)->nr_running, 1);
}

static void count_out(const struct cfs_task *t)
{
	__sync_fetch_and_add(&queue_of(t->cpu)->load, -t->weight);
	__sync_fetch_and_add(&queue_of(t->cpu)->nr_running, -1);
}

/* A runnable task is on another CPU than it was counted on: the core has moved it. */
static void follow_to(struct cfs_task *t, u32 cpu)
{
	if (t->cpu == cpu)
		return;
	count_out(t);
	renormalise(t, cpu);
	count_in(t);
}

void BPF_STRUCT_OPS(cfs_runnable, struct task_struct *p, u64 enq_flags)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct cfs_queue *q = queue_of(cpu);
	struct cfs_task *t = task_of(p);
	u64 now = scx_bpf_now();

	if (!t)
		return;
	charge(q, now);
	if (!q->nr_running)
		note_load_of_idle(q, now);
	renormalise(t, cpu);
	t->is_put_back = !t->is_new && !(enq_flags & SCX_ENQ_WAKEUP);
	if (t->is_new) {
		place_new(t, q);
	} else if (enq_flags & SCX_ENQ_WAKEUP) {
		note_waking(now);
		t->woken_ran_ns = t->ran_ns;
		place_waking(t, q);
	}
	t->is_runnable = true;
	count_in(t);
}

/* ---- preemption ---------------------------------------------------------------------------- */

/* Lead, in vruntime, that a task may have over one of weight `weight` before it must give way. */
static u64 wakeup_granularity(u64 ns, u64 weight)
{
	return weighted(min(ns, scaled_wakeup_ns), weight);
}

/* Whether a task that has just come must run instead of the running one; notes it as buddy. */
static bool preempts(struct cfs_queue *q, const struct task_struct *p, const struct cfs_task *t)
{
	u64 ran_ns = q->ran_ns - q->picked_ran_ns;
	u64 weight = wakeup_weight == 1 ? q->weight : wakeup_weight ? t->weight : NICE_0_WEIGHT;
	u64 ns = scaled_wakeup_ns;
	bool wins;

	if (!q->is_busy)
		return false;
	if (last_buddy == 1 && q->policy != SCHED_IDLE)
		q->last_pid = q->pid;
	if (next_buddy == 1 && p->policy != SCHED_IDLE)
		q->next_pid = p->pid;
	if (q->need_resched || p->policy == SCHED_BATCH || p->policy == SCHED_IDLE)
		return false;
	if (adaptive_granularity)
		ns = since(ran_ns, 2 * (u64)t->wakeup_ns_avg * q->nr_running);
	wins = q->policy == SCHED_IDLE ||
	       (s64)(q->vruntime - t->vruntime) > (s64)wakeup_granularity(ns, weight);
	if (wins && next_buddy == 2)
		q->next_pid = p->pid;
	if (wins && last_buddy == 2 && q->nr_running >= nr_latency)
		q->last_pid = q->pid;
	return wins;
}

static bool child_takes_place_of_parent(struct cfs_queue *q, struct cfs_task *t)
{
	u64 parent = q->vruntime;

	if (!child_runs_first || !q->is_busy || t->cpu != bpf_get_smp_processor_id() ||
	    !vtime_before(parent, t->vruntime))
		return false;
	q->vruntime = t->vruntime;
	t->vruntime = parent;
	return true;
}

void BPF_STRUCT_OPS(cfs_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct cfs_task *t = task_of(p);
	struct cfs_queue *q;
	bool preempt = false;

	if (!t)
		return;
	/* After a change of affinity the core moves a task without asking anybody. */
	follow_to(t, scx_bpf_task_cpu(p));
	q = queue_of(t->cpu);
	if (t->is_new)
		preempt = child_takes_place_of_parent(q, t) || (fork_reschedules && q->is_busy);
	if (t->is_new || (enq_flags & SCX_ENQ_WAKEUP))
		preempt |= preempts(q, p, t);
	t->is_new = false;
	if (!q->has_left || vtime_before(t->vruntime, q->left_vruntime))
		q->left_vruntime = t->vruntime;
	q->has_left = true;
	scx_bpf_dsq_insert_vtime(p, t->cpu, SCX_SLICE_INF, t->vruntime, enq_flags);
	/* The core does not wake the CPU for it, and it may have waited in another one's queue. */
	if (t->is_put_back)
		scx_bpf_kick_cpu(t->cpu, SCX_KICK_IDLE);
	t->is_put_back = false;
	if (preempt && !q->need_resched) {
		q->need_resched = true;
		scx_bpf_kick_cpu(t->cpu, SCX_KICK_PREEMPT);
	}
}

/* ---- choosing a CPU ------------------------------------------------------------------------ */

/* Half of what the balancer tolerates. */
static u64 wake_imbalance_percent(void)
{
	return 100 + (imbalance_percent - 100) / 2;
}

static s32 idlest_cpu(struct task_struct *p, u32 here, u64 now)
{
	u64 load_min = ~0ULL, load;
	u32 idlest = here;
	u32 cpu;

	bpf_for(cpu, 0, nr_cpus) {
		if (cpu == here || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		load = target_load(cpu, fork_load_index, now);
		if (load < load_min) {
			load_min = load;
			idlest = cpu;
		}
	}
	if (idlest == here ||
	    100 * source_load(here, fork_load_index, now) < wake_imbalance_percent() * load_min)
		return here;
	return idlest;
}

/* A waker that is about to sleep does not count, unless the two tend to run at the same time. */
static u64 load_of_sync_waker(const struct cfs_task *t, const struct cfs_queue *here)
{
	const struct cfs_task *waker = task_here(here);

	if (!waker || waker->overlap_ns_avg > (s64)migration_cost_ns ||
	    t->overlap_ns_avg > (s64)migration_cost_ns)
		return 0;
	return here->weight;
}

/* Whether the waker's CPU `cpu` suits a waking task better than `prev`, where it last ran. */
static bool wakes_at_waker(const struct cfs_task *t, u32 cpu, u32 prev, u64 wake_flags, u64 now)
{
	const struct cfs_queue *here = queue_of(cpu);
	u64 percent = wake_imbalance_percent();
	u64 prev_load = source_load(prev, wake_load_index, now);
	u64 here_load = target_load(cpu, wake_load_index, now);
	u64 load = here_load, load_per_task;

	if (wake_flags & SCX_WAKE_SYNC)
		load -= min(load, load_of_sync_waker(t, here));
	if (100 * (load + t->weight) <= percent * prev_load || (affine_if_free && !load))
		return true;
	load_per_task = here->load / max(here->nr_running, 1ULL);
	if (load <= prev_load && load + target_load(prev, wake_load_index, now) <= load_per_task)
		return true;
	return wake_balance && percent * here_load <= 100 * prev_load;
}

/* An idle CPU near `target`, or `target` itself. */
static s32 idle_cpu_near(struct task_struct *p, u32 target, u32 prev)
{
	u32 cpu;

	if (!queue_of(target)->nr_running ||
	    (idle_sibling == 2 && queue_of(target)->nr_running > 1))
		return target;
	if (!queue_of(prev)->nr_running && cpu_distance(prev, target) <= DISTANCE_CACHE)
		return prev;
	bpf_for(cpu, 0, nr_cpus) {
		if (!queue_of(cpu)->nr_running && cpu_distance(cpu, target) <= DISTANCE_CACHE &&
		    bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return cpu;
	}
	return target;
}

s32 BPF_STRUCT_OPS(cfs_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u32 here = bpf_get_smp_processor_id();
	u32 target = prev_cpu;
	struct cfs_task *t = task_of(p);
	u64 now = scx_bpf_now();
	bool allowed_here = bpf_cpumask_test_cpu(here, p->cpus_ptr);

	if (!t)
		return prev_cpu;
	if (wake_flags & SCX_WAKE_FORK)
		return fork_balance && allowed_here ? idlest_cpu(p, here, now) : prev_cpu;
	if (here != target && allowed_here && wakes_at_waker(t, here, target, wake_flags, now))
		target = here;
	return idle_sibling ? idle_cpu_near(p, target, prev_cpu) : (s32)target;
}

/* ---- balancing: who is busiest, and pulling from it ---------------------------------------- */

static u64 balance_load_index(enum balance_reason reason)
{
	if (reason == BALANCE_BUSY)
		return busy_load_index;
	return reason == BALANCE_IDLE ? idle_load_index : newidle_load_index;
}

/* Load to move from a CPU of load `most` to one of load `least`; 0 if they are balanced. */
static u64 imbalance(const struct cfs_queue *from, const struct cfs_queue *to, u64 most, u64 least,
		     u64 average)
{
	u64 per_task = from->load / max(from->nr_running, 1ULL);
	u64 per_own_task = to->load / max(to->nr_running, 1ULL);
	u64 lighter = to->nr_running && per_task > per_own_task ? 1 : 2;
	u64 move;

	if (least >= most || least >= average || most <= per_task ||
	    100 * most <= imbalance_percent * least)
		return 0;
	move = min(min(most - average, most - per_task), average - least);
	if (move >= per_task || odd_task_moves == 2)
		return move;
	/* Less than a task: move one if the gap is worth it. */
	if (most - least + (odd_task_moves ? per_task : 0) >= per_task * lighter)
		return per_task;
	return 0;
}

/* The CPU to pull from; sets q->pull_load, which is 0 if there is none. */
static u32 find_busiest(u32 here, struct cfs_queue *q, enum balance_reason reason, u64 now)
{
	u64 index = balance_load_index(reason);
	u64 least = target_load(here, index, now), most = 0, sum = least, load;
	u32 cpu, busiest = here;

	bpf_for(cpu, 0, nr_cpus) {
		if (cpu == here)
			continue;
		load = source_load(cpu, index, now);
		sum += load;
		if (load > most && queue_of(cpu)->nr_running > 1) {
			most = load;
			busiest = cpu;
		}
	}
	q->pull_load = busiest == here ? 0
				       : imbalance(queue_of(busiest), q, most, least,
						   sum / max(nr_cpus, 1U));
	return busiest;
}

static bool may_pull(struct task_struct *p, const struct cfs_task *t, u32 to, u64 now)
{
	const struct cfs_queue *from = queue_of(t->cpu), *q = queue_of(to);
	bool hot = since(t->stopped_at_ns, now) < migration_cost_ns || p->pid == from->next_pid ||
		   p->pid == from->last_pid;
	u64 weight = t->weight / 2;

	if (odd_task_moves == 2) /* an idle CPU takes its first task whatever the loads are */
		weight = q->nr_running ? t->weight >> min(q->nr_failed, (u64)FAILED_MAX) : 0;
	return weight <= q->pull_load && bpf_cpumask_test_cpu(to, p->cpus_ptr) &&
	       (!hot || q->nr_failed > cache_nice_tries);
}

/* Moves waiting tasks from another CPU's queue to this one's; whether any was moved. */
static bool pull(u32 from, u32 here, struct cfs_queue *q, u64 now)
{
	u64 nr_before = q->nr_running;
	struct task_struct *p;

	q->pull_steps = PULL_STEPS_MAX;
	bpf_for_each(scx_dsq, p, from, 0) {
		struct cfs_task *t = task_of(p);

		if (!q->pull_steps--)
			break;
		if (!t || t->cpu != from || !may_pull(p, t, here, now))
			continue;
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, t->vruntime + q->min_vruntime -
								      queue_of(from)->min_vruntime);
		if (!scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, here, 0))
			continue;
		count_out(t);
		renormalise(t, here);
		count_in(t);
		q->need_resched |= preempts(q, p, t);
		q->pull_load -= min(q->pull_load, t->weight);
		if (!q->pull_load)
			break;
	}
	return q->nr_running != nr_before;
}

static bool balance(u32 here, struct cfs_queue *q, enum balance_reason reason, u64 now)
{
	u32 busiest = find_busiest(here, q, reason, now);

	if (reason != BALANCE_NEWIDLE)
		q->balanced_at_ns = now;
	if (!q->pull_load) {
		q->nr_failed = 0;
		q->interval_ns = min(2 * q->interval_ns, longest_interval_ns);
		return false;
	}
	q->interval_ns = shortest_interval_ns;
	if (pull(busiest, here, q, now)) {
		q->nr_failed = 0;
		return true;
	}
	if (reason != BALANCE_NEWIDLE)
		q->nr_failed++;
	return false;
}

/* ---- picking the next task ----------------------------------------------------------------- */

struct first {
	s32 pid; /* of the first waiting task, 0 if there is none */
	u64 vruntime;
	u64 weight;
	u64 second_vruntime;
	bool has_second;
};

static void look_at_first(u32 cpu, struct first *first)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, cpu, 0) {
		struct cfs_task *t = task_of(p);

		if (first->pid) {
			first->second_vruntime = p->scx.dsq_vtime;
			first->has_second = true;
			break;
		}
		first->pid = p->pid;
		first->vruntime = p->scx.dsq_vtime;
		first->weight = t ? t->weight : NICE_0_WEIGHT;
	}
}

/* Whether a buddy is waiting here, and not so far ahead of the best that it would be unfair. */
static bool buddy_is_due(s32 pid, u32 cpu, const struct cfs_queue *q, u64 vruntime, u64 weight)
{
	u64 buddy_vruntime = q->vruntime;
	struct task_struct *p;
	struct cfs_task *t;
	bool is_here = true;

	if (!pid)
		return false;
	if (!q->is_busy || pid != q->pid) {
		p = bpf_task_from_pid(pid);
		if (!p)
			return false;
		t = task_of(p);
		is_here = t && t->is_runnable && t->cpu == cpu;
		buddy_vruntime = t ? t->vruntime : 0;
		bpf_task_release(p);
	}
	return is_here && (s64)(buddy_vruntime - vruntime) <=
				  (s64)wakeup_granularity(scaled_wakeup_ns, weight);
}

static bool run_buddy(s32 pid, u32 cpu)
{
	struct task_struct *p, *buddy;
	bool moved = false;

	bpf_for_each(scx_dsq, p, cpu, 0) {
		buddy = bpf_task_from_pid(pid);
		if (buddy) {
			moved = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, buddy, SCX_DSQ_LOCAL, 0);
			bpf_task_release(buddy);
		}
		break;
	}
	return moved;
}

static void clear_buddy(struct cfs_queue *q, s32 pid)
{
	if (q->next_pid == pid)
		q->next_pid = 0;
	if (q->last_pid == pid)
		q->last_pid = 0;
}

/* Whether the first waiting task goes before the running one although that has less vruntime. */
static bool passes_over(const struct cfs_queue *q, const struct first *first)
{
	return q->skips && first->pid &&
	       (s64)(first->vruntime - q->vruntime) <=
		       (s64)wakeup_granularity(scaled_wakeup_ns, q->weight);
}

/* Runs the task with the least vruntime, or a buddy; whether there was one. */
static bool pick(u32 cpu, struct cfs_queue *q, struct task_struct *prev)
{
	struct first first = {};
	bool prev_leads;
	u64 vruntime, weight;
	s32 pid;

	look_at_first(cpu, &first);
	if (!prev && !first.pid)
		return false;
	/* prev, once put back, would stand behind its equals. */
	prev_leads = prev && (!first.pid || vtime_before(q->vruntime, first.vruntime));
	pid = prev_leads && !passes_over(q, &first) ? q->pid : first.pid;
	q->skips = false;
	vruntime = prev_leads ? q->vruntime : first.vruntime;
	weight = prev_leads ? q->weight : first.weight;
	if (buddy_is_due(q->next_pid, cpu, q, vruntime, weight))
		pid = q->next_pid;
	else if (buddy_is_due(q->last_pid, cpu, q, vruntime, weight))
		pid = q->last_pid;
	clear_buddy(q, pid);
	q->has_left = first.pid;
	q->left_vruntime = first.vruntime;
	if (prev && pid == q->pid) {
		q->picked_ran_ns = q->ran_ns;
		scx_bpf_task_set_slice(prev, SCX_SLICE_INF);
		return true;
	}
	if (pid != first.pid && run_buddy(pid, cpu))
		return true;
	q->has_left = first.has_second;
	q->left_vruntime = first.second_vruntime;
	return scx_bpf_dsq_move_to_local(cpu);
}

void BPF_STRUCT_OPS(cfs_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cfs_queue *q = queue_of(cpu);
	enum balance_reason reason = q->reason;
	bool only_balance = q->is_busy && reason == BALANCE_BUSY && !q->need_resched;
	u64 now = scx_bpf_now();

	charge(q, now);
	if (!q->is_busy)
		prev = NULL; /* a kernel may pass a task that has just blocked */
	q->reason = BALANCE_NONE;
	if (prev ? reason == BALANCE_BUSY : reason == BALANCE_IDLE && !q->nr_running)
		balance(cpu, q, reason, now);
	if (prev && only_balance && !q->need_resched) {
		scx_bpf_task_set_slice(prev, SCX_SLICE_INF);
		return;
	}
	q->need_resched = false;
	if (pick(cpu, q, prev) || !newidle)
		return;
	if (balance(cpu, q, BALANCE_NEWIDLE, now))
		pick(cpu, q, NULL);
}

/* ---- running ------------------------------------------------------------------------------- */

void BPF_STRUCT_OPS(cfs_running, struct task_struct *p)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct cfs_queue *q = queue_of(cpu);
	struct cfs_task *t = task_of(p);

	if (!t)
		return;
	follow_to(t, cpu);
	q->is_busy = true;
	q->need_resched = false;
	q->skips = false;
	q->pid = p->pid;
	q->policy = p->policy;
	q->vruntime = t->vruntime;
	q->weight = t->weight;
	q->charged_at_ns = scx_bpf_now();
	q->ran_ns = 0;
	q->picked_ran_ns = 0;
	advance_min_vruntime(q);
}

void BPF_STRUCT_OPS(cfs_stopping, struct task_struct *p, bool runnable)
{
	struct cfs_task *t = task_of(p);
	struct cfs_queue *q = queue_of(scx_bpf_task_cpu(p));
	u64 now = scx_bpf_now();

	if (!t || !q->is_busy)
		return;
	charge(q, now);
	t->vruntime = q->vruntime;
	t->ran_ns += q->ran_ns;
	t->stopped_at_ns = now;
	q->is_busy = false;
	/* Who is preempted does overlap with others, however seldom it sleeps. */
	if (runnable)
		update_average(&t->overlap_ns_avg,
			       min(q->ran_ns - q->picked_ran_ns, 2 * migration_cost_ns));
}

void BPF_STRUCT_OPS(cfs_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct cfs_task *t = task_of(p);

	if (!t || !t->is_runnable)
		return;
	t->is_runnable = false;
	count_out(t);
	clear_buddy(queue_of(t->cpu), p->pid);
	if (!(deq_flags & SCX_DEQ_SLEEP))
		return;
	if (t->has_woken)
		update_average(&t->overlap_ns_avg, t->ran_ns - t->waking_ran_ns);
	else
		update_average(&t->wakeup_ns_avg, scaled_wakeup_ns);
	t->has_woken = false;
}

/* A running task must go at the first tick after its slice. */
static void check_slice(struct cfs_queue *q, struct task_struct *p)
{
	u64 ran_ns = q->ran_ns - q->picked_ran_ns;
	u64 slice = slice_ns(q->nr_running, q->weight, q->load);

	if (ran_ns > slice)
		clear_buddy(q, q->pid);
	else if (!tick_compares || ran_ns < scaled_granularity_ns || !q->has_left ||
		 (s64)(q->vruntime - q->left_vruntime) <= (s64)slice)
		return;
	q->need_resched = true;
	scx_bpf_task_set_slice(p, 0);
}

/* Whether an interval has passed, in whole ticks as the timer interrupt counts. */
static bool is_due(u64 last_ns, u64 interval_ns, u64 now)
{
	return now / tick_ns >= last_ns / tick_ns + (interval_ns + tick_ns - 1) / tick_ns;
}

/* Stands in for the idle load balancer: wakes as many idle CPUs as there are waiting tasks. */
static void let_idle_cpus_balance(const struct cfs_queue *q, u64 now)
{
	u64 nr_waiting = q->nr_running - 1;
	u32 cpu;

	bpf_for(cpu, 0, nr_cpus) {
		struct cfs_queue *other = queue_of(cpu);

		if (!nr_waiting)
			break;
		if (other->nr_running || !is_due(other->balanced_at_ns, idle_balance_ns, now))
			continue;
		other->reason = BALANCE_IDLE;
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		nr_waiting--;
	}
}

void BPF_STRUCT_OPS(cfs_tick, struct task_struct *p)
{
	struct cfs_queue *q = queue_of(scx_bpf_task_cpu(p));
	u64 now = scx_bpf_now();

	charge(q, now);
	note_load_at_tick(q, now);
	if (q->nr_running > 1) {
		check_slice(q, p);
		if (idle_balance_ns)
			let_idle_cpus_balance(q, now);
	}
	if (busy_factor && nr_cpus > 1 &&
	    is_due(q->balanced_at_ns, q->interval_ns * busy_factor, now)) {
		q->reason = BALANCE_BUSY;
		scx_bpf_task_set_slice(p, 0);
	}
}

bool BPF_STRUCT_OPS(cfs_yield, struct task_struct *from, struct task_struct *to)
{
	u32 cpu = scx_bpf_task_cpu(from);
	struct cfs_queue *q = queue_of(cpu);
	struct task_struct *p;

	if (q->nr_running == 1)
		return false;
	charge(q, scx_bpf_now());
	clear_buddy(q, q->pid);
	if (compat_yield || from->policy == SCHED_BATCH) {
		bpf_for_each(scx_dsq, p, cpu, SCX_DSQ_ITER_REV) {
			if (!vtime_before(p->scx.dsq_vtime, q->vruntime))
				q->vruntime = p->scx.dsq_vtime + 1;
			break;
		}
	}
	q->need_resched = true;
	q->skips = yield_skips;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/* ---- weights, tasks coming, the policy starting -------------------------------------------- */

static u64 weight_of(const struct task_struct *p)
{
	u32 i = p->static_prio - MAX_RT_PRIO;

	if (p->policy == SCHED_IDLE)
		return IDLE_WEIGHT;
	return nice_weights[i < ARRAY_SIZE(nice_weights) ? i : 20];
}

void BPF_STRUCT_OPS(cfs_set_weight, struct task_struct *p, u32 weight)
{
	struct cfs_task *t = task_of(p);
	struct cfs_queue *q;

	if (!t)
		return;
	q = queue_of(t->cpu);
	if (q->is_busy && q->pid == p->pid) {
		charge(q, scx_bpf_now());
		q->weight = weight_of(p);
	}
	if (t->is_runnable)
		count_out(t);
	t->weight = weight_of(p);
	if (t->is_runnable)
		count_in(t);
}

s32 BPF_STRUCT_OPS(cfs_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct cfs_task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	t->cpu = scx_bpf_task_cpu(p);
	t->weight = weight_of(p);
	t->wakeup_ns_avg = scaled_wakeup_ns;
	t->is_new = true;
	return 0;
}

static u64 scale_by_cpus(void)
{
	u64 counted = min((u64)nr_cpus, scale_cpus_max);

	/* 1 + log2, without a loop that a kernel's verifier would follow for each outcome. */
	return 64 - (u64)__builtin_clzll(counted | 1);
}

static bool balancing_is_sound(void)
{
	return tunable_is_within(fork_load_index, 0, PAST_LOADS) &&
	       tunable_is_within(wake_load_index, 0, PAST_LOADS) &&
	       tunable_is_within(busy_load_index, 0, PAST_LOADS) &&
	       tunable_is_within(idle_load_index, 0, PAST_LOADS) &&
	       tunable_is_within(newidle_load_index, 0, PAST_LOADS) &&
	       tunable_is_within(idle_sibling, 0, 2) && tunable_is_within(odd_task_moves, 0, 2) &&
	       tunable_is_within(balance_min_ns, 0, TUNABLE_NS_MAX) &&
	       tunable_is_within(balance_max_ns, 0, TUNABLE_NS_MAX) &&
	       tunable_is_within(busy_factor, 0, BUSY_FACTOR_MAX) &&
	       tunable_is_within(imbalance_percent, 100, IMBALANCE_PERCENT_MAX);
}

static bool tunables_are_sound(void)
{
	return tunable_is_within(latency_ns, 1, TUNABLE_NS_MAX) &&
	       tunable_is_within(min_granularity_ns, 1, TUNABLE_NS_MAX) &&
	       tunable_is_within(wakeup_granularity_ns, 0, TUNABLE_NS_MAX) &&
	       tunable_is_within(latency_max_ns, 1, TUNABLE_NS_MAX) &&
	       tunable_is_within(wakeup_weight, 0, 2) && tunable_is_within(next_buddy, 0, 2) &&
	       tunable_is_within(last_buddy, 0, 2) && balancing_is_sound();
}

s32 BPF_STRUCT_OPS_SLEEPABLE(cfs_init)
{
	u64 factor;
	s32 error;
	u32 cpu;

	if (!tunables_are_sound())
		return -EINVAL;
	nr_cpus = scx_bpf_nr_cpu_ids();
	if (nr_cpus > CPUS_MAX)
		return -E2BIG;
	factor = scale_by_cpus();
	scaled_latency_ns = min(latency_ns * factor, latency_max_ns);
	scaled_granularity_ns = min(min_granularity_ns * factor, latency_max_ns);
	scaled_wakeup_ns = wakeup_granularity_ns * factor;
	nr_latency = latency_ns / min_granularity_ns;
	tick_ns = NSEC_PER_SEC / CONFIG_HZ;
	shortest_interval_ns = balance_min_ns * (balance_per_cpu ? nr_cpus : 1);
	longest_interval_ns = balance_max_ns * (balance_per_cpu ? nr_cpus : 1);
	bpf_for(cpu, 0, nr_cpus) {
		queue_of(cpu)->min_vruntime = VRUNTIME_START;
		queue_of(cpu)->interval_ns = shortest_interval_ns;
		error = scx_bpf_create_dsq(cpu, -1);
		if (error)
			return error;
	}
	return 0;
}

void BPF_STRUCT_OPS(cfs_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(cfs_ops, .select_cpu = (void *)cfs_select_cpu, .enqueue = (void *)cfs_enqueue,
	       .dispatch = (void *)cfs_dispatch, .tick = (void *)cfs_tick,
	       .runnable = (void *)cfs_runnable, .running = (void *)cfs_running,
	       .stopping = (void *)cfs_stopping, .quiescent = (void *)cfs_quiescent,
	       .yield = (void *)cfs_yield, .set_weight = (void *)cfs_set_weight,
	       .init_task = (void *)cfs_init_task, .init = (void *)cfs_init,
	       .exit = (void *)cfs_exit, .name = "cfs");
