"""Asks again whether what was found is better: on fresh seeds, and on workloads it never met.

The best of many trials looks better than it is, because chance was among what made it the best. So
it and the base are run on seeds that the search had no part in, as a comparison like any other, and
only those runs decide. Seeds are pairs: both meet the same random numbers, so the interval is that
of `two_stage.two_stage_ratio` of the scores, and the word that of `estimates.verdict`.

Better takes evidence twice: of a gain where it was searched, and everywhere that nothing is lost. A
loss that noise hides is none that was ruled out, so a cost may be more by `LOSS_MAX` in no scenario
(a test of non-inferiority: the 90 % interval excludes it). All of these must hold for one claim, so
none of them is adjusted for the others, and another scenario makes it harder. Several candidates
are as many claims: each has its share of the error, so one false claim among all is a 5 % event.

Sources: R. L. Berger, "Multiparameter hypothesis testing and acceptance sampling", Technometrics
24, 1982 (claims that need all of several tests); C. E. Bonferroni's bound, for the shares.
"""

import functools
import math
import shlex
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from schedlab.experiment import definition
from schedlab.experiment.cells import expand
from schedlab.experiment.making import Making, begin
from schedlab.statistics import estimates
from schedlab.statistics.estimates import RUNS_FOR_INTERVAL_MIN, Ratio, Verdict
from schedlab.statistics.power import runs_needed
from schedlab.statistics.samples import by_key
from schedlab.statistics.two_stage import two_stage_ratio
from schedlab.store.runs import RunRecord, Store
from schedlab.tuning.answer import (
    BETTER,
    HELD_OUT,
    KEPT,
    MAY_BE_WORSE,
    NO_WORSE,
    NOT_KEPT,
    SEARCHED,
    WORSE,
    Judged,
    Judgement,
    Row,
    Searched,
    Trial,
)  # fmt: skip
from schedlab.tuning.asked import FRESH_AFTER, Tuning
from schedlab.tuning.costs import Costs, Objective, costs_of, lost
from schedlab.tuning.search import reason

# What costs so much more in some scenario is not called better, nor what might, unless the user
# allows more of it or less.
LOSS_MAX = 0.05
# Seeds of a judgement: as many as show half of what the search saw, and rule out a loss, within
# these bounds.
FRESH_LEAST, FRESH_MOST = 10, 50
# Of a front so many are judged.
CANDIDATES_MAX = 5
BASE, TUNED = "as_is", "tuned"
WORDS = {Verdict.FASTER: BETTER, Verdict.SLOWER: WORSE}

Make = Callable[[Making], None]
# Of scores, one a seed, None where a seed has nothing of what is scored.
ToRatio = Callable[[Sequence[float | None]], Ratio]


@dataclass
class Scenario:
    """The costs of each label on one scenario, a seed each, or why there are none."""

    name: str
    group: str
    costs: dict[str, list[Costs]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def judge(
    tuning: Tuning, searched: Searched, base: Mapping[str, int], store: Store, make: Make
) -> Judgement:
    """The judgement on the front of a search. `base` has what the searched tunables are as given;
    `make` makes the runs of each comparison."""
    if not searched.front:
        return Judgement((), why="no trial was sound: each failed, or broke a bound")
    gains = [one for one in searched.front if min(one.values) < 0 and one.settings != base]
    if not gains:
        return Judgement((), why=f"nothing that was tried was better than {tuning.label} as it is")
    candidates = _spread(gains)
    names = [TUNED] if len(candidates) == 1 else [f"{TUNED}_{n + 1}" for n in range(len(gains))]
    labels = dict(zip(names, candidates, strict=False))
    nr = tuning.fresh or nr_fresh(candidates)
    found = _judged_on(nr, nr, tuning, labels, store, make)
    if not tuning.fresh and (nr_noisy := nr_to_rule_out(tuning, found.judged)) > nr:
        found = _judged_on(nr_noisy, nr, tuning, labels, store, make)
    return found


def _judged_on(
    nr: int,
    nr_first: int,
    tuning: Tuning,
    labels: Mapping[str, Trial],
    store: Store,
    make: Make,
) -> Judgement:
    """The judgement on so many fresh seeds, of which the first said how many there are."""
    seeds = range(tuning.seed + FRESH_AFTER, tuning.seed + FRESH_AFTER + nr)
    scenarios, commands = [], []
    for workload in [*tuning.workloads, *tuning.holdouts]:
        experiment = _comparison(tuning, workload, labels, seeds)
        commands.append(command_of(experiment, store.path))
        making = begin(experiment, expand(experiment), store, commands[-1])
        make(making)
        group = SEARCHED if workload in tuning.workloads else HELD_OUT
        scenarios += _scenarios(making.records, group)
    return Judgement(judged_by(tuning, labels, scenarios, nr_first), seeds, commands)


def nr_fresh(candidates: Sequence[Trial]) -> int:
    """How many seeds show half of what the search saw in 80 of 100 cases, within bounds: half,
    because the best of many trials looks better than it is."""
    needed = [FRESH_LEAST]
    for trial in candidates:
        for value, scores in zip(trial.values, trial.scores, strict=True):
            if value < 0 and len(scores) > 1:
                noise = statistics.stdev(map(statistics.fmean, scores))
                change = math.expm1(-value / 2)
                needed.append(runs_needed(noise, change, in_blocks=True) or FRESH_MOST)
    return min(max(needed), FRESH_MOST)


def nr_to_rule_out(tuning: Tuning, judged: Sequence[Judged]) -> int:
    """How many seeds rule out what is not allowed where nothing differs, in 80 of 100 cases, within
    bounds. Only the noise decides, never what was found."""
    rows = [row for one in judged for row in one.rows]
    needed = [_nr_needed(row.ratio, _allowed(row, tuning), len(judged)) for row in rows]
    return min(max(needed, default=0), FRESH_MOST)


def _nr_needed(ratio: Ratio, allowed: float, nr_candidates: int) -> int:
    if ratio.log_error is None:
        # More seeds may have something of it.
        return FRESH_MOST
    noise = ratio.log_error * math.sqrt(ratio.n_a)
    if not (noise and allowed):
        return FRESH_MOST if noise else RUNS_FOR_INTERVAL_MIN
    return runs_needed(noise, allowed, in_blocks=True, shares=nr_candidates) or FRESH_MOST


def _spread(front: Sequence[Trial]) -> list[Trial]:
    """Some of a front, from one end to the other."""
    if len(front) <= CANDIDATES_MAX:
        return list(front)
    places = np.linspace(0, len(front) - 1, CANDIDATES_MAX).round().astype(int)
    return [front[place] for place in places]


def _comparison(
    tuning: Tuning, workload: str, labels: Mapping[str, Trial], seeds: range
) -> definition.Experiment:
    """The base and every candidate, as `schedlab compare` would have them."""
    fixed = dict(tuning.settings)
    settings = {
        label: fixed | {name: str(value) for name, value in trial.settings.items()}
        for label, trial in labels.items()
    }
    return tuning.experiment(
        workload,
        policies=[f"{label}={tuning.policy}" for label in (BASE, *labels)],
        set={BASE: fixed, **settings},
        repeat=len(seeds),
        seed=seeds.start,
    )


def command_of(asked: definition.Experiment, store: Path) -> str:
    """What asks for the same comparison in a shell."""
    words = ["schedlab", "compare"]
    words += [f"{choice.label}={choice.policy}" for choice in asked.policies]
    words += ["--workload", asked.workload]
    for machine in asked.machines:
        words += ["--machine", machine]
    for name, text in asked.parameters.items():
        words += ["--with", f"{name}={text}"]
    for label, tunables in asked.tunables.items():
        for name, text in tunables.items():
            words += ["--set", f"{label}.{name}={text}"]
    words += ["--repeat", str(asked.repeats), "--seed", str(asked.seed), "--store", str(store)]
    return shlex.join(words)


def _scenarios(records: Sequence[RunRecord], group: str) -> list[Scenario]:
    found: dict[tuple[str, str], Scenario] = {}
    for record in records:
        key = (record.workload, record.machine)
        scenario = found.setdefault(key, Scenario(" on ".join(key), group))
        if record.status == "completed":
            scenario.costs.setdefault(record.policy, []).append(costs_of(record.result))
        else:
            scenario.failed.setdefault(record.policy, reason(record))
    return list(found.values())


def judged_by(
    tuning: Tuning,
    labels: Mapping[str, Trial],
    scenarios: Sequence[Scenario],
    nr_first: int | None = None,
) -> list[Judged]:
    """What the costs of these candidates and of `BASE` say of each candidate. Of the seeds the
    first `nr_first` said how many there are; without it, nobody asked them."""
    failures = {label: _failure(tuning, label, scenarios) for label in labels}
    failed = {label: why for label, why in failures.items() if why}
    ratio = functools.partial(_ratio, nr_first=nr_first, shares=len(labels))
    rows = [
        row
        for label in labels
        if label not in failed
        for make_rows in (_objective_rows, _bounds)
        for row in make_rows(tuning, label, scenarios, ratio)
    ]
    # Of what is said of a candidate, one false claim among those of whole groups has no more than
    # its share of the error; nor has one among those of scenarios.
    families = by_key(((row.label, row.is_whole), row) for row in rows if not row.is_bound)
    words = {}
    for family in families.values():
        p_values = estimates.adjusted([row.ratio.p_value for row in family], estimates.holm)
        for row, p_value in zip(family, p_values, strict=True):
            word = WORDS.get(estimates.verdict(row.ratio, p_value))
            is_ruled_out = _rules_out(row.ratio, _allowed(row, tuning))
            words[id(row)] = word or (NO_WORSE if is_ruled_out else MAY_BE_WORSE)
    judged = []
    for label, trial in labels.items():
        mine = [replace(row, word=words.get(id(row), row.word)) for row in rows
                if row.label == label]  # fmt: skip
        judged.append(Judged(trial, label, mine, failed.get(label) or _objection(mine)))
    return judged


def _failure(tuning: Tuning, label: str, scenarios: Sequence[Scenario]) -> str:
    """Why runs of a candidate or of `BASE` cannot be compared; "" if they can."""
    for one in scenarios:
        for of in (label, BASE):
            if of in one.failed:
                return f"a run failed: {one.failed[of]}"
        for costs, base in zip(one.costs[label], one.costs[BASE], strict=True):
            if gone := lost(tuning.measures, costs, base):
                return f"a run has nothing of {', '.join(gone)} any more ({one.name})"
    return ""


def _objective_rows(
    tuning: Tuning, label: str, scenarios: Sequence[Scenario], ratio: ToRatio
) -> Iterator[Row]:
    """A row a group of scenarios and, where it has several, one for each."""
    for objective in tuning.objectives:
        for group, members in by_key((one.group, one) for one in scenarios).items():
            scores = [
                [
                    objective.score(cost, base)
                    for cost, base in zip(one.costs[label], one.costs[BASE], strict=True)
                ]
                for one in members
            ]
            facts = (label, objective.text, group)
            where = f"all {len(members)} scenarios" if len(members) > 1 else members[0].name
            yield Row(*facts, where, True, ratio(np.mean(scores, axis=0)))
            for one, of_one in zip(members, scores, strict=True) if len(members) > 1 else ():
                yield Row(*facts, one.name, False, ratio(of_one))


def _bounds(
    tuning: Tuning, label: str, scenarios: Sequence[Scenario], ratio: ToRatio
) -> Iterator[Row]:
    """A row a bound and scenario that has anything of it, of the seeds that have: it takes evidence
    to be kept."""
    for keep in tuning.keeps:
        alone = Objective(keep.measure, {keep.measure: 1.0})
        for one in scenarios:
            scores = [
                alone.score(cost, base) if alone.has_part_in(base) else None
                for cost, base in zip(one.costs[label], one.costs[BASE], strict=True)
            ]
            if all(score is None for score in scores):
                continue
            found = ratio(scores)
            word = KEPT if _rules_out(found, keep.within) else NOT_KEPT
            yield Row(label, keep.text, one.group, one.name, False, found, word, True)


def _ratio(scores: Sequence[float | None], nr_first: int | None, shares: int) -> Ratio:
    """The cost over the base's, of scores that are logarithms of it."""
    of_seeds, of_first = (
        [score for score in some if score is not None] for some in (scores, scores[:nr_first])
    )
    costs = np.exp(of_seeds)
    return two_stage_ratio(costs, np.ones_like(costs), len(of_first), shares)


def _allowed(row: Row, tuning: Tuning) -> float:
    """By what share a cost may be more: what the user allows of that very measure, if anything."""
    for keep in tuning.keeps:
        if row.measure == (keep.text if row.is_bound else keep.measure):
            return keep.within
    return LOSS_MAX


def _rules_out(ratio: Ratio, allowed: float) -> bool:
    """Whether it is shown that no more than this is lost."""
    high = ratio.equivalence_high
    return high is not None and high <= 1 + allowed


def _objection(rows: Sequence[Row]) -> str:
    """Why a candidate may not be called better; "" if nothing speaks against it."""
    whole = {group: [row for row in rows if row.is_whole and row.group == group]
             for group in (SEARCHED, HELD_OUT)}  # fmt: skip
    if not any(row.word == BETTER for row in whole[SEARCHED]):
        return "no better on fresh seeds"
    if worse := [row.measure for row in whole[SEARCHED] if row.word == WORSE]:
        return f"a trade: {', '.join(worse)} became worse"
    if worse := [row.measure for row in whole[HELD_OUT] if row.word == WORSE]:
        return f"better only where it was searched: {', '.join(worse)} became worse elsewhere"
    if worse := [row for row in rows if row.word == WORSE]:
        places = dict.fromkeys(f"{row.measure} became worse in {row.where}" for row in worse)
        return f"not better everywhere: {', '.join(places)}"
    if hidden := [row for row in rows if row.word == MAY_BE_WORSE]:
        places = [f"{row.measure} in {row.where} {row.ratio.change}" for row in hidden]
        return f"a loss is not ruled out: {', '.join(places)}; more seeds may tell (--fresh)"
    if broken := [row.measure for row in rows if row.word == NOT_KEPT]:
        return f"not shown to keep {', '.join(dict.fromkeys(broken))}"
    return ""
