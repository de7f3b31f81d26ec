"""Which task ran where, for a pair of runs: chooses them, and simulates their beginning again.

A run is a pure function, so what a store leaves out, because it is large, is made again when
somebody wants to look at it: only as much as fits into a figure.
"""

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from schedlab import catalogue
from schedlab.errors import BadValue, NoTimeline, SchedlabError, UnknownName, refuse_unknown
from schedlab.experiment.cells import Cell
from schedlab.experiment.sweep import simulate_cell
from schedlab.store.runs import RunRecord

if TYPE_CHECKING:
    from schedlab.experiment.study import ScenarioRuns, Study

# A machine's name and what was varied there.
Place = tuple[str, Mapping[str, object]]

# Stays of one run in a figure: a browser still draws and zooms them without delay.
STAYS_MAX = 2_000
# A run is simulated for so long, then so much longer, until it has enough stays or ends.
FIRST_NS = 1_000_000
LONGER_FACTOR = 4
# The command below a figure asks for whole tenths of milliseconds, which are easily typed.
COMMAND_STEP_NS = 100_000
# A machine has fewer; what is beyond those of a scenario is said when it is looked at.
ANY_CPUS = 1 << 20


@dataclass(frozen=True)
class Wish:
    """What a timeline is to show: labels of two policies, and MACHINE or MACHINE,NAME=VALUE...
    Without policies it shows the fastest and the slowest, without a scenario a small one. `watch`
    are numbers of the policies' to draw, as expressions; `of_file` those that the experiment's file
    asks for, where `watch` names none."""

    policies: Sequence[str] = ()
    scenario: str = ""
    watch: Sequence[str] = ()
    of_file: Sequence[str] = ()

    @property
    def numbers(self) -> Sequence[str]:
        """The numbers to draw."""
        return self.watch or self.of_file

    def __bool__(self) -> bool:
        return bool(self.policies or self.scenario or self.watch)

    def refuse_unknown(self, labels: Sequence[str], places: Sequence[Place]) -> None:
        """Raises UnknownName or BadValue for what is not in an experiment, or one policy twice."""
        refuse_unknown("policy", self.policies, labels, "in --timeline")
        if len(set(self.policies)) < len(self.policies):
            why = "is one policy twice, and a pair is drawn to compare two"
            others = ", ".join(label for label in labels if label not in self.policies)
            hint = f"name another beside it: {others}" if others else None
            raise BadValue("--timeline", " ".join(self.policies), why, hint)
        if self.scenario and not any(map(self.fits, places)):
            valid = [
                ",".join([machine, *(f"{name}={value}" for name, value in varied.items())])
                for machine, varied in places
            ]
            raise UnknownName("scenario", self.scenario, dict.fromkeys(valid), "in --scenario")

    def fits(self, place: Place) -> bool:
        """Whether the machine and every value that the scenario names are those of the place."""
        machine, *values = [part.strip() for part in self.scenario.split(",")]
        there = {f"{name}={value}" for name, value in place[1].items()}
        return machine == place[0] and all(value.replace(" ", "") in there for value in values)


ANY = Wish()


@dataclass(frozen=True)
class RunPair:
    """Runs to look at, in one scenario and of one seed; `why` these policies, for a caption."""

    records: Sequence[RunRecord]
    why: str


@dataclass(frozen=True, slots=True)
class PlayedRun:
    """Who ran where under one policy: stays are (start_ns, end_ns, cpu, pid), names by pid, and the
    numbers that were followed, as a result has them."""

    policy: str
    nr_cpus: int
    stays: Sequence[tuple[int, int, int, int]]
    names: Mapping[int, str]
    makespan_ns: int
    watched: Sequence[Mapping] = ()


@dataclass(frozen=True, slots=True)
class Timelines:
    """The first `until_ns` of runs that differ in nothing but their policy.

    `scenario` and `why` say for a caption what was run and why these policies; `is_whole` whether
    the runs end within `until_ns`; `commands` print the whole of each run.
    """

    scenario: str
    why: str
    until_ns: int
    is_whole: bool
    runs: Sequence[PlayedRun]
    commands: Sequence[str]


def of_study(
    study: "Study",
    cells: Callable[[], Sequence[Cell]],
    wish: Wish = ANY,
    tell: Callable[[str], None] = lambda note: None,
) -> Timelines | None:
    """Timelines of a pair of simulated runs; None, which `tell` is told, if nobody wished any and
    there is none.

    `cells` gives the cells of the experiment, which are asked for last. Raises UnknownName or
    BadValue as `Wish.refuse_unknown`, and NoTimeline if there is none of what was wished.
    """
    try:
        pair = choose(study, wish)
        try:
            asked = cells()
        # A file that the experiment names is gone, or no longer what it was.
        except (SchedlabError, catalogue.native().NativeError) as error:
            raise NoTimeline(f"no timeline: its runs cannot be repeated here: {error}") from error
        return record_timelines(pair, asked, wish.numbers)
    except NoTimeline as error:
        # Whether there are runs to follow numbers of, `followed` says.
        if wish.policies or (wish.scenario and not wish.watch):
            raise
        tell(f"note: {error}")
        return None


def chosen_cell(study: "Study", wish: Wish = ANY) -> "ScenarioRuns":
    """The runs of the scenario to look at; raises as `of_study`."""
    cells = [(panel, cell) for panel in study.panels for cell in panel.cells if cell.runs]
    firsts = [next(iter(cell.runs.values()))[0] for _, cell in cells]
    places = [(first.machine, first.varied) for first in firsts]
    wish.refuse_unknown(study.policies, places)
    cells = [
        (panel, cell)
        for (panel, cell), place in zip(cells, places, strict=True)
        if (not wish.scenario or wish.fits(place)) and cell.runs.keys() >= set(wish.policies)
    ]
    if not cells:
        raise NoTimeline("no timeline: these policies have no completed run in one scenario")
    if not wish.scenario:
        # Few policies missing, few CPUs but more than one, then as the experiment orders them.
        cells.sort(key=lambda two: (-len(two[1].runs), two[0].nr_cpus == 1, two[0].nr_cpus or 0))
    return cells[0][1]


def choose(study: "Study", wish: Wish = ANY) -> RunPair:
    """The runs to look at; raises as `of_study`."""
    cell = chosen_cell(study, wish)
    policies, why = wish.policies, "the policies asked for"
    if not policies:
        order = sorted(cell.makespan, key=lambda policy: cell.makespan[policy].mean)
        policies, why = [order[0], order[-1]], "lowest and highest mean makespan there"
        if len(order) == 1:
            policies, why = order, "the only policy"
    seed = min(record.seed for record in cell.runs[policies[0]])
    records = [next((r for r in cell.runs[p] if r.seed == seed), None) for p in policies]
    if None in records:
        raise NoTimeline(f"no timeline: not all of {', '.join(policies)} completed seed {seed}")
    if any(record.measured_on for record in records):
        raise NoTimeline("no timeline: runs on a real kernel are not repeated for a report")
    return RunPair(records, why)


def record_timelines(pair: RunPair, cells: Sequence[Cell], watch: Sequence[str] = ()) -> Timelines:
    """Simulates the beginning of both runs again, until the first of them has filled its figure;
    below each are the numbers of `watch` that its policy has.

    Raises NoTimeline if `cells` no longer has these runs, because a file or schedlab itself has
    changed.
    """
    cells = cells_of(pair.records, cells)
    results = [_beginning(cell, watch) for cell in cells]
    # In the order in which they began, without those that a figure cannot show.
    of_runs = [sorted(tuple(s) for s in result["timeline"] if s[1] > s[0]) for result in results]
    end_ns = max(record.result["elapsed_ns"] for record in pair.records)
    full_ns = [stays[STAYS_MAX][0] for stays in of_runs if len(stays) > STAYS_MAX]
    until_ns = min(full_ns, default=end_ns)
    runs = [
        PlayedRun(
            record.policy,
            result["nr_cpus"],
            [(a, min(b, until_ns), cpu, pid) for a, b, cpu, pid in stays if a < until_ns],
            {int(pid): name for pid, name in result["timeline_names"].items()},
            record.result["makespan_ns"],
            result.get("watched") or (),
        )
        for record, result, stays in zip(pair.records, results, of_runs, strict=True)
    ]
    first, typed_ns = pair.records[0], math.ceil(until_ns / COMMAND_STEP_NS) * COMMAND_STEP_NS
    commands = [f"{cell.replay(typed_ns)} --timeline" for cell in cells]
    return Timelines(place_text(first), pair.why, until_ns, until_ns == end_ns, runs, commands)


def cells_of(records: Sequence[RunRecord], cells: Sequence[Cell]) -> list[Cell]:
    """The cells that runs were made of. Raises NoTimeline if one is not among `cells`, because a
    file or schedlab itself has changed."""
    by_key = {cell.key: cell for cell in cells}
    for record in records:
        if record.key not in by_key:
            raise NoTimeline(
                f"no timeline: the run of {record.policy} was made with other files, or by another"
                " schedlab, than are here now"
            )
    return [by_key[record.key] for record in records]


def place_text(run: RunRecord) -> str:
    """What a run is of, but for its policy."""
    varied = [f"{name} = {value}" for name, value in run.varied.items()]
    return ", ".join([f"{run.workload} on {run.machine}", *varied, f"seed {run.seed}"])


def numbers_of(cell: Cell, expressions: Sequence[str]) -> list[str]:
    """Those of the numbers that the cell's policy has."""
    if not expressions or not cell.policy.path:
        return []
    native, policy = catalogue.native(), catalogue.load_policy(cell.policy.path)
    found = []
    for expression in expressions:
        with contextlib.suppress(native.PolicyError):
            policy.refuse_unknown([expression], ANY_CPUS)
            found.append(expression)
    return found


def _beginning(cell: Cell, watch: Sequence[str]) -> dict:
    """The result of a run cut short once it has more stays than a figure takes."""
    until_ns, watched = FIRST_NS, numbers_of(cell, watch)
    while True:
        at_most_ns = min(until_ns, cell.until_ns or until_ns)
        short = replace(cell, until_ns=at_most_ns)
        outcome = simulate_cell(short, timeline=True, watch=watched)
        if outcome.result is None or outcome.result.get("timeline") is None:
            raise NoTimeline(f"no timeline: {outcome.fault or outcome.result['error']['message']}")
        is_over = outcome.result["status"] != "stopped" or at_most_ns < until_ns
        if is_over or len(outcome.result["timeline"]) > STAYS_MAX:
            return outcome.result
        until_ns *= LONGER_FACTOR
