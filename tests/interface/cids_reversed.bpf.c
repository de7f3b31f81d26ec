/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* cids_reversed - what the policy beside it does, with cids in an order of its own. */
#define IS_REVERSED true
#include "cids.bpf.c"
