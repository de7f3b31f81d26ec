"""What several stores hold, in one.

Each table is taken over by what makes its rows unique: merging twice changes nothing. A measurement
that is there already stays as it is.
"""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from schedlab.errors import DigestMismatch
from schedlab.store.heats import HEATS
from schedlab.store.measurements import CAMPAIGNS, FAILED_BEFORE, OK, REPETITIONS, SURROUNDINGS
from schedlab.store.rows import Taken
from schedlab.store.runs import EXACT_BACKENDS, EXPERIMENTS, PLACES, RUNS, RunKey, Store

SAME_SURROUNDINGS = ("campaign", "captured_at", "facts")


def merge(store: Store, other: Path, tell: Callable[[str], None]) -> dict[str, Taken]:
    """Takes over all that another store holds, which stays as it is.

    Gives what was taken, by what the rows are called. `tell` is told of each run that is not what
    was kept there, and is left out. Where either store cannot be read or written, or is none
    (StoreError), or a simulation found something else there than here (DigestMismatch), nothing is
    taken.
    """
    with (
        Store(other, read_only=True) as source,
        store.attached(source),
        store.transaction() as database,
    ):
        unsound = source.unsound()
        sound = f"id NOT IN ({', '.join(map(str, unsound))})"
        _refuse_mismatch(database, store.path, other, sound)
        # A run that died here, with no result, gives way to one that did not.
        died = "mine.result_digest = '' AND excluded.result_digest <> ''"
        taken = {
            "runs": RUNS.take(database, died, f"WHERE theirs.{sound}"),
            "experiments": EXPERIMENTS.take(database),
        }
        runs = (
            "JOIN there.runs AS run ON run.id = theirs.run"
            f" JOIN main.runs AS here ON {_same('run')} WHERE run.{sound}"
        )
        PLACES.take(database, rest=runs, instead={"run": "here.id"})
        if source.has(HEATS):
            # As when it is raced again.
            taken["heats"] = HEATS.take(database, "excluded.raced_at > mine.raced_at")
        if source.has(CAMPAIGNS):
            taken |= _measurements(database)
    for error in unsound.values():
        tell(f"note: left out: {error}")
    return taken


def _refuse_mismatch(database: sqlite3.Connection, here: Path, other: Path, sound: str) -> None:
    marks = ", ".join("?" for _ in EXACT_BACKENDS)
    run = database.execute(
        f"SELECT run.* FROM there.runs AS run JOIN main.runs AS here ON {_same('run')}"
        f" WHERE run.{sound} AND run.result_digest <> '' AND here.result_digest <> ''"
        f" AND run.result_digest <> here.result_digest AND run.backend IN ({marks}) LIMIT 1",
        EXACT_BACKENDS,
    ).fetchone()
    if run is not None:
        raise DigestMismatch(
            f"{run['policy_name']} with {run['workload']} on {run['machine']}, seed {run['seed']},"
            f" gave another result in {other} than in {here}",
            f"one of the machines is faulty, or a store damaged: {run['replay']}",
        )


def _measurements(database: sqlite3.Connection) -> dict[str, Taken]:
    taken = {"campaigns": CAMPAIGNS.take(database)}
    known = f"SELECT 1 FROM main.surroundings AS here WHERE {_same('theirs', SAME_SURROUNDINGS)}"
    SURROUNDINGS.take(database, rest=f"WHERE NOT EXISTS ({known})")
    around = (
        "JOIN there.surroundings AS old ON old.id = theirs.surroundings"
        f" JOIN main.surroundings AS here ON {_same('old', SAME_SURROUNDINGS)}"
    )
    better = f"{FAILED_BEFORE} AND excluded.status = '{OK}'"
    taken["repetitions"] = REPETITIONS.take(database, better, around, {"surroundings": "here.id"})
    return taken


def _same(row: str, columns: Sequence[str] = RunKey._fields) -> str:
    """That the row of this name is the same as `here`."""
    return " AND ".join(f"here.{column} = {row}.{column}" for column in columns)
