"""What processes do, for tests that wait for it.

Nothing here depends on how fast this machine is: what must happen is waited for, and a limit is
there only so that a test which fails ends.
"""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

PATIENCE_S = 600
LOOK_EVERY_S = 0.02


def begin(environment, folder, *words):
    """Begins the real command in a group of its own: Ctrl-C reaches a whole group."""
    return subprocess.Popen(
        [sys.executable, "-m", "schedlab", *map(str, words)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def dask_process(environment, folder, what, *words):
    """Starts Dask's scheduler, or a worker of the one that was started in this folder."""
    where = ["--scheduler-file", "scheduler.json", "--no-dashboard"]
    return subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.dask_{what}", *where, *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def wait_for(condition, what="it"):
    """What `condition` gives once that is true."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (given := condition()):
        assert time.monotonic() < deadline_s, f"{what} did not come about in {PATIENCE_S} s"
        time.sleep(LOOK_EVERY_S)
    return given


def fields_of(pid):
    """What /proc/PID/stat has after the name; None if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_running(pid):
    """Neither ended nor waiting for its parent to hear of its end."""
    fields = fields_of(pid)
    return fields is not None and fields[0] not in "ZX"


def assert_it_goes(pid, what):
    """`what` says, if it does not, what is still there."""
    wait_for(lambda: not is_running(pid), f"the end of {what}")


def descendants(ancestor):
    """The processes that a process has started, or one that it has started."""
    parents = {}
    for directory in Path("/proc").glob("[0-9]*"):
        if fields := fields_of(directory.name):
            parents[int(directory.name)] = int(fields[1])
    return [pid for pid in parents if ancestor in _ancestors(pid, parents)]


def _ancestors(pid, parents):
    while pid := parents.get(pid, 0):
        yield pid


def computed_s(pid):
    """CPU seconds of a process so far."""
    fields = fields_of(pid) or ["0"] * 13
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until_at_work(pid, seconds=0.5):
    """Until something that a process has started computed for so long; what it was."""

    def at_work():
        return [child for child in descendants(pid) if computed_s(child) >= seconds]

    return wait_for(at_work, f"work that process {pid} has started")


def name_of(pid):
    """A process's name, as the kernel keeps it; empty if there is none."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""
