"""What a suite needs before it can measure: packages, the program schedlab-bench, a folder, inputs.

An input is made once and known by the SHA-256 of its files from then on: results of inputs that
differ are results of different benchmarks.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab import catalogue, whole_file
from schedlab.bench.environment import package_versions
from schedlab.bench.program import run
from schedlab.bench.suite import PLACEHOLDER, Case, Input, Suite, fill
from schedlab.digests import canonical_json, digest_of
from schedlab.errors import SchedlabError

READY = "schedlab-ready.json"
LINES_TOLD = 10


def work_directory(asked: Path | None) -> Path:
    """The folder that programs work in: as asked for, else in the user's cache; made if need be."""
    directory = (asked or catalogue.cache_directory() / "bench").expanduser().absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK):
            raise PermissionError(0, "it cannot be written")
    except OSError as error:
        raise SchedlabError(
            f"cannot work in the folder {directory}: {error.strerror}",
            "name another one with --work-dir",
        ) from error
    return directory


@contextlib.contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Keeps others from measuring in this folder, and so disturbing us; refuses if one does."""
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
    """The packages that these cases need; refuses if one is not installed, and says how to."""
    needed = {name: case.name for case in cases for name in case.benchmark.needs}
    needed |= {name: made.name for made in needed_inputs(suite, cases) for name in made.needs}
    packages = sorted(needed)
    # Where this is no Debian, the commands themselves will tell what is not there.
    versions = package_versions(packages) if shutil.which("dpkg-query") else {}
    if missing := [name for name, version in versions.items() if version is None]:
        who = ", ".join(f"{name} (for {needed[name]})" for name in missing)
        raise SchedlabError(
            f"packages are missing: {who}",
            f"apt-get install {' '.join(missing)}; or leave these benchmarks out: --only",
        )
    return packages


def needed_inputs(suite: Suite, cases: Sequence[Case]) -> list[Input]:
    """The inputs that these cases need, in the order of the file."""
    names = {name for case in cases for name in case.benchmark.inputs}
    return [made for made in suite.inputs if made.name in names]


def uses_program(suite: Suite, cases: Sequence[Case]) -> bool:
    """Whether any of these cases calls schedlab-bench."""
    benchmarks = [case.benchmark for case in cases]
    commands = [(one.command, one.prepare, one.cleanup) for one in benchmarks]
    return "bench" in PLACEHOLDER.findall(f"{commands} {[made.command for made in suite.inputs]}")


def prepared(
    made: Input, size: str, given: Mapping[str, Any], directory: Path, tell: Callable[[str], None]
) -> tuple[Path, dict[str, str]]:
    """An input's folder and the SHA-256 of its files; made if it is not there, or not finished, and
    refused if its files are no longer what they were."""
    parameters = made.sizes.get(size, {})
    digest = digest_of([made.command, made.files, parameters])[:12]
    folder = directory / "inputs" / f"{made.name}-{digest}"
    ready = folder / READY
    if ready.is_file():
        if before := _kept_sums(made, ready):
            for name, now in _sums(made, folder).items():
                if now != before[name]:
                    raise SchedlabError(
                        f"input {made.name}: {folder / name} is no longer what was measured before",
                        f"rm -r {folder}, and it is made again",
                    )
            return folder, before
        tell(f"{ready} is damaged: what it was written for is made anew")
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    tell(f"preparing {made.name} in {folder}, once, which may take minutes")
    ended = run(fill(made.command, {**given, **parameters, "work": folder}), made.timeout_s, folder)
    if ended.failure:
        lines = (ended.stderr.strip() or ended.stdout.strip()).splitlines()[-LINES_TOLD:]
        raise SchedlabError(
            "\n".join([f"input {made.name} cannot be made: {ended.failure}", *lines]),
            f"its command is in the suite's file; it ran in {folder}",
        )
    sums = _sums(made, folder)
    whole_file.write(ready, canonical_json(sums))
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


def _sums(made: Input, folder: Path) -> dict[str, str]:
    sums = {}
    for name in made.files:
        try:
            with (folder / name).open("rb") as file:
                sums[name] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise SchedlabError(
                f"input {made.name}: there is no {folder / name}: {error.strerror}",
                "`files` of the input names what its command makes",
            ) from error
    return sums
