"""The verb `schedlab reproduce`: published figures beside ours."""

from __future__ import annotations

import click

from schedlab.commands import options, originals
from schedlab.commands.compare import compare_verb
from schedlab.commands.race import race_verb
from schedlab.commands.size import size_verb


@click.command("reproduce")
@click.argument("names", nargs=-1, metavar="[NAME|TABLE]...")
@options.store_option("Keeps every run; runs already in it are not made again.")
@click.option("--repeat", type=int, help="Runs of each cell.  [default: the experiment's]")
@options.quiet_option
@click.pass_context
def reproduce_verb(context, names, store, repeat, quiet) -> int:
    """Show published figures beside ours.

    Ours are simulated, raced or measured; errors are stated. Without a name, lists what there is.
    What is known to be wrong with the originals is pointed out. After Ctrl-C the same command goes
    on where it stopped.
    """
    if not names:
        originals.print_list()
        return 0
    code = 0
    for number, original in enumerate(originals.chosen(names)):
        click.echo(("\n" if number else "") + f"== {original.name}: {original.what}\n")
        if original.experiment:
            asked = {"file": original.experiment, "store": store, "repeat": repeat, "quiet": quiet}
            code |= context.invoke(compare_verb, **asked)
        elif original.verb == originals.RACE:
            code |= context.invoke(race_verb, store=store, quiet=quiet)
        elif original.verb == originals.SIZE:
            code |= context.invoke(size_verb)
        else:
            originals.print_rows(original)
            click.echo(f"not simulated: {original.not_simulated}")
        originals.print_measured(original, store)
        originals.print_errata(original)
    return code
