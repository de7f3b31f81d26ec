"""Programs: those that are built beside the package, and those that are run for an answer."""

import functools
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlab import catalogue, user_file
from schedlab.errors import SchedlabError


@dataclass(frozen=True, slots=True)
class Program:
    """A program of ours, which `make` builds by its `target`. Another one can be named by the
    `variable` of the environment; its `purpose` is told where it is missing."""

    name: str
    target: str
    variable: str
    purpose: str

    def find(self, given: str | None = None) -> Path:
        """The one at the path `given`, else that the variable names, else the checkout's, else the
        one on PATH. Raises SchedlabError if it is not there, or was not built."""
        if given is not None:
            path, way_out = Path(given), f"`make {self.target}` builds it in the checkout"
            user_file.refuse_unfit(f"program {given}", path, user_file.MADE_BYTES_MAX, way_out)
            return path
        if named := os.environ.get(self.variable):
            if os.access(named, os.X_OK) and Path(named).is_file():
                return Path(named).resolve()
            hint = f"name the program {self.name}, or unset {self.variable}"
            raise SchedlabError(f"{self.variable}={named} is not a program", hint)
        if found := catalogue.built_program(self.variable, self.name):
            return Path(found).resolve()
        raise SchedlabError(
            f"{self.name} is not built: it is {self.purpose}",
            f"`make {self.target}` in the checkout, or set {self.variable} to where it is",
        )


GUEST = Program(
    catalogue.GUEST, "guest", catalogue.GUEST_VARIABLE, "what loads policies into a kernel"
)
BENCH = Program(
    "schedlab-bench", "schedlab-bench", "SCHEDLAB_BENCH", "the program of our own benchmarks"
)


def output(
    command: Sequence[str | os.PathLike[str]],
    timeout_s: float,
    folder: Path | None = None,
    cpu: int | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """What a program answered, in the language of C and with nothing to read, kept on `cpu`. Its
    exit code may be any. Raises SchedlabError if it cannot be started, or takes longer."""
    # Without need no Python between fork and exec: it could wait for another thread's lock.
    prepare = None if cpu is None else functools.partial(os.sched_setaffinity, 0, {cpu})
    try:
        return subprocess.run(
            command, preexec_fn=prepare, stdin=subprocess.DEVNULL, capture_output=True, check=False,
            env=os.environ | {"LC_ALL": "C"}, cwd=folder, timeout=timeout_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise SchedlabError(f"{command[0]} did not end within {timeout_s:g} s") from error
    except OSError as error:
        raise SchedlabError(f"cannot run {command[0]}: {error.strerror}") from error


def end(process: subprocess.Popen, wait_s: float) -> None:
    """Ends a process: asks it to, and kills it if it is still there after `wait_s`."""
    process.terminate()
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def signal_name(number: int) -> str:
    """SIGKILL for 9; a signal without name, such as one for real time, by its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
