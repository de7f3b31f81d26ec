"""Which run queue is fastest: the race of `schedlab race`, with frames, figures and its page."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab import user_file
from schedlab.errors import BadValue, UnknownName
from schedlab.notebook.frames import frame_of
from schedlab.notebook.keywords import Path_, chosen_figure, command_line, listed, ours, path_of
from schedlab.race import meeting
from schedlab.race.rows import heat_rows
from schedlab.store.runs import DEFAULT_PATH

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects as go

# Whole numbers that a race takes, and the least of each.
LEAST = {"rounds": 1, "loops": 1, "cpu": 0, "seed": 0}


@ours
def race_queues(
    n: int | Sequence[int] = (),
    *,
    workloads: str | Sequence[str] = (),
    structures: str | Sequence[str] = (),
    files: Path_ | Sequence[Path_] = (),
    again: bool = False,
    store: Path_ = DEFAULT_PATH,
    progress: bool = True,
    **options: Any,
) -> Race:
    """Races run queues on this machine: which one is fastest at your size?

    Parameters
    ----------
    n : int or sequence of int
        Items in a queue; by default the sizes published in 2007.
    workloads, structures : str or sequence of str
        What the queues are put through, by default the loop of 2007; and who takes part, by default
        all.
    files : path or sequence of paths
        Queues of your own, in C or C++ or compiled, which are native code with your rights.
    again : bool
        Race also what the store has.
    store : str or path
        Keeps every heat; what it has is not raced again.
    progress : bool
        Show on a terminal, or in a notebook, how far it is.
    **options
        See `schedlab.race.meeting.Options`: keys, peers, full, loops, rounds, order, cpu, seed,
        trace, queue.

    Raises
    ------
    SchedlabError
        If something that is named is not there, or no heat can be raced.
    KeyboardInterrupt
        As it comes, once standard error has what is kept; the same call goes on from there.
    """
    known = set(meeting.Options.__dataclass_fields__)
    for name, value in options.items():
        if name not in known:
            raise UnknownName("keyword", name, known)
        is_left_out = value is None and name in ("cpu", "loops")
        is_number = isinstance(value, Integral) and value >= LEAST.get(name, value)
        if name in LEAST and not is_left_out and not is_number:
            raise BadValue(name, value, f"is not a whole number from {LEAST[name]} on")
    trace = options.get("trace")
    asked = {
        "sizes": [int(size) if isinstance(size, Integral) else size for size in listed(n)],
        "workloads": listed(workloads),
        "structures": listed(structures),
        "files": [path_of(path) for path in listed(files)],
        **options,
        "keys": listed(options.get("keys", ())),
        "trace": None if trace is None else path_of(trace),
    }
    names = {"sizes": "-n", "workloads": "--workload", "structures": "--structure"}
    names["files"] = "--with"
    given = {names.get(name, f"--{name}"): value for name, value in asked.items()}
    command, path = command_line(["race"], given, store), path_of(store)
    raced = meeting.race(meeting.Options(**asked), path, command, again, quiet=not progress)
    return Race(raced, path, command)


class Race:
    """Heats of the run-queue race.

    Attributes
    ----------
    meeting : race.meeting.Meeting
        The heats, the machine, and what could not be raced.
    store : Path
        What keeps them.
    command : str
        What asks for the same on the command line.
    """

    def __init__(self, raced: meeting.Meeting, store: Path, command: str):
        self.meeting = raced
        self.store = store
        self.command = command

    def frame(self) -> pandas.DataFrame:
        """A row a round of each structure in each heat; see `OpenStore.heats`."""
        return frame_of(heat_rows(self.meeting.heats))

    def table(self) -> pandas.DataFrame:
        """A row a heat and structure that took part.

        Returns
        -------
        DataFrame
            Columns workload, keys, n, structure; fewest, and median with its 95 % interval (low,
            high), of the rounds, in unit; is_fastest of the exact structures; and to_fastest, how
            many times as long it takes.
        """
        from schedlab.race import answers, forms

        rows = []
        for standing in answers.standings(self.meeting.heats):
            spec, fastest = standing.heat.spec, standing.fastest
            for row in standing.rows.values():
                if row.ticks is None:
                    continue
                compared = answers.compare(row, fastest)
                rows.append(
                    {"workload": spec.workload, "keys": spec.keys, "n": spec.n}
                    | {"structure": row.structure, "fewest": row.fewest}
                    | {name: getattr(row.ticks, name) for name in ("median", "low", "high")}
                    | {"unit": forms.unit_of(standing.heat), "is_fastest": row is fastest}
                    | {"to_fastest": compared and compared.ratio}
                )
        return frame_of(rows)

    @ours
    def figure(self, heats: str | None = None) -> go.Figure:
        """Time over the number of items, both logarithmic; of the first sort of heats, or by name.

        `heats` is what heats of all sizes have in common, as in "hold, uniform keys".
        """
        from schedlab.race import answers, april_2007, forms, page

        machine, then = self.meeting.machine, april_2007.read()
        sorts = forms.by_title(answers.standings(self.meeting.heats))
        drawn = {title: page.figure_of(found, machine, then) for title, found in sorts.items()}
        return chosen_figure(
            "heats", heats, {title: figure for title, figure in drawn.items() if figure}
        )

    @ours
    def report(self, path: Path_) -> Path:
        """Writes the page that `schedlab race --report` writes, and gives its path."""
        from schedlab.race import page

        path = path_of(path)
        user_file.refuse_unwritable(path, self.store)
        page.write(path, self.meeting.heats, self.meeting.machine, self.command)
        return path

    def __repr__(self) -> str:
        failed = len(self.meeting.failed)
        told = f", {failed} failed" if failed else ""
        return f"<schedlab race: {len(self.meeting.heats)} heats{told}>"

    def _repr_html_(self) -> str:
        return self.table().to_html(index=False, float_format="{:.4g}".format)
