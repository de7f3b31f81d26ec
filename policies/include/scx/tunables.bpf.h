/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Values that a policy cannot work with are refused in its init. Include it in a policy that has
 * tunables.
 *
 * Division by a tunable of 0 gives 0, and one far too large overflows: the policy would go on and
 * schedule nonsense.
 */
#ifndef SCX_TUNABLES_BPF_H
#define SCX_TUNABLES_BPF_H

/* Longer than any time that schedulers count with; products of such times fit into 64 bits. */
#define TUNABLE_NS_MAX (100 * NSEC_PER_SEC)
/* A CPU that balances this many times less often never does; a load this many percent of another's
 * is never met. Times and loads multiplied by them fit into 64 bits. */
#define BUSY_FACTOR_MAX 1000000
#define IMBALANCE_PERCENT_MAX 100000

/* Whether a tunable is one of least..most. If not, the policy's error says so, and its init is to
 * return -EINVAL. */
#define tunable_is_within(tunable, least, most)                                                    \
	({                                                                                         \
		u64 ___value = (tunable), ___least = (least), ___most = (most);                    \
		bool ___is_within = ___value >= ___least && ___value <= ___most;                   \
		if (!___is_within)                                                                 \
			scx_bpf_error("tunable " #tunable " is %llu, not %llu to %llu", ___value,  \
				      ___least, ___most);                                          \
		___is_within;                                                                      \
	})

#endif /* SCX_TUNABLES_BPF_H */
