"""The page of a race: one HTML file with its figures, all its rows, and 2007 beside it.

It carries its own copy of plotly.js and forbids every request over a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from schedlab import whole_file
from schedlab.errors import SchedlabError
from schedlab.race.answers import (
    GAVL,
    OURS,
    RED_BLACK,
    TIME_RING,
    Row,
    Standing,
    Verdict,
    standings,
)
from schedlab.race.april_2007 import NAMES_2007, Published, beside, read_published, remarks
from schedlab.race.figure import Curves, levels_of, race_figure
from schedlab.race.forms import (
    DASH,
    MARKS,
    TAIL,
    aim_text,
    apart_text,
    by_speed,
    by_title,
    left_out,
    marked,
    notes,
    published_texts,
    ratio_text,
    ticks_text,
    time_text,
    together_text,
    unit_of,
)
from schedlab.race.plan import PLUGIN_PREFIX, TIMED_ALONE, Heat, Machine
from schedlab.report import pages
from schedlab.report.figures import Point

SHOWN_ALWAYS = (OURS, RED_BLACK, GAVL, TIME_RING)


@dataclass(frozen=True, slots=True)
class Section:
    """The heats that differ only in size: heading, unit, figure as JSON, rows of the tables."""

    title: str
    unit: str
    figure: Markup
    found: Sequence[Standing]
    names: Sequence[str]
    left_out: Sequence[str]

    @property
    def is_single(self) -> bool:
        """Whether its times are percentiles of single operations."""
        return _is_single(self.found)

    @property
    def together(self) -> str:
        """Of which two operations they are."""
        return together_text(self.found[0].heat)

    @property
    def apart(self) -> Sequence[str]:
        """All operations that are timed."""
        return TIMED_ALONE[self.found[0].heat.asked.workload]

    def marked(self, name: str) -> str:
        """A structure's name, and a sign if its order is not exact."""
        return marked(name, self.found)

    def apart_text(self, standing: Standing, name: str) -> str:
        """The tails of one structure's operations."""
        row = standing.rows.get(name)
        return DASH if row is None else apart_text(standing, row)


def write(path: Path, heats: Sequence[Heat], machine: Machine, command: str) -> None:
    """Writes the page; readers of `path` see the old file or the whole new one.

    Raises
    ------
    SchedlabError
        If it cannot be written.
    """
    html = render(heats, machine, command)
    try:
        whole_file.write(path, html)
    except OSError as error:
        raise SchedlabError(
            f"report {path} cannot be written: {error.strerror}",
            "every heat is kept: the same command makes the page again without racing",
        ) from error


def render(heats: Sequence[Heat], machine: Machine, command: str) -> str:
    """The page as one HTML text."""
    found, published = standings(heats), read_published()
    aims = [(one.heat, aim) for one in found for aim in one.aims]
    return pages.render(
        "race.html",
        (time_text, ticks_text, ratio_text, published_texts),
        machine=machine,
        command=command,
        first=found[0].heat,
        sections=[
            _section(title, together, machine, published)
            for title, together in by_title(found).items()
        ],
        counts={verdict.value: sum(a.verdict == verdict for _, a in aims) for verdict in Verdict},
        unmet=[
            (MARKS[aim.verdict], aim_text(heat, aim))
            for heat, aim in aims
            if aim.verdict is not Verdict.MET
        ],
        marks=MARKS,
        ours=OURS,
        published=beside(published, found),
        remarks=remarks(published, found),
        notes=notes(found),
        raced_at=sorted(heat.raced_at for heat in heats),
    )


def _section(
    title: str, found: Sequence[Standing], machine: Machine, published: Published
) -> Section:
    unit = unit_of(found[0].heat)
    curves = curves_of(found, machine, published)
    if curves is None:
        figure = Markup()
    else:
        what = f"99.9 % of {together_text(found[0].heat)}" if _is_single(found) else "median"
        is_cold = found[0].heat.asked.workload == "cold"
        x_title = f"items in {'a' if is_cold else 'the'} queue"
        figure = pages.script(race_figure(curves, x_title, f"{unit}, {what}"))
    return Section(title, unit, figure, found, by_speed(found), left_out(found))


def _is_single(found: Sequence[Standing]) -> bool:
    return found[0].heat.asked.is_timed_alone


def curves_of(found: Sequence[Standing], machine: Machine, published: Published) -> Curves | None:
    """What the figure of these heats shows; None if nobody has a time."""
    today: dict[str, list[Point]] = {}
    for standing in sorted(found, key=lambda one: one.heat.asked.n or 0):
        for name, row in standing.rows.items():
            point = _point(standing, row)
            if point is not None:
                today.setdefault(name, []).append(point)
    if not today:
        return None
    winners = {one.best_peer.structure for one in found if one.best_peer}
    guests = {
        name for one in found for name, row in one.rows.items()
        if row.source.startswith(PLUGIN_PREFIX)
    }  # fmt: skip
    shown = frozenset(({*SHOWN_ALWAYS} | winners | guests) & set(today)) or frozenset(today)
    asked = found[0].heat.asked
    is_loop_of_2007 = (asked.workload, asked.keys) == ("hold", "uniform")
    largest = found[-1].rows
    sizes = [largest[name].bytes_per_item for name in shown if name in largest]
    return Curves(
        today=today,
        shown=shown,
        emphasized=OURS,
        then=_then(published) if is_loop_of_2007 else {},
        levels=levels_of(
            machine.caches if asked.queues == 1 else (), [size for size in sizes if size]
        ),
    )


def _point(standing: Standing, row: Row) -> Point | None:
    n = standing.heat.asked.n
    if n is None:
        return None
    if standing.heat.asked.is_timed_alone:
        return Point(n, row.single[TAIL]) if row.single and row.single[TAIL] > 0 else None
    # Both axes are logarithms: what took no time has no place.
    if row.ticks is None or not row.ticks.median > 0:
        return None
    if not row.ticks.low:
        return Point(n, row.ticks.median)
    return Point(n, row.ticks.median, row.ticks.low, row.ticks.high)


def _then(published: Published) -> dict[str, list[Point]]:
    return {
        f"2007, {machine}: {NAMES_2007[name]}": [
            Point(n, cycles) for n, cycles in sorted(sizes.items())
        ]
        for machine, structures in published.cycles.items()
        for name, sizes in structures.items()
    }
