"""Makes the runs of an experiment: from its store where that has them, else in worker processes.

Several processes may do so with one store at a time. Each locks a run before making it and looks
into the store again, so that they share the work and no run is made twice.
"""

import contextlib
import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schedlab.digests import timestamp
from schedlab.experiment import sweep, vm
from schedlab.experiment.cells import Cell
from schedlab.experiment.definition import Experiment
from schedlab.report.progress import Progress
from schedlab.store.locks import Locks
from schedlab.store.runs import RunKey, RunRecord, Store, StoredExperiment

# How often to see whether another process has finished a run that it locked.
OTHERS_POLL_S = 0.5
# Runs whose places are noted together: the store is locked meanwhile, and others wait for it.
TOGETHER = 1000


def begin(asked: Experiment, cells: Sequence[Cell], store: Store, command: str) -> "Making":
    """An experiment on its way, in a store that knows of it and of the command from now on."""
    stored = StoredExperiment(asked.id, asked.name, asked.definition, command, timestamp())
    store.add_experiment(stored)
    return Making(asked, cells, store)


def make_one(
    cell: Cell, tell: sweep.Tell | None = None, timeline: bool = False, **how: Any
) -> RunRecord:
    """Makes the run of one cell, in a process or a virtual machine of its own, and waits for it.

    `timeline`, `how` and `tell`, a function of a module, are as in `sweep.simulate_cell`. Raises
    ExperimentError if the run cannot be made.
    """
    if cell.platform:
        inside = {name: how[name] for name in vm.INSIDE if how.get(name)}
        outcome = vm.measure_alone(cell, timeline, inside)
    else:
        options = {"tell": tell, "timeline": timeline, **how}
        simulate, notes = functools.partial(sweep.simulate_cell, **options), Progress(0, "")
        outcome = sweep.run_alone(cell, simulate, lambda cell: notes.note(sweep.slow_text(cell)))
    return sweep.record(cell, outcome, None)


@dataclass
class Making:
    """An experiment on its way.

    `nr_made`, `nr_reused` and `nr_of_others` say where runs came from: made here, in the store
    already, or made by another process meanwhile.
    """

    asked: Experiment
    cells: Sequence[Cell]
    store: Store
    nr_made: int = 0
    nr_reused: int = 0
    nr_of_others: int = 0
    _kept: dict[int, RunRecord] = field(default_factory=dict)
    """By the cell's `id`."""

    @property
    def records(self) -> list[RunRecord | None]:
        """One a cell, in order, None where it is still missing."""
        return [self._kept.get(id(cell)) for cell in self.cells]

    def make_runs(self, jobs: int, quiet: bool) -> None:
        """Fills `records`; each run is kept in the store as soon as it is there.

        `jobs` simulations run at a time. `quiet` leaves out progress, and notes on what takes
        long. Raises SchedlabError if a file changed meanwhile, or the store cannot be written.
        It may be called again once there are more `cells`.
        """
        found = {}
        for cell in self._missing():
            if record := self.store.find(cell.key):
                found[id(cell)] = adopt(record, cell, self.asked)
        adopted = list(found.values())
        for begin in range(0, len(adopted), TOGETHER):
            self.store.add(*adopted[begin : begin + TOGETHER])
        self._kept |= found
        self.nr_reused += len(found)
        waiting = self._missing()
        self._weight_done = 0.0
        self._weight_all = sum(cell.workload.weight for cell in waiting)
        with (
            Locks(self.store.path) as locks,
            Progress(len(waiting), "runs", quiet or not waiting) as progress,
        ):
            while waiting := self._missing():
                nr_kept = len(self._kept)
                self._sweep(waiting, jobs, locks, progress)
                if len(self._kept) == nr_kept:
                    # Other processes have locked every run that is missing.
                    runs = "one run is" if len(waiting) == 1 else f"{len(waiting)} runs are"
                    others = f"being made by another process with {self.store.path}"
                    progress.note(f"note: {runs} {others}: waiting", key="others")
                    time.sleep(OTHERS_POLL_S)

    def drop_others(self) -> None:
        """Takes runs of other cells out of the experiment, as of an older policy that took more."""
        self.store.keep_places(self.asked.id, [one for one in self.records if one])

    def count_kept(self) -> int:
        """How many of the runs the store holds, also where an interrupt kept us from noting one."""
        return sum(id(cell) in self._kept or bool(self.store.find(cell.key)) for cell in self.cells)

    def _missing(self) -> list[Cell]:
        return [cell for cell in self.cells if id(cell) not in self._kept]

    def _sweep(self, waiting: Sequence[Cell], jobs: int, locks: Locks, progress: Progress) -> None:
        """Makes every run that no other process is making. Where what is varied does not reach
        them, several cells have one run, which is made for the first of them."""
        alike: dict[RunKey, list[Cell]] = {}
        for cell in waiting:
            alike.setdefault(cell.key, []).append(cell)

        def wants(cell: Cell) -> bool:
            if cell is not alike[cell.key][0] or not locks.take(cell.key):
                return False
            # It may have been finished after we looked, and before its lock was released.
            if (record := self.store.find(cell.key)) is not None:
                locks.release(cell.key)
                for twin in alike[cell.key]:
                    self.nr_of_others += 1
                    self._keep(twin, adopt(record, twin, self.asked), progress)
            return record is None

        def tell_slow(cell: Cell) -> None:
            # A boot takes longer than that, and has limits.
            if cell.platform is None:
                progress.note(sweep.slow_text(cell), key=cell.policy.label)

        simulate, order = sweep.simulate_cell, sweep.longest_first
        if self.asked.vm:
            simulate, order = vm.measure_cell, vm.random_order
        runs = sweep.run_cells(waiting, jobs, simulate, wants, tell_slow, order, ahead=True)
        with contextlib.closing(runs):
            for cell, outcome in runs:
                for note in outcome.notes:
                    progress.tell(note)
                record = sweep.record(cell, outcome, self.asked.id)
                self._keep(cell, record, progress)
                locks.release(cell.key)
                self.nr_made += 1
                for twin in alike[cell.key][1:]:
                    self._keep(twin, adopt(record, twin, self.asked), progress)
                    self.nr_reused += 1

    def _keep(self, cell: Cell, record: RunRecord, progress: Progress) -> None:
        self.store.add(record)
        self._kept[id(cell)] = record
        # Long cells come first, so progress is by the cells' weights and not by their number.
        self._weight_done += cell.workload.weight
        progress.done(share=self._weight_done / self._weight_all)


def adopt(record: RunRecord, cell: Cell, asked: Experiment) -> RunRecord:
    """A run of the store in its place in this experiment."""
    return replace(
        record,
        policy=cell.policy.label,
        machine=cell.machine.name,
        workload=cell.workload.name,
        varied=dict(cell.varied),
        manifest={**record.manifest, "experiment": asked.id},
    )
