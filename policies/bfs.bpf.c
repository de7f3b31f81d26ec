/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* bfs - Con Kolivas' Brain Fuck Scheduler: one queue for all CPUs, earliest virtual deadline first.
 *
 * Every task gets slices of the same length. When a slice is used up the task gets a new one and
 * a deadline that is the farther away the nicer it is. A CPU that needs a task looks through the
 * whole queue for the earliest deadline, counting a task whose cache is far away as later. A task
 * that sleeps keeps its deadline and the rest of its slice: that is the whole interactivity
 * mechanism. A task that wakes up takes an idle CPU, or else the CPU that runs the latest
 * deadline, if its own is earlier. There is no load balancing because there is nothing to balance.
 *
 * Guarantees that no CPU idles while a task it may run is queued, and that a queued task runs
 * before any task that gets its slice more than one deadline offset later. Picking costs
 * O(queued tasks) under a lock that all CPUs share: many CPUs with many tasks get in each other's
 * way, which is what its author said of it.
 *
 * What differs from the original:
 * 1. The wake-up that a kicked CPU owes is remembered by the idle mask: two tasks that wake up
 *    together wake two idle CPUs, where BFS might kick one CPU twice.
 * 2. A CPU that is just switching runs nobody and is left out when a task looks whom to preempt.
 * 3. Realtime tasks never reach sched_ext, and Linux has no SCHED_ISO: the lists for both are
 *    left out, and so is the batch rule of 424. SCHED_IDLE takes the place of IDLEPRIO; it never
 *    preempts.
 * 4. Idle CPUs are ranked without asking whether their cache is busy, and 424 does not skip tasks
 *    of CPUs that run at low speed, because it cannot see the speed.
 * 5. A new nice value counts from the next deadline on.
 * 6. On kernels, the best task can be gone between the scan and its move; then the first task of
 *    the queue that may run here is taken.
 * 7. 302 is what is known of 0.304, whose source was not at hand: see `version`.
 *
 * Source: BFS 0.302, 0.313 and 0.424 by Con Kolivas, kernel/sched_bfs.c, 2009 to 2012, and its
 * announcement on the linux-kernel mailing list, August 2009. Constants and rules only.
 */
#include <scx/common.bpf.h>
#include <scx/topology.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Whose rules: 302 (October 2009, as in 0.304), 313 (November 2009), 424 (2012, as in 0.425). */
const volatile u32 version = 302;

/* Length of a slice, in milliseconds of one CPU; 302 and 313 lengthen it on several CPUs. */
const volatile u64 rr_interval_ms = 6;

/* What decides between tasks before their deadlines; each class has a queue of this number. */
enum class {
	CLASS_NORMAL,
	CLASS_IDLEPRIO,
	NR_CLASSES,
	CLASS_NONE = NR_CLASSES, /* what a CPU without a task runs */
};

#define CPUS_MAX TOPOLOGY_CPUS_MAX
#define NICE_LEVELS 40
#define NEVER_NS (~0ULL)

/* 424 counts its milliseconds in powers of two: 2^20 ns for deadlines, 2^10 us for slices. */
#define BINARY_MSEC_NS (1ULL << 20)
#define BINARY_SLICE_MSEC_NS (1024 * NSEC_PER_USEC)
#define RATIO_BITS 7
/* A rest of a slice below which 424 treats it as used up. */
#define RESCHEDULE_NS (100 * NSEC_PER_USEC)

/* A task's deadline is its scx.dsq_vtime, which a FIFO queue leaves alone: a scan reads it
 * without looking anything up. */
struct bfs_task {
	u64 left_ns;       /* rest of the slice */
	u64 charged_at_ns; /* while it runs: up to when left_ns is right */
	bool runs;
	bool arrives;        /* became runnable and was not enqueued since */
	bool is_new;         /* was not enqueued yet */
	bool woken_by_sleeper; /* the waker said that it is about to sleep */
	bool in_first_slice; /* what is left of the slice is its parent's */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct bfs_task);
} bfs_tasks SEC(".maps");

struct bfs_cpu {
	u64 deadline_ns; /* of the task that runs */
	u64 tick_at_ns;
	u32 class;       /* enum class of the task that runs */
	s32 sticky_pid;  /* the last task that lost this CPU against its will, or 0 */
	bool dithers;    /* the running task began in the first half of a tick period */
};

struct bfs_cpu bfs_cpus[CPUS_MAX];

/* Fixed by init. */
u64 slice_ns;
u64 jiffy_ns;
u64 nr_cpus;
u64 deadline_offset_ns[64]; /* by nice + 20 */
u64 cache_distance_ns[64];  /* what a step of distance adds to a deadline; by nice + 20 */

static struct bfs_task *record_of(struct task_struct *p)
{
	return bpf_task_storage_get(&bfs_tasks, p, NULL, 0);
}

static struct bfs_cpu *cpu_record(s32 cpu)
{
	return &bfs_cpus[(u32)cpu & (CPUS_MAX - 1)];
}

static u32 class_of(const struct task_struct *p)
{
	return p->policy == SCHED_IDLE ? CLASS_IDLEPRIO : CLASS_NORMAL;
}

static u32 nice_level(const struct task_struct *p)
{
	return (u32)(p->static_prio - MAX_RT_PRIO) & 63;
}

/* ---- slices and deadlines ------------------------------------------------------------------ */

/* 302 and 313 count deadlines in whole ticks. */
static u64 deadline_from(const struct task_struct *p, u64 now_ns)
{
	if (version < 424)
		now_ns = now_ns / jiffy_ns * jiffy_ns;
	return now_ns + deadline_offset_ns[nice_level(p)];
}

static bool is_used_up(const struct bfs_task *task)
{
	return task->left_ns < (version < 424 ? 1 : RESCHEDULE_NS);
}

static void refill(struct task_struct *p, struct bfs_task *task, u64 now_ns)
{
	task->left_ns = slice_ns;
	task->in_first_slice = false;
	p->scx.dsq_vtime = deadline_from(p, now_ns);
}

/* Takes the time that a running task has run off its slice. */
static void charge(struct bfs_task *task, u64 now_ns)
{
	u64 ran_ns = (u64)time_delta(now_ns, task->charged_at_ns);

	task->left_ns -= min(ran_ns, task->left_ns);
	task->charged_at_ns = now_ns;
}

/* What every pass through the scheduler does to the task that ran. */
static void settle(struct task_struct *p, struct bfs_task *task, u64 now_ns)
{
	charge(task, now_ns);
	if (is_used_up(task))
		refill(p, task, now_ns);
}

/* ---- distance ------------------------------------------------------------------------------ */

static bool is_sticky(const struct task_struct *p)
{
	return cpu_record(scx_bpf_task_cpu(p))->sticky_pid == p->pid;
}

/* What 302 and 313 add to a deadline because the task's cache is elsewhere. */
static u64 distance_ns(const struct task_struct *p, s32 cpu)
{
	enum cpu_distance distance = cpu_distance((u32)scx_bpf_task_cpu(p), (u32)cpu);
	u64 steps = distance <= DISTANCE_CACHE ? 0 : distance == DISTANCE_NODE ? 1 : 3;

	return version < 424 ? steps * cache_distance_ns[nice_level(p)] : 0;
}

/* A task's deadline as seen from a CPU. 424 moves a sticky task so far away from other CPUs that
 * they take it only rather than nothing. */
static u64 deadline_seen_from(const struct task_struct *p, s32 cpu)
{
	if (version >= 424 && is_sticky(p))
		return p->scx.dsq_vtime << cpu_distance((u32)scx_bpf_task_cpu(p), (u32)cpu);
	return p->scx.dsq_vtime + distance_ns(p, cpu);
}

/* ---- picking ------------------------------------------------------------------------------- */

struct choice {
	u64 deadline_ns; /* as seen from the CPU that looks; NEVER_NS if there is none */
	s32 pid;
	bool expired; /* 313: needs no comparison */
};

/* The queued task of a class with the earliest deadline for a CPU; the first of equals. */
static struct choice earliest_deadline_task(u32 class, s32 cpu, u64 now_ns)
{
	struct choice best = {.deadline_ns = NEVER_NS};
	struct task_struct *p;
	u64 deadline_ns;

	bpf_for_each(scx_dsq, p, class, 0) {
		if (!bpf_cpumask_test_cpu((u32)cpu, p->cpus_ptr))
			continue;
		deadline_ns = deadline_seen_from(p, cpu);
		if (version == 313 && deadline_ns < now_ns)
			best.expired = true;
		else if (deadline_ns >= best.deadline_ns)
			continue;
		best.deadline_ns = deadline_ns;
		best.pid = p->pid;
		if (best.expired)
			break;
	}
	return best;
}

/* Moves a queued task to the CPU that dispatches; false if it is not in this queue any more. */
static bool take(u32 class, s32 pid)
{
	struct task_struct *p, *chosen;
	bool taken = false;

	bpf_for_each(scx_dsq, p, class, 0) {
		chosen = p->pid == pid ? bpf_task_acquire(p) : bpf_task_from_pid(pid);
		if (!chosen)
			break;
		cpu_record(scx_bpf_task_cpu(chosen))->sticky_pid &= -(s32)!is_sticky(chosen);
		taken = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, chosen, SCX_DSQ_LOCAL, 0);
		bpf_task_release(chosen);
		break;
	}
	return taken;
}
