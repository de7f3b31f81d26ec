"""How measurements come to the terminal: a row a benchmark, comparisons, and all of it as JSON."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from schedlab.bench.answers import (
    Answer,
    Row,
    Sample,
    Setup,
    answers,
    floors,
    limits,
    names_of,
    notes,
    setups,
    tests,
)
from schedlab.bench.forms import (
    detectable_text,
    legend,
    location_and_spread,
    plain_p,
    runs_text,
    with_digits,
)
from schedlab.bench.overall import Together, explanation, together
from schedlab.report.tables import fits, print_table
from schedlab.shown import print_data
from schedlab.statistics.estimates import THRESHOLD

# What is told of a sample only where there is some.
COUNTED = ("noisy", "failed")
HEADS = ("median", "95 % interval", "mean", "SD", "MAD")
SPREAD_TOLD = "mean: geometric; SD: of the logarithms; MAD: the same from median distances"


def results_table(
    found: Sequence[Row], title: str, letters: Mapping[Setup, str] | None = None
) -> Table:
    """A row for each case and setup: location, spread, runs, how many were noisy or failed.

    With `letters` it is narrow: they stand for the setups, and words go into lines of their own.
    """
    samples = [sample for row in found for sample in row.samples.values()]
    counted = [head for head in COUNTED if any(getattr(one, f"nr_{head}") for one in samples)]
    table = Table(box=box.SIMPLE, title=title, title_justify="left", title_style="bold")
    table.add_column("benchmark", no_wrap=True)
    if len(setups(found)) > 1:
        table.add_column("on" if letters else "measured on", no_wrap=True)
    table.add_column("unit", no_wrap=letters is None, overflow="fold")
    heads = ("median\nmean", "95 % interval", "SD\nMAD") if letters else HEADS
    for head in (*heads, "runs", *counted):
        table.add_column(head, justify="right", no_wrap=True)
    for row in found:
        names = letters or row.names
        for setup, sample in row.samples.items():
            on = [names[setup]] if len(setups(found)) > 1 else []
            counts = [str(getattr(sample, f"nr_{head}") or "") for head in counted]
            name = _name(row, letters)
            cells = _cells(sample)
            if letters:
                median, interval, mean, sd, mad, runs = cells
                cells = (f"{median}\n{mean}", interval, f"{sd}\n{mad}", runs)
            table.add_row(*map(escape, (name, *on, row.unit, *cells, *counts)))
    return table


def _name(row: Row, letters: Mapping[Setup, str] | None) -> str:
    """Where it must be narrow, with each value in a line of its own."""
    return row.name if letters is None else row.name.replace(" ", "\n")


def _cells(sample: Sample) -> tuple[str, ...]:
    """As `HEADS`, and the number of runs."""
    centre = sample.estimate
    if centre is None:
        return "–", "–", "–", "–", "–", "0"
    return (*with_digits(centre), *location_and_spread(sample), str(centre.n))


def comparison_table(told: Sequence[Answer], letters: Mapping[Setup, str] | None = None) -> Table:
    """Every setup against the first, by benchmark; what it is against is a column where it
    differs. `letters` as in `results_table`."""
    against = dict.fromkeys(answer.pair.b for answer in told)
    several = len(against) > 1
    title = "compared" if several else f"compared with {next(iter(against))}"
    table = Table(box=box.SIMPLE, title=escape(title), title_justify="left", title_style="bold")
    table.add_column("benchmark", no_wrap=True)
    for head in ("on" if letters else "measured on", *(["against"] if several else [])):
        table.add_column(head, no_wrap=True)
    ps = ("p\nraw",) if letters else ("p", "raw p")
    for head in ("change", *ps, "verdict", "shows from", f"runs for {100 * THRESHOLD:g} %"):
        is_word = head == "verdict"
        head = head.replace(" ", "\n", 1) if letters else head
        no_wrap = not (is_word and letters)
        table.add_column(head, justify="left" if is_word else "right", no_wrap=no_wrap)
    for answer in told:
        pair = answer.pair
        names, change = [pair.a, pair.b], pair.change
        p_values = plain_p(answer.p_table), plain_p(pair.ratio.p_value)
        if letters:
            names = [letters[answer.setup], letters[answer.row.first]]
            change = change.replace(" [", "\n[")
        figures = (
            change,
            *(["\n".join(p_values)] if letters else p_values),
            answer.word,
            detectable_text(answer),
            runs_text(answer),
        )
        name = _name(answer.row, letters)
        table.add_row(*map(escape, (name, *names[: 1 + several], *figures)))
    return table


def print_results(found: Sequence[Row], title: str) -> None:
    """The answer on stdout."""
    told = answers(found)
    lines = together(told)
    _name_machines(found)
    wide = [results_table(found, title), *([comparison_table(told)] if told else [])]
    wide += [together_table(lines)] if lines else []
    letters = _letters_where_needed(found, wide)
    print_table(results_table(found, title, letters))
    print_data(SPREAD_TOLD)
    if told:
        print_table(comparison_table(told, letters))
        for sentence in legend(len(told)):
            print_data(sentence)
        for test, names in tests(found).items():
            print_data(f"test of {', '.join(names)}: {test}")
        for sentence in floors(found):
            print_data(f"noise floor: {sentence}")
        for sentence in notes(found):
            print_data(f"note: {sentence}")
        _print_together(lines, _of_names(found, letters))
    for sentence in limits(found):
        print_data(f"limit: {sentence}")


def _name_machines(found: Sequence[Row]) -> None:
    """Where there are several, every row's name says which machine it is of."""
    if len({row.machine for row in found}) > 1:
        for row in found:
            row.name = f"{row.name} on {row.machine}"


def _of_names(
    found: Sequence[Row], letters: Mapping[Setup, str] | None
) -> Mapping[str, str] | None:
    """The letter of each name that setups go by in rows."""
    return letters and {name: letters[setup] for row in found for setup, name in row.names.items()}


def _print_together(lines: Sequence[Together], letters: Mapping[str, str] | None) -> None:
    if lines:
        print_data()
        print_table(together_table(lines, letters))
        for sentence in explanation(lines):
            print_data(sentence)


def together_table(lines: Sequence[Together], letters: Mapping[str, str] | None = None) -> Table:
    """What several benchmarks or machines say together; narrow with `letters`, by name."""
    table = Table(box=box.SIMPLE, title="together", title_justify="left", title_style="bold")
    heads = ("measured on", "against", "over", "change", "df", "p", "verdict", "range", "I²",
             "faster : slower")  # fmt: skip
    if letters:
        heads = ("on", "over", "change,\nverdict", "p\ndf\nI²", "range, and\nfaster : slower")
    for head in heads:
        is_text = head in ("measured on", "against", "on", "over", "verdict") or "range" in head
        is_whole = letters is not None and head in ("on", "change,\nverdict", "p\ndf\nI²")
        justify = "left" if is_text else "right"
        table.add_column(head, justify=justify, no_wrap=is_whole, overflow="fold")
    for line in lines:
        degrees, p_value = str(line.found.degrees_of_freedom), plain_p(line.p_table)
        texts = (line.name, line.against, line.over, line.change, degrees, p_value, line.word,
                 line.range, line.heterogeneity, line.signs)  # fmt: skip
        if letters:
            on = f"{letters[line.name]}\nagainst\n{letters[line.against]}"
            change = line.change.replace(" [", "\n[").replace(" (", "\n(") + f"\n{line.word}"
            ends = "\n".join((*line.range.replace(" (", "\n(").split(" … "), line.signs))
            sure = "\n".join((p_value, degrees, line.heterogeneity))
            texts = (on, line.over, change, sure, ends)
        table.add_row(*map(escape, texts))
    return table


def print_medians(found: Sequence[Row], title: str) -> None:
    """Only the table of results."""
    letters = _letters_where_needed(found, [results_table(found, title)])
    print_table(results_table(found, title, letters))
    print_data(SPREAD_TOLD)


def _letters_where_needed(found: Sequence[Row], wide: Sequence[Table]) -> dict[Setup, str] | None:
    """Where one of these tables is too wide, a letter for each setup, told on stdout."""
    if all(map(fits, wide)):
        return None
    every = setups(found)
    keys = string.ascii_uppercase if len(every) <= len(string.ascii_uppercase) else range(1, 1000)
    letters = dict(zip(every, map(str, keys), strict=False))
    if len(every) > 1:
        for setup, name in names_of(every).items():
            print_data(f"{letters[setup]}: {name}")
        print_data()
    return letters
