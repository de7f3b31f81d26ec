"""How a run is kept: what many runs have in common once, and its result compressed.

A row of `recipes` is all that decides results but the seed; one of `origins` is what that is
called, where it lay and how it is replayed; one of `runs` is a seed and what came of it. Together
they are a whole run, `WHOLE`: one row, as runs were kept until format 4. Its seal is over that.
"""

import sqlite3
import zlib
from collections.abc import Mapping
from typing import Any

from schedlab.store import faults
from schedlab.store.rows import NEVER, Table

# A view that each open store has for itself: every run whole, of whatever format the store is.
VIEW = "whole_runs"
WHOLE = Table(
    VIEW,
    {
        "policy_name": str, "policy_source": str, "policy_source_digest": str, "tunables": dict,
        "machine": str, "machine_digest": str, "workload": str, "workload_digest": str,
        "parameters": dict, "seed": int, "until_ns": int, "backend": str, "version": str,
        "started_at": str, "wall_ns": int, "platform": dict | None, "replay": str, "status": str,
        "result": dict, "result_digest": str, "seal": str,
    },
    since={"platform": "null", "seal": ""},
)  # fmt: skip
# What the seal of a run is over, in this order.
SEALED_COLUMNS = WHOLE.columns[:-1]

# All that decides a result but the seed.
DECIDES = (
    "policy_source_digest", "tunables", "machine_digest", "workload_digest", "until_ns", "backend",
    "version",
)  # fmt: skip
RECIPES = Table(
    "recipes",
    {name: int if name == "until_ns" else str for name in DECIDES},
    unique=DECIDES,
    numbered=True,
)
# A replay has the seed between its two parts, and no second one where it names no seed.
DESCRIBES = (
    "policy_name", "policy_source", "machine", "workload", "parameters", "platform", "replay",
    "replay_rest",
)  # fmt: skip
ORIGINS = Table(
    "origins",
    {name: "TEXT" if name == "replay_rest" else str for name in DESCRIBES},
    unique=DESCRIBES,
    numbered=True,
)
RUNS = Table(
    "runs",
    {
        "recipe": "INTEGER NOT NULL REFERENCES recipes (id)", "seed": int,
        "origin": "INTEGER NOT NULL REFERENCES origins (id)", "started_at": str, "wall_ns": int,
        "status": str, "result": "BLOB NOT NULL", "result_digest": str, "seal": str,
    },
    unique=("recipe", "seed"),
    numbered=True,
)  # fmt: skip
# By the name that each has in `VIEW`.
_PARTS = {"run": RUNS, "recipe": RECIPES, "origin": ORIGINS}
_FIND = (
    "SELECT run.id, run.result_digest FROM main.recipes AS recipe"
    " JOIN main.runs AS run ON run.recipe = recipe.id WHERE run.seed = :seed AND "
) + " AND ".join(f"recipe.{name} = :{name}" for name in DECIDES)
# Finds a row of these by all its values, of which the rest of a replay may be missing.
_SAME = {
    table.name: f"SELECT id FROM main.{table.name} WHERE "
    + " AND ".join(f"{name} IS :{name}" for name in table.columns)
    for table in (RECIPES, ORIGINS)
}

# What results have in common, so that they need not say it: the names of their numbers, and the
# bounds of the bins of their histograms, 16 to an octave. It belongs to the format: with another
# one no result can be read.
_TIMES = '"count":1,"max":1,"mean":1.0,"p50":1,"p90":1,"p99":1'
_GROUP = (
    '{"count":1,"first_exit_ns":1,"last_exit_ns":1,"migrations":0,"name":"","nice":0,"pinned":false'
    ',"run_ns":1,"switches":1,"wait_ns":1}'
)
_BINS = ",".join(f"[{(17 + bin << octave) - 1},1]" for octave in range(6, 22) for bin in range(16))
DICTIONARY = (
    f"{_BINS}]"
    '{"cpu_time_ns":{"idle":0,"kernel":1,"lock_wait":0,"scheduler":1,"work":0},"deadline_misses":0,'
    '"deadlines":0,"digest":"","elapsed_ns":1,"error":null,"events":1,"interrupts":0,'
    '"involuntary_switches":0,"jain_fairness":0.9,"makespan_ns":1,"messages":0,"migrations":0,'
    '"nr_cpus":8,"nr_tasks":1,"recording":null,"requests":[],"response_ns":{"count":0,"max":0,'
    f'"mean":0.0,"p50":0,"p90":0,"p99":0}},"run_ns":{{{_TIMES}}},"status":"completed","switches":1,'
    f'"task_groups":[{_GROUP}],"ticks":0,"timeline":null,"timeline_names":null,'
    f'"voluntary_switches":1,"wait_ns":{{{_TIMES}}},"wakeup_latency_ns":{{"count":1,"histogram":[['
).encode()
# Of results of 3.7 kB level 1 leaves 1.20 kB and takes 80 us; 6 leaves 1.12 and takes 150.
LEVEL = 1


def pack(text: str) -> bytes:
    """A result as it lies in the file."""
    packing = zlib.compressobj(LEVEL, zdict=DICTIONARY)
    return packing.compress(text.encode()) + packing.flush()


def unpack(packed: bytes | str) -> str:
    """What was packed; a result of an older format as it is. Raises ValueError if it is neither."""
    if isinstance(packed, str):
        return packed
    unpacking = zlib.decompressobj(zdict=DICTIONARY)
    try:
        text = unpacking.decompress(packed)
    except (zlib.error, TypeError) as error:
        raise ValueError(f"it cannot be unpacked: {error}") from error
    if not unpacking.eof or unpacking.unused_data:
        raise ValueError("it has another end")
    return text.decode()


def sealed(row: Mapping[str, Any]) -> dict[str, Any]:
    """A whole run as it is kept: encoded, sealed, its result packed."""
    whole = WHOLE.encoded(row)
    whole["seal"] = faults.seal([whole[name] for name in SEALED_COLUMNS])
    whole["result"] = pack(whole["result"])
    return whole


def view(database: sqlite3.Connection) -> None:
    """Makes `VIEW`. What the store's tables lack, it lacks too."""
    known = {
        (of, row["name"])
        for of, table in _PARTS.items()
        for row in database.execute(f"PRAGMA main.table_info({table.name})")
    }
    places = {("run", name): f"run.{name}" for name in WHOLE.columns if ("run", name) in known}
    joins = ""
    if ("run", "recipe") in known:
        for of, names in (("recipe", DECIDES), ("origin", DESCRIBES[:-1])):
            places |= {(of, name): f"{of}.{name}" for name in names if (of, name) in known}
            # A run without them is damaged, and told so: it does not vanish.
            joins += f" LEFT JOIN main.{_PARTS[of].name} AS {of} ON {of}.id = run.{of}"
        if {("origin", "replay"), ("origin", "replay_rest")} <= known:
            places["origin", "replay"] += " || ifnull(run.seed || origin.replay_rest, '')"
    columns = ", ".join(f"{sql} AS {name}" for (_, name), sql in places.items())
    database.execute(f"DROP VIEW IF EXISTS temp.{VIEW}")
    database.execute(
        f"CREATE TEMP VIEW {VIEW} AS SELECT run.id AS id, {columns} FROM main.runs AS run{joins}"
    )


def find(database: sqlite3.Connection, key: Mapping[str, Any]) -> sqlite3.Row | None:
    """The run with this key: its number and digest."""
    return database.execute(_FIND, key).fetchone()


def put(database: sqlite3.Connection, whole: Mapping[str, Any], gives_way: str) -> int:
    """Writes a sealed run, and gives its number if it is a new one; `gives_way` as in
    `Table.put`."""
    parts = dict(whole)
    if not isinstance(parts["result"], bytes):
        parts["result"] = pack(parts["result"])
    parts["replay"], parts["replay_rest"] = _around_seed(whole["replay"], whole["seed"])
    for of in ("recipe", "origin"):
        parts[of] = _number(database, _PARTS[of], parts)
    return RUNS.put(database, parts, gives_way)


def take_apart(database: sqlite3.Connection) -> None:
    """Gives the runs of a store of format 3 or older their tables, damaged ones as they are, under
    the numbers that they have."""
    # Else what refers to `runs` would refer to the old table from now on.
    database.execute("PRAGMA legacy_alter_table = ON")
    database.execute("ALTER TABLE runs RENAME TO old_runs")
    make_tables(database)
    for row in database.execute("SELECT * FROM old_runs ORDER BY id"):
        number = put(database, {**WHOLE.since, **dict(row)}, NEVER)
        if number != row["id"]:
            database.execute("UPDATE runs SET id = ? WHERE id = ?", (row["id"], number))
    database.execute("DROP TABLE old_runs")


def make_tables(database: sqlite3.Connection) -> None:
    """Makes the tables of runs where there are none."""
    for table in _PARTS.values():
        database.execute(table.create)


def _around_seed(replay: str, seed: int) -> tuple[str, str | None]:
    before, option, rest = replay.partition(f"--seed {seed}")
    if not option or rest[:1].isdigit():
        return replay, None
    return f"{before}--seed ", rest


def _number(database: sqlite3.Connection, table: Table, row: Mapping[str, Any]) -> int:
    """The number of the row with these values, which is written if there is none."""
    found = database.execute(_SAME[table.name], row).fetchone()
    return found["id"] if found else table.put(database, row)
