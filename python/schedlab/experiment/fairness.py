"""Fairness in numbers: CPU time that tasks of different nice got, against what weights promise.

A closed form exists where tasks compete all the time and everywhere, so a cell is told only if

- tasks of at least two nice values never sleep, from the run's start to its end,
- there are more of them than CPUs, and none is kept off a CPU,
- whatever else there is takes next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedlab.experiment.study import Panel, Study
from schedlab.nice import fair_shares, weight_of
from schedlab.statistics.estimates import Estimate, estimate

# Share of a run that a task which never sleeps may be neither running nor waiting: switches.
ASLEEP_MAX = 0.01
# Share of the CPU time that tasks which do sleep may take before no closed form holds.
OTHERS_MAX = 0.01

# Of each nice value how many tasks it has, and what they were promised and got, in percent.
Contest = Mapping[int, tuple[int, float, float]]


@dataclass(frozen=True, slots=True)
class NiceShare:
    """The tasks of one nice value: `promised` and `got` are percentages of the CPU time that all
    tasks which never sleep got, `error` is got minus promised in percentage points."""

    nice: int
    count: int
    promised: float
    got: Estimate
    error: Estimate


@dataclass(frozen=True, slots=True)
class ShareErrors:
    """One policy in one cell; `shares` by ascending nice. Errors in percentage points. `largest`
    and `mean` are over the nice values, of errors without their sign."""

    panel: Panel
    x: float | str | None
    policy: str
    shares: Sequence[NiceShare]
    largest: Estimate
    mean: Estimate


def share_errors(study: Study) -> list[ShareErrors]:
    """A row a panel and policy for which there is a closed form; see the module's beginning."""
    rows = []
    for panel, cell, policy, runs in study.last_runs:
        contests = [_contest(record.result) for record in runs]
        # Random workloads may have other tasks with another seed.
        if not all(contests) or len({tuple(contest) for contest in contests}) > 1:
            continue
        shares = []
        for nice, (count, promised, _) in contests[0].items():
            got = [contest[nice][2] for contest in contests]
            errors = [contest[nice][2] - contest[nice][1] for contest in contests]
            shares.append(NiceShare(nice, count, promised, estimate(got), estimate(errors)))
        sizes = [[abs(got - due) for _, due, got in contest.values()] for contest in contests]
        largest = estimate([max(of_run) for of_run in sizes])
        mean = estimate([sum(of_run) / len(of_run) for of_run in sizes])
        rows.append(ShareErrors(panel, cell.x, policy, shares, largest, mean))
    return rows


def _contest(result: Mapping) -> Contest | None:
    """What a run promised and gave to its tasks; None where there is no closed form."""
    groups = result["task_groups"]
    if not groups or any(group["wait_ns"] is None for group in groups):
        return None
    least_ns = (1 - ASLEEP_MAX) * result["elapsed_ns"]
    hogs = [g for g in groups if (g["run_ns"] + g["wait_ns"]) / g["count"] >= least_ns > 0]
    hogs_ns, all_ns = (sum(group["run_ns"] for group in some) for some in (hogs, groups))
    weights = [weight_of(group["nice"]) for group in hogs for _ in range(group["count"])]
    if (
        len(set(weights)) < 2
        or len(weights) <= result["nr_cpus"]
        or any(group.get("pinned", True) for group in hogs)
        or all_ns - hogs_ns > OTHERS_MAX * all_ns
    ):
        return None
    promised = dict(zip(weights, fair_shares(weights, result["nr_cpus"]), strict=True))
    contest = {}
    for nice in sorted({group["nice"] for group in hogs}):
        alike = [group for group in hogs if group["nice"] == nice]
        count = sum(group["count"] for group in alike)
        got = sum(group["run_ns"] for group in alike) / hogs_ns
        contest[nice] = (count, 100 * count * promised[weight_of(nice)], 100 * got)
    return contest
