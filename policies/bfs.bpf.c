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
 * Guarantees that no CPU idles while a task it may run is queued, and that others overtake a
 * queued task only until its deadline is the earliest. Picking costs O(queued tasks) under a lock
 * that all CPUs share: many CPUs with many tasks get in each other's way, as its author said.
 *
 * What differs from the original:
 * 1. A CPU that is on its way out of idleness is not idle any more: two tasks that wake up
 *    together wake two CPUs, where BFS might have chosen the same one twice.
 * 2. A CPU that is just switching runs nobody and is left out when a task looks whom to preempt.
 * 3. Realtime tasks never reach sched_ext, and Linux has no SCHED_ISO: the lists for both are
 *    left out, and so is the batch rule of 424. SCHED_IDLE takes the place of IDLEPRIO; it never
 *    preempts.
 * 4. Idle CPUs are ranked without asking whether their cache is busy, which decides nothing between
 *    two caches, and 424 does not skip tasks of CPUs that run at low speed, because it cannot see
 *    the speed.
 * 5. A new nice value counts from the next deadline on.
 * 6. A task that may run on one CPU only is woken without the waker's word that it is about to
 *    sleep, and so may preempt it; on a machine of one CPU that is every task.
 * 7. On kernels, the best task can be gone between the scan and its move; then the first task of
 *    the queue that may run here is taken.
 * 8. The sources of 0.304 and 0.425 were not at hand. 424 and 427 schedule alike and so enclose
 *    0.425; 0.304 lies between 302 and 313, which differ: the formula of the deadlines is more
 *    likely that of 302, and whether the first expired deadline won already is not known.
 * 9. 313 prefers an idle core to the task's own CPU beside a busy thread. Here that CPU mostly
 *    takes the task first, as the core wakes it, too.
 * 10. On kernels, CPUs that look for idle ones at the same time may take each other's busy caches
 *    for idle.
 *
 * Source: BFS 0.302, 0.313, 0.424 and 0.427 by Con Kolivas, kernel/sched_bfs.c and
 * kernel/sched/bfs.c, and the announcement of 0.304 on the linux-kernel mailing list, 16 October
 * 2009. Constants and rules only.
 */
#include <scx/common.bpf.h>
#include <scx/hotplug.bpf.h>
#include <scx/topology.bpf.h>
#include <scx/tunables.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Whose rules: 302 (stands for 0.304), 313, or 424 (stands for 0.425). */
const volatile u32 version = 302;

/* 1: the first task in the queue whose deadline is over is taken at once, as 313 always does. */
const volatile u32 first_expired_wins = 0;

/* Length of a slice, in milliseconds of one CPU; 302 and 313 lengthen it on several CPUs. */
const volatile u64 rr_interval_ms = 6;

/* 1: scheduling domains are numbered from 0, as Linux does since 3.0. 424 takes the numbers for
 * those of older kernels, which began at 1: all CPUs of a cache are siblings to it, and all of a
 * node share a cache. */
const volatile u32 domains_from_zero = 0;

/* 0: the kernel is built without CONFIG_NUMA, and its CPUs are all of one node. */
const volatile u32 knows_nodes = 1;

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
#define RR_INTERVAL_MS_MAX 10000

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
	bool arrives;          /* became runnable and was not enqueued since */
	bool is_new;           /* was not enqueued yet */
	bool woken_by_sleeper; /* the waker said that it is about to sleep */
	bool in_first_slice;   /* what is left of the slice is its parent's */
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
	u32 class;      /* enum class of the task that runs */
	s32 sticky_pid; /* the last task that lost this CPU against its will, or 0 */
	bool dithers;   /* the running task began in the first half of a tick period */
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

/* What of a CPU says how far away its cache is. */
struct location {
	u16 cache;
	u16 node;
};

static struct location location_of(s32 cpu)
{
	u32 at = (u32)cpu & (TOPOLOGY_CPUS_MAX - 1);

	return (struct location){.cache = topology_cache[at],
				 .node = knows_nodes ? topology_node[at] : 0};
}

static enum cpu_distance distance_between(s32 a, s32 b)
{
	enum cpu_distance distance = cpu_distance((u32)a, (u32)b);

	return distance == DISTANCE_REMOTE && !knows_nodes ? DISTANCE_NODE : distance;
}

/* What 424 takes the distance for: that of the domain below, if numbers begin with 0. */
static u32 locality(s32 a, s32 b)
{
	enum cpu_distance distance = distance_between(a, b);

	return domains_from_zero && distance > DISTANCE_SMT ? distance - 1 : distance;
}

/* What 302 and 313 add to a task's deadline because its cache is elsewhere. */
static u64 distance_ns(const struct task_struct *p, struct location here)
{
	struct location home = location_of(scx_bpf_task_cpu(p));
	u64 step_ns;

	if (home.cache == here.cache)
		return 0;
	step_ns = cache_distance_ns[nice_level(p)];
	return home.node == here.node ? step_ns : 3 * step_ns;
}

/* 424 moves a sticky task so far from other CPUs that they take it only if there is no other. */
static u64 deadline_if_sticky(const struct task_struct *p, s32 cpu)
{
	if (!is_sticky(p))
		return p->scx.dsq_vtime;
	return p->scx.dsq_vtime << locality(scx_bpf_task_cpu(p), cpu);
}

/* ---- picking ------------------------------------------------------------------------------- */

struct choice {
	u64 deadline_ns; /* as seen from the CPU that looks; NEVER_NS if there is none */
	s32 pid;
	bool expired; /* taken without comparing it with the rest */
};

/* The queued task of a class with the earliest deadline for a CPU; the first of equals. */
static struct choice earliest_deadline_task(u32 class, s32 cpu, u64 now_ns)
{
	struct choice best = {.deadline_ns = NEVER_NS};
	u64 expired_ns = version == 313 || first_expired_wins ? now_ns : 0;
	u64 seen_ns, too_late_ns = NEVER_NS;
	struct location here = location_of(cpu);
	bool goes_by_distance = version < 424;
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, class, 0) {
		/* From nowhere a deadline is seen earlier than it is. */
		seen_ns = p->scx.dsq_vtime;
		if (seen_ns >= too_late_ns)
			continue;
		if (goes_by_distance)
			seen_ns += distance_ns(p, here);
		else
			seen_ns = deadline_if_sticky(p, cpu);
		if (seen_ns >= too_late_ns || !bpf_cpumask_test_cpu((u32)cpu, p->cpus_ptr))
			continue;
		best.deadline_ns = seen_ns;
		best.pid = p->pid;
		best.expired = seen_ns < expired_ns;
		if (best.expired)
			break;
		too_late_ns = max(seen_ns, expired_ns);
	}
	return best;
}

/* Moves a queued task to the CPU that dispatches; false if it is not in this queue any more. */
static bool take(u32 class, s32 pid)
{
	struct task_struct *first, *chosen;
	struct bfs_cpu *home;
	bool taken = false;

	bpf_for_each(scx_dsq, first, class, 0) {
		chosen = bpf_task_from_pid(pid);
		if (!chosen)
			break;
		home = cpu_record(scx_bpf_task_cpu(chosen));
		if (home->sticky_pid == pid)
			home->sticky_pid = 0;
		taken = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, chosen, SCX_DSQ_LOCAL, 0);
		bpf_task_release(chosen);
		break;
	}
	return taken;
}

static void note_running(s32 cpu, const struct task_struct *p)
{
	struct bfs_cpu *here = cpu_record(cpu);

	here->deadline_ns = p->scx.dsq_vtime;
	here->class = class_of(p);
}

/* Lets prev compete from the tail of its list; true if this class found the CPU a task. */
static bool pick_from(u32 class, s32 cpu, struct task_struct *prev, u64 now_ns)
{
	bool prev_competes = prev && class_of(prev) == class;
	struct choice best = {.deadline_ns = NEVER_NS};

	if (scx_bpf_dsq_nr_queued(class))
		best = earliest_deadline_task(class, cpu, now_ns);
	if (prev_competes && !best.expired && prev->scx.dsq_vtime < best.deadline_ns) {
		prev->scx.slice = SCX_SLICE_INF;
		note_running(cpu, prev);
		return true;
	}
	return best.pid && (take(class, best.pid) || scx_bpf_dsq_move_to_local(class));
}

void BPF_STRUCT_OPS(bfs_dispatch, s32 cpu, struct task_struct *prev)
{
	struct bfs_task *task = prev ? record_of(prev) : NULL;
	u64 now_ns = scx_bpf_now();

	if (task && task->runs)
		settle(prev, task, now_ns);
	else
		prev = NULL;
	if (!pick_from(CLASS_NORMAL, cpu, prev, now_ns))
		pick_from(CLASS_IDLEPRIO, cpu, prev, now_ns);
}

/* ---- waking up ----------------------------------------------------------------------------- */

/* Where a search for an idle CPU saw a busy one: its number, by the number of a cache or node. */
u64 busy_in_cache[CPUS_MAX];
u64 busy_in_node[CPUS_MAX];
u64 nr_searches;

/* Fixed by init: the caches with more than one core, and the nodes with more than one cache. */
bool has_cores[CPUS_MAX];
bool has_caches[CPUS_MAX];
u32 first_core[CPUS_MAX];  /* of a cache, and one more; 0 before any was seen */
u32 first_cache[CPUS_MAX]; /* of a node, likewise */

static u64 look_for_busy_cpus(const struct cpumask *idle_cpus)
{
	u64 search = __sync_fetch_and_add(&nr_searches, 1) + 1;
	s32 cpu;

	bpf_for(cpu, 0, nr_cpus) {
		struct location at = location_of(cpu);

		if (bpf_cpumask_test_cpu((u32)cpu, idle_cpus) || !cpu_is_online((u32)cpu))
			continue;
		busy_in_cache[at.cache & (CPUS_MAX - 1)] = search;
		busy_in_node[at.node & (CPUS_MAX - 1)] = search;
	}
	return search;
}

/* The ranking of 424 if the numbers of domains begin with 0: caches are asked where it means cores,
 * and nodes where it means caches. */
static u32 idle_rank_by_domains(s32 home, s32 cpu, u64 search)
{
	struct location at = location_of(cpu);
	u32 cache = at.cache & (CPUS_MAX - 1), node = at.node & (CPUS_MAX - 1);
	u32 away = locality(home, cpu);

	return (has_cores[cache] && busy_in_cache[cache] == search ? 16 : 0) +
	       (has_caches[node] && busy_in_node[node] == search ? 4 : 0) + (away > 2 ? 8 : away);
}

/* How badly an idle CPU suits a task that last ran on `home`. 302 takes the first. */
static u32 idle_rank(s32 home, s32 cpu, bool whole_core_idles)
{
	enum cpu_distance distance = distance_between(home, cpu);

	if (version < 313)
		return distance != DISTANCE_SAME;
	return (distance == DISTANCE_REMOTE ? 8 : 0) + (whole_core_idles ? 0 : 4) +
	       (distance != DISTANCE_SAME ? 2 : 0) + (distance > DISTANCE_CACHE ? 1 : 0);
}

static bool is_idle_for(const struct task_struct *p, s32 cpu, const struct cpumask *idle_cpus)
{
	return bpf_cpumask_test_cpu((u32)cpu, idle_cpus) &&
	       bpf_cpumask_test_cpu((u32)cpu, p->cpus_ptr) && cpu_is_online((u32)cpu);
}

/* The idle CPU that suits a task best, or -1. To 424 that is the task's own, whatever else its core
 * does. */
static s32 best_idle_among(const struct task_struct *p, const struct cpumask *idle_cpus,
			   const struct cpumask *idle_cores)
{
	s32 home = scx_bpf_task_cpu(p), best = -1, cpu;
	bool by_domains = version >= 424 && domains_from_zero;
	u32 rank, best_rank = ~0U;
	u64 search = 0;

	if (version >= 424 && is_idle_for(p, home, idle_cpus))
		return home;
	if (by_domains)
		search = look_for_busy_cpus(idle_cpus);
	bpf_for(cpu, 0, nr_cpus) {
		if (!is_idle_for(p, cpu, idle_cpus))
			continue;
		rank = by_domains
			       ? idle_rank_by_domains(home, cpu, search)
			       : idle_rank(home, cpu, bpf_cpumask_test_cpu((u32)cpu, idle_cores));
		if (rank < best_rank) {
			best_rank = rank;
			best = cpu;
		}
	}
	return best;
}

static s32 best_idle_cpu(const struct task_struct *p)
{
	const struct cpumask *idle_cpus = scx_bpf_get_idle_cpumask();
	const struct cpumask *idle_cores = scx_bpf_get_idle_smtmask();
	s32 best = best_idle_among(p, idle_cpus, idle_cores);

	scx_bpf_put_idle_cpumask(idle_cores);
	scx_bpf_put_idle_cpumask(idle_cpus);
	return best;
}

/* Wakes the best idle CPU for a queued task; false if there is none. */
static bool wake_idle_cpu(const struct task_struct *p)
{
	s32 cpu = best_idle_cpu(p);

	if (cpu < 0)
		return false;
	/* The core itself wakes the CPU that a task wakes up on. */
	if (scx_bpf_test_and_clear_cpu_idle(cpu) && cpu != scx_bpf_task_cpu(p))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return true;
}

/* Preempts the CPU that runs the lowest class or the latest deadline, if p comes before that. */
static void try_preempt(const struct task_struct *p)
{
	s32 home = scx_bpf_task_cpu(p), latest_cpu = -1, cpu;
	u32 class, latest_class = 0;
	s64 deadline_ns, latest_ns = 0;

	if (class_of(p) == CLASS_IDLEPRIO)
		return;
	bpf_for(cpu, 0, nr_cpus) {
		class = cpu_record(cpu)->class;
		if (class == CLASS_NONE || !bpf_cpumask_test_cpu((u32)cpu, p->cpus_ptr))
			continue;
		deadline_ns = (s64)(cpu_record(cpu)->deadline_ns -
				    (version < 424 ? distance_ns(p, location_of(cpu)) : 0));
		if (latest_cpu < 0 || class > latest_class ||
		    (class == latest_class &&
		     (deadline_ns > latest_ns || (deadline_ns == latest_ns && cpu == home)))) {
			latest_cpu = cpu;
			latest_class = class;
			latest_ns = deadline_ns;
		}
	}
	if (latest_cpu >= 0 && (latest_class > CLASS_NORMAL || (s64)p->scx.dsq_vtime < latest_ns))
		scx_bpf_kick_cpu(latest_cpu, SCX_KICK_PREEMPT);
}

/* A new process runs before its parent, which keeps its place by deadline; in 302 and 313 a new
 * thread does not, since it wants the memory that its parent has in the cache. */
static bool goes_before_parent(const struct task_struct *p)
{
	const struct task_struct *parent = p->real_parent;

	return version >= 424 || (parent && p->mm != parent->mm);
}

/* Whose CPU should a task get that became runnable while no CPU idles? */
static void preempt_for(const struct task_struct *p, struct bfs_task *task)
{
	if (task->is_new && goes_before_parent(p))
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
	else if (task->is_new || !task->woken_by_sleeper)
		try_preempt(p);
}

/* A task stays where it ran until a CPU picks it: that is what distances are counted from. */
s32 BPF_STRUCT_OPS(bfs_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct bfs_task *task = record_of(p);

	if (task)
		task->woken_by_sleeper = wake_flags & SCX_WAKE_SYNC;
	return prev_cpu;
}

void BPF_STRUCT_OPS(bfs_runnable, struct task_struct *p, u64 enq_flags)
{
	struct bfs_task *task = record_of(p);

	if (task)
		task->arrives = true;
}

void BPF_STRUCT_OPS(bfs_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct bfs_task *task = record_of(p);

	if (!task) {
		scx_bpf_error("task %d has no record", p->pid);
		return;
	}
	if (is_used_up(task))
		refill(p, task, scx_bpf_now());
	/* The slice is the policy's to end, in tick, since the core forgets the rest of one. */
	scx_bpf_dsq_insert(p, class_of(p), SCX_SLICE_INF, enq_flags);
	if (!wake_idle_cpu(p) && task->arrives)
		preempt_for(p, task);
	task->arrives = false;
	task->is_new = false;
	task->woken_by_sleeper = false;
}

/* ---- running ------------------------------------------------------------------------------- */

void BPF_STRUCT_OPS(bfs_running, struct task_struct *p)
{
	struct bfs_task *task = record_of(p);
	s32 cpu = scx_bpf_task_cpu(p);
	u64 now_ns = scx_bpf_now();

	if (!task)
		return;
	task->runs = true;
	task->charged_at_ns = now_ns;
	note_running(cpu, p);
	cpu_record(cpu)->dithers =
		(u64)time_delta(now_ns, cpu_record(cpu)->tick_at_ns) <= jiffy_ns / 2;
}

/* Whether a tick that finds this much of the slice lets the task run on. 424 evens out that ticks
 * do not come when tasks begin: one that began early in a period may end half a period early. */
static bool runs_on(const struct bfs_task *task, const struct bfs_cpu *here)
{
	if (version >= 424 && here->dithers)
		return task->left_ns > jiffy_ns / 2;
	return !is_used_up(task);
}

void BPF_STRUCT_OPS(bfs_tick, struct task_struct *p)
{
	struct bfs_task *task = record_of(p);
	struct bfs_cpu *here = cpu_record(scx_bpf_task_cpu(p));
	u64 now_ns = scx_bpf_now();

	here->tick_at_ns = now_ns;
	if (!task)
		return;
	charge(task, now_ns);
	if (runs_on(task, here))
		return;
	task->left_ns = 0;
	p->scx.slice = 0;
}

void BPF_STRUCT_OPS(bfs_stopping, struct task_struct *p, bool runnable)
{
	struct bfs_task *task = record_of(p);
	struct bfs_cpu *here = cpu_record(scx_bpf_task_cpu(p));

	here->class = CLASS_NONE;
	if (runnable)
		here->sticky_pid = p->pid;
	if (!task)
		return;
	settle(p, task, scx_bpf_now());
	task->runs = false;
}

/* 302 and 313 take a yield for a used-up slice; 424 only sends the task to the tail of its list. */
bool BPF_STRUCT_OPS(bfs_yield, struct task_struct *p, struct task_struct *to)
{
	struct bfs_task *task = record_of(p);

	p->scx.slice = 0;
	if (task && version < 424)
		refill(p, task, scx_bpf_now());
	return false;
}

/* ---- birth and death ----------------------------------------------------------------------- */

/* A child gets half of what its parent has left, and the parent's deadline. In 424 a parent that
 * has too little to share gives it up, and the child begins like any new task. */
static void split_slice(struct task_struct *p, struct bfs_task *child)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct bfs_task *task = record_of(parent);

	if (!task || !task->runs)
		return;
	charge(task, scx_bpf_now());
	if (version >= 424 && task->left_ns < 2 * RESCHEDULE_NS) {
		task->left_ns = 0;
		return;
	}
	task->left_ns /= 2;
	child->left_ns = task->left_ns;
	child->in_first_slice = version < 424;
	p->scx.dsq_vtime = parent->scx.dsq_vtime;
}

s32 BPF_STRUCT_OPS(bfs_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct bfs_task *task =
		bpf_task_storage_get(&bfs_tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!task)
		return -ENOMEM;
	task->is_new = args->fork;
	if (args->fork)
		split_slice(p, task);
	return 0;
}

/* A child that dies in its first slice gives the rest back, so that forking costs nothing. */
void BPF_STRUCT_OPS(bfs_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct bfs_task *task = record_of(p), *parent;

	if (!task || !task->in_first_slice)
		return;
	parent = record_of(p->real_parent);
	if (parent)
		parent->left_ns = min(parent->left_ns + task->left_ns, slice_ns);
}

/* ---- the machine --------------------------------------------------------------------------- */

/* Each nice level has a deadline a tenth farther away than the one before. */
static void fill_by_ratio(u64 ratio, u64 interval_ms)
{
	u32 level;

	bpf_for(level, 0, NICE_LEVELS) {
		u64 jiffies = ratio * interval_ms * CONFIG_HZ / (MSEC_PER_SEC * 100);

		if (version < 424)
			deadline_offset_ns[level & 63] = max(jiffies, 1ULL) * jiffy_ns;
		else
			deadline_offset_ns[level & 63] =
				ratio * interval_ms * (BINARY_MSEC_NS >> RATIO_BITS);
		cache_distance_ns[level & 63] = ratio * interval_ms / 100 * jiffy_ns;
		ratio = ratio * 11 / 10;
	}
}

/* Each nice level has a deadline two slices farther away than the one before, if HZ is 1000. */
static void fill_linearly(u64 interval_ms)
{
	u32 level;

	bpf_for(level, 0, NICE_LEVELS) {
		u64 slices = level + 1;

		deadline_offset_ns[level & 63] =
			slices * interval_ms * CONFIG_HZ / (MSEC_PER_SEC / 2) * jiffy_ns;
		/* Milliseconds that the original takes for ticks. */
		cache_distance_ns[level & 63] = slices * interval_ms * jiffy_ns;
	}
}

/* 302 and 313 lengthen slices with the logarithm of the number of CPUs. */
static u64 scaled_interval_ms(void)
{
	u64 doublings = 1;
	u32 i;

	if (version >= 424)
		return rr_interval_ms;
	bpf_for(i, 1, 32) {
		if (nr_cpus >> i)
			doublings++;
	}
	return rr_interval_ms * doublings;
}

/* True if a part of a whole is not the one that was seen first; parts and wholes have numbers. */
static bool is_another(u32 *first, u32 part)
{
	if (!*first)
		*first = part + 1;
	return *first != part + 1;
}

/* A domain that holds no more than the one below it is none: Linux takes it out. */
static void note_domains(void)
{
	u32 core, cache, node;
	s32 cpu;

	bpf_for(cpu, 0, nr_cpus) {
		core = topology_core[(u32)cpu & (CPUS_MAX - 1)];
		cache = location_of(cpu).cache & (CPUS_MAX - 1);
		node = location_of(cpu).node & (CPUS_MAX - 1);
		if (is_another(&first_core[cache], core))
			has_cores[cache] = true;
		if (is_another(&first_cache[node], cache))
			has_caches[node] = true;
	}
}

/* The others find in the queues what this CPU leaves; nobody sticks to it any more. */
void BPF_STRUCT_OPS(bfs_cpu_offline, s32 cpu)
{
	cpu_record(cpu)->sticky_pid = 0;
	give_back_stranded(CLASS_NORMAL, cpu);
	give_back_stranded(CLASS_IDLEPRIO, cpu);
}

/* It looks into the queues as soon as it can. Without this operation the kernel ends the policy. */
void BPF_STRUCT_OPS(bfs_cpu_online, s32 cpu)
{
}

s32 BPF_STRUCT_OPS_SLEEPABLE(bfs_init)
{
	u64 interval_ms;
	s32 cpu, err;

	if (version != 302 && version != 313 && version != 424) {
		scx_bpf_error("version is %u, not 302, 313 or 424", version);
		return -EINVAL;
	}
	if (!tunable_is_within(rr_interval_ms, 1, RR_INTERVAL_MS_MAX))
		return -EINVAL;
	nr_cpus = min(scx_bpf_nr_cpu_ids(), (u32)CPUS_MAX);
	jiffy_ns = NSEC_PER_SEC / CONFIG_HZ;
	interval_ms = scaled_interval_ms();
	slice_ns = interval_ms * (version < 424 ? NSEC_PER_MSEC : BINARY_SLICE_MSEC_NS);
	if (version == 302)
		fill_linearly(interval_ms);
	else
		fill_by_ratio(version == 313 ? 100 : 1 << RATIO_BITS, interval_ms);
	note_domains();
	bpf_for(cpu, 0, nr_cpus)
		cpu_record(cpu)->class = CLASS_NONE;
	err = scx_bpf_create_dsq(CLASS_NORMAL, -1);
	return err ? err : scx_bpf_create_dsq(CLASS_IDLEPRIO, -1);
}

void BPF_STRUCT_OPS(bfs_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(bfs_ops,
	       .select_cpu = (void *)bfs_select_cpu,
	       .runnable = (void *)bfs_runnable,
	       .enqueue = (void *)bfs_enqueue,
	       .dispatch = (void *)bfs_dispatch,
	       .running = (void *)bfs_running,
	       .tick = (void *)bfs_tick,
	       .stopping = (void *)bfs_stopping,
	       .yield = (void *)bfs_yield,
	       .init_task = (void *)bfs_init_task,
	       .exit_task = (void *)bfs_exit_task,
	       .cpu_online = (void *)bfs_cpu_online,
	       .cpu_offline = (void *)bfs_cpu_offline,
	       .init = (void *)bfs_init,
	       .exit = (void *)bfs_exit,
	       .name = "bfs");
