"""Suites: files that say which programs are run to measure a machine, and what is recorded.

A suite is read strictly: what it does not say in the right words is an error that names the file,
the place, the value and a way out, because a misspelt key would otherwise change what is measured
without a word. `cases` makes of a suite what is run: a benchmark with one value for each parameter.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedlab import user_file
from schedlab.digests import canonical_json
from schedlab.errors import BadValue, UnknownName
from schedlab.values import parse_values

SIZES = ("quick", "full")
REPETITIONS = 10
WARM_UP = 1
TIMEOUT_S = 600
REPETITIONS_MAX = 10_000
TIMEOUT_S_MAX = 7 * 24 * 3600
CASES_MAX = 1000
NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
# `{name}` is filled in; `${name}` is the shell's.
PLACEHOLDER = re.compile(r"(?<!\$)\{([a-z0-9][a-z0-9_-]*)\}")
# What every command may use: the program schedlab-bench, a folder to work in, the CPUs.
GIVEN = ("bench", "work", "nr_cpus")

Command = str | tuple[str, ...]
"""A text for the shell, or a program and its arguments."""


@dataclass(frozen=True)
class Record:
    """What a repetition gives: `how` is "elapsed" (seconds), "json" or "regex"; `what` its detail.

    `json` is a path into the last line of the output, as in `figure.value`; `regex` has one group,
    and the last place that it is found at counts.
    """

    how: str
    what: str = ""


@dataclass(frozen=True)
class Input:
    """What is made once, in a folder of its own: a source tree, a clip; `files` are known by their
    SHA-256 from then on."""

    name: str
    command: Command
    files: tuple[str, ...]
    description: str = ""
    needs: tuple[str, ...] = ()
    timeout_s: float = TIMEOUT_S
    sizes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Benchmark:
    """One command and how it is measured; `needs` are Debian's packages that it takes.

    Where it searches for a limit, `ended_by` is the path to what ended the search, in the line of
    JSON that has the value.
    """

    name: str
    command: Command
    unit: str
    record: Record = Record("elapsed")
    description: str = ""
    prepare: Command | None = None
    cleanup: Command | None = None
    inputs: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    repetitions: int = REPETITIONS
    warm_up: int = WARM_UP
    timeout_s: float = TIMEOUT_S
    higher_is_better: bool = False
    ended_by: str = ""
    sizes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sweep: Mapping[str, tuple] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """A suite as it stands in its file."""

    name: str
    title: str
    description: str
    inputs: tuple[Input, ...]
    benchmarks: tuple[Benchmark, ...]


@dataclass(frozen=True)
class Case:
    """What is repeated: a benchmark with a value for each of its parameters.

    `varied` are those of the values that tell the cases of a benchmark apart.
    """

    benchmark: Benchmark
    values: Mapping[str, Any]
    varied: tuple[str, ...]

    @property
    def name(self) -> str:
        """As tables show it: `make jobs=3`."""
        varied = (f"{name}={self.values[name]}" for name in self.varied)
        return " ".join((self.benchmark.name, *varied))

    def digest(self, inputs: Mapping[str, Any]) -> str:
        """What is measured, as one word: results with equal ones may be compared.

        `inputs` are the digests of the files of each input. Repetitions, time limits and words for
        people are no part of it.
        """
        benchmark = self.benchmark
        measured = {
            "command": benchmark.command,
            "prepare": benchmark.prepare,
            "cleanup": benchmark.cleanup,
            "record": [benchmark.record.how, benchmark.record.what],
            "unit": benchmark.unit,
            "values": dict(self.values),
            "inputs": {name: inputs[name] for name in benchmark.inputs},
        }
        return hashlib.sha256(canonical_json(measured).encode()).hexdigest()[:16]


def cases(suite: Suite, size: str) -> list[Case]:
    """Every benchmark with every combination of its swept values, in the order of the file."""
    made = []
    for benchmark in suite.benchmarks:
        fixed = benchmark.sizes.get(size, {})
        swept = {name: values for name, values in benchmark.sweep.items() if name not in fixed}
        for combination in itertools.product(*swept.values()):
            values = {**fixed, **dict(zip(swept, combination, strict=True))}
            made.append(Case(benchmark, values, tuple(swept)))
    return made


def only(made: Sequence[Case], wanted: Sequence[str]) -> list[Case]:
    """The cases of the benchmarks with these names, all if none is given.

    Raises
    ------
    UnknownName
        If a name is none of the suite's.
    """
    known = dict.fromkeys(case.benchmark.name for case in made)
    for name in wanted:
        if name not in known:
            raise UnknownName("benchmark", name, known, "in --only")
    return [case for case in made if not wanted or case.benchmark.name in wanted]


def fill(command: Command, values: Mapping[str, Any]) -> Command:
    """A command with each `{name}` replaced; the names are known to be there."""

    def filled(text: str) -> str:
        return PLACEHOLDER.sub(lambda found: str(values[found[1]]), text)

    return filled(command) if isinstance(command, str) else tuple(map(filled, command))


# ---------------------------------------------------------------------------------------------
# Reading


def read(path: Path) -> Suite:
    """A suite from its file.

    Raises
    ------
    SchedlabError
        If the file cannot be read, is no TOML, or says something that a suite does not.
    """
    table = user_file.toml(f"suite {path}", path, "see docs/guides/benchmark_a_machine.md")
    return parse(path.name.removesuffix(".toml"), table, str(path))


def parse(name: str, table: Mapping[str, Any], place: str) -> Suite:
    """A suite from the table of its file; `place` is said in errors.

    Raises
    ------
    BadValue, UnknownName
        If something is not as it must be.
    """
    top = Table(table, place)
    inputs = tuple(_input(each) for each in top.tables("input"))
    defaults = {key: top.number(key, *LIMITS[key]) for key in LIMITS}
    benchmarks = tuple(
        _benchmark(each, defaults, [one.name for one in inputs]) for each in top.tables("benchmark")
    )
    suite = Suite(name, top.text("title"), top.text("description", ""), inputs, benchmarks)
    top.refuse_others()
    if not benchmarks:
        raise BadValue(place, "benchmark", "is missing", "a suite has at least one [[benchmark]]")
    for kind, found in (("input", inputs), ("benchmark", benchmarks)):
        _refuse_twins(place, kind, [one.name for one in found])
    for size in SIZES:
        nr_cases = len(cases(suite, size))
        if nr_cases > CASES_MAX:
            why = f"makes {nr_cases} cases, more than {CASES_MAX}"
            raise BadValue(place, "sweep", why, "sweep fewer values")
    return suite


# Keys with a number: default, smallest, largest, whether it must be whole.
LIMITS = {
    "repetitions": (REPETITIONS, 1, REPETITIONS_MAX, True),
    "warm_up": (WARM_UP, 0, REPETITIONS_MAX, True),
    "timeout_s": (TIMEOUT_S, 0.01, TIMEOUT_S_MAX, False),
}


def _input(table: Table) -> Input:
    made = Input(
        name=table.name(),
        command=table.command("command"),
        files=table.texts("files", least=1),
        description=table.text("description", ""),
        needs=table.texts("needs"),
        timeout_s=table.number("timeout_s", *LIMITS["timeout_s"]),
        sizes=table.sizes(),
    )
    table.refuse_others()
    known = {size: {*GIVEN, *made.sizes.get(size, {})} for size in SIZES}
    _refuse_unknown_names(table, {"command": made.command}, known)
    return made


def _benchmark(table: Table, defaults: Mapping[str, Any], inputs: Sequence[str]) -> Benchmark:
    numbers = {
        key: table.number(key, defaults[key], *LIMITS[key][1:]) if key in table.given else default
        for key, default in defaults.items()
    }
    record = table.record()
    made = Benchmark(
        name=table.name(),
        command=table.command("command"),
        unit=table.text("unit", "s" if record.how == "elapsed" else None),
        record=record,
        description=table.text("description", ""),
        prepare=table.command("prepare", optional=True),
        cleanup=table.command("cleanup", optional=True),
        inputs=table.texts("inputs"),
        needs=table.texts("needs"),
        higher_is_better=table.flag("higher_is_better"),
        ended_by=table.ended_by(record),
        sizes=table.sizes(),
        sweep=table.sweep(),
        **numbers,
    )
    table.refuse_others()
    for name in made.inputs:
        if name not in inputs:
            raise UnknownName("input", name, inputs, f"in inputs of {table.place}")
    commands = {"command": made.command, "prepare": made.prepare, "cleanup": made.cleanup}
    of_all = {*GIVEN, *made.inputs, *made.sweep}
    known = {size: of_all | set(made.sizes.get(size, {})) for size in SIZES}
    _refuse_unknown_names(table, commands, known)
    return made


def _refuse_unknown_names(
    table: Table, commands: Mapping[str, Command | None], known: Mapping[str, set[str]]
) -> None:
    """A `{name}` must have a value in both sizes, or a typing error would be run."""
    for key, command in commands.items():
        parts = (command,) if isinstance(command, str) else command or ()
        for name in PLACEHOLDER.findall("\n".join(parts)):
            for size, names in known.items():
                if name not in names:
                    where = f"in {key} of {table.place}, size {size}"
                    raise UnknownName("placeholder", name, names, where)


def _refuse_twins(place: str, kind: str, found: Sequence[str]) -> None:
    for name in found:
        if found.count(name) > 1:
            raise BadValue(place, name, f"names two {kind}s", "give each a name of its own")


class Table:
    """One table of a suite's file; asked for each of its keys, it then refuses all others."""

    def __init__(self, given: Mapping[str, Any], place: str):
        self.given = given
        self.place = place
        self._asked: set[str] = set()

    def refuse_others(self) -> None:
        """Raises UnknownName for the first key that nobody asked for."""
        for key in self.given:
            if key not in self._asked:
                raise UnknownName("key", key, self._asked, f"in {self.place}")

    def tables(self, key: str) -> list[Table]:
        """The tables of an array, each placed by its name or number."""
        found = self._get(key, list, "an array of tables", f"write [[{key}]]", [])
        made = []
        for number, each in enumerate(found, 1):
            if not isinstance(each, Mapping):
                self._refuse(key, each, "is not a table", f"write [[{key}]]")
            name = each.get("name")
            said = repr(name) if isinstance(name, str) else number
            made.append(Table(each, f"{self.place}: {key} {said}"))
        return made

    def text(self, key: str, default: str | None = None) -> str:
        """A text that is not empty; required where there is no default."""
        found = self._get(key, str, "text", 'write it in "…"', default)
        if not found.strip() and found != default:
            self._refuse(key, found, "is empty", "say something, or leave the key out")
        return found

    def name(self) -> str:
        """The table's name."""
        found = self.text("name")
        if not NAME.fullmatch(found) or found in GIVEN:
            hint = "use a-z, 0-9, - and _, and none of " + ", ".join(GIVEN)
            self._refuse("name", found, "cannot be a name", hint)
        return found

    def flag(self, key: str) -> bool:
        """true or false; false if it is not there."""
        return self._get(key, bool, "true or false", "write true or leave it out", False)

    def number(self, key: str, default: float, least: float, most: float, whole: bool) -> Any:
        """A number within bounds."""
        kinds = (int,) if whole else (int, float)
        sort = "a whole number" if whole else "a number"
        found = self._get(key, kinds, sort, f"give one from {least} to {most}", default)
        if isinstance(found, bool) or not least <= found <= most:
            self._refuse(key, found, f"is not {sort} from {least} to {most}", "change it")
        return found

    def texts(self, key: str, least: int = 0) -> tuple[str, ...]:
        """A list of texts that are not empty."""
        hint = 'write it as ["…", "…"]'
        found = self._get(key, list, "a list of texts", hint, None if least else [])
        for each in found:
            if not isinstance(each, str) or not each.strip():
                self._refuse(key, each, "is not a text", hint)
        if len(found) < least:
            self._refuse(key, found, "is empty", hint)
        return tuple(found)

    def command(self, key: str, optional: bool = False) -> Command | None:
        """A text for the shell, or a list of a program and its arguments."""
        if optional and key not in self.given:
            self._asked.add(key)
            return None
        hint = 'write "a text for the shell", or ["program", "argument"]'
        found = self._get(key, (str, list), "a command", hint, None)
        parts = [found] if isinstance(found, str) else found
        if not all(isinstance(part, str) for part in parts):
            self._refuse(key, found, "is not made of texts", hint)
        if not parts or not parts[0].strip():
            self._refuse(key, found, "is an empty command", hint)
        return found if isinstance(found, str) else tuple(found)

    def record(self) -> Record:
        """What of a repetition is its value."""
        hint = 'write "elapsed", { json = "figure.value" } or { regex = "([0-9.]+) s" }'
        found = self._get("record", (str, dict), "known", hint, "elapsed")
        if found == "elapsed":
            return Record("elapsed")
        if not isinstance(found, Mapping) or len(found) != 1:
            self._refuse("record", found, "is nothing that can be recorded", hint)
        [(how, what)] = found.items()
        if how not in ("json", "regex") or not isinstance(what, str) or not what:
            self._refuse("record", found, "is nothing that can be recorded", hint)
        if how == "regex":
            self._refuse_bad_pattern(what)
        return Record(how, what)

    def ended_by(self, record: Record) -> str:
        """Where the output says what ended a search; "" if nowhere."""
        found = self.text("ended_by", "")
        if found and record.how != "json":
            self._refuse("ended_by", found, "is of no JSON", 'write record = { json = "…" }, too')
        return found

    def sizes(self) -> Mapping[str, Mapping[str, Any]]:
        """The values of parameters at each size."""
        found = self._get("sizes", dict, "a table", "write sizes.quick = { loops = 100 }", {})
        for size, values in found.items():
            if size not in SIZES:
                raise UnknownName("size", size, SIZES, f"in sizes of {self.place}")
            if not isinstance(values, Mapping):
                self._refuse(f"sizes.{size}", values, "is not a table", "write { loops = 100 }")
            for name, value in values.items():
                self._refuse_bad_parameter(f"sizes.{size}", name, value)
        return found

    def sweep(self) -> Mapping[str, tuple]:
        """Parameters and the values that each takes in turn."""
        hint = 'write sweep.jobs = "1..5" or sweep.jobs = [1, 2, 4]'
        found = self._get("sweep", dict, "a table", hint, {})
        swept: dict[str, tuple] = {}
        for name, values in found.items():
            if isinstance(values, str):
                values = list(parse_values(f"{self.place}: sweep.{name}", values))
            if not isinstance(values, list) or not values:
                self._refuse(f"sweep.{name}", values, "is no list of values", hint)
            for value in values:
                self._refuse_bad_parameter("sweep", name, value)
            if len(set(values)) < len(values):
                self._refuse(f"sweep.{name}", values, "holds a value twice", "leave one out")
            swept[name] = tuple(values)
        return swept

    def _refuse_bad_parameter(self, key: str, name: str, value: Any) -> None:
        if not NAME.fullmatch(name) or name in GIVEN:
            self._refuse(key, name, "cannot name a parameter", "use a-z, 0-9, - and _")
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self._refuse(f"{key}.{name}", value, "is neither number nor text", "give one of these")

    def _refuse_bad_pattern(self, pattern: str) -> None:
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            self._refuse("record.regex", pattern, f"is no regular expression: {error}", "mend it")
        if groups != 1:
            hint = "put ( ) around the number, and (?: ) around what else belongs together"
            self._refuse("record.regex", pattern, f"has {groups} groups, not one", hint)

    def _get(self, key: str, kinds: Any, sort: str, hint: str, default: Any) -> Any:
        self._asked.add(key)
        if key not in self.given:
            if default is None:
                raise BadValue(self.place, key, "is missing", f"add {key} = …")
            return default
        found = self.given[key]
        wrong_bool = isinstance(found, bool) and kinds is not bool
        if not isinstance(found, kinds) or wrong_bool:
            self._refuse(key, found, f"is not {sort}", hint)
        return found

    def _refuse(self, key: str, value: Any, why: str, hint: str) -> None:
        raise BadValue(f"{self.place}: {key}", value, why, hint)
