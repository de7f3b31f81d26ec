"""Texts of options and files as values: numbers, times, ranges, tunables; and tables of TOML.

`Table` reads strictly: a misspelt key would otherwise change what is done without a word.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from schedlab.errors import BadValue, ExperimentError, refuse_unknown

VARIED_VALUES_MAX = 1_000

UNIT_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
QUANTITY = re.compile(r"(?P<number>-?\d+(?:\.\d+)?)(?P<unit>[a-zµ]*)")

# A whole number that grows with a machine.
BY_CPUS = re.compile(r"(?:(?P<times>\d{1,6}) ?\* ?)?cpus(?P<more> ?[+-] ?\d{1,6})?")

# Smallest and largest value of C's types; what is not known here is left to the core.
BITS = (8, 16, 32, 64, 128)
BOUNDS = {"bool": (0, 1)} | {f"u{bits}": (0, 2**bits - 1) for bits in BITS}
BOUNDS |= {f"s{bits}": (-(2**bits) // 2, 2**bits // 2 - 1) for bits in BITS}

PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")
PERCENT_LEAST, PERCENT_MOST = 0.01, 50.0

Value = int | float | str


def refuse_duplicates(kind: str, names: Sequence[str]) -> None:
    """Raises ExperimentError if a name stands twice: tables and the store go by names."""
    for name in names:
        if names.count(name) > 1:
            raise ExperimentError(f"{kind} {name!r} is given twice", "leave out one")


# ---- texts of options ----------------------------------------------------------------------------


def parse_assignments(place: str, texts: Iterable[str]) -> dict[str, str]:
    """`NAME=VALUE` texts as a mapping; a name given twice is an error, not a silent choice."""
    values: dict[str, str] = {}
    for text in texts:
        name, _, value = (part.strip() for part in text.partition("="))
        if not name or not value:
            raise BadValue(place, text, "is not NAME=VALUE")
        if name in values:
            raise BadValue(place, text, f"sets {name!r} for the second time")
        values[name] = value
    return values


def parse_percent(place: str, text: str) -> float:
    """A percentage such as "1%" as a share; raises BadValue if it is none that can be reached."""
    percent = PERCENT.fullmatch(str(text).strip())
    number = float(percent[1]) if percent else 0.0
    if not PERCENT_LEAST <= number <= PERCENT_MOST:
        why = "is not a percentage that can be reached"
        hint = f"give one from {PERCENT_LEAST}% to {PERCENT_MOST:g}%, as in 1%"
        raise BadValue(place, text, why, hint)
    return number / 100


def parse_set(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """`policy.tunable=value` texts as label -> tunable -> text. A tunable without a policy, under
    the label "", is that of the only one, so it must not be set for one too."""
    settings: dict[str, dict[str, str]] = {}
    for name, value in parse_assignments("--set", texts).items():
        label, _, tunable = name.rpartition(".")
        settings.setdefault(label, {})[tunable] = value
    bare = settings.get("", {})
    for label, of_policy in settings.items():
        for tunable in of_policy.keys() & bare.keys() if label else ():
            text, why = f"{label}.{tunable}={of_policy[tunable]}", f"{tunable}={bare[tunable]}"
            hint = f"leave out one, or say of which policy each is: --set {label}.{tunable}=..."
            raise BadValue("--set", text, f"sets what {why!r} sets too", hint)
    return settings


def parse_vary(texts: Iterable[str]) -> dict[str, tuple[Value, ...]]:
    """`name=a..b:step`, `name=a..b` (step 1) and `name=a,b,c` texts as name -> values."""
    given = parse_assignments("--vary", texts)
    return {name: parse_values(f"--vary {name}", text) for name, text in given.items()}


def parse_values(place: str, text: str) -> tuple[Value, ...]:
    """The values of one varied parameter, in the order given; none twice."""
    parts = _range_texts(place, text) if ".." in text else text.split(",")
    texts = [part.strip() for part in parts]
    if not all(texts):
        raise BadValue(place, text, "holds an empty value", "write a,b,c or a..b:step")
    return distinct_values(place, texts)


def distinct_values(place: str, texts: Sequence[str]) -> tuple[Value, ...]:
    """The values of these texts; one that comes twice, however written, would count runs twice."""
    values = tuple(map(parse_value, texts))
    if len(set(values)) < len(values):
        raise BadValue(place, ",".join(texts), "holds a value twice")
    return values


def _range_texts(place: str, text: str) -> list[str]:
    ends, colon, step = text.partition(":")
    parts = [QUANTITY.fullmatch(part.strip()) for part in ends.split("..")]
    unit = parts[0]["unit"] if parts[0] else ""
    parts.append(QUANTITY.fullmatch(step.strip() if colon else f"1{unit}"))
    if len(parts) != 3 or not all(parts) or any(part["unit"] != unit for part in parts):
        hint = "write a..b:step with numbers of one unit, as in 25..200:25 or 1ms..5ms:1ms"
        raise BadValue(place, text, "is not a range", hint)
    first, last, stride = (Decimal(part["number"]) for part in parts)
    if stride <= 0 or last < first:
        raise BadValue(place, text, "is empty", "a range goes up, by a step above 0")
    count = int((last - first) / stride) + 1
    if count > VARIED_VALUES_MAX:
        why = f"has {count} values, more than {VARIED_VALUES_MAX}"
        raise BadValue(place, text, why, "take a larger step")
    return [f"{(first + i * stride).normalize():f}{unit}" for i in range(count)]


def parse_value(text: str) -> Value:
    """A number where the text is one without a unit, else the text itself."""
    quantity = QUANTITY.fullmatch(text)
    if not quantity or quantity["unit"]:
        return text
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else float(number)


def of_machine(text: str, nr_cpus: int) -> str:
    """A number that is said by a machine's CPUs, as in `cpus`, `8*cpus` or `cpus+1`; any other text
    as it is."""
    if (said := BY_CPUS.fullmatch(text)) is None:
        return text
    return str(int(said["times"] or 1) * nr_cpus + int((said["more"] or "0").replace(" ", "")))


def numeric(value: Value) -> float | None:
    """A varied value as a number, times in nanoseconds; None for a word."""
    if isinstance(value, (int, float)):
        return float(value)
    quantity = QUANTITY.fullmatch(value)
    if not quantity or quantity["unit"] not in UNIT_NS:
        return None
    return float(quantity["number"]) * UNIT_NS[quantity["unit"]]


# Columns of what a workload was given and what else was varied begin so.
PARAMETER = "parameter."
TRUTH = {"true": True, "false": False}


@dataclass
class Texts:
    """What texts are that stand for values of one thing, from one to the next."""

    _are_truths: bool = True
    _are_numbers: bool = True
    _are_quantities: bool = True

    def see(self, text: str) -> None:
        """One more of them."""
        value = parse_value(text)
        self._are_truths &= text in TRUTH
        self._are_numbers &= not isinstance(value, str)
        self._are_quantities &= numeric(value) is not None

    def reader(self) -> tuple[Callable[[str], Any], str]:
        """What reads them all, and how the name of their column ends then: truth values, numbers,
        times as whole nanoseconds, else texts."""
        if self._are_truths:
            return TRUTH.__getitem__, ""
        if self._are_numbers:
            return parse_value, ""
        if self._are_quantities:
            return lambda text: round(numeric(parse_value(text)) or 0), "_ns"
        return str, ""


def parse_duration_ns(place: str, text: str, times: int = 1) -> int:
    """So many `times` a time with its unit, as in 9.3s or 250us, in whole nanoseconds above 0."""
    quantity = QUANTITY.fullmatch(str(text).strip())
    if not quantity or quantity["unit"] not in UNIT_NS:
        raise BadValue(place, text, "is not a time", "write a number and ns, us, ms, s or min")
    duration_ns = Decimal(quantity["number"]) * UNIT_NS[quantity["unit"]] * times
    if duration_ns <= 0 or duration_ns != duration_ns.to_integral_value():
        why = "is not a whole number of nanoseconds above 0"
        raise BadValue(place, text, why, "give one, as in 250us")
    if duration_ns >= 2**63:
        why = "is longer than the simulator can count (292 years)"
        raise BadValue(place, text, why, "give a shorter time")
    return int(duration_ns)


def parse_tunable(place: str, name: str, kind: str, text: str) -> int:
    """The value of one tunable, whose C type is `kind`: bool, u8 ... u64, s8 ... s64.

    A text with a unit of time is converted to the unit that the tunable's own name ends in (`_us`,
    `_ms`); without one it is nanoseconds, as everywhere in the kernel. Raises BadValue if the text
    is no value, or does not fit the type.
    """
    low, high = BOUNDS.get(kind.lstrip("_"), BOUNDS["s128"])
    word = text.strip().lower()
    quantity = QUANTITY.fullmatch({"true": "1", "false": "0"}.get(word, text.strip()))
    if not quantity or quantity["unit"] not in ("", *UNIT_NS):
        raise BadValue(place, text, "is not a value", "write 6ms, 250us, 1s, 1024, true or false")
    number = Decimal(quantity["number"])
    if quantity["unit"]:
        number = number * UNIT_NS[quantity["unit"]] / UNIT_NS.get(name.rpartition("_")[2], 1)
    if number != number.to_integral_value():
        raise BadValue(place, text, f"is not a whole number, as {name} ({kind}) needs")
    if not low <= number <= high:
        what = f"does not fit {name} ({kind}: {low} to {high})"
        raise BadValue(place, text, what, "give a value within these bounds")
    return int(number)


# ---- tables of TOML files ------------------------------------------------------------------------


class Table:
    """One table of a TOML file: asked for each of its keys, it then refuses all others.

    A key that has no default must be there. An error names `place`, which is the file and where in
    it the table stands, then the key: dots lead into the tables of a table, and a colon to the name
    or number of a table in an array.
    """

    def __init__(self, given: Mapping[str, Any], place: str, dot: str = ": "):
        for key in given:
            # Where no file is read, but what would be in it.
            if not isinstance(key, str):
                raise BadValue(place, key, "is no name", 'write it in "…"')
        self.given = given
        self.place = place
        self._dot = dot
        self._known: set[str] = set()

    def refuse_others(self, known: Iterable[str] = ()) -> None:
        """Raises UnknownName for the first key that is not `known`, nor was asked for before."""
        self._known.update(known)
        refuse_unknown("key", self.given, self._known, f"in {self.place}")

    def refuse(self, key: str, value: Any, why: str, hint: str | None = None) -> NoReturn:
        """Raises BadValue for the value of a key."""
        raise BadValue(self.place_of(key), value, why, hint)

    def place_of(self, key: str) -> str:
        """Where the value of a key stands, for messages."""
        return f"{self.place}{self._dot}{key}"

    def get(self, key: str, kinds: Any, sort: str, hint: str | None, default: Any = None) -> Any:
        """The value of a key, of one of the types `kinds`, which people call `sort`."""
        self._known.add(key)
        if key not in self.given:
            if default is None:
                raise BadValue(self.place, key, "is missing", f"add {key} = …")
            return default
        value = self.given[key]
        # To Python, true is a whole number.
        sorts = kinds if isinstance(kinds, tuple) else (kinds,)
        if not isinstance(value, sorts) or (isinstance(value, bool) and bool not in sorts):
            self.refuse(key, value, f"is not {sort}", hint)
        return value

    def table(self, key: str, hint: str | None = None) -> "Table":
        """The table of a key, empty if it is not there."""
        # Within the file, of which the place begins with the path.
        dotted = self.place_of(key).rpartition(": ")[2]
        value = self.get(key, dict, "a table", hint or f"write [{dotted}]", {})
        return Table(value, self.place_of(key), ".")

    def tables(self, key: str) -> list["Table"]:
        """The tables of an array, each placed by its name or number."""
        hint = f"write [[{key}]]"
        tables = []
        for number, value in enumerate(self.get(key, list, "an array of tables", hint, []), 1):
            if not isinstance(value, dict):
                self.refuse(key, value, "is not a table", hint)
            name = value.get("name")
            which = repr(name) if isinstance(name, str) else number
            tables.append(Table(value, f"{self.place_of(key)} {which}"))
        return tables

    def text(self, key: str, default: str | None = None) -> str:
        """A text that is not empty."""
        text = self.get(key, str, "text", 'write it in "…"', default)
        if not text.strip() and text != default:
            self.refuse(key, text, "is empty", "say something, or leave the key out")
        return text

    def word(self, key: str, default: str | None = None) -> str:
        """The text of a text, a number, true or false."""
        kinds = (str, int, float, bool)
        hint = 'write one, as in 5, "5ms" or true'
        value = self.get(key, kinds, "a number, a text or true/false", hint, default)
        return str(value).lower() if isinstance(value, bool) else str(value)

    def words(self, key: str, hint: str | None = None) -> dict[str, str]:
        """The words of a table whose keys are names."""
        table = self.table(key, hint)
        return {name: table.word(name) for name in table.given}

    def flag(self, key: str) -> bool:
        """true or false; false if it is not there."""
        return self.get(key, bool, "true or false", "write true or leave it out", False)

    def number(
        self, key: str, default: float | None, least: float, most: float, whole: bool = False
    ) -> Any:
        """A number within bounds."""
        sort = "a whole number" if whole else "a number"
        hint = f"give one from {least} to {most}"
        value = self.get(key, int if whole else (int, float), sort, hint, default)
        if not least <= value <= most:
            self.refuse(key, value, f"is not {sort} from {least} to {most}", "change it")
        return value

    def texts(self, key: str, least: int = 0) -> tuple[str, ...]:
        """A list of at least so many texts that are not empty."""
        hint = 'write it as ["…", "…"]'
        texts = self.get(key, list, "a list of texts", hint, None if least else [])
        for text in texts:
            if not isinstance(text, str) or not text.strip():
                self.refuse(key, text, "is not a text", hint)
        if len(texts) < least:
            self.refuse(key, texts, "is empty", hint)
        return tuple(texts)

    def values(self, key: str, hint: str | None = None) -> tuple[Any, ...]:
        """The values of a list, as they stand there, or of a text such as `1..5:2` or `a,b`."""
        values = self.get(key, (list, str), "a list of values", hint)
        if isinstance(values, str):
            return parse_values(self.place_of(key), values)
        if not values:
            self.refuse(key, values, "is empty", hint)
        for value in values:
            if not isinstance(value, (int, float, str)):
                self.refuse(key, value, "is no number, no text and not true or false", hint)
        values = [str(value).lower() if isinstance(value, bool) else value for value in values]
        if len(set(values)) < len(values):
            self.refuse(key, values, "holds a value twice", "leave one out")
        return tuple(values)
