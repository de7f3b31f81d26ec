"""What others published, and whether each figure that they derived follows from those beside it.

The tables are kept as they were printed, slips included. Nothing here corrects one: a figure that
contradicts its own table is pointed out, and `errata.csv` says what follows instead. Figures are
decimal numbers, for to compare printed digits binary fractions are too coarse.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from pathlib import Path

from schedlab import catalogue
from schedlab.errors import SchedlabError

ERRATA = "errata"
ARITHMETIC = "arithmetic"
CFS_2012, BFS_2012 = "3.6.2-vanilla", "3.6.2-ck"
BASE_2007 = "v2.6.22"

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Derived:
    """A figure that was derived by those who printed it, and what it is when derived again.

    `table` and `column` say where it stands, `place` in which row. `exact` is not rounded.
    """

    table: str
    place: str
    column: str
    printed: Decimal
    exact: Decimal

    @property
    def rounded(self) -> Decimal:
        """What follows, to as many places as were printed; halves go away from zero."""
        last = Decimal(1).scaleb(self.printed.as_tuple().exponent)
        return self.exact.quantize(last, ROUND_HALF_UP)

    @property
    def follows(self) -> bool:
        """Whether the printed figure is the exact one, rounded; a half may have gone either way."""
        half_unit = Decimal("0.5").scaleb(self.printed.as_tuple().exponent)
        return abs(self.printed - self.exact) <= half_unit


@dataclass(frozen=True, slots=True)
class Erratum:
    """A row of `errata.csv`: what is wrong with, or to know of, something that was printed."""

    study: str
    where: str
    item: str
    printed: str
    what_follows: str
    kind: str
    comment: str


def rows(table: str) -> list[dict[str, str]]:
    """The rows of a published table by its name, such as `seed004_means`.

    Raises
    ------
    UnknownName
        If there is no such table.
    SchedlabError
        If it cannot be read.
    """
    return read_rows(catalogue.find(catalogue.PUBLISHED, table))


def read_rows(path: Path) -> list[dict[str, str]]:
    """As `rows`, from a file."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            found = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SchedlabError(f"cannot read {path}: {error}", "install schedlab again") from error
    for number, row in enumerate(found, 2):
        if None in row or None in row.values():
            raise SchedlabError(
                f"{path}: line {number} has not as many fields as the first",
                "install schedlab again",
            )
    return found


def errata() -> list[Erratum]:
    """All that is known to be wrong with the published figures, or worth knowing.

    Raises
    ------
    SchedlabError
        If the list cannot be read.
    """
    return [
        Erratum(
            study=f"seed{_field(ERRATA, row, 'seed_file').partition('_')[0]}",
            **{key: _field(ERRATA, row, key) for key in Erratum.__slots__ if key != "study"},
        )
        for row in rows(ERRATA)
    ]


def derive() -> list[Derived]:
    """Every figure of the studies that was derived from others beside it, derived again.

    Costs per process, improvements, means, changes and differences in percent and seconds, and
    sizes that are sums: in the order of the studies and of their rows.

    Raises
    ------
    SchedlabError
        If a table cannot be read, or is not what it was.
    """
    return [*_counter(), *_improvements(), *_means_2007(), *_sizes(), *_differences_2012()]


def slips() -> list[Derived]:
    """The printed figures that contradict their own table."""
    return [found for found in derive() if not found.follows]


def erratum_of(found: Derived) -> Erratum | None:
    """What `errata.csv` says of a figure that contradicts its table; None if it is not there."""
    study, (benchmark, _, machine) = found.table.partition("_")[0], found.place.partition(", ")
    for erratum in errata():
        names = (erratum.study, erratum.where, erratum.item)
        if erratum.kind == ARITHMETIC and names == (
            study, f"{benchmark} means table", f"{machine}: {found.column}"
        ):  # fmt: skip
            return erratum
    return None


# ---- 2009: counter and compile -------------------------------------------------------------------


def _counter() -> Iterator[Derived]:
    table = "seed000_counter"
    for row in rows(table):
        total, nr_processes = _number(table, row, "total_s"), _number(table, row, "n_procs")
        yield Derived(
            table,
            f"{row['n_procs']} processes, {row['kernel']}",
            "cost_s",
            printed=_number(table, row, "cost_s"),
            exact=total / nr_processes,
        )


def _improvements() -> Iterator[Derived]:
    table = "seed000_printed_improvement"
    times = {}
    for workload, source, n, seconds in (
        ("counter", "seed000_counter", "n_procs", "total_s"),
        ("compile", "seed000_compile_e2fsprogs", "n_jobs", "elapsed_s"),
    ):
        for row in rows(source):
            place = (workload, _field(source, row, n), _field(source, row, "kernel"))
            times[place] = _number(source, row, seconds)
    for row in rows(table):
        workload, n = _field(table, row, "workload").partition("_")[0], _field(table, row, "n")
        base, new = (
            _looked_up(table, times, (workload, n, _field(table, row, key)))
            for key in ("base_kernel", "new_kernel")
        )
        place = f"{row['workload']}, {n}: {row['new_kernel']} after {row['base_kernel']}"
        printed = _number(table, row, "improvement_pct")
        yield Derived(table, place, "improvement_pct", printed, 100 * (base - new) / base)


# ---- 2007: lat_ctx and sched.o ------------------------------------------------------------------


def _means_2007() -> Iterator[Derived]:
    source, table = "seed003_lat_ctx", "seed003_lat_ctx_printed_summary"
    runs: dict[str, list[Decimal]] = {}
    for row in rows(source):
        found = runs.setdefault(_field(source, row, "kernel"), [])
        found.append(_number(source, row, "latency_us"))
    means = {kernel: sum(found) / len(found) for kernel, found in runs.items()}
    for row in rows(table):
        kernel = _field(table, row, "kernel")
        mean = _looked_up(table, means, kernel)
        yield Derived(table, kernel, "mean_us", _number(table, row, "mean_us"), mean)
        column = "change_vs_v2_6_22_pct"
        if row[column]:
            base = _looked_up(table, means, BASE_2007)
            yield Derived(
                table,
                kernel,
                column,
                printed=_number(table, row, column),
                exact=100 * (mean - base) / base,
            )


def _sizes() -> Iterator[Derived]:
    table = "seed003_code_size"
    parts = ("text_bytes", "data_bytes", "bss_bytes")
    for row in rows(table):
        whole = sum(_number(table, row, part) for part in parts)
        for column, base in (("dec_bytes", 10), ("hex_bytes", 16)):
            try:
                printed = Decimal(int(_field(table, row, column), base))
            except ValueError as error:
                raise _not_what_it_was(table, row, column) from error
            yield Derived(table, row["object"], column, printed, whole)


# ---- 2012: seven machines -----------------------------------------------------------------------


def _differences_2012() -> Iterator[Derived]:
    source, table = "seed004_means", "seed004_printed_differences"
    means = {
        tuple(_field(source, row, key) for key in ("benchmark", "machine", "kernel")): _number(
            source, row, "mean_s"
        )
        for row in rows(source)
    }
    for row in rows(table):
        cell = (_field(table, row, "benchmark"), _field(table, row, "machine"))
        cfs, bfs = (_looked_up(table, means, (*cell, kernel)) for kernel in (CFS_2012, BFS_2012))
        place, difference = ", ".join(cell), bfs - cfs
        printed = _number(table, row, "difference_s")
        yield Derived(table, place, "difference_s", printed, difference)
        printed = _number(table, row, "change_pct")
        yield Derived(table, place, "change_pct", printed, 100 * abs(difference) / cfs)


# ---- fields -------------------------------------------------------------------------------------


def _field(table: str, row: Row, column: str) -> str:
    if column not in row:
        raise _not_what_it_was(table, row, column)
    return row[column]


def _number(table: str, row: Row, column: str) -> Decimal:
    try:
        number = Decimal(_field(table, row, column))
    except InvalidOperation as error:
        raise _not_what_it_was(table, row, column) from error
    if not number.is_finite():
        raise _not_what_it_was(table, row, column)
    return number


def _looked_up(table: str, found: Mapping, key: object) -> Decimal:
    if key not in found or not found[key]:
        raise SchedlabError(
            f"published table {table}: nothing but zero to derive {key!r} from",
            "install schedlab again",
        )
    return found[key]


def _not_what_it_was(table: str, row: Row, column: str) -> SchedlabError:
    return SchedlabError(
        f"published table {table} is not what it was: {column} is {row.get(column)!r}"
        f" in the row {', '.join(map(str, row.values()))}",
        "install schedlab again",
    )
