/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* linux_2_4 - the waiting task of the highest goodness runs next; each pick looks at all of them.
 *
 * One list of runnable tasks and one lock serve all CPUs. A task has a counter of ticks; its
 * goodness is that counter, its nice value, 15 for the CPU where it ran last and 1 for an address
 * space that need not be switched, or 0 with no tick left. When all that wait have none left an
 * epoch ends: every task of the system gets counter / 2 + ticks of its nice value. Whoever
 * sleeps through epochs thus collects up to two of them. A wake-up takes an idle CPU, or
 * preempts where its goodness is furthest above that of the running task.
 *
 * Guarantee: hogs share a CPU by the ticks of their nice values (0: 60 ms an epoch, 19: 10 ms),
 * and none waits longer than the counters of the others, sleepers that preempt aside.
 * The price: a pick is O(waiting tasks) with the lock held, whatever the number of CPUs.
 *
 * Ignored or approximated:
 *  1. End of an epoch: Linux visits every task, sleeping ones too, under tasklist_lock. Here
 *     epochs are numbered and each task catches up when it is looked at: the counters are equal,
 *     but the visit costs nothing. The second walk that follows is there and is charged.
 *  2. The lock is held for each walk and each change of the list, not for all of schedule().
 *  3. The list keeps its order as a number in each task, since a dispatch queue cannot take a
 *     task back where it stood. Of equal tasks the first in that order runs, as in Linux.
 *  4. Ticks are counted on a grid of tick_ns that all CPUs share, and act at the host's ticks.
 *  5. A child's remaining ticks return to its parent when the child is gone, not when the parent
 *     has waited for it.
 *  6. Linux preempts only on return to user mode; the host may do so inside the kernel.
 *  7. The first of two wakers claims an idle CPU; in Linux both may choose the same.
 *  8. Real-time tasks never come here. sched_ext does not tell that the wake-up of a task bound to
 *     one CPU is synchronous.
 *
 * Source: Linux 2.4.16 and 2.4.19 kernel/sched.c (goodness, schedule, reschedule_idle),
 * kernel/timer.c, kernel/fork.c, kernel/exit.c; 2.4.18 lies between them.
 */
#include <scx/common.bpf.h>
#include <scx/hotplug.bpf.h>
#include <scx/tunables.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Length of a tick; ns. Ticks an epoch grants follow from it, as they followed from HZ. */
const volatile u64 tick_ns = 10 * NSEC_PER_MSEC;
/* Goodness of a task for the CPU where it ran last; i386 has 15, alpha and sparc64 20. */
const volatile u64 affinity_bonus = 15;
/* A child's end leaves its parent with at most this many ns of ticks. */
const volatile u64 counter_max_ns = 200 * NSEC_PER_MSEC;

#define RUN_QUEUE 0
#define CPUS_MAX 4096 /* a power of two */
/* Half of the rest is lost each epoch: after these many a counter stays where it is. */
#define EPOCHS_KEPT 16
#define PICK_TRIES 4
#define AFFINITY_BONUS_MAX 1000000 /* its sum with a counter of ticks fits an s32 */

#define GOODNESS_IDLE (-1000)
#define GOODNESS_YIELDED (-1)
#define GOODNESS_EXHAUSTED 0

/* A task's ticks, as of an epoch and, while it runs, as of a time. */
struct account {
	u64 epoch;
	u64 ticked_at_ns; /* ticks after this are not taken off yet, if is_running */
	u32 counter;
	s32 nice;
	u32 grant; /* ticks that an epoch adds, by the nice value */
	bool is_running;
};

struct task {
	struct account account;
	s64 rank;      /* place in the list: the lowest stands first */
	u64 mm;        /* address space, as of when it was queued */
	s32 processor; /* CPU it ran on last */
	bool has_yielded;
	bool is_placed; /* select_cpu has done all that this wake-up may do */
	bool is_new;    /* forked, and not queued yet */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} tasks SEC(".maps");

struct cpu {
	struct account account; /* the running task's as of its last tick, or not is_running */
	u64 mm;                 /* address space in use, also while the CPU idles */
	u64 scheduled_at_ns;    /* when it last picked */
	u64 left_at_ns;         /* when leaver_pid gave the CPU up */
	s32 leaver_pid;         /* who blocked and pays for the pick of the next task, or 0 */
};

static struct cpu cpus[CPUS_MAX];
static u32 nr_cpus;

/* Epochs so far; the last of them ended at epoch_ended_at_ns[epoch % EPOCHS_KEPT]. */
static u64 epoch;
static u64 epoch_ended_at_ns[EPOCHS_KEPT];

static s64 first_rank, last_rank;

static struct cpu *cpu_at(u32 cpu)
{
	return &cpus[cpu & (CPUS_MAX - 1)];
}

static struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

static u64 address_space(const struct task_struct *p)
{
	return (u64)(unsigned long)p->mm;
}

/* ---- ticks --------------------------------------------------------------------------------- */

/* Ticks that an epoch grants; the scale kept an epoch near 60 ms whatever HZ was. */
static u32 ticks_of(s32 nice)
{
	u64 hz = NSEC_PER_SEC / tick_ns;
	u32 scale = (u32)(20 - nice);

	if (hz < 200)
		return (scale >> 2) + 1;
	if (hz < 400)
		return (scale >> 1) + 1;
	if (hz < 800)
		return scale + 1;
	return hz < 1600 ? (scale << 1) + 1 : (scale << 2) + 1;
}

/* A tick is charged in full to whoever runs when it comes. */
static void take_ticks(struct account *account, u64 now)
{
	u64 ticks;

	if (!account->is_running || now <= account->ticked_at_ns)
		return;
	ticks = now / tick_ns - account->ticked_at_ns / tick_ns;
	account->counter -= (u32)min((u64)account->counter, ticks);
	account->ticked_at_ns = now;
}

/* Applies the epochs up to one that is at most EPOCHS_KEPT later. */
static void catch_up(struct account *account, u64 current)
{
	bpf_repeat(EPOCHS_KEPT) {
		if (account->epoch == current)
			break;
		account->epoch++;
		take_ticks(account, epoch_ended_at_ns[account->epoch & (EPOCHS_KEPT - 1)]);
		account->counter = (account->counter >> 1) + account->grant;
	}
}

/* Applies what has happened since an account was written: epochs, and ticks before and after;
 * returns the counter. Not static: a kernel's verifier then looks at the loop once and for all. */
__noinline u32 bring_up_to(struct account *account __arg_nonnull, u64 now)
{
	u64 current = epoch;

	if (current - account->epoch > EPOCHS_KEPT)
		account->epoch = current - EPOCHS_KEPT;
	/* Most are up to date, and to begin an iteration is a call. */
	if (account->epoch != current)
		catch_up(account, current);
	take_ticks(account, now);
	return account->counter;
}

/* The counter of an account that is left as it is. Not static, for the same reason. */
__noinline u32 counter_brought_up_to(const struct account *account __arg_nonnull, u64 now)
{
	struct account copy = *account;

	return bring_up_to(&copy, now);
}

/* The counter of a task that waits; most have been queued in this epoch. */
static u32 counter_of_waiting(const struct account *account, u64 now)
{
	return account->epoch == epoch ? account->counter : counter_brought_up_to(account, now);
}

static u32 counter_at(const struct account *account, u64 now)
{
	return account->is_running ? counter_brought_up_to(account, now)
				   : counter_of_waiting(account, now);
}

/* All that wait are exhausted: a new epoch, unless another CPU has just begun it. */
static void end_epoch(u64 seen, u64 now)
{
	epoch_ended_at_ns[(seen + 1) & (EPOCHS_KEPT - 1)] = now;
	__sync_val_compare_and_swap(&epoch, seen, seen + 1);
}

/* Ends in the tick that takes the last one off; linux_2_4_tick sees to it. */
static u64 slice_of(const struct account *account)
{
	return max(account->counter, 1U) * tick_ns;
}

/* ---- goodness ------------------------------------------------------------------------------ */

static s32 goodness(const struct account *account, bool ran_here, bool shares_mm, u64 now)
{
	u32 counter = counter_at(account, now);

	if (!counter)
		return GOODNESS_EXHAUSTED;
	return (s32)counter + (ran_here ? (s32)affinity_bonus : 0) + (shares_mm ? 1 : 0) + 20 -
	       account->nice;
}

/* Whether a CPU whose address space in use is `mm` needs no other for a task; kernel threads use
 * any. */
static bool shares_mm(const struct task *t, u64 mm)
{
	return !t->mm || t->mm == mm;
}

/* How good a task is for a CPU whose address space in use is `mm`. */
static s32 goodness_of(const struct task *t, s32 cpu, u64 mm, u64 now)
{
	return goodness(&t->account, t->processor == cpu, shares_mm(t, mm), now);
}

/* ---- waking up ----------------------------------------------------------------------------- */

/* The CPU a task ran on last if that is idle, else the one idle for longest; claims it. */
static s32 claim_idle_cpu(struct task_struct *p, const struct task *t)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	u64 oldest_ns = ~0ULL;
	s32 best = -1;
	u32 cpu;

	bpf_for(cpu, 0, nr_cpus) {
		u64 at_ns = (s32)cpu == t->processor ? 0 : cpu_at(cpu)->scheduled_at_ns + 1;

		if (at_ns < oldest_ns && bpf_cpumask_test_cpu(cpu, idle) &&
		    bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && cpu_is_online(cpu)) {
			oldest_ns = at_ns;
			best = (s32)cpu;
		}
	}
	scx_bpf_put_idle_cpumask(idle);
	return best >= 0 && scx_bpf_test_and_clear_cpu_idle(best) ? best : -1;
}

/* The CPU on which a task is furthest better than what runs there; -1 if on none. */
static s32 cpu_to_preempt(struct task_struct *p, const struct task *t, u64 now)
{
	s32 best = -1, best_gain = 0;
	u32 cpu;

	bpf_for(cpu, 0, nr_cpus) {
		const struct cpu *c = cpu_at(cpu);
		s32 gain;

		if (!c->account.is_running || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		gain = goodness_of(t, (s32)cpu, c->mm, now) -
		       goodness(&c->account, true, true, now);
		if (gain > best_gain) {
			best_gain = gain;
			best = (s32)cpu;
		}
	}
	return best;
}

/* Finds a task that has just been queued a CPU; with none it waits. */
static void reschedule_idle(struct task_struct *p, const struct task *t)
{
	s32 cpu = claim_idle_cpu(p, t);

	if (cpu >= 0) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	cpu = cpu_to_preempt(p, t, scx_bpf_now());
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* An idle CPU that is returned will look at the list. After a synchronous wake-up nobody else
 * is told: the waker's CPU is about to look anyway. */
s32 BPF_STRUCT_OPS(linux_2_4_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 here = (s32)bpf_get_smp_processor_id();
	struct task *t = task_of(p);
	s32 idle;

	if (!t)
		return prev_cpu;
	t->is_placed = true;
	if ((wake_flags & SCX_WAKE_SYNC) && bpf_cpumask_test_cpu(here, p->cpus_ptr))
		return here;
	idle = claim_idle_cpu(p, t);
	if (idle >= 0)
		return idle;
	t->is_placed = false;
	return prev_cpu;
}

/* Whoever becomes runnable stands first in the list. */
void BPF_STRUCT_OPS(linux_2_4_runnable, struct task_struct *p, u64 enq_flags)
{
	struct task *t = task_of(p);

	if (t)
		t->rank = __sync_fetch_and_add(&first_rank, -1) - 1;
}

/* A parent that has given its last ticks to its child makes way once the child is queued. In
 * init_task a kernel would preempt it at once, and bound to its CPU: whoever runs a program there
 * cannot migrate, and would wait beside idle CPUs. */
static void end_turn_of_parent(void)
{
	struct task *parent = task_of(bpf_get_current_task_btf());

	if (parent && parent->account.is_running && !parent->account.counter)
		scx_bpf_kick_cpu((s32)bpf_get_smp_processor_id(), SCX_KICK_PREEMPT);
}

/* A task that was preempted is offered to other CPUs, one that yielded is not. A CPU may have
 * gone idle since select_cpu looked, so the search is made again once the task is queued. */
void BPF_STRUCT_OPS(linux_2_4_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task *t = task_of(p);
	bool has_yielded;

	if (!t)
		return;
	t->mm = address_space(p);
	bring_up_to(&t->account, scx_bpf_now());
	has_yielded = t->has_yielded;
	t->has_yielded = false;
	scx_bpf_dsq_insert(p, RUN_QUEUE, tick_ns, enq_flags);
	if (!has_yielded && !t->is_placed)
		reschedule_idle(p, t);
	t->is_placed = false;
	if (t->is_new)
		end_turn_of_parent();
	t->is_new = false;
}

/* ---- picking ------------------------------------------------------------------------------- */

struct candidate {
	s32 goodness;
	s32 pid;
	s64 rank;
};

/* How good a task is for a CPU that picks, whose address space in use is `mm`. */
static s32 goodness_in_pick(const struct task *t, s32 cpu, u64 mm, u64 now)
{
	return t->has_yielded ? GOODNESS_YIELDED : goodness_of(t, cpu, mm, now);
}

static void consider(struct candidate *best, struct task_struct *p, const struct task *t, s32 cpu,
		     s32 good)
{
	if (good < best->goodness || (good == best->goodness && t->rank > best->rank) ||
	    !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return;
	best->goodness = good;
	best->pid = p->pid;
	best->rank = t->rank;
}

/* Looks at a task that waits, and so neither runs nor has yielded. Most are not good enough even if
 * they have ticks left and the address space is theirs: of these no more is looked at. */
static void look_at(struct candidate *best, struct task_struct *p, const struct task *t, s32 cpu,
		    u64 mm, s32 bonus, u64 now)
{
	u32 counter = counter_of_waiting(&t->account, now);
	s32 most = (s32)counter - t->account.nice + (t->processor == cpu ? bonus + 20 + 1 : 20 + 1);

	if (most < best->goodness)
		return;
	if (!counter)
		most = GOODNESS_EXHAUSTED;
	else if (!shares_mm(t, mm))
		most--;
	consider(best, p, t, cpu, most);
}

/* The walk over the whole list, with its lock held: what Linux 2.4 is slow for. The best is taken
 * out before the lock is given back, unless it is prev, or a new epoch must begin first. The newest
 * is looked at first, as there; its rank decides between equals, so the order only saves work. */
static bool take_best(struct candidate *best, s32 cpu, s32 prev_pid, u64 now)
{
	struct task_struct *p, *chosen;
	struct bpf_iter_scx_dsq walk;
	s32 bonus = (s32)affinity_bonus;
	u64 mm = cpu_at(cpu)->mm;
	bool taken = false;

	bpf_iter_scx_dsq_new(&walk, RUN_QUEUE, SCX_DSQ_ITER_REV);
	while ((p = bpf_iter_scx_dsq_next(&walk))) {
		struct task *t = task_of(p);

		if (t)
			look_at(best, p, t, cpu, mm, bonus, now);
	}
	if (best->goodness != GOODNESS_EXHAUSTED && best->pid && best->pid != prev_pid) {
		chosen = bpf_task_from_pid(best->pid);
		if (chosen) {
			taken = scx_bpf_dsq_move(&walk, chosen, SCX_DSQ_LOCAL, 0);
			bpf_task_release(chosen);
		}
	}
	bpf_iter_scx_dsq_destroy(&walk);
	return taken;
}

/* The wait for the lock and the walk are time of the task that blocked: Linux leaves its stack only
 * once the next one is chosen, so the ticks that come meanwhile are charged to it. */
static void charge_leaver(s32 cpu)
{
	struct cpu *c = cpu_at(cpu);
	struct task_struct *p;
	struct task *t;

	if (!c->leaver_pid)
		return;
	p = bpf_task_from_pid(c->leaver_pid);
	c->leaver_pid = 0;
	if (!p)
		return;
	t = task_of(p);
	if (t && !t->account.is_running) {
		t->account.is_running = true;
		t->account.ticked_at_ns = c->left_at_ns;
		bring_up_to(&t->account, scx_bpf_now());
		t->account.is_running = false;
	}
	bpf_task_release(p);
}

void BPF_STRUCT_OPS(linux_2_4_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task *t = prev ? task_of(prev) : NULL;
	u64 now = scx_bpf_now();
	s32 prev_pid;

	/* A kernel may also pass a task that has just blocked. */
	if (t && !t->account.is_running)
		t = NULL;
	prev_pid = t ? prev->pid : 0;
	cpu_at(cpu)->scheduled_at_ns = now;
	bpf_repeat(PICK_TRIES) {
		struct candidate best = {.goodness = GOODNESS_IDLE};
		u64 seen = epoch;

		if (t)
			consider(&best, prev, t, cpu,
				 goodness_in_pick(t, cpu, cpu_at(cpu)->mm, now));
		if (take_best(&best, cpu, prev_pid, now) || !best.pid) {
			charge_leaver(cpu);
			return;
		}
		if (best.goodness == GOODNESS_EXHAUSTED) {
			end_epoch(seen, now);
		} else if (best.pid == prev_pid) {
			t->has_yielded = false;
			bring_up_to(&t->account, now);
			scx_bpf_task_set_slice(prev, slice_of(&t->account));
			return;
		}
		/* Else, on a kernel, another CPU has taken the best between walk and move. */
	}
	scx_bpf_dsq_move_to_local(RUN_QUEUE);
}

/* ---- running ------------------------------------------------------------------------------- */

void BPF_STRUCT_OPS(linux_2_4_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_at(cpu);
	struct task *t = task_of(p);
	u64 now = scx_bpf_now();

	if (!t)
		return;
	bring_up_to(&t->account, now);
	t->account.is_running = true;
	t->account.ticked_at_ns = now;
	t->processor = cpu;
	c->account = t->account;
	if (p->mm)
		c->mm = address_space(p);
	scx_bpf_task_set_slice(p, slice_of(&t->account));
}

void BPF_STRUCT_OPS(linux_2_4_tick, struct task_struct *p)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	bring_up_to(&t->account, scx_bpf_now());
	cpu_at(scx_bpf_task_cpu(p))->account = t->account;
	/* A slice that is 0 already is a preemption under way. */
	if (p->scx.slice)
		scx_bpf_task_set_slice(p, t->account.counter ? slice_of(&t->account) : 0);
}

void BPF_STRUCT_OPS(linux_2_4_stopping, struct task_struct *p, bool runnable)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	bring_up_to(&t->account, scx_bpf_now());
	t->account.is_running = false;
	cpu_at(scx_bpf_task_cpu(p))->account.is_running = false;
	if (!runnable) {
		cpu_at(scx_bpf_task_cpu(p))->leaver_pid = p->pid;
		cpu_at(scx_bpf_task_cpu(p))->left_at_ns = scx_bpf_now();
	}
}

/* With somebody waiting a yielding task goes last and loses the next pick even to the exhausted. */
bool BPF_STRUCT_OPS(linux_2_4_yield, struct task_struct *from, struct task_struct *to)
{
	struct task *t = task_of(from);

	if (to || !t || !scx_bpf_dsq_nr_queued(RUN_QUEUE))
		return false;
	t->has_yielded = true;
	t->rank = __sync_fetch_and_add(&last_rank, 1) + 1;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/* ---- tasks come and go --------------------------------------------------------------------- */

/* Parent and child share what the parent had left. */
static u32 split_counter(u32 grant, u64 now)
{
	struct task *parent = task_of(bpf_get_current_task_btf());
	u32 cpu = bpf_get_smp_processor_id();
	u32 left;

	if (!parent)
		return grant;
	bring_up_to(&parent->account, now);
	left = parent->account.counter;
	parent->account.counter = left >> 1;
	cpu_at(cpu)->account = parent->account;
	return (left + 1) >> 1;
}

s32 BPF_STRUCT_OPS(linux_2_4_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	u64 now = scx_bpf_now();

	if (!t)
		return -ENOMEM;
	t->account.nice = task_nice(p);
	t->account.grant = ticks_of(t->account.nice);
	t->account.counter = args->fork ? split_counter(t->account.grant, now) : t->account.grant;
	t->account.epoch = epoch;
	t->processor = scx_bpf_task_cpu(p);
	t->is_new = args->fork;
	return 0;
}

/* Epochs that have ended granted the ticks of the old nice value. */
void BPF_STRUCT_OPS(linux_2_4_set_weight, struct task_struct *p, u32 weight)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	bring_up_to(&t->account, scx_bpf_now());
	t->account.nice = task_nice(p);
	t->account.grant = ticks_of(t->account.nice);
}

void BPF_STRUCT_OPS(linux_2_4_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 most = (u32)(counter_max_ns / tick_ns);
	struct task *t = task_of(p), *parent;
	u64 now = scx_bpf_now();

	if (!t || !p->real_parent)
		return;
	parent = task_of(p->real_parent);
	if (!parent)
		return;
	bring_up_to(&t->account, now);
	bring_up_to(&parent->account, now);
	parent->account.counter = min(parent->account.counter + t->account.counter, most);
}

/* The others find in the list what this CPU leaves. */
void BPF_STRUCT_OPS(linux_2_4_cpu_offline, s32 cpu)
{
	give_back_stranded(RUN_QUEUE, cpu);
}

/* It looks at the list as soon as it can. Without this operation the kernel ends the policy. */
void BPF_STRUCT_OPS(linux_2_4_cpu_online, s32 cpu)
{
}

static bool tunables_are_sound(void)
{
	return tunable_is_within(tick_ns, NSEC_PER_USEC, NSEC_PER_SEC) &&
	       tunable_is_within(affinity_bonus, 0, AFFINITY_BONUS_MAX) &&
	       tunable_is_within(counter_max_ns, 0, TUNABLE_NS_MAX);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(linux_2_4_init)
{
	if (!tunables_are_sound())
		return -EINVAL;
	nr_cpus = scx_bpf_nr_cpu_ids();
	if (nr_cpus > CPUS_MAX)
		return -E2BIG;
	return scx_bpf_create_dsq(RUN_QUEUE, -1);
}

void BPF_STRUCT_OPS(linux_2_4_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(linux_2_4_ops,
	       .select_cpu = (void *)linux_2_4_select_cpu,
	       .runnable = (void *)linux_2_4_runnable,
	       .enqueue = (void *)linux_2_4_enqueue,
	       .dispatch = (void *)linux_2_4_dispatch,
	       .running = (void *)linux_2_4_running,
	       .tick = (void *)linux_2_4_tick,
	       .stopping = (void *)linux_2_4_stopping,
	       .yield = (void *)linux_2_4_yield,
	       .init_task = (void *)linux_2_4_init_task,
	       .set_weight = (void *)linux_2_4_set_weight,
	       .exit_task = (void *)linux_2_4_exit_task,
	       .cpu_online = (void *)linux_2_4_cpu_online,
	       .cpu_offline = (void *)linux_2_4_cpu_offline,
	       .init = (void *)linux_2_4_init,
	       .exit = (void *)linux_2_4_exit,
	       .name = "linux_2_4");
