/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* scx/common.bpf.h - the one header a policy includes.
 *
 * It gives a policy the vocabulary of Linux's sched_ext. The object that clang makes
 * of it is loaded by a kernel, and run as it is by schedlab's simulator.
 */
#ifndef SCX_COMMON_BPF_H
#define SCX_COMMON_BPF_H

#include "types.h"

#include "kernel.bpf.h"

#include "vocabulary.h"

#endif /* SCX_COMMON_BPF_H */
