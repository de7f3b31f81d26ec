/* SPDX-License-Identifier: MIT */
/* schedlab_runqueue.h - schedlab's run queues for programs in C and C++.
 *
 * A queue holds items in the order of their keys; among equal keys the one pushed first is first.
 * Items are the numbers 0 to capacity - 1, each queued at most once: a queue never runs full, and
 * nothing is allocated after it was created. Keys are 64 bits wide and wrap: `a` is before `b` if
 * (int64_t)(a - b) < 0. A key must be less than 2^61 away from the latest key that was popped, or
 * from the first that was pushed into an empty queue: of nanoseconds, 73 years.
 *
 * Link with libschedlab_runqueue.a, which `make runqueue-c` builds. crates/runqueue_c/examples
 * has a page that schedules tasks with it.
 *
 * Every function that can refuse says so by a negative number, one of the codes below, and has
 * then changed nothing. A queue is used by one thread at a time.
 */
#ifndef SCHEDLAB_RUNQUEUE_H
#define SCHEDLAB_RUNQUEUE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum schedlab_runqueue_code {
	SCHEDLAB_RUNQUEUE_DONE = 0,
	/* Nothing is queued. */
	SCHEDLAB_RUNQUEUE_EMPTY = -1,
	/* The item is not below the capacity. */
	SCHEDLAB_RUNQUEUE_NO_SUCH_ITEM = -2,
	/* A push of an item that is queued: requeue it. */
	SCHEDLAB_RUNQUEUE_QUEUED = -3,
	/* A removal or requeue of an item that is not queued. */
	SCHEDLAB_RUNQUEUE_NOT_QUEUED = -4,
	/* A function was called from inside for_each of the same queue. */
	SCHEDLAB_RUNQUEUE_BUSY = -5,
	/* A pointer is NULL. */
	SCHEDLAB_RUNQUEUE_NULL = -6,
	/* There is no structure of this name. */
	SCHEDLAB_RUNQUEUE_NO_SUCH_STRUCTURE = -7,
	/* This processor lacks the instructions of the structure. */
	SCHEDLAB_RUNQUEUE_NOT_ON_THIS_PROCESSOR = -8,
	/* The capacity is above SCHEDLAB_RUNQUEUE_CAPACITY_MAX. */
	SCHEDLAB_RUNQUEUE_TOO_LARGE = -9,
	/* The key is 2^61 or more away from the latest one that was popped. */
	SCHEDLAB_RUNQUEUE_TOO_FAR = -10,
	/* The library has a bug, printed on standard error. The queue can only be destroyed. */
	SCHEDLAB_RUNQUEUE_BROKEN = -11,
};

/* 2^30 items, which need 64 GiB and more. */
#define SCHEDLAB_RUNQUEUE_CAPACITY_MAX 1073741824u

/* What a code means, in a few words; never NULL. */
const char *schedlab_runqueue_explain(int code);

/* The name of structure number `index`, counted from 0, or NULL behind the last. The first is the
 * one to take if nothing speaks against it: exact_time_ring.
 */
const char *schedlab_runqueue_structure(size_t index);

struct schedlab_runqueue;

/* Creates an empty queue of the structure of this name, for items 0 to capacity - 1, and stores it
 * in *queue; stores NULL there if it refuses. The process ends if it has no memory for it.
 */
int schedlab_runqueue_create(const char *structure, uint32_t capacity,
			     struct schedlab_runqueue **queue);

/* Gives a queue's memory back; NULL is left alone. */
int schedlab_runqueue_destroy(struct schedlab_runqueue *queue);

/* Queues `item` with `key`, behind all items with an equal key. */
int schedlab_runqueue_push(struct schedlab_runqueue *queue, uint32_t item, uint64_t key);

/* Removes the first item and returns it. */
int64_t schedlab_runqueue_pop(struct schedlab_runqueue *queue);

/* The first item, which stays. */
int64_t schedlab_runqueue_peek(struct schedlab_runqueue *queue);

/* Removes a queued item, wherever it stands. */
int schedlab_runqueue_remove(struct schedlab_runqueue *queue, uint32_t item);

/* Gives a queued item a new key; it stands behind all items with an equal key. */
int schedlab_runqueue_requeue(struct schedlab_runqueue *queue, uint32_t item, uint64_t key);

/* Stores in *key what `item` was last pushed with, queued or not; 0 if it never was. */
int schedlab_runqueue_key(const struct schedlab_runqueue *queue, uint32_t item, uint64_t *key);

/* 1: `item` is queued; 0: it is not. */
int schedlab_runqueue_contains(const struct schedlab_runqueue *queue, uint32_t item);

/* How many items are queued. */
int64_t schedlab_runqueue_len(const struct schedlab_runqueue *queue);

/* 1: items leave in exact order; 0: the structure trades order for speed. */
int schedlab_runqueue_is_exact(const struct schedlab_runqueue *queue);

/* Shows every item and its key to `visit`, in the order in which they would be popped. `visit` gets
 * `context` with each, must return, and can ask this queue nothing meanwhile. O(n) where the
 * structure is sorted anyway, otherwise n times pop and push.
 */
int schedlab_runqueue_for_each(struct schedlab_runqueue *queue,
			       void (*visit)(void *context, uint32_t item, uint64_t key),
			       void *context);

/* Bytes that the queue holds, those for all items included. */
int64_t schedlab_runqueue_memory_bytes(const struct schedlab_runqueue *queue);

#ifdef __cplusplus
}
#endif

#endif /* SCHEDLAB_RUNQUEUE_H */
