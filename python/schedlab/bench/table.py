"""Measurements as the terminal has them, a row a benchmark and what is compared below it; as data;
and as texts that the page has too."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from schedlab.bench import answers
from schedlab.bench.answers import Answer, CaseRow, Sample, Setup, samples
from schedlab.bench.limits import limits
from schedlab.bench.overall import EXPLANATION, Together, together
from schedlab.digests import attributes, ends
from schedlab.report.forms import DASH
from schedlab.report.tables import print_columns
from schedlab.shown import print_data
from schedlab.statistics.digits import number, p_number, percent, with_interval
from schedlab.statistics.estimates import THRESHOLD
from schedlab.statistics.power import POWER

# Columns that every part of a table repeats, and those besides that are no numbers.
NAMES = ("benchmark", "measured on", "against", "over")
WORDS = ("unit", "verdict", "range")

Cells = dict[str, str]
"""The texts of a row by the heads of their columns."""


def print_results(rows: Sequence[CaseRow], title: str) -> None:
    """The answer on stdout."""
    compared = answers.answers(rows)
    lines = together(compared)
    if len({row.machine for row in rows}) > 1:
        for row in rows:
            row.name = f"{row.name} on {row.machine}"
    print_medians(rows, title)
    if compared:
        _print_cells("compared", [_compared_cells(one) for one in compared])
        tests = answers.tests(rows).items()
        _print_lines("", legend(len(compared)))
        _print_lines("test of ", [f"{', '.join(names)}: {test}" for test, names in tests])
        _print_lines("noise floor: ", answers.floors(rows))
        _print_lines("note: ", answers.notes(rows))
        if lines:
            print_data()
            _print_cells("together, compared", [_together_cells(one) for one in lines])
            _print_lines("", EXPLANATION)
    _print_lines("limit: ", limits(rows))


def print_medians(rows: Sequence[CaseRow], title: str) -> None:
    """Only the table of results: location, spread, runs, how many were noisy or failed."""
    several = len(answers.setups(rows)) > 1
    measured = samples(rows)
    # Told only where there is some.
    counts = ("noisy", "failed")
    counted = [of for of in counts if any(getattr(one, f"nr_{of}") for *_, one in measured)]
    lines = []
    for row, setup, sample in measured:
        cells = {"benchmark": row.name} | ({"measured on": row.names[setup]} if several else {})
        cells |= {"unit": row.unit, **dict.fromkeys(("median, 95 %", "mean", "SD", "MAD"), DASH)}
        if centre := sample.estimate:
            cells["median, 95 %"] = with_interval(centre.median, centre.low, centre.high)
            cells |= zip(("mean", "SD", "MAD"), location_and_spread(sample), strict=True)
        cells["runs"] = str(len(sample.values))
        lines.append(cells | {of: str(getattr(sample, f"nr_{of}") or "") for of in counted})
    _print_cells(title, lines)
    print_data("mean: geometric; SD: of the logarithms; MAD: the same from median distances")


def _compared_cells(one: Answer) -> Cells:
    return {
        "benchmark": one.row.name,
        "measured on": one.pair.a,
        "against": one.pair.b,
        "change": one.pair.change,
        "verdict": one.word,
        "p": p_number(one.p_table),
        "raw p": p_number(one.pair.ratio.p_value),
        "shows from": detectable_text(one),
        f"runs for {100 * THRESHOLD:g} %": runs_text(one),
    }


def _together_cells(one: Together) -> Cells:
    return {
        "measured on": one.name,
        **attributes(one, "against", "over", "change"),
        "verdict": one.word,
        "df": str(one.result.degrees_of_freedom),
        "p": p_number(one.p_table),
        "range": one.range,
        "I²": one.heterogeneity,
        "faster : slower": one.signs,
    }


def _print_cells(title: str, lines: Sequence[Cells]) -> None:
    """A table, in as many parts as stdout's width asks for, each with the names at its left; what
    all is against is told in the title where it is one."""
    if not lines:
        return
    left_heads = [head for head in lines[0] if head in NAMES]
    against = {line.get("against") for line in lines} - {None}
    if len(against) == 1:
        title += f" with {against.pop()}"
        left_heads.remove("against")

    def build(heads: Sequence[str]) -> Table:
        table = Table(box=box.SIMPLE, title=escape(title), title_justify="left", title_style="bold")
        for head in left_heads:
            table.add_column(head, overflow="fold")
        for head in heads:
            table.add_column(head, justify="left" if head in WORDS else "right", no_wrap=True)
        for line in lines:
            table.add_row(*(escape(line[head]) for head in (*left_heads, *heads)))
        return table

    print_columns([head for head in lines[0] if head not in NAMES], build)


def _print_lines(what: str, lines: Sequence[str]) -> None:
    for line in lines:
        print_data(f"{what}{line}")


def location_and_spread(sample: Sample) -> tuple[str, str, str]:
    """Of a sample with values: geometric mean, SD of logarithms and MAD in percent, as texts."""
    of = sample.geometric
    spreads = (DASH if one is None else percent(one) for one in (of.sd, sample.mad))
    return (number(of.mean, of.low, of.high), *spreads)


def detectable_text(answer: Answer) -> str:
    """The smallest change that so many runs of such noise would show, in percent."""
    change = answer.pair.detectable
    return DASH if change is None else percent(change)


def runs_text(answer: Answer) -> str:
    """How many runs of each the threshold would take with this noise."""
    runs = answer.pair.runs_needed
    return DASH if runs is None else f"{runs:,}"


def legend(nr_compared: int) -> list[str]:
    """What the columns of comparisons mean."""
    several = f" and for all {nr_compared} comparisons" if nr_compared > 1 else ""
    return [
        "change: of the time taken, new / old - 1, with its 95 % interval; below zero is faster",
        f"p: adjusted within a benchmark{several}, raw is of the test alone; no difference shown is"
        " not the same as the same",
        f"shows from: the smallest change that so many runs of such noise show in {100 * POWER:g} %"
        f" of cases; runs for {100 * THRESHOLD:g} %: how many of each would show that (– where more"
        " runs would not)",
    ]


def results_json(rows: Sequence[CaseRow]) -> list[dict[str, Any]]:
    """What is known of every case in every setup, with every value."""
    against = {(id(one.row), one.setup): _answer_json(one) for one in answers.answers(rows)}
    return [
        _sample_json(row, setup, sample) | {"against_first": against.get((id(row), setup))}
        for row, setup, sample in samples(rows)
    ]


def _sample_json(row: CaseRow, setup: Setup, sample: Sample) -> dict[str, Any]:
    centre, geometric = sample.estimate, sample.geometric
    return {
        "benchmark": row.name,
        **attributes(row, "suite", "digest", "machine", "unit"),
        "kernel": setup.kernel,
        "kernel_version": setup.version,
        **attributes(setup, "scheduler", "policy", "label"),
        "values": sample.values,
        "noisy": sample.nr_noisy,
        "failed": sample.nr_failed,
        "earlier": row.nr_earlier,
        "boots": sample.nr_boots,
        **attributes(centre, "median", "low", "high"),
        "geometric_mean": geometric and geometric.mean,
        "sd_log": geometric and geometric.sd,
        "mad_log": sample.mad,
        "values_by_boot": list(sample.by_boot.values()),
    }


def _answer_json(answer: Answer) -> dict[str, Any]:
    pair, comparison = answer.pair, answer.row.comparison
    return {
        "against": pair.b,
        **attributes(pair.ratio, "ratio", "low", "high", "p_value", "log_error"),
        **attributes(pair, "exchange_p", "p_adjusted"),
        "p_table": answer.p_table,
        "verdict": answer.word,
        "method": pair.method.value,
        "why": str(comparison.why),
        "notes": list(comparison.notes),
        **ends("ratio_of_medians", pair.medians, "ratio"),
        "resampled_low": pair.resampled and pair.resampled.low,
        "resampled_high": pair.resampled and pair.resampled.high,
        **attributes(pair, "hedges_g", "cliffs_delta"),
        "noise_floor": pair.floor and pair.floor.change,
        "noise_floor_of": pair.floor and pair.floor.of.value,
        "detectable_change": pair.detectable,
        "runs_needed": pair.runs_needed,
    }
