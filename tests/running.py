"""Whether a process is still there, for tests of what becomes of them."""

import time
from pathlib import Path

GONE_S_MAX = 10


def is_running(pid):
    """Neither ended nor waiting for its parent to hear of its end."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def assert_it_goes(pid, what):
    """`what` says, if it does not, what is still there."""
    deadline = time.monotonic() + GONE_S_MAX
    while is_running(pid):
        assert time.monotonic() < deadline, f"{what} is still there"
        time.sleep(0.05)
