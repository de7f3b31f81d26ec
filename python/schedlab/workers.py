"""Processes that do one piece of work after another for whoever has many.

A queue that somebody races is native code: it may end its process, never return, start others, and
print; and any process may be ended when memory is short. Whoever waits is told of an answer and of
a death alike, and a worker ends with all that it has started.
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import connection, resource_tracker
from typing import Any

from schedlab import catalogue, shown

POLL_S = 0.5
# A process may take so long to start, and to take its piece of work, before it counts as one that
# makes no step.
STARTS_S = 60.0
# A worker that is told to go is gone at once, unless native code keeps it.
GONE_AFTER_S = 5.0
# Processes at a time that a user may ask for.
JOBS_MAX = 1024
# Of what was printed during a piece of work so much is kept, from its beginning.
PRINTED_BYTES_MAX = 64 << 10

PIPE_BYTES = 64 << 10
# While somebody prints without end, others are heard too.
PIPES_AT_ONCE = 16

# Of setvbuf(3), which Python does not have.
LINE_BUFFERED = 1

# For Python's option -W, which processes that it starts inherit.
UNTOLD = "ignore:resource_tracker"

# One thread at a time has another main module, or it would never be as it was.
HIDING = threading.Lock()

Work = Callable[[Any], Any]


@dataclass(frozen=True)
class Ending:
    """What came of a piece of work: an answer; or its process died with `exit_code`, minus the
    number of a signal; or, `is_still`, it went on too long without a step."""

    piece: Any
    answer: Any
    exit_code: int | None
    is_still: bool
    wall_ns: int
    printed: str = ""
    """What was printed meanwhile."""


@dataclass
class Crew:
    """Up to `jobs` processes, each of which does `work`, a function of a module, piece by piece.

    Work that does not call `step` for `still_s` is ended, if that is given.
    """

    jobs: int
    work: Work
    still_s: float | None = None
    _workers: list["_Worker"] = field(default_factory=list)

    @property
    def is_at_work(self) -> bool:
        """Whether there is something to wait for."""
        return any(worker.is_busy for worker in self._workers)

    @property
    def has_room(self) -> bool:
        """Whether another piece can begin."""
        return sum(worker.is_busy for worker in self._workers) < self.jobs

    def begin(self, piece: Any) -> None:
        """Gives a piece to a worker."""
        if not (idle := [worker for worker in self._workers if not worker.is_busy]):
            # Whoever is interrupted must know of the worker, or nobody ends it.
            with spawning():
                idle = [_Worker(self.work)]
                self._workers += idle
        idle[0].begin(piece)

    def wait(self) -> list[Ending]:
        """What has come to an end, waiting for `POLL_S` if nothing has."""
        if busy := [worker for worker in self._workers if worker.is_busy]:
            connection.wait([heard for worker in busy for heard in worker.heard], POLL_S)
        endings = []
        for worker in busy:
            if ending := worker.ending(self.still_s):
                if ending.is_still or ending.exit_code is not None:
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

    def _dismiss(self, worker: "_Worker") -> None:
        self._workers.remove(worker)
        worker.end()


class _Worker:
    """One process, which starts afresh: a fork would copy locks of other threads."""

    def __init__(self, work: Work):
        context = multiprocessing.get_context("spawn")
        self.link, theirs = context.Pipe()
        self.output, printing = context.Pipe(duplex=False)
        os.set_blocking(self.output.fileno(), False)
        self.steps = context.RawValue(ctypes.c_ulonglong)
        arguments = (theirs, printing, self.steps, work)
        self.process = context.Process(target=_serve, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        printing.close()
        self.piece: Any = None
        self.is_busy = False

    @property
    def heard(self) -> list[connection.Connection]:
        """Where there is something to read as soon as anything happens."""
        return [self.link] if self.output.closed else [self.link, self.output]

    def begin(self, piece: Any) -> None:
        self.piece, self.is_busy = piece, True
        self.began_s = self.looked_s = time.monotonic()
        self.nr_steps_before = self.nr_steps = self.steps.value
        self.still_s = 0.0
        self.printed, self.nr_lost = b"", 0
        # If it has died meanwhile, that is the answer.
        with contextlib.suppress(OSError):
            self.link.send(piece)

    def ending(self, still_s: float | None) -> Ending | None:
        """What came of the piece; None while it is at work. `still_s` is as in `Crew`."""
        answer = exit_code = None
        is_still = False
        if self.link.poll():
            try:
                answer = self.link.recv()
            except (EOFError, OSError):
                exit_code = self._gone()
        elif self.process.exitcode is not None:
            # What it has started, and still runs, keeps the link open.
            exit_code = self._gone()
        else:
            is_still = still_s is not None and self._is_still(still_s)
        self._listen()
        if answer is None and exit_code is None and not is_still:
            return None
        # Who goes on is ended at once, and not asked to go.
        self.is_busy = is_still
        wall_ns = int((time.monotonic() - self.began_s) * 1e9)
        printed, nr_lost = self.printed.decode(errors="backslashreplace"), self.nr_lost
        if nr_lost:
            printed = printed.rstrip("\n") + f"\n({nr_lost:,} bytes more are not shown)"
        return Ending(self.piece, answer, exit_code, is_still, wall_ns, printed)

    def _is_still(self, allowed_s: float) -> bool:
        """Whether it has not made a step for longer, by a clock: a process that was stopped, or
        sleeps, cannot tell that itself."""
        now_s, nr_steps = time.monotonic(), self.steps.value
        if nr_steps != self.nr_steps:
            self.nr_steps, self.still_s = nr_steps, 0.0
        else:
            # We ourselves may have been stopped for longer than a look takes.
            self.still_s += min(now_s - self.looked_s, 2 * POLL_S)
        self.looked_s = now_s
        has_begun = nr_steps != self.nr_steps_before
        return self.still_s >= (allowed_s if has_begun else max(allowed_s, STARTS_S))

    def _listen(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(0 if self.output.closed else PIPES_AT_ONCE):
                said = os.read(self.output.fileno(), PIPE_BYTES)
                if not said:
                    # It has closed its end.
                    self.output.close()
                    return
                kept = said[: PRINTED_BYTES_MAX - len(self.printed)]
                self.printed += kept
                self.nr_lost += len(said) - len(kept)

    def end(self) -> None:
        if self.is_busy:
            self._kill_all()
        self.link.close()
        self._gone()
        self.output.close()

    def _gone(self) -> int:
        self.process.join(GONE_AFTER_S)
        # It may have closed the link and live on.
        self._kill_all()
        self.process.join()
        return self.process.exitcode

    def _kill_all(self) -> None:
        """The process and all that it has started, unless those have left its group."""
        # Before it has a group of its own there is nothing that it has started.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()


@contextlib.contextmanager
def spawning() -> Iterator[None]:
    """A child that is started in here hears of no Ctrl-C, nor does it need the caller's script.

    Ctrl-C reaches the whole process group, but a child inherits the mask; the coordinator hears of
    it a moment later, and ends the child. A process that starts afresh would run the script again,
    to have what is in it, which then had to say `if __name__ == "__main__"`. And Python lets no
    process have children that is to end with another, as a worker of Dask's is: those here end with
    their parent by themselves.
    """
    # With the first child multiprocessing starts a process of its own, and then lets interrupts
    # through again (Python 3.11): the first child would hear of them.
    # Of a killed process it would tell what it takes away.
    if UNTOLD not in sys.warnoptions:
        sys.warnoptions.append(UNTOLD)
    resource_tracker.ensure_running()
    with HIDING:
        held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        main, own = sys.modules["__main__"], multiprocessing.current_process()._config
        sys.modules["__main__"] = types.ModuleType("__main__")
        is_daemon = own.pop("daemon", None)
        try:
            yield
        finally:
            if is_daemon is not None:
                own["daemon"] = is_daemon
            sys.modules["__main__"] = main
            signal.pthread_sigmask(signal.SIG_SETMASK, held)


# ---- in the worker -------------------------------------------------------------------------------


def step() -> None:
    """Tells whoever waits for the work of this process that it goes on."""
    _steps.value += 1


# Of a process that is no worker, which nobody looks at.
_steps = ctypes.c_ulonglong()


def _serve(
    link: connection.Connection,
    printing: connection.Connection,
    steps: ctypes.c_ulonglong,
    work: Work,
) -> None:
    global _steps
    _steps = steps
    # A group of its own, which ends with it; and no terminal, which could stop it.
    os.setsid()
    libc = ctypes.CDLL(None)
    _end_with_parent()
    _print_into(printing, libc)
    # Until nobody listens any more.
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            piece = link.recv()
            step()
            answer = work(piece)
            libc.fflush(None)
            link.send(answer)


def _end_with_parent() -> None:
    """This worker, and all that it has started, end with the coordinator, even a killed one."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        connection.wait([parent.sentinel])
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    # Native code may have stopped this process, and then that thread hears of nothing.
    with contextlib.suppress(ProcessLookupError):
        catalogue.native().end_with_parent(parent.pid)


def _print_into(printing: connection.Connection, libc: ctypes.CDLL) -> None:
    """Has all that native code prints go there, and only what Python says to standard error."""
    # A program that has closed it has none.
    sys.stderr = sys.stderr and os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
    shown.install()
    for descriptor in (1, 2):
        os.dup2(printing.fileno(), descriptor)
    printing.close()
    # What native code said before it died must not be lost with it.
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, LINE_BUFFERED, 0)
