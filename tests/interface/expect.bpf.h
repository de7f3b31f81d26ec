/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How policies say which answer is not what they expect: they end by its line. */

#ifndef TESTS_EXPECT_BPF_H
#define TESTS_EXPECT_BPF_H

#define EXPECT(holds)                                                                              \
	do {                                                                                       \
		if (!(holds)) {                                                                    \
			scx_bpf_error("line %d: not " #holds, __LINE__);                           \
			return -EINVAL;                                                            \
		}                                                                                  \
	} while (0)

/* The same, where there is no answer to give. */
#define must(is_so)                                                                                \
	do {                                                                                       \
		if (!(is_so))                                                                      \
			scx_bpf_error("line %d: not " #is_so, __LINE__);                           \
	} while (0)

#endif
