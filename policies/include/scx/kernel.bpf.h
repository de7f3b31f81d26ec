/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The kernel as a policy sees it: its structures, operations and constants.
 *
 * Kernel structures are declared only as far as policies use them; the loader relocates
 * every access to where the running kernel keeps the field (CO-RE), so one object file
 * serves all releases. Nothing here is a copy of vmlinux.h, and no libbpf header is needed.
 *
 * Source: interface names of Linux 6.12 to 7.3, kernel/sched/ext.c and include/uapi/linux/bpf.h.
 */
#ifndef SCX_KERNEL_BPF_H
#define SCX_KERNEL_BPF_H

#define SEC(name) __attribute__((section(name), used))
#define __weak __attribute__((weak))
#define __hidden __attribute__((visibility("hidden")))
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __ksym __attribute__((section(".ksyms")))
#define __kconfig __attribute__((section(".kconfig")))
#define __arg_ctx __attribute__((btf_decl_tag("arg:ctx")))
#define __arg_nonnull __attribute__((btf_decl_tag("arg:nonnull")))
#define __arg_trusted __attribute__((btf_decl_tag("arg:trusted")))
#define __maybe_unused __attribute__((unused))
#define __unused __attribute__((unused))
#define __kptr __attribute__((btf_type_tag("kptr")))
#define __contains(name, node) __attribute__((btf_decl_tag("contains:" #name ":" #node)))
/* A datum that the kernel must find by itself, such as a spin lock, in a section of its own. */
#define private(name) SEC(".data." #name) __hidden __attribute__((aligned(8)))

#define memset(to, byte, size) __builtin_memset(to, byte, size)
#define memcpy(to, from, size) __builtin_memcpy(to, from, size)

/* ---- what the kernel owns ------------------------------------------------------------------ */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Complete on purpose: the kernel refuses a call whose argument is only declared. */
struct cpumask {
	u64 bits[1];
};
typedef struct cpumask cpumask_t;
struct bpf_cpumask {
	struct cpumask cpumask;
};

struct mm_struct {
	u64 pgd;
};

#ifndef SCX_CGROUPS_BPF_H
struct cgroup {
	int level;
};
#else
struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct kernfs_node {
	u64 id;
	const char *name;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
	int level;
	struct cgroup *ancestors[];
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct scx_cgroup_init_args {
	u32 weight;
	u64 bw_period_us;
	u64 bw_quota_us;
	u64 bw_burst_us;
};
#endif

/* One dispatch queue, as a policy may look at it. */
struct scx_dispatch_q {
	u64 id;
	u32 nr;
};

struct sched_ext_entity {
	struct scx_dispatch_q *dsq; /* the queue it is in, or NULL */
	u64 dsq_vtime;
	u64 slice;
	u32 weight; /* 1..10000, nice 0 is 100 */
	u32 flags;
};

struct load_weight {
	unsigned long weight;
};

struct sched_entity {
	u64 sum_exec_runtime;
	struct load_weight load;
};

struct task_struct {
	struct sched_ext_entity scx;
	struct sched_entity se;
	int pid;
	int tgid;
	int prio;
	int static_prio;
	int normal_prio;
	const cpumask_t *cpus_ptr;
	cpumask_t cpus_mask;
	struct mm_struct *mm;
	int nr_cpus_allowed;
	int recent_used_cpu;
	int wake_cpu;
	int on_cpu;
	unsigned int __state;
	unsigned int flags;
	unsigned int policy;
	unsigned int rt_priority;
	unsigned long nvcsw;
	unsigned long nivcsw;
	u64 start_time;
	struct task_struct *real_parent;
	struct task_struct *parent;
	struct task_struct *group_leader;
#ifdef SCX_CGROUPS_BPF_H
	struct css_set *cgroups;
#endif
	char comm[16];
};

struct rq {
	struct task_struct *curr;
};

enum scx_exit_kind {
	SCX_EXIT_NONE = 0,
	SCX_EXIT_DONE = 1,
	SCX_EXIT_UNREG = 64,
	SCX_EXIT_UNREG_BPF = 65,
	SCX_EXIT_UNREG_KERN = 66,
	SCX_EXIT_SYSRQ = 67,
	SCX_EXIT_ERROR = 1024,
	SCX_EXIT_ERROR_BPF = 1025,
	SCX_EXIT_ERROR_STALL = 1026,
};

struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	char *msg;
	char *dump;
};

struct scx_init_task_args {
	bool fork;
	struct cgroup *cgroup;
};

struct scx_exit_task_args {
	bool cancelled;
};

struct scx_cpu_acquire_args {
};

struct scx_cpu_release_args {
	enum scx_cpu_preempt_reason { SCX_CPU_PREEMPT_UNKNOWN = 3 } reason;
	struct task_struct *task;
};

struct scx_dump_ctx {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	u64 at_ns, at_jiffies;
};

#pragma clang attribute pop

/* ---- what a policy gives the kernel -------------------------------------------------------- */

/* The loader matches members by name; one that a kernel lacks may only be left empty. */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dequeue)(struct task_struct *p, u64 deq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	bool (*core_sched_before)(struct task_struct *a, struct task_struct *b);
	void (*set_weight)(struct task_struct *p, u32 weight);
	void (*set_cpumask)(struct task_struct *p, const struct cpumask *cpumask);
	void (*update_idle)(s32 cpu, bool idle);
	void (*cpu_acquire)(s32 cpu, struct scx_cpu_acquire_args *args);
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	void (*enable)(struct task_struct *p);
	void (*disable)(struct task_struct *p);
	void (*dump)(struct scx_dump_ctx *ctx);
	void (*dump_cpu)(struct scx_dump_ctx *ctx, s32 cpu, bool idle);
	void (*dump_task)(struct scx_dump_ctx *ctx, struct task_struct *p);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
#ifdef SCX_CGROUPS_BPF_H
	s32 (*cgroup_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cgroup_exit)(struct cgroup *cgrp);
	s32 (*cgroup_prep_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_cancel_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_set_weight)(struct cgroup *cgrp, u32 weight);
	void (*cgroup_set_bandwidth)(struct cgroup *cgrp, u64 period_us, u64 quota_us,
				     u64 burst_us);
	void (*cgroup_set_idle)(struct cgroup *cgrp, bool idle);
#endif
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u32 dispatch_max_batch;
	u64 flags;
	u32 timeout_ms;
	u32 exit_dump_len;
	u64 hotplug_seq;
	char name[128];
};

/* The kernel calls an operation with its arguments in an array of 64-bit words. The
 * operation's own text becomes NAME_body, and NAME takes the array apart for it. */
#define SCX_PICK_9TH(a, b, c, d, e, f, g, h, i, ...) i
#define SCX_COUNT(args...) SCX_PICK_9TH(_, ##args, 7, 6, 5, 4, 3, 2, 1, 0)
#define SCX_JOIN_(a, b) a##b
#define SCX_JOIN(a, b) SCX_JOIN_(a, b)
#define SCX_WORDS_0
#define SCX_WORDS_1 , ctx[0]
#define SCX_WORDS_2 SCX_WORDS_1, ctx[1]
#define SCX_WORDS_3 SCX_WORDS_2, ctx[2]
#define SCX_WORDS_4 SCX_WORDS_3, ctx[3]

/* clang-format off */
#define SCX_WORDS_CONVERT_BEGIN                                                                    \
	_Pragma("clang diagnostic push")                                                           \
	_Pragma("clang diagnostic ignored \"-Wint-conversion\"")
#define SCX_WORDS_CONVERT_END _Pragma("clang diagnostic pop")

#define SCX_PROGRAM(section_name, name, args...)                                                   \
	name(u64 *ctx);                                                                            \
	static __always_inline __typeof__(name((u64 *)NULL)) name##_body(u64 *ctx, ##args);        \
	SEC(section_name) __typeof__(name((u64 *)NULL)) name(u64 *ctx)                             \
	{                                                                                          \
		SCX_WORDS_CONVERT_BEGIN                                                            \
		return name##_body(ctx SCX_JOIN(SCX_WORDS_, SCX_COUNT(args)));                     \
		SCX_WORDS_CONVERT_END                                                              \
	}                                                                                          \
	static __always_inline __typeof__(name((u64 *)NULL)) name##_body(u64 *ctx, ##args)
/* clang-format on */

#define BPF_STRUCT_OPS(name, args...) SCX_PROGRAM("struct_ops/" #name, name, ##args)
#define BPF_STRUCT_OPS_SLEEPABLE(name, args...) SCX_PROGRAM("struct_ops.s/" #name, name, ##args)

#define SCX_OPS_DEFINE(name_, members...)                                                          \
	SEC(".struct_ops.link") struct sched_ext_ops name_ = {members}

/* ---- constants that releases have moved ---------------------------------------------------- */

enum scx_enq_flags___local {
	SCX_ENQ_WAKEUP___local = 1ULL << 0,
	SCX_ENQ_HEAD___local = 1ULL << 4,
	SCX_ENQ_CPU_SELECTED___local = 1ULL << 10,
	SCX_ENQ_PREEMPT___local = 1ULL << 32,
	SCX_ENQ_REENQ___local = 1ULL << 40,
	SCX_ENQ_LAST___local = 1ULL << 41,
};

enum scx_deq_flags___local {
	SCX_DEQ_SLEEP___local = 1ULL << 0,
	SCX_DEQ_CORE_SCHED_EXEC___local = 1ULL << 32,
};

/* Second argument of the builtin: 0 asks whether the kernel has the name, 1 for its value. */
#define SCX_ENUM(type, name, what)                                                                 \
	__builtin_preserve_enum_value(*(enum type##___local *)name##___local, what)

#define SCX_ENQ_WAKEUP SCX_ENUM(scx_enq_flags, SCX_ENQ_WAKEUP, 1)
#define SCX_ENQ_HEAD SCX_ENUM(scx_enq_flags, SCX_ENQ_HEAD, 1)
#define SCX_ENQ_PREEMPT SCX_ENUM(scx_enq_flags, SCX_ENQ_PREEMPT, 1)
#define SCX_ENQ_REENQ SCX_ENUM(scx_enq_flags, SCX_ENQ_REENQ, 1)
#define SCX_ENQ_LAST SCX_ENUM(scx_enq_flags, SCX_ENQ_LAST, 1)
#define SCX_DEQ_SLEEP SCX_ENUM(scx_deq_flags, SCX_DEQ_SLEEP, 1)
#define SCX_DEQ_CORE_SCHED_EXEC SCX_ENUM(scx_deq_flags, SCX_DEQ_CORE_SCHED_EXEC, 1)

/* Kernels before 6.14 lack this one; 0 there makes a policy look for an idle CPU itself. */
static __always_inline u64 scx_enq_cpu_selected(void)
{
	u64 flag = 0;

	if (SCX_ENUM(scx_enq_flags, SCX_ENQ_CPU_SELECTED, 0)) {
		asm volatile("" ::: "memory"); /* keep the value behind the question */
		flag = SCX_ENUM(scx_enq_flags, SCX_ENQ_CPU_SELECTED, 1);
	}
	return flag;
}
#define SCX_ENQ_CPU_SELECTED scx_enq_cpu_selected()

/* ---- the exit record ----------------------------------------------------------------------- */

#define SCX_EXIT_TEXT_MAX 1024
#define SCX_EXIT_DUMP_MAX 32768

/* Why a policy ended. The loader reads it from the map that holds section .data.exit_record. */
struct scx_exit_record {
	s32 kind; /* enum scx_exit_kind; 0 while the policy runs */
	s32 reserved;
	s64 exit_code;
	char reason[128];
	char msg[SCX_EXIT_TEXT_MAX];
	char dump[SCX_EXIT_DUMP_MAX];
};

#define UEI_DEFINE(name) SEC(".data.exit_record") struct scx_exit_record name
#define UEI_RECORD(name, info) scx_exit_record_fill(&(name), info)

#include "kernel_calls.bpf.h"

#endif /* SCX_KERNEL_BPF_H */
