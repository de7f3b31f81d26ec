"""What a store holds, as frames, figures and pages, and what puts measurements and races there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab import catalogue
from schedlab.bench import measuring
from schedlab.bench import suite as suites
from schedlab.bench.request import Request
from schedlab.bench.stored import choose_suite, repetition_rows, write_page
from schedlab.digests import attributes, ends
from schedlab.errors import BadValue, refuse_unknown
from schedlab.experiment import definition, stored
from schedlab.experiment.definition import VmChoice
from schedlab.notebook.answers import Comparison, Paged, frame_of, parameters, runs_frame
from schedlab.notebook.keywords import Path_, chosen_figure, command_line, listed, ours, path_of
from schedlab.race import meeting
from schedlab.race.rows import heat_rows
from schedlab.shown import print_note
from schedlab.store.heats import Heats
from schedlab.store.measurements import Measurements
from schedlab.store.runs import DEFAULT_PATH, Store

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects as go

    from schedlab.bench.answers import CaseRow

# Whole numbers that a race takes, and the least of each.
LEAST = {"rounds": 1, "loops": 1, "cpu": 0, "seed": 0}


class OpenStore:
    """A store that `compare`, `schedlab bench` or `schedlab race` wrote, to read.

    `runs`, `experiments`, `repetitions` and `heats` are frames; `experiment` and `campaigns` give
    what was asked, with its tables, figures and page. Raises SchedlabError if there is none.
    """

    @ours
    def __init__(self, path: Path_):
        self.path = path_of(path, "path")
        self._kept().close()

    def _kept(self) -> Store:
        return Store(self.path, read_only=True)

    def runs(self) -> pandas.DataFrame:
        """A row a run; see `Comparison.frame`."""
        with self._kept() as kept:
            return runs_frame(kept.each())

    def experiments(self) -> pandas.DataFrame:
        """A row an experiment: id, name, command, asked_at (UTC)."""
        names = ["id", "name", "command", "asked_at"]
        with self._kept() as kept:
            return frame_of(list(map(attrgetter(*names), kept.experiments())), names)

    @ours
    def experiment(self, name: str | None = None) -> Comparison:
        """The runs of one experiment, by its name or id; the latest if none is named."""
        with self._kept() as kept:
            one, records = stored.choose_experiment(kept, name)
        asked = definition.of_definition(one.definition)
        return Comparison(asked, records, self.path, one.command, one.definition)

    @ours
    def repetitions(self, suite: str | None = None) -> pandas.DataFrame:
        """A row a repetition of a benchmark, of one suite or of all.

        Columns are what was measured (value, in unit) and where, the case's parameters as numbers,
        what else the machine did meanwhile (times in ns), and the machine as environment.NAME.
        Warm-ups and failures are there: status is "ok" of what counts, unless warm_up.
        """
        with self._kept() as kept:
            measured = Measurements(kept)
            has_any = suite is not None or measured.campaigns()
            return frame_of(repetition_rows(measured, suite) if has_any else [])

    @ours
    def campaigns(self, suite: str | None = None) -> Campaigns:
        """All that was measured of a suite, of the latest if none is named."""
        return Campaigns(self.path, suite)

    def heats(self) -> pandas.DataFrame:
        """A row a round of each structure in each heat of the run-queue race.

        Columns are as in `schedlab race --json`; ticks_per_loop and pace are of the round, in ticks
        of clock.
        """
        with self._kept() as kept:
            return frame_of(heat_rows(Heats(kept).all()))

    def __repr__(self) -> str:
        return f"<schedlab store {self.path}>"


open = OpenStore


@ours
def measure(
    suite: Path_,
    *,
    policies: str | Sequence[str] | None = None,
    on: VmChoice | Sequence[VmChoice] = (),
    label: str = "",
    repeat: int | None = None,
    until: str | None = None,
    boots: int | None = None,
    size: str = suites.SIZES[0],
    only: Sequence[str] = (),
    seed: int = 1,
    again: bool = False,
    store: Path_ = DEFAULT_PATH,
    progress: bool = True,
) -> Campaigns:
    """Measures this machine, or kernels in virtual machines, with the programs of a suite.

    suite: a name of the catalogue or a file
    policies: those that take turns through sched_ext, "kernel" being the kernel's own scheduler; by
        default whatever schedules now
    on: what `vm` gives, or several: kernels in virtual machines of one size; by default this
        machine
    label: what this is, where kernel and scheduler do not tell
    repeat: repetitions of each case, in a virtual machine of each boot; by default the suite's
    until: stop when a mean is known so well, as in "1%"
    boots: how often each kernel is booted
    size: how much each program is given to do: "quick" or "full"
    only: names of benchmarks; all if there are none
    seed: of the order
    again: measure another series although the last one is complete
    store: keeps every repetition; what it has already is not measured again
    progress: show on a terminal, or in a notebook, how far it is, and warn on standard error of
        what makes results worse

    Gives all that the store has of the suite; its `outcome` is what this call came to. Raises
    SchedlabError if something that is named is not there, cannot be measured, or somebody measures
    already, and KeyboardInterrupt as it comes, once standard error has what is kept; the same call
    goes on from there.
    """
    machines = [on] if isinstance(on, VmChoice | str) else list(on)
    for machine in machines:
        if not isinstance(machine, VmChoice):
            raise BadValue("on", machine, "is no virtual machine", "give vm(cpus=2)")
    if until is not None and not isinstance(until, str):
        raise BadValue("until", until, "is no share of a mean", 'give a text such as "1%"')
    cpus = sorted({text for machine in machines for text in machine.cpus})
    if len(cpus) > 1:
        raise BadValue("on", cpus, "are machines of several sizes", "measure them one by one")
    if any(machine.deterministic for machine in machines):
        why = "counts instructions, which take no time"
        raise BadValue("on", "deterministic", why, "leave out")
    asked = {"until": until, "label": label, "repeat": repeat, "boots": boots, "size": size}
    asked |= {"only": tuple(listed(only)), "seed": seed, "again": again}
    if policies is not None:
        asked["policies"] = policies if isinstance(policies, str) else ",".join(policies)
    if machines:
        asked |= {"on": "vm", "cpus": cpus[0]}
        asked["kernels"] = [machine.kernel for machine in machines if machine.kernel]
        if len(machines) > 1 and len(asked["kernels"]) < len(machines):
            raise BadValue("on", machines, "names no kernel", 'name each: vm(kernel="6.18")')
    request = Request(suites.read(catalogue.find(catalogue.SUITES, str(suite))), **asked)
    options = {"until": "until-ci", "kernels": "kernel"}
    given = {f"--{options.get(name, name)}": value for name, value in asked.items()}
    command = command_line(["bench", str(suite)], given, store)
    made = measuring.measured(request, path_of(store), command=command, quiet=not progress)
    with made as outcome:
        return Campaigns(path_of(store), request.suite.name, outcome)


class Campaigns(Paged):
    """All that a store has of one suite: machines, kernels, schedulers.

    `outcome` is what `measure` came to: whether it is complete, and what failed; None of what was
    read from a store.
    """

    def __init__(self, store: Path, suite: str | None, outcome: measuring.Measured | None = None):
        self.path = self.store = store
        self.outcome = outcome
        with Store(store, read_only=True) as kept:
            campaigns = Measurements(kept).campaigns()
            self.suite = choose_suite(campaigns, suite, store, print_note)[-1].suite

    def frame(self) -> pandas.DataFrame:
        """A row a repetition; see `OpenStore.repetitions`."""
        return OpenStore(self.store).repetitions(self.suite)

    def table(self) -> pandas.DataFrame:
        """A row a case and what it was measured under.

        Columns are case, its parameters as numbers, setup, unit, runs and failed; median with its
        95 % interval (low, high); and against the first setup of the case: ratio of times with its
        interval (ratio_low, ratio_high), p for all comparisons, and verdict.
        """
        from schedlab.bench import answers

        cases, rows = self._rows(), []
        against_first = {(id(one.row), one.setup): one for one in answers.answers(cases)}
        for case, setup, sample in answers.samples(cases):
            against = against_first.get((id(case), setup))
            rows.append(
                {"case": case.name, **parameters(case.values)}
                | {"setup": case.names[setup], "unit": case.unit}
                | {"runs": len(sample.values), "failed": sample.nr_failed}
                | attributes(sample.estimate, "median", "low", "high")
                | ends("ratio", against and against.pair.ratio, "ratio")
                | {"p": against and against.p_table, "verdict": against and against.word}
            )
        return frame_of(rows)

    @ours
    def figure(self, case: str | None = None) -> go.Figure:
        """All repetitions of one case in each setup; of the first if none is named.

        Runs, boxes, and Tukey and Kramer's circles of all pairs.
        """
        from schedlab.bench.figures import oneway_figure
        from schedlab.report.figures import looks_of

        drawn = {}
        for row in self._rows():
            if values := row.by_name:
                looks = looks_of(list(row.names.values()))
                drawn.setdefault(row.name, oneway_figure(values, looks, row.unit))
        return chosen_figure("case", case, drawn)

    def _write_page(self, path: Path) -> None:
        with Store(self.store, read_only=True) as kept:
            write_page(kept, self.suite, path, print_note)

    def _rows(self) -> list[CaseRow]:
        from schedlab.bench import answers

        with Store(self.store, read_only=True) as kept:
            measured = Measurements(kept)
            chosen = choose_suite(measured.campaigns(), self.suite, self.store)
            return answers.rows(measured, chosen)

    def __repr__(self) -> str:
        return f"<schedlab measurements of {self.suite} in {self.store}>"


@ours
def race_queues(
    n: int | Sequence[int] = (),
    *,
    workloads: str | Sequence[str] = (),
    structures: str | Sequence[str] = (),
    files: Path_ | Sequence[Path_] = (),
    again: bool = False,
    store: Path_ = DEFAULT_PATH,
    progress: bool = True,
    **options: Any,
) -> Race:
    """Races run queues on this machine: which one is fastest at your size?

    n: items in a queue; by default the sizes published in 2007
    workloads: what the queues are put through; by default the loop of 2007
    structures: who takes part; by default all
    files: queues of your own, in C or C++ or compiled, which are native code with your rights
    again: race also what the store has
    store: keeps every heat; what it has is not raced again
    progress: show on a terminal, or in a notebook, how far it is
    options: keys, peers, full, loops, rounds, order, cpu, seed, trace, queue; see
        `schedlab.race.meeting.Options`

    Raises SchedlabError if something that is named is not there, or no heat can be raced, and
    KeyboardInterrupt as it comes, once standard error has what is kept; the same call goes on from
    there.
    """
    refuse_unknown("keyword", options, meeting.Options.__dataclass_fields__)
    for name, value in options.items():
        is_left_out = value is None and name in ("cpu", "loops")
        is_number = isinstance(value, Integral) and value >= LEAST.get(name, value)
        if name in LEAST and not is_left_out and not is_number:
            raise BadValue(name, value, f"is not a whole number from {LEAST[name]} on")
    trace = options.get("trace")
    asked = {
        "sizes": [int(size) if isinstance(size, Integral) else size for size in listed(n)],
        "workloads": listed(workloads),
        "structures": listed(structures),
        "files": [path_of(path, "files") for path in listed(files)],
        **options,
        "keys": listed(options.get("keys", ())),
        "trace": None if trace is None else path_of(trace, "trace"),
    }
    names = {"sizes": "-n", "workloads": "--workload", "structures": "--structure"}
    names["files"] = "--with"
    given = {names.get(name, f"--{name}"): value for name, value in asked.items()}
    command, path = command_line(["race"], given, store), path_of(store)
    raced = meeting.race(meeting.Options(**asked), path, command, again, quiet=not progress)
    return Race(raced, path, command)


@dataclass(eq=False, repr=False)
class Race(Paged):
    """Heats of the run-queue race."""

    meeting: meeting.Meeting
    """The heats, the machine, and what could not be raced."""
    store: Path
    """What keeps them."""
    command: str
    """What asks for the same on the command line."""

    def frame(self) -> pandas.DataFrame:
        """A row a round of each structure in each heat; see `OpenStore.heats`."""
        return frame_of(heat_rows(self.meeting.heats))

    def table(self) -> pandas.DataFrame:
        """A row a heat and structure that took part.

        Columns are workload, keys, n, structure; fewest, and median with its 95 % interval (low,
        high), of the rounds, in unit; is_fastest of the exact structures; and to_fastest, how many
        times as long it takes.
        """
        from schedlab.race import answers, forms

        rows = []
        for standing in answers.standings(self.meeting.heats):
            unit, fastest = forms.unit_of(standing.heat), standing.fastest
            for row in standing.rows.values():
                if row.ticks is not None:
                    compared = answers.compare(row, fastest)
                    rows.append(
                        attributes(standing.heat.spec, "workload", "keys", "n")
                        | attributes(row, "structure", "fewest")
                        | attributes(row.ticks, "median", "low", "high")
                        | {"unit": unit, "is_fastest": row is fastest}
                        | {"to_fastest": compared and compared.ratio}
                    )
        return frame_of(rows)

    @ours
    def figure(self, heats: str | None = None) -> go.Figure:
        """Time over the number of items, both logarithmic; of the first sort of heats, or by name.

        `heats` is what heats of all sizes have in common, as in "hold, uniform keys".
        """
        from schedlab.race import answers, april_2007, forms, page

        machine, then = self.meeting.machine, april_2007.read()
        sorts = forms.by_title(answers.standings(self.meeting.heats))
        drawn = {title: page.figure_of(found, machine, then) for title, found in sorts.items()}
        return chosen_figure("heats", heats, {name: one for name, one in drawn.items() if one})

    def _write_page(self, path: Path) -> None:
        from schedlab.race import page

        page.write(path, self.meeting.heats, self.meeting.machine, self.command)

    def __repr__(self) -> str:
        failed = len(self.meeting.failed)
        told = f", {failed} failed" if failed else ""
        return f"<schedlab race: {len(self.meeting.heats)} heats{told}>"
