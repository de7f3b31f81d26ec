"""Keeps every repetition of a benchmark in the store of runs, the moment it ends.

A repetition's place is unique, so that a campaign that is killed goes on where it was, and nothing
is kept twice.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, get_type_hints

from schedlab.errors import DamagedRow, shortened
from schedlab.store import faults
from schedlab.store.rows import Table
from schedlab.store.runs import Store

OK = "ok"
FAILED = "failed"


@dataclass(frozen=True)
class Campaign:
    """What is measured: `definition` decides it all, `condition` is what it is measured under.
    `series` tells campaigns apart that are equal in all of it."""

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
    `warnings` are what made results worse, each with what to do."""

    number: int
    captured_at: str
    facts: Mapping[str, Any]
    warnings: Sequence[Sequence[str]]


CAMPAIGNS = Table("campaigns", get_type_hints(Campaign), unique=("id",))
OF_CAMPAIGN = {"campaign": "TEXT NOT NULL REFERENCES campaigns (id)"}
SURROUNDINGS = Table(
    "surroundings",
    {**OF_CAMPAIGN, "captured_at": str, "facts": dict, "warnings": list},
    numbered=True,
)
REPETITIONS = Table(
    "repetitions",
    {
        **OF_CAMPAIGN,
        **get_type_hints(Repetition),
        "surroundings": "INTEGER NOT NULL REFERENCES surroundings (id)",
    },
    unique=("campaign", "case_digest", "policy", "slot"),
    numbered=True,
)
# Of a repetition that counts, the number of its block.
SLOT = re.compile(r"[1-9][0-9]{0,8}")
# One that failed is replaced; one that did not stays for ever.
FAILED_BEFORE = f"mine.status <> '{OK}'"


class Measurements:
    """The repetitions of a store; none in one that is only read and has no tables of them. Every
    method raises StoreError if the store cannot be read or written."""

    def __init__(self, store: Store):
        self.store = store
        store.make_tables(CAMPAIGNS, SURROUNDINGS, REPETITIONS)

    def begin(self, campaign: Campaign) -> None:
        """Notes a campaign; again is no error."""
        self.store.put(CAMPAIGNS, vars(campaign))

    def surround(
        self, campaign: str, captured_at: str, facts: Mapping, warnings: Sequence[Sequence[str]]
    ) -> int:
        """Keeps an environment; gives its number, which repetitions refer to."""
        row = {"campaign": campaign, "captured_at": captured_at, "facts": facts}
        return self.store.put(SURROUNDINGS, row | {"warnings": warnings})

    def add(self, campaign: str, surroundings: int, repetition: Repetition) -> None:
        """Commits a repetition. One that failed is replaced; one that did not stays for ever."""
        row = {**vars(repetition), "campaign": campaign, "surroundings": surroundings}
        self.store.put(REPETITIONS, row, FAILED_BEFORE)

    def campaigns(self, suite: str | None = None) -> list[Campaign]:
        """All of them, or all of a suite, the latest last."""
        made = self._records(Campaign, CAMPAIGNS, "ORDER BY asked_at, rowid")
        return [campaign for campaign in made if suite in (None, campaign.suite)]

    def repetitions(self, campaign: str) -> list[Repetition]:
        """What was kept of a campaign, in the order in which it was measured."""
        return self._records(Repetition, REPETITIONS, "WHERE campaign = ? ORDER BY id", campaign)

    def surroundings(self, campaign: str) -> list[Surroundings]:
        """The environments that a campaign was measured in, in order."""
        return self._records(Surroundings, SURROUNDINGS, "WHERE campaign = ? ORDER BY id", campaign)

    def measured_in(self, campaign: str) -> list[tuple[Repetition, Surroundings]]:
        """Each repetition of a campaign, and the environment that it was made in; DamagedRow if the
        store no longer has that."""
        around = {one.number: one for one in self.surroundings(campaign)}
        repetitions = self.repetitions(campaign)
        for one in repetitions:
            if one.surroundings not in around:
                forget = f"DELETE FROM repetitions WHERE surroundings = {one.surroundings}"
                raise DamagedRow(
                    f"{self.store.path}: the environment of {one.case_name}, campaign {campaign},"
                    f" is gone: there is no surroundings {one.surroundings}",
                    f"restore a copy, or forget what was measured in it: sqlite3 {self.store.path}"
                    f' "{forget}"',
                )
        return [(one, around[one.surroundings]) for one in repetitions]

    def _records(self, kind: type, table: Table, rest: str, *values: str) -> list:
        path, records = self.store.path, []
        for row in self.store.select(table, rest, *values):
            name, where = f"{table.name} {row['id']}", f"{table.name} WHERE id = '{row['id']}'"
            hint = f'restore a copy, or forget it: sqlite3 {path} "DELETE FROM {where}"'
            kept = {**table.decoded(path, row, name, hint), "number": row["id"]}
            if table is REPETITIONS and not kept["warm_up"] and not SLOT.fullmatch(kept["slot"]):
                slot = shortened(repr(kept["slot"]))
                raise faults.damaged(path, name, f"its slot {slot} is no number of a block", hint)
            records.append(kind(**{field.name: kept[field.name] for field in fields(kind)}))
        return records
