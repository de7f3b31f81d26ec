/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What a task weighs, for policies that share CPU time by weight.
 *
 * Of two hogs on one CPU each has its weight's part of the sum: 1024 / (1024 + 820) beside a hog of
 * nice 1, which is 55.5 %.
 *
 * Source: Linux 2.6.23 kernel/sched.c, prio_to_weight; the same in all releases since.
 */
#ifndef SCX_WEIGHTS_BPF_H
#define SCX_WEIGHTS_BPF_H

#define NICE_0_WEIGHT 1024

/* Weight of each nice value from -20 to 19; each step is a factor of about 1.25. */
static const u32 nice_weights[40] = {
	88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
	9548,  7620,  6100,  4904,  3906,  3121,  2501,  1991,  1586,  1277,
	1024,  820,   655,   526,   423,   335,   272,   215,   172,   137,
	110,   87,    70,    56,    45,    36,    29,    23,    18,    15,
};

/* Of SCHED_IDLE a task weighs `idle_weight` at any nice value: 2 until Linux 2.6.30, then 3. */
static u64 weight_of(const struct task_struct *p, u64 idle_weight)
{
	u32 i = p->static_prio - MAX_RT_PRIO;

	if (p->policy == SCHED_IDLE)
		return idle_weight;
	return nice_weights[i < ARRAY_SIZE(nice_weights) ? i : 20];
}

/* CPU time as it counts for a task of that weight: the less it weighs, the more. */
static inline u64 weighted(u64 ns, u64 weight)
{
	return weight == NICE_0_WEIGHT ? ns : ns * NICE_0_WEIGHT / max(weight, 1ULL);
}

#endif /* SCX_WEIGHTS_BPF_H */
