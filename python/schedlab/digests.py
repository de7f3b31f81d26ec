"""Values as stores, their keys and tables have them: equal values as equal texts, times as texts,
and what a thing knows by the names of columns."""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any


def canonical_json(value: object) -> str:
    """One text for equal values, whatever the order of their keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest_of(value: object) -> str:
    """64 hex digits, equal for equal JSON values."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def timestamp(ago_ns: int = 0) -> str:
    """Now, or so long ago, in UTC to the millisecond."""
    then = datetime.now(UTC) - timedelta(microseconds=ago_ns / 1e3)
    return then.isoformat(timespec="milliseconds")


def attributes(thing: Any, *names: str) -> dict[str, Any]:
    """Attributes of a thing by their names; None of all of them where there is no thing."""
    return {name: thing and getattr(thing, name) for name in names}


def ends(name: str, estimate: Any, value: str = "mean") -> dict[str, float | None]:
    """NAME, NAME_low and NAME_high of what has a 95 % interval around its `value`; None of all of
    them where there is no estimate."""
    columns = {name: value, f"{name}_low": "low", f"{name}_high": "high"}
    return {column: estimate and getattr(estimate, of) for column, of in columns.items()}


def flat(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Every value by its name after a prefix, of one in a table as TABLE.NAME; a list as JSON.

    pandas flattens too, but takes longer to load than a CSV file takes to write.
    """
    columns = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            columns |= flat(f"{prefix}{name}.", value)
        else:
            columns[f"{prefix}{name}"] = canonical_json(value) if isinstance(value, list) else value
    return columns
