"""What a user can meet and mend: every error carries the bad value, its place and a way out.

`str(error)` is one complete sentence or more for people; `error.hint` is a way out, or None.
Errors of the Rust core (`schedlab._native.NativeError`) are complete already and not wrapped.
"""

# ruff: noqa: N818 - as everywhere in this project, a name says what is wrong.
import difflib
from collections.abc import Collection, Iterable
from datetime import date, time

SUGGESTIONS_MAX = 3
# Of a value in a message: enough to know it again.
VALUE_CHARACTERS_MAX = 300


class SchedlabError(Exception):
    """Base of every error that the world can cause."""

    def __init__(self, message: str, hint: str | None = None):
        super().__init__(message)
        self.hint = hint

    @property
    def hint(self) -> str | None:
        """A way out, which a traceback shows, too."""
        return self._hint

    @hint.setter
    def hint(self, hint: str | None) -> None:
        """Takes the place of the one before."""
        self._hint = hint
        self.__notes__ = [f"hint: {hint}"] if hint else []


class BadValue(SchedlabError):
    """A value that cannot be used: `place` is the option or file it came from."""

    def __init__(self, place: str, value: object, why: str, hint: str | None = None):
        # TOML has days and times, whose names in Python say nothing.
        shown = str(value) if isinstance(value, date | time) else repr(value)
        super().__init__(f"{place}: {shortened(shown)} {why}", hint)
        self.place = place
        self.value = value


class UnknownName(SchedlabError):
    """A name that is not among the `valid` ones; suggests those spelled alike."""

    def __init__(self, kind: str, name: object, valid: Iterable[str], where: str = ""):
        names = sorted(valid)
        # No longer one is spelt alike; searching takes time.
        sought = str(name)[:VALUE_CHARACTERS_MAX]
        close = difflib.get_close_matches(sought, names, n=SUGGESTIONS_MAX)
        meant = f": did you mean {' or '.join(close)}?" if close else ""
        where = f" {where}" if where else ""
        hint = f"valid: {', '.join(names)}" if names else f"there is no {kind} here at all"
        super().__init__(f"unknown {kind} {shortened(repr(name))}{where}{meant}", hint)
        self.name = str(name)


def refuse_unknown(
    kind: str, names: Iterable[str], valid: Collection[str], where: str = ""
) -> None:
    """Raises UnknownName for the first of these names that is not among the `valid` ones."""
    for name in names:
        if name not in valid:
            raise UnknownName(kind, name, valid, where)


class ExperimentError(SchedlabError):
    """An experiment that contradicts itself, or whose files changed while it ran."""


class NoTimeline(SchedlabError):
    """No two runs can be looked into; the text says why."""


class StoreError(SchedlabError):
    """A store that cannot be opened, read or written."""


class DamagedRow(StoreError):
    """A row of a store that is not what was kept there."""


class DigestMismatch(StoreError):
    """A simulation gave another result than its stored twin: it must repeat exactly."""


class NativeMissing(SchedlabError):
    """The compiled core `schedlab._native` is not there or does not load."""


def shortened(text: str, characters_max: int = VALUE_CHARACTERS_MAX) -> str:
    """A text, without its middle if it is longer; what is left out is counted."""
    if len(text) <= characters_max:
        return text
    begin, end = characters_max * 2 // 3, characters_max // 3
    return f"{text[:begin]}[… {len(text) - begin - end:,} characters …]{text[-end:]}"
