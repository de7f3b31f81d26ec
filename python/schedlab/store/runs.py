"""Keeps every finished repetition, with all that is needed to run it again, in one SQLite file.

What decides a result (`RunKey`) is unique: the same run is never kept twice. Runs are in the tables
of `parts`. `experiments` has the questions asked, and `experiment_runs` which run fills which place
of which experiment, so that experiments share runs, and a run of an edited policy takes the place
of the old one without deleting it. `heats` and `measurements` add theirs.
"""

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from schedlab import user_file
from schedlab.digests import canonical_json
from schedlab.errors import DamagedRow, DigestMismatch, StoreError
from schedlab.shown import print_note
from schedlab.store import faults, parts
from schedlab.store.rows import ALWAYS, NEVER, Table

DEFAULT_PATH = Path("schedlab.db")
# "schd" in ASCII: tells our files from other programs' SQLite files.
APPLICATION_ID = 0x73636864
# Format 2 came with the column `platform` of runs, format 3 with `seal`, format 4 with `parts`.
SCHEMA_VERSION = 4
# So many runs take seconds to be brought to another format.
TOLD_FROM = 20_000
# Runs that are read by one statement.
READ_TOGETHER = 1000
# How long to wait for another process where SQLite does not wait by itself.
AGAIN_S = 0.01
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
        values = {**self.manifest, "seed": self.seed}
        values["tunables"] = canonical_json(values["tunables"])
        return RunKey(*(values[name] for name in RunKey._fields))

    @property
    def digest(self) -> str:
        """The run's digest; empty if its process or its machine died and gave none."""
        return self.result.get("digest") or ""

    @property
    def measured_on(self) -> str | None:
        """Kernel and virtual machine in words; None if the run was simulated."""
        if (facts := self.manifest.get("platform")) is None:
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


EXPERIMENTS = Table("experiments", get_type_hints(StoredExperiment), unique=("id",))
# Which run fills which place of which experiment.
PLACES = Table(
    "experiment_runs",
    {
        "experiment": "TEXT NOT NULL REFERENCES experiments (id)", "policy": str, "machine": str,
        "varied": str, "seed": int, "run": "INTEGER NOT NULL REFERENCES runs (id)",
    },
    unique=("experiment", "policy", "machine", "varied", "seed"),
)  # fmt: skip
# What a record has besides its manifest.
_NOT_IN_MANIFEST = {"machine", "workload", "seed", "status", "result", "result_digest", "seal"}
# A run whose process died gives way to its next try.
DIED_HERE = "mine.result_digest = ''"
# The places of experiments have no other number than the one that SQLite gives to rows.
_NUMBERED = "SELECT *, rowid AS number"
# A run without the place that it fills in an experiment.
_RUN_ALONE = "*, NULL AS label, '{}' AS varied, NULL AS experiment"


def differ(backend: str, digest: str, there: sqlite3.Row) -> bool:
    """Whether a run has another digest than the same run `there`, although both must repeat."""
    different = digest != there["result_digest"] and "" not in (digest, there["result_digest"])
    return different and backend in EXACT_BACKENDS


def measured_on(records: Sequence[RunRecord]) -> dict[str, list[str]]:
    """The policies that met each kernel and virtual machine; empty if all runs were simulated."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        if record.measured_on:
            found.setdefault(record.measured_on, {})[record.policy] = None
    return {platform: list(policies) for platform, policies in found.items()}


class Store(contextlib.ExitStack):
    """A results file, open for one thread until it is closed; made if it is not there, unless
    `read_only`. What is added is on the disk at once.

    Opening and every method raise StoreError if the file is missing, not a store, not writable,
    full, or locked by another program for longer than `faults.BUSY_TIMEOUT_S`; and DamagedRow
    where a row is read that is not what was kept.
    """

    def __init__(self, path: str | Path, read_only: bool = False):
        super().__init__()
        self.path = Path(path)
        self.is_read_only = read_only
        self._refuse_wrong_path()
        try:
            with self._named_errors():
                self.uri = f"{self.path.absolute().as_uri()}?mode=rwc"
                if read_only:
                    self.uri = faults.uri_to_read(self.path, self)
                self._database = self.enter_context(contextlib.closing(faults.connect(self.uri)))
                self._prepare()
        except StoreError:
            self.close()
            raise

    def add(self, *records: RunRecord) -> None:
        """Commits finished repetitions, and their places in their experiments, at once.

        Adding a run that is there already only notes its place. A run whose process died has
        no digest: it is kept to be seen, and replaced when the run is tried again. Where the same
        run is there with another digest, nothing is added, and DigestMismatch raised.
        """
        with self._named_errors():
            # Others may write meanwhile: packing takes longer than writing.
            keys = [record.key._asdict() for record in records]
            wholes = list(map(self._whole, records, keys))
        with self.transaction() as database:
            for record, key, whole in zip(records, keys, wholes, strict=True):
                there = self._same(record, key)
                number = there["id"] if there else parts.put(database, whole, NEVER)
                if there and whole and not there["result_digest"]:
                    parts.put(database, whole, DIED_HERE)
                if (experiment := record.manifest.get("experiment")) is not None:
                    # In the order in which they were varied.
                    row = {**vars(record), "varied": json.dumps(record.varied), "run": number}
                    PLACES.put(database, PLACES.encoded(row | {"experiment": experiment}), ALWAYS)

    def put(self, table: Table, row: Mapping[str, Any], gives_way: str = NEVER) -> int:
        """Commits a row; see `Table.put`."""
        with self.transaction() as database:
            return table.put(database, table.encoded(row), gives_way)

    def add_experiment(self, experiment: StoredExperiment) -> None:
        """Notes that an experiment is asked, before its runs are added; again is no error."""
        self.put(EXPERIMENTS, vars(experiment), ALWAYS)

    def keep_places(self, experiment: str, records: Iterable[RunRecord]) -> None:
        """Drops the places of an experiment (its id) that none of these fills; the runs stay."""
        names = ("policy", "machine", "varied", "seed")
        kept = {(one.policy, one.machine, json.dumps(one.varied), one.seed) for one in records}
        with self.transaction() as database:
            query = f"{_NUMBERED} FROM experiment_runs WHERE experiment = ?"
            rows = database.execute(query, (experiment,)).fetchall()
            stale = [
                (row["number"],) for row in rows if (*map(row.__getitem__, names),) not in kept
            ]
            database.executemany("DELETE FROM experiment_runs WHERE rowid = ?", stale)

    def find(self, key: RunKey) -> RunRecord | None:
        """The finished run with this key; None if it was never done, or its process died."""
        where = " AND ".join(f"{field} = ?" for field in RunKey._fields)
        rows = self.rows(f"SELECT {_RUN_ALONE} FROM {parts.VIEW} WHERE {where}", *key)
        row = rows[0] if rows else None
        return self._record(row) if row is not None and row["result_digest"] else None

    def is_filled(
        self, experiment: str, policy: str, machine: str, varied: Mapping, seed: int
    ) -> bool:
        """Whether a finished run fills this place of an experiment (its id)."""
        query = (
            "SELECT 1 FROM experiment_runs AS place JOIN runs ON runs.id = place.run WHERE"
            " place.experiment = ? AND place.policy = ? AND place.machine = ? AND place.varied = ?"
            " AND place.seed = ? AND runs.result_digest != ''"
        )
        return bool(self.rows(query, experiment, policy, machine, json.dumps(dict(varied)), seed))

    def count_by_status(self, experiment: str) -> dict[str, int]:
        """How many places of an experiment (its id) are filled by runs of each status."""
        query = (
            "SELECT status, count(*) FROM experiment_runs AS place JOIN runs ON runs.id = place.run"
            " WHERE place.experiment = ? GROUP BY status"
        )
        return dict(map(tuple, self.rows(query, experiment)))

    def experiments(self) -> list[StoredExperiment]:
        """Every experiment asked of this store, the latest last. One whose definition is damaged
        has an empty one: its runs are there all the same."""
        found = []
        for row in self.select(EXPERIMENTS, "ORDER BY asked_at, rowid"):
            try:
                values = EXPERIMENTS.decoded(self.path, row, "")
            except DamagedRow:
                values = {**dict(row), "definition": {}}
            found.append(StoredExperiment(*(values.get(name, "") for name in EXPERIMENTS.columns)))
        return found

    def runs(self, experiment: str | None = None) -> list[RunRecord]:
        """The runs that fill an experiment's places now, or every run of the store once.

        `experiment` is an id. Without it, a run bears the label and varied values of the latest
        experiment it is in, and the policy's name if it is in none.
        """
        return list(self.each(experiment))

    def each(
        self, experiment: str | None = None, order: Callable[[sqlite3.Row], Any] | None = None
    ) -> Iterator[RunRecord]:
        """As `runs`, one after the other, so that there may be any number of them. Those of an
        experiment are sorted by what `order` says of their places, else by when they came."""
        if experiment is None:
            latest = f"{_NUMBERED}, max(rowid) FROM experiment_runs GROUP BY run"
            with self._named_errors():
                rows = self._with_places(f"LEFT JOIN ({latest})", "ORDER BY whole.id")
                yield from map(self._record, rows)
            return
        query = f"{_NUMBERED} FROM experiment_runs WHERE experiment = ?"
        with self._named_errors():
            places = self._database.execute(f"{query} ORDER BY rowid", (experiment,))
            keys = [(order(place) if order else 0, place["number"]) for place in places]
        numbers = [number for _, number in sorted(keys, key=lambda pair: pair[0])]
        for begin in range(0, len(numbers), READ_TOGETHER):
            some = numbers[begin : begin + READ_TOGETHER]
            where = f"WHERE place.number IN ({', '.join(map(str, some))})"
            with self._named_errors():
                rows = self._with_places(f"JOIN ({_NUMBERED} FROM experiment_runs)", where)
                found = {row["number"]: self._record(row) for row in rows}
            yield from (found[number] for number in some if number in found)

    def _with_places(self, places: str, rest: str) -> sqlite3.Cursor:
        query = (
            "SELECT whole.*, place.policy AS label, ifnull(place.varied, '{}') AS varied,"
            f" experiment, place.number FROM {parts.VIEW} AS whole {places} AS place"
            " ON place.run = whole.id"
        )
        return self._database.execute(f"{query} {rest}")

    @contextlib.contextmanager
    def moment(self) -> Iterator[None]:
        """All that is read inside is of one moment, whatever others add meanwhile."""
        self.rows("BEGIN")
        try:
            yield
        finally:
            self.rows("COMMIT")

    def kept(self) -> Iterator[sqlite3.Row]:
        """Every run as its row is, whether that is what was kept or not."""
        with self._named_errors():
            yield from self._database.execute(f"SELECT {_RUN_ALONE} FROM {parts.VIEW} ORDER BY id")

    def damage_of(self, row: sqlite3.Row) -> DamagedRow | None:
        """Why a row of `kept` is not what was kept, if it is not."""
        try:
            self._record(row)
        except DamagedRow as damaged:
            return damaged
        return None

    def there(self, key: Mapping[str, Any]) -> sqlite3.Row | None:
        """Number and digest of the run with this key (the fields of `RunKey`), if there is one."""
        with self._named_errors():
            return parts.find(self._database, key)

    def make_tables(self, *tables: Table) -> None:
        """Makes further tables where the store has none yet, unless it is only read."""
        if not self.is_read_only:
            with self.transaction() as database:
                for table in tables:
                    database.execute(table.create)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All that is done to the database inside is committed together, or not at all."""
        with self._named_errors(), self._database:
            self._database.execute("BEGIN IMMEDIATE")
            yield self._database

    def rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        """What a query finds."""
        with self._named_errors():
            return self._database.execute(query, values).fetchall()

    def select(self, table: Table, rest: str = "", *values: object) -> list[sqlite3.Row]:
        """The rows of a table; none if the store is only read and has no such table."""
        if self.is_read_only and not self.has(table):
            return []
        return self.rows(f"SELECT * FROM {table.name} {rest}", *values)

    def has(self, table: Table) -> bool:
        """Whether the store has a table."""
        query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name = ?"
        return bool(self.rows(query, table.name))

    @contextlib.contextmanager
    def attached(self, other: "Store") -> Iterator[None]:
        """Another store, only to be read, as `there` in statements of a transaction."""
        with self._named_errors():
            self._database.execute("ATTACH ? AS there", (other.uri,))
        try:
            yield
        finally:
            with self._named_errors():
                self._database.execute("DETACH there")

    def _named_errors(self) -> contextlib.AbstractContextManager[None]:
        return faults.named_errors(self.path, self.is_read_only)

    def _refuse_wrong_path(self) -> None:
        wrong = user_file.what_it_is(self.path)
        is_missing = wrong is not None and wrong.endswith(user_file.MISSING)
        if wrong is not None and (self.is_read_only or not is_missing):
            made = "`schedlab compare` makes one: see --store"
            hint = made if is_missing else "name a file in a directory"
            raise StoreError(f"store {self.path} {wrong}", hint)
        folder = self.path.absolute().parent
        if not folder.is_dir():
            raise StoreError(f"store {self.path}: there is no directory {folder}", "make it first")

    def _prepare(self) -> None:
        """Checks that the file is ours, or makes it so if it is new or of an older format."""
        self._database.row_factory = sqlite3.Row
        # All of one moment: another process may be making the same store, which must be seen
        # without tables or with all.
        nr_tables, application, version = self._database.execute(
            "SELECT (SELECT count(*) FROM sqlite_schema), application_id, user_version"
            " FROM pragma_application_id, pragma_user_version"
        ).fetchone()
        is_empty = application == 0 and nr_tables == 0
        is_new = is_empty and not self.is_read_only
        if application != APPLICATION_ID and not is_new:
            why = "is empty" if is_empty else "is not a schedlab store, but some other SQLite file"
            hint = faults.way_out("name another file with --store", self.is_read_only)
            raise StoreError(f"store {self.path} {why}", hint)
        if not 1 <= version <= SCHEMA_VERSION and not is_new:
            raise StoreError(
                f"store {self.path} has format {version}; this schedlab reads {SCHEMA_VERSION}",
                faults.way_out(
                    "use the schedlab that made it, or start a new one with --store",
                    self.is_read_only,
                ),
            )
        if self.is_read_only:
            parts.view(self._database)
            return
        if is_new or version < SCHEMA_VERSION:
            self._bring_up_to_date()
        parts.view(self._database)
        self._write_ahead()
        # A run is worth seconds to hours, a sync milliseconds: FULL makes a commit survive
        # even a power cut, which NORMAL does not in WAL mode.
        self._database.execute("PRAGMA synchronous = FULL")

    def _write_ahead(self) -> None:
        """Lets a report be made from the store while a sweep writes to it. SQLite does not wait for
        other processes here, as it does elsewhere, so this tries again."""
        until = time.monotonic() + faults.BUSY_TIMEOUT_S
        while True:
            try:
                self._database.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                is_busy = error.sqlite_errorcode == sqlite3.SQLITE_BUSY
                if not is_busy or time.monotonic() > until:
                    raise
            time.sleep(AGAIN_S)

    def _bring_up_to_date(self) -> None:
        """Adds what a new file or an older format lacks; runs that had no seal stay without.
        A sweep started at the same moment may be faster: it makes the same."""
        with self.transaction() as database:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if 0 < version < 4:
                [[nr_runs]] = database.execute("SELECT count(*) FROM runs")
                if nr_runs >= TOLD_FROM:
                    what = f"note: {nr_runs:,} runs of {self.path} are brought to format"
                    print_note(f"{what} {SCHEMA_VERSION}, once, which takes a while")
                parts.take_apart(database)
            parts.make_tables(database)
            for table in (EXPERIMENTS, PLACES):
                database.execute(table.create)
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _whole(self, record: RunRecord, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """What is to be kept of a run; None if a finished one is there."""
        there = self.there(key)
        if there is not None and there["result_digest"]:
            return None
        return parts.sealed({**record.manifest, **vars(record), "result_digest": record.digest})

    def _same(self, record: RunRecord, key: Mapping[str, Any]) -> sqlite3.Row | None:
        """Number and digest of the same run, if it is there; refuses it with another digest."""
        row = self.there(key)
        if row is None or not differ(record.manifest["backend"], record.digest, row):
            return row
        [first] = self.rows(f"SELECT * FROM {parts.VIEW} WHERE id = ?", row["id"])
        raise DigestMismatch(
            f"{record.policy} with {record.workload} on {record.machine}, seed {record.seed}, gave"
            f" digest {record.digest}, but {row['result_digest']} at {first['started_at']}"
            f" according to store {self.path}: a simulation must repeat exactly"
            f" (replay: {first['replay']})",
            "please report this as a bug of schedlab; to go on without it, start a new store with"
            " --store",
        )

    def _record(self, row: sqlite3.Row) -> RunRecord:
        """The run of a row, if that is what was kept. Rows of older formats have no seal."""
        label = row["label"] or row["policy_name"]
        what = f"{label} with {row['workload']} on {row['machine']}, seed {row['seed']}"
        name = f"run {row['id']} ({what})"
        whole = {**parts.WHOLE.since, **dict(row)}
        try:
            whole["result"] = parts.unpack(whole.get("result"))
        except ValueError as error:
            raise faults.damaged(self.path, name, f"its result: {error}") from error
        sealed = whole["seal"] and faults.seal([whole.get(of) for of in parts.SEALED_COLUMNS])
        if whole["seal"] != sealed:
            why = "its seal does not match, so something in it was changed"
            raise faults.damaged(self.path, name, why)
        values = parts.WHOLE.decoded(self.path, whole, name)
        has_makespan = isinstance(values["result"].get("makespan_ns"), int)
        if row["status"] == "completed" and not has_makespan:
            raise faults.damaged(self.path, name, "its result has no makespan_ns")
        names = [*parts.WHOLE.columns, "experiment"]
        return RunRecord(
            policy=label,
            varied=faults.decode(self.path, name, "varied", row["varied"]),
            result=values["result"],
            manifest={of: values[of] for of in names if of not in _NOT_IN_MANIFEST},
            **{of: row[of] for of in ("machine", "workload", "seed", "status")},
        )
