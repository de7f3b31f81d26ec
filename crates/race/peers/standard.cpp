/* SPDX-License-Identifier: MIT */
/* The two queues of the C++ standard library, each as a scheduler would use it at its best.
 *
 * std_multiset - a red-black tree. Its nodes are made once and kept in the items' lines while they
 * are not queued (node handles), so that nothing is allocated while it runs. O(log n) each.
 *
 * std_priority_queue - a binary heap. It knows no ties and cannot remove: a serial number decides
 * ties, and it stays away from races with removals. Push O(1) on average, pop O(log n).
 *
 * Source: ISO C++17; associative containers insert behind the last of equal keys.
 */
#include <schedlab_race.h>

#include <memory>
#include <queue>
#include <set>
#include <utility>
#include <vector>

namespace
{

class StdMultiset
{
	struct Entry {
		uint64_t key;
		uint32_t item;
	};

	struct Before {
		bool operator()(const Entry &a, const Entry &b) const
		{
			return schedlab_race::before(a.key, b.key);
		}
	};

	using Tree = std::multiset<Entry, Before>;

	struct alignas(64) Line {
		uint64_t key;
		/* Where a queued item stands, and the node of one that is not queued. */
		Tree::iterator place;
		Tree::node_type node;
	};

	/* A colour, three links, the entry. */
	static constexpr uint64_t node_bytes = 4 * sizeof(void *) + sizeof(Entry);

	uint32_t capacity;
	Tree tree;
	std::unique_ptr<Line[]> lines;

      public:
	static constexpr const char *name = "std_multiset";
	static constexpr bool exact = true, can_remove = true;

	explicit StdMultiset(uint32_t capacity) : capacity(capacity), lines(new Line[capacity]())
	{
		for (uint32_t item = 0; item < capacity; item++)
			lines[item].node = tree.extract(tree.insert({0, item}));
	}

	void push(uint32_t item, uint64_t key)
	{
		Line &line = lines[item];
		line.key = key;
		line.node.value().key = key;
		line.place = tree.insert(std::move(line.node));
	}

	int64_t pop()
	{
		if (tree.empty())
			return -1;
		const uint32_t item = tree.begin()->item;
		lines[item].node = tree.extract(tree.begin());
		return item;
	}

	void remove(uint32_t item)
	{
		Line &line = lines[item];
		line.node = tree.extract(line.place);
	}

	uint64_t key(uint32_t item) const
	{
		return lines[item].key;
	}

	uint64_t memory_bytes() const
	{
		return sizeof(*this) + capacity * (sizeof(Line) + node_bytes);
	}
};

class StdPriorityQueue
{
	struct Entry {
		uint64_t key;
		uint64_t serial;
		uint32_t item;
	};

	/* The library's heap has its greatest in front. */
	struct After {
		bool operator()(const Entry &a, const Entry &b) const
		{
			if (a.key != b.key)
				return schedlab_race::before(b.key, a.key);
			return a.serial > b.serial;
		}
	};

	struct alignas(64) Line {
		uint64_t key;
	};

	using Heap = std::priority_queue<Entry, std::vector<Entry>, After>;

	uint32_t capacity;
	uint64_t serial = 0;
	Heap heap;
	std::unique_ptr<Line[]> lines;

	static std::vector<Entry> room(uint32_t capacity)
	{
		std::vector<Entry> entries;
		entries.reserve(capacity);
		return entries;
	}

      public:
	static constexpr const char *name = "std_priority_queue";
	static constexpr bool exact = true, can_remove = false;

	explicit StdPriorityQueue(uint32_t capacity)
	    : capacity(capacity), heap(After(), room(capacity)), lines(new Line[capacity]())
	{
	}

	void push(uint32_t item, uint64_t key)
	{
		lines[item].key = key;
		heap.push({key, serial++, item});
	}

	int64_t pop()
	{
		if (heap.empty())
			return -1;
		const uint32_t item = heap.top().item;
		heap.pop();
		return item;
	}

	uint64_t key(uint32_t item) const
	{
		return lines[item].key;
	}

	uint64_t memory_bytes() const
	{
		return sizeof(*this) + capacity * (sizeof(Line) + sizeof(Entry));
	}
};

} /* namespace */

const uint32_t schedlab_race_abi = SCHEDLAB_RACE_ABI;
const struct schedlab_race_queue *const schedlab_race_queues[] = {
	&schedlab_race::record<StdMultiset>,
	&schedlab_race::record<StdPriorityQueue>,
	nullptr,
};
