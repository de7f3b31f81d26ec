"""The verb `schedlab validate`: this machine beside its own simulation."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from schedlab import catalogue
from schedlab.bench import calibration
from schedlab.bench.validation import POLICY, REPEAT_MIN, Found, Here, compared, median
from schedlab.commands import options
from schedlab.errors import EXIT_FOUND
from schedlab.report import tables
from schedlab.statistics import digits

if TYPE_CHECKING:
    from schedlab.statistics.estimates import Estimate
OFF_MAX_PERCENT = 15.0


def _print(found: Sequence[Found], machine: str) -> None:
    """Times, errors and CPU times beside each other, or below where that is too wide."""
    groups = []
    for cells in (_wall_cells, _error_cells, _cpu_cells):
        rows = {one.name: cells(one) for one in found}
        heads = cells(found[0])
        groups.append([(head, {name: row[head] for name, row in rows.items()}) for head in heads])
    click.echo(f"{POLICY} on {machine}: simulated beside measured here")
    tables.print_policy_rows([one.name for one in found], [tables.Block("benchmark", groups)])


def _wall_cells(one: Found) -> dict[str, str]:
    wall_s = one.wall_s
    interval = (wall_s.low, wall_s.high)
    return {
        "measured s, 95 %": digits.with_interval(wall_s.median, *interval),
        "simulated s": digits.number(median(one.simulated, lambda run: run.wall_s), *interval),
    }


def _error_cells(one: Found) -> dict[str, str]:
    return {
        "error %, 95 %": _error(one.error_percent),
        "CPU error %, 95 %": _error(one.cpu_error_percent),
    }


def _cpu_cells(one: Found) -> dict[str, str]:
    return {
        "CPU s measured": digits.number(median(one.measured, lambda run: run.cpu_s)),
        "CPU s simulated": digits.number(median(one.simulated, lambda run: run.cpu_s)),
    }


def _error(percent: Estimate) -> str:
    return f"{percent.median:+.1f} [{percent.low:+.1f}, {percent.high:+.1f}]"


def _json_of(one: Found) -> dict:
    wall_s = one.wall_s
    return {
        "benchmark": one.name,
        "measured_s": wall_s.median,
        "measured_s_low": wall_s.low,
        "measured_s_high": wall_s.high,
        "simulated_s": median(one.simulated, lambda run: run.wall_s),
        "error_percent": one.error_percent.median,
        "error_percent_low": one.error_percent.low,
        "error_percent_high": one.error_percent.high,
        "measured_cpu_s": median(one.measured, lambda run: run.cpu_s),
        "simulated_cpu_s": median(one.simulated, lambda run: run.cpu_s),
        "cpu_error_percent": one.cpu_error_percent.median,
        "cpu_error_percent_low": one.cpu_error_percent.low,
        "cpu_error_percent_high": one.cpu_error_percent.high,
        "repetitions_s": [run.wall_s for run in one.measured],
        "simulated_repetitions_s": [run.wall_s for run in one.simulated],
    }


@click.command("validate")
@click.option("--machine", metavar="NAME|PATH",
              help="As `calibrate` wrote it.  [default: measured in each turn]")  # fmt: skip
@click.option("--repeat", type=click.IntRange(REPEAT_MIN, 1000), default=15, show_default=True,
              help="Turns, each with every benchmark once.")  # fmt: skip
@click.option("--program", metavar="PATH", help=calibration.PROGRAM_HELP)
@options.json_option
def validate_verb(machine: str | None, repeat: int, program: str | None, as_json: bool) -> int:
    """Compare this machine with its own simulation.

    Runs benchmarks for real and simulated, and prints how far the simulator is off. Exits with 1 if
    one is off by more than 15 %.
    """
    name, machines = "this machine", None
    if machine is not None:
        path = catalogue.find(catalogue.MACHINES, machine)
        known = calibration.Machines.of_file(path)
        name, machines = known.whole.name, lambda: known
    native = calibration.find_program(program)
    if machines is None:
        machines = functools.partial(calibration.Machines.measured, native)
    here = Here(native, min(os.sched_getaffinity(0)))
    found = compared(here, machines, repeat, functools.partial(click.echo, err=True))
    if as_json:
        rows = [_json_of(one) for one in found]
        tables.print_json({"policy": POLICY, "machine": name, "benchmarks": rows})
    else:
        _print(found, name)
    off = [one for one in found if abs(one.error_percent.median) > OFF_MAX_PERCENT]
    return EXIT_FOUND if off else 0
