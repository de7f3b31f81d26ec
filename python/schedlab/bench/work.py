"""Measures the cases of a suite on this machine, in randomised complete blocks, and keeps each.

A block holds every case under every policy once, in an order that follows from the seed: what else
this machine does changes with time, and measured case by case that would look like a difference.
Every repetition is committed the moment it ends. What there is still to do follows from what is
kept, so a campaign goes on after a kill, a reboot or a panic with the repetition that was lost.
Blocks that were disturbed stay as they are, and are followed by as many more.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import re
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from schedlab.bench import environment, program
from schedlab.bench.environment import KERNEL_OWN, Reading
from schedlab.bench.suite import Benchmark, Case, Record, fill
from schedlab.digests import canonical_json
from schedlab.store.measurements import FAILED, OK, Campaign, Measurements, Repetition

# A case that failed so often in a row is left alone until the command is given again.
FAILURES_MAX = 2
# How much of what a program said is kept with a repetition.
KEPT_CHARACTERS = 4000
# More than this is told in the unit of the output, never meant.
VALUE_MAX = 1e18


@dataclass(frozen=True)
class Turn:
    """What is measured next: a case under a policy, and its place."""

    case: Case
    policy: str
    slot: str
    warm_up: bool
    block: int


@dataclass
class Plan:
    """What a campaign measures. `until` is the width at which a case is done, None for a fixed
    number of repetitions; `digests` are those of the cases, by name."""

    cases: Sequence[Case]
    digests: Mapping[str, str]
    policies: Sequence[str]
    seed: int
    repetitions: Mapping[str, int]
    warm_up: Mapping[str, int]
    until: float | None = None

    @property
    def definition(self) -> dict[str, Any]:
        """All that decides what is measured."""
        return {
            "cases": [self._definition_of(case) for case in self.cases],
            "higher_is_better": [c.name for c in self.cases if c.benchmark.higher_is_better],
            "policies": list(self.policies),
            "seed": self.seed,
            "until": self.until,
        }

    def _definition_of(self, case: Case) -> list:
        counts = (self.repetitions[case.name], self.warm_up[case.name])
        return [case.name, self.digests[case.name], *counts, case.benchmark.timeout_s]


def identity(suite: str, plan: Plan, label: str, series: int, condition: Mapping[str, str]) -> str:
    """A campaign's id: equal for equal questions asked under equal conditions."""
    asked = [suite, plan.definition, label, series, dict(condition)]
    return hashlib.sha256(canonical_json(asked).encode()).hexdigest()[:16]


@dataclass
class Work:
    """A campaign on its way.

    `values` fill the placeholders of commands, `in_force` gives a context in which a policy
    schedules this machine, `tell` is called with each repetition as it was kept. `makes_up` says
    whether disturbed repetitions are followed by others, see `_last`.
    """

    plan: Plan
    campaign: Campaign
    kept: Measurements
    surroundings: int
    boot: str
    values: Mapping[str, Any]
    scratch: Path
    in_force: Callable[[str], AbstractContextManager]
    tell: Callable[[Repetition], None] = lambda found: None
    begins: Callable[[Turn], None] = lambda turn: None
    makes_up: bool = True
    _found: dict[tuple[str, str, str], Repetition] = field(default_factory=dict)
    _failures: dict[tuple[str, str], int] = field(default_factory=dict)
    _spent_s: dict[str, list[float]] = field(default_factory=dict)
    _lasts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for found in self.kept.repetitions(self.campaign.id):
            self._keep(found)

    def measure(self) -> None:
        """Makes every repetition that is not kept yet.

        Raises
        ------
        StoreError
            If one cannot be kept; all before it are.
        SchedlabError
            If a policy cannot be loaded.
        """
        for block in self._blocks():
            for policy in self._shuffled(self.plan.policies, "policies", block):
                turns = list(self._turns(policy, block))
                if not turns:
                    continue
                with self.in_force(policy):
                    for turn in turns:
                        # Decided now: a case may have failed for good in its warm-up.
                        if self._is_wanted(turn.case, policy):
                            self._make(turn)

    def remaining(self) -> list[Turn]:
        """All that `measure` would make of this boot, were nothing to fail, in its order."""
        turns: dict[tuple[str, str, str], Turn] = {}
        for block in self._blocks():
            for policy in self._shuffled(self.plan.policies, "policies", block):
                for turn in self._turns(policy, block):
                    turns.setdefault((turn.case.name, policy, turn.slot), turn)
        return list(turns.values())

    def title(self, turn: Turn) -> str:
        """A turn in a few words, for a line of progress."""
        under = f" under {turn.policy}" if len(self.plan.policies) > 1 else ""
        return f"{turn.case.name}{under}{' (warm-up)' if turn.warm_up else ''}"

    def measured(self, case: Case, policy: str) -> list[Repetition]:
        """The repetitions of a case that count, in the order of their slots."""
        digest = self.plan.digests[case.name]
        found = [self._found.get((digest, policy, str(number))) for number in self._numbers(case)]
        return [one for one in found if one is not None and one.status == OK]

    def series(self) -> Iterator[tuple[str, list[float], int]]:
        """What `--until-ci` looks at: a name, its values in order, and the most there may be."""
        for case, policy in self._pairs():
            under = f" under {policy}" if len(self.plan.policies) > 1 else ""
            values = [one.value for one in self.measured(case, policy)]
            yield f"{case.name}{under}", values, self.plan.repetitions[case.name]

    @property
    def nr_done(self) -> int:
        """How many repetitions that count are kept."""
        return sum(len(self.measured(*one)) for one in self._pairs())

    @property
    def nr_planned(self) -> int:
        """How many there may be at most, as far as is known by now."""
        return len(self.plan.policies) * sum(self._last(case) for case in self.plan.cases)

    @property
    def is_complete(self) -> bool:
        """Whether every case has all its repetitions, those for disturbed ones too, or as many as
        the width that is asked for takes."""
        return all(self._is_done(case, policy) for case, policy in self._pairs())

    def _is_done(self, case: Case, policy: str) -> bool:
        values = [found.value for found in self.measured(case, policy)]
        runs_max = self._last(case)
        if self.plan.until is None:
            return len(values) >= runs_max
        # SciPy takes longer to load than many a repetition takes.
        from schedlab.statistics import stopping

        return stopping.settled(values, self.plan.until, runs_max)

    @property
    def failed(self) -> list[Repetition]:
        """The last failure of each case that is not done, by policy."""
        done = {
            (case.name, policy) for case, policy in self._pairs() if self._is_done(case, policy)
        }
        last = {
            (found.case_name, found.policy): found
            for found in self._found.values()
            if found.status == FAILED
        }
        return [found for place, found in last.items() if place not in done]

    def _pairs(self) -> list[tuple[Case, str]]:
        return [(case, policy) for policy in self.plan.policies for case in self.plan.cases]

    def _numbers(self, case: Case) -> range:
        return range(1, self._last(case) + 1)

    def _last(self, case: Case) -> int:
        """The number of the last block of a case: for each that was disturbed under some policy
        there is one more, under all of them, up to as many as were asked for.

        What was read of the machine decides, never a value: else slow repetitions would be made
        again until they are fast. And of earlier blocks only, so that a campaign that goes on
        makes what one does that was never stopped. A width that is asked for takes its own number.
        """
        planned = self.plan.repetitions[case.name]
        if self.plan.until is not None or not self.makes_up:
            return planned
        if case.name not in self._lasts:
            last, number = planned, 1
            while number <= last < 2 * planned:
                last += self._is_disturbed(case, number)
                number += 1
            self._lasts[case.name] = last
        return self._lasts[case.name]

    @property
    def nr_made_up(self) -> int:
        """How many repetitions, made or still to be made, are there because of disturbed ones."""
        asked = len(self.plan.policies) * sum(self.plan.repetitions.values())
        return self.nr_planned - asked

    def _is_disturbed(self, case: Case, number: int) -> bool:
        places = ((self.plan.digests[case.name], one, str(number)) for one in self.plan.policies)
        found = filter(None, map(self._found.get, places))
        return any(one.status == OK and one.noisy for one in found)

    def _blocks(self) -> Iterator[int]:
        """The numbers of all blocks, of which there may become more on the way."""
        block = 1
        while block <= max(map(self._last, self.plan.cases)):
            yield block
            block += 1

    def _shuffled(self, things: Sequence, what: str, block: int) -> list:
        """In an order that depends on seed, block and series only, and so is the same after a
        stop."""
        return in_turn(things, f"{self.plan.seed} {what} of {self.campaign.series}", block)

    def _turns(self, policy: str, block: int) -> Iterator[Turn]:
        """What is to be done under a policy in a block: warm-ups of this boot, then what counts."""
        wanted = [
            case
            for case in self._shuffled(self.plan.cases, f"cases of {policy}", block)
            if str(block) not in self._slots(case, policy)
            and block <= self._last(case)
            and self._is_wanted(case, policy)
        ]
        for case in wanted:
            for number in range(1, self.plan.warm_up[case.name] + 1):
                slot = f"warm-up {number} of boot {self.boot}"
                if slot not in self._slots(case, policy):
                    yield Turn(case, policy, slot, True, block)
        for case in wanted:
            yield Turn(case, policy, str(block), False, block)

    def _slots(self, case: Case, policy: str) -> set[str]:
        """The places of a case that are filled."""
        digest = self.plan.digests[case.name]
        return {
            slot
            for (of, under, slot), found in self._found.items()
            if (of, under) == (digest, policy) and found.status == OK
        }

    def _is_wanted(self, case: Case, policy: str) -> bool:
        has_failed = self._failures.get((case.name, policy), 0) >= FAILURES_MAX
        return not has_failed and not self._is_done(case, policy)

    def _make(self, turn: Turn) -> None:
        self.begins(turn)
        began = time.monotonic()
        found = self._measured(turn)
        self.commit(found)
        place = (turn.case.name, turn.policy)
        failed = found.status == FAILED
        self._failures[place] = self._failures.get(place, 0) + 1 if failed else 0
        self._spent_s.setdefault(turn.case.name, []).append(time.monotonic() - began)
        self.tell(found)

    def commit(self, found: Repetition) -> None:
        """Keeps a repetition for good.

        Raises
        ------
        StoreError
            If it cannot be kept.
        """
        self.kept.add(self.campaign.id, self.surroundings, found)
        self._keep(found)

    def _keep(self, found: Repetition) -> None:
        self._found[found.case_digest, found.policy, found.slot] = found
        self._lasts.pop(found.case_name, None)

    def left_s(self) -> float | None:
        """How long it will still take at most, from what it took so far, cases that were not timed
        yet left out; None if nothing tells."""
        means = {name: sum(took) / len(took) for name, took in self._spent_s.items()}
        if not means:
            return None
        left = 0.0
        for case, policy in self._pairs():
            if self._is_wanted(case, policy):
                nr_left = self._last(case) - len(self.measured(case, policy))
                left += nr_left * means.get(case.name, 0.0)
        return left

    @property
    def untimed(self) -> list[str]:
        """Cases that are still to be measured and of which nobody knows yet how long they take."""
        wanted = {
            case.name: None for case, policy in self._pairs() if self._is_wanted(case, policy)
        }
        return [name for name in wanted if name not in self._spent_s]

    def _measured(self, turn: Turn) -> Repetition:
        """One repetition, with all that is to be known of it."""
        case, benchmark = turn.case, turn.case.benchmark
        values = {**self.values, **case.values}
        command = fill(benchmark.command, values)
        started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        manifest = self.manifest(turn, command)
        value, failure = None, self._aside("prepare", case, values, manifest)
        if failure is None:
            ended, facts = _watched(command, benchmark.timeout_s, self.scratch)
            manifest |= facts | last_words(benchmark, ended)
            failure = ended.failure or self._change_of_scheduler(turn.policy, facts)
            if failure is None:
                value, failure = value_of(benchmark.record, ended)
        failure = self._aside("cleanup", case, values, manifest) or failure
        return self.repetition(turn, started_at, manifest, value, failure)

    def manifest(self, turn: Turn, command: Any) -> dict[str, Any]:
        """What is known of a repetition before it is made."""
        values = dict(turn.case.values)
        return {"command": command, "values": values, "block": turn.block, "boot_id": self.boot}

    def repetition(
        self,
        turn: Turn,
        started_at: str,
        manifest: Mapping[str, Any],
        value: float | None,
        failure: str | None,
    ) -> Repetition:
        """A repetition that was made; `failure` is what went wrong, None if nothing did."""
        return Repetition(
            case_digest=self.plan.digests[turn.case.name],
            case_name=turn.case.name,
            policy=turn.policy,
            slot=turn.slot,
            warm_up=turn.warm_up,
            status=OK if failure is None else FAILED,
            value=value if failure is None else None,
            unit=turn.case.benchmark.unit,
            noisy=bool(manifest.get("noisy")),
            started_at=started_at,
            manifest={**manifest, "failure": failure},
        )

    def _change_of_scheduler(self, policy: str, facts: Mapping[str, Any]) -> str | None:
        """What is wrong if not one scheduler was in force all along, and the right one."""
        in_force = [facts["before"]["scheduler"], facts["after"]["scheduler"]]
        if policy == KERNEL_OWN:
            expected = self.campaign.condition["scheduler"]
            if in_force != [expected, expected]:
                return f"the scheduler changed: {expected}, then {' and '.join(in_force)}"
        elif KERNEL_OWN in in_force:
            return f"{policy} was no longer in force: the kernel ended it, see `dmesg`"
        return None

    def _aside(self, what: str, case: Case, values: Mapping, manifest: dict) -> str | None:
        """Runs what comes before or after a repetition; gives what went wrong with it."""
        command = getattr(case.benchmark, what)
        if command is None:
            return None
        ended = program.run(fill(command, values), case.benchmark.timeout_s, self.scratch)
        if ended.failure is None:
            return None
        manifest["stderr"] = ended.stderr[-KEPT_CHARACTERS:]
        return f"its {what}: {ended.failure}"


def in_turn(things: Sequence, place: str, number: int) -> list:
    """The order of one block of many, by its number from 1: random in the first of two, and the
    other way around in the second.

    So each has the same place on average, and a steady drift meets all alike (ABBA).

    Source: D. R. Cox, "Planning of Experiments", 1958 (arrangements that balance a trend).
    """
    shuffled = list(things)
    random.Random(f"{place} {(number + 1) // 2}").shuffle(shuffled)
    return shuffled if number % 2 else shuffled[::-1]


def _watched(
    command: Any, timeout_s: float, directory: Path
) -> tuple[program.Ended, dict[str, Any]]:
    """Runs a command, and tells what it took and what others did meanwhile."""
    ours_before = resource.getrusage(resource.RUSAGE_SELF)
    before = Reading.now()
    ended = program.run(command, timeout_s, directory)
    after = Reading.now()
    ours = resource.getrusage(resource.RUSAGE_SELF)
    ours_s = ours.ru_utime + ours.ru_stime - ours_before.ru_utime - ours_before.ru_stime
    own_ns = ended.user_ns + ended.system_ns + round(ours_s * 1e9)
    facts = {
        **facts_of_end(ended),
        "before": dict(before.state),
        "after": dict(after.state),
    }
    nr_cpus = os.cpu_count() or 1
    return ended, facts | environment.disturbance(before, after, own_ns, nr_cpus)


def facts_of_end(ended: program.Ended) -> dict[str, Any]:
    """How a program ended and what it took, for a manifest."""
    names = ("wall_ns", "user_ns", "system_ns", "status", "timed_out")
    return {name: getattr(ended, name) for name in names}


def last_words(benchmark: Benchmark, ended: program.Ended) -> dict[str, str]:
    """The end of what a program wrote, and what ended its search if it was one, for a manifest."""
    names = ("stdout", "stderr")
    words = {name: getattr(ended, name)[-KEPT_CHARACTERS:] for name in names}
    ended_by = _by_json(benchmark.ended_by, ended.stdout) if benchmark.ended_by else None
    return words if ended_by is None else {**words, "ended_by": str(ended_by)}


def value_of(record: Record, ended: program.Ended) -> tuple[float | None, str | None]:
    """What a repetition gave, and what is wrong with it."""
    if record.how == "elapsed":
        return ended.wall_ns / 1e9, None
    find = _by_json if record.how == "json" else _by_regex
    found = find(record.what, ended.stdout)
    if found is None:
        return None, f"its output has no {record.what}"
    try:
        value = float(found)
    except (TypeError, ValueError):
        return None, f"its output has {found!r} for {record.what}, which is no number"
    if not (math.isfinite(value) and 0 < value < VALUE_MAX):
        return None, f"its output has {found!r} for {record.what}: not a positive number"
    return value, None


def _by_json(path: str, output: str) -> Any:
    """The value at a path of the last line that is JSON."""
    for line in reversed(output.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        for key in path.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        return None if isinstance(found, bool) else found
    return None


def _by_regex(pattern: str, output: str) -> str | None:
    found = re.findall(pattern, output)
    return found[-1] if found else None
