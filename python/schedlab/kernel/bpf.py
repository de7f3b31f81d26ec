"""Builds a policy as a BPF object for the kernel; the core builds it for the simulator. Objects are
kept in the user's cache under the digest of all that went into them, whole or not at all.
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlab import catalogue, programs, whole_file
from schedlab.errors import SchedlabError
from schedlab.shown import print_note

CLANG_OLDEST = 19
CLANG_NEWEST_TRIED = 30
PROGRAM_TIMEOUT_S = 60
# As much as the compiler of the simulator's build gets.
MEMORY_BYTES_MAX = 2 << 30
# What clang says where memory ends; a dump of its stack follows.
OUT_OF_MEMORY = re.compile("out of memory|memory exhausted|cannot allocate memory|bad_alloc", re.I)

# -mcpu=v3 is what every kernel with sched_ext takes. Overflow and aliasing are as in the kernel.
FLAGS = (
    *("-std=gnu17", "-O2", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter"),
    *("-fno-color-diagnostics", "-fno-strict-aliasing", "-fwrapv", "-target", "bpf", "-mcpu=v3"),
    "-ffile-compilation-dir=.",
)


@dataclass(frozen=True)
class Clang:
    """A compiler for BPF: its program, and the first line of what it says of itself."""

    program: str
    version: str


def find_clang() -> Clang | None:
    """The oldest clang that is new enough, as that is what the policies were tried with."""
    names = (*(f"clang-{number}" for number in range(CLANG_OLDEST, CLANG_NEWEST_TRIED)), "clang")
    for name in filter(shutil.which, names):
        answer = programs.output([name, "--version"], PROGRAM_TIMEOUT_S).stdout
        said = answer.decode(errors="replace").partition("\n")[0]
        version = re.search(r"version (\d+)", said)
        if version and int(version[1]) >= CLANG_OLDEST:
            return Clang(name, said)
    return None


def object_of(source: Path, tell: Callable[[str], None] = print_note) -> Path:
    """The BPF object of a policy's C file, built if the cache does not have it; an object itself.

    When it is built, `tell` is given clang's warnings of a user's own file. Raises SchedlabError if
    there is no clang that is new enough, it refuses the policy, or the cache cannot be written.
    """
    if catalogue.is_built(source):
        return source
    clang = find_clang()
    if clang is None:
        raise SchedlabError(
            f"no clang of version {CLANG_OLDEST} or later: policies for the kernel are built by it",
            f"apt-get install clang-{CLANG_OLDEST}",
        )
    source = source.resolve()
    # The preprocessed text still says which line is which: the verifier quotes them.
    text = _translate(clang, ["-E"], source).stdout
    for folder, name in _folders(source):
        text = text.replace(b'"' + _as_quoted_by_clang(folder), b'"' + name.encode())
    parts = (text, clang.version.encode(), " ".join(FLAGS).encode())
    digest = hashlib.sha256(b"".join(b"%d:%b" % (len(part), part) for part in parts)).hexdigest()
    name = source.name.removesuffix(catalogue.POLICIES.suffix)
    wanted = catalogue.cache_directory() / "bpf" / f"{name}-{digest}.o"
    if wanted.exists():
        return wanted
    with whole_file.named_errors(f"BPF object {wanted}", catalogue.CACHE_HINT):
        wanted.parent.mkdir(parents=True, exist_ok=True)
        done = _translate(clang, ["-c", "-o", "-"], source)
        whole_file.write(wanted, done.stdout)
    catalogue.tell_warnings(source, done.stderr.decode(errors="replace").rstrip(), tell)
    return wanted


def _translate(
    clang: Clang, mode: Sequence[str], source: Path
) -> subprocess.CompletedProcess[bytes]:
    """What came of clang, which had nothing to refuse; its refusal is shown as it is."""
    # Of several that fit, clang takes the last.
    names = [f"-ffile-prefix-map={folder}={name}" for folder, name in reversed(_folders(source))]
    # Where memory ends clang takes itself for broken, and would leave files in TMPDIR.
    options = [*FLAGS, "-fno-crash-diagnostics", *names]
    command = [clang.program, *options, *mode, f"-I{catalogue.include_directory()}", str(source)]
    done = programs.output(command, PROGRAM_TIMEOUT_S, source.parent, memory_bytes=MEMORY_BYTES_MAX)
    if done.returncode == 0:
        return done
    said, hint = done.stderr.decode(errors="replace").rstrip(), None
    if ended := OUT_OF_MEMORY.search(said):
        said = said[: ended.end()]
        limit = f"{MEMORY_BYTES_MAX >> 20} MiB of memory"
        hint = f"the compiler gets {limit}: does the source expand to what has no end?"
    why = f"does not compile for the kernel with {clang.program}"
    raise SchedlabError(f"{source} {why}:\n{said}", hint)


def _folders(source: Path) -> tuple[tuple[str, str], ...]:
    """What folders are called in an object, so that it is the same wherever a checkout lies.

    Its bytes are part of a deterministic machine: with a longer path all times are others. It
    quotes lines of the source, which clang reads by the short name, and none of headers.
    """
    return (f"{catalogue.include_directory()}/", "scx-include/"), (f"{source.parent}/", "")


def _as_quoted_by_clang(path: str) -> bytes:
    """A path as preprocessed text has it between quotes."""
    written = {byte: bytes([byte]) for byte in range(ord(" "), ord("~") + 1)}
    written |= {ord("\\"): b"\\\\", ord('"'): b'\\"', ord("\t"): b"\\t", ord("\n"): b"\\n"}
    return b"".join(written.get(byte, b"\\%03o" % byte) for byte in os.fsencode(path))
