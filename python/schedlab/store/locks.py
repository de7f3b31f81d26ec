"""Which runs the processes that share a store are making at this moment.

A claim is a lock of the operating system on one byte of a file beside the store, at a place that
the run's key decides. The system gives a claim back when its process ends, however it ends, so no
claim outlives its holder. Claims only save work: a run that is made twice is kept once all the
same, because the store goes by its key. So where there can be no claims, such as beside a store of
another user's, every run may start.

The file is empty and stays: who removed it could not know that nobody is about to lock it. Its name
begins with a dot, because it holds nothing that a user should look at.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from pathlib import Path

from schedlab.digests import canonical_json
from schedlab.store.runs import RunKey

# Places are below 2**62, so that they fit the system's signed 64-bit offsets.
PLACE_BYTES = 8
PLACE_MASK = 2**62 - 1


class Claims:
    """The claims of this process on one store, in a file beside it that the same users may write.

    Use as a context manager, one a process.
    """

    def __init__(self, store: Path):
        self.path = store.with_name(f".{store.name}-claims")
        self._file = None
        with contextlib.suppress(OSError):
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            os.fchmod(self._file, store.stat().st_mode & 0o777)

    def __enter__(self) -> Claims:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives every claim back."""
        if self._file is not None:
            os.close(self._file)

    def take(self, key: RunKey) -> bool:
        """Claims a run, unless another process has it; claiming again is no error."""
        return self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB, key)

    def give_back(self, key: RunKey) -> None:
        """Lets other processes claim the run."""
        self._lock(fcntl.LOCK_UN, key)

    def _lock(self, kind: int, key: RunKey) -> bool:
        digest = hashlib.sha256(canonical_json(key).encode()).digest()
        place = int.from_bytes(digest[:PLACE_BYTES], "big") & PLACE_MASK
        if self._file is None:
            return True
        try:
            fcntl.lockf(self._file, kind, 1, place)
        except (BlockingIOError, PermissionError):
            # Both mean that another process holds it.
            return False
        except OSError:
            # A file system without locks: work may be done twice, and is kept once.
            return True
        return True
