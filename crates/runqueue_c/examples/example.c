/* SPDX-License-Identifier: MIT */
/* example - a scheduler in a page: whoever has had least CPU time for its weight runs next.
 *
 * Build and run it, after `make runqueue-c`:
 *
 *	cc -I crates/runqueue_c/include crates/runqueue_c/examples/example.c \
 *		target/release/libschedlab_runqueue.a -lpthread -lm -ldl -o example
 *	./example exact_time_ring
 */
#include <schedlab_runqueue.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define NR_TASKS 4
#define MSEC 1000000u
#define SLICE_NS (3 * MSEC)
#define UNTIL_NS (1200 * MSEC)

static const uint64_t weight[NR_TASKS] = {1, 2, 4, 1};
/* The last task runs one slice and sleeps for 50 ms. */
static const uint32_t sleeper = 3;
#define SLEEP_NS (50 * MSEC)

/* What cannot happen here ends the program and says why. */
static int64_t must(int64_t result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", what, schedlab_runqueue_explain((int)result));
		exit(1);
	}
	return result;
}

static void print_task(void *context, uint32_t task, uint64_t vtime)
{
	(void)context;
	printf("  task %" PRIu32 " at %" PRIu64 " us of virtual time\n", task, vtime / 1000);
}

int main(int argc, char **argv)
{
	const char *structure = argc > 1 ? argv[1] : schedlab_runqueue_structure(0);
	uint64_t ran_ns[NR_TASKS] = {0}, now_vtime = 0, wake_at_ns = UINT64_MAX;
	struct schedlab_runqueue *queue;

	must(schedlab_runqueue_create(structure, NR_TASKS, &queue), structure);
	for (uint32_t task = 0; task < NR_TASKS; task++)
		must(schedlab_runqueue_push(queue, task, 0), "push");

	for (uint64_t now_ns = 0; now_ns < UNTIL_NS; now_ns += SLICE_NS) {
		if (now_ns >= wake_at_ns) {
			/* Sleep is no credit: it begins where the others are. */
			must(schedlab_runqueue_push(queue, sleeper, now_vtime), "wake up");
			wake_at_ns = UINT64_MAX;
		}
		uint32_t task = (uint32_t)must(schedlab_runqueue_pop(queue), "pick");
		must(schedlab_runqueue_key(queue, task, &now_vtime), "virtual time");
		ran_ns[task] += SLICE_NS;
		if (task == sleeper)
			wake_at_ns = now_ns + SLICE_NS + SLEEP_NS;
		else
			must(schedlab_runqueue_push(queue, task,
						    now_vtime + SLICE_NS / weight[task]),
			     "put back");
	}

	for (uint32_t task = 0; task < NR_TASKS; task++)
		printf("task %" PRIu32 " of weight %" PRIu64 " ran %" PRIu64 " ms%s\n", task,
		       weight[task], ran_ns[task] / MSEC, task == sleeper ? ", and slept" : "");
	printf("%" PRId64 " tasks wait in %s:\n", must(schedlab_runqueue_len(queue), "length"),
	       structure);
	must(schedlab_runqueue_for_each(queue, print_task, NULL), "walk");
	must(schedlab_runqueue_destroy(queue), "destroy");
	return 0;
}
