"""What a worker of Dask does for a sweep: it needs this package, and no file of whoever asks.

Each cell is simulated in a child of the worker, so that a run which dies or does not end takes
nothing else with it, and the worker answers meanwhile.
"""

import contextlib
import functools
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from schedlab import catalogue
from schedlab.experiment.cells import Cell, Grid
from schedlab.experiment.sweep import DEATHS_MAX, Outcome
from schedlab.sweeping.here import TOO_LONG, Here

# After so long a worker answers with what it has: its cells may take longer than was thought.
ANSWER_AFTER_S = 5.0


@dataclass(frozen=True)
class Errand:
    """What a worker must have to simulate cells of a sweep.

    `files` has name and content of each file that cells name, and then of what lies beside it, by
    its path where the sweep was asked. A policy travels as the object that was built there: another
    compiler would make another, whose runs are others too. `examined` are runs with the digests
    that they must have; one that takes longer than `limit_s` there says nothing.
    """

    id: str
    version: str
    files: Mapping[str, Sequence[tuple[str, bytes]]]
    examined: Sequence[tuple[Cell, str]]
    limit_s: float | None = None


def errand(
    sweep: str, grid: Grid, examined: Sequence[tuple[Cell, str]], limit_s: float | None = None
) -> Errand:
    """What workers must have for the cells of a sweep, whose id is given."""
    files = {}
    for policy in grid.policies:
        # With the loader's file behind it, if it has one.
        content = Path(policy.object).read_bytes()
        files[policy.path] = [(f"{policy.name}{catalogue.BUILT_SUFFIX}", content)]
    for path in [str(grid.workload), *(machine.path for machine in grid.machines)]:
        files[path] = [(Path(path).name, Path(path).read_bytes())]
    return Errand(sweep, grid.version, files, examined, limit_s)


# ---- in the worker ------------------------------------------------------------------------------

# Where the files of each sweep lie here, by its id and by their path where it was asked.
_places: dict[str, dict[str, str]] = {}
# Processes that wait for work; a thread of the worker takes one, and puts it back.
_idle: list[Here] = []


def enrol(errand: Errand) -> str:
    """Makes this worker ready for a sweep. What speaks against it, or nothing."""
    if (version := catalogue.core_version()) != errand.version:
        return f"it has schedlab {version}, and the sweep is asked by {errand.version}"
    folder = _folder()
    for number, (path, contents) in enumerate(errand.files.items()):
        beside = folder / errand.id / str(number)
        beside.mkdir(parents=True, exist_ok=True)
        for name, content in contents:
            (beside / name).write_bytes(content)
        _places.setdefault(errand.id, {})[path] = str(beside / contents[0][0])
    for cell, digest in errand.examined:
        for _ in range(DEATHS_MAX):
            [(outcome, why)] = work(errand.id, [cell], errand.limit_s)
            if outcome is not None or why.startswith(TOO_LONG):
                break
        if why.startswith(TOO_LONG):
            continue
        if outcome is None:
            return f"{cell.say()}, {why}"
        if (found := outcome.result["digest"]) != digest:
            return f"{cell.say()}, gave digest {found}, and {digest} where the sweep is asked"
    return ""


def work(
    sweep: str, cells: Sequence[Cell], limit_s: float | None, for_s: float = ANSWER_AFTER_S
) -> list[tuple[Outcome | None, str]]:
    """Simulates cells of a sweep one after the other, and says what came of them, or why nothing
    did. The answer is shorter than the question if one died, or it took too long.

    Raises RuntimeError if something here keeps any cell from being simulated.
    """
    here = _idle.pop() if _idle else Here(1)
    here.limit_s = limit_s
    came, began_s = [], time.monotonic()
    try:
        for cell in cells:
            here.begin(_placed(sweep, cell))
            while not (ended := here.wait()):
                pass
            [(_, outcome, why)] = ended
            if outcome is not None and outcome.fault is not None:
                raise RuntimeError(outcome.fault)
            came.append((outcome, why))
            if why or time.monotonic() - began_s > for_s:
                break
    finally:
        _idle.append(here)
    return came


@functools.cache
def _folder() -> Path:
    """A folder that ends with this process, or else with what Dask keeps for its worker."""
    from distributed import get_worker

    within = None
    with contextlib.suppress(ValueError):
        within = get_worker().local_directory
    held = tempfile.TemporaryDirectory(prefix="schedlab-", dir=within)
    _held.append(held)
    return Path(held.name)


_held: list[tempfile.TemporaryDirectory] = []


def _placed(sweep: str, cell: Cell) -> Cell:
    """The cell with the paths that its files have here."""
    places = _places[sweep]
    return replace(
        cell,
        policy=replace(cell.policy, path=places[cell.policy.path]),
        machine=replace(cell.machine, path=places[cell.machine.path]),
        workload=replace(cell.workload, path=places[cell.workload.path]),
    )
