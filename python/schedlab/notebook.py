"""What `import schedlab` offers to notebooks and scripts: a question a call.

A policy, machine or workload is a name of the catalogue or a path, as on the command line; errors
are `SchedlabError` with a `hint`. Frames are pandas', figures Plotly's. Everything is loaded when
it is asked for, so that `import schedlab` takes a moment.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab import catalogue, values
from schedlab.errors import BadValue, SchedlabError
from schedlab.experiment import definition, making
from schedlab.experiment import vm as machines_of_vm
from schedlab.experiment.cells import expand
from schedlab.experiment.definition import Experiment, VmChoice
from schedlab.store.runs import DEFAULT_PATH, RunRecord, Store

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects as go

    from schedlab.experiment.study import Study

Tunables = Mapping[str, Any]
Path_ = str | Path
SIMULATOR = "simulator"


# ---- what there is ------------------------------------------------------------------------------


def policies() -> pandas.DataFrame:
    """The shipped policies.

    Returns
    -------
    DataFrame
        A row a policy: name, idea, source, tunables and tunable sets.
    """
    return _frame(catalogue.policy_rows(_refuse))


def machines() -> pandas.DataFrame:
    """The shipped machines and this user's own: name, cpus, hz (ticks a second), description."""
    return _frame(catalogue.machine_rows())


def workloads() -> pandas.DataFrame:
    """The shipped workloads: name, description, source, and the parameters of each."""
    return _frame(catalogue.workload_rows())


def _refuse(error: Exception) -> None:
    raise error


# ---- one run ------------------------------------------------------------------------------------


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
            raise SchedlabError("this run has no timeline", "simulate(..., timeline=True)")
        names = {int(pid): name for pid, name in self.result["timeline_names"].items()}
        frame = _frame(self.result["timeline"], ["start_ns", "end_ns", "cpu", "pid"])
        return frame.assign(task=frame["pid"].map(names)).sort_values("start_ns", ignore_index=True)

    def figure(self) -> go.Figure:
        """Which task ran where: a bar a stay, a row a CPU; of a run with `timeline=True`."""
        from schedlab.experiment.timeline_figure import PlayedRun, Timelines, timeline_figure
        from schedlab.report.figures import looks_of

        stays = list(self.timeline()[["start_ns", "end_ns", "cpu", "pid"]].itertuples(index=False))
        names = {int(pid): name for pid, name in self.result["timeline_names"].items()}
        policy, nr_cpus = self.record.policy, self.result["nr_cpus"]
        run = PlayedRun(policy, nr_cpus, stays, names, self.result["makespan_ns"])
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


def simulate(
    policy: Path_,
    workload: Path_,
    machine: Path_,
    *,
    seed: int = 1,
    tunables: Tunables | None = None,
    until: str | None = None,
    timeline: bool = False,
    **parameters: Any,
) -> Run:
    """Simulates one policy once.

    Parameters
    ----------
    policy, workload, machine : str or path
        A name of the catalogue or a file; a policy also with a set, as in "cfs@2.6.31".
    seed : int
        Of all random numbers.
    tunables : mapping, optional
        Values of the policy's tunables: numbers, truth values, or texts such as "6ms".
    until : str, optional
        Begin nothing after this simulated time, as in "9.3s".
    timeline : bool
        Keep every stay of a task on a CPU, for `Run.timeline` and `Run.figure`.
    **parameters
        The workload's, as in groups=25.

    Raises
    ------
    SchedlabError
        If something that is named is not there, or has a value that cannot be.

    Notes
    -----
    The policy is native code. It runs in a process of its own, and a policy that crashes or never
    comes back is a run that failed.
    """
    return _one_run(
        [policy], workload, [machine], None, seed, tunables, until, timeline, parameters
    )


def play(
    policy: Path_,
    workload: Path_,
    *,
    on: VmChoice | None = None,
    seed: int = 1,
    tunables: Tunables | None = None,
    until: str | None = None,
    timeline: bool = False,
    **parameters: Any,
) -> Run:
    """Runs one policy once on a real kernel in a virtual machine, `on` what `vm` gives.

    Parameters and errors are those of `simulate`; needs QEMU, clang and a kernel, see
    `schedlab doctor`.
    """
    on = on or vm()
    return _one_run([policy], workload, [], on, seed, tunables, until, timeline, parameters)


def vm(
    cpus: int | str | Sequence[int | str] = machines_of_vm.DEFAULT_CPUS,
    kernel: str | None = None,
    deterministic: bool = False,
) -> VmChoice:
    """Virtual machines to run on.

    Parameters
    ----------
    cpus : int, str or sequence of these
        CPUs, or N,SOCKETS,CORES,THREADS; of several machines, those of each.
    kernel : str, optional
        A kernel of `schedlab kernels list`; by default the newest that takes policies.
    deterministic : bool
        A clock that counts instructions, so that runs repeat exactly.
    """
    several = [cpus] if isinstance(cpus, int | str) else list(cpus)
    return machines_of_vm.choice("vm", kernel, [str(one) for one in several], deterministic, [])


def _one_run(
    policies: Sequence[Path_],
    workload: Path_,
    machines: Sequence[Path_],
    on: VmChoice | None,
    seed: int,
    tunables: Tunables | None,
    until: str | None,
    timeline: bool,
    parameters: Mapping[str, Any],
) -> Run:
    asked = _asked(policies, workload, machines, on, None, parameters, tunables, 1, seed, until)
    [cell] = expand(asked)
    return Run(making.make_one(cell, timeline=timeline))


# ---- comparisons --------------------------------------------------------------------------------


class Comparison:
    """What came of an experiment: `frame`, `table`, `figure`, `report`.

    Attributes
    ----------
    asked : Experiment
        The question.
    records : list of RunRecord
        All runs, in the order of the question.
    """

    def __init__(self, asked: Experiment, records: Sequence[RunRecord]):
        self.asked = asked
        self.records = list(records)

    @property
    def study(self) -> Study:
        """Estimates and comparisons, cell by cell."""
        from schedlab.experiment.study import study_of

        return study_of(self.records)

    def frame(self) -> pandas.DataFrame:
        """A row a run: what ran, all parameters, every number of its result (times in ns)."""
        return _runs_frame(self.records)

    def table(self) -> pandas.DataFrame:
        """A row a cell and policy, with the estimates.

        Returns
        -------
        DataFrame
            Columns machine, what was varied, policy, runs, makespan and its 95 % interval (low,
            high), unit, and against the first policy: ratio, ratio_low, ratio_high, p, verdict.
        """
        study = self.study
        rows = [
            {"machine": panel.name}
            | ({study.axis: cell.x} if study.axis else {})
            | _cell_row(study, cell, policy)
            for panel in study.panels
            for cell in panel.cells
            for policy in cell.makespan
        ]
        return _frame(rows)

    def figure(self, machine: str | None = None) -> go.Figure:
        """Makespan with its 95 % interval: curves over what was varied, else dots.

        `machine` says of which, by the name that `table` has; by default the first.
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
            raise BadValue("machine", machine, "has no figure", f"there are {', '.join(drawn)}")
        return drawn[machine or next(iter(drawn))]

    def report(self, path: Path_) -> Path:
        """Writes the page that `schedlab compare --report` writes, and gives its path."""
        from schedlab.experiment import reporting
        from schedlab.experiment.study import published_beside

        study = self.study
        published = published_beside(self.asked.definition, study)
        told = reporting.Told(
            self.asked.definition,
            _command(self.asked),
            study,
            published,
            lambda: expand(self.asked),
        )
        reporting.write(Path(path), told, None, None, quiet=True)
        return Path(path)

    def __repr__(self) -> str:
        policies = ", ".join(choice.label for choice in self.asked.policies)
        return f"<schedlab comparison of {policies}: {len(self.records)} runs>"

    def _repr_html_(self) -> str:
        return self.table().to_html(index=False, float_format="{:.4g}".format)


def compare(
    policies: Sequence[Path_] | Mapping[str, Path_],
    workload: Path_,
    machines: Path_ | Sequence[Path_] | VmChoice,
    *,
    vary: Mapping[str, Iterable[Any]] | None = None,
    repeat: int = 5,
    seed: int = 1,
    tunables: Mapping[str, Tunables] | None = None,
    store: Path_ = DEFAULT_PATH,
    jobs: int | None = None,
    quiet: bool = False,
    **parameters: Any,
) -> Comparison:
    """Compares policies: a grid of policies, machines, varied parameters and repetitions.

    Parameters
    ----------
    policies : sequence of str or path, or mapping
        The first is what the others are compared with; a mapping gives them labels.
    workload : str or path
    machines : str, path, sequence of these, or what `vm` gives
        Simulated machines, or real kernels in virtual ones.
    vary : mapping, optional
        Workload parameter -> its values, as in {"groups": range(25, 101, 25)}.
    repeat, seed : int
        Runs of each cell, with seeds `seed`, `seed` + 1 …
    tunables : mapping, optional
        Policy's label -> tunable -> value.
    store : str or path
        Keeps every finished run; runs that are in it are not made again.
    jobs : int, optional
        Runs at a time; by default one a CPU, in virtual machines with a clock of their own one.
    quiet : bool
        No progress on standard error.
    **parameters
        The workload's, as in groups=25.

    Raises
    ------
    SchedlabError
        If something that is named is not there, or has a value that cannot be.
    KeyboardInterrupt
        As it comes; the runs that are finished are kept, and the same call goes on from there.
    """
    on = machines if isinstance(machines, VmChoice) else None
    named = [] if on else [machines] if isinstance(machines, str | Path) else list(machines)
    labelled = (
        [f"{label}={policy}" for label, policy in policies.items()]
        if isinstance(policies, Mapping)
        else policies
    )
    asked = _asked(labelled, workload, named, on, vary, parameters, tunables, repeat, seed)
    return _made(asked, store, jobs, quiet)


class Question:
    """An experiment as a file has it; `run` makes its runs.

    Attributes
    ----------
    asked : Experiment
        Policies, machines, workload, what is varied, repetitions.
    """

    def __init__(self, asked: Experiment):
        self.asked = asked

    def run(
        self, store: Path_ = DEFAULT_PATH, jobs: int | None = None, quiet: bool = False
    ) -> Comparison:
        """Makes the runs that the store does not have; see `compare`."""
        return _made(self.asked, store, jobs, quiet)

    def __repr__(self) -> str:
        return f"<schedlab experiment {self.asked.name or self.asked.id}: {self.asked.title}>"


def read_experiment(name: Path_) -> Question:
    """An experiment of the catalogue, or of a file: `read_experiment("demo").run()`."""
    path = catalogue.find(catalogue.EXPERIMENTS, str(name))
    return Question(definition.build({"repeat": 5} | definition.read_options(path)))


def _made(asked: Experiment, store: Path_, jobs: int | None, quiet: bool) -> Comparison:
    cells = expand(asked)
    with Store(Path(store)) as kept:
        comparison = making.begin(asked, cells, kept, _command(asked))
        comparison.make_runs(machines_of_vm.jobs(jobs, asked.vm), quiet)
        return Comparison(asked, comparison.records)


def _asked(
    policies: Sequence[Path_],
    workload: Path_,
    machines: Sequence[Path_],
    on: VmChoice | None,
    vary: Mapping[str, Iterable[Any]] | None,
    parameters: Mapping[str, Any],
    tunables: Mapping[str, Any] | None,
    repeat: int,
    seed: int,
    until: str | None = None,
) -> Experiment:
    texts = {label: of for label, of in (tunables or {}).items() if isinstance(of, Mapping)}
    bare = {name: of for name, of in (tunables or {}).items() if name not in texts}
    if bare:
        texts[""] = bare
    return definition.build(
        {
            "policies": [str(policy) for policy in policies],
            "workload": str(workload),
            "machine": [str(machine) for machine in machines],
            "vm": on,
            "vary": {name: tuple(of) for name, of in (vary or {}).items()},
            "with": {name: _text(value) for name, value in parameters.items()},
            "set": {
                label: {name: _text(value) for name, value in of.items()}
                for label, of in texts.items()
            },
            "repeat": repeat,
            "seed": seed,
            "until_ns": None if until is None else values.parse_duration_ns("until", until),
        }
    )


def _text(value: Any) -> str:
    """A value as an option has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _command(asked: Experiment) -> str:
    """What asks for the same on the command line, as far as that has words for it."""
    words = ["schedlab", "compare"]
    words += [f"{choice.label}={choice.policy}" for choice in asked.policies]
    words += ["--workload", asked.workload]
    for machine in asked.machines:
        words += ["--machine", machine]
    if asked.vm:
        words += ["--on", "vm", *(["--kernel", asked.vm.kernel] if asked.vm.kernel else [])]
        for cpus in asked.vm.cpus:
            words += ["--cpus", cpus]
        words += ["--deterministic"] * asked.vm.deterministic
    for name, several in asked.varied.items():
        words += ["--vary", f"{name}={','.join(map(str, several))}"]
    for name, value in asked.parameters.items():
        words += ["--with", f"{name}={value}"]
    for label, of in asked.tunables.items():
        for name, value in of.items():
            words += ["--set", f"{label}.{name}={value}"]
    words += ["--repeat", str(asked.repeats), "--seed", str(asked.seed)]
    return shlex.join(words)


# ---- checks, stores and statistics --------------------------------------------------------------


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
        return _frame(self.found["rows"])

    def __repr__(self) -> str:
        return f"<schedlab check of {self.found['policy']}: {len(self.violations)} violations>"

    def _repr_html_(self) -> str:
        return self.frame().to_html(index=False)


def check(
    policy: Path_,
    *,
    seeds: int = 1000,
    tunables: Tunables | None = None,
    jobs: int | None = None,
) -> Check:
    """Whether a policy does what every policy must, and what it promises; all simulated.

    Parameters
    ----------
    policy : str or path
    seeds : int
        Random scenarios to try.
    tunables : mapping, optional
        Values of the policy's tunables.
    jobs : int, optional
        Scenarios at a time; by default one a CPU.
    """
    from schedlab.experiment import conformance

    settings = [f"{name}={_text(value)}" for name, value in (tunables or {}).items()]
    found, violations = conformance.check(str(policy), settings, seeds=seeds, jobs=jobs)
    return Check(found.as_json(violations))


class OpenStore:
    """A store to read: `runs`, `experiments`, `repetitions`, `heats`, each as a frame."""

    def __init__(self, path: Path_):
        self.path = Path(path)
        with Store(self.path, read_only=True):
            pass

    def runs(self) -> pandas.DataFrame:
        """A row a run, as `schedlab export` writes them."""
        return self._read(lambda kept: _runs_frame(kept.runs()))

    def experiments(self) -> pandas.DataFrame:
        """A row an experiment: id, name, command, asked_at (UTC)."""
        names = ["id", "name", "command", "asked_at"]
        return self._read(
            lambda kept: _frame(
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
            return _frame(repetition_rows(measured, suite) if has_any else [])

        return self._read(take)

    def heats(self) -> pandas.DataFrame:
        """A row a structure of a heat of the run-queue race, with what was measured of it."""
        return self._read(lambda kept: _frame(list(_heat_rows(kept))))

    def _read(self, take: Callable[[Store], pandas.DataFrame]) -> pandas.DataFrame:
        with Store(self.path, read_only=True) as kept:
            return take(kept)

    def __repr__(self) -> str:
        return f"<schedlab store {self.path}>"


def open(path: Path_) -> OpenStore:
    """A store that `compare`, `schedlab bench` or `schedlab race` wrote, to read."""
    return OpenStore(path)


def compare_groups(groups: Mapping[str, Sequence[float]], **options: Any):
    """Tests which of several samples differ; see `schedlab.statistics.evidence.compare_groups`."""
    from schedlab.statistics import evidence

    return evidence.compare_groups(groups, **options)


def _runs_frame(records: Sequence[RunRecord]) -> pandas.DataFrame:
    from schedlab.experiment.rows import run_row

    return _frame([run_row(record) for record in records])


def _cell_row(study: Study, cell, policy: str) -> dict:
    found, against = cell.makespan[policy], cell.comparisons.get(policy)
    row = {
        "policy": policy,
        "runs": found.n,
        "makespan": found.mean,
        "low": found.low,
        "high": found.high,
        "unit": study.unit,
    }
    if against is None:
        return row
    return row | {
        "ratio": against.ratio.ratio,
        "ratio_low": against.ratio.low,
        "ratio_high": against.ratio.high,
        "p": against.p_adjusted,
        "verdict": str(against.verdict),
    }


def _heat_rows(kept: Store) -> Iterator[dict]:
    if not kept.rows("SELECT name FROM sqlite_schema WHERE name = 'heats'"):
        return
    for heat in kept.rows("SELECT raced_at, load, result FROM heats ORDER BY raced_at"):
        result = json.loads(heat["result"])
        rows = result.pop("rows")
        for row in rows:
            yield {"raced_at": heat["raced_at"], "load": heat["load"], **result, **row}


def _frame(rows: Sequence, columns: Sequence[str] | None = None) -> pandas.DataFrame:
    import pandas

    return pandas.DataFrame(rows, columns=columns)
