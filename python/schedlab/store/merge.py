"""What several stores hold, in one.

Each table is taken over by what makes its rows unique: merging twice changes nothing. A measurement
that is there already stays as it is.
"""

import contextlib
import itertools
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from schedlab.errors import DigestMismatch
from schedlab.store import parts
from schedlab.store.heats import HEATS
from schedlab.store.measurements import CAMPAIGNS, FAILED_BEFORE, OK, REPETITIONS, SURROUNDINGS
from schedlab.store.rows import NEVER, Taken
from schedlab.store.runs import DIED_HERE, EXPERIMENTS, PLACES, Store, differ

# Runs for which others wait with what they write.
TAKEN_TOGETHER = 1_000
SAME_SURROUNDINGS = ("campaign", "captured_at", "facts")


def merge(store: Store, other: Path, tell: Callable[[str], None]) -> dict[str, Taken]:
    """Takes over all that another store holds, which stays as it is.

    Gives what was taken, by what the rows are called. `tell` is told of each run that is not what
    was kept there, and is left out. Where either store cannot be read, or is none (StoreError), or
    a simulation found something else there than here (DigestMismatch), nothing is taken. Others may
    write to both meanwhile: runs are taken some at a time, and who is interrupted merges again.
    """
    with (
        Store(other, read_only=True) as source,
        store.attached(source),
        contextlib.closing(_Runs(store, source)) as runs,
    ):
        runs.refuse_contradictions()
        taken = {"runs": runs.take(tell)}
        with store.transaction() as database:
            taken["experiments"] = EXPERIMENTS.take(database)
            here = "JOIN temp.numbers AS run ON run.there = theirs.run"
            PLACES.take(database, rest=here, instead={"run": "run.here"})
            if source.has(HEATS):
                # As when it is raced again.
                taken["heats"] = HEATS.take(database, "excluded.raced_at > mine.raced_at")
            if source.has(CAMPAIGNS):
                taken |= _measurements(database)
    return taken


class _Runs:
    """The runs of another store, `source`, on their way into this one. The table `numbers` has the
    number here of each that was taken, until they are closed."""

    def __init__(self, store: Store, source: Store):
        self._store, self._source = store, source
        with store.transaction() as database:
            database.execute("CREATE TEMP TABLE numbers (there INTEGER PRIMARY KEY, here INTEGER)")

    def close(self) -> None:
        """Forgets the numbers."""
        self._store.rows("DROP TABLE temp.numbers")

    def refuse_contradictions(self) -> None:
        """Raises DigestMismatch where a simulation found something else there than here."""
        with contextlib.closing(self._source.kept()) as theirs:
            for row in theirs:
                whole = dict(row)
                try:
                    self._refuse_contradiction(whole, self._store.there(whole))
                except DigestMismatch:
                    # A damaged one is left out, whatever it says.
                    if self._source.damage_of(row) is None:
                        raise

    def take(self, tell: Callable[[str], None]) -> Taken:
        """Takes them; `tell` is told of those that are left out."""
        nr_rows = nr_new = 0
        with contextlib.closing(self._source.kept()) as theirs:
            while some := list(itertools.islice(theirs, TAKEN_TOGETHER)):
                damages = [self._source.damage_of(row) for row in some]
                with self._store.transaction() as database:
                    for row, damage in zip(some, damages, strict=True):
                        nr_new += damage is None and self._take(database, row)
                for damage in filter(None, damages):
                    tell(f"note: left out: {damage}")
                nr_rows += len(some)
        return Taken(nr_rows, nr_new)

    def _take(self, database: sqlite3.Connection, row: sqlite3.Row) -> bool:
        """Takes a run; whether it is new here."""
        whole = {**parts.WHOLE.since, **dict(row)}
        mine = parts.find(database, whole)
        self._refuse_contradiction(whole, mine)
        number = mine["id"] if mine else parts.put(database, whole, NEVER)
        # A run that died here, with no result, gives way to one that did not.
        is_better = mine and not mine["result_digest"] and whole["result_digest"]
        if is_better:
            parts.put(database, whole, DIED_HERE)
        database.execute("INSERT INTO temp.numbers VALUES (?, ?)", (row["id"], number))
        return not mine or bool(is_better)

    def _refuse_contradiction(self, theirs: Mapping, mine: sqlite3.Row | None) -> None:
        if mine and differ(theirs["backend"], theirs["result_digest"], mine):
            raise DigestMismatch(
                f"{theirs['policy_name']} with {theirs['workload']} on {theirs['machine']}, seed"
                f" {theirs['seed']}, gave another result in {self._source.path} than in"
                f" {self._store.path}",
                f"one of the machines is faulty, or a store damaged: {theirs['replay']}",
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


def _same(row: str, columns: Sequence[str]) -> str:
    """That the row of this name is the same as `here`."""
    return " AND ".join(f"here.{column} = {row}.{column}" for column in columns)
