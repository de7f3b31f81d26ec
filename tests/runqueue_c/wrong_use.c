/* SPDX-License-Identifier: MIT */
/* wrong_use - uses every structure in every way that schedlab_runqueue.h says is refused.
 *
 * Prints a line a structure; ends with 1 at the first answer that is not the documented one.
 */
#include <schedlab_runqueue.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY 100u

#define EXPECT(call, expected) expect(__LINE__, #call, (call), (expected))

static void expect(int line, const char *call, int64_t is, int64_t should)
{
	if (is == should)
		return;
	printf("line %d: %s gives %lld and not %lld\n", line, call, (long long)is,
	       (long long)should);
	exit(1);
}

struct walk {
	struct schedlab_runqueue *queue;
	uint32_t items[CAPACITY], len;
};

/* Tries to change the queue that it is shown. */
static void shown(void *context, uint32_t item, uint64_t key)
{
	struct walk *walk = context;
	uint64_t unused;

	(void)key;
	walk->items[walk->len++] = item;
	EXPECT(schedlab_runqueue_push(walk->queue, 50, 1), SCHEDLAB_RUNQUEUE_BUSY);
	EXPECT(schedlab_runqueue_pop(walk->queue), SCHEDLAB_RUNQUEUE_BUSY);
	EXPECT(schedlab_runqueue_peek(walk->queue), SCHEDLAB_RUNQUEUE_BUSY);
	EXPECT(schedlab_runqueue_remove(walk->queue, item), SCHEDLAB_RUNQUEUE_BUSY);
	EXPECT(schedlab_runqueue_requeue(walk->queue, item, 1), SCHEDLAB_RUNQUEUE_BUSY);
	EXPECT(schedlab_runqueue_key(walk->queue, item, &unused), SCHEDLAB_RUNQUEUE_BUSY);
	EXPECT(schedlab_runqueue_contains(walk->queue, item), SCHEDLAB_RUNQUEUE_BUSY);
	EXPECT(schedlab_runqueue_len(walk->queue), SCHEDLAB_RUNQUEUE_BUSY);
	EXPECT(schedlab_runqueue_is_exact(walk->queue), SCHEDLAB_RUNQUEUE_BUSY);
	EXPECT(schedlab_runqueue_memory_bytes(walk->queue), SCHEDLAB_RUNQUEUE_BUSY);
	EXPECT(schedlab_runqueue_for_each(walk->queue, shown, context), SCHEDLAB_RUNQUEUE_BUSY);
	EXPECT(schedlab_runqueue_destroy(walk->queue), SCHEDLAB_RUNQUEUE_BUSY);
}

static void null_pointers(void)
{
	struct schedlab_runqueue *queue = (struct schedlab_runqueue *)&queue;
	uint64_t key;

	EXPECT(schedlab_runqueue_create("fifo", 1, NULL), SCHEDLAB_RUNQUEUE_NULL);
	EXPECT(schedlab_runqueue_create(NULL, 1, &queue), SCHEDLAB_RUNQUEUE_NULL);
	EXPECT(queue == NULL, 1);
	EXPECT(schedlab_runqueue_destroy(NULL), 0);
	EXPECT(schedlab_runqueue_push(NULL, 0, 0), SCHEDLAB_RUNQUEUE_NULL);
	EXPECT(schedlab_runqueue_pop(NULL), SCHEDLAB_RUNQUEUE_NULL);
	EXPECT(schedlab_runqueue_peek(NULL), SCHEDLAB_RUNQUEUE_NULL);
	EXPECT(schedlab_runqueue_remove(NULL, 0), SCHEDLAB_RUNQUEUE_NULL);
	EXPECT(schedlab_runqueue_requeue(NULL, 0, 0), SCHEDLAB_RUNQUEUE_NULL);
	EXPECT(schedlab_runqueue_key(NULL, 0, &key), SCHEDLAB_RUNQUEUE_NULL);
	EXPECT(schedlab_runqueue_contains(NULL, 0), SCHEDLAB_RUNQUEUE_NULL);
	EXPECT(schedlab_runqueue_len(NULL), SCHEDLAB_RUNQUEUE_NULL);
	EXPECT(schedlab_runqueue_is_exact(NULL), SCHEDLAB_RUNQUEUE_NULL);
	EXPECT(schedlab_runqueue_memory_bytes(NULL), SCHEDLAB_RUNQUEUE_NULL);
	EXPECT(schedlab_runqueue_for_each(NULL, shown, NULL), SCHEDLAB_RUNQUEUE_NULL);
	EXPECT(schedlab_runqueue_create("fifo", 1, &queue), 0);
	EXPECT(schedlab_runqueue_for_each(queue, NULL, NULL), SCHEDLAB_RUNQUEUE_NULL);
	EXPECT(schedlab_runqueue_key(queue, 0, NULL), SCHEDLAB_RUNQUEUE_NULL);
	EXPECT(schedlab_runqueue_destroy(queue), 0);
}

/* Keys of all distances: those that are too far away are refused, the others keep their order. */
static void keys_far_apart(struct schedlab_runqueue *queue, uint64_t present)
{
	const uint64_t far = UINT64_C(1) << 61;
	uint64_t state = 1, key, last = present - far;
	uint32_t refused = 0;

	EXPECT(schedlab_runqueue_push(queue, 0, present), 0);
	EXPECT(schedlab_runqueue_push(queue, 1, present + far), SCHEDLAB_RUNQUEUE_TOO_FAR);
	EXPECT(schedlab_runqueue_push(queue, 1, present - far), SCHEDLAB_RUNQUEUE_TOO_FAR);
	EXPECT(schedlab_runqueue_push(queue, 1, present + far - 1), 0);
	EXPECT(schedlab_runqueue_requeue(queue, 1, present + far), SCHEDLAB_RUNQUEUE_TOO_FAR);
	EXPECT(schedlab_runqueue_key(queue, 1, &key), 0);
	EXPECT(key == present + far - 1, 1);
	for (uint32_t item = 2; item < CAPACITY; item++)
		EXPECT(schedlab_runqueue_push(queue, item, present + item), 0);
	for (uint32_t round = 0; round < 200 * CAPACITY; round++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		refused += schedlab_runqueue_requeue(queue, round % CAPACITY, state) != 0;
	}
	/* Three quarters of all keys. */
	EXPECT(refused > 140 * CAPACITY && refused < 160 * CAPACITY, 1);
	EXPECT(schedlab_runqueue_len(queue), CAPACITY);
	for (uint32_t count = 0; count < CAPACITY; count++) {
		int64_t item = schedlab_runqueue_pop(queue);
		EXPECT(schedlab_runqueue_key(queue, (uint32_t)item, &key), 0);
		if (schedlab_runqueue_is_exact(queue))
			EXPECT((int64_t)(key - last) >= 0, 1);
		last = key;
	}
	EXPECT(schedlab_runqueue_pop(queue), SCHEDLAB_RUNQUEUE_EMPTY);
}

static void use_wrongly(const char *structure, struct schedlab_runqueue *queue)
{
	struct walk walk = {.queue = queue, .len = 0};
	uint64_t key = 1;

	EXPECT(schedlab_runqueue_pop(queue), SCHEDLAB_RUNQUEUE_EMPTY);
	EXPECT(schedlab_runqueue_peek(queue), SCHEDLAB_RUNQUEUE_EMPTY);
	EXPECT(schedlab_runqueue_key(queue, 7, &key), 0);
	EXPECT(key, 0);
	EXPECT(schedlab_runqueue_push(queue, 7, 3), 0);
	EXPECT(schedlab_runqueue_push(queue, 8, 3), 0);
	EXPECT(schedlab_runqueue_push(queue, 8, 3), SCHEDLAB_RUNQUEUE_QUEUED);
	EXPECT(schedlab_runqueue_push(queue, CAPACITY, 3), SCHEDLAB_RUNQUEUE_NO_SUCH_ITEM);
	EXPECT(schedlab_runqueue_remove(queue, UINT32_MAX), SCHEDLAB_RUNQUEUE_NO_SUCH_ITEM);
	EXPECT(schedlab_runqueue_requeue(queue, CAPACITY, 3), SCHEDLAB_RUNQUEUE_NO_SUCH_ITEM);
	EXPECT(schedlab_runqueue_key(queue, CAPACITY, &key), SCHEDLAB_RUNQUEUE_NO_SUCH_ITEM);
	EXPECT(schedlab_runqueue_contains(queue, CAPACITY), SCHEDLAB_RUNQUEUE_NO_SUCH_ITEM);
	EXPECT(schedlab_runqueue_remove(queue, 9), SCHEDLAB_RUNQUEUE_NOT_QUEUED);
	EXPECT(schedlab_runqueue_requeue(queue, 9, 3), SCHEDLAB_RUNQUEUE_NOT_QUEUED);
	EXPECT(schedlab_runqueue_contains(queue, 9), 0);
	EXPECT(schedlab_runqueue_contains(queue, 8), 1);
	EXPECT(schedlab_runqueue_requeue(queue, 7, 3), 0);
	EXPECT(schedlab_runqueue_for_each(queue, shown, &walk), 0);
	EXPECT(walk.len, 2);
	EXPECT(walk.items[0] == 8 && walk.items[1] == 7, 1);
	EXPECT(schedlab_runqueue_len(queue), 2);
	EXPECT(schedlab_runqueue_peek(queue), 8);
	EXPECT(schedlab_runqueue_pop(queue), 8);
	EXPECT(schedlab_runqueue_remove(queue, 7), 0);
	EXPECT(schedlab_runqueue_key(queue, 7, &key), 0);
	EXPECT(key, 3);
	/* Those that are not exact know no keys, or few. */
	EXPECT(schedlab_runqueue_is_exact(queue), strcmp(structure, "fifo") &&
							  strcmp(structure, "time_ring") &&
							  strcmp(structure, "bitmap_levels"));
	EXPECT(schedlab_runqueue_memory_bytes(queue) >= CAPACITY * 64, 1);
	/* An empty queue may go anywhere. */
	keys_far_apart(queue, 0 - (UINT64_C(1) << 60));
	keys_far_apart(queue, UINT64_C(1) << 63);
	keys_far_apart(queue, 5);
}

int main(void)
{
	struct schedlab_runqueue *queue;
	const char *structure;

	null_pointers();
	EXPECT(schedlab_runqueue_create("no", 1, &queue), SCHEDLAB_RUNQUEUE_NO_SUCH_STRUCTURE);
	EXPECT(schedlab_runqueue_create("fifo", SCHEDLAB_RUNQUEUE_CAPACITY_MAX + 1, &queue),
	       SCHEDLAB_RUNQUEUE_TOO_LARGE);
	for (size_t index = 0; (structure = schedlab_runqueue_structure(index)); index++) {
		int made = schedlab_runqueue_create(structure, CAPACITY, &queue);
		if (made == SCHEDLAB_RUNQUEUE_NOT_ON_THIS_PROCESSOR) {
			printf("%s: %s\n", structure, schedlab_runqueue_explain(made));
			continue;
		}
		EXPECT(made, 0);
		use_wrongly(structure, queue);
		EXPECT(schedlab_runqueue_destroy(queue), 0);
		printf("%s: refused\n", structure);
	}
	return 0;
}
