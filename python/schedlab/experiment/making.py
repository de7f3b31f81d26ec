"""Makes the runs of an experiment: from its store where that has them, else in worker processes.

Several processes may do so with one store at a time. Each claims a run before making it and looks
into the store again, so that they share the work and no run is made twice.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from schedlab import shown
from schedlab.experiment import sweep, vm
from schedlab.experiment.cells import Cell
from schedlab.experiment.definition import Experiment
from schedlab.store.locks import Claims
from schedlab.store.runs import RunRecord, Store, StoredExperiment

# How often to see whether another process has finished a run that it claimed.
OTHERS_POLL_S = 0.5


def begin(asked: Experiment, cells: Sequence[Cell], store: Store, command: str) -> Comparison:
    """An experiment on its way, in a store that knows of it and of the command from now on."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    store.add_experiment(StoredExperiment(asked.id, asked.name, asked.definition, command, now))
    if asked.vm:
        return Comparison(asked, cells, store, vm.measure_cell, vm.random_order)
    return Comparison(asked, cells, store)


def make_one(
    cell: Cell, timeline: bool = False, prints: bool = False, queues: bool = False
) -> RunRecord:
    """Makes the run of one cell, in a process or a virtual machine of its own, and waits for it.

    `timeline`, `prints` and `queues` are as in `sweep.simulate_cell`.

    Raises
    ------
    ExperimentError
        If it cannot be made. A policy that crashes or loops is a run that failed.
    """
    if cell.platform:
        outcome = vm.measure_alone(cell, timeline)
    else:
        simulate = functools.partial(
            sweep.simulate_cell, timeline=timeline, prints=prints, queues=queues
        )
        outcome = sweep.run_alone(cell, simulate, Notes(quiet=False).tell_slow)
    return sweep.record(cell, outcome, None)


@dataclass
class Comparison:
    """An experiment on its way: `records` has one a cell, in order, None where it is still missing.

    `simulate` makes a run; `order` is that in which runs start, see `sweep.run_cells`.
    `nr_made`, `nr_reused` and `nr_of_others` say where the others came from: made here, in the
    store before, or made by another process meanwhile.
    """

    asked: Experiment
    cells: Sequence[Cell]
    store: Store
    simulate: sweep.Simulate = sweep.simulate_cell
    order: sweep.Order = sweep.longest_first
    records: list[RunRecord | None] = field(init=False)
    nr_made: int = 0
    nr_reused: int = 0
    nr_of_others: int = 0

    def __post_init__(self) -> None:
        self.records = [None] * len(self.cells)
        self._places = {id(cell): place for place, cell in enumerate(self.cells)}

    def make_runs(self, jobs: int, quiet: bool) -> None:
        """Fills `records`; each run is kept in the store as soon as it is there.

        Parameters
        ----------
        jobs : int
            Simulations at a time.
        quiet : bool
            Whether to leave out progress, and notes on what takes long.

        Raises
        ------
        SchedlabError
            If a file changed meanwhile, or the store cannot be written.
        """
        self._reuse()
        waiting = self._missing()
        with Claims(self.store.path) as claims, _progress(waiting, quiet) as advance:
            notes = Notes(quiet)
            while waiting:
                nr_kept = self.nr_kept
                self._sweep(waiting, jobs, claims, advance, notes)
                waiting = self._missing()
                if waiting and self.nr_kept == nr_kept:
                    # Every run that is missing is claimed.
                    notes.tell_others(len(waiting), self.store)
                    time.sleep(OTHERS_POLL_S)

    @property
    def nr_kept(self) -> int:
        """How many of the runs are in the store by now."""
        return sum(record is not None for record in self.records)

    def count_kept(self) -> int:
        """How many of the runs the store holds, also where an interrupt kept us from noting one."""
        return sum(
            record is not None or self.store.find(cell.key) is not None
            for cell, record in zip(self.cells, self.records, strict=True)
        )

    def _reuse(self) -> None:
        stored = [self.store.find(cell.key) for cell in self.cells]
        self.records = [
            found and _adopt(found, cell, self.asked)
            for found, cell in zip(stored, self.cells, strict=True)
        ]
        self.nr_reused = self.nr_kept
        self.store.add(*filter(None, self.records))

    def _missing(self) -> list[Cell]:
        return [
            cell for cell, record in zip(self.cells, self.records, strict=True) if record is None
        ]

    def _sweep(
        self,
        waiting: Sequence[Cell],
        jobs: int,
        claims: Claims,
        advance: Callable[[Cell], None],
        notes: Notes,
    ) -> None:
        """Makes every run that no other process is making."""

        def claim(cell: Cell) -> bool:
            if not claims.take(cell.key):
                return False
            # It may have been finished after we looked, and before its claim was given back.
            found = self.store.find(cell.key)
            if found is None:
                return True
            claims.give_back(cell.key)
            self._keep(cell, _adopt(found, cell, self.asked))
            self.nr_of_others += 1
            advance(cell)
            return False

        runs = sweep.run_cells(
            waiting, jobs, self.simulate, claim, notes.tell_slow, order=self.order
        )
        with contextlib.closing(runs):
            for cell, outcome in runs:
                self._keep(cell, sweep.record(cell, outcome, self.asked.id))
                claims.give_back(cell.key)
                self.nr_made += 1
                advance(cell)

    def _keep(self, cell: Cell, record: RunRecord) -> None:
        self.store.add(record)
        self.records[self._places[id(cell)]] = record


def _adopt(found: RunRecord, cell: Cell, asked: Experiment) -> RunRecord:
    """A run of the store in its place in this experiment."""
    return dataclasses.replace(
        found,
        policy=cell.policy.label,
        machine=cell.machine.name,
        workload=cell.workload.name,
        varied=dict(cell.workload.varied),
        manifest={**found.manifest, "experiment": asked.id},
    )


class Notes:
    """What is said on stderr while one waits, each thing once."""

    def __init__(self, quiet: bool):
        self._told: set[str] = set()
        self._quiet = quiet

    def tell_slow(self, cell: Cell) -> None:
        """That a simulation takes long, once a policy."""
        # A boot takes longer than that, and has limits.
        if cell.platform is None:
            self._tell(cell.policy.label, sweep.slow_text(cell))

    def tell_others(self, count: int, store: Store) -> None:
        """That the runs that are missing are made by others."""
        runs = "one run is" if count == 1 else f"{count} runs are"
        self._tell("", f"note: {runs} being made by another process with {store.path}: waiting")

    def _tell(self, key: str, text: str) -> None:
        if not self._quiet and key not in self._told:
            self._told.add(key)
            # Not by click, which would write past a progress bar. The bar takes the place of the
            # stream that shows what a terminal would obey.
            print(shown.shown(text), file=sys.stderr)


@contextlib.contextmanager
def _progress(cells: Sequence[Cell], quiet: bool) -> Iterator[Callable[[Cell], None]]:
    """A bar on stderr with rate and time left, as a function to call with each finished cell.

    Long cells come first, so time left is reckoned by the cells' weights and not by their number.
    """
    if quiet or not cells or not sys.stderr.isatty():
        yield lambda cell: None
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.fields[done]}/{task.fields[cells]} runs"),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[rate]}"),
        progress.TimeRemainingColumn(compact=True),
        progress.TextColumn("left"),
    )
    console = Console(file=shown.own(sys.stderr))
    with progress.Progress(*columns, console=console, transient=True) as bar:
        total = sum(cell.workload.weight for cell in cells)
        task = bar.add_task("", total=total, done=0, cells=len(cells), rate="")
        done = 0

        def advance(cell: Cell) -> None:
            nonlocal done
            done += 1
            rate = f"{done / max(bar.tasks[0].elapsed or 0, 1e-3):.2f} runs/s"
            bar.update(task, advance=cell.workload.weight, done=done, rate=rate)

        yield advance
