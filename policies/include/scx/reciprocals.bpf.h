/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Division by a number that is known once a policy has started, as a multiplication.
 *
 * A compiler turns a division by a constant into a multiplication and a shift. A policy's divisors
 * come from tunables, which its compiler does not know, and a division takes the time of ten
 * to forty other instructions. `init` asks for the reciprocal, the operations multiply.
 *
 * The quotient is that of a division, for each value and each divisor but 0. Let l be the least
 * number with divisor <= 2^l, and factor = 2^(31 + l) / divisor, rounded up. For a value below
 * 2^31 the product is too large by less than value / 2^(31 + l) < 1 / 2^l <= 1 / divisor, which
 * takes no quotient to the next whole number; and it fits into 63 bits, as factor < 2^32, so that
 * 32 are left behind the first 31. Values above, 2.1 s in nanoseconds, are divided.
 *
 * Source: T. Granlund and P. L. Montgomery, "Division by Invariant Integers using Multiplication",
 * PLDI 1994, theorem 4.2.
 */
#ifndef SCX_RECIPROCALS_BPF_H
#define SCX_RECIPROCALS_BPF_H

#include <scx/common.bpf.h>

#define RECIPROCAL_VALUE_MAX 0x7fffffffULL

/* Of a tunable it is a variable that is not static: a compiler takes static ones apart, and an
 * object must have what its types tell. Of a constant the compiler computes it. */
struct reciprocal {
	u64 divisor;
	u32 factor;
	u32 shift; /* l */
};

static struct reciprocal reciprocal_of(u64 divisor)
{
	struct reciprocal r = {.divisor = divisor};

	/* All that is multiplied is less than the divisor: the quotient is 0, as the factor. */
	if (divisor > RECIPROCAL_VALUE_MAX)
		return r;
	r.shift = divisor > 1 ? 64 - (u32)__builtin_clzll(divisor - 1) : 0;
	r.factor = (u32)(((1ULL << (31 + r.shift)) - 1) / divisor + 1);
	return r;
}

/* value / divisor, rounded down. */
static u64 divided_by(u64 value, const struct reciprocal *r)
{
	if (value > RECIPROCAL_VALUE_MAX)
		return value / r->divisor;
	return (u32)(value * r->factor >> 31) >> r->shift;
}

#endif /* SCX_RECIPROCALS_BPF_H */
