"""Adds seeds where policies cannot be told apart yet, and none where they can (`--until-ci`).

A comparison with the first policy is clear if there is a word for it: its interval, seed by seed,
lies wholly beyond the threshold, faster or slower, or wholly within, same. It is looked at `looks`
times, after more and more runs of a policy in a scenario. What is clear at a look stays as it is,
and gets no more runs. Any wrong word at all, over the looks and policies of a scenario, is a 5 %
event, see `estimates.compare_to_stop`. What differs by about the threshold stays open until all are
made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlab.digests import canonical_json
from schedlab.experiment.study import Study, compare, rule_of
from schedlab.report.forms import count_text, list_text
from schedlab.statistics.estimates import Verdict
from schedlab.statistics.samples import by_key
from schedlab.store.runs import RunRecord

if TYPE_CHECKING:
    from schedlab.experiment.cells import Cell
    from schedlab.experiment.making import Making

# How many open comparisons are told by name.
TOLD_MAX = 12
# A machine and the values of what is varied there.
Scenario = tuple[str, str]


def make_runs(making: Making, jobs: int, quiet: bool) -> None:
    """As `Making.make_runs`, but only the cells that are needed, which `making.cells` are then.

    Decides only by runs of the seeds that each look is at, so that it ends the same however often
    it was stopped, and whatever else the store has.
    """
    every, rule, first = making.cells, rule_of(making.asked.definition), making.asked.policies[0]
    scenarios = {
        scenario: by_key((cell.policy.label, cell) for cell in cells)
        for scenario, cells in by_key((_scenario_of(cell), cell) for cell in every).items()
    }
    wanted = {scenario: set(of_policies) for scenario, of_policies in scenarios.items()}
    asked: set[int] = set()
    for nr_runs in rule.looks:
        for scenario, policies in wanted.items():
            for policy in policies:
                asked |= {id(cell) for cell in scenarios[scenario][policy][:nr_runs]}
        making.cells = [cell for cell in every if id(cell) in asked]
        making.make_runs(jobs, quiet)
        runs = _completed(making)
        for scenario in wanted:
            contrasts = compare(runs.get(scenario, {}), first.label, rule)
            unclear = {
                policy
                for policy in wanted[scenario] & contrasts.keys()
                if contrasts[policy].verdict is Verdict.INCONCLUSIVE
            }
            wanted[scenario] = unclear and {first.label, *unclear}
        if not any(wanted.values()):
            break
    making.drop_others()


def _scenario_of(cell: Cell) -> Scenario:
    return cell.machine.name, canonical_json(dict(cell.varied))


def _completed(making: Making) -> dict[Scenario, dict[str, Sequence[RunRecord]]]:
    """The completed runs of each scenario under each policy."""
    places = zip(making.cells, making.records, strict=True)
    done = [(cell, record) for cell, record in places if record.status == "completed"]
    return {
        scenario: by_key((cell.policy.label, record) for cell, record in of)
        for scenario, of in by_key((_scenario_of(cell), (cell, rec)) for cell, rec in done).items()
    }


@dataclass(frozen=True, slots=True)
class Clearing:
    """What came of adding seeds: how many runs there are, of how many if each policy had got the
    most in each scenario, and the comparisons that are `open` all the same."""

    threshold: float
    nr_looks: int
    repeat_max: int
    nr_runs: int
    nr_runs_most: int
    open: Sequence[str]

    @property
    def text(self) -> str:
        """All of it in words."""
        saved = self.nr_runs_most - self.nr_runs
        percent = f"{100 * self.threshold:g} %"
        text = (
            f"Seeds were added until each comparison was clear (faster, slower or same, by"
            f" {percent}), at most {self.repeat_max} a policy and scenario:"
            f" {self.nr_runs} runs, {saved} saved of {self.nr_runs_most}"
            f" ({100 * saved / self.nr_runs_most:.0f} %). × intervals, seed by seed, hold 95 % over"
            f" {count_text(self.nr_looks, 'look')} and all policies of a scenario together; others"
            " are those of the runs there are"
        )
        if not self.open:
            return f"{text}. Every comparison is clear."
        told = [*self.open[:TOLD_MAX]]
        if more := len(self.open) - len(told):
            told.append(f"{more} others")
        return f"{text}. Not clear: {list_text(told)}."


def clearing_of(definition: Mapping, study: Study) -> Clearing | None:
    """What came of adding seeds; None for an experiment that adds none."""
    if definition.get("until_ci") is None:
        return None
    rule, most = rule_of(definition), definition["repeat_max"]
    records = [*study.completed, *study.incomplete]
    places = {(one.policy, one.machine, canonical_json(one.varied)) for one in records}
    # None where all runs of the policy or of the first one failed.
    unclear = [
        f"{policy} on {panel.name}{study.at(cell)}"
        for panel in study.panels
        for cell in panel.cells
        for policy in study.policies[1:]
        if (found := cell.comparisons.get(policy)) is None or found.verdict is Verdict.INCONCLUSIVE
    ]
    counts = (most, len(records), most * len(places))
    return Clearing(rule.threshold, len(rule.looks), *counts, unclear)
