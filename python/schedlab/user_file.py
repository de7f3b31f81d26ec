"""Files that users name: what each is, and never more of one than a bound.

A name may lead to a pipe that nobody writes into, a device that never ends, or a file larger than
memory. Whoever reads what a user names does so here, or asks here first.
"""

import csv
import errno
import io
import json
import math
import os
import re
import stat
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from schedlab.errors import SchedlabError

# What people write, and what programs make: traces, kernels, shared objects.
WRITTEN_BYTES_MAX = 16 << 20
MADE_BYTES_MAX = 1 << 30
# TOML is read by a parser in Python, at some MiB a second.
TOML_BYTES_MAX = 1 << 20
# Brackets in brackets, and parts of one dotted key. Nobody writes ten.
NESTING_MAX = 50

# Policies and what they include, machines, workloads, experiments.
SOURCES = (".c", ".h", ".o", ".toml")

MISSING = "does not exist"
KINDS = {
    stat.S_IFDIR: "is a directory",
    stat.S_IFIFO: "is a pipe, and not a file",
    stat.S_IFCHR: "is a device, and not a file",
    stat.S_IFBLK: "is a device, and not a file",
    stat.S_IFSOCK: "is a socket, and not a file",
}

# Texts and comments of TOML, and texts of JSON, each in one piece even where its end is missing;
# and outside of them what opens, closes, parts and divides.
_TOKEN = re.compile(
    r'''"""(?:\\.|[^\\])*?(?:"{3,5}(?!")|\Z)|\'\'\'.*?(?:'{3,5}(?!')|\Z)'''
    r"""|"(?:\\.|[^"\\\n])*+"?|'[^'\n]*+'?|#[^\n]*|[\[\]{}.,=:\n]""",
    re.DOTALL,
)


def what_it_is(path: Path) -> str | None:
    """What keeps a path from being a file, as the end of a sentence; None if it is one."""
    try:
        return KINDS.get(stat.S_IFMT(path.stat().st_mode))
    except FileNotFoundError:
        return f"is a link to {path.readlink()}, which {MISSING}" if path.is_symlink() else MISSING
    except OSError as error:
        is_loop = error.errno == errno.ELOOP
        return "is a loop of links" if is_loop else f"cannot be reached: {error.strerror}"
    except ValueError:
        # Python's word for a character that ends names in C.
        return MISSING


def refuse_unfit(
    what: str, path: Path, bytes_max: int, hint: str | None = None, is_empty_unfit: bool = False
) -> None:
    """Refuses what is no file or too large; `what` begins the sentence, the path included. For what
    the core reads `is_empty_unfit`: some of the kernel's files have no size, and never end."""
    if wrong := what_it_is(path):
        raise SchedlabError(f"{what} {wrong}", hint or "give the path of a file that is there")
    size = path.stat().st_size
    if is_empty_unfit and size == 0:
        raise SchedlabError(f"{what} is empty", hint or "give the path of a file that is not")
    _refuse_large(what, size, bytes_max)


def refuse_target(what: str, path: Path) -> None:
    """Refuses to write where something is that is no file: it would be lost, or waited for."""
    if (wrong := what_it_is(path)) and not wrong.endswith(MISSING):
        raise SchedlabError(f"{what} {wrong}", "name a file in a directory")


def refuse_source(what: str, path: Path) -> None:
    """Refuses to write where there is a file that, by its name, somebody wrote for us to read."""
    if path.suffix in SOURCES and path.exists():
        why = "would take the place of a source file that is there"
        raise SchedlabError(f"{what} {why}", "name another file")


def read(what: str, path: Path, bytes_max: int) -> bytes:
    """The bytes of a file; refuses what cannot be read, or has no end as some of the kernel's."""
    refuse_unfit(what, path, bytes_max)
    content = bytearray()
    try:
        # What is no file by now must not be waited for.
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(number, "rb", buffering=0) as file:
            while len(content) <= bytes_max:
                part = file.read(1 << 20)
                if part is None:
                    endless = f"{what} has no end: it waits for more"
                    raise SchedlabError(endless, "copy what there is to a file")
                if not part:
                    break
                content += part
    except OSError as error:
        way_out = "give the path of a file that can be"
        raise SchedlabError(f"{what} cannot be read: {error.strerror}", way_out) from error
    _refuse_large(what, len(content), bytes_max)
    return bytes(content)


def text(what: str, path: Path, bytes_max: int = WRITTEN_BYTES_MAX) -> str:
    """The text of a file; refuses also what is not UTF-8."""
    try:
        return read(what, path, bytes_max).decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        why = f"it is not UTF-8, from byte {error.start} on"
        raise SchedlabError(f"{what} cannot be read: {why}", "write it in UTF-8") from error


def toml(what: str, path: Path, hint: str | None = None) -> dict[str, Any]:
    """The table of a TOML file; refuses also what is no TOML, with `hint`, or nested too deeply."""
    written = text(what, path, TOML_BYTES_MAX)
    try:
        refuse_nested(written)
        table = tomllib.loads(written)
        _refuse_long_numbers(table)
    except ValueError as error:
        raise SchedlabError(f"{what} is not TOML: {error}", hint) from error
    return table


def csv_rows(what: str, path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, each field by the name of its column. Refuses also what is no CSV, or
    has a line with not as many fields as the first."""
    try:
        rows = list(csv.DictReader(io.StringIO(text(what, path)), strict=True))
    except csv.Error as error:
        raise SchedlabError(f"cannot read {what}: {error}", "write it as CSV") from error
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values():
            hint = "give each line a field for each column"
            raise SchedlabError(f"{what}: line {number} has not as many fields as the first", hint)
    return rows


def json_of(written: str) -> Any:
    """The value of a JSON text. Raises ValueError if it is no JSON, nested too deeply, or holds a
    number that is none."""
    refuse_nested(written)
    return json.loads(written, parse_constant=_finite, parse_float=_finite)


def refuse_nested(written: str) -> None:
    """Raises ValueError if a text of TOML or JSON is nested too deeply, without parsing it."""
    depth = parts = 0
    for token in _TOKEN.finditer(written):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if token[0] in (".", ",", "=", ":", "\n"):
            parts = parts + 1 if token[0] == "." else 0
        if max(depth, parts) > NESTING_MAX:
            line = written.count("\n", 0, token.start()) + 1
            raise ValueError(f"it is nested deeper than {NESTING_MAX}, in line {line}")


def _refuse_long_numbers(table: dict[str, Any]) -> None:
    """TOML's are of 64 bits. Python reads longer ones, and cannot say those of 4,300 digits."""
    values: list[Any] = [table]
    while values:
        value = values.pop()
        if isinstance(value, dict | list):
            values += value.values() if isinstance(value, dict) else value
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError(f"a number has {value.bit_length()} bits, more than 63 and a sign")


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is no number, or larger than any")
    return value


def _refuse_large(what: str, nr_bytes: int, bytes_max: int) -> None:
    if nr_bytes > bytes_max:
        why = f"is larger than {bytes_max >> 20} MiB, more than is read of such a file"
        raise SchedlabError(f"{what} {why}", "is it the right file?")


def refuse_unwritable(
    path: Path, store: Path | None = None, what: str = "report", is_source: bool = False
) -> None:
    """Better before a long sweep than after it: makes a file beside it, and removes that. `what` it
    is must not take the place of the store, nor of a source, unless it is one."""
    told = f"{what} {path}"
    refuse_target(told, path)
    if not is_source:
        refuse_source(told, path)
    directory = Path(os.path.realpath(path)).parent if path.is_symlink() else path.absolute().parent
    if not directory.is_dir():
        raise SchedlabError(f"{told}: there is no directory {directory}", "make it first")
    try:
        if store and _is_of_store(path, store):
            why = "would take the place of the store, or of a file beside it"
            raise SchedlabError(f"{told} {why}", f"name another file for the {what}")
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(0, "it may only be read")
        with tempfile.NamedTemporaryFile(dir=directory):
            pass
    except OSError as error:
        hint = "name a file in a writable directory"
        raise SchedlabError(f"{told} cannot be written: {error.strerror}", hint) from error


def _is_of_store(path: Path, store: Path) -> bool:
    """Whether it is a store, or one of the files beside it: these begin with its name, or with a
    dot and its name."""
    kept, real = Path(os.path.realpath(store)), Path(os.path.realpath(path))
    is_beside = real.parent == kept.parent and real.name.startswith((kept.name, f".{kept.name}"))
    return is_beside or (path.exists() and store.exists() and path.samefile(store))
