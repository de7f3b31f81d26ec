"""Runs one program to its end, or to the end of its time, and tells what it took.

It gets a session of its own, so that a time limit, Ctrl-C and our own death end it with everything
that it started. Nothing of ours runs between fork and exec: Python would have to copy itself, which
takes longer than many a program that is measured. So a watcher ends it with us, not the kernel.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlab.bench.suite import Command
from schedlab.programs import signal_name

STDOUT_BYTES_MAX = 1 << 20
STDERR_BYTES_MAX = 8 << 10
READ_BYTES = 1 << 16
# From asking a program to end to killing it.
GRACE_S = 1.0
# Output of a program that ended may still be in its pipes; a process that it left behind could
# keep these open for ever.
DRAIN_S = 0.2
# The shell's exit status for a program that cannot be started.
CANNOT_START = 127
# Of fixed width: how large its environment is can make a program faster or slower.
WATCHED = "SCHEDLAB_WATCHED_BY"
# Says that it is there, hears of a process group, and ends that when we close the pipe: by dying.
# Where we die before it hears of one, the program has begun all the same, and is known by a
# variable of its environment; the third field of a stat file after the name is the group.
WATCHER = (
    "/bin/sh",
    "-c",
    "echo; if read -r group; then ! read -r more && kill -s KILL -- -$group; else sleep 1;"
    f' watched=$(printf "{WATCHED}=%08d" $$);'
    ' for file in $(grep -lszFx "$watched" /proc/[0-9]*/environ); do'
    " read -r stat <${file%environ}stat && set -- ${stat##*) } && kill -s KILL -- -$3;"
    " done; fi 2>/dev/null",
)


@dataclass(frozen=True)
class Ended:
    """How a program ended: `status` is its exit code, negative for a signal.

    `stdout` and `stderr` are the last of what it wrote; times are nanoseconds, CPU times those of
    the program and of all processes that it waited for.
    """

    status: int
    timed_out: bool
    wall_ns: int
    user_ns: int
    system_ns: int
    stdout: str
    stderr: str

    @property
    def failure(self) -> str | None:
        """What went wrong, in words; None if nothing did."""
        if self.timed_out:
            return f"it was not done after {self.wall_ns / 1e9:.1f} s, and was ended"
        if self.status < 0:
            return f"{signal_name(-self.status)} ended it"
        return f"exit status {self.status}" if self.status else None


def run(command: Command, timeout_s: float, directory: Path) -> Ended:
    """Runs a command, text through the shell, in `directory`, and waits for its end.

    Whatever ends this call, and if it is SIGKILL, ends the program and what it started, unless
    that made a process group of its own.
    """
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    try:
        watcher = _started_watcher()
    except OSError as error:
        return _not_started(WATCHER, error)
    with watcher:
        started_ns = time.monotonic_ns()
        try:
            process = subprocess.Popen(
                argv,
                cwd=directory,
                env=os.environ | {"LC_ALL": "C", WATCHED: f"{watcher.pid:08d}"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            watcher.kill()
            return _not_started(argv, error)
        with process:
            try:
                # Somebody may have ended it.
                with contextlib.suppress(BrokenPipeError):
                    # The session's leader leads its process group, too.
                    watcher.stdin.write(f"{process.pid}\n".encode())
                return _wait(process, started_ns, timeout_s)
            finally:
                _kill_group(process.pid, signal.SIGKILL)
                watcher.kill()


def _started_watcher() -> subprocess.Popen:
    """One that sleeps, so that its start disturbs nobody; without a group it ends by itself."""
    watcher = subprocess.Popen(
        WATCHER,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        # Ctrl-C is for us.
        start_new_session=True,
    )
    watcher.stdout.readline()
    return watcher


def _not_started(argv: Sequence[str], error: OSError) -> Ended:
    return Ended(CANNOT_START, False, 0, 0, 0, "", f"cannot start {argv[0]}: {error.strerror}")


def _wait(process: subprocess.Popen, started_ns: int, timeout_s: float) -> Ended:
    tails = {process.stdout: bytearray(), process.stderr: bytearray()}
    pidfd = os.pidfd_open(process.pid)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(pidfd, selectors.EVENT_READ)
            for stream in tails:
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ)
            deadline_ns = started_ns + int(timeout_s * 1e9)
            if timed_out := not _read_until(selector, tails, pidfd, deadline_ns):
                _kill_group(process.pid, signal.SIGTERM)
                grace_ns = time.monotonic_ns() + int(GRACE_S * 1e9)
                if not _read_until(selector, tails, pidfd, grace_ns):
                    _kill_group(process.pid, signal.SIGKILL)
            _, status, used = os.wait4(process.pid, 0)
            wall_ns = time.monotonic_ns() - started_ns
            process.returncode = os.waitstatus_to_exitcode(status)
            selector.unregister(pidfd)
            _read_until(selector, tails, None, time.monotonic_ns() + int(DRAIN_S * 1e9))
    finally:
        os.close(pidfd)
    return Ended(
        status=process.returncode,
        timed_out=timed_out,
        wall_ns=wall_ns,
        user_ns=round(used.ru_utime * 1e9),
        system_ns=round(used.ru_stime * 1e9),
        stdout=tails[process.stdout][-STDOUT_BYTES_MAX:].decode(errors="replace"),
        stderr=tails[process.stderr][-STDERR_BYTES_MAX:].decode(errors="replace"),
    )


def _read_until(
    selector: selectors.BaseSelector, tails: Mapping, pidfd: int | None, deadline_ns: int
) -> bool:
    """Reads output until the program ended, or all streams did; False if the time is over."""
    while selector.get_map():
        left_s = (deadline_ns - time.monotonic_ns()) / 1e9
        if left_s <= 0:
            return False
        for key, _ in selector.select(left_s):
            if key.fileobj == pidfd:
                return True
            chunk = b""
            with contextlib.suppress(BlockingIOError):
                chunk = os.read(key.fd, READ_BYTES)
            if not chunk:
                selector.unregister(key.fileobj)
                continue
            tails[key.fileobj] += chunk
            if len(tails[key.fileobj]) > 2 * STDOUT_BYTES_MAX:
                del tails[key.fileobj][:-STDOUT_BYTES_MAX]
    return True


def _kill_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
