"""Which runs the processes that share a store are making at this moment.

A lock is the operating system's, on one byte of a file beside the store, at a place that the run's
key decides: it ends with its process. Locks only save work, as the store goes by keys. So where
there can be none, such as beside a store of another user's, every run may start.

The file is empty and stays: who removed it could not know that nobody is about to lock it. Its name
begins with a dot, because it holds nothing that a user should look at.
"""

import contextlib
import fcntl
import os
from pathlib import Path

from schedlab.digests import digest_of
from schedlab.store.runs import RunKey

# Places are below 2**62, so that they fit the system's signed 64-bit offsets.
PLACE_MASK = 2**62 - 1


class Locks(contextlib.ExitStack):
    """This process's locks on the runs of one store, until it is closed; one object a process.
    Their file stands beside the store and may be written by the same users."""

    def __init__(self, store: Path):
        super().__init__()
        self.path = store.with_name(f".{store.name}-claims")
        self._file = None
        with contextlib.suppress(OSError):
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            self.callback(os.close, self._file)
            os.fchmod(self._file, store.stat().st_mode & 0o777)

    def take(self, key: RunKey | str) -> bool:
        """Locks a run, or what goes by a name, unless another process has; again is no error."""
        return self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB, key)

    def release(self, key: RunKey) -> None:
        """Lets other processes lock the run."""
        self._lock(fcntl.LOCK_UN, key)

    def _lock(self, kind: int, key: RunKey | str) -> bool:
        try:
            if self._file is not None:
                fcntl.lockf(self._file, kind, 1, int(digest_of(key)[:16], 16) & PLACE_MASK)
        except (BlockingIOError, PermissionError):
            # Both mean that another process holds it.
            return False
        except OSError:
            # A file system without locks: work may be done twice, and is kept once.
            pass
        return True
