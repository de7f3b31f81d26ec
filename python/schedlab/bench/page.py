"""The page of measurements: what was compared, every repetition, and how it was done.

A page is of one suite and all the campaigns of it that a store holds, on one machine or several.
`answers` says what is compared with what, and `figures` draws it. Every sentence is made of what
the store holds, so that it can be cited as it stands; most stand in the page's template.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from schedlab.bench import answers as bench_answers
from schedlab.bench.answers import Answer, CaseRow, Sample, Setup
from schedlab.bench.figures import ForestRow, forest_figure, oneway_figure
from schedlab.bench.forms import detectable_text, legend, location_and_spread, runs_text
from schedlab.bench.limits import limits
from schedlab.bench.overall import explanation, together
from schedlab.errors import SchedlabError
from schedlab.report import pages
from schedlab.report.figures import Look, Point, curve_figure, looks_of
from schedlab.report.forms import DASH, count_text, list_text
from schedlab.statistics.blocks import EXACT_BLOCKS_MAX, EXCHANGES
from schedlab.statistics.circles import quantile_table
from schedlab.statistics.digits import number, p_number, p_text, percent, with_interval
from schedlab.statistics.effects import RESAMPLES, SEED
from schedlab.statistics.estimates import QUANTILE_LEVELS, THRESHOLD, Verdict, estimate
from schedlab.statistics.evidence import WORDS
from schedlab.statistics.samples import by_key
from schedlab.store.measurements import Campaign, Measurements, Surroundings

# More one-way plots of one benchmark are folded away where a curve shows them together.
PANELS_OPEN_MAX = 4
LARGEST_TOLD = 3
LIBRARIES = ("numpy", "scipy", "statsmodels", "scikit-posthocs")
NOT_TOLD = "not told"

Names = Mapping[Setup, str]
Looks = Mapping[str, Look]


@dataclass(frozen=True, slots=True)
class FigurePanel:
    """A figure below its name; `nr_samples` stand beside each other in it."""

    name: str
    figure: Markup
    nr_samples: int = 1


def write(
    path: Path, kept: Measurements, chosen: Sequence[Campaign], title: str, description: str = ""
) -> None:
    """Writes the page of these campaigns; readers see the old file or the whole new one.

    Raises SchedlabError if none of them has a repetition, or the page cannot be written.
    """
    hint = "every repetition is kept: `schedlab report STORE -o OUT.html` makes the page"
    pages.write(path, render(kept, chosen, title, description), hint)


def render(
    kept: Measurements, chosen: Sequence[Campaign], title: str, description: str = ""
) -> str:
    """The page as one HTML text; see `write`."""
    rows = bench_answers.rows(kept, chosen)
    if not any(one.values for *_, one in bench_answers.samples(rows)):
        raise SchedlabError(
            f"{kept.store.path} has no repetition that succeeded", f"{chosen[-1].command}"
        )
    names = bench_answers.names_of(bench_answers.setups(rows))
    answers = bench_answers.answers(rows)
    around = {campaign.id: kept.surroundings(campaign.id) for campaign in chosen}
    machines = _machine_names(chosen, around)
    lines = together(answers, machines)
    floors = bench_answers.floors(rows)
    warnings = [what for what, _ in _warned([one for of in around.values() for one in of])]
    return pages.render(
        "machine.html",
        (p_number, detectable_text, runs_text, signed, count_text, list_text, range_text),
        title=title,
        description=description,
        rows=rows,
        samples=[one for *_, one in bench_answers.samples(rows)],
        setups=list(names.values()),
        measured_on=[machines[one] for one in dict.fromkeys(row.machine for row in rows)],
        words=WORDS,
        headlines=_headlines(answers, machines),
        limits=[*_limits(rows, answers), *limits(rows), *warnings],
        legend=[*legend(len(answers)), *(f"noise floor: {one}" for one in floors)],
        verdicts=_verdict_table(rows, answers, machines),
        answers=answers,
        machines=machines,
        together=lines,
        explanation=explanation(lines),
        forests=_forests(answers, machines),
        sections=_sections(rows, names, looks_of(list(names.values())), machines),
        probabilities=QUANTILE_LEVELS,
        environments=_environments(chosen, around, machines),
        method=_methods(rows, chosen),
        tests=_tests(rows),
        commands=list(dict.fromkeys(campaign.command for campaign in chosen)),
        versions=sorted({campaign.version for campaign in chosen}),
        days=sorted({campaign.asked_at[:10] for campaign in chosen}),
    )


def signed(size: float | None) -> str:
    """An effect size without a unit."""
    return DASH if size is None else f"{size:+.2f}"


def range_text(values: Sequence[Any]) -> str:
    """The first and the last of sorted values, or the only one."""
    return f"{values[0]}" if len(values) == 1 else f"{values[0]} to {values[-1]}"


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


def _headlines(answers: Sequence[Answer], machines: Mapping[str, str]) -> list[tuple[str, str]]:
    """For each setup on each machine, where it is faster, slower or the same, the largest first."""
    several = len({answer.row.machine for answer in answers}) > 1
    names = []
    for answer in answers:
        where = f", {machines[answer.row.machine]}" if several else ""
        names.append(f"{answer.pair.a} against {answer.pair.b}{where}")
    groups = by_key(zip(names, answers, strict=True))
    return [(name, _headline(group)) for name, group in groups.items()]


def _headline(answers: Sequence[Answer]) -> str:
    parts = []
    for word in Verdict:
        these = [answer for answer in answers if answer.verdict is word]
        if not these:
            continue
        part = f"{WORDS[word]} in {len(these)}"
        if word in (Verdict.FASTER, Verdict.SLOWER):
            these.sort(key=lambda one: one.pair.ratio.ratio, reverse=word is Verdict.SLOWER)
            largest = [f"{one.row.name} {one.pair.change}" for one in these[:LARGEST_TOLD]]
            nr_more = len(these) - len(largest)
            part += f": {', '.join(largest)}" + (f" and {nr_more} more" if nr_more else "")
        parts.append(part)
    return f"{'; '.join(parts)} (change of the time taken; below zero is faster)."


def _limits(rows: Sequence[CaseRow], answers: Sequence[Answer]) -> list[str]:
    """What a reader must not conclude, and why, beside what `bench.limits` says."""
    sentences = []
    if nr_failed := sum(one.nr_failed for *_, one in bench_answers.samples(rows)):
        sentences.append(f"{count_text(nr_failed, 'repetition')} failed and are in no number")
    blind = [
        one
        for one in answers
        if one.verdict is Verdict.INCONCLUSIVE and (one.pair.detectable or 0) > THRESHOLD
    ]
    if blind:
        worst = max(blind, key=lambda one: one.pair.detectable)
        sentences.append(
            f"in {len(blind)} of {count_text(len(answers), 'comparison')} no difference was shown,"
            f" and one of {100 * THRESHOLD:g} % would not have been seen: of {worst.row.name} only"
            f" changes from {percent(worst.pair.detectable)} on"
        )
    return sentences


def _verdict_table(
    rows: Sequence[CaseRow], answers: Sequence[Answer], machines: Mapping[str, str]
) -> dict:
    """A row a case, a column a machine and setup: what is said of it against the first there."""
    columns = list(dict.fromkeys((one.row.machine, one.pair.a, one.pair.b) for one in answers))
    cells = {(one.row.name, one.row.machine, one.pair.a, one.pair.b): one for one in answers}
    cases = dict.fromkeys(row.name for row in rows)
    texts = {case: [cells.get((case, *column)) for column in columns] for case in cases}
    return {
        "heads": [(machines[machine], a, b) for machine, a, b in columns],
        "rows": [(case, row) for case, row in texts.items() if any(row)],
    }


def _forests(answers: Sequence[Answer], machines: Mapping[str, str]) -> list[FigurePanel]:
    """Of each machine, the ratios of all its comparisons."""
    panels, of_machine = [], by_key((one.row.machine, one) for one in answers)
    for machine in (one for one in machines if one in of_machine):
        these = of_machine[machine]
        rows = [
            ForestRow(one.row.name, one.pair.a, one.pair.ratio, one.verdict, one.pair.change)
            for one in these
        ]
        against = dict.fromkeys(one.pair.b for one in these)
        baseline = next(iter(against)) if len(against) == 1 else "the first of each"
        panels.append(FigurePanel(machines[machine], pages.script(forest_figure(rows, baseline))))
    return panels


# ---- each benchmark -----------------------------------------------------------------------------


def _sections(
    rows: Sequence[CaseRow], names: Names, looks: Looks, machines: Mapping[str, str]
) -> list[dict[str, Any]]:
    """One benchmark on one machine each: its cases differ in the values of parameters."""
    measured = [row for row in rows if any(one.values for one in row.samples.values())]
    groups = by_key(((row.machine, row.benchmark), row) for row in measured)
    several = len({machine for machine, _ in groups}) > 1
    sections = []
    for (machine, benchmark), cases in groups.items():
        curves = _curves(cases, names, looks)
        samples = [
            ({"case": row.name, "setup": names[setup]}, sample)
            for row, setup, sample in bench_answers.samples(cases)
            if sample.values
        ]
        section = {
            "title": f"{benchmark}, {machines[machine]}" if several else benchmark,
            "unit": cases[0].unit,
            "higher_is_better": cases[0].higher_is_better,
            "curves": curves,
            "oneways": [_oneway(row, names, looks) for row in cases],
            "is_folded": bool(curves) and len(cases) > PANELS_OPEN_MAX,
            "quantiles": [place | _quantiles(sample) for place, sample in samples],
            "boots": [place | boot for place, sample in samples for boot in _boots(sample)],
        }
        sections.append(section)
    return sections


def _oneway(row: CaseRow, names: Names, looks: Looks) -> FigurePanel:
    samples = {names[setup]: one.values for setup, one in row.samples.items() if one.values}
    figure = oneway_figure(samples, looks, row.unit)
    return FigurePanel(row.name, pages.script(figure), len(samples))


def _quantiles(sample: Sample) -> dict[str, Any]:
    """As the study of 2012 printed them, to the digits that the middle half of the runs carries."""
    shape = estimate(sample.values)
    ends = tuple(float(q) for q in np.quantile(sample.values, (0.25, 0.75)))
    quantiles = quantile_table({"": sample.values})[""]
    deviation = number(shape.sd) if shape.sd is not None else DASH
    cells = (number(shape.mean, *ends), deviation, *(number(one, *ends) for one in quantiles))
    counts = {"runs": len(sample.values), "noisy": sample.nr_noisy}
    return counts | {"cells": cells + location_and_spread(sample)}


def _boots(sample: Sample) -> Iterator[dict[str, Any]]:
    """Of samples of several boots, each boot by itself: states of a machine often go with them."""
    for nr, values in enumerate(sample.by_boot.values() if sample.nr_boots > 1 else (), 1):
        boot = Sample(values)
        centre = boot.estimate
        median = with_interval(centre.median, centre.low, centre.high)
        yield {"runs": len(values), "cells": (str(nr), median, *location_and_spread(boot))}


def _curves(rows: Sequence[CaseRow], names: Names, looks: Looks) -> list[FigurePanel]:
    """Medians over the swept number; a curve for each value of whatever else varies."""
    axis = swept(rows)
    if axis is None:
        return []
    panels: dict[str, dict[str, list[Point]]] = {}
    for row in sorted(rows, key=lambda row: row.values[axis]):
        others = [part for part in row.name.split(" ") if not part.startswith(f"{axis}=")]
        series = panels.setdefault(" ".join(others), {})
        for setup, sample in row.samples.items():
            if centre := sample.estimate:
                point = Point(row.values[axis], centre.median, centre.low, centre.high)
                series.setdefault(names[setup], []).append(point)
    return [
        FigurePanel(name, pages.script(curve_figure(series, looks, axis, rows[0].unit)))
        for name, series in panels.items()
        if max(map(len, series.values())) > 1
    ]


def swept(rows: Sequence[CaseRow]) -> str | None:
    """The parameter with a number in every case, of all those the one with the most values."""
    counts = {}
    for name in dict.fromkeys(name for row in rows for name in row.values):
        values = [row.values.get(name) for row in rows]
        are_numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
        # It stands in the name of a case only if it tells cases apart.
        tells = all(f" {name}={row.values.get(name)}" in row.name for row in rows)
        if are_numbers and tells and len(set(values)) > 1:
            counts[name] = len(set(values))
    return max(counts, key=counts.__getitem__, default=None)


# ---- how and where it was measured --------------------------------------------------------------


def _methods(rows: Sequence[CaseRow], chosen: Sequence[Campaign]) -> dict[str, Any]:
    """Numbers and names for the paragraphs on method; lists are sorted."""
    samples = [one for *_, one in bench_answers.samples(rows)]
    counts = {len(one.values) for one in samples}
    widths = {one.definition["until"] for one in chosen} - {None}
    has_boots = any(row.has_boots_apart(one) for row in rows for one in row.others)
    return {
        "suites": sorted({one.suite for one in chosen}),
        "counts": sorted(counts),
        "boots": sorted({one.nr_boots for one in samples if one.values}) if has_boots else (),
        "seeds": sorted({str(one.definition["seed"]) for one in chosen}),
        "warm_ups": sorted({case[3] for one in chosen for case in one.definition["cases"]}),
        "makes_up": len(counts) > 1 and any(one.nr_noisy for one in samples),
        "widths": [f"{100 * width:g} %" for width in sorted(widths)],
        "tests": bench_answers.tests(rows),
        "threshold": percent(THRESHOLD),
        "resamples": RESAMPLES,
        "resampling_seed": SEED,
        "exact_blocks": EXACT_BLOCKS_MAX,
        "exchanges": EXCHANGES,
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def _tests(rows: Sequence[CaseRow]) -> list[tuple[str, str, Sequence[str]]]:
    """Of every case that was compared: its name, which test and why, and what is odd."""
    tests = []
    for row in rows:
        if row.comparison:
            omnibus = row.comparison.omnibus
            several = len(row.samples) > 2 and omnibus is not None
            all_alike = f" {omnibus.test}: {p_text(omnibus.p_value)}." if several else ""
            tests.append((row.name, f"{row.comparison.why}{all_alike}", row.comparison.notes))
    return tests


def _environments(
    chosen: Sequence[Campaign],
    around: Mapping[str, Sequence[Surroundings]],
    machines: Mapping[str, str],
) -> list[dict]:
    """Of each machine, a table with a column for each kernel, scheduler and label."""
    environments = []
    for machine, name in machines.items():
        columns: dict[Setup, list[Surroundings]] = {}
        for campaign in chosen:
            if campaign.condition["machine"] == machine:
                setup = bench_answers.setup_of(campaign)
                columns.setdefault(setup, []).extend(around[campaign.id])
        environment = {
            "machine": name,
            "heads": list(bench_answers.names_of(list(columns)).values()),
            "boots": [len({one.facts["boot_id"] for one in of}) for of in columns.values()],
            "rows": [(fact, [_told(*how, of) for of in columns.values()]) for fact, *how in FACTS],
            "warnings": _warned([one for these in columns.values() for one in these]),
        }
        environments.append(environment)
    return environments


def _warned(around: Sequence[Surroundings]) -> list[tuple[str, str]]:
    """What was wrong and what to do, each once: who goes on is warned again, of another load."""
    first: dict[str, tuple[str, str]] = {}
    for one in around:
        for what, to_do in one.warnings:
            first.setdefault(re.sub(r"\d[\d.,]*", "#", what), (what, to_do))
    return list(first.values())


def _each(texts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {text}" for name, text in sorted(texts.items()))


def _inputs(inputs: Mapping[str, Mapping[str, str]]) -> str:
    return ", ".join(
        f"{name}/{file} {digest[:12]}"
        for name, files in sorted(inputs.items())
        for file, digest in sorted(files.items())
    )


# What it is, where it stands among the facts of `environment.capture`, and how it is written.
FACTS: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("processor", "machine.cpu_model", str),
    ("CPUs used", "machine", lambda of: f"{of['nr_cpus_usable']} of {of['nr_cpus']}"),
    ("SMT", "machine.smt", str),
    ("memory", "machine.memory_kib", lambda kib: f"{kib / (1 << 20):.1f} GiB"),
    ("virtual machine", "machine.virtual", lambda name: name or "no"),
    ("kernel", "kernel.release", str),
    ("build", "kernel.version", str),
    ("scheduler in force", "scheduler", str),
    ("preemption", "kernel.preemption", str),
    ("HZ", "kernel", lambda of: f"{of['hz']} ({of['hz_source']})"),
    ("command line", "kernel.command_line", str),
    ("configuration, SHA-256", "kernel.config_sha256", str),
    ("governor", "governor", str),
    ("frequency driver", "frequency_driver", str),
    ("turbo", "turbo", lambda is_on: "on" if is_on else "off"),
    ("power", "mains", lambda is_on: "mains" if is_on else "battery"),
    ("load at the start", "load", lambda load: f"{load[0]:.2f}"),
    ("pressure, % of 10 s", "pressure", _each),
    ("temperature, °C", "temperature_celsius", str),
    ("slowed by heat since boot", "throttled", str),
    ("mitigations", "kernel.mitigations", _each),
    ("programs", "tools", _each),
    ("inputs, SHA-256", "inputs", _inputs),
)


def _told(path: str, form: Callable[[Any], Any], around: Sequence[Surroundings]) -> str:
    """A fact, as each of these environments has it; what differs is all named."""
    texts = []
    for one in around:
        fact: Any = one.facts
        for key in path.split("."):
            fact = fact.get(key) if isinstance(fact, Mapping) else None
        texts.append(NOT_TOLD if fact is None else form(fact) or NOT_TOLD)
    return " / ".join(dict.fromkeys(texts))
