/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* reciprocals - divides and multiplies in its init, and says where the two differ. */
#include <scx/reciprocals.bpf.h>

char _license[] SEC("license") = "GPL";

#define DIVISORS 64
#define VALUES 2000

static u64 state = 88172645463325252ULL;

/* Source: G. Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003. */
static u64 random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Both sides of what is multiplied and what is divided, and numbers of every length. */
static u64 value_of(u32 i, u64 divisor)
{
	switch (i & 7) {
	case 0:
		return RECIPROCAL_VALUE_MAX - i / 8;
	case 1:
		return RECIPROCAL_VALUE_MAX + i / 8;
	case 2: /* the largest value of a quotient */
		return (random() & RECIPROCAL_VALUE_MAX) / divisor * divisor + divisor - 1;
	case 3: /* and the least */
		return (random() & RECIPROCAL_VALUE_MAX) / divisor * divisor;
	default:
		return random() >> (random() & 63);
	}
}

/* 1, 2, 3, powers of two and their neighbours, and numbers of every length. */
static u64 divisor_of(u32 i)
{
	u64 power = 1ULL << (i & 63);

	switch (i >> 6) {
	case 0:
		return power;
	case 1:
		return power + 1;
	case 2:
		return power > 1 ? power - 1 : 1;
	default:
		return max(random() >> (i & 63), 1ULL);
	}
}

s32 BPF_STRUCT_OPS_SLEEPABLE(reciprocals_init)
{
	u32 i, k;

	bpf_for(i, 0, 4 * DIVISORS) {
		u64 divisor = divisor_of(i);
		struct reciprocal r = reciprocal_of(divisor);

		bpf_for(k, 0, VALUES) {
			u64 value = value_of(k, divisor);

			if (divided_by(value, &r) != value / divisor)
				scx_bpf_error("%llu / %llu is not %llu", value, divisor,
					      divided_by(value, &r));
		}
	}
	return 0;
}

SCX_OPS_DEFINE(reciprocals_ops, .init = (void *)reciprocals_init, .name = "reciprocals");
