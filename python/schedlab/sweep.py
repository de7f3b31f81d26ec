"""Simulates many cells at once in worker processes; what dies or loops is one failed cell.

A simulation is a pure function, so the order of the results means nothing. Workers get plain
values and rebuild policy, machine and workload from their paths; only the caller, who consumes
the results one by one, writes anywhere.

A policy is native code and may kill its process. If that had simulated other cells before, the one
at which it died is run again in a process of its own, which shows the culprit; and so are all other
cells of that policy. A policy that loops again and again is not tried any further.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from schedlab import catalogue
from schedlab.cells import Cell
from schedlab.errors import ExperimentError
from schedlab.store import RunRecord
from schedlab.workers import Crew, Ending, Loop

# A worker keeps what it built last; a sweep visits one workload at a time.
BUILT_MAX = 64
# A replay stops soon after the failure, at a time that is easy to read and type.
REPLAY_STEP_NS = 100_000_000
# A simulation that takes longer may be large, or its policy may never come back.
SLOW_AFTER_S = 10.0
# So many runs of a policy may loop before its others are not tried. Each takes seconds, and all are
# to be made again when the policy is mended.
LOOPS_MAX = 2
# What to do where a file changed while the sweep was at work: its digest is another from now on.
AGAIN_HINT = "run the same command again: it goes on from here"


@dataclass(frozen=True)
class Outcome:
    """What a worker sends back: the result, or why there can be none (`fault`, the user's).

    `hint` is the way out of a fault that does not say it itself.
    """

    result: dict | None
    fault: str | None
    started_at: str
    wall_ns: int
    hint: str | None = None


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


def simulate_cell(
    cell: Cell, timeline: bool = False, prints: bool = False, queues: bool = False
) -> Outcome:
    """Simulates one cell in this process. Faults of the user's files come back as text.

    With `timeline`, the result has every stay of a task on a CPU. With `prints`, what the policy
    prints goes to standard error. With `queues`, the result has what was done to each queue.
    """
    native = catalogue.native()
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    started_ns = time.monotonic_ns()
    try:
        policy, machine, workload = _build(cell)
        tunables = dict(cell.policy.tunables)
        text = native.simulate(
            policy, machine, workload, cell.seed, tunables, cell.until_ns, timeline, prints, queues
        )
    except (native.NativeError, ExperimentError) as error:
        hint = getattr(error, "hint", None)
        return Outcome(None, str(error), started_at, time.monotonic_ns() - started_ns, hint)
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
            raise ExperimentError(f"{path} changed while the experiment was running", AGAIN_HINT)
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
    crew = Crew(jobs, simulate)
    killers: list = []
    loopers: list = []
    with contextlib.closing(crew):
        while waiting or crew.is_at_work:
            while waiting and crew.has_room:
                cell = waiting.popleft()
                if not claim(cell):
                    continue
                if loopers.count(cell.policy) < LOOPS_MAX:
                    crew.begin(cell, alone=cell.policy in killers)
                else:
                    yield cell, _untried()
            for ending in crew.wait():
                policy = ending.piece.policy
                if ending.loop:
                    loopers.append(policy)
                if ending.exit_code is not None:
                    killers.append(policy)
                    if not ending.was_alone:
                        waiting.appendleft(ending.piece)
                        continue
                yield ending.piece, _outcome(ending)
            for cell in crew.at_work_for(SLOW_AFTER_S):
                tell_slow(cell)


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
    [(_, outcome)] = run_cells([cell], 1, simulate, lambda cell: True, tell_slow, order=list)
    return outcome


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
        " the run may be large, or the policy may always find something to do; Ctrl-C stops it"
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


def is_untried(result: dict) -> bool:
    """Whether there was no run, because the policy had looped in others."""
    error = result.get("error")
    return bool(error) and error["kind"] == "untried"


def _outcome(ending: Ending) -> Outcome:
    """What came of a cell, also if there is no answer."""
    if ending.answer is not None:
        if ending.answer.fault is not None:
            raise ExperimentError(ending.answer.fault, ending.answer.hint)
        return ending.answer
    if ending.loop:
        result = _crash(_loop_text(ending.loop), ending.loop.at_ns, ending.loop.cpu)
        result["run"] = ending.loop.run
    else:
        result = _crash(_cause_of_death(ending.exit_code))
    started = datetime.now(UTC) - timedelta(microseconds=ending.wall_ns / 1e3)
    return Outcome(result, None, started.isoformat(timespec="milliseconds"), ending.wall_ns)


def _untried() -> Outcome:
    why = f"not tried, because the policy has looped in {LOOPS_MAX} runs before"
    result = _failed("untried", why)
    return Outcome(result, None, datetime.now(UTC).isoformat(timespec="milliseconds"), 0)


def _crash(message: str, at_ns: int = 0, cpu: int | None = None) -> dict:
    return _failed("crash", message, at_ns, cpu)


def _failed(kind: str, message: str, at_ns: int = 0, cpu: int | None = None) -> dict:
    """The result of a run without one: no metrics, no digest."""
    error = {
        "kind": kind,
        "message": message,
        "pid": None,
        "task": None,
        "cpu": cpu,
        "at_ns": at_ns,
    }
    return {"status": "failed", "error": error, "digest": ""}


def _loop_text(loop: Loop) -> str:
    took = f"after {loop.limit_s:g} s of computing"
    if not loop.operation:
        return f"one event has not come to its end {took}, which is a fault of the simulator"
    return (
        f"`{loop.operation}`, called on CPU {loop.cpu}, has not returned {took}: it loops;"
        " a kernel would refuse to load it"
    )


def _cause_of_death(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        how = f"by signal {-exit_code} ({signal.strsignal(-exit_code)})"
        if -exit_code == signal.SIGFPE:
            how += ": a division by zero, of which a kernel would make 0"
    else:
        how = f"with exit code {exit_code}"
    return f"it ended its process {how}"
