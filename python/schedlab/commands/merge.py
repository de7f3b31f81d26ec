"""The verb `schedlab merge`: several stores in one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from schedlab.commands import options
from schedlab.errors import SchedlabError
from schedlab.report import tables
from schedlab.shown import print_note
from schedlab.store.merge import merge
from schedlab.store.runs import Store


@click.command("merge")
@click.argument("store", type=click.Path(path_type=Path))
@click.argument(
    "others", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="OTHER [OTHER]..."
)
@options.json_option
def merge_verb(store: Path, others: Sequence[Path], as_json: bool) -> int:
    """Take all that other stores hold into one store.

    Runs, experiments, races and measurements. STORE is made if it is not there. Merging again
    changes nothing; the other stores stay as they are.
    """
    for other in others:
        if store.exists() and other.exists() and store.samefile(other):
            raise SchedlabError(
                f"store {other} cannot be merged into itself", "name the stores that it shall get"
            )
    told = {}
    with Store(store) as kept:
        for other in others:
            told[str(other)] = taken = merge(kept, other, print_note)
            if not as_json:
                parts = (
                    f"{one.new} of {one.rows} {what}" for what, one in taken.items() if one.rows
                )
                print_note(f"{other}: {', '.join(parts) or 'nothing'} new in {store}")
    if as_json:
        tables.print_json(
            {
                other: {what: {"rows": one.rows, "new": one.new} for what, one in taken.items()}
                for other, taken in told.items()
            }
        )
    return 0
