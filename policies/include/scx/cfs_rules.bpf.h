/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* CFS's rules for policies that bring a timeline: cfs_queues.bpf.h says which functions that is.
 *
 * To be read after cfs_queues.bpf.h, which has the tunables and how vruntime passes, and
 * cfs_wakeups.bpf.h, which has what a wake-up and a fork decide. How CPUs balance at all is in
 * queue_per_cpu.bpf.h, and what they compare in tick_loads.bpf.h.
 *
 * cfs.bpf.c says what the rules guarantee, ignore and approximate, and their source.
 */
#ifndef SCX_CFS_RULES_BPF_H
#define SCX_CFS_RULES_BPF_H

#include <scx/cfs_queues.bpf.h>
#include <scx/cfs_wakeups.bpf.h>

/* ---- balancing: what load is, and what may be pulled --------------------------------------- */

static u64 load_seen(u32 cpu, u32 here, enum balance_reason reason, u64 now)
{
	u64 index = newidle_load_index;

	if (reason == BALANCE_BUSY)
		index = busy_load_index;
	else if (reason == BALANCE_IDLE)
		index = idle_load_index;
	return cpu == here ? target_load(cpu, index, now) : source_load(cpu, index, now);
}

static u64 load_to_pull(const struct busiest *busiest, u32 here, enum balance_reason reason)
{
	u64 per_task = load_per_task(busiest->cpu), load;

	if (!is_imbalanced(busiest, imbalance_percent))
		return 0;
	load = load_to_average(busiest);
	if (load >= per_task || odd_task_moves == 2)
		return load;
	return odd_task(busiest, here, odd_task_moves ? per_task : 0);
}

static bool may_pull(struct task_struct *p, const struct cfs_task *t, u32 to, u64 now)
{
	const struct cfs_queue *from = queue_of(t->cpu), *q = queue_of(to);
	bool hot = since(t->stopped_at_ns, now) < migration_cost_ns || p->pid == from->next_pid ||
		   p->pid == from->last_pid;
	u64 weight = t->weight / 2;

	if (odd_task_moves == 2) /* an idle CPU takes its first task whatever the loads are */
		weight = q->base.nr_running ? t->weight >> min(q->base.nr_failed, (u64)FAILED_MAX)
					    : 0;
	return weight <= q->base.pull_load && bpf_cpumask_test_cpu(to, p->cpus_ptr) &&
	       (!hot || q->base.nr_failed > cache_nice_tries);
}

/* A waiting task was taken here from another CPU's timeline; whether more are wanted. */
static bool note_pulled(struct cfs_queue *q, struct task_struct *p, struct cfs_task *t, u32 here)
{
	remove_load(t->cpu, t->weight);
	renormalise(t, here);
	add_load(t->cpu, t->weight);
	q->base.need_resched |= preempts(q, p, t);
	q->base.pull_load -= min(q->base.pull_load, t->weight);
	return q->base.pull_load;
}

static void pull(u32 from, u32 here, enum balance_reason reason, u64 now)
{
	timeline_pull(from, here, queue_of(here), now);
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
static bool pick(u32 cpu, struct task_struct *prev)
{
	struct cfs_queue *q = queue_of(cpu);
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
		go_on(prev);
		return true;
	}
	if (pid != first.pid && timeline_run(cpu, pid))
		return true;
	q->has_left = first.has_second;
	q->left_vruntime = first.second_vruntime;
	return timeline_run_first(cpu);
}

/* A CPU has run out of tasks: it pulls one, unless it idles shortly (3.6 idle_balance). */
static void become_idle(u32 cpu, struct cfs_queue *q, u64 now)
{
	q->idle_at_ns = now;
	if (!newidle || q->idle_ns_avg < (s64)newidle_idle_ns)
		return;
	if (balance(cpu, BALANCE_NEWIDLE, now) && pick(cpu, NULL))
		q->idle_at_ns = 0;
}

void BPF_STRUCT_OPS(cfs_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cfs_queue *q = queue_of(cpu);
	u64 now = scx_bpf_now();

	charge(q, now);
	if (!choose_next(cpu, &q->base, q->is_busy ? prev : NULL, false, now))
		become_idle(cpu, q, now);
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
	q->base.need_resched = false;
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
	remove_load(t->cpu, t->weight);
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
	u64 slice = slice_ns(q->base.nr_running, q->weight, q->load.now);

	if (ran_ns > slice)
		clear_buddy(q, q->pid);
	else if (!tick_compares || ran_ns < scaled_granularity_ns || !q->has_left ||
		 (s64)(q->vruntime - q->left_vruntime) <= (s64)slice)
		return;
	end_turn(&q->base, p);
}

void BPF_STRUCT_OPS(cfs_tick, struct task_struct *p)
{
	struct cfs_queue *q = queue_of(scx_bpf_task_cpu(p));
	u64 now = scx_bpf_now();

	charge(q, now);
	note_load_at_tick(&q->load, now);
	if (q->base.nr_running > 1)
		check_slice(q, p);
	balance_at_tick(&q->base, p, idle_balance_ns, busy_factor, now);
}

bool BPF_STRUCT_OPS(cfs_yield, struct task_struct *from, struct task_struct *to)
{
	u32 cpu = scx_bpf_task_cpu(from);
	struct cfs_queue *q = queue_of(cpu);
	u64 last;

	if (q->base.nr_running == 1)
		return false;
	charge(q, scx_bpf_now());
	clear_buddy(q, q->pid);
	if (compat_yield || from->policy == SCHED_BATCH) {
		last = timeline_last(cpu, q->vruntime - 1);
		if (!vtime_before(last, q->vruntime))
			q->vruntime = last + 1;
	}
	q->skips = yield_skips;
	end_turn(&q->base, from);
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
		remove_load(t->cpu, t->weight);
	t->weight = weight_of(p, IDLE_WEIGHT);
	if (t->is_runnable)
		add_load(t->cpu, t->weight);
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

static bool balancing_is_sound(void)
{
	return tunable_is_within(fork_load_index, 0, PAST_LOADS) &&
	       tunable_is_within(wake_load_index, 0, PAST_LOADS) &&
	       tunable_is_within(busy_load_index, 0, PAST_LOADS) &&
	       tunable_is_within(idle_load_index, 0, PAST_LOADS) &&
	       tunable_is_within(newidle_load_index, 0, PAST_LOADS) &&
	       tunable_is_within(idle_sibling, 0, 3) && tunable_is_within(odd_task_moves, 0, 2) &&
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
	error = count_cpus();
	if (error)
		return error;
	factor = scale_by_cpus(scale_cpus_max);
	scaled_latency_ns = min(latency_ns * factor, latency_max_ns);
	scaled_granularity_ns = min(min_granularity_ns * factor, latency_max_ns);
	scaled_wakeup_ns = wakeup_granularity_ns * factor;
	nr_latency = latency_ns / min_granularity_ns;
	idle_keeps_turn = idle_waits_as_busy;
	idle_loads_stay = !idle_loads_fade;
	shortest_interval_ns = balance_min_ns * (balance_per_cpu ? nr_cpus : 1);
	longest_interval_ns = balance_max_ns * (balance_per_cpu ? nr_cpus : 1);
	bpf_for(cpu, 0, nr_cpus) {
		queue_of(cpu)->min_vruntime = VRUNTIME_START;
		queue_of(cpu)->idle_ns_avg = 2 * (s64)migration_cost_ns;
		queue_of(cpu)->base.interval_ns = longest_interval_ns;
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
