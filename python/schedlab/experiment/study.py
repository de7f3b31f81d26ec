"""What runs say: grouped into panels and cells, an estimate of each, and forms for its numbers.

A panel is one machine under one workload, a cell one value of what was varied. The table in the
terminal and the report are two ways to show a `Study`. Only completed runs enter a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlab.statistics.estimates import (
    Contrast,
    Estimate,
    Growth,
    compare_to_first,
    estimate,
    growth_exponent,
)

if TYPE_CHECKING:
    from schedlab.store.runs import RunRecord

UNITS_NS = {"s": 1e9, "ms": 1e6, "µs": 1e3, "ns": 1.0}


@dataclass(frozen=True, slots=True)
class ScenarioRuns:
    """The completed runs of one scenario: `runs` and `makespan` have a key a policy that has any.

    `x` is the value of what was varied, None where nothing was. `makespan` is in the report's
    unit. `comparisons` has every policy but the first, and is empty where the first has no run.
    """

    x: float | str | None
    runs: Mapping[str, Sequence[RunRecord]]
    makespan: Mapping[str, Estimate]
    comparisons: Mapping[str, Contrast]


@dataclass(frozen=True, slots=True)
class Panel:
    """One machine under one workload; `growth` is of mean makespan against x, where it has one."""

    name: str
    nr_cpus: int | None
    cells: Sequence[ScenarioRuns]
    growth: Mapping[str, Growth]


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
        return UNITS_NS[self.unit]

    @property
    def cells(self) -> list[ScenarioRuns]:
        """Those of all panels, in order."""
        return [cell for panel in self.panels for cell in panel.cells]


def study_of(records: Sequence[RunRecord]) -> Study:
    """Group records into panels and cells and estimate each cell.

    Parameters
    ----------
    records : sequence of RunRecord
        In the order described at `report.write_report`.

    Raises
    ------
    ValueError
        If there is no record.
    """
    if not records:
        raise ValueError("a report needs at least one run: records is empty")
    completed = [record for record in records if record.status == "completed"]
    policies = list(dict.fromkeys(record.policy for record in records))
    axis = _axis_of(records)
    unit = _makespan_unit(completed)
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        groups.setdefault(_panel_name(record, axis, records), []).append(record)
    panels = [_panel(name, group, policies, axis, unit) for name, group in groups.items()]
    incomplete = [record for record in records if record.status != "completed"]
    return Study(policies, axis, unit, panels, completed, incomplete)


# --- numbers --------------------------------------------------------------------------------------


def number(value: float | None) -> str:
    """Four significant digits, with separated thousands; a dash for what is not known."""
    if value is None:
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return "0" if value == 0 else f"{value:#.4g}".rstrip(".")


def mean_count(value: float) -> str:
    """A mean of counts as `number` has it, but a whole one looks like a count."""
    return f"{value:,.0f}" if value == round(value) else number(value)


def factor(value: float | None) -> str:
    """A ratio to three decimals, or three significant digits from 10; a dash if not known."""
    if value is None:
        return "–"
    return f"{value:.3f}" if value < 10 else f"{value:#.3g}".rstrip(".")


def interval(found: Estimate | Growth, form: Callable[[float | None], str] = number) -> str:
    """The interval of an estimate in brackets, or why there is none to show."""
    if found.low is None or found.high is None:
        return "no interval"
    if found.low == found.high:
        return "all runs equal"
    return f"[{form(found.low)}, {form(found.high)}]"


def points(value: float) -> str:
    """A difference of percentages with its sign, to a hundredth; none where that is zero."""
    text = f"{value:+.2f}"
    return text if text.strip("+-0.") else "0.00"


def p_value(value: float | None) -> str:
    """Two significant digits; below one in ten thousand, where the model is in doubt, only that."""
    if value is None:
        return "–"
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"


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


def _makespan_unit(completed: Sequence[RunRecord]) -> str:
    longest_ns = max((record.result["makespan_ns"] for record in completed), default=0)
    return next((unit for unit, ns in UNITS_NS.items() if longest_ns >= ns), "s")


def _panel_name(record: RunRecord, axis: str | None, records: Sequence[RunRecord]) -> str:
    parts = [record.machine]
    if len({other.workload for other in records}) > 1:
        parts.append(record.workload)
    parts += [f"{name} = {value}" for name, value in record.varied.items() if name != axis]
    return ", ".join(parts)


def _panel(
    name: str, records: Sequence[RunRecord], policies: Sequence[str], axis: str | None, unit: str
) -> Panel:
    xs = dict.fromkeys(None if axis is None else record.varied.get(axis) for record in records)
    if all(_is_number(x) for x in xs):
        xs = dict.fromkeys(sorted(xs))
    cells = []
    for x in xs:
        here = [r for r in records if axis is None or r.varied.get(axis) == x]
        runs = {policy: _completed(here, policy) for policy in policies}
        cells.append(
            _cell(x, {policy: found for policy, found in runs.items() if found}, policies, unit)
        )
    nr_cpus = {record.result.get("nr_cpus") for record in records if record.status == "completed"}
    return Panel(name, next(iter(nr_cpus), None), cells, _growths(cells, policies))


def _completed(records: Sequence[RunRecord], policy: str) -> list[RunRecord]:
    return [r for r in records if r.policy == policy and r.status == "completed"]


def _cell(
    x: float | str | None,
    runs: Mapping[str, Sequence[RunRecord]],
    policies: Sequence[str],
    unit: str,
) -> ScenarioRuns:
    times = {
        policy: [record.result["makespan_ns"] / UNITS_NS[unit] for record in found]
        for policy, found in runs.items()
    }
    comparable = policies[0] in times and min(map(min, times.values())) > 0
    return ScenarioRuns(
        x=x,
        runs=runs,
        makespan={policy: estimate(values) for policy, values in times.items()},
        comparisons=compare_to_first(times) if comparable else {},
    )


def _growths(cells: Sequence[ScenarioRuns], policies: Sequence[str]) -> dict[str, Growth]:
    """One point a cell, because repetitions cannot tell how far a curve is from a power law."""
    growths = {}
    for policy in policies:
        points = [(c.x, c.makespan[policy].mean) for c in cells if policy in c.makespan]
        usable = [(x, y) for x, y in points if _is_number(x) and x > 0 and y > 0]
        if len(usable) > 1:
            growths[policy] = growth_exponent(*zip(*usable, strict=True))
    return growths
