"""What `import schedlab` offers to notebooks and scripts: a question a call.

A policy, machine or workload is a name of the catalogue or a path, as on the command line. Every
error of the user's is a `SchedlabError`, whose `hint` tells a way out. Frames are pandas', figures
Plotly's. Everything is loaded when it is asked for, so that `import schedlab` takes a moment.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab import catalogue, values
from schedlab.answers import Check, Comparison, OpenStore, Path_, Run, frame_of, ours, path_of
from schedlab.errors import BadValue
from schedlab.experiment import conformance, definition, making, table
from schedlab.experiment import vm as machines_of_vm
from schedlab.experiment.cells import expand
from schedlab.experiment.definition import Experiment, VmChoice
from schedlab.store.runs import DEFAULT_PATH, Store

if TYPE_CHECKING:
    import pandas


Tunables = Mapping[str, Any]


# ---- what there is ------------------------------------------------------------------------------


@ours
def policies() -> pandas.DataFrame:
    """The shipped policies.

    Returns
    -------
    DataFrame
        A row a policy: name, idea, source, tunables and tunable sets. One that cannot be compiled
        is left out, with a warning.
    """
    return frame_of(catalogue.policy_rows(lambda error: warnings.warn(str(error), stacklevel=4)))


@ours
def machines() -> pandas.DataFrame:
    """The shipped machines: name, cpus, hz (clock ticks a second), description, source."""
    return frame_of(catalogue.machine_rows())


@ours
def workloads() -> pandas.DataFrame:
    """The shipped workloads: name, description, source, and the parameters of each."""
    return frame_of(catalogue.workload_rows())


# ---- one run ------------------------------------------------------------------------------------


@ours
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


@ours
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
    if not isinstance(on, VmChoice) or len(on.cpus) != 1:
        raise BadValue("on", on, "is not one virtual machine", "give vm(cpus=2)")
    return _one_run([policy], workload, [], on, seed, tunables, until, timeline, parameters)


@ours
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


@ours
def compare(
    policies: Path_ | Sequence[Path_] | Mapping[str, Path_],
    workload: Path_,
    machines: Path_ | Sequence[Path_] | VmChoice,
    *,
    vary: Mapping[str, Iterable[Any]] | None = None,
    repeat: int = 5,
    seed: int = 1,
    tunables: Mapping[str, Tunables] | None = None,
    store: Path_ = DEFAULT_PATH,
    processes: int | None = None,
    quiet: bool = False,
    **parameters: Any,
) -> Comparison:
    """Compares policies: a grid of policies, machines, varied parameters and repetitions.

    Parameters
    ----------
    policies : str, path, sequence of these, or mapping
        The first is what the others are compared with; a mapping gives them labels of letters,
        digits and _ . + -.
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
    processes : int, optional
        Runs at a time; by default one a CPU, and one in virtual machines that do not count
        instructions.
    quiet : bool
        No progress, and no word of failed runs, on standard error.
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
    for label in policies if isinstance(policies, Mapping) else ():
        if not definition.LABEL.fullmatch(str(label)):
            raise BadValue("policies", label, "is no label", "take letters, digits and _ . + -")
    if isinstance(policies, Mapping):
        policies = [f"{label}={policy}" for label, policy in policies.items()]
    elif isinstance(policies, str | Path):
        policies = [policies]
    asked = _asked(policies, workload, named, on, vary, parameters, tunables, repeat, seed)
    return _made(asked, _command(asked, store), store, processes, quiet)


class Question:
    """An experiment as a file has it; `run` makes its runs.

    Attributes
    ----------
    asked : Experiment
        Policies, machines, workload, what is varied, repetitions.
    """

    def __init__(self, asked: Experiment, name: str):
        self.asked = asked
        self._command = shlex.join(["schedlab", "compare", "--experiment", name])

    @ours
    def run(
        self, store: Path_ = DEFAULT_PATH, processes: int | None = None, quiet: bool = False
    ) -> Comparison:
        """Makes the runs that the store does not have; see `compare`."""
        return _made(self.asked, self._command, store, processes, quiet)

    def __repr__(self) -> str:
        return f"<schedlab experiment {self.asked.name or self.asked.id}: {self.asked.title}>"


@ours
def read_experiment(name: Path_) -> Question:
    """An experiment of the catalogue, or of a file: `read_experiment("demo").run()`."""
    path = catalogue.find(catalogue.EXPERIMENTS, str(name))
    asked = definition.build({"repeat": 5} | definition.read_options(path))
    return Question(asked, str(name))


def _made(
    asked: Experiment, command: str, store: Path_, processes: int | None, quiet: bool
) -> Comparison:
    cells, jobs = expand(asked), machines_of_vm.jobs(processes, asked.vm)
    with Store(path_of(store)) as kept:
        comparison = making.begin(asked, cells, kept, command)
        comparison.make_runs(jobs, quiet)
    if not quiet:
        table.report_failures([one for one in comparison.records if one.status == "failed"])
    return Comparison(asked, comparison.records, path_of(store), command)


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
    for what, value in (("vary", vary), ("tunables", tunables)):
        if not isinstance(value or {}, Mapping):
            raise BadValue(what, value, "is no mapping", "give {NAME: ...}")
    if until is not None and not isinstance(until, str):
        raise BadValue("until", until, "is not a time", 'give a text such as "9.3s"')
    for place, given in (("machine", machines), ("policy", policies), ("workload", [workload])):
        for one in given:
            if not isinstance(one, str | Path):
                raise BadValue(place, one, "is neither a name nor a path")
    texts = {str(label): of for label, of in (tunables or {}).items() if isinstance(of, Mapping)}
    bare = {name: of for name, of in (tunables or {}).items() if not isinstance(of, Mapping)}
    if bare:
        texts[""] = bare
    return definition.build(
        {
            "policies": [str(policy) for policy in policies],
            "workload": str(workload),
            "machine": [str(machine) for machine in machines],
            "vm": on,
            "vary": {name: _values(name, of) for name, of in (vary or {}).items()},
            "with": {name: _text(value) for name, value in parameters.items()},
            "set": {
                label: {name: _text(value) for name, value in of.items()}
                for label, of in texts.items()
            },
            "repeat": _plain(repeat),
            "seed": _plain(seed),
            "until_ns": None if until is None else values.parse_duration_ns("until", until),
        }
    )


def _values(name: str, given: Iterable[Any]) -> tuple[values.Value, ...]:
    """The values of a varied parameter; none twice, which would count each run twice."""
    hint = "give several values, as in {'groups': [1, 2, 4]} or range(25, 101, 25)"
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise BadValue(f"vary {name}", given, "is one value", hint)
    several = tuple(values.parse_value(_text(value)) for value in given)
    if not several:
        raise BadValue(f"vary {name}", given, "has no value", hint)
    if len(set(several)) < len(several):
        raise BadValue(f"vary {name}", list(several), "holds a value twice")
    return several


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, and whole ones as integers."""
    value = value.item() if hasattr(value, "item") else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _text(value: Any) -> str:
    """A value as an option has it."""
    value = _plain(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _command(asked: Experiment, store: Path_) -> str:
    """What asks for the same on the command line."""
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
    words += ["--store", str(store)] if Path(store) != DEFAULT_PATH else []
    return shlex.join(words)


# ---- checks, stores and statistics --------------------------------------------------------------


@ours
def check(
    policy: Path_,
    *,
    seeds: int = conformance.SEEDS,
    tunables: Tunables | None = None,
    processes: int | None = None,
) -> Check:
    """Whether a policy does what every policy must, and what it promises; all simulated.

    Parameters
    ----------
    policy : str or path
    seeds : int
        Random scenarios to try.
    tunables : mapping, optional
        Values of the policy's tunables.
    processes : int, optional
        Scenarios at a time; by default one a CPU.
    """
    settings = [f"{name}={_text(value)}" for name, value in dict(tunables or {}).items()]
    asked = {"seeds": _plain(seeds), "jobs": processes}
    found, violations = conformance.check(str(policy), settings, **asked)
    return Check(found.as_json(violations))


def open(path: Path_) -> OpenStore:
    """A store that `compare`, `schedlab bench` or `schedlab race` wrote, to read."""
    return OpenStore(path)


@ours
def compare_groups(
    groups: Mapping[str, Sequence[float]], *, baseline: str | None = None, **options: Any
):
    """Tests which of several samples differ, each from `baseline`, or without one from each other.

    `options` and what comes of it are those of `schedlab.statistics.evidence.compare_groups`.
    """
    from schedlab.statistics import evidence

    return evidence.compare_groups(groups, baseline=baseline, **options)
