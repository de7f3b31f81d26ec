"""An experiment: the grid of runs that answers a question, from options or from a TOML file.

Options and file say the same things in the same words, so both become one plain mapping, which
`build` turns into an `Experiment`. Only `cells` looks into a policy, machine or workload.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from schedlab import catalogue, user_file
from schedlab.digests import digest_of
from schedlab.errors import BadValue, ExperimentError, SchedlabError, UnknownName, refuse_unknown
from schedlab.experiment import claims, published, sampling
from schedlab.experiment.varying import CPUS, CPUS_MAX, machine_size, tunable_of
from schedlab.report.forms import count_text
from schedlab.values import Table, Value, parse_percent, parse_values

CELLS_MAX = 100_000
# Runs of each policy in each scenario, where nobody says how many.
REPEATS = 5
# The most with --until-ci, where nobody says how many.
REPEATS_UNTIL = 100
# Fewer make no interval; as in `statistics.estimates`, which takes longer to load than this.
REPEATS_CLEAR = 3
# SQLite keeps signed 64-bit integers; repetition r uses seed + r.
SEED_MAX = 2**63 - 1 - CELLS_MAX

# Of a virtual machine, unless the user says otherwise.
DEFAULT_CPUS = "2"
LABEL = re.compile(r"[A-Za-z0-9_.+-]+")
LABELLED = re.compile(rf"({LABEL.pattern})=(.+)")
# How an error begins that is about an option, with the name of what that sets, if it has one.
OPTION = re.compile(r"--(?P<key>[a-z-]+) ?(?P<name>[^ =:]*)")
# What an experiment needs, and where its files lie.
SHELVES = {
    "policies": catalogue.POLICIES,
    "workload": catalogue.WORKLOADS,
    "machine": catalogue.MACHINES,
}


@dataclass(frozen=True)
class PolicyChoice:
    """A policy by name or path, with its set, and the label it carries in tables and options."""

    label: str
    policy: str


@dataclass(frozen=True)
class VmChoice:
    """The virtual machines of an experiment, one for each of `cpus`; `kernel` by name or None."""

    kernel: str | None
    cpus: tuple[str, ...]
    deterministic: bool


@dataclass(frozen=True)
class Experiment:
    """A grid: policies x machines x varied values x repetitions.

    Repetition r has seed `seed + r` for every policy, so that policies meet the same random
    numbers and differ only by what they decide. `machine_parameters` are those of the workload
    that depend on the machine, by its name. `varied` has values of parameters of the workload, of
    tunables as "LABEL.TUNABLE", and of "cpus", the size of the machines. `cpus` is that size, and
    `kernel` the release whose sched_ext they have; None for machines as their files have them.
    `sample` draws points from ranges of what could be varied, each of which meets the whole grid.
    `inputs` is a digest of all that results depend on besides, empty where nobody asked for it.
    `watch` are numbers inside the policies that its reports draw, as expressions.
    With `until_ci`, the smallest change worth a word, seeds are added where a comparison is not
    clear, from `repeats` up to `repeat_max` runs.
    """

    policies: tuple[PolicyChoice, ...]
    machines: tuple[str, ...]
    workload: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    machine_parameters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    varied: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    repeats: int = 1
    seed: int = 1
    tunables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    until_ns: int | None = None
    name: str = ""
    title: str = ""
    description: str = ""
    published: published.PublishedTimes | None = None
    claims: tuple[claims.Claim, ...] = ()
    vm: VmChoice | None = None
    cpus: int | None = None
    kernel: str | None = None
    sample: sampling.Sample | None = None
    inputs: str = ""
    until_ci: float | None = None
    repeat_max: int | None = None
    watch: tuple[str, ...] = ()

    @property
    def repeats_most(self) -> int:
        """Of each policy in each scenario, how many runs there may be."""
        return self.repeats if self.repeat_max is None else self.repeat_max

    @property
    def definition(self) -> dict:
        """All of it as plain JSON values; `vm` is there only if it is not simulated, and
        `machine_parameters` and the last of them only if there are any."""
        optional = ("vm", "machine_parameters", "claims", "cpus", "kernel", "sample", "inputs")
        optional += ("until_ci", "repeat_max", "watch")
        return {k: v for k, v in asdict(self).items() if v or k not in optional}

    @functools.cached_property
    def id(self) -> str:
        """12 hex digits of the definition: the same experiment has the same id everywhere."""
        return id_of(self.definition)


def id_of(definition: Mapping) -> str:
    """The id of the experiment with this definition."""
    return digest_of(definition)[:12]


def build(options: Mapping) -> Experiment:
    """An experiment from the mapping that options and files share.

    `policies` and `machine` are lists of names or paths (`policies` also `label=policy`), `vary`
    maps a parameter to its values, `with` a parameter to its text, `with_machine` a machine to its
    parameters, `set` a label to its tunables. A `VmChoice` under `vm` takes the place of machines,
    of `cpus` and of `kernel`.
    `until_ci` is a text, as in "1%". `workload`, `repeat`, `repeat_max`, `seed`, `until_ns`,
    `name`, `title`, `description`, `published`, `claims`, `sample` and `watch` are as in an
    `Experiment`.
    Raises SchedlabError if something is missing, contradictory or out of range.
    """
    for key, shelf in SHELVES.items():
        if not options.get(key) and not (key == "machine" and options.get("vm")):
            on_vm = ", or add --on vm to run on a real kernel" * (key == "machine")
            hint = f"see what there is with `schedlab list {shelf.directory}`{on_vm}"
            raise ExperimentError(f"no {shelf.kind} is given", hint)
    policies = tuple(_policy_choice(text) for text in options["policies"])
    _refuse_equal_labels(policies)
    varied, parameters = dict(options.get("vary", {})), dict(options.get("with", {}))
    sample = options.get("sample")
    ranges = sample.ranges if sample else {}
    place_of = functools.partial(sampling.place_of, sample=sample)
    for name in varied.keys() & ranges.keys():
        raise ExperimentError(f"{name!r} is both varied and in [sample.ranges]", "leave out one")
    changing = [*varied, *ranges]
    for name in parameters.keys() & changing:
        what = f"parameter {name!r} is both varied ({place_of(name)}) and fixed (--with)"
        raise ExperimentError(what, "leave out one")
    of_machines = {name: dict(of) for name, of in options.get("with_machine", {}).items() if of}
    for machine, of_machine in of_machines.items():
        for name in of_machine.keys() & {*changing, *parameters}:
            what = f"parameter {name!r} is given for machine {machine} and for all machines"
            raise ExperimentError(what, "leave out one")
    cpus = None if options.get("vm") else options.get("cpus")
    if cpus is not None:
        machine_size("cpus", cpus)
        if CPUS in changing:
            what = f"the machines' CPUs are both varied ({place_of(CPUS)} cpus) and fixed (--cpus)"
            raise ExperimentError(what, "leave out one")
    kernel = None if options.get("vm") else options.get("kernel")
    if kernel is not None:
        releases = catalogue.native().RELEASES
        refuse_unknown("release", [kernel], releases, "of Linux in --kernel of simulations")
    labels = [choice.label for choice in policies]
    tunables = _label_tunables(options.get("set", {}), labels)
    for name in changing:
        label, tunable = tunable_of(name, labels) or ("", "")
        if tunable in tunables.get(label, {}):
            what = f"tunable {name} is both varied ({place_of(name)}) and fixed (--set)"
            raise ExperimentError(what, "leave out one")
    repeats = in_range("--repeat", options.get("repeat", 1), 1, CELLS_MAX)
    as_given = ("until_ns", "name", "title", "description", "published", "claims", "vm", "sample")
    return Experiment(
        policies=policies,
        machines=() if options.get("vm") else tuple(options["machine"]),
        workload=options["workload"],
        parameters=parameters,
        machine_parameters=of_machines,
        varied=varied,
        repeats=repeats,
        **_until_clear(options, repeats, len(policies)),
        seed=in_range("--seed", options.get("seed", 1), 0, SEED_MAX),
        tunables=tunables,
        cpus=cpus,
        kernel=kernel,
        watch=tuple(options.get("watch", ())),
        **{key: options[key] for key in as_given if key in options},
    )


def of_definition(definition: Mapping) -> Experiment:
    """The experiment that a store has the definition of, without what others published."""
    vm, sample = definition.get("vm"), definition.get("sample")
    changed = {
        "policies": tuple(PolicyChoice(**choice) for choice in definition["policies"]),
        "machines": tuple(definition["machines"]),
        "varied": {name: tuple(values) for name, values in definition["varied"].items()},
        "vm": vm and VmChoice(vm["kernel"], tuple(vm["cpus"]), vm["deterministic"]),
        "sample": sample and sampling.of_definition(sample),
        "watch": tuple(definition.get("watch", ())),
    }
    return Experiment(**{**definition, "published": None, "claims": (), **changed})


def _until_clear(options: Mapping, repeats: int, nr_policies: int) -> dict:
    until, most = options.get("until_ci"), options.get("repeat_max")
    if until is None:
        if most is not None:
            why = "is how many runs --until-ci may make"
            raise BadValue("--repeat-max", most, why, "add --until-ci 1%, or say --repeat")
        return {}
    if nr_policies < 2:
        why = "adds runs until policies can be told apart, and there is one"
        raise BadValue("--until-ci", until, why, "name two policies or more, or say --repeat")
    most = max(REPEATS_UNTIL, repeats) if most is None else most
    least = max(repeats, REPEATS_CLEAR)
    hint = f"give {least} or more: it begins with --repeat, here {repeats}, and nothing is clear"
    hint += f" by fewer than {REPEATS_CLEAR}"
    if type(most) is int and most > CELLS_MAX:
        hint = f"an experiment has {CELLS_MAX:,} runs at most"
    most = in_range("--repeat-max", most, least, CELLS_MAX, hint)
    return {"until_ci": parse_percent("--until-ci", until), "repeat_max": most}


def _policy_choice(text: str) -> PolicyChoice:
    label, policy = _split_label(text)
    return PolicyChoice(label or catalogue.label_of(policy), catalogue.with_set(policy))


def _split_label(text: str) -> tuple[str, str]:
    """The label, empty if none is given, and the policy: a path may hold `=` too."""
    if labelled := LABELLED.fullmatch(text):
        return labelled.groups()
    label, equals, policy = text.partition("=")
    if equals and "/" not in label:
        hint = "write LABEL=POLICY, with a label of letters, digits and _.+- only"
        what = f"{text!r} is no policy with a label"
        raise ExperimentError(f"{what}: {label!r} is no label" if policy else what, hint)
    return "", text


def name_of(text: str) -> str:
    """What a machine or workload is called: its name, or that of its file."""
    return Path(text).name.removesuffix(".toml")


def machine_name(text: str, cpus: int | None, kernel: str | None) -> str:
    """What a machine is called that has so many CPUs and this release's sched_ext, or for None
    those of its file."""
    own = [count_text(cpus, "CPU")] if cpus is not None else []
    own += [f"Linux {kernel}"] if kernel is not None else []
    return " with ".join([name_of(text), *filter(None, [" and ".join(own)])])


def told_sets(definition: Mapping) -> str:
    """Which set each policy is that is called by its name alone; empty if none is."""
    sets = []
    for choice in definition["policies"]:
        policy, name = catalogue.split_set(choice["policy"])
        if name is not None and choice["label"] == catalogue.label_of(policy):
            sets.append(f"{choice['label']} is {catalogue.label_of(choice['policy'])}")
    return ", ".join(sets)


def _refuse_equal_labels(policies: Sequence[PolicyChoice]) -> None:
    """Tables, tunables and the store go by labels."""
    first: dict[str, PolicyChoice] = {}
    for choice in policies:
        label, same = choice.label, first.setdefault(choice.label, choice)
        if same.policy != choice.policy:
            raise ExperimentError(
                f"label {label!r} is given to both {same.policy!r} and {choice.policy!r}",
                f"give each a label of its own, as in {label}={same.policy}"
                f" {label}_2={choice.policy}",
            )
        if same is not choice:
            raise ExperimentError(
                f"policy {label!r} is given twice",
                "leave out one, or compare it with itself under other tunables by LABEL=POLICY,"
                f" as in {label}_2={choice.policy} --set {label}_2.TUNABLE=VALUE",
            )


def in_range(place: str, value: object, low: int, high: int, hint: str | None = None) -> int:
    """The whole number that an option gives; raises BadValue if it is none within these bounds."""
    if type(value) is not int:
        raise BadValue(place, value, "is not a whole number", hint)
    if not low <= value <= high:
        raise BadValue(place, value, f"is outside {low} to {high}", hint)
    return value


def _label_tunables(given: Mapping[str, Mapping[str, str]], labels: list[str]) -> dict:
    """Gives settings without a policy (label "") to the only one; refuses unknown labels."""
    tunables: dict[str, dict[str, str]] = {}
    for label, settings in given.items():
        if not label and len(labels) > 1:
            text = "=".join(next(iter(settings.items())))
            hint = f"write --set POLICY.{text}, where POLICY is one of {', '.join(labels)}"
            raise BadValue("--set", text, "does not say of which policy", hint)
        if label and label not in labels:
            raise UnknownName("policy", label, labels, "in --set (it is not in this experiment)")
        tunables.setdefault(label or labels[0], {}).update(settings)
    return tunables


# ---- experiment files ---------------------------------------------------------------------------


def read_options(path: Path) -> dict:
    """The options that an experiment file holds, for `build`; docs/reference/cli.md has the format.

    Paths inside the file are relative to the file. Raises SchedlabError if it cannot be read, is
    not TOML, or has an unknown or ill-typed key.
    """
    hint = "write it as docs/reference/cli.md has it under Experiment files"
    return options_of(user_file.toml(f"experiment file {path}", path, hint), path)


@contextlib.contextmanager
def naming(path: Path | None, typed: Mapping) -> Iterator[None]:
    """A context in which errors in what an experiment file says name it and its key, and not an
    option that nobody has typed; `typed` are the options that somebody has."""
    try:
        yield
    except (SchedlabError, catalogue.native().NativeError) as error:
        text = getattr(error, "message", str(error))
        given = {key: value for key, value in typed.items() if value not in (None, [], {})}
        found = OPTION.match(text)
        if found is None:
            told, is_typed = text, bool(given)
        else:
            key, name = found["key"].replace("-", "_"), found["name"]
            told = f"{key}{'.' * bool(name)}{text[found.start('name') :]}"
            of = given.get(key, ())
            # What is set, POLICY.TUNABLE, is kept by policy.
            names = {name, name.rpartition(".")[0]}
            is_typed = bool(of) and not (isinstance(of, Mapping) and names.isdisjoint(of))
        if path is None or is_typed or str(path) in text:
            raise
        raise ExperimentError(f"{path}: {told}", error.hint) from error


def options_of(given: Mapping, path: Path) -> dict:
    """The options in what such a file holds, with its errors; `path` is where it would be."""
    table = Table(given, str(path))
    readers = {
        **dict.fromkeys(
            ("name", "title", "description", "workload", "until_ci"),
            lambda table, key: table.get(key, str, "text", 'write it in "…"'),
        ),
        **dict.fromkeys(("policies", "machine", "watch"), _names),
        **dict.fromkeys(
            ("repeat", "repeat_max"),
            lambda table, key: table.number(key, None, 1, CELLS_MAX, whole=True),
        ),
        "seed": lambda table, key: table.number(key, None, 0, SEED_MAX, whole=True),
        "cpus": lambda table, key: table.number(key, None, 1, CPUS_MAX, whole=True),
        "kernel": lambda table, key: table.get(key, str, "text", 'write it in "…"'),
        "vary": _varied,
        "sample": lambda table, key: sampling.read(table.table(key)),
        "with": Table.words,
        **dict.fromkeys(("with_machine", "set"), _words_of_each),
        "published": Table.table,
        "claims": lambda table, key: table.given[key],
    }
    table.refuse_others(readers)
    options = {key: readers[key](table, key) for key in table.given}
    options.setdefault("name", path.stem)
    for key in SHELVES.keys() & options.keys():
        options[key] = _beside(path, SHELVES[key], options[key])
    labels = [_policy_choice(text).label for text in options.get("policies", ())]
    machines = [name_of(text) for text in options.get("machine", ())]
    where = f"in {path}: with_machine (it is not in this experiment)"
    refuse_unknown("machine", options.get("with_machine", ()), machines, where)
    ideal = None
    if options.keys() & {"published", "claims"}:
        for key in options.keys() & {"cpus", "kernel"}:
            why = "goes with neither published times nor claims, which are of machines as they are"
            raise BadValue(f"{path}: {key}", options[key], why, "leave it out")
    if "published" in options:
        folder = path.parent.absolute()
        options["published"] = published.read(options["published"], folder, labels, machines)
        ideal = options["published"].ideal
    if "claims" in options:
        known = {"policy": labels, "machine": machines, **options.get("vary", {})}
        options["claims"] = claims.read(f"{path}: claim", options["claims"], known, ideal)
    return options


def _names(table: Table, key: str) -> list[str]:
    value = table.get(key, (str, list), "a list of names or paths", 'write it as ["…", "…"]')
    if isinstance(value, str) and "," in value:
        listed = ", ".join(f'"{item.strip()}"' for item in value.split(","))
        table.refuse(key, value, "is one text", f"write {key} = [{listed}]")
    return [value] if isinstance(value, str) else list(table.texts(key))


def _varied(table: Table, key: str) -> dict[str, tuple[Value, ...]]:
    """The values of each name: a list, or a text such as `1..5:2`, also in a list. Those of a
    policy's tunables may stand in a table of its label."""
    varied, found = table.table(key), {}
    for name, value in varied.given.items():
        if not isinstance(value, dict):
            given = {name: parse_values(varied.place_of(name), _listed(varied, name))}
            _add_once(found, given, varied)
            continue
        own = varied.table(name)
        if not own.given:
            varied.refuse(name, value, "is empty", 'write NAME = ["…", "…"]')
        for tunable in own.given:
            listed = _listed(own, tunable)
            given = {f"{name}.{tunable}": parse_values(own.place_of(tunable), listed)}
            _add_once(found, given, varied)
    return found


def _add_once(found: dict, given: Mapping[str, tuple[Value, ...]], varied: Table) -> None:
    """Two ways lead to a policy's tunable: in a table of its label, and by a name with a point."""
    for name in given.keys() & found.keys():
        varied.refuse(name, given[name], "is varied twice", "leave one out")
    found.update(given)


def _listed(table: Table, key: str) -> str:
    given = table.given[key]
    if not isinstance(given, list):
        return table.word(key)
    if not given:
        table.refuse(key, given, "is empty")
    numbered = {str(at): value for at, value in enumerate(given)}
    items = Table(numbered, table.place_of(key), " ")
    return ",".join(items.word(at) for at in items.given)


def _words_of_each(table: Table, key: str) -> dict[str, dict[str, str]]:
    what = "machine.parameter" if key == "with_machine" else "policy.tunable"
    tables = table.table(key)
    hint = f"write {what} = value under [{key}]"
    return {name: tables.words(name, hint) for name in tables.given}


def _beside(file: Path, shelf: catalogue.Shelf, given: str | list[str]) -> str | list[str]:
    """Names as they are, and paths from where the file lies."""
    if isinstance(given, list):
        return [_beside(file, shelf, text) for text in given]
    label, target = _split_label(given) if shelf is catalogue.POLICIES else ("", given)
    if not catalogue.is_path(shelf, target):
        return given
    return f"{label}{'=' * bool(label)}{file.parent.absolute() / target}"
