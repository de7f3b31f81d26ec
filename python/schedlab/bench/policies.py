"""Policies that take turns at scheduling this machine while it is measured.

Each is loaded by `schedlab load` in a process of its own: so an ejection is seen, and the machine
goes back to the kernel's own scheduler whatever happens to us.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import IO

from schedlab import programs
from schedlab.bench.environment import KERNEL_OWN
from schedlab.errors import SchedlabError
from schedlab.kernel import loading, result

# Compiling, verifying and attaching a policy; and giving the machine back.
ATTACH_WAIT_S = 60.0
# Tasks find their new places, and caches their new tasks.
SETTLE_S = 0.5
POLL_S = 0.05
PR_SET_PDEATHSIG = 1

_LIBC = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def in_force(policy: str, command: Sequence[str] = (sys.executable, "-m", "schedlab")) -> Iterator:
    """The policy schedules this machine inside; "kernel" changes nothing. Raises SchedlabError with
    what the loader says if it cannot be loaded."""
    if policy == KERNEL_OWN:
        yield
        return
    with tempfile.TemporaryFile("w+") as records, tempfile.TemporaryFile("w+") as errors:
        us = os.getpid()
        # A file and not a pipe: nobody reads on while programs are measured.
        loader = subprocess.Popen(
            [*command, "load", policy, "--json"],
            stdin=subprocess.DEVNULL,
            stdout=records,
            stderr=errors,
            start_new_session=True,
            # A policy that nobody takes back would schedule this machine for ever.
            preexec_fn=lambda: _die_with(us, signal.SIGTERM),
        )
        try:
            _wait_until_attached(loader, policy, records, errors)
            time.sleep(SETTLE_S)
            yield
        finally:
            programs.end(loader, loading.STOP_WAIT_S)


def _die_with(parent: int, number: signal.Signals) -> None:
    """Between fork and exec: the kernel sends the program this signal when we, `parent`, die."""
    _LIBC.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _wait_until_attached(
    loader: subprocess.Popen, policy: str, records: IO[str], errors: IO[str]
) -> None:
    deadline_s = time.monotonic() + ATTACH_WAIT_S
    while time.monotonic() < deadline_s:
        records.seek(0)
        if any(record["record"] == "attached" for record in result.parse(records)):
            return
        if loader.poll() is not None:
            errors.seek(0)
            raise SchedlabError(f"policy {policy} cannot be loaded: {errors.read().strip()}")
        time.sleep(POLL_S)
    raise SchedlabError(
        f"policy {policy} was not attached after {ATTACH_WAIT_S:.0f} s",
        f"`schedlab load {policy}` shows what happens",
    )
