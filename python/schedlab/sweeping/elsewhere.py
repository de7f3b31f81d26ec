"""Cells simulated by workers of Dask, here or on other computers.

Dask starts the workers, connects them, and notices who is gone; which of them gets what, and how
much, is decided here. No cell waits at Dask's scheduler but those that its workers are to do in the
next seconds. A worker that cannot do as this computer does is told once, and gets nothing.
"""

import contextlib
import json
import logging
import math
import pickle
import queue
import re
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

from schedlab.errors import BadValue, ExperimentError, SchedlabError
from schedlab.experiment.cells import Cell
from schedlab.report.forms import count_text
from schedlab.sweeping import at_worker
from schedlab.sweeping.here import Came
from schedlab.workers import JOBS_MAX, spawning

LOGGERS = ("distributed", "tornado")
LOCAL = re.compile(r"local:([0-9]+)")
ADDRESS = re.compile(r"((tcp|tls|ws|wss)://)?[^/]+:[0-9]+/?")
ADDRESS_HINT = "write what `dask scheduler` prints, as in tcp://10.0.0.1:8786, or local:N"
# Of the file in which a scheduler writes its address.
FILE_SUFFIX = ".json"
CONNECT_S = 10.0
# How long the dashboard may take to answer.
PAGE_S = 2.0
POLL_S = 0.5
# How often to ask who is there, and how long that may take before it is told.
LOOK_EVERY_S = 2.0
ANSWERS_IN_S = 10.0
# Of a worker that Dask has not heard of for so long nothing is expected any more.
SILENT_S = 60.0
# Where no worker can be used, how long others may take to come, and when that is told.
OTHERS_AWAITED_S = 60.0
TELL_AFTER_S = 10.0
# An answer that is there is fetched in a moment, unless its worker has just gone.
FETCH_S = 10.0
# How long a batch is to take, how many runs it has at most, and how many each thread has: one is
# at work while the answer of the other is on its way.
BATCH_S = 1.0
BATCH_RUNS_MAX = 1_000
BATCHES_A_THREAD = 2
# How much the last batch says of what the next run takes.
NEWS = 0.3
# Cells of which one may have ended a worker are tried in so many parts, and then in parts of these.
SUSPECT_PARTS = 10
AGAIN_HINT = "the same command goes on, also with another address"


def _refuse_wrong_address(where: str) -> None:
    """Dask would begin to connect first, and stumble over it then."""
    if local := LOCAL.fullmatch(where):
        if not 1 <= int(local[1]) <= JOBS_MAX:
            raise BadValue("--dask", where, f"is not from local:1 to local:{JOBS_MAX}")
    elif where.endswith(FILE_SUFFIX):
        hint = "`dask scheduler --scheduler-file` writes one as long as it runs"
        if not Path(where).is_file():
            raise BadValue("--dask", where, "is no file", hint)
        try:
            is_right = bool(ADDRESS.fullmatch(json.loads(Path(where).read_bytes())["address"]))
        except (OSError, ValueError, TypeError, LookupError):
            is_right = False
        if not is_right:
            raise BadValue("--dask", where, "is no file with a scheduler's address", hint)
    elif not ADDRESS.fullmatch(where):
        raise BadValue("--dask", where, "is no address", ADDRESS_HINT)
    elif where.startswith(("tls:", "wss:")):
        with contextlib.suppress(ImportError):
            from dask import config

            if not config.get("distributed.comm.tls.ca-file", None):
                hint = (
                    "see https://distributed.dask.org/en/stable/tls.html, or docs/guides/sweep.md"
                )
                raise BadValue("--dask", where, "needs certificates, which are not named", hint)


def _own_cluster(nr_workers: int) -> Any:
    """A scheduler in this process, whose end its workers notice. Raises SchedlabError."""
    from dask import config
    from distributed import LocalCluster

    facts = {"threads_per_worker": 1, "silence_logs": logging.CRITICAL + 1}
    # Any port, or Dask warns of one that another sweep has.
    facts["dashboard_address"] = ":0"
    try:
        # Looking a hundred times a second at what they do takes workers 1 % of a CPU each.
        with spawning(), config.set({"distributed.worker.profile.enabled": False}):
            return LocalCluster(n_workers=nr_workers, **facts)
    except (OSError, RuntimeError, TimeoutError) as error:
        what = f"--dask local:{nr_workers}: workers of Dask do not start here: {error}"
        hint = "ask for fewer, or allow more open files (`ulimit -n`) and processes; " + AGAIN_HINT
        raise SchedlabError(what, hint) from error


@dataclass(eq=False)
class _Batch:
    """Cells that a worker was given together; `is_suspect` if one of them may have ended a
    worker."""

    cells: list[Cell]
    is_suspect: bool
    future: Any


@dataclass(eq=False)
class _Worker:
    """A worker that is known: to be examined, or ready."""

    nr_threads: int
    enrolment: Any
    is_ready: bool = False
    batches: list[_Batch] = field(default_factory=list)
    # When Dask heard of it last by its clock, and since when by ours it says so.
    heard: float = 0.0
    since_s: float = field(default_factory=time.monotonic)

    @property
    def nr_free(self) -> int:
        """Batches that it may be given; whoever has a suspect has nothing else."""
        if not self.is_ready or any(batch.is_suspect for batch in self.batches):
            return 0
        return max(0, BATCHES_A_THREAD * self.nr_threads - len(self.batches))


class _Call:
    """A call, made by whoever unpickles it, with what calls among its arguments give."""

    def __init__(self, function: Callable, *arguments: Any):
        self._call = function, arguments

    def __reduce__(self) -> tuple:
        return self._call


def _parcel(function: Callable, *arguments: Any) -> bytes:
    """A call whose answer is bytes too. Dask reads both without this package, which its scheduler
    need not have; a worker that lacks it says so, where Dask would have ended it."""
    return pickle.dumps(_Call(pickle.dumps, _Call(function, *arguments)))


class Elsewhere:
    """Workers of Dask, an `Engine`: of the scheduler at an address or whose file is named, or
    `local:N` of our own.

    `errand` is asked what workers must have, once it is sure that somebody answers. `tell` is told
    of workers that are refused or lost. Raises SchedlabError if there is no such
    scheduler, if it is gone, or if all workers are refused.
    """

    def __init__(
        self, where: str, errand: Callable[[], at_worker.Errand], tell: Callable[[str], None]
    ):
        self.limit_s: float | None = None
        self._tell = tell
        self._waiting: deque[Cell] = deque()
        # What was at work in a worker that was lost, in parts: which of them has one to blame?
        self._suspects: deque[list[Cell]] = deque()
        self._came: list[Came] = []
        self._workers: dict[str, _Worker] = {}
        self._refused: dict[str, str] = {}
        # When Dask heard of them last, by its clock.
        self._silent: dict[str, float] = {}
        self._none_since_s, self._is_told = time.monotonic(), False
        self._ended: queue.SimpleQueue = queue.SimpleQueue()
        self._cost_s = math.nan
        self._looked_s = -math.inf
        with contextlib.ExitStack() as self._stack:
            self._client = self._connected(where)
            self._tell_dashboard()
            self._errand = errand()
            self._stack = self._stack.pop_all()

    @property
    def nr_workers(self) -> int:
        """Threads of all workers that are ready."""
        return sum(worker.nr_threads for worker in self._workers.values() if worker.is_ready)

    @property
    def has_room(self) -> bool:
        """Whether another cell can be taken on."""
        nr_free = sum(worker.nr_free for worker in self._workers.values())
        # One may wait for the first worker, so that nobody waits for a worker who needs none.
        nr_here = len(self._waiting) + sum(map(len, self._suspects))
        return nr_here < max(nr_free * self._batch_runs(), 1)

    @property
    def is_at_work(self) -> bool:
        """Whether there is something to wait for."""
        at_work = any(worker.batches for worker in self._workers.values())
        return bool(at_work or self._waiting or self._suspects or self._came)

    def begin(self, cell: Cell) -> None:
        """Takes on a cell."""
        self._waiting.append(cell)

    def wait(self) -> list[Came]:
        """What has come of cells, waiting a moment if nothing has."""
        with self._scheduler_errors():
            self._look()
            self._hand_out()
            with contextlib.suppress(queue.Empty):
                self._hear(self._ended.get(timeout=POLL_S))
                while True:
                    self._hear(self._ended.get_nowait())
        came, self._came = self._came, []
        return came

    def close(self) -> None:
        """Lets go of all that is at work, and ends workers of our own."""
        self._stack.close()

    # ---- the scheduler ---------------------------------------------------------------------------

    def _connected(self, where: str) -> Any:
        _refuse_wrong_address(where)
        try:
            import distributed
        except ImportError as error:
            what = f"--dask needs the package distributed, which does not load: {error}"
            raise SchedlabError(what, "pip install 'schedlab[dask]'") from error
        # What is wrong is told here, once. Each has a level of its own.
        for name in [name for name in logging.root.manager.loggerDict if name.startswith(LOGGERS)]:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        self.address: Any = where
        if local := LOCAL.fullmatch(where):
            self.address = self._stack.enter_context(_own_cluster(int(local[1])))
        try:
            key = "scheduler_file" if where.endswith(FILE_SUFFIX) else "address"
            facts = {key: self.address, "timeout": CONNECT_S, "set_as_default": False}
            client = distributed.Client(**facts)
        except (OSError, TimeoutError, ValueError, TypeError) as error:
            why = f"--dask {where}: no scheduler of Dask answers: {error}"
            raise SchedlabError(why, ADDRESS_HINT) from error
        return self._stack.enter_context(client)

    def _tell_dashboard(self) -> None:
        if "dashboard" not in self._client.scheduler_info(n_workers=0).get("services", {}):
            return
        link = self._client.dashboard_link
        # A scheduler without a dashboard has the same service, and no such page.
        with contextlib.suppress(OSError, ValueError, HTTPException):
            urllib.request.urlopen(link, timeout=PAGE_S).close()
            self._tell(f"Dask's dashboard: {link}")

    @contextlib.contextmanager
    def _scheduler_errors(self) -> Iterator[None]:
        try:
            yield
            is_there = self._client.status == "running"
        except (OSError, TimeoutError, RuntimeError):
            is_there = False
        if not is_there:
            where = getattr(self.address, "scheduler_address", self.address)
            raise ExperimentError(f"the scheduler of Dask at {where} is gone", AGAIN_HINT)

    # ---- workers ---------------------------------------------------------------------------------

    def _look(self) -> None:
        """Sees which workers have come and gone."""
        if time.monotonic() - self._looked_s < LOOK_EVERY_S:
            return
        self._looked_s = time.monotonic()
        there = self._there()
        for address, about in there.items():
            is_silent = self._silent.get(address) == about["last_seen"]
            if not is_silent and address not in self._workers and address not in self._refused:
                self._silent.pop(address, None)
                enrolment = self._submit(address, at_worker.enrol, self._errand)
                self._workers[address] = _Worker(about["nthreads"], enrolment)
        for address, worker in list(self._workers.items()):
            if address not in there:
                self._lose(address, "is gone")
            elif there[address]["last_seen"] != worker.heard:
                worker.heard, worker.since_s = there[address]["last_seen"], time.monotonic()
            elif time.monotonic() - worker.since_s > SILENT_S:
                self._silent[address] = worker.heard
                self._lose(address, f"has been silent for {SILENT_S:.0f} s")
        self._await_workers()

    def _there(self) -> Mapping[str, Any]:
        """What Dask has of the workers that are there, by their addresses."""
        what = f"note: the scheduler of Dask has not answered for {ANSWERS_IN_S:.0f} s: waiting"
        # A process that was stopped keeps its connections.
        silent = threading.Timer(ANSWERS_IN_S, self._tell, [f"{what}; Ctrl-C ends the sweep"])
        silent.start()
        try:
            there = self._client.scheduler_info(n_workers=-1).get("workers")
        finally:
            silent.cancel()
            # What it has begun to tell is told before this thread tells anything.
            silent.join()
        if there is None:
            raise ConnectionError("nobody answers")
        return there

    def _await_workers(self) -> None:
        """Says that there is no worker; raises ExperimentError if those that there are were all
        refused, and no other came for a while."""
        if self._workers:
            self._none_since_s, self._is_told = time.monotonic(), False
            return
        alone_s = time.monotonic() - self._none_since_s
        if self._refused and alone_s > OTHERS_AWAITED_S:
            address, why = next(iter(self._refused.items()))
            what = f"no worker of Dask can be used: {address}: {why}"
            raise ExperimentError(what, "mend or end it and start others; " + AGAIN_HINT)
        if alone_s > TELL_AFTER_S and not self._is_told:
            self._is_told = True
            self._tell("note: there is no worker of Dask to simulate: waiting for one")

    def _submit(self, address: str, function: Callable, *arguments: Any) -> Any:
        future = self._client.submit(
            pickle.loads,
            _parcel(function, *arguments),
            workers=[address],
            allow_other_workers=False,
            pure=False,
        )
        future.add_done_callback(self._ended.put)
        return future

    def _lose(self, address: str, why: str) -> None:
        """Gives what a worker had to the others. The first of it may have ended the worker."""
        worker = self._workers.pop(address)
        nr_runs = sum(len(batch.cells) for batch in worker.batches)
        left = f": others make what it had, {count_text(nr_runs, 'run')}" if nr_runs else ""
        self._tell(f"note: worker {address} {why}{left}")
        for number, batch in enumerate(worker.batches):
            batch.future.release()
            if batch.is_suspect and len(batch.cells) == 1:
                self._came.append(Came(batch.cells[0], None, f"lost its worker {address}"))
            elif batch.is_suspect or number < worker.nr_threads:
                cells, size = batch.cells, math.ceil(len(batch.cells) / SUSPECT_PARTS)
                self._suspects += [cells[at : at + size] for at in range(0, len(cells), size)]
            else:
                self._put_back(batch)

    def _refuse(self, address: str, why: str) -> None:
        """Never gives a worker anything again."""
        self._refused[address] = why
        worker = self._workers.pop(address)
        self._tell(f"note: worker {address} is not used: {why}")
        for batch in worker.batches:
            batch.future.release()
            self._put_back(batch)

    def _put_back(self, batch: _Batch, nr_done: int = 0) -> None:
        """Has what is left of a batch done by whoever is free next."""
        left = batch.cells[nr_done:]
        if batch.is_suspect:
            self._suspects += [left] * bool(left)
        else:
            self._waiting.extendleft(reversed(left))

    # ---- cells -----------------------------------------------------------------------------------

    def _batch_runs(self) -> int:
        """How many runs a batch has, by what the last ones took."""
        if not self._cost_s > 0:
            return 1
        return min(max(1, round(BATCH_S / self._cost_s)), BATCH_RUNS_MAX)

    def _hand_out(self) -> None:
        """Gives workers what they have room for, suspects to those that have nothing."""
        for address, worker in self._workers.items():
            if self._suspects and worker.is_ready and not worker.batches:
                self._give(address, worker, self._suspects.popleft(), is_suspect=True)
        ready = {address: worker for address, worker in self._workers.items() if worker.nr_free}
        while self._waiting and ready:
            nr_free = sum(worker.nr_free for worker in ready.values())
            nr_runs = min(self._batch_runs(), math.ceil(len(self._waiting) / nr_free))
            address = min(ready, key=lambda of: len(ready[of].batches) / ready[of].nr_threads)
            cells = [self._waiting.popleft() for _ in range(nr_runs)]
            self._give(address, ready[address], cells)
            if not ready[address].nr_free:
                del ready[address]

    def _give(
        self, address: str, worker: _Worker, cells: list[Cell], is_suspect: bool = False
    ) -> None:
        future = self._submit(address, at_worker.work, self._errand.id, cells, self.limit_s)
        worker.batches.append(_Batch(cells, is_suspect, future))

    def _hear(self, future: Any) -> None:
        """Takes the answer of a worker, unless nothing is expected of it any more."""
        for address, worker in self._workers.items():
            if worker.enrolment is not None and worker.enrolment.key == future.key:
                return self._hear_enrolment(address, worker)
            for batch in worker.batches:
                if batch.future.key == future.key:
                    return self._hear_batch(address, worker, batch)
        return None

    def _hear_enrolment(self, address: str, worker: _Worker) -> None:
        future, worker.enrolment = worker.enrolment, None
        why, error = self._answer(future)
        if error is not None:
            why = (
                f"it cannot be asked ({type(error).__name__}: {error}): install this schedlab there"
            )
        if why:
            self._refuse(address, why)
        worker.is_ready = not why

    def _hear_batch(self, address: str, worker: _Worker, batch: _Batch) -> None:
        answer, error = self._answer(batch.future)
        worker.batches.remove(batch)
        if isinstance(error, TimeoutError) or batch.future.status == "cancelled":
            # It is about to be lost: then others have this to do.
            self._put_back(batch)
            return
        if error is not None:
            self._put_back(batch)
            self._refuse(address, f"it cannot simulate: {error}")
            return
        came = [Came(cell, *of) for cell, of in zip(batch.cells, answer, strict=False)]
        self._came += came
        self._put_back(batch, len(came))
        if walls_s := [one.outcome.wall_ns / 1e9 for one in came if one.outcome]:
            mean_s, known = sum(walls_s) / len(walls_s), self._cost_s > 0
            self._cost_s = self._cost_s * (1 - NEWS) + mean_s * NEWS if known else mean_s

    def _answer(self, future: Any) -> tuple[Any, Exception | None]:
        """What came of a call, or the error that it ended with."""
        try:
            return pickle.loads(future.result(timeout=FETCH_S)), None
        except Exception as error:  # noqa: BLE001 - whatever a worker raises is raised here.
            return None, error
