"""The page of a race: one HTML file with its figures, all its rows, and 2007 beside it.

It carries its own copy of plotly.js and forbids every request over a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from schedlab.race import april_2007, forms
from schedlab.race.answers import (
    GAVL,
    OURS,
    RED_BLACK,
    TIME_RING,
    HeatRow,
    Standing,
    standings,
)
from schedlab.race.april_2007 import NAMES_2007, Race2007
from schedlab.race.figure import Curves, levels_of, race_figure
from schedlab.race.plan import TIMED_ALONE, Heat, Machine
from schedlab.race.plugins import SOURCE_PREFIX
from schedlab.report import pages
from schedlab.report.figures import Point
from schedlab.report.forms import DASH

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
        return forms.together_text(self.found[0].heat)

    @property
    def apart(self) -> Sequence[str]:
        """All operations that are timed."""
        return TIMED_ALONE[self.found[0].heat.spec.workload]

    def marked(self, name: str) -> str:
        """A structure's name, and a sign if its order is not exact."""
        return forms.marked(name, self.found)

    def apart_text(self, standing: Standing, name: str) -> str:
        """The tails of one structure's operations."""
        row = standing.rows.get(name)
        return DASH if row is None else forms.apart_text(standing, row)


def write(path: Path, heats: Sequence[Heat], machine: Machine, command: str) -> None:
    """Writes the page; readers of `path` see the old file or the whole new one.

    Raises
    ------
    SchedlabError
        If it cannot be written.
    """
    hint = "every heat is kept: the same command makes the page again without racing"
    pages.write(path, render(heats, machine, command), hint)


def render(heats: Sequence[Heat], machine: Machine, command: str) -> str:
    """The page as one HTML text."""
    found, then = standings(heats), april_2007.read()
    rows = april_2007.beside(then, found)
    return pages.render(
        "race.html",
        (
            forms.ticks_text, forms.single_text, forms.fewest_text, forms.compared_text,
            forms.published_texts,
        ),
        machine=machine,
        command=command,
        first=found[0].heat,
        sections=[
            _section(title, together, machine, then)
            for title, together in forms.by_title(found).items()
        ],
        published=rows,
        remarks=april_2007.remarks(rows),
        notes=forms.notes(found),
        raced_at=sorted(heat.raced_at for heat in heats),
    )  # fmt: skip


def _section(title: str, found: Sequence[Standing], machine: Machine, then: Race2007) -> Section:
    unit = forms.unit_of(found[0].heat)
    curves = curves_of(found, machine, then)
    if curves is None:
        figure = Markup()
    else:
        what = f"99.9 % of {forms.together_text(found[0].heat)}" if _is_single(found) else "median"
        is_cold = found[0].heat.spec.workload == "cold"
        x_title = f"items in {'a' if is_cold else 'the'} queue"
        figure = pages.script(race_figure(curves, x_title, f"{unit}, {what}"))
    return Section(title, unit, figure, found, forms.by_speed(found), forms.left_out(found))


def _is_single(found: Sequence[Standing]) -> bool:
    return found[0].heat.spec.is_timed_alone


def curves_of(found: Sequence[Standing], machine: Machine, then: Race2007) -> Curves | None:
    """What the figure of these heats shows; None if nobody has a time."""
    today: dict[str, list[Point]] = {}
    for standing in sorted(found, key=lambda one: one.heat.spec.n or 0):
        for name, row in standing.rows.items():
            point = _point(standing, row)
            if point is not None:
                today.setdefault(name, []).append(point)
    if not today:
        return None
    winners = {one.best_peer.structure for one in found if one.best_peer}
    guests = {
        name for one in found for name, row in one.rows.items()
        if row.source.startswith(SOURCE_PREFIX)
    }  # fmt: skip
    shown = frozenset(({*SHOWN_ALWAYS} | winners | guests) & set(today)) or frozenset(today)
    spec = found[0].heat.spec
    is_loop_of_2007 = (spec.workload, spec.keys) == ("hold", "uniform")
    largest = found[-1].rows
    sizes = [largest[name].bytes_per_item for name in shown if name in largest]
    return Curves(
        today=today,
        shown=shown,
        emphasized=OURS,
        then=_then(then) if is_loop_of_2007 else {},
        levels=levels_of(
            machine.caches if spec.queues == 1 else (), [size for size in sizes if size]
        ),
    )


def _point(standing: Standing, row: HeatRow) -> Point | None:
    n = standing.heat.spec.n
    if n is None:
        return None
    if standing.heat.spec.is_timed_alone:
        return (
            Point(n, row.single[forms.TAIL]) if row.single and row.single[forms.TAIL] > 0 else None
        )
    # Both axes are logarithms: what took no time has no place.
    if row.ticks is None or not row.ticks.median > 0:
        return None
    if not row.ticks.low:
        return Point(n, row.ticks.median)
    return Point(n, row.ticks.median, row.ticks.low, row.ticks.high)


def _then(race: Race2007) -> dict[str, list[Point]]:
    return {
        f"2007, {machine}: {NAMES_2007[name]}": [
            Point(n, cycles) for n, cycles in sorted(sizes.items())
        ]
        for machine, structures in race.items()
        for name, sizes in structures.items()
    }
