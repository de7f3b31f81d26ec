/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* o1 - two arrays of lists per CPU: pick the first task of the best list, in constant time.
 *
 * A CPU's runnable tasks stand in the lists of its active array, one list for each priority; the
 * first task of the best list runs. Whoever has used up its time slice gets a new one and goes to
 * the expired array; when the active array is empty the two change places. Sleeping raises a
 * task's sleep_avg and running lowers it; this average moves the priority by up to 5 either way,
 * and those it marks as interactive stay active when their slice ends. A waking task preempts if
 * its priority is better, whatever the running task has left.
 *
 * Guarantee: picking, waking and sleeping cost the same however many tasks are runnable. Of hogs
 * on one CPU each gets a slice by its nice value in turn (0: 102 ms, 19: 10 ms), and once the
 * first to expire has waited 1.02 s a runnable task, interactive tasks expire as well: ten slices
 * of nice 0, which count for 300 ms at the most, as a sleep average has 32 bits.
 *
 * The defaults are 2.6.0. The tunable set 2.6.22 has the slices and the sleep average of 2.6.22,
 * with wake-ups and balancing still those of 2.6.0.
 *
 * Ignored or approximated:
 *  1. sched_ext moves tasks in dispatch only: a tick that finds its CPU too idle makes it
 *     dispatch, which pulls. An idle CPU has no tick: one timer looks for all of them, and kicks
 *     as many as there are tasks waiting.
 *  2. A wake-up counts as an interrupt's if the CPU was idle, else as the running task's.
 *  3. Ticks are counted on a grid of tick_ns that all CPUs share, and act at the host's ticks.
 *  4. A child's unused slice and its sleep_avg reach its parent when the child is gone, not when
 *     the parent has waited for it.
 *  5. All CPUs are one NUMA node. vfork and threads are forked like all others.
 *  6. Real-time tasks never come here. sched_ext does not tell that the wake-up of a task bound to
 *     one CPU is synchronous.
 *
 * Source: Linux 2.6.0 (by early 2.6 sources and patches of December 2003) and 2.6.22,
 * kernel/sched.c.
 */
#include <scx/common.bpf.h>
#include <scx/hotplug.bpf.h>
#include <scx/reciprocals.bpf.h>
#include <scx/tunables.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* 0 is Linux 2.6.0; from 22 on slices and the sleep average are those of 2.6.22. */
const volatile u64 patch_level = 0;
/* Length of a tick; ns. i386 had 1 ms in 2.6.0, by default 4 ms in 2.6.22. */
const volatile u64 tick_ns = 1 * NSEC_PER_MSEC;
/* 2.6.0: time slice of nice 19; ns. */
const volatile u64 min_slice_ns = 10 * NSEC_PER_MSEC;
/* 2.6.0: time slice of nice -20; ns. */
const volatile u64 max_slice_ns = 200 * NSEC_PER_MSEC;
/* Interactive tasks of one priority take turns after this, times 2^(9 - bonus) and CPUs; ns. */
const volatile u64 granularity_ns = 10 * NSEC_PER_MSEC;
/* Percent of the wait for its CPU that a task woken by another is credited as sleep. */
const volatile u64 on_runqueue_percent = 30;
/* Percent of the parent's bonus that a child begins with. */
const volatile u64 child_penalty_percent = 95;
/* A task that left its CPU less than this ago is not pulled by a busy CPU; ns. */
const volatile u64 cache_decay_ns = 2 * NSEC_PER_MSEC;
/* An idle CPU looks for tasks to pull this often; ns, 0 is never. */
const volatile u64 idle_balance_ns = 1 * NSEC_PER_MSEC;
/* A busy CPU looks for tasks to pull this often; ns. */
const volatile u64 busy_balance_ns = 200 * NSEC_PER_MSEC;

#define CPUS_MAX 4096 /* a power of two */
#define LEVELS 40     /* priorities 100 to 139 */
#define NO_LEVEL LEVELS
#define BONUS_MAX 10
#define INTERACTIVE_DELTA 2
#define BONUS_NS_MAX (300 * NSEC_PER_MSEC) /* all that is computed of it has 32 bits */
#define CREDIT_LIMIT 100
#define SLEEP_NS_MAX (2 * NSEC_PER_SEC) /* longer than any bonus counts */
#define EXIT_WEIGHT 3
#define PICK_TRIES 4
#define CLOCK_MONOTONIC 1
#define TICK_NS_MAX (100 * NSEC_PER_MSEC)        /* the shortest interactive sleep is longer */
#define IDLE_BALANCE_NS_MIN (10 * NSEC_PER_USEC) /* a CPU that only serves timers does not work */

/* Where in its list a running task stands, and so where it goes back to. */
enum place { PLACE_FIRST, PLACE_AFTER_CHILD, PLACE_LAST };

/* Who ended a task's sleep, until it runs. */
enum waker { WAKER_NONE, WAKER_TASK, WAKER_INTERRUPT, WAKER_DEVICE };

struct task {
	u64 switched_at_ns; /* when it last woke up, or got or lost a CPU */
	u64 next_tick_ns;   /* ticks from this one on are not taken off yet, while it runs */
	u32 sleep_avg_ns;   /* 32 bits, as `unsigned long` has on i386 */
	u32 time_slice;     /* ticks left */
	u32 prio;
	u32 cpu; /* whose queue it belongs to, and in which array it stands */
	u32 array;
	s32 credit; /* 2.6.0: how sure it is that the task is interactive */
	enum place place;
	enum waker waker;
	bool is_running;
	bool is_new;
	bool has_slept;
	bool is_sync;     /* woken by a task that is about to sleep */
	bool keeps_slice; /* still uses the slice that its parent gave it */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} tasks SEC(".maps");

struct cpu {
	u64 levels[2]; /* of each array, a bit for each list that may have tasks */
	u32 active;
	u32 prio; /* of the running task, MAX_PRIO if there is none */
	u64 nr_running;
	u64 next_tick_ns;  /* the first tick after it last began to run a task */
	u64 expired_at_ns; /* when the first task expired since the arrays changed; 0: none has */
	u32 best_expired_prio;
	u32 busiest;      /* CPU from which to pull nr_to_pull tasks */
	u64 nr_to_pull;   /* here, as the verifier need not follow it */
	u64 looked_at_ns; /* when it last looked for tasks to pull while busy */
};

static struct cpu cpus[CPUS_MAX];
static u32 nr_cpus;

/* What Linux's compiler knew. It follows from the tunables: init computes it. */
static u32 max_sleep_avg_ns;
static u32 bonus_ns; /* this much sleep_avg is a bonus of 1 */
struct reciprocal by_bonus_ns;

/* Of each CPU: the tasks that each CPU had when it looked last. */
struct seen {
	u16 nr_running[CPUS_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct seen);
} seen_by_cpu SEC(".maps");

struct clockwork {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct clockwork);
} clockworks SEC(".maps");

static struct cpu *cpu_at(u32 cpu)
{
	return &cpus[cpu & (CPUS_MAX - 1)];
}

static struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

/* ---- formulas ------------------------------------------------------------------------------ */

static bool is_2_6_22(void)
{
	return patch_level >= 22;
}

static u64 ticks_in(u64 ns)
{
	return ns / tick_ns;
}

/* Ticks that a task gets at a time. */
static u32 time_slice_of(u32 static_prio)
{
	u64 ns;

	if (is_2_6_22()) {
		ns = (static_prio < DEFAULT_PRIO ? 400 : 100) * NSEC_PER_MSEC;
		ns = max(ns * (MAX_PRIO - static_prio) / 20, 5 * NSEC_PER_MSEC);
	} else {
		ns = (max_slice_ns - min_slice_ns) * (MAX_PRIO - 1 - static_prio) / (LEVELS - 1);
		ns += min_slice_ns;
	}
	return (u32)max(ticks_in(ns), 1ULL);
}

static u32 bonus_of(const struct task *t)
{
	return (u32)min(divided_by(t->sleep_avg_ns, &by_bonus_ns), (u64)BONUS_MAX);
}

/* What a bonus of 1 is worth follows from the slice of nice 0, as far as 32 bits hold it. */
static void set_constants(void)
{
	u64 slice_ns = time_slice_of(DEFAULT_PRIO) * tick_ns;

	bonus_ns = (u32)(is_2_6_22() ? NSEC_PER_SEC / BONUS_MAX : min(slice_ns, BONUS_NS_MAX));
	max_sleep_avg_ns = BONUS_MAX * bonus_ns;
	by_bonus_ns = reciprocal_of(bonus_ns);
}

static u32 effective_prio(const struct task_struct *p, const struct task *t)
{
	s32 prio = p->static_prio + BONUS_MAX / 2 - (s32)bonus_of(t);

	return (u32)clamp(prio, MAX_RT_PRIO, MAX_PRIO - 1);
}

/* By how many levels a task must be better than its nice value to be interactive. */
static s32 interactive_delta(const struct task_struct *p)
{
	s32 nice = task_nice(p);

	if (is_2_6_22())
		return (s32)((u32)(nice + 20) / 4) - BONUS_MAX / 2 + INTERACTIVE_DELTA;
	return INTERACTIVE_DELTA + (nice < 0 ? -(s32)((u32)-nice / 4) : (s32)((u32)nice / 4));
}

static bool is_interactive(const struct task_struct *p, const struct task *t)
{
	return (s32)t->prio + interactive_delta(p) <= p->static_prio;
}

/* A sleep this long makes a task just interactive, and no more than that. */
static u32 interactive_sleep_ns(const struct task_struct *p)
{
	u32 bonus = (u32)(BONUS_MAX / 2 + interactive_delta(p) + 1);

	return bonus_ns * bonus - (u32)tick_ns;
}

/* Ticks after which interactive tasks of one priority take turns. */
static u64 granularity_of(const struct task *t)
{
	u32 doublings = max(BONUS_MAX - bonus_of(t), 1U) - 1;

	return max(ticks_in(granularity_ns), 1ULL) * nr_cpus << doublings;
}

/* ---- the sleep average --------------------------------------------------------------------- */

/* A task that waited for a device is likely a hog that reads: it stays just interactive. */
static u64 credit_left_by_device(const struct task_struct *p, struct task *t, u64 slept_ns,
				 u64 limit_ns)
{
	if (t->waker != WAKER_DEVICE || !p->mm || t->sleep_avg_ns + slept_ns < limit_ns)
		return slept_ns;
	t->sleep_avg_ns = max(t->sleep_avg_ns, (u32)limit_ns);
	return 0;
}

static void credit_sleep_2_6_0(const struct task_struct *p, struct task *t, u64 slept_ns)
{
	u64 most_ns = max_sleep_avg_ns, limit_ns = interactive_sleep_ns(p);
	bool is_sure = t->credit > CREDIT_LIMIT;

	slept_ns = min(slept_ns, most_ns);
	if (p->mm && t->waker != WAKER_DEVICE && slept_ns > limit_ns) {
		t->sleep_avg_ns = max_sleep_avg_ns - bonus_ns;
		t->credit += !is_sure;
		return;
	}
	slept_ns *= max(BONUS_MAX - bonus_of(t), 1U);
	if (t->credit < -CREDIT_LIMIT)
		slept_ns = min(slept_ns, time_slice_of(p->static_prio) * tick_ns);
	if (!is_sure)
		slept_ns = credit_left_by_device(p, t, slept_ns, limit_ns);
	slept_ns += t->sleep_avg_ns;
	t->credit += slept_ns > most_ns && !is_sure;
	t->sleep_avg_ns = (u32)min(slept_ns, most_ns);
}

static void credit_sleep_2_6_22(const struct task_struct *p, struct task *t, u32 slept_ns)
{
	u32 limit_ns = interactive_sleep_ns(p);

	if (p->mm && slept_ns > limit_ns && t->sleep_avg_ns < limit_ns) {
		t->sleep_avg_ns = limit_ns;
		t->waker = WAKER_DEVICE;
		return;
	}
	t->sleep_avg_ns += (u32)credit_left_by_device(p, t, slept_ns, limit_ns);
	t->sleep_avg_ns = min(t->sleep_avg_ns, max_sleep_avg_ns);
}

static void credit_sleep(const struct task_struct *p, struct task *t, u64 slept_ns)
{
	if (slept_ns && is_2_6_22())
		credit_sleep_2_6_22(p, t, (u32)min(slept_ns, SLEEP_NS_MAX));
	else if (slept_ns)
		credit_sleep_2_6_0(p, t, slept_ns);
	t->prio = effective_prio(p, t);
}

/* Running costs what sleeping gained; less for those who are known as interactive. */
static void charge_run(struct task *t, u64 now)
{
	u32 ran_ns = (u32)min((u64)time_delta(now, t->switched_at_ns), (u64)max_sleep_avg_ns);

	if (is_2_6_22() || t->credit > CREDIT_LIMIT)
		ran_ns /= max(bonus_of(t), 1U);
	t->sleep_avg_ns -= min(t->sleep_avg_ns, ran_ns);
	if (!t->sleep_avg_ns && t->credit >= -CREDIT_LIMIT && t->credit <= CREDIT_LIMIT)
		t->credit--;
	t->switched_at_ns = now;
}

/* ---- the arrays ---------------------------------------------------------------------------- */

static u64 list_of(u32 cpu, u32 array, u32 level)
{
	return (u64)cpu << 8 | (array & 1) << 6 | (level & 63);
}

static u32 level_of(const struct task *t)
{
	return (t->prio - MAX_RT_PRIO) & 63;
}

static void mark_level(u32 cpu, const struct task *t)
{
	__sync_fetch_and_or(&cpu_at(cpu)->levels[t->array & 1], 1ULL << level_of(t));
}

/* The best list of an array that has tasks. Tasks also leave lists behind our back, so a bit is
 * only a hint; only its own CPU clears it, as what it clears and what enqueue sets are both under
 * that CPU's lock. Not static: a kernel's verifier then goes through the loop once and for all. */
__noinline u32 first_level(u32 cpu, u32 array)
{
	u64 *levels = &cpu_at(cpu)->levels[array & 1];
	u32 tries;

	for (tries = 0; tries < LEVELS && *levels; tries++) {
		u32 level = __builtin_ctzll(*levels);

		if (scx_bpf_dsq_nr_queued(list_of(cpu, array, level)) > 0)
			return level;
		__sync_fetch_and_and(levels, ~(1ULL << (level & 63)));
	}
	return NO_LEVEL;
}

/* ---- ticks --------------------------------------------------------------------------------- */

/* Whether interactive tasks must expire too, so that those who wait in the expired array run. */
static bool expired_starve(const struct cpu *c, const struct task_struct *p, u64 now)
{
	/* More ticks than the limit, that is at least one more. */
	u64 limit_ns = (u64)max_sleep_avg_ns * c->nr_running + tick_ns;

	return (u32)p->static_prio > c->best_expired_prio ||
	       (c->expired_at_ns && now - c->expired_at_ns >= limit_ns);
}

/* The slice is used up: a new one, and to the end of a list. */
static void expire(const struct task_struct *p, struct task *t, struct cpu *c, u64 now)
{
	t->prio = effective_prio(p, t);
	t->time_slice = time_slice_of(p->static_prio);
	t->keeps_slice = false;
	t->place = PLACE_LAST;
	if (!c->expired_at_ns)
		c->expired_at_ns = now;
	if (is_interactive(p, t) && !expired_starve(c, p, now))
		return;
	t->array = c->active ^ 1;
	c->best_expired_prio = min(c->best_expired_prio, (u32)p->static_prio);
}

/* When the next tick after `now` comes. Divides once a tick, as an interrupt would count it. */
static u64 next_tick(struct cpu *c, u64 now)
{
	if (now >= c->next_tick_ns)
		c->next_tick_ns = (ticks_in(now) + 1) * tick_ns;
	return c->next_tick_ns;
}

/* Charges the running task for the ticks since this was last done; whether it must go. A tick is
 * charged in full to whoever runs when it comes. */
static bool take_ticks(const struct task_struct *p, struct task *t, struct cpu *c, u64 now)
{
	u32 slice, used;
	u64 ticks = 0, granularity;

	if (now >= t->next_tick_ns) {
		ticks = ticks_in(now - t->next_tick_ns) + 1;
		t->next_tick_ns += ticks * tick_ns;
	}
	if (t->array != c->active)
		return true;
	if (!ticks)
		return false;
	if (t->time_slice <= ticks) {
		expire(p, t, c, now);
		return true;
	}
	slice = time_slice_of(p->static_prio);
	used = slice - min(slice, t->time_slice);
	t->time_slice -= (u32)ticks;
	granularity = granularity_of(t);
	if (!is_interactive(p, t) || t->time_slice < granularity ||
	    used / granularity == (used + (u32)ticks) / granularity)
		return false;
	if (!is_2_6_22())
		t->prio = effective_prio(p, t);
	t->place = PLACE_LAST;
	return true;
}

/* ---- becoming runnable --------------------------------------------------------------------- */

/* A wake-up stays on its CPU, unless the waker is about to sleep: it then comes to the waker's. */
s32 BPF_STRUCT_OPS(o1_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 here = (s32)bpf_get_smp_processor_id();
	struct task *t = task_of(p);

	if (!t || !(wake_flags & SCX_WAKE_SYNC) || !bpf_cpumask_test_cpu(here, p->cpus_ptr))
		return prev_cpu;
	t->is_sync = true;
	return here;
}

/* Credits the sleep that ends now. */
static void activate(const struct task_struct *p, struct task *t, u64 now)
{
	credit_sleep(p, t, (u64)time_delta(now, t->switched_at_ns));
	if (t->waker == WAKER_NONE)
		t->waker = bpf_get_current_task_btf()->pid ? WAKER_TASK : WAKER_INTERRUPT;
	t->switched_at_ns = now;
}

void BPF_STRUCT_OPS(o1_runnable, struct task_struct *p, u64 enq_flags)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	t->cpu = scx_bpf_task_cpu(p);
	__sync_fetch_and_add(&cpu_at(t->cpu)->nr_running, 1);
	if (t->has_slept && !t->is_sync)
		activate(p, t, scx_bpf_now());
	t->has_slept = false;
	t->array = cpu_at(t->cpu)->active;
	t->place = PLACE_LAST;
}

void BPF_STRUCT_OPS(o1_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	__sync_fetch_and_add(&cpu_at(t->cpu)->nr_running, -1);
	if (!(deq_flags & SCX_DEQ_SLEEP))
		return;
	t->has_slept = true;
	t->waker = p->__state & TASK_UNINTERRUPTIBLE ? WAKER_DEVICE : WAKER_NONE;
}

/* A child stands before its parent, whose turn ends. False if the parent is not running here. */
static bool place_child(struct task *t)
{
	struct task *parent = task_of(bpf_get_current_task_btf());

	t->is_new = false;
	if (!parent || !parent->is_running)
		return false;
	/* A fork that takes the last of a slice ends the turn. Not in init_task: a kernel would
	 * preempt the parent there, where it runs a program and so cannot migrate. */
	if (parent->place == PLACE_LAST)
		scx_bpf_kick_cpu((s32)parent->cpu, SCX_KICK_PREEMPT);
	if (parent->cpu != t->cpu)
		return false;
	t->prio = parent->prio;
	t->array = parent->array;
	t->place = parent->place;
	if (parent->place == PLACE_FIRST)
		parent->place = PLACE_AFTER_CHILD;
	return true;
}

/* Counts a task to another CPU's queue. */
static void move_to_cpu(struct task *t, u32 cpu)
{
	__sync_fetch_and_add(&cpu_at(t->cpu)->nr_running, -1);
	__sync_fetch_and_add(&cpu_at(cpu)->nr_running, 1);
	t->cpu = cpu;
}

/* Comes here: who was woken, who is new, and who was running and must make way. */
void BPF_STRUCT_OPS(o1_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task *t = task_of(p);
	struct cpu *c;
	bool preempts;

	if (!t)
		return;
	/* After a change of affinity the core moves a task without asking anybody. */
	if (t->cpu != (u32)scx_bpf_task_cpu(p)) {
		move_to_cpu(t, scx_bpf_task_cpu(p));
		t->array = cpu_at(t->cpu)->active;
		t->place = PLACE_LAST;
	}
	c = cpu_at(t->cpu);
	preempts = t->prio < c->prio && !t->is_sync;
	t->is_sync = false;
	if (t->is_new)
		preempts |= place_child(t);
	if (t->place != PLACE_LAST)
		enq_flags |= SCX_ENQ_HEAD;
	mark_level(t->cpu, t);
	scx_bpf_dsq_insert(p, list_of(t->cpu, t->array, level_of(t)), SCX_SLICE_DFL, enq_flags);
	/* An idle CPU is woken by whoever gives it a task; MAX_PRIO may also mean that it is just
	 * about to pick. */
	if (preempts && c->prio != MAX_PRIO)
		scx_bpf_kick_cpu((s32)t->cpu, SCX_KICK_PREEMPT);
}

/* ---- balancing ----------------------------------------------------------------------------- */

/* Sets from where, and how many tasks, CPU `here` must pull. A busy CPU trusts only imbalances
 * that it has seen twice, and that are a quarter of the longer queue. */
static bool find_busiest(u32 here, struct cpu *c, bool is_idle)
{
	struct seen *seen = bpf_map_lookup_percpu_elem(&seen_by_cpu, &(u32){0}, here);
	u64 own = c->nr_running, most = 1, imbalance;
	u32 cpu;

	if (!seen)
		return false;
	if (!is_idle)
		own = max(own, (u64)seen->nr_running[here & (CPUS_MAX - 1)]);
	c->busiest = here;
	bpf_for(cpu, 0, nr_cpus) {
		u64 now_runs = cpu_at(cpu)->nr_running;
		u16 *before = &seen->nr_running[cpu & (CPUS_MAX - 1)];
		u64 load = is_idle ? now_runs : min(now_runs, (u64)*before);

		*before = (u16)now_runs;
		if (cpu != here && load > most) {
			most = load;
			c->busiest = cpu;
		}
	}
	if (c->busiest == here || cpu_at(c->busiest)->nr_running <= own + 1)
		return false;
	imbalance = most > own ? (most - own) / 2 : 0;
	if (!is_idle && imbalance < (most + 3) / 4)
		return false;
	c->nr_to_pull = is_idle ? 1 : imbalance;
	return true;
}

/* Pulls from the end of a list: those stand there that have run last, or that came last. */
static void pull_from(u64 list, u32 here, struct cpu *c, bool is_idle, u64 now)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, list, SCX_DSQ_ITER_REV) {
		struct task *t = task_of(p);

		if (!t || !bpf_cpumask_test_cpu(here, p->cpus_ptr))
			continue;
		if (!is_idle && (u64)time_delta(now, t->switched_at_ns) <= cache_decay_ns)
			continue;
		if (!scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, list_of(here, c->active, level_of(t)),
				      0))
			continue;
		move_to_cpu(t, here);
		t->array = c->active;
		mark_level(here, t);
		if (!--c->nr_to_pull)
			break;
	}
}

/* Pulls what find_busiest has found: expired tasks first, better priorities first. Whether any
 * task came. */
static bool pull(u32 here, struct cpu *c, bool is_idle, u64 now)
{
	u32 from = c->busiest, i;
	const struct cpu *busiest = cpu_at(from);
	u64 before = c->nr_running;

	bpf_for(i, 0, 2 * LEVELS) {
		u32 array = busiest->active ^ (i < LEVELS);
		u32 level = i < LEVELS ? i : i - LEVELS;

		if (!c->nr_to_pull)
			break;
		if (busiest->levels[array & 1] >> (level & 63) & 1)
			pull_from(list_of(from, array, level), here, c, is_idle, now);
	}
	c->nr_to_pull = 0;
	return c->nr_running != before;
}

/* Stands in for the ticks of idle CPUs, at which each would look for tasks to pull. Also finds a
 * CPU that went idle in the instant in which a task came. */
static int wake_idle_cpus(void *map, u32 *key, struct clockwork *clockwork)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	u64 nr_waiting = 0;
	u32 cpu;

	bpf_for(cpu, 0, nr_cpus) {
		bool runs = !bpf_cpumask_test_cpu(cpu, idle);

		nr_waiting += (u64)time_delta(cpu_at(cpu)->nr_running, runs);
	}
	bpf_for(cpu, 0, nr_cpus) {
		if (!nr_waiting)
			break;
		if (bpf_cpumask_test_cpu(cpu, idle) && cpu_is_online(cpu)) {
			scx_bpf_kick_cpu((s32)cpu, SCX_KICK_IDLE);
			nr_waiting--;
		}
	}
	scx_bpf_put_idle_cpumask(idle);
	bpf_timer_start(&clockwork->timer, idle_balance_ns, 0);
	return 0;
}

/* ---- picking ------------------------------------------------------------------------------- */

/* The best list of the active array, after the arrays have changed places if it was empty. prev
 * is in no list, but belongs to an array. */
static u32 best_level(u32 cpu, struct cpu *c, const struct task *prev)
{
	u32 level = first_level(cpu, c->active);

	if (level != NO_LEVEL || (prev && prev->array == c->active))
		return level;
	if (!prev && !c->levels[(c->active ^ 1) & 1])
		return NO_LEVEL;
	c->active ^= 1;
	c->expired_at_ns = 0;
	c->best_expired_prio = MAX_PRIO;
	return first_level(cpu, c->active);
}

static bool goes_on(const struct cpu *c, const struct task *t, u32 level)
{
	if (t->array != c->active || level_of(t) > level)
		return false;
	return level_of(t) < level || t->place == PLACE_FIRST;
}

static void go_on(struct task_struct *p, struct task *t, struct cpu *c, u64 now)
{
	charge_run(t, now);
	t->place = PLACE_FIRST;
	c->prio = t->prio;
	scx_bpf_task_set_slice(p, t->time_slice * tick_ns);
}

/* What became of a look at the lists: another CPU may take a task in between. */
enum pick { PICK_RUNS, PICK_LOST, PICK_NOBODY };

static enum pick pick(u32 cpu, struct cpu *c, struct task_struct *prev, struct task *t, u64 now)
{
	u32 level = best_level(cpu, c, t);

	if (t && goes_on(c, t, level)) {
		go_on(prev, t, c, now);
		return PICK_RUNS;
	}
	if (level == NO_LEVEL)
		return PICK_NOBODY;
	return scx_bpf_dsq_move_to_local(list_of(cpu, c->active, level)) ? PICK_RUNS : PICK_LOST;
}

void BPF_STRUCT_OPS(o1_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task *t = prev ? task_of(prev) : NULL;
	struct cpu *c = cpu_at(cpu);
	u64 now = scx_bpf_now();
	enum pick picked;

	/* A kernel may also pass a task that has just blocked. */
	if (t && !t->is_running)
		t = NULL;
	if (t)
		take_ticks(prev, t, c, now);
	if (c->nr_to_pull)
		pull(cpu, c, false, now);
	picked = pick(cpu, c, prev, t, now);
	if (picked == PICK_RUNS)
		return;
	bpf_repeat(PICK_TRIES) {
		if (picked == PICK_NOBODY &&
		    (!find_busiest(cpu, c, true) || !pull(cpu, c, true, now)))
			break;
		picked = pick(cpu, c, prev, t, now);
		if (picked == PICK_RUNS)
			return;
	}
	if (!t)
		c->expired_at_ns = 0;
}

/* ---- running ------------------------------------------------------------------------------- */

/* The first time that a task runs after a wake-up its wait for the CPU counts as sleep too. */
static void credit_wait(const struct task_struct *p, struct task *t, u64 now)
{
	u64 waited_ns = (u64)time_delta(now, t->switched_at_ns);
	const struct reciprocal hundred = reciprocal_of(100);
	u32 prio = t->prio;

	if (t->waker == WAKER_TASK)
		waited_ns = divided_by(waited_ns * on_runqueue_percent, &hundred);
	if (t->waker == WAKER_TASK || t->waker == WAKER_INTERRUPT)
		credit_sleep(p, t, waited_ns);
	t->waker = WAKER_NONE;
	/* It runs now, but stands last in its new list. */
	if (t->prio != prio)
		t->place = PLACE_LAST;
}

void BPF_STRUCT_OPS(o1_running, struct task_struct *p)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct task *t = task_of(p);
	struct cpu *c = cpu_at(cpu);
	u64 now = scx_bpf_now();

	if (!t)
		return;
	if (t->cpu != cpu)
		move_to_cpu(t, cpu);
	t->array = c->active;
	t->place = PLACE_FIRST;
	credit_wait(p, t, now);
	t->is_running = true;
	t->switched_at_ns = now;
	t->next_tick_ns = next_tick(c, now);
	c->prio = t->prio;
	scx_bpf_task_set_slice(p, t->time_slice * tick_ns);
}

void BPF_STRUCT_OPS(o1_stopping, struct task_struct *p, bool runnable)
{
	struct task *t = task_of(p);
	u64 now = scx_bpf_now();
	struct cpu *c;

	if (!t)
		return;
	c = cpu_at(t->cpu);
	take_ticks(p, t, c, now);
	charge_run(t, now);
	t->is_running = false;
	c->prio = MAX_PRIO;
}

void BPF_STRUCT_OPS(o1_tick, struct task_struct *p)
{
	struct task *t = task_of(p);
	u64 now = scx_bpf_now();
	bool must_go;
	struct cpu *c;

	if (!t)
		return;
	c = cpu_at(t->cpu);
	must_go = take_ticks(p, t, c, now);
	if (now / busy_balance_ns != c->looked_at_ns / busy_balance_ns) {
		c->looked_at_ns = now;
		must_go |= find_busiest(t->cpu, c, false);
	}
	/* A slice that is 0 already is a preemption under way. */
	if (p->scx.slice)
		scx_bpf_task_set_slice(p, must_go ? 0 : t->time_slice * tick_ns);
}

/* Whoever yields waits until all active tasks have used up their slices. */
bool BPF_STRUCT_OPS(o1_yield, struct task_struct *from, struct task_struct *to)
{
	struct task *t = task_of(from);

	if (to || !t)
		return false;
	t->array = cpu_at(t->cpu)->active ^ 1;
	t->place = PLACE_LAST;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/* ---- tasks come and go --------------------------------------------------------------------- */

/* Parent and child share what is left of the parent's slice; the child loses some of its bonus. */
static void inherit(struct task *t, u64 now)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct task *parent = task_of(current);

	if (!parent)
		return;
	t->is_new = true;
	t->keeps_slice = true;
	t->time_slice = (parent->time_slice + 1) >> 1;
	t->sleep_avg_ns = bonus_of(parent) * (u32)child_penalty_percent / 100 * bonus_ns;
	parent->sleep_avg_ns = bonus_of(parent) * bonus_ns;
	parent->time_slice >>= 1;
	if (!parent->time_slice)
		expire(current, parent, cpu_at(parent->cpu), now);
}

s32 BPF_STRUCT_OPS(o1_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	u64 now = scx_bpf_now();

	if (!t)
		return -ENOMEM;
	t->cpu = scx_bpf_task_cpu(p);
	t->time_slice = time_slice_of(p->static_prio);
	t->switched_at_ns = now;
	if (args->fork)
		inherit(t, now);
	t->prio = effective_prio(p, t);
	return 0;
}

void BPF_STRUCT_OPS(o1_set_weight, struct task_struct *p, u32 weight)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	t->prio = effective_prio(p, t);
	if (t->is_running)
		cpu_at(t->cpu)->prio = t->prio;
}

/* What a child has not used of its parent's slice goes back; a hog's parent is less interactive. */
void BPF_STRUCT_OPS(o1_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 most = is_2_6_22() ? time_slice_of(p->static_prio) : (u32)ticks_in(max_slice_ns);
	struct task *t = task_of(p), *parent;

	if (!t || !p->real_parent)
		return;
	parent = task_of(p->real_parent);
	if (!parent)
		return;
	/* 2.6.22 gives it back only where the parent is. */
	if (t->keeps_slice && (!is_2_6_22() || t->cpu == parent->cpu))
		parent->time_slice = min(parent->time_slice + t->time_slice, most);
	if (t->sleep_avg_ns < parent->sleep_avg_ns)
		parent->sleep_avg_ns =
			(u32)(((u64)parent->sleep_avg_ns * EXIT_WEIGHT + t->sleep_avg_ns) /
			      (EXIT_WEIGHT + 1));
}

static s32 create_lists(u32 cpu)
{
	u32 i;

	bpf_for(i, 0, 2 * LEVELS) {
		u32 level = i < LEVELS ? i : i - LEVELS;
		s32 error = scx_bpf_create_dsq(list_of(cpu, i < LEVELS, level), -1);

		if (error)
			return error;
	}
	return 0;
}

static s32 start_timer(void)
{
	u32 key = 0;
	struct clockwork *clockwork = bpf_map_lookup_elem(&clockworks, &key);

	if (!clockwork)
		return -ENOENT;
	bpf_timer_init(&clockwork->timer, &clockworks, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&clockwork->timer, wake_idle_cpus);
	return bpf_timer_start(&clockwork->timer, idle_balance_ns, 0);
}

/* The core takes the tasks of both arrays to other CPUs, as migrate_dead_tasks did. */
void BPF_STRUCT_OPS(o1_cpu_offline, s32 cpu)
{
	u32 i;

	bpf_for(i, 0, 2 * LEVELS) {
		give_back_all(list_of((u32)cpu, i < LEVELS, i < LEVELS ? i : i - LEVELS));
	}
}

/* It pulls as soon as it can. Without this operation the kernel ends the policy. */
void BPF_STRUCT_OPS(o1_cpu_online, s32 cpu)
{
}

static bool tunables_are_sound(void)
{
	return tunable_is_within(tick_ns, NSEC_PER_USEC, TICK_NS_MAX) &&
	       tunable_is_within(max_slice_ns, 1, TUNABLE_NS_MAX) &&
	       tunable_is_within(min_slice_ns, 0, max_slice_ns) &&
	       tunable_is_within(granularity_ns, 0, TUNABLE_NS_MAX) &&
	       tunable_is_within(on_runqueue_percent, 0, 100) &&
	       tunable_is_within(child_penalty_percent, 0, 100) &&
	       (!idle_balance_ns ||
		tunable_is_within(idle_balance_ns, IDLE_BALANCE_NS_MIN, ~0ULL)) &&
	       tunable_is_within(busy_balance_ns, 1, ~0ULL);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(o1_init)
{
	u32 cpu;

	if (!tunables_are_sound())
		return -EINVAL;
	nr_cpus = scx_bpf_nr_cpu_ids();
	if (nr_cpus > CPUS_MAX)
		return -E2BIG;
	set_constants();
	bpf_for(cpu, 0, nr_cpus) {
		struct cpu *c = cpu_at(cpu);
		s32 error = create_lists(cpu);

		if (error)
			return error;
		c->prio = MAX_PRIO;
		c->best_expired_prio = MAX_PRIO;
	}
	return nr_cpus > 1 && idle_balance_ns ? start_timer() : 0;
}

void BPF_STRUCT_OPS(o1_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(o1_ops,
	       .select_cpu = (void *)o1_select_cpu,
	       .runnable = (void *)o1_runnable,
	       .enqueue = (void *)o1_enqueue,
	       .dispatch = (void *)o1_dispatch,
	       .running = (void *)o1_running,
	       .tick = (void *)o1_tick,
	       .stopping = (void *)o1_stopping,
	       .quiescent = (void *)o1_quiescent,
	       .yield = (void *)o1_yield,
	       .init_task = (void *)o1_init_task,
	       .set_weight = (void *)o1_set_weight,
	       .exit_task = (void *)o1_exit_task,
	       .cpu_online = (void *)o1_cpu_online,
	       .cpu_offline = (void *)o1_cpu_offline,
	       .init = (void *)o1_init,
	       .exit = (void *)o1_exit,
	       .name = "o1");
