/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A queue for each CPU: how a turn ends, what runs next, and how CPUs even out what they have.
 *
 * A scheduler with one queue for all CPUs has nothing to even out, but its CPUs wait for each
 * other's lock. With a queue for each CPU nobody waits, but one CPU may have six tasks and its
 * neighbour none. So now and then a CPU looks at the others and pulls tasks out of the queue of the
 * busiest one: when it has just run out of tasks (new idle), while it stays idle, and more seldom
 * while it is busy. sched_ext lets tasks change queues in dispatch only: a tick that finds out that
 * a CPU is to balance notes the reason and makes that CPU dispatch.
 *
 * This header is that mechanism. In what order tasks wait, what load is and how much of it is to
 * move are a policy's ideas: the policy defines the five functions that are declared first. It has
 * a struct cpu_queue for each CPU, calls count_cpus in its init, choose_next in its dispatch, and
 * balance_at_tick last in its tick.
 *
 * Left out: scheduling domains; all CPUs are one domain of one-CPU groups. In Linux a CPU balances
 * at its own ticks, and one idle CPU does it for all that are idle and so have no ticks; here the
 * tick of a busy CPU wakes the idle ones whose turn has come.
 *
 * Source: Linux 2.6.23 kernel/sched.c; Linux 6.12 kernel/sched/fair.c has the same under other
 * names (sched_balance_domains, sched_balance_rq, sched_balance_newidle).
 */
#ifndef SCX_QUEUE_PER_CPU_BPF_H
#define SCX_QUEUE_PER_CPU_BPF_H

#include <scx/common.bpf.h>
#include <scx/hotplug.bpf.h>

#define CPUS_MAX 4096 /* a power of two */

enum balance_reason { BALANCE_NONE, BALANCE_BUSY, BALANCE_IDLE, BALANCE_NEWIDLE };

/* One CPU's queue, but for what is in it. Other CPUs change only nr_running, need_resched and
 * `reason`. */
struct cpu_queue {
	u64 nr_running;             /* runnable tasks, the running one included */
	bool need_resched;          /* the running task's turn is over, or it is being preempted */
	enum balance_reason reason; /* why its CPU is to balance when it dispatches next */
	u64 balanced_at_ns;
	u64 interval_ns; /* until it is to balance again, before busy_factor */
	u64 turn_ns;     /* when that is, as it found at a tick while it was busy */
	u64 nr_failed;   /* attempts in a row that found something to pull, and moved nothing */
	u64 pull_load;   /* what a pull has yet to move; here, as the verifier need not follow it */
};

/* What a CPU that may pull has seen: loads of the busiest CPU, of itself, of all in the average. */
struct busiest {
	u32 cpu;
	u64 most;
	u64 least;
	u64 average;
};

static u32 nr_cpus;
static u64 tick_ns;
/* Bounds of interval_ns, set by the policy's init, which begins with the longest: a CPU that has
 * idled doubled its own as often as it could. Volatile, since of a variable that is only ever
 * given one constant clang keeps a bit, and a kernel refuses a variable that is not of its size. */
static volatile u64 shortest_interval_ns, longest_interval_ns;
/* Whether a CPU that goes idle keeps the turn that it had as a busy one, likewise. */
static volatile bool idle_keeps_turn;

/* ---- what the policy defines --------------------------------------------------------------- */

/* NULL if there is no such CPU. */
static struct cpu_queue *cpu_queue_of(u32 cpu);
/* The load of a CPU as seen by `here`, which may pull from it, or which is that CPU. */
static u64 load_seen(u32 cpu, u32 here, enum balance_reason reason, u64 now);
/* How much load `here` is to pull from the busiest CPU; 0 if they are balanced. */
static u64 load_to_pull(const struct busiest *busiest, u32 here, enum balance_reason reason);
/* Moves waiting tasks from one queue to another until pull_load is 0, as far as they may move. */
static void pull(u32 from, u32 here, enum balance_reason reason, u64 now);
/* Lets the best task run, which may be prev, who runs now; whether there was one. */
static bool pick(u32 cpu, struct task_struct *prev);

/* ---- time ---------------------------------------------------------------------------------- */

/* In the policy's init, before all else: 0, or an error if there are more CPUs than queues. */
static s32 count_cpus(void)
{
	nr_cpus = scx_bpf_nr_cpu_ids();
	tick_ns = NSEC_PER_SEC / CONFIG_HZ;
	return nr_cpus > CPUS_MAX ? -E2BIG : 0;
}

/* By how much turns are longer on this machine: 1 + log2 of the number of CPUs, of which
 * `counted_max` count. With more CPUs a task finds a free one sooner, so that longer turns, which
 * cost fewer switches, are not felt (2.6.23 sched_init_granularity, 6.12 get_update_sysctl_factor).
 * It has no loop: a kernel's verifier would follow that for each outcome. */
static u64 scale_by_cpus(u64 counted_max)
{
	return 64 - (u64)__builtin_clzll(min((u64)nr_cpus, counted_max) | 1);
}

/* From an earlier time to a later one; 0 if they are the other way round, as the clocks of two
 * CPUs may be. */
static inline u64 since(u64 earlier, u64 later)
{
	return (u64)time_delta(later, earlier);
}

/* Whether an interval has passed, in whole ticks as the timer interrupt counts; the interval is
 * rounded up (2.6.23 rebalance_domains, by msecs_to_jiffies). */
static bool has_passed(u64 last_ns, u64 interval_ns, u64 now)
{
	return now / tick_ns >= last_ns / tick_ns + (interval_ns + tick_ns - 1) / tick_ns;
}

/* ---- turns --------------------------------------------------------------------------------- */

/* The task that runs on this CPU is to go when the operation that calls this has ended. */
static void end_turn(struct cpu_queue *q, struct task_struct *running)
{
	q->need_resched = true;
	scx_bpf_task_set_slice(running, 0);
}

/* A task has come that is better than the one that runs on a CPU: that one is to go at once. */
static void preempt(struct cpu_queue *q, u32 cpu)
{
	q->need_resched = true;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* The running task goes on until something ends its turn. */
static void go_on(struct task_struct *running)
{
	scx_bpf_task_set_slice(running, SCX_SLICE_INF);
}

/* Whether a task waits in a dispatch queue; *key is the time that the first one is sorted by. */
static inline bool first_key(u64 dsq, u64 *key)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		*key = p->scx.dsq_vtime;
		return true;
	}
	return false;
}

/* ---- balancing: who is busiest, and pulling from it ---------------------------------------- */

/* The CPU of most load among those that have a task to spare; `here` if there is none (2.6.23
 * find_busiest_group, with groups of one CPU). */
static void find_busiest(struct busiest *busiest, u32 here, enum balance_reason reason, u64 now)
{
	u64 least = load_seen(here, here, reason, now), most = 0, sum = least, load;
	const struct cpu_queue *other;
	u32 cpu;

	busiest->cpu = here;
	bpf_for(cpu, 0, nr_cpus) {
		if (cpu == here)
			continue;
		load = load_seen(cpu, here, reason, now);
		sum += load;
		if (load <= most)
			continue;
		other = cpu_queue_of(cpu);
		if (other && other->nr_running > 1) {
			most = load;
			busiest->cpu = cpu;
		}
	}
	busiest->most = most;
	busiest->least = least;
	busiest->average = sum / max(nr_cpus, 1U);
}

/* The simplest rule of how much to pull. An idle CPU pulls a task, whatever its weight; a busy one
 * about half of the difference of the loads, if that is worth it. */
static inline u64 half_of_difference(const struct busiest *busiest, enum balance_reason reason,
				     u64 imbalance_percent)
{
	u64 most = busiest->most, least = busiest->least, average = busiest->average;

	if (reason != BALANCE_BUSY)
		return 1;
	if (most > average && average > least && 100 * most > imbalance_percent * least)
		return min(most - average, average - least);
	return 0;
}

/* Looks at the others once, and pulls; whether any task came. A CPU that finds all well looks half
 * as often next time (2.6.23 load_balance: balance_interval, nr_balance_failed). Not static: a
 * kernel's verifier then goes through it once, and not for each way to each of its calls. */
__noinline bool balance(u32 here, enum balance_reason reason, u64 now)
{
	struct cpu_queue *q = cpu_queue_of(here);
	struct busiest busiest;
	u64 nr_before;

	if (!q)
		return false;
	find_busiest(&busiest, here, reason, now);
	q->pull_load = busiest.cpu == here ? 0 : load_to_pull(&busiest, here, reason);
	if (reason != BALANCE_NEWIDLE)
		q->balanced_at_ns = now;
	if (!q->pull_load) {
		q->nr_failed = 0;
		q->interval_ns = min(2 * q->interval_ns, longest_interval_ns);
		return false;
	}
	q->interval_ns = shortest_interval_ns;
	nr_before = q->nr_running;
	pull(busiest.cpu, here, reason, now);
	if (q->nr_running != nr_before) {
		q->nr_failed = 0;
		return true;
	}
	if (reason != BALANCE_NEWIDLE)
		q->nr_failed++;
	return false;
}

/* ---- choosing what runs next --------------------------------------------------------------- */

/* What dispatch does; whether a task runs next. prev is NULL unless it is running: a kernel may
 * pass a task that has just blocked. With `newidle` a CPU that has no task pulls one at once
 * (2.6.23 idle_balance). */
static bool choose_next(u32 cpu, struct cpu_queue *q, struct task_struct *prev, bool newidle,
			u64 now)
{
	enum balance_reason reason = q->reason;
	bool only_balance = prev && reason == BALANCE_BUSY && !q->need_resched;

	q->reason = BALANCE_NONE;
	if (prev ? reason == BALANCE_BUSY : reason == BALANCE_IDLE && !q->nr_running)
		balance(cpu, reason, now);
	/* A tick that only tries to balance ends no turn, unless what came is better. */
	if (only_balance && !q->need_resched) {
		go_on(prev);
		return true;
	}
	q->need_resched = false;
	return pick(cpu, prev) ||
	       (newidle && balance(cpu, BALANCE_NEWIDLE, now) && pick(cpu, NULL));
}

/* ---- ticks --------------------------------------------------------------------------------- */

/* Stands in for the idle load balancer (2.6.23 run_rebalance_domains): wakes as many idle CPUs,
 * whose turn to balance has come, as there are waiting tasks. */
static void let_idle_cpus_balance(u64 nr_waiting, u64 idle_balance_ns, u64 now)
{
	u32 cpu;

	bpf_for(cpu, 0, nr_cpus) {
		struct cpu_queue *other = cpu_queue_of(cpu);

		if (!nr_waiting)
			break;
		if (!other || other->nr_running || (idle_keeps_turn && now < other->turn_ns) ||
		    !has_passed(other->balanced_at_ns, idle_balance_ns, now) || !cpu_is_online(cpu))
			continue;
		other->reason = BALANCE_IDLE;
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		nr_waiting--;
	}
}

/* What a tick does after the policy has looked whether it ends p's turn. A busy CPU balances
 * `busy_factor` times less often than its interval says; 0 of either number is never. A CPU that
 * goes idle was to give up its turn as a busy one and look much sooner. From Linux 2.6.23 on it
 * did so only if that turn had passed anyway (idle_balance, rq->next_balance), until busy CPUs made
 * idle ones look (2.6.37, nohz_balancer_kick). */
static void balance_at_tick(struct cpu_queue *q, struct task_struct *p, u64 idle_balance_ns,
			    u64 busy_factor, u64 now)
{
	u64 interval_ns;
	bool is_due;

	if (q->nr_running > 1 && idle_balance_ns)
		let_idle_cpus_balance(q->nr_running - 1, idle_balance_ns, now);
	if (!busy_factor || nr_cpus == 1)
		return;
	interval_ns = q->interval_ns * busy_factor;
	is_due = has_passed(q->balanced_at_ns, interval_ns, now);
	if (now >= q->turn_ns)
		q->turn_ns = (is_due ? now : q->balanced_at_ns) + interval_ns;
	if (is_due) {
		q->reason = BALANCE_BUSY;
		scx_bpf_task_set_slice(p, 0);
	}
}

#endif /* SCX_QUEUE_PER_CPU_BPF_H */
