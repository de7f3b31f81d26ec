"""Keeps every finished repetition, with all that is needed to run it again, in one SQLite file.

A repetition is committed the moment it ends, so a sweep that is killed loses at most the runs in
flight. What decides a result (`RunKey`) is unique: the same run is never kept twice, and a
simulation that gives another digest than its stored twin is an error (`DigestMismatch`).

Three tables: `runs` (what ran and what came of it), `experiments` (the questions asked), and
`experiment_runs` (which run fills which place of which experiment, so that experiments share
runs, and a run of an edited policy takes the place of the old one without deleting it). `heats`
adds a fourth for races.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from schedlab import user_file
from schedlab.digests import canonical_json
from schedlab.errors import DamagedRow, DigestMismatch, StoreError
from schedlab.store import faults

DEFAULT_PATH = Path("schedlab.db")
# "schd" in ASCII: tells our files from other programs' SQLite files.
APPLICATION_ID = 0x73636864
SCHEMA_VERSION = 3
SCHEMA = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    policy_name TEXT NOT NULL,
    policy_source TEXT NOT NULL,
    policy_source_digest TEXT NOT NULL,
    tunables TEXT NOT NULL,
    machine TEXT NOT NULL,
    machine_digest TEXT NOT NULL,
    workload TEXT NOT NULL,
    workload_digest TEXT NOT NULL,
    parameters TEXT NOT NULL,
    seed INTEGER NOT NULL,
    until_ns INTEGER NOT NULL,
    backend TEXT NOT NULL,
    version TEXT NOT NULL,
    started_at TEXT NOT NULL,
    wall_ns INTEGER NOT NULL,
    platform TEXT NOT NULL DEFAULT 'null',
    replay TEXT NOT NULL,
    status TEXT NOT NULL,
    result TEXT NOT NULL,
    result_digest TEXT NOT NULL,
    seal TEXT NOT NULL DEFAULT '',
    UNIQUE (policy_source_digest, tunables, machine_digest, workload_digest, seed, until_ns,
            backend, version)
) STRICT;
CREATE TABLE experiments (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    definition TEXT NOT NULL,
    command TEXT NOT NULL,
    asked_at TEXT NOT NULL
) STRICT;
CREATE TABLE experiment_runs (
    experiment TEXT NOT NULL REFERENCES experiments (id),
    policy TEXT NOT NULL,
    machine TEXT NOT NULL,
    varied TEXT NOT NULL,
    seed INTEGER NOT NULL,
    run INTEGER NOT NULL REFERENCES runs (id),
    PRIMARY KEY (experiment, policy, machine, varied, seed)
) STRICT;
"""

RUN_COLUMNS = (
    "policy_name", "policy_source", "policy_source_digest", "tunables", "machine", "machine_digest",
    "workload", "workload_digest", "parameters", "seed", "until_ns", "backend", "version",
    "started_at", "wall_ns", "platform", "replay", "status", "result", "result_digest", "seal",
)  # fmt: skip
# What the seal of a run is over.
SEALED_COLUMNS = RUN_COLUMNS[:-1]
# Columns that older formats lack: the format that each came with, and what stands for it there.
SINCE = {"platform": (2, "'null'"), "seal": (3, "''")}
MANIFEST_COLUMNS = (
    "policy_name", "policy_source", "policy_source_digest", "machine_digest", "workload_digest",
    "until_ns", "backend", "version", "started_at", "wall_ns", "replay",
)  # fmt: skip


# Columns of JSON, and what stands in each.
JSON_COLUMNS = {"tunables": dict, "parameters": dict, "platform": dict | None}
# In these, equal runs give equal digests; elsewhere a run is a measurement, and the first is kept.
EXACT_BACKENDS = ("sim", "vm-deterministic")


class RunKey(NamedTuple):
    """Everything that decides the result of a run. `tunables` is canonical JSON of all of them;
    `until_ns` is simulated time, 0 if the run goes to its own end."""

    policy_source_digest: str
    tunables: str
    machine_digest: str
    workload_digest: str
    seed: int
    until_ns: int
    backend: str
    version: str


@dataclass(frozen=True)
class RunRecord:
    """One finished repetition.

    `policy` is its label in the experiment, `varied` the varied parameters and their values,
    `result` the metrics as the simulator gave them, and `manifest` all that is needed to run it
    again: the fields of `RunKey`, policy_name, policy_source, parameters (all of the workload's),
    started_at (UTC), wall_ns (real time it took), platform (kernel, QEMU and CPUs of a virtual
    machine, else None), replay (a command), experiment (id, or None).
    """

    policy: str
    machine: str
    workload: str
    varied: dict
    seed: int
    status: str
    result: dict
    manifest: dict

    @property
    def key(self) -> RunKey:
        """What decides the result."""
        manifest = self.manifest
        return RunKey(
            policy_source_digest=manifest["policy_source_digest"],
            tunables=canonical_json(manifest["tunables"]),
            machine_digest=manifest["machine_digest"],
            workload_digest=manifest["workload_digest"],
            seed=self.seed,
            until_ns=manifest["until_ns"],
            backend=manifest["backend"],
            version=manifest["version"],
        )

    @property
    def digest(self) -> str:
        """The run's digest; empty if its process or its machine died and gave none."""
        return self.result.get("digest") or ""

    @property
    def measured_on(self) -> str | None:
        """Kernel and virtual machine in words; None if the run was simulated."""
        facts = self.manifest.get("platform")
        if facts is None:
            return None
        qemu = facts["qemu"].split(" ")[0]
        how = "KVM" if facts["accelerator"] == "kvm" else "an emulated processor (TCG)"
        clock = ", its clock counting instructions" if facts["deterministic"] else ""
        return f"Linux {facts['kernel']['release']} in QEMU {qemu} with {how}{clock}"


@dataclass(frozen=True)
class StoredExperiment:
    """A question asked of this store: `command` asks it again."""

    id: str
    name: str
    definition: dict
    command: str
    asked_at: str


def measured_on(records: Sequence[RunRecord]) -> dict[str, list[str]]:
    """The policies that met each kernel and virtual machine; empty if all runs were simulated."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        if record.measured_on:
            found.setdefault(record.measured_on, {})[record.policy] = None
    return {platform: list(policies) for platform, policies in found.items()}


class Store:
    """A results file, open. Use as a context manager, from one thread.

    Parameters
    ----------
    path : path
        Created if it is not there, unless `read_only`.

    Raises
    ------
    StoreError
        On opening and in every method: the file is missing, not a store, not writable, full,
        or locked by another program for longer than `store_faults.BUSY_TIMEOUT_S`; DamagedRow
        where a row is read that is not what was kept.
    """

    def __init__(self, path: str | Path, read_only: bool = False):
        self.path = Path(path)
        self.is_read_only = read_only
        self._refuse_wrong_path(read_only)
        self._copies = contextlib.ExitStack()
        try:
            with self._errors():
                self.uri = f"{self.path.absolute().as_uri()}?mode=rwc"
                if read_only:
                    self.uri = faults.uri_to_read(self.path, self._copies)
                self._database = faults.connect(self.uri)
        except StoreError:
            self._copies.close()
            raise
        try:
            with self._errors():
                self._prepare(read_only)
        except StoreError:
            self.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; everything added is on the disk already."""
        self._database.close()
        self._copies.close()

    def add(self, *records: RunRecord) -> None:
        """Commits finished repetitions, and their places in their experiments, at once.

        Adding a run that is there already only notes its place. A run whose process died has
        no digest: it is kept to be seen, and replaced when the run is tried again.

        Raises
        ------
        DigestMismatch
            If the same run is there with another digest; then nothing is added.
        StoreError
            If it cannot be written.
        """
        with self.transaction():
            for record in records:
                row = self._row(record.key)
                if row is None or not row["result_digest"]:
                    run = self._write(record, None if row is None else row["id"])
                else:
                    self._compare(record, row)
                    run = row["id"]
                self._note_place(record, run)

    def add_experiment(self, experiment: StoredExperiment) -> None:
        """Notes that an experiment is asked, before its runs are added; again is no error."""
        with self.transaction():
            self._database.execute(
                "INSERT OR REPLACE INTO experiments VALUES (?, ?, ?, ?, ?)",
                (
                    experiment.id,
                    experiment.name,
                    canonical_json(experiment.definition),
                    experiment.command,
                    experiment.asked_at,
                ),
            )

    def find(self, key: RunKey) -> RunRecord | None:
        """The finished run with this key; None if it was never done, or its process died."""
        with self._errors():
            row = self._row(key)
        if row is None or not row["result_digest"]:
            return None
        return self._record(row, row["policy_name"], "{}", None)

    def experiments(self) -> list[StoredExperiment]:
        """Every experiment asked of this store, the latest last.

        One whose definition is damaged has an empty one: its runs are there all the same.
        """
        with self._errors():
            rows = self._database.execute("SELECT * FROM experiments ORDER BY asked_at, rowid")
            return [
                StoredExperiment(
                    row["id"],
                    row["name"],
                    self._definition(row),
                    row["command"],
                    row["asked_at"],
                )
                for row in rows
            ]

    def runs(self, experiment: str | None = None) -> list[RunRecord]:
        """The runs that fill an experiment's places now, or every run of the store once.

        Parameters
        ----------
        experiment : str, optional
            The id of an experiment. Without it, a run bears the label and varied values of the
            latest experiment it is in, and the policy's name if it is in none.
        """
        if experiment is None:
            query = (
                "SELECT runs.*, place.policy AS label, place.varied, place.experiment FROM runs"
                " LEFT JOIN (SELECT *, max(rowid) FROM experiment_runs GROUP BY run) AS place"
                " ON place.run = runs.id ORDER BY runs.id"
            )
            parameters: tuple = ()
        else:
            query = (
                "SELECT runs.*, place.policy AS label, place.varied, place.experiment FROM runs"
                " JOIN experiment_runs AS place ON place.run = runs.id"
                " WHERE place.experiment = ? ORDER BY place.rowid"
            )
            parameters = (experiment,)
        with self._errors():
            return [
                self._record(
                    row,
                    row["label"] or row["policy_name"],
                    row["varied"] or "{}",
                    row["experiment"],
                )
                for row in self._database.execute(query, parameters)
            ]

    def unsound(self) -> dict[int, DamagedRow]:
        """Runs that are not what was kept, by their number here, each with why."""
        found = {}
        with self._errors():
            for row in self._database.execute("SELECT * FROM runs ORDER BY id"):
                try:
                    self._record(row, row["policy_name"], "{}", None)
                except DamagedRow as error:
                    found[row["id"]] = error
        return found

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All that is done to the database inside is committed together, or not at all.

        For modules that keep a table of their own here.
        """
        with self._errors():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            finally:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")

    def rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        """What a query finds: for modules that keep a table of their own here."""
        with self._errors():
            return self._database.execute(query, values).fetchall()

    def has_table(self, name: str) -> bool:
        """Whether a module that keeps this table has written here."""
        query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name = ?"
        return bool(self.rows(query, name))

    @contextlib.contextmanager
    def attached(self, other: Store) -> Iterator[None]:
        """Another store, only to be read, as `there` in statements of a transaction."""
        with self._errors():
            self._database.execute("ATTACH ? AS there", (other.uri,))
        try:
            yield
        finally:
            with self._errors():
                self._database.execute("DETACH there")

    def _refuse_wrong_path(self, read_only: bool) -> None:
        wrong = user_file.what_it_is(self.path)
        if wrong is not None and not wrong.endswith(user_file.MISSING):
            raise StoreError(f"store {self.path} {wrong}", "name a file in a directory")
        if wrong is not None and read_only:
            raise StoreError(
                f"store {self.path} {wrong}", "`schedlab compare` makes one: see --store"
            )
        if not self.path.absolute().parent.is_dir():
            raise StoreError(
                f"store {self.path}: there is no directory {self.path.absolute().parent}",
                "make it first",
            )

    def _prepare(self, read_only: bool) -> None:
        """Checks that the file is ours, or makes it so if it is new."""
        self._database.row_factory = sqlite3.Row
        application = self._pragma("application_id")
        version = self._pragma("user_version")
        tables = self._database.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if application == 0 and tables == 0 and not read_only:
            self._create()
        elif application != APPLICATION_ID:
            raise StoreError(
                f"{self.path} is not a schedlab store, but some other SQLite file",
                "name another file with --store",
            )
        elif not 1 <= version <= SCHEMA_VERSION:
            raise StoreError(
                f"store {self.path} has format {version}; this schedlab reads {SCHEMA_VERSION}",
                "use the schedlab that made it, or start a new store with --store",
            )
        elif version < SCHEMA_VERSION and not read_only:
            self._bring_up_to_date()
        # A run is worth seconds to hours, a sync milliseconds: FULL makes a commit survive
        # even a power cut, which NORMAL does not in WAL mode.
        self._database.execute("PRAGMA synchronous = FULL")

    def _create(self) -> None:
        # WAL lets a report be made from a store while a sweep writes to it.
        self._database.execute("PRAGMA journal_mode = WAL")
        with self.transaction():
            # A sweep started at the same moment may have been faster.
            if self._pragma("application_id") == APPLICATION_ID:
                return
            for statement in SCHEMA.split(";"):
                self._database.execute(statement)
            self._database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _bring_up_to_date(self) -> None:
        """From an older format. What it lacks is added; runs that it has stay without a seal."""
        with self.transaction():
            version = self._pragma("user_version")
            for column, (since, meant) in SINCE.items():
                if version < since:
                    added = f"{column} TEXT NOT NULL DEFAULT {meant}"
                    self._database.execute(f"ALTER TABLE runs ADD COLUMN {added}")
            self._database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _pragma(self, name: str) -> int:
        return self._database.execute(f"PRAGMA {name}").fetchone()[0]

    def _row(self, key: RunKey) -> sqlite3.Row | None:
        where = " AND ".join(f"{field} = ?" for field in RunKey._fields)
        return self._database.execute(f"SELECT * FROM runs WHERE {where}", key).fetchone()

    def _compare(self, record: RunRecord, row: sqlite3.Row) -> None:
        exact = record.manifest["backend"] in EXACT_BACKENDS
        if not exact or record.digest in ("", row["result_digest"]):
            return
        raise DigestMismatch(
            f"{record.policy} with {record.workload} on {record.machine}, seed {record.seed}, gave"
            f" digest {record.digest}, but {row['result_digest']} at {row['started_at']} according"
            f" to store {self.path}: a simulation must repeat exactly (replay: {row['replay']})",
            "please report this as a bug of schedlab; to go on without it, start a new store with"
            " --store",
        )

    def _write(self, record: RunRecord, replaced: int | None) -> int:
        manifest = record.manifest
        values = {name: manifest[name] for name in MANIFEST_COLUMNS}
        values |= {name: canonical_json(manifest[name]) for name in JSON_COLUMNS}
        values |= {
            "machine": record.machine,
            "workload": record.workload,
            "seed": record.seed,
            "status": record.status,
            "result": canonical_json(record.result),
            "result_digest": record.digest,
        }
        values["seal"] = faults.seal([values[name] for name in SEALED_COLUMNS])
        columns = ", ".join(("id", *RUN_COLUMNS))
        marks = ", ".join("?" for _ in ("id", *RUN_COLUMNS))
        cursor = self._database.execute(
            f"INSERT OR REPLACE INTO runs ({columns}) VALUES ({marks})",
            (replaced, *(values[name] for name in RUN_COLUMNS)),
        )
        return cursor.lastrowid

    def _note_place(self, record: RunRecord, run: int) -> None:
        experiment = record.manifest.get("experiment")
        if experiment is not None:
            self._database.execute(
                "INSERT OR REPLACE INTO experiment_runs VALUES (?, ?, ?, ?, ?, ?)",
                (
                    experiment,
                    record.policy,
                    record.machine,
                    json.dumps(record.varied),
                    record.seed,
                    run,
                ),
            )

    def _definition(self, row: sqlite3.Row) -> dict:
        """What an experiment asks; empty where that is damaged."""
        try:
            return faults.decode(self.path, "", "definition", row["definition"])
        except DamagedRow:
            return {}

    def _record(
        self, row: sqlite3.Row, label: str, varied: str, experiment: str | None
    ) -> RunRecord:
        """The run of a row, if that is what was kept. Rows of older formats have no seal."""
        name = (
            f"run {row['id']} ({label} with {row['workload']} on {row['machine']},"
            f" seed {row['seed']})"
        )
        known = row.keys()
        kept = row["seal"] if "seal" in known else ""
        if kept and kept != faults.seal([row[column] for column in SEALED_COLUMNS]):
            why = "its seal does not match, so something in it was changed"
            raise faults.damaged(self.path, name, why)
        decode = functools.partial(faults.decode, self.path, name)
        manifest = {column: row[column] for column in MANIFEST_COLUMNS}
        for column in JSON_COLUMNS:
            text = row[column] if column in known else "null"
            manifest[column] = decode(column, text, kind=JSON_COLUMNS[column])
        manifest["experiment"] = experiment
        result = decode("result", row["result"])
        if row["status"] == "completed" and not isinstance(result.get("makespan_ns"), int):
            raise faults.damaged(self.path, name, "its result has no makespan_ns")
        return RunRecord(
            policy=label,
            machine=row["machine"],
            workload=row["workload"],
            varied=decode("varied", varied),
            seed=row["seed"],
            status=row["status"],
            result=result,
            manifest=manifest,
        )

    def _errors(self) -> contextlib.AbstractContextManager[None]:
        return faults.told(self.path)
