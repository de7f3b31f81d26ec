"""Figures of estimates, delays and shares, one panel a machine: numbers in, a drawing out.

A policy keeps its colour, dash and marker in every figure of a report, and is named at the end of
its own line, or in a legend where lines end at one height, so that figures can be read in grey.
They have a height and no width. Series are points by policy, in order of x, which is a number, or a
word for a scale of categories. `looks` are those of `looks_of` for the whole report. Titles say the
unit. `y_max` is the highest value of the panels that share an axis, in the unit of the points.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np

from schedlab.report.drawing import Drawing
from schedlab.report.forms import tick_text

FONT_FAMILY = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
INK = "#2b2f36"
FAINT_INK = "#667080"
GRID = "#e6e9ee"

PANEL_HEIGHT_PX = 320
LABEL_CHARACTERS_MAX = 20
# Panels share their y axis until the tallest would press the lowest into its bottom fifth.
SHARED_Y_FACTOR_MAX = 5.0
# Where a distribution bears its policy's mark, to be told apart without colour: p50, p90 and p99.
MARKED_SHARES = (0.5, 0.9, 0.99)
# Times that a narrow screen has room for below a distribution; the grid shows those between.
TICK_LABELS_MAX = 5

# Where the largest x is so many times the smallest, equal factors are equally far apart.
LOG_X_FROM = 64
X_TICKS_MAX = 8

_MARGIN = {"l": 80, "t": 12, "b": 46}
_LABEL_GAP_PX = 16
_DOTS_SPREAD = 0.6
# What is drawn later is thinner and smaller: of curves that coincide, each can still be seen.
_LINE_WIDTHS_PX = (3.2, 2.7, 2.2, 1.8, 1.5)
_MARKER_SIZES_PX = (12.5, 11, 8.5, 7, 5.5)
_RATIO_TICKS_WIDE = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1, 2, 3, 5, 10, 30, 100)
_RATIO_TICKS = (0.15, 0.2, 0.25, 0.33, 0.4, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6)

_PART_FILL = {
    "work": ("#2f5d8a", ""), "kernel": ("#9dbbd8", ""), "scheduler": ("#c8642b", "/"),
    "lock_wait": ("#f0c39b", "x"), "bus_wait": ("#b9a3cc", "."), "interrupted": ("#7fa88b", "-"),
    "idle": ("#eceff3", ""),
}  # fmt: skip
CPU_PARTS = tuple(_PART_FILL)


@dataclass(frozen=True, slots=True)
class Point:
    """An estimate at one place of an axis; low and high are None where there is no interval."""

    x: float | str
    centre: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """How one policy is drawn everywhere; `glyph` is the marker as a character, for labels."""

    colour: str
    ink: str
    dash: str
    symbol: str
    glyph: str


Series = Mapping[str, Sequence[Point]]
Looks = Mapping[str, Look]
Curve = tuple[Sequence[float], Sequence[float]]
"""Values in ns, ascending, and the share of all that is at most as large, up to 1."""

# M. Okabe and K. Ito, "Color universal design", 2008, without yellow, which white paper swallows.
# `ink` is the same hue, darkened until text in it has a contrast of 4.5 to 1 on white.
_LOOKS = (
    Look("#0072B2", "#0069a4", "solid", "circle", "●"),
    Look("#D55E00", "#b04e00", "6px,3px", "square", "■"),
    Look("#009E73", "#007a59", "2px,2px", "triangle-up", "▲"),
    Look("#CC79A7", "#a34c7d", "8px,3px,2px,3px", "diamond", "◆"),
    Look("#E69F00", "#8a5f00", "12px,3px", "triangle-down", "▼"),
    Look("#56B4E9", "#1b75a8", "4px,2px,1px,2px,1px,2px", "cross", "✚"),
    Look("#000000", "#000000", "3px,5px", "star", "★"),
)


def looks_of(names: Sequence[str]) -> dict[str, Look]:
    """A look for each name, in order; beyond seven names colours come again with other dashes."""
    looks = {}
    for index, name in enumerate(names):
        turn, place = divmod(index, len(_LOOKS))
        drawn, dashed = _LOOKS[place], _LOOKS[(place + 3 * turn) % len(_LOOKS)]
        looks[name] = Look(drawn.colour, drawn.ink, dashed.dash, dashed.symbol, dashed.glyph)
    return looks


def shared_y_max(highest: Sequence[float]) -> float | None:
    """One top for the y axes of panels whose highest values are given, so that they are compared at
    a glance; None, each its own, where one scale would flatten one of them."""
    if not highest or max(highest) > SHARED_Y_FACTOR_MAX * min(highest):
        return None
    return max(highest)


def curve_figure(
    series: Series,
    looks: Looks,
    x_title: str,
    y_title: str,
    y_max: float | None = None,
    top_min: float = 0.0,
) -> Drawing:
    """A curve a policy with its interval as a band, on axes that start at zero; that of y reaches
    to `top_min` at least."""
    top = 1.06 * max(y_max or max(bounds_of(series)), top_min)
    figure = _lines(series, looks, x_title, y_title)
    _label_ends(figure, series, looks, lambda y: y / top)
    return figure.update_yaxes(range=[0, top])


def dot_figure(
    points: Mapping[str, Point], looks: Looks, y_title: str, y_max: float | None = None
) -> Drawing:
    """One dot a policy with its interval as a whisker, where nothing was varied.

    The x of a point is not looked at: each policy has its own place.
    """
    series = {name: [replace(point, x=name)] for name, point in points.items()}
    figure = _lines(series, looks, "", y_title)
    figure.update_layout(margin={"r": 16})
    for trace in figure.data:
        trace["marker"]["size"] = 12
    figure.update_xaxes(tickvals=list(map(escape, points)), ticktext=list(map(label, points)))
    return figure.update_yaxes(range=[0, 1.06 * (y_max or max(bounds_of(series)))])


def ratio_figure(
    series: Series, looks: Looks, x_title: str, baseline: str, limits: tuple[float, float]
) -> Drawing:
    """Each policy's time over that of `baseline`, on a log axis where half and double balance.

    Series are ratios without `baseline` itself, which is the line at 1 and has a look. `limits` are
    the lowest and highest ratio of the panels that share the axis; 1 is always shown.
    """
    low, high = min(limits[0], 0.97), max(limits[1], 1.03)
    pad = (high / low) ** 0.06
    low, high = low / pad, high * pad
    figure = _lines(series, looks, x_title, f"time relative to {escape(baseline)} (×)")
    figure.add_hline(y=1, line={"color": looks[baseline].colour, "width": 2}, layer="below")
    named = {baseline: [Point("", 1.0)], **series}
    figure.update_layout(margin={"r": label_margin(named)})
    _scale_y_log(figure, named, looks, (low, high), {r: f"{r:g}×" for r in ratio_ticks(low, high)})
    return figure


def delay_figure(series: Series, looks: Looks, x_title: str, y_title: str) -> Drawing:
    """Delays in nanoseconds, on a log axis; a zero is drawn at 1 ns.

    `y_title` says what is delayed; the units stand at the ticks.
    """
    drawn = {name: [_at_least_1_ns(p) for p in points] for name, points in series.items()}
    low, high = min(bounds_of(drawn)) / 1.5, max(bounds_of(drawn)) * 1.5
    figure = _lines(drawn, looks, x_title, y_title)
    ticks = {tick: tick_text(tick) for tick in decade_ticks(low, high)}
    _scale_y_log(figure, drawn, looks, (low, high), ticks)
    return figure


def ecdf_figure(curves: Mapping[str, Curve], looks: Looks, x_title: str, y_title: str) -> Drawing:
    """A distribution function a policy, on a log axis of time; a delay of 0 is drawn at 1 ns.

    `x_title` says what is delayed, without a unit, which stands at the ticks; `y_title` of what
    there is a share.
    """
    figure = _with_legend(x_title, f"{y_title} (%)")
    drawn = {
        name: (np.maximum(values, 1.0), 100 * np.asarray(shares))
        for name, (values, shares) in curves.items()
    }
    low = min(values[0] for values, _ in drawn.values()) / 1.2
    high = max(values[-1] for values, _ in drawn.values()) * 1.2
    for name, (values, percents) in drawn.items():
        # From the first value up, and on to the right end, where all of a policy's delays lie.
        xs, look = np.concatenate([values[:1], values, [high]]), looks[name]
        figure.add_scatter(
            name=f"{look.glyph} {label(name)}", legendgroup=name, mode="lines",
            x=xs, y=np.round(np.concatenate([[0.0], percents, percents[-1:]]), 3),
            line={"color": look.colour, "width": 2.2, "dash": look.dash, "shape": "hv"},
            customdata=[tick_text(x) for x in xs],
            hovertemplate="%{y:.1f} % within %{customdata}<extra>" + escape(name) + "</extra>",
        )  # fmt: skip
    for name, (values, percents) in drawn.items():
        # Where the curve first reaches a marked share.
        at = np.searchsorted(percents, 100 * np.array(MARKED_SHARES) - 1e-9)
        figure.add_scatter(
            legendgroup=name, showlegend=False, hoverinfo="skip", mode="markers",
            x=values[at], y=np.round(percents[at], 3), marker=marker(looks[name], 9),
        )  # fmt: skip
    ticks = decade_ticks(low, high)
    step = math.ceil(len(ticks) / TICK_LABELS_MAX)
    texts = ["" if at % step else tick_text(tick) for at, tick in enumerate(ticks)]
    limits = [np.log10(low), np.log10(high)]
    figure.update_xaxes(type="log", range=limits, tickvals=ticks, ticktext=texts, tickangle=0)
    return figure.update_yaxes(range=[0, 102], tickvals=[0, 25, 50, 75, 90, 100])


def step_figure(
    curves: Mapping[str, Sequence[tuple[float, float | None]]],
    looks: Looks,
    x_title: str,
    y_title: str,
    x_max: float,
) -> Drawing:
    """A number of each policy over time, which keeps its value up to the next point, and from the
    last one on to its policy's end; None is a gap. Points are x and value, in order of x."""
    figure = _with_legend(x_title, y_title)
    for place, (name, points) in enumerate(curves.items()):
        look = looks[name]
        width = _LINE_WIDTHS_PX[min(place, len(_LINE_WIDTHS_PX) - 1)]
        figure.add_scatter(
            name=f"{look.glyph} {label(name)}", mode="lines",
            x=[x for x, _ in points], y=[y for _, y in points],
            line={"color": look.colour, "width": width, "dash": look.dash, "shape": "hv"},
            hovertemplate="%{y:,} from %{x:.6~g}<extra>" + escape(name) + "</extra>",
        )  # fmt: skip
    figure.update_xaxes(range=[0, x_max])
    return figure.update_yaxes(exponentformat="SI", separatethousands=True, nticks=6)


def grouped_figure(
    series: Series, looks: Looks, x_title: str, y_title: str, about_zero: bool = False
) -> Drawing:
    """A dot a policy side by side at every place of the x axis, intervals as whiskers.

    x of a point is the word that names the place; a policy may lack some, and no line joins them.
    With `about_zero`, values are held against a dashed line at zero; else the y axis begins there.
    """
    places = list(dict.fromkeys(point.x for points in series.values() for point in points))
    figure = _with_legend(x_title, y_title)
    if about_zero:
        dashed = {"color": FAINT_INK, "width": 1.4, "dash": "4px,3px"}
        figure.add_hline(y=0, line=dashed, layer="below")
    for index, (name, points) in enumerate(series.items()):
        offset = (index - (len(series) - 1) / 2) * _DOTS_SPREAD / len(series)
        figure.add_scatter(
            name=label(name), mode="markers",
            x=[places.index(point.x) + offset for point in points],
            y=[point.centre for point in points],
            marker={"color": looks[name].colour, "symbol": looks[name].symbol, "size": 10},
            error_y=whiskers(points, looks[name]),
            customdata=[escape(point.x) for point in points],
            hovertemplate="%{customdata}: %{y:.3f}<extra>" + escape(name) + "</extra>",
        )  # fmt: skip
    figure.update_xaxes(
        range=[-0.5, len(places) - 0.5], showgrid=False,
        tickvals=list(range(len(places))), ticktext=[label(place) for place in places],
    )  # fmt: skip
    return figure if about_zero else figure.update_yaxes(rangemode="tozero")


def parts_of(splits: Iterable[Mapping]) -> list[str]:
    """Those of `CPU_PARTS` that one of these tells, in their order."""
    told = set().union(*splits)
    return [part for part in CPU_PARTS if part in told]


def cpu_split_figure(shares: Mapping[str, Mapping[str, float]]) -> Drawing:
    """Where the CPUs' time went: one bar a policy, its parts adding up to 100 %.

    `shares` are fractions of elapsed time x CPUs, in [0, 1], by policy and part of `CPU_PARTS`;
    a part that none has is left out.
    """
    names = list(shares)
    style = layout("share of CPU time (%)", None, 16)
    style |= {
        "barmode": "stack", "bargap": 0.34, "showlegend": True, "legend": legend_above(),
        "height": 112 + 40 * len(names), "margin": {**style["margin"], "t": 34, "l": 12},
    }  # fmt: skip
    figure = Drawing(style)
    for part in parts_of(shares.values()):
        colour, pattern = _PART_FILL[part]
        values = [100 * shares[name].get(part, 0) for name in names]
        figure.add_bar(
            name=part.replace("_", " "), orientation="h", y=list(range(len(names))), x=values,
            customdata=[escape(name) for name in names],
            text=[f"{value:.0f} %" if value >= 9 else "" for value in values],
            textposition="inside", insidetextanchor="middle", textangle=0,
            textfont={"size": 12, "color": "#ffffff" if part in ("work", "scheduler") else INK},
            marker={
                "color": colour,
                "line": {"color": "#ffffff", "width": 1},
                "pattern": {
                    "shape": pattern, "size": 6, "solidity": 0.15,
                    "bgcolor": colour, "fgcolor": "#ffffff", "fgopacity": 0.45,
                },
            },
            hovertemplate="%{customdata}: %{x:.2f} % " + part.replace("_", " ") + "<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(range=[0, 100], showline=False)
    figure.update_yaxes(
        range=[len(names) - 0.5, -0.5], showgrid=False, automargin=True,
        tickvals=list(range(len(names))), ticktext=[label(name) + "  " for name in names],
    )  # fmt: skip
    return figure


def bounds_of(series: Series) -> list[float]:
    """Every value and bound drawn, in the unit of the points."""
    points = [point for points in series.values() for point in points]
    bounds = [bound for point in points for bound in (point.low, point.centre, point.high)]
    return [bound for bound in bounds if bound is not None]


def ratio_ticks(low: float, high: float) -> list[float]:
    """Round ratios to label between two positive ones, the finest scale that stays readable."""
    if high / low > 10:
        candidates: Sequence[float] = _RATIO_TICKS_WIDE
    elif high / low > 1.6:
        candidates = _RATIO_TICKS
    else:
        step = next(s for s in (0.01, 0.02, 0.05, 0.1) if (high - low) / s <= 8)
        candidates = [round(n * step, 2) for n in range(1, int(high / step) + 1)]
    return [tick for tick in candidates if low <= tick <= high]


def decade_ticks(low: float, high: float, crowded_from: float = 200.0) -> list[float]:
    """Powers of ten between two positive numbers, and 2 and 5 between them where there is room:
    not where `high` is so many times `low`."""
    steps = (1,) if high / low > crowded_from else (1, 2, 5)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    values = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    return [value for value in values if low <= value <= high]


def legend_above() -> dict:
    """A legend in a line above the plot, where no line has an end that could be labelled."""
    return {
        "orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom",
        "traceorder": "normal", "font": {"size": 12},
    }  # fmt: skip


def _with_legend(x_title: str, y_title: str) -> Drawing:
    style = layout(x_title, y_title, 24)
    style |= {"showlegend": True, "legend": legend_above(), "hovermode": "closest"}
    return Drawing(style | {"margin": {**style["margin"], "t": 34}})


def marker(look: Look, size: float) -> dict:
    """A policy's mark, with an edge of white where marks coincide; `size` is in pixels."""
    line = {"color": "#ffffff", "width": 1}
    return {"color": look.colour, "symbol": look.symbol, "size": size, "line": line}


def _lines(series: Series, looks: Looks, x_title: str, y_title: str) -> Drawing:
    """Bands first, so that no band lies over a line; words on x get whiskers instead of bands."""
    figure = Drawing(layout(x_title, y_title, label_margin(series)))
    xs = [point.x for points in series.values() for point in points]
    categories = any(isinstance(x, str) for x in xs)
    low, high = (0, 0) if categories else (min(xs), max(xs))
    if categories:
        figure.update_xaxes(type="category", showgrid=False)
    elif 0 < low <= high / LOG_X_FROM:
        ends, pad = np.log10([low, high]), 0.02 * np.log10(high / low)
        ticks = sorted(set(xs))
        ticks = ticks[:: -(-len(ticks) // X_TICKS_MAX)]
        figure.update_xaxes(type="log", range=[ends[0] - pad, ends[1] + pad], showgrid=False,
                            tickvals=ticks, ticktext=[f"{tick:,g}" for tick in ticks])  # fmt: skip
    else:
        start = 0.0 if 0 <= low <= high / 4 else low - 0.04 * (high - low)
        figure.update_xaxes(range=[start, high + 0.03 * (high - start)], showgrid=False)
    for name, points in series.items() if not categories else ():
        _draw_band(figure, points, looks[name])
    for name, points in series.items():
        look = looks[name]
        # By the place in the report, so that a policy keeps it in every figure.
        depth = min(list(looks).index(name), len(_LINE_WIDTHS_PX) - 1)
        figure.add_scatter(
            name=escape(name),
            x=[escape(p.x) if isinstance(p.x, str) else p.x for p in points],
            y=[point.centre for point in points],
            mode="lines+markers",
            line={"color": look.colour, "width": _LINE_WIDTHS_PX[depth], "dash": look.dash},
            marker=marker(look, _MARKER_SIZES_PX[depth] + 2 * ("triangle" in look.symbol)),
            error_y=whiskers(points, look) if categories else None,
            customdata=["" if p.low is None else f"[{p.low:.4g}, {p.high:.4g}]" for p in points],
            hovertemplate="%{y:.4g} %{customdata}<extra>" + escape(name) + "</extra>",
        )  # fmt: skip
    return figure


def _draw_band(figure: Drawing, points: Sequence[Point], look: Look) -> None:
    known = [point for point in points if point.low is not None]
    if len(known) > 1:
        figure.add_scatter(
            x=[point.x for point in (*known, *reversed(known))],
            y=[*(point.high for point in known), *(point.low for point in reversed(known))],
            mode="none", fill="toself", hoverinfo="skip",
            fillcolor="rgba({},{},{},0.18)".format(*rgb_of(look.colour)),
        )  # fmt: skip


def rgb_of(colour: str) -> tuple[int, ...]:
    """Red, green and blue, 0 to 255, of a colour written #rrggbb."""
    return tuple(bytes.fromhex(colour.removeprefix("#")))


def whiskers(points: Sequence[Point], look: Look) -> dict:
    """Intervals as Plotly's error bars, none where a point has no interval."""
    up = [0.0 if point.high is None else point.high - point.centre for point in points]
    down = [0.0 if point.low is None else point.centre - point.low for point in points]
    return {
        "type": "data", "symmetric": False, "array": up, "arrayminus": down,
        "color": look.colour, "thickness": 1.2, "width": 4,
    }  # fmt: skip


def _label_ends(
    figure: Drawing, series: Series, looks: Looks, height_of: Callable[[float], float]
) -> None:
    """Name each line at its right end; names that would overlap are moved apart, order kept."""
    ends = sorted((float(height_of(points[-1].centre)), name) for name, points in series.items())
    plot_px = PANEL_HEIGHT_PX - _MARGIN["t"] - _MARGIN["b"]
    places = spread([end for end, _ in ends], _LABEL_GAP_PX / plot_px)
    for place, (_, name) in zip(places, ends, strict=True):
        figure.add_annotation(
            text=f"{looks[name].glyph} {label(name)}",
            xref="paper", x=1, xshift=8, xanchor="left",
            yref="paper", y=place, yanchor="middle",
            showarrow=False, align="left",
            font={"size": 13, "color": looks[name].ink},
        )  # fmt: skip


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Ascending places in [0, 1], moved as little as it takes to be `gap` apart and stay inside;
    evenly spread over the whole where there is no room for all."""
    if not places:
        return []
    if len(places) > 1 and gap * (len(places) - 1) >= 1:
        return [float(place) for place in np.linspace(0, 1, len(places))]
    # Loading it takes longer than drawing a figure.
    from scipy.optimize import isotonic_regression

    ranks = gap * np.arange(len(places))
    # Neighbours that are too near share one shift.
    shifts = isotonic_regression(np.asarray(places, dtype=np.float64) - ranks).x
    return [float(place) for place in np.clip(shifts, 0, 1 - ranks[-1]) + ranks]


def layout(x_title: str, y_title: str | None, right_px: int) -> dict:
    """What all figures share: fonts, inks, grid and margins; titles with unit, margin in pixels."""
    axis = {
        "gridcolor": GRID, "zeroline": False, "linecolor": "#b7bec8", "ticks": "",
        "tickfont": {"size": 12, "color": FAINT_INK}, "ticklabelstandoff": 4,
    }  # fmt: skip
    title_font = {"size": 13, "color": FAINT_INK}
    return {
        "template": None, "height": PANEL_HEIGHT_PX, "margin": {**_MARGIN, "r": right_px},
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT_FAMILY, "size": 13, "color": INK},
        "showlegend": False, "dragmode": False,
        "hovermode": "x unified" if y_title is not None else "closest",
        "hoverlabel": {"bgcolor": "#ffffff", "bordercolor": GRID, "font": {"size": 12}},
        "xaxis": {
            **axis, "title": {"text": escape(x_title), "font": title_font, "standoff": 6},
            "showline": True,
        },
        "yaxis": {**axis, "title": {"text": y_title, "font": title_font, "standoff": 10}},
    }  # fmt: skip


def _scale_y_log(
    figure: Drawing,
    series: Series,
    looks: Looks,
    limits: tuple[float, float],
    ticks: Mapping[float, str],
) -> None:
    """A logarithmic y axis between these limits, and the names at the ends of the lines."""
    low, high = np.log10(limits)
    _label_ends(figure, series, looks, lambda y: (np.log10(y) - low) / (high - low))
    texts = list(ticks.values())
    figure.update_yaxes(type="log", range=[low, high], tickvals=list(ticks), ticktext=texts)


def label(name: str) -> str:
    """A name as text that is never markup, cut to `LABEL_CHARACTERS_MAX`."""
    is_short = len(name) <= LABEL_CHARACTERS_MAX
    return escape(name if is_short else name[: LABEL_CHARACTERS_MAX - 1] + "…")


def label_margin(names: Iterable[str]) -> int:
    """The pixels to the right of a plot that its labels take."""
    longest = max((min(len(name), LABEL_CHARACTERS_MAX) for name in names), default=0)
    return 36 + round(7.6 * longest)


def _at_least_1_ns(point: Point) -> Point:
    bounds = (point.centre, point.low, point.high)
    return Point(point.x, *(None if bound is None else max(bound, 1.0) for bound in bounds))
