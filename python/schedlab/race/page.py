"""The page of a race: one HTML file with its figures, all its rows, and 2007 beside it.

It carries its own copy of plotly.js and forbids every request over a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup
from plotly.graph_objects import Figure

from schedlab.race import answers, april_2007, forms
from schedlab.race.answers import (
    GAVL,
    OURS,
    RED_BLACK,
    TIME_RING,
    HeatRow,
    Standing,
)
from schedlab.race.april_2007 import NAMES_2007, Race2007
from schedlab.race.figure import Curves, levels_of, race_figure
from schedlab.race.plan import TIMED_ALONE, Heat, Machine
from schedlab.race.plugins import SOURCE_PREFIX
from schedlab.report import pages
from schedlab.report.figures import Point

SHOWN_ALWAYS = (OURS, RED_BLACK, GAVL, TIME_RING)


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
    standings, then = answers.standings(heats), april_2007.read()
    rows = april_2007.beside(then, standings)
    return pages.render(
        "race.html",
        (
            forms.apart_text, forms.bytes_text, forms.compared_text, forms.fewest_text,
            forms.marked, forms.published_texts, forms.single_text, forms.ticks_text,
        ),
        machine=machine,
        command=command,
        first=standings[0].heat,
        sections=[
            _section(title, together, machine, then)
            for title, together in forms.by_title(standings).items()
        ],
        published=rows,
        remarks=april_2007.remarks(rows),
        notes=forms.notes(standings),
        raced_at=sorted(heat.raced_at for heat in heats),
    )  # fmt: skip


def _section(
    title: str, standings: Sequence[Standing], machine: Machine, then: Race2007
) -> dict[str, object]:
    """What the template tells of the heats that differ only in size."""
    first = standings[0].heat
    figure = figure_of(standings, machine, then)
    return {
        "title": title,
        "unit": forms.unit_of(first),
        "figure": Markup() if figure is None else pages.script(figure),
        "standings": standings,
        "names": forms.by_speed(standings),
        "left_out": forms.left_out(standings),
        "together": forms.together_text(first) if first.spec.is_timed_alone else "",
        "apart": TIMED_ALONE.get(first.spec.workload),
    }


def figure_of(standings: Sequence[Standing], machine: Machine, then: Race2007) -> Figure | None:
    """Time over size, of heats that differ only in size; None if nobody has a time."""
    curves, first = curves_of(standings, machine, then), standings[0].heat
    if curves is None:
        return None
    is_single, is_cold = first.spec.is_timed_alone, first.spec.workload == "cold"
    what = f"99.9 % of {forms.together_text(first)}" if is_single else "median"
    x_title = f"items in {'a' if is_cold else 'the'} queue"
    return race_figure(curves, x_title, f"{forms.unit_of(first)}, {what}")


def curves_of(standings: Sequence[Standing], machine: Machine, then: Race2007) -> Curves | None:
    """What the figure of these heats shows; None if nobody has a time."""
    today: dict[str, list[Point]] = {}
    for standing in sorted(standings, key=lambda one: one.heat.spec.n or 0):
        for name, row in standing.rows.items():
            point = _point(standing, row)
            if point is not None:
                today.setdefault(name, []).append(point)
    if not today:
        return None
    winners = {one.best_peer.structure for one in standings if one.best_peer}
    guests = {
        name for one in standings for name, row in one.rows.items()
        if row.source.startswith(SOURCE_PREFIX)
    }  # fmt: skip
    shown = frozenset(({*SHOWN_ALWAYS} | winners | guests) & set(today)) or frozenset(today)
    spec = standings[0].heat.spec
    is_loop_of_2007 = (spec.workload, spec.keys) == ("hold", "uniform")
    largest = standings[-1].rows
    sizes = [
        largest[name].bytes_per_item
        for name in shown
        if name in largest and not largest[name].left_out
    ]
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
    """Where a structure is drawn. Both axes are logarithms: what took no time has no place."""
    spec, ticks = standing.heat.spec, row.ticks
    if spec.n is None:
        return None
    if spec.is_timed_alone:
        tail = row.single[forms.TAIL] if row.single else 0
        return Point(spec.n, tail) if tail > 0 else None
    if ticks is None or not ticks.median > 0:
        return None
    return Point(spec.n, ticks.median, *((ticks.low, ticks.high) if ticks.low else ()))


def _then(race: Race2007) -> dict[str, list[Point]]:
    return {
        f"2007, {machine}: {NAMES_2007[name]}": [
            Point(n, cycles) for n, cycles in sorted(sizes.items())
        ]
        for machine, structures in race.items()
        for name, sizes in structures.items()
    }
