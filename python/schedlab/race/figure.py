"""The figure of a race: time over size, both logarithmic, a curve a structure.

Who may win is drawn at once and named at the end of its curve; the others, and the machines of
2007, are in the legend and appear when they are clicked. Bands show where the items of a queue stop
fitting into each cache.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import plotly.graph_objects as go

from schedlab.report import figures
from schedlab.report.figures import Look, Looks, Point, Series
from schedlab.report.forms import size_text

PLOT_PX = 440
TOP_PX, X_AXIS_PX = 34, 64
# As wide as a page is, three names stand beside each other in the legend.
LEGEND_COLUMNS, LEGEND_ROW_PX = 3, 20
LABEL_GAP_PX = 17
BAND_FILL = "rgba(102,112,128,0.10)"
OURS_WIDTH_PX, WIDTH_PX = 3.4, 1.6
THEN_INK = ("#3b3f46", "#70757d", "#9aa0a8", "#565b63", "#868c94")
THEN_DASHES = ("solid", "6px,3px", "2px,3px", "9px,3px,2px,3px", "4px,6px")


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

    x of a point is a number of items; centre, low and high are in the unit of the y title.
    """

    today: Series
    shown: frozenset[str]
    emphasized: str
    then: Series
    levels: Sequence[Level]


def levels_of(caches: Sequence[tuple[str, int]], bytes_per_item: Sequence[float]) -> list[Level]:
    """Where each cache is full, for structures that need so many bytes an item; none for none."""
    if not bytes_per_item or min(bytes_per_item) <= 0:
        return []
    largest, smallest = max(bytes_per_item), min(bytes_per_item)
    return [Level(name, size, size / largest, size / smallest) for name, size in caches]


def race_figure(curves: Curves, x_title: str, y_title: str) -> go.Figure:
    """Time over size on log axes, of at least one point; titles have units."""
    figure = go.Figure()
    # Who is drawn at once chooses a colour before the others.
    rank = {curves.emphasized: 0, **dict.fromkeys(curves.shown - {curves.emphasized}, 1)}
    looks = figures.looks_of(sorted(curves.today, key=lambda name: rank.get(name, 2)))
    x_range, y_range = _ranges(curves)
    for name, points in curves.today.items():
        _draw_today(figure, curves, name, points, looks[name])
    for index, (name, points) in enumerate(curves.then.items()):
        _draw_then(figure, name, points, index)
    _draw_names(figure, curves, looks, x_range, y_range)
    figure.update_layout(figures.layout(x_title, y_title, figures.label_margin(curves.shown)))
    legend_rows = math.ceil((len(curves.today) + len(curves.then)) / LEGEND_COLUMNS)
    below_px = X_AXIS_PX + legend_rows * LEGEND_ROW_PX
    figure.update_layout(
        height=TOP_PX + PLOT_PX + below_px, margin={"t": TOP_PX, "b": below_px},
        hovermode="closest", showlegend=True,
        legend={
            "orientation": "h", "x": 0, "xanchor": "left",
            "y": -X_AXIS_PX / PLOT_PX, "yanchor": "top",
            "font": {"size": 12}, "traceorder": "normal",
        },
    )  # fmt: skip
    figure.update_xaxes(
        type="log", range=x_range, showgrid=False, **_ticks(10 ** x_range[0], 10 ** x_range[1])
    )
    figure.update_yaxes(type="log", range=y_range, **_ticks(10 ** y_range[0], 10 ** y_range[1]))
    for level in curves.levels:
        _draw_level(figure, level, x_range)
    return figure


def _ranges(curves: Curves) -> tuple[list[float], list[float]]:
    """Both axes in powers of ten: all points fit, also those that are drawn later."""
    series = {**curves.today, **curves.then}
    xs = [point.x for points in series.values() for point in points]
    return _range(xs, 0.03), _range([figures.lowest_of(series), figures.highest_of(series)], 0.05)


def _range(values: Sequence[float], pad: float) -> list[float]:
    """The powers of ten that enclose all values, `pad` of the axis away from them."""
    low, high = math.log10(min(values)), math.log10(max(values))
    room = pad * max(high - low, 0.5)
    return [low - room, high + room]


def _ticks(low: float, high: float) -> dict:
    values = figures.decade_ticks(low, high, 2_000)
    return {"tickvals": values, "ticktext": [f"{v:,.0f}" if v >= 1 else f"{v:g}" for v in values]}


def _draw_today(
    figure: go.Figure, curves: Curves, name: str, points: Sequence[Point], look: Look
) -> None:
    """A structure's curve, with the intervals of its points."""
    width = OURS_WIDTH_PX if name == curves.emphasized else WIDTH_PX
    figure.add_scatter(
        **_curve(name, points, "%{customdata}"),
        visible=True if name in curves.shown else "legendonly",
        line={"color": look.colour, "width": width, "dash": look.dash},
        marker={
            "color": look.colour, "symbol": look.symbol, "size": 5 + width,
            "line": {"color": "#ffffff", "width": 1},
        },
        error_y=figures.whiskers(points, look),
        customdata=["" if p.low is None else f" [{p.low:.4g}, {p.high:.4g}]" for p in points],
    )  # fmt: skip


def _draw_then(figure: go.Figure, name: str, points: Sequence[Point], index: int) -> None:
    """A curve of 2007, in grey, for who asks for it."""
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


def _draw_names(
    figure: go.Figure,
    curves: Curves,
    looks: Looks,
    x_range: Sequence[float],
    y_range: Sequence[float],
) -> None:
    """Each name at the end of its curve, in a trace of its own that comes and goes with it."""
    height = y_range[1] - y_range[0]
    ends = {
        name: (math.log10(points[-1].centre) - y_range[0]) / height
        for name, points in curves.today.items()
    }
    shown = sorted((name for name in ends if name in curves.shown), key=ends.get)
    places = figures.spread([ends[name] for name in shown], LABEL_GAP_PX / PLOT_PX)
    places_of = ends | dict(zip(shown, places, strict=True))
    for name, place in places_of.items():
        figure.add_scatter(
            legendgroup=name, showlegend=False, cliponaxis=False, hoverinfo="skip",
            # Beyond the axis it would not be drawn at all.
            x=[10 ** (x_range[1] - 1e-9)], y=[10 ** (y_range[0] + place * height)],
            visible=True if name in curves.shown else "legendonly",
            mode="text", text=[f"{looks[name].glyph} {figures.label(name)}"],
            textposition="middle right", textfont={"size": 13, "color": looks[name].ink},
        )  # fmt: skip


def _draw_level(figure: go.Figure, level: Level, x_range: Sequence[float]) -> None:
    """Where a cache is full: a line for the leanest structure, a band up to it from the largest."""
    low, high = (float(np.clip(math.log10(n), *x_range)) for n in (level.n_low, level.n_high))
    if low >= x_range[1]:
        return
    figure.add_shape(
        type="rect", x0=10**low, x1=10**high, y0=0, y1=1, xref="x", yref="paper",
        fillcolor=BAND_FILL, line={"width": 0}, layer="below",
    )  # fmt: skip
    for place in {low, high} - set(x_range):
        figure.add_shape(
            type="line", x0=10**place, x1=10**place, y0=0, y1=1, xref="x", yref="paper",
            line={"color": "#aab2bd", "width": 1, "dash": "2px,2px"}, layer="below",
        )  # fmt: skip
    figure.add_annotation(
        text=f"{level.name} full<br>{size_text(level.size_bytes)}",
        x=(low + high) / 2, xref="x", y=1, yref="paper", yanchor="bottom",
        showarrow=False, font={"size": 11, "color": figures.FAINT_INK},
    )  # fmt: skip
