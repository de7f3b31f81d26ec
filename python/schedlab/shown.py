"""The way out to people: what files, programs and policies say is shown, and never obeyed.

A terminal obeys the escape sequences that names, excerpts of files and messages of compilers may
hold. So whatever is printed goes through `Stream`, which writes such characters out, as in `\\x1b`.
Only what schedlab itself draws, colours and progress, is written as it is, by `write_own`.
"""

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from typing import TextIO

# All controls but tab and new line; marks that reorder a line; and halves of pairs, which are no
# characters: Python keeps each byte that is no UTF-8 as one.
_NOT_SHOWN = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_BYTES = range(0xDC80, 0xDD00)


def shown(text: str) -> str:
    """`text` with what a terminal would obey written out."""
    return _NOT_SHOWN.sub(_written_out, text.replace("\r\n", "\n"))


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code in _BYTES:
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def in_json(text: str) -> str:
    """The same of a JSON document, which stays the same document."""
    return _NOT_SHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def install() -> None:
    """From here on, what this process prints is shown, on stdout and on stderr."""
    # A program that has closed one, and not the shell, has none.
    sys.stdout = sys.stdout and Stream(sys.stdout, "standard output")
    sys.stderr = sys.stderr and Stream(sys.stderr, "standard error")


def own(stream: TextIO) -> TextIO:
    """`stream` for what schedlab draws, such as a progress bar."""
    return _Own(stream) if isinstance(stream, Stream) else stream


def print_data(text: str = "", end: str = "\n") -> None:
    """Prints on stdout, at once: what is said on stderr meanwhile keeps its place."""
    print(text, end=end, flush=True)


def print_note(text: str) -> None:
    """Says something about the data on stderr."""
    print(text, file=sys.stderr, flush=True)


def write_own(stream: TextIO, text: str) -> None:
    """Writes at once what schedlab draws itself; what others said in it is `shown` already."""
    own(stream).write(text)
    stream.flush()


class Stream(io.TextIOWrapper):
    """Takes the place of a standard stream; writes only what is `shown`, always as UTF-8."""

    def __init__(self, replaced: TextIO, told: str = "stream"):
        buffering = {name: getattr(replaced, name) for name in ("line_buffering", "write_through")}
        super().__init__(replaced.buffer, encoding="utf-8", **buffering)
        # Whoever closes it would close what both write to.
        self._replaced = replaced
        self._told = told

    def write(self, text: str) -> int:
        """Writes a text from anywhere."""
        self.write_own(shown(text))
        return len(text)

    def write_own(self, text: str) -> int:
        """Writes what schedlab draws, as it is."""
        with self._naming():
            return super().write(text)

    def flush(self) -> None:
        """Writes what waits for more."""
        with self._naming():
            super().flush()

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        """An error of the system says what could not be written."""
        try:
            yield
        except OSError as error:
            error.filename = error.filename or self._told
            raise


class _Own:
    """A stream's face for a library that draws: all is the stream's but how it writes."""

    def __init__(self, stream: Stream):
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write_own(text)

    def __getattr__(self, name: str):
        return getattr(self._stream, name)
