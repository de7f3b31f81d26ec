"""How our native benchmarks agree with the programs that others know them from.

`make agree-native` runs it. Ours and theirs take turns with the same parameters, in random order
within each pair, so that whatever else the machine does falls on both. For each form it prints the
ratio of the medians, ours to theirs, with a 95 % bootstrap interval, and whether that is within
what is asked for. Exits with 1 if one is not.

Theirs: `hackbench` of rt-tests (Debian package rt-tests), which prints seconds; `perf bench sched
pipe` (package linux-perf), which prints microseconds a round trip. From our lat_ctx of two tasks
the whole time is taken, before what a turn costs without a switch is taken off.
"""

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

OURS = Path("target/x86_64-unknown-linux-gnu/release/schedlab-bench")

HACKBENCH_OFF_MAX = 0.03
PIPE_OFF_MAX = 0.10


@dataclass(frozen=True)
class Pair:
    """The same measurement by two programs; both give a figure of the same unit."""

    name: str
    ours: Callable[[], float]
    theirs: Callable[[], float]
    off_max: float


def come_first() -> str:
    """Asks the kernel to let our session's tasks go before others', where there are such groups.

    On a busy machine the figures scatter much less, and ours as much as theirs. Says whether.
    Source: sched(7), "The autogroup feature".
    """
    try:
        # Who leads a process group, as a shell's job does, has a session of its own or may not.
        if os.getpgrp() != os.getpid():
            os.setsid()
        Path("/proc/self/autogroup").write_text("-15")
    except OSError as error:
        return f"beside others, as an equal of theirs ({error})"
    return "before others' tasks (autogroup nice -15)"


def printed(command: str) -> str:
    words = command.split()
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def of_rt_tests(words: str) -> float:
    """Seconds that rt-tests' hackbench says."""
    return float(re.search(r"Time: ([0-9.]+)", printed(f"hackbench {words}")).group(1))


def of_perf(words: str) -> float:
    """Microseconds a round trip that perf says."""
    said = printed(f"perf bench sched pipe {words}")
    return float(re.search(r"([0-9.]+) usecs/op", said).group(1))


def ours_s(words: str) -> float:
    return json.loads(printed(f"{OURS} {words}"))["wall_ns"] / 1e9


def hackbench_pair(form: str, groups: int, loops: int) -> Pair:
    words = f"-g {groups} -l {loops} -s 100 {form}"
    return Pair(
        f"hackbench {words}".strip(),
        lambda: ours_s(f"hackbench {words}"),
        lambda: of_rt_tests(words),
        HACKBENCH_OFF_MAX,
    )


def pipe_pair(benchmark: str, option: str, form: str, trips: int) -> Pair:
    words = f"{benchmark} {option} {trips} {form}".strip()
    return Pair(
        f"{words} : perf bench sched pipe",
        lambda: ours_s(words) * 1e6 / trips,
        lambda: of_perf(f"-l {trips} {form}"),
        PIPE_OFF_MAX,
    )


def measured(pair: Pair, repetitions: int, order: random.Random) -> tuple[list[float], list[float]]:
    """Both programs' figures; a pair of runs before them is not counted."""
    ours, theirs = [], []
    for repetition in range(repetitions + 1):
        turns = [(ours, pair.ours), (theirs, pair.theirs)]
        order.shuffle(turns)
        for figures, run in turns:
            figure = run()
            if repetition:
                figures.append(figure)
    return ours, theirs


def told(pair: Pair, ours: list[float], theirs: list[float]) -> bool:
    """Prints a line; whether the medians agree as well as asked for."""

    def ratio(a, b, axis=-1):
        return np.median(a, axis=axis) / np.median(b, axis=axis)

    interval = stats.bootstrap(
        (ours, theirs), ratio, method="percentile", n_resamples=9999, random_state=1
    ).confidence_interval
    found = statistics.median(ours) / statistics.median(theirs)
    agrees = abs(found - 1) <= pair.off_max
    print(
        f"{pair.name:52}  ours {statistics.median(ours):8.4f}  theirs"
        f" {statistics.median(theirs):8.4f}  ratio {found:.3f}"
        f" [{interval.low:.3f}, {interval.high:.3f}]"
        f"  {'within' if agrees else 'NOT within'} {pair.off_max:.0%}  n {len(ours)}"
        f"  load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return agrees


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--groups", type=int, default=5)
    parser.add_argument("--loops", type=int, default=400)
    parser.add_argument("--trips", type=int, default=50_000)
    parser.add_argument("--only", default="", help="a part of a line's name")
    options = parser.parse_args()
    forms = ["", "-p", "-T", "-p -T"]
    pairs = [hackbench_pair(form, options.groups, options.loops) for form in forms]
    for form in ("", "-T"):
        pairs.append(pipe_pair("pipe", "-l", form, options.trips))
        pairs.append(pipe_pair("lat-ctx -n 2 -s 0", "--rounds", form, options.trips))
    print(f"runs go {come_first()}", flush=True)
    order = random.Random(1)
    wanted = [pair for pair in pairs if options.only in pair.name]
    agree = [told(pair, *measured(pair, options.repetitions, order)) for pair in wanted]
    return 0 if agree and all(agree) else 1


if __name__ == "__main__":
    sys.exit(main())
