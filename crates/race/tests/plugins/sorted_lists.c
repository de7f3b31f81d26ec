/* SPDX-License-Identifier: MIT */
/* Two sorted lists for the tests: one as it must be, and one that lets the youngest of equal keys
 * leave first. The interface is declared here once more, so that a change of it is seen.
 */
#include <stdint.h>
#include <stdlib.h>

struct schedlab_race_queue {
	const char *name;
	uint32_t exact, can_remove;
	void *(*create)(uint32_t capacity);
	void (*destroy)(void *queue);
	void (*push)(void *queue, uint32_t item, uint64_t key);
	int64_t (*pop)(void *queue);
	void (*remove)(void *queue, uint32_t item);
	uint64_t (*key)(const void *queue, uint32_t item);
	uint64_t (*memory_bytes)(const void *queue);
	void (*hold)(void *queue, const uint64_t *increments, const uint64_t *slowness,
		     uint64_t round, uint64_t loops);
	void (*hold_and_remove)(void *queue, uint32_t items, const uint64_t *increments,
				const uint64_t *slowness, uint64_t round, uint64_t loops,
				uint64_t *random);
};

#define NONE UINT32_MAX

struct node {
	uint64_t key;
	uint32_t next;
};

struct list {
	uint32_t head, capacity;
	struct node nodes[];
};

static void *create(uint32_t capacity)
{
	struct list *list = calloc(1, sizeof(*list) + capacity * sizeof(list->nodes[0]));

	if (list) {
		list->head = NONE;
		list->capacity = capacity;
	}
	return list;
}

/* Behind all keys that are `margin` later or less: 0 is first in, first out, -1 last in. */
static void insert(struct list *list, uint32_t item, uint64_t key, int64_t margin)
{
	uint32_t *place = &list->head;

	while (*place != NONE && (int64_t)(list->nodes[*place].key - key) <= margin)
		place = &list->nodes[*place].next;
	list->nodes[item].key = key;
	list->nodes[item].next = *place;
	*place = item;
}

static void push_fifo(void *queue, uint32_t item, uint64_t key)
{
	insert(queue, item, key, 0);
}

static void push_lifo(void *queue, uint32_t item, uint64_t key)
{
	insert(queue, item, key, -1);
}

static int64_t pop(void *queue)
{
	struct list *list = queue;
	uint32_t item = list->head;

	if (item == NONE)
		return -1;
	list->head = list->nodes[item].next;
	return item;
}

static void remove_item(void *queue, uint32_t item)
{
	struct list *list = queue;
	uint32_t *place = &list->head;

	while (*place != item)
		place = &list->nodes[*place].next;
	*place = list->nodes[item].next;
}

static uint64_t key_of(const void *queue, uint32_t item)
{
	return ((const struct list *)queue)->nodes[item].key;
}

static uint64_t memory_bytes(const void *queue)
{
	const struct list *list = queue;

	return sizeof(*list) + list->capacity * sizeof(list->nodes[0]);
}

/* Its own loop, which loses a step: only somebody who looks at what it left behind sees that. */
static void hold_wrongly(void *queue, const uint64_t *increments, const uint64_t *slowness,
			 uint64_t round, uint64_t loops)
{
	(void)slowness;
	for (uint64_t end = round + loops; round + 1 < end; round++) {
		uint32_t item = pop(queue);

		push_fifo(queue, item, key_of(queue, item) + increments[round % 65536]);
	}
}

/* A list that says it has items that nobody pushed. */
static int64_t pop_any(void *queue)
{
	(void)queue;
	return 1ll << 40;
}

/* A list that is empty whatever was pushed: nothing is faster. */
static int64_t pop_nothing(void *queue)
{
	(void)queue;
	return -1;
}

/* A list whose first item stays where it is. */
static int64_t pop_again(void *queue)
{
	struct list *list = queue;

	return list->head == NONE ? -1 : (int64_t)list->head;
}

/* As push_fifo, but an item that is in the list stays where it is. */
static void push_once(void *queue, uint32_t item, uint64_t key)
{
	const struct list *list = queue;
	uint32_t at = list->head;

	while (at != NONE && at != item)
		at = list->nodes[at].next;
	if (at == NONE)
		push_fifo(queue, item, key);
}

/* A list that never gives its last item. */
static int64_t pop_but_the_last(void *queue)
{
	struct list *list = queue;

	if (list->head != NONE && list->nodes[list->head].next == NONE)
		return -1;
	return pop(queue);
}

static const struct schedlab_race_queue fifo = {
	"fifo_ties", 1, 1, create, free, push_fifo, pop, remove_item, key_of, memory_bytes,
};
static const struct schedlab_race_queue lifo = {
	"lifo_ties", 1, 1, create, free, push_lifo, pop, remove_item, key_of, memory_bytes,
};
static const struct schedlab_race_queue inexact = {
	"lifo_ties_inexact", 0, 1, create, free, push_lifo, pop, remove_item, key_of, memory_bytes,
};
static const struct schedlab_race_queue fixed = {
	"cannot_remove", 1, 0, create, free, push_fifo, pop, NULL, key_of, memory_bytes,
};
static const struct schedlab_race_queue wrong_loop = {
	.name = "wrong_loop",
	.exact = 1,
	.can_remove = 1,
	.create = create,
	.destroy = free,
	.push = push_fifo,
	.pop = pop,
	.remove = remove_item,
	.key = key_of,
	.memory_bytes = memory_bytes,
	.hold = hold_wrongly,
};
static const struct schedlab_race_queue any = {
	"any_item", 1, 1, create, free, push_fifo, pop_any, remove_item, key_of, memory_bytes,
};

static const struct schedlab_race_queue nothing = {
	"gives_nothing", 0,           1,           create, free,
	push_fifo,       pop_nothing, remove_item, key_of, memory_bytes,
};
static const struct schedlab_race_queue twice = {
	"gives_twice", 0, 1, create, free, push_once, pop_again, remove_item, key_of, memory_bytes,
};
static const struct schedlab_race_queue inexact_any = {
	"gives_any", 0, 1, create, free, push_fifo, pop_any, remove_item, key_of, memory_bytes,
};
static const struct schedlab_race_queue loses = {
	"loses_at_last",  0,           1,      create,       free, push_fifo,
	pop_but_the_last, remove_item, key_of, memory_bytes,
};

extern const uint32_t schedlab_race_abi;
extern const struct schedlab_race_queue *const schedlab_race_queues[];

const uint32_t schedlab_race_abi = 1;
const struct schedlab_race_queue *const schedlab_race_queues[] = {
	&fifo,    &lifo,  &inexact,     &fixed, &wrong_loop, &any,
	&nothing, &twice, &inexact_any, &loses, NULL,
};
