"""Simulates many cells at once in worker processes; what dies or loops is one failed cell.

A simulation is a pure function, so the order of the results means nothing. Workers get plain
values and rebuild all else from paths; only the caller writes anywhere. A policy is native code:
if it kills a process that had simulated other cells before, that cell is run again in a process of
its own, which shows the culprit; and so are all other cells of that policy. A policy that loops
again and again is not tried any further.
"""

import contextlib
import functools
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace

from schedlab import catalogue
from schedlab.digests import timestamp
from schedlab.errors import ExperimentError, SchedlabError
from schedlab.experiment.cells import Cell, ChosenMachine, ChosenPolicy, ChosenWorkload
from schedlab.experiment.definition import in_range
from schedlab.store.runs import RunRecord
from schedlab.workers import JOBS_MAX, Crew, Ending, Loop, Place, printed_text

# A worker keeps what it built last; a sweep visits one workload at a time.
BUILT_MAX = 64
# A replay stops soon after the failure, at a time that is easy to read and type.
REPLAY_STEP_NS = 100_000_000
# A simulation that takes longer may be large, or its policy may never come back.
SLOW_AFTER_S = 10.0
# So many runs of a policy may loop before its others are not tried. Each takes seconds, and all are
# to be made again when the policy is mended.
LOOPS_MAX = 2
# What a kernel would have made of what ended a process here.
BY_ZERO_HINT = (
    "the simulator stops at a division by zero; a kernel gives 0 for it: ask for zero before"
)
POINTER_HINT = (
    "what a map lookup or a kernel function gives may be NULL: a kernel refuses to load a policy"
    " that does not ask before it uses the pointer"
)
HINTS_OF_SIGNALS = {
    signal.SIGFPE: BY_ZERO_HINT,
    # What compilers put where they see a division by zero, or a use of NULL, themselves.
    signal.SIGILL: f"{BY_ZERO_HINT}; or it is a use of NULL that the compiler saw",
    signal.SIGSEGV: POINTER_HINT,
    signal.SIGBUS: POINTER_HINT,
}
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
    return nr_cpus_usable() if asked is None else in_range("--jobs", asked, 1, JOBS_MAX)


def nr_cpus_usable() -> int:
    """CPUs that this process may use: the default number of workers."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# ---- in the worker ------------------------------------------------------------------------------


def simulate_cell(
    cell: Cell, timeline: bool = False, tell: Tell | None = None, queues: bool = False
) -> Outcome:
    """Simulates one cell in this process. Faults of the user's files come back as text.

    With `timeline`, the result has every stay of a task on a CPU; with `queues`, what was done to
    each queue. `tell` is told each line that the policy prints by `bpf_printk`.
    """

    def make() -> dict:
        built, tunables = _build(cell), dict(cell.policy.tunables)
        simulate = catalogue.native().simulate
        made = simulate(*built, cell.seed, tunables, cell.until_ns, timeline, tell, queues)
        return {"result": made}

    return outcome_of(make)


def outcome_of(make: Callable[[], Mapping]) -> Outcome:
    """The outcome whose fields `make` gives, with its times, or with the fault that it raises."""
    began_ns = time.monotonic_ns()
    try:
        made = make()
    except (catalogue.native().NativeError, SchedlabError, OSError) as error:
        made = {"result": None, "fault": str(error), "hint": getattr(error, "hint", None)}
    except BaseException as error:
        # PyO3 raises a panic of the core as a BaseException of a class it does not export.
        if type(error).__name__ != "PanicException":
            raise
        made = {"result": _failed("crash", f"schedlab stopped at an assertion of its own: {error}")}
    wall_ns = time.monotonic_ns() - began_ns
    return Outcome(**made, started_at=timestamp(wall_ns), wall_ns=wall_ns)


def _build(cell: Cell) -> tuple:
    """Policy, machine and workload, if their files are still what the cell was made of."""
    policy, machine = _policy(cell.policy.path), _machine(cell.machine.path)
    workload = _workload(cell.workload.path, tuple(cell.workload.parameters.items()))
    refuse_changed(cell.policy, policy.source_digest)
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
    tell_printed: Tell,
    order: Callable[[Sequence[Cell]], Sequence[Cell]] = longest_first,
) -> Generator[tuple[Cell, Outcome], None, None]:
    """Simulates cells, `jobs` at a time, and yields each as it finishes, in any order.

    Workers call `simulate`, a function of a module, so that it can be sent there. Cells start in
    the order that `order` gives them, but for those for which `wants` says False; it may be asked
    more than once of a cell. `tell_slow` is told, again and again, of each cell that has been at
    work for `SLOW_AFTER_S`; `tell_printed` what a policy has printed, other than by `bpf_printk`,
    in the first of its cells in which it did. Closing the generator, or an exception in it such as
    Ctrl-C, kills the workers. Raises ExperimentError for a fault of the user's files.
    """
    waiting = deque(order(cells))
    crew = Crew(jobs, simulate)
    killers, loopers, printers = [], [], []
    with contextlib.closing(crew):
        while waiting or crew.is_at_work:
            while waiting and crew.has_room:
                cell = waiting.popleft()
                if not wants(cell):
                    continue
                if loopers.count(cell.policy) < LOOPS_MAX:
                    crew.begin(cell, alone=cell.policy in killers)
                else:
                    why = f"not tried, because the policy has looped in {LOOPS_MAX} runs before"
                    yield cell, Outcome(_failed("untried", why), started_at=timestamp())
            for ending in crew.wait():
                policy = ending.piece.policy
                if ending.printed and policy not in printers:
                    printers.append(policy)
                    tell_printed(printed_text(f"policy {policy.label}", ending.printed))
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
    cell: Cell, simulate: Simulate, tell_slow: Callable[[Cell], None], tell_printed: Tell
) -> Outcome:
    """Simulates one cell in a process of its own; if that dies, the outcome says of what. The other
    parameters, and errors, are those of `run_cells`."""
    runs = run_cells([cell], 1, simulate, lambda cell: True, tell_slow, tell_printed, list)
    [(_, outcome)] = runs
    return outcome


def record(cell: Cell, outcome: Outcome, experiment: str | None) -> RunRecord:
    """A finished cell as the store keeps it, as part of an experiment (its id) or of none."""
    result = {"timeline": None, "timeline_names": None, "recording": None, **outcome.result}
    boot = {"boot": outcome.boot} if outcome.boot else {}
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
            "platform": cell.platform and cell.platform.facts | boot,
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
    at_ns = (result.get("error") or {}).get("at_ns")
    return cell.replay(at_ns and (at_ns // REPLAY_STEP_NS + 1) * REPLAY_STEP_NS)


def has_metrics(result: dict) -> bool:
    """Whether there is more to say of a run than why it failed."""
    return "makespan_ns" in result


def is_crash(result: dict) -> bool:
    """Whether the process of a run died, so that there are no metrics and no digest."""
    return (result.get("error") or {}).get("kind") == "crash"


def is_untried(result: dict) -> bool:
    """Whether there was no run, because the policy had looped in others."""
    return (result.get("error") or {}).get("kind") == "untried"


def refuse_fault(outcome: Outcome) -> Outcome:
    """The outcome; raises ExperimentError if it is a fault of the user's."""
    if outcome.fault is not None:
        raise ExperimentError(outcome.fault, outcome.hint)
    return outcome


def _outcome(ending: Ending) -> Outcome:
    """What came of a cell, also if there is no answer."""
    if ending.answer is not None:
        return refuse_fault(ending.answer)
    loop, code, hint = ending.loop, ending.exit_code, None
    place = loop.place if loop else ending.place
    if loop:
        what = _loop_text(loop)
    elif code < 0:
        what = f"ended its process by signal {-code} ({signal.strsignal(-code)})"
        hint = HINTS_OF_SIGNALS.get(-code)
    else:
        what = f"ended its process with exit code {code}"
    result = _crash(what, place, hint)
    if loop and place:
        result["run"] = place.run
    return Outcome(result, None, timestamp(ending.wall_ns), ending.wall_ns)


def _crash(what: str, place: Place | None, hint: str | None) -> dict:
    """The result of a run whose process did `what`; `cause` is what runs have alike in which a
    policy does the same."""
    if place is None:
        return _failed("crash", f"it {what}", cause=f"it {what}", hint=hint)
    operation = f"`{place.operation}`" if place.operation else "the simulator"
    pid, task = place.task or (None, None)
    for_task = f" for task {task}[{pid}]" if place.task else ""
    where = f", called on CPU {place.cpu}{for_task}," if place.operation else ""
    error = {"pid": pid, "task": task, "cpu": place.cpu, "at_ns": place.at_ns}
    error |= {"cause": f"{operation} {what}", "hint": hint}
    return _failed("crash", f"{operation}{where} {what}", **error)


def _failed(kind: str, message: str, **more: object) -> dict:
    """The result of a run without one: no metrics, no digest."""
    error = {"kind": kind, "message": message, "pid": None, "task": None, "cpu": None, "at_ns": 0}
    return {"status": "failed", "error": {**error, **more}, "digest": ""}


def _loop_text(loop: Loop) -> str:
    """What came of it that it did not go on, after who it was."""
    if loop.is_blocked:
        what = f"has not gone on after {loop.limit_s:g} s and does not compute: it sleeps or waits"
    else:
        what = f"has not returned after {loop.limit_s:g} s of computing: it loops"
    if loop.place and not loop.place.operation:
        return f"{what}, which is a fault of the simulator"
    return f"{what}; a kernel would refuse to load it"
