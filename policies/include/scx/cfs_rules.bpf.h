/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* CFS's rules for policies that bring a timeline: cfs_queues.bpf.h says which functions that is.
 *
 * cfs.bpf.c says what the rules guarantee, ignore and approximate, and their source.
 */
#ifndef SCX_CFS_RULES_BPF_H
#define SCX_CFS_RULES_BPF_H

#include <scx/cfs_queues.bpf.h>
#include <scx/cfs_wakeups.bpf.h>

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

/* A waiting task was taken here from another CPU's timeline; whether more are wanted. */
static bool note_pulled(struct cfs_queue *q, struct task_struct *p, struct cfs_task *t, u32 here)
{
	count_out(t);
	renormalise(t, here);
	count_in(t);
	q->need_resched |= preempts(q, p, t);
	q->pull_load -= min(q->pull_load, t->weight);
	return q->pull_load;
}

/* Moves waiting tasks from another CPU's queue to this one's; whether any was moved. */
static bool pull(u32 from, u32 here, struct cfs_queue *q, u64 now)
{
	u64 nr_before = q->nr_running;

	timeline_pull(from, here, q, now);
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

	timeline_look(cpu, &first);
	if (!prev && !first.pid)
		return false;
	/* prev, once put back, would stand behind its equals. */
	prev_leads = prev && (!first.pid || timeline_is_before(cpu, q->vruntime, first.vruntime));
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
	if (pid != first.pid && timeline_run(cpu, pid))
		return true;
	q->has_left = first.has_second;
	q->left_vruntime = first.second_vruntime;
	return timeline_run_first(cpu);
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
		if (other->nr_running || !is_due(other->balanced_at_ns, idle_balance_ns, now) ||
		    !cpu_is_online(cpu))
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
	u64 last;

	if (q->nr_running == 1)
		return false;
	charge(q, scx_bpf_now());
	clear_buddy(q, q->pid);
	if (compat_yield || from->policy == SCHED_BATCH) {
		last = timeline_last(cpu, q->vruntime - 1);
		if (!vtime_before(last, q->vruntime))
			q->vruntime = last + 1;
	}
	q->need_resched = true;
	q->skips = yield_skips;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/* ---- weights, tasks coming, the policy starting -------------------------------------------- */

void BPF_STRUCT_OPS(cfs_set_weight, struct task_struct *p, u32 weight)
{
	struct cfs_task *t = task_of(p);
	struct cfs_queue *q;

	if (!t)
		return;
	q = queue_of(t->cpu);
	if (q->is_busy && q->pid == p->pid) {
		charge(q, scx_bpf_now());
		q->weight = weight_of(p, IDLE_WEIGHT);
	}
	if (t->is_runnable)
		count_out(t);
	t->weight = weight_of(p, IDLE_WEIGHT);
	if (t->is_runnable)
		count_in(t);
}

s32 BPF_STRUCT_OPS(cfs_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct cfs_task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	t->cpu = scx_bpf_task_cpu(p);
	t->weight = weight_of(p, IDLE_WEIGHT);
	t->wakeup_ns_avg = scaled_wakeup_ns;
	t->is_new = true;
	return timeline_meet(t, p->pid);
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
		error = timeline_create(cpu);
		if (error)
			return error;
	}
	return 0;
}

UEI_DEFINE(uei);

void BPF_STRUCT_OPS(cfs_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

/* The operations that the rules are; a policy adds those of its timeline, and its name. */
#define CFS_OPS                                                                                    \
	.select_cpu = (void *)cfs_select_cpu, .enqueue = (void *)cfs_enqueue,                      \
	.dispatch = (void *)cfs_dispatch, .tick = (void *)cfs_tick,                                \
	.runnable = (void *)cfs_runnable, .running = (void *)cfs_running,                          \
	.stopping = (void *)cfs_stopping, .quiescent = (void *)cfs_quiescent,                      \
	.yield = (void *)cfs_yield, .set_weight = (void *)cfs_set_weight,                          \
	.init_task = (void *)cfs_init_task, .init = (void *)cfs_init, .exit = (void *)cfs_exit

#endif /* SCX_CFS_RULES_BPF_H */
