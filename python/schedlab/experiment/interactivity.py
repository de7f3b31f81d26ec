"""Interactivity in numbers: how long woken tasks waited, what was answered when, and what too late.

Only what a run's result holds is told: a workload without requests has no response times, one
whose tasks never sleep no wake-up latency. Numbers are of the last value of what was varied,
where most is asked of a policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlab.statistics.estimates import (
    Estimate,
    estimate,
    log_estimate,
    mean_ecdf,
    percent_estimate,
)

if TYPE_CHECKING:
    from schedlab.experiment.study import Panel, ScenarioRuns, Study
    from schedlab.store.runs import RunRecord

PERCENTILES = ("p50", "p90", "p99", "max")
REQUEST_GROUPS_MAX = 8
"""A workload with more kinds of requests is told without a figure for each."""


@dataclass(frozen=True, slots=True)
class Delays:
    """What the delays of one policy in one cell were, estimated over runs.

    `percentiles` has `PERCENTILES`, `mean` and `count`; each is a percentile inside a run, and its
    geometric mean over runs, in nanoseconds but for the count. `curve` is the distribution
    function as (values in ns, shares), empty where the runs keep no histogram.
    """

    panel: Panel
    x: float | str | None
    policy: str
    percentiles: Mapping[str, Estimate]
    curve: tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests that tasks of one name released, under one policy in one cell.

    `deadlines` is how many there were, a mean over runs, `missed` what percentage of all passed
    before the request was done; None where none had a deadline. `delays` are the response times,
    from release to done, None where none was done.
    """

    panel: Panel
    x: float | str | None
    policy: str
    name: str
    deadlines: Estimate | None
    missed: Estimate | None
    delays: Delays | None


def last_runs(study: Study) -> list[tuple[Panel, ScenarioRuns, str, Sequence[RunRecord]]]:
    """The runs of each policy where most is asked of it: the last cell of each panel."""
    cells = [(panel, panel.cells[-1]) for panel in study.panels]
    return [
        (panel, cell, policy, cell.runs[policy])
        for panel, cell in cells
        for policy in study.policies
        if policy in cell.runs
    ]


def sleeps(result: Mapping) -> bool:
    """Whether a task was woken that had been there before: births are wake-ups too."""
    return bool(result["wakeups"]) and result["wakeups"] > result["nr_tasks"]


def wakeup_latencies(study: Study) -> list[Delays]:
    """From wake-up to running, a row a panel and policy, where tasks sleep and wake."""
    rows = []
    for panel, cell, policy, runs in last_runs(study):
        found = [record.result["wakeup_latency_ns"] for record in runs if sleeps(record.result)]
        if delays := _delays(panel, cell, policy, found):
            rows.append(delays)
    return rows


def requests(study: Study) -> list[Requests]:
    """A row a panel, policy and name of tasks that release requests; none if no task does."""
    rows = []
    for panel, cell, policy, runs in last_runs(study):
        groups: dict[str, list[Mapping]] = {}
        for record in runs:
            for group in record.result.get("requests") or ():
                groups.setdefault(group["name"], []).append(group)
        for name, found in groups.items():
            due = [group for group in found if group.get("deadlines")]
            missed = [group["deadline_misses"] for group in due]
            deadlines = [group["deadlines"] for group in due]
            delays = _delays(panel, cell, policy, [group.get("response_ns") for group in found])
            rows.append(
                Requests(
                    panel,
                    cell.x,
                    policy,
                    name,
                    estimate(deadlines) if due else None,
                    percent_estimate(missed, deadlines) if due else None,
                    delays,
                )
            )
    return [row for row in rows if row.missed or row.delays]


def _delays(
    panel: Panel, cell: ScenarioRuns, policy: str, found: Sequence[Mapping | None]
) -> Delays | None:
    """Percentiles are estimated over runs: one number a run, never a percentile of percentiles."""
    counted = [delays for delays in found if delays and delays["count"]]
    if not counted:
        return None
    # A delay of 0 ns is one below the clock's step.
    percentiles = {
        name: log_estimate([max(delays[name], 1) for delays in counted])
        for name in ("count", "mean", *PERCENTILES)
    }
    histograms = [delays.get("histogram") or () for delays in counted]
    curve = mean_ecdf(histograms) if all(histograms) else ((), ())
    return Delays(panel, cell.x, policy, percentiles, curve)
