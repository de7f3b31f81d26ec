/* SPDX-License-Identifier: MIT */
/* schedlab_race.h - anybody's run queue, in C or C++, takes part in the race.
 *
 * A plug-in is a shared object, or the one source it is made of, that exports a version and a list
 * of queues, both declared below. Each queue is a record of functions. What a fair race asks of it:
 *
 * - Items are the numbers 0 to capacity - 1, each queued at most once. Links live in a line of the
 *   item, 64 bytes or a few times that, as a kernel embeds them in a task.
 * - Keys are 64 bits wide and wrap: `a` is before `b` if (int64_t)(a - b) < 0. The keys that are
 *   queued at one time are less than 2^62 apart.
 * - Among equal keys the one pushed first is popped first.
 * - All memory is taken by `create`.
 *
 * The race keeps its books right: it pushes no queued item and removes none that is not queued.
 * It is one thread. In C, fill in the record; in C++, write a class and let `schedlab_race::record`
 * at the end of this header make the record of it, with the timed loops inlined.
 */
#ifndef SCHEDLAB_RACE_H
#define SCHEDLAB_RACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface: the race refuses a plug-in of another one. */
#define SCHEDLAB_RACE_ABI 1u
/* The increments that the timed loops go through in turn. */
#define SCHEDLAB_RACE_INCREMENTS 65536u
/* How many items in a row differ in weight. */
#define SCHEDLAB_RACE_WEIGHTS 64u

struct schedlab_race_queue {
	/* The queue's name in tables. */
	const char *name;
	/* 1: items leave in exact order, which the race verifies; 0: order is traded for speed. */
	uint32_t exact;
	/* 1: `remove` works; 0: the queue stays away from races with removals. */
	uint32_t can_remove;
	/* An empty queue for items 0 to capacity - 1, or NULL where memory is short. */
	void *(*create)(uint32_t capacity);
	void (*destroy)(void *queue);
	/* Queues an item behind all items with an equal key. */
	void (*push)(void *queue, uint32_t item, uint64_t key);
	/* Removes the first item and returns it, or -1 if there is none. */
	int64_t (*pop)(void *queue);
	/* Removes a queued item, wherever it stands; NULL if the queue cannot. */
	void (*remove)(void *queue, uint32_t item);
	/* The key that the item was last pushed with, queued or not. */
	uint64_t (*key)(const void *queue, uint32_t item);
	/* Bytes that the queue holds, those for all items included. */
	uint64_t (*memory_bytes)(const void *queue);
	/* The timed loops, so that no call crosses the border inside them; NULL: the race makes
	 * them of the functions above. Loop number `round` pops the first item and pushes it again
	 * with its key plus increments[round % 65536]; with `slowness`, which may be NULL, plus
	 * (increment * slowness[item % 64] >> 10) + 1. `loops` loops, or until nothing is queued.
	 */
	void (*hold)(void *queue, const uint64_t *increments, const uint64_t *slowness,
		     uint64_t round, uint64_t loops);
	/* As `hold`, and each loop then removes a random item of 0 to items - 1, which are all
	 * queued, and pushes it with the key it had. `random` is the state of a splitmix64
	 * generator; the item is the upper half of its next number times `items`.
	 */
	void (*hold_and_remove)(void *queue, uint32_t items, const uint64_t *increments,
				const uint64_t *slowness, uint64_t round, uint64_t loops,
				uint64_t *random);
};

#if defined(__GNUC__)
#define SCHEDLAB_RACE_EXPORTED __attribute__((visibility("default")))
#else
#define SCHEDLAB_RACE_EXPORTED
#endif

/* What a plug-in defines: SCHEDLAB_RACE_ABI, and its queues with a NULL behind the last. */
extern SCHEDLAB_RACE_EXPORTED const uint32_t schedlab_race_abi;
extern SCHEDLAB_RACE_EXPORTED const struct schedlab_race_queue *const schedlab_race_queues[];

#ifdef __cplusplus
} /* extern "C" */

#include <new>

namespace schedlab_race
{

/* Whether key `a` comes before key `b`, though keys wrap. */
inline bool before(uint64_t a, uint64_t b)
{
	return static_cast<int64_t>(a - b) < 0;
}

/* A number in 0 to bound - 1: splitmix64 (G. Steele and others, 2014). */
inline uint64_t random_below(uint64_t &state, uint64_t bound)
{
	__extension__ typedef unsigned __int128 wide;

	state += 0x9e3779b97f4a7c15u;
	uint64_t bits = state;
	bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
	bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
	bits ^= bits >> 31;
	return static_cast<uint64_t>(static_cast<wide>(bits) * bound >> 64);
}

/* One loop: takes the first item and queues it again with a later key. false: there is none. */
template <bool weighted, class Queue>
inline bool hold_once(Queue &queue, const uint64_t *increments, const uint64_t *slowness,
		      uint64_t round)
{
	const int64_t first = queue.pop();
	if (first < 0)
		return false;
	const uint32_t item = static_cast<uint32_t>(first);
	uint64_t increment = increments[round % SCHEDLAB_RACE_INCREMENTS];
	if (weighted)
		increment = (increment * slowness[item % SCHEDLAB_RACE_WEIGHTS] >> 10) + 1;
	queue.push(item, queue.key(item) + increment);
	return true;
}

template <bool weighted, class Queue>
inline void hold_loop(Queue &queue, const uint64_t *increments, const uint64_t *slowness,
		      uint64_t round, uint64_t loops)
{
	for (const uint64_t end = round + loops; round != end; round++)
		if (!hold_once<weighted>(queue, increments, slowness, round))
			return;
}

template <bool weighted, class Queue>
inline void hold_and_remove_loop(Queue &queue, uint32_t items, const uint64_t *increments,
				 const uint64_t *slowness, uint64_t round, uint64_t loops,
				 uint64_t &random)
{
	for (const uint64_t end = round + loops; round != end; round++) {
		if (!hold_once<weighted>(queue, increments, slowness, round))
			return;
		const uint32_t sleeper = static_cast<uint32_t>(random_below(random, items));
		const uint64_t key = queue.key(sleeper);
		queue.remove(sleeper);
		queue.push(sleeper, key);
	}
}

/* The functions of a record, made of a class. */
template <class Queue> struct Functions {
	static Queue &of(void *queue)
	{
		return *static_cast<Queue *>(queue);
	}

	static void *create(uint32_t capacity)
	{
		try {
			return new Queue(capacity);
		} catch (const std::bad_alloc &) {
			return nullptr;
		}
	}

	static void destroy(void *queue)
	{
		delete &of(queue);
	}

	static void push(void *queue, uint32_t item, uint64_t key)
	{
		of(queue).push(item, key);
	}

	static int64_t pop(void *queue)
	{
		return of(queue).pop();
	}

	static void remove(void *queue, uint32_t item)
	{
		if constexpr (Queue::can_remove)
			of(queue).remove(item);
	}

	static uint64_t key(const void *queue, uint32_t item)
	{
		return static_cast<const Queue *>(queue)->key(item);
	}

	static uint64_t memory_bytes(const void *queue)
	{
		return static_cast<const Queue *>(queue)->memory_bytes();
	}

	static void hold(void *queue, const uint64_t *increments, const uint64_t *slowness,
			 uint64_t round, uint64_t loops)
	{
		if (slowness)
			hold_loop<true>(of(queue), increments, slowness, round, loops);
		else
			hold_loop<false>(of(queue), increments, nullptr, round, loops);
	}

	static void hold_and_remove(void *queue, uint32_t items, const uint64_t *increments,
				    const uint64_t *slowness, uint64_t round, uint64_t loops,
				    uint64_t *random)
	{
		if constexpr (Queue::can_remove) {
			/* A copy, so that no store to a key can change it. */
			uint64_t state = *random;
			if (slowness)
				hold_and_remove_loop<true>(of(queue), items, increments, slowness,
							   round, loops, state);
			else
				hold_and_remove_loop<false>(of(queue), items, increments, nullptr,
							    round, loops, state);
			*random = state;
		}
	}
};

/* The record of a class that has:
 *
 *	static constexpr const char *name;
 *	static constexpr bool exact, can_remove;
 *	explicit Queue(uint32_t capacity);
 *	void push(uint32_t item, uint64_t key);
 *	int64_t pop();
 *	void remove(uint32_t item);		only if can_remove
 *	uint64_t key(uint32_t item) const;
 *	uint64_t memory_bytes() const;
 */
template <class Queue>
inline constexpr schedlab_race_queue record = {
	Queue::name,
	Queue::exact,
	Queue::can_remove,
	Functions<Queue>::create,
	Functions<Queue>::destroy,
	Functions<Queue>::push,
	Functions<Queue>::pop,
	Queue::can_remove ? Functions<Queue>::remove : nullptr,
	Functions<Queue>::key,
	Functions<Queue>::memory_bytes,
	Functions<Queue>::hold,
	Queue::can_remove ? Functions<Queue>::hold_and_remove : nullptr,
};

} /* namespace schedlab_race */
#endif /* __cplusplus */

#endif /* SCHEDLAB_RACE_H */
