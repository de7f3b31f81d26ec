"""Fairness in numbers: CPU time that tasks of different nice got, against what weights promise.

A closed form exists where tasks compete all the time and everywhere, so a cell is told only if

- tasks of at least two nice values never sleep, from the run's start to its end,
- there are more of them than CPUs, and none is kept off a CPU,
- whatever else there is takes next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlab.experiment.interactivity import last_runs
from schedlab.nice import fair_shares, weight_of
from schedlab.statistics.estimates import Estimate, estimate

if TYPE_CHECKING:
    from schedlab.experiment.study import Panel, Study

ASLEEP_MAX = 0.01
"""Share of a run that a task which never sleeps may be neither running nor waiting: switches."""
OTHERS_MAX = 0.01
"""Share of the CPU time that tasks which do sleep may take before no closed form holds."""


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
    """One policy in one cell; `shares` by ascending nice. Errors in percentage points.

    `largest` and `mean` are over the nice values, of errors without their sign.
    """

    panel: Panel
    x: float | str | None
    policy: str
    shares: Sequence[NiceShare]
    largest: Estimate
    mean: Estimate


def share_errors(study: Study) -> list[ShareErrors]:
    """A row a panel and policy for which there is a closed form; see the module's beginning."""
    rows = []
    for panel, cell, policy, runs in last_runs(study):
        contests = [_contest(record.result) for record in runs]
        # Random workloads may have other tasks with another seed.
        if all(contests) and len({tuple(contest) for contest in contests}) == 1:
            rows.append(_errors(panel, cell.x, policy, contests))
    return rows


def _contest(result: Mapping) -> dict[int, tuple[int, float, float]] | None:
    """Count, promised and got of each nice value; None where there is no closed form."""
    groups, nr_cpus = result["task_groups"], result["nr_cpus"]
    if not groups or any(group["wait_ns"] is None for group in groups):
        return None
    hogs = [group for group in groups if _never_sleeps(group, result["elapsed_ns"])]
    run_ns = sum(group["run_ns"] for group in hogs)
    all_ns = sum(group["run_ns"] for group in groups)
    weights = [weight_of(group["nice"]) for group in hogs for _ in range(group["count"])]
    if (
        len({group["nice"] for group in hogs}) < 2
        or len(weights) <= nr_cpus
        or any(group.get("pinned", True) for group in hogs)
        or all_ns - run_ns > OTHERS_MAX * all_ns
    ):
        return None
    promised = dict(zip(weights, fair_shares(weights, nr_cpus), strict=True))
    found = {}
    for nice in sorted({group["nice"] for group in hogs}):
        mine = [group for group in hogs if group["nice"] == nice]
        count = sum(group["count"] for group in mine)
        got = sum(group["run_ns"] for group in mine) / run_ns
        found[nice] = (count, 100 * count * promised[weight_of(nice)], 100 * got)
    return found


def _never_sleeps(group: Mapping, elapsed_ns: int) -> bool:
    there_ns = (group["run_ns"] + group["wait_ns"]) / group["count"]
    return there_ns >= (1 - ASLEEP_MAX) * elapsed_ns > 0


def _errors(
    panel: Panel, x: float | str | None, policy: str, contests: Sequence[Mapping]
) -> ShareErrors:
    shares = [
        NiceShare(
            nice,
            count,
            promised,
            estimate([contest[nice][2] for contest in contests]),
            estimate([contest[nice][2] - contest[nice][1] for contest in contests]),
        )
        for nice, (count, promised, _) in contests[0].items()
    ]
    sizes = [[abs(got - due) for _, due, got in contest.values()] for contest in contests]
    return ShareErrors(
        panel,
        x,
        policy,
        shares,
        largest=estimate([max(of_run) for of_run in sizes]),
        mean=estimate([sum(of_run) / len(of_run) for of_run in sizes]),
    )
