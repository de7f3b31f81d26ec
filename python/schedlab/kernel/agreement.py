"""Whether simulator and kernel decide alike: two timelines become two lists of decisions, and the
first decision in which they differ is shown with what both knew.

A timeline has stays `[from_ns, to_ns, cpu, pid]` and wake-ups `[at_ns, pid, cpu, is_new]`, a pid
being the task's number plus 1. Times may differ, as a real machine has costs of its own; the order
may not. One CPU only: on several, a virtual machine's clock interleaves CPUs too coarsely.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

Who = TypeVar("Who")

# Shares of CPU time may differ by so much: a slice begun or not at the end of 6 s makes 0.3 %.
SHARE_TOLERANCE_PERCENT = 0.5
# Where a workload is stopped and not at its end, the arms may stand a few decisions apart.
UNFINISHED_DECISIONS_MAX = 2
UNFINISHED_PERCENT_MAX = 1.0
CONTEXT_DECISIONS = 4

# The task before slept, waited or ended; could have gone on; or did not run again to tell.
BLOCKED, PREEMPTED, UNKNOWN = "blocked", "preempted", "unknown"


@dataclass(frozen=True)
class Arm:
    """What one of the two did with a scenario. `exits_ns` is when tasks ended, by pid, where stays
    go on after that: a dying task is still switched."""

    stays: Sequence[Sequence[int]]
    wakeups: Sequence[Sequence]
    exits_ns: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """A task was put on the CPU in place of another: the pid `chosen` for `previous`.

    That one, None at the first decision, had `left` because it "blocked", was "preempted", or is
    "unknown". `waiting` are the pids that were runnable and not chosen, the one that became so
    first in front. The chosen one stayed for `ran_ns`. For `others_ns` before, the CPU was idle,
    switching, or with tasks that are not of the scenario.
    """

    at_ns: int
    chosen: int
    previous: int | None
    left: str
    waiting: tuple[int, ...]
    ran_ns: int
    others_ns: int

    def agrees_with(self, other: "Decision") -> bool:
        """Whether the same task was chosen after the same kind of leaving."""
        lefts = {self.left, other.left}
        return self.chosen == other.chosen and (len(lefts) == 1 or UNKNOWN in lefts)


@dataclass(frozen=True)
class Agreement:
    """What came of comparing two arms. `differs_at` is the index of the first decision that differs
    or is missing in one, None if none is. `shares_percent` is the CPU time of each pid in percent
    of all pids': simulated, played."""

    simulated: Sequence[Decision]
    played: Sequence[Decision]
    differs_at: int | None
    shares_percent: Mapping[int, tuple[float, float]]

    @property
    def agrees(self) -> bool:
        """Whether all decisions are the same."""
        return self.differs_at is None

    @property
    def share_difference_percent(self) -> float:
        """The largest difference of a share, in percentage points."""
        return max((abs(a - b) for a, b in self.shares_percent.values()), default=0.0)


def compare(simulated: Arm, played: Arm, *, is_stopped: bool) -> Agreement:
    """Aligns what simulator and kernel decided. Where the workload `is_stopped` at a time, the last
    decisions of the faster arm have no counterpart; else both must end with equally many."""
    ours, theirs = decisions(simulated), decisions(played)
    pairs = zip(ours, theirs, strict=False)
    differs_at = next((at for at, (a, b) in enumerate(pairs) if not a.agrees_with(b)), None)
    if differs_at is None and len(ours) != len(theirs):
        shorter, longer = sorted((len(ours), len(theirs)))
        spare = max(UNFINISHED_DECISIONS_MAX, longer * UNFINISHED_PERCENT_MAX / 100)
        if not is_stopped or longer - shorter > spare:
            differs_at = shorter
    our, their = shares_percent(simulated, int), shares_percent(played, int)
    pids = sorted(our.keys() | their.keys())
    shares = {pid: (our.get(pid, 0.0), their.get(pid, 0.0)) for pid in pids}
    return Agreement(ours, theirs, differs_at, shares)


def decisions(arm: Arm) -> list[Decision]:
    """Every change of the task on the CPU, in the order of time. A task that is interrupted by one
    that is not of the scenario, and then goes on, was not decided about."""
    stays = sorted(
        (stay for stay in arm.stays if stay[0] < arm.exits_ns.get(stay[3], stay[0] + 1)),
        key=lambda stay: (stay[0], stay[1]),
    )
    lefts = _how_left(stays, arm.wakeups)
    made: list[Decision] = []
    waiting: dict[int, int] = {}
    wakeups = deque(sorted((at_ns, pid) for at_ns, pid, *_ in arm.wakeups))
    previous, left, left_ns = None, UNKNOWN, 0
    for (from_ns, to_ns, _, pid), how in zip(stays, lefts, strict=True):
        while wakeups and wakeups[0][0] <= from_ns:
            at_ns, woken = wakeups.popleft()
            waiting.setdefault(woken, at_ns)
        waiting.pop(pid, None)
        others_ns = from_ns - left_ns
        if previous == pid and left == PREEMPTED and made:
            made[-1] = replace(made[-1], ran_ns=made[-1].ran_ns + to_ns - from_ns)
        else:
            queue = tuple(sorted(waiting, key=lambda one: (waiting[one], one)))
            made.append(Decision(from_ns, pid, previous, left, queue, to_ns - from_ns, others_ns))
        previous, left, left_ns = pid, how, to_ns
        if how == PREEMPTED:
            waiting[pid] = to_ns
    return made


def _how_left(stays: Sequence[Sequence[int]], wakeups: Sequence[Sequence]) -> list[str]:
    """Who was woken before it ran again had blocked; the last stay of a task tells nothing."""
    woken = defaultdict(list)
    for at_ns, pid, *_ in sorted(wakeups):
        woken[pid].append(at_ns)
    lefts = []
    again_ns: dict[int, int] = {}
    for from_ns, to_ns, _, pid in reversed(stays):
        left = UNKNOWN
        if pid in again_ns:
            is_woken = bisect_left(woken[pid], to_ns) < bisect_right(woken[pid], again_ns[pid])
            left = BLOCKED if is_woken else PREEMPTED
        lefts.append(left)
        again_ns[pid] = from_ns
    return lefts[::-1]


def shares_percent(arm: Arm, who: Callable[[int], Who]) -> dict[Who, float]:
    """Shares of the CPU time that tasks used, by what `who` makes of their pids."""
    ran_ns: Counter[Who] = Counter()
    for from_ns, to_ns, _, pid in arm.stays:
        ran_ns[who(pid)] += to_ns - from_ns
    all_ns = ran_ns.total() or 1
    return {key: 100 * ns / all_ns for key, ns in ran_ns.items()}


# ---- in words -----------------------------------------------------------------------------------


def story(
    comparison: Agreement, names: Mapping[int, str], arms: tuple[str, str] = ("simulator", "kernel")
) -> list[str]:
    """The first decision that differs and those before it, a line each; empty if there is none.
    `arms` is what the simulated and the played one are called."""
    if (at := comparison.differs_at) is None:
        return []
    lines = []
    width = max(map(len, arms))
    for shown in range(max(0, at - CONTEXT_DECISIONS), at + 1):
        mark = ">" if shown == at else " "
        both = zip(arms, (comparison.simulated, comparison.played), strict=True)
        for arm, made in both:
            said = _sentence(made[shown], names) if shown < len(made) else "no more decisions"
            lines.append(f"{mark} {shown:5} {arm:{width}} {said}")
    return lines


def _sentence(decision: Decision, names: Mapping[int, str]) -> str:
    def name(pid: int) -> str:
        return f"{names.get(pid, 'task')}[{pid}]"

    said = f"{decision.at_ns / 1e6:10.4f} ms: {name(decision.chosen)}"
    if decision.previous is not None:
        said += f" after {name(decision.previous)} {decision.left}"
    said += f", for {decision.ran_ns / 1e6:.4f} ms"
    said += f"; waiting: {', '.join(map(name, decision.waiting)) or 'nobody'}"
    if decision.others_ns:
        said += f"; {decision.others_ns / 1e3:.1f} µs of others before"
    return said
