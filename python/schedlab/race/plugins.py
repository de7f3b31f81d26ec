"""Queues of other people: shared objects, sources that are compiled when they are used, and heats
in which they take part.

A plug-in is native code: it may crash, exit, or never return. In a process of its own that is the
end of a heat and not of the race, and Ctrl-C ends it whatever it is at.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab import catalogue, user_file
from schedlab.errors import SchedlabError
from schedlab.programs import signal_name
from schedlab.workers import Crew, step

# What the source of a queue begins with that came in a shared object.
SOURCE_PREFIX = "plugin:"
# What is compiled when it is used, among the files that are shipped.
RACE = Path("crates/race")
OBJECT_SUFFIX = ".so"
SUFFIXES = (OBJECT_SUFFIX, ".c", ".cpp", ".cc", ".cxx")
# So long may a heat show no progress: that it is made ready, and each round, are progress. The
# longest of ours takes seconds.
STILL_S = 300.0
# A round has as many loops as the user asks for, and everybody's loops are in it.
LOOP_S_MAX = 100e-6
NO_END = "a plug-in did not come to the end of its heat"
ONE_BY_ONE = "--with one plug-in at a time shows which"

Tell = Callable[[str], None]
# A function of the core, and its arguments.
Piece = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Plugin:
    """A shared object whose queues take part; `digest` is that of its bytes."""

    path: str
    digest: str


def digest_of(path: Path) -> str:
    """The digest of a file's bytes; raises SchedlabError if it cannot be read."""
    return hashlib.sha256(user_file.read(str(path), path, user_file.MADE_BYTES_MAX)).hexdigest()


def plugins_of(files: Sequence[Path], peers: bool, tell: Tell) -> tuple[Plugin, ...]:
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


def race(spec: dict, tell: Tell) -> dict:
    """The heat that the core makes of `spec`, as `_native.race_heat` describes both.

    `tell` is told what plug-ins printed. Raises RaceError if the heat cannot be raced, or a plug-in
    ended the process that it ran in; SchedlabError if a plug-in never came back.
    """
    piece = ("race_heat", json.dumps(spec), step)
    still_s = STILL_S + (spec.get("loops") or 0) * LOOP_S_MAX
    return _alone(piece, still_s, tell) if spec["plugins"] else _called(piece)


def entrants(plugins: list[str], tell: Tell) -> list[dict]:
    """Who can take part, as `_native.race_entrants` has it; raises as `race`."""
    piece = ("race_entrants", plugins)
    return _alone(piece, STILL_S, tell) if plugins else _called(piece)


def _alone(piece: Piece, still_s: float, tell: Tell) -> Any:
    with contextlib.closing(Crew(1, _answered, still_s)) as crew:
        crew.begin(piece)
        while not (endings := crew.wait()):
            pass
    (ending,) = endings
    if ending.printed:
        lines = "".join(f"\n| {line}" for line in ending.printed.rstrip("\n").split("\n"))
        tell(f"note: a plug-in printed:{lines}")
    if ending.is_still:
        why = f"{NO_END}: it has shown no progress for {still_s:g} s"
        raise SchedlabError(why, f"{ONE_BY_ONE}; a smaller -n or -l makes rounds shorter")
    if (code := ending.exit_code) is not None:
        how = f"{signal_name(-code)} ended it" if code < 0 else f"it called exit({code})"
        hint = f"{ONE_BY_ONE}; a sanitizer shows where: cc -fsanitize=address,undefined"
        raise catalogue.native().RaceError(f"{NO_END}: {how}\nhint: {hint}")
    answer, error = ending.answer
    if error is not None:
        raise catalogue.native().RaceError(error)
    return answer


def _called(piece: Piece) -> Any:
    name, *arguments = piece
    return getattr(catalogue.native(), name)(*arguments)


def _answered(piece: Piece) -> tuple[Any, str | None]:
    """The core's answer, or what it refused."""
    try:
        return _called(piece), None
    except catalogue.native().RaceError as error:
        return None, str(error)
