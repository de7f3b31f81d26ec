/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The kfuncs and helpers that policies call on a kernel.
 *
 * A kfunc keeps its name here if no release has changed it. Where names or arguments
 * changed, all variants are weak externs with a suffix that the loader drops (___new,
 * ___old, ...), and a function of the usual name calls the newest one that the running
 * kernel has; the verifier removes the branches not taken.
 */
#ifndef SCX_KERNEL_CALLS_BPF_H
#define SCX_KERNEL_CALLS_BPF_H

#define bpf_ksym_exists(symbol) (!!&(symbol))

/* ---- BPF helpers, by the numbers of enum bpf_func_id --------------------------------------- */

struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_spin_lock {
	u32 val;
};

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value,
					 u64 flags) = (void *)2;
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*const bpf_get_prandom_u32)(void) = (void *)7;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static u64 (*const bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*const bpf_map_push_elem)(void *map, const void *value, u64 flags) = (void *)87;
static long (*const bpf_map_pop_elem)(void *map, void *value) = (void *)88;
static long (*const bpf_map_peek_elem)(void *map, void *value) = (void *)89;
static long (*const bpf_spin_lock)(struct bpf_spin_lock *lock) = (void *)93;
static long (*const bpf_spin_unlock)(struct bpf_spin_lock *lock) = (void *)94;
static long (*const bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const bpf_probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static u64 (*const bpf_jiffies64)(void) = (void *)118;
static void *(*const bpf_task_storage_get)(void *map, struct task_struct *p, void *initial,
					   u64 flags) = (void *)156;
static long (*const bpf_task_storage_delete)(void *map, struct task_struct *p) = (void *)157;
static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;
static long (*const bpf_timer_init)(struct bpf_timer *timer, void *map, u64 flags) = (void *)169;
static long (*const bpf_timer_set_callback)(struct bpf_timer *timer, void *callback) = (void *)170;
static long (*const bpf_timer_start)(struct bpf_timer *timer, u64 ns, u64 flags) = (void *)171;
static long (*const bpf_timer_cancel)(struct bpf_timer *timer) = (void *)172;
static long (*const bpf_trace_vprintk)(const char *format, u32 format_size, const void *words,
				       u32 words_size) = (void *)177;
static void *(*const bpf_kptr_xchg)(void *slot, void *value) = (void *)194;
static void *(*const bpf_map_lookup_percpu_elem)(void *map, const void *key, u32 cpu) = (void *)195;

/* Ticks a second; the loader takes it from the kernel's configuration. */
extern unsigned int CONFIG_HZ __kconfig;

/* ---- kfuncs that no release has changed ---------------------------------------------------- */

extern s32 scx_bpf_create_dsq(u64 dsq, s32 node) __ksym;
extern void scx_bpf_destroy_dsq(u64 dsq) __ksym;
extern s32 scx_bpf_dsq_nr_queued(u64 dsq) __ksym;
extern u32 scx_bpf_dispatch_nr_slots(void) __ksym;
extern void scx_bpf_dispatch_cancel(void) __ksym;
extern u32 scx_bpf_reenqueue_local(void) __ksym;
extern void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
extern s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
				  bool *is_idle) __ksym;
extern bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) __ksym;
extern s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags) __ksym;
extern s32 scx_bpf_pick_any_cpu(const struct cpumask *allowed, u64 flags) __ksym;
extern const struct cpumask *scx_bpf_get_idle_cpumask(void) __ksym;
extern const struct cpumask *scx_bpf_get_idle_smtmask(void) __ksym;
extern void scx_bpf_put_idle_cpumask(const struct cpumask *mask) __ksym;
extern const struct cpumask *scx_bpf_get_online_cpumask(void) __ksym;
extern const struct cpumask *scx_bpf_get_possible_cpumask(void) __ksym;
extern void scx_bpf_put_cpumask(const struct cpumask *mask) __ksym;
extern u32 scx_bpf_nr_cpu_ids(void) __ksym;
extern s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
extern bool scx_bpf_task_running(const struct task_struct *p) __ksym;
extern u32 scx_bpf_cpuperf_cap(s32 cpu) __ksym;
extern u32 scx_bpf_cpuperf_cur(s32 cpu) __ksym;
extern void scx_bpf_cpuperf_set(s32 cpu, u32 perf) __ksym;
extern void scx_bpf_error_bstr(char *format, u64 *words, u32 words__sz) __ksym;
extern void scx_bpf_exit_bstr(s64 code, char *format, u64 *words, u32 words__sz) __ksym;
extern void scx_bpf_dump_bstr(char *format, u64 *words, u32 words__sz) __ksym;

extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern struct task_struct *bpf_task_acquire(struct task_struct *p) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;
extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;

extern struct bpf_cpumask *bpf_cpumask_create(void) __ksym;
extern struct bpf_cpumask *bpf_cpumask_acquire(struct bpf_cpumask *mask) __ksym;
extern void bpf_cpumask_release(struct bpf_cpumask *mask) __ksym;
extern u32 bpf_cpumask_first(const struct cpumask *mask) __ksym;
extern u32 bpf_cpumask_first_zero(const struct cpumask *mask) __ksym;
extern u32 bpf_cpumask_first_and(const struct cpumask *a, const struct cpumask *b) __ksym;
extern u32 bpf_cpumask_any_distribute(const struct cpumask *mask) __ksym;
extern u32 bpf_cpumask_any_and_distribute(const struct cpumask *a, const struct cpumask *b) __ksym;
extern u32 bpf_cpumask_weight(const struct cpumask *mask) __ksym;
extern bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask) __ksym;
extern bool bpf_cpumask_empty(const struct cpumask *mask) __ksym;
extern bool bpf_cpumask_full(const struct cpumask *mask) __ksym;
extern bool bpf_cpumask_equal(const struct cpumask *a, const struct cpumask *b) __ksym;
extern bool bpf_cpumask_subset(const struct cpumask *a, const struct cpumask *b) __ksym;
extern bool bpf_cpumask_intersects(const struct cpumask *a, const struct cpumask *b) __ksym;
extern void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *mask) __ksym;
extern void bpf_cpumask_clear_cpu(u32 cpu, struct bpf_cpumask *mask) __ksym;
extern bool bpf_cpumask_test_and_set_cpu(u32 cpu, struct bpf_cpumask *mask) __ksym;
extern bool bpf_cpumask_test_and_clear_cpu(u32 cpu, struct bpf_cpumask *mask) __ksym;
extern void bpf_cpumask_setall(struct bpf_cpumask *mask) __ksym;
extern void bpf_cpumask_clear(struct bpf_cpumask *mask) __ksym;
extern bool bpf_cpumask_and(struct bpf_cpumask *to, const struct cpumask *a,
			    const struct cpumask *b) __ksym;
extern void bpf_cpumask_or(struct bpf_cpumask *to, const struct cpumask *a,
			   const struct cpumask *b) __ksym;
extern void bpf_cpumask_xor(struct bpf_cpumask *to, const struct cpumask *a,
			    const struct cpumask *b) __ksym;
extern void bpf_cpumask_copy(struct bpf_cpumask *to, const struct cpumask *from) __ksym;

/* ---- kfuncs that changed ------------------------------------------------------------------- */

#include "kernel_variants.bpf.h"

/* ---- loops --------------------------------------------------------------------------------- */

struct bpf_iter_num {
	u64 opaque[1];
} __attribute__((aligned(8)));

struct bpf_iter_scx_dsq {
	u64 opaque[6];
} __attribute__((aligned(8)));

extern int bpf_iter_num_new(struct bpf_iter_num *it, int from, int to) __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym;
extern int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq, u64 flags) __ksym;
extern struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym;
extern void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym;

#define BPF_FOR_EACH_ITER (&___it)
#define bpf_for_each(kind, cur, args...)                                                           \
	for (struct bpf_iter_##kind ___it __attribute__((cleanup(bpf_iter_##kind##_destroy))),     \
	     *___once = (bpf_iter_##kind##_new(&___it, args), &___it);                             \
	     ___once && ((cur) = bpf_iter_##kind##_next(&___it));)

/* The comparisons tell the verifier the range of i; signed and wide, they suit any type of i. */
#define bpf_for(i, from, to)                                                                       \
	for (struct bpf_iter_num ___range __attribute__((cleanup(bpf_iter_num_destroy))),          \
	     *___range_once = (bpf_iter_num_new(&___range, (from), (to)), &___range);              \
	     ({                                                                                    \
		     int *___value = ___range_once ? bpf_iter_num_next(&___range) : NULL;          \
		     ___value && ((i) = *___value, (s64)(i) >= (s64)(from)) &&                     \
			     (s64)(i) < (s64)(to);                                                 \
	     });)

#define bpf_repeat(n)                                                                              \
	for (struct bpf_iter_num ___range __attribute__((cleanup(bpf_iter_num_destroy))),          \
	     *___range_once = (bpf_iter_num_new(&___range, 0, (n)), &___range);                    \
	     ___range_once && bpf_iter_num_next(&___range);)

/* False once the kernel finds that a loop has gone on for too long. */
#define can_loop                                                                                   \
	({                                                                                         \
		__label__ tired;                                                                   \
		bool ___more = false;                                                              \
		asm goto("may_goto %l[tired]" :: ::tired);                                         \
		___more = true;                                                                    \
tired:                                                                                             \
		___more;                                                                           \
	})
#define cond_break                                                                                 \
	({                                                                                         \
		if (!can_loop)                                                                     \
			break;                                                                     \
	})

/* ---- messages and the end ------------------------------------------------------------------ */

/* Only the compiler's check of a format against its arguments. */
static inline __attribute__((format(printf, 1, 2))) void scx_check_format(const char *format, ...)
{
}

/* Arguments as 64-bit words behind an unused one, since an array must not be empty. The compiler
 * does not know that one: else all words might become a constant, and no loader fills in where
 * texts are that a constant points to. */
/* clang-format off */
#define SCX_MESSAGE(format, args...)                                                               \
	scx_check_format(format, ##args);                                                          \
	static char ___format[] = format;                                                          \
	SCX_WORDS_CONVERT_BEGIN                                                                    \
	u64 ___unused = 0;                                                                         \
	asm volatile("" : "+r"(___unused));                                                        \
	u64 ___words[] = {___unused, ##args};                                                      \
	SCX_WORDS_CONVERT_END                                                                      \
	u32 ___size = sizeof(___words) - sizeof(u64);                                              \
	u64 *___first = ___size ? ___words + 1 : ___words
/* clang-format on */

#define scx_bpf_error(format, args...)                                                             \
	({                                                                                         \
		SCX_MESSAGE(format, ##args);                                                       \
		scx_bpf_error_bstr(___format, ___first, ___size);                                  \
	})
#define scx_bpf_exit(code, format, args...)                                                        \
	({                                                                                         \
		SCX_MESSAGE(format, ##args);                                                       \
		scx_bpf_exit_bstr(code, ___format, ___first, ___size);                             \
	})
/* For the operations dump, dump_cpu and dump_task. */
#define scx_bpf_dump(format, args...)                                                              \
	({                                                                                         \
		SCX_MESSAGE(format, ##args);                                                       \
		scx_bpf_dump_bstr(___format, ___first, ___size);                                   \
	})
#define bpf_printk(format, args...)                                                                \
	({                                                                                         \
		SCX_MESSAGE(format, ##args);                                                       \
		bpf_trace_vprintk(___format, sizeof(___format), ___first, ___size);                \
	})

static inline void scx_exit_record_fill(struct scx_exit_record *to,
					const struct scx_exit_info *from)
{
	bpf_probe_read_kernel_str(to->reason, sizeof(to->reason), from->reason);
	bpf_probe_read_kernel_str(to->msg, sizeof(to->msg), from->msg);
	bpf_probe_read_kernel_str(to->dump, sizeof(to->dump), from->dump);
	to->exit_code = from->exit_code;
	/* Last, and in one piece: a loader that polls it must find the rest written. */
	__sync_fetch_and_add(&to->kind, (s32)from->kind);
}

#endif /* SCX_KERNEL_CALLS_BPF_H */
