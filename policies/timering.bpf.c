/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* timering - cfs with waiting tasks in a ring of slots of vruntime, in order but for each slot.
 *
 * Each CPU has a ring of `slots` slots; each is for granularity_ns of vruntime and holds a list of
 * tasks, first come, first served. The ring begins with the slot of the first task, its base, and
 * moves on with it. A bit for each slot says whether anybody is in it, so a task is put in at once,
 * and the next one is found by looking for the first bit that is set.
 *
 * Guarantee: a task never runs before one whose vruntime is a slot or more earlier, as far as the
 * vruntimes of those that wait lie within one ring, (slots - 1) x granularity_ns. There shares are
 * CFS's, and a wait is longer than CFS's by at most a slot of vruntime of each other task. A look
 * for a bit takes slots / 64 + 1 words at most, however many tasks wait.
 *
 * Ignored or approximated: what cfs ignores, and:
 *  1. Order within a slot is order of arrival.
 *  2. Whose vruntime lies behind the end of the ring joins the last slot, and runs sooner than it
 *     should: all in that slot take turns, whatever is between them. A task of small weight, whose
 *     vruntime leaps far ahead with each turn, so has more than its share. The default ring of
 *     255 ms is too short for a task of nice 19 that runs for 4 ms: it leaps by 273 ms.
 *  3. Whose vruntime lies before the base moves the base back as far as slots are free at the end,
 *     and joins the first slot if that is not enough.
 *  4. The announcement describes a queue, and does not say what order slots have inside, what
 *     becomes of times before the base, or where an empty ring begins; 1, 3 and, for the last, the
 *     slot of the next task are assumed.
 *  5. There may be 32767 tasks; the simulator charges the lock of a ring, but no step in it.
 *  6. When a CPU comes or goes the kernel ends the policy, and its loader begins it anew.
 *
 * Source: D. Libenzi's time ring, measured beside CFS's queue and P. Pisa's GAVL tree,
 * linux-kernel, April 2007; for the rules: see cfs.bpf.c.
 */
#include <scx/waiting_tasks.bpf.h>

char _license[] SEC("license") = "GPL";

/* Slots of a ring; 64, 128 or 256. */
const volatile u64 slots = 256;
/* Vruntime for which there is a slot; ns. */
const volatile u64 granularity_ns = 1 * NSEC_PER_MSEC;

#define SLOTS_MAX 256
#define WORD_BITS 64
#define WORDS_MAX (SLOTS_MAX / WORD_BITS)

/* Slots are numbered from vruntime 0 on; slot s is in cell s modulo `slots` of the ring. */
struct cell {
	u32 first;
	u32 last;
};

struct ring {
	u64 base; /* number of the first slot; somebody is in it unless the ring is empty */
	u64 occupied[WORDS_MAX]; /* a bit for each cell */
	struct cell cells[SLOTS_MAX];
};

/* A waiting task among those of its cell. */
struct ring_node {
	u32 before;
	u32 after;
	u32 cell;
};

static struct ring rings[CPUS_MAX];
static struct ring_node nodes[NODES_MAX];

static struct ring *ring_of(u32 cpu)
{
	return &rings[masked(cpu, CPUS_MAX)];
}

static struct ring_node *node(u32 n)
{
	return &nodes[masked(n, NODES_MAX)];
}

static struct cell *cell_of(struct ring *ring, u64 slot)
{
	return &ring->cells[masked(slot & (slots - 1), SLOTS_MAX)];
}

static u64 slot_of(u64 vruntime)
{
	return vruntime / max(granularity_ns, 1ULL);
}

static s32 order_create(u32 cpu)
{
	if (!tunable_is_within(slots, WORD_BITS, SLOTS_MAX) ||
	    !tunable_is_within(granularity_ns, 1, TUNABLE_NS_MAX))
		return -EINVAL;
	if (slots & (slots - 1)) {
		scx_bpf_error("slots is %llu, not 64, 128 or 256", slots);
		return -EINVAL;
	}
	return 0;
}

/* Who was put back would stand behind all that are in its slot. */
static bool timeline_is_before(u32 cpu, u64 vruntime, u64 first_vruntime)
{
	return slot_of(vruntime) < ring_of(cpu)->base;
}

/* ---- bits ---------------------------------------------------------------------------------- */

static u64 *word_of(struct ring *ring, u64 slot)
{
	return &ring->occupied[masked((slot & (slots - 1)) / WORD_BITS, WORDS_MAX)];
}

static u64 bit_of(u64 slot)
{
	return 1ULL << (slot % WORD_BITS);
}

/* How far up from a slot, round the ring, the first occupied one is; `slots` if none is. */
static u64 distance_up(struct ring *ring, u64 slot)
{
	u64 below = bit_of(slot) - 1; /* cells of the slot's own word that come last */
	u64 i, word;

	bpf_for(i, 0, WORDS_MAX + 1) {
		if (i > slots / WORD_BITS)
			break;
		word = *word_of(ring, slot + i * WORD_BITS);
		if (i == 0)
			word &= ~below;
		else if (i == slots / WORD_BITS)
			word &= below;
		if (word)
			return i * WORD_BITS + __builtin_ctzll(word) - slot % WORD_BITS;
	}
	return slots;
}

/* How many slots at the end of the ring are free; the base is occupied. */
static u64 free_at_end(struct ring *ring)
{
	u64 slot = ring->base + slots - 1;
	u64 above = ~0ULL << (slot % WORD_BITS) << 1; /* cells of its word that come last */
	u64 i, word;

	bpf_for(i, 0, WORDS_MAX + 1) {
		word = *word_of(ring, slot - i * WORD_BITS);
		if (i == 0)
			word &= ~above;
		else if (i == slots / WORD_BITS)
			word &= above;
		if (word)
			return i * WORD_BITS + __builtin_clzll(word) - (63 - slot % WORD_BITS);
		if (i == slots / WORD_BITS)
			break;
	}
	return 0;
}

/* ---- the order ----------------------------------------------------------------------------- */

static u32 order_first(u32 cpu)
{
	return cell_of(ring_of(cpu), ring_of(cpu)->base)->first;
}

static u32 order_last(u32 cpu)
{
	struct ring *ring = ring_of(cpu);

	if (!order_first(cpu))
		return NO_NODE;
	return cell_of(ring, ring->base + slots - 1 - free_at_end(ring))->last;
}

static u32 order_next(u32 cpu, u32 n)
{
	struct ring *ring = ring_of(cpu);
	u64 next = node(n)->cell + 1;
	u64 passed = (next - ring->base) & (slots - 1); /* slots up to it; 0 at the ring's end */

	if (node(n)->after)
		return node(n)->after;
	if (!passed)
		return NO_NODE;
	next += distance_up(ring, next);
	/* Round the ring to the base: nobody comes after. */
	return ((next - ring->base) & (slots - 1)) < passed ? NO_NODE : cell_of(ring, next)->first;
}

static bool order_insert(u32 cpu, u32 n)
{
	struct ring *ring = ring_of(cpu);
	u64 slot = slot_of(waiting_of(n)->vruntime);
	struct cell *cell;

	if (!order_first(cpu))
		ring->base = slot;
	else if (slot < ring->base)
		ring->base -= min(ring->base - slot, free_at_end(ring));
	slot = clamp(slot, ring->base, ring->base + slots - 1);
	cell = cell_of(ring, slot);
	node(n)->cell = slot & (slots - 1);
	node(n)->before = cell->last;
	node(n)->after = NO_NODE;
	if (cell->last)
		node(cell->last)->after = n;
	else
		cell->first = n;
	cell->last = n;
	*word_of(ring, slot) |= bit_of(slot);
	return true;
}

static void order_remove(u32 cpu, u32 n)
{
	struct ring *ring = ring_of(cpu);
	u32 before = node(n)->before, after = node(n)->after, slot = node(n)->cell;
	struct cell *cell = cell_of(ring, slot);
	u64 distance;

	if (before)
		node(before)->after = after;
	else
		cell->first = after;
	if (after)
		node(after)->before = before;
	else
		cell->last = before;
	if (cell->first)
		return;
	*word_of(ring, slot) &= ~bit_of(slot);
	distance = distance_up(ring, ring->base);
	if (distance < slots)
		ring->base += distance;
}

SCX_OPS_DEFINE(timering_ops, WAITING_TASKS_OPS, .name = "timering");
