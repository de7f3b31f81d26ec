/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Sets of CPUs: those of the machine, which a policy reads, and its own, which it may change. */
#ifndef SCX_SIMULATOR_CPUMASKS_H
#define SCX_SIMULATOR_CPUMASKS_H

void *calloc(unsigned long count, unsigned long size);
void free(void *memory);

#define SCX_CPUMASK_WORDS (SCX_CPUS_MAX / 64)

/* ---- questions ----------------------------------------------------------------------------- */

static inline bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask)
{
	return cpu < SCX_CPUS_MAX && (mask->bits[cpu / 64] >> (cpu % 64) & 1);
}

static inline u32 bpf_cpumask_first(const struct cpumask *mask)
{
	for (u32 word = 0; word * 64 < scx_host->nr_cpu_ids; word++)
		if (mask->bits[word])
			return word * 64 + (u32)__builtin_ctzll(mask->bits[word]);
	return scx_host->nr_cpu_ids;
}

/* May exceed the number of CPUs, as in the kernel: then all are set. */
static inline u32 bpf_cpumask_first_zero(const struct cpumask *mask)
{
	for (u32 word = 0; word * 64 < scx_host->nr_cpu_ids; word++)
		if (~mask->bits[word])
			return word * 64 + (u32)__builtin_ctzll(~mask->bits[word]);
	return scx_host->nr_cpu_ids;
}

static inline u32 bpf_cpumask_first_and(const struct cpumask *a, const struct cpumask *b)
{
	for (u32 word = 0; word * 64 < scx_host->nr_cpu_ids; word++)
		if (a->bits[word] & b->bits[word])
			return word * 64 + (u32)__builtin_ctzll(a->bits[word] & b->bits[word]);
	return scx_host->nr_cpu_ids;
}

static inline u32 bpf_cpumask_weight(const struct cpumask *mask)
{
	u32 weight = 0;

	for (u32 word = 0; word * 64 < scx_host->nr_cpu_ids; word++)
		weight += (u32)__builtin_popcountll(mask->bits[word]);
	return weight;
}

static inline bool bpf_cpumask_empty(const struct cpumask *mask)
{
	return bpf_cpumask_first(mask) >= scx_host->nr_cpu_ids;
}

static inline bool bpf_cpumask_full(const struct cpumask *mask)
{
	return bpf_cpumask_first_zero(mask) >= scx_host->nr_cpu_ids;
}

static inline bool bpf_cpumask_intersects(const struct cpumask *a, const struct cpumask *b)
{
	return bpf_cpumask_first_and(a, b) < scx_host->nr_cpu_ids;
}

static inline bool bpf_cpumask_subset(const struct cpumask *a, const struct cpumask *b)
{
	for (u32 word = 0; word * 64 < scx_host->nr_cpu_ids; word++)
		if (a->bits[word] & ~b->bits[word])
			return false;
	return true;
}

static inline bool bpf_cpumask_equal(const struct cpumask *a, const struct cpumask *b)
{
	return bpf_cpumask_subset(a, b) && bpf_cpumask_subset(b, a);
}

/* The kernel's choice depends on a per-CPU cursor; the first CPU is one of its answers. */
static inline u32 bpf_cpumask_any_distribute(const struct cpumask *mask)
{
	return bpf_cpumask_first(mask);
}

static inline u32 bpf_cpumask_any_and_distribute(const struct cpumask *a, const struct cpumask *b)
{
	return bpf_cpumask_first_and(a, b);
}

/* ---- a policy's own ------------------------------------------------------------------------ */

/* A policy that keeps a mask in a map and never releases it leaks it at the end of the run. */
struct scx_counted_cpumask {
	struct bpf_cpumask mask; /* first, so that one pointer serves for both */
	u32 users;
};

static inline struct bpf_cpumask *bpf_cpumask_create(void)
{
	struct scx_counted_cpumask *counted =
		(struct scx_counted_cpumask *)calloc(1, sizeof(*counted));

	if (!counted)
		return NULL;
	counted->users = 1;
	return &counted->mask;
}

static inline struct bpf_cpumask *bpf_cpumask_acquire(struct bpf_cpumask *mask)
{
	((struct scx_counted_cpumask *)mask)->users++;
	return mask;
}

static inline void bpf_cpumask_release(struct bpf_cpumask *mask)
{
	if (--((struct scx_counted_cpumask *)mask)->users == 0)
		free(mask);
}

static inline void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	if (cpu < scx_host->nr_cpu_ids)
		mask->cpumask.bits[cpu / 64] |= 1ULL << (cpu % 64);
}

static inline void bpf_cpumask_clear_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	if (cpu < scx_host->nr_cpu_ids)
		mask->cpumask.bits[cpu / 64] &= ~(1ULL << (cpu % 64));
}

static inline bool bpf_cpumask_test_and_set_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	bool was_set = bpf_cpumask_test_cpu(cpu, &mask->cpumask);

	bpf_cpumask_set_cpu(cpu, mask);
	return was_set;
}

static inline bool bpf_cpumask_test_and_clear_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	bool was_set = bpf_cpumask_test_cpu(cpu, &mask->cpumask);

	bpf_cpumask_clear_cpu(cpu, mask);
	return was_set;
}

static inline void bpf_cpumask_clear(struct bpf_cpumask *mask)
{
	memset(&mask->cpumask, 0, sizeof(mask->cpumask));
}

static inline void bpf_cpumask_setall(struct bpf_cpumask *mask)
{
	for (u32 cpu = 0; cpu < scx_host->nr_cpu_ids; cpu++)
		bpf_cpumask_set_cpu(cpu, mask);
}

/* True if the result holds a CPU. */
static inline bool bpf_cpumask_and(struct bpf_cpumask *to, const struct cpumask *a,
				   const struct cpumask *b)
{
	for (u32 word = 0; word < SCX_CPUMASK_WORDS; word++)
		to->cpumask.bits[word] = a->bits[word] & b->bits[word];
	return !bpf_cpumask_empty(&to->cpumask);
}

static inline void bpf_cpumask_or(struct bpf_cpumask *to, const struct cpumask *a,
				  const struct cpumask *b)
{
	for (u32 word = 0; word < SCX_CPUMASK_WORDS; word++)
		to->cpumask.bits[word] = a->bits[word] | b->bits[word];
}

static inline void bpf_cpumask_xor(struct bpf_cpumask *to, const struct cpumask *a,
				   const struct cpumask *b)
{
	for (u32 word = 0; word < SCX_CPUMASK_WORDS; word++)
		to->cpumask.bits[word] = a->bits[word] ^ b->bits[word];
}

static inline void bpf_cpumask_copy(struct bpf_cpumask *to, const struct cpumask *from)
{
	to->cpumask = *from;
}

#endif /* SCX_SIMULATOR_CPUMASKS_H */
