"""The runs of a search: from the store where that has them, else made by workers that stay.

A run is kept like any other, under what decides it, and is part of no experiment: a search that is
asked again finds it, and so does a comparison.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from schedlab.experiment import sweep
from schedlab.experiment.cells import Cell
from schedlab.store.runs import RunKey, RunRecord, Store
from schedlab.workers import Crew


class Runs(contextlib.ExitStack):
    """Makes runs, `jobs` at a time, until it is closed; `note` is told what takes long, and a key
    under which that is to be said once. `nr_made` and `nr_reused` count them."""

    def __init__(self, store: Store, jobs: int, note: Callable[[str, str], None]):
        super().__init__()
        self.nr_made = self.nr_reused = 0
        self._store, self._note = store, note
        crew = Crew(jobs, sweep.simulate_cell)
        self._crew = self.enter_context(contextlib.closing(crew))

    def of(self, cells: Sequence[Cell]) -> list[RunRecord]:
        """The runs of these cells, in order. Raises ExperimentError for a fault of the user's
        files, or if a worker died."""
        found: dict[RunKey, RunRecord] = {}
        waiting: dict[RunKey, Cell] = {}
        for cell in cells:
            if cell.key in found or cell.key in waiting:
                continue
            if record := self._store.find(cell.key):
                found[cell.key] = record
                self.nr_reused += 1
            else:
                waiting[cell.key] = cell
        found |= self._made(list(waiting.values()))
        return [found[cell.key] for cell in cells]

    def _made(self, waiting: list[Cell]) -> dict[RunKey, RunRecord]:
        made = {}
        waiting.reverse()
        while waiting or self._crew.is_at_work:
            while waiting and self._crew.has_room:
                self._crew.begin(waiting.pop())
            for ending in self._crew.wait():
                cell = ending.piece
                record = sweep.record(cell, sweep.answer(ending), None)
                self._store.add(record)
                made[cell.key] = record
                self.nr_made += 1
            for cell in self._crew.at_work_for(sweep.SLOW_AFTER_S):
                self._note(sweep.slow_text(cell), cell.policy.label)
        return made


def with_settings(cell: Cell, settings: dict[str, int]) -> Cell:
    """The cell with these values of its policy's tunables on top of those that it has."""
    policy = replace(
        cell.policy,
        settings={**cell.policy.settings, **settings},
        tunables={**cell.policy.tunables, **settings},
    )
    varied = {f"{policy.label}.{name}": value for name, value in settings.items()}
    return replace(cell, policy=policy, varied=varied)
