"""What a suite needs before it can measure: packages, the program schedlab-bench, a folder, inputs.

An input is made once and known by the SHA-256 of its files from then on: results of inputs that
differ are results of different benchmarks.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab import catalogue
from schedlab.bench.environment import package_versions
from schedlab.bench.program import Ended, run
from schedlab.bench.suite import PLACEHOLDER, Case, Command, Input, Suite, fill
from schedlab.digests import canonical_json
from schedlab.errors import SchedlabError

READY = "schedlab-ready.json"
HASHED_BYTES = 1 << 20


def work_directory(asked: Path | None) -> Path:
    """The folder that programs work in: as asked for, else in the user's cache; made if need be.

    Raises
    ------
    SchedlabError
        If it cannot be made or written.
    """
    directory = (asked or catalogue.cache_directory() / "bench").expanduser().absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SchedlabError(
            f"cannot make the working folder {directory}: {error.strerror}",
            "name another one with --work-dir",
        ) from error
    if not os.access(directory, os.W_OK):
        raise SchedlabError(
            f"the working folder {directory} cannot be written", "name another with --work-dir"
        )
    return directory


@contextlib.contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Keeps others from measuring in this folder, and thereby from disturbing us.

    Raises
    ------
    SchedlabError
        If somebody does already.
    """
    with (directory / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SchedlabError(
                f"another schedlab bench works in {directory}: both would measure each other",
                "wait for its end",
            ) from error
        yield


def refuse_missing_packages(suite: Suite, cases: Sequence[Case]) -> list[str]:
    """The packages that these cases need, all of which are installed.

    Raises
    ------
    SchedlabError
        If some are not, with the command that installs them.
    """
    inputs = {name for case in cases for name in case.benchmark.inputs}
    needed = {name: case.name for case in cases for name in case.benchmark.needs}
    needed |= {
        name: made.name for made in suite.inputs if made.name in inputs for name in made.needs
    }
    if not needed or shutil.which("dpkg-query") is None:
        # Not a Debian: the commands themselves will tell what is not there.
        return sorted(needed)
    found = package_versions(sorted(needed))
    missing = [name for name, version in found.items() if version is None]
    if missing:
        who = ", ".join(f"{name} (for {needed[name]})" for name in missing)
        raise SchedlabError(
            f"packages are missing: {who}",
            f"apt-get install {' '.join(missing)}; or leave these benchmarks out: --only",
        )
    return sorted(needed)


def uses_program(suite: Suite, cases: Sequence[Case]) -> bool:
    """Whether any of these cases calls schedlab-bench."""
    commands = [c for case in cases for c in _commands(case)]
    commands += [made.command for made in suite.inputs]
    return any("bench" in PLACEHOLDER.findall(_one_text(command)) for command in commands)


def _commands(case: Case) -> list[Command]:
    benchmark = case.benchmark
    return [c for c in (benchmark.command, benchmark.prepare, benchmark.cleanup) if c]


def _one_text(command: Command) -> str:
    return command if isinstance(command, str) else "\n".join(command)


def prepared(
    made: Input, size: str, given: Mapping[str, Any], directory: Path, tell: Callable[[str], None]
) -> tuple[Path, dict[str, str]]:
    """An input's folder and the SHA-256 of its files; made now if it is not there yet.

    One that was not finished is made anew.

    Raises
    ------
    SchedlabError
        If it cannot be made, or a file is no longer what it was.
    """
    identity = canonical_json([made.command, made.files, made.sizes.get(size, {})])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    folder = directory / "inputs" / f"{made.name}-{digest}"
    ready = folder / READY
    if ready.is_file():
        sums = _kept_sums(made, ready)
        if sums is not None:
            return folder, _verified(made, folder, sums)
        tell(f"{ready} is damaged: what it was written for is made anew")
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    tell(f"preparing {made.name} in {folder}, once, which may take minutes")
    values = {**given, **made.sizes.get(size, {}), "work": folder}
    ended = run(fill(made.command, values), made.timeout_s, folder)
    if ended.failure:
        raise SchedlabError(
            f"input {made.name} cannot be made: {ended.failure}\n{_last_lines(ended)}",
            f"its command is in the suite's file; it ran in {folder}",
        )
    sums = {name: _sha256(made, folder / name) for name in made.files}
    unfinished = ready.with_suffix(".part")
    unfinished.write_text(canonical_json(sums), encoding="utf-8")
    unfinished.replace(ready)
    return folder, sums


def _kept_sums(made: Input, ready: Path) -> dict[str, str] | None:
    """What was written down of an input's files; None if that is damaged, as a crash leaves it."""
    try:
        sums = json.loads(ready.read_bytes())
    except ValueError:
        return None
    except OSError as error:
        raise SchedlabError(
            f"input {made.name}: {ready} cannot be read: {error.strerror}",
            f"rm -r {ready.parent}, and it is made again",
        ) from error
    is_whole = isinstance(sums, dict) and set(sums) == set(made.files)
    return sums if is_whole and all(isinstance(one, str) for one in sums.values()) else None


def _verified(made: Input, folder: Path, sums: Mapping[str, str]) -> dict[str, str]:
    for name, digest in sums.items():
        if _sha256(made, folder / name) != digest:
            raise SchedlabError(
                f"input {made.name}: {folder / name} is no longer what was measured before",
                f"rm -r {folder}, and it is made again",
            )
    return dict(sums)


def _sha256(made: Input, path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(HASHED_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise SchedlabError(
            f"input {made.name}: there is no {path}: {error.strerror}",
            "`files` of the input names what its command makes",
        ) from error
    return digest.hexdigest()


def _last_lines(ended: Ended, most: int = 10) -> str:
    said = ended.stderr.strip() or ended.stdout.strip()
    return "\n".join(said.splitlines()[-most:])


def program_digest(program: Path) -> str:
    """The first digits of the SHA-256 of a program: equal ones are the same program."""
    return hashlib.sha256(program.read_bytes()).hexdigest()[:12]
