"""Makes the runs of a sweep: each that its store does not have, and none twice.

Cells are made one by one, when an engine has room for them, so that there may be millions. Only
this process writes to the store. It does so once a second: if it is killed, the runs that came in
since the last time are lost. Several processes may share one store, as in `experiment.making`.
"""

import contextlib
import functools
import hashlib
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from schedlab.digests import digest_of, timestamp
from schedlab.errors import BadValue, DigestMismatch, ExperimentError
from schedlab.experiment import run_table, sweep
from schedlab.experiment.cells import Cell, Grid
from schedlab.experiment.definition import Experiment
from schedlab.experiment.making import OTHERS_POLL_S, adopt
from schedlab.report.forms import count_text, duration_text
from schedlab.report.progress import TELL_EVERY_S, Progress
from schedlab.store.locks import Locks
from schedlab.store.runs import RunKey, RunRecord, Store, StoredExperiment
from schedlab.sweeping import at_worker
from schedlab.sweeping.elsewhere import Elsewhere
from schedlab.sweeping.here import Came, Engine, Here
from schedlab.values import parse_duration_ns

RUNS_MAX = 10_000_000
COMMIT_EVERY_S = 1.0
# Runs that have come in are put into the store at the latest when there are so many of them.
UNCOMMITTED_MAX = 2_000
# Places that are looked up before looking again at who has finished.
LOOKED_UP_AT_ONCE = 500
# Without --limit a run may take so many times as long as the longest before it, and never has less
# time than this.
LIMIT_TIMES = 20
LIMIT_LEAST_S = 600.0
# Processes are looked at twice a second, so a shorter limit could not be kept.
LIMIT_ASKED_LEAST_S = 1
# Runs that every other computer must repeat first, and the time that making them may take here.
EXAMINED_MAX = 3
EXAMINED_S = 10.0
FAILURES_TOLD = 10


def laid_out(asked: Experiment) -> tuple[Experiment, Grid]:
    """A sweep with the digest of all that it reads, and its grid.

    Raises SchedlabError or NativeError if something that it names is wrong.
    """
    if asked.vm or asked.published or asked.claims:
        why = "a sweep is of simulations, without published times and claims"
        raise ExperimentError(why, "`schedlab compare --experiment` takes this experiment")
    if asked.until_ci is not None:
        hint = "take until_ci out, and write in repeat how many runs to make"
        raise ExperimentError("only `schedlab compare` adds runs until_ci", hint)
    grid = Grid(asked)
    if len(grid) > RUNS_MAX:
        what = f"the sweep has {len(grid):,} runs, more than {RUNS_MAX:,}"
        raise ExperimentError(what, "ask for fewer points, vary fewer values, or repeat less")
    # The sweep's id has the inputs in it, so a place that is filled was filled from these files.
    return replace(asked, inputs=_digest_of_inputs(asked, grid)), grid


def begin(asked: Experiment, grid: Grid, store: Store, command: str) -> "Sweep":
    """A sweep that is laid out on its way, in a store that knows of it and of the command from now
    on."""
    store.add_experiment(
        StoredExperiment(asked.id, asked.name, asked.definition, command, timestamp())
    )
    return Sweep(asked, grid, store)


def _digest_of_inputs(asked: Experiment, grid: Grid) -> str:
    workload = hashlib.sha256(Path(grid.workload).read_bytes()).hexdigest()
    # Values of tunables may stand in a file of sets beside the source.
    policies = [[policy.digest, dict(policy.tunables)] for policy in grid.policies]
    inputs = [grid.version, workload, policies, [of.digest for of in grid.machines]]
    if asked.sample:
        # Another release of NumPy or SciPy may draw others.
        inputs.append(hashlib.sha256(asked.sample.drawn().tobytes()).hexdigest())
    return digest_of(inputs)


def limit_s(asked: str | None) -> float | None:
    """How long a run may take in seconds, of an option; BadValue if that is no time to be kept."""
    if asked is None:
        return None
    found = parse_duration_ns("--limit", asked) / 1e9
    if found < LIMIT_ASKED_LEAST_S:
        why, hint = "is too short to be kept", f"give at least {LIMIT_ASKED_LEAST_S}s"
        raise BadValue("--limit", asked, why, hint)
    return found


@dataclass
class Sweep:
    """A sweep on its way.

    `nr_made`, `nr_reused` and `nr_of_others` say where runs came from: made for this command, in
    the store already, or made by another process meanwhile.
    """

    asked: Experiment
    grid: Grid
    store: Store
    nr_made: int = 0
    nr_reused: int = 0
    nr_of_others: int = 0
    _next_index: int = 0
    _again: deque[Cell] = field(default_factory=deque)
    # Places whose runs other processes are making, and those among them that are looked up again.
    _locked: list[int] = field(default_factory=list)
    _unlocked: deque[int] = field(default_factory=deque)
    # The cells of each key that is being simulated: equal keys share one run. Then the runs that
    # have come in. A key stays in both until its run is in the store.
    _at_work: dict[RunKey, list[Cell]] = field(default_factory=dict)
    _finished: dict[RunKey, RunRecord] = field(default_factory=dict)
    # Runs that the store has already, but not yet under the places that they fill here.
    _adopted: list[RunRecord] = field(default_factory=list)
    _deaths: Counter[RunKey] = field(default_factory=Counter)
    _longest_s: float = 0.0
    _nr_failures_told: int = 0

    @property
    def nr_done(self) -> int:
        """How many places are filled."""
        return self.nr_made + self.nr_reused + self.nr_of_others

    def engine(
        self,
        jobs: int | None,
        where: str | None,
        tell: Callable[[str], None],
        limit_s: float | None = None,
    ) -> Engine:
        """Who is to simulate: so many processes here, by default one a CPU, or workers of Dask,
        `where` one finds them; `tell` is told what becomes of these, and `limit_s` is that of
        `make_runs`. Raises SchedlabError."""
        if where is None:
            return Here(sweep.jobs(jobs))
        if jobs is not None:
            why = "--jobs is of processes here, and --dask has workers simulate"
            raise ExperimentError(why, "leave out one; a thread of a worker makes a run at a time")
        return Elsewhere(where, functools.partial(self._errand, limit_s), tell)

    def _errand(self, limit_s: float | None) -> at_worker.Errand:
        return at_worker.errand(self.asked.id, self.grid, self.examine(limit_s), limit_s)

    def examine(self, limit_s: float | None = None) -> list[tuple[Cell, str]]:
        """A few of the runs, with their digests: what other computers must give for them. Those
        that the store lacks are made here, unless they take longer than the limit."""
        examined, began_s = [], time.monotonic()
        with contextlib.closing(Here(1, limit_s)) as here:
            for index in range(0, len(self.grid), self.asked.repeats)[:EXAMINED_MAX]:
                cell = self.grid[index]
                if (found := self.store.find(cell.key)) is None:
                    found = self._made_here(cell, here)
                if found and found.digest:
                    examined.append((cell, found.digest))
                if time.monotonic() - began_s > EXAMINED_S:
                    break
        return examined

    def _made_here(self, cell: Cell, here: Here) -> RunRecord | None:
        here.begin(cell)
        while not (came := here.wait()):
            pass
        if (outcome := came[0].outcome) is None:
            return None
        record = sweep.record(cell, sweep.refuse_fault(outcome), self.asked.id)
        self.store.add(record)
        # Its place will be found filled later, and then counted as reused.
        self.nr_made, self.nr_reused = self.nr_made + 1, self.nr_reused - 1
        return record

    def make_runs(self, engine: Engine, quiet: bool, limit_s: float | None = None) -> None:
        """Fills the places of the sweep. A run may take `limit_s`; without it, some times as long
        as the longest so far.

        `quiet` leaves out progress. Raises SchedlabError if a file changed meanwhile, or the store
        cannot be written; whatever it raises, all that came in is in the store.
        """
        self._limit_s = engine.limit_s = limit_s
        self._began_s = self._committed_s = time.monotonic()
        self._nr_made_before = self.nr_made
        with (
            Locks(self.store.path) as self._locks,
            Progress(
                len(self.grid), "runs", quiet, is_long=True, quiet_s=TELL_EVERY_S
            ) as self._progress,
            contextlib.closing(engine),
        ):
            try:
                while self._goes_on(engine):
                    self._show(engine)
            finally:
                self._commit()

    def count_kept(self) -> int:
        """How many places the store has filled."""
        return sum(self.store.count_by_status(self.asked.id).values())

    def _goes_on(self, engine: Engine) -> bool:
        """One turn: cells begin, others end. False if nothing is left to do."""
        while engine.has_room and (cell := self._next()) is not None:
            engine.begin(cell)
        if engine.is_at_work:
            for came in engine.wait():
                self._take(came)
                engine.limit_s = self._limit_now_s()
        is_more = bool(self._again or self._unlocked or self._next_index < len(self.grid))
        is_due = time.monotonic() - self._committed_s >= COMMIT_EVERY_S
        nr_uncommitted = len(self._finished) + len(self._adopted)
        if is_due or nr_uncommitted >= UNCOMMITTED_MAX or not (is_more or engine.is_at_work):
            self._commit()
        if engine.is_at_work or is_more:
            return True
        if self._locked:
            runs = count_text(len(self._locked), "run")
            others = f"being made by another process with {self.store.path}: waiting"
            self._progress.note(f"note: {runs} more {others}", key="others")
            time.sleep(OTHERS_POLL_S)
            self._unlocked, self._locked = deque(self._locked), []
        return bool(self._unlocked)

    def _next(self) -> Cell | None:
        """A cell to simulate; None if there is none right now."""
        if self._again:
            return self._again.popleft()
        for _ in range(LOOKED_UP_AT_ONCE):
            if is_of_others := bool(self._unlocked):
                index = self._unlocked.popleft()
            elif self._next_index < len(self.grid):
                index, self._next_index = self._next_index, self._next_index + 1
            else:
                break
            if cell := self._missing(index, is_of_others):
                return cell
        return None

    def _missing(self, index: int, is_of_others: bool) -> Cell | None:
        """The cell of a place if its run is to be made by us; else notes who has it."""
        if self.store.is_filled(self.asked.id, **vars(self.grid.place(index))):
            return self._was_there(is_of_others)
        cell = self.grid[index]
        key = cell.key
        if key in self._at_work:
            self._at_work[key].append(cell)
            return None
        if not self._locks.take(key):
            self._locked.append(index)
            return None
        # Another process may have finished the run after we looked, and released its lock since.
        if (record := self.store.find(key)) is not None:
            self._locks.release(key)
            self._adopted.append(adopt(record, cell, self.asked))
            return self._was_there(is_of_others)
        self._at_work[key] = [cell]
        return cell

    def _was_there(self, is_of_others: bool) -> None:
        if is_of_others:
            self.nr_of_others += 1
        else:
            self.nr_reused += 1

    def _take(self, came: Came) -> None:
        """Notes what came of a cell, which is kept with the next commit, or tried again."""
        cell, key = came.cell, came.cell.key
        outcome = came.outcome
        if outcome is None:
            self._deaths[key] += 1
            told = f"{cell.say()}, {came.why}"
            if self._deaths[key] < sweep.DEATHS_MAX:
                self._progress.tell(f"note: {told}: it is tried again")
                self._again.append(cell)
                return
            outcome = sweep.died(f"{told}; so it was kept as a failure")
        self._longest_s = max(self._longest_s, outcome.wall_ns / 1e9)
        record = sweep.record(cell, sweep.refuse_fault(outcome), self.asked.id)
        self._finished[key] = record
        if record.status == "failed" and self._nr_failures_told < FAILURES_TOLD:
            self._nr_failures_told += 1
            self._progress.tell("\n".join(run_table.failure_lines(record)))

    def _commit(self) -> None:
        """Puts what came in into the store, and then lets other processes have it."""
        records = list(self._adopted)
        for key, record in self._finished.items():
            records += [record, *(adopt(record, of, self.asked) for of in self._at_work[key][1:])]
        try:
            if records:
                self.store.add(*records)
        except DigestMismatch:
            for record in records:
                with contextlib.suppress(DigestMismatch):
                    self.store.add(record)
            raise
        # After an interrupt in this loop `make_runs` commits again: what is left must stay whole.
        while self._finished:
            key, _ = self._finished.popitem()
            self.nr_made += 1
            self.nr_reused += len(self._at_work.pop(key)) - 1
            self._locks.release(key)
        self._adopted.clear()
        self._committed_s = time.monotonic()

    def _limit_now_s(self) -> float | None:
        if self._limit_s is not None or not self._longest_s:
            return self._limit_s
        return max(LIMIT_LEAST_S, LIMIT_TIMES * self._longest_s)

    def _show(self, engine: Engine) -> None:
        elapsed_s = time.monotonic() - self._began_s
        if elapsed_s < COMMIT_EVERY_S:
            # There is no rate to tell yet.
            return
        nr_done = self.nr_done + len(self._finished)
        nr_made = self.nr_made + len(self._finished) - self._nr_made_before
        rate = nr_made / elapsed_s
        left = f"{duration_text((len(self.grid) - nr_done) / rate)} left" if nr_made else None
        doing = f"{rate:,.1f} runs/s, {count_text(engine.nr_workers, 'worker')}"
        self._progress.update(nr_done, doing, left=left)
