"""One line on stderr that says where a long measurement is.

Apart from the tables, because these need statistics, which take longer to load than many a
measurement takes.
"""

from __future__ import annotations

import math
import sys
import time

from schedlab.shown import print_note, shown, write_own

# Piped, progress is told this often at most.
TELL_EVERY_S = 30.0


class Progress:
    """One line on stderr: what runs, how much is done, how long it still takes."""

    def __init__(self, nr_planned: int, quiet: bool):
        self.nr_planned = nr_planned
        self.quiet = quiet
        self.is_terminal = sys.stderr.isatty()
        self._told_s = -math.inf

    def tell(self, doing: str, nr_done: int, left_s: float | None, is_whole: bool = True) -> None:
        """Says where we are: at once on a terminal, else now and then.

        `left_s` is of all that is still to be done, or only of a part where not `is_whole`.
        """
        if self.quiet:
            return
        bound = "at most" if is_whole else "at least"
        left = f", {_duration(left_s)} left {bound}" if left_s else ""
        line = f"{nr_done}/{self.nr_planned} repetitions{left}: {doing}"
        if self.is_terminal:
            self._draw(shown(line))
        elif time.monotonic() - self._told_s >= TELL_EVERY_S:
            self._told_s = time.monotonic()
            print_note(line)

    def clear(self) -> None:
        """Leaves an empty line for what comes next."""
        if self.is_terminal and not self.quiet:
            self._draw("")

    @staticmethod
    def _draw(line: str) -> None:
        """In the place of the line that stands there."""
        write_own(sys.stderr, f"\r\033[K{line}")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
