"""The runs that an experiment asks for, with every file found, read and digested.

`Grid` turns an experiment into cells: plain values that worker processes can be sent. It holds
policies, machines and workloads against each other, so a wrong name, parameter or tunable, or a CPU
that a machine lacks, is found before anything is simulated.
"""

import functools
import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from schedlab import catalogue
from schedlab.digests import canonical_json
from schedlab.errors import BadValue, ExperimentError, UnknownName, refuse_unknown
from schedlab.experiment import sampling, varying
from schedlab.experiment.definition import (
    CELLS_MAX,
    Experiment,
    PolicyChoice,
    machine_name,
    name_of,
)
from schedlab.experiment.varying import CPUS
from schedlab.kernel import platform as kernel_platform
from schedlab.store.runs import RunKey
from schedlab.values import UNIT_NS, Value, numeric, of_machine, parse_tunable, refuse_duplicates

# The core reads whole numbers of 64 bits.
NUMBER_MAX = 2**63 - 1
DIGITS_MAX = 100
# Workloads, machines and policies with their values that are kept for the next cells.
KEPT_MAX = 4_096


@dataclass(frozen=True)
class ChosenPolicy:
    """A policy of an experiment with every tunable settled.

    `set_values` are what its named set settles, `settings` what --set does on top of that.
    `kernel` is that of a kernel's own scheduler, which has no file; `object` the path of what is
    loaded into a kernel, empty for simulations.
    """

    label: str
    given: str
    name: str
    path: str
    digest: str
    settings: Mapping[str, int]
    tunables: Mapping[str, int]
    kernel: kernel_platform.Kernel | None = None
    object: str = ""
    set_values: Mapping[str, int] = field(default_factory=dict)

    @property
    def changed(self) -> dict[str, int]:
        """Every tunable that does not have its default just because nobody said anything."""
        return {**self.set_values, **self.settings}


@dataclass(frozen=True)
class ChosenMachine:
    """A machine of an experiment: a file, or the platform of a virtual one. `policies` are those
    that the file singles out, as in `hz_by_policy`; `cpus` and `kernel` are what it is to have
    instead of what its file says, or None."""

    given: str
    name: str
    path: str
    digest: str
    nr_cpus: int
    platform: kernel_platform.Platform | None = None
    policies: tuple[str, ...] = ()
    cpus: int | None = None
    kernel: str | None = None


@dataclass(frozen=True)
class ChosenWorkload:
    """A workload with one combination of its varied values: `parameters` are those given."""

    given: str
    name: str
    path: str
    digest: str
    parameters: Mapping[str, str]
    resolved: Mapping[str, str]
    varied: Mapping[str, Value]

    @property
    def weight(self) -> float:
        """A guess of the relative cost of a run: larger varied numbers mean more work."""
        return math.prod(max(1.0, numeric(value) or 1.0) for value in self.varied.values())


@dataclass(frozen=True)
class Cell:
    """One run to do. Plain values only: worker processes rebuild everything from the paths.

    `varied` has the value of each thing that the experiment varies, also of what other policies
    have.
    """

    policy: ChosenPolicy
    machine: ChosenMachine
    workload: ChosenWorkload
    seed: int
    until_ns: int | None
    version: str
    varied: Mapping[str, Value] = field(default_factory=dict)

    @property
    def platform(self) -> kernel_platform.Platform | None:
        """Where it runs, with the kernel that the policy brings along; None if it is simulated."""
        platform, kernel = self.machine.platform, self.policy.kernel
        return platform and (replace(platform, kernel=kernel) if kernel else platform)

    @property
    def key(self) -> RunKey:
        """What decides the result, and so finds it in a store."""
        platform = self.platform
        return RunKey(
            policy_source_digest=self.policy.digest,
            tunables=canonical_json(dict(self.policy.tunables)),
            machine_digest=platform.digest if platform else self.machine.digest,
            workload_digest=self.workload.digest,
            seed=self.seed,
            until_ns=self.until_ns or 0,
            backend=platform.backend if platform else kernel_platform.SIMULATOR,
            version=self.version,
        )

    def say(self) -> str:
        """Which run it is, for a message."""
        varied = "".join(f", {name} = {value}" for name, value in self.varied.items())
        what = f"policy {self.policy.label} with {self.workload.name}{varied}"
        return f"{what} on {self.machine.name}, seed {self.seed}"

    def replay(self, until_ns: int | None = None) -> str:
        """The command that does this run again, for a shell."""
        words = ["schedlab", "run", self.policy.given, "--workload", self.workload.given]
        if platform := self.machine.platform:
            words += ["--on", "vm", "--kernel", platform.kernel.name, "--cpus", platform.cpus]
            words += ["--deterministic"] * platform.deterministic
        else:
            words += ["--machine", self.machine.given]
            words += ["--cpus", str(self.machine.cpus)] if self.machine.cpus else []
            words += ["--kernel", self.machine.kernel] if self.machine.kernel else []
        words += ["--seed", str(self.seed)]
        for name, value in self.workload.parameters.items():
            words += ["--with", f"{name}={value}"]
        for name, value in self.policy.settings.items():
            words += ["--set", f"{name}={value}"]
        if until_ns := until_ns or self.until_ns:
            words += ["--until", duration_text(until_ns)]
        return shlex.join(words)


def duration_text(duration_ns: int) -> str:
    """A time in the largest unit that keeps it exact to three decimals, as --until reads it."""
    for unit in ("s", "ms", "us"):
        number = Decimal(duration_ns) / UNIT_NS[unit]
        if number == round(number, 3):
            return f"{number.normalize():f}{unit}"
    return f"{duration_ns}ns"


def expand(experiment: Experiment) -> list[Cell]:
    """All cells of an experiment, in order; raises as `Grid`, and if they are too many to keep."""
    if experiment.sample:
        why = "the experiment draws a sample, which only `schedlab sweep` does"
        raise ExperimentError(why, "take [sample] out, and write what to compare under [vary]")
    nr_combinations = math.prod(map(len, experiment.varied.values()))
    nr_machines = len(experiment.vm.cpus if experiment.vm else experiment.machines)
    wanted = len(experiment.policies) * nr_machines * nr_combinations * experiment.repeats_most
    if wanted > CELLS_MAX:
        what = f"the experiment has {wanted} runs, more than {CELLS_MAX}"
        less = "repeat less" if experiment.until_ci is None else "give a smaller --repeat-max"
        raise ExperimentError(what, f"vary fewer values, or {less}")
    return list(Grid(experiment))


@dataclass(frozen=True)
class Place:
    """Where a run stands in its experiment, which is known before anything is read."""

    policy: str
    machine: str
    varied: Mapping[str, Value]
    seed: int


class Grid(Sequence[Cell]):
    """The cells of an experiment: machine by machine, and then in the order given.

    Each is made when it is asked for, so there may be any number of them. Compiles every policy
    and reads every file once. Raises SchedlabError or NativeError if a name, file, parameter or
    tunable is wrong; where there are many values and it is only some together, when their cell is
    asked for.
    """

    def __init__(self, experiment: Experiment):
        self._asked = asked = experiment
        self.workload = path = catalogue.find(catalogue.WORKLOADS, asked.workload)
        self._workload_of = _kept(functools.partial(_choose_workload, asked, path))
        labels, known = [choice.label for choice in asked.policies], _parameters(asked, path)
        self._combinations = combinations = varying.Combinations(
            asked.varied, asked.sample, known, labels, asked.workload
        )
        self._combination = _kept(combinations.__getitem__)
        if asked.vm:
            self._refuse_unplayable()
        self.machines = machines = _choose_machines(asked)
        refuse_duplicates("machine", [machine.name for machine in machines])
        changed = functools.partial(_changed, kernel=asked.kernel)
        self._changed = _kept(changed)
        for machine in machines:
            for varied in combinations.probes(KEPT_MAX):
                self._scenario(machine, varied)
        kernel = machines[0].platform and machines[0].platform.kernel
        load = functools.cache(catalogue.load_policy)
        self._policy_of = _kept(functools.partial(_choose_policy, asked, kernel, load))
        self.policies = [self._policy_of(choice, ()) for choice in asked.policies]
        for machine in machines:
            _refuse_unknown_policies(machine, self.policies)
        for choice in asked.policies:
            for varied in combinations.probes(KEPT_MAX):
                self._policy_of(choice, varied.tunables(choice.label))
        self._refuse_equal_values()
        # In a virtual machine the guest plays, whose digest is part of the platform.
        self.version = catalogue.native().version() if asked.vm else catalogue.core_version()

    def __len__(self) -> int:
        nr_policies, nr_machines = len(self._asked.policies), len(self.machines)
        return nr_machines * len(self._combinations) * nr_policies * self._asked.repeats_most

    def __getitem__(self, index: int) -> Cell:
        machine, combination, choice, seed = self._at(index)
        of = self._combination(combination)
        place, workload = self._scenario(machine, of)
        policy = self._policy_of(choice, of.tunables(choice.label))
        return Cell(policy, place, workload, seed, self._asked.until_ns, self.version, of.all)

    def place(self, index: int) -> Place:
        """Where the run stands, without its files: to see in no time whether it is there."""
        machine, combination, choice, seed = self._at(index)
        return Place(choice.label, machine.name, self._combination(combination).all, seed)

    def _at(self, index: int) -> tuple[ChosenMachine, int, PolicyChoice, int]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        index, repetition = divmod(index, self._asked.repeats_most)
        index, policy = divmod(index, len(self._asked.policies))
        machine, combination = divmod(index, len(self._combinations))
        choice = self._asked.policies[policy]
        return self.machines[machine], combination, choice, self._asked.seed + repetition

    def _scenario(
        self, machine: ChosenMachine, of: varying.Combination
    ) -> tuple[ChosenMachine, ChosenWorkload]:
        place = machine if of.cpus is None else self._changed(machine, of.cpus)
        return place, self._workload_of((name_of(place.given), place.nr_cpus), of.parameters)

    def _refuse_unplayable(self) -> None:
        if sizes := [str(of.cpus) for of in self._combinations if of.cpus]:
            hint = f"with --on vm write --cpus {' --cpus '.join(dict.fromkeys(sizes))}"
            raise ExperimentError("--vary cpus is for simulated machines", hint)
        # A guest would refuse too, but only once it has booted, and of its own copy of the file.
        for varied in self._combinations:
            self._workload_of(None, varied.parameters)

    def _refuse_equal_values(self) -> None:
        """A value of a tunable that comes twice, however written, would count runs twice."""
        choices = {choice.label: choice for choice in self._asked.policies}
        for name, values in self._asked.varied.items():
            if name in self._combinations.parameters:
                continue
            label, tunable = varying.tunable_of(name, choices) or ("", "")
            first: dict[int, Value] = {}
            for value in values if label else ():
                settings = self._policy_of(choices[label], ((tunable, value),)).settings
                same = first.setdefault(settings[tunable], value)
                if same != value:
                    raise BadValue(f"--vary {name}", value, f"is the same as {same!r}")


# Neighbours in the order of cells have most in common.
_kept = functools.lru_cache(KEPT_MAX)


def _parameters(experiment: Experiment, path: Path) -> list[str]:
    """Names of the workload's parameters; raises UnknownName if the experiment has others."""
    known = [parameter["name"] for parameter in catalogue.native().workload_parameters(path)]
    given = [experiment.parameters, *experiment.machine_parameters.values()]
    names = [name for parameters in given for name in parameters]
    refuse_unknown("parameter", names, known, f"of workload {experiment.workload}")
    return known


def _choose_machines(experiment: Experiment) -> list[ChosenMachine]:
    if experiment.vm is None:
        chosen = []
        for text in experiment.machines:
            path = catalogue.find(catalogue.MACHINES, text)
            machine = catalogue.load_machine(path)
            name = machine_name(machine.name, experiment.cpus, experiment.kernel)
            facts = (name, str(path), machine.digest, machine.nr_cpus)
            of_file = ChosenMachine(text, *facts, policies=tuple(machine.policies))
            chosen.append(_changed(of_file, experiment.cpus, experiment.kernel))
        return chosen
    vm, kernel = experiment.vm, experiment.vm.kernel
    if kernel is None:
        # Where every policy brings its kernel, none that takes policies need be there.
        own = [catalogue.own_scheduler(choice.policy) for choice in experiment.policies]
        kernel = own[0][1] if all(name and name[1] for name in own) else None
    record = kernel_platform.find_record(kernel)
    platforms = [kernel_platform.platform_of(record, cpus, vm.deterministic) for cpus in vm.cpus]
    return [ChosenMachine(p.machine, p.machine, "", p.digest, p.nr_cpus, p) for p in platforms]


def _refuse_unknown_policies(machine: ChosenMachine, chosen: Sequence[ChosenPolicy]) -> None:
    """A name that no policy has would change nothing, and say so to nobody."""
    known = {*catalogue.names(catalogue.POLICIES), *(policy.name for policy in chosen)}
    for name in machine.policies:
        file = f"{name}{catalogue.POLICIES.suffix}"
        is_own = any((folder / file).is_file() for folder in (Path(machine.path).parent, Path()))
        if name not in known and not is_own:
            where = f"in what {machine.path} says by policy"
            error = UnknownName("policy", name, known, where)
            error.hint += "; of your own one that takes part, or lies here or beside the machine"
            raise error


def _changed(machine: ChosenMachine, cpus: int | None, kernel: str | None) -> ChosenMachine:
    """The machine with so many CPUs and the sched_ext of this release; as it is for None."""
    if cpus is None and kernel is None:
        return machine
    other = catalogue.load_machine(machine.path, cpus, kernel)
    facts = {"digest": other.digest, "nr_cpus": other.nr_cpus}
    return replace(machine, **facts, cpus=cpus, kernel=kernel)


def _choose_workload(
    experiment: Experiment, path: Path, machine: tuple[str, int] | None, varied: varying.Items
) -> ChosenWorkload:
    """The workload with these of its varied values, held against a machine's name and CPUs; without
    one, before any is looked for, against what real tasks can do."""
    on_machine = experiment.machine_parameters.get(machine[0], {}) if machine else {}
    said = {**experiment.parameters, **on_machine} | {name: str(value) for name, value in varied}
    nr_cpus = machine[1] if machine else int(experiment.vm.cpus[0].split(",")[0])
    given = {name: of_machine(text, nr_cpus) for name, text in said.items()}
    places = dict.fromkeys(said, "--with")
    places |= {name: sampling.place_of(name, experiment.sample) for name, _ in varied}
    places = {name: f"{place} {name}={said[name]}" for name, place in places.items()}
    workload = _load_workload(path, given, places, machine)
    facts = (workload.name, str(path), workload.digest, given, dict(workload.parameters))
    return ChosenWorkload(experiment.workload, *facts, dict(varied))


def _load_workload(
    path: Path,
    given: Mapping[str, str],
    places: Mapping[str, str],
    machine: tuple[str, int] | None,
) -> Any:
    """An error says which option the core found wrong, and how it was said, by `places`."""
    for name, text in given.items():
        digits = text.removeprefix("-")
        # Python refuses to read numbers of thousands of digits.
        if digits.isdecimal() and (len(digits) > DIGITS_MAX or int(digits) > NUMBER_MAX):
            hint = (
                f"numbers go up to {NUMBER_MAX:,}, and most parameters not as far:"
                " `schedlab list workloads -v` tells what they mean"
            )
            why = "is larger than any number a workload can have"
            raise BadValue(places[name].removesuffix(f"={text}"), text, why, hint)
    refused = catalogue.native().ScenarioError
    try:
        workload = catalogue.load_workload(path, dict(given))
        if machine is not None:
            workload.check_cpus(*machine)
    except refused as error:
        for name in given:
            if re.search(rf"\bparameters?[. ]{re.escape(name)}\b", error.message):
                what, hint = f"{places[name]}: {error.message}", error.hint
                if CPUS in given[name]:
                    hint = f"by the machine's CPUs write a number as 8*cpus or cpus+1; {hint}"
                raise ExperimentError(what, hint) from error
        raise
    try:
        if machine is None:
            workload.check_playable()
    except refused as error:
        what = f"{path} cannot run on a real kernel: {error.message}"
        hint = f"{error.hint}; without --on vm it is simulated" if error.hint else None
        raise ExperimentError(what, hint) from error
    return workload


def _choose_policy(
    experiment: Experiment,
    kernel: kernel_platform.Kernel | None,
    load: Callable[[Path], Any],
    choice: PolicyChoice,
    varied: varying.Items,
) -> ChosenPolicy:
    """A policy with these of its varied values; `kernel` is what it is to be loaded into, None if
    it is simulated."""
    if own := catalogue.own_scheduler(choice.policy):
        tunables = [*experiment.tunables.get(choice.label, {}), *dict(varied)]
        refuse_unknown("tunable", tunables, (), f"of policy {choice.label}")
        return _choose_own_scheduler(choice, kernel, own)
    # An experiment names each set; where one of an older store does not, it meant the file's.
    path, set_name = catalogue.find_policy(choice.policy, literally=True)
    policy = load(path)
    set_values = catalogue.values_of_set(policy, set_name)
    if kernel:
        kernel_platform.refuse_kernel_without_sched_ext(choice.label, kernel)
    settings = parse_settings(policy, choice.label, experiment.tunables.get(choice.label, {}))
    texts = {name: str(value) for name, value in varied}
    for name, text in texts.items():
        place = sampling.place_of(f"{choice.label}.{name}", experiment.sample)
        settings |= parse_settings(policy, choice.label, {name: text}, place)
    defaults = {tunable["name"]: tunable["default"] for tunable in policy.tunables}
    tunables = {**defaults, **set_values, **settings}
    facts = (choice.label, choice.policy, policy.name, str(path), policy.digest, settings, tunables)
    return ChosenPolicy(*facts, object=policy.object_path, set_values=set_values)


def parse_settings(
    policy: Any, label: str, texts: Mapping[str, str], option: str = "--set"
) -> dict[str, int]:
    """The values that an option gives to tunables of a compiled policy. Raises UnknownName or
    BadValue if it has no such tunable, or that cannot have the value."""
    kinds = {tunable["name"]: tunable["type"] for tunable in policy.tunables}
    refuse_unknown("tunable", texts, kinds, f"of policy {label}")
    return {
        name: parse_tunable(f"{option} {label}.{name}", name, kinds[name], text)
        for name, text in texts.items()
    }


def _choose_own_scheduler(
    choice: PolicyChoice, kernel: kernel_platform.Kernel | None, own: tuple
) -> ChosenPolicy:
    scheduler, name = own
    if kernel is None:
        hint = "add --on vm"
        if scheduler in catalogue.names(catalogue.POLICIES):
            hint += f"; the simulator has a policy {scheduler} of its own"
        why = "is a real kernel's own scheduler, which is not simulated"
        raise BadValue("policy", choice.policy, why, hint)
    if name is not None:
        kernel = kernel_platform.find_kernel(name)
    kernel_platform.refuse_other_scheduler(choice.policy, scheduler, kernel)
    facts = (f"{scheduler}@kernel", "", f"kernel-{kernel.sha256}", {}, {})
    return ChosenPolicy(choice.label, choice.policy, *facts, kernel=kernel)
