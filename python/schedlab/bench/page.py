"""The page of measurements: what was compared, every repetition, and how it was done.

Every sentence is made of what the store holds, so that it can be cited as it stands; most stand in
the page's template.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from schedlab.bench import answers as bench_answers
from schedlab.bench import table
from schedlab.bench.answers import Answer, CaseRow, Sample, Setup
from schedlab.bench.figures import ForestRow, forest_figure, oneway_figure
from schedlab.bench.limits import limits
from schedlab.bench.overall import EXPLANATION, together
from schedlab.errors import SchedlabError
from schedlab.report import pages
from schedlab.report.drawing import Drawing
from schedlab.report.figures import Looks, Point, curve_figure, looks_of
from schedlab.report.forms import DASH, count_text, list_text
from schedlab.statistics import blocks, effects, estimates, variance
from schedlab.statistics.digits import number, p_number, p_text, percent, with_interval
from schedlab.statistics.estimates import THRESHOLD, Verdict
from schedlab.statistics.evidence import WORDS
from schedlab.statistics.samples import by_key
from schedlab.store.measurements import Campaign, Measurements, Surroundings

# More one-way plots of one benchmark are folded away where a curve shows them together.
PANELS_OPEN_MAX = 4
LARGEST_TOLD = 3
LIBRARIES = ("numpy", "scipy", "statsmodels", "scikit-posthocs")
NOT_TOLD = "not told"

Panel = dict[str, Any]
"""A figure below its `name`; `nr_samples` stand beside each other in it."""
Names = Mapping[str, str]
Around = Mapping[str, Sequence[Surroundings]]
"""The environments that each campaign was measured in."""


def write(
    path: Path, kept: Measurements, chosen: Sequence[Campaign], title: str, description: str = ""
) -> None:
    """Writes the page of these campaigns of one suite, whole. Raises SchedlabError if none of them
    has a repetition, or the page cannot be written."""
    hint = "every repetition is kept: `schedlab report STORE -o OUT.html` makes the page"
    pages.write(path, render(kept, chosen, title, description), hint)


def render(
    kept: Measurements, chosen: Sequence[Campaign], title: str, description: str = ""
) -> str:
    """The page as one HTML text; see `write`."""
    rows = bench_answers.rows(kept, chosen)
    samples = [one for *_, one in bench_answers.samples(rows)]
    if not any(one.values for one in samples):
        why = f"{kept.store.path} has no repetition that succeeded"
        raise SchedlabError(why, chosen[-1].command)
    setups = list(dict.fromkeys(name for row in rows for name in row.names.values()))
    answers = bench_answers.answers(rows)
    around = {campaign.id: kept.surroundings(campaign.id) for campaign in chosen}
    machines = _machine_names(chosen, around)
    lines = together(answers, machines)
    floors = bench_answers.floors(rows)
    warnings = [what for what, _ in _warned([one for of in around.values() for one in of])]
    return pages.render(
        "machine.html",
        (p_number, p_text, table.detectable_text, table.runs_text, count_text, list_text),
        title=title,
        description=description,
        rows=rows,
        samples=samples,
        setups=setups,
        measured_on=[machines[one] for one in dict.fromkeys(row.machine for row in rows)],
        words=WORDS,
        headlines=list(_headlines(answers, machines)),
        limits=[*_limits(samples, answers), *limits(rows), *warnings],
        legend=[*table.legend(len(answers)), *(f"noise floor: {one}" for one in floors)],
        verdicts=_verdict_table(answers, machines),
        answers=answers,
        machines=machines,
        together=lines,
        explanation=EXPLANATION,
        forests=list(_forests(answers, machines)),
        sections=list(_sections(rows, looks_of(setups), machines)),
        probabilities=estimates.QUANTILE_LEVELS,
        environments=list(_environments(chosen, around, machines)),
        method=_methods(rows, chosen),
        effects=effects,
        blocks=blocks,
        chosen=chosen,
        days=sorted({campaign.asked_at[:10] for campaign in chosen}),
    )


def _machine_names(chosen: Sequence[Campaign], around: Around) -> Names:
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


def _panel(name: str, figure: Drawing, nr_samples: int = 1) -> Panel:
    return {"name": name, "figure": pages.script(figure), "nr_samples": nr_samples}


# ---- all benchmarks together --------------------------------------------------------------------


def _headlines(answers: Sequence[Answer], machines: Names) -> Iterator[tuple[str, str]]:
    """For each setup on each machine, where it is faster, slower or the same, the largest first."""
    groups = by_key(((one.pair.a, one.pair.b, one.row.machine), one) for one in answers)
    several = len({machine for *_, machine in groups}) > 1
    for (a, b, machine), of_setup in groups.items():
        parts = []
        for word in Verdict:
            these = [one for one in of_setup if one.verdict is word]
            part = f"{WORDS[word]} in {len(these)}"
            if word in (Verdict.FASTER, Verdict.SLOWER):
                these.sort(key=lambda one: one.pair.ratio.ratio, reverse=word is Verdict.SLOWER)
                largest = [f"{one.row.name} {one.pair.change}" for one in these[:LARGEST_TOLD]]
                nr_more = len(these) - len(largest)
                part += f": {', '.join(largest)}" + f" and {nr_more} more" * (nr_more > 0)
            parts += [part] * bool(these)
        name = f"{a} against {b}" + f", {machines[machine]}" * several
        yield name, f"{'; '.join(parts)} (change of the time taken; below zero is faster)."


def _limits(samples: Sequence[Sample], answers: Sequence[Answer]) -> Iterator[str]:
    """What a reader must not conclude, and why, beside what `bench.limits` says."""
    if nr_failed := sum(one.nr_failed for one in samples):
        yield f"{count_text(nr_failed, 'repetition')} failed and are in no number"
    inconclusive = [one for one in answers if one.verdict is Verdict.INCONCLUSIVE]
    if blind := [one for one in inconclusive if (one.pair.detectable or 0) > THRESHOLD]:
        worst = max(blind, key=lambda one: one.pair.detectable)
        yield (
            f"in {len(blind)} of {count_text(len(answers), 'comparison')} no difference was shown,"
            f" and one of {100 * THRESHOLD:g} % would not have been seen: of {worst.row.name} only"
            f" changes from {percent(worst.pair.detectable)} on"
        )


def _verdict_table(answers: Sequence[Answer], machines: Names) -> dict:
    """A row a case, a column a machine and setup: what is said of it against the first there."""
    cells = {((one.row.machine, one.pair.a, one.pair.b), one.row.name): one for one in answers}
    columns = dict.fromkeys(column for column, _ in cells)
    cases = dict.fromkeys(case for _, case in cells)
    return {
        "heads": [(machines[machine], a, b) for machine, a, b in columns],
        "rows": [(case, [cells.get((column, case)) for column in columns]) for case in cases],
    }


def _forests(answers: Sequence[Answer], machines: Names) -> Iterator[Panel]:
    for machine, name in machines.items():
        these = [one for one in answers if one.row.machine == machine]
        rows = [
            ForestRow(one.row.name, one.pair.a, one.pair.ratio, one.verdict, one.pair.change)
            for one in these
        ]
        against = {one.pair.b for one in these}
        baseline = against.pop() if len(against) == 1 else "the first of each"
        if rows:
            yield _panel(name, forest_figure(rows, baseline))


# ---- each benchmark -----------------------------------------------------------------------------


def _sections(rows: Sequence[CaseRow], looks: Looks, machines: Names) -> Iterator[dict[str, Any]]:
    """One benchmark on one machine each: its cases differ in the values of parameters."""
    groups = by_key(((row.machine, row.benchmark), row) for row in rows if row.first)
    several = len({machine for machine, _ in groups}) > 1
    for (machine, benchmark), cases in groups.items():
        curves, oneways = _curves(cases, looks), []
        for row in cases:
            values = row.by_name
            oneways.append(_panel(row.name, oneway_figure(values, looks, row.unit), len(values)))
        measured = [
            ({"case": row.name, "setup": row.names[setup]}, sample)
            for row, setup, sample in bench_answers.samples(cases)
            if sample.values
        ]
        yield {
            "title": f"{benchmark}, {machines[machine]}" if several else benchmark,
            "unit": cases[0].unit,
            "higher_is_better": cases[0].higher_is_better,
            "curves": curves,
            "oneways": oneways,
            "is_folded": bool(curves) and len(cases) > PANELS_OPEN_MAX,
            "quantiles": [place | _quantiles(sample) for place, sample in measured],
            "boots": [place | boot for place, sample in measured for boot in _boots(sample)],
        }


def _quantiles(sample: Sample) -> dict[str, Any]:
    """As the study of 2012 printed them, to the digits that the middle half of the runs carries."""
    shape = estimates.estimate(sample.values)
    ends = tuple(float(q) for q in np.quantile(sample.values, (0.25, 0.75)))
    quantiles = variance.quantile_table({"": sample.values})[""]
    deviation = number(shape.sd) if shape.sd is not None else DASH
    cells = (number(shape.mean, *ends), deviation, *(number(one, *ends) for one in quantiles))
    counts = {"runs": len(sample.values), "noisy": sample.nr_noisy}
    return counts | {"cells": cells + table.location_and_spread(sample)}


def _boots(sample: Sample) -> Iterator[dict[str, Any]]:
    """Of samples of several boots, each boot by itself: states of a machine often go with them."""
    for nr, values in enumerate(sample.by_boot.values() if sample.nr_boots > 1 else (), 1):
        boot = Sample(values)
        centre = boot.estimate
        median = with_interval(centre.median, centre.low, centre.high)
        yield {"runs": len(values), "cells": (str(nr), median, *table.location_and_spread(boot))}


def _curves(rows: Sequence[CaseRow], looks: Looks) -> list[Panel]:
    """Medians over the swept number; a curve for each value of whatever else varies."""
    if (axis := swept(rows)) is None:
        return []
    panels: dict[str, dict[str, list[Point]]] = {}
    for row in sorted(rows, key=lambda row: row.values[axis]):
        others = [part for part in row.name.split(" ") if not part.startswith(f"{axis}=")]
        series = panels.setdefault(" ".join(others), {})
        for setup, sample in row.samples.items():
            if centre := sample.estimate:
                point = Point(row.values[axis], centre.median, centre.low, centre.high)
                series.setdefault(row.names[setup], []).append(point)
    return [
        _panel(name, curve_figure(series, looks, axis, rows[0].unit))
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
    samples = [one for *_, one in bench_answers.samples(rows)]
    counts = {len(one.values) for one in samples}
    widths = {one.definition["until"] for one in chosen} - {None}
    has_boots = any(row.has_boots_apart(one) for row in rows for one in row.others)
    return {
        "counts": sorted(counts),
        "boots": sorted({one.nr_boots for one in samples if one.values}) if has_boots else (),
        "warm_ups": sorted({case[3] for one in chosen for case in one.definition["cases"]}),
        "makes_up": len(counts) > 1 and any(one.nr_noisy for one in samples),
        "widths": [f"{100 * width:g} %" for width in sorted(widths)],
        "tests": bench_answers.tests(rows),
        "threshold": percent(THRESHOLD),
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def _environments(chosen: Sequence[Campaign], around: Around, machines: Names) -> Iterator[dict]:
    """Of each machine, a table with a column for each kernel, scheduler and label."""
    for machine, name in machines.items():
        columns: dict[Setup, list[Surroundings]] = {}
        for campaign in chosen:
            if campaign.condition["machine"] == machine:
                setup = bench_answers.setup_of(campaign)
                columns.setdefault(setup, []).extend(around[campaign.id])
        yield {
            "machine": name,
            "heads": list(bench_answers.names_of(list(columns)).values()),
            "boots": [len({one.facts["boot_id"] for one in of}) for of in columns.values()],
            "rows": [(fact, [_told(*how, of) for of in columns.values()]) for fact, *how in FACTS],
            "warnings": _warned([one for these in columns.values() for one in these]),
        }


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
    return _each({f"{name}/{file}": of[file][:12] for name, of in inputs.items() for file in of})


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
