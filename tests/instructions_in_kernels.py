"""How many instructions a policy's own work takes in a kernel, beside those that are simulated.

`make instructions` runs it, in virtual machines whose clock counts instructions. Two tasks on one
CPU wake each other in turn (`tests/instructions/in_turn.toml`). Under each policy, and under one
with the same operations as empty as can be, it is measured what a switch takes in a kernel: the
difference is the policy's, with the kernel's functions that it calls. What each of these takes is
measured apart, by empty policies that call it more often, and so is what a branch and a function
take more than an instruction. What is left are the policy's own instructions; beside them stand
those of BPF that the simulator counts. One factor, that of plain arithmetic, is for all policies.

Only equal switches can be compared, and what a switch takes is no constant: a policy is played
`PLAYS` times, and the play that takes least is the one that counts, of those in which the policy
preempts as often as in the simulator. If there is none, the row is of the switches before the first
decision that differs; if these are too few, there is no row. What was left out is told.

It prints a row a policy, and exits with 1 if more than one policy in `ROWS_A_MISS` is off by more
than `OFF_MAX`, or if more than one in as many has no row.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from schedlab import catalogue
from schedlab.kernel import agreement, referee

POLICIES = (
    "linux_2_4", "o1", "cfs_2007", "rfs", "cfs", "cfs_gavl", "timering", "bfs", "eevdf",
)  # fmt: skip
SCENARIO = Path(__file__).parent / "instructions" / "in_turn.toml"
OFF_MAX = 0.15
ROWS_A_MISS = 9
# Wake-ups a switch may be so much apart where switches are equal.
WAKEUPS_APART_MAX = 0.02
# Each play hashes dispatch queues in its own way: looking one up takes 23 instructions more for
# each other one that lies before it. And kernel threads interrupt the first plays.
PLAYS = 5
# So many decisions agree where switches can be measured before the first that differs.
AGREEING_MIN = 100
# What is called less often than at every fourth switch is no part of it.
CALLS_A_SWITCH_MIN = 0.25

# What the empty policy has for each operation that the policy has.
EMPTY = {
    "runnable": "void BPF_STRUCT_OPS(empty_runnable, struct task_struct *p, u64 enq_flags) {}",
    "running": "void BPF_STRUCT_OPS(empty_running, struct task_struct *p) {}",
    "stopping": "void BPF_STRUCT_OPS(empty_stopping, struct task_struct *p, bool runnable) {}",
    "quiescent": "void BPF_STRUCT_OPS(empty_quiescent, struct task_struct *p, u64 deq_flags) {}",
    "dequeue": "void BPF_STRUCT_OPS(empty_dequeue, struct task_struct *p, u64 deq_flags) {}",
}
KICK = "\tif (enq_flags & SCX_ENQ_WAKEUP)\n\t\tscx_bpf_kick_cpu(0, SCX_KICK_PREEMPT);\n"
INSERT = "\tscx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, enq_flags);\n"
INSERT_VTIME = "\tscx_bpf_dsq_insert_vtime(p, QUEUE, SCX_SLICE_DFL, p->scx.dsq_vtime, enq_flags);\n"
TAKE = "\tscx_bpf_dsq_move_to_local(QUEUE);\n"
SAVE = 'asm volatile("r6 = 0; r7 = 0; r8 = 0; r9 = 0" ::: "r6", "r7", "r8", "r9");'
# A policy whose queue is in its own memory gives the core its tasks in dispatch.
INSERT_OWN = "\tpids[last++ & 3] = p->pid;\n"
TAKE_OWN = """\
	struct task_struct *q;

	if (first == last)
		return;
	q = bpf_task_from_pid(pids[first++ & 3]);
	if (!q)
		return;
	scx_bpf_dsq_insert(q, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
	bpf_task_release(q);
"""
MOVE = """\
	struct task_struct *q;

	bpf_for_each(scx_dsq, q, QUEUE, 0) {
		if (scx_bpf_dsq_move(BPF_FOR_EACH_ITER, q, SCX_DSQ_LOCAL, 0))
			break;
	}
"""
TEXT = """\
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
#define QUEUE 0
volatile u64 sink;
s32 pids[4];
u32 first, last;
struct locked {{ u64 nr; struct bpf_spin_lock lock; }};
struct {{
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, struct locked);
}} array SEC(".maps");
struct {{
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
}} storage SEC(".maps");
s32 BPF_STRUCT_OPS_SLEEPABLE(empty_init)
{{
	return scx_bpf_create_dsq(QUEUE, -1);
}}
static __maybe_unused __noinline u64 apart(u64 a, u64 b)
{{
	asm volatile("r6 = r1; r7 = r2; r8 = r1; r9 = r2" ::: "r6", "r7", "r8", "r9");
	return a + b;
}}
void BPF_STRUCT_OPS(empty_enqueue, struct task_struct *p, u64 enq_flags)
{{
{insert}{kick}{more}}}
void BPF_STRUCT_OPS(empty_dispatch, s32 cpu, struct task_struct *prev)
{{
{take}}}
{functions}
SCX_OPS_DEFINE(empty_ops, .enqueue = (void *)empty_enqueue, .dispatch = (void *)empty_dispatch,
	{members} .init = (void *)empty_init, .name = "empty");
"""
TIMES = 8
# Policies walk where they pick: there is a task. A walk over nothing takes 105 less.
WALK = "{ struct task_struct *q; bpf_for_each(scx_dsq, q, QUEUE, 0) sink++; }"
FIRST = "{ struct task_struct *q; bpf_for_each(scx_dsq, q, QUEUE, 0) { sink++; break; } }"
# What empty policies do more, to measure what functions of the kernel take that policies call.
PROBES = {
    "now": "sink += scx_bpf_now();",
    "cpu of a task": "sink += scx_bpf_task_cpu(p);",
    "storage": "if (bpf_task_storage_get(&storage, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE)) sink++;",
    "numbers to 2": "{ int i; bpf_for(i, 0, 2) sink++; }",
    "numbers to 6": "{ int i; bpf_for(i, 0, 6) sink++; }",
    "mask": "sink += bpf_cpumask_test_cpu(0, p->cpus_ptr);",
    "task": (
        "{ struct task_struct *q = bpf_task_from_pid(p->pid);"
        " if (q) { sink++; bpf_task_release(q); } }"
    ),
    "slice": "scx_bpf_task_set_slice(p, SCX_SLICE_DFL);",
    "division": "{ u64 x = sink | 1; sink += 1000000007ULL / x; }",
    "arithmetic": (
        "{ u64 x = sink; x ^= x << 13; x ^= x >> 7; x ^= x << 17; x += enq_flags; x ^= x << 13;"
        " x ^= x >> 7; x ^= x << 17; sink = x; }"
    ),
    "branches": (
        '{ u64 x = sink; asm volatile("if %0 == 7 goto +0; if %0 == 9 goto +0;'
        ' if %0 > 99 goto +0; if %0 == 8 goto +0" :: "r"(x)); }'
    ),
    "function": "sink += apart(sink, enq_flags);",
    "length": "sink += scx_bpf_dsq_nr_queued(QUEUE);",
    "idle": "scx_bpf_put_idle_cpumask(scx_bpf_get_idle_cpumask());",
    "array": (
        "{ u32 key = enq_flags & 3; struct locked *one = bpf_map_lookup_elem(&array, &key);"
        " if (one) sink++; }"
    ),
    "lock": (
        "{ u32 key = enq_flags & 3; struct locked *one = bpf_map_lookup_elem(&array, &key);"
        " if (one) { bpf_spin_lock(&one->lock); one->nr++; bpf_spin_unlock(&one->lock); } }"
    ),
}
# Functions that come in pairs or instead of each other: their cost is with the one at the right.
# Those at "" become instructions of the kernel's own where they are called.
TOGETHER = {
    "bpf_iter_num_destroy": "", "bpf_iter_scx_dsq_destroy": "", "bpf_task_release": "",
    "scx_bpf_put_idle_cpumask": "", "bpf_spin_unlock": "", "scx_bpf_dsq_insert___v2": "",
    "scx_bpf_dsq_move_to_local___v2": "scx_bpf_dsq_move_to_local", "bpf_get_smp_processor_id": "",
    "bpf_get_current_task_btf": "", "bpf_probe_read_kernel_str": "",
    "scx_bpf_get_idle_smtmask": "scx_bpf_get_idle_cpumask",
}  # fmt: skip
# What the kernel makes more than one instruction of: a branch compares first, and functions and
# operations save the registers that they need.
TRANSLATED = ("a branch", "a function of its own", "registers saved")


@dataclass(frozen=True)
class Switch:
    """What a switch takes under a policy: instructions in the kernel, all of it, None if there are
    too few switches to compare; instructions of BPF and calls of the kernel by name in the
    simulator; wake-ups a switch in both. `difference` says how switches differ, "" if they do not.
    """

    kernel: float | None
    simulated: float
    calls: Mapping[str, float]
    wakeups: tuple[float, float]
    difference: str = ""


def simulated(source: Path) -> dict:
    policy, workload = catalogue.load_policy(source), catalogue.load_workload(SCENARIO, {})
    machine = catalogue.load_machine(catalogue.find(catalogue.MACHINES, referee.MACHINE))
    simulate = catalogue.native().simulate
    return simulate(policy, machine, workload, 1, {}, profile=True, timeline=True)


def wakeups_a_switch(arm: agreement.Arm) -> float:
    return len(arm.wakeups) / len(arm.stays)


def switch_in_kernel(ours: agreement.Arm, theirs: agreement.Arm) -> tuple[float | None, str]:
    """What a switch takes in a play, and how its switches differ from the simulator's.

    It is measured in the middle half of a play. Who preempts saves a wake-up: where these are
    not as often as in the simulator, switches are others, and it is the middle half of those before
    the first decision that differs; None if they are too few."""
    compared = agreement.compare(ours, theirs, is_stopped=False)
    decisions, difference = compared.played, ""
    at = compared.differs_at
    is_apart = abs(wakeups_a_switch(ours) - wakeups_a_switch(theirs)) > WAKEUPS_APART_MAX
    if is_apart and at is not None:
        decisions = decisions[:at]
        counts = [
            f"{preemptions(made):,} of {len(made):,} switches in the {where}"
            for made, where in ((compared.played, "kernel"), (compared.simulated, "simulator"))
        ]
        difference = f"differs: preempts in {counts[0]}, in {counts[1]}"
        if at < len(compared.played):
            difference += f"; from decision {at} on, at {compared.played[at].at_ns / 1e6:.3f} ms"
        if at < AGREEING_MIN:
            return None, difference
    begin, end = len(decisions) // 4, 3 * len(decisions) // 4
    return (decisions[end].at_ns - decisions[begin].at_ns) / (end - begin), difference


def play_that_counts(measures: Sequence[tuple[float | None, str]]) -> tuple[int, str]:
    """The number of the play that takes least, of those that do not differ if there are any, and
    what is to be told of those that do."""
    differing = [difference for _, difference in measures if difference]

    def rank(play: int) -> tuple[bool, bool, float]:
        took, difference = measures[play]
        return took is None, bool(difference), took or 0.0

    best = min(range(len(measures)), key=rank)
    took, difference = measures[best]
    if took is None:
        return best, f"{difference}: too few switches before that, not compared"
    if difference:
        return best, f"{difference}: the row is of the switches before that"
    if differing:
        return best, f"{differing[0]}: {len(differing)} of {len(measures)} plays left out"
    return best, ""


def preemptions(decisions: Sequence[agreement.Decision]) -> int:
    return sum(decision.left == agreement.PREEMPTED for decision in decisions)


def called_often(result: Mapping) -> dict[str, int]:
    """Instructions of the operations that were called at each switch, or nearly, of a run."""
    least = CALLS_A_SWITCH_MIN * result["switches"]
    operations = result["profile"]["operations"]
    return {one["operation"]: one["instructions"] for one in operations if one["calls"] >= least}


def name_of(function: str, called: str) -> str:
    """What stands for a call of the kernel, "" for one that is not measured: the clock takes longer
    where the kernel has not looked at it since it took the run queue's lock."""
    name = TOGETHER.get(called, called)
    is_late = name == "scx_bpf_now" and function.endswith(("_running", "_dispatch"))
    return f"{name}, not looked at" if is_late else name


def measured(source: Path, saves: Iterable[str] | None = None, plays: int = 1) -> Switch:
    """What a switch takes under the policy of a file. `saves`: the operations that save registers,
    since they keep values while they call the kernel; all if it is left out."""
    result = simulated(source)
    ours = agreement.Arm(result["timeline"], result["timeline_wakeups"])
    played = referee.played(source, [SCENARIO] * plays, referee.KERNEL, {})
    theirs = [referee.arm_of(play) for play in played]
    measures = [switch_in_kernel(ours, arm) for arm in theirs]
    best, difference = play_that_counts(measures)
    switches = result["switches"]
    calls: dict[str, float] = {}
    for one in result["profile"]["kernel_calls"]:
        if of := name_of(one["function"], one["called"]):
            calls[of] = calls.get(of, 0) + one["calls"] / switches
    profile = result["profile"]
    saving = [
        one["calls"] for one in profile["operations"] if saves is None or one["operation"] in saves
    ]
    calls["a division"] = profile["divisions"] / switches
    calls["a branch"] = profile["branches"] / switches
    calls["a function of its own"] = profile["function_calls"] / switches
    calls["registers saved"] = sum(saving) / switches
    return Switch(
        kernel=measures[best][0],
        simulated=sum(called_often(result).values()) / switches,
        calls=calls,
        wakeups=(wakeups_a_switch(theirs[best]), result["wakeups"] / switches),
        difference=difference,
    )


def empty_policy(
    place: Path,
    operations: Iterable[str] = (),
    kick: str = "",
    more: str = "",
    insert: str = INSERT,
    take: str = TAKE,
    saves: Iterable[str] = (),
) -> Switch:
    """What a switch takes under a policy with these operations, which only queues."""
    own = [name for name in EMPTY if name in operations]
    text = TEXT.format(
        insert=insert,
        kick=kick,
        more=f"\t{more}\n" * TIMES if more else "",
        take=take,
        functions="\n".join(EMPTY[name] for name in own),
        members=" ".join(f".{name} = (void *)empty_{name}," for name in own),
    )
    source = place / "empty.bpf.c"
    source.write_text(text)
    switch = measured(source, saves)
    if switch.kernel is None:
        name = ", ".join(own) or "no operations"
        raise SystemExit(f"error: empty policy ({name}) {switch.difference}\nhint: run it again")
    return switch


def less(one: Switch, other: Switch) -> Switch:
    """What one takes more than the other."""
    names = {*one.calls, *other.calls}
    calls = {name: one.calls.get(name, 0) - other.calls.get(name, 0) for name in names}
    both = one.kernel is not None and other.kernel is not None
    return Switch(
        kernel=one.kernel - other.kernel if both else None,
        simulated=one.simulated - other.simulated,
        calls=calls,
        wakeups=one.wakeups,
        difference=one.difference or (other.difference and f"empty policy {other.difference}"),
    )


def probed(place: Path) -> dict[str, Switch]:
    """What each probe takes more than the empty policy."""
    empty = empty_policy(place)
    found = {name: empty_policy(place, more=more) for name, more in PROBES.items()}
    found["by virtual time"] = empty_policy(place, insert=INSERT_VTIME)
    found["moved"] = empty_policy(place, take=MOVE)
    found["walk at dispatch"] = empty_policy(place, take=WALK * TIMES + TAKE)
    found["first at dispatch"] = empty_policy(place, take=FIRST * TIMES + TAKE)
    found["own queue"] = empty_policy(place, insert=INSERT_OWN, take=TAKE_OWN)
    found["saved"] = empty_policy(place, more=SAVE, saves=["enqueue"])
    found["late"] = empty_policy(place, take="\tsink += scx_bpf_now();\n" * TIMES + TAKE)
    return {name: less(one, empty) for name, one in found.items()}


def of_policies(names: Sequence[str], place: Path) -> dict[str, Switch]:
    """What each policy takes more than the empty one with its operations."""
    found = {}
    for name in names:
        source = catalogue.find(catalogue.POLICIES, name)
        result = simulated(source)
        preempts = result["wakeups"] < 0.9 * result["switches"]
        empty = empty_policy(place, called_often(result), KICK if preempts else "")
        found[name] = less(measured(source, plays=PLAYS), empty)
    return found


def fitted(
    policies: Mapping[str, Switch], probes: Mapping[str, Switch]
) -> tuple[float, dict[str, float]]:
    """The factor of an instruction of BPF, and what each function takes, by least squares of what
    each is off, in parts; the probes decide, since they are a thousand times as sure."""
    names = sorted({name for one in probes.values() for name in one.calls if one.calls[name]})
    rows = [*probes.values(), *(one for one in policies.values() if one.kernel is not None)]
    matrix = np.array([[one.simulated, *(one.calls.get(n, 0) for n in names)] for one in rows])
    of_kernel = np.array([one.kernel for one in rows])
    weights = np.where(np.arange(len(rows)) < len(probes), 1000, 1) / np.abs(of_kernel)
    found = np.linalg.lstsq(matrix * weights[:, None], of_kernel * weights, rcond=None)[0]
    return float(found[0]), dict(zip(names, map(float, found[1:]), strict=True))


def print_rows(
    policies: Mapping[str, Switch], factor: float, costs: Mapping[str, float]
) -> list[float]:
    """Prints a row a policy, and how it differs; how far off are those that can be compared."""
    print(
        "| policy | in all | functions and divisions | branches, registers saved | its own | BPF"
        f" | own / BPF | × {factor:.2f}, off by |"
    )
    print("| --- |" + " --: |" * 7)
    offs = []
    for name, one in policies.items():
        if one.kernel is None:
            print(f"| `{name}` | differs | | | | {one.simulated:,.0f} | | not compared |")
            continue
        taken = {n: costs.get(n, 0) * count for n, count in one.calls.items()}
        translated = sum(taken.pop(n) for n in TRANSLATED)
        functions = sum(taken.values())
        own = one.kernel - functions - translated
        offs.append(factor * one.simulated / own - 1)
        print(
            f"| `{name}` | {one.kernel:,.0f} | {functions:,.0f} | {translated:,.0f} | {own:,.0f}"
            f" | {one.simulated:,.0f} | {own / one.simulated:.2f} | {offs[-1]:+.0%} |"
        )
    for name, one in policies.items():
        if one.difference:
            print(f"{name} {one.difference}")
    return offs


def is_missed(nr_policies: int, offs: Sequence[float]) -> bool:
    """Whether too many policies are off, or too few could be compared to tell."""
    misses_max = nr_policies // ROWS_A_MISS
    nr_off = sum(abs(off) > OFF_MAX for off in offs)
    return nr_off > misses_max or nr_policies - len(offs) > misses_max


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("policies", nargs="*", default=POLICIES)
    names = parser.parse_args().policies
    with tempfile.TemporaryDirectory() as folder:
        probes, policies = probed(Path(folder)), of_policies(names, Path(folder))
    factor, costs = fitted(policies, probes)
    unknown = {n for one in policies.values() for n, count in one.calls.items() if count} - set(
        costs
    )
    offs = print_rows(policies, factor, costs)
    print("\n".join(f"{name}: {cost:.0f}" for name, cost in costs.items()))
    nr_within = sum(abs(off) <= OFF_MAX for off in offs)
    print(f"within {OFF_MAX:.0%}: {nr_within} of {len(offs)} compared, of {len(policies)}")
    print(f"not measured: {', '.join(sorted(unknown)) or 'none'}")
    print(
        "wake-ups a switch, kernel and simulator:", {n: one.wakeups for n, one in policies.items()}
    )
    return int(is_missed(len(policies), offs))


if __name__ == "__main__":
    sys.exit(main())
