"""Where long work is, on standard error: a line that is drawn anew, with a bar and the time left.

A notebook has the line in the cell that runs. Piped, there is nothing, or a note now and then for
work of hours.
"""

import math
import sys
import time
from typing import Any, Self

from schedlab import shown
from schedlab.report.forms import duration_text

# Piped, measurements say this often where they are.
TELL_EVERY_S = 30.0
# A notebook is sent a line this often at most.
DRAW_EVERY_S = 0.2


class Progress:
    """A context that draws, for as long as it is open, how much of the work is done.

    `total` things are to be done, 0 if that is unknown, and `unit` is what they are, such as
    "runs"; `nr_done` are done by now. A bar of what `is_measured` is drawn at updates only: a
    thread that draws would disturb it. Of what `is_long` a pipe hears now and then, first after
    `quiet_s`.
    """

    def __init__(
        self,
        total: int,
        unit: str,
        quiet: bool = False,
        is_measured: bool = False,
        is_long: bool = False,
        quiet_s: float = 0.0,
    ):
        self.nr_done = 0
        self._total, self._unit, self._quiet = total, unit, quiet
        self._is_measured = is_measured
        self._told: set[str] = set()
        self._bar: Any = None
        self._began_s = time.monotonic()
        self._next_note_s = self._began_s + quiet_s if is_long else math.inf

    def __enter__(self) -> Self:
        if not self._quiet:
            self._bar = self._opened() if sys.stderr.isatty() else _cell()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def done(self, doing: str = "", share: float | None = None) -> None:
        """One more thing is done; the rest is as in `update`."""
        self.update(self.nr_done + 1, doing, share)

    def update(
        self,
        nr_done: int,
        doing: str = "",
        share: float | None = None,
        left: str | None = None,
        total: int | None = None,
    ) -> None:
        """Says how many things are done, and what comes next: `doing`, in a few words.

        `share` is the part of all work that is done, in [0, 1], where things differ in size; `left`
        says how long it still takes, else that is reckoned from `share`; `total` is new.
        """
        self.nr_done, self._total = nr_done, self._total if total is None else total
        count = f"{nr_done}/{self._total} {self._unit}" if self._total else ""
        if self._bar is not None:
            share = nr_done / max(self._total, 1) if share is None else share
            elapsed_s = max(time.monotonic() - self._began_s, 1e-3)
            rate = f"{nr_done / elapsed_s:.2f} {self._unit}/s" if nr_done else ""
            doing = shown.shown(doing) or rate
            self._bar.update(0, completed=share, count=count, doing=doing, left=left or "")
            if self._is_measured:
                self._bar.refresh()
        elif not self._quiet and time.monotonic() >= self._next_note_s:
            self._next_note_s = time.monotonic() + TELL_EVERY_S
            left = f", {left}" if left else ""
            shown.print_note(f"{count}{left}: {doing}")

    def note(self, text: str, key: str | None = None) -> None:
        """Says something above the line unless quiet, once for each `key`, else for each text."""
        if not self._quiet and (key or text) not in self._told:
            self._told.add(key or text)
            self.tell(text)

    def tell(self, text: str) -> None:
        """Says above the line what must be known even where all else is quiet."""
        # While a bar is drawn, it has the place of the stream that shows what terminals obey.
        print(shown.shown(text), file=sys.stderr, flush=True)

    def _opened(self) -> Any:
        # Loaded where it is needed, because it takes longer than many a run.
        from rich import progress
        from rich.console import Console
        from rich.text import Text

        def text(field: str) -> progress.TextColumn:
            return progress.TextColumn(f"{{task.fields[{field}]}}", markup=False)

        class Left(progress.TimeRemainingColumn):
            def render(self, task: progress.Task) -> Any:
                """What was told, else what Rich reckons."""
                return Text(task.fields["left"] or f"{super().render(task)} left")

        columns: list[progress.ProgressColumn] = [text("doing"), progress.TimeElapsedColumn()]
        if self._total:
            columns = [text("count"), progress.BarColumn(), text("doing"), Left(compact=True)]
        console = Console(file=shown.own(sys.stderr))
        refreshes = not self._is_measured
        bar = progress.Progress(*columns, console=console, transient=True, auto_refresh=refreshes)
        bar.add_task("", total=1.0, count=f"0/{self._total} {self._unit}", doing="", left="")
        bar.start()
        return bar


class _Cell:
    """A line in a notebook's cell, with what `Progress` asks of a bar."""

    def __init__(self, display: Any):
        self._line = display({"text/plain": ""}, raw=True, display_id=True)
        self._drawn_s = -math.inf

    def update(self, _task: int, completed: float, **texts: str) -> None:
        """Draws how much is done, unless it has just been drawn."""
        if time.monotonic() - self._drawn_s >= DRAW_EVERY_S:
            self._drawn_s = time.monotonic()
            self._line.update({"text/plain": ", ".join(filter(None, texts.values()))}, raw=True)

    def refresh(self) -> None:
        """Nothing waits to be drawn."""

    def stop(self) -> None:
        """Leaves nothing behind."""
        self._line.update({"text/plain": ""}, raw=True)


def _cell() -> _Cell | None:
    """A line in the cell that runs; None outside of a notebook."""
    # Whoever runs in a notebook has loaded it. In a terminal its shell has no kernel.
    ipython = sys.modules.get("IPython")
    if ipython is None or getattr(ipython.get_ipython(), "kernel", None) is None:
        return None
    return _Cell(ipython.display.display)


def measuring(nr_planned: int, quiet: bool) -> Progress:
    """The progress of repetitions that take minutes to hours, and that nothing may disturb."""
    return Progress(nr_planned, "repetitions", quiet, is_measured=True, is_long=True)


def left_text(left_s: float | None, is_whole: bool = True) -> str | None:
    """How long it still takes, of all that is to be done or only of a part; None if unknown."""
    bound = "at most" if is_whole else "at least"
    return f"{duration_text(left_s)} left {bound}" if left_s else None
