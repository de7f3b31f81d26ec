"""What tasks got of the CPUs: how long woken ones waited, what was answered when and what too late,
and shares of CPU time against what weights promise.

Only what a run's result holds is told: a workload without requests has no response times, one
whose tasks never sleep no wake-up latency. For shares a closed form exists where tasks compete all
the time and everywhere, so a cell is told only if

- tasks of at least two nice values never sleep, from the run's start to its end,
- there are more of them than CPUs, and none is kept off a CPU,
- whatever else there is takes next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedlab.experiment.study import Panel, ScenarioRuns, Study
from schedlab.nice import fair_shares, weight_of
from schedlab.statistics import estimates
from schedlab.statistics.estimates import Estimate, estimate
from schedlab.statistics.samples import by_key
from schedlab.store.runs import RunRecord

PERCENTILES = ("p50", "p90", "p99", "max")
# Share of a run that a task which never sleeps may be neither running nor waiting: switches.
ASLEEP_MAX = 0.01
# Share of the CPU time that tasks which do sleep may take before no closed form holds.
OTHERS_MAX = 0.01

# Of each nice value how many tasks it has, and what they were promised and got, in percent.
Contest = Mapping[int, tuple[int, float, float]]


@dataclass(frozen=True, slots=True)
class OfPolicy:
    """What is said of one policy in one cell of a panel."""

    panel: Panel
    cell: ScenarioRuns
    policy: str

    @property
    def x(self) -> float | str | None:
        """The value of what was varied."""
        return self.cell.x

    @property
    def is_last(self) -> bool:
        """Whether it is the last value of what was varied, where most is asked of a policy."""
        return self.cell is self.panel.cells[-1]


@dataclass(frozen=True, slots=True)
class Delays(OfPolicy):
    """What delays were, estimated over runs.

    `percentiles` has `PERCENTILES`, `mean` and `count`; each is a percentile inside a run, and its
    geometric mean over runs, in nanoseconds but for the count. `curve` is the distribution
    function as (values in ns, shares), empty where the runs keep no histogram.
    """

    percentiles: Mapping[str, Estimate]
    curve: tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Requests(OfPolicy):
    """The requests that tasks of one name released.

    `deadlines` is how many there were, a mean over runs, `missed` what percentage of all passed
    before the request was done; None where none had a deadline. `delays` are the response times,
    from release to done, None where none was done.
    """

    name: str
    deadlines: Estimate | None
    missed: Estimate | None
    delays: Delays | None


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
class ShareErrors(OfPolicy):
    """Shares by ascending nice, errors in percentage points. `largest` and `mean` are over the nice
    values, of errors without their sign."""

    shares: Sequence[NiceShare]
    largest: Estimate
    mean: Estimate


@dataclass(frozen=True, slots=True)
class Metrics:
    """What tasks got of the CPUs, each list empty where no run has anything of it."""

    latencies: Sequence[Delays]
    requests: Sequence[Requests]
    shares: Sequence[ShareErrors]

    @property
    def last(self) -> Metrics:
        """Those of the last value of what was varied."""
        kept = ([row for row in rows if row.is_last] for rows in self.rows)
        return Metrics(*kept)

    @property
    def rows(self) -> tuple[Sequence[OfPolicy], ...]:
        """All of them, a sequence a sort."""
        return (self.latencies, self.requests, self.shares)


def metrics_of(study: Study) -> Metrics:
    """The metrics of each policy in each cell."""
    return Metrics(wakeup_latencies(study), requests(study), share_errors(study))


def wakeup_latencies(study: Study) -> list[Delays]:
    """From wake-up to running, a row a cell and policy, where tasks sleep and wake."""
    rows = []
    for place in study.places:
        # Births are wake-ups too, of tasks that had not been there before.
        woken = [
            r.result for r in _runs(place) if (r.result["wakeups"] or 0) > r.result["nr_tasks"]
        ]
        rows.append(_delays(place, [result["wakeup_latency_ns"] for result in woken]))
    return list(filter(None, rows))


def requests(study: Study) -> list[Requests]:
    """A row a cell, policy and name of tasks that release requests; none if no task does."""
    rows = []
    for place in study.places:
        groups = (group for record in _runs(place) for group in record.result.get("requests") or ())
        for name, of_runs in by_key((group["name"], group) for group in groups).items():
            due = [group for group in of_runs if group.get("deadlines")]
            misses = [group["deadline_misses"] for group in due]
            deadlines = [group["deadlines"] for group in due]
            delays = _delays(place, [group.get("response_ns") for group in of_runs])
            missed = estimates.percent_estimate(misses, deadlines) if due else None
            if missed or delays:
                of = estimate(deadlines) if due else None
                rows.append(Requests(*place, name, of, missed, delays))
    return rows


Place = tuple[Panel, ScenarioRuns, str]


def _runs(place: Place) -> Sequence[RunRecord]:
    _, cell, policy = place
    return cell.runs[policy]


def _delays(place: Place, of_runs: Sequence[Mapping | None]) -> Delays | None:
    """Percentiles are estimated over runs: one number a run, never a percentile of percentiles."""
    if not (counted := [delays for delays in of_runs if delays and delays["count"]]):
        return None
    # A delay of 0 ns is one below the clock's step.
    percentiles = {
        name: estimates.log_estimate([max(delays[name], 1) for delays in counted])
        for name in ("count", "mean", *PERCENTILES)
    }
    histograms = [delays.get("histogram") or () for delays in counted]
    curve = estimates.mean_ecdf(histograms) if all(histograms) else ((), ())
    return Delays(*place, percentiles, curve)


def share_errors(study: Study) -> list[ShareErrors]:
    """A row a cell and policy for which there is a closed form; see the module's beginning."""
    rows = []
    for place in study.places:
        contests = [_contest(record.result) for record in _runs(place)]
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
        rows.append(ShareErrors(*place, shares, largest, mean))
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
