"""Figures of delays, deadlines and shares: what a task gets rather than how long all take.

As in `report.figures`: numbers in, a Plotly figure out, one panel a machine. Curves here end at one
height, so policies are named in a legend above the plot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
import plotly.graph_objects as go

from schedlab.report import figures
from schedlab.report.forms import tick_text

# Where a curve bears its policy's mark, to be told apart without colour: p50, p90 and p99.
MARKED_SHARES = (0.5, 0.9, 0.99)
# Times that a narrow screen has room for below a curve; the grid shows those between.
TICK_LABELS_MAX = 5
_LEGEND_PX = 34
_RIGHT_PX = 24
_DOTS_SPREAD = 0.6
_ZERO_LINE = {"color": figures.FAINT_INK, "width": 1.4, "dash": "4px,3px"}

Curve = tuple[Sequence[float], Sequence[float]]
"""Values in ns, ascending, and the share of all that is at most as large, up to 1."""


def ecdf_figure(
    curves: Mapping[str, Curve], looks: Mapping[str, figures.Look], x_title: str, y_title: str
) -> go.Figure:
    """A distribution function a policy, on a log axis of time; a delay of 0 is drawn at 1 ns.

    `looks` is as `report.figures.looks_of` gives it for the whole report. `x_title` says what is
    delayed, without a unit, which stands at the ticks; `y_title` of what there is a share.
    """
    figure = go.Figure()
    drawn = {
        name: (np.maximum(np.asarray(values, dtype=np.float64), 1.0), 100 * np.asarray(shares))
        for name, (values, shares) in curves.items()
    }
    low = min(values[0] for values, _ in drawn.values()) / 1.2
    high = max(values[-1] for values, _ in drawn.values()) * 1.2
    for name, (values, percents) in drawn.items():
        # From the first value up, and on to the right end, where all of a policy's delays lie.
        xs = np.concatenate([values[:1], values, [high]])
        ys = np.concatenate([[0.0], percents, percents[-1:]])
        look = looks[name]
        figure.add_scatter(
            name=f"{look.glyph} {figures.label(name)}",
            legendgroup=name,
            x=xs,
            y=np.round(ys, 3),
            mode="lines",
            line={"color": look.colour, "width": 2.2, "dash": look.dash, "shape": "hv"},
            customdata=[tick_text(x) for x in xs],
            hovertemplate="%{y:.1f} % within %{customdata}<extra>" + escape(name) + "</extra>",
        )
    for name, (values, percents) in drawn.items():
        _draw_marks(figure, name, values, percents, looks[name])
    _lay_out(figure, x_title, f"{y_title} (%)")
    ticks = figures.latency_ticks(low, high)
    step = -(-len(ticks) // TICK_LABELS_MAX)
    figure.update_xaxes(
        type="log",
        range=[np.log10(low), np.log10(high)],
        tickvals=ticks,
        ticktext=["" if at % step else tick_text(tick) for at, tick in enumerate(ticks)],
        tickangle=0,
    )
    figure.update_yaxes(range=[0, 102], tickvals=[0, 25, 50, 75, 90, 100])
    return figure


def grouped_figure(
    series: Mapping[str, Sequence[figures.Point]],
    looks: Mapping[str, figures.Look],
    x_title: str,
    y_title: str,
    about_zero: bool = False,
) -> go.Figure:
    """A dot a policy side by side at every place of the x axis, intervals as whiskers.

    x of a point is the word that names the place; a policy may lack some, and no line joins them.
    `looks` is as in `ecdf_figure`. With `about_zero`, values are held against a dashed line at
    zero; else the y axis begins there.
    """
    places = list(dict.fromkeys(point.x for points in series.values() for point in points))
    figure = go.Figure()
    if about_zero:
        figure.add_hline(y=0, line=_ZERO_LINE, layer="below")
    step = _DOTS_SPREAD / max(len(series), 1)
    for index, (name, points) in enumerate(series.items()):
        look, offset = looks[name], (index - (len(series) - 1) / 2) * step
        figure.add_scatter(
            name=figures.label(name),
            x=[places.index(point.x) + offset for point in points],
            y=[point.centre for point in points],
            mode="markers",
            marker={"color": look.colour, "symbol": look.symbol, "size": 10},
            error_y=figures.whiskers(points, look),
            customdata=[escape(str(point.x)) for point in points],
            hovertemplate="%{customdata}: %{y:.3f}<extra>" + escape(name) + "</extra>",
        )
    _lay_out(figure, x_title, y_title)
    figure.update_xaxes(
        range=[-0.5, len(places) - 0.5],
        tickvals=list(range(len(places))),
        ticktext=[figures.label(str(place)) for place in places],
        showgrid=False,
    )
    if not about_zero:
        figure.update_yaxes(rangemode="tozero")
    return figure


def _lay_out(figure: go.Figure, x_title: str, y_title: str) -> None:
    figure.update_layout(figures.layout(x_title, y_title, _RIGHT_PX))
    figure.update_layout(
        showlegend=True, legend=figures.legend_above(), hovermode="closest", margin_t=_LEGEND_PX
    )


def _draw_marks(figure: go.Figure, name: str, values, percents, look: figures.Look) -> None:
    """The policy's symbol where its curve first reaches a marked share."""
    at = [int(np.searchsorted(percents, 100 * share - 1e-9)) for share in MARKED_SHARES]
    figure.add_scatter(
        legendgroup=name,
        showlegend=False,
        x=[values[place] for place in at],
        y=[round(float(percents[place]), 3) for place in at],
        mode="markers",
        marker={
            "color": look.colour, "symbol": look.symbol, "size": 9,
            "line": {"color": "#ffffff", "width": 1},
        },
        hoverinfo="skip",
    )  # fmt: skip
