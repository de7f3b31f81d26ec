/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A random trace through the structure of a policy's timeline, beside a sorted list, in `init`.
 *
 * After each step the structure must have the list's order; a difference is an error that names the
 * step. A file that includes this has included the policy before.
 */

/* What the trace does. */
enum pattern {
	MIXED, /* insertions, cuts of the first and removals of any */
	HOLD,  /* the first is cut and comes again later, as a scheduler does */
	STORM, /* some are cut and come again with the least keys, as sleepers do */
	DRAIN, /* all come, then all are cut */
	PATTERNS,
};

/* One of the patterns above. */
const volatile u64 pattern = MIXED;
/* Starts the random numbers. */
const volatile u64 trace_seed = 1;
/* How many nodes there are at most. */
const volatile u64 nodes_most = 200;
/* How many different vruntimes there are. */
const volatile u64 keys = 1000000;
/* How many steps there are. */
const volatile u64 steps = 20000;

#define MODEL_MAX 4096

static u32 model[MODEL_MAX];
static u64 ranks[MODEL_MAX + 1];
static u32 nr_model, nr_spare, spare[MODEL_MAX];
static u64 random_state, step, latest;

/* ---- what the structure's own file defines ------------------------------------------------- */

/* Where a node that is not in the list yet is to stand: behind all of its rank or less. */
static u64 rank_of(u32 n);
/* Finds mistakes inside of the structure. */
static void check_structure(void);
/* Ends the trace with a message. */
static void report(void);

/* ---- the list beside it -------------------------------------------------------------------- */

static u64 random_below(u64 limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % limit;
}

static void add(u64 vruntime)
{
	u32 n = spare[--nr_spare], at = nr_model;

	waiting_of(n)->vruntime = vruntime;
	ranks[n] = rank_of(n);
	for (nr_model++; at && ranks[model[at - 1]] > ranks[n]; at--)
		model[at] = model[at - 1];
	model[at] = n;
	if (!order_insert(0, n))
		scx_bpf_error("step %llu: no place", step);
}

static void take(u32 at)
{
	u32 n = model[at];

	order_remove(0, n);
	spare[nr_spare++] = n;
	for (nr_model--; at < nr_model; at++) {
		model[at] = model[at + 1];
		asm volatile("" ::: "memory"); /* no call of memmove, which BPF has not */
	}
}

static void check(void)
{
	u32 n = order_first(0), i;

	for (i = 0; i < nr_model; i++, n = order_next(0, n)) {
		if (n != model[i])
			scx_bpf_error("step %llu: node %u is number %u, not %u", step, n, i,
				      model[i]);
	}
	if (n != NO_NODE || order_last(0) != (nr_model ? model[nr_model - 1] : NO_NODE))
		scx_bpf_error("step %llu: after %u nodes comes %u, the last is %u", step, nr_model,
			      n, order_last(0));
	check_structure();
}

/* ---- the trace ----------------------------------------------------------------------------- */

static void mixed(void)
{
	u64 what = random_below(10);

	if (what < 5 && nr_spare)
		add(random_below(keys));
	else if (what < 8 && nr_model)
		take(0);
	else if (nr_model)
		take(random_below(nr_model));
}

static void hold(void)
{
	latest = waiting_of(model[0])->vruntime;
	take(0);
	add(latest + 1 + random_below(keys));
}

static void storm(void)
{
	u32 i, nr = 1 + random_below(nr_model - 1);

	for (i = 0; i < nr; i++)
		take(0);
	for (i = 0; i < nr; i++)
		add(random_below(keys));
}

static void drain(void)
{
	if (!nr_model) {
		while (nr_spare)
			add(random_below(keys));
	}
	take(0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(trace_init)
{
	u32 n;

	if (order_create(0) || !tunable_is_within(pattern, 0, PATTERNS - 1) ||
	    !tunable_is_within(keys, 1, ~0ULL) || !tunable_is_within(nodes_most, 2, MODEL_MAX))
		return -EINVAL;
	random_state = trace_seed * 0x9e3779b97f4a7c15 + 1;
	for (n = 1; n <= nodes_most; n++)
		spare[nr_spare++] = n;
	while ((pattern == HOLD || pattern == STORM) && nr_spare)
		add(random_below(keys));
	for (step = 0; step < steps; step++) {
		switch (pattern) {
		case HOLD:
			hold();
			break;
		case STORM:
			storm();
			break;
		case DRAIN:
			drain();
			break;
		default:
			mixed();
		}
		check();
	}
	report();
	return 0;
}
