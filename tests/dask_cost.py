"""What Dask costs a sweep: the same runs by two processes that only simulate, and by a sweep with
`--dask local:2`, in turns; `make bench-dask` runs it.

Of each it prints seconds of a clock, and of CPU, all processes taken together, beyond what it takes
to start, which the runs of one point show. Others may use the machine: compare what stands in one
turn.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kill_sweep import TOML
from schedlab.experiment import definition, sweep
from schedlab.experiment.cells import Grid

NR_POINTS, NR_TURNS, NR_PARTS = 5_000, 2, 2


def main(nr_points: int, nr_turns: int) -> None:
    """Prints a line for each part of each turn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for points in (1, nr_points):
            (folder / f"{points}.toml").write_text(TOML.format(points=points))
        nr_runs = len(_cells(folder / f"{nr_points}.toml"))
        for turn in range(nr_turns):
            lone, dask = [
                [_taken(what, folder, points, turn) for points in (1, nr_points)]
                for what in (_simulated, _swept)
            ]
            print(f"turn {turn + 1}, {nr_runs:,} runs, seconds of a clock and of CPU:")
            rest = [
                _told("two processes that simulate", lone),
                _told("a sweep with Dask", dask),
            ]
            shares = [f"{100 * of / whole:6.0f} %" for of, whole in zip(*rest, strict=True)]
            print(f"  {'the first of the second':40}", *shares)
            more_ms = 1e3 * (rest[1][1] - rest[0][1]) / nr_runs
            print(f"  {'more with Dask':40} {more_ms:17.2f} ms of CPU a run", flush=True)


def _told(what: str, taken: Sequence[Sequence[float]]) -> list[float]:
    """What all runs took beyond those of one point, which are little but the start."""
    start, whole = taken
    rest = [of - begin for of, begin in zip(whole, start, strict=True)]
    for name, seconds in (("", rest), (", its start", start)):
        print(f"  {what + name:40} {seconds[0]:8.2f} {seconds[1]:8.2f}")
    return rest


def _cells(path: Path) -> list:
    """Every run once."""
    cells = Grid(definition.build(definition.read_options(path)))
    return list({cell.key: cell for cell in cells}.values())


def _simulate(path: Path, part: int) -> None:
    for cell in _cells(path)[part::NR_PARTS]:
        sweep.simulate_cell(cell)


def _simulated(folder: Path, points: int, turn: int) -> None:
    path = folder / f"{points}.toml"
    context = multiprocessing.get_context("spawn")
    parts = [context.Process(target=_simulate, args=(path, part)) for part in range(NR_PARTS)]
    for process in parts:
        process.start()
    for process in parts:
        process.join()
        assert process.exitcode == 0


def _swept(folder: Path, points: int, turn: int) -> None:
    asked = (f"{points}.toml", "--store", f"{points}-{turn}.db", "--dask", "local:2", "--quiet")
    subprocess.run([sys.executable, "-m", "schedlab", "sweep", *asked], cwd=folder, check=True)


def _taken(what: Callable[..., None], *of: object) -> tuple[float, float]:
    """Seconds of a clock, and of CPU of the processes that were started and have ended."""
    before, began_s = os.times(), time.perf_counter()
    what(*of)
    wall_s, after = time.perf_counter() - began_s, os.times()
    cpu_s = sum(after[at] - before[at] for at in (2, 3))
    return wall_s, cpu_s


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or (NR_POINTS, NR_TURNS)))
