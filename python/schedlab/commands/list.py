"""`schedlab list`: the policies, machines and workloads that there are."""

import click

from schedlab import catalogue
from schedlab.commands import options
from schedlab.report.tables import print_rows
from schedlab.shown import print_note

_verbose_option = click.option("--verbose", "-v", is_flag=True, help="With tunables or parameters.")


@click.command("policies")
@_verbose_option
@options.json_option
def policies_verb(verbose, as_json) -> bool:
    """Every policy and its idea, and its tunable sets.

    With -v also its tunables, their defaults and meaning.
    """
    broken = []
    rows = list(catalogue.policy_rows(broken.append))
    for error in broken:
        print_note(f"error: {error}")
    print_rows(rows, as_json, ("name", "idea"), "tunables" if verbose else None)
    return bool(broken)


@click.command("machines")
@options.json_option
def machines_verb(as_json) -> None:
    """Every machine and what it stands for.

    With the number of its CPUs and its clock ticks a second.
    """
    print_rows(list(catalogue.machine_rows()), as_json, ("name", "cpus", "hz", "description"))


@click.command("workloads")
@_verbose_option
@options.json_option
def workloads_verb(verbose, as_json) -> None:
    """Every workload and what it does.

    With -v also its parameters, their defaults and meaning.
    """
    detail = "parameters" if verbose else None
    print_rows(list(catalogue.workload_rows()), as_json, ("name", "description"), detail)
