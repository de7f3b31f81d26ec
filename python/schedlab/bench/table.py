"""How measurements come to the terminal: a row a benchmark, and what is compared below it.

Where a table is too wide, the columns of its numbers come in several parts, below each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from schedlab.bench.answers import Answer, CaseRow, Sample, answers, floors, notes, setups, tests
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
    _name_machines(rows)
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
    samples = [(row, setup, one) for row in rows for setup, one in row.samples.items()]
    # Told only where there is some.
    counted = [head for head in ("noisy", "failed") if any(_nr(one, head) for *_, one in samples)]
    _print(
        title,
        [
            {"benchmark": row.name} | ({"measured on": row.names[setup]} if several else {})
            for row, setup, _ in samples
        ],
        [
            _cells(row, one) | {head: str(_nr(one, head) or "") for head in counted}
            for row, _, one in samples
        ],
    )
    print_data(SPREAD)


def _nr(sample: Sample, head: str) -> int:
    return getattr(sample, f"nr_{head}")


def _cells(row: CaseRow, sample: Sample) -> Cells:
    centre = sample.estimate
    if centre is None:
        nothing = dict.fromkeys(("unit", "median, 95 %", "mean", "SD", "MAD"), DASH)
        return nothing | {"unit": row.unit, "runs": "0"}
    mean, sd, mad = location_and_spread(sample)
    median = with_interval(centre.median, centre.low, centre.high)
    spread = {"mean": mean, "SD": sd, "MAD": mad}
    return {"unit": row.unit, "median, 95 %": median} | spread | {"runs": str(centre.n)}


def _print_compared(compared: Sequence[Answer]) -> None:
    """Every setup against the first."""
    _print(
        "compared",
        [
            {"benchmark": one.row.name, "measured on": one.pair.a, "against": one.pair.b}
            for one in compared
        ],
        [
            {
                "change": one.pair.change,
                "verdict": one.word,
                "p": p_number(one.p_table),
                "raw p": p_number(one.pair.ratio.p_value),
                "shows from": detectable_text(one),
                f"runs for {100 * THRESHOLD:g} %": runs_text(one),
            }
            for one in compared
        ],
    )


def _print_together(lines: Sequence[Together]) -> None:
    """What several benchmarks or machines say together."""
    _print(
        "together, compared",
        [{"measured on": one.name, "against": one.against, "over": one.over} for one in lines],
        [
            {
                "change": one.change,
                "verdict": one.word,
                "df": str(one.result.degrees_of_freedom),
                "p": p_number(one.p_table),
                "range": one.range,
                "I²": one.heterogeneity,
                "faster : slower": one.signs,
            }
            for one in lines
        ],
    )


def _print(title: str, names: Sequence[Cells], figures: Sequence[Cells]) -> None:
    """A table, in as many parts as stdout's width asks for, each with the names at its left.

    What all is against is told in the title where it is one.
    """
    against = {cells.get("against") for cells in names} - {None}
    if len(against) == 1:
        title += f" with {against.pop()}"
        names = [{head: cells[head] for head in cells if head != "against"} for cells in names]

    def build(heads: Sequence[str]) -> Table:
        table = Table(box=box.SIMPLE, title=escape(title), title_justify="left", title_style="bold")
        for head in names[0]:
            table.add_column(head, overflow="fold")
        for head in heads:
            justify = "left" if head in WORDS else "right"
            table.add_column(head, justify=justify, no_wrap=True)
        for left, right in zip(names, figures, strict=True):
            table.add_row(*map(escape, [*left.values(), *(right[head] for head in heads)]))
        return table

    if figures:
        print_columns(list(figures[0]), build)


def _name_machines(rows: Sequence[CaseRow]) -> None:
    """Where there are several, every row's name says which machine it is of."""
    if len({row.machine for row in rows}) > 1:
        for row in rows:
            row.name = f"{row.name} on {row.machine}"


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        print_data(line)
