/* SPDX-License-Identifier: MIT */
/* sorted_array - a plug-in for the race in plain C: one sorted array, the first item last.
 *
 * Pop is O(1), push and remove are O(n). It leaves the timed loops to the race.
 */
#include <schedlab_race.h>

#include <stdlib.h>
#include <string.h>

struct sorted_array {
	uint32_t capacity, len;
	/* The key of each item, and the queued items, the last of them first. */
	uint64_t *keys;
	uint32_t *items;
};

static void destroy(void *queue)
{
	struct sorted_array *array = queue;

	free(array->keys);
	free(array->items);
	free(array);
}

static void *create(uint32_t capacity)
{
	struct sorted_array *array = calloc(1, sizeof(*array));

	if (!array)
		return NULL;
	array->capacity = capacity;
	array->keys = calloc(capacity, sizeof(*array->keys));
	array->items = calloc(capacity, sizeof(*array->items));
	if (capacity && (!array->keys || !array->items)) {
		destroy(array);
		return NULL;
	}
	return array;
}

static void push(void *queue, uint32_t item, uint64_t key)
{
	struct sorted_array *array = queue;
	uint32_t place = array->len++;

	array->keys[item] = key;
	/* All that are not before it move: it goes behind its equals, which are popped earlier. */
	for (; place && (int64_t)(array->keys[array->items[place - 1]] - key) <= 0; place--)
		array->items[place] = array->items[place - 1];
	array->items[place] = item;
}

static int64_t pop(void *queue)
{
	struct sorted_array *array = queue;

	return array->len ? (int64_t)array->items[--array->len] : -1;
}

static void remove_item(void *queue, uint32_t item)
{
	struct sorted_array *array = queue;
	uint32_t place = 0;

	while (array->items[place] != item)
		place++;
	array->len--;
	memmove(array->items + place, array->items + place + 1,
		(array->len - place) * sizeof(*array->items));
}

static uint64_t key(const void *queue, uint32_t item)
{
	const struct sorted_array *array = queue;

	return array->keys[item];
}

static uint64_t memory_bytes(const void *queue)
{
	const struct sorted_array *array = queue;

	return sizeof(*array) + array->capacity * (sizeof(*array->keys) + sizeof(*array->items));
}

static const struct schedlab_race_queue sorted_array = {
	.name = "sorted_array",
	.exact = 1,
	.can_remove = 1,
	.create = create,
	.destroy = destroy,
	.push = push,
	.pop = pop,
	.remove = remove_item,
	.key = key,
	.memory_bytes = memory_bytes,
};

const uint32_t schedlab_race_abi = SCHEDLAB_RACE_ABI;
const struct schedlab_race_queue *const schedlab_race_queues[] = {&sorted_array, NULL};
