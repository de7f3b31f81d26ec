"""Simulates many cells at once in worker processes; what dies is one failed cell, not the sweep.

A simulation is a pure function, so the order of the results means nothing. Workers get plain
values and rebuild policy, machine and workload from their paths; only the caller, who consumes
the results one by one, writes anywhere.

A policy is native code and may kill its process. The cells then in flight are suspects: each is
run again in a process of its own, which shows the culprit; the rest of the sweep goes on.
"""

from __future__ import annotations

import contextlib
import functools
import json
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from multiprocessing import connection

from schedlab import catalogue
from schedlab.cells import Cell
from schedlab.errors import ExperimentError
from schedlab.store import RunRecord

# A worker keeps what it built last; a sweep visits one workload at a time.
BUILT_MAX = 64
# A replay stops soon after the failure, at a time that is easy to read and type.
REPLAY_STEP_NS = 100_000_000
# A simulation that takes longer may be large, or its policy may never come back.
SLOW_AFTER_S = 10.0
SLOW_POLL_S = 0.5
# No event and no operation takes nearly as long: the operation loops.
STUCK_AFTER_S = 20.0


@dataclass(frozen=True)
class Outcome:
    """What a worker sends back: the result, or why there can be none (`fault`, the user's)."""

    result: dict | None
    fault: str | None
    started_at: str
    wall_ns: int


Simulate = Callable[[Cell], Outcome]
Order = Callable[[Sequence[Cell]], Sequence[Cell]]


def longest_first(cells: Sequence[Cell]) -> list[Cell]:
    """The order in which no worker is left alone with a long cell at the end."""
    return sorted(cells, key=lambda cell: -cell.workload.weight)


def nr_cpus_usable() -> int:
    """CPUs that this process may use: the default number of workers."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# ---------------------------------------------------------------------------------------------
# In the worker


def simulate_cell(cell: Cell, timeline: bool = False, prints: bool = False) -> Outcome:
    """Simulates one cell in this process. Faults of the user's files come back as text.

    With `timeline`, the result has every stay of a task on a CPU. With `prints`, what the policy
    prints goes to standard error.
    """
    native = catalogue.native()
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    started_ns = time.monotonic_ns()
    try:
        policy, machine, workload = _build(cell)
        tunables = dict(cell.policy.tunables)
        text = native.simulate(
            policy, machine, workload, cell.seed, tunables, cell.until_ns, timeline, prints
        )
    except (native.NativeError, ExperimentError) as error:
        return Outcome(None, str(error), started_at, time.monotonic_ns() - started_ns)
    except BaseException as error:
        # PyO3 raises a panic of the core as a BaseException of a class it does not export.
        if type(error).__name__ != "PanicException":
            raise
        result = _crash(f"the simulator stopped at an assertion of its own: {error}")
        return Outcome(result, None, started_at, time.monotonic_ns() - started_ns)
    return Outcome(json.loads(text), None, started_at, time.monotonic_ns() - started_ns)


def _build(cell: Cell):
    policy = _policy(cell.policy.path)
    machine = _machine(cell.machine.path)
    workload = _workload(cell.workload.path, tuple(cell.workload.parameters.items()))
    for path, digest, expected in (
        (cell.policy.path, policy.source_digest, cell.policy.digest),
        (cell.machine.path, machine.digest, cell.machine.digest),
        (cell.workload.path, workload.digest, cell.workload.digest),
    ):
        if digest != expected:
            raise ExperimentError(f"{path} changed while the experiment was running")
    return policy, machine, workload


@functools.lru_cache(BUILT_MAX)
def _policy(path: str):
    return catalogue.load_policy(path)


@functools.lru_cache(BUILT_MAX)
def _machine(path: str):
    return catalogue.load_machine(path)


@functools.lru_cache(BUILT_MAX)
def _workload(path: str, parameters: tuple[tuple[str, str], ...]):
    return catalogue.load_workload(path, dict(parameters))


def _end_with_parent() -> None:
    """Makes this worker end when the coordinator does, even if that one was killed."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _begin_worker() -> None:
    _end_with_parent()
    # What has looped here will loop again alone, where there is somebody to tell.
    _watch_for_loops(lambda at_ns, cpu: None)


def _watch_for_loops(tell: Callable[[int, int], None]) -> None:
    """Ends this process when an operation of the policy does not return; first `tell`s where."""
    native = catalogue.native()

    def watch() -> None:
        last, since_s = None, time.monotonic()
        while True:
            time.sleep(SLOW_POLL_S)
            position = native.position()
            if position is None or position != last:
                last, since_s = position, time.monotonic()
            elif time.monotonic() - since_s >= STUCK_AFTER_S:
                tell(*position[1:])
                os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _answer(sender: connection.Connection, simulate: Simulate, cell: Cell) -> None:
    _end_with_parent()
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    started_ns = time.monotonic_ns()

    def tell(at_ns: int, cpu: int) -> None:
        message = (
            f"an operation of the policy has not returned for {STUCK_AFTER_S:.0f} s: it loops;"
            " a kernel would refuse to load it"
        )
        result = _crash(message, at_ns, cpu)
        sender.send(Outcome(result, None, started_at, time.monotonic_ns() - started_ns))

    _watch_for_loops(tell)
    sender.send(simulate(cell))


# ---------------------------------------------------------------------------------------------
# In the coordinator


def run_cells(
    cells: Sequence[Cell],
    jobs: int,
    simulate: Simulate,
    claim: Callable[[Cell], bool],
    tell_slow: Callable[[Cell], None],
    order: Order = longest_first,
) -> Generator[tuple[Cell, Outcome], None, None]:
    """Simulates cells, `jobs` at a time, and yields each as it finishes, in any order.

    They start in the order that `order` gives them. Closing the generator, or an exception in it
    such as Ctrl-C, kills the workers.

    Parameters
    ----------
    cells : sequence of Cell
        May be empty.
    jobs : int
        Worker processes, at least 1; no more are started than there are cells.
    simulate : callable
        What a worker does with a cell; a function of a module, so that it can be sent there.
    claim : callable
        Asked of each cell before it starts; a cell for which it says False is left out. It may be
        asked more than once of a cell.
    tell_slow : callable
        Told of a cell, again and again, that has been at work for `SLOW_AFTER_S` and still is.

    Raises
    ------
    ExperimentError
        If a worker met a fault of the user's files, such as a policy edited meanwhile.
    """
    waiting = deque(order(cells))
    killers: list[Cell] = []
    while waiting:
        pool = _Pool(min(jobs, len(waiting)), simulate, claim, tell_slow)
        suspects = yield from pool.run(waiting)
        if not suspects and waiting:
            # The pool broke with nothing in flight: still go on by at least one cell.
            suspects = [waiting.popleft()]
        for cell in filter(claim, suspects):
            outcome = run_alone(cell, simulate, tell_slow)
            yield cell, outcome
            if is_crash(outcome.result):
                # This policy has killed a process, so its other cells run alone, at the end.
                mine = [other for other in waiting if other.policy == cell.policy]
                killers += mine
                waiting = deque(other for other in waiting if other.policy != cell.policy)
    for cell in filter(claim, killers):
        yield cell, run_alone(cell, simulate, tell_slow)


def run_alone(
    cell: Cell,
    simulate: Simulate,
    tell_slow: Callable[[Cell], None],
) -> Outcome:
    """Simulates one cell in a process of its own; if that dies, the outcome says of what.

    `simulate` and `tell_slow` are as in `run_cells`.

    Raises
    ------
    ExperimentError
        As `run_cells`.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, simulate, cell))
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    started_ns = time.monotonic_ns()
    with _interrupts_held():
        process.start()
    sender.close()
    try:
        while not receiver.poll(SLOW_POLL_S):
            if time.monotonic_ns() - started_ns >= SLOW_AFTER_S * 1e9:
                tell_slow(cell)
        outcome = receiver.recv()
    except EOFError:
        outcome = None
        process.join()
    finally:
        receiver.close()
        if process.is_alive():
            process.kill()
        process.join()
    if outcome is not None:
        return _faultless(outcome)
    result = _crash(_cause_of_death(process.exitcode))
    return Outcome(result, None, started_at, time.monotonic_ns() - started_ns)


def record(cell: Cell, outcome: Outcome, experiment: str | None) -> RunRecord:
    """A finished cell as the store keeps it, as part of an experiment (its id) or of none."""
    result = {"timeline": None, "timeline_names": None, "recording": None, **outcome.result}
    return RunRecord(
        policy=cell.policy.label,
        machine=cell.machine.name,
        workload=cell.workload.name,
        varied=dict(cell.workload.varied),
        seed=cell.seed,
        status=result["status"],
        result=result,
        manifest={
            **cell.key._asdict(),
            "tunables": dict(cell.policy.tunables),
            "policy_name": cell.policy.name,
            "policy_source": cell.policy.path,
            "parameters": dict(cell.workload.resolved),
            "started_at": outcome.started_at,
            "wall_ns": outcome.wall_ns,
            "platform": cell.platform and cell.platform.facts,
            "replay": replay(cell, result),
            "experiment": experiment,
        },
    )


def without_timeline(record: RunRecord) -> RunRecord:
    """The run as a store keeps it: a timeline is large, and its digest says whether it repeats."""
    result = {**record.result, "timeline": None, "timeline_names": None}
    result.pop("timeline_wakeups", None)
    return replace(record, result=result)


def slow_text(cell: Cell) -> str:
    """What to say of a cell that has been at work for `SLOW_AFTER_S`."""
    varied = "".join(f", {name} = {value}" for name, value in cell.workload.varied.items())
    return (
        f"note: policy {cell.policy.label} with {cell.workload.name}{varied} on"
        f" {cell.machine.name}, seed {cell.seed}, is still running after {SLOW_AFTER_S:.0f} s:"
        " the run may be large, or the policy may be looping; Ctrl-C stops it"
    )


def replay(cell: Cell, result: dict) -> str:
    """The command that does a run again; one that failed is stopped soon after its failure."""
    error = result.get("error")
    if not error or not error.get("at_ns"):
        return cell.replay()
    return cell.replay(until_ns=(error["at_ns"] // REPLAY_STEP_NS + 1) * REPLAY_STEP_NS)


def has_metrics(result: dict) -> bool:
    """Whether there is more to say of a run than why it failed."""
    return "makespan_ns" in result


def is_crash(result: dict) -> bool:
    """Whether the process of a run died, so that there are no metrics and no digest."""
    error = result.get("error")
    return bool(error) and error["kind"] == "crash"


@dataclass
class _Pool:
    """Worker processes for many cells: `in_flight` has those at work, and when they began."""

    jobs: int
    simulate: Simulate
    claim: Callable[[Cell], bool]
    tell_slow: Callable[[Cell], None]
    in_flight: dict[Future, tuple[Cell, float]] = field(default_factory=dict)

    def run(self, waiting: deque[Cell]) -> Generator[tuple[Cell, Outcome], None, list[Cell]]:
        """Takes cells off `waiting`; if a worker dies, returns the cells in flight."""
        with _workers(self.jobs) as workers:
            while waiting or self.in_flight:
                broken = not self._submit(workers, waiting)
                done = wait(self.in_flight, SLOW_POLL_S, return_when=FIRST_COMPLETED).done
                if broken or any(isinstance(f.exception(), BrokenProcessPool) for f in done):
                    break
                for future in done:
                    yield self.in_flight.pop(future)[0], _faultless(future.result())
                for cell, began_s in self.in_flight.values():
                    if time.monotonic() - began_s >= SLOW_AFTER_S:
                        self.tell_slow(cell)
            # The pool broke, or all is done. A broken pool fails every cell without a result.
            suspects = []
            for future, (cell, _) in self.in_flight.items():
                if isinstance(future.exception(), BrokenProcessPool):
                    suspects.append(cell)
                else:
                    yield cell, _faultless(future.result())
        return suspects

    def _submit(self, workers: ProcessPoolExecutor, waiting: deque[Cell]) -> bool:
        """Keeps every worker busy, and no more, so that suspects are few. False if one died."""
        while waiting and len(self.in_flight) < self.jobs:
            if not self.claim(waiting[0]):
                waiting.popleft()
                continue
            try:
                with _interrupts_held():
                    future = workers.submit(self.simulate, waiting[0])
            except BrokenProcessPool:
                return False
            self.in_flight[future] = waiting.popleft(), time.monotonic()
        return True


@contextlib.contextmanager
def _workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Workers that start afresh (a fork would copy locks of other threads), and surely end."""
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_worker)
    try:
        yield pool
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C reaches the whole process group; a child started in here never hears of it.

    A child inherits the mask. The coordinator hears of Ctrl-C a moment later, and ends it.
    """
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _faultless(outcome: Outcome) -> Outcome:
    if outcome.fault is not None:
        raise ExperimentError(outcome.fault, "run the same command again: it goes on from here")
    return outcome


def _crash(message: str, at_ns: int = 0, cpu: int | None = None) -> dict:
    """The result of a run whose process died: no metrics, no digest."""
    error = {
        "kind": "crash",
        "message": message,
        "pid": None,
        "task": None,
        "cpu": cpu,
        "at_ns": at_ns,
    }
    return {"status": "failed", "error": error, "digest": ""}


def _cause_of_death(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        how = f"by signal {-exit_code} ({signal.strsignal(-exit_code)})"
        if -exit_code == signal.SIGFPE:
            how += ": a division by zero, of which a kernel would make 0"
    else:
        how = f"with exit code {exit_code}"
    return f"it ended its process {how}"
