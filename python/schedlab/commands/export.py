"""`schedlab export`: what a store holds, as a file for other programs: CSV, Parquet or LaTeX.

CSV and Parquet have a row a run, a repetition, a comparison or a round of a heat, and keep every
number as it is; LaTeX has the table that a report shows, a row a scenario and a column a policy.
"""

import collections
import csv
import functools
import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO

import click

from schedlab import user_file, values, whole_file
from schedlab.bench.stored import comparison_rows, repetition_rows
from schedlab.commands import options
from schedlab.errors import BadValue, SchedlabError
from schedlab.experiment import stored
from schedlab.race.rows import heat_rows
from schedlab.shown import print_note
from schedlab.store.heats import HEATS, Heats
from schedlab.store.measurements import Measurements
from schedlab.store.runs import Store

# What a spreadsheet takes for a formula, also as wide letters; and what is a number all the same.
FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\n", "＝", "＋", "－", "＠")
# Of Parquet, rows that are written together.
ROWS_TOGETHER = 5_000
# What is written, from its begin as often as it is asked for.
Each = Callable[[], Iterator[Any]]
NUMBER = re.compile(r"[+-]?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?")


@click.command("export")
@click.argument("store", type=options.PATH)
@click.option("--output", "-o", required=True, type=options.FILE,
              help="The file: *.csv or *.parquet with a row each, *.tex with a table.")  # fmt: skip
@click.option("--experiment", "wanted", metavar="NAME|ID",
              help="Which experiment.  [default: all runs; for *.tex the latest]")  # fmt: skip
@click.option("--what", type=click.Choice(("runs", "repetitions", "comparisons", "heats")),
              help="Runs of experiments, repetitions or comparisons of measurements, or heats of"
                   " races.  [default: runs, else repetitions, else heats]")  # fmt: skip
@click.option("--suite", metavar="NAME", help="Measurements of this suite.  [default: of all]")
def export_verb(store, output, wanted, what, suite) -> None:
    """Write what a store holds as CSV, Parquet or LaTeX.

    Runs, repetitions, comparisons or heats; as LaTeX a table of runs. A row a run: what ran, all
    parameters of its workload and all else that was varied (columns parameter.NAME), and all
    numbers of its result, times in nanoseconds, also of its requests (requests.NAME.) and groups of
    tasks (task_groups.NAME.NICE.). A row a repetition: what it measured, in which unit, and the
    surroundings (columns environment.NAME); warm-ups and failures are there, and marked. A row a
    comparison: ratio, p values, word and effect sizes of a setup against the first. A row a round
    of each structure in a heat.
    """
    texts, form = {".csv": _csv, ".parquet": _parquet, ".tex": _latex}, output.suffix.lower()
    if form not in texts:
        hint = f"end it in {' or '.join(texts)}"
        raise BadValue("--output", str(output), "does not say its format", hint)
    user_file.refuse_unwritable(output, store, "table")
    with Store(store, read_only=True) as kept, kept.moment():
        what = _what(kept, form, wanted, what, suite)
        if what == "runs":
            # There may be more of them than fit into memory.
            each = functools.partial(stored.run_rows, kept, wanted)
            if form == ".tex":
                records = stored.choose_experiment(kept, wanted)[1]
                each = functools.partial(iter, records)
        elif what == "heats":
            each = functools.partial(iter, heat_rows(Heats(kept).all()))
        else:
            written = comparison_rows if what == "comparisons" else repetition_rows
            each = functools.partial(iter, written(Measurements(kept), suite))
        if next(each(), None) is None:
            made_by = {"heats": "race", "runs": "compare --store"}.get(what, "bench")
            hint = f"`schedlab {made_by}` makes some"
            raise SchedlabError(f"{store} has no {what[:-1]} to write", hint)
        with (
            whole_file.named_errors(str(output), "name another file with --output"),
            whole_file.writing(output) as file,
        ):
            nr_rows = texts[form](each, file)
    print_note(f"{nr_rows} {'rounds of heats' if what == 'heats' else what}: {output}")


def _what(kept: Store, form: str, wanted: str | None, what: str | None, suite: str | None) -> str:
    """What is written; refuses options that do not go together."""
    if suite is not None and (what in ("runs", "heats") or wanted is not None):
        raise BadValue("--suite", suite, "is of measurements", "leave out what is of others")
    if wanted is not None and what not in (None, "runs"):
        raise BadValue("--experiment", wanted, "is of runs", "leave it out, or leave out --what")
    if form == ".tex" and (suite is not None or what not in (None, "runs")):
        raise BadValue("--output", "*.tex", "has a table of runs only", "write a .csv or .parquet")
    if what is not None:
        return what
    if suite is not None:
        return "repetitions"
    if wanted is not None or form == ".tex" or kept.experiments():
        return "runs"
    if Measurements(kept).campaigns():
        return "repetitions"
    has_heats = kept.select(HEATS, "LIMIT 1") and not kept.rows("SELECT 1 FROM runs LIMIT 1")
    return "heats" if has_heats else "runs"


def _csv(each: Each, file: BinaryIO) -> int:
    """Writes a table with a column for each key of any row, empty in the rows that have no such
    key, and says how many rows there were."""
    columns, nr_rows = {}, 0
    for row in each():
        columns |= dict.fromkeys(row)
        nr_rows += 1
    text = io.TextIOWrapper(file, "utf-8", newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writerow({name: _no_formula(name) for name in columns})
    writer.writerows({name: _no_formula(cell) for name, cell in row.items()} for row in each())
    # Its owner closes the file.
    text.detach()
    return nr_rows


def _parquet(each: Each, file: BinaryIO) -> int:
    # They take seconds to load, which a CSV file does without.
    import pandas

    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        why = "Parquet is written by pyarrow, which is not installed"
        raise SchedlabError(why, "`pip install 'schedlab[parquet]'`, or write a .csv") from error

    readers = _readers(each())

    def typed(row: dict) -> dict:
        cells = {}
        for name, cell in row.items():
            read, unit = readers.get(name, (None, ""))
            # What is no text is a number already.
            is_read = read is not None and isinstance(cell, str)
            cells[name.removesuffix(unit) + unit] = read(cell) if is_read else cell
        return cells

    def tables() -> Iterator[pyarrow.Table]:
        rows = each()
        while some := [typed(row) for row in itertools.islice(rows, ROWS_TOGETHER)]:
            # A number that some rows lack stays a whole number in the others.
            frame = pandas.DataFrame(some).convert_dtypes()
            yield pyarrow.Table.from_pandas(frame, preserve_index=False)

    schemas = [table.schema for table in tables()]
    schema = schemas[0] if len(schemas) == 1 else _one_schema(schemas)
    nr_rows = 0
    with parquet.ParquetWriter(file, schema) as writer:
        for table in tables():
            both = [schema.empty_table(), table]
            writer.write_table(pyarrow.concat_tables(both, promote_options="permissive"))
            nr_rows += table.num_rows
    return nr_rows


def _readers(rows: Iterable[dict]) -> dict[str, tuple[Callable[[str], Any], str]]:
    """What reads the texts of each parameter's column, and how that column's name ends then."""
    columns = collections.defaultdict(values.Texts)
    for row in rows:
        for name, value in row.items():
            if name.startswith(values.PARAMETER) and isinstance(value, str):
                columns[name].see(value)
    return {name: texts.reader() for name, texts in columns.items()}


def _one_schema(schemas: Sequence[Any]) -> Any:
    """Every column of Arrow's schemas, each of a type that holds all its values."""
    import pandas
    import pyarrow

    plain = [schema.remove_metadata() for schema in schemas]
    schema = pyarrow.unify_schemas(plain, promote_options="permissive")
    # What pandas makes of each column is that of all rows, not of the first ones.
    nullable = {
        pyarrow.int64(): pandas.Int64Dtype(),
        pyarrow.float64(): pandas.Float64Dtype(),
        pyarrow.bool_(): pandas.BooleanDtype(),
        pyarrow.string(): pandas.StringDtype(),
        pyarrow.large_string(): pandas.StringDtype(),
    }
    none = schema.empty_table().to_pandas(types_mapper=nullable.get)
    of_pandas = pyarrow.Schema.from_pandas(none, preserve_index=False)
    return schema.with_metadata(of_pandas.metadata)


def _latex(each: Each, file: BinaryIO) -> int:
    """Writes the table of a report: a row a scenario, mean and half of its interval under each
    policy."""
    import pandas

    from schedlab.experiment.study import study_of

    records = list(each())
    study = study_of(records)
    axis = [] if study.axis is None else [study.axis]
    rows = []
    for panel in study.panels:
        for cell in panel.cells:
            times = [cell.makespan_text(policy) for policy in study.policies]
            rows.append([panel.name, *([cell.x] if axis else []), *times])
    columns = ["machine", *axis, *(f"{policy} ({study.unit})" for policy in study.policies)]
    # Numbers stand under each other; what names a row is on the left.
    alignment = "l" * (1 + len(axis)) + "r" * len(study.policies)
    frame = pandas.DataFrame(rows, columns=columns)
    legend = f"makespan in {study.unit}: mean ± half of its 95 % interval; booktabs"
    text = frame.to_latex(index=False, escape=True, column_format=alignment)
    file.write(f"% {legend}\n{text}".encode())
    return len(records)


def _no_formula(cell: object) -> object:
    if not isinstance(cell, str):
        return cell
    # Nothing quotes this one, and whoever reads the file may take it for the end of a row.
    cell = cell.replace("\r", "\n")
    is_computed = cell.startswith(FORMULA_BEGINS) and not NUMBER.fullmatch(cell)
    return f"'{cell}" if is_computed else cell
