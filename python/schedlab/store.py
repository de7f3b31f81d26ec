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
import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from schedlab.errors import DigestMismatch, StoreError

DEFAULT_PATH = Path("schedlab.db")
# "schd" in ASCII: tells our files from other programs' SQLite files.
APPLICATION_ID = 0x73636864
SCHEMA_VERSION = 2
BUSY_TIMEOUT_S = 30

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
    "started_at", "wall_ns", "platform", "replay", "status", "result", "result_digest",
)  # fmt: skip
MANIFEST_COLUMNS = (
    "policy_name", "policy_source", "policy_source_digest", "machine_digest", "workload_digest",
    "until_ns", "backend", "version", "started_at", "wall_ns", "replay",
)  # fmt: skip


JSON_COLUMNS = ("tunables", "parameters", "platform")
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


def canonical_json(value: object) -> str:
    """One text for equal values, whatever the order of their keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


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
        or locked by another program for longer than `BUSY_TIMEOUT_S`.
    """

    def __init__(self, path: str | Path, read_only: bool = False):
        self.path = Path(path)
        self.is_read_only = read_only
        self._refuse_wrong_path(read_only)
        with self._errors():
            mode = "ro" if read_only else "rwc"
            self._database = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=BUSY_TIMEOUT_S,
                isolation_level=None,
            )
        try:
            with self._errors():
                self._prepare(read_only)
        except StoreError:
            self._database.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; everything added is on the disk already."""
        self._database.close()

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
        return _record(row, row["policy_name"], {}, None)

    def experiments(self) -> list[StoredExperiment]:
        """Every experiment asked of this store, the latest last."""
        with self._errors():
            rows = self._database.execute("SELECT * FROM experiments ORDER BY asked_at, rowid")
            return [
                StoredExperiment(
                    row["id"],
                    row["name"],
                    json.loads(row["definition"]),
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
                _record(
                    row,
                    row["label"] or row["policy_name"],
                    json.loads(row["varied"] or "{}"),
                    row["experiment"],
                )
                for row in self._database.execute(query, parameters)
            ]

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
    def attached(self, other: str | Path) -> Iterator[None]:
        """Another store, only to be read, as `there` in statements of a transaction."""
        with self._errors():
            self._database.execute(
                "ATTACH ? AS there", (f"{Path(other).absolute().as_uri()}?mode=ro",)
            )
        try:
            yield
        finally:
            with self._errors():
                self._database.execute("DETACH there")

    def _refuse_wrong_path(self, read_only: bool) -> None:
        if self.path.is_dir():
            raise StoreError(f"store {self.path} is a directory", "name a file in it")
        if read_only and not self.path.exists():
            raise StoreError(
                f"store {self.path} does not exist", "`schedlab compare` makes one: see --store"
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
        elif version == 1 and not read_only:
            self._add_platforms()
        elif version == 1:
            raise StoreError(
                f"store {self.path} has format 1; this schedlab reads {SCHEMA_VERSION}",
                "`schedlab compare --store` with it brings it up to date",
            )
        elif version != SCHEMA_VERSION:
            raise StoreError(
                f"store {self.path} has format {version}; this schedlab reads {SCHEMA_VERSION}",
                "use the schedlab that made it, or start a new store with --store",
            )
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

    def _add_platforms(self) -> None:
        """From format 1, when everything was simulated."""
        with self.transaction():
            if self._pragma("user_version") == 1:
                self._database.execute(
                    "ALTER TABLE runs ADD COLUMN platform TEXT NOT NULL DEFAULT 'null'"
                )
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

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turns SQLite's errors into ours, with the file and a way out."""
        try:
            yield
        except sqlite3.Error as error:
            message, hint = _explain(error)
            raise StoreError(f"store {self.path}: {message}", hint) from error


def _explain(error: sqlite3.Error) -> tuple[str, str]:
    code = getattr(error, "sqlite_errorname", "")
    causes = {
        "SQLITE_FULL": ("the disk is full", "free some space; what was kept is intact"),
        "SQLITE_READONLY": ("it cannot be written", "name a writable file with --store"),
        "SQLITE_NOTADB": ("it is not a schedlab store", "name another file with --store"),
        "SQLITE_CORRUPT": ("it is damaged", "restore a copy, or start a new one with --store"),
        "SQLITE_BUSY": (
            f"another program kept it locked for {BUSY_TIMEOUT_S} s",
            "wait for that program to end",
        ),
        "SQLITE_CANTOPEN": ("it cannot be opened", "check that you may read and write it"),
        "SQLITE_IOERR_WRITE": (
            "it cannot grow: the disk is full or failed, or a limit on file sizes is reached",
            "free some space, or see `ulimit -f` and the kernel's log; what was kept is intact",
        ),
        "SQLITE_IOERR": ("the disk failed", "see the kernel's log; what was kept may be intact"),
    }
    for prefix, (message, hint) in causes.items():
        if code.startswith(prefix):
            return f"{message} ({error})", hint
    return f"{error} ({code or type(error).__name__})", "name another file with --store"


def _record(row: sqlite3.Row, label: str, varied: dict, experiment: str | None) -> RunRecord:
    manifest = {name: row[name] for name in MANIFEST_COLUMNS}
    manifest |= {name: json.loads(row[name]) for name in JSON_COLUMNS}
    manifest["experiment"] = experiment
    return RunRecord(
        policy=label,
        machine=row["machine"],
        workload=row["workload"],
        varied=varied,
        seed=row["seed"],
        status=row["status"],
        result=json.loads(row["result"]),
        manifest=manifest,
    )
