"""What several stores hold, in one.

Each table is taken over by what makes its rows unique: merging twice changes nothing. Of two
simulations of the same thing both must have found the same; a measurement that is there already
stays as it is. A store is taken over whole or not at all.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from schedlab.errors import DigestMismatch
from schedlab.shown import print_note
from schedlab.store import heats, measurements
from schedlab.store.runs import EXACT_BACKENDS, RUN_COLUMNS, SINCE, RunKey, Store

SAME_RUN = " AND ".join(f"here.{column} = there.{column}" for column in RunKey._fields)


@dataclass(frozen=True, slots=True)
class Taken:
    """Of one table of another store: how many rows it has, and how many were new here."""

    rows: int
    new: int


def merge(store: Store, other: Path) -> dict[str, Taken]:
    """Takes over all that another store holds, which stays as it is.

    Runs that are not what was kept there are left out, each with a note.

    Returns
    -------
    dict
        What was taken, by what the rows are called.

    Raises
    ------
    StoreError
        If either cannot be read or written, or is no store; then nothing was taken.
    DigestMismatch
        If a simulation found something else there than here; then nothing was taken.
    """
    with (
        Store(other, read_only=True) as source,
        store.attached(source),
        store.transaction() as database,
    ):
        database.execute("PRAGMA defer_foreign_keys = ON")
        unsound = source.unsound()
        sound = f"there.id NOT IN ({', '.join(map(str, unsound))})"
        _refuse_mismatch(database, store.path, other, sound)
        taken = {"runs": _runs(database, sound), "experiments": _experiments(database, sound)}
        names = {row[0] for row in database.execute("SELECT name FROM there.sqlite_schema")}
        if "heats" in names:
            taken["heats"] = _heats(database)
        if "campaigns" in names:
            taken |= _campaigns(database)
    for error in unsound.values():
        print_note(f"note: left out: {error}")
    return taken


def _refuse_mismatch(database: sqlite3.Connection, here: Path, other: Path, sound: str) -> None:
    marks = ", ".join("?" for _ in EXACT_BACKENDS)
    found = database.execute(
        "SELECT there.* FROM there.runs AS there JOIN main.runs AS here ON"
        f" {SAME_RUN} WHERE {sound} AND there.result_digest <> '' AND here.result_digest <> ''"
        f" AND there.result_digest <> here.result_digest AND there.backend IN ({marks}) LIMIT 1",
        EXACT_BACKENDS,
    ).fetchone()
    if found is not None:
        raise DigestMismatch(
            f"{found['policy_name']} with {found['workload']} on {found['machine']}, seed"
            f" {found['seed']}, gave another result in {other} than in {here}",
            f"one of the machines is faulty, or a store damaged: {found['replay']}",
        )


def _runs(database: sqlite3.Connection, sound: str) -> Taken:
    """Runs; one that died here, with no result, gives way to one that did not."""
    died = (
        "SELECT here.id FROM main.runs AS here"
        f" JOIN there.runs AS there ON {SAME_RUN}"
        f" WHERE {sound} AND here.result_digest = '' AND there.result_digest <> ''"
    )
    # Places first: they refer to runs, and it is the runs that tell which.
    database.execute(f"DELETE FROM main.experiment_runs WHERE run IN ({died})")
    database.execute(f"DELETE FROM main.runs WHERE id IN ({died})")
    known = {row["name"] for row in database.execute("PRAGMA there.table_info(runs)")}
    columns = ", ".join(RUN_COLUMNS)
    # A store of an older format lacks some.
    of_there = ", ".join(name if name in known else SINCE[name][1] for name in RUN_COLUMNS)
    return _insert(
        database,
        "runs",
        f"({columns}) SELECT {of_there} FROM there.runs AS there WHERE {sound} ORDER BY id",
    )


def _experiments(database: sqlite3.Connection, sound: str) -> Taken:
    taken = _insert(database, "experiments", "SELECT * FROM there.experiments ORDER BY asked_at")
    _insert(
        database,
        "experiment_runs",
        "SELECT place.experiment, place.policy, place.machine, place.varied, place.seed, here.id"
        " FROM there.experiment_runs AS place JOIN there.runs AS there ON there.id = place.run"
        f" JOIN main.runs AS here ON {SAME_RUN} WHERE {sound} ORDER BY place.rowid",
    )
    return taken


def _heats(database: sqlite3.Connection) -> Taken:
    """Heats of a race; of two of the same thing the later one, as when it is raced again."""
    database.execute(heats.TABLE)
    database.execute(
        "DELETE FROM main.heats WHERE key IN (SELECT here.key FROM main.heats AS here"
        " JOIN there.heats AS there ON here.key = there.key WHERE there.raced_at > here.raced_at)"
    )
    return _insert(database, "heats", "SELECT * FROM there.heats")


def _campaigns(database: sqlite3.Connection) -> dict[str, Taken]:
    """Benchmarks of machines, with the surroundings that they were measured in."""
    for table in measurements.TABLES:
        database.execute(table)
    taken = {"campaigns": _insert(database, "campaigns", "SELECT * FROM there.campaigns")}
    database.execute(
        "INSERT INTO main.surroundings (campaign, captured_at, facts, warnings)"
        " SELECT campaign, captured_at, facts, warnings FROM there.surroundings AS there"
        " WHERE NOT EXISTS (SELECT 1 FROM main.surroundings AS here WHERE"
        " here.campaign = there.campaign AND here.captured_at = there.captured_at"
        " AND here.facts = there.facts) ORDER BY id"
    )
    columns = (
        "campaign, case_digest, policy, slot, case_name, warm_up, status, value, unit, noisy,"
        " started_at"
    )
    of_there = ", ".join(f"there.{column}" for column in columns.replace(" ", "").split(","))
    same = (
        "here.campaign = there.campaign AND here.case_digest = there.case_digest"
        " AND here.policy = there.policy AND here.slot = there.slot"
    )
    database.execute(
        "DELETE FROM main.repetitions WHERE id IN (SELECT here.id FROM main.repetitions AS here"
        f" JOIN there.repetitions AS there ON {same}"
        f" WHERE here.status <> '{measurements.OK}' AND there.status = '{measurements.OK}')"
    )
    taken["repetitions"] = _insert(
        database,
        "repetitions",
        f"({columns}, surroundings, manifest) SELECT {of_there}, around.id, there.manifest"
        " FROM there.repetitions AS there"
        " JOIN there.surroundings AS theirs ON theirs.id = there.surroundings"
        " JOIN main.surroundings AS around ON around.campaign = theirs.campaign"
        " AND around.captured_at = theirs.captured_at AND around.facts = theirs.facts"
        " ORDER BY there.id",
    )
    return taken


def _insert(database: sqlite3.Connection, table: str, what: str) -> Taken:
    """Rows of `there` that are not here yet."""
    new = database.execute(f"INSERT OR IGNORE INTO main.{table} {what}").rowcount
    rows = database.execute(f"SELECT count(*) FROM there.{table}").fetchone()[0]
    return Taken(rows, new)
