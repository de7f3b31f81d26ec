"""Which runs the processes that share a store are making at this moment.

A claim is a lock of the operating system on one byte of a file beside the store, at a place that
the run's key decides. The system gives a claim back when its process ends, however it ends, so no
claim outlives its holder. Claims only save work: a run that is made twice is kept once all the
same, because the store goes by its key.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path

from schedlab.errors import StoreError
from schedlab.store import RunKey, canonical_json

SUFFIX = "-claims"
# Places are below 2**62, so that they fit the system's signed 64-bit offsets.
PLACE_BYTES = 8
PLACE_MASK = 2**62 - 1
EXCLUSIVE = fcntl.LOCK_EX | fcntl.LOCK_NB


class Claims:
    """The claims of this process on one store. Use as a context manager, one a process.

    Parameters
    ----------
    store : path
        The store's file; the claims are kept in a file beside it, gone after the last process.

    Raises
    ------
    StoreError
        If the file beside the store cannot be made.
    """

    def __init__(self, store: Path):
        self.path = store.with_name(f"{store.name}{SUFFIX}")
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise StoreError(
                f"{self.path}, beside the store, cannot be opened: {error.strerror}",
                "name a file in a writable directory with --store",
            ) from error

    def __enter__(self) -> Claims:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives every claim back, and removes the file if no other process has a claim."""
        if self._lock(EXCLUSIVE, 0, 0):
            self.path.unlink(missing_ok=True)
        os.close(self._file)

    def take(self, key: RunKey) -> bool:
        """Claims a run, unless another process has it; claiming again is no error."""
        return self._lock(EXCLUSIVE, 1, _place(key))

    def give_back(self, key: RunKey) -> None:
        """Lets other processes claim the run."""
        self._lock(fcntl.LOCK_UN, 1, _place(key))

    def _lock(self, kind: int, length: int, place: int) -> bool:
        try:
            fcntl.lockf(self._file, kind, length, place)
        except (BlockingIOError, PermissionError):
            # Both mean that another process holds it.
            return False
        except OSError:
            # A file system without locks: work may be done twice, and is kept once.
            return True
        return True


def _place(key: RunKey) -> int:
    digest = hashlib.sha256(canonical_json(key).encode()).digest()
    return int.from_bytes(digest[:PLACE_BYTES], "big") & PLACE_MASK
