/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What CFS decides when a task becomes runnable: its place in time, whether it preempts, its CPU.
 *
 * cfs_rules.bpf.h includes this.
 */
#ifndef SCX_CFS_WAKEUPS_BPF_H
#define SCX_CFS_WAKEUPS_BPF_H

#include <scx/cfs_queues.bpf.h>

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
	u64 load = q->load.now + t->weight;
	u64 debit = period_ns(q->base.nr_running + 1) * NICE_0_WEIGHT / max(load, 1ULL);
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

/* The place, on another CPU, at which a task keeps its lead. */
static u64 vruntime_on(const struct cfs_task *t, u32 cpu)
{
	return t->vruntime + queue_of(cpu)->min_vruntime - queue_of(t->cpu)->min_vruntime;
}

static void renormalise(struct cfs_task *t, u32 cpu)
{
	t->vruntime = vruntime_on(t, cpu);
	t->cpu = cpu;
}

/* A runnable task is on another CPU than it was counted on: the core has moved it. */
static void follow_to(struct cfs_task *t, u32 cpu)
{
	if (t->cpu == cpu)
		return;
	remove_load(t->cpu, t->weight);
	renormalise(t, cpu);
	add_load(t->cpu, t->weight);
}

/* A wake-up ends what its CPU has been idle for (3.6 ttwu_do_wakeup). */
static void note_idle(struct cfs_queue *q, u64 now)
{
	u64 idle_ns, most_ns = 2 * migration_cost_ns;

	if (!q->idle_at_ns)
		return;
	idle_ns = since(q->idle_at_ns, now);
	q->idle_at_ns = 0;
	if (idle_ns > most_ns)
		q->idle_ns_avg = (s64)most_ns;
	else
		update_average(&q->idle_ns_avg, idle_ns);
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
	note_load_of_idle(cpu, now);
	renormalise(t, cpu);
	t->is_put_back = !t->is_new && !(enq_flags & SCX_ENQ_WAKEUP);
	if (t->is_new) {
		place_new(t, q);
	} else if (enq_flags & SCX_ENQ_WAKEUP) {
		note_waking(now);
		note_idle(q, now);
		t->woken_ran_ns = t->ran_ns;
		place_waking(t, q);
	}
	t->is_runnable = true;
	add_load(t->cpu, t->weight);
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
	if (q->base.need_resched || p->policy == SCHED_BATCH || p->policy == SCHED_IDLE)
		return false;
	if (adaptive_granularity)
		ns = since(ran_ns, 2 * (u64)t->wakeup_ns_avg * q->base.nr_running);
	wins = q->policy == SCHED_IDLE ||
	       (s64)(q->vruntime - t->vruntime) > (s64)wakeup_granularity(ns, weight);
	if (wins && next_buddy == 2)
		q->next_pid = p->pid;
	if (wins && last_buddy == 2 && q->base.nr_running >= nr_latency)
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
	bool must_run = false;

	if (!t)
		return;
	/* After a change of affinity the core moves a task without asking anybody. */
	follow_to(t, scx_bpf_task_cpu(p));
	q = queue_of(t->cpu);
	if (t->is_new)
		must_run = child_takes_place_of_parent(q, t) || (fork_reschedules && q->is_busy);
	if (t->is_new || (enq_flags & SCX_ENQ_WAKEUP))
		must_run |= preempts(q, p, t);
	t->is_new = false;
	if (!q->has_left || vtime_before(t->vruntime, q->left_vruntime))
		q->left_vruntime = t->vruntime;
	q->has_left = true;
	timeline_add(p, t, enq_flags);
	/* The core does not wake the CPU for it, and it may have waited in another one's queue. */
	if (t->is_put_back)
		scx_bpf_kick_cpu(t->cpu, SCX_KICK_IDLE);
	t->is_put_back = false;
	if (must_run && !q->base.need_resched)
		preempt(&q->base, t->cpu);
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
		if (cpu == here || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || !cpu_is_online(cpu))
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
	u64 load = here_load;

	if (wake_flags & SCX_WAKE_SYNC)
		load -= min(load, load_of_sync_waker(t, here));
	if (100 * (load + t->weight) <= percent * prev_load || (affine_if_free && !load))
		return true;
	if (load <= prev_load &&
	    load + target_load(prev, wake_load_index, now) <= load_per_task(cpu))
		return true;
	return wake_balance && percent * here_load <= 100 * prev_load;
}

/* An idle CPU near `target`, or `target` itself. */
static s32 idle_cpu_near(struct task_struct *p, u32 target, u32 prev)
{
	u32 cpu;

	if (!queue_of(target)->base.nr_running ||
	    (idle_sibling == 2 && queue_of(target)->base.nr_running > 1))
		return target;
	if (!queue_of(prev)->base.nr_running && cpu_distance(prev, target) <= DISTANCE_CACHE)
		return prev;
	bpf_for(cpu, 0, nr_cpus) {
		if (!queue_of(cpu)->base.nr_running &&
		    cpu_distance(cpu, target) <= DISTANCE_CACHE &&
		    bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && cpu_is_online(cpu))
			return cpu;
	}
	return target;
}

/* The first CPU of a core of which no thread has a task; negative if one has. Not static: a
 * kernel's verifier then goes through the loop once, and not within that of its caller. */
__noinline s32 first_of_idle_core(u32 cpu)
{
	s32 first = -1;
	u32 other;

	bpf_for(other, 0, nr_cpus) {
		if (cpu_distance(other, cpu) > DISTANCE_SMT || !cpu_is_online(other))
			continue;
		if (queue_of(other)->base.nr_running)
			return -1;
		if (first < 0)
			first = (s32)other;
	}
	return first;
}

/* In 3.6: an idle core that shares the cache, or else an idle thread of the target's own core. The
 * idle thread of another core that has a task is not looked for. The search begins with the
 * target's core. */
static s32 idle_core_near(struct task_struct *p, u32 target)
{
	s32 first, idle = -1;
	u32 i, cpu;

	if (!queue_of(target)->base.nr_running)
		return (s32)target;
	bpf_for(i, 0, nr_cpus) {
		cpu = target + i < nr_cpus ? target + i : target + i - nr_cpus;
		if (cpu_distance(cpu, target) > DISTANCE_CACHE || !cpu_is_online(cpu))
			continue;
		first = first_of_idle_core(cpu);
		if (first >= 0 && bpf_cpumask_test_cpu((u32)first, p->cpus_ptr))
			return first;
		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (first >= 0)
			return (s32)cpu;
		if (idle < 0 && cpu_distance(cpu, target) == DISTANCE_SMT &&
		    !queue_of(cpu)->base.nr_running)
			idle = (s32)cpu;
	}
	return idle < 0 ? (s32)target : idle;
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
	if (idle_sibling == 3)
		return idle_core_near(p, target);
	return idle_sibling ? idle_cpu_near(p, target, prev_cpu) : (s32)target;
}

#endif /* SCX_CFS_WAKEUPS_BPF_H */
