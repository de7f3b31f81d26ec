"""An experiment: the grid of runs that answers a question, from options or from a TOML file.

Options and file say the same things in the same words, so both become one plain mapping
(`OPTION_KEYS`), which `build` turns into an `Experiment`. Nothing here looks into a policy,
machine or workload: see `cells`.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from schedlab import catalogue, user_file
from schedlab.digests import canonical_json
from schedlab.errors import BadValue, ExperimentError, UnknownName
from schedlab.experiment.claims import Claim, read
from schedlab.values import UNIT_NS, Value, parse_decimal_ns, parse_value, parse_values, whole_ns

CELLS_MAX = 100_000
# SQLite keeps signed 64-bit integers; repetition r uses seed + r.
SEED_MAX = 2**63 - 1 - CELLS_MAX

OPTION_KEYS = (
    "name",
    "title",
    "description",
    "policies",
    "workload",
    "machine",
    "vary",
    "with",
    "with_machine",
    "set",
    "repeat",
    "seed",
    "published",
    "claims",
)
PUBLISHED_KEYS = ("table", "source", "makespan", "vary", "policies", "machines")
PUBLISHED_KEYS_OPTIONAL = ("ideal", "parts")
PUBLISHED_HINT = "see [published] in docs/reference/cli.md"
LABEL = re.compile(r"[A-Za-z0-9_.+-]+")
LABELLED = re.compile(rf"(?P<label>{LABEL.pattern})=(?P<policy>.+)")


# ---------------------------------------------------------------------------------------------
# The experiment


@dataclass(frozen=True)
class PolicyChoice:
    """A policy by name or path, with its set, and the label it carries in tables and options."""

    label: str
    policy: str


@dataclass(frozen=True)
class PublishedTime:
    """What others measured where a cell of an experiment simulates, in nanoseconds."""

    policy: str
    machine: str
    varied: Mapping[str, Value]
    makespan_ns: int


@dataclass(frozen=True)
class Published:
    """Times from the literature that stand beside simulated ones, and who measured them.

    `ideal` names the varied parameter that counts equal parts of work, "" if none does: ideal is
    then what the same policy needs for one part, times the parts that each CPU has, at least one.
    """

    source: str
    times: tuple[PublishedTime, ...]
    ideal: str = ""


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
    that depend on the machine, by its name.
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
    published: Published | None = None
    claims: tuple[Claim, ...] = ()
    vm: VmChoice | None = None

    @property
    def definition(self) -> dict:
        """All of it as plain JSON values; `vm` is there only if it is not simulated, and
        `machine_parameters` and `claims` only if there are any."""
        optional = ("vm", "machine_parameters", "claims")
        return {k: v for k, v in asdict(self).items() if v or k not in optional}

    @property
    def id(self) -> str:
        """12 hex digits of the definition: the same experiment has the same id everywhere."""
        return id_of(self.definition)


def id_of(definition: Mapping) -> str:
    """The id of the experiment with this definition."""
    return hashlib.sha256(canonical_json(definition).encode()).hexdigest()[:12]


def build(options: Mapping) -> Experiment:
    """An experiment from the mapping that options and files share.

    Parameters
    ----------
    options : mapping
        Keys of `OPTION_KEYS`; `policies` and `machine` are lists of names or paths (`policies`
        also `label=policy`), `vary` maps a parameter to its values, `with` a parameter to its
        text, `set` a label to its tunables. A `VmChoice` under `vm` takes the place of machines.

    Raises
    ------
    SchedlabError
        If something is missing, contradictory or out of range.
    """
    for key, what in (("policies", "policy"), ("workload", "workload"), ("machine", "machine")):
        if not options.get(key) and not (key == "machine" and options.get("vm")):
            raise ExperimentError(
                f"no {what} is given",
                f"see what there is with `schedlab list {key.rstrip('s')}s`"
                + (", or add --on vm to run on a real kernel" if key == "machine" else "")
                if key != "policies"
                else "see what there is with `schedlab list policies`",
            )
    policies = tuple(_policy_choice(text) for text in options["policies"])
    _refuse_equal_labels(policies)
    varied = dict(options.get("vary", {}))
    parameters = dict(options.get("with", {}))
    for name in varied.keys() & parameters.keys():
        raise ExperimentError(
            f"parameter {name!r} is both varied (--vary) and fixed (--with)", "leave out one"
        )
    on_machines = {name: dict(of) for name, of in options.get("with_machine", {}).items()}
    for machine, of_machine in on_machines.items():
        for name in of_machine.keys() & (varied.keys() | parameters.keys()):
            raise ExperimentError(
                f"parameter {name!r} is given for machine {machine} and for all machines",
                "leave out one",
            )
    return Experiment(
        policies=policies,
        machines=() if options.get("vm") else tuple(options["machine"]),
        workload=options["workload"],
        parameters=parameters,
        machine_parameters={name: of for name, of in on_machines.items() if of},
        varied=varied,
        repeats=_in_range("--repeat", options.get("repeat", 1), 1, CELLS_MAX),
        seed=_in_range("--seed", options.get("seed", 1), 0, SEED_MAX),
        tunables=_label_tunables(options.get("set", {}), [choice.label for choice in policies]),
        until_ns=options.get("until_ns"),
        name=options.get("name", ""),
        title=options.get("title", ""),
        description=options.get("description", ""),
        published=options.get("published"),
        claims=options.get("claims", ()),
        vm=options.get("vm"),
    )


def of_definition(definition: Mapping) -> Experiment:
    """The experiment that a store has the definition of, without what others published."""
    choices = [PolicyChoice(**choice) for choice in definition["policies"]]
    vm = definition.get("vm")
    return Experiment(
        **{
            **definition,
            "policies": tuple(choices),
            "machines": tuple(definition["machines"]),
            "varied": {name: tuple(values) for name, values in definition["varied"].items()},
            "published": None,
            "claims": (),
            "vm": vm and VmChoice(vm["kernel"], tuple(vm["cpus"]), vm["deterministic"]),
        }
    )


def _policy_choice(text: str) -> PolicyChoice:
    labelled = LABELLED.fullmatch(text)
    if labelled:
        return PolicyChoice(labelled["label"], catalogue.with_set(labelled["policy"]))
    return PolicyChoice(catalogue.label_of(text), catalogue.with_set(text))


def told_sets(definition: Mapping) -> str:
    """Which set each policy is that is called by its name alone; empty if none is."""
    found = []
    for choice in definition["policies"]:
        policy, name = catalogue.split_set(choice["policy"])
        if name is not None and choice["label"] == catalogue.label_of(policy):
            found.append(f"{choice['label']} is {catalogue.label_of(choice['policy'])}")
    return ", ".join(found)


def _refuse_equal_labels(policies: Sequence[PolicyChoice]) -> None:
    """Raises ExperimentError if a label stands twice: tables, tunables and the store go by it."""
    for place, choice in enumerate(policies):
        label = choice.label
        same = next((other for other in policies[:place] if other.label == label), None)
        if same is not None and same.policy != choice.policy:
            raise ExperimentError(
                f"label {label!r} is given to both {same.policy!r} and {choice.policy!r}",
                f"give each a label of its own, as in {label}={same.policy}"
                f" {label}_2={choice.policy}",
            )
        if same is not None:
            raise ExperimentError(
                f"policy {label!r} is given twice",
                "leave out one, or compare it with itself under other tunables by LABEL=POLICY,"
                f" as in {label}_2={choice.policy} --set {label}_2.TUNABLE=VALUE",
            )


def _in_range(place: str, value: object, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadValue(place, value, "is not a whole number")
    if not low <= value <= high:
        raise BadValue(place, value, f"is outside {low} to {high}")
    return value


def _label_tunables(given: Mapping[str, Mapping[str, str]], labels: list[str]) -> dict:
    """Gives settings without a policy (label "") to the only one; refuses unknown labels."""
    tunables: dict[str, dict[str, str]] = {}
    for label, settings in given.items():
        if not label and len(labels) > 1:
            name, value = next(iter(settings.items()))
            raise BadValue(
                "--set",
                f"{name}={value}",
                "does not say of which policy",
                f"write --set POLICY.{name}={value}, where POLICY is one of {', '.join(labels)}",
            )
        if label and label not in labels:
            raise UnknownName("policy", label, labels, "in --set (it is not in this experiment)")
        tunables.setdefault(label or labels[0], {}).update(settings)
    return tunables


# ---------------------------------------------------------------------------------------------
# Experiment files


def read_options(path: Path) -> dict:
    """The options that an experiment file holds, for `build`.

    Paths inside the file are relative to the file. See docs/reference/cli.md for the format.

    Raises
    ------
    SchedlabError
        If the file cannot be read, is not TOML, or has an unknown or ill-typed key.
    """
    raw = user_file.toml(f"experiment file {path}", path)
    for key in raw:
        if key not in OPTION_KEYS:
            raise UnknownName("key", key, OPTION_KEYS, f"in {path}")
    options = {key: _file_value(f"{path}: {key}", key, value) for key, value in raw.items()}
    options.setdefault("name", path.stem)
    for key, shelf in (("policies", catalogue.POLICIES), ("machine", catalogue.MACHINES)):
        if key in options:
            options[key] = [_beside(path, shelf, text) for text in options[key]]
    if "workload" in options:
        options["workload"] = _beside(path, catalogue.WORKLOADS, options["workload"])
    machines = [Path(text).name.removesuffix(".toml") for text in options.get("machine", ())]
    for name in options.get("with_machine", ()):
        if name not in machines:
            place = f"in {path}: with_machine (it is not in this experiment)"
            raise UnknownName("machine", name, machines, place)
    if "published" in options:
        options["published"] = _read_published(path, options)
    if "claims" in options:
        known = {
            "policy": [_policy_choice(text).label for text in options.get("policies", ())],
            "machine": machines,
            **options.get("vary", {}),
        }
        ideal = options["published"].ideal if "published" in options else None
        options["claims"] = read(f"{path}: claim", options["claims"], known, ideal)
    return options


def _file_value(place: str, key: str, value: object) -> object:
    """One value of an experiment file, checked for its type and brought to `build`'s form."""
    if key in ("repeat", "seed"):
        return _in_range(place, value, 0, SEED_MAX)
    if key in ("name", "title", "description", "workload"):
        if not isinstance(value, str):
            raise BadValue(place, value, "is not a text")
        return value
    if key == "claims":
        return value
    if key in ("policies", "machine"):
        items = [value] if isinstance(value, str) else value
        if isinstance(value, str) and "," in value:
            listed = ", ".join(f'"{item.strip()}"' for item in value.split(","))
            raise BadValue(place, value, "is one text", f"write {key} = [{listed}]")
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise BadValue(place, value, "is not a list of names or paths")
        return items
    if not isinstance(value, dict):
        raise BadValue(place, value, "is not a table", f"write it as [{key}]")
    if key == "vary":
        return {name: _file_values(f"{place}.{name}", item) for name, item in value.items()}
    if key == "published":
        return _published_value(place, value)
    if key == "with":
        return {name: _text(f"{place}.{name}", item) for name, item in value.items()}
    what = "tunables", "write policy.tunable = value under [set]"
    if key == "with_machine":
        what = "parameters", "write machine.parameter = value under [with_machine]"
    return {label: _file_texts(f"{place}.{label}", item, *what) for label, item in value.items()}


def _file_texts(place: str, table: object, what: str, hint: str) -> dict[str, str]:
    if not isinstance(table, dict):
        raise BadValue(place, table, f"is not a table of {what}", hint)
    return {name: _text(f"{place}.{name}", item) for name, item in table.items()}


def _file_values(place: str, value: object) -> tuple[Value, ...]:
    if not isinstance(value, list):
        return parse_values(place, _text(place, value))
    if not value:
        raise BadValue(place, value, "is empty")
    return parse_values(place, ",".join(_text(place, item) for item in value))


def _text(place: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, str)):
        return str(value)
    raise BadValue(place, value, "is not a number, a text or true/false")


def _beside(file: Path, shelf: catalogue.Shelf, text: str) -> str:
    label, equals, target = text.rpartition("=")
    if not catalogue.is_path(shelf, target):
        return text
    return f"{label}{equals}{file.parent.absolute() / target}"


# ---------------------------------------------------------------------------------------------
# What others published


def _published_value(place: str, value: Mapping) -> dict:
    """The table [published] of an experiment file, with every value a text."""
    known = (*PUBLISHED_KEYS, *PUBLISHED_KEYS_OPTIONAL)
    for key in value:
        if key not in known:
            raise UnknownName("key", key, known, f"in {place}")
    for key in PUBLISHED_KEYS:
        if key not in value:
            raise ExperimentError(f"{place} does not say its {key}", PUBLISHED_HINT)
    checked = {key: _text(f"{place}.{key}", value[key]) for key in ("table", "source", "makespan")}
    checked["vary"] = _file_texts(f"{place}.vary", value["vary"], "columns", PUBLISHED_HINT)
    for key in ("policies", "machines"):
        if not isinstance(value[key], dict):
            raise BadValue(f"{place}.{key}", value[key], "is not a table", PUBLISHED_HINT)
        checked[key] = {
            name: _file_texts(f"{place}.{key}.{name}", item, "columns", PUBLISHED_HINT)
            for name, item in value[key].items()
        }
    checked["parts"] = _in_range(f"{place}.parts", value.get("parts", 1), 1, 10**9)
    checked["ideal"] = _text(f"{place}.ideal", value.get("ideal", ""))
    if "ideal" in value and checked["ideal"] not in checked["vary"]:
        raise BadValue(
            f"{place}.ideal",
            value["ideal"],
            "is not a parameter that has a column in published.vary",
            f"one of {', '.join(checked['vary'])}" if checked["vary"] else PUBLISHED_HINT,
        )
    return checked


def _read_published(path: Path, options: Mapping) -> Published:
    """The rows of the published table that the experiment file says how to find."""
    place, told = f"{path}: published", options["published"]
    labels = [_policy_choice(text).label for text in options.get("policies", ())]
    machines = [Path(text).name.removesuffix(".toml") for text in options.get("machine", ())]
    for kind, key, known in (("policy", "policies", labels), ("machine", "machines", machines)):
        for name in told[key]:
            if name not in known:
                raise UnknownName(kind, name, known, f"in {place} (it is not in this experiment)")
    table = catalogue.find(catalogue.PUBLISHED, _beside(path, catalogue.PUBLISHED, told["table"]))
    rows = _table_rows(table)
    times = []
    for policy, of_policy in told["policies"].items():
        for machine, of_machine in told["machines"].items():
            wanted = {**of_policy, **of_machine}
            found = [
                row for row in rows if all(_cell(table, row, c) == v for c, v in wanted.items())
            ]
            if not found:
                raise ExperimentError(
                    f"{place}: no row of {table} has {wanted}, for {policy} on {machine}",
                    "the values must be written as in the table",
                )
            times += [_published_time(table, told, policy, machine, row) for row in found]
    for time in times if told["ideal"] else ():
        parts = time.varied[told["ideal"]]
        if not isinstance(parts, (int, float)) or parts <= 0:
            raise BadValue(f"{table}: {told['vary'][told['ideal']]}", parts, "counts no parts")
    return Published(told["source"], tuple(times), told["ideal"])


def _table_rows(table: Path) -> list[dict[str, str]]:
    text = user_file.text(f"published table {table}", table)
    try:
        return list(csv.DictReader(io.StringIO(text)))
    except csv.Error as error:
        raise ExperimentError(f"cannot read published table {table}: {error}") from error


def _cell(table: Path, row: Mapping[str, str], column: str) -> str:
    if column not in row:
        raise UnknownName("column", column, [*row], f"of {table}")
    return row[column] or ""


def _published_time(
    table: Path, told: Mapping, policy: str, machine: str, row: Mapping[str, str]
) -> PublishedTime:
    column = told["makespan"]
    text, unit = _cell(table, row, column), column.rpartition("_")[2]
    if unit not in UNIT_NS:
        raise BadValue(f"{table}: column", column, "does not end in a unit", "as elapsed_s does")
    one = parse_decimal_ns(f"{table}: {column}", f"{text}{unit}")
    makespan_ns = whole_ns(f"{table}: {column}", text, one * told["parts"])
    varied = {name: parse_value(_cell(table, row, at)) for name, at in told["vary"].items()}
    return PublishedTime(policy, machine, varied, makespan_ns)
