"""`schedlab validate`: the same benchmarks for real on this machine and simulated, and the error.

Real ones are `schedlab-bench`'s, under the kernel's own scheduler, EEVDF from Linux 6.6 on;
simulated ones run policy `eevdf` on a calibrated machine. Parameters are the same on both sides;
the one number that a real run lends to a simulated one is how long counting takes alone.

A machine in a cloud changes its speed within minutes. So real and simulated runs are pairs: each
turn measures the machine's costs, runs the benchmarks, and simulates them at these costs; what is
compared is the median of the turns' ratios. With `--machine` the costs are those of its file.
"""

from __future__ import annotations

import json
import os
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from schedlab import catalogue
from schedlab.bench import calibration

if TYPE_CHECKING:
    from schedlab.statistics.estimates import Estimate

POLICY = "eevdf"
# Fewer give no interval of a median.
REPEAT_MIN = 6
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
    """What came of one benchmark: a real and a simulated run of each turn, in their order."""

    name: str
    measured: list[Run] = field(default_factory=list)
    simulated: list[Run] = field(default_factory=list)

    @property
    def wall_s(self) -> Estimate:
        """Measured, by its median."""
        # Statistics take longer to load than most verbs take to run.
        from schedlab.statistics.estimates import median_estimate

        return median_estimate([run.wall_s for run in self.measured])

    @property
    def error_percent(self) -> Estimate:
        """How much longer the simulated run of a turn took than its real one, by the median."""
        return self._off(lambda run: run.wall_s)

    @property
    def cpu_error_percent(self) -> Estimate:
        """The same of CPU time, which other programs on a busy machine change little."""
        return self._off(lambda run: run.cpu_s)

    def _off(self, seconds: Callable[[Run], float]) -> Estimate:
        from schedlab.statistics.estimates import median_estimate

        turns = zip(self.simulated, self.measured, strict=True)
        return median_estimate([100 * (seconds(ours) / seconds(real) - 1) for ours, real in turns])


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


def simulated(case: Case, machine, seed: int) -> Run:
    """A simulated repetition."""
    policy = catalogue.load_policy(catalogue.find(catalogue.POLICIES, POLICY))
    path = catalogue.find(catalogue.WORKLOADS, case.workload)
    workload = catalogue.load_workload(path, case.parameters)
    result = json.loads(catalogue.native().simulate(policy, machine, workload, seed, {}))
    busy_ns = sum(result["cpu_time_ns"][of] for of in ("work", "kernel", "scheduler"))
    return Run(result["makespan_ns"] / 1e9, busy_ns / 1e9)


@dataclass(frozen=True)
class Here:
    """The machine that real runs are made on."""

    program: Path
    one: int
    """The CPU of what is kept on one."""

    def run(self, case: Case, turn: int) -> Run:
        """A real repetition."""
        words = case.words(turn)
        line = calibration.times_of(self.program, *words, cpu=self.one if case.one_cpu else None)
        return Run(line["wall_ns"] / 1e9, (line["user_ns"] + line["system_ns"]) / 1e9)

    def counting_alone_ns(self) -> float:
        """CPU time of one task that counts."""
        words = ("counter", "-n", "1", "--to", str(COUNT_TO))
        line = calibration.times_of(self.program, *words)
        return line["user_ns"] + line["system_ns"]

    def turn(self, turn: int, order: random.Random) -> tuple[dict[str, Run], int]:
        """All cases once, by name, and how long counting took alone beside them, ns."""
        # What real tasks do does not depend on how long counting takes.
        cases = cases_of(0)
        runs, alone_ns = {}, []
        for case in order.sample(cases, len(cases)):
            counts = case.workload == "counter"
            if counts:
                alone_ns.append(self.counting_alone_ns())
            runs[case.name] = self.run(case, turn)
            if counts:
                alone_ns.append(self.counting_alone_ns())
        return runs, round(statistics.fmean(alone_ns))


def compared(
    here: Here,
    machines: Callable[[], calibration.Machines],
    repeat: int,
    tell: Callable[[str], None],
) -> list[Found]:
    """`repeat` turns, each at the costs that `machines` tells of at its begin.

    A first turn warms up and does not count.
    """
    order = random.Random(1)
    found = {case.name: Found(case.name) for case in cases_of(0)}
    for turn in range(repeat + 1):
        at = machines()
        runs, alone_ns = here.turn(turn, order)
        tell(f"turn {turn} of {repeat}, load {os.getloadavg()[0]:.1f}")
        if not turn:
            continue
        for case in cases_of(alone_ns):
            machine = at.one_cpu if case.one_cpu else at.whole
            found[case.name].measured.append(runs[case.name])
            found[case.name].simulated.append(simulated(case, machine, turn))
    return list(found.values())
