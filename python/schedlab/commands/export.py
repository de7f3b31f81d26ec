"""`schedlab export`: what a store holds, as a file for other programs: CSV, Parquet or LaTeX.

CSV and Parquet have a row a run, or of what was measured a row a repetition or a comparison, and
keep every number as it is; LaTeX has the table that a report shows, a row a scenario and a column a
policy.
"""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedlab import user_file
from schedlab.bench.rows import comparison_rows, repetition_rows
from schedlab.errors import BadValue, SchedlabError
from schedlab.experiment import stored
from schedlab.experiment.rows import run_row
from schedlab.experiment.table import makespan_text
from schedlab.store.measurements import Measurements
from schedlab.store.runs import RunRecord, Store

if TYPE_CHECKING:
    import pandas

FORMATS = (".csv", ".parquet", ".tex")
# What a spreadsheet takes for a formula, also as wide letters; and what is a number all the same.
FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\n", "＝", "＋", "－", "＠")
NUMBER = re.compile(r"[+-]?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?")
WHAT = ("runs", "repetitions", "comparisons")


@click.command("export")
@click.argument("store", type=click.Path(path_type=Path))
@click.option(
    "--output",
    "-o",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write: *.csv or *.parquet with a row a run, *.tex with a table.",
)
@click.option(
    "--experiment",
    "wanted",
    metavar="NAME|ID",
    help="Which experiment of the store.  [default: all runs; for *.tex the latest]",
)
@click.option(
    "--what",
    type=click.Choice(WHAT),
    help="Runs of experiments, or repetitions or comparisons of measurements.  [default: what"
    " there is; runs, if there are both, never comparisons]",
)
@click.option("--suite", metavar="NAME", help="Measurements of this suite.  [default: of all]")
def export_verb(
    store: Path, output: Path, wanted: str | None, what: str | None, suite: str | None
) -> int:
    """Write what a store holds as CSV, Parquet or LaTeX.

    Runs, repetitions or comparisons; as LaTeX a table of runs. A row a run: what ran, all
    parameters of its workload (columns parameter.NAME), and all numbers of its result, times in
    nanoseconds, also of its requests (requests.NAME.) and groups of tasks
    (task_groups.NAME.NICE.). A row a repetition: what it measured, in which unit, and the
    surroundings (columns environment.NAME); warm-ups and failures are there, and marked. A row a
    comparison: ratio, p values, word and effect sizes of a setup against the first.
    """
    form = output.suffix.lower()
    if form not in FORMATS:
        raise BadValue(
            "--output", str(output), "does not say its format", f"end it in {' or '.join(FORMATS)}"
        )
    user_file.refuse_unwritable(output, store)
    with Store(store, read_only=True) as kept:
        if _is_of_measurements(kept, form, wanted, what, suite):
            is_compared = what == "comparisons"
            written = comparison_rows if is_compared else repetition_rows
            rows = written(Measurements(kept), suite)
            _write(output, form, rows)
            click.echo(f"{len(rows)} {what if is_compared else 'repetitions'}: {output}", err=True)
            return 0
        if form == ".tex" or wanted is not None:
            chosen, _ = stored.choose_experiment(kept, wanted)
            records = sorted(kept.runs(chosen.id), key=stored.stored_order(chosen))
        else:
            records = kept.runs()
    if not records:
        raise SchedlabError(f"{store} has no run to write", "`schedlab compare --store` makes some")
    if form == ".tex":
        _write_table(output, records)
    else:
        _write(output, form, [run_row(record) for record in records])
    click.echo(f"{len(records)} runs: {output}", err=True)
    return 0


def _is_of_measurements(
    store: Store, form: str, wanted: str | None, what: str | None, suite: str | None
) -> bool:
    """Whether measurements are to be written; refuses options that do not go together."""
    if suite is not None and (what == "runs" or wanted is not None):
        raise BadValue("--suite", suite, "is of repetitions", "leave out what is of runs")
    if wanted is not None and what in ("repetitions", "comparisons"):
        raise BadValue("--experiment", wanted, "is of runs", "name a --suite")
    if what is None and suite is None:
        has_runs = wanted is not None or form == ".tex" or bool(store.experiments())
        what = "runs" if has_runs or not Measurements(store).campaigns() else "repetitions"
    if what == "runs":
        return False
    if form == ".tex":
        raise BadValue("--output", "*.tex", "has a table of runs only", "write a .csv or .parquet")
    return True


def _write(output: Path, form: str, rows: Sequence[Mapping]) -> None:
    """A table with a column for each key of any row, empty in the rows that have no such key."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    try:
        with _told(output):
            if form == ".parquet":
                # pandas takes seconds to load, which a CSV file does without.
                import pandas

                # A number that some rows lack stays a whole number in the others.
                frame = pandas.DataFrame(rows, columns=columns).convert_dtypes()
                frame.to_parquet(output, index=False)
                return
            with output.open("w", encoding="utf-8", newline="") as file:
                written = csv.DictWriter(file, columns, lineterminator="\n")
                written.writerow({name: _no_formula(name) for name in columns})
                written.writerows({k: _no_formula(v) for k, v in row.items()} for row in rows)
    except ImportError as error:
        raise SchedlabError(
            f"{output}: Parquet is written by pyarrow, which is not installed",
            "`pip install 'schedlab[parquet]'`, or write a .csv",
        ) from error


def _write_table(output: Path, records: Sequence[RunRecord]) -> None:
    """The table of a report in LaTeX."""
    frame = _cells(records)
    # Numbers stand under each other; what names a row is on the left.
    names = sum(column in ("machine", frame.attrs["axis"]) for column in frame.columns)
    columns = "l" * names + "r" * (len(frame.columns) - names)
    table = frame.to_latex(index=False, escape=True, column_format=columns)
    with _told(output):
        output.write_text(f"% {frame.attrs['legend']}\n{table}", "utf-8")


@contextlib.contextmanager
def _told(output: Path) -> Iterator[None]:
    """Turns the system's errors into ours, with the file and a way out."""
    try:
        yield
    except OSError as error:
        raise SchedlabError(
            f"{output} cannot be written: {error.strerror}", "name another file with --output"
        ) from error


def _no_formula(cell: object) -> object:
    if not isinstance(cell, str):
        return cell
    # Nothing quotes this one, and whoever reads the file may take it for the end of a row.
    cell = cell.replace("\r", "\n")
    is_computed = cell.startswith(FORMULA_BEGINS) and not NUMBER.fullmatch(cell)
    return f"'{cell}" if is_computed else cell


def _cells(records: Sequence[RunRecord]) -> pandas.DataFrame:
    """A row a scenario: mean and half of its 95 % interval under each policy."""
    import pandas

    from schedlab.experiment.study import study_of

    study = study_of(records)
    rows = []
    for panel in study.panels:
        for cell in panel.cells:
            row = {"machine": panel.name}
            if study.axis is not None:
                row[study.axis] = cell.x
            for policy in study.policies:
                row[f"{policy} ({study.unit})"] = makespan_text(cell, policy)
            rows.append(row)
    frame = pandas.DataFrame(rows)
    frame.attrs["axis"] = study.axis
    frame.attrs["legend"] = f"makespan in {study.unit}: mean ± half of its 95 % interval; booktabs"
    return frame
