"""What came of a search and of the judgement on it, for all who show it."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from schedlab.report.forms import count_text, tick_text
from schedlab.statistics.estimates import Ratio
from schedlab.statistics.samples import by_key
from schedlab.tuning.asked import TIMES, Tuning
from schedlab.tuning.named_set import NamedSet
from schedlab.values import UNIT_NS

# How a trial ended.
DONE, STOPPED, FAILED = "done", "stopped", "failed"
# What may be said of a measure, of a bound, and where.
BETTER, NO_BETTER, WORSE = "better", "no better", "worse"
NO_WORSE, MAY_BE_WORSE = "no worse", "may be worse"
KEPT, NOT_KEPT = "kept", "not shown to be kept"
SEARCHED, HELD_OUT = "searched on", "held out"
NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Trial:
    """What was tried and what came of it: `values` has a score for each objective, the mean of
    logarithms of cost over the defaults', None for one that `failed`, with the reason `why`.

    `scores` are those that `values` are means of, for each objective a list of one a seed and in
    it one a scenario; `excess` has of each bound the largest by which a scenario is beyond it.
    """

    number: int
    settings: Mapping[str, int]
    state: str
    values: tuple[float, ...] | None = None
    excess: Mapping[str, float] = field(default_factory=dict)
    why: str = ""
    scores: Sequence[Sequence[Sequence[float]]] = ()

    @property
    def costs(self) -> tuple[float, ...]:
        """The cost by each objective over that of the base; none of one that failed."""
        return tuple(map(math.exp, self.values or ()))

    @property
    def is_sound(self) -> bool:
        """Whether it was tried on all seeds, and keeps all bounds."""
        return self.state == DONE and all(excess <= 0 for excess in self.excess.values())


@dataclass(frozen=True)
class Searched:
    """A search at its end. `front` are the trials that no other is better than in every objective:
    the best for one objective, of equal ones that nearest to the base. `importance` has a number
    for each tunable, 1 in all, for each objective; nothing where nothing could be told."""

    trials: Sequence[Trial]
    front: Sequence[Trial]
    importance: Sequence[Mapping[str, float]]
    method: str
    record: Path

    @property
    def failures(self) -> dict[str, int]:
        """How many trials failed, by the first of the reasons that differ only by numbers."""
        failed = [trial.why for trial in self.trials if trial.state == FAILED]
        alike = by_key((NUMBER.sub("", why), why) for why in failed)
        return {reasons[0]: len(reasons) for reasons in alike.values()}


@dataclass(frozen=True)
class Row:
    """What fresh seeds say of one candidate and measure: its cost over the base's, and the word.

    `where` is a scenario or all of a `group`, which `is_whole`. `is_bound` is of a measure that was
    to be kept; its word says whether more than was allowed is excluded.
    """

    label: str
    measure: str
    group: str
    where: str
    is_whole: bool
    ratio: Ratio
    word: str = ""
    is_bound: bool = False


@dataclass(frozen=True)
class Judged:
    """One candidate: its trial, its rows, and why it may not be called better; "" if it may."""

    trial: Trial
    label: str
    rows: Sequence[Row]
    why: str

    @property
    def is_better(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.why


@dataclass(frozen=True)
class Judgement:
    """All candidates, the seeds that judged them, and commands that make their runs again."""

    judged: Sequence[Judged]
    seeds: range = range(0)
    commands: Sequence[str] = ()
    why: str = ""
    """Where there was nothing to judge: why not."""

    @property
    def better(self) -> list[Judged]:
        """Those that may be called better."""
        return [one for one in self.judged if one.is_better]


@dataclass(frozen=True)
class Tuned:
    """What came of it: `base` has the searched tunables as the policy was given, `of_set` all that
    its set and --set settle; `command` asks for the same again."""

    tuning: Tuning
    searched: Searched
    judgement: Judgement
    base: Mapping[str, int]
    of_set: Mapping[str, int]
    nr_made: int
    nr_reused: int
    command: str

    @property
    def word(self) -> str:
        """Whether anything that was found may be called better."""
        return BETTER if self.judgement.better else NO_BETTER

    @property
    def sentence(self) -> str:
        """What came of it, in a line."""
        label, judgement = self.tuning.label, self.judgement
        if judgement.why:
            return f"{NO_BETTER}: {judgement.why}"
        seeds = count_text(len(judgement.seeds), "fresh seed")
        if better := judgement.better:
            told = [f"{label} with {self.settings_text(one)}: {_gains(one)}" for one in better]
            return f"{BETTER} on {seeds}: {'; '.join(told)}"
        why = "; ".join(dict.fromkeys(one.why for one in judgement.judged))
        what = f"{label} as it is stays, by {seeds}"
        return f"{NO_BETTER}: {why} ({what})"

    def changed(self, judged: Judged) -> dict[str, int]:
        """The values that a candidate has and the base has not."""
        settings = judged.trial.settings.items()
        return {name: value for name, value in settings if value != self.base[name]}

    def settings_text(self, judged: Judged) -> str:
        """What a candidate changes, for people."""
        changed = self.changed(judged).items()
        return ", ".join(f"{name} = {value_text(name, value)}" for name, value in changed)

    def at_ends(self, judged: Judged) -> list[str]:
        """What a candidate changes to an end of its range, where better may lie beyond: not of a
        flag, which has two values, nor at 0."""
        found = []
        for name, value in self.changed(judged).items():
            of = self.tuning.ranges[name]
            if value in (of.low, of.high) and value != 0 and of.high - of.low > 1:
                found.append(name)
        return found

    def named_set(self, judged: Judged, name: str) -> NamedSet:
        """A candidate as a set: all that the base settles, and what was found."""
        where = [*self.tuning.workloads, *self.tuning.holdouts]
        places = f"{', '.join(where)} on {', '.join(self.tuning.machines)}"
        seeds, of = self.judgement.seeds, self.tuning
        return NamedSet(
            name,
            f"found by `schedlab tune` for {places}: {_gains(judged)}",
            f"{self.command} ({self.searched.method}; trial {judged.trial.number} of"
            f" {len(self.searched.trials)}, seeds {of.seed} to {of.seed + of.repeats - 1};"
            f" judged by seeds {seeds.start} to {seeds.stop - 1})",
            {**self.of_set, **judged.trial.settings},
        )


def value_text(name: str, value: int) -> str:
    """The value of a tunable, of a time with its unit."""
    unit = name.rpartition("_")[2]
    return tick_text(value * UNIT_NS[unit]) if unit in TIMES else f"{value}"


def _gains(judged: Judged) -> str:
    """What became of each measure where it was searched and where not."""
    rows = [row for row in judged.rows if row.is_whole]
    return ", ".join(f"{row.measure} {row.ratio.change} ({row.group})" for row in rows)
