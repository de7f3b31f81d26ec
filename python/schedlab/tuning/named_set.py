"""Writes what was found as a named set, so that `POLICY@NAME` means it from then on.

The file is that of the policy's sets: others in it stay as they are, and no name is taken that
means other values already.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from schedlab import catalogue, user_file, whole_file
from schedlab.errors import BadValue, SchedlabError

SUFFIX = ".sets.toml"
WAY_OUT = "name another file with --write"
NAME_HINT = "begin with a letter or a digit, and go on with those and . _ + -"


@dataclass(frozen=True)
class NamedSet:
    """Values that go by a name, with what they are and where they came from."""

    name: str
    description: str
    source: str
    tunables: Mapping[str, int]


def path_for(policy: str, given: Path | None) -> Path:
    """The file of a policy's sets: the one that is given, that beside a policy of the user's, or
    for a shipped one a file here, which is to be put beside it."""
    if given is not None:
        return given
    name, _ = catalogue.split_set(policy)
    path = catalogue.find(catalogue.POLICIES, name)
    is_own = catalogue.is_path(catalogue.POLICIES, name)
    return (path.parent if is_own else Path()) / f"{catalogue.stem_of(path)}{SUFFIX}"


def refuse_unfit(path: Path, name: str, store: Path) -> None:
    """Raises SchedlabError if no set of this name can be written there, or if it would take the
    place of the store: better before a search."""
    if not name[:1].isalnum() or not all(c.isalnum() or c in "._+-" for c in name):
        raise BadValue("--name", name, "is no name of a set", NAME_HINT)
    if not name.isascii() or name == "kernel":
        raise BadValue("--name", name, "cannot be the name of a set", NAME_HINT)
    try:
        user_file.refuse_unwritable(path, store, "set", is_source=True)
    except SchedlabError as error:
        error.hint = WAY_OUT
        raise
    if "same_as" in _known(path):
        what = f"{path} says that its sets are those of another policy, so none can be added"
        raise SchedlabError(what, WAY_OUT)


def write(path: Path, found: NamedSet) -> str:
    """Adds a set to the file and gives the name that it has there: another if its own means other
    values; nothing is written if the file has these values already. SchedlabError if it cannot be
    written."""
    errors = whole_file.named_errors(f"set {path}", WAY_OUT)
    with errors, _locked(path.absolute().parent):
        known = {one.get("name"): one.get("tunables") for one in _known(path).get("set", ())}
        name, number = found.name, 1
        while name in known and known[name] != found.tunables:
            number += 1
            name = f"{found.name}-{number}"
        if name not in known:
            text = path.read_text() if path.exists() else ""
            block = _block(name, found)
            whole_file.write(path, f"{text.rstrip()}\n\n{block}" if text.strip() else block)
    return name


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Nobody else adds a set there meanwhile, where the file system has locks."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _known(path: Path) -> dict:
    return user_file.toml(f"file of sets {path}", path) if path.exists() else {}


def _block(name: str, found: NamedSet) -> str:
    lines = ["[[set]]", f"name = {_quoted(name)}", f"description = {_quoted(found.description)}"]
    lines += [f"source = {_quoted(found.source)}", "", "[set.tunables]"]
    lines += [f"{tunable} = {value:_}" for tunable, value in sorted(found.tunables.items())]
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    """A basic string of TOML, in which JSON's ways of writing are TOML's, too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
