"""Files that are written whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from schedlab.errors import SchedlabError


def write(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Writes bytes, or a text as UTF-8, as `writing` does."""
    with writing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write bytes to: readers of `path` see the old one, or the whole new one once all is
    written. A link stays, and leads to the new one. Raises OSError if it cannot be written."""
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(target)
    except OSError as error:
        # Where writing fails, and not opening, the system names no file.
        error.filename = str(path)
        raise
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def named_errors(what: str, hint: str) -> Iterator[None]:
    """A context in which the system's errors become a SchedlabError: `what` cannot be written."""
    try:
        yield
    except OSError as error:
        raise SchedlabError(f"{what} cannot be written: {error.strerror}", hint) from error
