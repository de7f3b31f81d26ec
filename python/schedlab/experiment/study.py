"""What runs say: grouped into panels and cells, with an estimate of each.

A panel is one machine under one workload, a cell one value of what was varied. The table in the
terminal and the report are two ways to show a `Study`. Only completed runs enter a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedlab.report.forms import TIME_UNITS_NS, mean_text, time_unit
from schedlab.statistics import estimates
from schedlab.store.runs import RunRecord


@dataclass(frozen=True, slots=True)
class ScenarioRuns:
    """The completed runs of one scenario: `runs` and `makespan` have a key a policy that has any.

    `x` is the value of what was varied, None where nothing was. `makespan` is in the report's
    unit. `comparisons` has every policy but the first, and is empty where the first has no run.
    """

    x: float | str | None
    runs: Mapping[str, Sequence[RunRecord]]
    makespan: Mapping[str, estimates.Estimate]
    comparisons: Mapping[str, estimates.Contrast]

    def makespan_text(self, policy: str) -> str:
        """Mean ± half of its interval, and n where a run is missing; "failed" where all are."""
        makespan = self.makespan.get(policy)
        if makespan is None:
            return "failed"
        text = mean_text(makespan.mean, makespan.low, makespan.high)
        is_missing = makespan.n < max(other.n for other in self.makespan.values())
        return text + f" (n = {makespan.n})" * is_missing


@dataclass(frozen=True, slots=True)
class Panel:
    """One machine under one workload; `growth` is of mean makespan against x, where it has one."""

    name: str
    nr_cpus: int | None
    cells: Sequence[ScenarioRuns]
    growth: Mapping[str, estimates.Growth]


@dataclass(frozen=True, slots=True)
class Study:
    """All that a report tells; `policies` in order, the first being what others are compared with.

    `axis` is the name of what was varied, None where nothing was; `unit` is that of every makespan.
    """

    policies: Sequence[str]
    axis: str | None
    unit: str
    panels: Sequence[Panel]
    completed: Sequence[RunRecord]
    incomplete: Sequence[RunRecord]

    @property
    def unit_ns(self) -> float:
        """Nanoseconds of `unit`."""
        return TIME_UNITS_NS[self.unit]

    @property
    def cells(self) -> list[ScenarioRuns]:
        """Those of all panels, in order."""
        return [cell for panel in self.panels for cell in panel.cells]

    @property
    def makespans(self) -> list[estimates.Estimate]:
        """Those of all cells and policies."""
        return [makespan for cell in self.cells for makespan in cell.makespan.values()]

    @property
    def contrasts(self) -> list[estimates.Contrast]:
        """Every comparison with the first policy."""
        return [contrast for cell in self.cells for contrast in cell.comparisons.values()]

    @property
    def last_runs(self) -> list[tuple[Panel, ScenarioRuns, str, Sequence[RunRecord]]]:
        """The runs of each policy where most is asked of it: the last cell of each panel."""
        return [
            (panel, panel.cells[-1], policy, panel.cells[-1].runs[policy])
            for panel in self.panels
            for policy in self.policies
            if policy in panel.cells[-1].runs
        ]


def study_of(records: Sequence[RunRecord]) -> Study:
    """Groups records, completed or not, into panels and cells and estimates each cell.

    Policies are shown in the order in which they first appear and compared with the first; so are
    machines, without comparison. Raises ValueError if there is no record.
    """
    if not records:
        raise ValueError("a report needs at least one run: records is empty")
    completed = [record for record in records if record.status == "completed"]
    policies = list(dict.fromkeys(record.policy for record in records))
    axis = _axis_of(records)
    longest_ns = max((record.result["makespan_ns"] for record in completed), default=0)
    unit = time_unit(longest_ns)[0] if longest_ns else "s"
    has_several = len({record.workload for record in records}) > 1
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        parts = [record.machine, *[record.workload] * has_several]
        parts += [f"{name} = {value}" for name, value in record.varied.items() if name != axis]
        groups.setdefault(", ".join(parts), []).append(record)
    panels = [_panel(name, group, policies, axis, unit) for name, group in groups.items()]
    incomplete = [record for record in records if record.status != "completed"]
    return Study(policies, axis, unit, panels, completed, incomplete)


# --- grouping -------------------------------------------------------------------------------------


def _axis_of(records: Sequence[RunRecord]) -> str | None:
    """The varied parameter to draw along: the first numeric one with two values, else the first."""
    values: dict[str, dict[float | str, None]] = {}
    for record in records:
        for name, value in record.varied.items():
            values.setdefault(name, {})[value] = None
    several = [name for name in values if len(values[name]) > 1]
    numeric = [name for name in several if all(_is_number(value) for value in values[name])]
    return next(iter([*numeric, *several]), None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _panel(
    name: str, records: Sequence[RunRecord], policies: Sequence[str], axis: str | None, unit: str
) -> Panel:
    xs = list(dict.fromkeys(axis and record.varied.get(axis) for record in records))
    if all(_is_number(x) for x in xs):
        xs.sort()
    completed = [record for record in records if record.status == "completed"]
    cells = []
    for x in xs:
        here = [record for record in completed if axis is None or record.varied.get(axis) == x]
        runs = {policy: [r for r in here if r.policy == policy] for policy in policies}
        runs = {policy: records for policy, records in runs.items() if records}
        cells.append(_cell(x, runs, policies[0], TIME_UNITS_NS[unit]))
    nr_cpus = completed[0].result.get("nr_cpus") if completed else None
    return Panel(name, nr_cpus, cells, _growths(cells, policies))


def _cell(
    x: float | str | None, runs: Mapping[str, Sequence[RunRecord]], first: str, unit_ns: float
) -> ScenarioRuns:
    times = {
        policy: [record.result["makespan_ns"] / unit_ns for record in records]
        for policy, records in runs.items()
    }
    comparable = first in times and min(map(min, times.values())) > 0
    return ScenarioRuns(
        x=x,
        runs=runs,
        makespan={policy: estimates.estimate(values) for policy, values in times.items()},
        comparisons=estimates.compare_to_first(times) if comparable else {},
    )


def _growths(cells: Sequence[ScenarioRuns], policies: Sequence[str]) -> dict[str, estimates.Growth]:
    """One point a cell, because repetitions cannot tell how far a curve is from a power law."""
    growths = {}
    for policy in policies:
        means = [(cell.x, cell.makespan[policy].mean) for cell in cells if policy in cell.makespan]
        usable = [(x, mean) for x, mean in means if _is_number(x) and x > 0 and mean > 0]
        if len(usable) > 1:
            growths[policy] = estimates.growth_exponent(*zip(*usable, strict=True))
    return growths
