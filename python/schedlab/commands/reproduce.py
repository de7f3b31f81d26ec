"""The verb `schedlab reproduce`: published figures beside ours.

The figures stand in published/ as they were printed; what is known to be wrong with them is pointed
out beside them, and never mended.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich import box
from rich.markup import escape
from rich.table import Table

from schedlab import published
from schedlab.commands import options
from schedlab.commands.compare import compare_verb
from schedlab.commands.race import race_verb
from schedlab.commands.size import size_verb
from schedlab.report.tables import fits, print_table
from schedlab.store.measurements import Measurements
from schedlab.store.runs import Store

# A column of longer texts is broken into lines where there is no room.
WRAPPED_FROM = 20


@click.command("reproduce")
@click.argument("names", nargs=-1, metavar="[NAME|TABLE]...")
@options.store_option("Keeps every run; runs already in it are not made again.")
@click.option("--repeat", type=int, help="Runs of each policy in each scenario."
              "  [default: the experiment's]")  # fmt: skip
@options.quiet_option
@click.pass_context
def reproduce_verb(context, names, store, repeat, quiet) -> bool:
    """Show published figures beside ours.

    Ours are simulated, raced or measured; errors are stated. Without a name, lists what there is.
    What is known to be wrong with the originals is pointed out. After Ctrl-C the same command goes
    on where it stopped.
    """
    originals = published.originals()
    if not names:
        table = Table("name", "published", "simulated, or raced, or measured by", box=box.SIMPLE)
        for original in originals:
            commands = [original.simulated_by or "–", original.measured_by]
            table.add_row(original.name, escape(original.what), "\n".join(filter(None, commands)))
        print_table(table)
        click.echo("`schedlab reproduce NAME` shows one of them beside ours, `all` each in turn.")
        return False
    if "all" not in names:
        originals = list(dict.fromkeys(map(published.original, names)))
    is_found = False
    for number, original in enumerate(originals):
        click.echo(("\n" if number else "") + f"== {original.name}: {original.what}\n")
        if original.experiment:
            asked = {"file": original.experiment, "store": store, "repeat": repeat, "quiet": quiet}
            is_found |= context.invoke(compare_verb, **asked)
        elif original.verb == published.RACE:
            is_found |= context.invoke(race_verb, store=store, quiet=quiet)
        elif original.verb == published.SIZE:
            context.invoke(size_verb)
        else:
            print_rows(original)
            click.echo(f"not simulated: {original.not_simulated}")
        print_measured(original, store)
        print_errata(original)
    return is_found


def print_rows(original: published.Original) -> None:
    """Its figures as they were printed; for what nothing simulates.

    Where they are too wide, what is the same in every row is told once, above them.
    """
    for name in original.tables.split():
        rows = published.rows(name)
        table = _table_of(name, rows, list(rows[0]))
        if not fits(table):
            same = [column for column in rows[0] if len({row[column] for row in rows}) == 1]
            table = _table_of(name, rows, [column for column in rows[0] if column not in same])
            values = ", ".join(f"{column.replace('_', ' ')} {rows[0][column]}" for column in same)
            click.echo(f"in every row: {values}")
        print_table(table)


def _table_of(name: str, rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE, title=name, title_justify="left", title_style="")
    for column in columns:
        longest = max(len(row[column]) for row in rows)
        table.add_column(column.replace("_", " "), no_wrap=longest <= WRAPPED_FROM, overflow="fold")
    for row in rows:
        table.add_row(*(escape(row[column]) for column in columns))
    return table


def measured(original: published.Original, store: Path) -> list:
    """The rows that a store has of its benchmark, over all kernels and schedulers there."""
    # Statistics take longer to load than most verbs take to run.
    from schedlab.bench import answers

    if not original.suite or not store.exists():
        return []
    with Store(store, read_only=True) as opened:
        measurements = Measurements(opened)
        rows = answers.rows(measurements, measurements.campaigns(original.suite))
    return [row for row in rows if row.name.partition(" ")[0] == original.benchmark]


def print_measured(original: published.Original, store: Path) -> None:
    """What was measured on machines of the store; else how to."""
    from schedlab.bench.limits import ends
    from schedlab.bench.table import print_medians

    if rows := measured(original, store):
        print_medians(rows, f"measured ({original.measured_by}, {store})")
        for sentence in ends(rows):
            click.echo(f"{sentence}\n")
    elif original.measured_by:
        click.echo(f"not measured in {store} yet: `{original.measured_by}`\n")


def print_errata(original: published.Original) -> None:
    """Slips and errata of an original; nothing where none are known."""
    for title, are_slips in (
        ("printed figures that contradict their own table", True),
        ("what else is to be known of the original", False),
    ):
        rows = [one for one in original.errata() if (one.kind == published.ARITHMETIC) == are_slips]
        if not rows:
            continue
        click.echo(title)
        table = Table("where", box=box.SIMPLE)
        for head in ("printed", "what follows", "comment"):
            table.add_column(head, max_width=40)
        for row in rows:
            where = f"{row.where}: {row.item}"
            table.add_row(*map(escape, (where, row.printed, row.what_follows, row.comment)))
        print_table(table)
