// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* What schedulers compute of times and weights, with numbers of 64 bits or, with NARROW, of 32. */
typedef unsigned int u32;
typedef unsigned long long u64;
#ifdef NARROW
typedef u32 number;
typedef int signed_number;
#else
typedef u64 number;
typedef long long signed_number;
#endif

struct task {
	number key, start, sum, limit;
	signed_number owed, change;
	u32 weight;
	struct task *next;
};

void f_sum(struct task *t)
{
	t->sum = t->key + t->start - t->limit;
}

void f_later(struct task *t)
{
	t->sum = t->key > t->start ? t->key : t->start;
}

void f_limited(struct task *t)
{
	signed_number owed = t->owed + t->change, limit = (signed_number)t->limit;

	t->owed = owed > limit ? limit : owed < -limit ? -limit : owed;
}

void f_product(struct task *t)
{
	t->sum = t->key * t->start;
}

void f_weighted(struct task *t)
{
	t->sum += t->key * t->weight >> 10;
}

int f_is_before(struct task *t)
{
	return (signed_number)(t->key - t->start) < 0;
}

int f_is_equal(struct task *t)
{
	return t->key == t->start;
}

int f_is_zero(struct task *t)
{
	return !t->sum;
}

void f_masked(struct task *t)
{
	t->sum |= t->key & t->limit;
}

void f_copied(struct task *t)
{
	t->sum = t->key;
	t->start = t->limit;
	t->owed = t->change;
}

void f_average(struct task *t)
{
	t->sum = (t->sum * 3 + t->key) >> 2;
}

void f_charged(struct task *t)
{
	if (t->sum > t->limit) {
		t->sum -= t->limit;
		t->weight++;
	} else {
		t->limit -= t->sum;
	}
}

/* Addresses and numbers of 32 bits only. */
u32 f_narrow(struct task *t)
{
	u32 sum = 0;

	for (; t && sum < 1000; t = t->next)
		sum = sum * 5 + (t->weight >> 3);
	return sum;
}
