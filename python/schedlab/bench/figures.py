"""Figures of measured runs: one benchmark at a glance, and many as ratios. As in `report.figures`,
where curves over a number of tasks are, functions take numbers and return drawings."""

import itertools
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import ArrayLike

from schedlab.report.drawing import Drawing
from schedlab.report.figures import FAINT_INK, GRID, INK, Look, label, layout, ratio_ticks
from schedlab.statistics.estimates import Ratio, Verdict
from schedlab.statistics.samples import by_key, finites
from schedlab.statistics.variance import Circle, comparison_circles

ONEWAY_HEIGHT_PX, ONEWAY_BOTTOM_PX, LINE_PX = 380, 52, 16
CIRCLE_POINTS = 121
# Of the width of a one-way figure.
CIRCLES_SHARE = 0.34
# In places of the axis: samples stand one apart.
BOX_HALF_WIDTH, JITTER_HALF_WIDTH = 0.3, 0.17
# Of a name below a sample, where there is room for no more.
NAME_CHARACTERS, NAME_LINES = 13, 3

ROW_PX = 30
FOREST_TOP_PX, FOREST_BOTTOM_PX = 12, 52

# A filled marker is a claim; its form tells which, also in grey.
_VERDICT_MARKS = {
    Verdict.FASTER: ("triangle-left", "#0072B2"),
    Verdict.SLOWER: ("triangle-right", "#D55E00"),
    Verdict.SAME: ("diamond", "#4a505a"),
    Verdict.INCONCLUSIVE: ("circle-open", "#4a505a"),
}


@dataclass(frozen=True, slots=True)
class ForestRow:
    """A ratio in a forest plot: `name` is what is compared in `group`, a benchmark or machine;
    `text` stands at the right. A row without interval is drawn as a mark alone.
    """

    group: str
    name: str
    ratio: Ratio
    verdict: Verdict
    text: str


def oneway_figure(
    samples: Mapping[str, ArrayLike], looks: Mapping[str, Look], y_title: str
) -> Drawing:
    """All runs of each sample, a box with its quartiles and median, and comparison circles.

    Samples are finite values in one unit, in the order in which the runs were made, and stand so
    from left to right, so that a drift is seen. Two circles that do not meet, or meet at an outer
    angle below 90°, are means that differ by Tukey and Kramer's test; see `comparison_circles`.
    `looks` are those of the whole report, `y_title` has the unit.
    """
    checked = finites(samples)
    circles = comparison_circles(checked)
    figure = Drawing(layout("", y_title, 16))
    for place, (name, sample) in enumerate(checked.items()):
        _draw_box(figure, place, name, sample)
        _draw_runs(figure, place, name, sample, looks[name])
    for name, circle in circles.items():
        _draw_circle(figure, name, circle, looks[name])
    names = {}
    for name, sample in checked.items():
        lines = textwrap.wrap(name, NAME_CHARACTERS)[:NAME_LINES] or [""]
        names[name] = "<br>".join([*map(label, lines), f"n = {sample.size}"])
    nr_lines = max(text.count("<br>") for text in names.values())
    bottom_px = ONEWAY_BOTTOM_PX + LINE_PX * (nr_lines - 1)
    figure.update_layout(height=ONEWAY_HEIGHT_PX, hovermode="closest", margin={"b": bottom_px})
    figure.update_yaxes(range=_y_range(checked, circles))
    figure.update_xaxes(
        range=[-0.6, len(checked) - 0.4],
        domain=[0, 1 - CIRCLES_SHARE] if circles else [0, 1],
        tickvals=list(range(len(checked))), ticktext=list(names.values()),
        tickangle=0, showgrid=False,
    )  # fmt: skip
    if circles:
        widest = 1.05 * max(circle.radius for circle in circles.values())
        figure.update_layout(
            xaxis2={
                # One unit of both axes has one length, or circles would not be circles.
                "scaleanchor": "y", "scaleratio": 1, "constrain": "domain",
                "constraintoward": "center",
                "anchor": "y", "domain": [1 - CIRCLES_SHARE + 0.02, 1],
                "range": [-widest, widest], "showgrid": False, "zeroline": False,
                "tickvals": [0], "ticktext": ["all pairs,<br>Tukey-Kramer"],
                "tickfont": {"size": 12, "color": FAINT_INK}, "ticks": "",
                "ticklabelstandoff": 4, "showline": True, "linecolor": "#b7bec8",
            }
        )  # fmt: skip
    return figure


def forest_figure(rows: Sequence[ForestRow], baseline: str) -> Drawing:
    """Ratios with their intervals one below the other, on a log axis where half and double balance.

    A filled mark is a claim and points to its side; an open one says that no difference was shown.
    There is at least one row, those of a group are together; `baseline` names the line at 1.
    """
    figure = Drawing(layout(f"time relative to {baseline} (×)", None, 16))
    # Rows stand one apart, and groups two thirds of a row more.
    steps = (1.0 if a.group == b.group else 1.66 for a, b in itertools.pairwise(rows))
    places = list(itertools.accumulate(steps, initial=0.0))
    ratios = [row.ratio for row in rows]
    bounds = [b for of in ratios for b in (of.low, of.ratio, of.high) if b is not None]
    low, high = min([*bounds, 0.97]), max([*bounds, 1.03])
    pad = (high / low) ** 0.06
    low, high = low / pad, high * pad
    figure.add_vline(x=1, line={"color": INK, "width": 1.5}, layer="below")
    placed = by_key((row.verdict, (row, place)) for row, place in zip(rows, places, strict=True))
    for verdict, mark in _VERDICT_MARKS.items():
        if verdict in placed:
            _draw_rows(figure, placed[verdict], *mark)
    _name_rows(figure, rows, places)
    lowest = places[-1] + 0.8
    texts = max(len(row.text) for row in rows)
    figure.update_layout(
        height=FOREST_TOP_PX + FOREST_BOTTOM_PX + round(ROW_PX * (lowest + 0.8)),
        margin={"t": FOREST_TOP_PX, "b": FOREST_BOTTOM_PX, "l": 12, "r": 24 + round(7.2 * texts)},
    )
    ticks = ratio_ticks(low, high)
    figure.update_xaxes(
        type="log", range=[np.log10(low), np.log10(high)], showgrid=True, gridcolor=GRID,
        tickvals=ticks, ticktext=[f"{tick:g}×" for tick in ticks],
    )  # fmt: skip
    figure.update_yaxes(range=[lowest, -0.8], showgrid=False, automargin=True)
    return figure


def _draw_box(figure: Drawing, place: int, name: str, sample: np.ndarray) -> None:
    lower, median, upper = (float(q) for q in np.quantile(sample, [0.25, 0.5, 0.75]))
    left, right = place - BOX_HALF_WIDTH, place + BOX_HALF_WIDTH
    figure.add_shape(
        type="rect", x0=left, x1=right, y0=lower, y1=upper, layer="below",
        line={"color": "#9aa2ae", "width": 1.2}, fillcolor="rgba(102,112,128,0.08)",
    )  # fmt: skip
    figure.add_scatter(
        name=f"median of {escape(name)}", x=[left, right], y=[median, median],
        mode="lines", line={"color": INK, "width": 2},
        hovertemplate="median %{y:.4g}<extra>" + escape(name) + "</extra>",
    )  # fmt: skip


def _draw_runs(figure: Drawing, place: int, name: str, sample: np.ndarray, look: Look) -> None:
    spread = np.linspace(-JITTER_HALF_WIDTH, JITTER_HALF_WIDTH, sample.size)
    figure.add_scatter(
        name=escape(name),
        x=place + (spread if sample.size > 1 else np.zeros(1)),
        y=sample,
        mode="markers",
        marker={
            "color": look.colour, "symbol": look.symbol, "opacity": 0.8,
            "size": 10 if "triangle" in look.symbol else 8,
            "line": {"color": "#ffffff", "width": 0.8},
        },
        customdata=list(range(1, sample.size + 1)),
        hovertemplate="run %{customdata}: %{y:.4g}<extra>" + escape(name) + "</extra>",
    )  # fmt: skip


def _draw_circle(figure: Drawing, name: str, circle: Circle, look: Look) -> None:
    angles = np.linspace(0, 2 * np.pi, CIRCLE_POINTS)
    text = f"mean {circle.centre:.4g}<extra>{escape(name)}</extra>"
    on_axis = {"xaxis": "x2", "hovertemplate": text}
    figure.add_scatter(
        name=f"circle of {escape(name)}", mode="lines",
        x=circle.radius * np.cos(angles), y=circle.centre + circle.radius * np.sin(angles),
        line={"color": look.colour, "width": 2, "dash": look.dash}, **on_axis,
    )  # fmt: skip
    figure.add_scatter(
        name=f"centre of {escape(name)}", mode="markers", x=[0], y=[circle.centre],
        marker={"color": look.colour, "symbol": look.symbol, "size": 7}, **on_axis,
    )  # fmt: skip


def _y_range(samples: Mapping[str, np.ndarray], circles: Mapping[str, Circle]) -> list[float]:
    """Room for every run and every circle; not from zero, for it is differences that are asked."""
    ends = [float(end) for sample in samples.values() for end in (np.min(sample), np.max(sample))]
    ends += [c.centre + side * c.radius for c in circles.values() for side in (-1, 1)]
    low, high = min(ends), max(ends)
    pad = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return [low - pad, high + pad]


def _draw_rows(
    figure: Drawing, chosen: Sequence[tuple[ForestRow, float]], symbol: str, colour: str
) -> None:
    rows = [row for row, _ in chosen]
    ratios = [row.ratio for row in rows]
    line = {"color": colour, "width": 2}
    figure.add_scatter(
        name=rows[0].verdict.value,
        x=[of.ratio for of in ratios],
        y=[place for _, place in chosen],
        mode="markers",
        marker={"symbol": symbol, "color": colour, "size": 12, "line": line},
        error_x={
            "type": "data", "symmetric": False, "color": colour, "thickness": 2, "width": 4,
            "array": [None if of.high is None else of.high - of.ratio for of in ratios],
            "arrayminus": [None if of.low is None else of.ratio - of.low for of in ratios],
        },
        customdata=[[escape(f"{row.group} {row.name}".strip()), escape(row.text)] for row in rows],
        hovertemplate="%{customdata[0]}: %{x:.4g}× (%{customdata[1]})<extra></extra>",
    )  # fmt: skip


def _name_rows(figure: Drawing, rows: Sequence[ForestRow], places: Sequence[float]) -> None:
    several = len({row.name for row in rows}) > 1
    names = []
    for before, row in zip([None, *rows], rows, strict=False):
        is_first = before is None or row.group != before.group
        parts = [f"<b>{label(row.group)}</b>"] * is_first + [label(row.name)] * several
        names.append("".join(f"{part}  " for part in parts))
    figure.update_yaxes(tickvals=list(places), ticktext=names)
    for row, place in zip(rows, places, strict=True):
        figure.add_annotation(
            text=escape(row.text), x=1, xref="paper", xanchor="left", xshift=10, y=place,
            yanchor="middle", showarrow=False, align="left", font={"size": 12, "color": INK},
        )  # fmt: skip
