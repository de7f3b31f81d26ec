/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* eevdf - of the tasks that are owed CPU time, the one with the earliest deadline runs next.
 *
 * V is the weighted average of the vruntimes on a CPU: the time at which an ideal CPU that
 * runs all tasks at once would be. V - vruntime is a task's lag; who has lag >= 0 is owed time
 * and is eligible. A task asks for base_slice_ns at a time and has its deadline one such request
 * (x 1024 / weight) after its vruntime. Once picked it runs until its request is used up, unless
 * it stops being eligible and a waking task is better. The defaults are Linux 6.12.
 *
 * Guarantee: on one CPU shares are proportional to weights, and no task gets ahead of its share
 * by more than a request, rounded up to a tick; nor behind, unless a request is much shorter
 * than a tick (then all others may have overrun theirs). Across CPUs: only what balancing does.
 *
 * Ignored or approximated:
 *  1. The queue is in order of deadline and is walked up to the first eligible task. Linux's tree
 *     also knows the least vruntime below each node and needs O(log n) steps; a walk costs a step
 *     for each task that has an earlier deadline and is not eligible.
 *  2. Delayed dequeue: sched_ext has no place for a sleeping task in a queue, so the policy keeps
 *     those that owe time beside it, SLEEPERS_MAX on each CPU; any more leave at once.
 *  3. Every request is base_slice_ns: sched_ext hides sched_attr.sched_runtime. PREEMPT_SHORT,
 *     which compares requests, therefore never applies.
 *  4. Wake-ups, synchronous ones too, look for an idle CPU as sched_ext's default does for others,
 *     in place of wake_affine and select_idle_sibling, which look near the waker or where the task
 *     last ran. Load is the sum of weights, in place of averages (PELT). Groups and buddies are
 *     left out; all CPUs are one domain of one-CPU groups.
 *  5. A running CPU's tick balances for it, and wakes idle CPUs whose turn has come, in place of
 *     the idle load balancer. The balancer takes waiting tasks in order of deadline.
 *
 * Source: Linux 6.12.107 kernel/sched/fair.c, kernel/sched/features.h, and kernel/sched/topology.c
 * for balancing; I. Stoica, H. Abdel-Wahab, "Earliest eligible virtual deadline first", Old
 * Dominion University TR-95-22, 1995.
 */
#include <scx/queue_per_cpu.bpf.h>
#include <scx/tunables.bpf.h>
#include <scx/weighted_average.bpf.h>
#include <scx/weights.bpf.h>

char _license[] SEC("license") = "GPL";
UEI_DEFINE(uei);

/* How long a request is; ns, before scaling by 1 + log2 of the number of CPUs (8 at most). 0.75 ms
 * in 6.6 and at first in 6.12, 0.7 ms since. */
const volatile u64 base_slice_ns = 700 * NSEC_PER_USEC;
/* 1: the lag with which a task went to sleep counts when it wakes up; 0: it is forgotten. */
const volatile u64 place_lag = 1;
/* 1: a picked task keeps the CPU until its request is used up, as long as it is eligible. */
const volatile u64 run_to_parity = 1;
/* 1: a sleeper that owes time counts in V until it would be picked (6.12); 0: it leaves (6.6). */
const volatile u64 delay_dequeue = 1;
/* 1: a CPU that runs out of tasks pulls one at once. */
const volatile u64 newidle = 1;
/* An idle CPU tries to pull a task once in this time; ns, 0 is never. */
const volatile u64 idle_balance_ns = 4 * NSEC_PER_MSEC;
/* Balancing interval, before busy_factor, for each CPU there is; grows up to twice that; ns. */
const volatile u64 balance_ns_per_cpu = 1 * NSEC_PER_MSEC;
/* A busy CPU balances this many times less often than the interval says; 0 is never. */
const volatile u64 busy_factor = 16;
/* Balance only if the other CPU's load is this many percent of ours. */
const volatile u64 imbalance_percent = 117;
/* A task that ran less than this ago is cache-hot; ns. */
const volatile u64 migration_cost_ns = 500 * NSEC_PER_USEC;
/* Failed attempts after which the balancer takes cache-hot tasks too. */
const volatile u64 cache_nice_tries = 1;

#define SCALE_CPUS_MAX 8
#define IDLE_WEIGHT 3
#define FAILED_MAX 16               /* a weight shifted by more is 0 anyhow */
#define SLEEPERS_MAX 32             /* a power of two */
#define VRUNTIME_START (1ULL << 40) /* away from 0, so that subtracting lag never wraps */

struct eevdf_task {
	u64 vruntime; /* while runnable; stale while the task runs */
	u64 deadline;
	u64 weight;
	s64 lag;          /* while not runnable */
	u64 request_left; /* deadline - vruntime, if keeps_request */
	u64 stopped_at_ns;
	u32 cpu; /* whose queue's sums include it */
	bool is_runnable;
	bool is_counted; /* in that queue's sums */
	bool is_new;
	bool is_put_back; /* neither new nor woken: its affinity or nice value was changed */
	bool is_delayed;  /* it fell asleep as a sleeper of its queue, and may have left since */
	bool keeps_request;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct eevdf_task);
} tasks SEC(".maps");

struct running_task {
	u64 vruntime;
	u64 deadline;
	u64 first_deadline; /* when it was switched to; that it is still the same protects */
	u64 weight;
	u64 charged_at_ns;
	s32 pid;
	u32 policy;
	bool exists;
};

/* A task that sleeps and owes time: it counts in V, and leaves when it would be picked. */
struct sleeper {
	u64 vruntime;
	u64 deadline;
	u64 weight;
	s32 pid;
};

/* What a pick knows of a CPU. */
struct view {
	struct running_task running;
	struct average average;
	u64 sleeper_deadline; /* of the first sleeper that is eligible, if has_sleeper */
	bool has_sleeper;
	bool prev_is_eligible;
};

/* One CPU. `lock` is for `average`, `running`, the sleepers and nr_running; the rest is the CPU's
 * own. */
struct eevdf_queue {
	struct bpf_spin_lock lock;
	bool is_request_over; /* the running task's, as found out by the task that woke up last */
	struct cpu_queue base;
	struct average average; /* V, of vruntimes; tells who is eligible */
	struct running_task running;
	struct sleeper sleepers[SLEEPERS_MAX];
	u32 nr_sleepers;
	u32 found; /* one of them; here, as the verifier need not follow it */
	struct view view;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS_MAX);
	__type(key, u32);
	__type(value, struct eevdf_queue);
} queues SEC(".maps");

static u64 slice_ns;

static struct eevdf_queue *queue_of(u32 cpu)
{
	return bpf_map_lookup_elem(&queues, &cpu);
}

static struct cpu_queue *cpu_queue_of(u32 cpu)
{
	struct eevdf_queue *q = queue_of(cpu);

	return q ? &q->base : NULL;
}

static struct eevdf_task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

/* value x times / over, towards 0; BPF divides unsigned numbers only. */
static s64 scaled(s64 value, u64 times, u64 over)
{
	u64 size = value < 0 ? -(u64)value : (u64)value;

	size = size * times / max(over, 1ULL);
	return value < 0 ? -(s64)size : (s64)size;
}

/* ---- V, kept up to date; q->lock is held --------------------------------------------------- */

static void count_in(struct eevdf_queue *q, struct eevdf_task *t)
{
	average_add(&q->average, t->vruntime, t->weight);
	q->base.nr_running++;
	t->is_counted = true;
}

static void count_out(struct eevdf_queue *q, struct eevdf_task *t)
{
	average_remove(&q->average, t->vruntime, t->weight);
	q->base.nr_running--;
	t->is_counted = false;
}

/* Linux counts sleepers that have not left as running, but for balancing. */
static u64 nr_queued(const struct eevdf_queue *q)
{
	return q->base.nr_running + q->nr_sleepers;
}

/* Lets the running task's vruntime pass; whether that used up its request and began another. */
static bool charge(struct eevdf_queue *q, u64 now)
{
	struct running_task *r = &q->running;
	u64 ran_ns = since(r->charged_at_ns, now);
	u64 passed = weighted(ran_ns, r->weight);

	if (!r->exists)
		return false;
	r->charged_at_ns += ran_ns;
	r->vruntime += passed;
	average_advance(&q->average, passed, r->weight);
	if (vtime_before(r->vruntime, r->deadline))
		return false;
	r->deadline = r->vruntime + weighted(slice_ns, r->weight);
	return true;
}

/* Inserting a task moves V towards it: lag is inflated, so that afterwards it is what it was. */
static u64 vruntime_with(struct eevdf_queue *q, s64 lag, u64 weight)
{
	u64 load = q->average.load;

	lag = place_lag && load ? scaled(lag, load + weight, load) : 0;
	return average_of(&q->average) - lag;
}

static s64 lag_of(struct eevdf_queue *q, const struct eevdf_task *t)
{
	s64 limit = weighted(max(2 * slice_ns, tick_ns), t->weight);

	return clamp((s64)(average_of(&q->average) - t->vruntime), -limit, limit);
}

static void place(struct eevdf_queue *q, struct eevdf_task *t)
{
	u64 request = weighted(slice_ns, t->weight);

	t->vruntime = vruntime_with(q, t->lag, t->weight);
	if (t->keeps_request)
		request = t->request_left;
	else if (t->is_new)
		request /= 2;
	t->deadline = t->vruntime + request;
	t->keeps_request = false;
	count_in(q, t);
}

/* The opposite of place: remembers lag and what is left of the request. */
static void displace(struct eevdf_queue *q, struct eevdf_task *t)
{
	t->lag = lag_of(q, t);
	t->request_left = t->deadline - t->vruntime;
	count_out(q, t);
}

/* ---- sleepers that owe time (6.12 dequeue_entity, requeue_delayed_entity); q->lock is held --- */

/* Lets a task that falls asleep stay; whether it may. Who is owed time, or ends, does not. */
static bool keep_sleeper(struct eevdf_queue *q, const struct task_struct *p, struct eevdf_task *t)
{
	struct sleeper *s = &q->sleepers[q->nr_sleepers & (SLEEPERS_MAX - 1)];

	if (!delay_dequeue || q->nr_sleepers >= SLEEPERS_MAX || (p->flags & PF_EXITING) ||
	    is_eligible(&q->average, t->vruntime))
		return false;
	s->vruntime = t->vruntime;
	s->deadline = t->deadline;
	s->weight = t->weight;
	s->pid = p->pid;
	q->nr_sleepers++;
	q->base.nr_running--;
	t->is_counted = false;
	t->is_delayed = true;
	return true;
}

/* The sleeper `found` counts no more. */
static void forget_sleeper(struct eevdf_queue *q)
{
	struct sleeper *s = &q->sleepers[q->found & (SLEEPERS_MAX - 1)];

	average_remove(&q->average, s->vruntime, s->weight);
	q->nr_sleepers--;
	*s = q->sleepers[q->nr_sleepers & (SLEEPERS_MAX - 1)];
}

/* Whether a task is still among the sleepers; it is then `found`. */
static bool find_sleeper(struct eevdf_queue *q, s32 pid)
{
	u32 at;

	for (at = 0; at < SLEEPERS_MAX && at < q->nr_sleepers; at++) {
		if (q->sleepers[at].pid == pid) {
			q->found = at;
			return true;
		}
	}
	return false;
}

/* Of the sleepers that are eligible by now, `found` is the one with the earliest deadline. */
static bool find_first_sleeper(struct eevdf_queue *q)
{
	bool is_found = false;
	u64 deadline = 0;
	u32 at;

	for (at = 0; at < SLEEPERS_MAX && at < q->nr_sleepers; at++) {
		struct sleeper *s = &q->sleepers[at];

		if (!is_eligible(&q->average, s->vruntime) ||
		    (is_found && !vtime_before(s->deadline, deadline)))
			continue;
		q->found = at;
		deadline = s->deadline;
		is_found = true;
	}
	return is_found;
}

/* Takes a task off its queue's sleepers, with the lag that it has. One that has left before was
 * about to be picked, and owed nothing more. */
static void take_sleeper(struct eevdf_queue *q, const struct task_struct *p, struct eevdf_task *t)
{
	struct sleeper *s;

	t->is_delayed = false;
	t->lag = 0;
	if (!find_sleeper(q, p->pid))
		return;
	s = &q->sleepers[q->found & (SLEEPERS_MAX - 1)];
	t->vruntime = s->vruntime;
	t->deadline = s->deadline;
	t->lag = min(lag_of(q, t), (s64)0);
	forget_sleeper(q);
}

/* Places a task that wakes up. One that is still among the sleepers was never away: it goes on
 * with its request where it was, unless it has come to be owed time. */
static void place_waking(struct eevdf_queue *q, const struct task_struct *p, struct eevdf_task *t)
{
	if (t->is_delayed) {
		take_sleeper(q, p, t);
		if (t->lag < 0) {
			count_in(q, t);
			return;
		}
	}
	place(q, t);
}

/* ---- becoming runnable --------------------------------------------------------------------- */

/* Takes a waiting task's lag and request from one queue to another. One that waits may at the same
 * time be taken off by whoever changes its affinity: is_runnable and is_counted tell each other. */
static void change_queue(struct eevdf_queue *from, struct eevdf_queue *to, struct eevdf_task *t,
			 u32 cpu)
{
	bpf_spin_lock(&from->lock);
	if (t->is_counted)
		displace(from, t);
	bpf_spin_unlock(&from->lock);
	t->keeps_request = true;
	bpf_spin_lock(&to->lock);
	if (t->is_runnable)
		place(to, t);
	bpf_spin_unlock(&to->lock);
	t->cpu = cpu;
}

/* A sleeper is not going to wake up where it fell asleep. */
static void leave_sleepers(struct task_struct *p, struct eevdf_task *t)
{
	struct eevdf_queue *q = queue_of(t->cpu);

	if (!q)
		return;
	bpf_spin_lock(&q->lock);
	take_sleeper(q, p, t);
	bpf_spin_unlock(&q->lock);
}

void BPF_STRUCT_OPS(eevdf_runnable, struct task_struct *p, u64 enq_flags)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct eevdf_queue *q = queue_of(cpu);
	struct eevdf_task *t = task_of(p);
	u64 now = scx_bpf_now();

	if (!t || !q)
		return;
	if (t->is_delayed && t->cpu != cpu)
		leave_sleepers(p, t);
	t->is_runnable = true;
	t->is_put_back = !t->is_new && !(enq_flags & SCX_ENQ_WAKEUP);
	t->cpu = cpu;
	bpf_spin_lock(&q->lock);
	q->is_request_over = charge(q, now) && nr_queued(q) > 1;
	place_waking(q, p, t);
	bpf_spin_unlock(&q->lock);
}

/* ---- preemption ---------------------------------------------------------------------------- */

/* Whether a waiting task is eligible and has no later deadline than `deadline`. */
static bool another_is_due(u32 cpu, const struct average *average, u64 deadline)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, cpu, 0) {
		struct eevdf_task *t = task_of(p);

		if (vtime_before(deadline, p->scx.dsq_vtime))
			break;
		if (t && is_eligible(average, t->vruntime))
			return true;
	}
	return false;
}

/* The same of a sleeper. Not static: a kernel's verifier then goes through it once. */
__noinline bool sleeper_is_due(u32 cpu, u64 deadline)
{
	struct eevdf_queue *q = queue_of(cpu);
	bool is_due;

	if (!q)
		return false;
	bpf_spin_lock(&q->lock);
	is_due = find_first_sleeper(q) &&
		 !vtime_before(deadline, q->sleepers[q->found & (SLEEPERS_MAX - 1)].deadline);
	bpf_spin_unlock(&q->lock);
	return is_due;
}

/* A task that goes on after its request, because it was still the best, is protected no more. */
static bool is_protected(const struct running_task *running)
{
	return run_to_parity && running->deadline == running->first_deadline;
}

/* Whether, if the CPU picked now, it would pick this task that has just come. */
static bool preempts(struct eevdf_queue *q, const struct task_struct *p, const struct eevdf_task *t)
{
	struct running_task running;
	struct average average;

	bpf_spin_lock(&q->lock);
	running = q->running;
	average = q->average;
	bpf_spin_unlock(&q->lock);
	if (!running.exists || q->base.need_resched)
		return false;
	if (q->is_request_over)
		return true;
	if (running.policy == SCHED_IDLE && p->policy != SCHED_IDLE)
		return true;
	if (p->policy == SCHED_BATCH || p->policy == SCHED_IDLE)
		return false;
	if (!is_eligible(&average, t->vruntime))
		return false;
	if (is_eligible(&average, running.vruntime) &&
	    (is_protected(&running) || vtime_before(running.deadline, t->deadline)))
		return false;
	return !sleeper_is_due(t->cpu, t->deadline) &&
	       !another_is_due(t->cpu, &average, t->deadline);
}

void BPF_STRUCT_OPS(eevdf_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct eevdf_task *t = task_of(p);
	u32 cpu = scx_bpf_task_cpu(p);
	struct eevdf_queue *q = queue_of(cpu), *from;

	if (!t || !q)
		return;
	/* After a change of affinity the core moves a task without asking anybody. */
	from = queue_of(t->cpu);
	if (from && t->cpu != cpu)
		change_queue(from, q, t, cpu);
	if ((t->is_new || (enq_flags & SCX_ENQ_WAKEUP)) && preempts(q, p, t))
		preempt(&q->base, t->cpu);
	t->is_new = false;
	scx_bpf_dsq_insert_vtime(p, t->cpu, SCX_SLICE_INF, t->deadline, enq_flags);
	/* The core does not wake the CPU for it, and it may have waited in another one's queue. */
	if (t->is_put_back)
		scx_bpf_kick_cpu(t->cpu, SCX_KICK_IDLE);
	t->is_put_back = false;
}

/* ---- choosing a CPU ------------------------------------------------------------------------ */

static s32 least_loaded_cpu(struct task_struct *p, s32 cpu)
{
	u64 load_min = ~0ULL;
	u32 other;

	bpf_for(other, 0, nr_cpus) {
		struct eevdf_queue *q = queue_of(other);

		if (q && q->average.load < load_min && bpf_cpumask_test_cpu(other, p->cpus_ptr) &&
		    cpu_is_online(other)) {
			load_min = q->average.load;
			cpu = other;
		}
	}
	return cpu;
}

static bool is_sleeper(const struct task_struct *p, const struct eevdf_task *t)
{
	struct eevdf_queue *q = queue_of(t->cpu);
	bool is_found;

	if (!q || !t->is_delayed)
		return false;
	bpf_spin_lock(&q->lock);
	is_found = find_sleeper(q, p->pid);
	bpf_spin_unlock(&q->lock);
	return is_found;
}

s32 BPF_STRUCT_OPS(eevdf_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct eevdf_task *t = task_of(p);
	bool is_idle = false;
	s32 cpu;

	/* A sleeper that has not left was never away. */
	if (!t || is_sleeper(p, t))
		return prev_cpu;
	/* sched_ext would leave a task that is woken synchronously to its waker's CPU though others
	 * are idle, where both wait for each other unless the waker sleeps at once. Linux's
	 * wake_affine only begins its search there. */
	wake_flags &= ~SCX_WAKE_SYNC;
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	if (!is_idle && (wake_flags & SCX_WAKE_FORK))
		return least_loaded_cpu(p, cpu);
	return cpu;
}

/* ---- balancing: what load is, and what may be pulled --------------------------------------- */

static u64 load_seen(u32 cpu, u32 here, enum balance_reason reason, u64 now)
{
	const struct eevdf_queue *q = queue_of(cpu);

	return q ? q->average.load : 0;
}

static u64 load_to_pull(const struct busiest *busiest, u32 here, enum balance_reason reason)
{
	return half_of_difference(busiest, reason, imbalance_percent);
}

/* Each failed attempt halves a weight that is too large to be moved, and lets hot tasks go. */
static bool may_pull(struct task_struct *p, const struct eevdf_task *t, u32 to,
		     const struct eevdf_queue *q, enum balance_reason reason, u64 now)
{
	bool hot = since(t->stopped_at_ns, now) < migration_cost_ns;
	u64 weight = t->weight >> min(q->base.nr_failed, (u64)FAILED_MAX);

	return bpf_cpumask_test_cpu(to, p->cpus_ptr) &&
	       (!hot || q->base.nr_failed > cache_nice_tries) &&
	       (reason != BALANCE_BUSY || weight <= q->base.pull_load);
}

/* What the deadline of a task that waits at `from` is going to be here. */
static u64 deadline_here(struct eevdf_queue *from, struct eevdf_queue *here,
			 const struct eevdf_task *t)
{
	u64 vruntime;
	s64 lag;

	bpf_spin_lock(&from->lock);
	lag = lag_of(from, t);
	bpf_spin_unlock(&from->lock);
	bpf_spin_lock(&here->lock);
	vruntime = vruntime_with(here, lag, t->weight);
	bpf_spin_unlock(&here->lock);
	return vruntime + t->deadline - t->vruntime;
}

/* In order of deadline. Their CPU, or a third, may take tasks at the same time: who has moved a
 * task, and nobody else, then changes the sums. Until t->cpu says so, no other CPU pulls it from
 * here. */
static void pull(u32 busiest, u32 here, enum balance_reason reason, u64 now)
{
	struct eevdf_queue *from = queue_of(busiest), *q = queue_of(here);
	struct task_struct *p;

	if (!from || !q)
		return;
	bpf_for_each(scx_dsq, p, busiest, 0) {
		struct eevdf_task *t = task_of(p);

		if (!t || t->cpu != busiest || !may_pull(p, t, here, q, reason, now))
			continue;
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, deadline_here(from, q, t));
		if (!scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, here, 0))
			continue;
		change_queue(from, q, t, here);
		q->base.need_resched = true; /* choose again, whoever runs */
		q->base.pull_load -= min(q->base.pull_load, t->weight);
		if (!q->base.pull_load)
			break;
	}
}

/* ---- picking the next task ----------------------------------------------------------------- */

static void look(struct eevdf_queue *q, bool has_prev)
{
	struct view *view = &q->view;

	bpf_spin_lock(&q->lock);
	view->running = q->running;
	view->average = q->average;
	view->has_sleeper = find_first_sleeper(q);
	view->sleeper_deadline = q->sleepers[q->found & (SLEEPERS_MAX - 1)].deadline;
	bpf_spin_unlock(&q->lock);
	view->prev_is_eligible = has_prev && is_eligible(&view->average, view->running.vruntime);
}

/* Whether the running task goes on, or a waiting one runs, before any sleeper. */
static bool sleeper_waits(u32 cpu, const struct view *view)
{
	const struct running_task *r = &view->running;

	if (!view->has_sleeper || (view->prev_is_eligible && is_protected(r)))
		return true;
	if (view->prev_is_eligible && vtime_before(r->deadline, view->sleeper_deadline))
		return true;
	return another_is_due(cpu, &view->average, view->sleeper_deadline);
}

/* Fills in the view, and lets those sleepers leave that would be picked now, one after the other:
 * each moves V. Not static, as sleeper_is_due; whether there is such a queue. */
__noinline bool look_past_sleepers(u32 cpu, bool has_prev)
{
	struct eevdf_queue *q = queue_of(cpu);
	u32 nr;

	if (!q)
		return false;
	look(q, has_prev);
	bpf_for(nr, 0, SLEEPERS_MAX) {
		if (sleeper_waits(cpu, &q->view))
			break;
		bpf_spin_lock(&q->lock);
		if (find_first_sleeper(q))
			forget_sleeper(q);
		bpf_spin_unlock(&q->lock);
		look(q, has_prev);
	}
	return true;
}

/* Runs the eligible task with the earliest deadline; whether there was one. */
static bool pick(u32 cpu, struct task_struct *prev)
{
	struct eevdf_queue *q = queue_of(cpu);
	struct task_struct *p;
	struct view *view;

	if (!q || !look_past_sleepers(cpu, prev))
		return false;
	view = &q->view;
	if (prev && view->prev_is_eligible && is_protected(&view->running)) {
		go_on(prev);
		return true;
	}
	bpf_for_each(scx_dsq, p, cpu, 0) {
		struct eevdf_task *t = task_of(p);

		if (!t || !is_eligible(&view->average, t->vruntime) ||
		    !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (view->prev_is_eligible &&
		    vtime_before(view->running.deadline, p->scx.dsq_vtime))
			break;
		if (scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0))
			return true;
	}
	if (prev) {
		go_on(prev);
		return true;
	}
	/* A kernel's CPUs race: what was the least vruntime may have gone in between. */
	return scx_bpf_dsq_move_to_local(cpu);
}

void BPF_STRUCT_OPS(eevdf_dispatch, s32 cpu, struct task_struct *prev)
{
	struct eevdf_queue *q = queue_of(cpu);
	u64 now = scx_bpf_now();

	if (!q)
		return;
	bpf_spin_lock(&q->lock);
	charge(q, now);
	bpf_spin_unlock(&q->lock);
	choose_next(cpu, &q->base, q->running.exists ? prev : NULL, newidle, now);
}

/* ---- running ------------------------------------------------------------------------------- */

void BPF_STRUCT_OPS(eevdf_running, struct task_struct *p)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct eevdf_queue *q = queue_of(cpu), *from;
	struct eevdf_task *t = task_of(p);
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
	q->running.policy = p->policy;
	q->running.vruntime = t->vruntime;
	q->running.deadline = t->deadline;
	q->running.first_deadline = t->deadline;
	q->running.weight = t->weight;
	bpf_spin_unlock(&q->lock);
}

void BPF_STRUCT_OPS(eevdf_stopping, struct task_struct *p, bool runnable)
{
	struct eevdf_queue *q = queue_of(scx_bpf_task_cpu(p));
	struct eevdf_task *t = task_of(p);
	u64 now = scx_bpf_now();

	if (!t || !q || !q->running.exists)
		return;
	bpf_spin_lock(&q->lock);
	charge(q, now);
	t->vruntime = q->running.vruntime;
	t->deadline = q->running.deadline;
	q->running.exists = false;
	bpf_spin_unlock(&q->lock);
	t->stopped_at_ns = now;
}

void BPF_STRUCT_OPS(eevdf_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct eevdf_task *t = task_of(p);
	struct eevdf_queue *q;

	if (!t || !t->is_runnable)
		return;
	q = queue_of(t->cpu);
	if (!q)
		return;
	bpf_spin_lock(&q->lock);
	t->is_runnable = false;
	if (t->is_counted && (!(deq_flags & SCX_DEQ_SLEEP) || !keep_sleeper(q, p, t)))
		displace(q, t);
	bpf_spin_unlock(&q->lock);
	t->keeps_request = !(deq_flags & SCX_DEQ_SLEEP);
}

void BPF_STRUCT_OPS(eevdf_tick, struct task_struct *p)
{
	struct eevdf_queue *q = queue_of(scx_bpf_task_cpu(p));
	u64 now = scx_bpf_now();
	bool is_request_over;

	if (!q)
		return;
	bpf_spin_lock(&q->lock);
	is_request_over = charge(q, now);
	bpf_spin_unlock(&q->lock);
	if (nr_queued(q) > 1 && is_request_over)
		end_turn(&q->base, p);
	balance_at_tick(&q->base, p, idle_balance_ns, busy_factor, now);
}

/* Who yields gives up the rest of its request, if it was owed any. */
bool BPF_STRUCT_OPS(eevdf_yield, struct task_struct *from, struct task_struct *to)
{
	struct eevdf_queue *q = queue_of(scx_bpf_task_cpu(from));
	u64 now = scx_bpf_now();
	struct running_task *r;

	if (!q || nr_queued(q) == 1)
		return false;
	r = &q->running;
	bpf_spin_lock(&q->lock);
	charge(q, now);
	if (is_eligible(&q->average, r->vruntime)) {
		average_advance(&q->average, r->deadline - r->vruntime, r->weight);
		r->vruntime = r->deadline;
		r->deadline += weighted(slice_ns, r->weight);
	}
	bpf_spin_unlock(&q->lock);
	end_turn(&q->base, from);
	return false;
}

/* ---- weights, tasks coming, the policy starting -------------------------------------------- */

/* Lag and request mean the same CPU time under another weight; q->lock is held. */
static void reweight(struct eevdf_queue *q, struct eevdf_task *t, u64 weight)
{
	u64 average = average_of(&q->average);
	s64 lag = average - t->vruntime;
	s64 distance = t->deadline - average;

	count_out(q, t);
	t->vruntime = average - scaled(lag, t->weight, weight);
	t->deadline = average + scaled(distance, t->weight, weight);
	t->weight = weight;
	count_in(q, t);
}

void BPF_STRUCT_OPS(eevdf_set_weight, struct task_struct *p, u32 weight)
{
	struct eevdf_task *t = task_of(p);
	u64 now = scx_bpf_now();
	struct eevdf_queue *q;
	u64 new_weight = weight_of(p, IDLE_WEIGHT);

	if (!t || t->weight == new_weight)
		return;
	q = queue_of(t->cpu);
	if (!q)
		return;
	if (t->is_delayed)
		leave_sleepers(p, t);
	if (!t->is_counted) {
		t->lag = scaled(t->lag, t->weight, new_weight);
		t->request_left = scaled(t->request_left, t->weight, new_weight);
		t->weight = new_weight;
		return;
	}
	bpf_spin_lock(&q->lock);
	if (q->running.exists && q->running.pid == p->pid) {
		charge(q, now);
		t->vruntime = q->running.vruntime;
		t->deadline = q->running.deadline;
		reweight(q, t, new_weight);
		q->running.vruntime = t->vruntime;
		q->running.deadline = t->deadline;
		q->running.weight = new_weight;
	} else {
		reweight(q, t, new_weight);
	}
	bpf_spin_unlock(&q->lock);
}

s32 BPF_STRUCT_OPS(eevdf_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct eevdf_task *t =
		bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	t->cpu = scx_bpf_task_cpu(p);
	t->weight = weight_of(p, IDLE_WEIGHT);
	t->is_new = true;
	return 0;
}

void BPF_STRUCT_OPS(eevdf_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct eevdf_task *t = task_of(p);

	if (t && t->is_delayed)
		leave_sleepers(p, t);
}

static bool tunables_are_sound(void)
{
	return tunable_is_within(base_slice_ns, 1, NSEC_PER_SEC) &&
	       tunable_is_within(balance_ns_per_cpu, 0, NSEC_PER_SEC) &&
	       tunable_is_within(busy_factor, 0, BUSY_FACTOR_MAX) &&
	       tunable_is_within(imbalance_percent, 0, IMBALANCE_PERCENT_MAX);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(eevdf_init)
{
	s32 error;
	u32 cpu;

	if (!tunables_are_sound())
		return -EINVAL;
	error = count_cpus();
	if (error)
		return error;
	slice_ns = base_slice_ns * scale_by_cpus(SCALE_CPUS_MAX);
	shortest_interval_ns = nr_cpus * balance_ns_per_cpu;
	longest_interval_ns = 2 * shortest_interval_ns;
	bpf_for(cpu, 0, nr_cpus) {
		struct eevdf_queue *q = queue_of(cpu);

		if (!q)
			return -ENOENT;
		q->average.zero = VRUNTIME_START;
		q->base.interval_ns = longest_interval_ns;
		error = scx_bpf_create_dsq(cpu, -1);
		if (error)
			return error;
	}
	return 0;
}

void BPF_STRUCT_OPS(eevdf_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

/* The core takes the tasks of this CPU's queue to other CPUs, as migrate_dead_tasks did. */
void BPF_STRUCT_OPS(eevdf_cpu_offline, s32 cpu)
{
	give_back_all((u64)cpu);
}

/* It balances as soon as it can. Without this operation the kernel ends the policy. */
void BPF_STRUCT_OPS(eevdf_cpu_online, s32 cpu)
{
}

SCX_OPS_DEFINE(eevdf_ops, .select_cpu = (void *)eevdf_select_cpu, .enqueue = (void *)eevdf_enqueue,
	       .dispatch = (void *)eevdf_dispatch, .tick = (void *)eevdf_tick,
	       .runnable = (void *)eevdf_runnable, .running = (void *)eevdf_running,
	       .stopping = (void *)eevdf_stopping, .quiescent = (void *)eevdf_quiescent,
	       .yield = (void *)eevdf_yield, .set_weight = (void *)eevdf_set_weight,
	       .init_task = (void *)eevdf_init_task,
	       .exit_task = (void *)eevdf_exit_task, .init = (void *)eevdf_init,
	       .cpu_online = (void *)eevdf_cpu_online,
	       .cpu_offline = (void *)eevdf_cpu_offline,
	       .exit = (void *)eevdf_exit, .name = "eevdf");
