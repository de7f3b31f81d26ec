/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The kfuncs and helpers that policies call, over struct scx_host. */
#ifndef SCX_SIMULATOR_CALLS_H
#define SCX_SIMULATOR_CALLS_H

#define bpf_ksym_exists(symbol) true
#define SCX_CALL(function, ...) scx_host->calls->function(scx_host, ##__VA_ARGS__)

/* ---- time, CPUs, the current task ---------------------------------------------------------- */

#define CONFIG_HZ (scx_host->hz)

static inline u64 scx_bpf_now(void)
{
	return scx_host->now_ns;
}

static inline u64 bpf_ktime_get_ns(void)
{
	return scx_host->now_ns;
}

static inline u64 bpf_jiffies64(void)
{
	return scx_host->now_ns / (NSEC_PER_SEC / scx_host->hz);
}

static inline u32 bpf_get_smp_processor_id(void)
{
	return (u32)scx_host->cpu;
}

static inline u32 scx_bpf_nr_cpu_ids(void)
{
	return scx_host->nr_cpu_ids;
}

static inline struct task_struct *bpf_get_current_task_btf(void)
{
	return scx_host->current;
}

static inline u64 bpf_get_current_pid_tgid(void)
{
	return (u64)scx_host->current->tgid << 32 | (u32)scx_host->current->pid;
}

static inline s32 scx_bpf_task_cpu(const struct task_struct *p)
{
	return p->cpu;
}

static inline bool scx_bpf_task_running(const struct task_struct *p)
{
	return p->on_cpu;
}

static inline struct task_struct *scx_bpf_cpu_curr(s32 cpu)
{
	return SCX_CALL(cpu_curr, cpu);
}

/* The answer holds until the next call. */
static inline struct rq *scx_bpf_cpu_rq(s32 cpu)
{
	static struct rq rq;

	rq.curr = SCX_CALL(cpu_curr, cpu);
	return &rq;
}

/* Simulated CPUs have one speed each; a request for another changes nothing. */
#define SCX_CPUPERF_ONE 1024

static inline u32 scx_bpf_cpuperf_cap(s32 cpu)
{
	return SCX_CPUPERF_ONE;
}

static inline u32 scx_bpf_cpuperf_cur(s32 cpu)
{
	return SCX_CPUPERF_ONE;
}

static inline void scx_bpf_cpuperf_set(s32 cpu, u32 perf)
{
}

static inline struct task_struct *bpf_task_from_pid(s32 pid)
{
	return SCX_CALL(task_from_pid, pid);
}

static inline struct task_struct *bpf_task_acquire(struct task_struct *p)
{
	return p;
}

static inline void bpf_task_release(struct task_struct *p)
{
	(void)p;
}

static inline void bpf_rcu_read_lock(void)
{
}

static inline void bpf_rcu_read_unlock(void)
{
}

static inline u32 bpf_get_prandom_u32(void)
{
	return SCX_CALL(prandom);
}

/* ---- dispatch queues ----------------------------------------------------------------------- */

static inline s32 scx_bpf_create_dsq(u64 id, s32 node)
{
	return SCX_CALL(create_dsq, id, node);
}

static inline void scx_bpf_destroy_dsq(u64 id)
{
	SCX_CALL(destroy_dsq, id);
}

static inline void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 flags)
{
	SCX_CALL(dsq_insert, p, dsq, slice, flags);
}

static inline void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq, u64 slice, u64 vtime,
					    u64 flags)
{
	SCX_CALL(dsq_insert_vtime, p, dsq, slice, vtime, flags);
}

static inline s32 scx_bpf_dsq_nr_queued(u64 id)
{
	return SCX_CALL(dsq_nr_queued, id);
}

static inline bool scx_bpf_dsq_move_to_local(u64 id)
{
	return SCX_CALL(dsq_move_to_local, id);
}

static inline bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq,
				    u64 flags)
{
	return SCX_CALL(dsq_move, it, p, dsq, flags, false);
}

static inline bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p,
					  u64 dsq, u64 flags)
{
	return SCX_CALL(dsq_move, it, p, dsq, flags, true);
}

static inline void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it, u64 slice)
{
	SCX_CALL(dsq_move_set_slice, it, slice);
}

static inline void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime)
{
	SCX_CALL(dsq_move_set_vtime, it, vtime);
}

static inline u32 scx_bpf_dispatch_nr_slots(void)
{
	return SCX_CALL(dispatch_nr_slots);
}

static inline void scx_bpf_dispatch_cancel(void)
{
	SCX_CALL(dispatch_cancel);
}

static inline u32 scx_bpf_reenqueue_local(void)
{
	return SCX_CALL(reenqueue_local);
}

static inline void scx_bpf_task_set_slice(struct task_struct *p, u64 slice)
{
	p->scx.slice = slice;
}

static inline void scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime)
{
	p->scx.dsq_vtime = vtime;
}

static inline int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq, u64 flags)
{
	return SCX_CALL(iter_new, it, dsq, flags);
}

static inline struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it)
{
	do {
		while (it->next < it->filled) {
			struct task_struct *p = it->chunk[it->next++];

			/* Long walks wait for memory: ask for what comes next. */
			if (it->next + 4 < it->filled) {
				__builtin_prefetch(it->chunk[it->next + 4]);
				__builtin_prefetch(it->chunk[it->next + 1]->storage[0]);
			}
			it->steps++;
			if (p->scx.dsq == it->dsq && p->scx.dsq_seq <= it->seq)
				return p;
		}
	} while (SCX_CALL(iter_fill, it));
	return NULL;
}

static inline void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it)
{
	SCX_CALL(iter_destroy, it);
}

#define BPF_FOR_EACH_ITER (&___it)
#define bpf_for_each(kind, cur, args...)                                                           \
	for (struct bpf_iter_##kind ___it __attribute__((cleanup(bpf_iter_##kind##_destroy))),     \
	     *___once = (bpf_iter_##kind##_new(&___it, args), &___it);                             \
	     ___once && ((cur) = bpf_iter_##kind##_next(&___it));)

#define bpf_for(i, from, to)                                                                       \
	for (s64 ___i = (from), ___to = (to); ___i < ___to && ((i) = ___i, true); ___i++)
#define bpf_repeat(n) for (s64 ___n = (n); ___n > 0; ___n--)
#define can_loop true
#define cond_break                                                                                 \
	do {                                                                                       \
	} while (0)

/* ---- idle CPUs and kicks ------------------------------------------------------------------- */

static inline void scx_bpf_kick_cpu(s32 cpu, u64 flags)
{
	SCX_CALL(kick_cpu, cpu, flags);
}

static inline s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
					 bool *is_idle)
{
	return SCX_CALL(select_cpu_dfl, p, prev_cpu, wake_flags, is_idle);
}

static inline s32 scx_bpf_select_cpu_and(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
					 const struct cpumask *allowed, u64 flags)
{
	return SCX_CALL(select_cpu_and, p, prev_cpu, wake_flags, allowed, flags);
}

static inline bool scx_bpf_test_and_clear_cpu_idle(s32 cpu)
{
	return SCX_CALL(test_and_clear_cpu_idle, cpu);
}

static inline s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags)
{
	return SCX_CALL(pick_idle_cpu, allowed, flags);
}

static inline s32 scx_bpf_pick_any_cpu(const struct cpumask *allowed, u64 flags)
{
	return SCX_CALL(pick_any_cpu, allowed, flags);
}

static inline const struct cpumask *scx_bpf_get_idle_cpumask(void)
{
	return scx_host->idle_cpus;
}

static inline const struct cpumask *scx_bpf_get_idle_smtmask(void)
{
	return scx_host->idle_cores;
}

static inline void scx_bpf_put_idle_cpumask(const struct cpumask *mask)
{
	(void)mask;
}

static inline const struct cpumask *scx_bpf_get_online_cpumask(void)
{
	return scx_host->online_cpus;
}

static inline const struct cpumask *scx_bpf_get_possible_cpumask(void)
{
	return scx_host->possible_cpus;
}

static inline void scx_bpf_put_cpumask(const struct cpumask *mask)
{
	(void)mask;
}

#include "simulator_cpumasks.h"

/* ---- maps, timers, locks ------------------------------------------------------------------- */

/* A map variable is a structure of pointers that only describes the map; the loader stores the
 * address of the real one in its first member. */
static inline struct scx_map *scx_map_of(const void *variable)
{
	return *(struct scx_map *const *)variable;
}

static inline void *bpf_task_storage_get(const void *variable, struct task_struct *p,
					 const void *initial, u64 flags)
{
	struct scx_map *map = scx_map_of(variable);
	void *value;

	if (!p)
		return NULL;
	value = p->storage[map->index];

	if (!value && (flags & BPF_LOCAL_STORAGE_GET_F_CREATE)) {
		value = SCX_CALL(task_storage_create, map, p);
		if (value && initial)
			memcpy(value, initial, map->value_size);
	}
	return value;
}

static inline long bpf_task_storage_delete(const void *variable, struct task_struct *p)
{
	SCX_CALL(task_storage_delete, scx_map_of(variable), p);
	return 0;
}

static inline void *bpf_map_lookup_percpu_elem(const void *variable, const void *key, u32 cpu)
{
	struct scx_map *map = scx_map_of(variable);
	u32 i = *(const u32 *)key;

	if (i >= map->max_entries || cpu >= scx_host->nr_cpu_ids)
		return NULL;
	return map->values + cpu * map->cpu_stride + (u64)i * map->value_stride;
}

static inline void *bpf_map_lookup_elem(const void *variable, const void *key)
{
	struct scx_map *map = scx_map_of(variable);

	if (map->type == BPF_MAP_TYPE_HASH)
		return SCX_CALL(hash_lookup, map, key);
	return bpf_map_lookup_percpu_elem(variable, key, (u32)scx_host->cpu);
}

static inline long bpf_map_update_elem(const void *variable, const void *key, const void *value,
				       u64 flags)
{
	return SCX_CALL(map_update, scx_map_of(variable), key, value, flags);
}

static inline long bpf_map_delete_elem(const void *variable, const void *key)
{
	return SCX_CALL(map_delete, scx_map_of(variable), key);
}

static inline void *bpf_kptr_xchg(void *slot, void *value)
{
	void *before = *(void **)slot;

	*(void **)slot = value;
	return before;
}

static inline long bpf_probe_read_kernel(void *to, u32 size, const void *from)
{
	memcpy(to, from, size);
	return 0;
}

/* Bytes copied, the closing zero included. */
static inline long bpf_probe_read_kernel_str(void *to, u32 size, const void *from)
{
	u32 copied = 0;

	while (copied < size) {
		char c = ((const char *)from)[copied];

		((char *)to)[copied++] = c;
		if (!c)
			return copied;
	}
	if (size)
		((char *)to)[size - 1] = 0;
	return copied;
}

static inline long bpf_timer_init(struct bpf_timer *timer, const void *variable, u64 flags)
{
	(void)flags;
	return SCX_CALL(timer_init, timer, scx_map_of(variable));
}

#define bpf_timer_set_callback(timer, callback)                                                    \
	SCX_CALL(timer_set_callback, timer, (void *)(callback))

static inline long bpf_timer_start(struct bpf_timer *timer, u64 ns, u64 flags)
{
	return SCX_CALL(timer_start, timer, ns, flags);
}

static inline long bpf_timer_cancel(struct bpf_timer *timer)
{
	return SCX_CALL(timer_cancel, timer);
}

static inline void bpf_spin_lock(struct bpf_spin_lock *lock)
{
	SCX_CALL(spin_lock, lock);
}

static inline void bpf_spin_unlock(struct bpf_spin_lock *lock)
{
	SCX_CALL(spin_unlock, lock);
}

/* ---- messages and the end ------------------------------------------------------------------ */

#define SCX_MESSAGE_MAX 256

#define scx_bpf_error(format, args...)                                                             \
	({                                                                                         \
		char ___text[SCX_MESSAGE_MAX];                                                     \
		snprintf(___text, sizeof(___text), format, ##args);                                \
		SCX_CALL(error, ___text);                                                          \
	})
#define scx_bpf_exit(code, format, args...)                                                        \
	({                                                                                         \
		char ___text[SCX_MESSAGE_MAX];                                                     \
		snprintf(___text, sizeof(___text), format, ##args);                                \
		SCX_CALL(exit, code, ___text);                                                     \
	})
#define bpf_printk(format, args...)                                                                \
	({                                                                                         \
		char ___text[SCX_MESSAGE_MAX];                                                     \
		snprintf(___text, sizeof(___text), format, ##args);                                \
		SCX_CALL(print, ___text);                                                          \
	})

/* The exit record of the loader on a kernel; the simulator keeps its own. */
#define UEI_DEFINE(name) static __attribute__((unused)) int name
#define UEI_RECORD(name, info) ((void)(info), (void)(name))

#endif /* SCX_SIMULATOR_CALLS_H */
