"""The verb `schedlab doctor`: what works here, and what to install for the rest."""

from dataclasses import asdict

import click

from schedlab.commands import options
from schedlab.kernel.obstacles import POLICIES, examine
from schedlab.report import tables


@click.command("doctor")
@options.json_option
def doctor_verb(as_json) -> bool:
    """Tell what works here, and what to install for the rest.

    Where KVM is there it is tried once, which takes some seconds. Exit code 1 means that no
    policy can be built, and none was installed built.
    """
    findings = list(examine())
    columns = ("needed_for", "what", "state", "found", "to_do")
    tables.print_rows([asdict(finding) for finding in findings], as_json, columns)
    return any(one.needed_for == POLICIES and one.state == "missing" for one in findings)
