/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Calls whose name or arguments differ between kernel releases, under one name each.
 *
 * The comment above each call says which release brought which variant.
 */
#ifndef SCX_KERNEL_VARIANTS_BPF_H
#define SCX_KERNEL_VARIANTS_BPF_H

/* Without lines of its own: what goes wrong in it is told at the policy's line that calls it. Where
 * a field of a structure is read or written, the compiler needs debug information to say which. */
#define SCX_VARIANT __always_inline __attribute__((nodebug))

struct bpf_iter_scx_dsq;

/* 6.12 dispatch, 6.13 insert, 6.19 insert that says whether it did. */
extern bool scx_bpf_dsq_insert___v2___new(struct task_struct *p, u64 dsq, u64 slice,
					  u64 flags) __ksym __weak;
extern void scx_bpf_dsq_insert___old(struct task_struct *p, u64 dsq, u64 slice,
				     u64 flags) __ksym __weak;
extern void scx_bpf_dispatch___old(struct task_struct *p, u64 dsq, u64 slice,
				   u64 flags) __ksym __weak;

static SCX_VARIANT void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_insert___v2___new))
		scx_bpf_dsq_insert___v2___new(p, dsq, slice, flags);
	else if (bpf_ksym_exists(scx_bpf_dsq_insert___old))
		scx_bpf_dsq_insert___old(p, dsq, slice, flags);
	else
		scx_bpf_dispatch___old(p, dsq, slice, flags);
}

/* 6.12 dispatch_vtime, 6.13 insert_vtime, 6.19 with a structure for its arguments. */
struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};
extern bool
__scx_bpf_dsq_insert_vtime___new(struct task_struct *p,
				 struct scx_bpf_dsq_insert_vtime_args *args) __ksym __weak;
extern void scx_bpf_dsq_insert_vtime___old(struct task_struct *p, u64 dsq, u64 slice, u64 vtime,
					   u64 flags) __ksym __weak;
extern void scx_bpf_dispatch_vtime___old(struct task_struct *p, u64 dsq, u64 slice, u64 vtime,
					 u64 flags) __ksym __weak;

static SCX_VARIANT void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq, u64 slice,
						 u64 vtime, u64 flags)
{
	if (bpf_ksym_exists(__scx_bpf_dsq_insert_vtime___new)) {
		struct scx_bpf_dsq_insert_vtime_args args = {
			.dsq_id = dsq,
			.slice = slice,
			.vtime = vtime,
			.enq_flags = flags,
		};

		__scx_bpf_dsq_insert_vtime___new(p, &args);
	} else if (bpf_ksym_exists(scx_bpf_dsq_insert_vtime___old)) {
		scx_bpf_dsq_insert_vtime___old(p, dsq, slice, vtime, flags);
	} else {
		scx_bpf_dispatch_vtime___old(p, dsq, slice, vtime, flags);
	}
}

/* 6.12 consume, 6.13 move_to_local, 7.1 with flags. */
extern bool scx_bpf_dsq_move_to_local___v2___new(u64 dsq, u64 flags) __ksym __weak;
extern bool scx_bpf_dsq_move_to_local___old(u64 dsq) __ksym __weak;
extern bool scx_bpf_consume___old(u64 dsq) __ksym __weak;

static SCX_VARIANT bool scx_bpf_dsq_move_to_local(u64 dsq)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___v2___new))
		return scx_bpf_dsq_move_to_local___v2___new(dsq, 0);
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___old))
		return scx_bpf_dsq_move_to_local___old(dsq);
	return scx_bpf_consume___old(dsq);
}

/* 6.12 dispatch_from_dsq, 6.13 dsq_move. */
extern bool scx_bpf_dsq_move___new(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p,
				   u64 dsq, u64 flags) __ksym __weak;
extern bool scx_bpf_dispatch_from_dsq___old(struct bpf_iter_scx_dsq *it__iter,
					    struct task_struct *p, u64 dsq,
					    u64 flags) __ksym __weak;

static SCX_VARIANT bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p,
					 u64 dsq, u64 flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move___new))
		return scx_bpf_dsq_move___new(it, p, dsq, flags);
	return scx_bpf_dispatch_from_dsq___old(it, p, dsq, flags);
}

extern bool scx_bpf_dsq_move_vtime___new(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p,
					 u64 dsq, u64 flags) __ksym __weak;
extern bool scx_bpf_dispatch_vtime_from_dsq___old(struct bpf_iter_scx_dsq *it__iter,
						  struct task_struct *p, u64 dsq,
						  u64 flags) __ksym __weak;

static SCX_VARIANT bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p,
					       u64 dsq, u64 flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move_vtime___new))
		return scx_bpf_dsq_move_vtime___new(it, p, dsq, flags);
	return scx_bpf_dispatch_vtime_from_dsq___old(it, p, dsq, flags);
}

extern void scx_bpf_dsq_move_set_slice___new(struct bpf_iter_scx_dsq *it__iter,
					     u64 slice) __ksym __weak;
extern void scx_bpf_dispatch_from_dsq_set_slice___old(struct bpf_iter_scx_dsq *it__iter,
						      u64 slice) __ksym __weak;

static SCX_VARIANT void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it, u64 slice)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move_set_slice___new))
		scx_bpf_dsq_move_set_slice___new(it, slice);
	else
		scx_bpf_dispatch_from_dsq_set_slice___old(it, slice);
}

extern void scx_bpf_dsq_move_set_vtime___new(struct bpf_iter_scx_dsq *it__iter,
					     u64 vtime) __ksym __weak;
extern void scx_bpf_dispatch_from_dsq_set_vtime___old(struct bpf_iter_scx_dsq *it__iter,
						      u64 vtime) __ksym __weak;

static SCX_VARIANT void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move_set_vtime___new))
		scx_bpf_dsq_move_set_vtime___new(it, vtime);
	else
		scx_bpf_dispatch_from_dsq_set_vtime___old(it, vtime);
}

/* 6.16 with all arguments, 6.19 with a structure; older kernels can only be asked for prev_cpu. */
struct scx_bpf_select_cpu_and_args {
	s32 prev_cpu;
	u64 wake_flags;
	u64 flags;
};
extern s32 __scx_bpf_select_cpu_and___new(struct task_struct *p, const struct cpumask *allowed,
					  struct scx_bpf_select_cpu_and_args *args) __ksym __weak;
extern s32 scx_bpf_select_cpu_and___old(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
					const struct cpumask *allowed, u64 flags) __ksym __weak;

static __always_inline s32 scx_bpf_select_cpu_and(struct task_struct *p, s32 prev_cpu,
						  u64 wake_flags, const struct cpumask *allowed,
						  u64 flags)
{
	if (bpf_ksym_exists(__scx_bpf_select_cpu_and___new)) {
		struct scx_bpf_select_cpu_and_args args = {};

		args.prev_cpu = prev_cpu;
		args.wake_flags = wake_flags;
		args.flags = flags;
		return __scx_bpf_select_cpu_and___new(p, allowed, &args);
	}
	if (bpf_ksym_exists(scx_bpf_select_cpu_and___old))
		return scx_bpf_select_cpu_and___old(p, prev_cpu, wake_flags, allowed, flags);
	if (bpf_cpumask_test_cpu((u32)prev_cpu, allowed) &&
	    bpf_cpumask_test_cpu((u32)prev_cpu, p->cpus_ptr) &&
	    scx_bpf_test_and_clear_cpu_idle(prev_cpu))
		return prev_cpu;
	return -EBUSY;
}

/* 6.14; before that, the monotonic clock. */
extern u64 scx_bpf_now___new(void) __ksym __weak;

static SCX_VARIANT u64 scx_bpf_now(void)
{
	if (bpf_ksym_exists(scx_bpf_now___new))
		return scx_bpf_now___new();
	return bpf_ktime_get_ns();
}

/* Until 7.2; of what it gave, scx_bpf_cpu_curr is left. */
extern struct rq *scx_bpf_cpu_rq(s32 cpu) __ksym __weak;

/* 6.18; before that, through the run queue. */
extern struct task_struct *scx_bpf_cpu_curr___new(s32 cpu) __ksym __weak;

static __always_inline struct task_struct *scx_bpf_cpu_curr(s32 cpu)
{
	struct rq *rq;

	if (bpf_ksym_exists(scx_bpf_cpu_curr___new))
		return scx_bpf_cpu_curr___new(cpu);
	rq = scx_bpf_cpu_rq(cpu);
	return rq ? rq->curr : NULL;
}

/* 6.19; before that, plain stores. */
extern bool scx_bpf_task_set_slice___new(struct task_struct *p, u64 slice) __ksym __weak;
extern bool scx_bpf_task_set_dsq_vtime___new(struct task_struct *p, u64 vtime) __ksym __weak;

static __always_inline void scx_bpf_task_set_slice(struct task_struct *p, u64 slice)
{
	if (bpf_ksym_exists(scx_bpf_task_set_slice___new))
		scx_bpf_task_set_slice___new(p, slice);
	else
		p->scx.slice = slice;
}

static __always_inline void scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime)
{
	if (bpf_ksym_exists(scx_bpf_task_set_dsq_vtime___new))
		scx_bpf_task_set_dsq_vtime___new(p, vtime);
	else
		p->scx.dsq_vtime = vtime;
}

#endif /* SCX_KERNEL_VARIANTS_BPF_H */
