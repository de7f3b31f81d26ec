"""Heats as rows of a table, for other programs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schedlab.store.heats import StoredHeat

OF_HEAT = ("per", "clock", "ticks_per_s", "cpu")
OF_SPEC = ("workload", "keys", "n", "queues", "loops", "rounds", "order", "seed")
OF_ROW = (
    "structure", "source", "exact", "left_out", "order_hash", "bytes_per_item",
    "instructions_per_loop", "cache_misses_per_loop", "disturbed",
)  # fmt: skip


def heat_rows(heats: Sequence[StoredHeat]) -> list[dict[str, Any]]:
    """A row a round of each structure in each heat, in order; one row of who was left out.

    Columns are as in `schedlab race --json`, those of single operations as `single.p50` or
    `single.pop.p50`; `ticks_per_loop` and `pace` are of the round.
    """
    return [row for heat in heats for found in heat.result["rows"] for row in _rows(heat, found)]


def _rows(heat: StoredHeat, found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    row = {"raced_at": heat.raced_at, "load": heat.load}
    for names, values in ((OF_SPEC, heat.result["spec"]), (OF_HEAT, heat.result), (OF_ROW, found)):
        row |= {name: values.get(name) for name in names}
    row |= _percentiles("single", found["single"] or {})
    ticks = found["ticks_per_loop"]
    # Heats of earlier versions have no paces.
    rounds = list(zip(ticks, found.get("paces") or [None] * len(ticks), strict=True))
    for number, (ticks, pace) in enumerate(rounds or [(None, None)], 1):
        yield row | {"round": number, "ticks_per_loop": ticks, "pace": pace}


def _percentiles(name: str, single: Mapping[str, Any]) -> dict[str, float]:
    """Those of all operations together, and of each by itself."""
    columns = {}
    for key, value in single.items():
        column = f"{name}.{key}"
        columns |= _percentiles(column, value) if isinstance(value, Mapping) else {column: value}
    return columns
