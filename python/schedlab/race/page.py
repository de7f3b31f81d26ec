"""The page of a race: one HTML file with its figures, all its rows, and 2007 beside it.

Who may win is drawn at once and named at the end of its curve; the others, and the machines of
2007, are in the legend and appear when they are clicked.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from schedlab.race import answers, april_2007, forms
from schedlab.race.answers import GAVL, OURS, RED_BLACK, TIME_RING, Standing
from schedlab.race.april_2007 import NAMES_2007, Race2007
from schedlab.race.plan import TIMED_ALONE, Heat, Machine
from schedlab.race.plugins import SOURCE_PREFIX
from schedlab.report import figures, pages
from schedlab.report.drawing import Drawing
from schedlab.report.figures import Looks, Point, Series
from schedlab.report.forms import size_text

SHOWN_ALWAYS = (OURS, RED_BLACK, GAVL, TIME_RING)

PLOT_PX = 440
TOP_PX, X_AXIS_PX = 34, 64
# As wide as a page is, three names stand beside each other in the legend.
LEGEND_COLUMNS, LEGEND_ROW_PX = 3, 20
LABEL_GAP_PX = 17
OURS_WIDTH_PX, WIDTH_PX = 3.4, 1.6
THEN_INK = ("#3b3f46", "#70757d", "#9aa0a8", "#565b63", "#868c94")
THEN_DASHES = ("solid", "6px,3px", "2px,3px", "9px,3px,2px,3px", "4px,6px")


def write(path: Path, heats: Sequence[Heat], machine: Machine, command: str) -> None:
    """Writes the page whole; raises SchedlabError if it cannot be written."""
    hint = "every heat is kept: the same command makes the page again without racing"
    pages.write(path, render(heats, machine, command), hint)


def render(heats: Sequence[Heat], machine: Machine, command: str) -> str:
    """The page as one HTML text."""
    standings, then = answers.standings(heats), april_2007.read()
    sections = []
    for title, of_title in forms.by_title(standings).items():
        figure = figure_of(of_title, machine, then)
        sections.append((title, of_title, figure and pages.script(figure)))
    return pages.render(
        "race.html",
        (
            forms.apart_text, forms.by_speed, forms.bytes_text, forms.compared_text,
            forms.fewest_text, forms.left_out, forms.marked, forms.published_texts,
            forms.times_text, forms.together_text, forms.unit_of,
        ),
        machine=machine,
        command=command,
        first=standings[0].heat,
        sections=sections,
        timed_alone=TIMED_ALONE,
        published=april_2007.beside(then, standings),
        remarks=april_2007.REMARKS,
        notes=forms.notes(standings),
        raced_at=sorted(heat.raced_at for heat in heats),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Level:
    """A cache, and with how many items of the largest and of the smallest structure it is full."""

    name: str
    size_bytes: int
    n_low: float
    n_high: float


@dataclass(frozen=True, slots=True)
class Curves:
    """What is drawn: structure -> points, who of them at once, who of them thicker, 2007, caches.
    x of a point is a number of items, the others are in the unit of the y title."""

    today: Series
    shown: frozenset[str]
    emphasized: str
    then: Series
    levels: Sequence[Level]


def figure_of(standings: Sequence[Standing], machine: Machine, then: Race2007) -> Drawing | None:
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
    spec = standings[0].heat.spec
    if spec.n is None:
        return None
    today: dict[str, list[Point]] = {}
    for standing in sorted(standings, key=lambda one: one.heat.spec.n):
        for name, row in standing.rows.items():
            centre, bounds = row.single[forms.TAIL] if row.single else 0, ()
            if row.ticks and not row.single:
                centre, bounds = row.ticks.median, (row.ticks.low, row.ticks.high)
            # Both axes are logarithms, on which 0 has no place.
            if centre > 0:
                point = Point(standing.heat.spec.n, centre, *(bounds if all(bounds) else ()))
                today.setdefault(name, []).append(point)
    if not today:
        return None
    winners = {one.best_peer.structure for one in standings if one.best_peer}
    rows = [(name, row) for one in standings for name, row in one.rows.items()]
    guests = {name for name, row in rows if row.source.startswith(SOURCE_PREFIX)}
    shown = frozenset(({*SHOWN_ALWAYS} | winners | guests) & set(today)) or frozenset(today)
    of_2007 = {
        f"2007, {of}: {NAMES_2007[name]}": [Point(n, cycles) for n, cycles in sorted(times.items())]
        for of, structures in (then if spec.is_loop_of_2007 else {}).items()
        for name, times in structures.items()
    }
    largest = [row for name, row in standings[-1].rows.items() if name in shown]
    sizes = [row.bytes_per_item for row in largest if not row.left_out and row.bytes_per_item]
    levels = levels_of(machine.caches if spec.queues == 1 else (), sizes)
    return Curves(today, shown, OURS, of_2007, levels)


def levels_of(caches: Sequence[tuple[str, int]], bytes_per_item: Sequence[float]) -> list[Level]:
    """Where each cache is full, for structures that need so many bytes an item; none for none."""
    if not bytes_per_item or min(bytes_per_item) <= 0:
        return []
    largest, smallest = max(bytes_per_item), min(bytes_per_item)
    return [Level(name, size, size / largest, size / smallest) for name, size in caches]


def race_figure(curves: Curves, x_title: str, y_title: str) -> Drawing:
    """Time over size on log axes, of at least one point; titles have units."""
    figure = Drawing(figures.layout(x_title, y_title, figures.label_margin(curves.shown)))
    # All points fit, also those that are drawn later.
    series = {**curves.today, **curves.then}
    xs = [point.x for points in series.values() for point in points]
    ys = figures.bounds_of(series)
    figure.update_xaxes(showgrid=False, **_log_axis(xs, 0.03))
    figure.update_yaxes(**_log_axis(ys, 0.05))
    # Who is drawn at once chooses a colour before the others.
    rank = {curves.emphasized: 0, **dict.fromkeys(curves.shown - {curves.emphasized}, 1)}
    looks = figures.looks_of(sorted(curves.today, key=lambda name: rank.get(name, 2)))
    _draw_curves(figure, curves, looks)
    _draw_names(figure, curves, looks)
    for level in curves.levels:
        _draw_level(figure, level)
    below_px = X_AXIS_PX + math.ceil(len(series) / LEGEND_COLUMNS) * LEGEND_ROW_PX
    legend = figures.legend_above() | {"y": -X_AXIS_PX / PLOT_PX, "yanchor": "top"}
    figure.update_layout(
        height=TOP_PX + PLOT_PX + below_px, margin={"t": TOP_PX, "b": below_px},
        hovermode="closest", showlegend=True, legend=legend,
    )  # fmt: skip
    return figure


def _log_axis(values: Sequence[float], pad: float) -> dict:
    """An axis that encloses all values, `pad` of it away from its ends."""
    low, high = math.log10(min(values)), math.log10(max(values))
    room = pad * max(high - low, 0.5)
    low, high = low - room, high + room
    ticks = figures.decade_ticks(10**low, 10**high, 2_000)
    texts = [f"{tick:,.0f}" if tick >= 1 else f"{tick:g}" for tick in ticks]
    return {"type": "log", "range": [low, high], "tickvals": ticks, "ticktext": texts}


def _draw_curves(figure: Drawing, curves: Curves, looks: Looks) -> None:
    """Today's with the intervals of their points; those of 2007 in grey, for who asks for them."""
    for name, points in curves.today.items():
        look, width = looks[name], OURS_WIDTH_PX if name == curves.emphasized else WIDTH_PX
        figure.add_scatter(
            **_curve(name, points, "%{customdata}"),
            visible=True if name in curves.shown else "legendonly",
            line={"color": look.colour, "width": width, "dash": look.dash},
            marker=figures.marker(look, 5 + width),
            error_y=figures.whiskers(points, look),
            customdata=["" if p.low is None else f" [{p.low:.4g}, {p.high:.4g}]" for p in points],
        )  # fmt: skip
    for index, (name, points) in enumerate(curves.then.items()):
        ink, dash = THEN_INK[index % len(THEN_INK)], THEN_DASHES[index % len(THEN_DASHES)]
        figure.add_scatter(
            **_curve(name, points, " cycles"),
            visible="legendonly",
            line={"color": ink, "width": WIDTH_PX, "dash": dash},
            marker={"symbol": "x", "size": 6},
        )


def _curve(name: str, points: Sequence[Point], after: str) -> dict:
    """What every curve has; `after` stands behind a time where the pointer is."""
    return {
        "name": escape(name), "legendgroup": name, "mode": "lines+markers",
        "x": [point.x for point in points], "y": [point.centre for point in points],
        "hovertemplate": f"n = %{{x:,}}: %{{y:.4g}}{after}<extra>{escape(name)}</extra>",
    }  # fmt: skip


def _draw_names(figure: Drawing, curves: Curves, looks: Looks) -> None:
    """Each name at the end of its curve, in a trace of its own that comes and goes with it."""
    (_, right), (low, high) = (figure.layout[axis]["range"] for axis in ("xaxis", "yaxis"))
    ends = {
        name: (math.log10(points[-1].centre) - low) / (high - low)
        for name, points in curves.today.items()
    }
    shown = sorted((name for name in ends if name in curves.shown), key=ends.get)
    places = figures.spread([ends[name] for name in shown], LABEL_GAP_PX / PLOT_PX)
    for name, place in (ends | dict(zip(shown, places, strict=True))).items():
        figure.add_scatter(
            legendgroup=name, showlegend=False, cliponaxis=False, hoverinfo="skip",
            # Beyond the axis it would not be drawn at all.
            x=[10 ** (right - 1e-9)], y=[10 ** (low + place * (high - low))],
            visible=True if name in curves.shown else "legendonly",
            mode="text", text=[f"{looks[name].glyph} {figures.label(name)}"],
            textposition="middle right", textfont={"size": 13, "color": looks[name].ink},
        )  # fmt: skip


def _draw_level(figure: Drawing, level: Level) -> None:
    """Where a cache is full: a line for the leanest structure, a band up to it from the largest."""
    x_range = figure.layout["xaxis"]["range"]
    low, high = (float(np.clip(math.log10(n), *x_range)) for n in (level.n_low, level.n_high))
    if low >= x_range[1]:
        return
    where = {"y0": 0, "y1": 1, "xref": "x", "yref": "paper", "layer": "below"}
    band = {"fillcolor": "rgba(102,112,128,0.10)", "line": {"width": 0}}
    figure.add_shape(type="rect", x0=10**low, x1=10**high, **band, **where)
    line = {"color": "#aab2bd", "width": 1, "dash": "2px,2px"}
    for place in {low, high} - set(x_range):
        figure.add_shape(type="line", x0=10**place, x1=10**place, line=line, **where)
    figure.add_annotation(
        text=f"{level.name} full<br>{size_text(level.size_bytes)}",
        x=(low + high) / 2, xref="x", y=1, yref="paper", yanchor="bottom",
        showarrow=False, font={"size": 11, "color": figures.FAINT_INK},
    )  # fmt: skip
