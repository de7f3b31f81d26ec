"""What `import schedlab` offers to notebooks and scripts: a question a call.

A policy, machine or workload is a name of the catalogue or a path, as on the command line. Every
error of the user's is a `SchedlabError`, whose `hint` tells a way out. Frames are pandas', figures
Plotly's. Everything is loaded when it is asked for, so that `import schedlab` takes a moment.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab import catalogue, values
from schedlab.errors import BadValue, refuse_unknown
from schedlab.experiment import conformance, definition, making, run_table, until_clear
from schedlab.experiment import vm as machines_of_vm
from schedlab.experiment.cells import expand
from schedlab.experiment.definition import REPEATS, Experiment, VmChoice
from schedlab.notebook.answers import Check, Comparison, Groups, Run, frame_of
from schedlab.notebook.keywords import Path_, command_line, listed, ours, path_of
from schedlab.store.runs import DEFAULT_PATH, Store

if TYPE_CHECKING:
    import pandas

Tunables = Mapping[str, Any]


@ours
def policies() -> pandas.DataFrame:
    """The shipped policies: name, idea, source, tunables and tunable sets.

    One that cannot be compiled is left out, with a warning.
    """
    rows = catalogue.policy_rows(lambda error: warnings.warn(str(error), stacklevel=4))
    return frame_of(list(rows))


@ours
def machines() -> pandas.DataFrame:
    """The shipped machines: name, cpus, hz (clock ticks a second), description, source."""
    return frame_of(list(catalogue.machine_rows()))


@ours
def workloads() -> pandas.DataFrame:
    """The shipped workloads: name, description, source, and the parameters of each."""
    return frame_of(list(catalogue.workload_rows()))


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
    watch: Sequence[str] = (),
    cpus: int | None = None,
    kernel: str | None = None,
    **parameters: Any,
) -> Run:
    """Simulates one policy once.

    policy, workload, machine: names of the catalogue or files; a policy also with a set, as in
        "cfs@2.6.31"
    seed: of all random numbers
    tunables: values of the policy's tunables: numbers, truth values, or texts such as "6ms"
    until: begin nothing after this simulated time, as in "9.3s"
    timeline: keep every stay of a task on a CPU, for `Run.timeline` and `Run.figure`
    watch: numbers of the policy's to follow, for `Run.watched` and `Run.figure`: "NAME",
        "NAME.FIELD", "NAME[3]", "MAP[KEY].FIELD"
    cpus: so many CPUs instead of those that the machine has
    kernel: release of Linux whose sched_ext the policy finds: "6.12", "6.18" or "7.3"; by default
        what any of them has
    parameters: the workload's, as in groups=25

    Raises SchedlabError if something that is named is not there, or has a value that cannot be.
    """
    asked = {"policies": [policy], "workload": workload, "machine": [machine], "seed": seed}
    asked |= {"cpus": _plain(cpus), "kernel": kernel}
    asked |= {"set": tunables, "until": until, "with": parameters}
    return _one_run(asked, timeline, watch=listed(watch))


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
    watch: Sequence[str] = (),
    **parameters: Any,
) -> Run:
    """Runs one policy once on a real kernel in a virtual machine, `on` what `vm` gives.

    Parameters and errors are those of `simulate`; needs QEMU, clang and a kernel, see
    `schedlab doctor`.
    """
    on = on or vm()
    if not isinstance(on, VmChoice) or len(on.cpus) != 1:
        raise BadValue("on", on, "is not one virtual machine", "give vm(cpus=2)")
    asked = {"policies": [policy], "workload": workload, "vm": on, "seed": seed}
    asked |= {"set": tunables, "until": until, "with": parameters}
    return _one_run(asked, timeline, watch=listed(watch))


def _one_run(given: Mapping[str, Any], timeline: bool, **how: Any) -> Run:
    [cell] = expand(_asked(given))
    record = making.make_one(cell, timeline=timeline, **how)
    if record.status == "failed":
        run_table.report_failures([record])
    return Run(record)


@ours
def vm(
    cpus: int | str | Sequence[int | str] = machines_of_vm.DEFAULT_CPUS,
    kernel: str | None = None,
    deterministic: bool = False,
) -> VmChoice:
    """Virtual machines to run on.

    cpus: CPUs, or N,SOCKETS,CORES,THREADS; of several machines, those of each
    kernel: one of `schedlab kernels list`; by default the newest that takes policies
    deterministic: a clock that counts instructions, so that runs repeat exactly
    """
    several = list(map(str, listed(cpus)))
    return machines_of_vm.choice("vm", kernel, several, deterministic, [])


@ours
def compare(
    policies: Path_ | Sequence[Path_] | Mapping[str, Path_],
    workload: Path_,
    machines: Path_ | Sequence[Path_] | VmChoice,
    *,
    vary: Mapping[str, Iterable[Any]] | None = None,
    repeat: int = REPEATS,
    until: str | None = None,
    repeat_max: int | None = None,
    seed: int = 1,
    tunables: Mapping[str, Tunables] | None = None,
    store: Path_ = DEFAULT_PATH,
    processes: int | None = None,
    progress: bool = True,
    cpus: int | None = None,
    kernel: str | None = None,
    **parameters: Any,
) -> Comparison:
    """Compares policies: a grid of policies, machines, varied parameters and repetitions.

    policies: the first is what the others are compared with; a mapping gives them labels of
        letters, digits and _ . + -
    machines: simulated ones, or what `vm` gives: real kernels in virtual ones
    vary: parameter of the workload, "POLICY.TUNABLE", or "cpus" for the size of the machines -> its
        values, as in {"groups": range(25, 101, 25)}
    repeat, seed: runs of each policy in each scenario, with seeds `seed`, `seed` + 1 …
    until: a percentage, as in "1%": add seeds where a policy is not clearly faster, slower or the
        same as the first by so much, up to `repeat_max` (100) runs, and none where it is
    tunables: policy's label -> tunable -> value
    store: keeps every finished run; runs that are in it are not made again
    processes: runs at a time; by default one a CPU, and one in virtual machines that do not count
        instructions
    progress: show on a terminal, or in a notebook, how far it is, and say on standard error which
        runs failed
    cpus, kernel: of simulated machines, as in `simulate`
    parameters: the workload's, as in groups=25

    Raises SchedlabError as `simulate`, and KeyboardInterrupt after Ctrl-C, which says how many runs
    are kept; the same call goes on from there.
    """
    on = machines if isinstance(machines, VmChoice) else None
    if isinstance(policies, Mapping):
        for label in policies:
            if not definition.LABEL.fullmatch(str(label)):
                raise BadValue("policies", label, "is no label", "take letters, digits and _ . + -")
        policies = [f"{label}={policy}" for label, policy in policies.items()]
    given = {"policies": listed(policies), "workload": workload, "vm": on, "vary": vary}
    given |= {"machine": [] if on else listed(machines), "with": parameters, "set": tunables}
    for name, value in {"cpus": cpus, "kernel": kernel}.items():
        if on and value is not None:
            raise BadValue(name, value, "is for simulated machines", f"give vm({name}=…)")
    given |= {"repeat": repeat, "seed": seed, "cpus": _plain(cpus), "kernel": kernel}
    given |= {"until_ci": until, "repeat_max": _plain(repeat_max)}
    asked = _asked(given)
    labelled = [f"{choice.label}={choice.policy}" for choice in asked.policies]
    return Question(asked, labelled, _options(asked)).run(store, processes, progress)


@dataclass(eq=False, repr=False)
class Question:
    """An experiment as a file has it; `run` makes its runs."""

    asked: Experiment
    """Policies, machines, workload, what is varied, repetitions."""
    _words: Sequence[str]
    _options: Mapping[str, Any]

    @ours
    def run(
        self, store: Path_ = DEFAULT_PATH, processes: int | None = None, progress: bool = True
    ) -> Comparison:
        """Makes the runs that the store does not have; see `compare`."""
        command = command_line(["compare", *self._words], self._options, store)
        asked, path = self.asked, path_of(store)
        cells, jobs = expand(asked), machines_of_vm.jobs(processes, asked.vm)
        with Store(path) as kept:
            made = making.begin(asked, cells, kept, command)
            try:
                if asked.until_ci is None:
                    made.make_runs(jobs, quiet=not progress)
                else:
                    until_clear.make_runs(made, jobs, quiet=not progress)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"{made.count_kept()} of {len(made.cells)} runs are kept in {path};"
                    " the same call goes on from there"
                ) from None
        if progress:
            run_table.report_failures([one for one in made.records if one.status == "failed"])
        return Comparison(asked, made.records, path, command, asked.definition)

    def __repr__(self) -> str:
        return f"<schedlab experiment {self.asked.name or self.asked.id}: {self.asked.title}>"


@ours
def read_experiment(name: Path_) -> Question:
    """An experiment of the catalogue, or of a file: `read_experiment("demo").run()`."""
    path = catalogue.find(catalogue.EXPERIMENTS, str(name))
    asked = definition.build({"repeat": REPEATS} | definition.read_options(path))
    return Question(asked, [], {"--experiment": str(name)})


def _options(asked: Experiment) -> dict[str, Any]:
    """What asks for the same on the command line."""
    vm = asked.vm
    return {
        "--workload": asked.workload,
        "--machine": asked.machines,
        "--on": vm and "vm",
        "--kernel": vm and vm.kernel,
        "--cpus": vm.cpus if vm else asked.cpus,
        "--deterministic": vm and vm.deterministic,
        "--vary": [f"{name}={','.join(map(str, of))}" for name, of in asked.varied.items()],
        "--with": [f"{name}={value}" for name, value in asked.parameters.items()],
        "--set": [
            f"{label}.{name}={value}"
            for label, of in asked.tunables.items()
            for name, value in of.items()
        ],
        "--repeat": asked.repeats,
        "--until-ci": asked.until_ci and f"{100 * asked.until_ci:g}%",
        "--repeat-max": asked.repeat_max,
        "--seed": asked.seed,
    }


def _asked(given: Mapping[str, Any]) -> Experiment:
    """As `definition.build`, of values as Python has them; `until` stands for `until_ns`."""
    vary, tunables = given.get("vary") or {}, given.get("set") or {}
    for what, mapping in (("vary", vary), ("tunables", tunables)):
        if not isinstance(mapping, Mapping):
            raise BadValue(what, mapping, "is no mapping", "give {NAME: ...}")
    until = given.get("until")
    if until is not None and not isinstance(until, str):
        raise BadValue("until", until, "is not a time", 'give a text such as "9.3s"')
    machines, policies = given.get("machine", ()), given["policies"]
    named = {"machine": machines, "policy": policies, "workload": [given["workload"]]}
    for place, one in ((place, one) for place, several in named.items() for one in several):
        if not isinstance(one, str | Path):
            raise BadValue(place, one, "is neither a name nor a path")
    settings = {str(label): _texts(of) for label, of in tunables.items() if isinstance(of, Mapping)}
    if bare := {name: of for name, of in tunables.items() if not isinstance(of, Mapping)}:
        settings[""] = _texts(bare)
    return definition.build(
        {
            "policies": list(map(str, policies)),
            "workload": str(given["workload"]),
            "machine": list(map(str, machines)),
            "vm": given.get("vm"),
            "vary": {name: _values(name, of) for name, of in vary.items()},
            "with": _texts(given["with"]),
            "set": settings,
            "repeat": _plain(given.get("repeat", 1)),
            **{name: given.get(name) for name in ("until_ci", "repeat_max")},
            "seed": _plain(given["seed"]),
            "cpus": given.get("cpus"),
            "kernel": given.get("kernel"),
            "until_ns": None if until is None else values.parse_duration_ns("until", until),
        }
    )


def _values(name: str, given: Iterable[Any]) -> tuple[values.Value, ...]:
    hint = "give several values, as in {'groups': [1, 2, 4]} or range(25, 101, 25)"
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise BadValue(f"vary {name}", given, "is one value", hint)
    if not (texts := [_text(value) for value in given]):
        raise BadValue(f"vary {name}", given, "has no value", hint)
    return values.distinct_values(f"vary {name}", texts)


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, and whole ones as integers."""
    value = value.item() if hasattr(value, "item") else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _text(value: Any) -> str:
    """A value as an option has it."""
    value = _plain(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _texts(given: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(value) for name, value in given.items()}


@ours
def check(
    policy: Path_,
    *,
    seeds: int = conformance.SEEDS,
    orders: int = conformance.ORDERS,
    only: Sequence[str] = (),
    verifier: bool = True,
    tunables: Tunables | None = None,
    processes: int | None = None,
    progress: bool = True,
) -> Check:
    """Whether a policy does what every policy must, and what it promises.

    All is simulated, but that a kernel is asked whether it takes the policy.

    seeds, orders: random scenarios to try, and orders of simultaneous events in each small one
    only: names of scenarios, "random" or "verifier"; all if there are none
    verifier: also ask the newest kernel at hand, in a virtual machine, if it takes the policy
    tunables: values of the policy's tunables
    processes: scenarios at a time; by default one a CPU
    progress: show on a terminal, or in a notebook, how far it is

    Raises SchedlabError if the policy is not there, cannot be compiled, or does not begin anywhere,
    and KeyboardInterrupt as it comes; nothing of a check is kept.
    """
    settings = [f"{name}={text}" for name, text in _texts(tunables or {}).items()]
    tried = {"seeds": _plain(seeds), "orders": _plain(orders), "only": listed(only)}
    tried["verifier"] = verifier
    found, violations = conformance.check(
        str(policy), settings, **tried, jobs=processes, quiet=not progress
    )
    return Check(found.as_json(violations))


@ours
def compare_groups(
    groups: Mapping[str, Sequence[float]] | Iterable[tuple[Any, Sequence[float]]],
    *,
    baseline: str | None = None,
    method: str | None = None,
    **options: Any,
) -> Groups:
    """Tests which of several samples differ, each from `baseline`, or without one from each other.

    groups: name -> positive times in one unit, one a run in the order in which they were made, or
        pairs of both; pandas' `frame.groupby("policy")["value"]` too
    method: the test, such as "Tukey-Kramer", which the study of 2012 used; by default one is
        picked, and `Groups.comparison.why` says which and why
    options: threshold, blocks, occasions; see `schedlab.statistics.evidence.compare_groups`

    Raises SchedlabError if a sample has no value or one that is no time, or a name is not known.
    """
    from schedlab.statistics import evidence

    samples = _samples(groups)
    if method is not None:
        known = {str(one): one for one in evidence.Method}
        refuse_unknown("method", [method], known)
        options["method"] = known[method]
    return Groups(samples, evidence.compare_groups(samples, baseline=baseline, **options))


def _samples(groups: Any) -> dict[str, list[float]]:
    """Numbers by the name of their sample, of what `compare_groups` takes."""
    hint = (
        "give {NAME: [TIME, ...]}, as in {'cfs': [1.2, 1.3], 'bfs': [1.1, 1.2]}, or pairs of both"
    )
    try:
        pairs = groups.items() if hasattr(groups, "items") else groups
        samples = {str(name): [float(value) for value in sample] for name, sample in pairs}
    except (TypeError, ValueError) as error:
        raise BadValue("groups", groups, "is no mapping of names to numbers", hint) from error
    if not samples:
        raise BadValue("groups", groups, "has no sample", hint)
    return samples
