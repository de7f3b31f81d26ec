"""Cells simulated in processes of this computer, each of which may die or go on for ever."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from schedlab.experiment import sweep
from schedlab.experiment.cells import Cell
from schedlab.experiment.sweep import Outcome
from schedlab.workers import Crew


class Came(NamedTuple):
    """What came of a cell: an outcome; or, as it says, `why` there is none."""

    cell: Cell
    outcome: Outcome | None
    why: str = ""


# How `why` begins of a cell that was ended by its limit.
TOO_LONG = "took longer than"


class Engine(Protocol):
    """Whoever simulates cells. A cell that takes longer than `limit_s` is ended, if that is
    given."""

    limit_s: float | None

    @property
    def nr_workers(self) -> int:
        """How many cells can be at work at a time."""

    @property
    def has_room(self) -> bool:
        """Whether another cell can begin."""

    @property
    def is_at_work(self) -> bool:
        """Whether there is something to wait for."""

    def begin(self, cell: Cell) -> None:
        """Takes on a cell."""

    def wait(self) -> list[Came]:
        """What has come of cells, waiting a moment if nothing has."""

    def close(self) -> None:
        """Ends all that is at work."""


@dataclass
class Here:
    """Processes of this computer, `nr_workers` at a time: an `Engine`."""

    nr_workers: int
    limit_s: float | None = None

    def __post_init__(self):
        self._crew = Crew(self.nr_workers, sweep.simulate_cell)

    @property
    def has_room(self) -> bool:
        """Whether another cell can begin."""
        return self._crew.has_room

    @property
    def is_at_work(self) -> bool:
        """Whether there is something to wait for."""
        return self._crew.is_at_work

    def begin(self, cell: Cell) -> None:
        """Gives a cell to a process."""
        self._crew.begin(cell)

    def wait(self) -> list[Came]:
        """What has come of cells, waiting a moment if nothing has."""
        self._crew.still_s = self.limit_s
        came = []
        for ending in self._crew.wait():
            why = ""
            if ending.is_still:
                why = f"{TOO_LONG} {self.limit_s:g} s and was ended"
            elif how := sweep.how_it_died(ending):
                why = f"lost its process, which {how}"
            came.append(Came(ending.piece, ending.answer, why))
        return came

    def close(self) -> None:
        """Ends all processes, whatever they are at."""
        self._crew.close()
