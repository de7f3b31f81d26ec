"""Tables of a store: a column a field of a record, a row a record.

All that is done with a table follows from its fields and their types. A field that is no text,
number or truth is JSON.
"""

import functools
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_origin

from schedlab.digests import canonical_json
from schedlab.errors import StoreError
from schedlab.store import faults

SQL_TYPES = {
    str: "TEXT NOT NULL",
    int: "INTEGER NOT NULL",
    bool: "INTEGER NOT NULL",
    float | None: "REAL",
}
# When a row gives way to a new one of the same key.
ALWAYS, NEVER = "TRUE", "FALSE"


@dataclass(frozen=True, slots=True)
class Taken:
    """Of one table of another store: how many rows it has, and how many were new here."""

    rows: int
    new: int


class Table:
    """A table of a store.

    `columns` gives the type of each, or its SQL where that says more. `unique` columns tell rows
    apart; there are none if only their numbers do. A table that is `numbered` has a column `id`, in
    which SQLite numbers its rows. `since` has the columns that tables of older formats lack, each
    with the text that stands for it there.
    """

    def __init__(
        self,
        name: str,
        columns: Mapping[str, Any],
        unique: Sequence[str] = (),
        numbered: bool = False,
        since: Mapping[str, str] | None = None,
    ):
        self.name, self.unique, self.since = name, unique, since or {}
        self.columns = tuple(columns)
        self._json = {}
        self._truths = [column for column, kind in columns.items() if kind is bool]
        # The SQL that makes each column, by its name.
        self.definitions = {}
        for column, kind in columns.items():
            sql = kind if isinstance(kind, str) else SQL_TYPES.get(kind, "TEXT NOT NULL")
            default = f" DEFAULT '{self.since[column]}'" if column in self.since else ""
            self.definitions[column] = f"{column} {sql}{default}"
            if kind not in SQL_TYPES and not isinstance(kind, str):
                # What JSON of this type is when it is read.
                origin = kind if isinstance(kind, UnionType) else get_origin(kind)
                self._json[column] = origin or kind
        key = f"{'UNIQUE' if numbered else 'PRIMARY KEY'} ({', '.join(unique)})"
        number = ["id INTEGER PRIMARY KEY"] * numbered
        parts = [*number, *self.definitions.values(), *[key] * bool(unique)]
        marks = f"VALUES ({', '.join(f':{name}' for name in self.columns)})"
        self._put = functools.cache(functools.partial(self._insert, marks))
        # The SQL that makes the table where there is none.
        self.create = f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(parts)}) STRICT"

    def encoded(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """What SQLite takes of a row, in the order of the columns; those it lacks are left out."""
        return {
            name: canonical_json(row[name]) if name in self._json else row[name]
            for name in self.columns
            if name in row
        }

    def put(
        self, database: sqlite3.Connection, row: Mapping[str, Any], gives_way: str = NEVER
    ) -> int:
        """Writes an encoded row, and gives its number if it is a new one.

        `gives_way` says when a row of the same key is replaced: `NEVER`, `ALWAYS`, or a condition
        on `mine`, the row that is there, and `excluded`, the new one. What is always replaced
        becomes the last row of its table; else a row keeps its place.
        """
        return database.execute(self._put(gives_way), row).lastrowid

    def take(
        self,
        database: sqlite3.Connection,
        gives_way: str = NEVER,
        rest: str = "",
        instead: Mapping[str, str] | None = None,
    ) -> Taken:
        """Takes over the rows of the store that is attached as `there`, and makes the table first.

        `gives_way` is as in `put`. `rest` follows `FROM there.TABLE AS theirs`: joins, and a
        condition. `instead` has the SQL of columns that have another value here.
        """
        database.execute(self.create)
        known = {row["name"] for row in database.execute(f"PRAGMA there.table_info({self.name})")}
        values = {}
        for name in self.columns:
            if name not in known and name not in self.since:
                message = f"table {self.name} of the other store has no column {name}"
                raise StoreError(message, "restore a copy of that store")
            values[name] = f"theirs.{name}" if name in known else f"'{self.since[name]}'"
        selected = ", ".join((values | dict(instead or {})).values())
        rows = f"SELECT {selected} FROM there.{self.name} AS theirs {rest} ORDER BY theirs.rowid"
        new = database.execute(self._insert(rows, gives_way)).rowcount
        count = database.execute(f"SELECT count(*) FROM there.{self.name}").fetchone()[0]
        return Taken(count, new)

    def decoded(
        self, store: Path, row: sqlite3.Row, name: str, hint: str | None = None
    ) -> dict[str, Any]:
        """A row with its JSON read; `name` is the row's in words, `hint` a way out. Raises
        DamagedRow if a column is missing, or what is in it is no JSON, or of another type."""
        values = {**self.since, **dict(row)}
        for column in self.columns:
            if column not in values:
                raise faults.damaged(store, name, f"it has no column {column}", hint)
        for column, kind in self._json.items():
            values[column] = faults.decode(store, name, column, values[column], kind, hint)
        return values | {column: bool(values[column]) for column in self._truths}

    def _insert(self, rows: str, gives_way: str) -> str:
        into = f"INTO main.{self.name} AS mine ({', '.join(self.columns)}) {rows}"
        if gives_way == ALWAYS:
            return f"INSERT OR REPLACE {into}"
        if not self.unique:
            return f"INSERT {into}"
        new = ", ".join(f"{name} = excluded.{name}" for name in self.columns)
        key = ", ".join(self.unique)
        return f"INSERT {into} ON CONFLICT ({key}) DO UPDATE SET {new} WHERE {gives_way}"
