// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* What operations of policies spend their time with, once for BPF and once for this machine. */
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define noinline __attribute__((noinline))
#define THINGS 400

struct thing {
	u64 vtime;
	u32 weight;
	u32 cpu;
	u64 queued;
	u64 sum;
};

struct node {
	u64 key;
	u32 left;
	u32 right;
};

static struct thing things[THINGS];
static struct node nodes[512];
static u64 bitmap[16];

/* A scan for the lowest of many, as of a run queue without order. */
u64 f_scan(u64 now)
{
	u64 lowest = ~0ULL;
	u32 found = 0;

	for (u32 i = 0; i < THINGS; i++) {
		struct thing *t = &things[i];

		t->sum += now & 7;
		if (t->vtime + t->weight < lowest && t->cpu < 64) {
			lowest = t->vtime + t->weight;
			found = i;
		}
	}
	things[found].vtime += 1000;
	return found;
}

/* A path through a tree in an array. */
u64 f_tree(u64 key)
{
	u32 at = 1;
	u64 steps = 0;

	for (u32 i = 0; i < 64 && at && at < 512; i++) {
		struct node *n = &nodes[at];

		n->key = n->key ? n->key : (at * 2654435761U) >> 7;
		steps += n->key;
		n->left = at * 2;
		n->right = at * 2 + 1;
		at = (key >> (i & 31)) & 1 ? n->right : n->left;
	}
	return steps;
}

/* The first bit of many words, as of the priority arrays of O(1). */
u64 f_bits(u64 n)
{
	u64 sum = 0;

	for (u32 round = 0; round < 32; round++) {
		bitmap[(n + round) & 15] ^= 1ULL << ((n * 7 + round) & 63);
		for (u32 i = 0; i < 16; i++) {
			if (bitmap[i]) {
				sum += i * 64 + (bitmap[i] & -bitmap[i]);
				break;
			}
		}
	}
	return sum;
}

static noinline u64 weighted(u64 delta, u32 weight)
{
	return weight ? delta * 1024 / weight : delta;
}

/* Divisions and calls, as of accounting of vtime. */
u64 f_account(u64 delta)
{
	u64 sum = 0;

	for (u32 i = 0; i < 32; i++) {
		struct thing *t = &things[i];

		t->weight = 15 + (i * 977 & 0xffff);
		t->queued = weighted(delta + i, t->weight);
		sum += t->queued;
	}
	return sum;
}

/* A short operation: most of it is the way in and out. */
u64 f_short(u64 n)
{
	struct thing *t = &things[n % THINGS];

	t->cpu = (u32)n & 7;
	t->queued = n;
	return t->vtime;
}

#ifndef __bpf__
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* `speed FUNCTION CALLS`: nanoseconds a call. The pointer keeps calls from being merged. */
int main(int count, char **words)
{
	u64 (*volatile function)(u64) = NULL;
	struct timespec begin, end;
	u64 sum = 0, calls = count == 3 ? strtoull(words[2], NULL, 10) : 0;

#define TRY(f)                                                                                     \
	if (count == 3 && !strcmp(words[1], "f_" #f))                                              \
		function = f_##f;
	TRY(scan);
	TRY(tree);
	TRY(bits);
	TRY(account);
	TRY(short);
	if (!function || !calls)
		return 2;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (u64 n = 0; n < calls; n++)
		sum += function(n);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%.2f %llu\n",
	       ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / calls, sum);
	return 0;
}
#endif
