/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Integer types and the constants of the sched_ext interface that no kernel release has moved.
 *
 * Source: Linux 6.12 include/linux/sched/ext.h and kernel/sched/ext.c (values only).
 */
#ifndef SCX_TYPES_H
#define SCX_TYPES_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef signed short s16;
typedef signed int s32;
typedef signed long long s64;
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s8 __s8;
typedef s16 __s16;
typedef s32 __s32;
typedef s64 __s64;

#ifndef __cplusplus
#undef bool
#undef true
#undef false
typedef _Bool bool;
#define true 1
#define false 0
#endif

#ifndef NULL
#define NULL ((void *)0)
#endif

#define NSEC_PER_USEC 1000ULL
#define NSEC_PER_MSEC 1000000ULL
#define NSEC_PER_SEC 1000000000ULL
#define USEC_PER_MSEC 1000ULL
#define USEC_PER_SEC 1000000ULL
#define MSEC_PER_SEC 1000ULL

enum {
	EPERM = 1,
	ENOENT = 2,
	ESRCH = 3,
	E2BIG = 7,
	ENOMEM = 12,
	EBUSY = 16,
	EEXIST = 17,
	ENODEV = 19,
	EINVAL = 22,
	ENOSPC = 28,
};

/* Slices, in nanoseconds. */
#define SCX_SLICE_DFL 20000000ULL
#define SCX_SLICE_INF 18446744073709551615ULL

/* Dispatch queues. A policy's own queues have numbers below 2^62. */
#define SCX_DSQ_FLAG_BUILTIN (1ULL << 63)
#define SCX_DSQ_FLAG_LOCAL_ON (1ULL << 62)
#define SCX_DSQ_INVALID (SCX_DSQ_FLAG_BUILTIN | 0)
#define SCX_DSQ_GLOBAL (SCX_DSQ_FLAG_BUILTIN | 1)
#define SCX_DSQ_LOCAL (SCX_DSQ_FLAG_BUILTIN | 2)
#define SCX_DSQ_LOCAL_ON (SCX_DSQ_FLAG_BUILTIN | SCX_DSQ_FLAG_LOCAL_ON)
#define SCX_DSQ_LOCAL_CPU_MASK 0xffffffffULL
/* Walk a dispatch queue from its tail. */
#define SCX_DSQ_ITER_REV (1ULL << 16)

/* sched_ext_entity.flags: the task is runnable. `dispatch` may be given one that is not. */
#define SCX_TASK_QUEUED (1U << 0)

/* sched_ext_ops.flags */
#define SCX_OPS_KEEP_BUILTIN_IDLE (1ULL << 0)
#define SCX_OPS_ENQ_LAST (1ULL << 1)
#define SCX_OPS_ENQ_EXITING (1ULL << 2)
#define SCX_OPS_SWITCH_PARTIAL (1ULL << 3)
#define SCX_OPS_ENQ_MIGRATION_DISABLED (1ULL << 4)
#define SCX_OPS_ALLOW_QUEUED_WAKEUP (1ULL << 5)

/* Why select_cpu is called. */
#define SCX_WAKE_FORK (1ULL << 2)
#define SCX_WAKE_TTWU (1ULL << 3)
#define SCX_WAKE_SYNC (1ULL << 4)

/* scx_bpf_kick_cpu */
#define SCX_KICK_IDLE (1ULL << 0)
#define SCX_KICK_PREEMPT (1ULL << 1)
#define SCX_KICK_WAIT (1ULL << 2)

/* scx_bpf_pick_idle_cpu */
#define SCX_PICK_IDLE_CORE (1ULL << 0)

/* task_struct.flags and .__state, .policy */
#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000
#define TASK_RUNNING 0x0000
#define TASK_INTERRUPTIBLE 0x0001
#define TASK_UNINTERRUPTIBLE 0x0002
#define SCHED_NORMAL 0
#define SCHED_FIFO 1
#define SCHED_RR 2
#define SCHED_BATCH 3
#define SCHED_IDLE 5
#define SCHED_EXT 7

/* Static priorities: nice 0 is 120. */
#define MAX_RT_PRIO 100
#define MAX_PRIO 140
#define DEFAULT_PRIO 120

/* enum bpf_map_type, the part that policies use. */
#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERCPU_HASH 5
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_LRU_HASH 9
#define BPF_MAP_TYPE_LRU_PERCPU_HASH 10
#define BPF_MAP_TYPE_ARRAY_OF_MAPS 12
#define BPF_MAP_TYPE_HASH_OF_MAPS 13
#define BPF_MAP_TYPE_QUEUE 22
#define BPF_MAP_TYPE_STACK 23
#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_ANY 0
#define BPF_NOEXIST 1
#define BPF_EXIST 2
#define BPF_F_NO_PREALLOC 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

#define __uint(name, val) int(*name)[val]
#define __type(name, val) __typeof__(val) *name
#define __array(name, val) __typeof__(val) *name[]

#endif /* SCX_TYPES_H */
