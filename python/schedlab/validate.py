"""`schedlab validate`: the same benchmarks for real on this machine and simulated, and the error.

Real ones are `schedlab-bench`'s, under the kernel's own scheduler, EEVDF from Linux 6.6 on;
simulated ones run policy `eevdf` on a calibrated machine. Parameters are the same on both sides;
the one number that a real run lends to a simulated one is how long counting takes alone.
"""

from __future__ import annotations

import functools
import json
import os
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedlab import calibrate, catalogue, digits, tables, terminal
from schedlab.errors import EXIT_FOUND

if TYPE_CHECKING:
    from schedlab.statistics import Estimate

POLICY = "eevdf"
# Fewer give no interval of a median.
REPEAT_MIN = 6
OFF_MAX_PERCENT = 15.0
COUNT_TO = 300_000_000
# A pipe of today; the workload's default is Linux 2.4's.
PIPE = {"pipe": "true", "pipe_buffer_bytes": "65536"}


@dataclass(frozen=True)
class Case:
    """A benchmark on both sides."""

    name: str
    words: Callable[[int], Sequence[str]]
    """What the native program is told, by the number of the repetition."""
    workload: str
    parameters: dict[str, str]
    one_cpu: bool = False
    """Kept on one CPU, on both sides."""


@dataclass(frozen=True)
class Run:
    """One repetition, real or simulated, seconds."""

    wall_s: float
    cpu_s: float
    """CPU time of all tasks, the kernel's work for them included."""


@dataclass(frozen=True)
class Found:
    """What came of one benchmark."""

    name: str
    measured: Sequence[Run]
    simulated: Sequence[Run]

    @property
    def wall_s(self) -> Estimate:
        """Measured, by its median."""
        # Statistics take longer to load than most verbs take to run.
        from schedlab.statistics import median_estimate

        return median_estimate([run.wall_s for run in self.measured])

    @property
    def error_percent(self) -> float:
        """Simulated to measured median; above 0 is too slow."""
        return self._off(lambda run: run.wall_s)

    @property
    def cpu_error_percent(self) -> float:
        """The same of CPU time, which other programs on a busy machine change little."""
        return self._off(lambda run: run.cpu_s)

    def _off(self, seconds: Callable[[Run], float]) -> float:
        return 100 * (median(self.simulated, seconds) / median(self.measured, seconds) - 1)


def median(runs: Sequence[Run], seconds: Callable[[Run], float]) -> float:
    """Of what `seconds` gives of each."""
    return statistics.median([seconds(run) for run in runs])


def cases_of(alone_ns: int) -> list[Case]:
    """All of them; `alone_ns` is the CPU time of counting."""
    play = str(catalogue.find(catalogue.WORKLOADS, "make"))
    sizes = {"jobs": "2", "size": "50"}
    told = [word for name, value in sizes.items() for word in ("--with", f"{name}={value}")]
    counter = {"n": "4", "work": f"{alone_ns}ns", "startup_min": "0ns", "startup_max": "0ns"}
    return [
        Case(
            "hackbench, 5 groups, pipes",
            lambda _: ("hackbench", "-g", "5", "-l", "200", "-p"),
            "hackbench",
            {"groups": "5", "loops": "200", **PIPE},
        ),
        Case(
            "lat_ctx, 8 processes, 1 CPU",
            lambda _: ("lat-ctx", "-n", "8", "--rounds", "5000"),
            "lat_ctx",
            {"n": "8", "rounds": "5000"},
            one_cpu=True,
        ),
        # Whether the two share a CPU depends on what else runs: see docs/guides/calibrate.md.
        Case(
            "lat_ctx, 2 processes, any CPU",
            lambda _: ("lat-ctx", "-n", "2", "--rounds", "20000"),
            "lat_ctx",
            {"n": "2", "rounds": "20000"},
        ),
        Case(
            "counter, 4 processes",
            lambda _: ("counter", "-n", "4", "--to", str(COUNT_TO)),
            "counter",
            counter | {"poll_work": "0ns"},
        ),
        Case(
            "make -j2",
            lambda seed: ("play", play, *told, "--seed", str(seed)),
            "make",
            sizes,
        ),
    ]


def counting_alone_ns(program: Path) -> int:
    """CPU time of one task that counts."""
    words = ("counter", "-n", "1", "--to", str(COUNT_TO))
    line = calibrate.times_of(program, *words)
    return line["user_ns"] + line["system_ns"]


def simulated(case: Case, machine, seeds: Sequence[int]) -> list[Run]:
    """Simulated repetitions."""
    policy = catalogue.load_policy(catalogue.find(catalogue.POLICIES, POLICY))
    path = catalogue.find(catalogue.WORKLOADS, case.workload)
    workload = catalogue.load_workload(path, case.parameters)
    runs = []
    for seed in seeds:
        result = json.loads(catalogue.native().simulate(policy, machine, workload, seed, {}))
        busy_ns = sum(result["cpu_time_ns"][of] for of in ("work", "kernel", "scheduler"))
        runs.append(Run(result["makespan_ns"] / 1e9, busy_ns / 1e9))
    return runs


def measured(
    cases: Sequence[Case], program: Path, repeat: int, tell: Callable[[str], None]
) -> tuple[dict[str, list[Run]], int]:
    """Real repetitions by case, and the median CPU time of counting alone, ns.

    All cases once in random order, `repeat` times.
    A first turn warms up and does not count.
    """
    order = random.Random(1)
    one = min(os.sched_getaffinity(0))
    found: dict[str, list[Run]] = {case.name: [] for case in cases}
    alone_ns = []
    for turn in range(repeat + 1):
        alone_ns.append(counting_alone_ns(program))
        for case in order.sample(cases, len(cases)):
            cpu = one if case.one_cpu else None
            line = calibrate.times_of(program, *case.words(turn), cpu=cpu)
            if turn:
                cpu_s = (line["user_ns"] + line["system_ns"]) / 1e9
                found[case.name].append(Run(line["wall_ns"] / 1e9, cpu_s))
        tell(f"turn {turn} of {repeat}, load {os.getloadavg()[0]:.1f}")
    return found, round(statistics.median(alone_ns))


def _print(found: Sequence[Found], machine: str) -> None:
    """Wall time and CPU time beside each other, or below where that is too wide."""
    groups = []
    for cells in (_wall_cells, _cpu_cells):
        rows = {one.name: cells(one) for one in found}
        heads = cells(found[0])
        groups.append([(head, {name: row[head] for name, row in rows.items()}) for head in heads])
    click.echo(f"{POLICY} on {machine}: simulated beside measured here")
    tables.print_policy_rows([one.name for one in found], [tables.Block("benchmark", groups)])


def _wall_cells(one: Found) -> dict[str, str]:
    wall_s = one.wall_s
    interval = (wall_s.low, wall_s.high)
    return {
        "measured s [95 % interval]": digits.with_interval(wall_s.median, *interval),
        "simulated s": digits.number(median(one.simulated, lambda run: run.wall_s), *interval),
        "error %": f"{one.error_percent:+.1f}",
    }


def _cpu_cells(one: Found) -> dict[str, str]:
    return {
        "CPU s measured": digits.number(median(one.measured, lambda run: run.cpu_s)),
        "CPU s simulated": digits.number(median(one.simulated, lambda run: run.cpu_s)),
        "CPU error %": f"{one.cpu_error_percent:+.1f}",
    }


def _json_of(one: Found) -> dict:
    wall_s = one.wall_s
    return {
        "benchmark": one.name,
        "measured_s": wall_s.median,
        "measured_s_low": wall_s.low,
        "measured_s_high": wall_s.high,
        "simulated_s": median(one.simulated, lambda run: run.wall_s),
        "error_percent": one.error_percent,
        "measured_cpu_s": median(one.measured, lambda run: run.cpu_s),
        "simulated_cpu_s": median(one.simulated, lambda run: run.cpu_s),
        "cpu_error_percent": one.cpu_error_percent,
        "repetitions_s": [run.wall_s for run in one.measured],
    }


@click.command("validate")
@click.option("--machine", required=True, metavar="NAME|PATH",
              help="This machine, as `schedlab calibrate` wrote it.")  # fmt: skip
@click.option("--repeat", type=click.IntRange(REPEAT_MIN, 1000), default=15, show_default=True,
              help="Times that each is run.")  # fmt: skip
@click.option("--program", metavar="PATH", help=calibrate.PROGRAM_HELP)
@terminal.json_option
def validate_verb(machine: str, repeat: int, program: str | None, as_json: bool) -> int:
    """Compare this machine with its own simulation.

    Runs benchmarks for real and simulated, and prints how far the simulator is off. Exits with 1 if
    one is off by more than 15 %.
    """
    path = catalogue.find(catalogue.MACHINES, machine)
    calibrated, one_cpu = catalogue.load_machine(path), calibrate.one_cpu_of(path)
    native = calibrate.find_program(program)
    tell = functools.partial(click.echo, err=True)
    # What real tasks do does not depend on how long counting takes.
    real, alone_ns = measured(cases_of(0), native, repeat, tell)
    seeds = range(1, repeat + 1)
    found = []
    for case in cases_of(alone_ns):
        where = one_cpu if case.one_cpu else calibrated
        found.append(Found(case.name, real[case.name], simulated(case, where, seeds)))
    if as_json:
        rows = [_json_of(one) for one in found]
        terminal.print_json({"policy": POLICY, "machine": calibrated.name, "benchmarks": rows})
    else:
        _print(found, calibrated.name)
    off = [one for one in found if abs(one.error_percent) > OFF_MAX_PERCENT]
    return EXIT_FOUND if off else 0
