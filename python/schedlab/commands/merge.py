"""The verb `schedlab merge`: several stores in one."""

import contextlib
from collections.abc import Iterator
from dataclasses import asdict

import click

from schedlab.commands import options
from schedlab.errors import SchedlabError
from schedlab.report import tables
from schedlab.shown import print_note
from schedlab.store import faults
from schedlab.store.merge import merge
from schedlab.store.runs import Store


@contextlib.contextmanager
def _plain_hints() -> Iterator[None]:
    """A context in which ways out are those of who is given a store as an argument."""
    try:
        yield
    except SchedlabError as error:
        error.hint = error.hint and faults.way_out(error.hint, is_read_only=True)
        raise


@click.command("merge")
@click.argument("store", type=options.PATH)
@click.argument("others", nargs=-1, required=True, type=options.PATH, metavar="OTHER [OTHER]...")
@options.json_option
def merge_verb(store, others, as_json) -> None:
    """Take all that other stores hold into one store.

    Runs, experiments, races and measurements. STORE is made if it is not there. Merging again
    changes nothing; the other stores stay as they are.
    """
    for other in others:
        if store.exists() and other.exists() and store.samefile(other):
            hint = "name the stores that it shall get"
            raise SchedlabError(f"store {other} cannot be merged into itself", hint)
    taken = {}
    with _plain_hints(), Store(store) as kept:
        for other in others:
            rows = merge(kept, other, print_note)
            taken[str(other)] = {what: asdict(of) for what, of in rows.items()}
            if not as_json:
                new = [f"{of.new} of {of.rows} {what}" for what, of in rows.items() if of.rows]
                print_note(f"{other}: {', '.join(new) or 'nothing'} new in {store}")
    if as_json:
        tables.print_json(taken)
