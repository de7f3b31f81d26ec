/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Which CPUs share what. Include it in a policy that cares.
 *
 * sched_ext has no call for this: whoever loads a policy fills these read-only
 * arrays, the simulator from the machine's description and the loader from sysfs.
 */
#ifndef SCX_TOPOLOGY_BPF_H
#define SCX_TOPOLOGY_BPF_H

#define TOPOLOGY_CPUS_MAX 4096 /* a power of two */

/* CPUs with equal numbers share a core, a last-level cache, a NUMA node. */
const volatile u16 topology_core[TOPOLOGY_CPUS_MAX];
const volatile u16 topology_cache[TOPOLOGY_CPUS_MAX];
const volatile u16 topology_node[TOPOLOGY_CPUS_MAX];

enum cpu_distance {
	DISTANCE_SAME,
	DISTANCE_SMT,
	DISTANCE_CACHE,
	DISTANCE_NODE,
	DISTANCE_REMOTE,
};

/* How far apart two CPUs are, nearest first. */
static inline enum cpu_distance cpu_distance(u32 a, u32 b)
{
	a &= TOPOLOGY_CPUS_MAX - 1;
	b &= TOPOLOGY_CPUS_MAX - 1;
	if (a == b)
		return DISTANCE_SAME;
	if (topology_core[a] == topology_core[b])
		return DISTANCE_SMT;
	if (topology_cache[a] == topology_cache[b])
		return DISTANCE_CACHE;
	if (topology_node[a] == topology_node[b])
		return DISTANCE_NODE;
	return DISTANCE_REMOTE;
}

#endif /* SCX_TOPOLOGY_BPF_H */
