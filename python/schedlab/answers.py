"""What comes of a question: runs, comparisons, checks and stores, as frames, figures and pages."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab import catalogue, user_file
from schedlab.errors import BadValue, SchedlabError
from schedlab.experiment.cells import expand
from schedlab.experiment.definition import Experiment
from schedlab.store.heats import StoredHeat, kept_heats
from schedlab.store.runs import RunRecord, Store

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects as go

    from schedlab.experiment.study import ScenarioRuns, Study

Path_ = str | Path
# Options of the command line, and those whose keyword here has another name.
OPTION = re.compile(r"--(with |set|vary|repeat|seeds?|cpus|kernel|store|jobs|orders)\b")
KEYWORDS = {"with ": "", "set": "tunables", "jobs": "processes"}


def ours(function: Callable) -> Callable:
    """Makes every error that a user can cause a `SchedlabError` that speaks of keywords."""

    @functools.wraps(function)
    def asked(*arguments, **options):
        try:
            return function(*arguments, **options)
        except SchedlabError as error:
            error.args = tuple(map(_keywords, map(str, error.args)))
            error.hint = error.hint and _keywords(error.hint)
            raise
        except catalogue.native().NativeError as error:
            message, _, hint = str(error).partition("\nhint: ")
            raise SchedlabError(_keywords(message), _keywords(hint) or None) from error

    return asked


def _keywords(text: str) -> str:
    """A text about options, of the keywords that stand for them here."""
    text = text.replace("add --on vm to run on a real kernel", "give vm() for a real kernel")
    text = text.replace(" (--vary)", "").replace(" (--with)", "")
    return OPTION.sub(lambda option: KEYWORDS.get(option[1], option[1]), text)


class Run:
    """One run of a policy.

    Attributes
    ----------
    record : RunRecord
        What was run and what came of it; `record.result` is as docs/reference/result.md has it.
    """

    def __init__(self, record: RunRecord):
        self.record = record

    @property
    def status(self) -> str:
        """How it ended: completed, stopped or failed."""
        return self.record.status

    @property
    def result(self) -> Mapping[str, Any]:
        """All that was measured, times in nanoseconds; see docs/reference/result.md."""
        return self.record.result

    @property
    def _names(self) -> dict[int, str]:
        """The tasks' names by pid, of a run with a timeline."""
        return {int(pid): name for pid, name in self.result["timeline_names"].items()}

    def frame(self) -> pandas.DataFrame:
        """One row: what ran, its parameters, and every number of the result."""
        return _runs_frame([self.record])

    def timeline(self) -> pandas.DataFrame:
        """Every stay of a task on a CPU, in the order of their beginnings.

        Returns
        -------
        DataFrame
            Columns start_ns, end_ns, cpu, pid and task (its name).

        Raises
        ------
        SchedlabError
            If the run was made without `timeline=True`.
        """
        if self.result.get("timeline") is None:
            if self.status == "failed":
                raise SchedlabError(f"this run has no timeline: {self.result['error']['message']}")
            raise SchedlabError("this run has no timeline", "simulate(..., timeline=True)")
        frame = frame_of(self.result["timeline"], ["start_ns", "end_ns", "cpu", "pid"])
        return frame.assign(task=frame["pid"].map(self._names)).sort_values(
            "start_ns", ignore_index=True
        )

    def figure(self) -> go.Figure:
        """Which task ran where: a bar a stay, a row a CPU; of a run with `timeline=True`."""
        from schedlab.experiment.timeline_figure import timeline_figure
        from schedlab.experiment.timelines import PlayedRun, Timelines
        from schedlab.report.figures import looks_of

        stays = list(self.timeline()[["start_ns", "end_ns", "cpu", "pid"]].itertuples(index=False))
        if not stays:
            raise SchedlabError("there is nothing to draw: no task ran")
        policy, nr_cpus = self.record.policy, self.result["nr_cpus"]
        run = PlayedRun(policy, nr_cpus, stays, self._names, self.result["makespan_ns"])
        shown = Timelines("", "", max(stay[1] for stay in stays), True, [run], [])
        return timeline_figure(shown, looks_of([policy]))

    def __repr__(self) -> str:
        record = self.record
        return (
            f"<schedlab run: {record.policy} with {record.workload} on {record.machine},"
            f" seed {record.seed}: {self.status}>"
        )

    def _repr_html_(self) -> str:
        return self.frame().T.to_html(header=False)


class Comparison:
    """What came of an experiment: `frame`, `table`, `figure`, `report`.

    Attributes
    ----------
    asked : Experiment
        The question.
    records : list of RunRecord
        All runs, in the order of the question.
    store : Path
        What keeps them.
    command : str
        What asks for the same on the command line.
    """

    def __init__(self, asked: Experiment, records: Sequence[RunRecord], store: Path, command: str):
        self.asked = asked
        self.records = list(records)
        self.store = store
        self.command = command

    @functools.cached_property
    def study(self) -> Study:
        """Estimates and comparisons, cell by cell."""
        from schedlab.experiment.study import study_of

        return study_of(self.records)

    def frame(self) -> pandas.DataFrame:
        """A row a run: what ran, all parameters, every number of its result (times in ns)."""
        return _runs_frame(self.records)

    def table(self) -> pandas.DataFrame:
        """A row a place and policy, with the estimates.

        Returns
        -------
        DataFrame
            Columns machine, what was varied, policy, runs and failed (how many of them did not
            complete), makespan and its 95 % interval (low, high), unit, and against the first
            policy: ratio, ratio_low, ratio_high, p and verdict. What is not known is NaN.
        """
        study = self.study
        cells = {
            _place(record): cell
            for panel in study.panels
            for cell in panel.cells
            for runs in cell.runs.values()
            for record in runs
        }
        groups: dict[tuple, list[RunRecord]] = {}
        for record in self.records:
            groups.setdefault((_place(record), record.policy), []).append(record)
        return frame_of(
            [_estimates(study, cells.get(place), records) for (place, _), records in groups.items()]
        )

    @ours
    def figure(self, machine: str | None = None) -> go.Figure:
        """Makespan with its 95 % interval: curves over what was varied, else dots.

        `machine` says of which, with the values of what is no axis, as in "osdl-2, pipe = true"; by
        default the first.
        """
        from schedlab.experiment.figures import makespan_figures
        from schedlab.report.figures import looks_of

        study = self.study
        drawn = {
            panel.name: figure
            for panel, figure in makespan_figures(study, looks_of(study.policies))
        }
        if not drawn:
            raise SchedlabError("there is nothing to draw: no run completed")
        if machine is not None and machine not in drawn:
            known = "; ".join(map(repr, drawn))
            raise BadValue("machine", machine, "has no figure", f"give one of {known}")
        return drawn[machine or next(iter(drawn))]

    @ours
    def report(self, path: Path_) -> Path:
        """Writes the page that `schedlab compare --report` writes, and gives its path."""
        from schedlab.experiment import page, timelines
        from schedlab.experiment.answer import answer_of

        path, asked = path_of(path), self.asked
        user_file.refuse_unwritable(path, self.store)
        answer = answer_of(asked.definition, self.command, self.records)
        page.write(path, answer, timelines.of_study(answer.study, lambda: expand(asked)))
        return path

    def __repr__(self) -> str:
        policies = ", ".join(choice.label for choice in self.asked.policies)
        failed = sum(record.status == "failed" for record in self.records)
        told = f", {failed} failed" if failed else ""
        return f"<schedlab comparison of {policies}: {len(self.records)} runs{told}>"

    def _repr_html_(self) -> str:
        return self.table().to_html(index=False, float_format="{:.4g}".format)


class Check:
    """What `check` found.

    Attributes
    ----------
    found : mapping
        As `schedlab check --json` prints it.
    """

    def __init__(self, found: Mapping[str, Any]):
        self.found = found

    @property
    def violations(self) -> list[dict]:
        """What is violated: check, what in a sentence, seed, and a command that shows it."""
        return self.found["violations"]

    def frame(self) -> pandas.DataFrame:
        """A row a property: check, property, verdict, what was measured and its limit."""
        return frame_of(self.found["rows"])

    def __repr__(self) -> str:
        return f"<schedlab check of {self.found['policy']}: {len(self.violations)} violations>"

    def _repr_html_(self) -> str:
        return self.frame().to_html(index=False)


class OpenStore:
    """A store to read: `runs`, `experiments`, `repetitions`, `heats`, each as a frame."""

    @ours
    def __init__(self, path: Path_):
        self.path = path_of(path)
        with Store(self.path, read_only=True):
            pass

    def runs(self) -> pandas.DataFrame:
        """A row a run, as `schedlab export` writes them."""
        return self._read(lambda kept: _runs_frame(kept.runs()))

    def experiments(self) -> pandas.DataFrame:
        """A row an experiment: id, name, command, asked_at (UTC)."""
        names = ["id", "name", "command", "asked_at"]
        return self._read(
            lambda kept: frame_of(
                [[getattr(one, n) for n in names] for one in kept.experiments()], names
            )
        )

    def repetitions(self, suite: str | None = None) -> pandas.DataFrame:
        """A row a repetition of a benchmark, of one suite or of all."""
        from schedlab.bench.rows import repetition_rows
        from schedlab.store.measurements import Measurements

        def take(kept: Store) -> pandas.DataFrame:
            measured = Measurements(kept)
            has_any = suite is not None or measured.campaigns()
            return frame_of(repetition_rows(measured, suite) if has_any else [])

        return self._read(take)

    def heats(self) -> pandas.DataFrame:
        """A row a structure of a heat of the run-queue race, with what was measured of it."""
        return self._read(lambda kept: frame_of(_heat_rows(kept_heats(kept))))

    def _read(self, take: Callable[[Store], pandas.DataFrame]) -> pandas.DataFrame:
        with Store(self.path, read_only=True) as kept:
            return take(kept)

    def __repr__(self) -> str:
        return f"<schedlab store {self.path}>"


def _runs_frame(records: Sequence[RunRecord]) -> pandas.DataFrame:
    from schedlab.experiment.rows import run_row

    return frame_of([run_row(record) for record in records])


def _place(record: RunRecord) -> tuple:
    return record.machine, tuple(record.varied.items())


def _estimates(study: Study, cell: ScenarioRuns | None, records: Sequence[RunRecord]) -> dict:
    """One row of `Comparison.table`: the runs of one policy in one place."""
    record = records[0]
    found = cell and cell.makespan.get(record.policy)
    against = cell and cell.comparisons.get(record.policy)
    ratio = against and against.ratio
    return {
        "machine": record.machine,
        **record.varied,
        "policy": record.policy,
        "runs": len(records),
        "failed": sum(one.status != "completed" for one in records),
        "makespan": _number(found and found.mean),
        "low": _number(found and found.low),
        "high": _number(found and found.high),
        "unit": study.unit,
        "ratio": _number(ratio and ratio.ratio),
        "ratio_low": _number(ratio and ratio.low),
        "ratio_high": _number(ratio and ratio.high),
        "p": _number(against and against.p_adjusted),
        "verdict": str(against.verdict) if against else None,
    }


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _heat_rows(heats: Sequence[StoredHeat]) -> list[dict]:
    return [
        {"raced_at": heat.raced_at, "load": heat.load}
        | {name: value for name, value in heat.result.items() if name != "rows"}
        | row
        for heat in heats
        for row in heat.result["rows"]
    ]


def frame_of(rows: Sequence, columns: Sequence[str] | None = None) -> pandas.DataFrame:
    """Rows as a frame; the columns are those of the rows where they are not given."""
    import pandas

    return pandas.DataFrame(rows, columns=columns)


def path_of(path: Path_) -> Path:
    """A path as a shell would have it, which knows whose home ~ is."""
    return Path(path).expanduser()
