"""What can be wrong with a store: SQLite's errors in words, rows that are not what was kept, and
places in which nothing can be written."""

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Any

from schedlab.digests import digest_of
from schedlab.errors import DamagedRow, StoreError

BUSY_TIMEOUT_S = 30
# What SQLite's errors mean, and what to do, by how their names begin.
CAUSES = {
    "SQLITE_FULL": ("the disk is full", "free some space; what was kept is intact"),
    "SQLITE_READONLY": ("it cannot be written", "name a writable file with --store"),
    "SQLITE_NOTADB": ("it is not a schedlab store", "name another file with --store"),
    "SQLITE_CORRUPT": ("it is damaged", "restore a copy, or start a new one with --store"),
    "SQLITE_BUSY": (
        f"another program kept it locked for {BUSY_TIMEOUT_S} s", "wait for that program to end"
    ),
    "SQLITE_CANTOPEN": ("it cannot be opened", "check that you may read and write it"),
    "SQLITE_IOERR_WRITE": (
        "it cannot grow: the disk is full or failed, or a limit on file sizes is reached",
        "free some space, or see `ulimit -f` and the kernel's log; what was kept is intact",
    ),
    "SQLITE_IOERR": ("the disk failed", "see the kernel's log; what was kept may be intact"),
}  # fmt: skip


def seal(values: Sequence[str | int]) -> str:
    """16 hex digits over the values of a row, in order: other values have another seal. It tells
    damage and edits by hand; whoever wants to deceive can compute it too."""
    return digest_of(values)[:16]


def decode(
    store: Path,
    row: str,
    column: str,
    text: str,
    kind: type | UnionType = dict,
    hint: str | None = None,
) -> Any:
    """The JSON value of one place of a store, whose row is named in words by `row`. Raises
    DamagedRow if it is no `kind`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(store, row, f"its {column} is no JSON: {error}", hint) from error
    if not isinstance(value, kind):
        raise damaged(store, row, f"its {column} is another sort of value", hint)
    return value


def damaged(store: Path, row: str, why: str, hint: str | None = None) -> DamagedRow:
    """A row that cannot be used; without a hint, with the way to the runs that there are beside."""
    return DamagedRow(
        f"store {store}: {row} is not what was kept: {why}",
        hint
        or f"restore a copy, or `schedlab merge NEW.db {store}` takes over all runs that are sound,"
        " and the command that made the rest makes it again with --store NEW.db",
    )


def way_out(hint: str, is_read_only: bool) -> str:
    """A hint; commands that only read a store are given it as an argument, and have no --store."""
    return hint.removesuffix(" with --store") if is_read_only else hint


@contextlib.contextmanager
def named_errors(store: Path, is_read_only: bool = False) -> Iterator[None]:
    """Turns SQLite's errors into ours, with the file and a way out."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorname", "")
        if code.startswith("SQLITE_CANTOPEN"):
            _refuse_too_many_open()
        for prefix, (message, hint) in CAUSES.items():
            if code.startswith(prefix):
                told = f"store {store}: {message} ({error})"
                raise StoreError(told, way_out(hint, is_read_only)) from error
        told = f"store {store}: {error} ({code or type(error).__name__})"
        hint = way_out("name another file with --store", is_read_only)
        raise StoreError(told, hint) from error


def _refuse_too_many_open() -> None:
    """Raises OSError if no more files may be open, which SQLite does not tell apart."""
    with contextlib.ExitStack() as opened:
        # A store's file, and two beside it.
        for descriptor in (one for _ in range(2) for one in os.pipe()):
            opened.callback(os.close, descriptor)


def uri_to_read(path: Path, copies: contextlib.ExitStack) -> str:
    """A name by which SQLite can read the store, also where nothing can be written.

    To read a store that others may write to, SQLite makes files beside it. Where it cannot, nobody
    writes, and the file is read as it is. If a command that was killed there has left its last
    runs in the `-wal` file, both are copied to a directory that `copies` removes. Raises
    sqlite3.Error or StoreError if it cannot be read, or not be copied.
    """
    uri = f"{path.absolute().as_uri()}?mode=ro"
    try:
        with contextlib.closing(connect(uri)) as database:
            database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        return uri
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorname", "")
        if not code.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")):
            raise
    left = path.with_name(f"{path.name}-wal")
    if left.exists() and left.stat().st_size:
        copied = Path(copies.enter_context(tempfile.TemporaryDirectory(prefix="schedlab-")))
        try:
            for file in (path, left):
                shutil.copyfile(file, copied / file.name)
        except OSError as error:
            raise StoreError(
                f"store {path} cannot be read where it is, nor be copied to {copied}:"
                f" {error.strerror}",
                f"copy {path} and {left} to a place that can be written",
            ) from error
        return f"{(copied / path.name).as_uri()}?mode=ro"
    return f"{uri}&immutable=1"


def connect(uri: str) -> sqlite3.Connection:
    """Opens a database; its transactions are the caller's."""
    return sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)
