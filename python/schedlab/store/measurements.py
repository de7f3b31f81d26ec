"""Keeps every repetition of a benchmark in the store of runs, the moment it ends.

Three tables: `campaigns` (what is measured, where and under what), `surroundings` (the environment,
once for each time that a campaign was started or went on), and `repetitions`. A repetition's place
is unique, so that a campaign that is killed goes on where it was, and nothing is kept twice.

The tables are made where a store has none yet. They change nothing for a schedlab that knows no
benchmarks, so stores keep their format.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schedlab.digests import canonical_json
from schedlab.store.faults import decode
from schedlab.store.runs import Store

OK = "ok"
FAILED = "failed"

TABLES = (
    """
    CREATE TABLE IF NOT EXISTS campaigns (
        id TEXT PRIMARY KEY,
        suite TEXT NOT NULL,
        definition TEXT NOT NULL,
        label TEXT NOT NULL,
        series INTEGER NOT NULL,
        condition TEXT NOT NULL,
        command TEXT NOT NULL,
        version TEXT NOT NULL,
        asked_at TEXT NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE IF NOT EXISTS surroundings (
        id INTEGER PRIMARY KEY,
        campaign TEXT NOT NULL REFERENCES campaigns (id),
        captured_at TEXT NOT NULL,
        facts TEXT NOT NULL,
        warnings TEXT NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE IF NOT EXISTS repetitions (
        id INTEGER PRIMARY KEY,
        campaign TEXT NOT NULL REFERENCES campaigns (id),
        case_digest TEXT NOT NULL,
        policy TEXT NOT NULL,
        slot TEXT NOT NULL,
        case_name TEXT NOT NULL,
        warm_up INTEGER NOT NULL,
        status TEXT NOT NULL,
        value REAL,
        unit TEXT NOT NULL,
        noisy INTEGER NOT NULL,
        started_at TEXT NOT NULL,
        surroundings INTEGER NOT NULL REFERENCES surroundings (id),
        manifest TEXT NOT NULL,
        UNIQUE (campaign, case_digest, policy, slot)
    ) STRICT
    """,
)


@dataclass(frozen=True)
class Campaign:
    """What is measured: `definition` decides it all, `condition` is what it is measured under.

    `series` tells campaigns apart that are equal in all of it.
    """

    id: str
    suite: str
    definition: Mapping[str, Any]
    label: str
    series: int
    condition: Mapping[str, str]
    command: str
    version: str
    asked_at: str


@dataclass(frozen=True)
class Repetition:
    """One repetition and its place. `policy` is the scheduler that was asked for.

    `slot` is its number among the measured ones, or of a warm-up and the boot that it was in.
    `value` is in `unit`, None if it failed. `manifest` is what ran, when, how it ended, and what
    others did meanwhile. `surroundings` is the number of the environment, once it is kept.
    """

    case_digest: str
    case_name: str
    policy: str
    slot: str
    warm_up: bool
    status: str
    value: float | None
    unit: str
    noisy: bool
    started_at: str
    manifest: Mapping[str, Any]
    # A number of this store, not a fact of the repetition: two equal ones may have two.
    surroundings: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Surroundings:
    """An environment, as `environment.capture` told of it when a campaign was started or went on.

    `warnings` are what made results worse, each with what to do.
    """

    number: int
    captured_at: str
    facts: Mapping[str, Any]
    warnings: Sequence[tuple[str, str]]


class Measurements:
    """The repetitions of a store. In a store that is only read, none where there are no tables.

    Raises
    ------
    StoreError
        Here and in every method: the store cannot be read or written.
    """

    def __init__(self, store: Store):
        self.store = store
        if store.is_read_only:
            return
        with store.transaction() as database:
            for table in TABLES:
                database.execute(table)

    def begin(self, campaign: Campaign) -> None:
        """Notes a campaign; again is no error."""
        with self.store.transaction() as database:
            database.execute(
                "INSERT OR IGNORE INTO campaigns VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    campaign.id,
                    campaign.suite,
                    canonical_json(campaign.definition),
                    campaign.label,
                    campaign.series,
                    canonical_json(campaign.condition),
                    campaign.command,
                    campaign.version,
                    campaign.asked_at,
                ),
            )

    def surround(
        self, campaign: str, captured_at: str, facts: Mapping, warnings: list[list[str]]
    ) -> int:
        """Keeps an environment; gives its number, which repetitions refer to."""
        with self.store.transaction() as database:
            cursor = database.execute(
                "INSERT INTO surroundings (campaign, captured_at, facts, warnings)"
                " VALUES (?, ?, ?, ?)",
                (campaign, captured_at, canonical_json(facts), canonical_json(warnings)),
            )
            return cursor.lastrowid

    def add(self, campaign: str, surroundings: int, found: Repetition) -> None:
        """Commits a repetition. One that failed is replaced; one that did not stays for ever."""
        with self.store.transaction() as database:
            database.execute(
                "INSERT INTO repetitions (campaign, case_digest, policy, slot, case_name, warm_up,"
                " status, value, unit, noisy, started_at, surroundings, manifest)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (campaign, case_digest, policy, slot) DO UPDATE SET"
                " status = excluded.status, value = excluded.value, noisy = excluded.noisy,"
                " started_at = excluded.started_at, surroundings = excluded.surroundings,"
                " manifest = excluded.manifest WHERE repetitions.status <> 'ok'",
                (
                    campaign,
                    found.case_digest,
                    found.policy,
                    found.slot,
                    found.case_name,
                    found.warm_up,
                    found.status,
                    found.value,
                    found.unit,
                    found.noisy,
                    found.started_at,
                    surroundings,
                    canonical_json(found.manifest),
                ),
            )

    def campaigns(self) -> list[Campaign]:
        """All of them, the latest last."""
        rows = self._rows("SELECT * FROM campaigns ORDER BY asked_at, rowid")
        return [
            Campaign(
                id=row["id"],
                suite=row["suite"],
                definition=self._decode(row, "campaigns", "definition"),
                label=row["label"],
                series=row["series"],
                condition=self._decode(row, "campaigns", "condition"),
                command=row["command"],
                version=row["version"],
                asked_at=row["asked_at"],
            )
            for row in rows
        ]

    def repetitions(self, campaign: str) -> list[Repetition]:
        """What was kept of a campaign, in the order in which it was measured."""
        rows = self._rows("SELECT * FROM repetitions WHERE campaign = ? ORDER BY id", campaign)
        return [
            Repetition(
                case_digest=row["case_digest"],
                case_name=row["case_name"],
                policy=row["policy"],
                slot=row["slot"],
                warm_up=bool(row["warm_up"]),
                status=row["status"],
                value=row["value"],
                unit=row["unit"],
                noisy=bool(row["noisy"]),
                started_at=row["started_at"],
                manifest=self._decode(row, "repetitions", "manifest"),
                surroundings=row["surroundings"],
            )
            for row in rows
        ]

    def surroundings(self, campaign: str) -> list[Surroundings]:
        """The environments that a campaign was measured in, in order."""
        rows = self._rows("SELECT * FROM surroundings WHERE campaign = ? ORDER BY id", campaign)
        return [
            Surroundings(
                number=row["id"],
                captured_at=row["captured_at"],
                facts=self._decode(row, "surroundings", "facts"),
                warnings=[
                    tuple(one) for one in self._decode(row, "surroundings", "warnings", list)
                ],
            )
            for row in rows
        ]

    def _decode(self, row: sqlite3.Row, table: str, column: str, kind: type = dict) -> Any:
        where = f"{table} WHERE id = '{row['id']}'"
        hint = f'restore a copy, or forget it: sqlite3 {self.store.path} "DELETE FROM {where}"'
        name = f"{table} {row['id']}"
        return decode(self.store.path, name, column, row[column], kind, hint)

    def _rows(self, query: str, *values: str) -> list[sqlite3.Row]:
        if self.store.is_read_only and not self.store.has_table("campaigns"):
            return []
        return self.store.rows(query, *values)
