"""A campaign on its way, and how one is measured on this machine.

What else a machine does changes with time, and measured case by case that would look like a
difference: so a block holds every case under every policy once. A repetition is committed the
moment it ends: so a campaign goes on after a kill, a reboot or a panic with the one that was lost.
"""

import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any

from schedlab.bench.environment import KERNEL_OWN, Reading
from schedlab.bench.plan import Plan, Tally, Turn
from schedlab.bench.program import Ended, run
from schedlab.bench.suite import Case, Command, Record, fill
from schedlab.digests import attributes, timestamp
from schedlab.store.measurements import FAILED, OK, Campaign, Measurements, Repetition

# A case that failed so often in a row is left alone until the command is given again.
FAILURES_MAX = 2
# How much of what a program said is kept with a repetition, and how many lines of it are told.
KEPT_CHARACTERS = 4000
LINES_TOLD = 5
# More than this is told in the unit of the output, never meant.
VALUE_MAX = 1e18


@dataclass
class CampaignRun:
    """A campaign in one boot: what was made of it, and how more is kept."""

    plan: Plan
    campaign: Campaign
    kept: Measurements
    boot: str
    """What the kernel calls the boot."""
    values: Mapping[str, Any]
    """What fills the placeholders of commands, but for the parameters of cases."""
    surroundings: int = 0
    """The number of the environment in the store."""
    tell: Callable[[str], None] = lambda text: None
    """Called with what went wrong."""
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    """In a row, by case and policy."""
    tally: Tally = field(init=False)

    def __post_init__(self) -> None:
        self.tally = Tally(self.plan, self.campaign.series, self.kept.repetitions(self.campaign.id))
        # As `Boots` has several.
        self.tallies = [self.tally]

    def title(self, turn: Turn) -> str:
        """A turn in a few words, for a line of progress."""
        return f"{self.name(turn.case, turn.policy)}{' (warm-up)' if turn.warm_up else ''}"

    def name(self, case: Case, policy: str) -> str:
        """A case, with the policy where there are several."""
        return f"{case.name} under {policy}" if len(self.plan.policies) > 1 else case.name

    def command(self, turn: Turn) -> Command:
        """What a turn runs."""
        return fill(turn.case.benchmark.command, {**self.values, **turn.case.values})

    def repetition(
        self, turn: Turn, started_at: str, ended: Ended | None, facts: Mapping[str, Any]
    ) -> Repetition:
        """A repetition by how its program ended, None if it was not started, and what else is known
        of it; `failure` of its `facts` is what went wrong before its value is looked for, or None.
        """
        benchmark, value, failure = turn.case.benchmark, None, facts["failure"]
        manifest = {"command": self.command(turn), "values": dict(turn.case.values)}
        manifest |= {"block": turn.block, "boot_id": self.boot}
        if ended is not None:
            manifest |= asdict(ended)
            manifest |= {name: manifest[name][-KEPT_CHARACTERS:] for name in ("stdout", "stderr")}
            ended_by = _by_json(benchmark.ended_by, ended.stdout) if benchmark.ended_by else None
            manifest |= {} if ended_by is None else {"ended_by": str(ended_by)}
            if failure is None:
                value, failure = _value_of(benchmark.record, ended)
        manifest |= {**facts, "failure": failure}
        return Repetition(
            case_digest=self.plan.digests[turn.case.name],
            case_name=turn.case.name,
            **attributes(turn, "policy", "slot", "warm_up"),
            status=OK if failure is None else FAILED,
            value=value,
            unit=benchmark.unit,
            noisy=bool(manifest.get("noisy")),
            started_at=started_at,
            manifest=manifest,
        )

    def commit(self, repetition: Repetition, where: str = "") -> None:
        """Keeps a repetition for good, and tells if it failed; raises StoreError if it cannot."""
        self.kept.add(self.campaign.id, self.surroundings, repetition)
        self.tally.add(repetition)
        place, has_failed = (repetition.case_name, repetition.policy), repetition.status == FAILED
        self.failures[place] = self.failures[place] + 1 if has_failed else 0
        if has_failed:
            lines = repetition.manifest.get("stderr", "").strip().splitlines()[-LINES_TOLD:]
            why = "\n  ".join([repetition.manifest["failure"], *lines])
            self.tell(f"error: {repetition.case_name} failed{where}: {why}")


@dataclass
class RunHere(CampaignRun):
    """A campaign on this machine."""

    in_force: Callable[[str], AbstractContextManager] = field(kw_only=True)
    """Gives a context in which a policy schedules this machine."""
    begins: Callable[[str], None] = lambda text: None
    """Called with what is measured now."""
    _spent_s: dict[str, list[float]] = field(default_factory=dict)

    def measure(self) -> None:
        """Makes every repetition that is not kept yet; raises StoreError if one cannot be kept,
        SchedlabError if a policy cannot be loaded."""
        for policy, turns in self.tally.remaining(self.boot):
            if all(self._has_failed(turn.case, policy) for turn in turns):
                continue
            with self.in_force(policy):
                for turn in turns:
                    # Decided now: a case may have failed for good in its warm-up.
                    if not self._has_failed(turn.case, policy):
                        self._make(turn)

    @property
    def is_complete(self) -> bool:
        """Whether every case has what was asked for."""
        return self.tally.is_complete

    def series(self) -> Iterator[tuple[str, list[float], int]]:
        """What `--until-ci` looks at: a name, its values in order, and the most there may be."""
        for case, policy in self.tally.pairs():
            values = [repetition.value for repetition in self.tally.counted(case, policy)]
            yield self.name(case, policy), values, self.plan.repetitions[case.name]

    def left_s(self) -> float | None:
        """How long it will still take at most, from what it took so far, cases that were not timed
        yet left out; None if nothing tells."""
        means_s = {name: sum(took) / len(took) for name, took in self._spent_s.items()}
        if not means_s:
            return None
        return sum(
            means_s.get(case.name, 0.0)
            * (self.tally.last_block(case) - len(self.tally.counted(case, policy)))
            for case, policy in self._wanted()
        )

    @property
    def untimed(self) -> list[str]:
        """Cases that are still to be measured and of which nobody knows yet how long they take."""
        names = dict.fromkeys(case.name for case, _ in self._wanted())
        return [name for name in names if name not in self._spent_s]

    def _wanted(self) -> list[tuple[Case, str]]:
        return [
            (case, policy)
            for case, policy in self.tally.pairs()
            if not self._has_failed(case, policy) and not self.tally.is_done(case, policy)
        ]

    def _has_failed(self, case: Case, policy: str) -> bool:
        return self.failures[case.name, policy] >= FAILURES_MAX

    def _make(self, turn: Turn) -> None:
        self.begins(self.title(turn))
        began_s, started_at, ended, facts = time.monotonic(), timestamp(), None, {}
        failure = self._aside("prepare", turn, facts)
        if failure is None:
            before = Reading.now()
            ended = run(self.command(turn), turn.case.benchmark.timeout_s, self.values["work"])
            after, disturbed = before.since(ended.user_ns + ended.system_ns)
            facts = {"before": dict(before.state), "after": dict(after.state), **disturbed}
            failure = ended.failure or self._change_of_scheduler(turn.policy, facts)
        facts["failure"] = self._aside("cleanup", turn, facts) or failure
        self.commit(self.repetition(turn, started_at, ended, facts))
        self._spent_s.setdefault(turn.case.name, []).append(time.monotonic() - began_s)

    def _change_of_scheduler(self, policy: str, facts: Mapping[str, Any]) -> str | None:
        """What is wrong if not one scheduler was in force all along, and the right one."""
        in_force = [facts[moment]["scheduler"] for moment in ("before", "after")]
        expected = self.campaign.condition["scheduler"]
        if policy == KERNEL_OWN and in_force != [expected, expected]:
            return f"the scheduler changed: {expected}, then {' and '.join(in_force)}"
        if policy != KERNEL_OWN and KERNEL_OWN in in_force:
            return f"{policy} was no longer in force: the kernel ended it, see `dmesg`"
        return None

    def _aside(self, what: str, turn: Turn, facts: dict[str, Any]) -> str | None:
        """Runs what comes before or after a repetition; gives what went wrong with it."""
        if (command := getattr(turn.case.benchmark, what)) is None:
            return None
        command = fill(command, {**self.values, **turn.case.values})
        ended = run(command, turn.case.benchmark.timeout_s, self.values["work"])
        if ended.failure is None:
            return None
        facts["stderr"] = ended.stderr[-KEPT_CHARACTERS:]
        return f"its {what}: {ended.failure}"


def _value_of(record: Record, ended: Ended) -> tuple[float | None, str | None]:
    """What a repetition gave, and what is wrong with it."""
    if record.how == "elapsed":
        return ended.wall_ns / 1e9, None
    if record.how == "json":
        recorded = _by_json(record.what, ended.stdout)
    else:
        recorded = next(reversed(re.findall(record.what, ended.stdout)), None)
    if recorded is None:
        return None, f"its output has no {record.what}"
    try:
        value = float(recorded)
    except (TypeError, ValueError):
        return None, f"its output has {recorded!r} for {record.what}, which is no number"
    if not (math.isfinite(value) and 0 < value < VALUE_MAX):
        return None, f"its output has {recorded!r} for {record.what}: not a positive number"
    return value, None


def _by_json(path: str, output: str) -> Any:
    """The value at a path of the last line that is JSON."""
    for line in reversed(output.splitlines()):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return None if isinstance(value, bool) else value
    return None
