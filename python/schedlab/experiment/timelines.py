"""Which task ran where, for a pair of runs: chooses them, and simulates their beginning again.

A run is a pure function, so what a store leaves out, because it is large, is made again when
somebody wants to look at it: only as much as fits into a figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from schedlab.errors import BadValue, NoTimeline, UnknownName
from schedlab.experiment.cells import Cell
from schedlab.experiment.interactivity import sleeps
from schedlab.experiment.sweep import simulate_cell
from schedlab.experiment.timeline_figure import PlayedRun, Timelines
from schedlab.statistics.estimates import THRESHOLD

if TYPE_CHECKING:
    from schedlab.experiment.study import Panel, ScenarioRuns, Study
    from schedlab.store.runs import RunKey, RunRecord

# A machine's name and what was varied there.
Place = tuple[str, Mapping[str, object]]

STAYS_MAX = 2_000
"""Stays of one run in a figure: a browser still draws and zooms them without delay."""
FIRST_NS = 1_000_000
LONGER_FACTOR = 4
"""A run is simulated for so long, then so much longer, until it has enough stays or ends."""


@dataclass(frozen=True)
class Pair:
    """Runs to look at, in one scenario and of one seed; `why` these policies, for a caption."""

    records: Sequence[RunRecord]
    why: str


def choose(study: Study, policies: Sequence[str] = (), scenario: str = "") -> Pair:
    """The runs to look at: those asked for, else the best and the worst policy of a small scenario.

    Parameters
    ----------
    study : Study
        Of simulated runs.
    policies : sequence of str, optional
        Labels, in the order in which they are to be drawn.
    scenario : str, optional
        MACHINE or MACHINE,NAME=VALUE...: the first that fits is taken; empty for the smallest.

    Raises
    ------
    UnknownName, BadValue
        As `refuse_unknown`: a policy or scenario that is not there, or one policy twice.
    NoTimeline
        If no run of what is asked for was completed in a simulation.
    """
    cells = [(panel, cell) for panel in study.panels for cell in panel.cells if cell.runs]
    places = [_place(next(iter(cell.runs.values()))[0]) for _, cell in cells]
    _refuse_unknown(policies, scenario, study.policies, places)
    if scenario:
        fits = [_fits(place, scenario) for place in places]
        cells = [found for found, wanted in zip(cells, fits, strict=True) if wanted]
    cells = [(p, c) for p, c in cells if all(policy in c.runs for policy in policies)]
    if not cells:
        raise NoTimeline("no timeline: these policies have no completed run in one scenario")
    _, cell = cells[0] if scenario else min(cells, key=_smallness)
    if policies:
        chosen, why = list(policies), "the policies asked for"
    else:
        chosen, why = _best_and_worst(cell)
    seed = min(record.seed for record in cell.runs[chosen[0]])
    records = [next((r for r in cell.runs[p] if r.seed == seed), None) for p in chosen]
    if None in records:
        raise NoTimeline(f"no timeline: not all of {', '.join(chosen)} completed seed {seed}")
    if any(record.measured_on for record in records):
        raise NoTimeline("no timeline: runs on a real kernel are not repeated for a report")
    return Pair(records, why)


def record_timelines(pair: Pair, cells: Sequence[Cell]) -> Timelines:
    """Simulates the beginning of both runs again, until the first of them has filled its figure.

    Raises
    ------
    NoTimeline
        If `cells` no longer has these runs, because a file or schedlab itself has changed.
    """
    by_key: dict[RunKey, Cell] = {cell.key: cell for cell in cells}
    mine = [by_key.get(record.key) for record in pair.records]
    if None in mine:
        at = pair.records[mine.index(None)]
        raise NoTimeline(
            f"no timeline: the run of {at.policy} was made with other files, or by another"
            " schedlab, than are here now"
        )
    results = [_beginning(cell) for cell in mine]
    end_ns = max(record.result["elapsed_ns"] for record in pair.records)
    until_ns = min(_full_at_ns(result) or end_ns for result in results)
    runs = [
        PlayedRun(
            record.policy,
            result["nr_cpus"],
            [(a, min(b, until_ns), cpu, pid) for a, b, cpu, pid in _stays(result) if a < until_ns],
            {int(pid): name for pid, name in result["timeline_names"].items()},
            record.result["makespan_ns"],
        )
        for record, result in zip(pair.records, results, strict=True)
    ]
    return Timelines(
        scenario=_scenario_text(pair.records[0]),
        why=pair.why,
        until_ns=until_ns,
        is_whole=until_ns == end_ns,
        runs=runs,
        commands=[f"{cell.replay(_readable_ns(until_ns))} --timeline" for cell in mine],
    )


def refuse_unknown(cells: Sequence[Cell], policies: Sequence[str], scenario: str) -> None:
    """Raises UnknownName or BadValue where `choose` would, before any of the cells has run."""
    places = [(cell.machine.name, cell.workload.varied) for cell in cells]
    labels = list(dict.fromkeys(cell.policy.label for cell in cells))
    _refuse_unknown(policies, scenario, labels, places)


def _refuse_unknown(
    policies: Sequence[str], scenario: str, labels: Sequence[str], places: Sequence[Place]
) -> None:
    for policy in policies:
        if policy not in labels:
            raise UnknownName("policy", policy, labels, "in --timeline")
    if len(set(policies)) < len(policies):
        others = [label for label in labels if label not in policies]
        raise BadValue(
            "--timeline",
            " ".join(policies),
            "is one policy twice, and a pair is drawn to compare two",
            f"name another beside it: {', '.join(others)}" if others else None,
        )
    if scenario and not any(_fits(place, scenario) for place in places):
        valid = dict.fromkeys(_name_of(place) for place in places)
        raise UnknownName("scenario", scenario, valid, "in --scenario")


def _fits(place: Place, scenario: str) -> bool:
    """Whether the machine and every value that the scenario names are those of the place."""
    machine, *values = [part.strip() for part in scenario.split(",")]
    there = {f"{name}={value}" for name, value in place[1].items()}
    return machine == place[0] and all(value.replace(" ", "") in there for value in values)


def _name_of(place: Place) -> str:
    return ",".join([place[0], *(f"{name}={value}" for name, value in place[1].items())])


def _place(record: RunRecord) -> Place:
    return record.machine, record.varied


def _scenario_text(record: RunRecord) -> str:
    varied = [f"{name} = {value}" for name, value in record.varied.items()]
    return ", ".join([f"{record.workload} on {record.machine}", *varied, f"seed {record.seed}"])


def _smallness(place: tuple[Panel, ScenarioRuns]) -> tuple:
    """Few policies missing, few CPUs but more than one, and then as the experiment orders them."""
    panel, cell = place
    return -len(cell.runs), panel.nr_cpus == 1, panel.nr_cpus or 0


def _best_and_worst(cell: ScenarioRuns) -> tuple[list[str], str]:
    """Two policies, told apart by the first measure by which any two differ."""
    names = list(cell.runs)
    if len(names) == 1:
        return names, "the only policy"
    for what, measure in _MEASURES.items():
        values = {name: _mean(cell.runs[name], measure) for name in names}
        if None in values.values():
            continue
        best, worst = min(names, key=values.get), max(names, key=values.get)
        if values[worst] > (1 + THRESHOLD) * values[best]:
            return [best, worst], f"lowest and highest {what} there"
    return names[:2], "the first two, which nothing tells apart there"


def _mean(records: Sequence[RunRecord], measure: Callable[[Mapping], float | None]) -> float | None:
    values = [measure(record.result) for record in records]
    return None if None in values else sum(values) / len(values)


def _unfairness(result: Mapping) -> float:
    return 1 / max(result["jain_fairness"], 1e-9)


def _p99_ns(result: Mapping) -> float | None:
    return result["wakeup_latency_ns"]["p99"] if sleeps(result) else None


# In the order in which they are looked at.
_MEASURES: Mapping[str, Callable[[Mapping], float | None]] = {
    "makespan": lambda result: result["makespan_ns"],
    "number of missed deadlines": lambda result: result.get("deadline_misses"),
    "99th percentile of wake-up latency": _p99_ns,
    "unfairness (the inverse of Jain's index)": _unfairness,
}


def _beginning(cell: Cell) -> dict:
    """The result of a run cut short once it has more stays than a figure takes."""
    until_ns = FIRST_NS
    while True:
        at_most_ns = min(until_ns, cell.until_ns or until_ns)
        outcome = simulate_cell(replace(cell, until_ns=at_most_ns), timeline=True)
        if outcome.result is None or outcome.result.get("timeline") is None:
            raise NoTimeline(f"no timeline: {outcome.fault or outcome.result['error']['message']}")
        is_over = outcome.result["status"] != "stopped" or at_most_ns < until_ns
        if is_over or len(outcome.result["timeline"]) > STAYS_MAX:
            return outcome.result
        until_ns *= LONGER_FACTOR


def _stays(result: Mapping) -> list[tuple[int, int, int, int]]:
    """Stays in the order in which they began, without those that a figure cannot show."""
    return sorted(tuple(stay) for stay in result["timeline"] if stay[1] > stay[0])


def _full_at_ns(result: Mapping) -> int | None:
    """When the first stay begins that a figure has no room for; None if it takes all."""
    stays = _stays(result)
    return stays[STAYS_MAX][0] if len(stays) > STAYS_MAX else None


def _readable_ns(duration_ns: int) -> int:
    """At least that long, and easily typed: a duration of whole tenths of milliseconds."""
    step_ns = 100_000
    return -(-duration_ns // step_ns) * step_ns
