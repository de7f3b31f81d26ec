/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef TURNS_H
#define TURNS_H

#define TURN_NS 1000000ULL

u64 turn_ns(u32 times);

#endif
