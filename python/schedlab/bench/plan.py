"""What a campaign measures and in which order, and what of it is still to be made.

What remains follows from the plan and from what was made, and from nothing else: so a campaign that
was stopped goes on as one that never was.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlab.bench.suite import Case
from schedlab.store.measurements import FAILED, OK, Repetition


@dataclass(frozen=True)
class Turn:
    """What is measured next: a case under a policy, and its place."""

    case: Case
    policy: str
    slot: str
    warm_up: bool
    block: int


@dataclass(frozen=True)
class Plan:
    """What a campaign measures; mappings are by the name of the case."""

    cases: Sequence[Case]
    digests: Mapping[str, str]
    policies: Sequence[str]
    seed: int
    repetitions: Mapping[str, int]
    """With `until` the most that are made."""
    warm_up: Mapping[str, int]
    until: float | None = None
    """Half the relative width of the interval at which a case is done."""
    makes_up: bool = True
    """Whether disturbed repetitions are followed by others; see `Tally.last_block`."""

    @property
    def definition(self) -> dict[str, Any]:
        """All that decides what is measured, as the store keeps it."""
        by_name = (self.digests, self.repetitions, self.warm_up)
        return {
            "cases": [
                [case.name, *(of[case.name] for of in by_name), case.benchmark.timeout_s]
                for case in self.cases
            ],
            "higher_is_better": [c.name for c in self.cases if c.benchmark.higher_is_better],
            "policies": list(self.policies),
            "seed": self.seed,
            "until": self.until,
        }


def in_turn(things: Sequence, place: str, number: int) -> list:
    """The order of a block, by its number from 1: random, and the other way around in each second.

    So each has the same place on average, and a steady drift meets all alike (ABBA).
    Source: D. R. Cox, "Planning of Experiments", 1958 (arrangements that balance a trend).
    """
    shuffled = list(things)
    random.Random(f"{place} {(number + 1) // 2}").shuffle(shuffled)
    return shuffled if number % 2 else shuffled[::-1]


class Tally:
    """What was made of a plan, and so what remains of it."""

    def __init__(self, plan: Plan, series: int, made: Iterable[Repetition] = ()):
        self.plan = plan
        self.series = series
        self._made: dict[tuple[str, str], dict[str, Repetition]] = {}
        for repetition in made:
            self.add(repetition)

    def add(self, repetition: Repetition) -> None:
        """Takes in a repetition; a later one of the same slot replaces it."""
        of_case = self._made.setdefault((repetition.case_digest, repetition.policy), {})
        of_case[repetition.slot] = repetition

    def counted(self, case: Case, policy: str) -> list[Repetition]:
        """The repetitions of a case that count, by their blocks."""
        good = self._good(case, policy)
        blocks = map(str, range(1, self.last_block(case) + 1))
        return [good[block] for block in blocks if block in good]

    def last_block(self, case: Case) -> int:
        """The number of a case's last block: `repetitions`, and one more for each block that was
        disturbed under some policy, at most twice as many.

        What was read of the machine decides, never a value: else slow repetitions would be made
        again until they are fast. A width that is asked for takes its own number.
        """
        last = planned = self.plan.repetitions[case.name]
        if self.plan.until is not None or not self.plan.makes_up:
            return planned
        disturbed = {
            int(repetition.slot)
            for policy in self.plan.policies
            for repetition in self._good(case, policy).values()
            if repetition.noisy and not repetition.warm_up
        }
        for block in sorted(disturbed):
            # Only blocks that were to be made by then count.
            last = min(last + (block <= last), 2 * planned)
        return last

    def is_done(self, case: Case, policy: str) -> bool:
        """Whether a case has all its repetitions, or as many as the width asked for takes."""
        values = [repetition.value for repetition in self.counted(case, policy)]
        if self.plan.until is None:
            return len(values) >= self.last_block(case)
        # SciPy takes longer to load than many a repetition takes.
        from schedlab.statistics import stopping

        return stopping.settled(values, self.plan.until, self.last_block(case))

    def remaining(self, boot: str) -> Iterator[tuple[str, list[Turn]]]:
        """Block after block and policy after policy, what is still to be made in this boot; what is
        added meanwhile is heeded from the next policy on."""
        block = 1
        while block <= max(map(self.last_block, self.plan.cases)):
            for policy in self._shuffled(self.plan.policies, "policies", block):
                yield policy, list(self._turns(policy, block, boot))
            block += 1

    def turns(self, boot: str) -> list[Turn]:
        """All that remains for this boot if nothing is disturbed, in order."""
        turns: dict[tuple[str, str, str], Turn] = {}
        for policy, some in self.remaining(boot):
            for turn in some:
                turns.setdefault((turn.case.name, policy, turn.slot), turn)
        return list(turns.values())

    def pairs(self) -> list[tuple[Case, str]]:
        """Every case under every policy."""
        return [(case, policy) for policy in self.plan.policies for case in self.plan.cases]

    @property
    def nr_done(self) -> int:
        """How many repetitions that count were made."""
        return sum(len(self.counted(*pair)) for pair in self.pairs())

    @property
    def nr_planned(self) -> int:
        """How many there may be at most, as far as is known by now."""
        return len(self.plan.policies) * sum(map(self.last_block, self.plan.cases))

    @property
    def nr_made_up(self) -> int:
        """How many of these are there because others were disturbed."""
        return self.nr_planned - len(self.plan.policies) * sum(self.plan.repetitions.values())

    @property
    def is_complete(self) -> bool:
        """Whether every case is done."""
        return all(self.is_done(*pair) for pair in self.pairs())

    @property
    def failed(self) -> list[Repetition]:
        """The last failure of each case that is not done, by policy."""
        undone = [pair for pair in self.pairs() if not self.is_done(*pair)]
        made = (self._made.get((self.plan.digests[case.name], of), {}) for case, of in undone)
        failures = ([one for one in some.values() if one.status == FAILED] for some in made)
        return [of_case[-1] for of_case in failures if of_case]

    def _good(self, case: Case, policy: str) -> Mapping[str, Repetition]:
        """Those that did not fail, by their slots."""
        made = self._made.get((self.plan.digests[case.name], policy), {})
        return {slot: one for slot, one in made.items() if one.status == OK}

    def _shuffled(self, things: Sequence, what: str, block: int) -> list:
        return in_turn(things, f"{self.plan.seed} {what} of {self.series}", block)

    def _turns(self, policy: str, block: int, boot: str) -> Iterator[Turn]:
        """Warm-ups of this boot, then what counts."""
        cases = [
            case
            for case in self._shuffled(self.plan.cases, f"cases of {policy}", block)
            if block <= self.last_block(case)
            and str(block) not in self._good(case, policy)
            and not self.is_done(case, policy)
        ]
        for case in cases:
            good = self._good(case, policy)
            for number in range(1, self.plan.warm_up[case.name] + 1):
                slot = f"warm-up {number} of boot {boot}"
                if slot not in good:
                    yield Turn(case, policy, slot, True, block)
        for case in cases:
            yield Turn(case, policy, str(block), False, block)
