"""`schedlab validate`: the same benchmarks for real on this machine and simulated, and the error.

Real ones are `schedlab-bench`'s, under the kernel's own scheduler; all that they lend to simulated
ones is how long counting takes alone. A machine in a cloud changes its speed within minutes: so
each turn measures the machine's costs, unless `--machine` names a file of them, runs the benchmarks
and simulates them at these costs; what is compared is the median of the turns' ratios.
"""

import os
import random
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab import catalogue
from schedlab.bench import calibration
from schedlab.bench.calibration import PROGRAM, Machines
from schedlab.digests import ends
from schedlab.errors import SchedlabError

if TYPE_CHECKING:
    from schedlab.statistics.estimates import Estimate

# Fewer give no interval of a median.
REPEAT_MIN = 6
COUNT_TO = 300_000_000


@dataclass(frozen=True)
class Duel:
    """A benchmark on both sides; `one_cpu` keeps both on one."""

    name: str
    native: str
    """Words for the native program; {seed} is the number of the turn and {make} a file."""
    simulated: str
    """A workload and its parameters; {alone_ns} is how long counting takes."""
    one_cpu: bool = False


DUELS = (
    # A pipe of today; the workload's default is Linux 2.4's.
    Duel(
        "hackbench, 5 groups, pipes",
        "hackbench -g 5 -l 200 -p",
        "hackbench groups=5 loops=200 pipe=true pipe_buffer_bytes=65536",
    ),
    Duel(
        "lat_ctx, 8 processes, 1 CPU",
        "lat-ctx -n 8 --rounds 5000",
        "lat_ctx n=8 rounds=5000",
        one_cpu=True,
    ),
    # Whether the two share a CPU depends on what else runs: see docs/guides/calibrate.md.
    Duel(
        "lat_ctx, 2 processes, any CPU", "lat-ctx -n 2 --rounds 20000", "lat_ctx n=2 rounds=20000"
    ),
    Duel(
        "counter, 4 processes",
        f"counter -n 4 --to {COUNT_TO}",
        # A program in C, without what Python takes.
        "counter n=4 work={alone_ns}ns create_work=0ns start_work=0ns fork_work=0ns end_work=0ns"
        " startup_min=0ns startup_max=0ns poll_work=0ns poll_each=0ns",
    ),
    Duel(
        "make -j2", "play {make} --with jobs=2 --with size=50 --seed {seed}", "make jobs=2 size=50"
    ),
)
ALONE = Duel("counter, alone", f"counter -n 1 --to {COUNT_TO}", "")


@dataclass(frozen=True)
class Run:
    """One repetition; `cpu_s` is of all tasks, the kernel's work for them included."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class DuelTimes:
    """What came of one benchmark: a real and a simulated run of each turn, in their order."""

    name: str
    measured: list[Run] = field(default_factory=list)
    simulated: list[Run] = field(default_factory=list)

    def of(self, what: str) -> tuple["Estimate", float, "Estimate"]:
        """Of "wall_s" or "cpu_s": the measured median, the simulated one, and how much more the
        simulated run of a turn took than its real one, in percent."""
        # Statistics take longer to load than most verbs take to run.
        from schedlab.statistics.estimates import median_estimate

        real = [getattr(run, what) for run in self.measured]
        ours = [getattr(run, what) for run in self.simulated]
        errors = [100 * (of / one - 1) for of, one in zip(ours, real, strict=True)]
        return median_estimate(real), statistics.median(ours), median_estimate(errors)

    def as_json(self) -> dict[str, Any]:
        """As `schedlab validate --json` has it."""
        wall_s, simulated_s, error = self.of("wall_s")
        cpu_s, simulated_cpu_s, cpu_error = self.of("cpu_s")
        return {
            "benchmark": self.name,
            **ends("measured_s", wall_s, "median"),
            "simulated_s": simulated_s,
            **ends("error_percent", error, "median"),
            "measured_cpu_s": cpu_s.median,
            "simulated_cpu_s": simulated_cpu_s,
            **ends("cpu_error_percent", cpu_error, "median"),
            "repetitions_s": [run.wall_s for run in self.measured],
            "simulated_repetitions_s": [run.wall_s for run in self.simulated],
        }


def simulated(duel: Duel, machine: Any, alone_ns: int, seed: int) -> Run:
    """A simulated repetition."""
    name, *words = duel.simulated.format(alone_ns=alone_ns).split()
    result = calibration.simulated(machine, name, dict(word.split("=") for word in words), seed)
    busy_ns = sum(result["cpu_time_ns"][of] for of in ("work", "kernel", "scheduler"))
    return Run(result["makespan_ns"] / 1e9, busy_ns / 1e9)


def measured(duel: Duel, program: Path, turn: int) -> Run:
    """A real repetition. Raises SchedlabError if the program fails, or is another one."""
    make = catalogue.find(catalogue.WORKLOADS, "make")
    words = [word.format(make=make, seed=turn) for word in duel.native.split()]
    cpu = min(os.sched_getaffinity(0)) if duel.one_cpu else None
    lines = calibration.lines_of(program, *words, cpu=cpu)
    line = lines[0] if len(lines) == 1 and isinstance(lines[0], Mapping) else {}
    times = [line.get(name) for name in ("wall_ns", "user_ns", "system_ns")]
    if not all(isinstance(ns, int | float) and ns >= 0 for ns in times):
        raise SchedlabError(
            f"{program} {' '.join(words)} did not tell its times in one line",
            f"is it {PROGRAM}, and of this version? `make {PROGRAM}` builds it",
        )
    wall_ns, user_ns, system_ns = times
    return Run(wall_ns / 1e9, (user_ns + system_ns) / 1e9)


def compared(
    program: Path, machines: Callable[[], Machines], repeat: int, tell: Callable[[str], None]
) -> list[DuelTimes]:
    """`repeat` turns, each at the costs that `machines` tells of at its begin, after a first one
    that warms up and does not count."""
    order = random.Random(1)
    times = {duel.name: DuelTimes(duel.name) for duel in DUELS}
    for turn in range(repeat + 1):
        at, runs = machines(), {}
        for duel in order.sample(DUELS, len(DUELS)):
            # How long counting takes alone is measured right before and after it.
            alone = [ALONE] * duel.native.startswith("counter")
            for one in (*alone, duel, *alone):
                runs.setdefault(one.name, []).append(measured(one, program, turn))
        alone_ns = round(1e9 * statistics.fmean(run.cpu_s for run in runs[ALONE.name]))
        tell(f"turn {turn} of {repeat}, load {os.getloadavg()[0]:.1f}")
        for duel in DUELS if turn else ():
            machine = at.one_cpu if duel.one_cpu else at.whole
            times[duel.name].measured.extend(runs[duel.name])
            times[duel.name].simulated.append(simulated(duel, machine, alone_ns, turn))
    return list(times.values())
