"""What a store holds, as frames, figures and pages, and what puts measurements into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from schedlab import catalogue, user_file
from schedlab.bench import measuring
from schedlab.bench import suite as suites
from schedlab.bench.request import Request
from schedlab.bench.stored import choose_suite, repetition_rows, write_page
from schedlab.errors import BadValue
from schedlab.experiment import definition, stored
from schedlab.experiment.definition import VmChoice
from schedlab.notebook.answers import Comparison, runs_frame
from schedlab.notebook.frames import RATIO, attributes, frame_of, parameters
from schedlab.notebook.keywords import Path_, chosen_figure, command_line, listed, ours, path_of
from schedlab.race.rows import heat_rows
from schedlab.shown import print_note
from schedlab.store.heats import Heats
from schedlab.store.measurements import Measurements
from schedlab.store.runs import DEFAULT_PATH, Store

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects as go

    from schedlab.bench.answers import Answer, CaseRow

T = TypeVar("T")


def open(path: Path_) -> OpenStore:
    """A store that `compare`, `schedlab bench` or `schedlab race` wrote, to read.

    Raises
    ------
    SchedlabError
        If there is none.
    """
    return OpenStore(path)


class OpenStore:
    """A store to read: `runs`, `experiments`, `repetitions` and `heats` are frames.

    `experiment` and `campaigns` give what was asked, with its tables, figures and page.
    """

    @ours
    def __init__(self, path: Path_):
        self.path = path_of(path)
        self._read(lambda kept: None)

    def runs(self) -> pandas.DataFrame:
        """A row a run; see `Comparison.frame`."""
        return self._read(lambda kept: runs_frame(kept.runs()))

    def experiments(self) -> pandas.DataFrame:
        """A row an experiment: id, name, command, asked_at (UTC)."""
        names = ["id", "name", "command", "asked_at"]
        row = attrgetter(*names)
        return self._read(lambda kept: frame_of(list(map(row, kept.experiments())), names))

    @ours
    def experiment(self, name: str | None = None) -> Comparison:
        """The runs of one experiment, by its name or id; the latest if none is named."""

        def take(kept: Store) -> Comparison:
            one, _ = stored.choose_experiment(kept, name)
            records = sorted(kept.runs(one.id), key=stored.stored_order(one))
            asked = definition.of_definition(one.definition)
            return Comparison(asked, records, self.path, one.command, one.definition)

        return self._read(take)

    @ours
    def repetitions(self, suite: str | None = None) -> pandas.DataFrame:
        """A row a repetition of a benchmark, of one suite or of all.

        Columns are what was measured (value, in unit) and where, the case's parameters as numbers,
        what else the machine did meanwhile (times in ns), and the machine as environment.NAME.
        Warm-ups and failures are there: status is "ok" of what counts, unless warm_up.
        """

        def take(kept: Store) -> pandas.DataFrame:
            measured = Measurements(kept)
            has_any = suite is not None or measured.campaigns()
            return frame_of(repetition_rows(measured, suite) if has_any else [])

        return self._read(take)

    @ours
    def campaigns(self, suite: str | None = None) -> Campaigns:
        """All that was measured of a suite, of the latest if none is named."""
        return Campaigns(self.path, suite)

    def heats(self) -> pandas.DataFrame:
        """A row a round of each structure in each heat of the run-queue race.

        Columns are as in `schedlab race --json`; ticks_per_loop and pace are of the round, in ticks
        of clock.
        """
        return self._read(lambda kept: frame_of(heat_rows(Heats(kept).all())))

    def _read(self, take: Callable[[Store], T]) -> T:
        with Store(self.path, read_only=True) as kept:
            return take(kept)

    def __repr__(self) -> str:
        return f"<schedlab store {self.path}>"


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

    Parameters
    ----------
    suite : str or path
        A name of the catalogue or a file.
    policies : str or sequence of str, optional
        Policies that take turns through sched_ext, "kernel" being the kernel's own scheduler; by
        default whatever schedules now.
    on : what `vm` gives, or a sequence of these
        Kernels in virtual machines of one size; by default this machine.
    label : str
        What this is, where kernel and scheduler do not tell.
    repeat : int, optional
        Repetitions of each case, in a virtual machine of each boot; by default the suite's.
    until : str, optional
        Stop when a mean is known so well, as in "1%".
    boots : int, optional
        How often each kernel is booted.
    size : str
        How much each program is given to do: "quick" or "full".
    only : sequence of str
        Names of benchmarks; all if there are none.
    seed : int
        Of the order.
    again : bool
        Measure another series although the last one is complete.
    store : str or path
        Keeps every repetition; what it has already is not measured again.
    progress : bool
        Show on a terminal, or in a notebook, how far it is, and warn on standard error of what
        makes results worse.

    Returns
    -------
    Campaigns
        All that the store has of the suite; its `outcome` is what this call came to.

    Raises
    ------
    SchedlabError
        If something that is named is not there, cannot be measured, or somebody measures already.
    KeyboardInterrupt
        As it comes, once standard error has what is kept; the same call goes on from there.
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


class Campaigns:
    """All that the store at `path` has of one suite: machines, kernels, schedulers.

    `outcome` is what `measure` came to: whether it is complete, and what failed; None of what was
    read from a store.
    """

    def __init__(self, path: Path, suite: str | None, outcome: measuring.Measured | None = None):
        self.path = path
        self.outcome = outcome
        with Store(path, read_only=True) as kept:
            campaigns = Measurements(kept).campaigns()
            self.suite = choose_suite(campaigns, suite, path, print_note)[-1].suite

    def frame(self) -> pandas.DataFrame:
        """A row a repetition; see `OpenStore.repetitions`."""
        return OpenStore(self.path).repetitions(self.suite)

    def table(self) -> pandas.DataFrame:
        """A row a case and what it was measured under.

        Columns are case, its parameters as numbers, setup, unit, runs and failed; median with its
        95 % interval (low, high); and against the first setup of the case: ratio of times with its
        interval (ratio_low, ratio_high), p for all comparisons, and verdict.
        """
        from schedlab.bench.answers import answers

        rows = self._rows()
        against = {(id(one.row), one.setup): one for one in answers(rows)}
        return frame_of(
            [
                {"case": row.name, **parameters(row.values)}
                | {"setup": row.names[setup], "unit": row.unit}
                | {"runs": len(sample.values), "failed": sample.nr_failed}
                | attributes(sample.estimate, {"median": "median", "low": "low", "high": "high"})
                | _against(against.get((id(row), setup)))
                for row in rows
                for setup, sample in row.samples.items()
            ]
        )

    @ours
    def figure(self, case: str | None = None) -> go.Figure:
        """All repetitions of one case in each setup; of the first if none is named.

        Runs, boxes, and Tukey and Kramer's circles of all pairs.
        """
        from schedlab.bench.figures import oneway_figure
        from schedlab.report.figures import looks_of

        drawn = {}
        for row in self._rows():
            samples = {row.names[of]: one.values for of, one in row.samples.items() if one.values}
            if samples:
                looks = looks_of(list(row.names.values()))
                drawn.setdefault(row.name, oneway_figure(samples, looks, row.unit))
        return chosen_figure("case", case, drawn)

    @ours
    def report(self, path: Path_) -> Path:
        """Writes the page that `schedlab report --suite` writes, and gives its path."""
        path = path_of(path)
        user_file.refuse_unwritable(path, self.path)
        with Store(self.path, read_only=True) as kept:
            write_page(kept, self.suite, path, print_note)
        return path

    def _rows(self) -> list[CaseRow]:
        from schedlab.bench import answers

        with Store(self.path, read_only=True) as kept:
            measured = Measurements(kept)
            chosen = choose_suite(measured.campaigns(), self.suite, self.path)
            return answers.rows(measured, chosen)

    def __repr__(self) -> str:
        return f"<schedlab measurements of {self.suite} in {self.path}>"

    def _repr_html_(self) -> str:
        return self.table().to_html(index=False, float_format="{:.4g}".format)


def _against(answer: Answer | None) -> dict[str, Any]:
    """One setup against the first; nothing is known of the first itself."""
    row = attributes(answer and answer.pair.ratio, RATIO)
    return row | {"p": answer and answer.p_table, "verdict": answer and answer.word}
