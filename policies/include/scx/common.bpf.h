/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* scx/common.bpf.h - the one header a policy includes.
 *
 * It gives a policy the vocabulary of Linux's sched_ext. What stands behind the
 * words depends on the compiler's target: the running kernel (clang -target bpf)
 * or schedlab's simulator (any C compiler). A policy cannot tell the difference
 * and has no #ifdef of its own.
 */
#ifndef SCX_COMMON_BPF_H
#define SCX_COMMON_BPF_H

#include "types.h"

#ifdef __bpf__
#include "kernel.bpf.h"
#else
#include "simulator.h"
#endif

#include "vocabulary.h"

#endif /* SCX_COMMON_BPF_H */
