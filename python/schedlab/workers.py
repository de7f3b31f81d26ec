"""Processes that do one piece of work after another for whoever has many.

A queue that somebody races is native code: it may end its process, never return, start other
processes, and print. The system may end any process when memory is short. The caller is told of an
answer and of a death alike. A worker ends with all processes that it has started.
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
# A process has this time to start and to take its piece of work, before it counts as one that makes
# no step.
STARTS_S = 60.0
# A worker that is told to end ends at once, unless native code keeps it.
GONE_AFTER_S = 5.0
# Processes at a time that a user may ask for.
JOBS_MAX = 1024
# A piece of work may print more than this; the beginning is kept.
PRINTED_BYTES_MAX = 64 << 10

PIPE_BYTES = 64 << 10
# Reads of one pipe at a time: a worker that prints without end must not keep the others waiting.
PIPES_AT_ONCE = 16

# The constant _IOLBF of setvbuf(3), which Python does not have.
LINE_BUFFERED = 1

# A value of Python's option -W, which child processes inherit.
UNTOLD = "ignore:resource_tracker"

# One thread at a time may replace the main module. A second one would take the replacement for the
# real module, and put it back at its end.
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
            # An interrupt before the worker is in the list would leave nobody to end it.
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
        # They go at the same time.
        for worker in self._workers:
            worker.let_go()
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
        # The process may have died meanwhile; `ending` then says so.
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
            else:
                assert answer is not None, f"no answer to {self.piece!r}: None means at work"
        elif self.process.exitcode is not None:
            # A process that the worker started, and that still runs, keeps the link open.
            exit_code = self._gone()
        else:
            is_still = still_s is not None and self._is_still(still_s)
        self._listen()
        if answer is None and exit_code is None and not is_still:
            return None
        # A worker that made no step stays busy: `end` then kills it, and does not ask it to go.
        self.is_busy = is_still
        wall_ns = int((time.monotonic() - self.began_s) * 1e9)
        printed, nr_lost = self.printed.decode(errors="backslashreplace"), self.nr_lost
        if nr_lost:
            printed = printed.rstrip("\n") + f"\n({nr_lost:,} bytes more are not shown)"
        return Ending(self.piece, answer, exit_code, is_still, wall_ns, printed)

    def _is_still(self, allowed_s: float) -> bool:
        """Whether the worker has made no step for longer than allowed. Our clock decides: a process
        that was stopped, or sleeps, cannot tell that itself."""
        now_s, nr_steps = time.monotonic(), self.steps.value
        if nr_steps != self.nr_steps:
            self.nr_steps, self.still_s = nr_steps, 0.0
        else:
            # This process, too, may have been stopped between two looks.
            self.still_s += min(now_s - self.looked_s, 2 * POLL_S)
        self.looked_s = now_s
        has_begun = nr_steps != self.nr_steps_before
        return self.still_s >= (allowed_s if has_begun else max(allowed_s, STARTS_S))

    def _listen(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(0 if self.output.closed else PIPES_AT_ONCE):
                said = os.read(self.output.fileno(), PIPE_BYTES)
                if not said:
                    # The worker has closed its end.
                    self.output.close()
                    return
                kept = said[: PRINTED_BYTES_MAX - len(self.printed)]
                self.printed += kept
                self.nr_lost += len(said) - len(kept)

    def let_go(self) -> None:
        """Has the process end once it is idle."""
        if not self.is_busy:
            self.link.close()

    def end(self) -> None:
        if self.is_busy:
            self._kill_all()
        self.link.close()
        self._gone()
        self.output.close()

    def _gone(self) -> int:
        self.process.join(GONE_AFTER_S)
        # The process may have closed the link and still run.
        self._kill_all()
        self.process.join()
        return self.process.exitcode

    def _kill_all(self) -> None:
        """The process and all that it has started, unless those have left its group."""
        # There is no such group yet if the process has just begun; it has started nothing then.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()


@contextlib.contextmanager
def spawning() -> Iterator[None]:
    """A context in which children start without Ctrl-C and without the caller's script.

    Ctrl-C reaches the whole process group. A child inherits the mask of signals, so only the
    coordinator hears of Ctrl-C; it is told when this context ends, and then ends the child. A
    process that starts afresh runs the caller's script again, which would need
    `if __name__ == "__main__"`; here it finds an empty main module. Python forbids daemonic
    processes, such as Dask's workers, to have children; children that start here end with their
    parent by themselves, so the mark is taken away meanwhile.
    """
    # With the first child multiprocessing starts its resource tracker, and then lets interrupts
    # through again (Python 3.11): the first child would hear of them. So the tracker starts first.
    # The tracker would warn of what a killed process left behind.
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
    # The worker gets a process group, which is ended with it, and no terminal that could stop it.
    os.setsid()
    libc = ctypes.CDLL(None)
    _end_with_parent()
    _print_into(printing, libc)
    # The coordinator closes the link when it needs the worker no more.
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
    """Sends all that native code prints there. Only what Python itself says goes to standard
    error."""
    # Python has none where the program that started it has closed it.
    sys.stderr = sys.stderr and os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
    shown.install()
    for descriptor in (1, 2):
        os.dup2(printing.fileno(), descriptor)
    printing.close()
    # What native code said before it died must not be lost with it.
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, LINE_BUFFERED, 0)
