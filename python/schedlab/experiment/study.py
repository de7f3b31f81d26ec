"""What runs say: grouped into panels and cells, with an estimate of each.

A panel is one machine under one workload, a cell one value of what was varied. The table in the
terminal and the report are two ways to show a `Study`. Only completed runs enter a number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from schedlab.report import forms
from schedlab.statistics import estimates, stopping
from schedlab.statistics.estimates import Contrast, Estimate, Growth, Ratio
from schedlab.statistics.samples import by_key
from schedlab.store.runs import RunRecord


@dataclass(frozen=True, slots=True)
class Rule:
    """How policies are compared: `threshold` is the smallest change worth a word. `looks` are after
    how many runs it is looked whether a comparison is clear, empty where that is not asked;
    `shares` is as in `estimates.compare_to_stop`."""

    threshold: float = estimates.THRESHOLD
    looks: Sequence[int] = ()
    shares: int = 1


def rule_of(definition: Mapping) -> Rule:
    """The rule of an experiment's definition."""
    if (threshold := definition.get("until_ci")) is None:
        return Rule()
    looks = stopping.looks_until_clear(definition["repeats"], definition["repeat_max"])
    return Rule(threshold, looks, len(looks) * (len(definition["policies"]) - 1))


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

    def makespan_text(self, policy: str) -> str:
        """Mean ± half of its interval, and n where a run is missing; "failed" where all are."""
        if (makespan := self.makespan.get(policy)) is None:
            return "failed"
        is_missing = makespan.n < max(other.n for other in self.makespan.values())
        return mean(makespan) + f" (n = {makespan.n})" * is_missing


@dataclass(frozen=True, slots=True)
class Panel:
    """One machine under one workload; `growth` is of mean makespan against x, where it has one.

    `nr_cpus` is None where it is not known, or was varied.
    """

    name: str
    nr_cpus: int | None
    cells: Sequence[ScenarioRuns]
    growth: Mapping[str, Growth]

    @property
    def is_flat(self) -> bool:
        """Whether times are equal in all cells, whatever was varied, as where runs stop at a set
        time: neither a curve of them nor a table would say anything. Of one cell they are only if
        they look the same."""
        means = [makespan.mean for makespan in self.makespans]
        is_same = len(self.cells) > 1 or len(set(map(forms.number_text, means))) == 1
        return are_equal(means) and is_same

    @property
    def makespans(self) -> list[Estimate]:
        """Those of all cells and policies."""
        return [makespan for cell in self.cells for makespan in cell.makespan.values()]


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

    def at(self, cell: ScenarioRuns) -> str:
        """What was varied and its value in a cell, as in " at groups = 100"; else empty."""
        return "" if self.axis is None else f" at {self.axis} = {cell.x}"

    @property
    def cells(self) -> list[ScenarioRuns]:
        """Those of all panels, in order."""
        return [cell for panel in self.panels for cell in panel.cells]

    @property
    def makespans(self) -> list[Estimate]:
        """Those of all cells and policies."""
        return [makespan for panel in self.panels for makespan in panel.makespans]

    @property
    def contrasts(self) -> list[Contrast]:
        """Every comparison with the first policy."""
        return [contrast for cell in self.cells for contrast in cell.comparisons.values()]

    @property
    def places(self) -> list[tuple[Panel, ScenarioRuns, str]]:
        """Where there are runs: each policy in each cell of each panel."""
        return [
            (panel, cell, policy)
            for panel in self.panels
            for cell in panel.cells
            for policy in cell.runs
        ]


def study_of(records: Sequence[RunRecord], rule: Rule | None = None) -> Study:
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
    unit = forms.time_unit(longest_ns)[0] if longest_ns else "s"
    has_several = len({record.workload for record in records}) > 1
    groups: dict[str, dict[float | str | None, dict[str, list[RunRecord]]]] = {}
    for record in records:
        parts = [record.machine, *[record.workload] * has_several]
        parts += [f"{name} = {value}" for name, value in record.varied.items() if name != axis]
        runs = groups.setdefault(", ".join(parts), {}).setdefault(record.varied.get(axis), {})
        if record.status == "completed":
            runs.setdefault(record.policy, []).append(record)
    panels = []
    for name, by_x in groups.items():
        xs = sorted(by_x) if all(map(_is_number, by_x)) else by_x
        cells = [_cell(x, by_x[x], policies, forms.TIME_UNITS_NS[unit], rule) for x in xs]
        done = [records[0] for cell in cells for records in cell.runs.values()]
        sizes = {record.result.get("nr_cpus") for record in done}
        panel = Panel(name, sizes.pop() if len(sizes) == 1 else None, cells, {})
        growth = {} if panel.is_flat else _growths(cells, policies)
        panels.append(replace(panel, growth=growth))
    incomplete = [record for record in records if record.status != "completed"]
    return Study(policies, axis, unit, panels, completed, incomplete)


def are_equal(means: Sequence[float]) -> bool:
    """Whether several numbers differ by less than what is worth a word; False for fewer than
    two."""
    return len(means) > 1 and max(means) <= (1 + estimates.THRESHOLD) * min(means)


def mean(makespan: Estimate) -> str:
    """A mean and half of its interval."""
    return forms.mean_text(makespan.mean, makespan.low, makespan.high)


def bounded(
    value: Estimate | Ratio, scale: float = 1.0, form: forms.Form = forms.number_text
) -> str:
    """What lies anywhere in its interval, times `scale`."""
    ends = (None if end is None else end * scale for end in (value.low, value.high))
    return forms.interval_text(centre_of(value) * scale, *ends, form)


def centre_of(value: Estimate | Ratio) -> float:
    """The number itself, without its interval."""
    return value.ratio if isinstance(value, Ratio) else value.mean


# --- grouping -------------------------------------------------------------------------------------


def _axis_of(records: Sequence[RunRecord]) -> str | None:
    """The varied parameter to draw along: the first numeric one with two values, else the first."""
    values = by_key(pair for record in records for pair in record.varied.items())
    several = [name for name in values if len(set(values[name])) > 1]
    numeric = [name for name in several if all(map(_is_number, values[name]))]
    return next(iter([*numeric, *several]), None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(
    x: float | str | None,
    found: Mapping[str, Sequence[RunRecord]],
    policies: Sequence[str],
    unit_ns: float,
    rule: Rule | None,
) -> ScenarioRuns:
    runs = {policy: found[policy] for policy in policies if policy in found}
    makespan = {
        policy: estimates.estimate(_times(records, unit_ns)) for policy, records in runs.items()
    }
    return ScenarioRuns(x, runs, makespan, compare(runs, policies[0], rule or Rule(), unit_ns))


def compare(
    runs: Mapping[str, Sequence[RunRecord]], first: str, rule: Rule, unit_ns: float = 1.0
) -> dict[str, Contrast]:
    """The completed runs of one scenario under each policy that has any, against those under the
    first; empty where that has none.

    Where seeds were added, a policy is compared seed by seed, up to its own last: the interval is
    that of the look at which it became clear, whatever was added for others since.
    """
    if first not in runs or any(min(_times(records)) <= 0 for records in runs.values()):
        return {}
    others = [policy for policy in runs if policy != first]
    if not rule.looks:
        base = _times(runs[first], unit_ns)
        pairs = {policy: (_times(runs[policy], unit_ns), base) for policy in others}
        return estimates.compare_pairs(pairs, rule.threshold)
    of_seed = {record.seed: record for record in runs[first]}
    pairs, without_chance = {}, set()
    for policy in others:
        own = [record for record in runs[policy] if record.seed in of_seed]
        if known := [of_seed[record.seed] for record in own]:
            pairs[policy] = (_times(own, unit_ns), _times(known, unit_ns))
        if are_identical(own) and are_identical(known):
            without_chance.add(policy)
    return estimates.compare_to_stop(pairs, rule.threshold, rule.shares, without_chance)


def are_identical(records: Sequence[RunRecord]) -> bool:
    """Whether runs of several seeds were one and the same, event by event: without chance."""
    digests = {record.digest for record in records}
    return len(digests) == 1 and "" not in digests


def _times(records: Sequence[RunRecord], unit_ns: float = 1.0) -> list[float]:
    return [record.result["makespan_ns"] / unit_ns for record in records]


def _growths(cells: Sequence[ScenarioRuns], policies: Sequence[str]) -> dict[str, Growth]:
    """One point a cell, because repetitions cannot tell how far a curve is from a power law."""
    growths = {}
    for policy in policies:
        means = [(cell.x, cell.makespan[policy].mean) for cell in cells if policy in cell.makespan]
        usable = [(x, mean) for x, mean in means if _is_number(x) and x > 0 and mean > 0]
        if len(usable) > 1:
            growths[policy] = estimates.growth_exponent(*zip(*usable, strict=True))
    return growths
