/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The simulator's back end of scx/common.bpf.h.
 *
 * The simulator owns every task_struct, dispatch queue and map; a policy sees them
 * through the structures below, whose layout crates/policy/src/abi.rs repeats and
 * checks when it loads the policy. Calls that take virtual time or change the
 * machine go through `scx_host->calls`; the rest is read in place.
 */
#ifndef SCX_SIMULATOR_H
#define SCX_SIMULATOR_H

#define SCX_ABI_VERSION 2
#define SCX_CPUS_MAX 1024
#define SCX_STORAGE_MAX 8 /* task-storage maps of one policy */
#define SCX_ITER_CHUNK 32 /* tasks an iterator fetches at once */

#define SEC(name) __attribute__((section(name), used))
#define __weak __attribute__((weak))
#define __hidden __attribute__((visibility("hidden")))
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __ksym
#define __arg_ctx
#define __arg_nonnull
#define __arg_trusted
#define __maybe_unused __attribute__((unused))
#define __unused __attribute__((unused))
#define __kptr
#define __contains(name, node)
#define private(name) static __attribute__((aligned(8)))

#define SCX_ENQ_WAKEUP (1ULL << 0)
#define SCX_ENQ_HEAD (1ULL << 4)
#define SCX_ENQ_CPU_SELECTED (1ULL << 10)
#define SCX_ENQ_PREEMPT (1ULL << 32)
#define SCX_ENQ_REENQ (1ULL << 40)
#define SCX_ENQ_LAST (1ULL << 41)
#define SCX_DEQ_SLEEP (1ULL << 0)
#define SCX_DEQ_CORE_SCHED_EXEC (1ULL << 32)

struct cpumask {
	u64 bits[SCX_CPUS_MAX / 64];
};
typedef struct cpumask cpumask_t;
struct bpf_cpumask {
	struct cpumask cpumask;
};

struct mm_struct {
	u32 id;
};

/* One dispatch queue, as a policy may look at it. */
struct scx_dispatch_q {
	u64 id;
	u32 nr;
};

struct sched_ext_entity {
	struct scx_dispatch_q *dsq; /* the queue it is in, or NULL */
	u64 dsq_seq;                /* when it was queued there */
	u64 dsq_vtime;
	u64 slice;
	u32 weight; /* 1..10000, nice 0 is 100 */
	u32 flags;
};

struct load_weight {
	u64 weight;
};

struct sched_entity {
	u64 sum_exec_runtime;
	struct load_weight load;
};

/* What a walk over a queue looks at fills the first cache line. */
struct task_struct {
	struct sched_ext_entity scx;
	const struct cpumask *cpus_ptr;
	struct mm_struct *mm;
	void *storage[SCX_STORAGE_MAX]; /* values of task-storage maps, by map number */
	int pid;
	int tgid;
	int prio;
	int static_prio;
	int nr_cpus_allowed;
	int cpu;
	int recent_used_cpu;
	int wake_cpu;
	unsigned int __state;
	unsigned int flags;
	unsigned int policy;
	unsigned int rt_priority;
	int normal_prio;
	int on_cpu;
	struct sched_entity se;
	u64 nvcsw;
	u64 nivcsw;
	u64 start_time;
	struct task_struct *real_parent;
	struct task_struct *parent;
	struct task_struct *group_leader;
	char comm[16];
	struct cpumask cpus_mask;
};

struct rq {
	struct task_struct *curr;
};

struct cgroup {
	u32 id;
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
	const char *msg;
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
	u32 reason;
	struct task_struct *task;
};

struct scx_dump_ctx {
	enum scx_exit_kind kind;
};

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
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u32 dispatch_max_batch;
	u64 flags;
	u32 timeout_ms;
	u32 exit_dump_len;
	u64 hotplug_seq;
	char name[128];
};

/* What a map variable points to once the policy is loaded. */
struct scx_map {
	u32 type;
	u32 key_size;
	u32 value_size;
	u32 max_entries;
	u32 index;        /* task storage: which slot of task_struct.storage */
	u32 value_stride; /* arrays: bytes from one value to the next */
	u64 cpu_stride;   /* per-CPU arrays: bytes from one CPU's values to the next CPU's */
	u8 *values;
};

struct bpf_iter_scx_dsq {
	struct scx_dispatch_q *dsq;
	u64 seq;   /* tasks queued later are not visited */
	u64 steps; /* tasks looked at and not yet charged */
	u64 flags;
	u64 cursor[2]; /* where the next chunk begins, in the host's terms */
	u64 pending_slice;
	u64 pending_vtime;
	u32 next;
	u32 filled;
	struct task_struct *chunk[SCX_ITER_CHUNK];
};

struct bpf_timer {
	u64 id;
	u64 reserved;
};

struct bpf_spin_lock {
	u32 id;
};

struct scx_host_calls;

struct scx_host {
	u64 now_ns; /* clock of the CPU whose operation is running */
	s32 cpu;
	u32 nr_cpu_ids;
	u32 hz;
	u32 nr_online_cpus;
	struct task_struct *current; /* task on that CPU, the idle task included */
	struct cpumask *idle_cpus;
	struct cpumask *idle_cores;
	struct cpumask *online_cpus;
	struct cpumask *possible_cpus;
	const struct scx_host_calls *calls;
};

struct scx_host_calls {
	s32 (*create_dsq)(struct scx_host *h, u64 id, s32 node);
	void (*destroy_dsq)(struct scx_host *h, u64 id);
	void (*dsq_insert)(struct scx_host *h, struct task_struct *p, u64 dsq, u64 slice,
			   u64 flags);
	void (*dsq_insert_vtime)(struct scx_host *h, struct task_struct *p, u64 dsq, u64 slice,
				 u64 vtime, u64 flags);
	s32 (*dsq_nr_queued)(struct scx_host *h, u64 id);
	bool (*dsq_move_to_local)(struct scx_host *h, u64 id);
	bool (*dsq_move)(struct scx_host *h, struct bpf_iter_scx_dsq *it, struct task_struct *p,
			 u64 dsq, u64 flags, bool by_vtime);
	void (*dsq_move_set_slice)(struct scx_host *h, struct bpf_iter_scx_dsq *it, u64 slice);
	void (*dsq_move_set_vtime)(struct scx_host *h, struct bpf_iter_scx_dsq *it, u64 vtime);
	s32 (*iter_new)(struct scx_host *h, struct bpf_iter_scx_dsq *it, u64 dsq, u64 flags);
	bool (*iter_fill)(struct scx_host *h, struct bpf_iter_scx_dsq *it);
	void (*iter_destroy)(struct scx_host *h, struct bpf_iter_scx_dsq *it);
	u32 (*dispatch_nr_slots)(struct scx_host *h);
	void (*dispatch_cancel)(struct scx_host *h);
	u32 (*reenqueue_local)(struct scx_host *h);
	void (*kick_cpu)(struct scx_host *h, s32 cpu, u64 flags);
	s32 (*select_cpu_dfl)(struct scx_host *h, struct task_struct *p, s32 prev_cpu,
			      u64 wake_flags, bool *is_idle);
	s32 (*select_cpu_and)(struct scx_host *h, struct task_struct *p, s32 prev_cpu,
			      u64 wake_flags, const struct cpumask *allowed, u64 flags);
	bool (*test_and_clear_cpu_idle)(struct scx_host *h, s32 cpu);
	s32 (*pick_idle_cpu)(struct scx_host *h, const struct cpumask *allowed, u64 flags);
	s32 (*pick_any_cpu)(struct scx_host *h, const struct cpumask *allowed, u64 flags);
	struct task_struct *(*cpu_curr)(struct scx_host *h, s32 cpu);
	struct task_struct *(*task_from_pid)(struct scx_host *h, s32 pid);
	void *(*task_storage_create)(struct scx_host *h, struct scx_map *map,
				     struct task_struct *p);
	void (*task_storage_delete)(struct scx_host *h, struct scx_map *map, struct task_struct *p);
	void *(*hash_lookup)(struct scx_host *h, struct scx_map *map, const void *key);
	s32 (*map_update)(struct scx_host *h, struct scx_map *map, const void *key,
			  const void *value, u64 flags);
	s32 (*map_delete)(struct scx_host *h, struct scx_map *map, const void *key);
	s32 (*timer_init)(struct scx_host *h, struct bpf_timer *timer, struct scx_map *map);
	s32 (*timer_set_callback)(struct scx_host *h, struct bpf_timer *timer, void *callback);
	s32 (*timer_start)(struct scx_host *h, struct bpf_timer *timer, u64 ns, u64 flags);
	s32 (*timer_cancel)(struct scx_host *h, struct bpf_timer *timer);
	void (*spin_lock)(struct scx_host *h, struct bpf_spin_lock *lock);
	void (*spin_unlock)(struct scx_host *h, struct bpf_spin_lock *lock);
	u32 (*prandom)(struct scx_host *h);
	void (*error)(struct scx_host *h, const char *message);
	void (*exit)(struct scx_host *h, s64 code, const char *message);
	void (*print)(struct scx_host *h, const char *message);
};

/* Set by the loader before any operation is called. */
static struct scx_host *scx_host __attribute__((used));

int snprintf(char *text, unsigned long size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void *memset(void *to, int byte, unsigned long size);
void *memcpy(void *to, const void *from, unsigned long size);

/* Layout of every structure that both sides touch; the loader compares it with its own. */
struct scx_policy_description {
	u32 abi_version;
	u32 sizes[12];
	const struct sched_ext_ops *ops;
	struct scx_host **host;
};

#define BPF_STRUCT_OPS(name, args...) name(args)
#define BPF_STRUCT_OPS_SLEEPABLE(name, args...) name(args)

#define SCX_OPS_DEFINE(name_, members...)                                                          \
	static const struct sched_ext_ops name_ = {members};                                       \
	__attribute__((visibility("default"), used))                                               \
	const struct scx_policy_description schedlab_policy = {                                    \
		.abi_version = SCX_ABI_VERSION,                                                    \
		.sizes = {sizeof(struct task_struct), sizeof(struct sched_ext_entity),             \
			  sizeof(struct sched_ext_ops), sizeof(struct scx_host),                   \
			  sizeof(struct scx_host_calls), sizeof(struct scx_map),                   \
			  sizeof(struct bpf_iter_scx_dsq), sizeof(struct scx_exit_info),           \
			  __builtin_offsetof(struct task_struct, cpus_ptr),                        \
			  __builtin_offsetof(struct task_struct, se),                              \
			  __builtin_offsetof(struct task_struct, comm),                            \
			  __builtin_offsetof(struct task_struct, cpus_mask)},                      \
		.ops = &name_,                                                                     \
		.host = &scx_host,                                                                 \
	}

#include "simulator_calls.h"

#endif /* SCX_SIMULATOR_H */
