"""Interactivity in numbers: how long woken tasks waited, what was answered when, and what too late.

Only what a run's result holds is told: a workload without requests has no response times, one
whose tasks never sleep no wake-up latency. Numbers are of the last value of what was varied,
where most is asked of a policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedlab.experiment.fairness import ShareErrors, share_errors
from schedlab.experiment.study import Panel, ScenarioRuns, Study
from schedlab.statistics import estimates

PERCENTILES = ("p50", "p90", "p99", "max")


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
    percentiles: Mapping[str, estimates.Estimate]
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
    deadlines: estimates.Estimate | None
    missed: estimates.Estimate | None
    delays: Delays | None


@dataclass(frozen=True, slots=True)
class Metrics:
    """What tasks got of the CPUs, each list empty where no run has anything of it."""

    latencies: Sequence[Delays]
    requests: Sequence[Requests]
    shares: Sequence[ShareErrors]


def metrics_of(study: Study) -> Metrics:
    """The metrics of the last cell of each panel."""
    return Metrics(wakeup_latencies(study), requests(study), share_errors(study))


def wakeup_latencies(study: Study) -> list[Delays]:
    """From wake-up to running, a row a panel and policy, where tasks sleep and wake."""
    rows = []
    for panel, cell, policy, runs in study.last_runs:
        # Births are wake-ups too, of tasks that had not been there before.
        woken = [r.result for r in runs if (r.result["wakeups"] or 0) > r.result["nr_tasks"]]
        of_runs = [result["wakeup_latency_ns"] for result in woken]
        if delays := _delays(panel, cell, policy, of_runs):
            rows.append(delays)
    return rows


def requests(study: Study) -> list[Requests]:
    """A row a panel, policy and name of tasks that release requests; none if no task does."""
    rows = []
    for panel, cell, policy, runs in study.last_runs:
        groups: dict[str, list[Mapping]] = {}
        for record in runs:
            for group in record.result.get("requests") or ():
                groups.setdefault(group["name"], []).append(group)
        for name, of_runs in groups.items():
            due = [group for group in of_runs if group.get("deadlines")]
            misses = [group["deadline_misses"] for group in due]
            deadlines = [group["deadlines"] for group in due]
            delays = _delays(panel, cell, policy, [group.get("response_ns") for group in of_runs])
            missed = estimates.percent_estimate(misses, deadlines) if due else None
            if missed or delays:
                of = estimates.estimate(deadlines) if due else None
                rows.append(Requests(panel, cell.x, policy, name, of, missed, delays))
    return rows


def _delays(
    panel: Panel, cell: ScenarioRuns, policy: str, of_runs: Sequence[Mapping | None]
) -> Delays | None:
    """Percentiles are estimated over runs: one number a run, never a percentile of percentiles."""
    counted = [delays for delays in of_runs if delays and delays["count"]]
    if not counted:
        return None
    # A delay of 0 ns is one below the clock's step.
    percentiles = {
        name: estimates.log_estimate([max(delays[name], 1) for delays in counted])
        for name in ("count", "mean", *PERCENTILES)
    }
    histograms = [delays.get("histogram") or () for delays in counted]
    curve = estimates.mean_ecdf(histograms) if all(histograms) else ((), ())
    return Delays(panel, cell.x, policy, percentiles, curve)
