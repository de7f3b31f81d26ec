"""Queues of other people: shared objects, and sources that are compiled when they are used."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlab import catalogue, user_file
from schedlab.errors import SchedlabError

# What the source of a queue begins with that came in a shared object.
SOURCE_PREFIX = "plugin:"
# What is compiled when it is used, among the files that are shipped.
RACE = Path("crates/race")
OBJECT_SUFFIX = ".so"
SUFFIXES = (OBJECT_SUFFIX, ".c", ".cpp", ".cc", ".cxx")


@dataclass(frozen=True, slots=True)
class Plugin:
    """A shared object whose queues take part; `digest` is that of its bytes."""

    path: str
    digest: str


def digest_of(path: Path) -> str:
    """The digest of a file's bytes; raises SchedlabError if it cannot be read."""
    content = user_file.read(str(path), path, user_file.MADE_BYTES_MAX)
    return hashlib.sha256(content).hexdigest()


def plugins_of(
    files: Sequence[Path], peers: bool, tell: Callable[[str], None]
) -> tuple[Plugin, ...]:
    """The user's queues, and with `peers` those of well-known C++ libraries that are shipped.

    A library or compiler of the peers that is missing is no error: `tell` is told. Raises
    SchedlabError if a file of the user cannot take part, RaceError if it cannot be compiled.
    """
    objects = []
    for path in files:
        if path.suffix not in SUFFIXES:
            hint = f"its name must end in {', '.join(SUFFIXES)}"
            raise SchedlabError(f"--with {path}: is neither a shared object nor a source", hint)
        user_file.refuse_unfit(f"--with {path}", path, user_file.MADE_BYTES_MAX)
        objects.append(path.resolve() if path.suffix == OBJECT_SUFFIX else _compiled(path))
    shipped = catalogue.data_directory() / RACE / "peers"
    for source in sorted(shipped.glob("*.cpp")) if peers else ():
        try:
            objects.append(_compiled(source))
        except catalogue.native().RaceError as error:
            tell(
                f"note: the peers of {source.name} are left out: {error}\n"
                "note: they need a C++ compiler and, for boost.cpp, Boost's headers"
                " (apt-get install g++ libboost-dev)"
            )
    return tuple(Plugin(str(path), digest_of(path)) for path in dict.fromkeys(objects))


def _compiled(source: Path) -> Path:
    # Anybody's queue includes `schedlab_race.h`, which lies there.
    headers = catalogue.data_directory() / RACE / "include"
    return catalogue.native().race_compile(
        str(source.resolve()), str(headers), str(catalogue.cache_directory())
    )
