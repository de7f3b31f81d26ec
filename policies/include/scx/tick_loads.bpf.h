/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Load, as CFS balanced it: the sum of weights, averaged over ticks so that moments do not count.
 *
 * A task that sleeps for an instant takes its weight out of its CPU's load and brings it back at
 * once. Whoever moved tasks by that would move them to and fro. So each CPU remembers its load at
 * ticks, in averages that are the longer the higher their number is: at each tick
 * past[i] = (past[i] x (2^i - 1) + load) / 2^i, so past[0] is the load at the last tick. Two CPUs
 * are compared with caution: whoever might give a task away counts with the lesser of its present
 * and its past load, and whoever might get one with the greater; what differs even so is worth a
 * move. A load index says which average that is: 0 none, the present load counts alone, and i the
 * average past[i - 1].
 *
 * An idle CPU has no ticks; what it missed is made up for where somebody asks, and when the next
 * task comes.
 *
 * Source: Linux 2.6.23 kernel/sched.c: update_cpu_load, source_load, target_load,
 * find_busiest_group; 2.6.31 has the same, and 2.6.22 but for the last task that moves.
 */
#ifndef SCX_TICK_LOADS_BPF_H
#define SCX_TICK_LOADS_BPF_H

#include <scx/queue_per_cpu.bpf.h>

/* What weights are summed up in, `unsigned long` in Linux: it has 32 bits in a policy that defines
 * LOADS_OF_I386 before it includes this. */
#ifdef LOADS_OF_I386
typedef u32 load_sum;
#else
typedef u64 load_sum;
#endif

#define PAST_LOADS 3
#define IDLE_TICKS_MAX 16 /* (3/4)^16 of a load is nothing */

struct load {
	load_sum now;              /* weights of the runnable tasks, the running one included */
	load_sum past[PAST_LOADS]; /* averages over 1, 2 and 4 ticks */
	u64 ticked_at_ns;
};

/* Whether nobody makes up for the ticks that an idle CPU missed. Volatile for a kernel's sake, as
 * idle_keeps_turn. */
static volatile bool idle_loads_stay;

/* Defined by the policy. There is no CPU without one, and none without a cpu_queue. */
static struct load *load_of(u32 cpu);

/* ---- tasks come and go --------------------------------------------------------------------- */

/* A task of that weight has become runnable, or is no more, by any CPU's doing. */
static void add_load(u32 cpu, load_sum weight)
{
	__sync_fetch_and_add(&load_of(cpu)->now, weight);
	__sync_fetch_and_add(&cpu_queue_of(cpu)->nr_running, 1);
}

static void remove_load(u32 cpu, load_sum weight)
{
	__sync_fetch_and_add(&load_of(cpu)->now, -weight);
	__sync_fetch_and_add(&cpu_queue_of(cpu)->nr_running, -1);
}

/* ---- averages over ticks ------------------------------------------------------------------- */

static u64 past_load(u32 cpu, u32 i, u64 now)
{
	const struct load *load = load_of(cpu);
	u64 past = load->past[i < PAST_LOADS ? i : 0];
	u64 ticks = since(load->ticked_at_ns, now) / tick_ns;
	u64 tick;

	if (cpu_queue_of(cpu)->nr_running || !ticks || idle_loads_stay)
		return past;
	bpf_for(tick, 0, IDLE_TICKS_MAX) {
		if (tick < ticks)
			past = (past * ((1ULL << i) - 1)) >> i;
	}
	return ticks > IDLE_TICKS_MAX ? 0 : past;
}

/* Rounded towards the present load, which would not be reached otherwise. */
static void note_load_at_tick(struct load *load, u64 now)
{
	u32 i;

	bpf_for(i, 0, PAST_LOADS) {
		load_sum *past = &load->past[i < PAST_LOADS ? i : 0];
		load_sum up = load->now > *past ? (1ULL << i) - 1 : 0;

		*past = (*past * ((1ULL << i) - 1) + load->now + up) >> i;
	}
	load->ticked_at_ns = now;
}

/* A task comes to a CPU that may have been idle: makes up for the ticks of that time. */
static void note_load_of_idle(u32 cpu, u64 now)
{
	struct load *load = load_of(cpu);
	u64 ticks = since(load->ticked_at_ns, now) / tick_ns;
	u32 i;

	if (cpu_queue_of(cpu)->nr_running)
		return;
	bpf_for(i, 0, PAST_LOADS) {
		load->past[i < PAST_LOADS ? i : 0] = past_load(cpu, i, now);
	}
	load->ticked_at_ns += ticks * tick_ns;
}

/* ---- load as other CPUs see it ------------------------------------------------------------- */

/* Underestimates the load of a CPU from which a task might go away. */
static u64 source_load(u32 cpu, u64 index, u64 now)
{
	u64 load = load_of(cpu)->now;

	return index ? min(load, past_load(cpu, index - 1, now)) : load;
}

/* Overestimates the load of a CPU to which a task might go. */
static u64 target_load(u32 cpu, u64 index, u64 now)
{
	u64 load = load_of(cpu)->now;

	return index ? max(load, past_load(cpu, index - 1, now)) : load;
}

static u64 load_per_task(u32 cpu)
{
	return load_of(cpu)->now / max(cpu_queue_of(cpu)->nr_running, 1ULL);
}

/* ---- how much to pull (find_busiest_group) ------------------------------------------------- */

/* Whether the busiest CPU is worth pulling from at all. */
static bool is_imbalanced(const struct busiest *busiest, u64 imbalance_percent)
{
	return busiest->least < busiest->most && busiest->least < busiest->average &&
	       busiest->most > load_per_task(busiest->cpu) &&
	       100 * busiest->most > imbalance_percent * busiest->least;
}

/* What brings the one CPU down to the average, or the other one up to it, and leaves a task. */
static u64 load_to_average(const struct busiest *busiest)
{
	u64 most = busiest->most;

	return min(min(most - busiest->average, most - load_per_task(busiest->cpu)),
		   busiest->average - busiest->least);
}

/* Where that is less than a task: a task all the same, if the gap between the CPUs is two tasks
 * wide, or one where the own tasks are lighter. The gap may fall short of that by `fuzz`. */
static u64 odd_task(const struct busiest *busiest, u32 here, u64 fuzz)
{
	u64 per_task = load_per_task(busiest->cpu);
	bool is_lighter = cpu_queue_of(here)->nr_running && per_task > load_per_task(here);
	u64 gap = busiest->most - busiest->least;

	return gap + fuzz >= per_task * (is_lighter ? 1 : 2) ? per_task : 0;
}

#endif /* SCX_TICK_LOADS_BPF_H */
