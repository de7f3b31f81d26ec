/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Words of the kernel's own C: comparisons of wrapping times, limits. */
#ifndef SCX_VOCABULARY_H
#define SCX_VOCABULARY_H

#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

#define min(a, b)                                                                                  \
	({                                                                                         \
		__typeof__(a) ___x = (a);                                                          \
		__typeof__(b) ___y = (b);                                                          \
		___x < ___y ? ___x : ___y;                                                         \
	})
#define max(a, b)                                                                                  \
	({                                                                                         \
		__typeof__(a) ___x = (a);                                                          \
		__typeof__(b) ___y = (b);                                                          \
		___x > ___y ? ___x : ___y;                                                         \
	})
#define clamp(v, lo, hi) min(max(v, lo), hi)

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* An index into an array whose size is a power of two. The compiler must not know its range:
 * it would leave out a mask that it finds needless, and the kernel's verifier wants to see one. */
#define masked(index, size)                                                                        \
	({                                                                                         \
		u64 ___index = (index), ___mask = (size) - 1;                                      \
		asm("" : "+r"(___index));                                                          \
		___index & ___mask;                                                                \
	})

/* Times wrap; the nearer half of the circle is the past. */
static inline bool time_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

static inline bool time_after(u64 a, u64 b)
{
	return (s64)(a - b) > 0;
}

static inline bool time_before_eq(u64 a, u64 b)
{
	return (s64)(a - b) <= 0;
}

static inline bool time_after_eq(u64 a, u64 b)
{
	return (s64)(a - b) >= 0;
}

static inline bool vtime_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* a - b, or 0 where that would be negative. */
static inline s64 time_delta(u64 after, u64 before)
{
	return (s64)(after - before) > 0 ? (s64)(after - before) : 0;
}

/* nice value from a task's static priority. */
static inline s32 task_nice(const struct task_struct *p)
{
	return p->static_prio - DEFAULT_PRIO;
}

#endif /* SCX_VOCABULARY_H */
