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

#endif
