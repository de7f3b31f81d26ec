"""The verb `schedlab doctor`: what works here, and what to install for the rest."""

from dataclasses import asdict

import click

from schedlab.commands import options
from schedlab.errors import EXIT_FOUND
from schedlab.kernel.obstacles import SIMULATOR, examine
from schedlab.report import tables

COLUMNS = ("needed_for", "what", "state", "found", "to_do")


@click.command("doctor")
@options.json_option
def doctor_verb(as_json: bool) -> int:
    """Tell what works here, and what to install for the rest.

    Where KVM is there it is tried once, which takes some seconds. Exit code 1 means that not even
    the simulator works.
    """
    findings = list(examine())
    tables.print_rows([asdict(finding) for finding in findings], as_json, COLUMNS)
    unusable = [f for f in findings if f.needed_for == SIMULATOR and f.state == "missing"]
    return EXIT_FOUND if unusable else 0
