"""How measurements come to the terminal: a row a benchmark, and what is compared below it.

Where a table is too wide, the columns of its numbers come in several parts, below each other.
"""

from collections.abc import Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from schedlab.bench.answers import (
    Answer,
    CaseRow,
    Sample,
    answers,
    floors,
    notes,
    samples,
    setups,
    tests,
)
from schedlab.bench.forms import detectable_text, legend, location_and_spread, runs_text
from schedlab.bench.limits import limits
from schedlab.bench.overall import Together, explanation, together
from schedlab.report.forms import DASH
from schedlab.report.tables import print_columns
from schedlab.shown import print_data
from schedlab.statistics.digits import p_number, with_interval
from schedlab.statistics.estimates import THRESHOLD

SPREAD = "mean: geometric; SD: of the logarithms; MAD: the same from median distances"
# Of columns that are no names, those that are no numbers.
WORDS = ("unit", "verdict", "range")

Cells = dict[str, str]
"""The texts of a row by the heads of their columns."""


def print_results(rows: Sequence[CaseRow], title: str) -> None:
    """The answer on stdout."""
    compared = answers(rows)
    lines = together(compared)
    if len({row.machine for row in rows}) > 1:
        for row in rows:
            row.name = f"{row.name} on {row.machine}"
    print_medians(rows, title)
    if compared:
        _print_compared(compared)
        _print_lines(
            (
                *legend(len(compared)),
                *(f"test of {', '.join(names)}: {test}" for test, names in tests(rows).items()),
                *(f"noise floor: {sentence}" for sentence in floors(rows)),
                *(f"note: {sentence}" for sentence in notes(rows)),
            )
        )
        if lines:
            print_data()
            _print_together(lines)
            _print_lines(explanation(lines))
    _print_lines([f"limit: {sentence}" for sentence in limits(rows)])


def print_medians(rows: Sequence[CaseRow], title: str) -> None:
    """Only the table of results: location, spread, runs, how many were noisy or failed."""
    several = len(setups(rows)) > 1
    measured = samples(rows)
    # Told only where there is some.
    counted = ["noisy"] if any(one.nr_noisy for *_, one in measured) else []
    counted += ["failed"] if any(one.nr_failed for *_, one in measured) else []
    lines = []
    for row, setup, sample in measured:
        names = {"benchmark": row.name} | ({"measured on": row.names[setup]} if several else {})
        lines.append((names, _cells(row, sample, counted)))
    _print(title, lines)
    print_data(SPREAD)


def _cells(row: CaseRow, sample: Sample, counted: Sequence[str]) -> Cells:
    centre = sample.estimate
    cells = dict.fromkeys(("unit", "median, 95 %", "mean", "SD", "MAD"), DASH)
    if centre is not None:
        cells["median, 95 %"] = with_interval(centre.median, centre.low, centre.high)
        cells |= zip(("mean", "SD", "MAD"), location_and_spread(sample), strict=True)
    cells |= {"unit": row.unit, "runs": str(len(sample.values))}
    return cells | {head: str(getattr(sample, f"nr_{head}") or "") for head in counted}


def _print_compared(compared: Sequence[Answer]) -> None:
    """Every setup against the first."""
    lines = []
    for one in compared:
        names = {"benchmark": one.row.name, "measured on": one.pair.a, "against": one.pair.b}
        figures = {
            "change": one.pair.change,
            "verdict": one.word,
            "p": p_number(one.p_table),
            "raw p": p_number(one.pair.ratio.p_value),
            "shows from": detectable_text(one),
            f"runs for {100 * THRESHOLD:g} %": runs_text(one),
        }
        lines.append((names, figures))
    _print("compared", lines)


def _print_together(together: Sequence[Together]) -> None:
    """What several benchmarks or machines say together."""
    lines = []
    for one in together:
        names = {"measured on": one.name, "against": one.against, "over": one.over}
        figures = {
            "change": one.change,
            "verdict": one.word,
            "df": str(one.result.degrees_of_freedom),
            "p": p_number(one.p_table),
            "range": one.range,
            "I²": one.heterogeneity,
            "faster : slower": one.signs,
        }
        lines.append((names, figures))
    _print("together, compared", lines)


def _print(title: str, lines: Sequence[tuple[Cells, Cells]]) -> None:
    """A table, in as many parts as stdout's width asks for, each with the names at its left.

    What all is against is told in the title where it is one.
    """
    if not lines:
        return
    left_heads, right_heads = map(list, lines[0])
    against = {names["against"] for names, _ in lines} if "against" in left_heads else set()
    if len(against) == 1:
        title += f" with {against.pop()}"
        left_heads.remove("against")

    def build(heads: Sequence[str]) -> Table:
        table = Table(box=box.SIMPLE, title=escape(title), title_justify="left", title_style="bold")
        for head in left_heads:
            table.add_column(head, overflow="fold")
        for head in heads:
            justify = "left" if head in WORDS else "right"
            table.add_column(head, justify=justify, no_wrap=True)
        for names, figures in lines:
            cells = [*(names[head] for head in left_heads), *(figures[head] for head in heads)]
            table.add_row(*map(escape, cells))
        return table

    print_columns(right_heads, build)


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        print_data(line)
