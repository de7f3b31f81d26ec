/* SPDX-License-Identifier: MIT */
/* Holds every queue of a plug-in against a sorted array: check_order PLUGIN.so OPERATIONS.
 *
 * Random operations with keys that tie, lie near, lie far ahead and cross the wrap-around; then the
 * timed loops, done here once more as crates/runqueue/src/hold.rs does them. Prints a line a queue,
 * or says where a queue differs first and ends with 1.
 */
#include <schedlab_race.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <random>
#include <vector>

namespace
{

constexpr uint32_t capacity = 300;

/* What a queue is. */
struct Model {
	struct Entry {
		uint64_t key;
		uint32_t item;
	};

	/* In order. */
	std::vector<Entry> entries;
	/* What each item was last pushed with. */
	uint64_t keys[capacity] = {};

	void push(uint32_t item, uint64_t key)
	{
		keys[item] = key;
		const auto place = std::find_if(entries.begin(), entries.end(), [=](auto &other) {
			return static_cast<int64_t>(other.key - key) > 0;
		});
		entries.insert(place, {key, item});
	}

	auto place(uint32_t item)
	{
		return std::find_if(entries.begin(), entries.end(),
				    [=](auto &other) { return other.item == item; });
	}

	int64_t pop()
	{
		if (entries.empty())
			return -1;
		const uint32_t item = entries.front().item;
		entries.erase(entries.begin());
		return item;
	}
};

/* A queue and what it should be. */
struct Pair {
	const schedlab_race_queue &record;
	void *queue;
	Model model;
	std::mt19937_64 random{1};
	uint64_t origin;
	uint64_t operation = 0;

	[[noreturn]] void differs(const char *what, int64_t is, int64_t should)
	{
		std::printf("%s: operation %llu: %s gives %lld and not %lld\n", record.name,
			    static_cast<unsigned long long>(operation), what,
			    static_cast<long long>(is), static_cast<long long>(should));
		std::exit(1);
	}

	explicit Pair(const schedlab_race_queue &record, uint64_t origin)
	    : record(record), queue(record.create(capacity)), origin(origin)
	{
		if (!queue)
			differs("create", 0, 1);
	}

	~Pair()
	{
		record.destroy(queue);
	}

	uint64_t below(uint64_t bound)
	{
		return random() % bound;
	}

	/* Small ones tie, the largest are 2^61 ahead. */
	uint64_t ahead()
	{
		switch (below(4)) {
		case 0:
			return below(8);
		case 1:
			return below(5000);
		case 2:
			return uint64_t{1} << below(62);
		default:
			return below(1 << 22);
		}
	}

	void push(uint32_t item, uint64_t key)
	{
		model.push(item, key);
		record.push(queue, item, key);
		if (record.key(queue, item) != key)
			differs("key", record.key(queue, item), key);
	}

	int64_t pop()
	{
		const int64_t should = model.pop();
		const int64_t is = record.pop(queue);
		if (is != should)
			differs("pop", is, should);
		if (is >= 0 && record.key(queue, is) != model.keys[is])
			differs("key after pop", record.key(queue, is), model.keys[is]);
		return is;
	}

	/* Pushes an item that is not queued; removes one that is, if the queue can. */
	void touch()
	{
		const uint32_t item = below(capacity);
		const auto place = model.place(item);
		if (place == model.entries.end()) {
			push(item, origin + ahead());
		} else if (record.can_remove) {
			model.entries.erase(place);
			record.remove(queue, item);
		}
	}

	/* Pops one and pushes it with a later key, where keys do not part too far. */
	void hold()
	{
		const int64_t item = pop();
		if (item < 0)
			return;
		const uint64_t key = model.keys[item] + ahead();
		push(item, key - origin < uint64_t{1} << 62 ? key : origin);
	}

	void drain()
	{
		while (pop() >= 0)
			;
	}

	void random_operations(uint64_t operations)
	{
		for (operation = 0; operation < operations; operation++) {
			const uint64_t kind = below(32);
			if (kind == 0)
				for (uint64_t count = below(40); count; count--)
					pop();
			else if (kind < 12)
				hold();
			else
				touch();
		}
		drain();
	}

	/* The next number of hold.rs's generator, times `bound`, without its lower half. */
	static uint64_t next_below(uint64_t &state, uint64_t bound)
	{
		state += 0x9e3779b97f4a7c15;
		uint64_t bits = state;
		bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
		bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
		bits = bits ^ (bits >> 31);
		/* Exact for bounds below 2^32: the carry of the lower 32 bits is not lost. */
		return ((bits >> 32) * bound + (((bits & 0xffffffff) * bound) >> 32)) >> 32;
	}

	/* A timed loop of the record against the same loop done here. */
	void timed_loop(const std::vector<uint64_t> &increments, const uint64_t *slowness,
			bool removing)
	{
		constexpr uint64_t round = 65000, loops = 3000;
		uint64_t state = 9, model_state = 9;

		for (uint32_t item = 0; item < capacity; item++)
			push(item, origin + below(1 << 22));
		if (removing)
			record.hold_and_remove(queue, capacity, increments.data(), slowness, round,
					       loops, &state);
		else
			record.hold(queue, increments.data(), slowness, round, loops);
		for (operation = round; operation < round + loops; operation++) {
			const uint32_t item = model.pop();
			uint64_t increment = increments[operation & 0xffff];
			if (slowness)
				increment = ((increment * slowness[item & 63]) >> 10) + 1;
			model.push(item, model.keys[item] + increment);
			if (removing) {
				const uint32_t sleeper = next_below(model_state, capacity);
				model.entries.erase(model.place(sleeper));
				model.push(sleeper, model.keys[sleeper]);
			}
		}
		if (removing && state != model_state)
			differs("the random state", state, model_state);
		drain();
	}

	void timed_loops()
	{
		std::vector<uint64_t> increments(SCHEDLAB_RACE_INCREMENTS);
		uint64_t slowness[SCHEDLAB_RACE_WEIGHTS];

		/* Some in few steps, so that keys tie. */
		for (uint64_t &increment : increments)
			increment = below(3) ? 1 + below(1 << 22) : (1 + below(8)) << 19;
		for (uint64_t &slow : slowness)
			slow = 12 + below(70000);
		for (const uint64_t *weights : {static_cast<uint64_t *>(nullptr), slowness}) {
			if (record.hold)
				timed_loop(increments, weights, false);
			if (record.hold_and_remove)
				timed_loop(increments, weights, true);
		}
	}
};

} /* namespace */

int main(int argc, char **argv)
{
	void *plugin = argc == 3 ? dlopen(argv[1], RTLD_NOW) : nullptr;
	if (!plugin) {
		std::printf("usage: check_order PLUGIN.so OPERATIONS: %s\n",
			    argc == 3 ? dlerror() : "two arguments");
		return 2;
	}
	const auto *abi = static_cast<uint32_t *>(dlsym(plugin, "schedlab_race_abi"));
	auto *next =
		static_cast<const schedlab_race_queue **>(dlsym(plugin, "schedlab_race_queues"));
	if (!abi || *abi != SCHEDLAB_RACE_ABI || !next) {
		std::printf("%s: not a plug-in of version %u\n", argv[1], SCHEDLAB_RACE_ABI);
		return 2;
	}
	for (; *next; next++) {
		for (uint64_t origin : {uint64_t{0}, uint64_t{0} - (1 << 21), uint64_t{1} << 63}) {
			Pair pair(**next, origin);
			pair.random_operations(std::strtoull(argv[2], nullptr, 10));
			pair.timed_loops();
		}
		void *queue = (*next)->create(1000);
		std::printf("%s: as the model, %llu bytes for 1000 items\n", (*next)->name,
			    static_cast<unsigned long long>((*next)->memory_bytes(queue)));
		(*next)->destroy(queue);
	}
	return 0;
}
