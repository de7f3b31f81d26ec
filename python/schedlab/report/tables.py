"""How tables come to stdout: whole where it is wide enough, else with policies as rows.

A table that compares policies has a column for each, which is how few of them are read best. Where
they do not fit beside each other, every policy becomes a row, and the columns are what it was
measured by, as many at a time as there is room for.
"""

import functools
import json
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from schedlab.report.forms import DASH
from schedlab.shown import in_json, print_data, shown, write_own

# Wide enough for nine policies; a table is only as wide as its contents.
PIPED_COLUMNS = 240
UNBOUNDED_COLUMNS = 10_000

Column = tuple[str, Mapping[str, str]]
"""A heading, and a text for each policy that has one."""


def headed(
    columns: Sequence[str], left: Sequence[str] = (), is_lined: bool = False, **style: Any
) -> Table:
    """A table without rows, whose columns stand to the right but for those that are to stand to the
    `left`, and are not broken; with a line below its head if it `is_lined`."""
    table = Table(box=box.SIMPLE if is_lined else None, pad_edge=is_lined, **style)
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right", no_wrap=True)
    return table


def print_table(table: Table) -> None:
    """A table on stdout; piped, it has all the room it needs and no blanks at line ends."""
    console = _console()
    # Not printed by rich itself, which would exit with a code of its own on a broken pipe.
    with console.capture() as capture:
        console.print(table)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    write_own(sys.stdout, "\n".join([*lines, ""]))


def fits(table: Table) -> bool:
    """Whether stdout is wide enough for a table without breaking a line of it."""
    console = _console()
    unbounded = console.options.update(width=UNBOUNDED_COLUMNS)
    return Measurement.get(console, unbounded, table).maximum <= console.width


def print_columns(columns: Sequence, build: Callable[[Sequence], Table]) -> None:
    """A table with so many columns, in as many parts as stdout's width asks for.

    `build` makes a table of some of them, with what stands to their left, which every part repeats.
    """
    rest = list(columns)
    while rest:
        nr = next((nr for nr in range(len(rest), 1, -1) if fits(build(rest[:nr]))), 1)
        print_table(build(rest[:nr]))
        rest = rest[nr:]


def print_policy_rows(
    policies: Sequence[str], name: str, groups: Sequence[Sequence[Column]]
) -> None:
    """A row a policy, below `name`, in as many parts as the width asks for. Columns of one of
    `groups` are torn apart only where some group is too wide by itself."""
    if not all(fits(rows_table(policies, name, [group])) for group in groups):
        groups = [[column] for group in groups for column in group]
    print_columns(groups, functools.partial(rows_table, policies, name))


def rows_table(
    policies: Sequence[str], name: str, groups: Sequence[Sequence[Column]], are_broken: bool = True
) -> Table:
    """A row a policy, whose column is headed by `name`; with headings that may be broken."""
    columns = [column for group in groups for column in group]
    heads = [escape(_broken(head, texts) if are_broken else head) for head, texts in columns]
    table = headed((escape(name), *heads), left=(escape(name),), is_lined=True)
    for policy in policies:
        table.add_row(*map(escape, (policy, *(texts.get(policy, DASH) for _, texts in columns))))
    return table


def _broken(heading: str, texts: Mapping[str, str]) -> str:
    """A heading in lines no wider than what stands below it, as far as its words allow."""
    width = max([*map(len, texts.values()), *map(len, heading.split()), 1])
    return "\n".join(textwrap.wrap(heading, width, break_on_hyphens=False)) or heading


class _Console(Console):
    """Shows in cells what a terminal would obey; its own styles are all that is drawn."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Called for every text, also where widths are measured."""
        return super().render_str(shown(text), **options)


def _console() -> Console:
    return _Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_COLUMNS)


def print_json(data: object) -> None:
    """One JSON document on stdout. Numbers are finite: JSON has no other."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
    # JSON lets some pass that a terminal obeys; in its own way of writing they are the same data.
    print_data(in_json(text))


def print_text(text: str) -> None:
    """A paragraph on stdout, broken between words where a terminal is narrower than it."""
    text = text.strip()
    if sys.stdout.isatty():
        text = textwrap.fill(text, Console().width, break_on_hyphens=False)
    print_data(f"{text}\n")


def print_rows(
    rows: Sequence[Mapping], as_json: bool, columns: Sequence[str], detail: str | None = None
) -> None:
    """Rows as JSON with all that they have, or as a table: a row an entry; below it the sets that
    go by a name and, with `detail`, what can be set."""
    if as_json:
        print_json(rows)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=column == "name", overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(row[column])) for column in columns))
        for item in row.get("sets", ()):
            meant = f": what {row['name']} alone means" * item["is_plain"]
            name = f"  {row['name']}@{item['name']}"
            table.add_row(name, escape(f"{item['description']}{meant}"))
        for item in row[detail] if detail else ():
            table.add_row(f"  {item['name']}", escape(f"{item['doc']} (default {item['default']})"))
    print_table(table)
