"""Heats as rows of a table, for other programs."""

from collections.abc import Sequence
from typing import Any

from schedlab.digests import flat
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
    rows = []
    for heat, found in ((one, found) for one in heats for found in one.result["rows"]):
        row = {"raced_at": heat.raced_at, "load": heat.load}
        told = ((OF_SPEC, heat.result["spec"]), (OF_HEAT, heat.result), (OF_ROW, found))
        row |= {name: values.get(name) for names, values in told for name in names}
        row |= flat("single.", found["single"] or {})
        ticks = found["ticks_per_loop"] or [None]
        # Heats of earlier versions have no paces.
        paces = found.get("paces") or [None] * len(ticks)
        for number, (time, pace) in enumerate(zip(ticks, paces, strict=True), 1):
            rows.append(row | {"round": number, "ticks_per_loop": time, "pace": pace})
    return rows
