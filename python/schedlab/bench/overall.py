"""What several benchmarks, or several machines, say together of one setup against another.

A benchmark has one vote on a machine, shared by its cases. Machines vote on what all of them
measured, or on one case each. Only ratios vote, each taken on one machine.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from schedlab.bench.answers import Answer
from schedlab.statistics.digits import number
from schedlab.statistics.estimates import Verdict, adjusted, benjamini_hochberg
from schedlab.statistics.evidence import Worded
from schedlab.statistics.overall import CELLS_MIN, Overall, Vote, overall, shared_vote
from schedlab.statistics.samples import by_key

# Of more it is not known whether it is all.
HETEROGENEITY_TOLD_MAX = 0.99

# What was done and why, and what the columns mean.
EXPLANATION = (
    "together: the geometric mean of the ratios, one vote a benchmark (shared by its cases) or a"
    " machine, however many runs it has; its interval is Student's over these votes, n - 1 degrees"
    " of freedom (df), as other benchmarks or machines would vote otherwise: runs are never pooled,"
    " and fewer than three votes have no interval",
    "I²: the share of the differences between votes that is more than the noise of their runs;"
    " where it is large, the mean is of no benchmark or machine, so look at the range",
    "faster : slower: how many votes are on which side, be it by a hair",
)

CaseKey = tuple[str, str]
"""Name and digest: cases of one name with other commands or inputs are other cases."""


@dataclass(frozen=True, slots=True)
class Together(Worded):
    """What `name` is against `against` over several cells, which `over` tells of; `verdict` heeds
    `p_table`, which is adjusted for all that is told together."""

    name: str
    against: str
    over: str
    result: Overall
    p_table: float | None
    verdict: Verdict

    @property
    def change(self) -> str:
        """Of the geometric mean, in percent, to the digits that its interval carries."""
        return self.result.ratio.change

    @property
    def range(self) -> str:
        """The cells at both ends, in percent, by name."""
        ends = (self.result.lowest, self.result.highest)
        return " … ".join(f"{_percent(vote)} ({name})" for name, vote in ends)

    @property
    def signs(self) -> str:
        """How many cells are faster and slower, be it by a hair."""
        return f"{self.result.nr_below} : {self.result.nr_above}"

    @property
    def heterogeneity(self) -> str:
        """I² in percent."""
        if (share := self.result.i_squared) is None:
            return "–"
        return "> 99 %" if share > HETEROGENEITY_TOLD_MAX else f"{100 * share:.0f} %"


def together(
    answers: Sequence[Answer], machines: Mapping[str, str] | None = None
) -> list[Together]:
    """All that can be said together of these answers; `machines` has names for people.

    For each setup against another: over the benchmarks of each machine, where there are two or
    more; over machines, case by case and all at once. p values are adjusted over all of this.
    """
    rows = [
        (name, against, over, overall(votes))
        for (name, against), of in _pairs(answers, machines or {}).items()
        for over, votes in _ballots(of)
        if len(votes) >= CELLS_MIN
    ]
    p_values = adjusted([result.ratio.p_value for *_, result in rows], benjamini_hochberg)
    return [
        Together(*row, p_table, row[-1].word(p_table))
        for row, p_table in zip(rows, p_values, strict=True)
    ]


def _pairs(
    answers: Sequence[Answer], machines: Mapping[str, str]
) -> dict[tuple[str, str], dict[str, dict[CaseKey, Vote]]]:
    """The votes of each pair of setups, by machine and case. One machine's first setup may be
    another's second: what is against what is as on the first machine."""
    pairs = {}
    for answer in answers:
        row, names, ratio = answer.row, (answer.pair.a, answer.pair.b), answer.pair.ratio
        vote, machine = Vote(ratio.ratio, ratio.log_error), machines.get(row.machine, row.machine)
        if names[::-1] in pairs:
            names, vote = names[::-1], Vote(1 / ratio.ratio, ratio.log_error)
        pairs.setdefault(names, {}).setdefault(machine, {})[row.name, row.digest] = vote
    return pairs


def _ballots(of: Mapping[str, Mapping[CaseKey, Vote]]) -> Iterator[tuple[str, dict[str, Vote]]]:
    """What is voted over, and the votes by name; too few of them say nothing."""
    for machine, cases in of.items():
        votes = _by_benchmark(cases)
        yield f"{len(votes)} benchmarks" + f" on {machine}" * (len(of) > 1), votes
    for case in dict.fromkeys(case for cases in of.values() for case in cases):
        votes = {machine: cases[case] for machine, cases in of.items() if case in cases}
        yield f"{len(votes)} machines, {case[0]}", votes
    shared = set.intersection(*map(set, of.values()))
    by_machine = {
        machine: _by_benchmark({case: cases[case] for case in cases if case in shared})
        for machine, cases in of.items()
    }
    nr_benchmarks = min(map(len, by_machine.values()))
    if nr_benchmarks >= CELLS_MIN:
        votes = {name: shared_vote(list(some.values())) for name, some in by_machine.items()}
        yield f"{len(of)} machines, {nr_benchmarks} benchmarks each", votes


def _by_benchmark(cases: Mapping[CaseKey, Vote]) -> dict[str, Vote]:
    votes = by_key((name.split(" ")[0], vote) for (name, _), vote in cases.items())
    return {name: shared_vote(some) for name, some in votes.items()}


def _percent(vote: Vote) -> str:
    """A change to the digits that its error carries, as an interval of two errors would."""
    change, low, high = 100 * (vote.ratio - 1), None, None
    if vote.log_error:
        low, high = (100 * (vote.ratio * math.exp(n * vote.log_error) - 1) for n in (-2, 2))
    text = number(change, low, high)
    return f"{'+' if float(text) > 0 else ''}{text} %"
