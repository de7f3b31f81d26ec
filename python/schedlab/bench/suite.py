"""Suites: files that say which programs are run to measure a machine, and what is recorded.

A suite is read strictly, as `values.Table` does. `cases` makes of a suite what is run: a benchmark
with one value for each parameter.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab import user_file
from schedlab.digests import digest_of
from schedlab.errors import BadValue, refuse_unknown
from schedlab.values import Table

SIZES = ("quick", "full")
REPETITIONS_MAX = 10_000
CASES_MAX = 1000
# Keys with a number: default, smallest, largest, whether it must be whole.
LIMITS = {
    "repetitions": (10, 1, REPETITIONS_MAX, True),
    "warm_up": (1, 0, REPETITIONS_MAX, True),
    "timeout_s": (600, 0.01, 7 * 24 * 3600, False),
}
NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
# `{name}` is filled in; `${name}` is the shell's.
PLACEHOLDER = re.compile(r"(?<!\$)\{([a-z0-9][a-z0-9_-]*)\}")
# What every command may use: the program schedlab-bench, a folder to work in, the CPUs.
GIVEN = ("bench", "work", "nr_cpus")
# The commands of a benchmark.
COMMANDS = ("command", "prepare", "cleanup")

Command = str | tuple[str, ...]
"""A text for the shell, or a program and its arguments."""


@dataclass(frozen=True)
class Record:
    """What a repetition gives: `how` is "elapsed" (seconds), "json" or "regex"; `what` is a
    path into the last line of the output, as in `figure.value`, or a pattern with one group, of
    which the last place that it is found at counts."""

    how: str
    what: str = ""


@dataclass(frozen=True)
class Input:
    """What is made once, in a folder of its own: a source tree, a clip; `files` are known by their
    SHA-256 from then on."""

    name: str
    command: Command
    files: tuple[str, ...]
    description: str
    needs: tuple[str, ...]
    timeout_s: float
    sizes: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Benchmark:
    """One command and how it is measured; `needs` are Debian's packages that it takes. Where it
    searches for a limit, `ended_by` is the path to what ended that, in the value's line of JSON."""

    name: str
    command: Command
    unit: str
    record: Record
    description: str
    prepare: Command | None
    cleanup: Command | None
    inputs: tuple[str, ...]
    needs: tuple[str, ...]
    repetitions: int
    warm_up: int
    timeout_s: float
    higher_is_better: bool
    ended_by: str
    sizes: Mapping[str, Mapping[str, Any]]
    sweep: Mapping[str, tuple]


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
    """What is repeated: a benchmark with a value for each of its parameters; `varied` are those
    that tell the cases of a benchmark apart."""

    benchmark: Benchmark
    values: Mapping[str, Any]
    varied: tuple[str, ...]

    @property
    def name(self) -> str:
        """As tables show it: `make jobs=3`."""
        varied = (f"{name}={self.values[name]}" for name in self.varied)
        return " ".join((self.benchmark.name, *varied))

    def digest(self, inputs: Mapping[str, Any]) -> str:
        """What is measured, as one word: results with equal ones may be compared. `inputs` are the
        digests of the files of each input; how often and how long is no part of it."""
        benchmark = self.benchmark
        measured = {key: getattr(benchmark, key) for key in ("unit", *COMMANDS)}
        measured["record"] = [benchmark.record.how, benchmark.record.what]
        measured["inputs"] = {name: inputs[name] for name in benchmark.inputs}
        return digest_of({**measured, "values": dict(self.values)})[:16]


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
    """The cases of the benchmarks with these names, all if none is given."""
    refuse_unknown("benchmark", wanted, {case.benchmark.name for case in made}, "in --only")
    return [case for case in made if not wanted or case.benchmark.name in wanted]


def fill(command: Command, values: Mapping[str, Any]) -> Command:
    """A command with each `{name}` replaced; the names are known to be there."""

    def filled(text: str) -> str:
        return PLACEHOLDER.sub(lambda match: str(values[match[1]]), text)

    return filled(command) if isinstance(command, str) else tuple(map(filled, command))


# ---- reading ------------------------------------------------------------------------------------


def read(path: Path) -> Suite:
    """A suite from its file; refuses what cannot be read, or says what a suite does not."""
    table = user_file.toml(f"suite {path}", path, "see docs/guides/benchmark_a_machine.md")
    return parse(path.name.removesuffix(".toml"), table, str(path))


def parse(name: str, table: Mapping[str, Any], place: str) -> Suite:
    """A suite from the table of its file; errors say `place`."""
    top = Table(table, place)
    inputs = tuple(map(_input, top.tables("input")))
    defaults = {key: top.number(key, *LIMITS[key]) for key in LIMITS}
    names = [one.name for one in inputs]
    benchmarks = tuple(_benchmark(each, defaults, names) for each in top.tables("benchmark"))
    suite = Suite(name, top.text("title"), top.text("description", ""), inputs, benchmarks)
    top.refuse_others()
    if not benchmarks:
        raise BadValue(place, "benchmark", "is missing", "a suite has at least one [[benchmark]]")
    for kind, several in (("input", inputs), ("benchmark", benchmarks)):
        names = [one.name for one in several]
        for name in names:
            if names.count(name) > 1:
                raise BadValue(place, name, f"names two {kind}s", "give each a name of its own")
    for size in SIZES:
        nr_cases = len(cases(suite, size))
        if nr_cases > CASES_MAX:
            why = f"makes {nr_cases} cases, more than {CASES_MAX}"
            raise BadValue(place, "sweep", why, "sweep fewer values")
    return suite


def _input(table: Table) -> Input:
    made = Input(
        name=_name(table),
        command=_command(table, "command"),
        files=table.texts("files", least=1),
        description=table.text("description", ""),
        needs=table.texts("needs"),
        timeout_s=table.number("timeout_s", *LIMITS["timeout_s"]),
        sizes=_sizes(table),
    )
    table.refuse_others()
    _refuse_unknown_names(table, made, GIVEN)
    return made


def _benchmark(table: Table, defaults: Mapping[str, Any], inputs: Sequence[str]) -> Benchmark:
    numbers = {key: table.number(key, defaults[key], *LIMITS[key][1:]) for key in defaults}
    record = _record(table)
    made = Benchmark(
        name=_name(table),
        command=_command(table, "command"),
        unit=table.text("unit", "s" if record.how == "elapsed" else None),
        record=record,
        description=table.text("description", ""),
        prepare=_command(table, "prepare", default="") or None,
        cleanup=_command(table, "cleanup", default="") or None,
        inputs=table.texts("inputs"),
        needs=table.texts("needs"),
        higher_is_better=table.flag("higher_is_better"),
        ended_by=table.text("ended_by", ""),
        sizes=_sizes(table),
        sweep=_sweep(table),
        **numbers,
    )
    table.refuse_others()
    if made.ended_by and record.how != "json":
        hint = 'write record = { json = "…" }, too'
        table.refuse("ended_by", made.ended_by, "is of no JSON", hint)
    refuse_unknown("input", made.inputs, inputs, f"in inputs of {table.place}")
    _refuse_unknown_names(table, made, (*GIVEN, *made.inputs, *made.sweep))
    return made


def _refuse_unknown_names(table: Table, made: Input | Benchmark, known: Sequence[str]) -> None:
    """A `{name}` must have a value in both sizes, or a typing error would be run."""
    for key, size in itertools.product(COMMANDS, SIZES):
        written = PLACEHOLDER.findall(str(getattr(made, key, "")))
        valid, where = {*known, *made.sizes.get(size, {})}, f"{key} of {table.place}, size {size}"
        refuse_unknown("placeholder", written, valid, f"in {where}")


def _name(table: Table) -> str:
    name = table.text("name")
    if not NAME.fullmatch(name) or name in GIVEN:
        hint = "use a-z, 0-9, - and _, and none of " + ", ".join(GIVEN)
        table.refuse("name", name, "cannot be a name", hint)
    return name


def _command(table: Table, key: str, default: str | None = None) -> Command:
    hint = 'write "a text for the shell", or ["program", "argument"]'
    command = table.get(key, (str, list), "a command", hint, default)
    parts = [command] if isinstance(command, str) else command
    if not all(isinstance(part, str) for part in parts):
        table.refuse(key, command, "is not made of texts", hint)
    if key in table.given and not "".join(parts[:1]).strip():
        table.refuse(key, command, "is an empty command", hint)
    return command if isinstance(command, str) else tuple(command)


def _record(table: Table) -> Record:
    hint = 'write "elapsed", { json = "figure.value" } or { regex = "([0-9.]+) s" }'
    record = table.get("record", (str, dict), "known", hint, "elapsed")
    if record == "elapsed":
        return Record("elapsed")
    match record if isinstance(record, dict) and len(record) == 1 else {}:
        case {"json": str(path)} if path:
            return Record("json", path)
        case {"regex": str(pattern)} if pattern:
            try:
                groups = re.compile(pattern).groups
            except re.error as error:
                why = f"is no regular expression: {error}"
                table.refuse("record.regex", pattern, why, "mend it")
            if groups != 1:
                hint = "put ( ) around the number, and (?: ) around what else belongs together"
                table.refuse("record.regex", pattern, f"has {groups} groups, not one", hint)
            return Record("regex", pattern)
    return table.refuse("record", record, "is nothing that can be recorded", hint)


def _sizes(table: Table) -> Mapping[str, Mapping[str, Any]]:
    sizes = table.table("sizes", "write sizes.quick = { loops = 100 }")
    refuse_unknown("size", sizes.given, SIZES, f"in {sizes.place}")
    for size in sizes.given:
        parameters = sizes.table(size, "write { loops = 100 }")
        for name, value in parameters.given.items():
            _refuse_bad_parameter(parameters, name, value)
    return sizes.given


def _sweep(table: Table) -> Mapping[str, tuple]:
    hint = 'write sweep.jobs = "1..5" or sweep.jobs = [1, 2, 4]'
    sweep = table.table("sweep", hint)
    swept = {name: sweep.values(name, hint) for name in sweep.given}
    for name, values in swept.items():
        _refuse_bad_parameter(sweep, name, *values)
    return swept


def _refuse_bad_parameter(table: Table, name: str, *values: Any) -> None:
    if not NAME.fullmatch(name) or name in GIVEN:
        why = "cannot name a parameter"
        raise BadValue(table.place, name, why, f"use a-z, 0-9, - and _, not {', '.join(GIVEN)}")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            table.refuse(name, value, "is neither number nor text", "give one of these")
