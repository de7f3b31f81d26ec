"""Processes that do one piece of work after another for whoever has many.

A policy is native code: it may end its process, never return, start others, and print. Whoever
waits is told of an answer, a death or a loop alike, and a worker ends with all that it has started.
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
from typing import Any, NamedTuple

from schedlab import catalogue, shown

POLL_S = 0.5
# An operation of a policy that computes for so long loops: none takes a hundredth of it.
LOOP_CPU_S = 3.0
# The simulator itself may be longer at one thing: it creates a million tasks in some seconds.
STUCK_CPU_S = 60.0
# Neither may take for ever without computing: an operation that sleeps, or has stopped its process,
# and the simulator on a machine that is busy with much else.
BLOCKED_WALL_S = 60.0
STUCK_WALL_S = 900.0
# A worker that is told to go is gone at once, unless a policy keeps it.
GONE_AFTER_S = 5.0
# Processes at a time that a user may ask for.
JOBS_MAX = 1024
# Of what was printed during a piece of work so much is kept, from its beginning.
PRINTED_BYTES_MAX = 64 << 10
# More than a position takes.
BOARD_BYTES = 256

PIPE_BYTES = 64 << 10
# While somebody prints without end, others are heard too.
PIPES_AT_ONCE = 16

# Of setvbuf(3), which Python does not have.
LINE_BUFFERED = 1

# One thread at a time has another main module, or it would never be as it was.
HIDING = threading.Lock()

Work = Callable[[Any], Any]


class Place(NamedTuple):
    """Where a simulation was: see `_native.position`."""

    run: int
    nr_begun: int
    at_ns: int
    cpu: int
    operation: str
    task: tuple[int, str] | None


@dataclass(frozen=True)
class Loop:
    """Where a simulation was that did not go on for so long, None if there was none."""

    place: Place | None
    limit_s: float
    is_blocked: bool = False
    """It did not compute either: the limit is then that of a clock."""


@dataclass(frozen=True)
class Ending:
    """What came of a piece of work: an answer, or a loop, or else its process died."""

    piece: Any
    answer: Any
    loop: Loop | None
    exit_code: int | None
    was_alone: bool
    """The process had done nothing before: nothing else can have broken it."""
    wall_ns: int
    place: Place | None = None
    """Where a simulation was when its process died."""
    printed: str = ""
    """What was printed meanwhile."""


@dataclass
class Crew:
    """Up to `jobs` processes, each of which does `work`, a function of a module, piece by piece.

    Work that is no simulation is ended if it shows no progress for `still_s`, if that is given.
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

    def begin(self, piece: Any, alone: bool) -> None:
        """Gives a piece to a worker; `alone`: to one that has not done and will not do another."""
        idle = [worker for worker in self._workers if not worker.is_busy]
        while alone and idle:
            self._dismiss(idle.pop())
        if not idle:
            # Whoever is interrupted must know of the worker, or nobody ends it.
            with _spawning():
                idle = [_Worker(self.work)]
                self._workers += idle
        idle[0].begin(piece, alone)

    def wait(self) -> list[Ending]:
        """What has come to an end, waiting for `POLL_S` if nothing has."""
        busy = [worker for worker in self._workers if worker.is_busy]
        if busy:
            connection.wait([heard for worker in busy for heard in worker.heard], POLL_S)
        endings = []
        for worker in busy:
            if ending := worker.ending(self.still_s):
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
        # It outlives the process: where a simulation was when that died is read here.
        self.board = context.RawArray(ctypes.c_ubyte, BOARD_BYTES)
        arguments = (theirs, printing, self.board, work)
        self.process = context.Process(target=_serve, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        printing.close()
        self.piece: Any = None
        self.is_busy = False
        self.is_alone = False
        self.nr_begun = 0

    @property
    def heard(self) -> list[connection.Connection]:
        """Where there is something to read as soon as anything happens."""
        return [self.link] if self.output.closed else [self.link, self.output]

    def begin(self, piece: Any, alone: bool) -> None:
        self.piece, self.is_busy, self.is_alone = piece, True, alone
        self.began_s = self.looked_s = time.monotonic()
        self.nr_begun += 1
        self.words, self.still_s = b"", 0.0
        self.printed, self.nr_lost = b"", 0
        # If it has died meanwhile, that is the answer.
        with contextlib.suppress(OSError):
            self.link.send(piece)

    def ending(self, still_s: float | None) -> Ending | None:
        """What came of the piece; None while it is at work. `still_s` is as in `Crew`."""
        answer = loop = exit_code = place = None
        if self.link.poll():
            try:
                answer, loop = self.link.recv()
            except (EOFError, OSError):
                exit_code = self._gone()
        elif self.process.exitcode is not None:
            # What it has started, and still runs, keeps the link open.
            exit_code = self._gone()
        else:
            loop = self._standstill(still_s)
        self._listen()
        if answer is None and loop is None and exit_code is None:
            return None
        if exit_code is not None:
            place = self._place(bytes(self.board))
        self.is_busy = False
        wall_ns = int((time.monotonic() - self.began_s) * 1e9)
        printed, nr_lost = self.printed.decode(errors="backslashreplace"), self.nr_lost
        if nr_lost:
            printed = printed.rstrip("\n") + f"\n({nr_lost:,} bytes more are not shown)"
        was_alone = self.nr_begun == 1
        return Ending(self.piece, answer, loop, exit_code, was_alone, wall_ns, place, printed)

    def _standstill(self, still_s: float | None) -> Loop | None:
        """That it has not gone on for too long, by a clock: a process that was stopped, or sleeps,
        cannot tell that itself."""
        now_s, words = time.monotonic(), bytes(self.board)
        if words != self.words:
            self.words, self.still_s = words, 0.0
        else:
            # We ourselves may have been stopped for longer than a look takes.
            self.still_s += min(now_s - self.looked_s, 2 * POLL_S)
        self.looked_s = now_s
        place = self._place(words)
        if place is not None:
            still_s = BLOCKED_WALL_S if place.operation else STUCK_WALL_S
        if still_s is None or self.still_s < still_s:
            return None
        return Loop(place, still_s, is_blocked=True)

    def _place(self, words: bytes) -> Place | None:
        position = catalogue.native().position_on(words)
        return position and Place(*position)

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
def _spawning() -> Iterator[None]:
    """A child that is started in here hears of no Ctrl-C, nor does it need the caller's script.

    Ctrl-C reaches the whole process group, but a child inherits the mask; the coordinator hears of
    it a moment later, and ends the child. A process that starts afresh would run the script again,
    to have what is in it, which then had to say `if __name__ == "__main__"`.
    """
    # With the first child multiprocessing starts a process of its own, and then lets interrupts
    # through again (Python 3.11): the first child would hear of them.
    resource_tracker.ensure_running()
    with HIDING:
        held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main
            signal.pthread_sigmask(signal.SIG_SETMASK, held)


def printed_text(who: str, printed: str) -> str:
    """What somebody's native code has printed, as what it is."""
    lines = "".join(f"\n| {line}" for line in printed.rstrip("\n").split("\n"))
    return f"note: {who} printed:{lines}"


# ---- in the worker -------------------------------------------------------------------------------


def _serve(
    link: connection.Connection, printing: connection.Connection, board: ctypes.Array, work: Work
) -> None:
    # A group of its own, which ends with it; and no terminal, which could stop it.
    os.setsid()
    libc = ctypes.CDLL(None)
    _end_with_parent()
    _print_into(printing, libc)
    catalogue.native().show_position_on(memoryview(board).cast("B"))
    speaking = threading.Lock()
    _watch_for_loops(link, speaking)
    # Until nobody listens any more.
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            answer = work(link.recv())
            libc.fflush(None)
            with speaking:
                link.send((answer, None))


def _end_with_parent() -> None:
    """Makes this worker, and all that it has started, end when the coordinator does, even if that
    one was killed."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        connection.wait([parent.sentinel])
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    # A policy may have stopped this process, and then that thread hears of nothing.
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
    # What a policy said before it died must not be lost with it.
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, LINE_BUFFERED, 0)


def _watch_for_loops(link: connection.Connection, speaking: threading.Lock) -> None:
    """Tells of a simulation of this process that does not go on, and ends it.

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
            place = Place(*position)
            limit_s = LOOP_CPU_S if place.operation else STUCK_CPU_S
            if now_s - since_s >= limit_s:
                # The lock is kept: whoever has looped has nothing to add.
                speaking.acquire()
                link.send((None, Loop(place, limit_s)))
                os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
