"""`schedlab list`: the policies, machines and workloads that there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from schedlab import catalogue, terminal
from schedlab.errors import EXIT_FOUND

_verbose_option = click.option("--verbose", "-v", is_flag=True, help="With tunables or parameters.")


@click.command("policies")
@_verbose_option
@terminal.json_option
def list_policies(verbose: bool, as_json: bool) -> int:
    """Every policy and its idea, and its tunable sets.

    With -v also its tunables, their defaults and meaning.
    """
    rows, broken = [], 0
    for name, path in catalogue.names(catalogue.POLICIES).items():
        try:
            policy = catalogue.load_policy(path)
        except catalogue.native().PolicyError as error:
            broken += 1
            click.echo(f"error: {error}", err=True)
            continue
        rows.append(
            {
                "name": name,
                "idea": policy.description,
                "source": str(path),
                "tunables": _meant(policy),
                "sets": policy.sets,
            }
        )
    _print_rows(rows, as_json, ("name", "idea"), "tunables" if verbose else None)
    return EXIT_FOUND if broken else 0


def _meant(policy) -> list[dict]:
    """The tunables of a policy, with the values that its name alone means as their defaults."""
    plain = next((one["tunables"] for one in policy.sets if one["is_plain"]), {})
    return [one | {"default": plain.get(one["name"], one["default"])} for one in policy.tunables]


@click.command("machines")
@terminal.json_option
def list_machines(as_json: bool) -> int:
    """Every machine and what it stands for.

    With the number of its CPUs and its clock ticks a second.
    """
    rows = []
    for name, path in catalogue.names(catalogue.MACHINES).items():
        machine = catalogue.load_machine(path)
        rows.append(
            {
                "name": name,
                "cpus": machine.nr_cpus,
                "hz": machine.hz,
                "description": machine.description,
                "source": str(path),
            }
        )
    _print_rows(rows, as_json, ("name", "cpus", "hz", "description"), None)
    return 0


@click.command("workloads")
@_verbose_option
@terminal.json_option
def list_workloads(verbose: bool, as_json: bool) -> int:
    """Every workload and what it does.

    With -v also its parameters, their defaults and meaning.
    """
    rows = []
    for name, path in catalogue.names(catalogue.WORKLOADS).items():
        workload = catalogue.load_workload(path, {})
        rows.append(
            {
                "name": name,
                "description": workload.description,
                "source": str(path),
                "parameters": catalogue.workload_parameters(path),
            }
        )
    _print_rows(rows, as_json, ("name", "description"), "parameters" if verbose else None)
    return 0


VERBS = (list_policies, list_machines, list_workloads)


def _print_rows(
    rows: Sequence[Mapping], as_json: bool, columns: Sequence[str], detail: str | None
) -> None:
    if as_json:
        terminal.print_json(rows)
    else:
        terminal.print_table(terminal.catalogue_table(rows, columns, detail))
