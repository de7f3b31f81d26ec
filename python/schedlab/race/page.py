"""The page of a race: one HTML file with its figures, all its rows, and 2007 beside it.

It carries its own copy of plotly.js and forbids every request over a network.
"""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup
from plotly.graph_objects import Figure

from schedlab.race import answers, april_2007, forms
from schedlab.race.answers import GAVL, OURS, RED_BLACK, TIME_RING, HeatRow, Standing
from schedlab.race.april_2007 import NAMES_2007, Race2007
from schedlab.race.figure import Curves, levels_of, race_figure
from schedlab.race.plan import TIMED_ALONE, Heat, Machine
from schedlab.race.plugins import SOURCE_PREFIX
from schedlab.report import pages
from schedlab.report.figures import Point

SHOWN_ALWAYS = (OURS, RED_BLACK, GAVL, TIME_RING)


def write(path: Path, heats: Sequence[Heat], machine: Machine, command: str) -> None:
    """Writes the page whole; raises SchedlabError if it cannot be written."""
    hint = "every heat is kept: the same command makes the page again without racing"
    pages.write(path, render(heats, machine, command), hint)


def render(heats: Sequence[Heat], machine: Machine, command: str) -> str:
    """The page as one HTML text."""
    standings, then = answers.standings(heats), april_2007.read()
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
        published=april_2007.beside(then, standings),
        remarks=april_2007.REMARKS,
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
            if (point := _point(standing, row)) is not None:
                today.setdefault(name, []).append(point)
    if not today:
        return None
    winners = {one.best_peer.structure for one in standings if one.best_peer}
    rows = [(name, row) for one in standings for name, row in one.rows.items()]
    guests = {name for name, row in rows if row.source.startswith(SOURCE_PREFIX)}
    shown = frozenset(({*SHOWN_ALWAYS} | winners | guests) & set(today)) or frozenset(today)
    spec = standings[0].heat.spec
    largest = [row for name, row in standings[-1].rows.items() if name in shown]
    sizes = [row.bytes_per_item for row in largest if not row.left_out and row.bytes_per_item]
    levels = levels_of(machine.caches if spec.queues == 1 else (), sizes)
    return Curves(today, shown, OURS, _then(then) if spec.is_loop_of_2007 else {}, levels)


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
    curves = {}
    for machine, structures in race.items():
        for name, sizes in structures.items():
            points = [Point(n, cycles) for n, cycles in sorted(sizes.items())]
            curves[f"2007, {machine}: {NAMES_2007[name]}"] = points
    return curves
