"""The page of measurements: what was compared, every repetition, and how it was done.

A page is of one suite and all the campaigns of it that a store holds, on one machine or several.
`bench_answers` says what is compared with what, `machine_account` says it in words, and
`machine_plots` draws it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from markupsafe import Markup

from schedlab import whole_file
from schedlab.bench import account
from schedlab.bench import answers as bench_answers
from schedlab.bench.answers import Answer, Row, Sample, Setup
from schedlab.bench.figures import ForestRow, forest_figure, oneway_figure
from schedlab.bench.forms import (
    detectable_text,
    legend,
    location_and_spread,
    plain_p,
    runs_text,
    with_digits,
)
from schedlab.bench.overall import explanation, together
from schedlab.errors import SchedlabError
from schedlab.report import pages
from schedlab.report.figures import Look, Point, curve_figure, looks_of
from schedlab.statistics.circles import PROBABILITIES, quantile_table
from schedlab.statistics.digits import number
from schedlab.statistics.estimates import estimate, median_estimate
from schedlab.store.measurements import Campaign, Measurements, Surroundings

PANELS_OPEN_MAX = 4
"""More one-way plots of one benchmark are folded away where a curve shows them together."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A figure below its name; `nr_samples` stand beside each other in it."""

    name: str
    figure: Markup
    nr_samples: int = 1


@dataclass(frozen=True, slots=True)
class QuantileRow:
    """A sample in the table of quantiles, its numbers as texts."""

    case: str
    setup: str
    runs: int
    noisy: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """One benchmark on one machine: its cases differ in the values of parameters."""

    title: str
    unit: str
    higher_is_better: bool
    curves: Sequence[Panel]
    oneways: Sequence[Panel]
    quantiles: Sequence[QuantileRow]
    boots: Sequence[QuantileRow]

    @property
    def is_folded(self) -> bool:
        """Whether the one-way plots are many, and a curve shows the cases already."""
        return bool(self.curves) and len(self.oneways) > PANELS_OPEN_MAX


def write(
    path: Path,
    kept: Measurements,
    chosen: Sequence[Campaign],
    title: str,
    description: str = "",
) -> None:
    """Writes the page of these campaigns; readers see the old file or the whole new one.

    Raises
    ------
    SchedlabError
        If none of them has a repetition, or the page cannot be written.
    """
    html = render(kept, chosen, title, description)
    try:
        whole_file.write(path, html)
    except OSError as error:
        raise SchedlabError(
            f"report {path} cannot be written: {error.strerror}",
            "every repetition is kept: `schedlab report STORE -o OUT.html` makes the page",
        ) from error


def render(
    kept: Measurements, chosen: Sequence[Campaign], title: str, description: str = ""
) -> str:
    """The page as one HTML text; see `write`."""
    found = bench_answers.rows(kept, chosen)
    if not any(one.values for row in found for one in row.samples.values()):
        raise SchedlabError(
            f"{kept.store.path} has no repetition that succeeded", f"{chosen[-1].command}"
        )
    names = bench_answers.names_of(bench_answers.setups(found))
    looks = looks_of(list(names.values()))
    answers = bench_answers.answers(found)
    around = {campaign.id: kept.surroundings(campaign.id) for campaign in chosen}
    every = [one for these in around.values() for one in these]
    machines = _machine_names(chosen, around)
    lines = together(answers, machines)
    floors = bench_answers.floors(found)
    return pages.render(
        "machine.html",
        (plain_p, detectable_text, runs_text, signed),
        title=title,
        description=description,
        opening=account.opening(found, answers, machines),
        headlines=account.headlines(answers, machines),
        limits=account.limits(found, answers, every),
        legend=[*legend(len(answers)), *(f"noise floor: {one}" for one in floors)],
        verdicts=_verdict_table(found, answers, machines),
        answers=answers,
        machines=machines,
        together=lines,
        explanation=explanation(lines),
        forests=_forests(answers, machines),
        sections=_sections(found, names, looks, machines),
        probabilities=PROBABILITIES,
        environments=_environments(chosen, around, machines),
        methods=account.methods(found, answers, lines, chosen),
        tests=account.tests_of(found),
        commands=list(dict.fromkeys(campaign.command for campaign in chosen)),
        versions=sorted({campaign.version for campaign in chosen}),
        days=sorted({campaign.asked_at[:10] for campaign in chosen}),
    )


def signed(size: float | None) -> str:
    """An effect size without a unit."""
    return "–" if size is None else f"{size:+.2f}"


def _machine_names(
    chosen: Sequence[Campaign], around: Mapping[str, Sequence[Surroundings]]
) -> dict[str, str]:
    """Each machine's processor, with its id where two have the same."""
    models = {}
    for campaign in chosen:
        facts = around[campaign.id][-1].facts["machine"] if around[campaign.id] else {}
        machine = campaign.condition["machine"]
        if model := facts.get("cpu_model"):
            models[machine] = model
        models.setdefault(machine, f"machine {machine or 'unknown'}")
    texts = list(models.values())
    return {
        machine: model if texts.count(model) == 1 else f"{model} ({machine})"
        for machine, model in models.items()
    }


# ---- all benchmarks together --------------------------------------------------------------------


def _verdict_table(
    found: Sequence[Row], answers: Sequence[Answer], machines: Mapping[str, str]
) -> dict:
    """A row a case, a column a machine and setup: what is said of it against the first there."""
    columns = list(dict.fromkeys((one.row.machine, one.pair.a, one.pair.b) for one in answers))
    cells = {(one.row.name, one.row.machine, one.pair.a, one.pair.b): one for one in answers}
    cases = dict.fromkeys(row.name for row in found)
    return {
        "heads": [(machines[machine], a, b) for machine, a, b in columns],
        "rows": [
            (case, [cells.get((case, *column)) for column in columns])
            for case in cases
            if any((case, *column) in cells for column in columns)
        ],
    }


def _forests(answers: Sequence[Answer], machines: Mapping[str, str]) -> list[Panel]:
    """Of each machine, the ratios of all its comparisons."""
    panels = []
    for machine, name in machines.items():
        these = [one for one in answers if one.row.machine == machine]
        if not these:
            continue
        rows = [
            ForestRow(
                group=one.row.name,
                name=one.pair.a,
                ratio=one.pair.ratio.ratio,
                low=one.pair.ratio.low,
                high=one.pair.ratio.high,
                verdict=one.verdict,
                text=one.pair.change,
            )
            for one in these
        ]
        against = dict.fromkeys(one.pair.b for one in these)
        baseline = next(iter(against)) if len(against) == 1 else "the first of each"
        panels.append(Panel(name, pages.script(forest_figure(rows, baseline))))
    return panels


# ---- each benchmark -----------------------------------------------------------------------------


def _sections(
    found: Sequence[Row],
    names: Mapping[Setup, str],
    looks: Mapping[str, Look],
    machines: Mapping[str, str],
) -> list[Section]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in found:
        if any(one.values for one in row.samples.values()):
            groups.setdefault((row.machine, row.name.split(" ")[0]), []).append(row)
    several = len({machine for machine, _ in groups}) > 1
    return [
        Section(
            title=f"{benchmark}, {machines[machine]}" if several else benchmark,
            unit=rows[0].unit,
            higher_is_better=rows[0].higher_is_better,
            curves=_curves(rows, names, looks),
            oneways=[_oneway(row, names, looks) for row in rows],
            quantiles=[one for row in rows for one in _quantiles(row, names)],
            boots=[one for row in rows for one in _boots(row, names)],
        )
        for (machine, benchmark), rows in groups.items()
    ]


def _oneway(row: Row, names: Mapping[Setup, str], looks: Mapping[str, Look]) -> Panel:
    samples = {names[setup]: one.values for setup, one in row.samples.items() if one.values}
    figure = oneway_figure(samples, looks, row.unit)
    return Panel(row.name, pages.script(figure), len(samples))


def _quantiles(row: Row, names: Mapping[Setup, str]) -> list[QuantileRow]:
    """As the study of 2012 printed them, to the digits that the middle half of the runs carries."""
    told = []
    for setup, sample in row.samples.items():
        if not sample.values:
            continue
        shape = estimate(sample.values)
        quantiles = quantile_table({"": sample.values})[""]
        lower, upper = (float(q) for q in np.quantile(sample.values, (0.25, 0.75)))
        spread = number(shape.sd) if shape.sd is not None else "–"
        cells = (number(shape.mean, lower, upper), spread)
        cells += tuple(number(quantile, lower, upper) for quantile in quantiles)
        cells += location_and_spread(sample)
        runs = len(sample.values)
        told.append(QuantileRow(row.name, names[setup], runs, sample.nr_noisy, cells))
    return told


def _boots(row: Row, names: Mapping[Setup, str]) -> list[QuantileRow]:
    """Of samples of several boots, each boot by itself: states of a machine often go with them."""
    told = []
    for setup, sample in row.samples.items():
        for nr, values in enumerate(sample.by_boot.values() if sample.nr_boots > 1 else (), 1):
            of_boot = Sample(values)
            cells = (str(nr), *with_digits(of_boot.estimate), *location_and_spread(of_boot))
            told.append(QuantileRow(row.name, names[setup], len(values), 0, cells))
    return told


def _curves(
    rows: Sequence[Row], names: Mapping[Setup, str], looks: Mapping[str, Look]
) -> list[Panel]:
    """Medians over the swept number; a curve for each value of whatever else varies."""
    axis = swept(rows)
    if axis is None:
        return []
    panels: dict[str, dict[str, list[Point]]] = {}
    for row in sorted(rows, key=lambda row: row.values[axis]):
        others = [part for part in row.name.split(" ") if not part.startswith(f"{axis}=")]
        series = panels.setdefault(" ".join(others), {})
        for setup, sample in row.samples.items():
            if sample.values:
                found = median_estimate(sample.values)
                point = Point(row.values[axis], found.median, found.low, found.high)
                series.setdefault(names[setup], []).append(point)
    return [
        Panel(name, pages.script(curve_figure(series, looks, axis, rows[0].unit)))
        for name, series in panels.items()
        if max(len(points) for points in series.values()) > 1
    ]


def swept(rows: Sequence[Row]) -> str | None:
    """The parameter with a number in every case, of all those the one with the most values."""
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    counts = {
        name: len({row.values[name] for row in rows})
        for name in names
        if all(_is_number(row.values.get(name)) for row in rows)
    }
    # It stands in the name of a case only if it tells cases apart.
    told = {
        name: count
        for name, count in counts.items()
        if count > 1 and all(f" {name}={row.values[name]}" in row.name for row in rows)
    }
    return max(told, key=told.__getitem__, default=None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# ---- where it was measured ----------------------------------------------------------------------


def _environments(
    chosen: Sequence[Campaign],
    around: Mapping[str, Sequence[Surroundings]],
    machines: Mapping[str, str],
) -> list[dict]:
    """Of each machine, a table with a column for each kernel, scheduler and label."""
    told = []
    for machine, name in machines.items():
        columns: dict[Setup, list[Surroundings]] = {}
        for campaign in chosen:
            if campaign.condition["machine"] == machine:
                setup = bench_answers.setup_of(campaign)
                columns.setdefault(setup, []).extend(around[campaign.id])
        every = [one for these in columns.values() for one in these]
        told.append(
            {
                "machine": name,
                "heads": list(bench_answers.names_of(list(columns)).values()),
                "boots": [len({one.facts["boot_id"] for one in of}) for of in columns.values()],
                "rows": account.environment(list(columns.values())),
                "warnings": account.warned(every),
            }
        )
    return told
