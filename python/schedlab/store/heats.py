"""Keeps every heat of a race in the store of runs, under the key of what was asked.

A heat is committed the moment it ends: a race that is stopped goes on where it was.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from schedlab.store import faults
from schedlab.store.rows import ALWAYS, Table
from schedlab.store.runs import Store


@dataclass(frozen=True)
class StoredHeat:
    """What is kept of a heat: when it was raced (UTC), the machine's load then, the core's answer.
    `load` is None where the system does not tell."""

    raced_at: str
    load: float | None
    result: Mapping[str, Any]


HEATS = Table("heats", {"key": str, **get_type_hints(StoredHeat)}, unique=("key",))


class Heats:
    """The heats of a store, which may be open for reading only. Every method raises StoreError if
    the store cannot be read or written."""

    def __init__(self, store: Store):
        self.store = store
        store.make_tables(HEATS)

    def add(self, key: str, heat: StoredHeat) -> None:
        """Commits a heat; an older one with the same key is forgotten."""
        self.store.put(HEATS, {"key": key, **vars(heat)}, ALWAYS)

    def find(self, key: str) -> StoredHeat | None:
        """The heat with this key, if there is one."""
        return next(self._heats("WHERE key = ?", key), None)

    def all(self) -> list[StoredHeat]:
        """Every heat, in the order of their times."""
        return list(self._heats("ORDER BY raced_at"))

    def _heats(self, rest: str, *values: str) -> Iterator[StoredHeat]:
        again = "restore a copy, or race again with --again"
        for row in self.store.select(HEATS, rest, *values):
            name = f"heat {row['key']}"
            kept = HEATS.decoded(self.store.path, row, name, again)
            if not {"spec", "rows"} <= kept["result"].keys():
                raise faults.damaged(self.store.path, name, "its result has no rows", again)
            yield StoredHeat(kept["raced_at"], kept["load"], kept["result"])
