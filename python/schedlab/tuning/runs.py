"""The runs of a search: from the store where that has them, else made by workers that stay.

A run is kept like any other, under what decides it, and is part of no experiment: a search that is
asked again finds it, and so does a comparison. Several processes may do so with one store: each
locks a run before making it, and waits for those that others make.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from schedlab.experiment import sweep
from schedlab.experiment.cells import Cell
from schedlab.store.locks import Locks
from schedlab.store.runs import RunKey, RunRecord, Store
from schedlab.workers import Crew, Ending

# How often the store is asked for what other processes make.
OTHERS_POLL_S = 0.5


class Runs(contextlib.ExitStack):
    """Makes runs, `jobs` at a time, until it is closed; `note` is told what takes long, and a key
    under which that is to be said once. `nr_made` and `nr_reused` count them."""

    def __init__(self, store: Store, jobs: int, note: Callable[[str, str], None]):
        super().__init__()
        self.nr_made = self.nr_reused = 0
        self._store, self._note = store, note
        self._locks = self.enter_context(Locks(store.path))
        crew = Crew(jobs, sweep.simulate_cell)
        self._crew = self.enter_context(contextlib.closing(crew))

    def lock_search(self, name: str) -> None:
        """Waits until no other process makes the search of this name, and keeps others from it."""
        while not self._locks.take(name):
            self._wait("the same search is")

    def of(self, cells: Sequence[Cell]) -> list[RunRecord]:
        """The runs of these cells, in order. One that ends its process twice has failed. Raises
        ExperimentError for a fault of the user's files."""
        found: dict[RunKey, RunRecord] = {}
        missing = {cell.key: cell for cell in cells}
        while missing:
            mine = [cell for key, cell in missing.items() if self._locks.take(key)]
            # Looked for under the lock: who held it before may have made the run.
            for key in missing:
                if record := self._store.find(key):
                    found[key] = record
                    self.nr_reused += 1
            try:
                found |= self._made([cell for cell in mine if cell.key not in found])
            finally:
                for cell in mine:
                    self._locks.release(cell.key)
            if missing := {key: cell for key, cell in missing.items() if key not in found}:
                self._wait("runs are")
        return [found[cell.key] for cell in cells]

    def _wait(self, what: str) -> None:
        self._note(f"note: {what} being made by another process: waiting", what)
        time.sleep(OTHERS_POLL_S)

    def _made(self, waiting: list[Cell]) -> dict[RunKey, RunRecord]:
        made: dict[RunKey, RunRecord] = {}
        deaths: Counter[RunKey] = Counter()
        waiting.reverse()
        while waiting or self._crew.is_at_work:
            while waiting and self._crew.has_room:
                self._crew.begin(waiting.pop())
            for ending in self._crew.wait():
                cell = ending.piece
                deaths[cell.key] += ending.exit_code is not None
                if ending.exit_code is not None and deaths[cell.key] < sweep.DEATHS_MAX:
                    told = f"{cell.say()}: the process at work on it {sweep.how_it_died(ending)}"
                    self._note(f"note: {told}: it is tried again", told)
                    waiting.append(cell)
                    continue
                record = sweep.record(cell, _outcome(ending), None)
                self._store.add(record)
                made[cell.key] = record
                self.nr_made += 1
            for cell in self._crew.at_work_for(sweep.SLOW_AFTER_S):
                self._note(sweep.slow_text(cell), cell.policy.label)
        return made


def _outcome(ending: Ending) -> sweep.Outcome:
    if how := sweep.how_it_died(ending):
        return sweep.died(f"the process at work on it {how}, {sweep.DEATHS_MAX} times")
    return sweep.answer(ending)


def with_settings(cell: Cell, settings: dict[str, int]) -> Cell:
    """The cell with these values of its policy's tunables on top of those that it has."""
    policy = replace(
        cell.policy,
        settings={**cell.policy.settings, **settings},
        tunables={**cell.policy.tunables, **settings},
    )
    varied = {f"{policy.label}.{name}": value for name, value in settings.items()}
    return replace(cell, policy=policy, varied=varied)
