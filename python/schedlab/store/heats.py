"""Keeps every heat of a race in the store of runs, under the key of what was asked.

A heat is committed the moment it ends: a race that is stopped goes on where it was. A heat that is
raced again takes the place of the old one.

The table is made where a store has none yet. It changes nothing for a schedlab that knows no
races, so stores keep their format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schedlab.digests import canonical_json
from schedlab.store.faults import decode
from schedlab.store.runs import Store

TABLE = """
CREATE TABLE IF NOT EXISTS heats (
    key TEXT PRIMARY KEY,
    raced_at TEXT NOT NULL,
    load REAL,
    result TEXT NOT NULL
) STRICT
"""


@dataclass(frozen=True, slots=True)
class StoredHeat:
    """What is kept of a heat: when it was raced (UTC), the machine's load then, the core's answer.

    `load` is None where the system does not tell.
    """

    raced_at: str
    load: float | None
    result: Mapping


class Heats:
    """The heats of a store, open for writing.

    Raises
    ------
    StoreError
        Here and in every method: the store cannot be read or written.
    """

    def __init__(self, store: Store):
        self.store = store
        with store.transaction() as database:
            database.execute(TABLE)

    def add(self, key: str, heat: StoredHeat) -> None:
        """Commits a heat; an older one with the same key is forgotten."""
        with self.store.transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO heats VALUES (?, ?, ?, ?)",
                (key, heat.raced_at, heat.load, canonical_json(heat.result)),
            )

    def find(self, key: str) -> StoredHeat | None:
        """The heat with this key, if there is one."""
        with self.store.transaction() as database:
            row = database.execute(
                "SELECT raced_at, load, result FROM heats WHERE key = ?", (key,)
            ).fetchone()
        if row is None:
            return None
        return _read(self.store, key, row)


def kept_heats(store: Store) -> list[StoredHeat]:
    """Every heat of a store, which may be open for reading only, in the order of their times."""
    if not store.rows("SELECT name FROM sqlite_schema WHERE name = 'heats'"):
        return []
    rows = store.rows("SELECT key, raced_at, load, result FROM heats ORDER BY raced_at")
    return [_read(store, row["key"], row) for row in rows]


def _read(store: Store, key: str, row: Mapping) -> StoredHeat:
    again = "restore a copy, or race again with --again"
    result = decode(store.path, f"heat {key}", "result", row["result"], hint=again)
    return StoredHeat(row["raced_at"], row["load"], result)
