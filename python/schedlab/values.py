"""Texts of options and files as values: numbers, times, ranges, tunables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

from schedlab.errors import BadValue, ExperimentError

VARIED_VALUES_MAX = 1_000

UNIT_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
QUANTITY = re.compile(r"(?P<number>-?\d+(?:\.\d+)?)(?P<unit>[a-zµ]*)")

Value = int | float | str


def refuse_duplicates(kind: str, names: Sequence[str]) -> None:
    """Raises ExperimentError if a name stands twice: tables and the store go by names."""
    for name in names:
        if names.count(name) > 1:
            raise ExperimentError(f"{kind} {name!r} is given twice", "leave out one")


# ---------------------------------------------------------------------------------------------
# Texts of options


def parse_assignments(place: str, texts: Iterable[str]) -> dict[str, str]:
    """`NAME=VALUE` texts as a mapping; a name given twice is an error, not a silent choice."""
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise BadValue(place, text, "is not NAME=VALUE")
        if name.strip() in values:
            raise BadValue(place, text, f"sets {name.strip()!r} for the second time")
        values[name.strip()] = value.strip()
    return values


def parse_set(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """`policy.tunable=value` texts as label -> tunable -> text; label "" where none is named.

    A tunable without a policy is that of the only policy, so it must not be set for one too.
    """
    settings: dict[str, dict[str, str]] = {}
    for name, value in parse_assignments("--set", texts).items():
        label, _, tunable = name.rpartition(".")
        settings.setdefault(label, {})[tunable] = value
    bare = settings.get("", {})
    for label, of_policy in settings.items():
        for tunable in of_policy.keys() & bare.keys() if label else ():
            raise BadValue(
                "--set",
                f"{label}.{tunable}={of_policy[tunable]}",
                f"sets what {f'{tunable}={bare[tunable]}'!r} sets too",
                f"leave out one, or say of which policy each is: --set {label}.{tunable}=...",
            )
    return settings


def parse_vary(texts: Iterable[str]) -> dict[str, tuple[Value, ...]]:
    """`name=a..b:step`, `name=a..b` (step 1) and `name=a,b,c` texts as name -> values."""
    return {
        name: parse_values(f"--vary {name}", text)
        for name, text in parse_assignments("--vary", texts).items()
    }


def parse_values(place: str, text: str) -> tuple[Value, ...]:
    """The values of one varied parameter, in the order given; none twice."""
    values = _range_values(place, text) if ".." in text else _listed_values(place, text)
    if len(set(values)) < len(values):
        raise BadValue(place, text, "holds a value twice")
    return values


def _listed_values(place: str, text: str) -> tuple[Value, ...]:
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise BadValue(place, text, "holds an empty value", "write a,b,c or a..b:step")
    return tuple(parse_value(item) for item in items)


def _range_values(place: str, text: str) -> tuple[Value, ...]:
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
        raise BadValue(
            place, text, f"has {count} values, more than {VARIED_VALUES_MAX}", "take a larger step"
        )
    return tuple(parse_value(f"{(first + i * stride).normalize():f}{unit}") for i in range(count))


def parse_value(text: str) -> Value:
    """A number where the text is one without a unit, else the text itself."""
    quantity = QUANTITY.fullmatch(text)
    if not quantity or quantity["unit"]:
        return text
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else float(number)


def numeric(value: Value) -> float | None:
    """A varied value as a number, times in nanoseconds; None for a word."""
    if isinstance(value, (int, float)):
        return float(value)
    quantity = QUANTITY.fullmatch(value)
    if not quantity or quantity["unit"] not in UNIT_NS:
        return None
    return float(quantity["number"]) * UNIT_NS[quantity["unit"]]


def parse_duration_ns(place: str, text: str) -> int:
    """A time with its unit, as in 9.3s or 250us, in whole nanoseconds."""
    return whole_ns(place, text, parse_decimal_ns(place, text))


def parse_decimal_ns(place: str, text: str) -> Decimal:
    """A time with its unit, in nanoseconds and their fractions."""
    quantity = QUANTITY.fullmatch(text.strip())
    if not quantity or quantity["unit"] not in UNIT_NS:
        raise BadValue(place, text, "is not a time", "write a number and ns, us, ms, s or min")
    return Decimal(quantity["number"]) * UNIT_NS[quantity["unit"]]


def whole_ns(place: str, text: str, duration_ns: Decimal) -> int:
    """`duration_ns`, which `text` stands for, as a whole number above 0."""
    if duration_ns <= 0 or duration_ns != duration_ns.to_integral_value():
        raise BadValue(place, text, "is not a whole number of nanoseconds above 0")
    if duration_ns >= 2**63:
        raise BadValue(place, text, "is longer than the simulator can count (292 years)")
    return int(duration_ns)


def parse_tunable(place: str, name: str, kind: str, text: str) -> int:
    """The value of one tunable.

    A text with a unit of time is converted to the unit that the tunable's own name ends in
    (`_us`, `_ms`); without one it is nanoseconds, as everywhere in the kernel.

    Parameters
    ----------
    kind : str
        C type as the policy declares it: bool, u8 ... u64, s8 ... s64.

    Raises
    ------
    BadValue
        If the text is no value, or does not fit the type.
    """
    low, high = _bounds(kind)
    word = {"true": 1, "false": 0}.get(text.strip().lower())
    quantity = QUANTITY.fullmatch(text.strip())
    if word is not None:
        number = Decimal(word)
    elif quantity and quantity["unit"] in ("", *UNIT_NS):
        number = Decimal(quantity["number"])
        if quantity["unit"]:
            unit_ns = UNIT_NS.get(name.rpartition("_")[2], 1)
            number = number * UNIT_NS[quantity["unit"]] / unit_ns
    else:
        raise BadValue(place, text, "is not a value", "write 6ms, 250us, 1s, 1024, true or false")
    if number != number.to_integral_value():
        raise BadValue(place, text, f"is not a whole number, as {name} ({kind}) needs")
    if not low <= number <= high:
        raise BadValue(place, text, f"does not fit {name} ({kind}: {low} to {high})")
    return int(number)


def _bounds(kind: str) -> tuple[int, int]:
    """Smallest and largest value of a C type; a type not known here is left to the core."""
    sized = re.fullmatch(r"_*([us])(8|16|32|64)", kind)
    if kind == "bool":
        return 0, 1
    signed, bits = (sized[1] == "s", int(sized[2])) if sized else (True, 128)
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
