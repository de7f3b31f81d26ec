"""The verb `schedlab validate`: this machine beside its own simulation."""

from collections.abc import Sequence
from functools import partial

import click

from schedlab import catalogue, programs
from schedlab.bench import calibration
from schedlab.bench.validation import REPEAT_MIN, DuelTimes, compared
from schedlab.commands import options
from schedlab.report import tables
from schedlab.shown import print_note
from schedlab.statistics import digits

OFF_MAX_PERCENT = 15.0
# An error in percent, and its 95 % interval.
ERROR = "{0.median:+.1f} [{0.low:+.1f}, {0.high:+.1f}]"


def _print(times: Sequence[DuelTimes], machine: str) -> None:
    """Times, errors and CPU times beside each other, or below where that is too wide."""
    rows = {one.name: _cells(one) for one in times}
    heads = rows[times[0].name]
    columns = [(head, {name: row[head] for name, row in rows.items()}) for head in heads]
    groups = [columns[at : at + 2] for at in range(0, len(columns), 2)]
    click.echo(f"{calibration.POLICY} on {machine}: simulated beside measured here")
    tables.print_policy_rows(list(rows), "benchmark", groups)


def _cells(one: DuelTimes) -> dict[str, str]:
    wall_s, simulated_s, error = one.of("wall_s")
    cpu_s, simulated_cpu_s, cpu_error = one.of("cpu_s")
    interval = (wall_s.low, wall_s.high)
    return {
        "measured s, 95 %": digits.with_interval(wall_s.median, *interval),
        "simulated s": digits.number(simulated_s, *interval),
        "error %, 95 %": ERROR.format(error),
        "CPU error %, 95 %": ERROR.format(cpu_error),
        "CPU s measured": digits.number(cpu_s.median),
        "CPU s simulated": digits.number(simulated_cpu_s),
    }


@click.command("validate")
@click.option("--machine", metavar="NAME|PATH",
              help="As `calibrate` wrote it.  [default: measured in each turn]")  # fmt: skip
@click.option("--repeat", type=click.IntRange(REPEAT_MIN, 1000), default=15,
              help="Turns, each with every benchmark once.")  # fmt: skip
@click.option("--program", metavar="PATH", help=calibration.PROGRAM_HELP)
@options.json_option
def validate_verb(machine, repeat, program, as_json) -> bool:
    """Compare this machine with its own simulation.

    Runs benchmarks for real and simulated, and prints how far the simulator is off. Exits with 1 if
    one is off by more than 15 %.
    """
    known, name = None, "this machine"
    if machine is not None:
        known = calibration.Machines.of_file(catalogue.find(catalogue.MACHINES, machine))
        name = known.whole.name
    native = programs.BENCH.find(program)
    machines = (lambda: known) if known else partial(calibration.Machines.measured, native)
    times = compared(native, machines, repeat, print_note)
    if as_json:
        rows = [one.as_json() for one in times]
        tables.print_json({"policy": calibration.POLICY, "machine": name, "benchmarks": rows})
    else:
        _print(times, name)
    return any(abs(one.of("wall_s")[2].median) > OFF_MAX_PERCENT for one in times)
