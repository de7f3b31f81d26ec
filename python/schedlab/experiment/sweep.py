"""Simulates many cells at once in worker processes.

A simulation is a pure function, so the order of the results means nothing. Workers get plain
values and rebuild all else from paths; only the caller writes anywhere. A policy can reach nothing
but its own memory: what it does wrong is the result of its run.
"""

import contextlib
import functools
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schedlab import catalogue
from schedlab.digests import timestamp
from schedlab.errors import ExperimentError, SchedlabError
from schedlab.experiment.cells import Cell, ChosenMachine, ChosenPolicy, ChosenWorkload
from schedlab.experiment.definition import in_range
from schedlab.programs import signal_name
from schedlab.store.runs import RunRecord
from schedlab.workers import JOBS_MAX, Crew, Ending

# A worker keeps what it built last; a sweep visits one workload at a time.
BUILT_MAX = 64
# A replay stops soon after the failure, at a time that is easy to read and type.
REPLAY_STEP_NS = 100_000_000
# A simulation that takes longer may be large, or its policy may find ever more to do.
SLOW_AFTER_S = 10.0
# A run that ends so many processes has failed; one may have been ended by somebody else.
DEATHS_MAX = 2
# What to do where a file changed while the sweep was at work: its digest is another from now on.
AGAIN_HINT = "run the same command again: it goes on from here"


@dataclass(frozen=True)
class Outcome:
    """What a worker sends back: a result, or the `fault` of the user's for which there is none.

    `hint` is the way out of a fault. `boot` is that of the virtual machine in which it was
    measured, equal for all runs that went on from one boot. `notes` are to be told to the user.
    """

    result: dict | None
    fault: str | None = None
    started_at: str = ""
    wall_ns: int = 0
    hint: str | None = None
    boot: str | None = None
    notes: Sequence[str] = ()


Simulate = Callable[[Cell], Outcome]
Tell = Callable[[str], None]


def longest_first(cells: Sequence[Cell]) -> list[Cell]:
    """An order in which no worker is left alone with a long cell at the end."""
    return sorted(cells, key=lambda cell: -cell.workload.weight)


def jobs(asked: int | None) -> int:
    """How many processes to have at a time, by default one a CPU; BadValue for a wrong number."""
    hint = f"give one from 1 to {JOBS_MAX}"
    return nr_cpus_usable() if asked is None else in_range("--jobs", asked, 1, JOBS_MAX, hint)


def nr_cpus_usable() -> int:
    """CPUs that this process may use: the default number of workers."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# ---- in the worker ------------------------------------------------------------------------------


def simulate_cell(cell: Cell, tell: Tell | None = None, **how: Any) -> Outcome:
    """Simulates one cell in this process. Faults of the user's files come back as text.

    `how` are the options of `_native.simulate`. `tell` is told each line that the policy prints by
    `bpf_printk`.
    """

    def make() -> dict:
        built, tunables = _build(cell), dict(cell.policy.tunables)
        simulate = catalogue.native().simulate
        return {"result": simulate(*built, cell.seed, tunables, cell.until_ns, tell, **how)}

    return outcome_of(make)


def outcome_of(make: Callable[[], Mapping]) -> Outcome:
    """The outcome whose fields `make` gives, with its times, or with the fault that it raises."""
    began_ns = time.monotonic_ns()
    try:
        made = make()
    except (catalogue.native().NativeError, SchedlabError, OSError) as error:
        made = {
            "result": None,
            "fault": getattr(error, "message", str(error)),
            "hint": getattr(error, "hint", None),
        }
    except BaseException as error:
        # PyO3 raises a panic of the core as a BaseException of a class it does not export.
        if type(error).__name__ != "PanicException":
            raise
        message = f"schedlab stopped at an assertion of its own: {error}"
        error = {"kind": "crash", "message": message, "at_ns": 0}
        error |= {"pid": None, "task": None, "cpu": None}
        made = {"result": {"status": "failed", "error": error, "digest": ""}}
    wall_ns = time.monotonic_ns() - began_ns
    return Outcome(**made, started_at=timestamp(wall_ns), wall_ns=wall_ns)


def _build(cell: Cell) -> tuple:
    """Policy, machine and workload, if their files are still what the cell was made of."""
    policy = _policy(cell.policy.path)
    machine = _machine(cell.machine.path, cell.machine.cpus, cell.machine.kernel)
    workload = _workload(cell.workload.path, tuple(cell.workload.parameters.items()))
    refuse_changed(cell.policy, policy.digest)
    refuse_changed(cell.machine, machine.digest)
    refuse_changed(cell.workload, workload.digest)
    return policy, machine, workload


def refuse_changed(chosen: ChosenPolicy | ChosenMachine | ChosenWorkload, digest: str) -> None:
    """Raises ExperimentError if a file is no longer what the experiment began with."""
    if digest != chosen.digest:
        raise ExperimentError(f"{chosen.path} changed while the experiment was running", AGAIN_HINT)


_built = functools.lru_cache(BUILT_MAX)
_policy, _machine = _built(catalogue.load_policy), _built(catalogue.load_machine)
_workload = _built(lambda path, given: catalogue.load_workload(path, dict(given)))


# ---- in the coordinator -------------------------------------------------------------------------


def run_cells(
    cells: Sequence[Cell],
    jobs: int,
    simulate: Simulate,
    wants: Callable[[Cell], bool],
    tell_slow: Callable[[Cell], None],
    order: Callable[[Sequence[Cell]], Sequence[Cell]] = longest_first,
    ahead: bool = False,
) -> Generator[tuple[Cell, Outcome], None, None]:
    """Simulates cells, `jobs` at a time, and yields each as it finishes, in any order.

    Workers call `simulate`, a function of a module, so that it can be sent there. Cells start in
    the order that `order` gives them, but for those for which `wants` says False. With `ahead` that
    is asked before the caller has what came last: no worker waits for what the caller does with it.
    `tell_slow` is told, again and again, of each cell that has been at work for `SLOW_AFTER_S`.
    Closing the generator, or an exception in it such as Ctrl-C, kills the workers. Raises
    ExperimentError for a fault of the user's files, or if a worker died.
    """
    waiting = deque(order(cells))
    with contextlib.closing(Crew(jobs, simulate)) as crew:

        def fill() -> None:
            while waiting and crew.has_room:
                cell = waiting.popleft()
                if wants(cell):
                    crew.begin(cell)

        fill()
        while crew.is_at_work:
            endings = crew.wait()
            if ahead:
                fill()
            for ending in endings:
                yield ending.piece, answer(ending)
            fill()
            for cell in crew.at_work_for(SLOW_AFTER_S):
                tell_slow(cell)


def run_alone(cell: Cell, simulate: Simulate, tell_slow: Callable[[Cell], None]) -> Outcome:
    """Simulates one cell in a process of its own. The other parameters, and errors, are those of
    `run_cells`."""
    [(_, outcome)] = run_cells([cell], 1, simulate, lambda cell: True, tell_slow, list)
    return outcome


def record(cell: Cell, outcome: Outcome, experiment: str | None) -> RunRecord:
    """A finished cell as the store keeps it, as part of an experiment (its id) or of none."""
    result = {"timeline": None, "timeline_names": None, "recording": None, **outcome.result}
    boot = {"boot": outcome.boot} if outcome.boot else {}
    return RunRecord(
        policy=cell.policy.label,
        machine=cell.machine.name,
        workload=cell.workload.name,
        varied=dict(cell.varied),
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
            "platform": cell.platform and cell.platform.facts | boot,
            "replay": replay(cell, result),
            "experiment": experiment,
        },
    )


def without_timeline(record: RunRecord) -> RunRecord:
    """The run as a store keeps it: a timeline is large, and its digest says whether it repeats."""
    result = {**record.result, "timeline": None, "timeline_names": None}
    result.pop("timeline_wakeups", None)
    for name in ("profile", "watched", "dumps"):
        result.pop(name, None)
    return replace(record, result=result)


def slow_text(cell: Cell) -> str:
    """What to say of a cell that has been at work for `SLOW_AFTER_S`."""
    return (
        f"note: {cell.say()}, is still running after {SLOW_AFTER_S:.0f} s:"
        " the run may be large, or the policy may always find something to do; Ctrl-C stops it"
    )


def replay(cell: Cell, result: dict) -> str:
    """The command that does a run again; one that failed is stopped soon after its failure."""
    at_ns = (result.get("error") or {}).get("at_ns")
    return cell.replay(at_ns and (at_ns // REPLAY_STEP_NS + 1) * REPLAY_STEP_NS)


def refuse_fault(outcome: Outcome) -> Outcome:
    """The outcome; raises ExperimentError if it is a fault of the user's."""
    if outcome.fault is not None:
        raise ExperimentError(outcome.fault, outcome.hint)
    return outcome


def answer(ending: Ending) -> Outcome:
    """What a worker sent back. Raises ExperimentError if it died, or for a fault of the user's."""
    if not (how := how_it_died(ending)):
        return refuse_fault(ending.answer)
    raise ExperimentError(
        f"the process at work on {ending.piece.say()} {how}",
        "another program may have ended it, or the system for want of memory: a smaller --jobs"
        f" takes less; {AGAIN_HINT}",
    )


def how_it_died(ending: Ending) -> str:
    """What became of the process; "" if it sent an answer."""
    if (code := ending.exit_code) is None:
        return ""
    return f"was ended by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"


def died(why: str) -> Outcome:
    """The outcome of a run whose processes died: without a digest, so it is tried again by the
    next command."""
    error = {"kind": "crash", "message": why, "at_ns": 0, "pid": None, "task": None, "cpu": None}
    return Outcome({"status": "failed", "error": error, "digest": ""}, started_at=timestamp())
