"""What a scheduler did with a scenario, in a few figures, and whether another did the same.

Figures are medians over several plays, where a scenario is played several times: one that draws
random numbers, or that hangs on a microsecond, is another one each time. A wake-up's delay is the
time from it to the task's next stay on a CPU; a switch is a decision as `agreement` has it, so that
a kernel thread which interrupts a task makes none.

Shares of CPU time are a scheduler's only where a scenario is stopped at a time: tasks that run to
their end get what they need under whatever scheduler. Few wake-ups have no median worth the name.
"""

import statistics
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedlab.kernel.agreement import SHARE_TOLERANCE_PERCENT, Arm, decisions, shares_percent

SWITCHES_TOLERANCE_PERCENT = 10.0
# Of few switches one more is many percent: a task began before or after another's last stay.
SPARE_SWITCHES = 2
DELAY_TOLERANCE_PERCENT = 20.0
# What the way through sched_ext takes of a switch, with a margin: 4 to 5 us were measured.
SPARE_DELAY_NS = 10_000
WAKEUPS_MIN = 10

SAME, OTHER, OPEN = "the same", "other", "open"


@dataclass(frozen=True)
class Conduct:
    """What came of each play of a scenario, in their order: `switches`, the median `delays_ns` of
    its wake-ups, None where there are fewer than WAKEUPS_MIN, and the `shares_percent` of CPU time
    by task name, without any where the tasks ran to their end."""

    switches: Sequence[int]
    delays_ns: Sequence[float | None]
    shares_percent: Sequence[Mapping[str, float]]

    @property
    def switches_median(self) -> float:
        """Of all plays."""
        return statistics.median(self.switches)

    @property
    def delay_ns_median(self) -> float | None:
        """Of all plays that have one; None if none has."""
        return _median(self.delays_ns)

    @property
    def share_percent_medians(self) -> dict[str, float]:
        """Of all plays, by task name."""
        names = {name for shares in self.shares_percent for name in shares}
        all_of = {n: [shares.get(n, 0.0) for shares in self.shares_percent] for n in sorted(names)}
        return {name: statistics.median(shares) for name, shares in all_of.items()}


@dataclass(frozen=True)
class Likeness:
    """How far what one did is from what the original did. Percentages are of the original's own
    figure, shares are in percentage points; None where one of the two has no such figure."""

    switches_percent: float | None
    delay_percent: float | None
    share_points: float | None
    differing: tuple[str, ...]
    is_open: bool

    @property
    def verdict(self) -> str:
        """The same, other, or that it is open: the original alone differs from play to play."""
        if not self.differing:
            return SAME
        return OPEN if self.is_open else OTHER


def conduct_of(arms: Sequence[Arm], names: Mapping[int, str], *, is_stopped: bool) -> Conduct:
    """The figures of several plays of one scenario, which `is_stopped` at a time or runs to its
    end; `names` are those of its tasks by pid."""
    switches = [len(decisions(arm)) for arm in arms]

    def name_of(pid: int) -> str:
        return names.get(pid, str(pid))

    shares = [shares_percent(arm, name_of) if is_stopped else {} for arm in arms]
    return Conduct(switches, [_delay_ns(arm) for arm in arms], shares)


def compare_conduct(original: Conduct, other: Conduct) -> Likeness:
    """How alike two are. It stays open in which figures they differ if those of the other lie
    among the original's own, whose plays then are no two alike."""
    differing, opens = [], []

    def judge(what: str, is_alike: bool, is_among: bool) -> None:
        if not is_alike:
            differing.append(what)
            opens.append(is_among)

    ours, theirs = other.switches_median, original.switches_median
    room = max(SPARE_SWITCHES, theirs * SWITCHES_TOLERANCE_PERCENT / 100)
    judge("switches", abs(ours - theirs) <= room, _is_among(ours, original.switches))
    points = _share_points(original, other)
    if points is not None:
        judge("shares", points <= SHARE_TOLERANCE_PERCENT, is_among=False)
    our_ns, their_ns = other.delay_ns_median, original.delay_ns_median
    if our_ns is not None and their_ns is not None:
        room = max(SPARE_DELAY_NS, their_ns * DELAY_TOLERANCE_PERCENT / 100)
        judge("delay", abs(our_ns - their_ns) <= room, _is_among(our_ns, original.delays_ns))
    off = _percent(our_ns, their_ns)
    return Likeness(_percent(ours, theirs), off, points, tuple(differing), all(opens))


def _is_among(value: float, own: Sequence[float | None]) -> bool:
    known = [one for one in own if one is not None]
    return min(known) <= value <= max(known)


def _percent(value: float | None, original: float | None) -> float | None:
    return 100 * (value / original - 1) if original and value is not None else None


def _share_points(original: Conduct, other: Conduct) -> float | None:
    ours, theirs = other.share_percent_medians, original.share_percent_medians
    off = (abs(ours.get(name, 0.0) - theirs.get(name, 0.0)) for name in ours | theirs)
    return max(off, default=None)


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _delay_ns(arm: Arm) -> float | None:
    """The median delay of an arm's wake-ups, without those whose task never ran again; None if
    there are too few."""
    starts = defaultdict(list)
    for from_ns, _, _, pid in sorted(arm.stays):
        starts[pid].append(from_ns)
    delays = []
    for at_ns, pid, *_ in arm.wakeups:
        following = bisect_left(starts[pid], at_ns)
        if following < len(starts[pid]):
            delays.append(starts[pid][following] - at_ns)
    return _median(delays) if len(delays) >= WAKEUPS_MIN else None
