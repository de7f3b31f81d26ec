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
    rank_agreement,
)

if TYPE_CHECKING:
    from schedlab.store.runs import RunRecord

_MAKESPAN_UNITS_NS = {"s": 1e9, "ms": 1e6, "µs": 1e3, "ns": 1.0}


@dataclass(frozen=True, slots=True)
class Ideal:
    """Times over the ideal of the same side: published over published, simulated over simulated.

    `parameter` counts equal parts of work; ideal is the time of one part, times the parts that each
    CPU has, at least one. Dimensionless; None where that side has no time for one part.
    """

    parameter: str
    published: float | None
    simulated: float | None

    @property
    def meaning(self) -> str:
        """What is ideal, for a caption."""
        n = self.parameter
        return (
            f"time at {n} = 1 × max({n} / CPUs, 1), of the same policy and side;"
            f" – where {n} = 1 is missing"
        )


@dataclass(frozen=True, slots=True)
class Published:
    """A figure from the literature beside the simulation of the same thing, in one unit.

    `ideal` is None where the experiment does not say what would be ideal.
    """

    value: float
    simulated: Estimate
    unit: str
    source: str
    ideal: Ideal | None = None
    policy: str = ""
    where: str = ""


@dataclass(frozen=True, slots=True)
class RankAgreement:
    """How far simulated times are in the order of published ones.

    `tau` is Kendall's, over all `n` times, None if it is not defined. Of `nr_pairs` pairs of
    policies in one place, the same one is faster on both sides in `nr_same`.
    """

    n: int
    tau: float | None
    nr_pairs: int
    nr_same: int


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


def published_beside(definition: Mapping, study: Study) -> dict[str, Published]:
    """Published times that a cell of the study simulates, by a label that says which it is.

    Parameters
    ----------
    definition : mapping
        `Experiment.definition`, or what a store has of it.
    """
    told = definition.get("published")
    if not told:
        return {}
    unit_ns = _MAKESPAN_UNITS_NS[study.unit]
    times = {
        _place(time["policy"], time["machine"], time["varied"]): time["makespan_ns"] / unit_ns
        for time in told["times"]
    }
    simulated, nr_cpus = _simulated_places(study)
    means = {place: found.mean for place, found in simulated.items()}
    beside = {}
    for time in told["times"]:
        place = _place(time["policy"], time["machine"], time["varied"])
        if place not in simulated:
            continue
        ideal = None
        if parameter := told.get("ideal"):
            one = _place(time["policy"], time["machine"], {**time["varied"], parameter: 1})
            parts = max(time["varied"][parameter] / nr_cpus[place], 1)
            ideal = Ideal(parameter, *(_over(of, place, one, parts) for of in (times, means)))
        beside[place] = Published(
            times[place],
            simulated[place],
            study.unit,
            told["source"],
            ideal,
            time["policy"],
            _place("", time["machine"], time["varied"]),
        )
    return beside


def over_first(published: Mapping[str, Published]) -> dict[str, tuple[float, float]]:
    """Times over those of the policy that comes first in the same place: published, simulated.

    By the same labels; without the first policies themselves, and empty where each is alone.
    """
    first: dict[str, Published] = {}
    found = {}
    for label, row in published.items():
        one = first.setdefault(row.where, row)
        if one is not row:
            of_simulated = row.simulated.mean / one.simulated.mean
            found[label] = (row.value / one.value, of_simulated)
    return found


def rank_agreement_of(published: Mapping[str, Published]) -> RankAgreement | None:
    """Ranks of published times and of the means simulated beside them; None if there are none."""
    rows = list(published.values())
    if not rows:
        return None
    tau = rank_agreement([row.value for row in rows], [row.simulated.mean for row in rows])
    nr_pairs = nr_same = 0
    for place, one in enumerate(rows):
        for other in rows[place + 1 :]:
            if one.where != other.where or one.value == other.value:
                continue
            nr_pairs += 1
            faster = one.simulated.mean < other.simulated.mean
            nr_same += faster == (one.value < other.value)
    return RankAgreement(len(rows), tau, nr_pairs, nr_same)


def rank_text(published: Mapping[str, Published]) -> str:
    """`rank_agreement_of` in a line, of at least one published time."""
    found = rank_agreement_of(published)
    tau = "not defined" if found.tau is None else f"{found.tau:.2f}"
    text = f"order of all {found.n} times: Kendall's τ = {tau}"
    if found.nr_pairs:
        text += f"; the same policy is faster in {found.nr_same} of {found.nr_pairs} pairs"
    return text


def _simulated_places(study: Study) -> tuple[dict[str, Estimate], dict[str, int]]:
    """Makespan of every cell and policy, and the CPUs of its machine, by place."""
    makespans, nr_cpus = {}, {}
    for cell in (cell for panel in study.panels for cell in panel.cells):
        for policy, found in cell.makespan.items():
            record = cell.runs[policy][0]
            place = _place(policy, record.machine, record.varied)
            makespans[place], nr_cpus[place] = found, record.result["nr_cpus"]
    return makespans, nr_cpus


def _place(policy: str, machine: str, varied: Mapping) -> str:
    return ", ".join([policy, machine, *(f"{name} = {value}" for name, value in varied.items())])


def _over(times: Mapping[str, float], place: str, one: str, parts: float) -> float | None:
    """The time of a place over the ideal, which is that of one part times `parts`."""
    return times[place] / (times[one] * parts) if times.get(one) else None


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
    return next((unit for unit, ns in _MAKESPAN_UNITS_NS.items() if longest_ns >= ns), "s")


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
        policy: [record.result["makespan_ns"] / _MAKESPAN_UNITS_NS[unit] for record in found]
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
