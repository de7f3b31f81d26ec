/* SPDX-License-Identifier: MIT */
/* The balanced trees of Boost.Intrusive, linked through the items' own lines: nothing is allocated.
 *
 * boost_rbtree - a red-black tree that keeps its first item at hand. O(log n) each.
 * boost_avltree - the same with AVL's stricter balance. O(log n) each.
 *
 * Source: Boost.Intrusive, multiset and avl_multiset with base hooks; both insert behind the last
 * of equal keys.
 */
#include <schedlab_race.h>

#include <boost/intrusive/avl_set.hpp>
#include <boost/intrusive/set.hpp>

#include <memory>

namespace
{

namespace intrusive = boost::intrusive;

/* One item's line: its links, and its key beside them. */
template <class Hook> struct alignas(64) Line : Hook {
	uint64_t key;

	friend bool operator<(const Line &a, const Line &b)
	{
		return schedlab_race::before(a.key, b.key);
	}
};

/* Hooks that are not told apart from one that is not linked: links are only written when used. */
using RbHook = intrusive::set_base_hook<intrusive::link_mode<intrusive::normal_link>>;
using AvlHook = intrusive::avl_set_base_hook<intrusive::link_mode<intrusive::normal_link>>;
/* The race never asks for the number of items. */
using Uncounted = intrusive::constant_time_size<false>;
using RbTree = intrusive::multiset<Line<RbHook>, Uncounted>;
using AvlTree = intrusive::avl_multiset<Line<AvlHook>, Uncounted>;

template <class Tree> class BoostTree
{
	using Line = typename Tree::value_type;
	static_assert(sizeof(Line) == 64, "an item has one cache line");

	uint32_t capacity;
	std::unique_ptr<Line[]> lines;
	/* Behind the lines, so that it is gone before they are. */
	Tree tree;

      public:
	static constexpr bool exact = true, can_remove = true;

	explicit BoostTree(uint32_t capacity) : capacity(capacity), lines(new Line[capacity]())
	{
	}

	void push(uint32_t item, uint64_t key)
	{
		Line &line = lines[item];
		line.key = key;
		tree.insert(line);
	}

	int64_t pop()
	{
		if (tree.empty())
			return -1;
		const auto first = tree.begin();
		const int64_t item = &*first - lines.get();
		tree.erase(first);
		return item;
	}

	void remove(uint32_t item)
	{
		tree.erase(Tree::s_iterator_to(lines[item]));
	}

	uint64_t key(uint32_t item) const
	{
		return lines[item].key;
	}

	uint64_t memory_bytes() const
	{
		return sizeof(*this) + capacity * sizeof(Line);
	}
};

struct BoostRbtree : BoostTree<RbTree> {
	static constexpr const char *name = "boost_rbtree";
	using BoostTree::BoostTree;
};

struct BoostAvltree : BoostTree<AvlTree> {
	static constexpr const char *name = "boost_avltree";
	using BoostTree::BoostTree;
};

} /* namespace */

const uint32_t schedlab_race_abi = SCHEDLAB_RACE_ABI;
const struct schedlab_race_queue *const schedlab_race_queues[] = {
	&schedlab_race::record<BoostRbtree>,
	&schedlab_race::record<BoostAvltree>,
	nullptr,
};
