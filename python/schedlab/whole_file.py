"""Files that are written whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from schedlab.errors import SchedlabError


def write(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Writes bytes, or a text as UTF-8; readers of `path` see the old file or the whole new one. A
    link stays, and leads to the new one. Raises OSError if the file cannot be written."""
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content.encode() if isinstance(content, str) else content)
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
