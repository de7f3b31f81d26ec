"""What comes of a question: runs, comparisons, samples and checks, as frames, figures and pages.

In a frame numbers are numbers, and the name of a column ends in its unit.
"""

from __future__ import annotations

import dataclasses
import functools
import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab import user_file, values
from schedlab.digests import attributes, ends
from schedlab.errors import SchedlabError
from schedlab.experiment.cells import expand
from schedlab.experiment.definition import Experiment
from schedlab.experiment.run_inside import samples_of
from schedlab.notebook.keywords import Path_, chosen_figure, ours, path_of
from schedlab.store.runs import RunRecord

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects as go

    from schedlab.experiment.answer import Answer
    from schedlab.experiment.metrics import Delays, OfPolicy
    from schedlab.experiment.study import Study
    from schedlab.statistics import evidence

# Of a timeline's rows.
STAY = ["start_ns", "end_ns", "cpu", "pid"]


class Paged:
    """What a notebook shows as its `table`, and `report` writes as a page; `store` keeps it."""

    @ours
    def report(self, path: Path_) -> Path:
        """Writes the page that `--report` of the command writes, and gives its path."""
        path = path_of(path, "path")
        user_file.refuse_unwritable(path, self.store)
        self._write_page(path)
        return path

    def _repr_html_(self) -> str:
        return self.table().to_html(index=False, float_format="{:.4g}".format)


@dataclasses.dataclass(eq=False, repr=False)
class Run:
    """One run of a policy; `record` is what was run and what came of it."""

    record: RunRecord

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
        return {int(pid): name for pid, name in self.result["timeline_names"].items()}

    def frame(self) -> pandas.DataFrame:
        """One row: what ran, its parameters, and every number of the result."""
        return runs_frame([self.record])

    def timeline(self) -> pandas.DataFrame:
        """Every stay of a task on a CPU, in the order of their beginnings.

        Columns are start_ns, end_ns, cpu, pid and task (its name). Raises SchedlabError if the run
        was made without `timeline=True`.
        """
        if self.result.get("timeline") is None:
            if self.status == "failed":
                raise SchedlabError(f"this run has no timeline: {self.result['error']['message']}")
            raise SchedlabError("this run has no timeline", "simulate(..., timeline=True)")
        stays = frame_of(self.result["timeline"], STAY).sort_values("start_ns", ignore_index=True)
        return stays.assign(task=stays["pid"].map(self._names))

    def watched(self) -> pandas.DataFrame:
        """Every change of the numbers that were followed, in the order of their times.

        Columns are expression, at_ns and value, NaN where there was none. Raises SchedlabError if
        the run was made without `watch`.
        """
        if (watched := self.result.get("watched")) is None:
            raise SchedlabError("this run followed no number", 'simulate(..., watch=["NAME"])')
        frame = frame_of(list(samples_of(watched)), ["expression", "at_ns", "value"])
        return frame.sort_values("at_ns", kind="stable", ignore_index=True)

    def figure(self) -> go.Figure:
        """Which task ran where: a bar a stay, a row a CPU; of a run with `timeline=True`. Below
        them a curve for each number that was followed."""
        from schedlab.experiment.timeline_figure import timeline_figure
        from schedlab.experiment.timelines import PlayedRun, Timelines
        from schedlab.report.figures import looks_of

        if not (stays := list(self.timeline()[STAY].itertuples(index=False))):
            raise SchedlabError("there is nothing to draw: no task ran")
        policy, nr_cpus = self.record.policy, self.result["nr_cpus"]
        followed = self.result.get("watched") or ()
        run = PlayedRun(policy, nr_cpus, stays, self._names, self.result["makespan_ns"], followed)
        shown = Timelines("", "", max(stay[1] for stay in stays), True, [run], [])
        return timeline_figure(shown, looks_of([policy])).plotly()

    def __repr__(self) -> str:
        run = self.record
        scenario = f"{run.policy} with {run.workload} on {run.machine}, seed {run.seed}"
        return f"<schedlab run: {scenario}: {self.status}>"

    def _repr_html_(self) -> str:
        return self.frame().T.to_html(header=False)


@dataclasses.dataclass(eq=False, repr=False)
class Comparison(Paged):
    """What came of an experiment.

    `frame` has the runs, `table` their estimates; `fairness`, `interactivity`, `published` and
    `reproduction` what else the report tells, as frames that are empty where it has nothing to
    tell. `figure` draws, `report` writes the page.
    """

    asked: Experiment
    """The question."""
    records: Sequence[RunRecord]
    """All runs, in the order of the question."""
    store: Path
    """What keeps them."""
    command: str
    """What asks for the same on the command line."""
    definition: Mapping[str, Any]
    """The question as a store keeps it, with what others published and claimed."""

    @functools.cached_property
    def answer(self) -> Answer:
        """All that the runs say, as the commands print it."""
        from schedlab.experiment.answer import answer_of

        return answer_of(self.definition, self.command, self.records)

    @property
    def study(self) -> Study:
        """Estimates and comparisons, cell by cell."""
        return self.answer.study

    def frame(self) -> pandas.DataFrame:
        """A row a run: what ran, the parameters of the workload, what else was varied, and every
        number of the result.

        Parameters are numbers, times in nanoseconds (columns such as groups, think_ns and
        cfs.latency_ns); names of results are as in docs/reference/result.md.
        """
        return runs_frame(self.records)

    def table(self) -> pandas.DataFrame:
        """A row a place and policy, with the estimates; what is not known is NaN.

        Columns are machine, what was varied, policy, runs and failed (how many of them did not
        complete), makespan and its 95 % interval (makespan_low, makespan_high), unit, and against
        the first policy: ratio, ratio_low, ratio_high, p and verdict.
        """
        cells = {_place(of[0]): cell for cell in self.study.cells for of in cell.runs.values()}
        groups: dict[tuple, list[RunRecord]] = {}
        for record in self.records:
            groups.setdefault((*_place(record), record.policy), []).append(record)
        rows = []
        for (machine, varied, policy), records in groups.items():
            cell = cells.get((machine, varied))
            row = {"machine": machine, **parameters(dict(varied))}
            row |= {"policy": policy, "runs": len(records), "failed": _nr_failed(records)}
            row |= ends("makespan", cell and cell.makespan.get(policy)) | {"unit": self.study.unit}
            against = cell and cell.comparisons.get(policy)
            row |= ends("ratio", against and against.ratio, "ratio")
            row["p"] = against and against.p_adjusted
            rows.append(row | {"verdict": str(against.verdict) if against else None})
        frame = frame_of(rows)
        numbers = frame.columns[frame.columns.str.match("makespan|ratio|p$")]
        return frame.astype(dict.fromkeys(numbers, float))

    def fairness(self) -> pandas.DataFrame:
        """CPU time that tasks which never sleep got, by nice value, against what weights promise.

        A row a machine, value of what was varied, policy and nice value: count of tasks, promised
        and got (with its 95 % interval) in percent of the CPU time of all of them, error in
        percentage points. See `schedlab.experiment.metrics` for when there is a closed form to hold
        them against.
        """
        rows = []
        for row in self.answer.metrics.shares:
            for one in row.shares:
                share = self._place(row) | attributes(one, "nice", "count")
                share |= {"promised_percent": one.promised} | ends("got_percent", one.got)
                rows.append(share | ends("error_points", one.error))
        return frame_of(rows)

    def interactivity(self) -> pandas.DataFrame:
        """How long woken tasks waited, and what was answered when, or too late.

        A row a machine, value of what was varied, policy and `of`, which is "wake-up" or the name
        of the tasks that release requests: count, percentiles of delays as delay_ns_p50 …
        delay_ns_max with their 95 % intervals, and of requests with deadlines how many there were
        and missed_percent.
        """
        metrics = self.answer.metrics
        rows = [self._place(row) | {"of": "wake-up"} | _delays(row) for row in metrics.latencies]
        for row in metrics.requests:
            late = {"deadlines": row.deadlines and row.deadlines.mean}
            late |= ends("missed_percent", row.missed)
            rows.append(self._place(row) | {"of": row.name} | _delays(row.delays) | late)
        return frame_of(rows)

    def published(self) -> pandas.DataFrame:
        """Times that others published, a row a time, beside what was simulated of it.

        Columns are where, policy, published, simulated (with its 95 % interval), unit and source.
        """
        rows = []
        for one in self.answer.published.values():
            row = {"where": one.where.removeprefix(", "), "policy": one.policy}
            row |= {"published": one.value} | ends("simulated", one.simulated)
            rows.append(row | attributes(one, "unit", "source"))
        return frame_of(rows)

    def reproduction(self) -> pandas.DataFrame:
        """What the runs say of what others claimed, where the experiment's file has claims.

        A row a claim and place: claim, its verdict over all places, why there is none, unit (% or a
        ratio), where, simulated, low, high, published, the bounds at_least and at_most, is_paired,
        and of_place, the verdict in this place.
        """
        rows = []
        for one in self.answer.judged:
            claim = {"claim": one.says, "verdict": str(one.verdict), "why": one.why}
            for place in one.findings:
                verdict = {"of_place": str(place.verdict)}
                rows.append(claim | {"unit": one.unit} | dataclasses.asdict(place) | verdict)
            rows += [] if one.findings else [claim]
        return frame_of(rows)

    @ours
    def figure(self, machine: str | None = None) -> go.Figure:
        """Makespan with its 95 % interval: curves over what was varied, else dots.

        `machine` says of which, with the values of what is no axis, as in "osdl-2, pipe = true"; by
        default the first.
        """
        from schedlab.experiment.figures import makespan_figures
        from schedlab.report.figures import looks_of

        looks = looks_of(self.study.policies)
        drawn = {panel.name: figure for panel, figure in makespan_figures(self.study, looks)}
        if not drawn and any(cell.makespan for panel in self.study.panels for cell in panel.cells):
            hint = "`interactivity()` and `report(PATH)` have what differs, where anything does"
            raise SchedlabError("there is nothing to draw: all runs took the same time", hint)
        return chosen_figure("machine", machine, drawn)

    @ours
    def watched(self, *expressions: str, scenario: str = "") -> pandas.DataFrame:
        """What numbers inside the policies were over time, of one run of each policy that has them,
        which is made again; see `simulate` for expressions. On a real kernel that is another run.

        `scenario` says where, as in "osdl-2,groups=25"; by default in a small one. Columns are
        policy, expression, at_ns and value, NaN where there was none; of a number that changes very
        often, not every change. Raises SchedlabError if no policy has it.
        """
        from schedlab.experiment import followed, timelines

        wish = timelines.Wish(scenario=scenario, watch=expressions)
        seen = followed.of_study(self.study, lambda: expand(self.asked), wish, quiet=True)
        if seen is None:
            raise SchedlabError("no number was named", 'comparison.watched("NAME")')
        rows = [
            (policy, number.expression, at_ns, value)
            for number in seen.numbers
            for policy, samples in number.samples.items()
            for at_ns, value in samples
        ]
        return frame_of(rows, ["policy", "expression", "at_ns", "value"])

    def _write_page(self, path: Path) -> None:
        from schedlab.experiment import followed, page, timelines

        wish = timelines.Wish(of_file=self.asked.watch)
        shown = timelines.of_study(self.study, lambda: expand(self.asked), wish)
        seen = followed.of_study(self.study, lambda: expand(self.asked), wish, quiet=True)
        page.write(path, self.answer, shown, seen)

    def _place(self, row: OfPolicy) -> dict[str, Any]:
        axis = self.study.axis
        varied = {} if axis is None else parameters({axis: row.x})
        return {"machine": row.panel.name, **varied, "policy": row.policy}

    def __repr__(self) -> str:
        policies = ", ".join(choice.label for choice in self.asked.policies)
        failed = _nr_failed(self.records)
        told = f", {failed} failed" if failed else ""
        return f"<schedlab comparison of {policies}: {len(self.records)} runs{told}>"


@dataclasses.dataclass(eq=False, repr=False)
class Groups:
    """Samples that were compared, each with a baseline or each with each."""

    samples: Mapping[str, Sequence[float]]
    comparison: evidence.Comparison
    """All that the tests say: which was made and why, pairs, notes."""

    def frame(self) -> pandas.DataFrame:
        """A row a pair.

        Columns are a, b, ratio of a over b with its 95 % interval (low, high), p raw and p_adjusted
        for all pairs, verdict, method, sizes without unit (hedges_g, cliffs_delta), detectable (the
        smallest relative change that so many runs show) and runs_needed.
        """
        same = ("p_adjusted", "hedges_g", "cliffs_delta", "detectable", "runs_needed")
        rows = []
        for pair in self.comparison.pairs:
            row = attributes(pair, "a", "b") | attributes(pair.ratio, "ratio", "low", "high")
            row |= {"p": pair.ratio.p_value, "verdict": pair.word, "method": str(pair.method)}
            rows.append(row | attributes(pair, *same))
        return frame_of(rows)

    @ours
    def letters(self) -> pandas.DataFrame:
        """Samples by their mean, the largest first, with letters.

        Columns are name, runs, mean, sd and letters: samples that share a letter are not shown to
        differ at the 5 % level, by the test that compared all pairs. Raises SchedlabError if
        samples were compared with a baseline, and not each with each.
        """
        import numpy as np

        letters, rows = self.comparison.letters(), []
        for name, sample in self.samples.items():
            sd = np.std(sample, ddof=1) if len(sample) > 1 else None
            rows.append((name, len(sample), np.mean(sample), sd, letters[name]))
        frame = frame_of(rows, ["name", "runs", "mean", "sd", "letters"])
        return frame.sort_values("mean", ascending=False, ignore_index=True)

    def quantiles(self) -> pandas.DataFrame:
        """A row a sample, a column a probability, as the study of 2012 printed them: type 6."""
        from schedlab.statistics.estimates import QUANTILE_LEVELS
        from schedlab.statistics.variance import quantile_table

        rows = [(name, *row) for name, row in quantile_table(self.samples).items()]
        return frame_of(rows, ["name", *QUANTILE_LEVELS])

    def figure(self, title: str = "") -> go.Figure:
        """All runs, boxes, and Tukey and Kramer's circles of all pairs; `title` is of the axis."""
        from schedlab.bench.figures import oneway_figure
        from schedlab.report.figures import looks_of

        return oneway_figure(self.samples, looks_of(list(self.samples)), title).plotly()

    def __repr__(self) -> str:
        return f"<schedlab comparison of samples {', '.join(self.samples)}>"

    def _repr_html_(self) -> str:
        table = self.frame().to_html(index=False, float_format="{:.4g}".format)
        notes = "".join(f"<br>{html.escape(note)}" for note in self.comparison.notes)
        return f"{table}<p>{html.escape(str(self.comparison.why))}{notes}</p>"


@dataclasses.dataclass(eq=False, repr=False)
class Check:
    """What `check` found, as `schedlab check --json` prints it."""

    found: Mapping[str, Any]

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


def runs_frame(records: Iterable[RunRecord]) -> pandas.DataFrame:
    """A row a run; see `Comparison.frame`."""
    from schedlab.experiment.stored import run_row

    return frame_of([run_row(record) for record in records])


def _nr_failed(records: Sequence[RunRecord]) -> int:
    return sum(record.status != "completed" for record in records)


def _place(record: RunRecord) -> tuple:
    return record.machine, tuple(record.varied.items())


def _delays(row: Delays | None) -> dict[str, Any]:
    """Percentiles as columns; nothing where nothing was delayed."""
    of = dict(row.percentiles) if row else {}
    count = of.pop("count", None)
    columns = {"count": count and count.mean}
    for name, estimate in of.items():
        columns |= ends(f"delay_ns_{name}", estimate)
    return columns


def frame_of(rows: Sequence[Any], columns: Sequence[str] | None = None) -> pandas.DataFrame:
    """A frame of these rows, whose columns are those of the rows unless they are given.

    The texts of a column `parameter.NAME` become numbers in a column NAME, times nanoseconds in
    NAME_ns, `true` and `false` truth values; what else there is stays a text. The column keeps its
    name where NAME is that of another one.
    """
    import pandas

    frame = pandas.DataFrame(rows, columns=columns)
    names = {}
    for column in frame.columns:
        if str(column).startswith(values.PARAMETER):
            texts = values.Texts()
            frame[column].dropna().map(str).map(texts.see)
            read, unit = texts.reader()
            frame[column] = frame[column].map(lambda text, read=read: read(str(text)), "ignore")
            name = column.removeprefix(values.PARAMETER).removesuffix(unit) + unit
            names[column] = column if name in frame.columns else name
    return frame.rename(columns=names)


def parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as the columns of a row of `frame_of`."""
    return {f"{values.PARAMETER}{name}": value for name, value in given.items()}
