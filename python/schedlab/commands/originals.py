"""What can be reproduced: the published studies, and for each how to simulate and to measure it.

`schedlab reproduce` shows them. The figures stand in published/ as they were printed; what is known
to be wrong with them is pointed out beside them, and never mended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich import box
from rich.markup import escape
from rich.table import Table

from schedlab import published
from schedlab.errors import UnknownName
from schedlab.published import Erratum
from schedlab.report.tables import fits, print_table
from schedlab.store.measurements import Measurements
from schedlab.store.runs import Store

if TYPE_CHECKING:
    from schedlab.bench.answers import CaseRow

RACE, SIZE = "race", "size"
# A column of longer texts is broken into lines where there is no room.
WRAPPED_FROM = 20


@dataclass(frozen=True, slots=True)
class Original:
    """A published table, or several that belong together.

    `tables` are names in published/. `experiment` simulates it; `verb` is another that answers it,
    of `RACE` and `SIZE`. `suite` and `benchmark` measure it on a machine; `not_simulated` is why
    nothing simulates it.
    """

    name: str
    what: str
    tables: tuple[str, ...]
    experiment: str = ""
    verb: str = ""
    suite: str = ""
    benchmark: str = ""
    not_simulated: str = ""

    @property
    def simulated_by(self) -> str:
        """A command that gives our figures."""
        if self.experiment:
            return f"schedlab compare --experiment {self.experiment}"
        return f"schedlab {self.verb}" if self.verb else ""

    @property
    def measured_by(self) -> str:
        """A command that measures the same on this machine."""
        return f"schedlab bench {self.suite} --only {self.benchmark}" if self.suite else ""


ORIGINALS = (
    Original(
        "hackbench_2003",
        "OSDL, 2003: seconds of hackbench, 2.4.18 against 2.6.0-test9 on 1 to 8 CPUs",
        ("seed002_hackbench_times",),
        experiment="hackbench_2003",
        suite="study-2003",
        benchmark="hackbench",
    ),
    Original(
        "groups_2003",
        "OSDL, 2003: how many groups of hackbench a kernel completes",
        ("seed002_hackbench_max_groups",),
        suite="study-2003",
        benchmark="limit",
        not_simulated="the model has no memory and no limit of processes",
    ),
    Original(
        "run_queues_2007",
        "linux-kernel, April 2007: red-black tree, time ring and GAVL tree, cycles a loop",
        ("seed001_smart_queue",),
        verb=RACE,
    ),
    Original(
        "lat_ctx_2007",
        "linux-kernel, September 2007: lat_ctx under O(1) and two states of CFS",
        ("seed003_lat_ctx", "seed003_lat_ctx_printed_summary"),
        experiment="lat_ctx_2007",
        suite="quick",
        benchmark="lat_ctx",
    ),
    Original(
        "sizes_2007",
        "linux-kernel, September 2007: text, data and bss of sched.o",
        ("seed003_code_size", "seed003_diffstat"),
        verb=SIZE,
    ),
    Original(
        "counter_2009",
        "a blog, 2009: 1 to 32 counting processes under CFS and BFS",
        ("seed000_counter", "seed000_printed_improvement"),
        experiment="counter_2009",
        suite="study-2009",
        benchmark="counter",
    ),
    Original(
        "compile_2009",
        "the same blog, 2009: make -j1 to -j5 under CFS and BFS",
        ("seed000_compile_e2fsprogs", "seed000_printed_improvement"),
        experiment="compile_2009",
        suite="study-2009",
        benchmark="make",
    ),
    *(
        Original(
            f"{benchmark}_2012",
            f"graysky, 2012: {what} under CFS and BFS on seven machines",
            ("seed004_means", "seed004_printed_differences", "seed004_quantiles"),
            experiment=f"study_2012_{benchmark}",
            suite="study-2012",
            benchmark=benchmark,
        )
        for benchmark, what in (
            ("make", "building a kernel"),
            ("compress", "lrzip"),
            ("video", "an x264 encoder"),
        )
    ),
)


def find(name: str) -> Original:
    """The original with this name, or that one of the published tables of this name belongs to.

    Raises
    ------
    UnknownName
        If it is neither; suggests names spelled alike.
    """
    for original in ORIGINALS:
        if name == original.name or name in original.tables:
            return original
    raise UnknownName("published table", name, [original.name for original in ORIGINALS])


def errata(original: Original) -> list[Erratum]:
    """What is known to be wrong with it, or worth knowing."""
    return [one for one in published.errata() if original.name in one.originals.split()]


def measured(original: Original, store: Path) -> list[CaseRow]:
    """What a store has of its benchmark, in every kernel and scheduler that it was measured in."""
    # Statistics take longer to load than most verbs take to run.
    from schedlab.bench import answers

    if not original.suite or not store.exists():
        return []
    with Store(store, read_only=True) as opened:
        measurements = Measurements(opened)
        campaigns = [one for one in measurements.campaigns() if one.suite == original.suite]
        rows = answers.rows(measurements, campaigns)
    return [row for row in rows if row.name.partition(" ")[0] == original.benchmark]


# ---- on the terminal -----------------------------------------------------------------------------


def print_list() -> None:
    """Every original: its name, what it is, and who answers it here."""
    table = Table(box=box.SIMPLE)
    for head in ("name", "published", "simulated, or raced, or measured by"):
        table.add_column(head)
    for original in ORIGINALS:
        commands = [original.simulated_by or "–", original.measured_by]
        table.add_row(original.name, escape(original.what), "\n".join(filter(None, commands)))
    print_table(table)
    click.echo("`schedlab reproduce NAME` shows one of them beside ours, `all` each in turn.")


def print_rows(original: Original) -> None:
    """Its figures as they were printed; for what nothing simulates.

    Where they are too wide, what is the same in every row is told once, above them.
    """
    for name in original.tables:
        rows = published.rows(name)
        table = _table_of(name, rows, list(rows[0]))
        if not fits(table):
            same = [column for column in rows[0] if len({row[column] for row in rows}) == 1]
            table = _table_of(name, rows, [column for column in rows[0] if column not in same])
            values = ", ".join(f"{_words(column)} {rows[0][column]}" for column in same)
            click.echo(f"in every row: {values}")
        print_table(table)


def _table_of(name: str, rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE, title=name, title_justify="left", title_style="")
    for column in columns:
        longest = max(len(row[column]) for row in rows)
        table.add_column(_words(column), no_wrap=longest <= WRAPPED_FROM, overflow="fold")
    for row in rows:
        table.add_row(*(escape(row[column]) for column in columns))
    return table


def _words(column: str) -> str:
    return column.replace("_", " ")


def print_measured(original: Original, store: Path) -> None:
    """What was measured on machines of the store; else how to."""
    from schedlab.bench.limits import ends
    from schedlab.bench.table import print_medians

    rows = measured(original, store)
    if rows:
        print_medians(rows, f"measured ({original.measured_by}, {store})")
        for sentence in ends(rows):
            click.echo(f"{sentence}\n")
    elif original.measured_by:
        click.echo(f"not measured in {store} yet: `{original.measured_by}`\n")


def print_errata(original: Original) -> None:
    """Slips and errata of an original; nothing where none are known."""
    known = errata(original)
    slips = [one for one in known if one.kind == published.ARITHMETIC]
    others = [one for one in known if one.kind != published.ARITHMETIC]
    for title, rows in (
        ("printed figures that contradict their own table", slips),
        ("what else is to be known of the original", others),
    ):
        if not rows:
            continue
        click.echo(title)
        table = Table(box=box.SIMPLE)
        table.add_column("where")
        for head in ("printed", "what follows", "comment"):
            table.add_column(head, max_width=40)
        for one in rows:
            where = f"{one.where}: {one.item}"
            table.add_row(*map(escape, (where, one.printed, one.what_follows, one.comment)))
        print_table(table)


def chosen(names: Sequence[str]) -> list[Original]:
    """The originals that a command line names, each once; `all` is every one."""
    if "all" in names:
        return list(ORIGINALS)
    return list({original.name: original for original in map(find, names)}.values())
