"""Processes that do one piece of work after another for whoever has many.

A policy is native code: it may end its process, or never return. So each piece is given to one
worker at a time, and whoever waits is told of an answer, a death or a loop alike.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import connection, resource_tracker
from typing import Any

from schedlab import catalogue

POLL_S = 0.5
# An operation of a policy that computes for so long loops: none takes a hundredth of it.
LOOP_CPU_S = 3.0
# The simulator itself may be longer at one thing: it creates a million tasks in some seconds.
STUCK_CPU_S = 60.0
# A worker that is told to go is gone at once, unless a policy keeps it.
GONE_AFTER_S = 5.0

Work = Callable[[Any], Any]


@dataclass(frozen=True)
class Loop:
    """Where a simulation was that did not go on for so long: see `_native.position`."""

    run: int
    at_ns: int
    cpu: int
    operation: str
    limit_s: float


@dataclass(frozen=True)
class Ending:
    """What came of a piece of work: an answer, or a loop, or else its process died.

    `was_alone` says that the process had done nothing before: nothing else can have broken it.
    """

    piece: Any
    answer: Any
    loop: Loop | None
    exit_code: int | None
    was_alone: bool
    wall_ns: int


@dataclass
class Crew:
    """Up to `jobs` processes, each of which does `work`, a function of a module, piece by piece."""

    jobs: int
    work: Work
    _workers: list[_Worker] = field(default_factory=list)

    @property
    def is_at_work(self) -> bool:
        """Whether there is something to wait for."""
        return any(worker.is_busy for worker in self._workers)

    @property
    def has_room(self) -> bool:
        """Whether another piece can begin."""
        return sum(worker.is_busy for worker in self._workers) < self.jobs

    def begin(self, piece: Any, alone: bool) -> None:
        """Gives a piece to a worker; `alone`: to one that has not done and will not do another."""
        idle = [worker for worker in self._workers if not worker.is_busy]
        if alone:
            for worker in idle:
                self._dismiss(worker)
            idle = []
        if not idle:
            # Whoever is interrupted must know of the worker, or nobody ends it.
            with _interrupts_held():
                idle = [_Worker(self.work)]
                self._workers += idle
        idle[0].begin(piece, alone)

    def wait(self) -> list[Ending]:
        """What has come to an end, waiting for `POLL_S` if nothing has."""
        busy = {worker.link: worker for worker in self._workers if worker.is_busy}
        endings = []
        if not busy:
            return endings
        for link in connection.wait(list(busy), POLL_S):
            worker = busy[link]
            ending = worker.ending()
            if worker.is_alone or ending.loop or ending.exit_code is not None:
                self._dismiss(worker)
            endings.append(ending)
        return endings

    def at_work_for(self, seconds: float) -> list[Any]:
        """The pieces that have been at work for so long."""
        began_s = time.monotonic() - seconds
        return [w.piece for w in self._workers if w.is_busy and w.began_s <= began_s]

    def close(self) -> None:
        """Ends all workers, whatever they are at."""
        for worker in list(self._workers):
            self._dismiss(worker)

    def _dismiss(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.end()


class _Worker:
    """One process, which starts afresh: a fork would copy locks of other threads."""

    def __init__(self, work: Work):
        context = multiprocessing.get_context("spawn")
        self.link, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, work), daemon=True)
        self.process.start()
        theirs.close()
        self.piece: Any = None
        self.is_busy = False
        self.is_alone = False
        self.began_s = 0.0
        self.nr_begun = 0

    def begin(self, piece: Any, alone: bool) -> None:
        self.piece, self.is_busy, self.is_alone = piece, True, alone
        self.began_s = time.monotonic()
        self.nr_begun += 1
        # If it has died meanwhile, that is the answer.
        with contextlib.suppress(OSError):
            self.link.send(piece)

    def ending(self) -> Ending:
        """What came of the piece, once there is something to read from the worker."""
        answer = loop = exit_code = None
        try:
            answer, loop = self.link.recv()
        except (EOFError, OSError):
            self.process.join()
            exit_code = self.process.exitcode
        self.is_busy = False
        wall_ns = int((time.monotonic() - self.began_s) * 1e9)
        return Ending(self.piece, answer, loop, exit_code, self.nr_begun == 1, wall_ns)

    def end(self) -> None:
        if self.is_busy:
            self.process.kill()
        self.link.close()
        self.process.join(GONE_AFTER_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C reaches the whole process group; a child started in here never hears of it.

    A child inherits the mask. The coordinator hears of Ctrl-C a moment later, and ends it.
    """
    # With the first child multiprocessing starts a process of its own, and then lets interrupts
    # through again (Python 3.11): the first child would hear of them.
    resource_tracker.ensure_running()
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


# ---------------------------------------------------------------------------------------------
# In the worker


def _serve(link: connection.Connection, work: Work) -> None:
    """Life of a worker: does what it is sent until nobody sends any more."""
    _end_with_parent()
    speaking = threading.Lock()

    def tell(loop: Loop) -> None:
        # The lock is kept: whoever has looped has nothing to add.
        speaking.acquire()
        link.send((None, loop))
        os._exit(1)

    _watch_for_loops(tell)
    while True:
        try:
            piece = link.recv()
            answer = work(piece)
            with speaking:
                link.send((answer, None))
        except (EOFError, ConnectionError):
            # Nobody listens any more.
            return


def _end_with_parent() -> None:
    """Makes this worker end when the coordinator does, even if that one was killed."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _watch_for_loops(tell: Callable[[Loop], None]) -> None:
    """`tell`s of a simulation of this process that does not go on.

    What counts is time of a processor, not of a clock: on a busy machine everything is slow.
    """
    native = catalogue.native()

    def watch() -> None:
        last = None
        while True:
            time.sleep(POLL_S)
            position, now_s = native.position(), time.process_time()
            if position is None or position != last:
                last, since_s = position, now_s
                continue
            run, _, at_ns, cpu, operation = position
            limit_s = LOOP_CPU_S if operation else STUCK_CPU_S
            if now_s - since_s >= limit_s:
                tell(Loop(run, at_ns, cpu, operation, limit_s))

    threading.Thread(target=watch, daemon=True).start()
