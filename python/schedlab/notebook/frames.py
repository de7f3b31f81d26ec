"""Rows as pandas frames: numbers are numbers, and the name of a column ends in its unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedlab import values

if TYPE_CHECKING:
    import pandas

    from schedlab.statistics.estimates import Estimate

# What the name of a workload's parameter begins with in a row.
PARAMETER = "parameter."
# The columns of a ratio with its 95 % interval, and its attributes.
RATIO = {"ratio": "ratio", "ratio_low": "low", "ratio_high": "high"}
TRUTH = {"true": True, "false": False}


def frame_of(rows: Sequence[Any], columns: Sequence[str] | None = None) -> pandas.DataFrame:
    """A frame of these rows.

    Columns are those of the rows unless they are given. The texts of a column `parameter.NAME`
    become numbers in a column NAME, times nanoseconds in NAME_ns, `true` and `false` truth values;
    what else there is stays a text. The column keeps its name where NAME is that of another one.
    """
    import pandas

    frame = pandas.DataFrame(rows, columns=columns)
    names = {}
    for column in frame.columns:
        if str(column).startswith(PARAMETER):
            read, unit = _reader(frame[column].dropna().map(str))
            frame[column] = frame[column].map(lambda text, read=read: read(str(text)), "ignore")
            name = column.removeprefix(PARAMETER).removesuffix(unit) + unit
            names[column] = column if name in frame.columns else name
    return frame.rename(columns=names)


def _reader(texts: Sequence[str]) -> tuple[Callable[[str], Any], str]:
    """What reads these texts, and the unit that the name of their column gets."""
    if all(text in TRUTH for text in texts):
        return TRUTH.__getitem__, ""
    parsed = [values.parse_value(text) for text in texts]
    if not any(isinstance(value, str) for value in parsed):
        return values.parse_value, ""
    if all(values.numeric(value) is not None for value in parsed):
        return lambda text: round(values.numeric(values.parse_value(text)) or 0), "_ns"
    return str, ""


def ends(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    """The columns NAME, NAME_low and NAME_high of an estimate with its 95 % interval."""
    return attributes(estimate, {name: "mean", f"{name}_low": "low", f"{name}_high": "high"})


def attributes(thing: Any, columns: Mapping[str, str]) -> dict[str, Any]:
    """The attributes of a thing as these columns; None of all of them where there is no thing."""
    return {column: thing and getattr(thing, name) for column, name in columns.items()}


def parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as the columns of a row of `frame_of`."""
    return {f"{PARAMETER}{name}": value for name, value in given.items()}
