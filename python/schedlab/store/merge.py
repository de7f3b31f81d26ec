"""What several stores hold, in one.

Each table is taken over by what makes its rows unique: merging twice changes nothing. A measurement
that is there already stays as it is.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from schedlab.errors import DamagedRow, DigestMismatch
from schedlab.store import parts
from schedlab.store.heats import HEATS
from schedlab.store.measurements import CAMPAIGNS, FAILED_BEFORE, OK, REPETITIONS, SURROUNDINGS
from schedlab.store.rows import NEVER, Taken
from schedlab.store.runs import DIED_HERE, EXPERIMENTS, PLACES, Store, differ

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
        contextlib.closing(source.wholes()) as theirs,
    ):
        unsound: list[DamagedRow] = []
        taken = {
            "runs": _runs(database, (store.path, other), theirs, unsound.append),
            "experiments": EXPERIMENTS.take(database),
        }
        here = "JOIN temp.numbers AS run ON run.there = theirs.run"
        PLACES.take(database, rest=here, instead={"run": "run.here"})
        database.execute("DROP TABLE temp.numbers")
        if source.has(HEATS):
            # As when it is raced again.
            taken["heats"] = HEATS.take(database, "excluded.raced_at > mine.raced_at")
        if source.has(CAMPAIGNS):
            taken |= _measurements(database)
    for error in unsound:
        tell(f"note: left out: {error}")
    return taken


def _runs(
    database: sqlite3.Connection,
    stores: tuple[Path, Path],
    theirs: Iterable[tuple[sqlite3.Row, DamagedRow | None]],
    leave_out: Callable[[DamagedRow], None],
) -> Taken:
    """Takes the runs, and leaves the number here of each in the table `numbers`. `stores` are this
    one and the other."""
    here, there = stores
    database.execute("CREATE TEMP TABLE numbers (there INTEGER PRIMARY KEY, here INTEGER)")
    nr_rows = nr_new = 0
    for row, error in theirs:
        nr_rows += 1
        if error is not None:
            leave_out(error)
            continue
        whole = {**parts.WHOLE.since, **dict(row)}
        mine = parts.find(database, whole)
        if mine and differ(whole["backend"], whole["result_digest"], mine):
            raise DigestMismatch(
                f"{whole['policy_name']} with {whole['workload']} on {whole['machine']}, seed"
                f" {whole['seed']}, gave another result in {there} than in {here}",
                f"one of the machines is faulty, or a store damaged: {whole['replay']}",
            )
        number = mine["id"] if mine else parts.put(database, whole, NEVER)
        # A run that died here, with no result, gives way to one that did not.
        is_better = mine and not mine["result_digest"] and whole["result_digest"]
        if is_better:
            parts.put(database, whole, DIED_HERE)
        nr_new += not mine or bool(is_better)
        database.execute("INSERT INTO temp.numbers VALUES (?, ?)", (row["id"], number))
    return Taken(nr_rows, nr_new)


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


def _same(row: str, columns: Sequence[str]) -> str:
    """That the row of this name is the same as `here`."""
    return " AND ".join(f"here.{column} = {row}.{column}" for column in columns)
